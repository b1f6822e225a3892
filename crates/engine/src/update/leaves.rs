//! Terms in bit vectors: a chunk of a leaf is written anew into free room, then one word.
//!
//! In: terms and their position. Out: leaves that have them, as the compiler would have built them:
//! the chunk with the position is built again, and the leaf's row of chunks is written beside it.
//! Terms that went are cleared in the field with the fewest rows, and left out when the leaf is
//! written next. Not here: the tree itself, which stays as it was built.

use super::hand::Hand;
use super::{Place, Rebuild, Store};
use crate::compile::room::Slot;
use crate::compile::splits::{LEAF, Ranges, ranges};
use crate::compile::term::Term;
use crate::compile::vectors::Builder;
use crate::image::layout::{self, CHUNK_TERMS_MAX, Chunk, Root, Split};
use crate::image::write::Writer;
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// Terms of a chunk that is written anew.
const TERMS_MAX: usize = 2048;
/// Blocks of an address tree of such a chunk.
const BLOCKS_MAX: usize = 32;
/// Bytes that a chunk is expected to take, for each term and for all.
const BYTES_A_TERM: usize = 128;
const BYTES: usize = 8192;

/// A chunk as it is now.
#[derive(Default)]
struct Part {
    /// Its terms by bit, with their positions; `None` where one went.
    terms: Vec<(Option<Term>, u32)>,
    /// Its block of room, of 0 bytes when it was built with the image.
    block: (u32, u32),
}

/// A leaf as it is now.
pub struct Leaf {
    /// Its chunks, in evaluation order.
    parts: Vec<Part>,
    /// Where their records are, and the block of room.
    at: u32,
    block: (u32, u32),
    /// Terms when the image was built.
    built: usize,
}

fn at<T: FromBytes>(image: &[u8], offset: u32) -> T {
    let read = T::read_from_prefix(&image[offset as usize..]);
    read.map_or_else(
        |_| panic!("the image ends before {offset}"),
        |(value, _)| value,
    )
}

/// The leaves of a root, with the terms that were built into each.
pub fn of(image: &[u8], root_at: u32, terms: Vec<Vec<(Term, u32)>>) -> Vec<Leaf> {
    let root: Root = at(image, root_at);
    let each = terms.into_iter().enumerate().map(|(number, terms)| {
        let (chunks_at, chunks) = match root.splits {
            0 => (root.chunks_at, root.chunks),
            _ => {
                let size = size_of::<layout::Leaf>() as u32;
                let leaf: layout::Leaf = at(image, root.leaves_at + number as u32 * size);
                (leaf.chunks_at, leaf.chunks)
            }
        };
        let built = terms.len();
        let mut terms = terms.into_iter().map(|(t, at)| (Some(t), at));
        let parts = (0..chunks).map(|number| {
            let chunk: Chunk = at(image, chunks_at + number * size_of::<Chunk>() as u32);
            Part {
                terms: terms.by_ref().take(chunk.terms as usize).collect(),
                block: (0, 0),
            }
        });
        Leaf {
            parts: parts.collect(),
            at: chunks_at,
            block: (0, 0),
            built,
        }
    });
    each.collect()
}

/// The leaves that packets of these ranges are led to.
fn reached(nodes: &[Split], ranges: &Ranges, out: &mut Vec<u32>) {
    let mut open = vec![if nodes.is_empty() { LEAF } else { 0 }];
    while let Some(next) = open.pop() {
        if next & LEAF != 0 {
            out.push(next & !LEAF);
            continue;
        }
        let node = &nodes[next as usize];
        let (first, last) = ranges[node.dim as usize];
        if last >= node.bound {
            open.push(node.next[1]);
        }
        if first < node.bound {
            open.push(node.next[0]);
        }
    }
}

impl Place {
    /// Leaves that packets of one of these terms are led to, in order.
    fn leaves_of(&self, terms: &[Term]) -> Vec<u32> {
        let mut out = Vec::new();
        for term in terms {
            let ranges = ranges(term, &self.root.services);
            reached(&self.root.spare.nodes, &ranges, &mut out);
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Offsets of the words that say where a leaf's chunks are, and how many.
    fn words_of(&self, image: &[u8], number: u32) -> (u32, u32) {
        if self.root.spare.nodes.is_empty() {
            let word = |offset: usize| self.root.at + offset as u32;
            return (
                word(offset_of!(Root, chunks_at)),
                word(offset_of!(Root, chunks)),
            );
        }
        let root: Root = at(image, self.root.at);
        let leaf = root.leaves_at + number * size_of::<layout::Leaf>() as u32;
        let word = |offset: usize| leaf + offset as u32;
        (
            word(offset_of!(layout::Leaf, chunks_at)),
            word(offset_of!(layout::Leaf, chunks)),
        )
    }

    /// Lets bit vectors have these terms. On an error some leaves may have them.
    pub(super) fn put_in_leaves(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        terms: &[Term],
        position: u32,
    ) -> Result<(), Rebuild> {
        for number in self.leaves_of(terms) {
            let own = terms.iter().filter(|term| {
                let mut out = Vec::new();
                let ranges = ranges(term, &self.root.services);
                reached(&self.root.spare.nodes, &ranges, &mut out);
                out.contains(&number)
            });
            let own: Vec<Term> = own.cloned().collect();
            self.write_leaf(hand, number, own, position)?;
        }
        Ok(())
    }

    /// Writes a chunk of a leaf anew, with more terms of one position.
    fn write_leaf(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        number: u32,
        more: Vec<Term>,
        position: u32,
    ) -> Result<(), Rebuild> {
        let leaf = &self.leaves[number as usize];
        // The last chunk that begins in front of the position.
        let begins = |part: &Part| part.terms.first().is_some_and(|(_, at)| *at <= position);
        let own = leaf.parts.partition_point(begins).saturating_sub(1);
        let old = leaf.parts.get(own);
        let live = old.iter().flat_map(|part| &part.terms);
        let live = live.filter(|(term, _)| term.is_some());
        let mut terms: Vec<(Option<Term>, u32)> = live.cloned().collect();
        if terms.len() + more.len() > TERMS_MAX {
            return Err(Rebuild("bit vectors of too many terms"));
        }
        let place = terms.partition_point(|(_, at)| *at <= position);
        let more = more.into_iter().map(|term| (Some(term), position));
        terms.splice(place..place, more);
        let (chunk, block) = self.build_chunk(hand, &terms)?;
        let leaf = &mut self.leaves[number as usize];
        let count = leaf.parts.len().max(1);
        let read = |at_part: usize| match at_part == own {
            true => chunk,
            false => at(hand.image, leaf.at + (at_part * size_of::<Chunk>()) as u32),
        };
        let chunks: Vec<Chunk> = (0..count).map(read).collect();
        let bytes = chunks.as_bytes();
        let Some(row) = hand.room.take(bytes.len() as u32) else {
            hand.room.give_back(block.0, block.1);
            return Err(Rebuild("no room is left"));
        };
        hand.write(row.0, bytes);
        let was_empty = leaf.parts.is_empty();
        if was_empty {
            leaf.parts.push(Part::default());
        }
        let gone = std::mem::replace(&mut leaf.parts[own], Part { terms, block }).block;
        let gone_row = std::mem::replace(&mut leaf.block, row);
        leaf.at = row.0;
        let (at_word, count_word) = self.words_of(hand.image, number);
        hand.store32(at_word, row.0);
        if was_empty {
            // Who reads the count must not have read the place before.
            hand.store.wait();
            hand.store32(count_word, 1);
        }
        hand.room.leave(gone.0, gone.1);
        hand.room.leave(gone_row.0, gone_row.1);
        Ok(())
    }

    /// Builds a chunk in free room.
    fn build_chunk(
        &self,
        hand: &mut Hand<'_, impl Store>,
        terms: &[(Option<Term>, u32)],
    ) -> Result<(Chunk, (u32, u32)), Rebuild> {
        let live = terms.iter();
        let terms: Vec<(&Term, u32)> = live
            .filter_map(|(t, at)| Some((t.as_ref()?, *at)))
            .collect();
        let builder = Builder {
            family: self.root.family,
            interfaces: hand.interfaces,
            services: &self.root.services,
            blocks_max: BLOCKS_MAX,
            alone: false,
        };
        let mut expected = BYTES + BYTES_A_TERM * terms.len();
        loop {
            let block = hand.room.take(expected as u32);
            let block = block.ok_or(Rebuild("no room is left"))?;
            let mut writer = Writer::at(block.0);
            let chunks = builder.chunks(&terms, CHUNK_TERMS_MAX, usize::MAX, &mut writer);
            let added = writer.added();
            match chunks.as_deref() {
                Ok([chunk]) if added.len() <= block.1 as usize => {
                    hand.write(block.0, added);
                    return Ok((*chunk, block));
                }
                Ok([_]) => {
                    hand.room.give_back(block.0, block.1);
                    expected = added.len();
                }
                _ => {
                    hand.room.give_back(block.0, block.1);
                    return Err(Rebuild("bit vectors of too many classes"));
                }
            }
        }
    }

    /// Whether bit vectors have the terms that a position has of its own.
    pub(super) fn has_in_leaves(&self, position: u32) -> bool {
        match self.root.slots.get(position as usize) {
            Some(Slot::Plain(terms)) => self.is_in_leaves(terms, position),
            _ => false,
        }
    }

    /// Whether bit vectors have terms of a position.
    pub(super) fn is_in_leaves(&self, terms: &[Term], position: u32) -> bool {
        self.leaves_of(terms).iter().any(|number| {
            let leaf = &self.leaves[*number as usize];
            leaf.parts.iter().any(|part| {
                let first = part.terms.partition_point(|(_, at)| *at < position);
                part.terms.get(first).is_some_and(|(_, at)| *at == position)
            })
        })
    }

    /// Clears the bits of terms of a position, in the field with the fewest rows.
    pub(super) fn clear(&mut self, hand: &mut Hand<'_, impl Store>, terms: &[Term], position: u32) {
        for number in self.leaves_of(terms) {
            let leaf = &mut self.leaves[number as usize];
            for (at_part, part) in leaf.parts.iter_mut().enumerate() {
                let first = part.terms.partition_point(|(_, at)| *at < position);
                for (bit, (term, at_position)) in part.terms.iter_mut().enumerate().skip(first) {
                    if *at_position != position {
                        break;
                    }
                    if term.take_if(|term| terms.contains(term)).is_some() {
                        let chunk_at = leaf.at + (at_part * size_of::<Chunk>()) as u32;
                        let chunk: Chunk = at(hand.image, chunk_at);
                        clear_bit(hand, &chunk, bit as u32);
                    }
                }
            }
        }
    }

    /// Words that packets look at in leaves beyond those that were built, on average.
    pub(super) fn more_words(&self) -> f64 {
        let words = |terms: usize| terms as f64 / 64.0;
        let now = |leaf: &Leaf| {
            leaf.parts
                .iter()
                .map(|part| part.terms.len())
                .sum::<usize>()
        };
        let more = |leaf: &Leaf| words(now(leaf)) - words(leaf.built);
        let all: f64 = self.leaves.iter().map(more).sum();
        all / self.leaves.len().max(1) as f64
    }
}

fn clear_bit(hand: &mut Hand<'_, impl Store>, chunk: &Chunk, bit: u32) {
    let [source, destination] = &chunk.addresses;
    let fields = [
        (source.rows, source.rows_at, chunk.stride),
        (destination.rows, destination.rows_at, chunk.stride),
        (chunk.fold.rows, chunk.fold.rows_at, chunk.fold.stride),
    ];
    let (rows, rows_at, stride) = fields.into_iter().min().unwrap_or(fields[0]);
    let word = bit / 64 * 8;
    for row in 0..rows {
        let offset = rows_at + row * stride + word;
        let old: u64 = at(hand.image, offset);
        let new = old & !(1 << (bit % 64));
        if old != new {
            hand.store64(offset, new);
        }
    }
}
