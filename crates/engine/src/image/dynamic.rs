//! How rules of ipfw keep states: a part of the image's layout. Twin: `plane/bpf/image.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Settings of ipfw's states, with all rules that note them behind it, by identity. A rule whose
/// limits are of a table stands there once for each.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Dynamic {
    /// Seconds of TCP: both sides acknowledged, opening, both closed, reset or unknown.
    pub tcp: [u32; 4],
    /// Seconds of UDP.
    pub udp: u32,
    /// Seconds of everything else.
    pub short: u32,
    /// States at once.
    pub states_max: u32,
    /// Counters of limits at once.
    pub parents_max: u32,
    /// How many rules follow.
    pub count: u32,
    /// An ICMP error is found by the state of the packet it quotes.
    pub icmp_errors: u32,
    /// Zero.
    pub reserved: [u32; 6],
}

/// A rule that notes flows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct DynamicRule {
    /// What its states carry.
    pub identity: u64,
    /// The rule that counts and decides.
    pub rule: u32,
    /// `DYNAMIC_*`.
    pub flags: u32,
    /// Name of the flow.
    pub name: u32,
    /// Flows at once with the same fields of `mask`; `u32::MAX`: no limit.
    pub limit: u32,
    /// Kind of reject, for IPv4 and IPv6.
    pub reject: [u16; 2],
    /// `enum weir_verdict`, for IPv4 and IPv6.
    pub verdict: [u8; 2],
    /// Source address 1, source port 2, destination address 4, destination port 8.
    pub mask: u8,
    /// Zero.
    pub padding: u8,
}

/// A state of ipfw is found under name `a` (0: any); [`Dynamic`] at `at`.
pub const TEST_DYNAMIC_LOOK: u8 = 29;
/// Notes a flow for the [`DynamicRule`] in place `a` of the [`Dynamic`] at `at`; holds when that
/// was done.
pub const TEST_DYNAMIC_NOTE: u8 = 30;
/// The state that was found is of rule `a`.
pub const TEST_DYNAMIC_OF: u8 = 31;
/// Holds; nobody has looked.
pub const TEST_DYNAMIC_FORGET: u8 = 32;

/// The rule is off: its states are not found.
pub const DYNAMIC_OFF: u32 = 1;
/// Rules that an image may have.
pub const DYNAMIC_RULES_MAX: u32 = 1 << 20;
