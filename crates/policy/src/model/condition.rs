//! Conditions on a packet. Each is a set of values of one field; a [`Test`] may negate it.
//!
//! A condition on a field that the packet does not have (ports of a later fragment, the MAC address
//! of a packet made here) does not hold, negated or not.

use super::{
    Aside, DynamicTest, HistoryId, IcmpHeadTest, IpfWith, LearnerId, RangeSet, SetField, SetId,
    handling,
};

/// A condition, possibly negated.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Whether the values outside the set are meant.
    pub negate: bool,
    /// The condition.
    pub cond: Cond,
}

/// The values of an address field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddrMatch {
    /// Ranges; IPv4 addresses are the low 32 bits.
    Ranges(RangeSet<u128>),
    /// `address & mask == value`, for masks that are not prefixes.
    Masked {
        /// Value, already masked.
        value: u128,
        /// Mask.
        mask: u128,
    },
}

/// An interface name, or all names with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IfPattern {
    /// Name or prefix, at most 15 bytes. Absent interfaces have the empty name.
    pub name: String,
    /// Whether any suffix matches.
    pub prefix: bool,
}

impl IfPattern {
    /// Of packets that have no such interface.
    #[must_use]
    pub fn none() -> Self {
        IfPattern {
            name: String::new(),
            prefix: false,
        }
    }
}

/// A set of connection tracking states, bits of [`super::CtState`], and of the kernel's address
/// translation, bits of [`super::handling::TRANSLATED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateMask(pub u8);

/// `flags & mask == value`, of chunks of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFlags {
    /// The type.
    pub kind: u8,
    /// Bits looked at.
    pub mask: u8,
    /// Bits that must be set.
    pub value: u8,
}

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cmp {
    /// Equal.
    Eq(u8),
    /// Less than.
    Lt(u8),
    /// Greater than.
    Gt(u8),
}

/// Routing type of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddrType {
    /// An address of this host.
    Local,
    /// Broadcast.
    Broadcast,
    /// Multicast.
    Multicast,
    /// An address that several hosts have (IPv4 routes of that type).
    Anycast,
    /// Anything else that is routable.
    Unicast,
    /// IPv6 only: `::` or an IPv4-mapped address, which are none of these (RFC 4291 section 2.5).
    Unspecified,
}

/// Who owns the sending socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// User id in this range.
    Uid(OwnerRange),
    /// Group id in this range.
    Gid(OwnerRange),
}

/// Inclusive range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerRange {
    /// First id.
    pub first: u32,
    /// Last id.
    pub last: u32,
}

/// A field of the packet's flow. Does not hold when the packet has no flow.
#[derive(Clone, Debug, PartialEq)]
pub enum CtField {
    /// Protocol of the flow.
    Proto(u8),
    /// Source of the original direction.
    OrigSrc(AddrMatch),
    /// Destination of the original direction.
    OrigDst(AddrMatch),
    /// Source of the reply direction.
    ReplSrc(AddrMatch),
    /// Destination of the reply direction.
    ReplDst(AddrMatch),
    /// Source port of the original direction.
    OrigSrcPort(RangeSet<u16>),
    /// Destination port of the original direction.
    OrigDstPort(RangeSet<u16>),
    /// Source port of the reply direction.
    ReplSrcPort(RangeSet<u16>),
    /// Destination port of the reply direction.
    ReplDstPort(RangeSet<u16>),
    /// Any of these status bits: 1 EXPECTED, 2 SEEN_REPLY, 4 ASSURED, 8 CONFIRMED; 0 = NONE.
    Status(u8),
    /// Seconds until the flow expires.
    Expire(u32, u32),
    /// Whether the packet goes in the original direction.
    Original(bool),
}

/// A question about the way back to a packet's source, asked of every source: ipfw's `verrevpath`,
/// `antispoof` and `versrcreach`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReversePath {
    /// The best route to it leaves by the interface that received it.
    Verified,
    /// So it is, or the source is on no directly connected network.
    NotSpoofed,
    /// There is a route to it that is neither a default route nor one that refuses.
    Reached,
}

impl ReversePath {
    /// Its bit in [`super::Packet::handling`].
    #[must_use]
    pub fn bit(self) -> u16 {
        match self {
            ReversePath::Verified => handling::REVERSE_PATH,
            ReversePath::NotSpoofed => handling::NOT_SPOOFED,
            ReversePath::Reached => handling::SOURCE_REACHED,
        }
    }
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub enum Cond {
    /// Never holds (for example an address of the other family).
    Never,
    /// Source address.
    Src(AddrMatch),
    /// Destination address.
    Dst(AddrMatch),
    /// Receiving interface. Always present; empty name for packets made here.
    InIface(IfPattern),
    /// Sending interface. Always present; empty name before routing and for received packets.
    OutIface(IfPattern),
    /// Protocol: IPv4 protocol field, IPv6 upper-layer protocol after extension headers.
    Proto(RangeSet<u8>),
    /// Second or later fragment (IPv4 `-f`).
    LaterFragment,
    /// Its place in a fragmented datagram is one of these: bits 1 whole, 2 first, 4 later.
    Fragments(u8),
    /// The transport header is cut short.
    CutShort,
    /// The verdict that stands was proposed by this rule.
    ProposedBy(super::RuleId),
    /// Source port of TCP, UDP, UDP-Lite, SCTP or DCCP.
    SrcPort(RangeSet<u16>),
    /// Destination port.
    DstPort(RangeSet<u16>),
    /// Source or destination port.
    AnyPort(RangeSet<u16>),
    /// `flags & mask == value`; bits as in the TCP header (FIN 1 ... URG 32, ECE 64, CWR 128).
    TcpFlags {
        /// Bits looked at.
        mask: u8,
        /// Bits that must be set.
        value: u8,
    },
    /// A TCP option of this kind is present.
    TcpOption(u8),
    /// Value of the MSS option; without the option it is in no range (so a negated test holds).
    TcpMss(RangeSet<u16>),
    /// ICMP or ICMPv6 type and codes.
    Icmp {
        /// Type; `None` for any ICMP.
        kind: Option<u8>,
        /// First and last code.
        codes: (u8, u8),
    },
    /// Connection tracking state.
    State(StateMask),
    /// The packet came (or is routed to leave) through IPsec.
    Ipsec {
        /// Leaving instead of coming.
        out: bool,
    },
    /// Routing has a way back to the packet's source, out of the interface that received it.
    RouteBack {
        /// Out of whatever interface.
        loose: bool,
        /// As packets with this packet's mark are routed, which no rule may have changed so far
        /// (else there is no way back); without, as packets with no mark.
        marked: bool,
    },
    /// The way back, without the exceptions of [`Cond::RouteBack`].
    ReversePath(ReversePath),
    /// Fields of the flow entry.
    Ct(CtField),
    /// `mark & mask == value`, on the packet.
    Mark {
        /// Value.
        value: u32,
        /// Mask.
        mask: u32,
    },
    /// `mark & mask == value`, on the flow; does not hold without a flow.
    Connmark {
        /// Value.
        value: u32,
        /// Mask.
        mask: u32,
    },
    /// Source Ethernet address.
    Mac([u8; 6]),
    /// Link-layer packet type.
    PacketType(super::PacketType),
    /// Type of the source address.
    SrcType(Vec<AddrType>),
    /// Type of the destination address.
    DstType(Vec<AddrType>),
    /// Owner of the sending socket.
    Owner(Owner),
    /// What the kernel knows of the packet beside its headers, or bytes anywhere in it.
    Aside(Aside),
    /// Membership in a named set.
    Set {
        /// The set.
        set: SetId,
        /// Which packet fields, in the set's order of dimensions.
        fields: Vec<SetField>,
    },
    /// Layer 3 length in bytes.
    Length(RangeSet<u16>),
    /// TTL or hop limit.
    Ttl(Cmp),
    /// DSCP, 6 bits.
    Dscp(u8),
    /// `tos & mask == value`.
    Tos {
        /// Value.
        value: u8,
        /// Mask.
        mask: u8,
    },
    /// ECN bits of the IP header (0 to 3).
    EcnIp(u8),
    /// TCP ECE and CWR bits: which bits (64, 128) must be set.
    EcnTcp(u8),
    /// SPI of AH.
    AhSpi(RangeSet<u32>),
    /// SPI of ESP.
    EspSpi(RangeSet<u32>),
    /// SCTP chunks.
    SctpChunks {
        /// 0 all of these types present, 1 any of them, 2 only them. A packet whose chunks can't be
        /// followed to its end is dropped, unless those before say that 1 holds or 2 doesn't.
        kind: u8,
        /// One bit a chunk type.
        types: [u64; 4],
        /// Flags that a chunk must have to be one of its type, a row a type at most.
        flags: Vec<ChunkFlags>,
    },
    /// IPv6 routing header: type range, segments-left range; absent means any.
    RoutingHeader {
        /// Routing type.
        kind: Option<u8>,
        /// Segments left.
        segments: (u32, u32),
    },
    /// Something that remembers; see [`super::HistoryObject`].
    History(HistoryId),
    /// The packet belongs to a state that a rule made; see [`super::Learner`]. Asking is noted by
    /// that state: its window and its lifetime go on.
    Learned,
    /// Makes a state for the packet; holds when one was made.
    Learn(LearnerId),
    /// [`Cond::Learned`] found a state that the packet is of, but for its place in the window.
    OutOfWindow,
    /// A question about an ICMP error whose states ask a group.
    IcmpHead(IcmpHeadTest),
    /// What IPFilter sees of headers.
    IpfWith(IpfWith),
    /// A question about ipfw's states.
    Dynamic(DynamicTest),
    /// One of these holds, tried in order. Unlike other conditions it doesn't hold where the packet
    /// has none of the fields, so that its negation does: negated over one test it is the strict
    /// opposite of that test.
    Any(Vec<Test>),
}

impl Cond {
    /// Whether the test can drop packets whose header contradicts itself.
    #[must_use]
    pub fn may_drop(&self) -> bool {
        matches!(
            self,
            Cond::SctpChunks { .. } | Cond::TcpOption(_) | Cond::TcpMss(_)
        )
    }

    /// Whether the condition needs memory beyond the packet and its flow, so that merely testing
    /// it changes something.
    pub fn remembers(&self) -> bool {
        match self {
            Cond::History(_)
            | Cond::Learned
            | Cond::Learn(_)
            | Cond::OutOfWindow
            | Cond::IcmpHead(_)
            | Cond::Dynamic(_) => true,
            Cond::Any(tests) => tests.iter().any(|test| test.cond.remembers()),
            _ => false,
        }
    }

    /// Whether the condition reads the transport header, so that a packet whose transport header
    /// is cut short is dropped on reaching it (ip_tables' "hot drop").
    pub fn needs_transport(&self) -> bool {
        if let Cond::Any(tests) = self {
            return tests.iter().any(|test| test.cond.needs_transport());
        }
        matches!(
            self,
            Cond::SrcPort(_)
                | Cond::DstPort(_)
                | Cond::AnyPort(_)
                | Cond::TcpFlags { .. }
                | Cond::TcpOption(_)
                | Cond::TcpMss(_)
                | Cond::Icmp { .. }
                | Cond::AhSpi(_)
                | Cond::EspSpi(_)
                | Cond::SctpChunks { .. }
        )
    }
}
