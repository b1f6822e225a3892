//! Packets to try structures with: what a rule set lets one expect of traffic.
//!
//! In: the terms of a root. Out: packets whose fields come from different terms, so that most of
//! them match nothing in particular but stay where rules are; half of them with any ports, as the
//! ports of clients are. The same terms give the same packets.

use super::service::Services;
use super::span::{Field, Span};
use super::tables::Placed;
use super::term::address_last;
use weir_policy::model::Family;

/// A packet, as far as tables and splits ask.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Source and destination address.
    pub address: [u128; 2],
    /// Source and destination port.
    pub port: [u16; 2],
    /// Protocol.
    pub proto: u8,
}

/// Packets for some terms.
pub fn packets(terms: &[Placed], services: &Services, family: Family, count: usize) -> Vec<Packet> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let top = address_last(family);
    let mut out = Vec::with_capacity(count);
    for number in 0..if terms.is_empty() { 0 } else { count } {
        let mut term = || terms[random.below(terms.len() as u128) as usize].0;
        let (source, destination, service) = (term(), term(), term());
        let port = match number % 2 {
            0 => service.port.clone(),
            _ => [Span::Any, Span::Any],
        };
        let proto = services.get(service.service).proto;
        let common = [6, 17].into_iter().find(|value| proto.has(*value));
        out.push(Packet {
            address: [
                random.inside(&source.address[0], top),
                random.inside(&destination.address[1], top),
            ],
            port: port.map(|span| random.inside(&span, u16::MAX)),
            proto: common
                .or_else(|| (0..=255).find(|value| proto.has(*value)))
                .unwrap_or(0),
        });
    }
    out
}

/// A linear congruential generator; the high bits are good enough for samples.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        let step = self.0.wrapping_mul(0xd129_0d3b_3ab3_9b1d);
        self.0 = step.wrapping_add(0x2545_f491_4f6c_dd1d);
        self.0 ^ self.0 >> 29
    }

    /// A number below `end`.
    fn below(&mut self, end: u128) -> u128 {
        let wide = u128::from(self.word()) << 64 | u128::from(self.word().rotate_left(32));
        wide % end
    }

    /// A value of the first range of a span.
    fn inside<T: Field + Into<u128> + TryFrom<u128>>(&mut self, span: &Span<T>, top: T) -> T {
        let (first, last) = match span {
            Span::Any => (T::MIN, top),
            Span::One(first, last) => (*first, *last),
            Span::Many(set) => set.ranges()[0],
        };
        let (low, high): (u128, u128) = (first.into(), last.into());
        let offset = match (high - low).checked_add(1) {
            Some(count) => self.below(count),
            None => self.below(u128::MAX),
        };
        T::try_from(low + offset).unwrap_or(first)
    }
}
