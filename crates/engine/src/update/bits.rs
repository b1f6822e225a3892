//! Single bits of a chunk: set in place, moved to make room, cleared.
//!
//! A bit that stands for nothing is clear in all rows of one field at least. What packets meet when
//! one is set: nothing before its position is written and the last field has it, then the entry at
//! that position, in evaluation order. Who has other bits of the same word in hand meets what they
//! stand for, as no bit changes what it stands for before packets under way are through.
//!
//! Where no bit is free at the right place, those between it and the nearest free one move by one.
//! That takes a copy of all rows, which is linked like a chunk that is built anew; what leads to
//! rows stays.

use super::Store;
use super::hand::Hand;
use super::leaves::{Bit, Part};
use super::shape::{Rows, fields};
use crate::compile::term::Term;
use crate::compile::vectors::write_rows;
use crate::image::layout::Chunk;
use crate::image::write::Writer;
use crate::lookup::class::u64_at;
use zerocopy::IntoBytes;

/// A chunk's bits and rows, written beside those that are in use.
pub(super) struct Written {
    pub bits: Vec<Bit>,
    pub rows: (u32, u32),
}

/// A field's word with a bit, for each row.
fn words(chunk: &Chunk, (rows_at, rows): (u32, u32), bit: usize) -> impl Iterator<Item = u32> {
    let first = rows_at + (bit / 64 * 8) as u32;
    let stride = chunk.stride;
    (0..rows).map(move |row| first + row * stride)
}

/// Lets a field have a bit in these rows only.
fn set_in_field(
    hand: &mut Hand<'_, impl Store>,
    chunk: &Chunk,
    field: (u32, u32),
    bit: usize,
    rows: &[bool],
) {
    let own = 1u64 << (bit % 64);
    for (row, at) in words(chunk, field, bit).enumerate() {
        let old = u64_at(hand.image, at);
        let new = if rows[row] { old | own } else { old & !own };
        if new == old {
            continue;
        }
        if chunk.words > 1 && rows[row] {
            let summary_at = field.0 - (row as u32 + 1) * 8;
            let summary = u64_at(hand.image, summary_at);
            let more = summary | 1 << (bit / 64);
            if more != summary {
                hand.store64(summary_at, more);
            }
        }
        hand.store64(at, new);
    }
}

/// Clears a bit, in the field with the fewest rows.
pub(super) fn clear(hand: &mut Hand<'_, impl Store>, chunk: &Chunk, bit: usize) {
    let all = fields(chunk);
    if let Some(field) = all.iter().min_by_key(|field| field.1) {
        set_in_field(hand, chunk, *field, bit, &vec![false; field.1 as usize]);
    }
}

/// Moves the bits of rows between two by one, so that the bit `free` goes and `bit` comes. What it
/// is then is not said.
fn shift(row: &mut [u64], free: usize, bit: usize) {
    let (low, high) = (free.min(bit), free.max(bit));
    // Bits of a word from one up to but not with another.
    let mask = |word: usize, first: usize, end: usize| {
        let from = |bit: usize| {
            let all = u64::MAX.checked_shl(bit.saturating_sub(word * 64) as u32);
            all.unwrap_or(0)
        };
        from(first) & !from(end)
    };
    if free > bit {
        for word in (low / 64..=high / 64).rev() {
            let carried = if word > low / 64 {
                row[word - 1] >> 63
            } else {
                0
            };
            let mask = mask(word, low + 1, high + 1);
            row[word] = row[word] & !mask | (row[word] << 1 | carried) & mask;
        }
    } else if free < bit {
        for word in low / 64..=high / 64 {
            let carried = if word < high / 64 {
                row[word + 1] << 63
            } else {
                0
            };
            let mask = mask(word, low, high);
            row[word] = row[word] & !mask | (row[word] >> 1 | carried) & mask;
        }
    }
}

impl Part {
    /// The free bits among which one for a position can be: behind all that stand for something in
    /// front of it, before all that stand behind.
    fn gap(&self, position: u32, is_free: impl Fn(&Bit) -> bool) -> (usize, usize) {
        let place = self.bits.partition_point(|bit| bit.at <= position);
        let taken = self.bits[..place].iter().rposition(|bit| !is_free(bit));
        let next = self.bits[place..].iter().position(|bit| !is_free(bit));
        (
            taken.map_or(0, |at| at + 1),
            next.map_or(self.bits.len(), |at| place + at),
        )
    }

    /// Sets a free bit for a term in place. False: there is none.
    pub(super) fn set(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        chunk: &Chunk,
        rows: &Rows,
        term: &Term,
        position: u32,
    ) -> bool {
        let (from, until) = self.gap(position, |bit| bit.term.is_none() && !bit.leaves);
        if from >= until {
            return false;
        }
        let bit = from + (until - from) / 2;
        let fields = fields(chunk);
        let own = 1u64 << (bit % 64);
        let is_clear = |field: &(u32, u32)| {
            words(chunk, *field, bit).all(|at| u64_at(hand.image, at) & own == 0)
        };
        let gates = (0..fields.len()).filter(|number| is_clear(&fields[*number]));
        let Some(gate) = gates.min_by_key(|number| fields[*number].1) else {
            return false;
        };
        for (number, field) in fields.iter().enumerate() {
            if number != gate {
                set_in_field(hand, chunk, *field, bit, &rows[number]);
            }
        }
        // Positions do not decrease at any moment: searches among them go on meanwhile.
        for at in (from..bit).filter(|at| self.bits[*at].at > position) {
            hand.store32(chunk.positions_at + at as u32 * 4, position);
        }
        for at in (bit..until).rev() {
            if at == bit || self.bits[at].at < position {
                hand.store32(chunk.positions_at + at as u32 * 4, position);
            }
        }
        for at in from..until {
            let known = self.bits[at].at;
            self.bits[at].at = match at.cmp(&bit) {
                std::cmp::Ordering::Less => known.min(position),
                std::cmp::Ordering::Equal => position,
                std::cmp::Ordering::Greater => known.max(position),
            };
        }
        set_in_field(hand, chunk, fields[gate], bit, &rows[gate]);
        self.bits[bit].term = Some(term.clone());
        true
    }

    /// Writes all rows beside those in use, with a bit for a term; the chunk that has them. `None`:
    /// no bit is free, or there is no room.
    pub(super) fn written_with(
        &self,
        hand: &mut Hand<'_, impl Store>,
        chunk: &Chunk,
        rows: &Rows,
        term: &Term,
        position: u32,
    ) -> Option<(Chunk, Written)> {
        // Nobody has met these rows, so what leaves there is free here.
        let (from, until) = self.gap(position, |bit| bit.term.is_none());
        let is_free = |bit: &usize| self.bits[*bit].term.is_none();
        let (free, bit) = match from < until {
            true => (from, from),
            false => {
                let above = (until..self.bits.len()).find(is_free);
                let below = (0..from).rfind(is_free);
                match (below, above) {
                    (Some(below), Some(above)) if from - below <= above - until => {
                        (below, from - 1)
                    }
                    (_, Some(above)) => (above, from),
                    (Some(below), None) => (below, from - 1),
                    (None, None) => return None,
                }
            }
        };
        let mut bits = self.bits.clone();
        bits.remove(free);
        bits.insert(
            bit,
            Bit {
                term: Some(term.clone()),
                at: position,
                leaves: false,
            },
        );
        let mut last = bits.iter().find(|bit| bit.term.is_some())?.at;
        for bit in &mut bits {
            bit.leaves = false;
            match bit.term {
                Some(_) => last = bit.at,
                None => bit.at = last,
            }
        }
        let fields = fields(chunk);
        let stride = chunk.stride as usize;
        let count: usize = fields.iter().map(|field| field.1 as usize + 1).sum();
        let bytes = count * (stride + 8) + fields.len() * 192 + (stride * 8 + 17) * 4 + 64;
        let block = hand.room.take(bytes as u32)?;
        let mut writer = Writer::at(block.0);
        let mut positions: Vec<u32> = bits.iter().map(|bit| bit.at).collect();
        positions.resize(stride * 8 + 1, u32::MAX);
        let mut new = *chunk;
        new.positions_at = writer.section(positions.as_bytes());
        for (number, field) in fields.iter().enumerate() {
            let mut all = Vec::with_capacity((field.1 * chunk.words) as usize);
            for row in 0..field.1 {
                let from = all.len();
                let at = field.0 + row * chunk.stride;
                all.extend((0..chunk.words).map(|word| u64_at(hand.image, at + word * 8)));
                let own = &mut all[from..];
                shift(own, free, bit);
                let mask = 1u64 << (bit % 64);
                match rows[number][row as usize] {
                    true => own[bit / 64] |= mask,
                    false => own[bit / 64] &= !mask,
                }
            }
            let rows_at = write_rows(&all, chunk.words as usize, &mut writer);
            match number {
                2 => new.fold.rows_at = rows_at,
                0 | 1 => new.addresses[number].rows_at = rows_at,
                _ => new.ports[number - 3].rows_at = rows_at,
            }
        }
        debug_assert!(
            writer.added().len() <= block.1 as usize,
            "the block is large enough"
        );
        hand.write(block.0, writer.added());
        Some((new, Written { bits, rows: block }))
    }
}
