//! The shapes of access lists, firewalls and IP chains, as tables of numbers.
//!
//! In: a shape, a size. Out: filters drawn from it, then put into the order that people give them:
//! special cases before general ones, though not strictly.
//!
//! What the kinds are like: **access lists** sit on routers before servers, name few sources or
//! none and many destinations down to single hosts, hardly ever a source port, a hundred services.
//! **Firewalls** leave one side open in most rules, nest deeply on the other, name source ports too
//! (services answer), and use few distinct ranges. **IP chains** are host and gateway lists between
//! known networks: both addresses given, every combination of port classes.

mod acl;
mod fw;
mod ipc;

use super::Options;
use super::addresses::{Addresses, Spread};
use super::ports::{Class, Pool};
use crate::bench::filter::{Filter, Masked, Ports, Version};
use crate::bench::random::Random;

/// Source and destination port class, and how often.
type Pair = (Class, Class, f64);

/// One side's addresses: about `scale * filters ^ growth` distinct ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    scale: f64,
    growth: f64,
    spread: Spread,
    skew: f64,
}

/// A family's numbers.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// Name on the command line.
    pub name: &'static str,
    /// Prefix lengths of source and destination, and how often.
    lengths: &'static [(u8, u8, f64)],
    /// How often a length is moved by one or two bits, so that tables of lengths are not sparse.
    smooth: f64,
    src: Side,
    dst: Side,
    /// How often source and destination are of one tree.
    shared: f64,
    /// TCP, UDP, ICMP, any, and ESP, AH, GRE, OSPF together.
    protocols: [f64; 5],
    tcp: &'static [Pair],
    udp: &'static [Pair],
    /// Distinct services and ranges of source and destination.
    services: [usize; 2],
    ranges: [usize; 2],
    /// How strictly special cases come first: 0 not at all.
    strict: f64,
}

impl Eq for Shape {}

const fn side(scale: f64, growth: f64, spread: Spread, skew: f64) -> Side {
    Side {
        scale,
        growth,
        spread,
        skew,
    }
}

/// All families.
pub fn all() -> impl Iterator<Item = &'static Shape> {
    acl::ALL.iter().chain(&fw::ALL).chain(&ipc::ALL)
}

/// Draws filters of a shape.
pub struct Source {
    shape: &'static Shape,
    version: Version,
    trees: [Addresses; 2],
    pools: [Pool; 2],
}

/// ESP, AH, GRE, OSPF.
const OTHERS: [u8; 4] = [50, 51, 47, 89];

impl Source {
    /// The networks and services of one rule set.
    pub fn new(shape: &'static Shape, options: &Options, random: &mut Random) -> Self {
        let count = options.count as f64;
        let mut tree = |side: &Side| {
            let distinct = side.scale * count.powf(side.growth);
            Addresses::new(
                random.word(),
                distinct,
                side.spread,
                side.skew,
                options.version,
            )
        };
        let trees = [tree(&shape.src), tree(&shape.dst)];
        let mut pool = |at: usize| Pool::new(shape.services[at], shape.ranges[at], random);
        Source {
            shape,
            version: options.version,
            trees,
            pools: [pool(0), pool(1)],
        }
    }

    /// One filter.
    pub fn filter(&mut self, random: &mut Random) -> Filter {
        let shape = self.shape;
        let at = random.weighted(shape.lengths.iter().map(|l| l.2));
        let (src, dst, _) = shape.lengths[at];
        let lengths = [src, dst].map(|length| self.length(length, random));
        let shared = random.chance(shape.shared);
        let src = self.trees[usize::from(shared)].prefix(lengths[0], random);
        let dst = self.trees[1].prefix(lengths[1], random);
        let kind = random.weighted(shape.protocols.into_iter());
        let proto = match kind {
            0 => Masked::one(6),
            1 => Masked::one(17),
            2 => Masked::one(1),
            3 => Masked::ANY,
            _ => Masked::one(OTHERS[random.below(4) as usize]),
        };
        let pairs = match kind {
            0 => shape.tcp,
            1 => shape.udp,
            _ => &[(Class::Any, Class::Any, 1.0)],
        };
        let (src_class, dst_class, _) = pairs[random.weighted(pairs.iter().map(|p| p.2))];
        Filter {
            src,
            dst,
            src_port: self.pools[0].ports(src_class, random),
            dst_port: self.pools[1].ports(dst_class, random),
            proto,
            flags: Masked { value: 0, mask: 0 },
        }
    }

    /// A length, moved a little now and then. Open sides and hosts stay what they are.
    fn length(&self, length: u8, random: &mut Random) -> u8 {
        let fixed = length == 0 || length == 32 || !random.chance(self.shape.smooth);
        if fixed {
            return length;
        }
        let moved = i64::from(length) + random.between(0, 4) as i64 - 2;
        debug_assert!(self.version.width() >= 32, "lengths are those of IPv4");
        moved.clamp(1, 31) as u8
    }
}

/// How special a filter is, in bits.
pub fn special(filter: &Filter) -> f64 {
    let ports = |ports: Ports| 16.0 - (f64::from(ports.last - ports.first) + 1.0).log2();
    f64::from(filter.src.length)
        + f64::from(filter.dst.length)
        + ports(filter.src_port)
        + ports(filter.dst_port)
        + f64::from(filter.proto.mask.count_ones())
}

/// Puts special filters before general ones, as far as the shape is strict about it.
pub fn order(shape: &Shape, filters: Vec<Filter>, random: &mut Random) -> Vec<Filter> {
    let noise = 100.0 * (1.0 - shape.strict);
    let mut keyed: Vec<(f64, Filter)> = filters
        .into_iter()
        .map(|filter| (random.unit() * noise - special(&filter), filter))
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, filter)| filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::generate::{Family, generate};

    #[test]
    fn sets_look_like_their_kind() {
        let share = |name: &str, test: fn(&Filter) -> bool| {
            let family: Family = name.parse().unwrap();
            let set = generate(&Options::new(family, 4000, 1)).unwrap();
            set.filters.iter().filter(|f| test(f)).count() as f64 / 4000.0
        };
        // Access lists name no source ports and mostly one service.
        assert!(share("acl1", |f| f.src_port == Ports::ANY) == 1.0);
        assert!(share("acl1", |f| f.dst_port.first == f.dst_port.last) > 0.6);
        assert!(
            share("acl2", |f| f.dst_port == Ports::ANY
                && f.src_port == Ports::ANY)
                > 0.4
        );
        // Firewalls leave a side open; chains between known hosts hardly do.
        assert!(share("fw1", |f| f.src.length == 0 || f.dst.length == 0) > 0.4);
        assert!(share("fw1", |f| f.src_port != Ports::ANY) > 0.2);
        assert!(share("ipc2", |f| f.src.length == 32 && f.dst.length == 32) > 0.4);
        assert!(share("ipc2", |f| f.dst_port == Ports::ANY) > 0.6);
    }
}
