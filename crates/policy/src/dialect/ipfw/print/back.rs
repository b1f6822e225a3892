//! Which way of printing a rule's body reads back to the same rule.
//!
//! In: a [`Rule`], and what prints its body. Out: the first [`Plan`] whose text means the rule. The
//! original moves options that name a protocol or an address into `from ... to ...`; what it then
//! prints is sometimes another rule, or none: `tcp from 1.2.3.4 to any not ip6` would become `not
//! ip6 from 1.2.3.4 ...`, where addresses are IPv6. Most rules are seen to be safe without a try.

use super::super::ast::{
    Action, Address, Argument, Instruction, InterfaceName, Pattern, Rule, StateKind,
};
use super::super::fault::Notes;
use super::super::parse::{self, NoNames, Reader};
use super::super::words::split_line;
use super::rule::{Class, class};
use crate::model::SourceId;
use crate::syntax::Span;

/// What moves to `PROTOCOL from SOURCE to DESTINATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// All that can, a family before other protocols: the original's form.
    Canonical,
    /// All that can, the protocol that was written first.
    FirstProtocol,
    /// Addresses and ports.
    Addresses,
    /// Nothing: `ip from any to any`, and options in their order.
    Nothing,
}

/// The first plan whose text is read as this rule. `print` gives the text behind the action.
pub fn plan(rule: &Rule, print: impl Fn(Plan) -> String) -> Plan {
    if matches!(rule.action, Action::CheckState(_)) || is_plain(rule) {
        return Plan::Canonical;
    }
    let plans = [Plan::Canonical, Plan::FirstProtocol, Plan::Addresses];
    let reads_back = |plan: &Plan| reads_as(&print(*plan), rule);
    plans.into_iter().find(reads_back).unwrap_or(Plan::Nothing)
}

/// Whether the patterns stand in the order of the text already, each in a place of its own, and
/// addresses in one that reads their family.
fn is_plain(rule: &Rule) -> bool {
    if rule.just_options {
        return true;
    }
    let mut last = None;
    let mut six = false;
    rule.body.iter().all(|one| {
        let class = class(&one.pattern);
        let place = match class {
            Class::Proto => 0,
            Class::Src => 1,
            Class::SrcPort => 2,
            Class::Dst => 3,
            Class::DstPort => 4,
            Class::Other => 5,
        };
        let follows = last.is_none_or(|before| before < place) || class == Class::Other;
        last = Some(place);
        six |= matches!(one.pattern, Pattern::Ip6 | Pattern::Proto(41));
        let is_read = match &one.pattern {
            Pattern::Src(address) | Pattern::Dst(address) => {
                !six || matches!(
                    address,
                    Address::V6(_) | Address::Me6 | Address::Table { .. }
                )
            }
            _ => true,
        };
        follows && is_read && !one.or_next
    })
}

fn reads_as(text: &str, rule: &Rule) -> bool {
    let source = SourceId(0);
    let line = format!("count{text}");
    let words = split_line(&line, 0, source);
    let mut notes = Notes::default();
    let span = Span::new(source, 0, line.len());
    let mut reader = Reader::new(&words, span, &mut notes, &NoNames);
    parse::rule(&mut reader).is_ok_and(|read| is_same(&read, rule))
}

/// Whether two bodies mean the same: the same alternatives, those that look something up in the
/// same order where the rule uses what was found, and the same one left open at the end.
fn is_same(one: &Rule, other: &Rule) -> bool {
    let ends = |rule: &Rule| (rule.state.clone().map(placeless), rule.defer);
    if ends(one) != ends(other) || one.just_options != other.just_options {
        return false;
    }
    let (mut ones, mut others) = (groups(&one.body), groups(&other.body));
    if uses_found(other) {
        let lookups = |groups: &[Group<'_>]| -> Vec<Vec<(Pattern, bool)>> {
            let asks = groups
                .iter()
                .filter(|group| group.iter().any(|(pattern, _)| depends_on_order(pattern)));
            let own = asks.map(|group| group.iter().map(|(p, n)| ((*p).clone(), *n)).collect());
            own.collect()
        };
        if lookups(&ones) != lookups(&others) {
            return false;
        }
    }
    let open = |rule: &Rule| {
        let mut patterns = rule.body.iter().rev();
        patterns
            .find(|one| !matches!(one.pattern, Pattern::Comment(_)))
            .is_some_and(|one| one.or_next)
    };
    if open(one) != open(other) || open(one) && ones.last() != others.last() {
        return false;
    }
    ones.retain(|group| {
        let found = others.iter().position(|wanted| wanted == group);
        found.map(|at| others.swap_remove(at)).is_none()
    });
    ones.is_empty() && others.is_empty()
}

fn placeless(state: super::super::ast::StateOption) -> (StateKind, bool, String, bool) {
    (state.kind, state.probe, state.name, state.negate)
}

/// Alternatives: patterns and whether `not` stands before them.
type Group<'r> = Vec<(&'r Pattern, bool)>;

fn groups(body: &[Instruction]) -> Vec<Group<'_>> {
    let mut out: Vec<Group<'_>> = Vec::new();
    let mut goes_on = false;
    for one in body {
        if matches!(one.pattern, Pattern::Comment(_)) {
            continue;
        }
        match out.last_mut().filter(|_| goes_on) {
            Some(group) => group.push((&one.pattern, one.negate)),
            None => out.push(vec![(&one.pattern, one.negate)]),
        }
        goes_on = one.or_next;
    }
    out
}

/// Whether a pattern finds a value in a table, or uses one.
fn depends_on_order(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Src(address) | Pattern::Dst(address) => matches!(address, Address::Table { .. }),
        Pattern::Interface(_, name) => matches!(name, InterfaceName::Table(_)),
        Pattern::Lookup { .. }
        | Pattern::Flow { .. }
        | Pattern::SrcMac(..)
        | Pattern::DstMac(..)
        | Pattern::TaggedTableArg => true,
        Pattern::Mark { value, .. } => *value == Argument::TableArg,
        _ => false,
    }
}

/// Whether the rule uses the value that its last look into a table found.
fn uses_found(rule: &Rule) -> bool {
    let action = match &rule.action {
        Action::Forward { address, .. } => address.is_none(),
        other => matches!(other.argument(), Some((Argument::TableArg, _))),
    };
    let tag = rule.tag.is_some_and(|tag| tag.tag == Argument::TableArg);
    let tested = rule.body.iter().any(|one| match &one.pattern {
        Pattern::TaggedTableArg => true,
        Pattern::Mark { value, .. } => *value == Argument::TableArg,
        _ => false,
    });
    action || rule.is_limited_by_table() || tag || tested
}
