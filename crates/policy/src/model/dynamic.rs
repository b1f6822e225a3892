//! What ipfw's rules remember as states: keepers, questions, settings.
//!
//! A state of ipfw belongs to the rule that noted it, and is known by its flow and a name. Names
//! and rules are numbers here that stay what they are from one policy to the next.

use super::RuleId;
use std::collections::BTreeMap;

/// `keep-state`, `record-state`, `limit` and `set-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpfwKeeper {
    /// The rule, in every policy that has it. Keepers of one rule differ in `limit` alone.
    pub identity: u64,
    /// Name of the flow.
    pub name: u32,
    /// Fields whose flows are counted together (bits: source address 1, source port 2, destination
    /// address 4, destination port 8), and how many there may be.
    pub limit: Option<(u8, u32)>,
}

/// A question about the packet's states. What a packet was asked before matters, so these are
/// asked in written order, and once a pass begins nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicTest {
    /// A state of the packet's flow has this name (0: any); it is refreshed. Asked again under the
    /// name of the last look, or after a look at all names, it does not look, and does not hold.
    Look(u32),
    /// The state that was found is of this rule.
    Of(RuleId),
    /// Holds; nobody has looked.
    Forget,
}

/// Settings of ipfw's states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Seconds of TCP: both sides acknowledged, opening, both closed, reset or unknown.
    pub tcp: [u32; 4],
    /// Seconds of UDP.
    pub udp: u32,
    /// Seconds of everything else, and of a limit that nobody has used.
    pub short: u32,
    /// Counters of limits at once.
    pub parents_max: u32,
    /// Both ends of TCP states that are about to end are asked whether they are still there.
    pub keep_alive: bool,
    /// An ICMP error without a state of its own is found by that of the packet it quotes.
    pub icmp_errors: bool,
    /// Rules that are there but off: their states stay, and are not found.
    pub off: Vec<u64>,
    /// Names of flows, by number.
    pub names: BTreeMap<u32, String>,
}
