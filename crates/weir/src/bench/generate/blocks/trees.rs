//! Addresses dealt out by binary trees, to all filters of a set at once.
//!
//! In: prefix lengths of all filters in the order in which they were drawn. Out: their addresses.
//! Each node of a tree has a list of filters: those whose prefix ends there have their address, the
//! rest goes to one child or is split between two as unevenly as the level says. Neighbours in the
//! list stay together in both trees, so networks and servers belong together. A destination first
//! walks with its source, and leaves it at a bit that the shape says; it is never inside it. Below
//! so many nested prefixes nothing nests any more: what ends at the next level has a child of its
//! own. That is the published model of ClassBench's addresses; the code is ours.

use super::levels::{Alike, BITS, Level, Tree, banded, opened};
use crate::bench::random::Random;

/// Two prefixes: lengths are given, addresses filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// Of source and destination.
    pub lengths: [u8; 2],
    /// The same.
    pub addresses: [u32; 2],
}

const SRC: usize = 0;
const DST: usize = 1;

/// Fills in all addresses of a set that is `growth` times as large as what the trees describe.
pub fn deal(
    trees: [&Tree; 2],
    alike: &[Alike],
    growth: f64,
    requests: Vec<&mut Request>,
    random: &mut Random,
) {
    let everybody: Vec<u32> = (0..requests.len() as u32).collect();
    let mut dealer = Dealer {
        requests,
        levels: trees.map(|tree| opened(tree, growth)),
        nest: trees.map(|tree| tree.nest),
        alike: banded(alike, |&(until, chance)| (until, chance)),
        random,
    };
    let root = Node::default();
    dealer.sources(root, everybody.clone());
    dealer.destinations(root, everybody, Vec::new(), 0);
}

/// A place in a tree.
#[derive(Clone, Copy, Default)]
struct Node {
    level: u8,
    address: u32,
    /// Prefixes that end here or above.
    nest: usize,
}

impl Node {
    fn child(self, bit: usize) -> Node {
        Node {
            level: self.level + 1,
            address: self.address | (bit as u32) << (BITS - 1 - self.level),
            nest: self.nest,
        }
    }
}

struct Dealer<'a> {
    requests: Vec<&'a mut Request>,
    levels: [[Level; BITS as usize]; 2],
    nest: [usize; 2],
    alike: [f64; BITS as usize],
    random: &'a mut Random,
}

impl Dealer<'_> {
    fn length(&self, of: u32, side: usize) -> u8 {
        self.requests[of as usize].lengths[side]
    }

    /// Gives those their address whose prefix ends at a node; whether there were any.
    fn end(&mut self, node: Node, list: &mut Vec<u32>, side: usize) -> bool {
        let before = list.len();
        list.retain(|&one| {
            let request = &mut self.requests[one as usize];
            let ends = request.lengths[side] == node.level;
            if ends {
                request.addresses[side] = node.address;
            }
            !ends
        });
        list.len() < before
    }

    /// Gives the only filter below a node its address: any.
    fn alone(&mut self, node: Node, one: u32, side: usize) {
        let below = (u64::from(u32::MAX) >> node.level) as u32;
        let address = node.address | self.random.word() as u32 & below;
        let ends = u32::from(BITS - self.length(one, side));
        let kept = (u64::from(u32::MAX) << ends) as u32;
        self.requests[one as usize].addresses[side] = address & kept;
    }

    /// What ends at the next level and what doesn't, where nothing may nest any more.
    fn apart(&self, node: Node, list: &[u32], side: usize) -> Option<[Vec<u32>; 2]> {
        let ends = |one: &u32| self.length(*one, side) == node.level + 1;
        let full = node.nest + 1 >= self.nest[side] && node.level + 1 < BITS;
        let split = full && list.len() > 1 && list.iter().any(ends);
        split.then(|| {
            let (next, later): (Vec<u32>, Vec<u32>) = list.iter().partition(|one| ends(one));
            match next.len() > later.len() {
                true => [next, later],
                false => [later, next],
            }
        })
    }

    fn sources(&mut self, mut node: Node, mut list: Vec<u32>) {
        node.nest += usize::from(self.end(node, &mut list, SRC));
        match list[..] {
            [] => return,
            [one] => return self.alone(node, one, SRC),
            _ => {}
        }
        let busy = usize::from(self.random.chance(0.5));
        let Level { two, skew } = self.levels[SRC][usize::from(node.level)];
        let [many, few] = match self.apart(node, &list, SRC) {
            Some(split) => split,
            None if !self.random.chance(two) => [list, Vec::new()],
            None => {
                let many = (list.len() as f64 / (2.0 - skew)) as usize;
                let rest = list.split_off(list.len() - many);
                [rest, list]
            }
        };
        self.sources(node.child(busy), many);
        self.sources(node.child(busy ^ 1), few);
    }

    /// `followers` are still where their source is, `free` are not. `with` counts the nested
    /// prefixes of followers alone.
    fn destinations(
        &mut self,
        mut node: Node,
        mut followers: Vec<u32>,
        mut free: Vec<u32>,
        with: usize,
    ) {
        let ended = self.end(node, &mut followers, DST);
        let with = with + usize::from(ended);
        let ended = self.end(node, &mut free, DST) || ended;
        node.nest += usize::from(ended);
        let limits = Node { nest: with, ..node };
        let [mut stay, mut leave] = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
        if self.apart(limits, &followers, DST).is_some() {
            free.append(&mut followers);
        }
        for one in followers {
            let request = &self.requests[one as usize];
            let (length, source) = (request.lengths[SRC], request.addresses[SRC]);
            let bit = (source >> (BITS - 1 - node.level) & 1) as usize;
            if length <= node.level {
                free.push(one);
            } else if length > node.level + 1
                && self.random.chance(self.alike[usize::from(node.level)])
            {
                stay[bit].push(one);
            } else {
                leave[bit ^ 1].push(one);
            }
        }
        let taken = [0, 1].map(|bit| stay[bit].len() + leave[bit].len());
        if taken == [0, 0] {
            match free[..] {
                [] => return,
                [one] => return self.alone(node, one, DST),
                _ => {}
            }
        }
        let lists = self.shared(node, free, taken);
        for (bit, (mut list, (stay, mut leave))) in lists
            .into_iter()
            .zip(stay.into_iter().zip(leave))
            .enumerate()
        {
            list.append(&mut leave);
            if !list.is_empty() || !stay.is_empty() {
                self.destinations(node.child(bit), stay, list, with);
            }
        }
    }

    /// Shares free filters between two children that have so many already.
    fn shared(&mut self, node: Node, mut free: Vec<u32>, taken: [usize; 2]) -> [Vec<u32>; 2] {
        if free.is_empty() {
            return [Vec::new(), Vec::new()];
        }
        let busy = match taken[0].cmp(&taken[1]) {
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => usize::from(self.random.chance(0.5)),
        };
        let Level { two, skew } = self.levels[DST][usize::from(node.level)];
        let both = taken[0] > 0 && taken[1] > 0;
        let [many, few] = match self.apart(node, &free, DST) {
            Some(split) => split,
            None if !self.random.chance(two) && !both => [free, Vec::new()],
            None => {
                let total = free.len() + taken[0] + taken[1];
                let many = (total as f64 / (2.0 - skew)) as usize;
                let few = (total - many).saturating_sub(taken[busy ^ 1]);
                let rest = free.split_off(few.min(free.len()));
                [rest, free]
            }
        };
        match busy {
            0 => [many, few],
            _ => [few, many],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn dealt(
        levels: &'static [(u8, f64, f64)],
        nest: usize,
        growth: f64,
        lengths: &[[u8; 2]],
    ) -> Vec<Request> {
        let mut requests: Vec<Request> = lengths
            .iter()
            .map(|&lengths| Request {
                lengths,
                ..Request::default()
            })
            .collect();
        let tree = Tree { nest, levels };
        let all = requests.iter_mut().collect();
        deal(
            [&tree, &tree],
            &[(32, 0.9)],
            growth,
            all,
            &mut Random::new(3),
        );
        requests
    }

    #[test]
    fn a_set_large_enough_has_an_address_for_each() {
        let requests = dealt(&[(32, 0.0, 1.0)], 4, 100.0, &[[32, 32]; 1000]);
        for side in [SRC, DST] {
            let seen: HashSet<u32> = requests.iter().map(|one| one.addresses[side]).collect();
            assert!(seen.len() > 990, "{}", seen.len());
        }
        let one = dealt(&[(32, 0.0, 1.0)], 4, 1.0, &[[32, 0]; 1000]);
        assert!(one.iter().all(|r| r.addresses == one[0].addresses));
    }

    #[test]
    fn no_more_prefixes_nest_than_may() {
        let lengths: Vec<[u8; 2]> = (0..2000u32).map(|n| [(n % 33) as u8, 0]).collect();
        let requests = dealt(&[(32, 0.4, 0.5)], 4, 1.0, &lengths);
        let nets: HashSet<(u32, u8)> = requests
            .iter()
            .map(|one| (one.addresses[SRC], one.lengths[SRC]))
            .collect();
        // A host may be inside one more: the last level has no room to part.
        for one in requests {
            let above = (0..=one.lengths[SRC])
                .filter(|&l| nets.contains(&(cut(one.addresses[SRC], l), l)))
                .count();
            assert!(above <= 5, "{one:?}: {above}");
        }
    }

    #[test]
    fn a_destination_is_never_inside_its_source() {
        let lengths: Vec<[u8; 2]> = (1..2000u32).map(|n| [(n % 32) as u8 + 1, 32]).collect();
        for one in dealt(&[(32, 0.3, 0.5)], 4, 2.0, &lengths) {
            let length = one.lengths[SRC];
            assert_ne!(
                cut(one.addresses[DST], length),
                one.addresses[SRC],
                "{one:?}"
            );
        }
    }

    fn cut(address: u32, length: u8) -> u32 {
        address & (u64::from(u32::MAX) << (BITS - length)) as u32
    }
}
