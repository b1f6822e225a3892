//! Transport headers as IPFilter and ipfw read them: which must be there, or the packet is dropped
//! before the rules. Twin of `plane/bpf/reading.h`: same names, same order.
//!
//! In: a packet or first fragment whose network headers are read. Out: how many bytes of its
//! transport header are read. The meaning is that of [`super::ipf`] and [`super::ipfw`], of which a
//! test (`testkit/tests/cut_headers.rs`) tries packets that end anywhere.

use super::ipf::bad_flags;
use super::key::Key;
use super::parse::{Bytes, proto};
use weir_policy::model::Reading;

/// Protocols beside those of [`proto`].
mod other {
    pub const IPV4: u8 = 4;
    pub const IPV6: u8 = 41;
    pub const GRE: u8 = 47;
    pub const PIM: u8 = 103;
    pub const CARP: u8 = 112;
}

/// The first byte of the only CARP packets that ipfw knows: version 2, an advertisement.
const CARP_ADVERTISEMENT: u8 = 0x21;
/// Bytes of an authentication header that IPFilter wants (RFC 4302 without its check value).
const AH_MIN: u32 = 12;

/// What is left of a packet from some header on.
#[derive(Clone, Copy)]
struct Rest {
    at: u32,
    /// Bytes by the network header.
    data: u32,
    /// Bytes that can be read.
    there: u32,
}

/// Bytes of the transport header that are read, 0 for none; `None`: it is cut short. `end`: of the
/// packet by its network header.
pub(super) fn needs(reading: Reading, b: &Bytes, end: u32, p: &Key) -> Option<u32> {
    let at = u32::from(p.transport_offset);
    let rest = Rest {
        at,
        data: end.saturating_sub(at),
        there: end.min(b.have()).saturating_sub(at),
    };
    match reading {
        Reading::Ipfw => ipfw(b, rest, p),
        _ if p.family == 4 && p.proto == proto::AH => ipf_behind_ah(b, rest),
        _ => ipf(b, rest, p.family, p.proto),
    }
}

fn whole(rest: Rest, needs: u32) -> Option<u32> {
    (rest.there >= needs).then_some(needs)
}

/// Must be there, and is not looked at.
fn unread(rest: Rest, needs: u32) -> Option<u32> {
    whole(rest, needs).map(|_| 0)
}

fn ipfw(b: &Bytes, rest: Rest, p: &Key) -> Option<u32> {
    match p.proto {
        proto::TCP => return whole(rest, 20),
        proto::UDP | proto::UDPLITE => return whole(rest, 8),
        proto::SCTP => return whole(rest, 12),
        proto::ICMP if p.family == 4 => return whole(rest, 4),
        proto::ICMPV6 if p.family == 6 => return whole(rest, 8),
        _ if p.family == 4 => return Some(0),
        _ => {}
    }
    match p.proto {
        proto::NONE => Some(0),
        other::PIM | other::GRE | proto::ESP => unread(rest, 4),
        other::CARP => {
            unread(rest, 36)?;
            (b.u8(rest.at) == CARP_ADVERTISEMENT).then_some(0)
        }
        other::IPV6 => unread(rest, 40),
        other::IPV4 => unread(rest, 20),
        // OSPF, and headers that it doesn't know but may be told to let pass.
        _ => unread(rest, 2),
    }
}

fn ipf(b: &Bytes, rest: Rest, family: u8, number: u8) -> Option<u32> {
    match number {
        // Fewer bytes than ports are no reason to drop it: it has none.
        proto::UDP if rest.data < 4 => Some(0),
        proto::UDP => whole(rest, 8),
        proto::TCP => {
            whole(rest, 20)?;
            let header = u32::from(b.u8(rest.at + 12) >> 4) * 4;
            let cut = header > rest.there;
            // Of flags that can't be, it is told that they are `bad`, and the rules are read.
            match cut && !bad_flags(b.u8(rest.at + 13), b.u16(rest.at + 18)) {
                true => None,
                false => Some(20),
            }
        }
        proto::ICMP if family == 4 => whole(rest, 8),
        proto::ICMPV6 if family == 6 => whole(rest, 8),
        other::GRE | proto::ESP => unread(rest, 8),
        _ => Some(0),
    }
}

/// An IPv4 authentication header is stepped over; rules see its own protocol, and nothing of what
/// is behind it, but that must be whole.
fn ipf_behind_ah(b: &Bytes, rest: Rest) -> Option<u32> {
    if rest.data < AH_MIN {
        return Some(0);
    }
    whole(rest, AH_MIN)?;
    let size = (u32::from(b.u8(rest.at + 1)) + 2) * 4;
    whole(rest, size)?;
    let behind = Rest {
        at: rest.at + size,
        data: rest.data - size,
        there: rest.there - size,
    };
    ipf(b, behind, 4, b.u8(rest.at)).map(|_| 0)
}
