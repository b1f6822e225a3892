//! One packet as IPFilter sees it: the fields that its rules and its state table ask about.
//!
//! Made from bytes by `weir-engine::packet::ipf`, which follows the original's own checks (what is
//! short, what is bad). It holds more than [`crate::model::Packet`], because this language asks
//! for IP options, checksums and header lengths that no other does.

use crate::dialect::ipf::words::attribute;
use crate::model::Family;

/// TCP as far as the state table looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Window, unscaled.
    pub window: u16,
    /// Bytes of the header, options included.
    pub header: u32,
    /// Window scale, at most 14.
    pub scale: Option<u8>,
    /// SACK permitted.
    pub sack: bool,
}

/// ICMP or ICMPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Identifier, of queries.
    pub id: u16,
    /// An error about another packet.
    pub error: bool,
    /// That packet, as far as it is quoted; `None` when too little of it is.
    pub about: Option<Box<IpfPacket>>,
}

/// One packet on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpfPacket {
    /// Family.
    pub family: Family,
    /// Sent, not received.
    pub out: bool,
    /// The interface.
    pub interface: String,
    /// Source; IPv4 in the low 32 bits.
    pub source: u128,
    /// Destination.
    pub destination: u128,
    /// Protocol; IPv6: after extension headers.
    pub proto: u8,
    /// Type of service; 0 for IPv6, as the original has it.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification of fragments.
    pub id: u32,
    /// Bytes of the whole packet, as its header says.
    pub length: u32,
    /// Bytes behind the IP header (and behind IPv6 extension headers).
    pub data: u32,
    /// Bytes before this fragment.
    pub offset: u32,
    /// More fragments follow.
    pub more: bool,
    /// Bits of [`attribute`].
    pub attributes: u32,
    /// Bits of the IPv4 options that are there.
    pub options: u32,
    /// Those of them that are longer than four bytes: all that the original sees.
    pub long_options: u32,
    /// Bits of security classes.
    pub classes: u8,
    /// Domain of interpretation of a CIPSO option.
    pub doi: Option<u32>,
    /// Bits of the IPv6 headers that are there.
    pub headers: u16,
    /// Ports, where the transport header has them and they are there.
    pub ports: Option<(u16, u16)>,
    /// TCP, where its header is there.
    pub tcp: Option<Tcp>,
    /// ICMP, where type and code are there.
    pub icmp: Option<Icmp>,
    /// Bad for nothing but the checksum of its transport header.
    pub wrong_sum: bool,
    /// A header that must be there is not: no rule ever sees the packet.
    pub unreadable: bool,
}

impl IpfPacket {
    /// A packet with nothing in it.
    #[must_use]
    pub fn empty(family: Family, out: bool, interface: &str) -> Self {
        Self {
            family,
            out,
            interface: interface.to_owned(),
            source: 0,
            destination: 0,
            proto: 0,
            tos: 0,
            ttl: 0,
            id: 0,
            length: 0,
            data: 0,
            offset: 0,
            more: false,
            attributes: 0,
            options: 0,
            long_options: 0,
            classes: 0,
            doi: None,
            headers: 0,
            ports: None,
            tcp: None,
            icmp: None,
            wrong_sum: false,
            unreadable: false,
        }
    }

    /// Whether it has one of these attributes.
    #[must_use]
    pub fn is(&self, bits: u32) -> bool {
        self.attributes & bits != 0
    }

    /// Whether it is TCP or UDP, also where the ports are missing.
    #[must_use]
    pub fn is_tcp_or_udp(&self) -> bool {
        matches!(self.proto, 6 | 17)
    }

    /// Whether the state table may look at it: nothing short, bad or without its header.
    #[must_use]
    pub fn is_trackable(&self) -> bool {
        !self.is(attribute::SHORT | attribute::FRAG_BODY | attribute::BAD)
    }
}
