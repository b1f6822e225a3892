//! Worst-case rule-set families: shapes that hurt one way of classifying each.
//!
//! In: size, address family, random source. Out: rules that drop and never match the traffic. The
//! constructions follow nf-HiPAC's description of its own worst case (every dimension constrained,
//! staircases and nests, wildcards in turn) and the adversarial sets of classifier comparisons
//! (narrow in one dimension and wide in the rest; long overlapping ranges; every tuple once).

use super::{Addresses, Ports, Protocol, Rule};
use crate::space::{self, Family, Prefix};

const QUIET_SOURCE_LAST: u16 = space::TRAFFIC_SOURCE_PORT_MIN - 1;
const QUIET_DESTINATION_LAST: u16 = space::TRAFFIC_DESTINATION_PORT_MIN - 1;

/// Staircases in source and destination port, nests in destination and source port; each dimension
/// left open in every fourth rule, so that a tree with wildcard children must walk both.
pub fn hipac_worst(count: usize, family: Family) -> Vec<Rule> {
    let (sources, destinations) = (family.sources(), family.destinations());
    let source_size = sources.last(family) - sources.base;
    let destination_size = destinations.last(family) - destinations.base;
    let source_step = (source_size / (2 * count as u128 + 1)).max(1);
    let destination_step = (destination_size / (2 * count as u128 + 2)).max(1);
    (0..count)
        .map(|i| {
            let (step, open) = (i as u128, i % 4);
            let stair =
                (sources.base + (step * source_step) % source_size).min(sources.last(family) - 1);
            let stair_end = (stair + source_size / 2).min(sources.last(family));
            let nest = (step * destination_step) % (destination_size / 2);
            let source_nest = (i % 24_000) as u16;
            let destination_first = 1 + (i % 32_000) as u16;
            let quiet_first = 1 + (i % 8_000) as u16;
            Rule {
                source: match open {
                    0 => Addresses::Any,
                    _ => Addresses::Range(stair, stair_end),
                },
                destination: match open {
                    1 => Addresses::Any,
                    _ => {
                        Addresses::Range(destinations.base + nest, destinations.last(family) - nest)
                    }
                },
                protocol: Some(Protocol::Tcp),
                source_ports: match open {
                    2 => None,
                    // With the destination port open, the source port has to miss.
                    3 => Some(Ports {
                        first: quiet_first,
                        last: quiet_first + 8_000,
                    }),
                    _ => Some(Ports {
                        first: space::TRAFFIC_SOURCE_PORT_MIN + source_nest,
                        last: u16::MAX - source_nest,
                    }),
                },
                destination_ports: (open != 3).then(|| Ports {
                    first: destination_first,
                    last: (destination_first + 500).min(QUIET_DESTINATION_LAST),
                }),
                syn: false,
            }
        })
        .collect()
}

/// A random prefix of at most `longest` bits around a traffic address.
fn wide_prefix(
    address: u128,
    longest: u8,
    family: Family,
    random: &mut fastrand::Rng,
) -> Addresses {
    Addresses::Prefix(Prefix::around(address, random.u8(0..=longest), family))
}

/// A range over at least a quarter of all ports.
fn wide_ports(random: &mut fastrand::Rng) -> Ports {
    let first = random.u16(0..49_000);
    Ports {
        first,
        last: random.u16(first + 16_000..),
    }
}

/// Narrow in one of four dimensions in turn (right beside traffic), wide in the other three.
pub fn cross(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let longest = family.sources().length + 4;
    (0..count)
        .map(|i| {
            let source = family.traffic_source(random);
            let destination = family.traffic_destination(random);
            let mut rule = Rule {
                source: wide_prefix(source, longest, family, random),
                destination: wide_prefix(destination, longest, family, random),
                protocol: Some(Protocol::Tcp),
                source_ports: Some(wide_ports(random)),
                destination_ports: Some(wide_ports(random)),
                syn: false,
            };
            let beside = |address| Prefix {
                base: address ^ 1,
                length: family.width(),
            };
            match i % 4 {
                0 => rule.source = Addresses::Prefix(beside(source)),
                1 => rule.destination = Addresses::Prefix(beside(destination)),
                2 => rule.source_ports = Some(Ports::one(space::traffic_source_port(random) | 1)),
                _ => {
                    let port = space::traffic_destination_port(random) | 1;
                    rule.destination_ports = Some(Ports::one(port));
                }
            }
            rule
        })
        .collect()
}

/// Short prefixes that hold the traffic, long ranges that overlap like stairs in both ports.
pub fn stair(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    (0..count)
        .map(|i| {
            let source = family.traffic_source(random);
            let destination = family.traffic_destination(random);
            let prefix = |address, random: &mut fastrand::Rng| {
                Addresses::Prefix(Prefix::around(address, random.u8(6..=14), family))
            };
            let source_first = (i % 32_000) as u16;
            let destination_first = 1 + (i * 7 % 16_000) as u16;
            Rule {
                source: prefix(source, random),
                destination: prefix(destination, random),
                protocol: Some(Protocol::Tcp),
                source_ports: Some(Ports {
                    first: source_first,
                    last: source_first + 32_000,
                }),
                destination_ports: Some(Ports {
                    first: destination_first,
                    last: destination_first + random.u16(8_000..16_000),
                }),
                syn: false,
            }
        })
        .collect()
}

/// Prefixes of at most six bits and random ranges in both ports, one of them missing.
pub fn wide(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    (0..count)
        .map(|i| {
            let source = family.traffic_source(random);
            let destination = family.traffic_destination(random);
            let any = |random: &mut fastrand::Rng| Ports::between(random.u16(..), random.u16(..));
            let quiet = |last: u16, random: &mut fastrand::Rng| {
                Ports::between(random.u16(0..=last), random.u16(0..=last))
            };
            let (source_ports, destination_ports) = if i % 2 == 0 {
                (any(random), quiet(QUIET_DESTINATION_LAST, random))
            } else {
                (quiet(QUIET_SOURCE_LAST, random), any(random))
            };
            Rule {
                source: wide_prefix(source, 6, family, random),
                destination: wide_prefix(destination, 6, family, random),
                protocol: Some(Protocol::Tcp),
                source_ports: Some(source_ports),
                destination_ports: Some(destination_ports),
                syn: false,
            }
        })
        .collect()
}

/// Every pair of prefix lengths with every port shape before any combination comes twice.
pub fn tuple_worst(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let lengths = usize::from(family.width()) + 1;
    (0..count)
        .map(|i| {
            // Shape fastest, then both lengths by steps that have no factor in common with them.
            let (shape, pair) = (i % 6, i / 6);
            let source_length = (pair * 7 % lengths) as u8;
            let destination_length = ((pair / lengths + pair) * 5 % lengths) as u8;
            let source = family.traffic_source(random);
            let destination = family.traffic_destination(random);
            let odd_source = Ports::one(space::traffic_source_port(random) | 1);
            let odd_destination = Ports::one(space::traffic_destination_port(random) | 1);
            let quiet = random.u16(1..QUIET_SOURCE_LAST - 1_000);
            let low = Ports {
                first: quiet,
                last: quiet + random.u16(1..1_000),
            };
            let (protocol, source_ports, destination_ports) = match shape {
                0 => (Protocol::Tcp, None, Some(odd_destination)),
                1 => (Protocol::Tcp, None, Some(low)),
                2 => (Protocol::Tcp, Some(odd_source), None),
                3 => (Protocol::Tcp, Some(low), None),
                4 => (Protocol::Tcp, Some(odd_source), Some(odd_destination)),
                _ => (Protocol::Udp, Some(low), Some(odd_destination)),
            };
            Rule {
                source: Addresses::Prefix(Prefix::around(source, source_length, family)),
                destination: Addresses::Prefix(Prefix::around(
                    destination,
                    destination_length,
                    family,
                )),
                protocol: Some(protocol),
                source_ports,
                destination_ports,
                syn: false,
            }
        })
        .collect()
}

/// Distinct complete 5-tuples; each differs from traffic in its last field only.
pub fn linear_worst(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let mut seen = std::collections::HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let host = |address| {
            Addresses::Prefix(Prefix {
                base: address,
                length: family.width(),
            })
        };
        let rule = Rule {
            source: host(family.traffic_source(random)),
            destination: host(family.traffic_destination(random)),
            protocol: Some(Protocol::Tcp),
            source_ports: Some(Ports::one(space::traffic_source_port(random))),
            destination_ports: Some(Ports::one(space::traffic_destination_port(random) | 1)),
            syn: false,
        };
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    rules
}
