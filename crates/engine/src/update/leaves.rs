//! Terms in bit vectors: bits set and cleared in leaves, and chunks that are written anew.
//!
//! In: terms and their position. Out: leaves that have them. A term that the chunk with its
//! position can tell from others takes a free bit there ([`super::bits`]); else the chunk is built
//! again, as the compiler would have it, and the leaf's row of chunks is written beside it.
//! Terms that went are cleared in the field with the fewest rows, and left out when the leaf is
//! written next. Not here: the tree itself, which stays as it was built.

use super::hand::Hand;
use super::shape::{Shape, fields};
use super::{Place, Rebuild, Store};
use crate::compile::hash::QuickSet;
use crate::compile::maps::AddressRoom;
use crate::compile::service::ServiceId;
use crate::compile::splits::{LEAF, Ranges, ranges};
use crate::compile::spread;
use crate::compile::term::Term;
use crate::compile::vectors::{self, Builder};
use crate::image::layout::{self, CHUNK_TERMS_MAX, Chunk, Root, Split};
use crate::image::read;
use crate::image::write::Writer;
use std::collections::BTreeMap;
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// Terms of a chunk that is written anew.
const TERMS_MAX: usize = spread::terms_of(CHUNK_TERMS_MAX);
/// Blocks of an address tree of such a chunk.
const BLOCKS_MAX: usize = 64;
/// Bytes that a chunk is expected to take: for each bit and for all, or beside its rows and trees
/// for each word of them.
const BYTES_A_BIT: usize = 192;
const BYTES: usize = 8192;
const BYTES_A_WORD: usize = 6144;

/// A block of room, and its bytes; what was built with the image has none.
type Block = (u32, u32);

/// A bit of a chunk.
#[derive(Clone)]
pub(super) struct Bit {
    /// What it stands for; `None`: nothing, it is clear in the rows of one field, and of all once
    /// it has left.
    pub term: Option<Term>,
    /// Where the entry is. Not decreasing, also where bits are free.
    pub at: u32,
    /// Packets under way may still have it in hand.
    pub leaves: bool,
}

impl Bit {
    fn of((term, at): (Option<Term>, u32)) -> Self {
        let leaves = false;
        Bit { term, at, leaves }
    }
}

/// A chunk as it is now.
#[derive(Default)]
pub(super) struct Part {
    pub bits: Vec<Bit>,
    /// What its fold tells apart from everything else.
    services: QuickSet<ServiceId>,
    /// Classes of its fields, once they are asked for.
    shape: Option<Box<Shape>>,
    /// Where its maps are, with its rows when it was built.
    block: Block,
    /// Where its rows and positions are, if they were written anew.
    rows: Block,
    /// The same of maps: of addresses, the fold's, of ports.
    maps: [Block; 5],
    /// How often bits were moved.
    pub moved: u32,
}

impl Part {
    fn of(bits: Vec<Bit>, block: Block) -> Self {
        let terms = bits.iter().filter_map(|bit| bit.term.as_ref());
        Part {
            services: terms.map(|term| term.service).collect(),
            bits,
            block,
            ..Part::default()
        }
    }
}

/// A leaf as it is now.
pub struct Leaf {
    /// Its chunks, in evaluation order.
    pub(super) parts: Vec<Part>,
    /// Where their records are, and the block of room.
    at: u32,
    block: Block,
    /// Bits when the image was built.
    built: usize,
}

impl Leaf {
    /// Where the record of a chunk is.
    fn chunk_at(&self, part: usize) -> u32 {
        self.at + (part * size_of::<Chunk>()) as u32
    }

    /// The last chunk that begins in front of a position.
    fn part_of(&self, position: u32) -> usize {
        let begins = |part: &Part| part.bits.first().is_some_and(|bit| bit.at <= position);
        self.parts.partition_point(begins).saturating_sub(1)
    }
}

/// A bit that was cleared, which packets under way may still have in hand.
pub(super) struct Cleared {
    leaf: u32,
    part: usize,
    bit: usize,
    moved: u32,
    /// Nobody has it in hand, and all fields are clear of it; they may have been read before.
    wiped: bool,
}

fn at<T: FromBytes>(image: &[u8], offset: u32) -> T {
    read(image, offset).unwrap_or_else(|| panic!("the image ends before {offset}"))
}

/// Bytes that a chunk takes that is much like this one.
fn expected(chunk: &Chunk) -> usize {
    let rows: u32 = fields(chunk).iter().map(|field| field.1).sum();
    let trees: u32 = chunk.addresses.iter().map(|map| map.tree.max(2048)).sum();
    let rows = (rows + 64) * (chunk.stride + 8);
    (rows + trees * 4) as usize + BYTES + BYTES_A_WORD * chunk.words as usize
}

/// The leaves of a root, with the bits that were built into each.
pub fn of(image: &[u8], root_at: u32, bits: Vec<Vec<(Option<Term>, u32)>>) -> Vec<Leaf> {
    let root: Root = at(image, root_at);
    let each = bits.into_iter().enumerate().map(|(number, bits)| {
        let (chunks_at, chunks) = match root.splits {
            0 => (root.chunks_at, root.chunks),
            _ => {
                let size = size_of::<layout::Leaf>() as u32;
                let leaf: layout::Leaf = at(image, root.leaves_at + number as u32 * size);
                (leaf.chunks_at, leaf.chunks)
            }
        };
        let built = bits.len();
        let mut bits = bits.into_iter().map(Bit::of);
        let parts = (0..chunks).map(|number| {
            let chunk: Chunk = at(image, chunks_at + number * size_of::<Chunk>() as u32);
            let own = bits.by_ref().take(chunk.terms as usize).collect();
            Part::of(own, (0, 0))
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
    /// Leaves that packets of these terms are led to, with the terms of those packets.
    fn leaves_of<'t>(&self, terms: &'t [Term]) -> BTreeMap<u32, Vec<&'t Term>> {
        let mut out: BTreeMap<u32, Vec<&Term>> = BTreeMap::new();
        let mut leaves = Vec::new();
        for term in terms {
            let ranges = ranges(term, &self.root.services);
            reached(&self.root.spare.nodes, &ranges, &mut leaves);
            leaves.sort_unstable();
            leaves.dedup();
            for number in leaves.drain(..) {
                out.entry(number).or_default().push(term);
            }
        }
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
        for (number, own) in self.leaves_of(terms) {
            let mut left: Vec<Term> = Vec::new();
            for term in own {
                if !self.set_bit(hand, number, term, position)? {
                    left.push(term.clone());
                }
            }
            if !left.is_empty() {
                self.write_leaf(hand, number, left, position)?;
            }
        }
        Ok(())
    }

    /// Sets a bit for a term in a leaf. False: none is free, or classes would have to be made.
    fn set_bit(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        number: u32,
        term: &Term,
        position: u32,
    ) -> Result<bool, Rebuild> {
        let leaf = &mut self.leaves[number as usize];
        let own = leaf.part_of(position);
        let chunk_at = leaf.chunk_at(own);
        let Some(part) = leaf.parts.get_mut(own) else {
            return Ok(false);
        };
        let chunk: Chunk = at(hand.image, chunk_at);
        if !part.services.contains(&term.service) {
            return Ok(false);
        }
        let (family, interfaces) = (self.root.family, hand.interfaces.classes() as u32);
        let shape = part
            .shape
            .get_or_insert_with(|| Box::new(Shape::of(hand.image, &chunk, family, interfaces)));
        let Some(place) = shape.place(hand.image, &chunk, term, &self.root.services) else {
            return Ok(false);
        };
        if part.set(hand, &chunk, &place, term, position) {
            return Ok(true);
        }
        let written = part.written_with(hand, &chunk, &place, position, family);
        let Some((chunk, written)) = written else {
            return Ok(false);
        };
        if let Err(rebuild) = self.link_chunk(hand, number, own, &chunk) {
            written.give_back(hand);
            return Err(rebuild);
        }
        let part = &mut self.leaves[number as usize].parts[own];
        let (rows, maps) = (written.rows, written.maps);
        part.take_up(written, term);
        let gone = std::mem::replace(&mut part.rows, rows);
        hand.room.leave(gone.0, gone.1);
        for (own, new) in part.maps.iter_mut().zip(maps).filter(|(_, new)| new.1 > 0) {
            let gone = std::mem::replace(own, new);
            hand.room.leave(gone.0, gone.1);
        }
        if place.refold.is_some() {
            part.shape = None;
        } else if let Some(shape) = &mut part.shape {
            shape.take_up(place);
        }
        Ok(true)
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
        let own = leaf.part_of(position);
        let old = leaf.parts.get(own).into_iter();
        let live = old.flat_map(|part| &part.bits);
        let mut terms: Vec<(&Term, u32)> = live
            .filter_map(|bit| Some((bit.term.as_ref()?, bit.at)))
            .collect();
        if terms.len() + more.len() > TERMS_MAX {
            return Err(Rebuild("bit vectors of too many terms"));
        }
        let place = terms.partition_point(|(_, at)| *at <= position);
        terms.splice(place..place, more.iter().map(|term| (term, position)));
        let bits = spread::bits(&terms);
        let expected = match leaf.parts.get(own) {
            None => BYTES + BYTES_A_BIT * bits.len(),
            Some(_) => expected(&at(hand.image, leaf.chunk_at(own))),
        };
        let (chunk, block) = self.build_chunk(hand, &bits, expected)?;
        let bits = bits.into_iter().map(|(term, at)| (term.cloned(), at));
        let mut part = Part::of(bits.map(Bit::of).collect(), block);
        if let Err(rebuild) = self.link_chunk(hand, number, own, &chunk) {
            hand.room.give_back(block.0, block.1);
            return Err(rebuild);
        }
        self.chunks_built += 1;
        let leaf = &mut self.leaves[number as usize];
        if leaf.parts.is_empty() {
            leaf.parts.push(Part::default());
        }
        let place = &mut leaf.parts[own];
        part.moved = place.moved + 1;
        let gone = std::mem::replace(place, part);
        for block in gone.maps.into_iter().chain([gone.block, gone.rows]) {
            hand.room.leave(block.0, block.1);
        }
        Ok(())
    }

    /// Lets packets of a leaf be led to a chunk in place of the one with this number.
    fn link_chunk(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        number: u32,
        own: usize,
        chunk: &Chunk,
    ) -> Result<(), Rebuild> {
        let leaf = &self.leaves[number as usize];
        let count = leaf.parts.len().max(1);
        let read = |part: usize| match part == own {
            true => *chunk,
            false => at(hand.image, leaf.chunk_at(part)),
        };
        let chunks: Vec<Chunk> = (0..count).map(read).collect();
        let bytes = chunks.as_bytes();
        let row = hand.room.take(bytes.len() as u32);
        let row = row.ok_or(Rebuild("no room is left"))?;
        hand.write(row.0, bytes);
        let was_empty = leaf.parts.is_empty();
        let leaf = &mut self.leaves[number as usize];
        let gone = std::mem::replace(&mut leaf.block, row);
        leaf.at = row.0;
        let (at_word, count_word) = self.words_of(hand.image, number);
        hand.store32(at_word, row.0);
        if was_empty {
            // Who reads the count must not have read the place before.
            hand.store.wait();
            hand.store32(count_word, 1);
        }
        hand.room.leave(gone.0, gone.1);
        Ok(())
    }

    /// Builds a chunk in free room.
    fn build_chunk(
        &self,
        hand: &mut Hand<'_, impl Store>,
        bits: &[vectors::Bit],
        mut expected: usize,
    ) -> Result<(Chunk, Block), Rebuild> {
        let builder = Builder {
            family: self.root.family,
            interfaces: hand.interfaces,
            services: &self.root.services,
            room: AddressRoom {
                blocks_max: BLOCKS_MAX,
                fine: true,
            },
            alone: false,
            shared: None,
            changes: true,
            coarse: None,
        };
        loop {
            let block = hand.room.take(expected as u32);
            let block = block.ok_or(Rebuild("no room is left"))?;
            let mut writer = Writer::at(block.0);
            let chunks = builder.chunks([bits].into_iter(), usize::MAX, &mut writer);
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

    /// Clears the bits of terms of a position, in the field with the fewest rows.
    pub(super) fn clear(&mut self, hand: &mut Hand<'_, impl Store>, terms: &[Term], position: u32) {
        for number in self.leaves_of(terms).into_keys() {
            let leaf = &mut self.leaves[number as usize];
            let chunks_at = leaf.at;
            for (at_part, part) in leaf.parts.iter_mut().enumerate() {
                let first = part.bits.partition_point(|bit| bit.at < position);
                for (number_bit, bit) in part.bits.iter_mut().enumerate().skip(first) {
                    if bit.at != position {
                        break;
                    }
                    if bit.term.take_if(|term| terms.contains(term)).is_some() {
                        bit.leaves = true;
                        let chunk_at = chunks_at + (at_part * size_of::<Chunk>()) as u32;
                        let chunk: Chunk = at(hand.image, chunk_at);
                        super::bits::clear(hand, &chunk, number_bit);
                        self.cleared.push(Cleared {
                            leaf: number,
                            part: at_part,
                            bit: number_bit,
                            moved: part.moved,
                            wiped: false,
                        });
                    }
                }
            }
        }
    }

    /// Bits that were cleared.
    pub(super) fn leaving_bits(&self) -> usize {
        self.cleared.len()
    }

    /// After a grace period: wipes the first so many bits that were cleared, and lets those of them
    /// be used again that were wiped before it.
    pub(super) fn free_cleared(&mut self, hand: &mut Hand<'_, impl Store>, count: usize) {
        let first: Vec<Cleared> = self.cleared.drain(..count).collect();
        for cleared in first {
            let leaf = &mut self.leaves[cleared.leaf as usize];
            let chunk_at = leaf.chunk_at(cleared.part);
            let part = &mut leaf.parts[cleared.part];
            if part.moved != cleared.moved {
                continue;
            }
            if cleared.wiped {
                part.bits[cleared.bit].leaves = false;
                continue;
            }
            let chunk: Chunk = at(hand.image, chunk_at);
            super::bits::wipe(hand, &chunk, cleared.bit);
            let wiped = true;
            self.cleared.push(Cleared { wiped, ..cleared });
        }
    }

    /// Words that packets look at in leaves beyond those that were built, on average.
    pub(super) fn more_words(&self) -> f64 {
        let words = |bits: usize| bits as f64 / 64.0;
        let now = |leaf: &Leaf| leaf.parts.iter().map(|part| part.bits.len()).sum::<usize>();
        let more = |leaf: &Leaf| words(now(leaf)) - words(leaf.built);
        let all: f64 = self.leaves.iter().map(more).sum();
        all / self.leaves.len().max(1) as f64
    }
}
