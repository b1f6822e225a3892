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
    /// Zero.
    pub padding: [u8; 2],
    /// Zero.
    pub reserved: [u32; 8],
}

/// The packet belongs to a learned state; noted there.
pub const TEST_LEARNED: u8 = 25;
/// Makes a state of learner `a`, whose [`Learner`] is at `at`; holds when one was made.
pub const TEST_LEARN: u8 = 26;
/// [`TEST_LEARNED`] has found a state that the packet is of, but for its place in the window.
pub const TEST_OUT_OF_WINDOW: u8 = 27;
/// What IPFilter sees of headers: [`IpfWith`] at `at`.
pub const TEST_IPF_WITH: u8 = 28;

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
