//! Rule sets of our own, with the statistical shape of those in use, and hostile ones.
//!
//! In: a family, a size, a seed. Out: distinct filters in order of priority, the same for ever.
//! The shapes are ours, from what is generally known of access lists, firewalls and IP chains, so
//! names like `acl1` mean "of that kind" and not ClassBench's set; [`blocks`] imitates those. What
//! is missing: flags, and everything that five fields can't say.

mod addresses;
mod blocks;
mod families;
pub mod genome;
mod hostile;
mod ports;
pub mod trace;

use super::filter::{Filter, FilterSet, Version};
use super::random::{Random, mix};
use genome::{Genome, PUBLISHED, Published};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// A family of rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A shape of rules as people write them.
    Usual(&'static families::Shape),
    /// An imitation of what ClassBench's program writes.
    Blocks(&'static blocks::Shape),
    /// A shape made against classifiers.
    Hostile(hostile::Shape),
    /// The worst that a search against our own engine found.
    Found(&'static Published),
    /// What a genome says.
    Bred(Genome),
}

impl Family {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Family> {
        let usual = families::all().map(Family::Usual);
        let hostile = hostile::Shape::ALL.into_iter().map(Family::Hostile);
        usual
            .chain(blocks::all().map(Family::Blocks))
            .chain(hostile)
            .chain(PUBLISHED.iter().map(Family::Found))
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Usual(shape) => shape.name,
            Family::Blocks(shape) => shape.name,
            Family::Hostile(shape) => shape.name(),
            Family::Found(published) => published.name,
            Family::Bred(_) => "genome",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Family::all()
            .find(|family| family.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Family::all().map(Family::name).collect();
                format!("no family `{text}`; there are {}", names.join(", "))
            })
    }
}

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The family.
    pub family: Family,
    /// How many filters.
    pub count: usize,
    /// The seed.
    pub seed: u64,
    /// Kind of addresses.
    pub version: Version,
}

impl Options {
    /// IPv4 filters of a family.
    pub fn new(family: Family, count: usize, seed: u64) -> Self {
        Options {
            family,
            count,
            seed,
            version: Version::V4,
        }
    }
}

/// A family can't give that many distinct filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// How many it gave.
    pub found: usize,
}

/// Draws in vain, one after the other, after which a family is exhausted.
const VAIN_MAX: usize = 10_000;

/// Generates a rule set.
pub fn generate(options: &Options) -> Result<FilterSet, Exhausted> {
    // A published genome gives the filters that it was published for.
    let name = match options.family {
        Family::Found(_) => "genome",
        family => family.name(),
    };
    let family = name
        .bytes()
        .fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let mut random = Random::new(mix(options.seed) ^ family);
    let filters = match options.family {
        Family::Usual(shape) => {
            let mut source = families::Source::new(shape, options, &mut random);
            let drawn = distinct(options.count, |_| source.filter(&mut random))?;
            families::order(shape, drawn, &mut random)
        }
        Family::Blocks(shape) => blocks::filters(shape, options, &mut random)?,
        Family::Hostile(shape) => {
            let mut source = hostile::Source::new(shape, options);
            distinct(options.count, |at| source.filter(at, &mut random))?
        }
        Family::Found(&Published { genome, .. }) | Family::Bred(genome) => {
            let mut source = genome::Source::new(genome, options.version, &mut random);
            let mut filters = distinct(options.count, |at| source.filter(at, &mut random))?;
            source.order(&mut filters, families::special);
            filters
        }
    };
    Ok(FilterSet {
        version: options.version,
        filters,
    })
}

/// This many distinct filters of what is drawn.
fn distinct(count: usize, mut draw: impl FnMut(usize) -> Filter) -> Result<Vec<Filter>, Exhausted> {
    let mut seen = HashSet::with_capacity(count);
    let mut out = Vec::with_capacity(count);
    let mut vain = 0;
    while out.len() < count {
        let filter = draw(out.len());
        if seen.insert(filter) {
            out.push(filter);
            vain = 0;
        } else {
            vain += 1;
            if vain == VAIN_MAX {
                return Err(Exhausted { found: out.len() });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_gives_as_many_distinct_filters_as_asked_for() {
        for version in [Version::V4, Version::V6] {
            for family in Family::all() {
                for count in [1, 300, 3000] {
                    let options = Options {
                        version,
                        ..Options::new(family, count, 3)
                    };
                    let set = generate(&options).unwrap_or_else(|e| panic!("{family}: {e:?}"));
                    let distinct: HashSet<_> = set.filters.iter().collect();
                    assert_eq!(distinct.len(), count, "{family}");
                    assert_eq!(set, generate(&options).unwrap(), "{family} by seed");
                    let other = Options { seed: 4, ..options };
                    assert!(count == 1 || set != generate(&other).unwrap(), "{family}");
                }
            }
        }
    }
}
