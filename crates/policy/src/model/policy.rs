//! A whole policy: chains of rules, the roots at which packets enter them, sets and histories.

use super::{Dynamic, Flow, HistoryObject, Learner, Lifetimes, NamedSet, Op, Test, Verdict};

/// The address family that a chain, rule or packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Where on a packet's way through the host a root is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Every received packet, before routing.
    Prerouting,
    /// Packets for this host.
    Input,
    /// Packets routed through this host.
    Forward,
    /// Packets made on this host.
    Output,
    /// Every packet that leaves, after routing.
    Postrouting,
}

/// The stage within a hook, in evaluation order. Named after the tables of iptables; other
/// languages use `Filter`. `Nat` is never a root: weir translates no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Before connection tracking.
    Raw,
    /// Packet changes.
    Mangle,
    /// Address translation (parsed and printed only).
    Nat,
    /// Verdicts.
    Filter,
    /// Mandatory access control marks (parsed and printed only).
    Security,
}

/// Index of a chain in [`Policy::chains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u32);

/// Index of a rule's counter: dense, over all chains, chain policies included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// Index of a source text in [`Policy::sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// Where a rule was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Which source text.
    pub source: SourceId,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// Packets and bytes (layer 3 length), 64 bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One rule: tests left to right, then operations, then control flow. A rule that matched counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its counter.
    pub id: RuleId,
    /// Where it was written. Several rules may share an origin (address lists).
    pub origin: Origin,
    /// Number within its chain as the user counts it, from 1; [`Rule::HIDDEN`] for what lowering
    /// made beside the rules of the text.
    pub index: u32,
    /// Conditions, in evaluation order. An empty list matches every packet.
    pub tests: Vec<Test>,
    /// What is done to or noted about a packet that matched, in order.
    pub ops: Vec<Op>,
    /// Where evaluation goes after a match.
    pub flow: Flow,
    /// Counters written in the file.
    pub preset: Counters,
}

impl Rule {
    /// [`Rule::index`] of a rule that nobody wrote: it is not listed.
    pub const HIDDEN: u32 = u32::MAX;
}

/// A chain of rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Name as written.
    pub name: String,
    /// Family it belongs to.
    pub family: Family,
    /// Table it belongs to.
    pub table: Table,
    /// Rules in order.
    pub rules: Vec<Rule>,
    /// What happens at the end of a chain that is a root; `None` for user chains (they return).
    pub policy: Option<ChainPolicy>,
}

pub use chain_policy::ChainPolicy;
mod chain_policy {
    use super::{Counters, Origin, RuleId, Verdict};

    /// The end of a built-in chain. It counts like a rule.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ChainPolicy {
        /// Its counter.
        pub id: RuleId,
        /// Where the chain was declared.
        pub origin: Origin,
        /// `Accept` or `Drop`.
        pub verdict: Verdict,
        /// Counters written in the file.
        pub preset: Counters,
    }
}

/// Where packets enter a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Family of the packets.
    pub family: Family,
    /// Hook.
    pub hook: Hook,
    /// Stage within the hook.
    pub table: Table,
    /// The chain; it has a policy.
    pub chain: ChainId,
}

impl Root {
    /// Where frames of the link layer enter that are received: ipfw's layer 2 pass. Nothing else
    /// has roots there.
    pub const FRAMES_RECEIVED: (Hook, Table) = (Hook::Input, Table::Raw);
    /// Where frames enter that are sent.
    pub const FRAMES_SENT: (Hook, Table) = (Hook::Postrouting, Table::Raw);

    /// Whether frames enter here, not packets at a hook. Those that hold no IP packet enter at the
    /// roots of [`Family::V4`], with zeros for what they don't have.
    #[must_use]
    pub fn is_of_frames(&self) -> bool {
        [Self::FRAMES_RECEIVED, Self::FRAMES_SENT].contains(&(self.hook, self.table))
    }
}

/// A whole policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Names of the source texts, indexed by [`SourceId`].
    pub sources: Vec<String>,
    /// All chains.
    pub chains: Vec<Chain>,
    /// Entries, sorted by (family, hook, table); at most one for each. A root that would accept
    /// every packet and count nothing (no rules, policy `Accept`) may be present or absent.
    pub roots: Vec<Root>,
    /// Named sets.
    pub sets: Vec<NamedSet>,
    /// Things that remember: limits, recent lists, connection limits ...
    pub histories: Vec<HistoryObject>,
    /// What rules remember as states.
    pub learners: Vec<Learner>,
    /// Groups that judge ICMP errors about packets of states, see [`super::IpfKeeper::icmp_head`].
    pub icmp_heads: Vec<String>,
    /// States at once, but for those of IPFilter's learners with a limit of their own.
    pub states_max: u32,
    /// How long those of IPFilter's learners live.
    pub lifetimes: Lifetimes,
    /// Received packets whose source is best reached by another interface are IPFilter's `bad-src`,
    /// where rules ask for that or make states.
    pub checks_source: bool,
    /// Settings of ipfw's states, where rules ask for them.
    pub dynamic: Option<Dynamic>,
    /// How many [`RuleId`]s exist: ids are `0..rule_count`.
    pub rule_count: u32,
    /// A condition on a transport header that is cut short just doesn't hold. Otherwise, as
    /// ip_tables has it, the packet is dropped there. TCP segments whose header contradicts itself
    /// are dropped by conditions on their options either way.
    pub short_goes_on: bool,
    /// As whose language transport headers and IPv6 extension headers are read.
    pub reading: Reading,
    /// The kernel keeps when each rule last matched, as ipfw lists it.
    pub keeps_times: bool,
    /// Whether answers of rejects meet the rules on their own way out.
    pub answers: Answers,
}

/// The language as whose filter packets are read, where filters differ: in headers that end early,
/// and in what counts as one. What one drops for that before its rules is
/// [`super::Transport::Short`] here, and what it doesn't look at is [`super::Transport::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reading {
    /// ip_tables'.
    #[default]
    Linux,
    /// IPFilter's.
    Ipf,
    /// ipfw's.
    Ipfw,
}

/// Which of the packets that answer rejected ones leave past the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// None: they are packets of this host, as iptables has it.
    #[default]
    Judged,
    /// Resets of TCP; ICMP errors meet the rules, as ipfw has it.
    ResetsPass,
    /// All, as IPFilter has it.
    Pass,
}

impl Policy {
    /// The root for a family, hook and table.
    pub fn root(&self, family: Family, hook: Hook, table: Table) -> Option<&Root> {
        self.roots
            .iter()
            .find(|r| (r.family, r.hook, r.table) == (family, hook, table))
    }

    /// The chain with this id.
    ///
    /// # Panics
    /// When the id is of another policy.
    pub fn chain(&self, id: ChainId) -> &Chain {
        &self.chains[id.0 as usize]
    }
}
