//! What rules remember as states of conversations: learners.
//!
//! A rule that "keeps state" has a [`Learner`]: whose decision packets of its states repeat, and
//! how these states are kept. States are made by [`super::Cond::Learn`], and a packet is asked for
//! its state by [`super::Cond::Learned`]; [`super::Flow::AsLearned`] then does what the state's
//! learner says. States outlive the policy that made them; rules are theirs only within it.

use super::{Family, IpfwKeeper, LogOp, RuleId, Verdict};

/// Index of a learner in [`super::Policy::learners`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LearnerId(pub u32);

/// What a rule remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Learner {
    /// The rule that decides about packets of its states.
    pub rule: RuleId,
    /// Its verdict about IPv4 and about IPv6 packets. An answer that can't be given (to a packet
    /// that leaves, but for resets to this host's own, and a reset to what isn't TCP) is a drop.
    pub verdicts: [Verdict; 2],
    /// Packets of its states count at the rule.
    pub counts: bool,
    /// Packets of its states are logged.
    pub log: Option<LogOp>,
    /// How states are kept.
    pub keeper: Keeper,
}

impl Learner {
    /// The verdict about packets of a family.
    #[must_use]
    pub fn verdict(&self, family: Family) -> Verdict {
        self.verdicts[family as usize]
    }
}

/// The language whose states these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// IPFilter's; see [`crate::eval::ipf::state`].
    Ipf(IpfKeeper),
    /// ipfw's; see [`crate::eval::ipfw::States`].
    Ipfw(IpfwKeeper),
}

/// `keep state`, `keep frags` and their options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpfKeeper {
    /// A state is made.
    pub state: bool,
    /// A fragment's datagram is remembered; `true`: its fragments must come in order. Where a
    /// state is made for a fragment, it is in any case.
    pub fragments: Option<bool>,
    /// Also where no state could be made.
    pub fragments_anyway: bool,
    /// TCP segments in order only.
    pub strict: bool,
    /// No window check.
    pub loose: bool,
    /// ICMP errors about its packets are none of its own.
    pub no_icmp_errors: bool,
    /// Number of the group that judges ICMP errors about its packets first: its place in
    /// [`super::Policy::icmp_heads`], plus one.
    pub icmp_head: Option<u8>,
    /// The rule said `on -`: the interface doesn't matter.
    pub any_interface: bool,
    /// States of this rule at once.
    pub limit: Option<u32>,
    /// Seconds that a state lives after a packet: forward, reverse.
    pub age: Option<(u32, u32)>,
    /// Hosts that states of this rule may come from at once.
    pub max_sources: Option<u32>,
    /// States of this rule at once from hosts that have so many first bits in common; without a
    /// number, from one host.
    pub max_per_source: Option<(u32, Option<u8>)>,
    /// Connections that a source may have at once; see [`crate::eval::ipf::limit`].
    pub allocation: Option<Allocation>,
    /// A number for the rule that its limits are no part of, so that changed ones count on.
    pub identity: u32,
}

/// A question about an ICMP error that quotes packets of states. Of such a state
/// [`super::Cond::Learned`] asks the group that its rule named by `icmp-head`, if it named one: it
/// doesn't hold then, and the error waits for the group's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpHeadTest {
    /// It waits for some group's answer.
    Waits,
    /// It waits for that of the group with this number, see [`IpfKeeper::icmp_head`].
    WaitsFor(u8),
    /// A verdict stands, and it isn't to accept.
    Refused,
    /// The answer is that it passes; holds where a state takes it. Where the one that asked
    /// doesn't, older ones are tried, until one takes it or asks in its turn.
    Passes,
    /// The answer is that it doesn't; older states are tried.
    Blocked,
}

/// HP-UX's `keep limit`: a new connection counts for its source, destination and port, and later
/// ones meet that count in front of all rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// HP's number for the kind of source.
    pub kind: u8,
    /// Connections at once.
    pub limit: u32,
    /// All sources of the rule share them, and each connection meets the rules.
    pub cumulative: bool,
    /// Who is above the limit gets a reset.
    pub resets: bool,
    /// Records are written of the first connection above the limit, and then of every so many.
    pub alerts: Option<u32>,
    /// What no state can be made for is dropped; otherwise it passes.
    pub fails_closed: bool,
}

/// What IPFilter's `with` asks of a packet; see [`crate::dialect::ipf::words`] for the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpfWith {
    /// Attributes looked at, and those of them that must be there.
    pub attributes: (u32, u32),
    /// The same of IPv4 options.
    pub options: (u32, u32),
    /// The same of security classes.
    pub classes: (u8, u8),
    /// IPv6 headers that must be there.
    pub headers: u16,
    /// IPv6 headers that must not.
    pub no_headers: u16,
}

/// How long states of IPFilter live after a packet, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// By TCP state: 4 established, 6 half closed, 8 last ACK, 10 time-wait, 11 closed.
    pub tcp: [u64; 12],
    /// UDP.
    pub udp: u64,
    /// UDP after a reply.
    pub udp_reply: u64,
    /// ICMP.
    pub icmp: u64,
    /// ICMP after a reply.
    pub icmp_reply: u64,
    /// Other protocols.
    pub other: u64,
    /// Fragments.
    pub fragment: u64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        let mut tcp = [240_000; 12];
        tcp[4] = 432_000_000;
        tcp[6] = 7_200_000;
        (tcp[8], tcp[11]) = (30_000, 30_000);
        Self {
            tcp,
            udp: 120_000,
            udp_reply: 12_000,
            icmp: 60_000,
            icmp_reply: 6_000,
            other: 60_000,
            fragment: 60_000,
        }
    }
}
