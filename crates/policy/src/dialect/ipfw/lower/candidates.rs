//! Which rules of a long list a packet can match at all, as a policy that a compiler takes.
//!
//! In: a rule set. Out: a [`Policy`] with a rule for each rule of the set that can do something: it
//! holds wherever the rule of the original might match, look for a state, draw a random number or
//! drop a packet that is cut short. It decides nothing: the evaluator walks the rules that it
//! names, and leaves out the others. A rule of the policy ends the walk only where that of the
//! original surely would; behind it every rule is asked again. So whatever can't be told from
//! the headers of one packet costs time here, and is never wrong.

use super::action::position;
use super::formula::{Formula, and, constant, or};
use super::frames::Layer;
use super::literal::{Asked, Scope};
use super::reach::Reach;
use super::states::look_of;
use super::tags::Tags;
use super::{asks_for_the_pass, reach};
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{Action, Address, Instruction, InterfaceName, Pattern, Rule};
use crate::eval::candidates::{self, Candidate};
use crate::eval::ipfw::Pass;
use crate::model::{Family, Hook, Policy};

/// What a rule's patterns ask of a packet's headers.
struct Asks {
    /// Holds wherever the patterns might.
    formula: Formula,
    /// Holds only there.
    exact: bool,
}

/// The candidates of a rule set; `None` where calls go back, so that positions say nothing.
#[must_use]
pub fn candidates(set: &Ruleset) -> Option<Policy> {
    let enabled = || set.rules.iter().filter(|one| set.is_enabled(one.rule.set));
    if enabled().any(|one| matches!(one.rule.action, Action::Call(_))) {
        return None;
    }
    let tags = Tags::default();
    let (looks, passed_over) = (looks(set), passed_over(set));
    let one_pass = !set.rules.iter().any(|one| asks_for_the_pass(&one.rule));
    let mut policy = candidates::policy(set.rule_count());
    for family in [Family::V4, Family::V6] {
        let passes: &[(Pass, &[Hook])] = match one_pass {
            true => &[(Pass::In, &[Hook::Prerouting, Hook::Forward])],
            false => &[
                (Pass::In, &[Hook::Prerouting]),
                (Pass::Out, &[Hook::Forward]),
            ],
        };
        for &(pass, hooks) in passes {
            let scope = Scope {
                set,
                tags: &tags,
                family,
                pass,
                layer: Layer::Network,
            };
            let rules = rules_of(&scope, &looks, &passed_over);
            candidates::add(&mut policy, family, hooks, rules.into_iter());
        }
    }
    Some(policy)
}

/// Places where a look for a state can find something.
fn looks(set: &Ruleset) -> Vec<bool> {
    let goes_on = |rule: &Rule| {
        let decides = matches!(
            rule.action,
            Action::Allow | Action::Deny | Action::Reject(_)
        );
        rule.state.is_some() && !decides
    };
    let spelled: Vec<usize> = (0..set.rules.len())
        .filter(|at| goes_on(&set.rules[*at].rule))
        .collect();
    match set.rules.iter().any(|one| look_of(&one.rule).is_some()) {
        true => Reach::new(set, spelled).uncalled().into_looks(),
        false => vec![false; set.rules.len()],
    }
}

/// Positions that a skip can pass over: a rule that ends the walk doesn't end it for all there.
fn passed_over(set: &Ruleset) -> Vec<bool> {
    let mut out = vec![false; set.rules.len()];
    let mut until = 0;
    for (at, one) in set.rules.iter().enumerate() {
        out[at] = at < until;
        if let Action::Skipto(argument) = one.rule.action {
            let numbers = reach::numbers(set, &one.rule, argument);
            let targets = numbers.into_iter().map(|number| position(set, number));
            until = until.max(targets.max().unwrap_or(0));
        }
    }
    out
}

fn rules_of(scope: &Scope<'_>, looks: &[bool], passed_over: &[bool]) -> Vec<Candidate> {
    let set = scope.set;
    let last = set.rules.len() - 1;
    let mut out = Vec::with_capacity(last);
    for (at, one) in set.rules[..last].iter().enumerate() {
        let rule = &one.rule;
        if !set.is_enabled(rule.set) {
            continue;
        }
        // What is done before the first pattern is done for every packet.
        let always = rule.probability.is_some() || look_of(rule).is_some() && looks[at];
        let marks = rule.log.is_some() || rule.tag.is_some();
        if matches!(rule.action, Action::CheckState(_)) && !always && !marks {
            continue;
        }
        let asks = match always {
            true => Asks {
                formula: constant(true),
                exact: false,
            },
            false => asks(scope, rule),
        };
        let ends = asks.exact && !rule.defer && !passed_over[at] && ends(rule);
        out.extend(asks.formula.into_iter().map(|tests| Candidate {
            rule: one.id,
            tests,
            ends,
        }));
    }
    out
}

/// Whether a rule whose patterns hold is the last one.
fn ends(rule: &Rule) -> bool {
    matches!(
        rule.action,
        Action::Allow | Action::Deny | Action::Reject(_)
    )
}

/// The part of a rule's patterns that the headers of a packet answer for good.
fn asks(scope: &Scope<'_>, rule: &Rule) -> Asks {
    let mut out = Asks {
        formula: constant(true),
        exact: true,
    };
    let mut open: Vec<Formula> = Vec::new();
    let mut told = true;
    for one in &rule.body {
        if may_drop(&one.pattern) {
            // What stands behind isn't reached by packets that end before it.
            out.exact = false;
            return out;
        }
        match literal(scope, rule, one) {
            Some(formula) => open.push(formula),
            None => told = false,
        }
        if one.or_next {
            continue;
        }
        let whole = or(std::mem::take(&mut open));
        match and(&out.formula, &whole).filter(|_| told) {
            Some(both) => out.formula = both,
            None => out.exact = false,
        }
        told = true;
    }
    // An alternative that is open at the end may pass over the action.
    out.exact &= rule.body.last().is_none_or(|last| !last.or_next);
    out
}

fn literal(scope: &Scope<'_>, rule: &Rule, one: &Instruction) -> Option<Formula> {
    let asked = Asked {
        pattern: &one.pattern,
        negate: one.negate,
        view: None,
        rule: rule.number,
    };
    is_of_headers(&one.pattern)
        .then(|| scope.literal(&asked).ok())
        .flatten()
}

/// Patterns that drop packets which end before what they read.
fn may_drop(pattern: &Pattern) -> bool {
    use crate::dialect::ipfw::ast::NumberField;
    matches!(
        pattern,
        Pattern::TcpOptions(_) | Pattern::Number(NumberField::TcpMss, _)
    )
}

/// Patterns on what neither rules nor the host change.
fn is_of_headers(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Src(address) | Pattern::Dst(address) => {
            !matches!(address, Address::Me | Address::Me6)
        }
        Pattern::Interface(_, name) => match name {
            // Every name but that of no interface.
            InterfaceName::Glob(pattern) => !pattern.starts_with('*'),
            InterfaceName::Name(_) | InterfaceName::Table(_) => true,
            InterfaceName::Address(_) => false,
        },
        Pattern::Comment(_)
        | Pattern::Proto(_)
        | Pattern::Ip4
        | Pattern::Ip6
        | Pattern::IpVersion(_)
        | Pattern::SrcPort(_)
        | Pattern::DstPort(_)
        | Pattern::In
        | Pattern::Established
        | Pattern::TcpFlags(_)
        | Pattern::IcmpTypes(_)
        | Pattern::Icmp6Types(_) => true,
        _ => false,
    }
}
