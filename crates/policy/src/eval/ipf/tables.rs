//! Pools, hashes and group maps while packets are judged.
//!
//! In: the tables of `ippool.conf`. Out: membership, longest prefix first, holes included; and the
//! group that a map gives an address.

use crate::dialect::ipf::ast::{Name, PoolEntry, TableKind, net_match, ones};
use crate::model::{AddrMatch, Family, RangeSet};
use std::collections::HashMap;

/// Entries by family; the longest prefix that holds decides.
#[derive(Clone, Debug, Default)]
struct Table {
    sets: [RangeSet<u128>; 2],
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    tables: HashMap<(TableKind, Name), Table>,
    maps: HashMap<(bool, u32), Vec<(PoolEntry, Name)>>,
}

fn index(family: Family) -> usize {
    usize::from(family == Family::V6)
}

/// The addresses of entries of one family, holes taken out: the longest prefix decides, and of
/// equal ones the first.
fn of_family(entries: &[PoolEntry], family: Family) -> RangeSet<u128> {
    let mut sorted: Vec<&PoolEntry> = entries.iter().filter(|e| e.family == family).collect();
    sorted.reverse();
    sorted.sort_by_key(|entry| entry.mask.count_ones());
    if sorted.iter().all(|entry| !entry.negate) {
        let ranges = sorted.iter().flat_map(|entry| ranges(entry));
        return RangeSet::from_ranges(ranges);
    }
    sorted.iter().fold(RangeSet::default(), |set, entry| {
        let part = RangeSet::from_ranges(ranges(entry));
        match entry.negate {
            false => set.union(&part),
            true => set.intersect(&part.complement(ones(family))),
        }
    })
}

/// An entry as ranges; a mask with holes as the addresses it names, which are few in practice.
fn ranges(entry: &PoolEntry) -> Vec<(u128, u128)> {
    match net_match(entry.family, entry.value, entry.mask) {
        AddrMatch::Ranges(set) => set.ranges().to_vec(),
        AddrMatch::Masked { value, mask } => {
            let free = !mask & ones(entry.family);
            let low = free.trailing_ones();
            let run = (1u128 << low) - 1;
            let holes = free & !run;
            let mut out = Vec::new();
            let mut part = 0u128;
            while out.len() < 1 << 16 {
                out.push((value | part, value | part | run));
                part = part.wrapping_sub(holes) & holes;
                if part == 0 {
                    break;
                }
            }
            out
        }
    }
}

/// The addresses of entries, by family: IPv4, IPv6.
#[must_use]
pub fn members(entries: &[PoolEntry]) -> [RangeSet<u128>; 2] {
    [Family::V4, Family::V6].map(|family| of_family(entries, family))
}

impl Tables {
    /// Takes in a table.
    pub fn add(&mut self, kind: TableKind, name: &Name, entries: &[PoolEntry]) {
        let sets = members(entries);
        self.tables.insert((kind, name.clone()), Table { sets });
    }

    /// Takes in a group map.
    pub fn add_map(&mut self, out: bool, number: u32, entries: Vec<(PoolEntry, Name)>) {
        self.maps.insert((out, number), entries);
    }

    /// Whether there is such a table.
    #[must_use]
    pub fn has(&self, kind: TableKind, name: &Name) -> bool {
        self.tables.contains_key(&(kind, name.clone()))
    }

    /// The addresses of a table, by family: IPv4, IPv6.
    #[must_use]
    pub fn sets(&self, kind: TableKind, name: &Name) -> Option<[RangeSet<u128>; 2]> {
        let table = self.tables.get(&(kind, name.clone()))?;
        Some(table.sets.clone())
    }

    /// Whether an address is in a table.
    #[must_use]
    pub fn contains(&self, kind: TableKind, name: &Name, family: Family, address: u128) -> bool {
        let table = self.tables.get(&(kind, name.clone()));
        table.is_some_and(|table| table.sets[index(family)].contains(address))
    }

    /// The groups of a map, each with the addresses of a family that it gives to it.
    #[must_use]
    pub fn mapped(&self, out: bool, number: u32, family: Family) -> Vec<(Name, RangeSet<u128>)> {
        let entries = self.maps.get(&(out, number)).map_or(&[][..], Vec::as_slice);
        let mut sorted: Vec<&(PoolEntry, Name)> = entries.iter().collect();
        sorted.retain(|(entry, _)| entry.family == family);
        // Of equal prefixes the last decides, as `group` has it.
        sorted.sort_by_key(|(entry, _)| entry.mask.count_ones());
        let mut groups: Vec<(Name, RangeSet<u128>)> = Vec::new();
        for (entry, group) in sorted {
            let own = RangeSet::from_ranges(ranges(entry));
            let others = own.complement(ones(family));
            for (_, set) in &mut groups {
                *set = set.intersect(&others);
            }
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, set)) => *set = set.union(&own),
                None => groups.push((group.clone(), own)),
            }
        }
        groups
    }

    /// The group that a map gives an address.
    #[must_use]
    pub fn group(&self, out: bool, number: u32, family: Family, address: u128) -> Option<&Name> {
        let entries = self.maps.get(&(out, number))?;
        entries
            .iter()
            .filter(|(entry, _)| entry.family == family && address & entry.mask == entry.value)
            .max_by_key(|(entry, _)| entry.mask.count_ones())
            .map(|(_, name)| name)
    }
}
