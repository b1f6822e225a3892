//! The everyday rule-set families: IPFW's two lists, lists as people have them, all-different.
//!
//! In: size, address family, random source. Out: rules that drop and never match the traffic of
//! [`crate::space`]. `exp` and `cheap` follow the two lists of FreeBSD's ipfw cost note, `sources`
//! the list of HP's paper on IPFilter.

use std::collections::{BTreeMap, HashSet};

use super::{Addresses, Ports, Protocol, Rule};
use crate::space::{self, Address, Family, Prefix};

/// Above this many rules, /16 sources no longer fit side by side; then they start at /20.
const SHORT_PREFIXES_MAX: usize = 100_000;
/// Ports that traffic never goes to: 1 up to this one.
const QUIET_DESTINATION_PORT_MAX: u16 = space::TRAFFIC_DESTINATION_PORT_MIN - 1;
/// Ports that traffic never comes from: 1 up to this one.
const QUIET_SOURCE_PORT_MAX: u16 = space::TRAFFIC_SOURCE_PORT_MIN - 1;

/// N times `deny tcp from any to any 55555`.
pub fn exp(count: usize) -> Vec<Rule> {
    let rule = Rule {
        protocol: Some(Protocol::Tcp),
        destination_ports: Some(Ports::one(55_555)),
        ..Rule::ANY
    };
    vec![rule; count]
}

/// N times `deny ip from 1.2.3.4 to 1.2.3.4`.
pub fn cheap(count: usize, family: Family) -> Vec<Rule> {
    let (address, length) = match family {
        Family::V4 => (0x0102_0304, 32),
        Family::V6 => ((0x2001_0db9 << 96) | 0x1234, 128),
    };
    let one = Addresses::Prefix(Prefix {
        base: address,
        length,
    });
    vec![
        Rule {
            source: one,
            destination: one,
            ..Rule::ANY
        };
        count
    ]
}

/// N different addresses, each of one host far from the traffic, to anywhere.
pub fn sources(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let mut seen = HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let base = family.elsewhere(random);
        if seen.insert(base) {
            let length = family.width();
            rules.push(Rule {
                source: Addresses::Prefix(Prefix { base, length }),
                ..Rule::ANY
            });
        }
    }
    rules
}

/// Random disjoint sources, random destinations, tcp or udp, single ports or small ranges.
pub fn real(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let mut taken = BTreeMap::new();
    let lengths: &[u8] = match (family, count <= SHORT_PREFIXES_MAX) {
        (Family::V4, true) => &[
            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
        ],
        (Family::V4, false) => &[20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32],
        (Family::V6, _) => &[32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 96, 112, 128],
    };
    let destination_min = if family == Family::V4 { 8 } else { 32 };
    (0..count)
        .map(|_| {
            let source = loop {
                let length = lengths[random.usize(..lengths.len())];
                let prefix = Prefix::around(family.elsewhere(random), length, family);
                if take(&mut taken, prefix, family) {
                    break prefix;
                }
            };
            let destination = Prefix::around(
                if random.bool() {
                    family.elsewhere(random)
                } else {
                    family.traffic_destination(random)
                },
                random.u8(destination_min..=family.width()),
                family,
            );
            let port = random.u16(1..=65_000);
            let ports = if random.u8(..4) == 0 {
                Ports {
                    first: port,
                    last: port + random.u16(1..16),
                }
            } else {
                Ports::one(port)
            };
            Rule {
                source: Addresses::Prefix(source),
                destination: Addresses::Prefix(destination),
                protocol: Some(if random.bool() {
                    Protocol::Tcp
                } else {
                    Protocol::Udp
                }),
                destination_ports: Some(ports),
                ..Rule::ANY
            }
        })
        .collect()
}

/// Reserves a prefix unless it overlaps one that is taken.
fn take(taken: &mut BTreeMap<Address, Address>, prefix: Prefix, family: Family) -> bool {
    let last = prefix.last(family);
    let before = taken.range(..=last).next_back();
    if before.is_some_and(|(_, before_last)| *before_last >= prefix.base) {
        return false;
    }
    taken.insert(prefix.base, last);
    true
}

/// Prefixes that match the traffic, unique ports that do not.
pub fn mix(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let (sources, destinations) = (family.sources().length, family.destinations().length);
    (0..count)
        .map(|i| {
            let source_length = random.u8(sources..=sources + 10);
            let destination_length = random.u8(destinations..=destinations + 8);
            let source = Prefix::around(family.traffic_source(random), source_length, family);
            let destination = Prefix::around(
                family.traffic_destination(random),
                destination_length,
                family,
            );
            let round = i / usize::from(QUIET_DESTINATION_PORT_MAX);
            let port = 1 + (i % usize::from(QUIET_DESTINATION_PORT_MAX)) as u16;
            Rule {
                source: Addresses::Prefix(source),
                destination: Addresses::Prefix(destination),
                protocol: Some(Protocol::Tcp),
                // When the ports have run out, a quiet source port keeps the pair unique.
                source_ports: (round > 0)
                    .then(|| Ports::one((round as u16 - 1) % QUIET_SOURCE_PORT_MAX + 1)),
                destination_ports: Some(Ports::one(port)),
                ..Rule::ANY
            }
        })
        .collect()
}

/// Every rule differs from every other in several fields; one field, in turn, misses the traffic.
pub fn all_different(count: usize, family: Family, random: &mut fastrand::Rng) -> Vec<Rule> {
    let mut seen = HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let rule = different(rules.len(), family, random);
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    rules
}

fn different(i: usize, family: Family, random: &mut fastrand::Rng) -> Rule {
    let width = family.width();
    let around = |address, random: &mut fastrand::Rng, lengths: std::ops::RangeInclusive<u8>| {
        Addresses::Prefix(Prefix::around(address, random.u8(lengths), family))
    };
    let (low, high) = (family.sources().length, width - 4);
    let traffic_source = family.traffic_source(random);
    let traffic_destination = family.traffic_destination(random);
    let mut rule = Rule {
        source: around(traffic_source, random, low..=high),
        destination: around(traffic_destination, random, low..=high),
        protocol: Some(if random.u8(..3) == 0 {
            Protocol::Udp
        } else {
            Protocol::Tcp
        }),
        source_ports: (random.u8(..3) == 0)
            .then(|| Ports::between(random.u16(1..=65_535), random.u16(1..=65_535))),
        destination_ports: Some(Ports::between(
            random.u16(1..=65_535),
            random.u16(1..=65_535),
        )),
        syn: false,
    };
    match i % 8 {
        0 => {
            let far = family.elsewhere(random);
            rule.source = around(far, random, width / 4..=width);
        }
        1 => rule.source = Addresses::Prefix(space::near_miss(traffic_source, family, random)),
        2 => {
            let far = family.elsewhere(random);
            rule.destination = around(far, random, width / 4..=width);
        }
        3 => {
            let miss = space::near_miss(traffic_destination, family, random);
            rule.destination = Addresses::Prefix(miss);
        }
        4 => rule.protocol = Some(Protocol::Udp),
        5 => {
            rule.protocol = Some(if random.bool() {
                Protocol::Esp
            } else {
                Protocol::Sctp
            });
            if rule.protocol == Some(Protocol::Esp) {
                (rule.source_ports, rule.destination_ports) = (None, None);
            }
        }
        6 => {
            let first = random.u16(1..QUIET_DESTINATION_PORT_MAX - 1000);
            let last = first + random.u16(..1000);
            rule.destination_ports = Some(Ports { first, last });
        }
        _ => {
            // An odd port lies between the even ones of the traffic.
            let port = random.u16(space::TRAFFIC_SOURCE_PORT_MIN..) | 1;
            rule.source_ports = Some(Ports::one(port));
            rule.syn = rule.protocol == Some(Protocol::Tcp) && random.bool();
        }
    }
    rule
}
