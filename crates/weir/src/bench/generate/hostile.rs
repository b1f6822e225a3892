//! Rule sets made against classifiers.
//!
//! In: a size. Out: filters that cross in as many fields as they can. `cross`, `stair` and `wide`
//! are the three adversarial shapes of the literature that break trees, tuples and bit vectors in
//! turn; `hipac-worst` maximises the elementary intervals of every dimension at once, which is
//! what a search tree per field suffers from.

use super::Options;
use crate::bench::filter::{Filter, Masked, Ports, Prefix, Version};
use crate::bench::random::Random;

/// A hostile shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Narrow in one of four fields in turn, wide and overlapping in the others.
    Cross,
    /// Short prefixes, long port ranges that overlap like stairs.
    Stair,
    /// Hardly a prefix, any port range.
    Wide,
    /// Nests of addresses and stairs of ports, each field open in every fourth filter.
    HipacWorst,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 4] = [Shape::Cross, Shape::Stair, Shape::Wide, Shape::HipacWorst];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Cross => "cross",
            Shape::Stair => "stair",
            Shape::Wide => "wide",
            Shape::HipacWorst => "hipac-worst",
        }
    }
}

/// Draws filters of a hostile shape.
pub struct Source {
    shape: Shape,
    version: Version,
    count: usize,
}

impl Source {
    /// The filters of one set.
    pub fn new(shape: Shape, options: &Options) -> Self {
        Source {
            shape,
            version: options.version,
            count: options.count,
        }
    }

    /// The filter at a place.
    pub fn filter(&mut self, at: usize, random: &mut Random) -> Filter {
        match self.shape {
            Shape::Cross => self.cross(at, random),
            Shape::Stair => self.stair(at, random),
            Shape::Wide => self.wide(random),
            Shape::HipacWorst => self.hipac_worst(at, random),
        }
    }

    fn prefix(&self, lengths: (u64, u64), random: &mut Random) -> Prefix {
        let address = random.wide(0, self.version.last());
        let length = random.between(lengths.0, lengths.1) as u8;
        Prefix::around(address, length, self.version)
    }

    fn host(&self, random: &mut Random) -> Prefix {
        let width = u64::from(self.version.width());
        self.prefix((width, width), random)
    }

    fn any_ports(random: &mut Random) -> Ports {
        Ports::span(random.word() as u16, random.word() as u16)
    }

    fn cross(&self, at: usize, random: &mut Random) -> Filter {
        let port = |random: &mut Random| Ports::one(random.word() as u16);
        let mut filter = Filter {
            src: self.prefix((0, 4), random),
            dst: self.prefix((0, 4), random),
            src_port: Self::any_ports(random),
            dst_port: Self::any_ports(random),
            ..TCP
        };
        match at % 4 {
            0 => filter.src = self.host(random),
            1 => filter.dst = self.host(random),
            2 => filter.src_port = port(random),
            _ => filter.dst_port = port(random),
        }
        filter
    }

    fn stair(&self, at: usize, random: &mut Random) -> Filter {
        let step = |at: usize, width: u64| {
            let first = (at % 32_768) as u16;
            Ports::span(first, first.saturating_add(width as u16))
        };
        Filter {
            src: self.prefix((6, 14), random),
            dst: self.prefix((6, 14), random),
            src_port: step(at, 32_000),
            dst_port: step(at * 7, random.between(8_000, 30_000)),
            ..TCP
        }
    }

    fn wide(&self, random: &mut Random) -> Filter {
        Filter {
            src: self.prefix((0, 6), random),
            dst: self.prefix((0, 6), random),
            src_port: Self::any_ports(random),
            dst_port: Self::any_ports(random),
            proto: if random.chance(0.5) {
                Masked::one(6)
            } else {
                Masked::ANY
            },
            ..TCP
        }
    }

    /// Filter `at` of `count` stands at a step of its own in each field: prefixes of all lengths
    /// around points that move on, port ranges that begin and end where no other does.
    fn hipac_worst(&self, at: usize, random: &mut Random) -> Filter {
        let width = u64::from(self.version.width());
        let part = |turn: usize| {
            let place = (at * 2 + 1) as u128 * (turn as u128 * 2 + 1);
            let unit = self.version.last() / (self.count as u128 * 2 + 2);
            unit.wrapping_mul(place) & self.version.last()
        };
        let nest = |turn: usize, random: &mut Random| {
            let length = random.between(1, width) as u8;
            Prefix::around(part(turn), length, self.version)
        };
        let stairs = |turn: usize, random: &mut Random| {
            let first = (at * (turn * 2 + 1) % 32_768) as u16;
            Ports::span(first, 32_768 + random.below(32_768) as u16)
        };
        let open = at % 4;
        let mut filter = Filter {
            src: nest(0, random),
            dst: nest(1, random),
            src_port: stairs(0, random),
            dst_port: stairs(1, random),
            ..TCP
        };
        let any = Prefix {
            first: 0,
            length: 0,
        };
        match open {
            0 => filter.src = any,
            1 => filter.dst = any,
            2 => filter.src_port = Ports::ANY,
            _ => filter.dst_port = Ports::ANY,
        }
        filter
    }
}

const TCP: Filter = Filter {
    src: Prefix {
        first: 0,
        length: 0,
    },
    dst: Prefix {
        first: 0,
        length: 0,
    },
    src_port: Ports::ANY,
    dst_port: Ports::ANY,
    proto: Masked {
        value: 6,
        mask: 0xff,
    },
    flags: Masked { value: 0, mask: 0 },
};
