//! What few rules ask: what the kernel knows of a packet beside its headers, bytes anywhere in it,
//! and fields of headers that only ipfw asks for. Conditions ([`Aside`]), and what they are asked
//! of ([`Facts`]).
//!
//! Source: iptables-extensions(8) on owner, cgroup, cpu, devgroup, realm, physdev, u32 and string;
//! ipfw(8) on tcpseq, tcpack, tcpwin, tcpdatalen, ipoptions and ext6hdr.

use super::{IfPattern, OwnerRange, Packet, RangeSet, Transport};

/// A condition on [`Facts`].
#[derive(Clone, Debug, PartialEq)]
pub enum Aside {
    /// A socket sends the packet, whether it has an owner or is the kernel's own.
    Socket,
    /// The owner's group, or one of its supplementary groups, is in this range.
    Groups(OwnerRange),
    /// The socket's class of the `net_cls` cgroup; does not hold without a socket.
    Class(u32),
    /// The socket belongs to this control group or to one below it; does not hold without a
    /// socket.
    Group {
        /// The group's number (of its directory).
        id: u64,
        /// How far below the root it is.
        level: u32,
    },
    /// The CPU that judges the packet.
    Cpu(u32),
    /// `group & mask == value` of the receiving or sending interface's group.
    DeviceGroup {
        /// The sending interface's.
        out: bool,
        /// Value.
        value: u32,
        /// Mask.
        mask: u32,
    },
    /// `realm & mask == value` of the route.
    Realm {
        /// Value.
        value: u32,
        /// Mask.
        mask: u32,
    },
    /// The bridge port by which the packet came (or leaves); any port without a pattern.
    Port {
        /// By which it leaves.
        out: bool,
        /// Its name.
        name: Option<IfPattern>,
    },
    /// Words of the packet, all of which must be in their ranges.
    Words(Vec<WordTest>),
    /// Bytes that stand somewhere in the packet.
    Text(TextSearch),
    /// A number of the TCP header is in one of these ranges; does not hold without a TCP header.
    Tcp(TcpNumber, RangeSet<u32>),
    /// `bits & mask == value` of the options of the IPv4 header, [`Facts::ip_options`]; never holds
    /// where they can't be told apart.
    IpOptions {
        /// Options that are there.
        value: u8,
        /// Options that are looked at.
        mask: u8,
    },
    /// One of these IPv6 extension headers is there, bits of [`Facts::extensions`].
    Extensions(u8),
    /// `headers & mask == value` of [`Facts::headers`]; never holds where they can't be followed.
    Headers {
        /// Headers that are there.
        value: u8,
        /// Headers that are looked at.
        mask: u8,
    },
    /// The name of the receiving or sending interface matches a shell pattern (fnmatch); never
    /// holds where there is no such interface.
    Name {
        /// The sending interface's.
        out: bool,
        /// The pattern.
        pattern: String,
    },
    /// A question about the Ethernet frame, [`Facts::frame`]; does not hold without one.
    Ethernet(Ethernet),
}

/// A question about an Ethernet frame. Addresses are numbers of 48 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ethernet {
    /// It holds no IP packet.
    Bare,
    /// Its type, behind VLAN tags, is in one of these ranges.
    Type(RangeSet<u16>),
    /// `address & mask == value`.
    Masked {
        /// The source's, not the destination's.
        source: bool,
        /// Value.
        value: u64,
        /// Mask.
        mask: u64,
    },
    /// The address is in one of these ranges.
    Among {
        /// The source's, not the destination's.
        source: bool,
        /// The addresses.
        addresses: RangeSet<u128>,
    },
}

/// What rules ask of an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Destination.
    pub destination: u64,
    /// Source.
    pub source: u64,
    /// EtherType, behind VLAN tags.
    pub kind: u16,
    /// Whether it holds no IP packet.
    pub bare: bool,
}

impl Frame {
    /// The destination's or the source's address.
    #[must_use]
    pub fn address(&self, source: bool) -> u64 {
        if source {
            self.source
        } else {
            self.destination
        }
    }
}

/// A number of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpNumber {
    /// Sequence number.
    Sequence,
    /// Acknowledgement number.
    Acknowledgement,
    /// Window, as it stands in the header.
    Window,
    /// Bytes behind the header, [`Facts::tcp_data`].
    Data,
}

/// The bit of [`Facts::ip_options`] for options that can't be told apart.
pub const BROKEN_OPTIONS: u8 = 0x80;

/// Bytes of a packet that are readable wherever its headers are: an IPv4 header without options.
const HEADER: u32 = 20;

impl Aside {
    /// Whether it looks into the packet's payload, or may: words of the network header alone don't.
    pub fn reads_payload(&self) -> bool {
        match self {
            Aside::Words(tests) => !tests.iter().all(WordTest::is_of_header),
            Aside::Text(_) => true,
            _ => false,
        }
    }
}

impl WordTest {
    /// Whether it reads no byte behind the shortest network header.
    pub fn is_of_header(&self) -> bool {
        let leads = |step: &WordStep| matches!(step, WordStep::At(_));
        self.start <= HEADER - 4 && !self.steps.iter().any(leads)
    }
}

impl Packet {
    /// A number of its TCP header, when it has one.
    pub fn tcp_number(&self, number: TcpNumber) -> Option<u32> {
        let Transport::Tcp {
            sequence,
            acknowledgement,
            window,
            ..
        } = &self.transport
        else {
            return None;
        };
        Some(match number {
            TcpNumber::Sequence => *sequence,
            TcpNumber::Acknowledgement => *acknowledgement,
            TcpNumber::Window => u32::from(*window),
            TcpNumber::Data => u32::from(self.aside.tcp_data),
        })
    }
}

/// One step to where a word is, or what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordStep {
    /// Only these bits.
    And(u32),
    /// Shifted to the left by the lowest five bits of this.
    Left(u32),
    /// Shifted to the right.
    Right(u32),
    /// The word this far behind the place that the value so far says; such places add up.
    At(u32),
}

/// A 32-bit word of the packet, most significant byte first. Where the packet ends before it, the
/// test fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTest {
    /// Offset of the first word from the network header.
    pub start: u32,
    /// What is done with it.
    pub steps: Vec<WordStep>,
    /// First and last of each range; one must hold the value.
    pub ranges: Vec<(u32, u32)>,
}

/// Bytes looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSearch {
    /// The bytes, 1 to 128.
    pub pattern: Vec<u8>,
    /// Whether letters of ASCII match in either case.
    pub ignore_case: bool,
    /// They stand at or behind this offset from the network header,
    pub from: u32,
    /// and end before this one, as Linux has meant `--to` since 6.6.
    pub to: u32,
}

/// What [`Aside`] is asked of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Whether a socket sends the packet. One with an owner does where [`super::Packet::owner`]
    /// names it, whatever this says.
    pub socket: bool,
    /// Supplementary groups of the socket's owner.
    pub groups: Vec<u32>,
    /// The socket's class.
    pub class: Option<u32>,
    /// The socket's control group, behind all above it; empty without a socket.
    pub control_groups: Vec<u64>,
    /// The CPU.
    pub cpu: u32,
    /// Groups of the receiving and the sending interface.
    pub device_groups: [u32; 2],
    /// The route's realm.
    pub realm: u32,
    /// The bridge ports by which it came and leaves, where a bridge hands it over; empty for none.
    pub ports: Option<[String; 2]>,
    /// The packet from its network header on, as far as it is known.
    pub bytes: Vec<u8>,
    /// TCP: what the network header's length leaves behind both headers, modulo 65,536; so also for
    /// a header whose own length is none.
    pub tcp_data: u16,
    /// Options of the IPv4 header: strict route 1, loose route 2, record route 4, timestamp 8; or
    /// [`BROKEN_OPTIONS`].
    pub ip_options: u8,
    /// IPv6 extension headers: fragment 1, hop-by-hop 2, routing 4 (and 64 of type 0, 128 of type
    /// 2), AH 8, ESP 16, destination options 32.
    pub extensions: u8,
    /// What an IPv6 packet consists of, as ip6t_ipv6header finds it: hop-by-hop 1, destination
    /// options 2, routing 4, fragment 8, AH 16, ESP 32, nothing more 64, an upper layer 128.
    pub headers: Option<u8>,
    /// The Ethernet frame, where frames are judged.
    pub frame: Option<Frame>,
}
