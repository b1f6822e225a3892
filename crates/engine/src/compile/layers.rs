//! The classifier of one root: which terms go into which structure.
//!
//! Few terms: bit vectors alone. Many: hashed tables for what is specific enough, bit vectors for
//! the rest.

use super::Error;
use super::coarse::{self, Coarse};
use super::flatten::Flat;
use super::fold::Unit;
use super::hash::QuickMap;
use super::interfaces::Interfaces;
use super::maps::AddressRoom;
use super::service::Services;
use super::splits;
use super::spread;
use super::tables::{self, Hashed};
use super::term::Term;
use super::vectors::{self, Bit, Builder, Shared};
use crate::image::layout::{
    CHUNK_TERMS_MAX, CHUNKS_MAX, Fold, GROUP_MAX, HashTable, Leaf, Prefixes4, Root, Split,
    row_words,
};
use crate::image::write::Writer;
use std::collections::HashSet;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Up to so many terms, bit vectors alone serve best.
const SMALL: usize = 1100;

/// Bits of a chunk for packets that are cut short, where single rules are to be changed.
const LEAN_TERMS: usize = 256;
/// Terms that only bit vectors can hold.
const WIDE_MAX: usize = 1024 * CHUNKS_MAX;
/// Blocks of all address trees of one field in a row of chunks.
const TREE_BLOCKS: usize = 1024;
/// Bytes of rows up to which a chunk may be larger than the smallest size.
const ROW_BYTES: usize = 3 << 20;
/// The same where single rules are to be changed: rows are written anew with many of them.
const ROOM_ROW_BYTES: usize = 512 << 10;

/// What building the classifier of a root needs to know.
pub struct Layers<'a> {
    /// Family of the root.
    pub family: Family,
    /// Interface classes.
    pub interfaces: &'a Interfaces,
    /// Services that terms name.
    pub services: &'a Services,
    /// Whether hashed tables and splits may be used.
    pub tables: bool,
    /// Threads that may work; the image is the same.
    pub threads: usize,
    /// Whether little room matters more than a quick lookup: packets that are cut short.
    pub lean: bool,
    /// Bytes that the image may have.
    pub limit: usize,
    /// Whether there is to be room for changes in place.
    pub room: bool,
    /// Bytes that exact rows may take.
    pub row_bytes: usize,
}

/// What was made.
#[derive(Debug, Default)]
pub struct Made {
    /// Terms in hashed tables.
    pub hashed: usize,
    /// Chunks of the leaf with most of them.
    pub chunks: usize,
    /// Loads that the dearest packet can cause.
    pub worst_loads: u32,
    /// Whether rows are coarse.
    pub coarse: bool,
    /// What changes in place need to know, where there is room for them.
    pub spare: Option<Spare>,
}

/// What changes in place change: tables with their services, leaves of bit vectors.
#[derive(Debug, Default)]
pub struct Spare {
    /// The tables.
    pub tables: Vec<HashTable>,
    /// Bytes of all their records, as they were built.
    pub record_bytes: u64,
    /// The number of each service that their records can name.
    pub units: QuickMap<Unit, u32>,
    /// Whether records leave ports to services.
    pub with_ports: bool,
    /// The split tree in front of the bit vectors.
    pub nodes: Vec<Split>,
    /// Bits of each leaf, chunk after chunk, with the position of their entry.
    pub leaves: Vec<Vec<(Option<Term>, u32)>>,
    /// Bytes of the chunks of leaves.
    pub leaf_bytes: usize,
    /// What a packet pays for all of it, see [`tables`].
    pub cost: f64,
}

impl Spare {
    /// What changes need to know of tables.
    fn of(hashed: &Hashed) -> Self {
        Spare {
            cost: tables::TABLE_COST * hashed.tables.len() as f64,
            tables: hashed.tables.clone(),
            record_bytes: hashed.record_bytes,
            units: hashed.units.clone(),
            with_ports: hashed.with_ports,
            ..Spare::default()
        }
    }
}

/// Where chunks are.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// They are one of so many leaves.
    leaves: usize,
    /// Classes of the tables in front of them.
    shared: Option<Shared<'a>>,
    /// How coarse their rows are.
    coarse: Option<Coarse>,
}

impl Default for Place<'_> {
    fn default() -> Self {
        Place {
            leaves: 1,
            shared: None,
            coarse: None,
        }
    }
}

impl Layers<'_> {
    /// Builds the classifier of a flattened root and notes it in the record.
    pub fn build(&self, flat: &Flat, root: &mut Root, writer: &mut Writer) -> Result<Made, Error> {
        let mut terms: Vec<(&Term, u32)> = Vec::with_capacity(flat.terms.len());
        for at in 0..flat.entries.len() {
            terms.extend(flat.terms_of(at).iter().map(|term| (term, at as u32)));
        }
        let mut made = Made::default();
        let mut hashed = if self.tables && terms.len() > SMALL {
            tables::build(&terms, self, writer)
        } else {
            None
        };
        let mut spare = Spare::default();
        let fold;
        let mut shared = None;
        if let Some(hashed) = &mut hashed {
            made.hashed = terms.len() - hashed.rest.len();
            fold = self.services(hashed, root, writer);
            made.worst_loads += vectors::fold_loads(&fold)
                + hashed.tables.len() as u32 * (3 + 7 * GROUP_MAX as u32);
            terms = std::mem::take(&mut hashed.rest);
            match self.room {
                true => spare = Spare::of(hashed),
                false => shared = self.shared(hashed, &fold),
            }
        }
        if !self.tables {
            let parts = self.parts(&terms, false);
            (root.chunks_at, root.chunks) =
                self.vectors(flat, &parts, Place::default(), &mut made, writer)?;
            return Ok(made);
        }
        let loads = made.worst_loads;
        let leaf_max = match self.room {
            true => spread::terms_of(chunk_terms(&terms, ROOM_ROW_BYTES)),
            false => usize::MAX,
        };
        // What fits one chunk is looked through sooner than a tree is walked.
        let split = terms.len() > leaf_max || !self.lean && !fit_one_chunk(&terms);
        let tree = splits::split(terms, self.services, self.family, split, leaf_max);
        let coarse = self.coarse(&tree);
        made.coarse = coarse.is_some();
        // Four loads of each node on the way, two of the leaf.
        let way = match tree.depth as u32 {
            0 => 0,
            depth => 4 * depth + 2,
        };
        let loads = loads + way;
        let mut leaves = Vec::with_capacity(tree.leaves.len());
        for terms in &tree.leaves {
            let mut leaf = Made {
                hashed: made.hashed,
                ..Made::default()
            };
            let parts = self.parts(terms, coarse.is_some());
            let before = writer.length();
            let place = Place {
                leaves: tree.leaves.len(),
                shared,
                coarse,
            };
            let (chunks_at, chunks) = self.vectors(flat, &parts, place, &mut leaf, writer)?;
            made.chunks = made.chunks.max(leaf.chunks);
            made.worst_loads = made.worst_loads.max(loads + leaf.worst_loads);
            leaves.push(Leaf { chunks_at, chunks });
            if self.room {
                let own = parts.iter().flatten();
                let own = own.map(|(term, at)| (term.map(Term::clone), *at));
                spare.leaves.push(own.collect());
                spare.leaf_bytes += writer.length() - before;
            }
        }
        if tree.nodes.is_empty() {
            (root.chunks_at, root.chunks) = (leaves[0].chunks_at, leaves[0].chunks);
        } else {
            root.splits = tree.depth as u32;
            root.splits_at = writer.section(tree.nodes.as_bytes());
            root.split_nodes = tree.nodes.len() as u32;
            root.leaves_at = writer.section(leaves.as_bytes());
            root.leaves = leaves.len() as u32;
        }
        if self.room {
            spare.cost += tables::REST_COST + tables::WORD_COST;
            spare.nodes = tree.nodes;
            made.spare = Some(spare);
        }
        Ok(made)
    }

    /// How coarse the rows of leaves are, if exact ones take too much room. Where rules are changed
    /// in place they never are: a term that comes would need bounds.
    fn coarse(&self, tree: &splits::Tree) -> Option<Coarse> {
        // Bounds of IPv6 take more room, of which there is less for rows then.
        let (from, bytes) = match (self.lean, self.family) {
            (true, _) => (self.row_bytes / 4, self.row_bytes / 8),
            (false, Family::V4) => (self.row_bytes, self.row_bytes / 16 * 9),
            (false, Family::V6) => (self.row_bytes, self.row_bytes / 4),
        };
        let leaves = || tree.leaves.iter().filter(|leaf| !leaf.is_empty());
        let mut terms = leaves().flatten();
        if self.room || !rows_exceed(leaves(), from) || !terms.all(|t| coarse::is_plain(t.0)) {
            return None;
        }
        let stride = |part: &[(&Term, u32)]| row_words(part.len().div_ceil(64) as u32) * 8;
        let parts = leaves().flat_map(|leaf| leaf.chunks(coarse_terms(leaf)));
        let row = parts.map(stride).sum::<u32>() as usize;
        Some(Coarse::of(bytes / (4 * row)))
    }

    /// The classes of tables' services, where a chunk may share them.
    fn shared<'h>(&self, hashed: &'h Hashed, fold: &'h Fold) -> Option<Shared<'h>> {
        (hashed.with_ports && !self.lean).then_some(Shared {
            fold,
            folded: &hashed.folded,
            ports: &hashed.ports,
            units: &hashed.units,
        })
    }

    /// Writes the tables and the rows that say which services hold.
    fn services(&self, hashed: &Hashed, root: &mut Root, writer: &mut Writer) -> Fold {
        let fold = vectors::unit_rows(&hashed.folded, &hashed.ports, writer);
        root.services_at = writer.section(fold.as_bytes());
        root.services = hashed.services;
        root.tables = hashed.tables.len() as u32;
        root.tables_at = writer.section(hashed.tables.as_bytes());
        let packed = |table: &HashTable| table.record as usize == size_of::<Prefixes4>();
        root.packed = (!self.room && hashed.tables.iter().all(packed)).into();
        fold
    }

    /// The bits of a leaf's chunks.
    fn parts<'t>(&self, terms: &[(&'t Term, u32)], coarse: bool) -> Vec<Vec<Bit<'t>>> {
        if self.room {
            let bits = match self.lean {
                true => LEAN_TERMS.max(terms.len().div_ceil(CHUNKS_MAX / 4)),
                false => chunk_terms(terms, ROOM_ROW_BYTES),
            };
            return spread::chunks(terms, spread::terms_of(bits));
        }
        let bit = |(term, at): &(&'t Term, u32)| (Some(*term), *at);
        let most = match coarse {
            true => coarse_terms(terms),
            false => chunk_terms(terms, ROW_BYTES),
        };
        let chunks = terms.chunks(most);
        chunks.map(|part| part.iter().map(bit).collect()).collect()
    }

    /// Bit vectors over bits, in chunks.
    fn vectors(
        &self,
        flat: &Flat,
        parts: &[Vec<Bit>],
        place: Place,
        made: &mut Made,
        writer: &mut Writer,
    ) -> Result<(u32, u32), Error> {
        let terms = parts.iter().flatten();
        let terms: Vec<(&Term, u32)> = terms.filter_map(|bit| Some((bit.0?, bit.1))).collect();
        if terms.len() > WIDE_MAX {
            return Err(wide(flat, &terms[WIDE_MAX..], terms.len()));
        }
        let one = place.leaves == 1 && parts.len() == 1;
        let builder = Builder {
            family: self.family,
            interfaces: self.interfaces,
            services: self.services,
            room: AddressRoom {
                blocks_max: match self.lean {
                    true => 0,
                    false => (TREE_BLOCKS / parts.len().max(1) / place.leaves).max(64),
                },
                fine: !self.lean,
            },
            alone: one && made.hashed == 0 && !(self.lean || self.room),
            shared: place.shared.filter(|_| one),
            changes: self.room,
            coarse: place.coarse,
        };
        let parts = parts.iter().map(Vec::as_slice);
        let chunks = builder.chunks(parts, self.limit, writer)?;
        if chunks.len() > CHUNKS_MAX {
            return Err(wide(flat, &terms, chunks.len() * CHUNK_TERMS_MAX));
        }
        made.chunks = made.chunks.max(chunks.len());
        made.worst_loads = made
            .worst_loads
            .max(chunks.iter().map(vectors::worst_loads).sum::<u32>());
        Ok((writer.section(chunks.as_bytes()), chunks.len() as u32))
    }
}

/// The error about terms that are wide in every field.
fn wide(flat: &Flat, terms: &[(&Term, u32)], given: usize) -> Error {
    let rule = |t: &(&Term, u32)| flat.entries[t.1 as usize].rules.first().copied();
    Error::Wide {
        given,
        limit: WIDE_MAX,
        rules: terms.iter().filter_map(rule).take(8).collect(),
    }
}

/// Whether one chunk holds terms without taking much room.
pub fn fit_one_chunk(terms: &[(&Term, u32)]) -> bool {
    terms.len() <= CHUNK_TERMS_MAX && terms.len() <= chunk_terms(terms, ROW_BYTES)
}

/// Bytes that exact rows of a chunk take, about.
fn rows_take(terms: &[(&Term, u32)]) -> usize {
    let addresses = |side: usize| {
        let spans = terms.iter().map(|t| &t.0.address[side]);
        spans.collect::<HashSet<_>>().len()
    };
    let ports = |side: usize| {
        let spans = terms.iter().map(|t| &t.0.port[side]);
        spans.collect::<HashSet<_>>().len()
    };
    let distinct = addresses(0) + addresses(1) + ports(0) + ports(1);
    (2 * distinct + 4) * terms.len() / 8
}

/// Whether exact rows of leaves take more than so many bytes.
fn rows_exceed<'t>(
    leaves: impl Iterator<Item = &'t splits::Leaf<'t>> + Clone,
    from: usize,
) -> bool {
    // At most two bounds of each field a term. What is below that need not be counted.
    let most = |leaf: &splits::Leaf| leaf.len() * (leaf.len() + 1).min(CHUNK_TERMS_MAX);
    leaves.clone().map(most).sum::<usize>() > from
        && leaves
            .flat_map(|leaf| leaf.chunks(chunk_terms(leaf, ROW_BYTES)))
            .map(rows_take)
            .sum::<usize>()
            > from
}

/// Terms of a chunk of coarse rows: as few chunks as there have to be, all alike.
fn coarse_terms(leaf: &[(&Term, u32)]) -> usize {
    let chunks = leaf.len().div_ceil(CHUNK_TERMS_MAX).max(1);
    leaf.len().div_ceil(chunks).max(1)
}

/// Terms of one chunk whose rows take at most so many bytes: they grow with the square of it, the
/// number of chunks with its inverse.
fn chunk_terms(terms: &[(&Term, u32)], row_bytes: usize) -> usize {
    let bytes = |size: usize| rows_take(&terms[..terms.len().min(size)]);
    let fits = |size: &usize| {
        let bytes = bytes(*size);
        bytes <= row_bytes && bytes * terms.len().div_ceil(*size) <= 4 * row_bytes
    };
    let sizes = [CHUNK_TERMS_MAX, CHUNK_TERMS_MAX / 2];
    sizes.into_iter().find(fits).unwrap_or(1024)
}
