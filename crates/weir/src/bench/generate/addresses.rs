//! Address prefixes that nest and cluster as those of networks do.
//!
//! In: how many distinct addresses, at which depths networks part. Out: prefixes of any length. An
//! address is a walk down a binary tree that is never stored: whether a node has one child or two,
//! and which one is the busier, follows from a hash of the node. So prefixes of several lengths
//! share their beginnings, some networks have many rules and most have few.

use crate::bench::filter::{Prefix, Version};
use crate::bench::random::{Random, mix};

/// Where in an address networks part: weights of its four quarters, for IPv4 its bytes.
pub type Spread = [f64; 4];

/// A tree of addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    salt: u64,
    version: Version,
    /// Probability that a node of a level has two children.
    branch: [f64; 64],
    /// Probability of the busier child.
    skew: f64,
}

/// Levels of the tree: the bits that are walked. IPv6 networks have theirs in the upper half.
fn levels(version: Version) -> u8 {
    match version {
        Version::V4 => 32,
        Version::V6 => 64,
    }
}

impl Addresses {
    /// About `distinct` addresses whose networks part as `spread` says.
    pub fn new(salt: u64, distinct: f64, spread: Spread, skew: f64, version: Version) -> Self {
        let levels = levels(version);
        let total: f64 = spread.iter().sum();
        let quarter = f64::from(levels) / 4.0;
        // A level with `bits` of its own multiplies the addresses by 2^bits; what one quarter can't
        // hold goes to the others in a few rounds.
        let mut bits = [0.0; 64];
        let mut left = distinct.max(1.0).log2();
        for _ in 0..4 {
            let share = left;
            for level in 0..usize::from(levels) {
                let weight = spread[level * 4 / usize::from(levels)] / total / quarter;
                let more = (share * weight).min(1.0 - bits[level]);
                bits[level] += more;
                left -= more;
            }
        }
        let branch = bits.map(|bits: f64| bits.exp2() - 1.0);
        Addresses {
            salt,
            version,
            branch,
            skew,
        }
    }

    /// A prefix whose length is that of an IPv4 prefix; for IPv6 lengths double, and a host stays
    /// a host.
    pub fn prefix(&self, length: u8, random: &mut Random) -> Prefix {
        let width = self.version.width();
        if length == 0 {
            return Prefix {
                first: 0,
                length: 0,
            };
        }
        let length = match (self.version, length) {
            (Version::V4, length) => length,
            (Version::V6, 32) => 128,
            (Version::V6, length) => length * 2,
        };
        let levels = levels(self.version);
        let mut node = 0u64;
        for level in 0..length.min(levels) {
            let hash = mix(node ^ self.salt ^ u64::from(level) << 58);
            let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
            let busy = hash & 1;
            let stay = unit >= self.branch[usize::from(level)] || random.chance(self.skew);
            node = node << 1 | if stay { busy } else { busy ^ 1 };
        }
        let mut address = u128::from(node) << (width - length.min(levels));
        if self.version == Version::V6 {
            // Global unicast; hosts of a network differ in the lower half.
            address = address & (u128::MAX >> 3) | 1 << 125;
            let host = mix(node ^ self.salt ^ random.below(8)) as u128;
            address |= if length > levels { host } else { 0 };
        }
        Prefix::around(address, length, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_about_as_many_addresses_as_asked_for_and_they_nest() {
        let tree = Addresses::new(1, 4096.0, [1.0, 2.0, 3.0, 2.0], 0.5, Version::V4);
        let mut random = Random::new(2);
        let hosts: HashSet<_> = (0..200_000).map(|_| tree.prefix(32, &mut random)).collect();
        assert!((1000..12_000).contains(&hosts.len()), "{}", hosts.len());
        let nets: HashSet<_> = (0..20_000).map(|_| tree.prefix(16, &mut random)).collect();
        assert!(nets.len() < hosts.len() / 4);
        let inside = |host: &Prefix| nets.contains(&Prefix::around(host.first, 16, Version::V4));
        let share = hosts.iter().filter(|host| inside(host)).count();
        assert!(share * 10 > hosts.len() * 9, "{share} of {}", hosts.len());
    }

    #[test]
    fn addresses_of_version_six_are_global() {
        let tree = Addresses::new(1, 4096.0, [1.0, 2.0, 3.0, 2.0], 0.5, Version::V6);
        let mut random = Random::new(2);
        for length in [8, 24, 32] {
            let prefix = tree.prefix(length, &mut random);
            assert_eq!(prefix.first >> 125, 1, "{prefix:?}");
            assert_eq!(prefix.length, if length == 32 { 128 } else { length * 2 });
        }
    }
}
