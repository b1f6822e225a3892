//! How rows of bit vectors lie in an image.
//!
//! Rows of a chunk with more than one word begin at a multiple of 64 bytes, words that no term has
//! are zero, and in front of them stands a summary word for each, that of row `n` at
//! `rows_at - 8 * (n + 1)`: a bit for each word that is not zero. A row of one word has no summary.
//! Positions of terms end with one that says that there is none: a search for the first bit of a
//! word that has none finds it.

/// Words that a row of a chunk with so many words takes, so that loads of vectors and cache lines
/// begin where rows do.
pub fn row_words(words: u32) -> u32 {
    match words {
        0..=8 => words.next_power_of_two(),
        _ => words.next_multiple_of(8),
    }
}

/// Classes of ports and cells of trees are also laid out to be found in fewer steps, as long as the
/// image does not become larger than this.
pub const WIDE_UNTIL: usize = 3 << 19;
