//! The first entry that holds, by the shortest way: structures are read out of the image once, and
//! nothing is kept from one packet to the next.

use super::class::{chunk_rows, fold_row, u32_at, u64_at};
use super::{Key, NONE, hashed, leaf};
use crate::image::Image;
use crate::image::layout::{Chunk, Fold, HashTable, Root};

/// Looks for first entries in one root.
#[derive(Clone, Debug)]
pub struct Searcher<'i, 'b> {
    image: &'i Image<'b>,
    bytes: &'b [u8],
    root: Root,
    fold: Fold,
    tables: Vec<HashTable>,
    /// Chunks of a root without a split tree, with the position of the first term of each.
    chunks: Vec<(Chunk, u32)>,
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
        let chunk = |at: u32| -> (Chunk, u32) {
            let chunk: Chunk = self.read(root.chunks_at + at * size_of::<Chunk>() as u32);
            (chunk, self.read(chunk.positions_at))
        };
        let chunks = if root.splits > 0 { 0 } else { root.chunks };
        Searcher {
            image: self,
            bytes: self.bytes(),
            root,
            fold,
            tables: (0..root.tables).map(table).collect(),
            chunks: (0..chunks).map(chunk).collect(),
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

    /// The position of the first entry that holds.
    #[inline]
    pub fn first(&self, key: &Key) -> u32 {
        let mut best = self.root.entries - 1;
        if !self.tables.is_empty() {
            let services = fold_row(self.bytes, &self.fold, key);
            for table in &self.tables {
                best = best.min(hashed::probe(self.bytes, table, key, services, 0));
            }
        }
        if self.root.splits > 0 {
            return self.first_of_leaf(key, best);
        }
        for (chunk, least) in &self.chunks {
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
        for (key, out) in keys.iter().zip(out) {
            *out = self.first(key);
        }
    }

    fn first_of_leaf(&self, key: &Key, best: u32) -> u32 {
        let (chunks_at, chunks) = leaf(self.image, &self.root, key);
        for number in 0..chunks {
            let chunk: Chunk = self
                .image
                .read(chunks_at + number * size_of::<Chunk>() as u32);
            if u32_at(self.bytes, chunk.positions_at) >= best {
                break;
            }
            let found = self.first_of_chunk(&chunk, key);
            if found != NONE {
                return best.min(found);
            }
        }
        best
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
