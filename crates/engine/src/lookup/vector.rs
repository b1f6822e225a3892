//! The first entry that holds, with vectors of 512 bits: the slots of eight tables at once, all
//! words of a chunk at once, four records of a group at once.
//!
//! The only unsafe code of this crate: loads without bounds checks, and instructions that the CPU
//! must have. [`Vector::new`] asks the CPU; offsets come from a checked [`Image`](crate::image),
//! whose every structure has been followed by `image::check` before it can be read here. Equal to
//! [`super::first`], by test.
#![allow(unsafe_code)]

mod rows;

use super::first::Parts;
use super::ready::Ready;
use super::{FACTORS, Key, NONE};
use crate::image::layout::{HashTable, SLOT_FILTER, TABLES_MAX};
use std::arch::x86_64::{
    _MM_HINT_T0, _bzhi_u32, _mm_prefetch, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256,
    _mm256_maskz_compress_epi32, _mm256_or_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm512_add_epi64, _mm512_and_si512, _mm512_cmple_epu16_mask,
    _mm512_cmple_epu32_mask, _mm512_cvtepu32_epi64, _mm512_loadu_si512,
    _mm512_mask_i64gather_epi32, _mm512_mask_testn_epi64_mask, _mm512_maskz_loadu_epi64,
    _mm512_mullo_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_set4_epi32, _mm512_set4_epi64,
    _mm512_shuffle_epi8, _mm512_shuffle_epi32, _mm512_shufflelo_epi16, _mm512_srli_epi64,
    _mm512_srlv_epi32, _mm512_srlv_epi64, _mm512_sub_epi16, _mm512_sub_epi32, _mm512_sub_epi64,
    _mm512_test_epi64_mask, _mm512_xor_si512,
};

/// What a chunk offers to be quick, of those that [`Parts::usual`] gives.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Addresses in three steps, ports in one.
    Wide,
    /// Ports in one.
    Direct,
    /// Neither.
    Plain,
}

/// Packets of one batch.
const BATCH: usize = 16;
/// Places for tables: whole vectors of eight.
const LANES: usize = TABLES_MAX.next_multiple_of(8);

/// The tables of a root, field by field, so that eight are asked at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lanes {
    count: usize,
    source: [u64; LANES],
    destination: [u64; LANES],
    ports: [u64; LANES],
    shift: [u64; LANES],
    slots_at: [u64; LANES],
    groups_at: [u32; LANES],
    /// [`RANGES`] where records hold ranges, else 0.
    kinds: [u32; LANES],
}

/// Of a group: its records hold ranges, not prefixes. Above the four bits of their number.
const RANGES: u32 = 16;

impl Lanes {
    /// Of IPv4 tables.
    pub fn of(tables: &[HashTable]) -> Self {
        let mut lanes = Lanes {
            count: tables.len().min(LANES),
            ..Lanes::default()
        };
        for (at, table) in tables.iter().enumerate().take(LANES) {
            lanes.source[at] = table.masks[1];
            lanes.destination[at] = table.masks[3];
            lanes.ports[at] = table.ports;
            lanes.shift[at] = table.shift.into();
            lanes.slots_at[at] = table.slots_at.into();
            lanes.groups_at[at] = table.groups_at;
            lanes.kinds[at] = if table.record == 32 { RANGES } else { 0 };
        }
        lanes
    }
}

/// Groups that may have a record for a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Groups {
    count: usize,
    /// Where they begin.
    at: [u32; LANES],
    /// How many records, and [`RANGES`].
    records: [u32; LANES],
}

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
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
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

    /// Asks for the line at an offset.
    #[inline(always)]
    fn prefetch(self, at: u32) {
        self.prefetch_line(self.bytes.as_ptr().wrapping_add(at as usize));
    }

    #[inline(always)]
    fn prefetch_line(self, from: *const u8) {
        // SAFETY: prefetching has no effect on memory and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    /// The first position of a root; `last` when no term holds.
    #[inline(always)]
    pub fn first(self, parts: &Parts<'_>, last: u32, key: &Key) -> u32 {
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe {
            match parts.usual() {
                Some((chunk, Form::Wide)) => last.min(self.usual::<true, true>(chunk, key)),
                Some((chunk, Form::Direct)) => last.min(self.usual::<false, true>(chunk, key)),
                Some((chunk, Form::Plain)) => last.min(self.usual::<false, false>(chunk, key)),
                None => self.first_of_parts(parts, last, key),
            }
        }
    }

    /// The first positions for many packets.
    #[inline(always)]
    pub fn first_of_each(self, parts: &Parts<'_>, last: u32, keys: &[Key], out: &mut [u32]) {
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe {
            match parts.usual() {
                Some((chunk, Form::Wide)) => self.each::<true, true>(chunk, last, keys, out),
                Some((chunk, Form::Direct)) => self.each::<false, true>(chunk, last, keys, out),
                Some((chunk, Form::Plain)) => self.each::<false, false>(chunk, last, keys, out),
                None => {
                    for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
                        self.batch(parts, last, keys, out);
                    }
                }
            }
        }
    }

    /// The first term of a chunk of three rows of sixteen words.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn usual<const WIDE: bool, const DIRECT: bool>(self, chunk: &Ready<'_>, key: &Key) -> u32 {
        let rows = self.rows_of::<3, WIDE, DIRECT>(chunk, key);
        // SAFETY: the CPU has the instructions.
        unsafe { self.first_of_16(chunk, &rows) }
    }

    /// The same for many packets: nothing is far away, and one does not wait for another.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn each<const WIDE: bool, const DIRECT: bool>(
        self,
        chunk: &Ready<'_>,
        last: u32,
        keys: &[Key],
        out: &mut [u32],
    ) {
        for (key, out) in keys.iter().zip(out) {
            let rows = self.rows_of::<3, WIDE, DIRECT>(chunk, key);
            // SAFETY: the CPU has the instructions.
            *out = last.min(unsafe { self.first_of_16(chunk, &rows) });
        }
    }

    /// The first positions for at most [`BATCH`] packets: what one of them waits for is asked for
    /// while the others are served.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn batch(self, parts: &Parts<'_>, last: u32, keys: &[Key], out: &mut [u32]) {
        let mut groups = [Groups::default(); BATCH];
        let mut services = [[0u32; 3]; BATCH];
        let mut rows = [[std::ptr::null(); 3]; BATCH];
        // The chunk of each packet, where it is the only one it can meet.
        let mut ahead: [Option<&Ready<'_>>; BATCH] = [None; BATCH];
        if !parts.tables.is_empty() {
            for (groups, key) in groups.iter_mut().zip(keys) {
                self.groups(&parts.lanes, key, groups);
                // More are seldom met; behind the last, the first of some table.
                for at in &groups.at[..4] {
                    self.prefetch(*at);
                }
            }
        }
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            if let [chunk] = parts.chunks_of(key)
                && chunk.row_count == 3
            {
                ahead[at] = Some(chunk);
                rows[at] = self.rows(chunk, key);
                self.prefetch_rows(chunk, &rows[at]);
            }
            if let Some(own) = &parts.services {
                services[at] = self.service_rows(own, key);
            }
        }
        for (at, (key, out)) in keys.iter().zip(out).enumerate().take(BATCH) {
            let best = self.first_in_groups(&groups[at], key, &services[at], last);
            *out = match ahead[at] {
                // SAFETY: the CPU has the instructions.
                Some(chunk) => best.min(unsafe { self.first_in_rows(chunk, &rows[at]) }),
                None => self.first_of_chunks(parts, best, key),
            };
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn first_of_parts(self, parts: &Parts<'_>, last: u32, key: &Key) -> u32 {
        let mut best = last;
        if let Some(services) = &parts.services {
            let mut groups = Groups::default();
            self.groups(&parts.lanes, key, &mut groups);
            let services = self.service_rows(services, key);
            best = self.first_in_groups(&groups, key, &services, last);
        }
        self.first_of_chunks(parts, best, key)
    }

    /// Where all tables have records that may hold for a packet.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn groups(self, lanes: &Lanes, key: &Key, groups: &mut Groups) {
        groups.count = 0;
        let ports =
            u64::from(key.proto) << 32 | u64::from(key.port[0]) << 16 | u64::from(key.port[1]);
        let every = |value: u64| _mm512_set1_epi64(value as i64);
        let mut first = 0;
        while first < lanes.count {
            // SAFETY: eight places from `first` on, which is a multiple of eight below LANES.
            let load = |from: &[u64; LANES]| unsafe {
                _mm512_loadu_si512(from.as_ptr().add(first).cast())
            };
            let part = |value: u64, masks: &[u64; LANES], factor: u64| {
                _mm512_mullo_epi64(_mm512_and_si512(every(value), load(masks)), every(factor))
            };
            let source = part(key.address[0] as u64, &lanes.source, FACTORS[0]);
            let destination = part(key.address[1] as u64, &lanes.destination, FACTORS[1]);
            let ports = part(ports, &lanes.ports, FACTORS[2]);
            let mixed = _mm512_add_epi64(_mm512_add_epi64(source, destination), ports);
            let mixed = _mm512_xor_si512(mixed, _mm512_srli_epi64::<29>(mixed));
            let hash = _mm512_mullo_epi64(mixed, every(FACTORS[3]));
            let shift = load(&lanes.shift);
            let numbers = _mm512_srlv_epi64(hash, shift);
            let places = _mm512_add_epi64(
                _mm512_add_epi64(numbers, numbers),
                _mm512_add_epi64(numbers, numbers),
            );
            let places = _mm512_add_epi64(places, load(&lanes.slots_at));
            let known = ((1u32 << (lanes.count - first).min(8)) - 1) as u8;
            // SAFETY: slots of tables of a checked image, by numbers below their count.
            let slots = unsafe {
                let none = _mm256_setzero_si256();
                let from = self.bytes.as_ptr().cast();
                _mm512_mask_i64gather_epi32::<1>(none, known, places, from)
            };
            let wide = _mm512_cvtepu32_epi64(slots);
            let bit = _mm512_srlv_epi64(hash, _mm512_sub_epi64(shift, every(2)));
            let bit = _mm512_and_si512(bit, every(3));
            let filters = _mm512_srli_epi64::<SLOT_FILTER>(wide);
            let live = _mm512_test_epi64_mask(_mm512_srlv_epi64(filters, bit), every(1));
            let offsets = _mm256_and_si256(slots, _mm256_set1_epi32(0x0fff_fff0));
            // SAFETY: eight places of the arrays, as many behind those taken.
            unsafe {
                let begin = _mm256_loadu_si256(lanes.groups_at.as_ptr().add(first).cast());
                let at = _mm256_maskz_compress_epi32(live, _mm256_add_epi32(begin, offsets));
                let kinds = _mm256_loadu_si256(lanes.kinds.as_ptr().add(first).cast());
                let counts = _mm256_and_si256(slots, _mm256_set1_epi32(15));
                let counts = _mm256_maskz_compress_epi32(live, _mm256_or_si256(counts, kinds));
                _mm256_storeu_si256(groups.at.as_mut_ptr().add(groups.count).cast(), at);
                let records = groups.records.as_mut_ptr().add(groups.count);
                _mm256_storeu_si256(records.cast(), counts);
            }
            groups.count += live.count_ones() as usize;
            first += 8;
        }
    }

    /// The first position that holds in some groups, `last` without. First which records hold by
    /// their addresses, a bit each, then whether their services do: no branch tells one group from
    /// another, so that the CPU waits for all of them at once.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_in_groups(self, groups: &Groups, key: &Key, services: &[u32; 3], last: u32) -> u32 {
        let mut best = last;
        // Eight groups a word, see `group` for the bits of one.
        let mut words = [0u64; LANES / 8];
        for number in 0..groups.count.min(LANES) {
            let (at, records) = (groups.at[number], groups.records[number]);
            if records & RANGES == 0 {
                let holds = self.group(at, records & 15, key);
                words[number / 8] |= u64::from(holds) << (number % 8 * 8);
            } else {
                best = best.min(self.group_of_ranges(at, records & 15, key, services));
            }
        }
        for (word, at) in words.iter_mut().zip(groups.at.as_chunks::<8>().0) {
            while *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                let record = (bit >> 1 & 3) | (bit & 1) << 2;
                let from = at[(bit >> 3) as usize & 7] + record * 16;
                let tail: u64 = self.at(from + 8);
                let served = self.served((tail >> 32) as u32 & 0xffff, services);
                best = best.min(tail as u32 | u32::from(served).wrapping_sub(1));
            }
        }
        best
    }

    /// The first position of the chunks that a packet can meet, if it is before `best`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_of_chunks(self, parts: &Parts<'_>, best: u32, key: &Key) -> u32 {
        let chunks = parts.chunks_of(key);
        if let [chunk] = chunks {
            // SAFETY: the CPU has the instructions.
            return best.min(unsafe { self.first_of_chunk(chunk, key) });
        }
        for chunk in chunks {
            if chunk.least >= best {
                break;
            }
            // SAFETY: the CPU has the instructions.
            let found = unsafe { self.first_of_chunk(chunk, key) };
            if found != NONE {
                return best.min(found);
            }
        }
        best
    }

    /// The first position of a group of `layout::Record4` that holds, two records at once.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn group_of_ranges(self, at: u32, count: u32, key: &Key, services: &[u32; 3]) -> u32 {
        // Each field twice: in the place of its first value, and of last less first.
        let address = |side: usize| (u64::from(key.address[side] as u32) * 0x1_0000_0001) as i64;
        let (source, destination) = (address(0), address(1));
        let [low, high] = key.port.map(|port| i64::from(port) * 0x1_0001);
        let ports = low | high << 32;
        let own = _mm512_set_epi64(0, ports, destination, source, 0, ports, destination, source);
        let mut first = 0;
        while first < count {
            let two = count - first > 1;
            let from = self.bytes.as_ptr().wrapping_add((at + first * 32) as usize);
            let lanes = if two { 0xff } else { 0x0f };
            // SAFETY: only lanes of records that the group has are read.
            let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
            let wide = _mm512_sub_epi32(own, _mm512_shuffle_epi32::<0b10_10_00_00>(records));
            let wide = u32::from(_mm512_cmple_epu32_mask(wide, records));
            let narrow = _mm512_sub_epi16(own, _mm512_shufflelo_epi16::<0b10_10_00_00>(records));
            let narrow = _mm512_cmple_epu16_mask(narrow, records);
            for number in 0..1 + u32::from(two) {
                let addresses = wide >> (number * 8) & 0b1010 == 0b1010;
                let ports = narrow >> (number * 16) & 0b1010 << 8 == 0b1010 << 8;
                let record = at + (first + number) * 32;
                if addresses && ports && self.served(self.at(record + 28), services) {
                    return self.at(record + 24);
                }
            }
            first += 2;
        }
        NONE
    }

    /// Whether a service's bit is set in all rows.
    #[inline(always)]
    fn served(self, service: u32, services: &[u32; 3]) -> bool {
        let word = |row: u32| self.at::<u64>(row + (service >> 6) * 8);
        let all = word(services[0]) & word(services[1]) & word(services[2]);
        all >> (service & 63) & 1 != 0
    }

    /// Which records of a group hold by their addresses: bit `2 n` for the first four, `2 n + 1`
    /// for the others.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn group(self, at: u32, count: u32, key: &Key) -> u8 {
        let pair = key.address[0] as u32 as i64 | (key.address[1] as u32 as i64) << 32;
        let own = _mm512_set4_epi64(0, pair, 0, pair);
        // Of each record, bytes 14 and 15 to the low bytes of its first two numbers.
        let pick = _mm512_set4_epi32(-1, -1, !0xff | 15, !0xff | 14);
        let lanes = _bzhi_u32(0xffff, count * 2);
        let half = |lanes: u8, at: u32| {
            let from = self.bytes.as_ptr().wrapping_add(at as usize);
            // SAFETY: only lanes of records that the group has are read.
            let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
            let shifts = _mm512_shuffle_epi8(records, pick);
            let differs = _mm512_srlv_epi32(_mm512_xor_si512(records, own), shifts);
            _mm512_mask_testn_epi64_mask(lanes & 0x55, differs, differs)
        };
        let first = half(lanes as u8, at);
        match lanes >> 8 {
            0 => first,
            // Seldom: reading on would ask for a line for nothing.
            more => first | half(more as u8, at + 64) << 1,
        }
    }
}
