//! Packets for a rule set.
//!
//! In: a rule set, a kind, a seed. Out: packets, and the filter that each was made for.

use crate::bench::filter::{Filter, FilterSet, Masked, Packet, Trace};
use crate::bench::random::{Random, mix};

/// Where packets are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Corners: each field the lowest or the highest that a random filter allows.
    Corners,
    /// Any point inside a random filter.
    Interior,
    /// Fields of different filters, values just beside their ends, and noise: many match nothing.
    Mix,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Corners, Kind::Interior, Kind::Mix];
}

/// Makes a trace.
pub fn make(set: &FilterSet, count: usize, kind: Kind, seed: u64) -> Trace {
    let mut random = Random::new(mix(seed ^ 0x7472_6163_6500 ^ kind as u64));
    let mut maker = Maker {
        set,
        kind,
        random: &mut random,
    };
    let mut trace = Trace::default();
    for _ in 0..count {
        let at = maker.random.below(set.filters.len() as u64) as usize;
        trace.packets.push(maker.packet(at));
        if kind != Kind::Mix {
            trace.made_for.push(at as u32);
        }
    }
    trace
}

struct Maker<'a> {
    set: &'a FilterSet,
    kind: Kind,
    random: &'a mut Random,
}

impl Maker<'_> {
    fn packet(&mut self, at: usize) -> Packet {
        let version = self.set.version;
        let top = version.last();
        let prefix = |filter: &Filter, side: usize| {
            let prefix = [filter.src, filter.dst][side];
            (prefix.first, prefix.last(version))
        };
        let (first, last) = prefix(self.filter(at), 0);
        let src = self.value(first, last, top);
        let (first, last) = prefix(self.filter(at), 1);
        let dst = self.value(first, last, top);
        let ports = self.filter(at).src_port;
        let src_port = self.value(ports.first.into(), ports.last.into(), 0xffff) as u16;
        let ports = self.filter(at).dst_port;
        let dst_port = self.value(ports.first.into(), ports.last.into(), 0xffff) as u16;
        let proto = self.filter(at).proto;
        Packet {
            src,
            dst,
            src_port,
            dst_port,
            proto: self.protocol(proto),
            flags: 0,
        }
    }

    /// The filter that the next field is taken from.
    fn filter(&mut self, at: usize) -> &Filter {
        let other = self.kind == Kind::Mix && self.random.chance(0.3);
        let at = match other {
            true => self.random.below(self.set.filters.len() as u64) as usize,
            false => at,
        };
        &self.set.filters[at]
    }

    fn value(&mut self, first: u128, last: u128, top: u128) -> u128 {
        let random = &mut *self.random;
        match self.kind {
            Kind::Corners if random.chance(0.5) => first,
            Kind::Corners => last,
            Kind::Interior => random.wide(first, last),
            Kind::Mix => match random.below(8) {
                0 => first.saturating_sub(1),
                1 => last.saturating_add(1).min(top),
                2 => random.wide(0, top),
                3 | 4 => first,
                5 => last,
                _ => random.wide(first, last),
            },
        }
    }

    /// A protocol that the filter allows; its free bits are corners or random like any field.
    fn protocol(&mut self, proto: Masked<u8>) -> u8 {
        let free = match self.kind {
            Kind::Corners if self.random.chance(0.5) => 0,
            Kind::Corners => 0xff,
            _ => self.random.word() as u8,
        };
        let wrong = self.kind == Kind::Mix && self.random.chance(0.1);
        let value = proto.value | free & !proto.mask;
        if wrong {
            value ^ 1 << self.random.below(8)
        } else {
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::filter::Flags;
    use crate::bench::generate::{Family, Options, generate};

    #[test]
    fn packets_lie_in_the_filter_that_they_were_made_for() {
        for family in Family::all() {
            let set = generate(&Options::new(family, 200, 2)).unwrap();
            for kind in [Kind::Corners, Kind::Interior] {
                let trace = make(&set, 400, kind, 1);
                assert_eq!(trace, make(&set, 400, kind, 1));
                for (packet, at) in trace.packets.iter().zip(&trace.made_for) {
                    let filter = &set.filters[*at as usize];
                    assert!(
                        filter.holds(packet, set.version, Flags::Ignored),
                        "{family}"
                    );
                }
            }
            let mix = make(&set, 400, Kind::Mix, 1);
            assert!(mix.made_for.is_empty());
        }
    }
}
