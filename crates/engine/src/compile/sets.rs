//! Sets of small numbers as rows of bits, equal sets once; and the sweep over a field's values that
//! finds which terms allow each of them.

use super::hash::{QuickMap, mix};
use super::span::{Field, Span};

/// Distinct rows of bits, numbered in the order in which they were first met.
#[derive(Debug)]
pub struct Sets {
    words: usize,
    bits: Vec<u64>,
    /// First number with a hash; further ones in `next`.
    first: QuickMap<u64, u32>,
    next: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// A hash of a row.
pub fn hash_of(bits: &[u64]) -> u64 {
    bits.iter().fold(0, |state, word| mix(state, *word))
}

impl Sets {
    /// No sets yet, of numbers below `64 * words`.
    pub fn new(words: usize) -> Self {
        Sets {
            words,
            bits: Vec::new(),
            first: QuickMap::default(),
            next: Vec::new(),
        }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.next.len()
    }

    /// Words of a row.
    pub fn words(&self) -> usize {
        self.words
    }

    /// A set.
    pub fn get(&self, number: usize) -> &[u64] {
        &self.bits[number * self.words..(number + 1) * self.words]
    }

    /// All sets in order, one behind the other.
    pub fn all(&self) -> &[u64] {
        &self.bits
    }

    /// All sets in order.
    pub fn each(&self) -> impl Iterator<Item = &[u64]> {
        self.bits.chunks_exact(self.words)
    }

    /// The number of a set. `hash` must be a function of the bits.
    pub fn number(&mut self, bits: &[u64], hash: u64) -> u32 {
        let mut known = self.first.get(&hash).copied().unwrap_or(NONE);
        while known != NONE {
            if self.get(known as usize) == bits {
                return known;
            }
            known = self.next[known as usize];
        }
        let number = self.next.len() as u32;
        self.bits.extend_from_slice(bits);
        self.next
            .push(self.first.insert(hash, number).unwrap_or(NONE));
        number
    }

    /// The intersections of a set of each: their numbers in the order of `a * count of b + b`, and
    /// the distinct ones; `None` when numbers would not fit or there are too many pairs.
    pub fn products(a: &Sets, b: &Sets, cells_max: usize) -> Option<(Vec<u16>, Sets)> {
        if a.count() * b.count() > cells_max {
            return None;
        }
        let mut out = Sets::new(a.words);
        let mut row = vec![0u64; a.words];
        let mut numbers = Vec::with_capacity(a.count() * b.count());
        for left in a.each() {
            for right in b.each() {
                let words = row.iter_mut().zip(left).zip(right);
                words.for_each(|((all, one), other)| *all = one & other);
                numbers.push(u16::try_from(out.number(&row, hash_of(&row))).ok()?);
            }
        }
        Some((numbers, out))
    }
}

/// A pseudo-random word for a bit, so that the hash of a row changes with each bit in O(1).
fn spread(bit: usize) -> u64 {
    let mut x = (bit as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Of spans with the bit that each has in sets: those that allow every value, as a set, and where
/// the others begin and where they have ended, in order.
pub fn events<'t, T: Field + 't>(
    spans: impl Iterator<Item = (usize, &'t Span<T>)>,
    top: T,
    words: usize,
) -> (Vec<u64>, Vec<(T, u32)>) {
    let mut bits = vec![0u64; words];
    let mut events: Vec<(T, u32)> = Vec::new();
    for (bit, span) in spans {
        if let Span::Any = span {
            bits[bit / 64] |= 1 << (bit % 64);
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
    (bits, events)
}

/// One more interval, unless the last one has the same set.
pub fn push<T>(out: &mut Vec<(T, u32)>, first: T, set: u32) {
    if out.last().is_none_or(|last| last.1 != set) {
        out.push((first, set));
    }
}

/// Intervals (first value, number of the set of spans that allow it) that cover a whole field. Each
/// span has the bit that it is in sets.
pub fn sweep<'t, T: Field + 't>(
    spans: impl Iterator<Item = (usize, &'t Span<T>)>,
    top: T,
    sets: &mut Sets,
) -> Vec<(T, u32)> {
    let (mut bits, events) = events(spans, top, sets.words());
    let has = |bit: &usize| bits[bit / 64] >> (bit % 64) & 1 != 0;
    let all = (0..bits.len() * 64).filter(has);
    let mut hash = all.fold(0, |hash, bit| hash ^ spread(bit));
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
        let row = sets.number(&bits, hash);
        push(&mut out, value, row);
        match events.get(at) {
            Some(event) => value = event.0,
            None => return out,
        }
    }
}
