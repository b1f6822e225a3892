//! Hashing for the compiler's own maps: short keys, many of them, the same bytes every time.
//!
//! One multiplication and one rotation for each word. Not safe against keys chosen to collide,
//! which would only make the compiler slow for whoever chose them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with [`Quick`] hashing.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// A set with [`Quick`] hashing.
pub type QuickSet<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// The hasher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

/// One step: mixes a word in.
pub fn mix(state: u64, word: u64) -> u64 {
    (state.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        rest.iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0, value);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
