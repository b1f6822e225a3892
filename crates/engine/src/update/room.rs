//! Free room of an image: bytes behind everything, in blocks that are used again.
//!
//! In: how many bytes. Out: where they may stand. Small blocks have sizes of whole units, and each
//! size has a list of those that came back. Large ones are whole lines, cut from the smallest free
//! stretch that they fit, and what comes back grows together with free neighbours: chunks of bit
//! vectors have all sizes, and lists by size were full of blocks too small for the next.
//! What packets under way may still read comes back only with [`Room::settle`].

use std::collections::{BTreeMap, BTreeSet};

/// Small blocks are of so many bytes, times 1 to [`SMALL_UNITS`].
const UNIT: u32 = 16;
const SMALL_UNITS: u32 = 64;
const SMALL_BYTES: u32 = UNIT * SMALL_UNITS;
/// A cache line. Vectors read records by whole lines.
const LINE: u32 = 64;
/// Bytes from which small blocks of one size are cut.
const SLAB_BYTES: u32 = 4096;

/// The room of one image.
pub struct Room {
    begins: u32,
    bytes: u32,
    /// Small blocks that are free, by units.
    small: Vec<Vec<u32>>,
    large: Stretches,
    /// Blocks that packets under way may still read.
    leaving: Vec<(u32, u32)>,
    leaving_bytes: u32,
    /// Bytes of small blocks that were ever taken.
    small_bytes: u64,
}

/// Free stretches of whole lines, none beside another.
#[derive(Default)]
struct Stretches {
    /// Bytes, by where they begin.
    by_place: BTreeMap<u32, u32>,
    /// Bytes and where they begin.
    by_size: BTreeSet<(u32, u32)>,
    bytes: u32,
}

impl Stretches {
    fn insert(&mut self, at: u32, bytes: u32) {
        if bytes > 0 {
            self.by_place.insert(at, bytes);
            self.by_size.insert((bytes, at));
            self.bytes += bytes;
        }
    }

    fn remove(&mut self, at: u32, bytes: u32) {
        self.by_place.remove(&at);
        self.by_size.remove(&(bytes, at));
        self.bytes -= bytes;
    }

    /// From the smallest that is long enough.
    fn take(&mut self, bytes: u32) -> Option<u32> {
        let (whole, at) = *self.by_size.range((bytes, 0)..).next()?;
        self.remove(at, whole);
        self.insert(at + bytes, whole - bytes);
        Some(at)
    }

    /// Lets a stretch be free, and be one with its neighbours.
    fn put(&mut self, at: u32, bytes: u32) {
        let (mut first, mut end) = (at, at + bytes);
        let before = self.by_place.range(..at).next_back();
        let before = before.map(|(at, bytes)| (*at, *bytes));
        if let Some((before, bytes)) = before.filter(|(at_before, own)| at_before + own == at) {
            self.remove(before, bytes);
            first = before;
        }
        if let Some(bytes) = self.by_place.get(&end).copied() {
            self.remove(end, bytes);
            end += bytes;
        }
        self.insert(first, end - first);
    }
}

/// Bytes of the block for so many.
fn size(bytes: u32) -> u32 {
    let unit = if bytes > SMALL_BYTES { LINE } else { UNIT };
    bytes.max(1).next_multiple_of(unit)
}

impl Room {
    /// Room from an offset on.
    pub fn new(at: u32, bytes: u32) -> Self {
        let (first, end) = (at.next_multiple_of(LINE), (at + bytes) / LINE * LINE);
        let mut large = Stretches::default();
        large.insert(first, end.saturating_sub(first));
        Room {
            begins: at,
            bytes: large.bytes,
            small: vec![Vec::new(); SMALL_UNITS as usize + 1],
            large,
            leaving: Vec::new(),
            leaving_bytes: 0,
            small_bytes: 0,
        }
    }

    /// A block, and how many bytes it has.
    pub fn take(&mut self, bytes: u32) -> Option<(u32, u32)> {
        let size = size(bytes);
        if size > SMALL_BYTES {
            return Some((self.large.take(size)?, size));
        }
        let class = (size / UNIT) as usize;
        if self.small[class].is_empty() {
            let slab = self.large.take(SLAB_BYTES)?;
            // From a line on, blocks begin at lines.
            let step = size.next_multiple_of(if size >= LINE { LINE } else { UNIT });
            let blocks = (0..SLAB_BYTES / step).rev();
            self.small[class].extend(blocks.map(|number| slab + number * step));
        }
        self.small_bytes += u64::from(size);
        Some((self.small[class].pop()?, size))
    }

    /// Gives back a block that nobody was led to.
    pub fn give_back(&mut self, at: u32, bytes: u32) {
        let size = size(bytes);
        if size > SMALL_BYTES {
            self.large.put(at, size);
        } else {
            self.small[(size / UNIT) as usize].push(at);
        }
    }

    /// Gives back a block that packets under way may still read. What was built with the image
    /// stays.
    pub fn leave(&mut self, at: u32, bytes: u32) {
        if at >= self.begins && bytes > 0 {
            self.leaving.push((at, bytes));
            self.leaving_bytes += size(bytes);
        }
    }

    /// Blocks that are waited for.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Whether those are a good part of what there is.
    pub fn has_much_leaving(&self) -> bool {
        self.leaving_bytes > self.bytes / 16
    }

    /// Bytes of small blocks, which groups of tables are, that were ever taken.
    pub fn small_bytes(&self) -> u64 {
        self.small_bytes
    }

    /// The share that is free for whoever comes, or will be.
    pub fn unused(&self) -> f64 {
        let unused = f64::from(self.large.bytes) + f64::from(self.leaving_bytes);
        unused / f64::from(self.bytes.max(1))
    }

    /// Lets the first so many blocks that left be used again.
    pub fn settle(&mut self, blocks: usize) {
        let first: Vec<(u32, u32)> = self.leaving.drain(..blocks).collect();
        for (at, bytes) in first {
            self.leaving_bytes -= size(bytes);
            self.give_back(at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all sizes, taken and given back by turns, never share a byte; and all large ones
    /// together are one stretch again.
    #[test]
    fn blocks_lie_apart_and_grow_together_again() {
        const BEGINS: u32 = 1000;
        const BYTES: u32 = 1 << 20;
        let mut room = Room::new(BEGINS, BYTES);
        let whole = room.large.by_place.clone();
        let mut taken: Vec<(u32, u32)> = Vec::new();
        let mut refused = 0;
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let draw = (seed >> 33) as u32;
            if draw % 16 < 9 || taken.is_empty() {
                let bytes = 1025 + draw / 16 % (80 << (draw / 16 % 11));
                let Some((at, size)) = room.take(bytes) else {
                    refused += 1;
                    continue;
                };
                assert!(size >= bytes && at % LINE == 0, "{bytes} at {at}");
                assert!(at >= BEGINS && at + size <= BEGINS + BYTES, "{at}");
                let apart = |(other, own): &(u32, u32)| at + size <= *other || other + own <= at;
                assert!(taken.iter().all(apart), "{size} at {at}");
                taken.push((at, size));
            } else {
                let (at, size) = taken.swap_remove(draw as usize / 16 % taken.len());
                match draw % 2 {
                    0 => room.give_back(at, size),
                    _ => room.leave(at, size),
                }
                if draw % 64 == 9 {
                    room.settle(room.leaving() / 2);
                }
            }
        }
        assert!(refused > 100, "room is full at times: {refused}");
        taken
            .into_iter()
            .for_each(|(at, size)| room.leave(at, size));
        room.settle(room.leaving());
        assert_eq!(room.large.by_place, whole);
        assert_eq!(room.large.by_size.len(), 1);
        assert_eq!(room.unused(), 1.0);
    }

    /// Small blocks lie apart too, those of a line and more at lines, and come back to their size.
    #[test]
    fn small_blocks_are_cut_from_lines() {
        let mut room = Room::new(8, 1 << 21);
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for number in 0..2000 {
            let bytes = number * 7 % SMALL_BYTES;
            let (at, size) = room.take(bytes).expect("there is room");
            assert!(size >= bytes && (size < LINE || at % LINE == 0), "{at}");
            taken.push((at, size));
        }
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        let apart = |pair: &[(u32, u32)]| pair[0].0 + pair[0].1 <= pair[1].0;
        assert!(sorted.windows(2).all(apart));
        for (at, size) in taken.drain(..) {
            room.leave(at, size);
        }
        let free = room.large.bytes;
        room.settle(room.leaving());
        for number in 0..2000 {
            room.take(number * 7 % SMALL_BYTES).expect("it came back");
        }
        assert_eq!(room.large.bytes, free, "nothing was cut anew");
    }
}
