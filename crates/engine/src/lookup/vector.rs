//! The first entry that holds, with vectors of 512 bits: all words of a chunk at once, four records
//! of a group at once, and no branch that depends on data before the answer.
//!
//! The only unsafe code of this crate: loads without bounds checks, and instructions that the CPU
//! must have. [`Vector::new`] asks the CPU; offsets come from a checked [`Image`](crate::image),
//! whose every structure has been followed by `image::check` before it can be read here. Equal to
//! [`super::first`], by test.
#![allow(unsafe_code)]

use super::first::Parts;
use super::{Key, NONE, hashed};
use crate::image::layout::{
    AddressMap, Chunk, FOLD_LINKS, FOLD_PORTS, Fold, HashTable, Map, TABLES_MAX,
};
use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_maskz_loadu_epi64, _mm512_set4_epi32, _mm512_set4_epi64,
    _mm512_shuffle_epi8, _mm512_srlv_epi32, _mm512_storeu_si512, _mm512_test_epi32_mask,
    _mm512_test_epi64_mask, _mm512_xor_si512,
};

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

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2")]
    fn first_of_parts(self, parts: &Parts, last: u32, key: &Key) -> u32 {
        let mut best = last;
        if !parts.tables.is_empty() {
            let mut slots = [0u32; TABLES_MAX];
            for (slot, table) in slots.iter_mut().zip(&parts.tables) {
                *slot = self.at(table.slots_at + hashed::slot_number(table, key) * 4);
            }
            let services = self.fold_row(&parts.fold, key);
            for (slot, table) in slots.iter().zip(&parts.tables) {
                if *slot != 0 {
                    best = best.min(self.group(table, *slot, key, services));
                }
            }
        }
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
            let low = self.and_words(&rows, from, left.min(8));
            let high = self.and_words(&rows, from + 8, left.saturating_sub(8).min(8));
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
        let mut holds = 0u32;
        for half in 0..2 {
            let left = count.saturating_sub(half * 4).min(4);
            if half > 0 && left == 0 {
                break;
            }
            let lanes = ((1u32 << (left * 2)) - 1) as u8;
            let from = self.bytes.as_ptr().wrapping_add((at + half * 64) as usize);
            // SAFETY: only lanes of records that the group has are read.
            let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
            let shifts = _mm512_shuffle_epi8(records, pick);
            let differs = _mm512_srlv_epi32(_mm512_xor_si512(records, own), shifts);
            let differs = u32::from(_mm512_test_epi32_mask(differs, differs));
            let valid = (1u32 << (left * 4)) - 1;
            holds |= (!(differs | differs >> 1) & 0x1111 & valid) << (half * 16);
        }
        while holds != 0 {
            let record = at + holds.trailing_zeros() * 4;
            let service = self.small(record + 12, 0);
            let word: u64 = self.at(services + (service >> 6) * 8);
            if word >> (service & 63) & 1 != 0 {
                return self.at(record + 8);
            }
            holds &= holds - 1;
        }
        NONE
    }
}
