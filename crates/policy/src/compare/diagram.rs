//! Ordered decision diagrams over single bits, with any leaves, each distinct node stored once.
//!
//! In: nodes. Out: nodes; equal functions are the same number, so that comparing two functions is
//! comparing two numbers (R. Bryant, Graph-Based Algorithms for Boolean Function Manipulation,
//! 1986). Sets of packets are diagrams with the leaves [`NO`] and [`YES`]. What a leaf stands for
//! otherwise, and what a level of the diagram asks, is the caller's business. There is a bound on
//! nodes, and reaching it is an error, never a wrong answer.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A diagram: a leaf, or the number of an inner node.
pub type Node = u32;

const LEAF: u32 = 1 << 31;
/// The leaf 0: not in the set.
pub const NO: Node = LEAF;
/// The leaf 1: in the set.
pub const YES: Node = LEAF | 1;
/// Results of operations that are remembered before the memory is emptied.
const REMEMBERED_MAX: usize = 1 << 22;

/// More nodes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policies are too large to compare exactly: more than {limit} nodes")]
pub struct TooLarge {
    /// The limit.
    pub limit: usize,
}

/// The leaf with a number.
pub fn leaf(number: u32) -> Node {
    LEAF | number
}

/// The number of a leaf; `None` for an inner node.
pub fn leaf_of(node: Node) -> Option<u32> {
    (node & LEAF != 0).then_some(node & !LEAF)
}

/// A multiplicative hash of a few words: the keys are numbers that we made ourselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// A map with that hash.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// An inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inner {
    /// Which bit is asked; smaller ones are asked first.
    pub level: u32,
    /// Where the bit is 0.
    pub low: Node,
    /// Where the bit is 1.
    pub high: Node,
}

const AND: u32 = 0;
const OR: u32 = 1;
const MERGE: u32 = 2;
const SELECT: u32 = 3;
/// From here on: functions of leaves that the caller numbered.
const OWN: u32 = 4;

/// All nodes.
#[derive(Debug)]
pub struct Diagram {
    nodes: Vec<Inner>,
    unique: QuickMap<Inner, u32>,
    done: QuickMap<[u32; 4], Node>,
    limit: usize,
}

impl Diagram {
    /// No nodes yet, at most `limit`.
    pub fn new(limit: usize) -> Self {
        Diagram {
            nodes: Vec::new(),
            unique: QuickMap::default(),
            done: QuickMap::default(),
            limit: limit.min((LEAF - 1) as usize),
        }
    }

    /// How many nodes were made.
    pub fn made(&self) -> usize {
        self.nodes.len()
    }

    /// An inner node.
    ///
    /// # Panics
    /// For a leaf.
    pub fn inner(&self, node: Node) -> Inner {
        self.nodes[node as usize]
    }

    /// The level of a node; leaves come last.
    pub fn level(&self, node: Node) -> u32 {
        match node & LEAF {
            0 => self.nodes[node as usize].level,
            _ => u32::MAX,
        }
    }

    /// The two functions that are left when the bit at `level` is known.
    pub fn branches(&self, node: Node, level: u32) -> (Node, Node) {
        match self.level(node) == level {
            true => {
                let inner = self.inner(node);
                (inner.low, inner.high)
            }
            false => (node, node),
        }
    }

    /// The node that asks for a bit.
    pub fn make(&mut self, level: u32, low: Node, high: Node) -> Result<Node, TooLarge> {
        if low == high {
            return Ok(low);
        }
        let inner = Inner { level, low, high };
        if let Some(&known) = self.unique.get(&inner) {
            return Ok(known);
        }
        if self.nodes.len() >= self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(inner);
        self.unique.insert(inner, number);
        Ok(number)
    }

    fn remembered(&self, key: [u32; 4]) -> Option<Node> {
        self.done.get(&key).copied()
    }

    fn remember(&mut self, key: [u32; 4], node: Node) -> Node {
        if self.done.len() >= REMEMBERED_MAX {
            self.done.clear();
        }
        self.done.insert(key, node);
        node
    }

    /// Packets in both sets.
    pub fn and(&mut self, a: Node, b: Node) -> Result<Node, TooLarge> {
        self.binary(AND, a, b, &|a, b| match (a, b) {
            (NO, _) | (_, NO) => Some(NO),
            (YES, other) | (other, YES) => Some(other),
            _ => (a == b).then_some(a),
        })
    }

    /// Packets in either set.
    pub fn or(&mut self, a: Node, b: Node) -> Result<Node, TooLarge> {
        self.binary(OR, a, b, &|a, b| match (a, b) {
            (YES, _) | (_, YES) => Some(YES),
            (NO, other) | (other, NO) => Some(other),
            _ => (a == b).then_some(a),
        })
    }

    /// Packets that are not in the set.
    pub fn not(&mut self, a: Node) -> Result<Node, TooLarge> {
        self.select(a, NO, YES)
    }

    /// Packets in `a` that are not in `b`.
    pub fn without(&mut self, a: Node, b: Node) -> Result<Node, TooLarge> {
        self.select(b, NO, a)
    }

    /// The first function where it isn't [`NO`], else the second.
    pub fn merge(&mut self, a: Node, b: Node) -> Result<Node, TooLarge> {
        self.binary(MERGE, a, b, &|a, b| match (a, b) {
            (NO, other) | (other, NO) => Some(other),
            _ => (leaf_of(a).is_some() || a == b).then_some(a),
        })
    }

    fn binary(
        &mut self,
        operation: u32,
        a: Node,
        b: Node,
        known: &impl Fn(Node, Node) -> Option<Node>,
    ) -> Result<Node, TooLarge> {
        if let Some(node) = known(a, b) {
            return Ok(node);
        }
        let key = match operation == MERGE || a < b {
            true => [operation, a, b, 0],
            false => [operation, b, a, 0],
        };
        if let Some(node) = self.remembered(key) {
            return Ok(node);
        }
        let level = self.level(a).min(self.level(b));
        let ((a0, a1), (b0, b1)) = (self.branches(a, level), self.branches(b, level));
        let low = self.binary(operation, a0, b0, known)?;
        let high = self.binary(operation, a1, b1, known)?;
        let node = self.make(level, low, high)?;
        Ok(self.remember(key, node))
    }

    /// `then` for packets of the set `of`, `other` for all others.
    pub fn select(&mut self, of: Node, then: Node, other: Node) -> Result<Node, TooLarge> {
        match of {
            YES => return Ok(then),
            NO => return Ok(other),
            _ if then == other => return Ok(then),
            _ if then == YES && other == NO => return Ok(of),
            _ => {}
        }
        let key = [SELECT, of, then, other];
        if let Some(node) = self.remembered(key) {
            return Ok(node);
        }
        let level = [of, then, other].map(|node| self.level(node));
        let level = level.into_iter().min().unwrap_or(u32::MAX);
        let (of0, of1) = self.branches(of, level);
        let (then0, then1) = self.branches(then, level);
        let (other0, other1) = self.branches(other, level);
        let low = self.select(of0, then0, other0)?;
        let high = self.select(of1, then1, other1)?;
        let node = self.make(level, low, high)?;
        Ok(self.remember(key, node))
    }

    /// Changes the leaves of `node` for packets of the set `of`. The caller numbers the functions
    /// that it uses: the same number, the same function.
    pub fn update(
        &mut self,
        of: Node,
        node: Node,
        number: u32,
        function: &mut impl FnMut(u32) -> u32,
    ) -> Result<Node, TooLarge> {
        if of == NO || node == NO {
            return Ok(node);
        }
        if let (YES, Some(was)) = (of, leaf_of(node)) {
            return Ok(leaf(function(was)));
        }
        let key = [OWN + number, of, node, 0];
        if let Some(node) = self.remembered(key) {
            return Ok(node);
        }
        let level = self.level(of).min(self.level(node));
        let ((of0, of1), (n0, n1)) = (self.branches(of, level), self.branches(node, level));
        let low = self.update(of0, n0, number, function)?;
        let high = self.update(of1, n1, number, function)?;
        let made = self.make(level, low, high)?;
        Ok(self.remember(key, made))
    }

    /// A function of the leaves of two diagrams; numbered as those of [`Diagram::update`].
    pub fn combine(
        &mut self,
        a: Node,
        b: Node,
        number: u32,
        function: &mut impl FnMut(u32, u32) -> u32,
    ) -> Result<Node, TooLarge> {
        if let (Some(a), Some(b)) = (leaf_of(a), leaf_of(b)) {
            return Ok(leaf(function(a, b)));
        }
        let key = [OWN + number, a, b, 1];
        if let Some(node) = self.remembered(key) {
            return Ok(node);
        }
        let level = self.level(a).min(self.level(b));
        let ((a0, a1), (b0, b1)) = (self.branches(a, level), self.branches(b, level));
        let low = self.combine(a0, b0, number, function)?;
        let high = self.combine(a1, b1, number, function)?;
        let node = self.make(level, low, high)?;
        Ok(self.remember(key, node))
    }

    /// The leaves that a diagram has.
    pub fn leaves(&self, node: Node) -> Vec<u32> {
        let mut seen: std::collections::HashSet<Node, BuildHasherDefault<Quick>> =
            std::collections::HashSet::default();
        let (mut todo, mut found) = (vec![node], Vec::new());
        while let Some(node) = todo.pop() {
            if !seen.insert(node) {
                continue;
            }
            match leaf_of(node) {
                Some(leaf) => found.push(leaf),
                None => {
                    let inner = self.inner(node);
                    todo.extend([inner.low, inner.high]);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The leaf for a packet; `bit` says what it has at a level.
    pub fn at(&self, mut node: Node, bit: impl Fn(u32) -> bool) -> u32 {
        loop {
            match leaf_of(node) {
                Some(leaf) => return leaf,
                None => {
                    let inner = self.inner(node);
                    node = if bit(inner.level) {
                        inner.high
                    } else {
                        inner.low
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit(diagram: &mut Diagram, level: u32) -> Node {
        diagram.make(level, NO, YES).unwrap()
    }

    #[test]
    fn equal_functions_are_one_node() {
        let mut d = Diagram::new(1000);
        let (a, b) = (bit(&mut d, 0), bit(&mut d, 1));
        let (not_a, not_b) = (d.not(a).unwrap(), d.not(b).unwrap());
        let both = d.and(a, b).unwrap();
        let either = d.or(not_a, not_b).unwrap();
        assert_eq!(d.not(either), Ok(both));
        assert_eq!(d.without(a, not_b), Ok(both));
    }

    #[test]
    fn updates_change_leaves_only_inside_the_set() {
        let mut d = Diagram::new(1000);
        let (a, b) = (bit(&mut d, 3), bit(&mut d, 1));
        let start = d.select(a, leaf(5), leaf(7)).unwrap();
        let after = d.update(b, start, 0, &mut |leaf| leaf * 10).unwrap();
        let at = |levels: &[u32]| d.at(after, |level| levels.contains(&level));
        assert_eq!((at(&[]), at(&[3]), at(&[1]), at(&[1, 3])), (7, 5, 70, 50));
        assert_eq!(d.leaves(after), [5, 7, 50, 70]);
    }

    #[test]
    fn the_bound_is_an_error() {
        let mut d = Diagram::new(2);
        let (a, b) = (bit(&mut d, 0), bit(&mut d, 1));
        assert_eq!(d.and(a, b), Err(TooLarge { limit: 2 }));
    }
}
