//! Bit vectors: for each field a map from its value to a row with one bit per term.
//!
//! The AND of the rows that a packet's fields lead to is the set of terms that hold, in evaluation
//! order. Two values share a row exactly when the same terms allow them. Rows of more than one word
//! begin with a summary word that has a bit for each word that is not zero. The idea is that of
//! Lakshman and Stiliadis (SIGCOMM 1998) with the aggregation of Baboescu and Varghese (2001).

use super::Error;
use super::interfaces::Interfaces;
use super::service::{Bits, Service, Services};
use super::span::{Field, Span};
use super::term::{Term, address_last};
use crate::image::layout::{
    self, AddressMap, CHUNK_TERMS_MAX, Chunk, DIM_DST, DIM_DST_PORT, DIM_PROTO, DIM_SRC,
    DIM_SRC_PORT, Map, SEARCH_STEPS_MAX,
};
use crate::image::write::Writer;
use std::collections::HashMap;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Rows under construction, equal ones once.
struct Rows {
    words: usize,
    stride: usize,
    bytes: Vec<u8>,
    /// Numbers of rows by a hash of their bits.
    numbers: HashMap<u64, Vec<u32>>,
    count: u32,
}

/// The interface classes that a service names; `None` for all of them.
type ClassesOf = fn(&Service) -> &Option<Vec<u64>>;

impl Rows {
    fn new(words: usize) -> Self {
        let stride = if words == 1 { 8 } else { (words + 1) * 8 };
        Rows {
            words,
            stride,
            bytes: Vec::new(),
            numbers: HashMap::new(),
            count: 0,
        }
    }

    /// The number of a row. `hash` must be a function of the bits.
    fn number(&mut self, bits: &[u64], hash: u64) -> u32 {
        let (stride, skip) = (self.stride, self.stride - self.words * 8);
        let numbers = self.numbers.entry(hash).or_default();
        for &number in numbers.iter() {
            let at = number as usize * stride + skip;
            if self.bytes[at..at + self.words * 8] == *bits.as_bytes() {
                return number;
            }
        }
        if skip > 0 {
            let summary = bits.iter().enumerate();
            let summary = summary.fold(0u64, |all, (at, w)| all | u64::from(*w != 0) << at);
            self.bytes.extend_from_slice(&summary.to_le_bytes());
        }
        self.bytes.extend_from_slice(bits.as_bytes());
        numbers.push(self.count);
        self.count += 1;
        self.count - 1
    }
}

/// A pseudo-random word for a bit, so that the hash of a row changes with each bit in O(1).
fn spread(bit: usize) -> u64 {
    let mut x = (bit as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Intervals (first value, row) that cover the whole field.
fn sweep<'t, T: Field + 't>(
    spans: impl Iterator<Item = &'t Span<T>>,
    top: T,
    rows: &mut Rows,
) -> Vec<(T, u32)> {
    let mut bits = vec![0u64; rows.words];
    let mut hash = 0;
    let mut events: Vec<(T, u32)> = Vec::new();
    for (bit, span) in spans.enumerate() {
        if let Span::Any = span {
            bits[bit / 64] |= 1 << (bit % 64);
            hash ^= spread(bit);
            continue;
        }
        span.each(top, |first, last| {
            events.push((first, bit as u32));
            if let Some(next) = last.next()
                && next <= top
            {
                events.push((next, bit as u32));
            }
        });
    }
    events.sort_unstable();
    let mut out: Vec<(T, u32)> = Vec::with_capacity(events.len() + 1);
    let mut at = 0;
    let mut value = T::MIN;
    loop {
        while at < events.len() && events[at].0 == value {
            let bit = events[at].1 as usize;
            bits[bit / 64] ^= 1 << (bit % 64);
            hash ^= spread(bit);
            at += 1;
        }
        let row = rows.number(&bits, hash);
        if out.last().is_none_or(|last| last.1 != row) {
            out.push((value, row));
        }
        match events.get(at) {
            Some(event) => value = event.0,
            None => return out,
        }
    }
}

/// What building chunks needs to know.
pub struct Builder<'a> {
    /// Family of the root.
    pub family: Family,
    /// Interface classes.
    pub interfaces: &'a Interfaces,
    /// Services that terms name.
    pub services: &'a Services,
}

impl Builder<'_> {
    /// Builds a chunk over terms in evaluation order. Sections go to `writer`.
    pub fn chunk(&self, terms: &[(&Term, u32)], writer: &mut Writer) -> Result<Chunk, Error> {
        assert!(
            !terms.is_empty() && terms.len() <= CHUNK_TERMS_MAX,
            "the caller cuts chunks"
        );
        let words = terms.len().div_ceil(64);
        let positions: Vec<u32> = terms.iter().map(|t| t.1).collect();
        let mut chunk = Chunk {
            words: words as u32,
            terms: terms.len() as u32,
            positions_at: writer.section(positions.as_bytes()),
            stride: Rows::new(words).stride as u32,
            ones: u64::MAX,
            ..Chunk::default()
        };
        for side in 0..2 {
            if terms.iter().any(|t| t.0.port[side] != Span::Any) {
                chunk.used |= 1 << (DIM_SRC_PORT + side);
                chunk.ports[side] = ports(terms, side, words, writer);
            }
            if terms.iter().any(|t| t.0.address[side] != Span::Any) {
                chunk.used |= 1 << (DIM_SRC + side);
                chunk.addresses[side] = self.addresses(terms, side, words, writer)?;
            }
        }
        self.small(terms, words, &mut chunk, writer);
        Ok(chunk)
    }

    fn addresses(
        &self,
        terms: &[(&Term, u32)],
        side: usize,
        words: usize,
        writer: &mut Writer,
    ) -> Result<AddressMap, Error> {
        let mut rows = Rows::new(words);
        let top = address_last(self.family);
        let bounds = sweep(terms.iter().map(|t| &t.0.address[side]), top, &mut rows);
        let mut map = address_index(&bounds, writer)?;
        match self.family {
            Family::V4 => {
                let pairs: Vec<[u32; 2]> = bounds.iter().map(|b| [b.0 as u32, b.1]).collect();
                map.bounds_at = writer.section(pairs.as_bytes());
            }
            Family::V6 => {
                let firsts: Vec<[u64; 2]> = bounds
                    .iter()
                    .map(|b| [(b.0 >> 64) as u64, b.0 as u64])
                    .collect();
                map.bounds_at = writer.section(firsts.as_bytes());
                let classes: Vec<u32> = bounds.iter().map(|b| b.1).collect();
                map.classes_at = writer.section(classes.as_bytes());
            }
        }
        (map.rows_at, map.rows) = (writer.section(&rows.bytes), rows.count);
        Ok(map)
    }

    /// The maps of the small fields that terms distinguish.
    fn small(&self, terms: &[(&Term, u32)], words: usize, chunk: &mut Chunk, writer: &mut Writer) {
        let service = |t: &(&Term, u32)| self.services.get(t.0.service);
        let mut ids: Vec<u32> = terms.iter().map(|t| t.0.service).collect();
        ids.sort_unstable();
        ids.dedup();
        let bytes: [fn(&Service) -> Bits; 3] = [|s| s.proto, |s| s.kind, |s| s.flags];
        for (at, field) in bytes.into_iter().enumerate() {
            // A chunk has at least one map, so that its rows say how many terms there are.
            let needed = at == 0 && chunk.used == 0;
            let open = |id: &u32| field(self.services.get(*id)) == Bits::ALL;
            if !needed && ids.iter().all(open) {
                continue;
            }
            chunk.used |= 1 << (DIM_PROTO + at);
            let sets = terms.iter().map(|t| field(service(t)));
            chunk.small[at] = small_map(sets, 256, |set, v| set.has(v as u8), words, writer);
        }
        let classes: [ClassesOf; 2] = [|s| &s.input, |s| &s.output];
        for (at, field) in classes.into_iter().enumerate() {
            if ids.iter().all(|id| field(self.services.get(*id)).is_none()) {
                continue;
            }
            chunk.used |= 1 << (layout::DIM_IN + at);
            let sets = terms.iter().map(|t| field(service(t)));
            let has = |set: &&Option<Vec<u64>>, v: usize| {
                set.as_ref()
                    .is_none_or(|bits| bits[v / 64] >> (v % 64) & 1 != 0)
            };
            let values = self.interfaces.classes();
            chunk.small[3 + at] = small_map(sets, values, has, words, writer);
        }
    }
}

/// The index over equal cells in front of the search, and how many steps the search then takes.
fn address_index(bounds: &[(u128, u32)], writer: &mut Writer) -> Result<AddressMap, Error> {
    let base = bounds.get(1).map_or(0, |b| b.0);
    let end = bounds.last().map_or(0, |b| b.0);
    // About as many cells as intervals; the last one reaches to the end of the field.
    let cells_log = bounds.len().next_power_of_two().trailing_zeros().min(20);
    let width = 128 - (end - base).leading_zeros();
    let shift = width.saturating_sub(cells_log);
    let cell_last = ((end - base) >> shift) as usize;
    let mut index = Vec::with_capacity(cell_last + 2);
    for cell in 0..=cell_last {
        let first = if cell == 0 {
            0
        } else {
            base + ((cell as u128) << shift)
        };
        index.push(bounds.partition_point(|b| b.0 <= first).saturating_sub(1) as u32);
    }
    index.push(bounds.len() as u32 - 1);
    let longest = index.windows(2).map(|w| w[1] - w[0] + 1).max().unwrap_or(1);
    let steps = u32::BITS - (longest - 1).leading_zeros();
    if steps > SEARCH_STEPS_MAX {
        let limit = 1 << SEARCH_STEPS_MAX;
        return Err(Error::Addresses {
            given: longest as usize,
            limit,
        });
    }
    Ok(AddressMap {
        base: [(base >> 64) as u64, base as u64],
        shift,
        cell_last: cell_last as u32,
        index_at: writer.section(index.as_bytes()),
        bounds: bounds.len() as u32,
        steps,
        ..AddressMap::default()
    })
}

fn ports(terms: &[(&Term, u32)], side: usize, words: usize, writer: &mut Writer) -> Map {
    let mut rows = Rows::new(words);
    let bounds = sweep(terms.iter().map(|t| &t.0.port[side]), u16::MAX, &mut rows);
    let mut values = vec![0u16; 1 << 16];
    for (at, (first, row)) in bounds.iter().enumerate() {
        let until = bounds
            .get(at + 1)
            .map_or(values.len(), |b| usize::from(b.0));
        values[usize::from(*first)..until].fill(*row as u16);
    }
    let mut numbers: HashMap<&[u16], u16> = HashMap::new();
    let mut tops = Vec::with_capacity(256);
    let mut blocks: Vec<u16> = Vec::new();
    for block in values.chunks_exact(256) {
        let next = numbers.len() as u16;
        let number = *numbers.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            next
        });
        tops.push(number);
    }
    let blocks_count = numbers.len() as u32;
    tops.extend_from_slice(&blocks);
    Map {
        table_at: writer.section(tops.as_bytes()),
        values: blocks_count,
        rows_at: writer.section(&rows.bytes),
        rows: rows.count,
    }
}

/// The map of a field with few values: the row of each.
fn small_map<S: Clone + Eq + std::hash::Hash>(
    sets: impl Iterator<Item = S>,
    values: usize,
    has: impl Fn(&S, usize) -> bool,
    words: usize,
    writer: &mut Writer,
) -> Map {
    let mut distinct: Vec<(S, Vec<u64>)> = Vec::new();
    let mut numbers: HashMap<S, usize> = HashMap::new();
    for (bit, set) in sets.enumerate() {
        let at = *numbers.entry(set.clone()).or_insert_with(|| {
            distinct.push((set, vec![0; words]));
            distinct.len() - 1
        });
        distinct[at].1[bit / 64] |= 1 << (bit % 64);
    }
    let mut rows = Rows::new(words);
    let mut table = Vec::with_capacity(values);
    for value in 0..values {
        let mut bits = vec![0u64; words];
        let mut hash = 0;
        for (at, (set, terms)) in distinct.iter().enumerate() {
            if has(set, value) {
                bits.iter_mut()
                    .zip(terms)
                    .for_each(|(all, own)| *all |= own);
                hash ^= spread(at);
            }
        }
        table.push(rows.number(&bits, hash) as u16);
    }
    Map {
        table_at: writer.section(table.as_bytes()),
        values: values as u32,
        rows_at: writer.section(&rows.bytes),
        rows: rows.count,
    }
}

/// Number of loads of one packet in a chunk, without the entries.
pub fn worst_loads(chunk: &Chunk) -> u32 {
    let dims = chunk.used.count_ones();
    let maps: u32 = chunk.addresses.iter().map(|map| 3 + map.steps).sum::<u32>() + 4 + 5;
    maps + dims * (1 + chunk.words)
}

const _: () = assert!(DIM_DST == 1 && DIM_DST_PORT == DIM_SRC_PORT + 1);
