//! A batch of packets in a root of few tables: what `few` does for one, step by step for all, so
//! that none waits for what it has just asked for.

use super::batch::BATCH;
use super::few::{FEW, Few, SINGLE, Slot};
use super::groups::Lanes;
use super::{Vector, lone_chunk};
use crate::image::layout::ROWS_MAX;
use crate::lookup::Key;
use crate::lookup::first::Parts;
use crate::lookup::ready::{Ready, Services};
use std::arch::x86_64::_mm256_storeu_si256;

impl Vector<'_> {
    /// The first positions for at most [`BATCH`] packets, as [`Self::first_beside_few`] says them.
    #[inline(always)]
    pub(super) fn batch_beside_few(
        self,
        few: &Few,
        of: (&Parts<'_>, &Services<'_>),
        last: u32,
        packets: (&[Key], &mut [u32]),
    ) {
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe {
            match few.count {
                ..=2 => self.batch_in::<2>(few, of, last, packets),
                3 => self.batch_in::<3>(few, of, last, packets),
                4 => self.batch_in::<4>(few, of, last, packets),
                5 => self.batch_in::<5>(few, of, last, packets),
                6 => self.batch_in::<6>(few, of, last, packets),
                7 => self.batch_in::<7>(few, of, last, packets),
                _ => self.batch_in::<FEW>(few, of, last, packets),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn batch_in<const TABLES: usize>(
        self,
        few: &Few,
        of: (&Parts<'_>, &Services<'_>),
        last: u32,
        packets: (&[Key], &mut [u32]),
    ) {
        match of.1.vectors() {
            1 => self.batch_of::<TABLES, 1>(few, of, last, packets),
            2 => self.batch_of::<TABLES, 2>(few, of, last, packets),
            3 | 4 => self.batch_of::<TABLES, 4>(few, of, last, packets),
            _ => self.batch_of::<TABLES, 8>(few, of, last, packets),
        }
    }

    /// The slots of a packet, by one vector with the tables in its lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn slots_by<const TABLES: usize>(self, few: &Few, lanes: &Lanes, key: &Key) -> [Slot; TABLES] {
        let mut numbers = [0u32; FEW];
        // SAFETY: eight numbers.
        unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), lanes.numbers(key)) };
        let mut slots = [Slot::default(); TABLES];
        for ((slot, table), number) in slots.iter_mut().zip(&few.tables).zip(numbers) {
            *slot = Slot::of(self, table, number);
        }
        slots
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline(never)]
    fn batch_of<const TABLES: usize, const VECTORS: usize>(
        self,
        few: &Few,
        (parts, services): (&Parts<'_>, &Services<'_>),
        last: u32,
        (keys, out): (&[Key], &mut [u32]),
    ) {
        let mut slots = [[Slot::default(); TABLES]; BATCH];
        let mut classes = [[0; 3]; BATCH];
        let mut ahead: [Option<&Ready<'_>>; BATCH] = [None; BATCH];
        let mut rows = [[std::ptr::null(); ROWS_MAX]; BATCH];
        for (slots, key) in slots.iter_mut().zip(keys) {
            // Of up to four, a vector takes longer than scalar code, which is all in this place.
            *slots = match TABLES {
                ..=SINGLE => self.slots_of::<TABLES>(few, key),
                _ => self.slots_by::<TABLES>(few, &parts.lanes, key),
            };
            for (slot, table) in slots.iter().zip(&few.tables) {
                self.prefetch(slot.group(table));
            }
        }
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            classes[at] = self.service_classes(services, key);
            ahead[at] = lone_chunk(parts, key);
            if let Some(chunk) = ahead[at] {
                rows[at] = self.rows_ahead(chunk, key, &classes[at]);
            }
        }
        for (at, (key, out)) in keys.iter().zip(out).enumerate().take(BATCH) {
            let slots = (few, &slots[at]);
            let own = services.rows(classes[at]);
            let of = (services, &own);
            // SAFETY: the CPU has the instructions.
            unsafe {
                let best = self.in_slots::<TABLES, VECTORS, false>(slots, key, of, last);
                *out = match ahead[at] {
                    Some(chunk) => best.min(self.first_ahead(chunk, &rows[at])),
                    None if parts.chunks.is_empty() => best,
                    None => self.first_of_chunks(parts, best, key),
                };
            }
        }
    }
}
