//! Answers of rejects, as entries hold them.

/// Bit of an [`super::layout::Entry::reject`] that says "fragmentation needed", the MTU of the next
/// hop below it.
pub const REJECT_MTU: u16 = 0x8000;

/// Whether a number is one of `WEIR_REJECT_*`.
#[must_use]
pub fn is_reject(kind: u16) -> bool {
    kind == 0 || kind & REJECT_MTU != 0 || (1..=4).contains(&(kind >> 8))
}
