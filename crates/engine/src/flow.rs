//! The flow table: conversations in flat memory of fixed size. Twin of `plane/bpf/flow.h`.
//!
//! In: parsed packets ([`Key`]) and the clock. Out: the connection state that rules ask about, and
//! flows. What a flow is and does is defined by weir-policy's `eval::track`; a test holds the two
//! together. [`table`] has the layout and what happens when it is full.

pub mod entry;
pub mod hash;
pub mod list;
pub mod table;
pub mod tcp;

pub use entry::{Cold, Entry, Side};
pub use hash::Seed;
pub use list::{Flow, flows};
pub use table::{FlowRef, FlowTable, Found, Layout};

use crate::packet::Key;
use entry::meta;

/// Protocol numbers.
pub mod proto {
    #![allow(missing_docs, reason = "named after the protocols")]
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMP6: u8 = 58;
    pub const UDP_LITE: u8 = 136;
}

/// Whether an ICMP type reports about another packet.
pub fn icmp_is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        proto::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => kind < 128,
    }
}

/// The request type of an ICMP query and whether `kind` is the request; `None` for other types.
fn icmp_query(protocol: u8, kind: u8) -> Option<(u8, bool)> {
    match (protocol, kind) {
        (proto::ICMP, 8) => Some((8, true)),
        (proto::ICMP, 0) => Some((8, false)),
        (proto::ICMP, 13 | 15 | 17) => Some((kind, true)),
        (proto::ICMP, 14 | 16 | 18) => Some((kind - 1, false)),
        (proto::ICMP6, 128 | 139) => Some((kind, true)),
        (proto::ICMP6, 129 | 140) => Some((kind - 1, false)),
        _ => None,
    }
}

/// What finds the flow of a packet, the same for both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// See [`Entry::pair`].
    pub pair: u64,
    /// See [`Entry::ports`].
    pub ports: u32,
    /// See [`Entry::meta`].
    pub meta: u16,
    /// The packet comes from the higher end.
    pub from_high: bool,
    /// ICMP query: 1 request, 2 answer; 0 otherwise.
    pub query: u8,
    /// IPv6 address of the lower end.
    pub low: [u64; 2],
    /// IPv6 address of the higher end.
    pub high: [u64; 2],
}

impl Name {
    /// The name of a packet's flow, or `None` when it can't be told.
    pub fn of(p: &Key, seed: &Seed) -> Option<Name> {
        use crate::packet::key::{fragment, transport};
        if p.fragment == fragment::LATER || p.transport == transport::SHORT {
            return None;
        }
        let mut name = Name {
            meta: u16::from(p.proto),
            ..Name::default()
        };
        let (mut src_port, mut dst_port) = (0, 0);
        if p.transport == transport::ICMP {
            let (request, asks) = icmp_query(p.proto, (p.src_port >> 8) as u8)?;
            let marker = u16::from(request) << 8 | p.src_port & 0xff;
            (src_port, dst_port) = if asks {
                (p.dst_port, marker)
            } else {
                (marker, p.dst_port)
            };
            name.query = if asks { 1 } else { 2 };
        } else if (transport::TCP..=transport::SCTP).contains(&p.transport) {
            (src_port, dst_port) = (p.src_port, p.dst_port);
        }
        name.from_high = (p.src, src_port) > (p.dst, dst_port);
        let (low_port, high_port) = if name.from_high {
            (dst_port, src_port)
        } else {
            (src_port, dst_port)
        };
        (name.low, name.high) = if name.from_high {
            (p.dst, p.src)
        } else {
            (p.src, p.dst)
        };
        name.ports = u32::from(low_port) | u32::from(high_port) << 16;
        let to_itself = (p.src, src_port) == (p.dst, dst_port);
        if name.query != 0 && !to_itself && name.from_high == (name.query == 1) {
            name.meta |= meta::REQUESTER_HIGH;
        }
        if p.family == 6 {
            name.meta |= meta::V6;
            name.pair = seed.fold_addresses(name.low, name.high);
        } else {
            name.pair = name.low[1] & 0xffff_ffff | name.high[1] << 32;
        }
        Some(name)
    }

    /// Its hash.
    pub fn hash(&self, seed: &Seed) -> u64 {
        hash_of(seed, self.pair, self.ports, self.meta)
    }
}

/// The hash of a flow's name.
pub fn hash_of(seed: &Seed, pair: u64, ports: u32, meta: u16) -> u64 {
    seed.hash(pair, u64::from(ports) | u64::from(meta) << 32)
}
