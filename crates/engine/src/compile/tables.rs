//! Hashed tables: a few hash tables over chosen bits of addresses and ports, for large sets.
//!
//! A table is a choice of leading bits of each field. A term enters a slot for each cell of the
//! table that it overlaps (few, or it stays out), and a slot holds a bounded group of records with
//! the whole box inline, so that a lookup is one probe for each table and a few comparisons. Which
//! bits: tried on a sample, best expected group size for most terms (tuple-space search with merged
//! tuples, as Srinivasan, Suri and Varghese (SIGCOMM 1999) and TupleMerge (2018) have it).

use super::span::Span;
use super::term::{Term, address_last};
use crate::image::layout::{GROUP_MAX, HashTable, Record4, Record6, SERVICES_MAX, TABLES_MAX};
use crate::image::write::Writer;
use crate::lookup::table_hash;
use std::collections::HashMap;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Terms looked at when choosing bits.
const SAMPLE: usize = 512;
/// Slots that one term may enter in one table.
const REPLICAS_MAX: u128 = 16;
/// Terms that need not be hashed: bit vectors hold them in few words.
const REST_ENOUGH: usize = 128;
/// A table that takes less than this share of what is left is not worth a probe.
const SHARE_MIN: f64 = 0.1;

/// Leading bits of source and destination address, and of source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    address: [u32; 2],
    port: [u32; 2],
}

/// Terms with the position of their entry.
pub type Placed<'t> = (&'t Term, u32);

/// What went into tables, and what did not.
pub struct Hashed<'t> {
    /// Tables, with their sections written.
    pub tables: Vec<HashTable>,
    /// Services that records name, in order of their bits.
    pub services: Vec<u32>,
    /// Terms left, in evaluation order.
    pub rest: Vec<Placed<'t>>,
}

/// A box: one range for each field.
#[derive(Clone, Copy)]
struct Ranges {
    address: [(u128, u128); 2],
    port: [(u16, u16); 2],
}

/// The box of a term, when it is one.
fn ranges(term: &Term, family: Family) -> Option<Ranges> {
    let top = address_last(family);
    let one = |span: &Span<u128>| match span {
        Span::Any => Some((0, top)),
        Span::One(first, last) => {
            // IPv6 records hold prefixes.
            let prefix =
                (last - first) & (last - first).wrapping_add(1) == 0 && first & (last - first) == 0;
            (family == Family::V4 || prefix).then_some((*first, *last))
        }
        Span::Many(_) => None,
    };
    let port = |span: &Span<u16>| match span {
        Span::Any => Some((0, u16::MAX)),
        Span::One(first, last) => Some((*first, *last)),
        Span::Many(_) => None,
    };
    Some(Ranges {
        address: [one(&term.address[0])?, one(&term.address[1])?],
        port: [port(&term.port[0])?, port(&term.port[1])?],
    })
}

fn width(family: Family) -> u32 {
    if family == Family::V4 { 32 } else { 128 }
}

/// First and last cell of a range when only `bits` leading bits count.
fn cells(range: (u128, u128), bits: u32, width: u32) -> (u128, u128) {
    if bits == 0 {
        return (0, 0);
    }
    (range.0 >> (width - bits), range.1 >> (width - bits))
}

impl Cut {
    /// First and last cell in each field, and how many cells there are.
    fn cells(&self, ranges: &Ranges, family: Family) -> ([(u128, u128); 4], u128) {
        let wide = |range: (u16, u16)| (u128::from(range.0), u128::from(range.1));
        let all = [
            cells(ranges.address[0], self.address[0], width(family)),
            cells(ranges.address[1], self.address[1], width(family)),
            cells(wide(ranges.port[0]), self.port[0], 16),
            cells(wide(ranges.port[1]), self.port[1], 16),
        ];
        let count = all.iter().fold(1u128, |n, c| {
            n.saturating_mul((c.1 - c.0).saturating_add(1))
        });
        (all, count)
    }

    /// Calls `f` with a key (source, destination, ports) in each cell of a box.
    fn each_key(&self, ranges: &Ranges, family: Family, mut f: impl FnMut([u128; 2], u32)) {
        let (cells, _) = self.cells(ranges, family);
        let place = |cell: u128, bits: u32, width: u32| {
            if bits == 0 { 0 } else { cell << (width - bits) }
        };
        let width = width(family);
        for a in cells[0].0..=cells[0].1 {
            for b in cells[1].0..=cells[1].1 {
                for c in cells[2].0..=cells[2].1 {
                    for d in cells[3].0..=cells[3].1 {
                        let ports = place(c, self.port[0], 16) as u32 * 0x1_0000
                            + place(d, self.port[1], 16) as u32;
                        let address = [
                            place(a, self.address[0], width),
                            place(b, self.address[1], width),
                        ];
                        f(address, ports);
                    }
                }
            }
        }
    }

    fn table(&self, family: Family) -> HashTable {
        let mask = |bits: u32| {
            let bits = place_mask(bits, width(family));
            [(bits >> 64) as u64, bits as u64]
        };
        let ([a, b], [c, d]) = (mask(self.address[0]), mask(self.address[1]));
        HashTable {
            masks: [a, b, c, d],
            ports: (place_mask(self.port[0], 16) as u32) << 16
                | place_mask(self.port[1], 16) as u32,
            record: if family == Family::V4 { 32 } else { 64 },
            ..HashTable::default()
        }
    }
}

/// The mask of the leading bits of a field.
fn place_mask(bits: u32, width: u32) -> u128 {
    if bits == 0 {
        return 0;
    }
    let all = u128::MAX >> (128 - width);
    all & !(all.checked_shr(bits).unwrap_or(0))
}

/// Distinct leading-bit counts that the ranges of a field suggest.
fn suggestions(ranges: impl Iterator<Item = (u128, u128)>, width: u32) -> Vec<u32> {
    let mut lengths: Vec<u32> = ranges
        .filter(|r| !(r.0 == 0 && r.1 == u128::MAX >> (128 - width)))
        .map(|r| (r.0 ^ r.1).leading_zeros() - (128 - width))
        .collect();
    lengths.sort_unstable();
    let mut out = vec![0];
    if let Some(last) = lengths.len().checked_sub(1) {
        out.extend((0..=5).map(|part| lengths[last * part / 5]));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// The cut that serves the sample best, and how well.
fn choose(sample: &[Ranges], scale: f64, family: Family) -> (Cut, f64) {
    let addresses = |at: usize| suggestions(sample.iter().map(|r| r.address[at]), width(family));
    let (sources, destinations) = (addresses(0), addresses(1));
    let port = |at: usize| {
        let open = sample.iter().all(|r| r.port[at] == (0, u16::MAX));
        if open { vec![0] } else { vec![0, 4, 8, 12, 16] }
    };
    let (source_ports, destination_ports) = (port(0), port(1));
    let mut best = (
        Cut {
            address: [0, 0],
            port: [0, 0],
        },
        0.0,
    );
    let mut counts = vec![0u8; 1 << 14];
    for &a in &sources {
        for &b in &destinations {
            for &c in &source_ports {
                for &d in &destination_ports {
                    let cut = Cut {
                        address: [a, b],
                        port: [c, d],
                    };
                    let score = score(&cut, sample, scale, family, &mut counts);
                    if score > best.1 {
                        best = (cut, score);
                    }
                }
            }
        }
    }
    best
}

/// How many terms of the sample a cut serves, each weighed by the size of its group.
fn score(cut: &Cut, sample: &[Ranges], scale: f64, family: Family, counts: &mut [u8]) -> f64 {
    counts.fill(0);
    let slot = |address: [u128; 2], ports: u32| (table_hash(address, ports) >> (64 - 14)) as usize;
    let fits = |r: &&Ranges| cut.cells(r, family).1 <= REPLICAS_MAX;
    for ranges in sample.iter().filter(fits) {
        cut.each_key(ranges, family, |address, ports| {
            let count = &mut counts[slot(address, ports)];
            *count = count.saturating_add(1);
        });
    }
    let mut total = 0.0;
    for ranges in sample.iter().filter(fits) {
        let (mut most, mut replicas) = (1u8, 0.0);
        cut.each_key(ranges, family, |address, ports| {
            most = most.max(counts[slot(address, ports)]);
            replicas += 1.0;
        });
        let group = 1.0 + f64::from(most - 1) * scale;
        if group <= 2.0 * GROUP_MAX as f64 {
            total += 1.0 / ((1.0 + group / 3.0) * (1.0 + 0.03 * replicas));
        }
    }
    total
}

/// Puts terms into tables, as far as that serves.
pub fn build<'t>(terms: &[Placed<'t>], family: Family, writer: &mut Writer) -> Hashed<'t> {
    let mut services: HashMap<u32, u32> = HashMap::new();
    let mut rest: Vec<Placed<'t>> = Vec::new();
    let mut open: Vec<(Placed<'t>, Ranges, u32)> = Vec::with_capacity(terms.len());
    for placed in terms {
        let next = services.len() as u32;
        let known = services.contains_key(&placed.0.service);
        match ranges(placed.0, family) {
            Some(ranges) if known || (next as usize) < SERVICES_MAX => {
                let service = *services.entry(placed.0.service).or_insert(next);
                open.push((*placed, ranges, service));
            }
            _ => rest.push(*placed),
        }
    }
    let mut tables = Vec::new();
    while tables.len() < TABLES_MAX && open.len() > REST_ENOUGH {
        let step = open.len().div_ceil(SAMPLE);
        // A stride that is not a multiple of a family's own period.
        let sample: Vec<Ranges> = (0..open.len().min(SAMPLE))
            .map(|at| open[(at * step + at % step.max(1)) % open.len()].1)
            .collect();
        let scale = open.len() as f64 / sample.len() as f64;
        let (cut, score) = choose(&sample, scale, family);
        if score < SHARE_MIN * sample.len() as f64 * 0.3 {
            break;
        }
        let (table, left) = fill(&cut, &open, family, writer);
        if (open.len() - left.len()) as f64 <= SHARE_MIN * open.len() as f64 {
            break;
        }
        tables.push(table);
        open = left;
    }
    rest.extend(open.into_iter().map(|(placed, ..)| placed));
    rest.sort_by_key(|placed| placed.1);
    let mut order: Vec<(u32, u32)> = services.into_iter().map(|(id, bit)| (bit, id)).collect();
    order.sort_unstable();
    Hashed {
        tables,
        services: order.into_iter().map(|(_, id)| id).collect(),
        rest,
    }
}

/// Builds one table; the terms that found no room are left.
#[allow(clippy::type_complexity, reason = "the same triple as in build()")]
fn fill<'t>(
    cut: &Cut,
    open: &[(Placed<'t>, Ranges, u32)],
    family: Family,
    writer: &mut Writer,
) -> (HashTable, Vec<(Placed<'t>, Ranges, u32)>) {
    let replicas = |r: &Ranges| cut.cells(r, family).1;
    let total: u128 = open
        .iter()
        .map(|t| replicas(&t.1))
        .filter(|n| *n <= REPLICAS_MAX)
        .sum();
    let bits = ((total as usize * 2).next_power_of_two().trailing_zeros()).clamp(4, 26);
    let mut table = cut.table(family);
    table.shift = 64 - bits;
    let mut counts = vec![0u8; 1 << bits];
    let mut left = Vec::new();
    let mut taken: Vec<(u32, u32)> = Vec::new();
    let mut slots: Vec<u32> = Vec::new();
    for (number, item) in open.iter().enumerate() {
        if replicas(&item.1) > REPLICAS_MAX {
            left.push(*item);
            continue;
        }
        slots.clear();
        cut.each_key(&item.1, family, |address, ports| {
            slots.push((table_hash(address, ports) >> table.shift) as u32);
        });
        slots.sort_unstable();
        slots.dedup();
        if slots
            .iter()
            .any(|slot| usize::from(counts[*slot as usize]) >= GROUP_MAX)
        {
            left.push(*item);
            continue;
        }
        slots.iter().for_each(|slot| counts[*slot as usize] += 1);
        taken.extend(slots.iter().map(|slot| (*slot, number as u32)));
    }
    taken.sort_unstable();
    let (mut bytes, mut words) = (Vec::new(), vec![0u32; 1 << bits]);
    for (at, (slot, number)) in taken.iter().enumerate() {
        if at == 0 || taken[at - 1].0 != *slot {
            let count = u32::from(counts[*slot as usize]);
            words[*slot as usize] = ((bytes.len() / 32) as u32 * 32) | count;
        }
        let (placed, ranges, service) = &open[*number as usize];
        match family {
            Family::V4 => bytes.extend_from_slice(record4(ranges, placed.1, *service).as_bytes()),
            Family::V6 => bytes.extend_from_slice(record6(ranges, placed.1, *service).as_bytes()),
        }
    }
    table.slots_at = writer.section(words.as_bytes());
    table.groups_at = writer.section(&bytes);
    table.records = taken.len() as u32;
    (table, left)
}

fn port_words(ranges: &Ranges) -> [[u16; 2]; 2] {
    ranges.port.map(|port| [port.0, port.1 - port.0])
}

fn record4(ranges: &Ranges, position: u32, service: u32) -> Record4 {
    let address = ranges.address.map(|a| [a.0 as u32, (a.1 - a.0) as u32]);
    let [src_port, dst_port] = port_words(ranges);
    Record4 {
        src: address[0],
        dst: address[1],
        src_port,
        dst_port,
        position,
        service,
    }
}

fn record6(ranges: &Ranges, position: u32, service: u32) -> Record6 {
    let [src_port, dst_port] = port_words(ranges);
    let mut record = Record6 {
        src_port,
        dst_port,
        position,
        service,
        ..Record6::default()
    };
    let words = |a: u128| [(a >> 64) as u64, a as u64];
    (record.src, record.dst) = (words(ranges.address[0].0), words(ranges.address[1].0));
    for (side, (first, last)) in ranges.address.into_iter().enumerate() {
        // Bits that do not count, low and high half.
        let free = 128 - (first ^ last).leading_zeros();
        record.shifts[side * 2] = free.saturating_sub(64) as u8;
        record.shifts[side * 2 + 1] = free.min(64) as u8;
    }
    record
}
