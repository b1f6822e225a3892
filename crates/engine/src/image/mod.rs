//! The image: everything that a packet can be asked, as one flat blob.
//!
//! Position-independent (offsets are from its first byte), little-endian, versioned, checksummed.
//! In: bytes made by [`crate::compile`]. Out: an [`Image`] whose every offset has been checked
//! once, so that no walker can read outside it or go round for ever. Twin: `plane/bpf/image.h`.

mod aligned;
pub mod aside;
pub mod brief;
mod check;
pub mod dynamic;
pub mod feature;
pub mod layout;
pub mod learner;
mod record;
pub mod reject;
mod rows;
mod slot;
pub mod write;

pub use aligned::Aligned;
pub use check::{Error, Image};

use layout::{CHECKSUM_AT, LOADED_AT};
use zerocopy::FromBytes;

/// A structure at an offset; `None` outside the bytes.
pub fn read<T: FromBytes>(bytes: &[u8], at: u32) -> Option<T> {
    let (value, _) = T::read_from_prefix(bytes.get(at as usize..)?).ok()?;
    Some(value)
}

/// FNV-1a over 64-bit words (the length is a multiple of 64), leaving out the checksum's own
/// field and what the loader writes.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for (at, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let word = if at * 8 == CHECKSUM_AT || at * 8 == LOADED_AT {
            0
        } else {
            u64::from_le_bytes(*word)
        };
        sum = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }
    sum
}
