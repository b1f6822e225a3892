//! Which rules a packet can come to from a place in the list, and what it has looked up by then.
//!
//! In: a rule set, a position, what is known of a packet's look for states there. Out: the
//! positions that can be visited from there without coming back from a call that was made before
//! ([`Ways`]), and where a look can find something. A called range ends where nothing goes on:
//! this is what keeps it small, and tells a call that leads to itself from one that comes back.
//! Within a range positions only go forward, so one walk through the list sees all of them; what a
//! call inside leaves behind is found once for each place and what is known there.

use super::action::position;
use super::states::{forgets, look_of, number_of_name};
use super::tables::views;
use super::tags::table_of;
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{Action, Argument, Pattern, Rule, ValueType};
use crate::eval::ipfw::CALLS_MAX;
use std::collections::HashMap;

/// Names that are told apart where places of looks are seen; further ones always look.
const NAMES_MAX: usize = 62;
/// Somebody has looked for all names.
const ANY: u64 = 2;
/// Nothing is known of looks.
const UNKNOWN: u64 = u64::MAX;

/// Nobody has looked yet. Sets of what can be known have a bit for each case.
pub(super) const UNASKED: u64 = 1;

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

/// The number of an action's argument for who comes by a state: nothing was looked up.
fn number_by_state(argument: Argument) -> u32 {
    match argument {
        Argument::Number(number) => number,
        Argument::TableArg => 0,
    }
}

/// Whether a look for a name finds states of a rule.
pub(super) fn is_found_by(rule: &Rule, name: Option<&str>) -> bool {
    let same = |own: &str| name.is_none_or(|name| number_of_name(own) == number_of_name(name));
    rule.state.as_ref().is_some_and(|state| same(&state.name))
}

/// Where a packet comes back to from the call of a rule whose state was found at a position.
pub(super) fn behind_both(set: &Ruleset, parent: usize, at: usize) -> usize {
    let number = |at: usize| set.rules[at].rule.number;
    position(set, number(parent).max(number(at)) + 1)
}

/// The ways through the list from a place.
#[derive(Debug)]
pub(super) struct Ways {
    /// What can be known of looks where a packet comes to a position; 0: none comes there.
    before: Vec<u64>,
    /// The same where the rule there does what it says.
    acting: Vec<u64>,
    /// Where a look can find something.
    looks: Vec<bool>,
    /// What can be known where packets return.
    exit: u64,
}

impl Ways {
    /// Whether a packet can come to a position.
    pub fn come_to(&self, at: usize) -> bool {
        self.before[at] != 0
    }

    /// Whether a look there can find something.
    pub fn look_at(&self, at: usize) -> bool {
        self.looks[at]
    }

    /// What can be known of looks where the rule at a position acts.
    pub fn known(&self, at: usize) -> u64 {
        self.acting[at]
    }

    /// All positions: whether a look there can find something.
    pub fn into_looks(self) -> Vec<bool> {
        self.looks
    }
}

/// Finds ways.
#[derive(Debug)]
pub(super) struct Reach<'s> {
    set: &'s Ruleset,
    /// Positions of rules whose states do more than decide.
    spelled: Vec<usize>,
    /// The bits of names, without those that are too many.
    bits: HashMap<&'s str, u64>,
    /// What is known behind calls; `None` while it is being found.
    exits: HashMap<(usize, u64), Option<u64>>,
}

impl<'s> Reach<'s> {
    /// For a rule set whose rules at these positions do more for packets of their states than to
    /// decide.
    pub fn new(set: &'s Ruleset, spelled: Vec<usize>) -> Self {
        let mut bits = HashMap::new();
        for one in &set.rules {
            let named = one.rule.state.as_ref().map(|state| state.name.as_str());
            for name in look_of(&one.rule).flatten().into_iter().chain(named) {
                let next = bits.len();
                if next < NAMES_MAX {
                    bits.entry(name).or_insert(1 << (next + 2));
                }
            }
        }
        Self {
            set,
            spelled,
            bits,
            exits: HashMap::new(),
        }
    }

    /// What is known of a packet that has just looked for a name.
    pub fn of_look(&self, name: Option<&str>) -> u64 {
        match name {
            None => ANY,
            Some(name) => self.bits.get(name).copied().unwrap_or(UNKNOWN),
        }
    }

    /// The ways of packets that nobody called.
    pub fn uncalled(&mut self) -> Ways {
        self.follow(0, UNASKED, None)
    }

    /// The ways of packets that were called to a position.
    pub fn called(&mut self, from: usize, known: u64) -> Ways {
        self.follow(from, known, Some(1))
    }

    /// The ways of packets that were called to a position, whatever they have looked for.
    pub fn called_anyhow(&mut self, from: usize) -> Ways {
        self.called(from, UNKNOWN)
    }

    /// What is known of packets that come back from a call.
    fn exit(&mut self, from: usize, known: u64, depth: Option<usize>) -> u64 {
        let key = (from, known);
        if let Some(found) = self.exits.get(&key) {
            return found.unwrap_or(UNKNOWN);
        }
        let depth = depth.unwrap_or(0) + 1;
        if depth > CALLS_MAX {
            return UNKNOWN;
        }
        self.exits.insert(key, None);
        let exit = self.follow(from, known, Some(depth)).exit;
        self.exits.insert(key, Some(exit));
        exit
    }

    fn follow(&mut self, from: usize, known: u64, depth: Option<usize>) -> Ways {
        let set = self.set;
        let count = set.rules.len();
        let mut ways = Ways {
            before: vec![0; count + 1],
            acting: vec![0; count + 1],
            looks: vec![false; count],
            exit: 0,
        };
        ways.before[from] = known;
        for at in from..count {
            let (rule, before) = (&set.rules[at].rule, ways.before[at]);
            if before == 0 || !set.is_enabled(rule.set) {
                ways.before[at + 1] |= before;
                continue;
            }
            let (mut acting, mut after) = (before, before);
            if let Some(name) = look_of(rule) {
                let bit = self.of_look(name);
                let idle = ANY | if bit == UNKNOWN { 0 } else { bit };
                ways.looks[at] = before & !idle != 0;
                if ways.looks[at] {
                    acting = before & ANY | bit;
                    after = acting | rule.probability.map_or(0, |_| before);
                    self.by_states((at, name), bit, depth, &mut ways);
                }
            }
            ways.acting[at] = acting;
            let ends = self.by_action(at, acting, depth, &mut ways);
            if !(ends && is_unconditional(rule)) {
                ways.before[at + 1] |= after;
            }
        }
        ways
    }

    /// Where the rule at a position leads packets; whether none of them goes on behind it.
    fn by_action(&mut self, at: usize, acting: u64, depth: Option<usize>, ways: &mut Ways) -> bool {
        let set = self.set;
        let rule = &set.rules[at].rule;
        match rule.action {
            Action::Skipto(argument) => {
                for number in numbers(set, rule, argument) {
                    ways.before[position(set, number.max(rule.number + 1))] |= acting;
                }
                argument != Argument::TableArg
            }
            Action::Call(argument) => {
                let back = position(set, rule.number + 1);
                for number in numbers(set, rule, argument) {
                    ways.before[back] |= self.exit(position(set, number), acting, depth);
                }
                false
            }
            Action::Return => {
                ways.exit |= depth.map_or(0, |_| acting);
                depth.is_some()
            }
            Action::Allow | Action::Deny | Action::Reject(_) => true,
            _ => {
                ways.before[at + 1] |= if forgets(&rule.action) { UNASKED } else { 0 };
                false
            }
        }
    }

    /// Where packets go on whose state was found at a position: behind both it and the state's
    /// rule.
    fn by_states(
        &mut self,
        (at, name): (usize, Option<&str>),
        bit: u64,
        depth: Option<usize>,
        ways: &mut Ways,
    ) {
        let set = self.set;
        for parent in self.spelled.clone() {
            let rule = &set.rules[parent].rule;
            if !is_found_by(rule, name) {
                continue;
            }
            let behind = parent.max(at) + 1;
            match rule.action {
                Action::Allow | Action::Deny | Action::Reject(_) => {}
                Action::Skipto(argument) => {
                    let number = number_by_state(argument).max(rule.number + 1);
                    ways.before[position(set, number).max(behind)] |= bit;
                }
                Action::Call(argument) => {
                    let to = position(set, number_by_state(argument));
                    let back = behind_both(set, parent, at);
                    ways.before[back] |= self.exit(to, bit, depth);
                }
                Action::Return if depth.is_some() => ways.exit |= bit,
                _ => {
                    let forgotten = if forgets(&rule.action) { UNASKED } else { 0 };
                    ways.before[behind] |= bit | forgotten;
                }
            }
        }
    }
}
