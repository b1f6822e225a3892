//! The first entry that holds, by the shortest way: structures are read out of the image once, and
//! nothing is kept from one packet to the next.

use super::class::{chunk_rows, service_rows, u32_at, u64_at};
use super::{Key, NONE, hashed};
use crate::image::Image;
use crate::image::layout::{Chunk, Fold, HashTable, Leaf, Root, Split};
use std::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
use super::vector::{BATCH, Lanes, Vector};

/// What a lookup reads of a root.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) fold: Fold,
    pub(super) tables: Vec<HashTable>,
    /// Chunks with the position of the first term of each, leaf after leaf.
    pub(super) chunks: Vec<(Chunk, u32)>,
    /// Where each leaf's chunks begin; without a split tree there is one leaf.
    pub(super) leaves: Vec<u32>,
    pub(super) nodes: Vec<Split>,
    pub(super) splits: u32,
    #[cfg(target_arch = "x86_64")]
    pub(super) lanes: Lanes,
}

impl Parts {
    /// The chunks that a packet can meet.
    #[inline(always)]
    pub(super) fn chunks_of(&self, key: &Key) -> &[(Chunk, u32)] {
        let mut next = 0u32;
        for _ in 0..self.splits {
            let Some(node) = self.nodes.get(next as usize) else {
                break;
            };
            let value = key.value(node.dim as usize);
            next = node.next[usize::from(value >= node.bound)];
        }
        let leaf = (next & (u32::MAX >> 1)) as usize;
        let bounds = self.leaves.get(leaf).zip(self.leaves.get(leaf + 1));
        let range = bounds.map(|(from, until)| *from as usize..*until as usize);
        range
            .and_then(|range| self.chunks.get(range))
            .unwrap_or_default()
    }
}

/// Looks for first entries in one root.
#[derive(Clone, Debug)]
pub struct Searcher<'i, 'b> {
    image: PhantomData<&'i Image<'b>>,
    bytes: &'b [u8],
    root: Root,
    parts: Parts,
    /// Classes of interfaces that maps have places for.
    #[cfg(target_arch = "x86_64")]
    classes: u32,
    /// The way with vectors, where the CPU and the root allow it.
    #[cfg(target_arch = "x86_64")]
    vector: Option<Vector<'b>>,
}

impl<'b> Image<'b> {
    /// What looks for first entries in the root at this offset.
    pub fn searcher<'i>(&'i self, root_at: u32) -> Searcher<'i, 'b> {
        let root: Root = self.read(root_at);
        let fold: Fold = if root.tables > 0 {
            self.read(root.services_at)
        } else {
            Fold::default()
        };
        let table = |at: u32| self.read(root.tables_at + at * size_of::<HashTable>() as u32);
        let mut leaves: Vec<Leaf> = (0..root.leaves)
            .map(|at| self.read(root.leaves_at + at * size_of::<Leaf>() as u32))
            .collect();
        if root.splits == 0 {
            leaves = vec![Leaf {
                chunks_at: root.chunks_at,
                chunks: root.chunks,
            }];
        }
        let (mut chunks, mut starts) = (Vec::new(), vec![0]);
        for leaf in leaves {
            for number in 0..leaf.chunks {
                let chunk: Chunk = self.read(leaf.chunks_at + number * size_of::<Chunk>() as u32);
                chunks.push((chunk, self.read(chunk.positions_at)));
            }
            starts.push(chunks.len() as u32);
        }
        let node = |at: u32| self.read(root.splits_at + at * size_of::<Split>() as u32);
        let tables: Vec<HashTable> = (0..root.tables).map(table).collect();
        let parts = Parts {
            fold,
            #[cfg(target_arch = "x86_64")]
            lanes: Lanes::of(&tables),
            tables,
            chunks,
            leaves: starts,
            nodes: (0..root.split_nodes).map(node).collect(),
            splits: root.splits,
        };
        #[cfg(target_arch = "x86_64")]
        let vector = Vector::new(self.bytes()).filter(|_| {
            root.family == 4
                && parts
                    .tables
                    .iter()
                    .all(|table| matches!(table.record, 16 | 32))
        });
        Searcher {
            bytes: self.bytes(),
            root,
            parts,
            #[cfg(target_arch = "x86_64")]
            classes: self.header().patterns + 1,
            #[cfg(target_arch = "x86_64")]
            vector,
            image: PhantomData,
        }
    }

    /// The first entry of the root at this offset that holds. For many packets: [`Self::searcher`].
    pub fn first(&self, root_at: u32, key: &Key) -> u32 {
        self.searcher(root_at).first(key)
    }
}

impl Searcher<'_, '_> {
    /// The root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Whether [`Self::first`] uses vector instructions here.
    pub fn has_vectors(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.vector.is_some();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The position of the first entry that holds.
    #[inline]
    pub fn first(&self, key: &Key) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vector) = self.vector
            && key
                .class
                .iter()
                .all(|class| u32::from(*class) < self.classes)
        {
            return vector.first(&self.parts, self.root.entries - 1, key);
        }
        self.first_scalar(key)
    }

    /// The same, one word after the other.
    pub fn first_scalar(&self, key: &Key) -> u32 {
        let mut best = self.root.entries - 1;
        if !self.parts.tables.is_empty() {
            let services = service_rows(self.bytes, &self.parts.fold, key);
            for table in &self.parts.tables {
                best = best.min(hashed::probe(self.bytes, table, key, &services, 0));
            }
        }
        for (chunk, least) in self.parts.chunks_of(key) {
            if *least >= best {
                break;
            }
            let found = self.first_of_chunk(chunk, key);
            if found != NONE {
                return best.min(found);
            }
        }
        best
    }

    /// The positions for many packets. `out` must be as long as `keys`.
    pub fn first_of_each(&self, keys: &[Key], out: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(vector) = self.vector {
            let last = self.root.entries - 1;
            let known = |key: &Key| key.class.iter().all(|c| u32::from(*c) < self.classes);
            for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
                if keys.iter().all(known) {
                    vector.first_of_each(&self.parts, last, keys, out);
                } else {
                    let each = keys.iter().zip(out);
                    each.for_each(|(key, out)| *out = self.first_scalar(key));
                }
            }
            return;
        }
        for (key, out) in keys.iter().zip(out) {
            *out = self.first_scalar(key);
        }
    }

    /// The position of the first term of a chunk that holds; [`NONE`] without.
    #[inline(always)]
    fn first_of_chunk(&self, chunk: &Chunk, key: &Key) -> u32 {
        let rows = chunk_rows(self.bytes, chunk, self.root.family == 6, key);
        let rows = &rows[..chunk.rows as usize];
        let and = |at: u32| {
            let row = |word, row: &u32| word & u64_at(self.bytes, row + at);
            rows.iter().fold(u64::MAX, row)
        };
        let mut summary = and(0);
        if chunk.words == 1 {
            return match summary {
                0 => NONE,
                word => u32_at(self.bytes, chunk.positions_at + word.trailing_zeros() * 4),
            };
        }
        while summary != 0 {
            let at = summary.trailing_zeros();
            let word = and(8 + at * 8);
            if word != 0 {
                let term = at * 64 + word.trailing_zeros();
                return u32_at(self.bytes, chunk.positions_at + term * 4);
            }
            summary &= summary - 1;
        }
        NONE
    }
}
