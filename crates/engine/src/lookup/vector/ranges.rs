//! Groups of records of ranges by vectors, two records at once.
//!
//! In: where a group is, a packet, its rows of services. Out: the first position that holds.

use super::Vector;
use crate::lookup::{Key, NONE};
use std::arch::x86_64::{
    __m512i, _bzhi_u32, _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_maskz_loadu_epi64,
    _mm512_set_epi64, _mm512_shuffle_epi32, _mm512_shufflelo_epi16, _mm512_sub_epi16,
    _mm512_sub_epi32, _pext_u32,
};

impl Vector<'_> {
    /// The first position in the groups at some places, each with its number of records in the low
    /// four bits; `last` without.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline(never)]
    pub(super) fn first_in_ranges(
        self,
        groups: &[u32],
        key: &Key,
        rows: &[u32; 3],
        last: u32,
    ) -> u32 {
        groups.iter().fold(last, |best, place| {
            best.min(self.group_of_ranges(place & !15, place & 15, key, rows))
        })
    }

    /// The first position of a group of `layout::Record4` that holds, two records at once. No
    /// branch depends on a single record: most hold for no packet, but which cannot be foretold.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn group_of_ranges(
        self,
        at: u32,
        count: u32,
        key: &Key,
        services: &[u32; 3],
    ) -> u32 {
        // Each field twice: in the place of its first value, and of last less first.
        let address = |side: usize| (u64::from(key.address[side] as u32) * 0x1_0000_0001) as i64;
        let (source, destination) = (address(0), address(1));
        let [low, high] = key.port.map(|port| i64::from(port) * 0x1_0001);
        let ports = low | high << 32;
        let own = _mm512_set_epi64(0, ports, destination, source, 0, ports, destination, source);
        let mut held = self.two_ranges(at, 0, count, own);
        if count > 2 {
            held |= self.two_ranges(at, 2, count, own);
            if count > 4 {
                held |= self.two_ranges(at, 4, count, own) | self.two_ranges(at, 6, count, own);
            }
        }
        // Lanes that were not read may seem to hold.
        held = _bzhi_u32(held, count);
        while held != 0 {
            let record = at + held.trailing_zeros() * 32;
            if self.served(self.at(record + 28), services) {
                return self.at(record + 24);
            }
            held &= held - 1;
        }
        NONE
    }

    /// Which records of a group's numbers `first` and `first + 1` hold but for their services: bits
    /// of these numbers.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn two_ranges(self, at: u32, first: u32, count: u32, own: __m512i) -> u32 {
        let lanes = _bzhi_u32(0xff, count.saturating_sub(first) * 4) as u8;
        let from = self.bytes.as_ptr().wrapping_add((at + first * 32) as usize);
        // SAFETY: only lanes of records that the group has are read.
        let records = unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) };
        let wide = _mm512_sub_epi32(own, _mm512_shuffle_epi32::<0b10_10_00_00>(records));
        let wide = u32::from(_mm512_cmple_epu32_mask(wide, records));
        let narrow = _mm512_sub_epi16(own, _mm512_shufflelo_epi16::<0b10_10_00_00>(records));
        let narrow = _mm512_cmple_epu16_mask(narrow, records);
        // Two bits of a record: source and destination.
        let both = _pext_u32(wide, 0x0a0a) & _pext_u32(narrow, 0x0a00_0a00);
        _pext_u32(both & both >> 1, 0b0101) << first
    }

    /// Whether a service's bit is set in all rows.
    #[inline(always)]
    fn served(self, service: u32, services: &[u32; 3]) -> bool {
        let word = |row: u32| self.at::<u64>(row + (service >> 6) * 8);
        let all = word(services[0]) & word(services[1]) & word(services[2]);
        all >> (service & 63) & 1 != 0
    }
}
