//! The first entry that holds, by the shortest way: structures are read out of the image once, and
//! nothing is kept from one packet to the next.

use super::ready::{Ready, Services};
use super::{Key, NONE, hashed};
use crate::image::Image;
use crate::image::layout::{Chunk, Fold, HashTable, Leaf, Root, Split};
use std::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
use super::vector::{Few, Form, Lanes, Vector};

/// What a lookup reads of a root.
#[derive(Clone, Debug)]
pub(super) struct Parts<'b> {
    /// For records of tables.
    pub(super) services: Option<Services<'b>>,
    pub(super) tables: Vec<HashTable>,
    /// Chunks, leaf after leaf.
    pub(super) chunks: Vec<Ready<'b>>,
    /// Where each leaf's chunks begin; without a split tree there is one leaf.
    pub(super) leaves: Vec<u32>,
    /// See [`even`].
    nodes: Vec<Split>,
    /// How many of them are of the tree.
    split_nodes: usize,
    pub(super) splits: u32,
    #[cfg(target_arch = "x86_64")]
    pub(super) lanes: Lanes,
    /// The tables once more, where they are few.
    #[cfg(target_arch = "x86_64")]
    pub(super) few: Option<Few>,
    #[cfg(target_arch = "x86_64")]
    usual: Option<Form>,
}

impl<'b> Parts<'b> {
    /// Whether interfaces say anything.
    #[cfg(target_arch = "x86_64")]
    fn has_links(&self) -> bool {
        let services = self.services.iter().map(|services| &services.folded);
        let chunks = self.chunks.iter().map(|chunk| &chunk.folded);
        services.chain(chunks).any(|folded| folded.has_links)
    }

    /// The chunk of a root that has nothing else, when it is of the form that sets of 513 to 1,024
    /// terms have: three rows of sixteen words.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn usual(&self) -> Option<(&Ready<'b>, Form)> {
        self.chunks.first().zip(self.usual)
    }

    /// The chunks that a packet can meet. The way through the split tree takes no branches, because
    /// nobody could foretell them.
    #[inline(always)]
    pub(super) fn chunks_of(&self, key: &Key) -> &[Ready<'b>] {
        if self.splits == 0 {
            return &self.chunks;
        }
        let values: [u32; 8] = std::array::from_fn(|dim| key.value(dim));
        let mut next = 0;
        for _ in 0..self.splits {
            let node = self.nodes.get(next as usize).copied().unwrap_or_default();
            let value = values[node.dim as usize & 7];
            next = node.next[usize::from(value >= node.bound)];
        }
        let leaf = (next as usize).saturating_sub(self.split_nodes);
        let bounds = self.leaves.get(leaf).zip(self.leaves.get(leaf + 1));
        let range = bounds.map(|(from, until)| *from as usize..*until as usize);
        range
            .and_then(|range| self.chunks.get(range))
            .unwrap_or_default()
    }
}

/// The nodes of a split tree, then one for each leaf, which leads to itself, so that all ways have
/// as many steps as the tree has levels.
fn even(nodes: impl Iterator<Item = Split>, leaves: u32) -> Vec<Split> {
    let mut nodes: Vec<Split> = nodes.collect();
    let count = nodes.len() as u32;
    for node in &mut nodes {
        node.next = node.next.map(|next| match next >> 31 {
            0 => next,
            _ => count + (next & (u32::MAX >> 1)),
        });
    }
    nodes.extend((0..leaves).map(|leaf| Split {
        next: [count + leaf; 2],
        ..Split::default()
    }));
    nodes
}

/// Looks for first entries in one root.
#[derive(Clone, Debug)]
pub struct Searcher<'i, 'b> {
    image: PhantomData<&'i Image<'b>>,
    bytes: &'b [u8],
    root: Root,
    parts: Parts<'b>,
    /// Classes of interfaces that maps have places for; all ones when interfaces say nothing.
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
        let classes = self.header().patterns + 1;
        let services = (root.tables > 0).then(|| {
            let fold: Fold = self.read(root.services_at);
            Services::new(self.bytes(), &fold, classes)
        });
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
                chunks.push(Ready::new(self.bytes(), &chunk, root.family == 6, classes));
            }
            starts.push(chunks.len() as u32);
        }
        let node = |at: u32| self.read(root.splits_at + at * size_of::<Split>() as u32);
        let tables: Vec<HashTable> = (0..root.tables).map(table).collect();
        let parts = Parts {
            services,
            #[cfg(target_arch = "x86_64")]
            lanes: Lanes::of(&tables),
            #[cfg(target_arch = "x86_64")]
            few: Few::of(&tables).filter(|_| root.packed != 0),
            #[cfg(target_arch = "x86_64")]
            usual: match &chunks[..] {
                [chunk] if root.tables + root.splits == 0 && chunk.row_count == 3 => {
                    (chunk.stride == 128).then(|| match (chunk.is_wide(), chunk.is_direct()) {
                        (true, true) => Form::Wide,
                        (false, true) => Form::Direct,
                        _ => Form::Plain,
                    })
                }
                _ => None,
            },
            tables,
            chunks,
            leaves: starts,
            nodes: even((0..root.split_nodes).map(node), root.leaves),
            split_nodes: root.split_nodes as usize,
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
            #[cfg(target_arch = "x86_64")]
            classes: if parts.has_links() { classes } else { u32::MAX },
            parts,
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

    /// Whether maps have places for a packet's interfaces.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn knows(&self, key: &Key) -> bool {
        self.classes == u32::MAX
            || key
                .class
                .iter()
                .all(|class| u32::from(*class) < self.classes)
    }

    /// The position of the first entry that holds.
    #[inline]
    pub fn first(&self, key: &Key) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vector) = self.vector
            && self.knows(key)
        {
            return vector.first(&self.parts, self.root.entries - 1, key);
        }
        self.first_scalar(key)
    }

    /// The same, one word after the other.
    pub fn first_scalar(&self, key: &Key) -> u32 {
        let mut best = self.root.entries - 1;
        let mut classes = [0; 3];
        if let Some(services) = &self.parts.services {
            classes = services.classes(key);
            let services = services.rows(classes);
            for table in &self.parts.tables {
                let found = hashed::probe(self.bytes, table, key, &services, 0, best);
                best = best.min(found);
            }
        }
        for chunk in self.parts.chunks_of(key) {
            if chunk.least >= best {
                break;
            }
            let found = chunk.first(self.bytes, key, classes);
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
            if self.classes == u32::MAX || keys.iter().all(|key| self.knows(key)) {
                vector.first_of_each(&self.parts, last, keys, out);
                return;
            }
        }
        for (key, out) in keys.iter().zip(out) {
            *out = self.first_scalar(key);
        }
    }
}
