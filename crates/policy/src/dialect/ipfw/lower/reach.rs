//! Which rules a packet can come to from a place in the list.
//!
//! In: a rule set, a position. Out: the positions that can be visited from there without coming
//! back from a call that was made before. A called range ends where nothing goes on: this is what
//! keeps it small, and tells a call that leads to itself from one that comes back.

use super::action::position;
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
        if !(ends && is_unconditional(rule)) {
            open.push(at + 1);
        }
    }
    seen
}
