//! Rule sets by their genes: what a search against our own engine breeds.
//!
//! In: a [`Genome`] of [`GENES`] bytes, each a knob of how filters are drawn. Out: filters. Every
//! genome is a rule set, most are dull; `bench search` looks for those that hurt, and the worst
//! found so far are families of their own ([`PUBLISHED`]).

use crate::bench::filter::{Filter, Masked, Ports, Prefix, Version};
use crate::bench::random::{Random, mix};
use std::fmt;
use std::str::FromStr;

/// Bytes of a genome.
pub const GENES: usize = 24;

/// How filters are drawn. By number: 0 to 4 source addresses (shortest and longest prefix, bits
/// that differ at all, how often open, nests), 5 to 9 destination addresses, 10 to 14 source ports
/// (how often open, how often one port, narrowest and widest range, distinct ranges), 15 to 19
/// destination ports, 20 distinct protocols, 21 how often any, 22 fields that are open in turn, 23
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Genome(pub [u8; GENES]);

/// A published genome: its family's name, and what it was found for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Name on the command line.
    pub name: &'static str,
    /// Its genes.
    pub genome: Genome,
}

/// The worst found by `bench search` so far: for nanoseconds, loads, bytes, each with 1,000 filters
/// and seed 1.
pub static PUBLISHED: [Published; 3] = [
    Published {
        name: "weir-worst",
        genome: Genome(bytes(
            0xc4a0_f6c1_26c1_8da2,
            0x397a_5cc1_d6fb_a79e,
            0xec24_4a24_e272_01db,
        )),
    },
    Published {
        name: "weir-loads",
        genome: Genome(bytes(
            0xfc59_ab2d_2f4a_5519,
            0x63b0_126b_d1cb_bd3f,
            0x6f2e_7128_f589_4df1,
        )),
    },
    Published {
        name: "weir-bytes",
        genome: Genome(bytes(
            0xafa8_abd0_2dad_f4b3,
            0x3a7a_5347_cccb_b058,
            0x7931_f1f0_ab05_4ddb,
        )),
    },
];

/// The genes that are printed as these digits.
const fn bytes(first: u64, second: u64, third: u64) -> [u8; GENES] {
    let mut out = [0; GENES];
    let mut at = 0;
    while at < GENES {
        let word = [first, second, third][at / 8];
        out[at] = (word >> (56 - at % 8 * 8)) as u8;
        at += 1;
    }
    out
}

impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|gene| write!(f, "{gene:02x}"))
    }
}

impl FromStr for Genome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a genome is {} hexadecimal digits", GENES * 2);
        if text.len() != GENES * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut genes = [0; GENES];
        for (at, gene) in genes.iter_mut().enumerate() {
            *gene = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Genome(genes))
    }
}

impl Genome {
    /// Any genome.
    pub fn random(random: &mut Random) -> Self {
        Genome([0; GENES].map(|_| random.word() as u8))
    }

    /// This one with a few genes changed.
    pub fn mutated(mut self, random: &mut Random) -> Self {
        for _ in 0..random.between(1, 4) {
            let gene = &mut self.0[random.below(GENES as u64) as usize];
            *gene = match random.below(3) {
                0 => gene.wrapping_add(random.between(1, 16) as u8),
                1 => gene.wrapping_sub(random.between(1, 16) as u8),
                _ => random.word() as u8,
            };
        }
        self
    }

    fn share(&self, gene: usize) -> f64 {
        f64::from(self.0[gene]) / 255.0
    }

    /// A gene as a number from 0 to `most`.
    fn scaled(&self, gene: usize, most: u32) -> u32 {
        u32::from(self.0[gene]) * most / 255
    }
}

/// Draws the filters of a genome.
pub struct Source {
    genome: Genome,
    version: Version,
    salt: u64,
}

impl Source {
    /// The filters of one set.
    pub fn new(genome: Genome, version: Version, random: &mut Random) -> Self {
        Source {
            genome,
            version,
            salt: random.word(),
        }
    }

    /// The filter at a place.
    pub fn filter(&mut self, at: usize, random: &mut Random) -> Filter {
        let open = self.genome.scaled(22, 4) as usize;
        let is_open = |field: usize| (0..open.min(3)).any(|turn| (at + turn) % 4 == field);
        let any = Prefix {
            first: 0,
            length: 0,
        };
        Filter {
            src: if is_open(0) {
                any
            } else {
                self.prefix(0, random)
            },
            dst: if is_open(1) {
                any
            } else {
                self.prefix(5, random)
            },
            src_port: if is_open(2) {
                Ports::ANY
            } else {
                self.ports(10, random)
            },
            dst_port: if is_open(3) {
                Ports::ANY
            } else {
                self.ports(15, random)
            },
            proto: self.protocol(random),
            flags: Masked { value: 0, mask: 0 },
        }
    }

    fn prefix(&self, gene: usize, random: &mut Random) -> Prefix {
        let width = u32::from(self.version.width());
        if random.chance(self.genome.share(gene + 3) * 0.9) {
            return Prefix {
                first: 0,
                length: 0,
            };
        }
        let (a, b) = (
            self.genome.scaled(gene, width),
            self.genome.scaled(gene + 1, width),
        );
        let length = random.between(a.min(b).into(), a.max(b).into()) as u8;
        // Addresses of a pool: with few bits of choice they nest, with many they are apart.
        let pool = self.genome.scaled(gene + 2, 24);
        let member = random.below(1 << pool) ^ self.salt ^ gene as u64;
        let mut address = u128::from(mix(member)) << 64 | u128::from(mix(!member));
        if random.chance(self.genome.share(gene + 4)) {
            // A nest: all around one point.
            address = u128::from(mix(self.salt ^ gene as u64)) << 64;
        }
        if self.version == Version::V4 {
            address >>= 96;
        }
        Prefix::around(address, length, self.version)
    }

    fn ports(&self, gene: usize, random: &mut Random) -> Ports {
        if random.chance(self.genome.share(gene) * 0.9) {
            return Ports::ANY;
        }
        let pool = self.genome.scaled(gene + 4, 16);
        let mut member = Random::new(random.below(1 << pool) ^ self.salt ^ gene as u64);
        let first = member.word() as u16;
        if member.chance(self.genome.share(gene + 1)) {
            return Ports::one(first);
        }
        let (a, b) = (
            self.genome.scaled(gene + 2, 16),
            self.genome.scaled(gene + 3, 16),
        );
        let bits = member.between(a.min(b).into(), a.max(b).into());
        let span = member.below(1 << bits) as u16;
        Ports {
            first,
            last: first.saturating_add(span),
        }
    }

    fn protocol(&self, random: &mut Random) -> Masked<u8> {
        if random.chance(self.genome.share(21)) {
            return Masked::ANY;
        }
        let rank = random.below(u64::from(self.genome.0[20]) + 1);
        Masked::one(mix(rank) as u8)
    }

    /// Puts filters into the genome's order: as drawn, general first, or special first.
    pub fn order(&self, filters: &mut [Filter], special: impl Fn(&Filter) -> f64) {
        match self.genome.0[23] {
            0..=127 => (),
            128..=191 => filters.sort_by(|a, b| special(a).total_cmp(&special(b))),
            _ => filters.sort_by(|a, b| special(b).total_cmp(&special(a))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genomes_are_read_back() {
        let mut random = Random::new(1);
        let genome = Genome::random(&mut random);
        assert_eq!(genome.to_string().parse(), Ok(genome));
        assert_ne!(genome.mutated(&mut random), genome);
        assert_eq!(
            PUBLISHED[0].genome.to_string().get(..16),
            Some("c4a0f6c126c18da2")
        );
        assert!("00".parse::<Genome>().is_err());
        assert!("é".repeat(24).parse::<Genome>().is_err());
    }
}
