//! Which rules a packet can come to from a place in the list.
//!
//! In: a rule set, a position. Out: the positions that can be visited from there without coming
//! back from a call that was made before. A called range ends where nothing goes on: this is what
//! keeps it small, and tells a call that leads to itself from one that comes back.

use super::action::position;
use super::states::look_of;
use super::tables::views;
use super::tags::table_of;
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{Action, Argument, Pattern, Rule, ValueType};

fn is_unconditional(rule: &Rule) -> bool {
    let comment = |pattern: &Pattern| matches!(pattern, Pattern::Comment(_));
    rule.probability.is_none()
        && rule.state.is_none()
        && rule
            .body
            .iter()
            .all(|one| comment(&one.pattern) && !one.or_next && !one.negate)
}

/// The numbers that a rule can lead to.
pub(super) fn numbers(set: &Ruleset, rule: &Rule, argument: Argument) -> Vec<u32> {
    if let Argument::Number(number) = argument {
        return vec![number];
    }
    let tables = rule.body.iter().filter_map(|one| table_of(&one.pattern));
    tables
        .filter_map(|name| set.table(name))
        .flat_map(|table| views(table, None, &[ValueType::Skipto]))
        .map(|(values, _)| values[0] as u32)
        .collect()
}

/// Where packets go on whose state was found at a position: behind both it and the state's rule.
fn behind_states(set: &Ruleset, at: usize) -> Vec<usize> {
    let mut out = Vec::new();
    for (parent, one) in set.rules.iter().enumerate() {
        let (rule, behind) = (&one.rule, parent.max(at) + 1);
        if rule.state.is_none() || !set.is_enabled(rule.set) {
            continue;
        }
        match rule.action {
            Action::Allow | Action::Deny | Action::Reject(_) => {}
            Action::Skipto(argument) => {
                let targets = numbers(set, rule, argument).into_iter();
                let to = |to: u32| position(set, to.max(rule.number + 1));
                out.extend(targets.map(|number| to(number).max(behind)));
                // Who comes by a state has looked nothing up.
                out.extend((argument == Argument::TableArg).then_some(behind));
            }
            _ => out.push(behind),
        }
    }
    out
}

/// The positions that can be visited from one on.
pub(super) fn reachable(set: &Ruleset, from: usize) -> Vec<bool> {
    let mut seen = vec![false; set.rules.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at >= seen.len() || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let rule = &set.rules[at].rule;
        if !set.is_enabled(rule.set) {
            open.push(at + 1);
            continue;
        }
        let ends = match rule.action {
            Action::Skipto(argument) => {
                let after = |number: u32| number.max(rule.number + 1);
                let targets = numbers(set, rule, argument);
                open.extend(
                    targets
                        .into_iter()
                        .map(|number| position(set, after(number))),
                );
                argument != Argument::TableArg
            }
            Action::Call(_) => {
                open.push(position(set, rule.number + 1));
                false
            }
            Action::Allow | Action::Deny | Action::Reject(_) | Action::Return => true,
            _ => false,
        };
        if look_of(rule).is_some() {
            open.extend(behind_states(set, at));
        }
        if !(ends && is_unconditional(rule)) {
            open.push(at + 1);
        }
    }
    seen
}
