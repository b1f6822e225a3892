//! Single bits of a chunk: set in place, moved to make room, cleared.
//!
//! A free bit is clear in all rows of all fields. What packets meet when one is set: nothing before
//! its position is written and the last field has it, then the entry at that position, in
//! evaluation order; and whoever reads the last field with it has read the others with it or clear.
//! Who has other bits of the same word in hand meets what they stand for, as no bit changes what it
//! stands for before packets under way are through.
//!
//! A bit that goes is cleared in one field. When packets under way are through, nobody meets what
//! it stood for, and it is cleared in the others too; when those are through who may have read the
//! others before, it is free. Were it set again at once, a packet could read one field as it was
//! for the old term and the last as it is for the new one, and meet an entry that is not its own.
//!
//! Where no bit is free at the right place, those between it and the nearest free one move by one.
//! That takes a copy of all rows, which is linked like a chunk that is built anew. Maps to rows
//! stay, but those of fields in which the term needs rows that there are none of.

use super::Store;
use super::hand::Hand;
use super::leaves::{Bit, Part};
use super::shape::{Place, fields};
use crate::compile::maps::{self, AddressRoom};
use crate::compile::term::Term;
use crate::compile::vectors::write_rows;
use crate::image::layout::{AddressMap, Chunk, Map};
use crate::image::write::Writer;
use crate::lookup::class::u64_at;
use std::cmp::Ordering;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Blocks of an address tree that is written anew.
const BLOCKS_MAX: usize = 128;

/// A chunk's bits and rows, written beside those that are in use.
pub(super) struct Written {
    bits: Moved,
    pub rows: (u32, u32),
    /// Maps of addresses, the fold's, and of ports, where classes came.
    pub maps: [(u32, u32); 5],
}

impl Written {
    /// Gives back what nobody was led to.
    pub(super) fn give_back(&self, hand: &mut Hand<'_, impl Store>) {
        for (at, bytes) in self.maps.into_iter().chain([self.rows]) {
            if bytes > 0 {
                hand.room.give_back(at, bytes);
            }
        }
    }
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

/// Clears a bit in all fields, once it is clear in one and nobody has it in hand.
pub(super) fn wipe(hand: &mut Hand<'_, impl Store>, chunk: &Chunk, bit: usize) {
    for field in fields(chunk) {
        set_in_field(hand, chunk, field, bit, &vec![false; field.1 as usize]);
    }
}

/// A chunk's bits after those between two have moved by one, so that one goes and one comes.
struct Moved {
    /// The number of the one that goes, and of the one that comes.
    goes: usize,
    comes: usize,
    /// Positions of all.
    at: Vec<u32>,
    /// Those that stand for something, in words. What is clear in one field only is not copied.
    live: Vec<u64>,
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
        place: &Place,
        term: &Term,
        position: u32,
    ) -> bool {
        if place.refold.is_some() || place.rows.iter().any(|field| !field.copies.is_empty()) {
            return false;
        }
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
        let gate = (0..fields.len()).min_by_key(|number| fields[*number].1);
        let Some(gate) = gate.filter(|_| fields.iter().all(is_clear)) else {
            return false;
        };
        for (number, field) in fields.iter().enumerate() {
            if number != gate {
                set_in_field(hand, chunk, *field, bit, &place.rows[number].set);
            }
        }
        // Positions do not decrease at any moment: searches among them go on meanwhile.
        for at in (from..bit).chain((bit..until).rev()) {
            let known = self.bits[at].at;
            let new = match at.cmp(&bit) {
                Ordering::Less => known.min(position),
                Ordering::Equal => position,
                Ordering::Greater => known.max(position),
            };
            if at == bit || new != known {
                hand.store32(chunk.positions_at + at as u32 * 4, new);
            }
            self.bits[at].at = new;
        }
        set_in_field(hand, chunk, fields[gate], bit, &place.rows[gate].set);
        self.bits[bit].term = Some(term.clone());
        true
    }

    /// Where a bit for a position comes from, and its number once that has gone; `None`: there is
    /// none that stands for nothing.
    fn nearest(&self, position: u32) -> Option<(usize, usize)> {
        // Nobody has met the rows that are written for it, so what leaves is free there.
        let (from, until) = self.gap(position, |bit| bit.term.is_none());
        if from < until {
            return Some((from, from));
        }
        let is_free = |bit: &usize| self.bits[*bit].term.is_none();
        let above = (until..self.bits.len()).find(is_free);
        let below = (0..from).rfind(is_free);
        match (below, above) {
            (Some(below), Some(above)) if from - below <= above - until => Some((below, from - 1)),
            (_, Some(above)) => Some((above, from)),
            (Some(below), None) => Some((below, from - 1)),
            (None, None) => None,
        }
    }

    /// The bits once one that is free has gone and one for a position has come.
    fn moved(&self, goes: usize, comes: usize, position: u32) -> Moved {
        // Where each stands, if for something.
        let stands = |bit: &Bit| bit.term.as_ref().map(|_| bit.at);
        let mut all: Vec<Option<u32>> = self.bits.iter().map(stands).collect();
        all.remove(goes);
        all.insert(comes, Some(position));
        let mut live = vec![0; all.len().div_ceil(64)];
        for (number, _) in all.iter().enumerate().filter(|(_, at)| at.is_some()) {
            live[number / 64] |= 1 << (number % 64);
        }
        let mut last = all.iter().flatten().next().copied().unwrap_or(position);
        let at = all.into_iter().map(|at| {
            last = at.unwrap_or(last);
            last
        });
        Moved {
            goes,
            comes,
            at: at.collect(),
            live,
        }
    }

    /// Takes up bits that were written for a term, and that packets go to now.
    pub(super) fn take_up(&mut self, written: Written, term: &Term) {
        let moved = written.bits;
        self.bits.remove(moved.goes);
        let own = Bit {
            term: Some(term.clone()),
            at: 0,
            leaves: false,
        };
        self.bits.insert(moved.comes, own);
        for (bit, at) in self.bits.iter_mut().zip(moved.at) {
            (bit.at, bit.leaves) = (at, false);
        }
        self.moved += 1;
    }

    /// Writes all rows beside those in use, with a bit for a term; the chunk that has them. `None`:
    /// no bit is free, or there is no room.
    pub(super) fn written_with(
        &self,
        hand: &mut Hand<'_, impl Store>,
        chunk: &Chunk,
        place: &Place,
        position: u32,
        family: Family,
    ) -> Option<(Chunk, Written)> {
        let (free, bit) = self.nearest(position)?;
        let bits = self.moved(free, bit, position);
        let stride = chunk.stride as usize;
        let count: usize = place.rows.iter().map(|field| field.set.len() + 8).sum();
        let bytes = count * (stride + 8) + place.rows.len() * 128 + (stride * 8 + 17) * 4;
        let block = hand.room.take(bytes as u32)?;
        let mut writer = Writer::at(block.0);
        let mut positions = bits.at.clone();
        positions.resize(stride * 8 + 1, u32::MAX);
        let mut new = *chunk;
        new.positions_at = writer.section(positions.as_bytes());
        let words = chunk.words as usize;
        for (number, (field, own)) in fields(chunk).iter().zip(&place.rows).enumerate() {
            let mut all = Vec::with_capacity(own.set.len() * words);
            let old = (0..field.1).chain(own.copies.iter().copied());
            for (row, is_set) in old.zip(&own.set) {
                let from = all.len();
                let at = field.0 + row * chunk.stride;
                all.extend((0..chunk.words).map(|word| u64_at(hand.image, at + word * 8)));
                let row = &mut all[from..];
                shift(row, free, bit);
                row.iter_mut()
                    .zip(&bits.live)
                    .for_each(|(row, live)| *row &= live);
                let mask = 1u64 << (bit % 64);
                match is_set {
                    true => row[bit / 64] |= mask,
                    false => row[bit / 64] &= !mask,
                }
            }
            let rows_at = write_rows(&all, words, &mut writer);
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
        let mut written = Written {
            bits,
            rows: block,
            maps: [(0, 0); 5],
        };
        if !write_maps(hand, place, &mut new, &mut written, family) {
            written.give_back(hand);
            return None;
        }
        Some((new, written))
    }
}

/// Writes the maps of fields in which rows come, beside those in use. False: there is no room.
fn write_maps(
    hand: &mut Hand<'_, impl Store>,
    place: &Place,
    new: &mut Chunk,
    written: &mut Written,
    family: Family,
) -> bool {
    for side in 0..2 {
        if place.bounds[side].is_empty() {
            continue;
        }
        let map = &mut new.addresses[side];
        let rows = place.rows[side].set.len() as u32;
        let Some(block) = write_map(hand, map, &place.bounds[side], rows, family) else {
            return false;
        };
        written.maps[side] = block;
    }
    for side in 0..2 {
        if place.ports[side].is_empty() {
            continue;
        }
        let (map, rows) = (&mut new.ports[side], place.rows[3 + side].set.len() as u32);
        let Some(block) = write_ports(hand, map, &place.ports[side], rows) else {
            return false;
        };
        written.maps[3 + side] = block;
    }
    if let Some(refold) = &place.refold {
        let Some(block) = hand.room.take(refold.bytes(&new.fold) as u32) else {
            return false;
        };
        let mut writer = Writer::at(block.0);
        refold.write(&mut new.fold, &mut writer);
        new.fold.rows = place.rows[2].set.len() as u32;
        written.maps[2] = block;
        if writer.added().len() > block.1 as usize {
            return false;
        }
        hand.write(block.0, writer.added());
    }
    true
}

/// Writes a map from ports to classes in place of another; its block.
fn write_ports(
    hand: &mut Hand<'_, impl Store>,
    map: &mut Map,
    bounds: &[(u16, u32)],
    classes: u32,
) -> Option<(u32, u32)> {
    // Numbers of 256 blocks, and blocks of 256 classes: each that there was as it was and with the
    // class that comes, and those that a bound of that cuts.
    let mut blocks = (2 * map.blocks + 2).min(256);
    loop {
        let block = hand.room.take(512 * (1 + blocks))?;
        let mut writer = Writer::at(block.0);
        let made = maps::ports(bounds, classes, &mut writer);
        if writer.added().len() <= block.1 as usize {
            hand.write(block.0, writer.added());
            let rows_at = map.rows_at;
            *map = Map { rows_at, ..made };
            return Some(block);
        }
        hand.room.give_back(block.0, block.1);
        blocks = made.blocks;
    }
}

/// Writes a map from addresses to classes in place of another; its block.
fn write_map(
    hand: &mut Hand<'_, impl Store>,
    map: &mut AddressMap,
    bounds: &[(u128, u32)],
    classes: u32,
    family: Family,
) -> Option<(u32, u32)> {
    // As it was: a tree, or an index as fine as before.
    let room = AddressRoom {
        blocks_max: if map.tree > 0 { BLOCKS_MAX } else { 0 },
        fine: map.tree > 0 || map.cell_last >= 2 * map.bounds,
    };
    let mut expected = (map.tree + 4 * 256) as usize * 4 + bounds.len() * 32;
    loop {
        let block = hand.room.take(expected as u32)?;
        let mut writer = Writer::at(block.0);
        let made = maps::addresses(bounds, classes, family, room, &mut writer);
        let added = writer.added();
        match made {
            Ok(made) if added.len() <= block.1 as usize => {
                hand.write(block.0, added);
                *map = AddressMap {
                    rows_at: map.rows_at,
                    ..made
                };
                return Some(block);
            }
            Ok(_) => expected = added.len(),
            Err(_) => expected = 0,
        }
        hand.room.give_back(block.0, block.1);
        if expected == 0 {
            return None;
        }
    }
}
