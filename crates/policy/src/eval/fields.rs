//! Does a packet satisfy a condition? The pure conditions: nothing here remembers anything.
//!
//! Source of the rules: iptables-extensions(8) and the behaviour of ip_tables. A condition on a
//! field that the packet does not have is [`Truth::Absent`], and then the test fails whether it is
//! negated or not. A transport condition on a header that is cut short drops the packet on the
//! spot ([`Truth::HotDrop`]).

use super::aside::aside_condition;
use super::{Locals, Passage};
use crate::model::{
    AddrMatch, AddrType, ChunkFlags, Cmp, Cond, CtState, Family, Fragment, Owner, Packet, RangeSet,
    SctpChunk, StateMask, Transport, handling,
};

/// What a condition says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// The value is in the set.
    Yes,
    /// The value is not in the set.
    No,
    /// The packet has no such field.
    Absent,
    /// The packet must be dropped for having been cut short.
    HotDrop,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Truth::Yes } else { Truth::No }
    }
}

/// Whether an address is among `values`.
pub fn address_in(values: &AddrMatch, address: u128) -> bool {
    match values {
        AddrMatch::Ranges(set) => set.contains(address),
        AddrMatch::Masked { value, mask } => address & mask == *value,
    }
}

/// Evaluates a pure condition. Conditions that need more than the packet, the passage and the
/// host's addresses (flow fields, sets, histories) are the caller's and answer `None` here.
pub fn pure_condition(
    cond: &Cond,
    packet: &Packet,
    passage: &Passage,
    locals: &Locals,
) -> Option<Truth> {
    if cond.needs_transport() && packet.transport == Transport::Short {
        return Some(Truth::HotDrop);
    }
    Some(match cond {
        Cond::Never => Truth::Absent,
        Cond::Src(values) => address_in(values, packet.src).into(),
        Cond::Dst(values) => address_in(values, packet.dst).into(),
        Cond::InIface(pattern) => pattern.matches(&packet.in_iface).into(),
        Cond::OutIface(pattern) => pattern.matches(&packet.out_iface).into(),
        Cond::Proto(values) => values.contains(packet.proto).into(),
        Cond::LaterFragment => matches!(packet.fragment, Fragment::Later(_)).into(),
        Cond::CutShort => (packet.transport == Transport::Short).into(),
        Cond::Fragments(bits) => {
            let bit = match packet.fragment {
                Fragment::Whole => 1,
                Fragment::First => 2,
                Fragment::Later(_) => 4,
            };
            (bits & bit != 0).into()
        }
        Cond::State(StateMask(mask)) => {
            let state = passage.state.unwrap_or(CtState::Invalid);
            let bits = state as u8 | (packet.handling & handling::TRANSLATED) as u8;
            (bits & mask != 0).into()
        }
        Cond::Ipsec { out } => {
            let bit = if *out {
                handling::IPSEC_OUT
            } else {
                handling::IPSEC_IN
            };
            (packet.handling & bit != 0).into()
        }
        Cond::RouteBack { loose, marked } => {
            let bit = match loose {
                true => handling::ROUTE_BACK_LOOSE,
                false => handling::ROUTE_BACK,
            };
            let changed = *marked && passage.mark != packet.mark;
            (packet.handling & bit != 0 && !changed).into()
        }
        Cond::ReversePath(asked) => (packet.handling & asked.bit() != 0).into(),
        Cond::Mark { value, mask } => (passage.mark & mask == *value).into(),
        Cond::Mac(address) => match packet.mac {
            Some(mac) => (mac == *address).into(),
            None => Truth::Absent,
        },
        Cond::PacketType(kind) => (packet.packet_type == *kind).into(),
        Cond::SrcType(kinds) => kinds
            .contains(&locals.kind(packet.family, packet.src))
            .into(),
        Cond::DstType(kinds) => kinds
            .contains(&locals.kind(packet.family, packet.dst))
            .into(),
        Cond::Owner(owner) => owner_holds(*owner, packet.owner).into(),
        Cond::Aside(aside) => aside_condition(aside, packet),
        Cond::Length(values) => u16::try_from(packet.length)
            .is_ok_and(|length| values.contains(length))
            .into(),
        Cond::Ttl(compare) => compare.holds(packet.ttl).into(),
        Cond::Dscp(value) => (passage.tos >> 2 == *value).into(),
        Cond::Tos { value, mask } => (passage.tos & mask == *value).into(),
        Cond::EcnIp(value) => (passage.tos & 3 == *value).into(),
        Cond::RoutingHeader { kind, segments } => match packet.routing {
            None => Truth::Absent,
            Some((routing, left)) => (kind.is_none_or(|k| k == routing)
                && (segments.0..=segments.1).contains(&u32::from(left)))
            .into(),
        },
        Cond::Ct(_)
        | Cond::Connmark { .. }
        | Cond::Set { .. }
        | Cond::History(_)
        | Cond::ProposedBy(_)
        | Cond::Learned
        | Cond::Learn(_)
        | Cond::OutOfWindow
        | Cond::IcmpHead(_)
        | Cond::IpfWith(_)
        | Cond::Dynamic(_)
        | Cond::Any(_) => return None,
        _ => transport_condition(cond, packet),
    })
}

/// The conditions on the transport header.
fn transport_condition(cond: &Cond, packet: &Packet) -> Truth {
    let port = |values: &RangeSet<u16>, pick: fn((u16, u16)) -> u16| match packet.ports() {
        Some(ports) => values.contains(pick(ports)).into(),
        None => Truth::Absent,
    };
    match (cond, &packet.transport) {
        (Cond::SrcPort(values), _) => port(values, |ports| ports.0),
        (Cond::DstPort(values), _) => port(values, |ports| ports.1),
        (Cond::AnyPort(values), _) => match packet.ports() {
            Some((src, dst)) => (values.contains(src) || values.contains(dst)).into(),
            None => Truth::Absent,
        },
        (Cond::TcpFlags { mask, value }, Transport::Tcp { flags, .. }) => {
            (flags & mask == *value).into()
        }
        (Cond::EcnTcp(bits), Transport::Tcp { flags, .. }) => (flags & bits == *bits).into(),
        (
            Cond::TcpOption(_) | Cond::TcpMss(_),
            Transport::Tcp {
                malformed: true, ..
            },
        ) => Truth::HotDrop,
        (Cond::TcpOption(kind), Transport::Tcp { options, .. }) => {
            tcp_option(options, *kind).is_some().into()
        }
        (Cond::TcpMss(values), Transport::Tcp { options, .. }) => match tcp_option(options, 2) {
            Some(&[high, low]) => values.contains(u16::from_be_bytes([high, low])).into(),
            // As in xt_tcpmss: without the option it is in no range, so "not" holds.
            _ => Truth::No,
        },
        (Cond::Icmp { kind, codes }, Transport::Icmp { kind: is, code, .. }) => kind
            .is_none_or(|k| k == *is && (codes.0..=codes.1).contains(code))
            .into(),
        (Cond::AhSpi(values) | Cond::EspSpi(values), Transport::Spi(spi)) => {
            values.contains(*spi).into()
        }
        (
            Cond::SctpChunks { kind, types, flags },
            Transport::Sctp {
                chunks: present,
                broken,
                ..
            },
        ) => chunks(*kind, types, flags, present, *broken),
        _ => Truth::Absent,
    }
}

/// Whether chunks are all, any or only those of a condition, looked at in order as xt_sctp does: it
/// drops a packet in which it comes to the end of the chunks before that of the packet.
fn chunks(
    how: u8,
    types: &[u64; 4],
    flags: &[ChunkFlags],
    chunks: &[SctpChunk],
    broken: bool,
) -> Truth {
    let is_named = |kind: u8| types[usize::from(kind >> 6)] >> (kind & 63) & 1 == 1;
    let is_wanted = |chunk: &SctpChunk| {
        let row = flags.iter().find(|row| row.kind == chunk.kind);
        is_named(chunk.kind) && row.is_none_or(|row| chunk.flags & row.mask == row.value)
    };
    match how {
        1 if chunks.iter().any(is_wanted) => Truth::Yes,
        2 if !chunks.iter().all(is_wanted) => Truth::No,
        _ if broken => Truth::HotDrop,
        0 => {
            let is_there = |kind| {
                let mut of_type = chunks.iter().filter(|chunk| chunk.kind == kind);
                of_type.any(is_wanted)
            };
            (0..=255)
                .all(|kind| !is_named(kind) || is_there(kind))
                .into()
        }
        how => (how == 2).into(),
    }
}

/// The bytes of a TCP option (RFC 9293 section 3.2), without kind and length.
pub fn tcp_option(options: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut at = 0;
    while at < options.len() {
        let kind = options[at];
        if kind < 2 {
            if kind == wanted {
                return Some(&[]);
            }
            at += 1;
            continue;
        }
        let length = usize::from(*options.get(at + 1).unwrap_or(&0)).max(1);
        if kind == wanted {
            return options
                .get((at + 2).min(options.len())..(at + length).min(options.len()))
                .or(Some(&[]));
        }
        at += length;
    }
    None
}

/// Without a socket every positive owner test fails and every negated one holds, as in xt_owner.
fn owner_holds(owner: Owner, packet: Option<(u32, u32)>) -> bool {
    match (owner, packet) {
        (_, None) => false,
        (Owner::Uid(range), Some((uid, _))) => (range.first..=range.last).contains(&uid),
        (Owner::Gid(range), Some((_, gid))) => (range.first..=range.last).contains(&gid),
    }
}

impl Cmp {
    /// Compares a value with the bound.
    pub fn holds(self, value: u8) -> bool {
        match self {
            Cmp::Eq(bound) => value == bound,
            Cmp::Lt(bound) => value < bound,
            Cmp::Gt(bound) => value > bound,
        }
    }
}

impl crate::model::IfPattern {
    /// Whether an interface name is meant.
    pub fn matches(&self, name: &str) -> bool {
        if self.prefix {
            name.starts_with(&self.name)
        } else {
            name == self.name
        }
    }
}

impl Locals {
    /// The routing type of an address, as the local routing table has it.
    pub fn kind(&self, family: Family, address: u128) -> AddrType {
        match family {
            Family::V4 => {
                if self.local.contains(address) || address >> 24 == 127 {
                    AddrType::Local
                } else if self.broadcast.contains(address)
                    || address >> 24 == 0
                    || address == 0xffff_ffff
                {
                    AddrType::Broadcast
                } else if address >> 28 == 0xe {
                    AddrType::Multicast
                } else if self.anycast.contains(address) {
                    AddrType::Anycast
                } else {
                    AddrType::Unicast
                }
            }
            Family::V6 => {
                if address >> 120 == 0xff {
                    AddrType::Multicast
                } else if self.local6.contains(address) || address == 1 {
                    AddrType::Local
                } else if address == 0 || address >> 32 == 0xffff {
                    AddrType::Unspecified
                } else {
                    AddrType::Unicast
                }
            }
        }
    }
}
