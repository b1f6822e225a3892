//! How rules keep states: a part of the image's layout. Twin: `plane/bpf/image.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// How states of a rule are kept: the parameters of [`super::layout::TEST_LEARN`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Learner {
    /// The rule that decides about their packets.
    pub rule: u32,
    /// `LEARN_*`.
    pub flags: u32,
    /// States of this rule at once; `u32::MAX`: no limit of its own.
    pub limit: u32,
    /// States of all rules at once.
    pub states_max: u32,
    /// Seconds that a state lives, forward and reverse; `u32::MAX`: as its protocol does.
    pub age: [u32; 2],
    /// Kind of reject, for IPv4 and IPv6.
    pub reject: [u16; 2],
    /// `enum weir_verdict`, for IPv4 and IPv6.
    pub verdict: [u8; 2],
    /// First bits that hosts counted as one have in common, for IPv4 and IPv6.
    pub source_prefix: [u8; 2],
    /// Hosts at once, and states at once of hosts counted as one; `u32::MAX`: no such limit.
    pub sources: [u32; 2],
    /// Names the rule over changes of its limits.
    pub identity: u32,
    /// Connections at once, see [`LEARN_LIMITED`].
    pub connections: u32,
    /// Records of connections above that: of the first and then of every so many; 0: none.
    pub alerts: u32,
    /// HP's number for the kind of source.
    pub kind: u32,
    /// Number of the group that judges ICMP errors about its packets; 0: none.
    pub icmp_head: u32,
    /// Zero.
    pub reserved: u32,
}

/// How long states live, in milliseconds: the parameters of [`super::layout::TEST_LEARNED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Lifetimes {
    /// By TCP state.
    pub tcp: [u64; 12],
    /// UDP, and after a reply.
    pub udp: [u64; 2],
    /// ICMP, and after a reply.
    pub icmp: [u64; 2],
    /// Other protocols.
    pub other: u64,
    /// Datagrams in fragments.
    pub fragment: u64,
}

/// The packet belongs to a learned state, which lives on as the [`Lifetimes`] at `at` say; noted
/// there.
pub const TEST_LEARNED: u8 = 25;
/// Makes a state of learner `a`, whose [`Learner`] is at `at`; holds when one was made.
pub const TEST_LEARN: u8 = 26;
/// [`TEST_LEARNED`] has found a state that the packet is of, but for its place in the window.
pub const TEST_OUT_OF_WINDOW: u8 = 27;
/// What IPFilter sees of headers: [`IpfWith`] at `at`.
pub const TEST_IPF_WITH: u8 = 28;

/// A question about an ICMP error that [`TEST_LEARNED`] left to a group: `small` is one of
/// `ICMP_HEAD_*`.
pub const TEST_ICMP_HEAD: u8 = 34;
/// It waits for group `a`; 0: for any.
pub const ICMP_HEAD_WAITS: u16 = 0;
/// The verdict that stands isn't to accept.
pub const ICMP_HEAD_REFUSED: u16 = 1;
/// The group passes it: a state takes it.
pub const ICMP_HEAD_PASSES: u16 = 2;
/// The group blocks it: an older state takes it.
pub const ICMP_HEAD_BLOCKED: u16 = 3;

/// TCP segments in order only.
pub const LEARN_STRICT: u32 = 1;
/// No window check.
pub const LEARN_LOOSE: u32 = 2;
/// ICMP errors are none of its own.
pub const LEARN_NO_ICMP_ERRORS: u32 = 4;
/// The interface doesn't matter.
pub const LEARN_ANY_INTERFACE: u32 = 8;
/// Packets of its states are logged.
pub const LEARN_LOG: u32 = 16;
/// Packets of its states count at the rule.
pub const LEARN_COUNT: u32 = 32;
/// A state is made.
pub const LEARN_STATE: u32 = 64;
/// A fragment's datagram is remembered.
pub const LEARN_FRAGMENTS: u32 = 128;
/// Its fragments must come in order.
pub const LEARN_FRAGMENTS_STRICT: u32 = 256;
/// It is also remembered where no state could be made.
pub const LEARN_FRAGMENTS_ANYWAY: u32 = 512;
/// Connections of a source to a destination and port are counted (HP-UX `keep limit`).
pub const LEARN_LIMITED: u32 = 1024;
/// Those of all sources of the rule together.
pub const LEARN_CUMULATIVE: u32 = 2048;
/// Who is above that limit gets a reset.
pub const LEARN_RESETS: u32 = 4096;
/// What no state can be made for is dropped then.
pub const LEARN_FAILS_CLOSED: u32 = 8192;
/// Packets of its states that can't be logged are dropped.
pub const LEARN_OR_BLOCK: u32 = 16384;
/// [`Learner::sources`] says something.
pub const LEARN_SOURCES: u32 = 32768;

/// Parameters of [`super::layout::TEST_IPF_WITH`]: what is looked at, and what of it must be there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct IpfWith {
    /// Attributes.
    pub attributes: [u32; 2],
    /// IPv4 options.
    pub options: [u32; 2],
    /// Security classes.
    pub classes: [u8; 2],
    /// IPv6 headers that must be there, and that must not.
    pub headers: [u16; 2],
    /// Zero.
    pub padding: [u8; 2],
    /// Zero.
    pub reserved: [u32; 2],
}
