//! The fields of one packet, as the evaluator, the compiled lookup and `explain` see them.
//!
//! Made from bytes by `weir-engine::packet::parse` (and, in the kernel, by its twin in C), or by
//! hand in tests. Holds no borrowed bytes: what rules can ask about is a field.

use super::{Facts, Family, Hook};

/// Link-layer type of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// To this host.
    Unicast,
    /// Link-layer broadcast.
    Broadcast,
    /// Link-layer multicast.
    Multicast,
    /// To another host (seen in promiscuous mode).
    OtherHost,
    /// Made here.
    Outgoing,
}

/// Connection tracking state of a packet, as iptables means the words. One bit each, so that sets
/// of states are masks ([`super::StateMask`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CtState {
    /// Not part of a known conversation, or malformed.
    Invalid = 1,
    /// Begins a conversation, or belongs to one that has seen packets in one direction only.
    New = 2,
    /// Part of a conversation that has seen packets in both directions.
    Established = 4,
    /// Begins a conversation that belongs to another (an ICMP error).
    Related = 8,
    /// Deliberately not tracked.
    Untracked = 16,
}

/// What the kernel does with a packet beside the filter: bits of [`Packet::handling`].
pub mod handling {
    /// Its connection's source is translated by the kernel's NAT. The bit of the state in
    /// [`crate::model::StateMask`].
    pub const SOURCE_TRANSLATED: u16 = 32;
    /// Its connection's destination is translated.
    pub const DESTINATION_TRANSLATED: u16 = 64;
    /// Either.
    pub const TRANSLATED: u16 = SOURCE_TRANSLATED | DESTINATION_TRANSLATED;
    /// It came through IPsec (RFC 4301).
    pub const IPSEC_IN: u16 = 1;
    /// It is routed to leave through IPsec.
    pub const IPSEC_OUT: u16 = 2;
    /// Its source is routed out of the interface that received it.
    pub const ROUTE_BACK: u16 = 4;
    /// Its source is routed out of some interface.
    pub const ROUTE_BACK_LOOSE: u16 = 8;
    /// [`crate::model::ReversePath::Verified`] holds.
    pub const REVERSE_PATH: u16 = 16;
    /// [`crate::model::ReversePath::NotSpoofed`] holds.
    pub const NOT_SPOOFED: u16 = 128;
    /// [`crate::model::ReversePath::Reached`] holds.
    pub const SOURCE_REACHED: u16 = 256;
}

/// Direction within a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// As the first packet.
    Original,
    /// The other way.
    Reply,
}

/// Place of a packet in a fragmented datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// Not a fragment.
    Whole,
    /// First fragment: has the transport header.
    First,
    /// Second or later, with the offset in units of 8 bytes.
    Later(u16),
}

/// The transport header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// None to read: a later fragment, or a protocol without fields that rules ask about.
    None,
    /// It should be there, but the packet ends first (or is a TCP fragment at offset 1, RFC 3128).
    Short,
    /// TCP (RFC 9293).
    Tcp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
        flags: u8,
        /// Sequence number.
        sequence: u32,
        /// Acknowledgement number.
        acknowledgement: u32,
        /// Window field, unscaled.
        window: u16,
        /// Option bytes as on the wire (at most 40).
        options: Vec<u8>,
        /// Bytes after the TCP header.
        payload: u32,
        /// The data offset is below 5 or beyond the packet, so the segment is malformed.
        malformed: bool,
    },
    /// UDP (RFC 768), UDP-Lite or DCCP: ports only.
    Udp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
    },
    /// SCTP (RFC 9260).
    Sctp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// Chunks, in order.
        chunks: Vec<SctpChunk>,
        /// There is no chunk, or one has no length or begins where less than 4 bytes are left: what
        /// stands there and behind is in no chunk.
        broken: bool,
    },
    /// ICMP (RFC 792) or ICMPv6 (RFC 4443).
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier of a query; 0 otherwise.
        id: u16,
        /// For an error: the packet it speaks of.
        about: Option<Box<Packet>>,
    },
    /// AH or ESP.
    Spi(u32),
}

/// A chunk of SCTP (RFC 9260 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SctpChunk {
    /// Type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
}

/// One packet at one hook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Family.
    pub family: Family,
    /// Where it is judged.
    pub hook: Hook,
    /// Receiving interface; empty when there is none.
    pub in_iface: String,
    /// Sending interface; empty when there is none.
    pub out_iface: String,
    /// Source address; IPv4 in the low 32 bits.
    pub src: u128,
    /// Destination address; IPv4 in the low 32 bits.
    pub dst: u128,
    /// Protocol: IPv4 protocol field, IPv6 upper-layer protocol after extension headers.
    pub proto: u8,
    /// Layer 3 length in bytes (IPv4 total length; IPv6 payload length + 40).
    pub length: u32,
    /// TTL or hop limit.
    pub ttl: u8,
    /// TOS byte or traffic class.
    pub tos: u8,
    /// Fragment.
    pub fragment: Fragment,
    /// Transport header.
    pub transport: Transport,
    /// IPv6 routing header: type and segments left.
    pub routing: Option<(u8, u8)>,
    /// Packet mark on arrival at the hook.
    pub mark: u32,
    /// Source Ethernet address, when it was received on such a link.
    pub mac: Option<[u8; 6]>,
    /// Link-layer type.
    pub packet_type: PacketType,
    /// User and group of the sending socket, when it is known (OUTPUT, POSTROUTING).
    pub owner: Option<(u32, u32)>,
    /// What else the kernel does with it, bits of [`handling`]; 0 when nothing is known.
    pub handling: u16,
    /// What few rules ask.
    pub aside: Facts,
}

impl Packet {
    /// Source and destination port, when the transport header has them and was readable.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self.transport {
            Transport::Tcp {
                src_port, dst_port, ..
            }
            | Transport::Udp { src_port, dst_port }
            | Transport::Sctp {
                src_port, dst_port, ..
            } => Some((src_port, dst_port)),
            _ => None,
        }
    }
}
