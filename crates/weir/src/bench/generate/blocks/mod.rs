//! Rule sets in blocks, as ClassBench's program writes them: imitations of its twelve kinds.
//!
//! In: a shape, a size. Out: filters, most special first, in blocks that say equally much of the
//! same fields. The model is the published one (Taylor and Turner, "ClassBench: A Packet
//! Classification Benchmark", INFOCOM 2005): a filter's protocol, ports and prefix lengths are
//! drawn together, then all addresses are dealt out at once by two binary trees ([`trees`]), which
//! a larger set opens from the root on. What a set has twice goes, and filters are put in order of
//! what they leave open.
//!
//! The numbers of [`acl`], [`fw`] and [`ipc`] are our own, condensed and rounded: read by eye off
//! parts of published sets (a fifth to a half of each of about 1,000 rules), those of `acl1` also
//! off a parameter file, and set right where the same parts of ours had more or fewer networks. So
//! these are like those sets and are not them, nor samples of them. Left out: flags, and the
//! shrinking of sets by what is drawn twice, since here as many filters come out as are asked for.

mod acl;
mod fw;
mod ipc;
mod lengths;
mod levels;
mod trees;

use super::ports::{Class, Pool};
use super::{Exhausted, Options};
use crate::bench::filter::{Filter, Masked, Ports, Prefix, Version};
use crate::bench::random::{Random, mix};
use levels::Tree;
use std::collections::{HashMap, HashSet};
use trees::Request;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
/// What stands for every protocol.
const ANY: u8 = 0;

/// Filters of one protocol and one pair of port classes: how often, which, and how often they have
/// which prefix lengths before these are spread.
type Use = (f64, u8, [Class; 2], &'static [lengths::Spike]);

/// Ports of one side.
#[derive(Debug, PartialEq)]
struct Services {
    /// Distinct services, and how unevenly they are used.
    exact: usize,
    skew: f64,
    /// Distinct ranges.
    ranges: usize,
    /// A range that is used more often than others: how often.
    wide: (f64, u16, u16),
}

impl Services {
    const fn new(exact: usize, skew: f64, ranges: usize, wide: (f64, u16, u16)) -> Self {
        Services {
            exact,
            skew,
            ranges,
            wide,
        }
    }
}

/// No ranges worth a name.
const NARROW: (f64, u16, u16) = (0.0, 0, 0);

/// A kind of rule set.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// Name on the command line.
    pub name: &'static str,
    uses: &'static [Use],
    /// Of source and destination.
    services: [Services; 2],
    /// How many filters had the set that the trees describe; a larger one has more networks.
    size: f64,
    src: Tree,
    dst: Tree,
    /// How often a destination goes on being like its source, by bits.
    alike: &'static [levels::Alike],
}

impl Eq for Shape {}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Shape> {
    acl::ALL.iter().chain(&fw::ALL).chain(&ipc::ALL)
}

/// So many times the filters that are asked for are drawn before a shape is exhausted.
const DRAWN_MAX: usize = 200;

/// A filter before and after it has addresses; lengths are those of IPv4.
struct Draft {
    proto: u8,
    ports: [Ports; 2],
    request: Request,
}

/// A rule set of a shape.
pub fn filters(
    shape: &'static Shape,
    options: &Options,
    random: &mut Random,
) -> Result<Vec<Filter>, Exhausted> {
    let mut pool = |at: usize| {
        let Services {
            exact,
            skew,
            ranges,
            wide,
        } = shape.services[at];
        Pool::narrow(exact, skew, ranges, wide, random)
    };
    let pools = [pool(0), pool(1)];
    let mut count = options.count;
    loop {
        let mut drafts: Vec<Draft> = (0..count).map(|_| draft(shape, &pools, random)).collect();
        let growth = options.count as f64 / shape.size;
        trees::deal(
            [&shape.src, &shape.dst],
            shape.alike,
            growth,
            drafts.iter_mut().map(|draft| &mut draft.request).collect(),
            random,
        );
        let mut seen = HashSet::with_capacity(count);
        drafts.retain(|draft| seen.insert((draft.proto, draft.ports, draft.request)));
        let found = drafts.len();
        if found >= options.count {
            return Ok(finish(drafts, options, random));
        }
        if count >= options.count.max(50) * DRAWN_MAX {
            return Err(Exhausted { found });
        }
        // What came twice is missing, and comes twice ever more often.
        let missing = options.count as f64 / found as f64;
        count = (count as f64 * (1.15 * missing).min(4.0)) as usize + 1;
    }
}

/// All of a filter but its addresses.
fn draft(shape: &Shape, pools: &[Pool; 2], random: &mut Random) -> Draft {
    let at = random.weighted(shape.uses.iter().map(|one| one.0));
    let (_, proto, classes, spikes) = shape.uses[at];
    Draft {
        proto,
        ports: [0, 1].map(|side| pools[side].ports(classes[side], random)),
        request: Request {
            lengths: lengths::draw(spikes, random),
            ..Request::default()
        },
    }
}

/// As many as are asked for, in order.
fn finish(drafts: Vec<Draft>, options: &Options, random: &mut Random) -> Vec<Filter> {
    let mut drafts: Vec<(usize, Draft)> = drafts.into_iter().enumerate().collect();
    while drafts.len() > options.count {
        drafts.swap_remove(random.below(drafts.len() as u64) as usize);
    }
    drafts.sort_by_key(|one| one.0);
    // Blocks that leave equally much open come in the order of their first filters.
    let mut blocks = HashMap::new();
    for (at, draft) in &drafts {
        blocks.entry(block(draft)).or_insert(*at);
    }
    drafts.sort_by_key(|(at, draft)| (open(draft), blocks[&block(draft)], *at));
    let filter = |draft: &Draft| {
        let prefix = |side: usize| {
            let Request {
                lengths, addresses, ..
            } = draft.request;
            prefix(addresses[side], lengths[side], options.version)
        };
        Filter {
            src: prefix(0),
            dst: prefix(1),
            src_port: draft.ports[0],
            dst_port: draft.ports[1],
            proto: match draft.proto {
                ANY => Masked::ANY,
                proto => Masked::one(proto),
            },
            flags: Masked { value: 0, mask: 0 },
        }
    };
    drafts.iter().map(|(_, draft)| filter(draft)).collect()
}

/// What the filters of a block have in common.
fn block(draft: &Draft) -> ([u8; 2], [u16; 2], bool) {
    let widths = draft.ports.map(|ports| ports.last - ports.first);
    (draft.request.lengths, widths, draft.proto == ANY)
}

/// How many bits a filter leaves open.
fn open(draft: &Draft) -> u32 {
    let ports = |ports: Ports| (f64::from(ports.last - ports.first) + 1.0).log2();
    let proto = if draft.proto == ANY { 8 } else { 0 };
    let bits: u32 = draft
        .request
        .lengths
        .map(|l| 32 - u32::from(l))
        .iter()
        .sum();
    bits + proto + (ports(draft.ports[0]) + ports(draft.ports[1])) as u32
}

/// A prefix; for IPv6 each bit becomes four, of which three follow from the bits so far, so that
/// whatever nests or parts does so there too.
fn prefix(address: u32, length: u8, version: Version) -> Prefix {
    if version == Version::V4 {
        return Prefix::around(address.into(), length, version);
    }
    let mut wide = 0;
    for bit in 0..32u64 {
        let path = u64::from(address) >> (31 - bit);
        wide = wide << 4 | u128::from((path & 1) << 3 | mix(path ^ bit << 40) & 7);
    }
    Prefix::around(wide, length * 4, version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::generate::{Family, generate};

    fn set(name: &str, count: usize) -> Vec<Filter> {
        let family: Family = name.parse().unwrap();
        generate(&Options::new(family, count, 1)).unwrap().filters
    }

    fn share(filters: &[Filter], test: impl Fn(&Filter) -> bool) -> f64 {
        filters.iter().filter(|f| test(f)).count() as f64 / filters.len() as f64
    }

    fn distinct<T: std::hash::Hash + Eq>(filters: &[Filter], of: impl Fn(&Filter) -> T) -> usize {
        filters.iter().map(of).collect::<HashSet<T>>().len()
    }

    #[test]
    fn sets_look_like_their_kind() {
        let hosts = |f: &Filter| f.src.length >= 31 && f.dst.length >= 31;
        let open = |f: &Filter| f.src.length <= 2 || f.dst.length <= 2;
        assert!(share(&set("acl1-blocks", 3000), hosts) > 0.6);
        assert!(share(&set("fw1-blocks", 3000), open) > 0.85);
        assert!(share(&set("acl3-blocks", 3000), open) < 0.25);
        // One firewall names both ports at once, chains hardly do.
        let both = |f: &Filter| f.src_port != Ports::ANY && f.dst_port != Ports::ANY;
        assert!(share(&set("fw4-blocks", 3000), both) > 0.6);
        assert!(share(&set("ipc1-blocks", 3000), both) < 0.1);
    }

    #[test]
    fn a_larger_set_has_more_networks() {
        let networks = |count| distinct(&set("acl1-blocks", count), |f| f.src.first >> 8);
        assert!(networks(700) < 40, "{}", networks(700));
        assert!(networks(7000) > 60, "{}", networks(7000));
    }

    #[test]
    fn filters_are_in_blocks_and_special_ones_come_first() {
        let filters = set("fw1-blocks", 3000);
        let kind = |f: &Filter| {
            (
                f.src.length,
                f.dst.length,
                f.src_port.last - f.src_port.first,
            )
        };
        let turns = filters.windows(2).filter(|w| kind(&w[0]) != kind(&w[1]));
        assert!(turns.count() < 300);
        let sum = |f: &Filter| u32::from(f.src.length + f.dst.length);
        let half = |part: &[Filter]| part.iter().map(sum).sum::<u32>();
        assert!(half(&filters[..1500]) > half(&filters[1500..]));
    }

    #[test]
    fn six_parts_where_four_does() {
        let [a, b] = [0x0a01_0203, 0x0a01_0300].map(|one| prefix(one, 32, Version::V6));
        let net = prefix(0x0a01_0200, 24, Version::V6);
        let inside = |p: Prefix| Prefix::around(p.first, net.length, Version::V6) == net;
        assert!(inside(a) && !inside(b));
    }
}
