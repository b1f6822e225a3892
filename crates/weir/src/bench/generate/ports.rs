//! Ports as rules name them: none, the two halves, services, ranges.
//!
//! In: how many distinct services and ranges a set has. Out: port ranges of a class. The services
//! that everybody has come first and most often; the rest are registered or made-up numbers.

use crate::bench::filter::Ports;
use crate::bench::random::Random;

/// What a rule says of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing.
    Any,
    /// 1024 and above.
    High,
    /// Below 1024.
    Low,
    /// One port.
    Exact,
    /// Some range.
    Range,
}

/// Services that nearly every rule set names.
const SERVICES: [u16; 40] = [
    80, 443, 53, 22, 25, 21, 123, 161, 110, 143, 445, 139, 137, 138, 135, 389, 636, 3389, 1521,
    1433, 3306, 5432, 8080, 20, 23, 69, 88, 111, 119, 162, 179, 514, 515, 587, 993, 995, 1812,
    2049, 5060, 8443,
];

/// The services and ranges of one side.
#[derive(Clone, Debug)]
pub struct Pool {
    exact: Vec<u16>,
    ranges: Vec<Ports>,
    /// How unevenly they are used.
    skew: f64,
    /// A range that is taken before others are drawn, and how often.
    wide: Option<(f64, Ports)>,
}

/// Uneven use of a pool's members: a handful of services has most rules.
const SKEW: f64 = 0.7;

impl Pool {
    /// A pool with this many distinct services and ranges.
    pub fn new(exact: usize, ranges: usize, random: &mut Random) -> Self {
        let mut services: Vec<u16> = SERVICES.iter().copied().take(exact.max(1)).collect();
        while services.len() < exact.min(60_000) {
            let port = match random.below(4) {
                0 => random.between(1, 1023),
                1 | 2 => random.between(1024, 10_000),
                _ => random.between(10_001, 65_535),
            } as u16;
            if !services.contains(&port) {
                services.push(port);
            }
        }
        let range = |random: &mut Random| {
            let first = match random.below(3) {
                0 => random.between(1, 1023),
                1 => random.between(1024, 9_999),
                _ => random.between(10_000, 60_000),
            };
            let width = match random.below(5) {
                0 => 1,
                1 => random.between(2, 16),
                2 => random.between(16, 256),
                3 => random.between(256, 4_096),
                _ => 65_535,
            };
            Ports::span(first as u16, (first + width).min(65_535) as u16)
        };
        let ranges = (0..ranges.max(1)).map(|_| range(random)).collect();
        Pool {
            exact: services,
            ranges,
            skew: SKEW,
            wide: None,
        }
    }

    /// A pool whose ranges are narrow, but for one that is used this often.
    pub fn narrow(
        exact: usize,
        skew: f64,
        ranges: usize,
        (often, first, last): (f64, u16, u16),
        random: &mut Random,
    ) -> Self {
        let range = |random: &mut Random| {
            let first = random.between(20, 60_000);
            let width = match random.below(8) {
                0..=2 => 1,
                3 | 4 => random.between(2, 10),
                5 | 6 => random.between(10, 100),
                _ => random.between(100, 1000),
            };
            Ports::span(first as u16, (first + width) as u16)
        };
        let ranges = (0..ranges.max(1)).map(|_| range(random)).collect();
        Pool {
            ranges,
            skew,
            wide: Some((often, Ports::span(first, last))),
            ..Pool::new(exact, 0, random)
        }
    }

    /// Ports of a class.
    pub fn ports(&self, class: Class, random: &mut Random) -> Ports {
        match class {
            Class::Any => Ports::ANY,
            Class::High => Ports::span(1024, 65_535),
            Class::Low => Ports::span(0, 1023),
            Class::Exact => Ports::one(self.exact[random.rank(self.exact.len(), self.skew)]),
            Class::Range => match self.wide {
                Some((often, ports)) if random.chance(often) => ports,
                _ => self.ranges[random.rank(self.ranges.len(), self.skew)],
            },
        }
    }
}
