//! Tables as the sets of values that they are while a policy is in force.
//!
//! In: a table, the value that an entry must have, the purposes of its values that a rule uses.
//! Out: what the table holds ([`View`]), or one view for each value that it can give. The longest
//! prefix decides, so a narrow entry takes its addresses out of a wider one of another value.

use crate::dialect::ipfw::ast::{TableValue, ValueType};
use crate::dialect::ipfw::numbers::prefix_mask;
use crate::dialect::ipfw::{Key, Table, Value};
use crate::model::RangeSet;
use std::collections::BTreeMap;

/// What a table, or the part of it that has one value, holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// IPv4 addresses.
    pub v4: RangeSet<u128>,
    /// IPv6 addresses.
    pub v6: RangeSet<u128>,
    /// Hardware addresses.
    pub macs: RangeSet<u128>,
    /// Interfaces.
    pub names: Vec<String>,
    /// Numbers.
    pub numbers: Vec<u32>,
    /// Flows.
    pub flows: Vec<Key>,
}

/// A range of addresses and the value of the entry that decides there.
type Piece<'t> = (u128, u128, &'t Value);

/// Cuts nested prefixes into pieces, each of the most specific entry.
fn pieces<'t>(mut prefixes: Vec<Piece<'t>>) -> Vec<Piece<'t>> {
    // Widest first where several begin at one address.
    prefixes.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    let mut out: Vec<Piece<'t>> = Vec::with_capacity(prefixes.len());
    let mut open: Vec<Piece<'t>> = Vec::new();
    // The first address that no piece says anything about yet; `None` behind the last one.
    let mut next = Some(0u128);
    let close = |open: &mut Vec<Piece<'t>>, next: &mut Option<u128>, out: &mut Vec<_>| {
        if let Some((_, last, value)) = open.pop()
            && let Some(from) = *next
            && from <= last
        {
            out.push((from, last, value));
            *next = last.checked_add(1);
        }
    };
    for prefix in prefixes {
        while open.last().is_some_and(|outer| outer.1 < prefix.0) {
            close(&mut open, &mut next, &mut out);
        }
        if let (Some((_, _, value)), Some(from)) = (open.last(), next)
            && from < prefix.0
        {
            out.push((from, prefix.0 - 1, value));
        }
        next = Some(prefix.0);
        open.push(prefix);
    }
    while !open.is_empty() {
        close(&mut open, &mut next, &mut out);
    }
    out
}

/// Pieces of hardware addresses.
fn macs(table: &Table) -> Vec<Piece<'_>> {
    let prefixes = table.entries.iter().filter_map(|entry| match entry.key {
        Key::Mac(base, length) => {
            let base = u128::from(base);
            let rest = !prefix_mask(u32::from(length), 48) & ((1 << 48) - 1);
            Some((base, base | rest, &entry.value))
        }
        _ => None,
    });
    pieces(prefixes.collect())
}

fn ranges(table: &Table, v6: bool) -> Vec<Piece<'_>> {
    let prefixes = table.entries.iter().filter_map(|entry| match entry.key {
        Key::V4(base, length) if !v6 => {
            let last = u128::from(base) | !prefix_mask(u32::from(length), 32) & 0xffff_ffff;
            Some((u128::from(base), last, &entry.value))
        }
        Key::V6(base, length) if v6 => Some((
            base,
            base | !prefix_mask(u32::from(length), 128),
            &entry.value,
        )),
        _ => None,
    });
    pieces(prefixes.collect())
}

fn has(value: &Value, wanted: Option<&TableValue>) -> bool {
    wanted.is_none_or(|wanted| {
        value.get(wanted.kind.unwrap_or(ValueType::Tag)) == u128::from(wanted.value)
    })
}

/// The views of a table by the values of some purposes.
pub(super) fn views(
    table: &Table,
    wanted: Option<&TableValue>,
    kinds: &[ValueType],
) -> Vec<(Vec<u128>, View)> {
    let mut out: BTreeMap<Vec<u128>, View> = BTreeMap::new();
    let mut addresses: BTreeMap<Vec<u128>, [Vec<(u128, u128)>; 2]> = BTreeMap::new();
    let values = |value: &Value| {
        kinds
            .iter()
            .map(|kind| value.get(*kind))
            .collect::<Vec<_>>()
    };
    for v6 in [false, true] {
        for (first, last, value) in ranges(table, v6) {
            if has(value, wanted) {
                let both = addresses.entry(values(value)).or_default();
                both[usize::from(v6)].push((first, last));
            }
        }
    }
    for (key, [v4, v6]) in addresses {
        let view = out.entry(key).or_default();
        view.v4 = RangeSet::from_ranges(v4);
        view.v6 = RangeSet::from_ranges(v6);
    }
    let mut hardware: BTreeMap<Vec<u128>, Vec<(u128, u128)>> = BTreeMap::new();
    for (first, last, value) in macs(table) {
        if has(value, wanted) {
            let own = hardware.entry(values(value)).or_default();
            own.push((first, last));
        }
    }
    for (key, macs) in hardware {
        out.entry(key).or_default().macs = RangeSet::from_ranges(macs);
    }
    for entry in table.entries.iter().filter(|e| has(&e.value, wanted)) {
        match &entry.key {
            Key::Iface(name) => {
                let view = out.entry(values(&entry.value)).or_default();
                view.names.push(name.clone());
            }
            Key::Number(number) => {
                let view = out.entry(values(&entry.value)).or_default();
                view.numbers.push(*number);
            }
            flow @ Key::Flow { .. } => {
                let view = out.entry(values(&entry.value)).or_default();
                view.flows.push(flow.clone());
            }
            Key::V4(..) | Key::V6(..) | Key::Mac(..) => {}
        }
    }
    out.into_iter().collect()
}

/// What a table holds, whatever the values.
pub(super) fn view(table: Option<&Table>, wanted: Option<&TableValue>) -> View {
    let found = table.map(|table| views(table, wanted, &[]));
    found
        .and_then(|mut views| views.pop())
        .map_or_else(View::default, |(_, view)| view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::ipfw::Entry;
    use crate::dialect::ipfw::command::TableType;

    #[test]
    fn every_address_has_the_value_of_its_longest_prefix() {
        let mut table = Table::new("t", TableType::Addr);
        for (base, length, value) in [
            (0u32, 1u8, 1u32),
            (0x0a00_0000, 8, 2),
            (0x0a01_0000, 16, 1),
            (0x0a01_0200, 24, 3),
            (0x0aff_ff00, 24, 4),
            (0xffff_ffff, 32, 2),
            (0xffff_ff00, 24, 5),
        ] {
            table.entries.push(Entry {
                key: Key::V4(base, length),
                value: Value::legacy(value),
            });
        }
        let views = views(&table, None, &[ValueType::Tag]);
        let edges = table.entries.iter().flat_map(|entry| match entry.key {
            Key::V4(base, length) => {
                let last = base | !(prefix_mask(u32::from(length), 32) as u32);
                [
                    base,
                    base.wrapping_sub(1),
                    last,
                    last.wrapping_add(1),
                    base | 7,
                ]
            }
            _ => [0; 5],
        });
        for address in edges {
            let meant = table.find_v4(address).map(|v| v.get(ValueType::Tag));
            let found: Vec<u128> = views
                .iter()
                .filter(|(_, view)| view.v4.contains(u128::from(address)))
                .map(|(values, _)| values[0])
                .collect();
            assert_eq!(meant.into_iter().collect::<Vec<_>>(), found, "{address:#x}");
        }
        let one = TableValue {
            kind: None,
            value: 3,
        };
        let only = view(Some(&table), Some(&one));
        assert_eq!(only.v4.ranges(), &[(0x0a01_0200, 0x0a01_02ff)]);
    }
}
