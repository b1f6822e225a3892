//! The first entry that holds, with vectors of 512 bits: eight slots at once, all words of a chunk
//! at once, four records of a group at once.
//!
//! The only unsafe code of this crate: loads without bounds checks, and instructions that the CPU
//! must have. [`Vector::new`] asks the CPU; offsets come from a checked [`Image`](crate::image),
//! whose every structure has been followed by `image::check` before it can be read here. Equal to
//! [`super::first`], by test.
#![allow(unsafe_code)]

mod batch;
mod few;
mod few_batch;
mod groups;
mod ranges;
mod rows;

pub use few::Few;
pub use groups::Lanes;

use super::first::Parts;
use super::ready::{Ready, Services};
use super::{Key, NONE};
use batch::{BATCH, Work};
use groups::Groups;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

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

    /// A number at an offset, by a load that stays one: of the loads of four slots the compiler
    /// would make one instruction that gathers, and that takes longer.
    #[inline(always)]
    fn alone(self, at: u32) -> u32 {
        debug_assert!(at as usize + size_of::<u32>() <= self.bytes.len());
        let number: u32;
        // SAFETY: as of `at`; nothing is written.
        unsafe {
            std::arch::asm!("mov {0:e}, dword ptr [{1} + {2}]",
                lateout(reg) number, in(reg) self.bytes.as_ptr(), in(reg) u64::from(at),
                options(pure, readonly, nostack, preserves_flags));
        }
        number
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
                None => self.each_of_parts(parts, last, keys, out),
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

    /// The first positions for many packets in a root that is not of the usual form.
    fn each_of_parts(self, parts: &Parts<'_>, last: u32, keys: &[Key], out: &mut [u32]) {
        let Some(services) = &parts.services else {
            for (key, out) in keys.iter().zip(out) {
                // SAFETY: the CPU has the instructions, as `new` found.
                *out = unsafe { self.first_of_chunks(parts, last, key) };
            }
            return;
        };
        if let Some(few) = &parts.few {
            for packets in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
                self.batch_beside_few(few, (parts, services), last, packets);
            }
            return;
        }
        let mut work = Work::default();
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let (of, packets) = ((parts, services), (keys, out));
            // SAFETY: as above.
            unsafe {
                match services.vectors() {
                    1 => self.batch::<1>(of, last, packets, &mut work),
                    2 => self.batch::<2>(of, last, packets, &mut work),
                    3 | 4 => self.batch::<4>(of, last, packets, &mut work),
                    _ => self.batch::<8>(of, last, packets, &mut work),
                }
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn first_of_parts(self, parts: &Parts<'_>, last: u32, key: &Key) -> u32 {
        let Some(services) = &parts.services else {
            return self.first_of_chunks(parts, last, key);
        };
        if let Some(few) = &parts.few
            && few.is_single()
        {
            return self.first_beside_few(few, (parts, services), last, key);
        }
        let mut groups = Groups::default();
        self.groups(&parts.lanes, key, &mut groups);
        self.first_beside((parts, services), last, key, |own, last| {
            self.first_in_groups(&groups, key, services, own, last)
        })
    }

    /// The first position in chunks and, as `in_groups` says for rows of services, in tables.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_beside(
        self,
        (parts, services): (&Parts<'_>, &Services<'_>),
        last: u32,
        key: &Key,
        in_groups: impl Fn(&[u32; 3], u32) -> u32,
    ) -> u32 {
        let classes = self.service_classes(services, key);
        let own = services.rows(classes);
        // The way to the rows of a chunk stands before the first branch that nobody can foretell.
        let Some(chunk) = lone_chunk(parts, key) else {
            return self.first_of_chunks(parts, in_groups(&own, last), key);
        };
        let rows = self.rows_ahead(chunk, key, &classes);
        let best = in_groups(&own, last);
        // SAFETY: the CPU has the instructions.
        best.min(unsafe { self.first_ahead(chunk, &rows) })
    }

    /// The first position of the chunks that a packet can meet, if it is before `best`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_of_chunks(self, parts: &Parts<'_>, best: u32, key: &Key) -> u32 {
        if parts.chunks.is_empty() {
            return best;
        }
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
}

/// The chunk of a packet, where it is the only one it can meet.
#[inline(always)]
fn lone_chunk<'p, 'b>(parts: &'p Parts<'b>, key: &Key) -> Option<&'p Ready<'b>> {
    match parts.chunks_of(key) {
        [chunk] if chunk.bounds.is_empty() => Some(chunk),
        _ => None,
    }
}
