//! Sets that rules change (`-j SET`): what rules add becomes a list of addresses that remembers,
//! beside the entries of the file.
//!
//! A packet is in such a set when an entry of the file has its address, or when a rule added the
//! address not longer ago than the entries live. So all rules that add to one set have to give the
//! same lifetime. Source: xt_set(8), ipset(8) `timeout`, `--exist`.
//!
//! What this form has no room for is refused by name: other types than `hash:ip` and `hash:net`
//! without networks, deleting where
//! the file has entries, entries of the file whose life a rule would shorten.

use super::super::ast::{Instance, Opt, Target};
use super::super::value::Value;
use super::Lowering;
use super::hosts::all_ones;
use super::matches::Tests;
use super::tables::Tables;
use crate::model::{
    Cond, Family, HistoryId, HistoryKind, HistoryObject, Recent, RecentAction, SetEntry, SetField,
    SetId, SetPart, Table, Test,
};
use crate::syntax::Span;

/// What the model does not keep of a set's `create` line.
#[derive(Clone, Debug, Default)]
pub(super) struct Created {
    /// It is a `hash:ip`, or a `hash:net`.
    pub(super) addresses: bool,
    /// It is of a type whose members are kept as written.
    pub(super) kept: Option<&'static str>,
    /// The members of a `hash:mac`.
    pub(super) macs: Vec<[u8; 6]>,
    /// It is a `hash:net`.
    pub(super) networks: bool,
    /// Entries may be `nomatch`: its type has networks.
    pub(super) takes_out: bool,
    /// Addresses are cut to this prefix length.
    pub(super) netmask: Option<u32>,
    /// Entries have a lifetime, by default this one; 0 is for ever.
    pub(super) timeout: Option<u32>,
}

/// What the rules do to a set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Seconds that what they add lives; 0 is for ever.
    lifetime: Option<u32>,
}

/// Members of a `hash:mac`: each is tried for itself.
const MACS_MAX: usize = 256;
const TESTED_ALONE: &str = "test it in a rule of its own";
const WRITE_RULES: &str = "write a rule for each member: `-m mac`, `-i`, `-m mark` beside `-s`";

fn timeout(instance: &Instance) -> Option<u32> {
    match instance.option("timeout")?.value {
        Value::Number(seconds) => u32::try_from(seconds).ok(),
        _ => None,
    }
}

impl Lowering<'_> {
    /// Finds the sets that rules change, before any rule is lowered.
    pub(super) fn find_changes(&mut self, tables: &Tables<'_>) {
        let enforced = |table: Table| matches!(table, Table::Raw | Table::Mangle | Table::Filter);
        for table in tables.list.iter().filter(|table| enforced(table.table)) {
            let rules = table.chains.iter().flat_map(|chain| chain.rules.iter());
            for entry in rules.map(|index| &table.entries[index]) {
                let Some(Target::Module(instance)) = &entry.rule.target else {
                    continue;
                };
                if instance.spec.name == "SET" {
                    self.note_changes(instance);
                }
            }
        }
    }

    fn note_changes(&mut self, instance: &Instance) {
        for option in &instance.options {
            let Value::Set(used) = &option.value else {
                continue;
            };
            let Some(&set) = self.set_ids.get(&*used.name) else {
                continue;
            };
            let lifetime = self.lifetime(set, instance);
            let known = self.changed.entry(set).or_default();
            if option.spec.name == "add-set" && known.lifetime.is_none() {
                known.lifetime = Some(lifetime);
            }
        }
    }

    /// Seconds that an entry lives which a rule adds; 0 is for ever.
    fn lifetime(&self, set: SetId, instance: &Instance) -> u32 {
        let default = self.created[set.0 as usize].timeout;
        default.map_or(0, |default| timeout(instance).unwrap_or(default))
    }
}

impl Lowering<'_> {
    /// Whether rules change a set, or a member of a list of sets.
    pub(super) fn changes(&self, set: SetId) -> bool {
        let members = &self.sets[set.0 as usize].members;
        self.changed.contains_key(&set) || members.iter().any(|member| self.changes(*member))
    }
}

impl Tests<'_, '_> {
    /// Membership in a set: the test of `-m set`.
    pub(super) fn membership(&mut self, negate: bool, set: SetId, fields: &[SetField]) {
        let created = &self.lowering.created[set.0 as usize];
        if created.kept.is_some() {
            let macs = any(created.macs.iter().map(|mac| Cond::Mac(*mac)));
            return self.push(negate, macs);
        }
        let of_file = Cond::Set {
            set,
            fields: fields.to_vec(),
        };
        let Some(changed) = self.lowering.changed.get(&set).copied() else {
            return self.push(negate, of_file);
        };
        let seconds = changed.lifetime.unwrap_or(0);
        let added = self.memory(set, fields[0], RecentAction::Check, seconds);
        if self.lowering.sets[set.0 as usize].entries.is_empty() {
            return self.push(negate, added);
        }
        self.push(negate, any([of_file, added]));
    }

    /// Whether the entries of a set, or of the members of a list of sets, can be tested.
    pub(super) fn can_test(&mut self, name: &str, set: SetId, at: Span) -> bool {
        let created = &self.lowering.created[set.0 as usize];
        let members = &self.lowering.sets[set.0 as usize].members;
        let kept = |member: &SetId| self.lowering.created[member.0 as usize].kept;
        let listed = members.iter().find_map(kept);
        let (what, help) = match (created.kept, listed) {
            (None, None) => return true,
            (_, Some(kept)) => (format!("a list with a set of type {kept}"), TESTED_ALONE),
            (Some("hash:mac"), _) if created.timeout.is_some_and(|seconds| seconds > 0) => (
                "a hash:mac with timeouts".to_owned(),
                "give its members no timeout",
            ),
            (Some("hash:mac"), _) if created.macs.len() > MACS_MAX => (
                format!("a hash:mac of more than {MACS_MAX} members"),
                "make several sets of it",
            ),
            (Some("hash:mac"), _) => return true,
            (Some(kept), _) => (format!("a set of type {kept}"), WRITE_RULES),
        };
        self.unsupported(at, &format!("{what} (`{name}`)"), help);
        false
    }

    /// `--add-set` and `--del-set`: tests that hold for every packet, and remember.
    pub(super) fn set_target(&mut self, instance: &Instance) {
        for option in &instance.options {
            match (option.spec.name, &option.value) {
                ("add-set" | "del-set", Value::Set(_)) => self.change(instance, option),
                ("timeout" | "exist", _) => {}
                (name, _) => {
                    let what = format!("`--{name}` of `-j SET`");
                    self.unsupported(option.at.0, &what, "take the option or the rule out");
                }
            }
        }
    }

    fn change(&mut self, instance: &Instance, option: &Opt) {
        let Value::Set(used) = &option.value else {
            return;
        };
        let Some(set) = self.find_set(&used.name, used.fields.len(), option.at.0) else {
            return;
        };
        if !self.can_change(set, instance, option) {
            return;
        }
        let field = used.fields[0];
        let seconds = self.lowering.changed.get(&set).and_then(|c| c.lifetime);
        let seconds = seconds.unwrap_or(0);
        if option.spec.name == "del-set" {
            let gone = self.memory(set, field, RecentAction::Remove, 0);
            let was_not_there = self.memory(set, field, RecentAction::Remove, 0);
            let mut either = any([gone, was_not_there]);
            if let Cond::Any(tests) = &mut either {
                tests[1].negate = true;
            }
            return self.push(false, either);
        }
        let add = self.memory(set, field, RecentAction::Set, 0);
        let mut present = Vec::new();
        if instance.option("exist").is_none() {
            // An entry that is there keeps the time that it has left.
            if !self.lowering.sets[set.0 as usize].entries.is_empty() {
                let fields = used.fields.clone();
                present.push(Cond::Set { set, fields });
            }
            if seconds > 0 {
                present.push(self.memory(set, field, RecentAction::Check, seconds));
            }
        }
        if present.is_empty() {
            return self.push(false, add);
        }
        present.push(add);
        self.push(false, any(present));
    }

    /// Whether the memory of addresses can say what the rule says; if not, why.
    fn can_change(&mut self, set: SetId, instance: &Instance, option: &Opt) -> bool {
        let at = option.at.0;
        let created = &self.lowering.created[set.0 as usize];
        let named = &self.lowering.sets[set.0 as usize];
        let lives = self.lowering.lifetime(set, instance);
        let lifetime = self.lowering.changed.get(&set).and_then(|c| c.lifetime);
        let listed = self
            .lowering
            .sets
            .iter()
            .any(|list| list.members.contains(&set));
        let outlives = |entry: &SetEntry| {
            lives > 0 && entry.timeout.is_none_or(|left| left == 0 || left > lives)
        };
        let adds = option.spec.name == "add-set";
        let (what, help) = if !created.addresses {
            (
                "changing a set that is not a hash:ip",
                "use a set of the type hash:ip",
            )
        } else if created.networks && named.entries.iter().any(is_network) {
            (
                "changing a hash:net that has networks",
                "ipset would add one as wide as the widest: use a set of the type hash:ip",
            )
        } else if named.family != Some(self.family) {
            (
                "changing a set of the other family",
                "use a set of the rule's family",
            )
        } else if listed {
            (
                "changing a member of a list of sets",
                "test the sets of the list one by one",
            )
        } else if !adds && !named.entries.is_empty() {
            (
                "deleting from a set that has entries in its file",
                "keep those entries in a set of their own",
            )
        } else if adds && lifetime.is_some_and(|of_others| of_others != lives) {
            (
                "another lifetime than other rules give in the same set",
                "give all of them the same `--timeout`, or use two sets",
            )
        } else if adds && instance.option("exist").is_some() && named.entries.iter().any(outlives) {
            (
                "`--exist` that shortens the life of entries of the file",
                "keep those entries in a set of their own",
            )
        } else {
            return true;
        };
        self.unsupported(at, what, help);
        false
    }

    /// The memory of what rules add to a set.
    fn memory(&mut self, set: SetId, field: SetField, action: RecentAction, seconds: u32) -> Cond {
        let full = all_ones(self.family);
        let (width, word) = match self.family {
            Family::V4 => (32, "v4"),
            Family::V6 => (128, "v6"),
        };
        let netmask = self.lowering.created[set.0 as usize].netmask;
        let free = netmask.map_or(0, |length| {
            1u128
                .checked_shl(width - length)
                .map_or(u128::MAX, |bit| bit - 1)
        });
        let kind = HistoryKind::Recent(Recent {
            action,
            seconds,
            hitcount: 0,
            reap: false,
            ttl: false,
            destination: field == SetField::Dst,
            mask: full & !free,
        });
        let name = &self.lowering.sets[set.0 as usize].name;
        let shared = Some(format!("set/{word}/{name}"));
        let id = HistoryId(u32::try_from(self.lowering.histories.len()).unwrap_or(u32::MAX));
        self.lowering.histories.push(HistoryObject { shared, kind });
        Cond::History(id)
    }
}

/// Whether an entry is more than one address.
fn is_network(entry: &SetEntry) -> bool {
    let [SetPart::Addresses(first, last)] = entry.parts[..] else {
        return false;
    };
    first != last
}

fn any(conds: impl IntoIterator<Item = Cond>) -> Cond {
    let plain = |cond| Test {
        negate: false,
        cond,
    };
    Cond::Any(conds.into_iter().map(plain).collect())
}
