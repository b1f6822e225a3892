//! Slots of hashed tables.
//!
//! A slot is one word: `filter << 28 | rank << 26 | offset / 16 << 3 | records - 1`, or 0. The
//! *filter* has a bit for each value of two more bits of the hashes of its records: a packet whose
//! own has none meets nothing there. The *rank* says how early the first record of the group
//! stands, in steps of the table: a packet that has found something before `rank * step` need not
//! read the group, which is far away.
//!
//! Where few tables are asked and their slots are many, all filters of a table stand beside one
//! another once more: an eighth of the room, that stays in near caches where slots don't. Only the
//! kernel's walkers read them: between two packets the network stack uses those caches too. A slot
//! is written first and its filter behind it, so that whoever passes the filter may still find a
//! slot that says no.

/// Where the filter begins.
pub const SLOT_FILTER: u32 = 28;
/// Where the rank begins.
pub const SLOT_RANK: u32 = 26;
/// The largest rank.
pub const RANK_LAST: u32 = 3;
/// Offsets are below this.
pub const SLOT_REACH: u32 = 1 << 27;
/// Bits of an offset, in `slot << 1`.
pub const SLOT_OFFSET: u32 = SLOT_REACH - 16;

/// A slot of a group that has records.
pub fn slot(filter: u32, rank: u32, offset: u32, records: u32) -> u32 {
    filter << SLOT_FILTER | rank << SLOT_RANK | offset >> 1 | (records - 1)
}

/// Where the word is that holds a slot's filter among those beside one another, and by how many
/// bits the filter is shifted in it.
pub fn filter_place(filters_at: u32, slot: u32) -> (u32, u32) {
    (filters_at + slot / 8 * 4, slot % 8 * 4)
}

/// The rank of a position in a table.
pub fn rank(position: u32, step: u32) -> u32 {
    (position / step.max(1)).min(RANK_LAST)
}

/// Where the group begins, from `groups_at` on.
#[inline(always)]
pub fn slot_offset(slot: u32) -> u32 {
    slot << 1 & SLOT_OFFSET
}

/// How many records the group has.
#[inline(always)]
pub fn slot_records(slot: u32) -> u32 {
    if slot == 0 { 0 } else { (slot & 7) + 1 }
}

/// No record of the group stands before this position.
#[inline(always)]
pub fn slot_least(slot: u32, step: u32) -> u32 {
    (slot >> SLOT_RANK & RANK_LAST).wrapping_mul(step)
}
