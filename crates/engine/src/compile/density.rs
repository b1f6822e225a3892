//! What bit vectors over some terms would cost: how many words a packet has to look at.
//!
//! A word is looked at when the rows of all fields have a bit there, though perhaps not the same
//! one. Estimated for packets at corners of the terms themselves, over words spread over them all.

use super::service::{Service, Services};
use super::span::Span;
use super::term::Term;

/// Packets tried.
const PACKETS: usize = 24;
/// Words looked at.
const WORDS: usize = 96;

/// Words that a packet looks at in bit vectors over these terms, on average.
pub fn words(terms: &[(&Term, u32)], services: &Services) -> f64 {
    if terms.is_empty() {
        return 0.0;
    }
    let count = terms.len().div_ceil(64);
    let (mut met, mut tried) = (0usize, 0usize);
    for number in 0..PACKETS {
        let (packet, _) = terms[(number * 2 + 1) * terms.len() / (PACKETS * 2)];
        let corner = Corner::of(packet, services, number % 2 == 1);
        for word in terms.chunks(64).step_by(count.div_ceil(WORDS)) {
            tried += 1;
            met += usize::from(corner.may_hold(word, services));
        }
    }
    met as f64 / tried as f64 * count as f64
}

/// One packet that a term holds for.
struct Corner {
    address: [u128; 2],
    port: [u16; 2],
    proto: u8,
    kind: u8,
}

impl Corner {
    fn of(term: &Term, services: &Services, last: bool) -> Self {
        let address = |span: &Span<u128>| match span {
            Span::Any => 0x0a01_0203,
            Span::One(low, high) => *if last { high } else { low },
            Span::Many(set) => set.ranges()[0].0,
        };
        let port = |span: &Span<u16>| match span {
            Span::Any => 40_000,
            Span::One(low, high) => *if last { high } else { low },
            Span::Many(set) => set.ranges()[0].0,
        };
        let service = services.get(term.service);
        let common = [6, 17].into_iter().find(|v| service.proto.has(*v));
        let proto = common.or_else(|| (0..=255).find(|v| service.proto.has(*v)));
        // The transport that goes with the protocol, a whole packet, a new connection.
        let kind = match proto {
            Some(6) => 0x2b,
            _ => 0x2c,
        };
        let other = (0..=255).find(|v| service.kind.has(*v));
        Corner {
            address: [address(&term.address[0]), address(&term.address[1])],
            port: [port(&term.port[0]), port(&term.port[1])],
            proto: proto.unwrap_or(0),
            kind: if service.kind.has(kind) {
                kind
            } else {
                other.unwrap_or(kind)
            },
        }
    }

    /// Whether the rows of all fields have a bit in a word of terms.
    fn may_hold(&self, word: &[(&Term, u32)], services: &Services) -> bool {
        let (mut source, mut destination, mut service) = (false, false, false);
        for (term, _) in word {
            source = source || term.address[0].has(self.address[0]);
            destination = destination || term.address[1].has(self.address[1]);
            service = service || self.is_served(term, services);
            if source && destination && service {
                return true;
            }
        }
        false
    }

    fn is_served(&self, term: &Term, services: &Services) -> bool {
        let own: &Service = services.get(term.service);
        own.proto.has(self.proto)
            && own.kind.has(self.kind)
            && term.port[0].has(self.port[0])
            && term.port[1].has(self.port[1])
    }
}
