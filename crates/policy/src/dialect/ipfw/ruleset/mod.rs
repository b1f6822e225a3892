//! A rule set: rules by number, sets, tables, shaping objects, settings; what commands act on.
//!
//! In: commands. Out: the changed rule set, and what ipfw would print. Nothing is judged here:
//! that is `eval::ipfw`'s business, which borrows a [`Ruleset`].
//!
//! Source: ipfw(8) of FreeBSD 13.

mod apply;
mod entries;
mod tables;

pub use apply::Answer;
pub(super) use entries::guess;
pub use entries::{Entry, Key, Value};
pub use tables::Table;

use super::ast::{Action, InterfaceName, Pattern, Rule};
use super::command::DummynetConfig;
use super::print::dummynet::FlowLine;
use super::print::listing::StateLine;
use super::settings::Settings;
use crate::model::{Counters, RuleId};
use crate::syntax::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Knows no names.
static NO_NAMES: super::parse::NoNames = super::parse::NoNames;

/// The number of the last rule.
pub const DEFAULT_RULE: u32 = 65535;
/// The set that the last rule is in, and that `flush` spares.
pub const DEFAULT_SET: u8 = 31;

/// A rule in a rule set.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedRule {
    /// The rule.
    pub rule: Rule,
    /// Its identity: no two rules ever loaded into one rule set share it.
    pub id: RuleId,
    /// Packets and bytes.
    pub counters: Counters,
    /// Seconds since the epoch of the last match.
    pub last_match: Option<u64>,
    /// Lines that it logged.
    pub logged: u32,
}

/// A rule set.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Rules by number, those of one number in the order in which they came; last the default.
    pub rules: Vec<LoadedRule>,
    /// Sets that are off, one bit a set.
    pub disabled: u32,
    /// Tables in the order in which they were made.
    pub tables: Vec<Table>,
    /// Pipes, queues and schedulers.
    pub dummynet: BTreeMap<(super::command::DummynetKind, u32), DummynetConfig>,
    /// Translation instances, as canonical words.
    pub nats: BTreeMap<u32, Vec<String>>,
    /// Settings.
    pub settings: Settings,
    /// States as listings show them, given by who knows them.
    pub states: Vec<StateLine>,
    /// Flows of pipes and queues, given by who knows them.
    pub flows: BTreeMap<(super::command::DummynetKind, u32), Vec<FlowLine>>,
    /// IPv4 addresses of interfaces, given by who knows the host that rules are for.
    pub owners: Option<Vec<(String, u32)>>,
    next_id: u32,
}

impl Default for Ruleset {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Ruleset {
    /// A rule set with nothing but its default rule.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let action = match settings.default_to_accept {
            true => Action::Allow,
            false => Action::Deny,
        };
        let rule = Rule {
            number: DEFAULT_RULE,
            set: DEFAULT_SET,
            probability: None,
            body: Vec::new(),
            state: None,
            defer: false,
            log: None,
            altq: None,
            tag: None,
            action,
            just_options: false,
            any_to_any: true,
            place: Place::default(),
            action_place: Place::default(),
            modifier_place: Place::default(),
        };
        let default = LoadedRule {
            rule,
            id: RuleId(0),
            counters: Counters::default(),
            last_match: None,
            logged: 0,
        };
        Self {
            rules: vec![default],
            disabled: 0,
            tables: Vec::new(),
            dummynet: BTreeMap::new(),
            nats: BTreeMap::new(),
            settings,
            states: Vec::new(),
            flows: BTreeMap::new(),
            owners: None,
            next_id: 1,
        }
    }

    /// How many identities of rules there are.
    #[must_use]
    pub fn rule_count(&self) -> u32 {
        self.next_id
    }

    /// Position of the first rule with this number or a larger one.
    #[must_use]
    pub fn position(&self, number: u32) -> usize {
        self.rules.partition_point(|one| one.rule.number < number)
    }

    /// Whether a set is on.
    #[must_use]
    pub fn is_enabled(&self, set: u8) -> bool {
        self.disabled & 1 << set == 0
    }

    /// The addresses by which rules name interfaces, each once.
    #[must_use]
    pub fn asked_owners(&self) -> Vec<u32> {
        let by_address = |pattern: &Pattern| match pattern {
            Pattern::Interface(_, InterfaceName::Address(address)) => Some(*address),
            _ => None,
        };
        let bodies = self.rules.iter().flat_map(|one| &one.rule.body);
        let asked = bodies.filter_map(|one| by_address(&one.pattern));
        let all: BTreeSet<u32> = asked.collect();
        all.into_iter().collect()
    }

    /// The rule of an identity.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&LoadedRule> {
        self.rules.iter().find(|one| one.id == id)
    }

    /// Gives the rule that a numbered line of a listing made the counters of that line.
    pub(super) fn preset(&mut self, line: &Rule, counters: Counters) {
        let from = self.position(line.number);
        let to = self.position(line.number + 1);
        let place = line.place.0;
        let mut made = self.rules[from..to].iter_mut();
        if let Some(one) = made.find(|one| one.rule.place.0 == place) {
            one.counters = counters;
        }
    }

    /// The table of a name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    fn table_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.tables.iter_mut().find(|table| table.name == name)
    }
}
