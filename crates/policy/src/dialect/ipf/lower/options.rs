//! What lowering takes from elsewhere than the rules: tunables, the time, the host.

use super::{InterfaceNets, STATES_MAX};
use crate::model::Lifetimes;

/// How to lower.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// Packets that no rule matched are blocked.
    pub default_block: bool,
    /// As 4.1: a `log quick` rule ends the evaluation.
    pub log_quick_ends: bool,
    /// States live that rules of before made: they decide about their packets, whether or not one
    /// of these rules makes some.
    pub states_live: bool,
    /// States at once, at most [`STATES_MAX`].
    pub states_max: u32,
    /// As HP-UX: `v6hdrs` is the exact set of headers.
    pub exact_headers: bool,
    /// HP-UX limits of connections are on.
    pub limits_on: bool,
    /// They drop what no state can be made for.
    pub limit_fails_closed: bool,
    /// Received packets with fewer hops left are `lowttl`.
    pub min_ttl: u8,
    /// Received packets whose source is best reached by another interface are `bad-src`.
    pub checks_source: bool,
    /// As HP-UX: router and neighbour discovery meet no rules.
    pub discovery_bypasses: bool,
    /// How long states live.
    pub lifetimes: Lifetimes,
    /// When rules with `rule-ttl` begin to count it, in seconds since 1970.
    pub now: u64,
    /// Addresses of interfaces, for rules that name them.
    pub interfaces: InterfaceNets,
}

impl Default for LowerOptions {
    fn default() -> Self {
        Self {
            default_block: false,
            log_quick_ends: false,
            states_live: false,
            states_max: STATES_MAX,
            exact_headers: false,
            limits_on: true,
            limit_fails_closed: false,
            min_ttl: MIN_TTL,
            checks_source: false,
            discovery_bypasses: false,
            lifetimes: Lifetimes::default(),
            now: 0,
            interfaces: InterfaceNets::new(),
        }
    }
}

/// The least TTL that isn't low, of the originals and of the kernel's states.
pub const MIN_TTL: u8 = 4;
