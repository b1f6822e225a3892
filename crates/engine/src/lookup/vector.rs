//! The first entry that holds, with vectors of 512 bits: all words of a chunk at once, four records
//! of a group at once, and no branch that depends on data before the answer.
//!
//! The only unsafe code of this crate: loads without bounds checks, and instructions that the CPU
//! must have. [`Vector::new`] asks the CPU; offsets come from a checked [`Image`](crate::image),
//! whose every structure has been followed by `image::check` before it can be read here. Equal to
//! [`super::first`], by test.
#![allow(unsafe_code)]

use super::first::Parts;
use super::{Key, NONE, hashed, slot_filter};
use crate::image::layout::{
    AddressMap, Chunk, FOLD_LINKS, FOLD_PORTS, Fold, HashTable, Map, TABLES_MAX,
};
use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_and_si512, _mm512_maskz_loadu_epi64,
    _mm512_set4_epi32, _mm512_set4_epi64, _mm512_shuffle_epi8, _mm512_srlv_epi32,
    _mm512_storeu_si512, _mm512_test_epi32_mask, _mm512_test_epi64_mask, _mm512_xor_si512,
};

/// Packets of one batch.
pub const BATCH: usize = 16;

/// Proof that the CPU has the instructions, over the bytes of a checked image.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'b> {
    bytes: &'b [u8],
}

impl<'b> Vector<'b> {
    /// The bytes must be a checked image's. `None` when the CPU lacks instructions.
    pub fn new(bytes: &'b [u8]) -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Vector { bytes })
    }

    /// A value at an offset.
    #[inline(always)]
    fn at<T: Copy>(self, at: u32) -> T {
        debug_assert!(at as usize + size_of::<T>() <= self.bytes.len());
        // SAFETY: `at` was reached from a checked image's structures, so that the value lies
        // inside; T is a plain number, and the read needs no alignment.
        unsafe {
            let from = self.bytes.as_ptr().add(at as usize);
            from.cast::<T>().read_unaligned()
        }
    }

    #[inline(always)]
    fn small(self, at: u32, index: u32) -> u32 {
        self.at::<u16>(at + index * 2).into()
    }

    /// The group of a hash in a table: offset and number of records.
    #[inline(always)]
    fn slot(self, table: &HashTable, hash: u64) -> u32 {
        let slot = self.at(table.slots_at + (hash >> table.shift) as u32 * 4);
        let (offset, count) = hashed::group_of(slot, slot_filter(hash, table.shift));
        offset | count
    }

    /// Asks for the line at an offset.
    #[inline(always)]
    fn prefetch(self, at: u32) {
        let from = self.bytes.as_ptr().wrapping_add(at as usize);
        // SAFETY: prefetching has no effect on memory and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    fn tree_class(self, map: &AddressMap, address: u32) -> u32 {
        let cell = |number: u32| self.at::<u32>(map.tree_at + number * 4);
        let mut at = cell(map.rows + (address >> 24));
        at = cell((at >> 8) + (address >> 16 & at & 255));
        at = cell((at >> 8) + (address >> 8 & at & 255));
        at = cell((at >> 8) + (address & at & 255));
        at >> 8
    }

    #[inline(always)]
    fn port_class(self, map: &Map, port: u16) -> u32 {
        let block = self.small(map.table_at, u32::from(port >> 8));
        self.small(map.table_at + 512 + block * 512, u32::from(port & 255))
    }

    /// Where the row is that all fields but the addresses lead to.
    #[inline(always)]
    pub fn fold_row(self, fold: &Fold, key: &Key) -> u32 {
        let by = |at: usize, value: u32| self.small(fold.small_at[at], value);
        let form = by(0, key.proto.into()) + by(1, key.kind.into()) + by(2, key.flags.into());
        let mut cell = self.small(fold.forms_at, form);
        if fold.used & FOLD_LINKS != 0 {
            let link = by(3, key.class[0].into()) + by(4, key.class[1].into());
            let link = self.small(fold.links_at, link);
            cell = self.small(fold.smalls_at, cell * fold.link_classes + link);
        }
        if fold.used & FOLD_PORTS != 0 {
            let source = self.port_class(&fold.ports[0], key.port[0]);
            let destination = self.port_class(&fold.ports[1], key.port[1]);
            let pair = source * fold.ports[1].rows + destination;
            cell += self.small(fold.pairs_at, pair) * fold.small_classes;
        }
        fold.rows_at + self.small(fold.cells_at, cell) * fold.stride
    }

    /// Whether a chunk can be walked here.
    pub fn takes(chunk: &Chunk) -> bool {
        chunk.addresses.iter().all(|map| map.tree > 0)
    }

    /// The first position of a root without a split tree; `last` when no term holds.
    #[inline(always)]
    pub fn first(self, parts: &Parts, last: u32, key: &Key) -> u32 {
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe { self.first_of_parts(parts, last, key) }
    }

    /// The first positions for at most [`BATCH`] packets: what one of them waits for is asked for
    /// while the others are served.
    #[inline(always)]
    pub fn first_of_each(self, parts: &Parts, last: u32, keys: &[Key], out: &mut [u32]) {
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe { self.batch(parts, last, keys, out) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    fn batch(self, parts: &Parts, last: u32, keys: &[Key], out: &mut [u32]) {
        // Hashes, then slots.
        let mut slots = [[0u64; BATCH]; TABLES_MAX];
        let mut services = [0u32; BATCH];
        let mut rows = [[0u32; 3]; BATCH];
        // The chunk of each packet, where it is the only one it can meet.
        let mut ahead: [Option<&Chunk>; BATCH] = [None; BATCH];
        for (slots, table) in slots.iter_mut().zip(&parts.tables) {
            for (slot, key) in slots.iter_mut().zip(keys) {
                *slot = hashed::hash_of(table, key);
                self.prefetch(table.slots_at + (*slot >> table.shift) as u32 * 4);
            }
        }
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            if let [(chunk, _)] = parts.chunks_of(key)
                && chunk.rows == 3
                && chunk.words > 1
            {
                ahead[at] = Some(chunk);
                rows[at] = self.rows(chunk, key);
                for row in rows[at] {
                    self.prefetch(row);
                    self.prefetch(row + 64);
                }
            }
            if !parts.tables.is_empty() {
                services[at] = self.fold_row(&parts.fold, key);
            }
        }
        for (slots, table) in slots.iter_mut().zip(&parts.tables) {
            for slot in slots.iter_mut().take(keys.len()) {
                let group = self.slot(table, *slot);
                *slot = group.into();
                if group & 15 != 0 {
                    self.prefetch(table.groups_at + (group & !15));
                    self.prefetch(table.groups_at + (group & !15) + 48);
                }
            }
        }
        for (at, (key, out)) in keys.iter().zip(out).enumerate().take(BATCH) {
            let mut best = last;
            for (slots, table) in slots.iter().zip(&parts.tables) {
                best = best.min(self.group(table, slots[at] as u32, key, services[at]));
            }
            *out = match ahead[at] {
                Some(chunk) => best.min(self.first_in_rows(chunk, &rows[at])),
                None => self.first_of_chunks(parts, best, key),
            };
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    fn first_of_parts(self, parts: &Parts, last: u32, key: &Key) -> u32 {
        let mut best = last;
        if !parts.tables.is_empty() {
            let mut slots = [0u32; TABLES_MAX];
            for (slot, table) in slots.iter_mut().zip(&parts.tables) {
                *slot = self.slot(table, hashed::hash_of(table, key));
            }
            let services = self.fold_row(&parts.fold, key);
            for (slot, table) in slots.iter().zip(&parts.tables) {
                best = best.min(self.group(table, *slot, key, services));
            }
        }
        self.first_of_chunks(parts, best, key)
    }

    /// The first position of the chunks that a packet can meet, if it is before `best`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn first_of_chunks(self, parts: &Parts, best: u32, key: &Key) -> u32 {
        for (chunk, least) in parts.chunks_of(key) {
            if *least >= best {
                break;
            }
            let found = if chunk.rows == 3 {
                self.chunk::<3>(chunk, key)
            } else {
                self.chunk::<5>(chunk, key)
            };
            if found != NONE {
                return best.min(found);
            }
        }
        best
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn chunk<const ROWS: usize>(self, chunk: &Chunk, key: &Key) -> u32 {
        self.first_in_rows(chunk, &self.rows::<ROWS>(chunk, key))
    }

    /// Where the rows of a chunk are that a packet's fields lead to.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn rows<const ROWS: usize>(self, chunk: &Chunk, key: &Key) -> [u32; ROWS] {
        let [source, destination] = &chunk.addresses;
        let stride = chunk.stride;
        let mut rows = [0; ROWS];
        rows[0] = source.rows_at + stride * self.tree_class(source, key.address[0] as u32);
        rows[1] =
            destination.rows_at + stride * self.tree_class(destination, key.address[1] as u32);
        rows[2] = self.fold_row(&chunk.fold, key);
        for side in 0..ROWS - 3 {
            let map = &chunk.ports[side];
            rows[3 + side] = map.rows_at + stride * self.port_class(map, key.port[side]);
        }
        rows
    }

    /// The position of the first term that holds by all rows; [`NONE`] without.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn first_in_rows<const ROWS: usize>(self, chunk: &Chunk, rows: &[u32; ROWS]) -> u32 {
        if chunk.words == 1 {
            let word = rows
                .iter()
                .fold(u64::MAX, |word, row| word & self.at::<u64>(*row));
            return match word {
                0 => NONE,
                word => self.at(chunk.positions_at + word.trailing_zeros() * 4),
            };
        }
        let mut from = 0;
        while from < chunk.words {
            let left = chunk.words - from;
            let low = self.and_words(rows, from, left.min(8));
            let high = self.and_words(rows, from + 8, left.saturating_sub(8).min(8));
            let found = u32::from(_mm512_test_epi64_mask(low, low))
                | u32::from(_mm512_test_epi64_mask(high, high)) << 8;
            if found != 0 {
                let mut words = [0u64; 16];
                // SAFETY: eight words each, of sixteen.
                unsafe {
                    _mm512_storeu_si512(words.as_mut_ptr().cast(), low);
                    _mm512_storeu_si512(words.as_mut_ptr().add(8).cast(), high);
                }
                let at = found.trailing_zeros();
                let bit = words[at as usize & 15].trailing_zeros();
                return self.at(chunk.positions_at + ((from + at) * 64 + bit) * 4);
            }
            from += 16;
        }
        NONE
    }

    /// The AND of `count` words of rows from word `first` on; zero behind them.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn and_words<const ROWS: usize>(self, rows: &[u32; ROWS], first: u32, count: u32) -> __m512i {
        let lanes = ((1u32 << count) - 1) as u8;
        let load = |row: u32| {
            let from = self
                .bytes
                .as_ptr()
                .wrapping_add((row + 8 + first * 8) as usize);
            // SAFETY: only lanes of words that the row has are read.
            unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) }
        };
        let mut all = load(rows[0]);
        for row in &rows[1..] {
            all = _mm512_and_si512(all, load(*row));
        }
        all
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    #[inline]
    fn group(self, table: &HashTable, slot: u32, key: &Key, services: u32) -> u32 {
        let count = slot & 15;
        let at = table.groups_at + (slot & !15);
        let pair = key.address[0] as u32 as i64 | (key.address[1] as u32 as i64) << 32;
        let own = _mm512_set4_epi64(0, pair, 0, pair);
        // Of each record, bytes 14 and 15 to the low bytes of its first two numbers.
        let pick = _mm512_set4_epi32(-1, -1, !0xff | 15, !0xff | 14);
        let half = |first: u32| {
            let left = count.saturating_sub(first).min(4);
            let lanes = ((1u32 << (left * 2)) - 1) as u8;
            let from = self.bytes.as_ptr().wrapping_add((at + first * 16) as usize);
            // SAFETY: only lanes of records that the group has are read.
            let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
            let shifts = _mm512_shuffle_epi8(records, pick);
            let differs = _mm512_srlv_epi32(_mm512_xor_si512(records, own), shifts);
            let differs = u32::from(_mm512_test_epi32_mask(differs, differs));
            !(differs | differs >> 1) & 0x1111 & ((1u32 << (left * 4)) - 1)
        };
        let mut holds = half(0) | half(4) << 16;
        // Without a branch as long as no two records hold by their addresses: whether one does is
        // hard to foretell. Without any, the first place is read for nothing; it exists.
        loop {
            let record = at + (holds.trailing_zeros() & 28) * 4;
            let service = self.small(record + 12, 0);
            let word: u64 = self.at(services + (service >> 6) * 8);
            let served = (word >> (service & 63)) as u32 & u32::from(holds != 0) & 1;
            let position = self.at::<u32>(record + 8) | served.wrapping_sub(1);
            holds &= holds.wrapping_sub(1);
            if holds == 0 || served != 0 {
                return position;
            }
        }
    }
}
