//! Groups of hashed tables by vectors: the slots of eight tables at once, four records at once.
//!
//! In: a packet, the tables of a root. Out: the first position that holds. Which groups are read is
//! told by slots alone, and nothing that is read in a group decides what is done next: records lie
//! far away, and a branch on them that was foretold wrong would wait for them.

use super::Vector;
use crate::image::layout::{HashTable, SLOT_FILTER, SLOT_OFFSET, TABLES_MAX};
use crate::lookup::ready::Services;
use crate::lookup::{FACTORS, Key};
use std::arch::x86_64::{
    __m256i, __m512i, _bzhi_u32, _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_extract_epi32,
    _mm_extract_epi64, _mm_insert_epi32, _mm_min_epu64, _mm256_add_epi32, _mm256_and_si256,
    _mm256_castsi128_si256, _mm256_castsi256_si128, _mm256_cmpgt_epi32_mask,
    _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_loadu_si256,
    _mm256_maskz_compress_epi32, _mm256_min_epu32, _mm256_min_epu64, _mm256_set1_epi32,
    _mm256_storeu_si256, _mm512_add_epi64, _mm512_and_si512, _mm512_castsi512_si256,
    _mm512_cvtepi64_epi32, _mm512_cvtepu32_epi64, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_mask_blend_epi64, _mm512_mask_min_epu64, _mm512_mask_test_epi64_mask,
    _mm512_mask_testn_epi64_mask, _mm512_maskz_loadu_epi64, _mm512_mullo_epi64,
    _mm512_permutex2var_epi64, _mm512_permutexvar_epi64, _mm512_rorv_epi64, _mm512_set1_epi64,
    _mm512_set4_epi32, _mm512_set4_epi64, _mm512_shuffle_epi8, _mm512_shuffle_epi32,
    _mm512_slli_epi64, _mm512_srli_epi64, _mm512_srlv_epi32, _mm512_srlv_epi64, _mm512_sub_epi64,
    _mm512_test_epi64_mask, _mm512_xor_si512,
};
use std::mem::MaybeUninit;

/// Places for tables: whole vectors of eight.
const LANES: usize = TABLES_MAX.next_multiple_of(8);
/// Places for groups in halves of four records, and for a whole vector behind them.
const HALVES: usize = 2 * LANES + 8;
/// Vectors of the largest row of services.
const ROW: usize = 8;

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
    /// Of each eight tables, which have records of ranges, not prefixes.
    ranges: [u8; LANES / 8],
}

impl Lanes {
    /// Of IPv4 tables.
    pub fn of(tables: &[HashTable]) -> Self {
        let mut lanes = Lanes {
            count: tables.len().min(LANES),
            ..Lanes::default()
        };
        // Lanes without a table have the first one once more.
        let first = tables.iter().take(1).cycle();
        for (at, table) in tables.iter().chain(first).enumerate().take(LANES) {
            lanes.source[at] = table.masks[1];
            lanes.destination[at] = table.masks[3];
            lanes.ports[at] = table.ports;
            lanes.shift[at] = table.shift.into();
            lanes.slots_at[at] = table.slots_at.into();
            lanes.groups_at[at] = table.groups_at;
            lanes.ranges[at / 8] |= u8::from(table.record == 32) << (at % 8);
        }
        lanes
    }
}

impl Lanes {
    /// The numbers of a packet's slots in the first eight tables, and in the lowest two bits which
    /// bit of their filters is the packet's.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn numbers(&self, key: &Key) -> __m256i {
        let hash = hash_of(self.sums(0, key));
        let shift = _mm512_sub_epi64(eight(&self.shift, 0), every(2));
        _mm512_cvtepi64_epi32(_mm512_srlv_epi64(hash, shift))
    }

    /// The sums of the products of a packet's fields and the masks of eight tables from number
    /// `first` on, a multiple of eight.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn sums(&self, first: usize, key: &Key) -> __m512i {
        let part = |value: u64, masks: &[u64; LANES], factor: u64| {
            _mm512_mullo_epi64(
                _mm512_and_si512(every(value), eight(masks, first)),
                every(factor),
            )
        };
        let source = part(key.address[0] as u64, &self.source, FACTORS[0]);
        let destination = part(key.address[1] as u64, &self.destination, FACTORS[1]);
        let ports = part(key.ports(), &self.ports, FACTORS[2]);
        _mm512_add_epi64(_mm512_add_epi64(source, destination), ports)
    }
}

/// Eight numbers from a place on, a multiple of eight below `LANES`.
#[inline(always)]
fn eight(from: &[u64; LANES], first: usize) -> __m512i {
    debug_assert!(first + 8 <= LANES);
    // SAFETY: they are inside; only called where the CPU has the instructions, see `Vector`.
    unsafe { _mm512_loadu_si512(from.as_ptr().add(first).cast()) }
}

/// The hashes of sums.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
#[inline]
fn hash_of(sums: __m512i) -> __m512i {
    let mixed = _mm512_xor_si512(sums, _mm512_srli_epi64::<29>(sums));
    _mm512_mullo_epi64(mixed, every(FACTORS[3]))
}

/// One table, as [`Lanes`] have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Of source, destination, and protocol with ports.
    pub(super) masks: [u64; 3],
    pub(super) shift: u64,
    pub(super) slots_at: u64,
    pub(super) groups_at: u32,
    /// Whether records have ranges, not prefixes.
    pub(super) has_ranges: bool,
}

impl Lanes {
    /// One table after the other.
    pub(super) fn tables(&self) -> impl Iterator<Item = Lane> {
        (0..self.count.min(LANES)).map(|at| Lane {
            masks: [self.source[at], self.destination[at], self.ports[at]],
            shift: self.shift[at],
            slots_at: self.slots_at[at],
            groups_at: self.groups_at[at],
            has_ranges: self.ranges[at / 8] >> (at % 8) & 1 != 0,
        })
    }
}

/// Places of records, each with how many there are in its low four bits.
#[derive(Clone, Copy, Debug)]
pub struct Places<const COUNT: usize> {
    count: usize,
    /// Set below `count`.
    at: [MaybeUninit<u32>; COUNT],
}

impl<const COUNT: usize> Default for Places<COUNT> {
    fn default() -> Self {
        Places {
            count: 0,
            at: [MaybeUninit::uninit(); COUNT],
        }
    }
}

/// What eight slots say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Whose filter lets the packet through.
    pub(super) live: u8,
    /// Where their groups are.
    at: __m256i,
    /// How many records they have.
    records: __m256i,
}

impl Asked {
    /// The places of groups of prefixes in halves: of which lanes, and where.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn halves(self, lanes: u8) -> [(u8, __m256i); 2] {
        let four = _mm256_set1_epi32(4);
        let half = _mm256_add_epi32(self.at, _mm256_min_epu32(self.records, four));
        let more = lanes & _mm256_cmpgt_epi32_mask(self.records, four);
        let behind = _mm256_add_epi32(self.at, _mm256_set1_epi32(64 - 4));
        [
            (lanes, half),
            (more, _mm256_add_epi32(behind, self.records)),
        ]
    }

    /// The places of whole groups.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn whole(self) -> __m256i {
        _mm256_add_epi32(self.at, self.records)
    }
}

/// Groups that may have a record for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Groups {
    /// Four prefixes at most.
    halves: Places<HALVES>,
    /// Ranges.
    ranges: Places<{ LANES + 8 }>,
}

/// One row of services of a packet: the AND of all three.
pub(super) type Row = [__m512i; ROW];

/// A packet's addresses, beside each record's.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
#[inline]
pub(super) fn pair(key: &Key) -> __m512i {
    let pair = key.address[0] as u32 as i64 | (key.address[1] as u32 as i64) << 32;
    _mm512_set4_epi64(0, pair, 0, pair)
}

#[inline(always)]
pub(super) fn every(value: u64) -> __m512i {
    // SAFETY: only called where the CPU has the instructions, see `Vector`.
    unsafe { _mm512_set1_epi64(value as i64) }
}

impl Vector<'_> {
    /// Where all tables have records that may hold for a packet.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn groups(self, lanes: &Lanes, key: &Key, groups: &mut Groups) {
        (groups.halves.count, groups.ranges.count) = (0, 0);
        let mut first = 0;
        while first < lanes.count {
            let (live, asked) = self.ask_tables(lanes, first, key);
            let ranges = lanes.ranges[first / 8 % (LANES / 8)];
            for (lanes, places) in asked.halves(live & !ranges) {
                groups.halves.add(lanes, places);
            }
            if ranges != 0 {
                groups.ranges.add(live & ranges, asked.whole());
            }
            first += 8;
        }
    }

    /// Asks eight tables from number `first` on, a multiple of eight: whose filters let a packet
    /// through.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn ask_tables(self, lanes: &Lanes, first: usize, key: &Key) -> (u8, Asked) {
        // SAFETY: eight places of an array of whole vectors.
        let groups_at = unsafe { _mm256_loadu_si256(lanes.groups_at.as_ptr().add(first).cast()) };
        let (shift, slots_at) = (eight(&lanes.shift, first), eight(&lanes.slots_at, first));
        let asked = self.ask(lanes.sums(first, key), shift, slots_at, groups_at);
        let known = _bzhi_u32(0xff, (lanes.count - first) as u32) as u8;
        (known & asked.live, asked)
    }

    /// Asks eight slots. `sum`: of the products of a packet's fields and a table's masks.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn ask(
        self,
        sum: __m512i,
        shift: __m512i,
        slots_at: __m512i,
        groups_at: __m256i,
    ) -> Asked {
        let hash = hash_of(sum);
        let numbers = _mm512_srlv_epi64(hash, shift);
        let places = _mm512_add_epi64(_mm512_slli_epi64::<2>(numbers), slots_at);
        // SAFETY: slots of tables of a checked image, by numbers below their count; without a
        // table, the image's start.
        let slots = unsafe { self.slots(places) };
        let bit = _mm512_srlv_epi64(hash, _mm512_sub_epi64(shift, every(2)));
        let bit = _mm512_and_si512(bit, every(3));
        let filters = _mm512_srli_epi64::<SLOT_FILTER>(_mm512_cvtepu32_epi64(slots));
        let offsets = _mm256_add_epi32(slots, slots);
        let offsets = _mm256_and_si256(offsets, _mm256_set1_epi32(SLOT_OFFSET as i32));
        let records = _mm256_and_si256(slots, _mm256_set1_epi32(7));
        Asked {
            live: _mm512_test_epi64_mask(_mm512_srlv_epi64(filters, bit), every(1)),
            at: _mm256_add_epi32(groups_at, offsets),
            records: _mm256_add_epi32(records, _mm256_set1_epi32(1)),
        }
    }

    /// The words at eight places. One by one: gathering them is slower on some processors, and
    /// hardly quicker on any.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    unsafe fn slots(self, places: __m512i) -> __m256i {
        let half = |places: __m256i| {
            let two = [
                _mm256_castsi256_si128(places),
                _mm256_extracti128_si256::<1>(places),
            ];
            let [a, b, c, d] = [0, 1, 2, 3].map(|at| {
                let two = two[at / 2];
                let at = match at % 2 {
                    0 => _mm_cvtsi128_si64(two),
                    _ => _mm_extract_epi64::<1>(two),
                };
                self.at::<i32>(at as u32)
            });
            _mm_insert_epi32::<3>(
                _mm_insert_epi32::<2>(_mm_insert_epi32::<1>(_mm_cvtsi32_si128(a), b), c),
                d,
            )
        };
        let low = half(_mm512_castsi512_si256(places));
        let high = half(_mm512_extracti64x4_epi64::<1>(places));
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }

    /// The first position that holds in some groups, `last` without.
    #[inline(always)]
    pub(super) fn first_in_groups(
        self,
        groups: &Groups,
        key: &Key,
        services: &Services<'_>,
        rows: &[u32; 3],
        last: u32,
    ) -> u32 {
        // SAFETY: the CPU has the instructions, as `new` found.
        let best = unsafe {
            match services.vectors() {
                1 => self.first_in_halves::<1>(groups, key, services, rows, last),
                2 => self.first_in_halves::<2>(groups, key, services, rows, last),
                3 | 4 => self.first_in_halves::<4>(groups, key, services, rows, last),
                _ => self.first_in_halves::<8>(groups, key, services, rows, last),
            }
        };
        if groups.ranges.count == 0 {
            return best;
        }
        // SAFETY: as above.
        unsafe { self.first_in_ranges(groups.ranges.all(), key, rows, best) }
    }

    /// `VECTORS`: of the row of services.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_in_halves<const VECTORS: usize>(
        self,
        groups: &Groups,
        key: &Key,
        services: &Services<'_>,
        rows: &[u32; 3],
        last: u32,
    ) -> u32 {
        let row = self.row_of::<VECTORS>(services, rows);
        let own = pair(key);
        let mut best = none_before(last);
        for place in groups.halves.all() {
            best = self.half::<VECTORS>(best, *place, own, &row);
        }
        least(best)
    }

    /// The services that hold: the AND of a packet's three rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn row_of<const VECTORS: usize>(
        self,
        services: &Services<'_>,
        rows: &[u32; 3],
    ) -> Row {
        let mut row: Row = [every(0); ROW];
        for (number, all) in row.iter_mut().enumerate().take(VECTORS) {
            // Of four or eight there may be fewer.
            if VECTORS > 2 && number as u32 >= services.vectors() {
                break;
            }
            // SAFETY: only vectors that the rows have are read.
            let part = |row: u32| unsafe {
                let from = self.bytes.as_ptr().wrapping_add(row as usize + number * 64);
                _mm512_loadu_si512(from.cast())
            };
            let ports = _mm512_and_si512(part(rows[1]), part(rows[2]));
            *all = _mm512_and_si512(part(rows[0]), ports);
        }
        row
    }

    /// The least of `best` and of four records that hold, by their positions, in second lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn half<const VECTORS: usize>(
        self,
        best: __m512i,
        place: u32,
        own: __m512i,
        row: &[__m512i],
    ) -> __m512i {
        let (records, held) = self.held::<VECTORS>(place, own, row);
        _mm512_mask_min_epu64(best, held, best, records)
    }

    /// The position of the first of four records that holds, `last` without.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn first_of_half<const VECTORS: usize>(
        self,
        place: u32,
        own: __m512i,
        row: &[__m512i],
        last: u32,
    ) -> u32 {
        let (_, held) = self.held::<VECTORS>(place, own, row);
        // Records are in order. No branch: without one that holds, some word of the group is read.
        let lane = (u32::from(held) | 0x100).trailing_zeros();
        let position = self.at::<u32>((place & !15) + (lane & 7) * 8 + 4);
        last.min(position | (lane >> 3).wrapping_neg())
    }

    /// Four records and which of them hold, by the second lane of each. The low four bits of a
    /// place say how many there are.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn held<const VECTORS: usize>(
        self,
        place: u32,
        own: __m512i,
        row: &[__m512i],
    ) -> (__m512i, u8) {
        let lanes = _bzhi_u32(0xff, (place & 15) * 2) as u8;
        let from = self.bytes.as_ptr().wrapping_add((place & !15) as usize);
        // SAFETY: only lanes of records that the group has are read.
        let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
        (records, holding::<VECTORS>(records, lanes & 0xaa, own, row))
    }

    /// The least of `best` and of the positions of the four records from an offset on that hold.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn four<const VECTORS: usize>(
        self,
        best: __m512i,
        at: u32,
        own: __m512i,
        row: &[__m512i],
    ) -> __m512i {
        debug_assert!(at as usize + 64 <= self.bytes.len());
        // SAFETY: 64 bytes from any group on are inside of an image whose root is packed.
        let records = unsafe { _mm512_loadu_si512(self.bytes.as_ptr().add(at as usize).cast()) };
        // Of first lanes is said something too, which nobody reads.
        let held = holding::<VECTORS>(records, 0xff, own, row);
        _mm512_mask_min_epu64(best, held, best, records)
    }
}

/// Which of four records hold for a packet, of those whose second lanes are named, by these. What
/// addresses say is moved to the second lanes, so that masks stay in registers of their own.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
#[inline]
fn holding<const VECTORS: usize>(records: __m512i, lanes: u8, own: __m512i, row: &[__m512i]) -> u8 {
    // Of each record, bytes 10 and 11 to the low bytes of its first two numbers.
    let pick = _mm512_set4_epi32(-1, -1, !0xff | 11, !0xff | 10);
    let shifts = _mm512_shuffle_epi8(records, pick);
    let differs = _mm512_srlv_epi32(_mm512_xor_si512(records, own), shifts);
    let differs = _mm512_shuffle_epi32::<0b01_00_11_10>(differs);
    let same = _mm512_mask_testn_epi64_mask(lanes, differs, differs);
    // The service of a record is the lowest number of its second lane.
    let number = _mm512_srli_epi64::<6>(records);
    let two = |at: usize| _mm512_permutex2var_epi64(row[at], number, row[at + 1]);
    let mut word = match VECTORS {
        1 => _mm512_permutexvar_epi64(number, row[0]),
        _ => two(0),
    };
    if VECTORS > 2 {
        let third = _mm512_test_epi64_mask(number, every(16));
        word = _mm512_mask_blend_epi64(third, word, two(2));
        if VECTORS > 4 {
            let high = _mm512_mask_blend_epi64(third, two(4), two(6));
            let upper = _mm512_test_epi64_mask(number, every(32));
            word = _mm512_mask_blend_epi64(upper, word, high);
        }
    }
    // The service's bit becomes the lowest.
    let bit = _mm512_rorv_epi64(word, records);
    _mm512_mask_test_epi64_mask(same, bit, one())
}

/// One in each lane, of which the compiler does not know that it is one: it would make two
/// instructions of the test of a single bit, and a third to bring both masks together.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
#[inline]
fn one() -> __m512i {
    let mut one = every(1);
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) one,
            options(pure, nomem, nostack, preserves_flags));
    }
    one
}

/// Second lanes of records that none is before.
#[inline(always)]
pub(super) fn none_before(last: u32) -> __m512i {
    every(u64::from(last) << 32 | u64::from(u32::MAX))
}

/// The least position in second lanes of records.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
#[inline]
pub(super) fn least(best: __m512i) -> u32 {
    let high = _mm512_extracti64x4_epi64::<1>(best);
    let two = _mm256_min_epu64(_mm512_castsi512_si256(best), high);
    let high = _mm256_extracti128_si256::<1>(two);
    let one = _mm_min_epu64(_mm256_castsi256_si128(two), high);
    _mm_extract_epi32::<3>(one) as u32
}

impl<const COUNT: usize> Places<COUNT> {
    /// Takes all out.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn all(&self) -> &[u32] {
        let at = &self.at[..self.count.min(COUNT)];
        // SAFETY: `add` has set all below `count`.
        unsafe { std::slice::from_raw_parts(at.as_ptr().cast(), at.len()) }
    }

    /// Adds those of eight places that `lanes` names.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn add(&mut self, lanes: u8, at: __m256i) {
        let count = self.count.min(COUNT - 8);
        // SAFETY: eight places from `count` on are inside.
        unsafe {
            let at = _mm256_maskz_compress_epi32(lanes, at);
            _mm256_storeu_si256(self.at.as_mut_ptr().add(count).cast(), at);
        }
        self.count = count + lanes.count_ones() as usize;
    }
}
