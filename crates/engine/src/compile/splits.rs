//! A small tree in front of the bit vectors: packets that can meet few of the wide terms meet a
//! smaller leaf.
//!
//! Cuts are on ports and protocol only, where wide terms still differ. A cut is made where, over
//! all values of the field, a packet then has clearly fewer terms to meet; terms on both sides go
//! to both leaves, within a bound.

use super::service::Services;
use super::term::Term;
use crate::image::layout::{DIM_DST_PORT, DIM_PROTO, DIM_SRC_PORT, SPLITS_MAX, Split};

/// Fewer terms than this are not split.
const LEAF_ENOUGH: usize = 256;
/// What is left to meet after a cut must be below this share.
const GAIN: f64 = 0.7;
/// Copies of terms in all leaves, as a multiple of the terms.
const COPIES_MAX: usize = 1;
/// Mark of a leaf in [`Split::next`].
pub const LEAF: u32 = 1 << 31;

/// Terms of one leaf, in evaluation order.
pub type Leaf<'t> = Vec<(&'t Term, u32)>;

/// The tree: nodes (the first is the root) and leaves. Without nodes there is one leaf.
pub struct Tree<'t> {
    /// Nodes.
    pub nodes: Vec<Split>,
    /// Leaves.
    pub leaves: Vec<Leaf<'t>>,
    /// Longest way down.
    pub depth: usize,
}

/// Splits terms, or makes one leaf of them.
pub fn split<'t>(terms: Leaf<'t>, services: &Services, split: bool) -> Tree<'t> {
    let copies = terms.len() * COPIES_MAX;
    let mut tree = Tree {
        nodes: Vec::new(),
        leaves: Vec::new(),
        depth: 0,
    };
    if !split {
        tree.leaves.push(terms);
        return tree;
    }
    let mut maker = Maker {
        services,
        copies,
        tree: &mut tree,
    };
    maker.part(terms, 0, [(0, 65_536), (0, 65_536), (0, 256)]);
    tree
}

/// Values that packets of a subtree have, from and until: source port, destination port, protocol.
type Region = [(u32, u32); 3];

/// How likely a packet has a value from `from` until `until`: ports alike, TCP and UDP more than
/// other protocols.
fn weight(dim: usize, from: u32, until: u32) -> f64 {
    let has = |value: u32, weight: f64| {
        if (from..until).contains(&value) {
            weight
        } else {
            0.0
        }
    };
    match dim {
        DIM_PROTO => f64::from(until - from) / 2560.0 + has(6, 0.6) + has(17, 0.3),
        _ => f64::from(until - from) / 65_536.0,
    }
}

struct Maker<'a, 't> {
    services: &'a Services,
    /// Copies that may still be made.
    copies: usize,
    tree: &'a mut Tree<'t>,
}

impl<'t> Maker<'_, 't> {
    /// Makes a subtree; its number as in [`Split::next`].
    fn part(&mut self, terms: Leaf<'t>, depth: usize, region: Region) -> u32 {
        self.tree.depth = self.tree.depth.max(depth);
        let cut = if depth < SPLITS_MAX && terms.len() > LEAF_ENOUGH {
            self.best(&terms, &region)
        } else {
            None
        };
        let Some((dim, bound)) = cut else {
            self.tree.leaves.push(terms);
            return LEAF | (self.tree.leaves.len() as u32 - 1);
        };
        let number = self.tree.nodes.len();
        self.tree.nodes.push(Split {
            dim: dim as u32,
            bound,
            next: [0, 0],
        });
        let side = |low: bool| -> Leaf<'t> {
            let on = |t: &&(&Term, u32)| {
                let (first, last) = self.range(t.0, dim);
                if low { first < bound } else { last >= bound }
            };
            terms.iter().filter(on).copied().collect()
        };
        let (low, high) = (side(true), side(false));
        self.copies -= low.len() + high.len() - terms.len();
        drop(terms);
        let (mut below, mut above) = (region, region);
        below[dim - DIM_SRC_PORT].1 = bound;
        above[dim - DIM_SRC_PORT].0 = bound;
        let next = [
            self.part(low, depth + 1, below),
            self.part(high, depth + 1, above),
        ];
        self.tree.nodes[number].next = next;
        number as u32
    }

    /// First and last value of a term in a dimension.
    fn range(&self, term: &Term, dim: usize) -> (u32, u32) {
        let (mut first, mut last) = (u32::MAX, 0);
        let mut widen = |low: u32, high: u32| {
            first = first.min(low);
            last = last.max(high);
        };
        if dim == DIM_PROTO {
            let proto = self.services.get(term.service).proto;
            (0..=255u8)
                .filter(|v| proto.has(*v))
                .for_each(|v| widen(v.into(), v.into()));
        } else {
            term.port[dim - DIM_SRC_PORT]
                .each(u16::MAX, |low, high| widen(low.into(), high.into()));
        }
        (first, last)
    }

    /// The cut after which a packet has fewest terms to meet.
    fn best(&self, terms: &Leaf<'t>, region: &Region) -> Option<(usize, u32)> {
        let mut best = None;
        let mut least = GAIN * terms.len() as f64;
        for dim in [DIM_SRC_PORT, DIM_DST_PORT, DIM_PROTO] {
            let (from, until) = region[dim - DIM_SRC_PORT];
            let ranges: Vec<(u32, u32)> = terms.iter().map(|t| self.range(t.0, dim)).collect();
            let mut firsts: Vec<u32> = ranges.iter().map(|r| r.0).collect();
            let mut lasts: Vec<u32> = ranges.iter().map(|r| r.1).collect();
            firsts.sort_unstable();
            lasts.sort_unstable();
            let mut bounds: Vec<u32> = firsts
                .iter()
                .copied()
                .chain(lasts.iter().map(|l| l + 1))
                .filter(|bound| (from + 1..until).contains(bound))
                .collect();
            bounds.sort_unstable();
            bounds.dedup();
            let step = bounds.len().div_ceil(256).max(1);
            let (few, end) = (bounds.iter().step_by(step), bounds.last());
            for &bound in few.chain(end) {
                let low = firsts.partition_point(|first| *first < bound);
                let high = lasts.len() - lasts.partition_point(|last| *last < bound);
                let share = weight(dim, from, bound) / weight(dim, from, until);
                let expected = share * low as f64 + (1.0 - share) * high as f64;
                if expected < least && low + high - terms.len() <= self.copies {
                    least = expected;
                    best = Some((dim, bound));
                }
            }
        }
        best
    }
}
