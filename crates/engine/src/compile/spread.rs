//! Bits of chunks whose rules are to be changed one by one: free ones between those of terms, so
//! that most terms that come find one.
//!
//! In: terms in evaluation order. Out: bits in evaluation order. Rows are as long as without free
//! bits wherever their length is rounded up to lines ([`row_words`]).

use super::term::Term;
use super::vectors::Bit;
use crate::image::layout::{CHUNK_TERMS_MAX, row_words};

/// At least one bit is free for so many terms.
const TERMS_A_FREE: usize = 16;

/// Terms of a chunk of at most so many bits.
pub const fn terms_of(bits: usize) -> usize {
    bits - bits.div_ceil(TERMS_A_FREE)
}

/// The bits of a chunk with these terms.
pub fn bits<'t>(terms: &[(&'t Term, u32)]) -> Vec<Bit<'t>> {
    let words = (terms.len() + terms.len() / TERMS_A_FREE).div_ceil(64) as u32;
    let count = (row_words(words) as usize * 64).min(CHUNK_TERMS_MAX);
    let mut out = Vec::with_capacity(count);
    for (number, (term, position)) in terms.iter().enumerate() {
        out.push((Some(*term), *position));
        // A free bit has the position of the term in front of it.
        out.resize((number + 1) * count / terms.len(), (None, *position));
    }
    out
}

/// The bits of as few chunks of at most so many terms as there have to be.
pub fn chunks<'t>(terms: &[(&'t Term, u32)], most: usize) -> Vec<Vec<Bit<'t>>> {
    let count = terms.len().div_ceil(most).max(1);
    let size = terms.len().div_ceil(count).max(1);
    terms.chunks(size).map(bits).collect()
}
