//! Saved ipsets to named sets of the model.
//!
//! Ranges become prefixes, because the most specific entry decides where `nomatch` entries exist.
//! Counters and comments are data that the model does not need; timeouts are kept.

use super::Lowering;
use super::changing::Created;
use super::hosts::bits;
use crate::dialect::ipset::ast::{
    Add, Create, File, Member, OptionValue, Part, StatementKind, option,
};
use crate::model::{Family, NamedSet, SetEntry, SetId, SetPart};
use crate::syntax::{Diagnostic, Span};
use std::collections::HashMap;

/// What is needed of a set's `create` line while its members are read.
struct Made {
    id: SetId,
    width: u32,
    netmask: Option<u32>,
    timeout: Option<u32>,
}

impl Lowering<'_> {
    /// Takes in the sets of a file.
    pub(super) fn add_sets(&mut self, file: &File) {
        let mut made: HashMap<&str, Made> = HashMap::new();
        for statement in &file.statements {
            match &statement.kind {
                StatementKind::Create(create) => {
                    if let Some(new) = self.create_set(create, statement.at.0) {
                        made.insert(&create.name, new);
                    }
                }
                StatementKind::Add(add) => {
                    if let Some(set) = made.get(&*add.name) {
                        self.add_member(set, add);
                    }
                }
                StatementKind::Flush(name) => {
                    if let Some(set) = made.get(&**name) {
                        let set = &mut self.sets[set.id.0 as usize];
                        set.entries.clear();
                        set.members.clear();
                    }
                }
                StatementKind::Comment(_) => {}
            }
        }
    }

    fn create_set(&mut self, create: &Create, at: Span) -> Option<Made> {
        if self.set_ids.contains_key(&*create.name) {
            let message = format!("the set `{}` is in another file already", create.name);
            let found = Diagnostic::error("given-twice", at, message);
            self.report
                .diagnostics
                .push(found.help("take one of them out"));
            return None;
        }
        let id = SetId(u32::try_from(self.sets.len()).ok()?);
        self.set_ids.insert(create.name.to_string(), id);
        self.sets.push(NamedSet {
            name: create.name.to_string(),
            family: create.family,
            dimensions: create.set_type.dimensions.to_vec(),
            entries: Vec::new(),
            members: Vec::new(),
            changes: false,
        });
        let number = |name: &str| match option(&create.options, name).map(|option| &option.value) {
            Some(OptionValue::Number(number)) => u32::try_from(*number).ok(),
            _ => None,
        };
        let width = if create.family == Some(Family::V6) {
            128
        } else {
            32
        };
        let netmask = number("netmask").filter(|&length| length < width);
        let timeout = number("timeout");
        let networks = create.set_type.name == "hash:net";
        self.created.push(Created {
            addresses: create.set_type.name == "hash:ip" || networks,
            networks,
            takes_out: create.set_type.name.contains("net"),
            kept: create.set_type.kept.then_some(create.set_type.name),
            macs: Vec::new(),
            netmask,
            timeout,
        });
        Some(Made {
            id,
            width,
            netmask,
            timeout,
        })
    }

    fn add_member(&mut self, made: &Made, add: &Add) {
        let parts = match &add.member {
            Member::Set(name) => {
                if let Some(&member) = self.set_ids.get(&**name) {
                    self.sets[made.id.0 as usize].members.push(member);
                }
                return;
            }
            Member::Kept(text) => return self.add_kept(made, add, text),
            Member::Parts(parts) => parts,
        };
        let timeout = match option(&add.options, "timeout").map(|option| &option.value) {
            Some(OptionValue::Number(number)) => u32::try_from(*number).ok(),
            _ => made.timeout,
        };
        let nomatch = option(&add.options, "nomatch").is_some();
        let choices: Vec<Vec<SetPart>> = parts.iter().map(|part| set_parts(part, made)).collect();
        let entries = &mut self.sets[made.id.0 as usize].entries;
        for parts in products(&choices) {
            entries.push(SetEntry {
                parts,
                nomatch,
                timeout,
            });
        }
    }
}

/// What the name of a set's [`Lowering::taken_out`] ends with; no set of a file has a space in it.
const TAKEN_OUT: &str = " nomatch";

impl Lowering<'_> {
    /// The set of what `nomatch` entries of a set take out of it, or out of a member of a list. The
    /// most specific entry decides in both, so it has the same entries with the opposite sense; a
    /// set of a type without such entries stands for itself.
    pub(super) fn taken_out(&mut self, set: SetId) -> SetId {
        let created = self.created[set.0 as usize].clone();
        let named = &self.sets[set.0 as usize];
        if !created.takes_out && named.members.is_empty() {
            return set;
        }
        let name = format!("{}{TAKEN_OUT}", named.name);
        if let Some(at) = self.sets.iter().position(|known| known.name == name) {
            return SetId(at as u32);
        }
        let mut opposite = named.clone();
        opposite.name = name;
        opposite
            .entries
            .iter_mut()
            .for_each(|entry| entry.nomatch ^= true);
        let members = std::mem::take(&mut opposite.members);
        opposite.members = members
            .into_iter()
            .map(|member| self.taken_out(member))
            .collect();
        let id = SetId(self.sets.len() as u32);
        self.sets.push(opposite);
        self.created.push(created);
        id
    }

    /// A member of a type that is kept as written: of a `hash:mac` it is tested.
    fn add_kept(&mut self, made: &Made, add: &Add, text: &str) {
        let created = &mut self.created[made.id.0 as usize];
        let ends = option(&add.options, "timeout").map(|option| &option.value);
        if matches!(ends, Some(OptionValue::Number(1..))) || made.timeout.is_some_and(|t| t > 0) {
            created.timeout = Some(1);
        }
        if created.kept == Some("hash:mac") {
            created
                .macs
                .extend(crate::dialect::iptables::parse_mac(text));
        }
    }
}

/// All ways to take one element of each list.
fn products(choices: &[Vec<SetPart>]) -> Vec<Vec<SetPart>> {
    let mut out: Vec<Vec<SetPart>> = vec![Vec::with_capacity(choices.len())];
    for list in choices {
        if let [only] = list.as_slice() {
            out.iter_mut().for_each(|parts| parts.push(only.clone()));
            continue;
        }
        out = out
            .iter()
            .flat_map(|parts| {
                list.iter().map(move |part| {
                    let mut parts = parts.clone();
                    parts.push(part.clone());
                    parts
                })
            })
            .collect();
    }
    out
}

/// A part of a member as parts of the model: a range of addresses becomes several prefixes.
fn set_parts(part: &Part, made: &Made) -> Vec<SetPart> {
    let widen = |first: u128, last: u128| match made.netmask {
        Some(length) => {
            let free = (1u128 << (made.width - length)) - 1;
            (first & !free, last | free)
        }
        None => (first, last),
    };
    match *part {
        Part::Network(address, length) => {
            let free_bits = made.width.saturating_sub(u32::from(length));
            let free = 1u128
                .checked_shl(free_bits)
                .map_or(u128::MAX, |bit| bit - 1);
            let first = bits(address) & !free;
            let (first, last) = widen(first, first | free);
            vec![SetPart::Addresses(first, last)]
        }
        Part::Range(first, last) => {
            let (first, last) = widen(bits(first), bits(last));
            prefixes(first, last)
                .into_iter()
                .map(|(a, b)| SetPart::Addresses(a, b))
                .collect()
        }
        Part::Ports(Some(protocol), first, last) => {
            vec![SetPart::ProtoPorts(protocol, first, last)]
        }
        Part::Ports(None, first, last) => vec![SetPart::Ports(first, last)],
        Part::Icmp(ipv6, kind, code) => {
            let protocol = if ipv6 { 58 } else { 1 };
            let value = u16::from(kind) << 8 | u16::from(code);
            vec![SetPart::ProtoPorts(protocol, value, value)]
        }
    }
}

/// The fewest prefixes that make up a range, in order.
fn prefixes(first: u128, last: u128) -> Vec<(u128, u128)> {
    let mut out = Vec::new();
    let mut at = first;
    loop {
        let left = last - at;
        let aligned = at.trailing_zeros().min(127);
        let fits = 127 - (left.saturating_add(1)).leading_zeros().min(127);
        let free = (1u128 << aligned.min(fits)) - 1;
        out.push((at, at | free));
        match (at | free).checked_add(1) {
            Some(next) if next <= last => at = next,
            _ => return out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_the_fewest_prefixes() {
        assert_eq!(prefixes(5, 5), [(5, 5)]);
        assert_eq!(prefixes(0, 255), [(0, 255)]);
        assert_eq!(prefixes(1, 8), [(1, 1), (2, 3), (4, 7), (8, 8)]);
        let top = u128::MAX;
        assert_eq!(prefixes(top - 2, top), [(top - 2, top - 2), (top - 1, top)]);
        for first in 0..40u128 {
            for last in first..40 {
                let list = prefixes(first, last);
                let covered: Vec<u128> = list.iter().flat_map(|&(a, b)| a..=b).collect();
                assert_eq!(covered, (first..=last).collect::<Vec<_>>());
                assert!(
                    list.iter()
                        .all(|&(a, b)| (b - a + 1).is_power_of_two() && a % (b - a + 1) == 0)
                );
            }
        }
    }
}
