//! What few rules ask: what the kernel knows of a packet beside its headers, and bytes anywhere in
//! it. Conditions ([`Aside`]), and what they are asked of ([`Facts`]).
//!
//! Source: iptables-extensions(8) on owner, cgroup, cpu, devgroup, realm, physdev, u32 and string.

use super::{IfPattern, OwnerRange};

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
}

impl Aside {
    /// Whether it looks into the packet's payload.
    pub fn reads_payload(&self) -> bool {
        matches!(self, Aside::Words(_) | Aside::Text(_))
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
}
