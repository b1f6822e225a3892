//! What names one direction of a conversation.
//!
//! In: a packet. Out: its [`Tuple`] and the tuple of packets that answer it. ICMP queries (RFC 792,
//! RFC 950, RFC 4443, RFC 4620) put the identifier where other protocols have the source port, and
//! type and code where they have the destination port. Protocols without ports have zeros.

use crate::model::{Family, Fragment, Packet, Transport};

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port, or identifier of an ICMP query.
    pub src_port: u16,
    /// Destination port, or `type << 8 | code` of an ICMP query.
    pub dst_port: u16,
}

/// ICMP protocol number.
pub const ICMP: u8 = 1;
/// TCP protocol number.
pub const TCP: u8 = 6;
/// UDP protocol number.
pub const UDP: u8 = 17;
/// ICMPv6 protocol number.
pub const ICMP6: u8 = 58;
/// UDP-Lite protocol number.
pub const UDP_LITE: u8 = 136;

/// Pairs of request and answer of ICMP.
const QUERIES: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// Pairs of request and answer of ICMPv6.
const QUERIES6: [(u8, u8); 2] = [(128, 129), (139, 140)];

fn queries(proto: u8) -> &'static [(u8, u8)] {
    if proto == ICMP { &QUERIES } else { &QUERIES6 }
}

/// Whether an ICMP type asks for an answer, and so may begin a conversation.
pub fn is_request(proto: u8, kind: u8) -> bool {
    queries(proto).iter().any(|q| q.0 == kind)
}

/// The type that answers a request or asks for an answer.
fn opposite(proto: u8, kind: u8) -> Option<u8> {
    queries(proto)
        .iter()
        .find_map(|&(request, answer)| match kind {
            k if k == request => Some(answer),
            k if k == answer => Some(request),
            _ => None,
        })
}

impl Tuple {
    /// The tuple of a packet, or `None` when it can't be told: a later fragment, a header that is
    /// cut short, an ICMP message that is neither request nor answer.
    pub fn of(packet: &Packet) -> Option<Tuple> {
        if matches!(packet.fragment, Fragment::Later(_)) {
            return None;
        }
        let (src_port, dst_port) = match packet.transport {
            Transport::Short => return None,
            Transport::Icmp { kind, code, id, .. } => {
                opposite(packet.proto, kind)?;
                (id, u16::from(kind) << 8 | u16::from(code))
            }
            Transport::None | Transport::Spi(_) => (0, 0),
            _ => packet.ports().unwrap_or((0, 0)),
        };
        Some(Tuple {
            family: packet.family,
            proto: packet.proto,
            src: packet.src,
            dst: packet.dst,
            src_port,
            dst_port,
        })
    }

    /// The tuple of the packets that answer.
    pub fn inverse(&self) -> Tuple {
        let icmp = self.proto == ICMP || self.proto == ICMP6;
        let (src_port, dst_port) = match opposite(self.proto, (self.dst_port >> 8) as u8) {
            Some(kind) if icmp => (self.src_port, u16::from(kind) << 8 | self.dst_port & 0xff),
            _ => (self.dst_port, self.src_port),
        };
        Tuple {
            src: self.dst,
            dst: self.src,
            src_port,
            dst_port,
            ..*self
        }
    }
}
