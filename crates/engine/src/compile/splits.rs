//! A small tree in front of the bit vectors: packets that can meet few of the wide terms meet a
//! smaller leaf.
//!
//! In: terms, and packets to try them with. Out: cuts of ports, protocol and IPv4 addresses. The
//! leaf whose cut spares packets most is cut first, so that what bounds the tree (depth, copies of
//! terms that are on both sides) is spent where packets are.

use super::density;
use super::sampled::{self, Packet};
use super::service::Services;
use super::span::{Field, Span};
use super::tables::Placed;
use super::term::Term;
use crate::image::layout::{
    DIM_DST, DIM_DST_PORT, DIM_PROTO, DIM_SRC, DIM_SRC_PORT, SPLITS_MAX, Split,
};
use weir_policy::model::Family;

/// Leaves of fewer terms are not cut: one word of bit vectors.
const LEAF_ENOUGH: usize = 64;
/// Leaves in which packets look at fewer words are not cut.
const WORDS_ENOUGH: f64 = 2.0;
/// What is left to meet after a cut must be below this share.
const GAIN: f64 = 0.75;
/// Copies of terms that any tree may make; beyond, as many as there are terms.
const COPIES_FREE: usize = 4096;
/// Packets tried.
const PACKETS: usize = 512;
/// Bounds tried for each field.
const BOUNDS: usize = 64;
/// Mark of a leaf in [`Split::next`].
pub const LEAF: u32 = 1 << 31;

/// Terms of one leaf, in evaluation order.
pub type Leaf<'t> = Vec<Placed<'t>>;

/// The tree: nodes (the first is the root) and leaves. Without nodes there is one leaf.
pub struct Tree<'t> {
    /// Nodes.
    pub nodes: Vec<Split>,
    /// Leaves.
    pub leaves: Vec<Leaf<'t>>,
    /// Longest way down.
    pub depth: usize,
}

/// First and last value of a term in each dimension.
pub type Ranges = [(u32, u32); 5];

/// A leaf that may still be cut.
struct Open {
    /// Numbers of terms, of packets.
    terms: Vec<u32>,
    packets: Vec<u32>,
    depth: usize,
    /// The node that leads here, and by which side.
    from: Option<(usize, usize)>,
    /// The best cut, and how many terms it spares all packets.
    cut: Option<(usize, u32, f64)>,
}

struct Maker<'a, 't> {
    all: &'a [Placed<'t>],
    ranges: Vec<Ranges>,
    packets: Vec<[u32; 5]>,
    services: &'a Services,
    dims: &'static [usize],
    leaf_max: usize,
}

/// Splits terms, or makes one leaf of them.
/// Leaves of more than `leaf_max` terms are cut also where packets look at few words.
pub fn split<'t>(
    all: Leaf<'t>,
    services: &Services,
    family: Family,
    split: bool,
    leaf_max: usize,
) -> Tree<'t> {
    let mut tree = Tree {
        nodes: Vec::new(),
        leaves: Vec::new(),
        depth: 0,
    };
    if !split {
        tree.leaves.push(all);
        return tree;
    }
    let values = |p: &Packet| {
        let [source, destination] = p.address.map(|address| address as u32);
        let [low, high] = p.port.map(u32::from);
        [source, destination, low, high, p.proto.into()]
    };
    let packets = sampled::packets(&all, services, family, PACKETS);
    let maker = Maker {
        ranges: all.iter().map(|t| ranges(t.0, services)).collect(),
        packets: packets.iter().map(values).collect(),
        services,
        dims: match family {
            Family::V4 => &[DIM_SRC, DIM_DST, DIM_SRC_PORT, DIM_DST_PORT, DIM_PROTO],
            Family::V6 => &[DIM_SRC_PORT, DIM_DST_PORT, DIM_PROTO],
        },
        all: &all,
        leaf_max,
    };
    maker.grow(&mut tree);
    tree
}

/// The ranges of a term.
pub fn ranges(term: &Term, services: &Services) -> Ranges {
    let proto = services.get(term.service).proto;
    let first = (0..=255u8).find(|value| proto.has(*value)).unwrap_or(0);
    let last = (0..=255u8).rfind(|value| proto.has(*value)).unwrap_or(255);
    let address = |at: usize| hull(&term.address[at], u32::MAX.into(), |value| value as u32);
    let port = |at: usize| hull(&term.port[at], u16::MAX, u32::from);
    [
        address(0),
        address(1),
        port(0),
        port(1),
        (first.into(), last.into()),
    ]
}

/// First and last value. Addresses are IPv4; those of IPv6 are not asked for.
fn hull<T: Field>(span: &Span<T>, top: T, number: impl Fn(T) -> u32) -> (u32, u32) {
    match span {
        Span::Any => (0, number(top)),
        Span::One(first, last) => (number(*first), number(*last)),
        Span::Many(set) => {
            let ranges = set.ranges();
            (number(ranges[0].0), number(ranges[ranges.len() - 1].1))
        }
    }
}

impl<'t> Maker<'_, 't> {
    fn grow(&self, tree: &mut Tree<'t>) {
        let mut copies = self.all.len().max(COPIES_FREE);
        let mut open = vec![Open {
            terms: (0..self.all.len() as u32).collect(),
            packets: (0..self.packets.len() as u32).collect(),
            depth: 0,
            from: None,
            cut: None,
        }];
        open[0].cut = self.best(&open[0]);
        loop {
            // The first of the best, so that the same terms give the same tree.
            let mut best: Option<(usize, (usize, u32, f64))> = None;
            for (at, leaf) in open.iter().enumerate() {
                if let Some(cut) = leaf.cut
                    && best.is_none_or(|(_, known)| cut.2 > known.2)
                {
                    best = Some((at, cut));
                }
            }
            let Some((at, (dim, bound, _))) = best else {
                break;
            };
            let [low, high] = self.sides(&open[at], dim, bound, tree.nodes.len());
            let more = low.terms.len() + high.terms.len() - open[at].terms.len();
            if more > copies {
                open[at].cut = None;
                continue;
            }
            copies -= more;
            if let Some((node, side)) = open[at].from {
                tree.nodes[node].next[side] = tree.nodes.len() as u32;
            }
            tree.nodes.push(Split {
                dim: dim as u32,
                bound,
                next: [0, 0],
            });
            open[at] = low;
            open.push(high);
        }
        for leaf in open {
            if let Some((node, side)) = leaf.from {
                tree.nodes[node].next[side] = LEAF | tree.leaves.len() as u32;
            }
            tree.depth = tree.depth.max(leaf.depth);
            let terms = leaf.terms.iter().map(|at| self.all[*at as usize]);
            tree.leaves.push(terms.collect());
        }
    }

    /// Both sides of a cut, by the node with this number.
    fn sides(&self, leaf: &Open, dim: usize, bound: u32, node: usize) -> [Open; 2] {
        [0, 1].map(|side| {
            let term = |at: &&u32| {
                let (first, last) = self.ranges[**at as usize][dim];
                if side == 0 {
                    first < bound
                } else {
                    last >= bound
                }
            };
            let packet = |at: &&u32| (self.packets[**at as usize][dim] < bound) == (side == 0);
            let mut half = Open {
                terms: leaf.terms.iter().filter(term).copied().collect(),
                packets: leaf.packets.iter().filter(packet).copied().collect(),
                depth: leaf.depth + 1,
                from: Some((node, side)),
                cut: None,
            };
            half.cut = self.best(&half);
            half
        })
    }

    /// The cut of a leaf after which packets have fewest terms to meet.
    fn best(&self, leaf: &Open) -> Option<(usize, u32, f64)> {
        let count = leaf.terms.len();
        if leaf.depth == SPLITS_MAX || count <= LEAF_ENOUGH || leaf.packets.is_empty() {
            return None;
        }
        let terms: Leaf<'t> = leaf.terms.iter().map(|at| self.all[*at as usize]).collect();
        if count <= self.leaf_max && density::words(&terms, self.services) <= WORDS_ENOUGH {
            return None;
        }
        let mut best = None;
        let mut least = GAIN * count as f64;
        for dim in self.dims {
            let sorted = |values: &mut dyn Iterator<Item = u32>| {
                let mut values: Vec<u32> = values.collect();
                values.sort_unstable();
                values
            };
            let range = |at: &u32| self.ranges[*at as usize][*dim];
            let firsts = sorted(&mut leaf.terms.iter().map(|at| range(at).0));
            let lasts = sorted(&mut leaf.terms.iter().map(|at| range(at).1));
            let packet = |at: &u32| self.packets[*at as usize][*dim];
            let packets = sorted(&mut leaf.packets.iter().map(packet));
            let ends = lasts.iter().filter_map(|last| last.checked_add(1));
            let mut bounds: Vec<u32> = firsts.iter().copied().chain(ends).collect();
            bounds.sort_unstable();
            bounds.dedup();
            let step = bounds.len().div_ceil(BOUNDS).max(1);
            for &bound in bounds.iter().step_by(step).chain(bounds.last()) {
                let low = firsts.partition_point(|first| *first < bound);
                let high = count - lasts.partition_point(|last| *last < bound);
                if low == count && high == count {
                    continue;
                }
                let below = packets.partition_point(|value| *value < bound);
                let share = (below as f64 + 0.5) / (packets.len() as f64 + 1.0);
                let expected = share * low as f64 + (1.0 - share) * high as f64;
                if expected < least {
                    least = expected;
                    best = Some((*dim, bound));
                }
            }
        }
        let spared = (count as f64 - least) * leaf.packets.len() as f64;
        best.map(|(dim, bound)| (dim, bound, spared))
    }
}
