//! What an average packet pays for what was changed since the image was built.
//!
//! In: what each change noted (records that came and went, words of leaves, positions taken). Out:
//! a share of what a lookup costs, in the figures by which the compiler chooses, and whether it is
//! time to build anew. Changes keep it up to date, nothing is measured.

use super::{Live, Place};
use crate::compile::tables::WORD_COST;

/// What a lookup may cost over a fresh one before the image is built anew.
const COST_MAX: f64 = 1.1;
/// The share of free positions that may be taken: beyond, rules find none too often.
const TAKEN_MAX: f64 = 0.125;
/// The share of room that has to be unused.
const ROOM_MIN: f64 = 0.25;
/// Bytes of groups that may be written anew even where there are fewer records: near caches hold
/// them.
const REWRITTEN_ENOUGH: u64 = 1 << 20;
/// Counters that have to be free.
const COUNTERS_MIN: usize = 512;

impl Place {
    /// What a lookup costs, as a share of what it cost when the image was built.
    fn cost(&self) -> f64 {
        let built = self.root.spare.cost.max(1.0);
        1.0 + (self.pays + WORD_COST * self.more_words()).max(0.0) / built
    }
}

impl Live {
    /// What a lookup costs in the root where that grew most, as a share of what it cost when the
    /// image was built.
    pub fn cost(&self) -> f64 {
        self.places.iter().map(Place::cost).fold(1.0, f64::max)
    }

    /// Whether groups of tables were written anew as often as there are records: records of one
    /// table then lie apart, and filters and ranks of their slots say less, which packets pay for
    /// with lines that are far away.
    fn is_rewritten(&self) -> bool {
        let places = self.places.iter();
        let bytes: u64 = places.map(|place| place.root.spare.record_bytes).sum();
        self.room.small_bytes() > bytes.max(REWRITTEN_ENOUGH)
    }

    /// Whether the image should be built anew.
    pub fn is_worn(&self) -> bool {
        let taken =
            |place: &Place| place.taken > 0 && place.taken as f64 > place.free as f64 * TAKEN_MAX;
        let counters = self.free_rules.len() + self.leaving_rules.len();
        self.cost() > COST_MAX
            || self.is_rewritten()
            || self.places.iter().any(taken)
            || self.room.unused() < ROOM_MIN
            || counters < COUNTERS_MIN
    }
}
