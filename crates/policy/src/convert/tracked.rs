//! Whether states can be left to another's connection tracking.
//!
//! In: a policy of a language that tracks connections or whose rules keep states. Out: nothing, or
//! which rules stand against it. The other's tracking lets all packets go on of a conversation
//! whose first packet passed. For iptables that is proved: every ESTABLISHED or RELATED packet must
//! pass. For rules that keep states, a rule that passes without keeping one must have answers that
//! the other list passes anyway, since they will pass now.

use super::{Language, Options, Source, prove};
use crate::compare::{Compared, Options as Exact, compare};
use crate::model::{Cond, CtState, Flow, Hook, Policy, Rule, RuleId, Table, Verdict};
use crate::syntax::Diagnostic;

/// Says what stands against it.
pub fn check(source: Source<'_>, options: &Options) -> Result<(), Vec<Diagnostic>> {
    let found = match source.language {
        Language::Iptables => established(source, options),
        Language::Ipf | Language::Ipfw => stateless_passes(source),
    };
    match found.is_empty() {
        true => Ok(()),
        false => Err(found),
    }
}

fn established(source: Source<'_>, options: &Options) -> Vec<Diagnostic> {
    let exact = Exact {
        families: options.families.clone(),
        paths: prove::paths(options),
        whole_headers: true,
        states: Some(vec![CtState::Established, CtState::Related]),
        compared: Compared {
            answers: false,
            changes: false,
            logs: false,
            memory: false,
        },
        ..Exact::default()
    };
    let found = match compare(source.policy, &Policy::default(), &exact) {
        Ok(found) => found,
        Err(error) => return vec![prove::too_large(&error)],
    };
    let differences = found.journeys.iter().flat_map(|one| &one.differences);
    let mut out: Vec<Diagnostic> = Vec::new();
    for one in differences.take(8) {
        let origin = prove::origin_of(source.policy, one.old.by);
        let span = origin.map_or_else(Default::default, |origin| {
            super::span_of(origin, &[], source.sources)
        });
        if out.iter().any(|known| known.span == span) {
            continue;
        }
        let message = "this refuses packets of established connections too, which the result's \
                       tracking would let pass";
        let told = Diagnostic::unsupported(span, message);
        out.push(told.help("accept ESTABLISHED,RELATED in front of it, in every chain"));
    }
    out
}

/// The interface of a rule that asks for nothing else.
fn only_interface(rule: &Rule) -> Option<&str> {
    match rule.tests.as_slice() {
        [one] if !one.negate => match &one.cond {
            Cond::InIface(pattern) | Cond::OutIface(pattern) => Some(&pattern.name),
            _ => None,
        },
        _ => None,
    }
}

fn stateless_passes(source: Source<'_>) -> Vec<Diagnostic> {
    let policy = source.policy;
    let keeps: Vec<RuleId> = policy.learners.iter().map(|learner| learner.rule).collect();
    let mut out: Vec<Diagnostic> = Vec::new();
    for learner in &policy.learners {
        let (_, accepts) = (learner.rule, learner.verdicts == [Verdict::Accept; 2]);
        if !accepts && let Some(origin) = prove::origin_of(policy, Some(learner.rule)) {
            let span = super::span_of(origin, &["keep state", "keep-state"], source.sources);
            let message = "states of a rule that doesn't pass have no counterpart";
            out.push(Diagnostic::unsupported(span, message).help("take `keep state` out here"));
        }
    }
    let reached = |hook| -> Vec<&Rule> {
        let roots = policy.roots.iter();
        let roots = roots.filter(|root| root.hook == hook && root.table == Table::Filter);
        roots
            .flat_map(|root| all_rules(policy, root.chain))
            .collect()
    };
    let (input, output) = (reached(Hook::Prerouting), reached(Hook::Output));
    for (own, others) in [(&input, &output), (&output, &input)] {
        let refuses = others.iter().any(|rule| !accepts(rule) && decides(rule));
        if !refuses {
            continue;
        }
        for rule in own
            .iter()
            .filter(|rule| accepts(rule) && !keeps.contains(&rule.id))
        {
            let there = only_interface(rule);
            let answered = others.iter().any(|other| {
                accepts(other)
                    && (other.tests.is_empty() || only_interface(other) == there && there.is_some())
            });
            if answered || rule.index == Rule::HIDDEN {
                continue;
            }
            let span = super::span_of(rule.origin, &[], source.sources);
            if out.iter().all(|known| known.span != span) {
                let message = "this passes without keeping a state: the answers, which other rules \
                               judge here, would pass in the result";
                let told = Diagnostic::unsupported(span, message);
                out.push(told.help("give it `keep state` too, or convert without states"));
            }
        }
    }
    out
}

fn accepts(rule: &Rule) -> bool {
    matches!(
        rule.flow,
        Flow::Verdict(Verdict::Accept)
            | Flow::Propose(Verdict::Accept)
            | Flow::Head {
                verdict: Verdict::Accept,
                ..
            }
    )
}

fn decides(rule: &Rule) -> bool {
    matches!(
        rule.flow,
        Flow::Verdict(_) | Flow::Propose(_) | Flow::Head { .. }
    ) && rule.index != Rule::HIDDEN
}

/// The rules that a chain leads to.
fn all_rules(policy: &Policy, root: crate::model::ChainId) -> Vec<&Rule> {
    let (mut todo, mut seen, mut out) = (vec![root], Vec::new(), Vec::new());
    while let Some(id) = todo.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        for rule in &policy.chain(id).rules {
            out.push(rule);
            if let Flow::Jump(next) | Flow::Goto(next) | Flow::Head { group: next, .. } = rule.flow
            {
                todo.push(next);
            }
        }
    }
    out
}
