//! Bytes that begin at a cache line.
//!
//! Rows of bit vectors begin at multiples of 64 in the image; in memory they only do if the image
//! does, and a row that begins elsewhere takes one line more. Maps of the kernel begin at a page.

use super::layout::ALIGN;
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// A cache line.
#[derive(Clone, Copy, Debug, FromZeros, IntoBytes, Immutable)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

/// A copy of bytes that begins at a cache line.
#[derive(Clone, Debug)]
pub struct Aligned {
    lines: Vec<Line>,
    length: usize,
}

impl Aligned {
    /// Copies them.
    pub fn of(bytes: &[u8]) -> Self {
        let line = |part: &[u8]| {
            let mut line = Line([0; ALIGN]);
            line.0[..part.len()].copy_from_slice(part);
            line
        };
        Aligned {
            lines: bytes.chunks(ALIGN).map(line).collect(),
            length: bytes.len(),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.lines.as_bytes()[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::Aligned;

    #[test]
    fn the_same_bytes_at_a_line() {
        for length in [0, 1, 63, 64, 65, 1000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let aligned = Aligned::of(&bytes);
            assert_eq!(aligned.bytes(), bytes);
            assert_eq!(aligned.bytes().as_ptr().align_offset(64), 0);
        }
    }
}
