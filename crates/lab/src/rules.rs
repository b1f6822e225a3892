//! Rule sets for measuring: families with a stated shape, any size, the same from the same seed.
//!
//! In: a family name, a size, a seed, an address family. Out: a [`RuleSet`], which the emitters
//! ([`iptables`], [`ipf`], [`ipfw`], [`nft`], [`ipset`]) turn into text. Every rule drops and none
//! matches the lab's traffic (tests prove it per family); what is measured is the way past them
//! all. The families are those of IPFW's cost note, of nf-HiPAC's worst cases and of published
//! comparisons.

pub mod families;
pub mod hostile;
pub mod ipf;
pub mod ipfw;
pub mod ipset;
pub mod iptables;
pub mod nft;
pub mod policy;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::space::{Address, Family, Prefix};

/// The shape of a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// N times the same rule on a port: every rule of a linear filter looks at the port.
    Exp,
    /// N times the same rule on two addresses: every rule of a linear filter fails at once.
    Cheap,
    /// Disjoint random sources, random destinations, ports and small ranges, away from traffic.
    Real,
    /// Prefixes that match the traffic with unique ports that do not.
    Mix,
    /// Prefixes, ranges and protocols; every rule differs in several fields.
    AllDifferent,
    /// Staircases and nests in four dimensions, wildcards in turn: hurts interval trees.
    HipacWorst,
    /// Narrow in one of four dimensions in turn, wide in the others.
    Cross,
    /// Short prefixes and long overlapping port ranges on both sides.
    Stair,
    /// Very short prefixes and random ranges in everything.
    Wide,
    /// As many pairs of prefix lengths and port shapes as there can be: hurts tuple spaces.
    TupleWorst,
    /// Distinct complete 5-tuples between the packets: hurts linear scans.
    LinearWorst,
    /// `Real` for new connections, behind a rule that accepts established ones.
    Stateful,
    /// Different single sources that the traffic has none of, as in HP's measurements of IPFilter.
    Sources,
}

impl Shape {
    /// All shapes, in the order of the reports.
    pub const ALL: [Shape; 13] = [
        Shape::Exp,
        Shape::Cheap,
        Shape::Real,
        Shape::Mix,
        Shape::AllDifferent,
        Shape::HipacWorst,
        Shape::Cross,
        Shape::Stair,
        Shape::Wide,
        Shape::TupleWorst,
        Shape::LinearWorst,
        Shape::Stateful,
        Shape::Sources,
    ];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Exp => "exp",
            Shape::Cheap => "cheap",
            Shape::Real => "real",
            Shape::Mix => "mix",
            Shape::AllDifferent => "all-different",
            Shape::HipacWorst => "hipac-worst",
            Shape::Cross => "cross",
            Shape::Stair => "stair",
            Shape::Wide => "wide",
            Shape::TupleWorst => "tuple-worst",
            Shape::LinearWorst => "linear-worst",
            Shape::Stateful => "stateful",
            Shape::Sources => "sources",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        Shape::ALL
            .into_iter()
            .find(|shape| shape.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Shape::ALL.iter().map(|shape| shape.name()).collect();
                format!(
                    "no family is called '{text}'; there are {}",
                    names.join(", ")
                )
            })
    }
}

/// A set of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Every address.
    Any,
    /// A prefix.
    Prefix(Prefix),
    /// From the first to the last, both included.
    Range(Address, Address),
}

impl Addresses {
    /// Whether an address is in the set.
    pub fn contains(self, address: Address, family: Family) -> bool {
        match self {
            Addresses::Any => true,
            Addresses::Prefix(prefix) => prefix.contains(address, family),
            Addresses::Range(first, last) => (first..=last).contains(&address),
        }
    }

    /// As languages without ranges of addresses write it: a prefix, or `any`. `None` for a range.
    pub fn prefix_or_any(self, family: Family) -> Option<String> {
        match self {
            Addresses::Prefix(prefix) if prefix.length > 0 => Some(prefix.text(family)),
            Addresses::Any | Addresses::Prefix(_) => Some("any".to_owned()),
            Addresses::Range(..) => None,
        }
    }
}

/// An inclusive range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

impl Ports {
    /// One port.
    pub fn one(port: u16) -> Ports {
        Ports {
            first: port,
            last: port,
        }
    }

    /// A range; the ends may come in any order.
    pub fn between(a: u16, b: u16) -> Ports {
        Ports {
            first: a.min(b),
            last: a.max(b),
        }
    }

    /// Whether a port is in the range.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// `80` or `80X90`, with the separator that the language wants.
    pub fn text(self, separator: char) -> String {
        if self.first == self.last {
            self.first.to_string()
        } else {
            format!("{}{separator}{}", self.first, self.last)
        }
    }
}

/// The transport protocols that rules name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ESP, which has no ports.
    Esp,
}

impl Protocol {
    /// The name in every language here.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
            Protocol::Esp => "esp",
        }
    }

    /// The number in the IP header.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
            Protocol::Esp => 50,
        }
    }
}

/// One rule; it drops what it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source addresses.
    pub source: Addresses,
    /// Destination addresses.
    pub destination: Addresses,
    /// Transport protocol; ports are only given with one that has them.
    pub protocol: Option<Protocol>,
    /// Source ports.
    pub source_ports: Option<Ports>,
    /// Destination ports.
    pub destination_ports: Option<Ports>,
    /// Only TCP segments that open a connection (`--syn`).
    pub syn: bool,
}

impl Rule {
    /// A rule that matches everything.
    pub const ANY: Rule = Rule {
        source: Addresses::Any,
        destination: Addresses::Any,
        protocol: None,
        source_ports: None,
        destination_ports: None,
        syn: false,
    };

    /// Whether the rule matches a header; the lab's own check that generators miss the traffic.
    pub fn matches(&self, header: &Header) -> bool {
        self.source.contains(header.source, header.family)
            && self.destination.contains(header.destination, header.family)
            && self
                .protocol
                .is_none_or(|protocol| protocol.number() == header.protocol)
            && self
                .source_ports
                .is_none_or(|ports| ports.contains(header.source_port))
            && self
                .destination_ports
                .is_none_or(|ports| ports.contains(header.destination_port))
            && !self.syn
    }
}

/// The fields of a packet that rules of the lab look at (its traffic never opens a connection).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Protocol number.
    pub protocol: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// What the last rule does with everything that got so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Last {
    /// Accept: all traffic passes after having been compared with every rule.
    Accept,
    /// Drop: only what a state rule accepts passes, which proves that it did.
    Drop,
}

/// A generated rule set.
#[derive(Debug, Clone)]
pub struct RuleSet {
    /// Its shape.
    pub shape: Shape,
    /// The address family of its rules.
    pub family: Family,
    /// The seed it came from.
    pub seed: u64,
    /// The rules that drop, in order.
    pub rules: Vec<Rule>,
    /// Whether established connections are accepted first and the rules are for new ones.
    pub stateful: bool,
    /// The rule after all of them.
    pub last: Last,
}

impl RuleSet {
    /// Generates `count` rules of a shape.
    pub fn generate(shape: Shape, count: usize, seed: u64, family: Family) -> RuleSet {
        let mut random = fastrand::Rng::with_seed(seed ^ (shape as u64) << 32);
        let rules = match shape {
            Shape::Exp => families::exp(count),
            Shape::Cheap => families::cheap(count, family),
            Shape::Real | Shape::Stateful => families::real(count, family, &mut random),
            Shape::Mix => families::mix(count, family, &mut random),
            Shape::AllDifferent => families::all_different(count, family, &mut random),
            Shape::HipacWorst => hostile::hipac_worst(count, family),
            Shape::Cross => hostile::cross(count, family, &mut random),
            Shape::Stair => hostile::stair(count, family, &mut random),
            Shape::Wide => hostile::wide(count, family, &mut random),
            Shape::TupleWorst => hostile::tuple_worst(count, family, &mut random),
            Shape::LinearWorst => hostile::linear_worst(count, family, &mut random),
            Shape::Sources => families::sources(count, family, &mut random),
        };
        assert_eq!(
            rules.len(),
            count,
            "{shape} must have as many rules as asked for"
        );
        let stateful = shape == Shape::Stateful;
        RuleSet {
            shape,
            family,
            seed,
            rules,
            stateful,
            last: Last::Accept,
        }
    }
}

/// Why a rule set cannot be written in a language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inexpressible(pub String);

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Inexpressible {}
