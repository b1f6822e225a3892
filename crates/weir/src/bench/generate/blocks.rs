//! Rule sets in blocks: stretches of filters that say equally much of the same fields.
//!
//! In: a shape, a size. Out: filters block by block. So are the sets that ClassBench's program
//! writes: looked at in parts of the published `fw1_10k` and `acl1_10k`, a stretch of hundreds of
//! filters has one pair of prefix lengths and one kind of ports, one side of a firewall's filter is
//! a host and the other says at most two bits, and an access list names hosts of few networks on
//! one side and few servers on the other. That is kinder to a classifier than the usual shapes of
//! [`super::families`], where lengths mix and networks nest, and marks that were measured on such
//! sets are to be compared with these. The numbers below are ours, and hosts lie anywhere, not in
//! few networks.

use super::Options;
use super::ports::Class::{Any, Exact, High};
use super::ports::{Class, Pool};
use crate::bench::filter::{Filter, Masked, Prefix, Version};
use crate::bench::random::Random;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;

/// Filters that say equally much: share of a set in percent, prefix lengths of source and
/// destination (of IPv4, a quarter of those of IPv6), ports of source and destination, protocol.
type Block = (f64, [u8; 2], [Class; 2], u8);

/// Where addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// Anywhere; where both sides say something, both begin alike.
    Anywhere,
    /// Of a sixth as many hosts as filters; destinations of 31 bits are mostly a few servers.
    Hosts,
}

/// A shape of blocks.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// Name on the command line.
    pub name: &'static str,
    places: Places,
    /// Distinct services.
    services: usize,
    blocks: &'static [Block],
}

impl Eq for Shape {}

/// All of them.
pub static ALL: [Shape; 2] = [
    Shape {
        name: "fw-blocks",
        places: Places::Anywhere,
        services: 30,
        blocks: &[
            (6.0, [31, 1], [Exact, High], UDP),
            (6.0, [1, 32], [Exact, Any], UDP),
            (7.5, [32, 0], [Exact, High], UDP),
            (10.5, [32, 0], [Any, Exact], TCP),
            (6.0, [31, 1], [Any, Exact], TCP),
            (4.5, [1, 31], [High, Exact], UDP),
            (3.5, [32, 1], [Any, Exact], UDP),
            (23.0, [0, 31], [Any, Exact], TCP),
            (7.5, [0, 32], [Any, Exact], TCP),
            (3.5, [0, 31], [High, High], UDP),
            (4.0, [30, 0], [Any, Any], TCP),
            (3.0, [29, 1], [Any, Any], TCP),
            (1.5, [31, 0], [Any, Any], GRE),
            (1.5, [30, 1], [Any, Any], GRE),
            (2.5, [28, 1], [Any, Any], TCP),
            (3.0, [29, 0], [Any, Any], TCP),
            (1.5, [0, 30], [High, High], UDP),
            (1.5, [30, 0], [Any, Any], GRE),
            (1.5, [29, 1], [Any, Any], ICMP),
            (1.5, [28, 2], [Any, Any], TCP),
            (0.2, [20, 0], [Any, Any], TCP),
            (0.3, [0, 16], [Any, Exact], TCP),
        ],
    },
    Shape {
        name: "acl-blocks",
        places: Places::Hosts,
        services: 110,
        blocks: &[
            (46.0, [32, 31], [Any, Exact], TCP),
            (2.0, [32, 31], [Any, Exact], UDP),
            (2.0, [32, 31], [Any, Any], TCP),
            (18.0, [32, 32], [Any, Exact], TCP),
            (2.0, [32, 32], [Any, Any], TCP),
            (14.0, [28, 32], [Any, Exact], TCP),
            (1.0, [28, 32], [Any, Any], TCP),
            (9.0, [24, 32], [Any, Exact], TCP),
            (1.0, [24, 32], [Any, Any], TCP),
            (5.0, [0, 32], [Any, Exact], TCP),
        ],
    },
];

/// A host for so many filters.
const FILTERS_A_HOST: usize = 6;
/// Servers that most filters of an access list are about, and how often they are.
const SERVERS: usize = 12;
const OFTEN: f64 = 0.9;
/// How unevenly servers are named.
const SKEW: f64 = 0.8;

/// Draws filters of a shape.
pub struct Source {
    shape: &'static Shape,
    version: Version,
    count: usize,
    pool: Pool,
    hosts: Vec<u128>,
    servers: Vec<u128>,
}

impl Source {
    /// The hosts and services of one rule set.
    pub fn new(shape: &'static Shape, options: &Options, random: &mut Random) -> Self {
        let last = options.version.last();
        let mut some = |count: usize| (0..count).map(|_| random.wide(0, last)).collect();
        let (hosts, servers) = (
            some((options.count / FILTERS_A_HOST).max(64)),
            some(SERVERS),
        );
        Source {
            shape,
            version: options.version,
            count: options.count,
            pool: Pool::new(shape.services, 0, random),
            hosts,
            servers,
        }
    }

    /// The filter at a place.
    pub fn filter(&self, at: usize, random: &mut Random) -> Filter {
        let (_, lengths, ports, proto) = *self.block(at);
        let [src, dst] = match self.shape.places {
            Places::Anywhere => {
                let address = random.wide(0, self.version.last());
                [address; 2]
            }
            Places::Hosts => {
                let src = self.host(random);
                let is_server = lengths[1] == 31 && random.chance(OFTEN);
                let dst = match is_server {
                    true => self.servers[random.rank(SERVERS, SKEW)],
                    false => self.host(random),
                };
                [src, dst]
            }
        };
        Filter {
            src: self.prefix(src, lengths[0]),
            dst: self.prefix(dst, lengths[1]),
            src_port: self.pool.ports(ports[0], random),
            dst_port: self.pool.ports(ports[1], random),
            proto: Masked::one(proto),
            flags: Masked { value: 0, mask: 0 },
        }
    }

    /// The block at a place.
    fn block(&self, at: usize) -> &'static Block {
        let blocks = self.shape.blocks;
        let percent = (at as f64 + 0.5) / self.count as f64 * 100.0;
        let mut until = 0.0;
        let found = blocks.iter().find(|block| {
            until += block.0;
            percent < until
        });
        found.unwrap_or(&blocks[blocks.len() - 1])
    }

    fn host(&self, random: &mut Random) -> u128 {
        self.hosts[random.below(self.hosts.len() as u64) as usize]
    }

    fn prefix(&self, address: u128, length: u8) -> Prefix {
        let length = u64::from(length) * u64::from(self.version.width()) / 32;
        Prefix::around(address, length as u8, self.version)
    }
}
