//! The fixed-size form of a packet that lookups work on: mirror of `struct weir_packet`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `enum weir_transport`.
pub mod transport {
    /// Later fragment, or no fields to read.
    pub const NONE: u8 = 1;
    /// Cut short, or a TCP fragment at offset 1.
    pub const SHORT: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 3;
    /// UDP, UDP-Lite, DCCP.
    pub const UDP: u8 = 4;
    /// SCTP.
    pub const SCTP: u8 = 5;
    /// ICMP, ICMPv6.
    pub const ICMP: u8 = 6;
    /// AH, ESP.
    pub const SPI: u8 = 7;
}

/// `enum weir_fragment`.
pub mod fragment {
    /// Not a fragment.
    pub const WHOLE: u8 = 1;
    /// First fragment.
    pub const FIRST: u8 = 2;
    /// Second or later.
    pub const LATER: u8 = 3;
}

/// One parsed packet. Host byte order; see `abi.h`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Key {
    /// High and low half; IPv4 in the low 32 bits of the low half.
    pub src: [u64; 2],
    /// As `src`.
    pub dst: [u64; 2],
    /// Layer 3 bytes.
    pub length: u32,
    /// TCP; AH and ESP: the SPI.
    pub sequence: u32,
    /// TCP.
    pub acknowledgement: u32,
    /// Bytes after the TCP header.
    pub payload: u32,
    /// TCP, UDP, SCTP; ICMP: `type << 8 | code`.
    pub src_port: u16,
    /// TCP, UDP, SCTP; ICMP: identifier of a query.
    pub dst_port: u16,
    /// TCP.
    pub window: u16,
    /// From the start of the network header.
    pub transport_offset: u16,
    /// Units of 8 bytes.
    pub fragment_offset: u16,
    /// 4 or 6.
    pub family: u8,
    /// Number of the netfilter hook.
    pub hook: u8,
    /// Protocol.
    pub proto: u8,
    /// [`transport`].
    pub transport: u8,
    /// [`fragment`].
    pub fragment: u8,
    /// TCP.
    pub tcp_flags: u8,
    /// Bytes of options, at `transport_offset + 20`.
    pub tcp_options: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// TOS byte or traffic class.
    pub tos: u8,
    /// 0 host, 1 broadcast, 2 multicast, 3 other host, 4 outgoing.
    pub packet_type: u8,
    /// One bit of `model::CtState`, set by the flow table.
    pub state: u8,
    /// TCP data offset out of bounds.
    pub malformed: u8,
    /// Window scale option (at most 14) plus one; 0 without.
    pub tcp_scale: u8,
    /// Whether there is a SACK-permitted option.
    pub tcp_sack_permitted: u8,
    /// Packet mark.
    pub mark: u32,
    /// Interface class of the image.
    pub in_class: u16,
    /// Interface class of the image.
    pub out_class: u16,
    /// Whether there is an IPv6 routing header.
    pub has_routing: u8,
    /// Its type.
    pub routing_type: u8,
    /// Its segments left.
    pub routing_left: u8,
    /// Unused, zero.
    pub reserved: u8,
    /// TCP: highest of the acknowledgement number and the right edges of SACK blocks.
    pub sack: u32,
}

const _: () = assert!(size_of::<Key>() == 88);
