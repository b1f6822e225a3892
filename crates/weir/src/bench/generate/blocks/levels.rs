//! How trees of addresses part, level by level.
//!
//! In: bands of levels as the number tables have them, and by how much a set is larger than what
//! they describe. Out: one value for each bit. A larger set has more networks, not larger ones:
//! that is what ClassBench's program calls branching, with which published sets were made. Not
//! here: the trees themselves.

/// Bits of an address, and levels of a tree.
pub const BITS: u8 = 32;

/// Up to which bit, how often a node has two children, and by how much the larger one is larger:
/// 0 for equal ones, 1 where all have the same.
pub type Band = (u8, f64, f64);

/// Up to which bit, and how often a destination goes on being like its source there.
pub type Alike = (u8, f64);

/// How addresses of one side part.
#[derive(Debug, PartialEq)]
pub struct Tree {
    /// So many prefixes nest.
    pub nest: usize,
    /// Its bands.
    pub levels: &'static [Band],
}

impl Tree {
    /// A tree of these bands.
    pub const fn new(nest: usize, levels: &'static [Band]) -> Self {
        Tree { nest, levels }
    }
}

/// How the nodes of a level part in two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// How often.
    pub two: f64,
    /// How unevenly.
    pub skew: f64,
}

/// The value of each level, of bands of levels.
pub fn banded<B, T: Copy>(bands: &[B], of: impl Fn(&B) -> (u8, T)) -> [T; BITS as usize] {
    std::array::from_fn(|level| {
        let band = bands.iter().map(&of).find(|band| level < band.0.into());
        band.or(bands.last().map(&of)).expect("a band").1
    })
}

/// Levels of a larger set: from the root on they part evenly, as far as the growth goes. A level
/// takes twice of it what it lacks of that, and the last one becomes as even as what is left says.
pub fn opened(tree: &Tree, growth: f64) -> [Level; BITS as usize] {
    let mut levels = banded(tree.levels, |&(until, two, skew)| {
        (until, Level { two, skew })
    });
    let mut left = if growth > 1.0 { growth } else { 0.0 };
    for level in &mut levels {
        let lacks = 2.0 * (1.0 - level.two * (1.0 - level.skew));
        let part = if lacks <= left { 1.0 } else { left / lacks };
        level.two += part * (1.0 - level.two);
        level.skew -= part * level.skew;
        left = (left - lacks).max(0.0);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_set_opens_levels_from_the_root_on() {
        let tree = Tree::new(4, &[(2, 0.5, 0.5), (32, 0.0, 1.0)]);
        let even = Level {
            two: 1.0,
            skew: 0.0,
        };
        let as_is = opened(&tree, 1.0);
        assert_eq!((as_is[0].two, as_is[2].two), (0.5, 0.0));
        // The first two levels take 1.5 each, all others 2.
        let opening = opened(&tree, 5.5);
        assert_eq!(opening[..3], [even; 3]);
        assert_ne!(opening[3], even);
        assert_eq!(opened(&tree, 100.0), [even; 32]);
    }
}
