//! The syntax tree: rules as they are loaded.
//!
//! A rule with lists in it is one tree for each combination, in the order in which the original
//! loads them; variables are gone, bodies have become groups. Two trees that say the same are equal
//! wherever they were written.

use crate::dialect::renamed::Renamed;
use crate::model::{AddrMatch, Family, RangeSet};
use crate::syntax::Place;
use std::net::IpAddr;
use std::sync::Arc;

/// A name: of an interface, a group, a pool.
pub type Name = Arc<str>;

/// Which of the two dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// IPFilter 4.1 and 5.1, as one.
    #[default]
    Ipf,
    /// HP-UX IPFilter.
    Hpux,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The dialect.
    pub language: Language,
    /// Rules and settings, in the order of the text.
    pub items: Vec<Item>,
}

impl File {
    /// The rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.items.iter().filter_map(|item| match item {
            Item::Rule(rule) => Some(&**rule),
            Item::Setting(_) => None,
        })
    }

    /// The settings.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.items.iter().filter_map(|item| match item {
            Item::Setting(setting) => Some(setting),
            Item::Rule(_) => None,
        })
    }
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A rule.
    Rule(Box<Rule>),
    /// `set name value;`
    Setting(Setting),
}

/// `set name value;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where it stands.
    pub at: Place,
    /// The tunable.
    pub name: Name,
    /// Its value; `true` is 1.
    pub value: u32,
}

/// Which list a rule belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Packets that an interface receives.
    #[default]
    In,
    /// Packets that an interface sends.
    Out,
}

/// What a rule does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Let through.
    #[default]
    Pass,
    /// Discard.
    Block,
    /// Note only; the options are those of [`Rule::log`].
    Log,
    /// Count only, in a list of its own.
    Count,
    /// Back to "no rule matched".
    Nomatch,
    /// Jump over this many rules.
    Skip(u32),
    /// Ask a program.
    Auth,
    /// Look at the answers of programs.
    Preauth,
    /// Call a function.
    Call {
        /// While the list is read, not after it.
        now: bool,
        /// The function.
        function: Name,
        /// Its argument.
        argument: u32,
    },
    /// Look at the packet inside the packet.
    Decapsulate(Option<Name>),
}

/// How a blocked packet is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Return {
    /// TCP RST.
    Rst,
    /// ICMP unreachable with this code.
    Icmp(u8),
    /// The same, sent in the name of the destination.
    IcmpAsDest(u8),
    /// ICMPv6 unreachable (HP-UX).
    Icmp6(u8),
    /// The same, in the name of the destination (HP-UX).
    Icmp6AsDest(u8),
}

/// `log` and its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// 128 bytes of the packet too.
    pub body: bool,
    /// Only the packet that makes the state.
    pub first: bool,
    /// Block what cannot be logged.
    pub or_block: bool,
    /// Facility and priority, as indices of [`super::words`].
    pub level: Option<(u8, u8)>,
    /// HP-UX `log limit [freq N]`: report connections above the limit, the first and every Nth.
    pub limit: Option<Option<u32>>,
}

/// Where `to`, `dup-to` and `reply-to` send packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Out of an interface, perhaps to a next hop.
    Interface(Name, Option<IpAddr>),
    /// One of a list of destinations.
    List(Name),
}

/// What a packet must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Matching {
    /// `all` and nothing else.
    #[default]
    All,
    /// Fields.
    Fields(Box<Fields>),
    /// A packet filter program, as words of numbers or as an expression.
    Bpf(Family, Name),
    /// Terms of the expression language.
    Expression(Vec<Term>),
}

/// A term of `exp { "..." }`: the field is one of the values, or is none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field as written.
    pub field: &'static str,
    /// `!=`
    pub negate: bool,
    /// The values as written, checked.
    pub values: Vec<Name>,
    /// The same as a test.
    pub test: TermTest,
}

/// What a term means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermTest {
    /// Source, destination or either address, of one family.
    Address(Family, Ends, Vec<(u128, u128)>),
    /// Protocol.
    Protocol(RangeSet<u8>),
    /// Source, destination or either port of a protocol.
    Port(u8, Ends, RangeSet<u16>),
    /// TCP flags: value and mask.
    Flags(Vec<(u8, u8)>),
    /// Something that only listings of states know: holds for no packet.
    StateOnly,
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The source.
    Source,
    /// The destination.
    Destination,
    /// Either.
    Either,
}

/// Field tests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Type of service byte.
    pub tos: Option<u8>,
    /// Time to live.
    pub ttl: Option<u8>,
    /// Protocol.
    pub proto: Option<Proto>,
    /// Source.
    pub source: Side,
    /// Destination.
    pub destination: Side,
    /// TCP flags: value and mask.
    pub flags: Option<(u8, u8)>,
    /// ICMP type and code.
    pub icmp: Option<(u8, Option<u8>)>,
    /// `with`.
    pub with: With,
}

/// Protocols of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// One.
    Number(u8),
    /// Both TCP and UDP.
    TcpUdp,
}

/// Source or destination.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// `!`
    pub negate: bool,
    /// Addresses.
    pub address: Address,
    /// Ports.
    pub port: Option<Port>,
}

/// Addresses of a side.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Address {
    /// Every address.
    #[default]
    Any,
    /// `address & mask == value`.
    Net {
        /// Family.
        family: Family,
        /// Value, host bits cleared; IPv4 in the low 32 bits.
        value: u128,
        /// Mask; perhaps with holes.
        mask: u128,
    },
    /// First to last.
    Range(Family, u128, u128),
    /// The addresses of an interface.
    Interface(Name, InterfaceAddress),
    /// A pool or hash by number or name.
    Table(TableKind, Name),
    /// A pool or hash written out.
    Inline(TableKind, Vec<PoolEntry>),
    /// A name that nobody could resolve: matches nothing.
    Unresolved(Name),
}

/// Which address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceAddress {
    /// Its address, with a mask of this length.
    Masked(u8),
    /// Its broadcast address.
    Broadcast,
    /// Its network, with the network's mask.
    Network,
    /// Its address, with the network's mask.
    Netmasked,
    /// Its peer.
    Peer,
}

/// The kinds of address tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Longest prefix, holes possible.
    Pool,
    /// Plain membership.
    Hash,
}

/// An entry of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// A hole.
    pub negate: bool,
    /// Family.
    pub family: Family,
    /// Value, host bits cleared.
    pub value: u128,
    /// Mask.
    pub mask: u128,
}

impl PoolEntry {
    /// As a set of addresses.
    #[must_use]
    pub fn addresses(&self) -> AddrMatch {
        net_match(self.family, self.value, self.mask)
    }
}

/// Value and mask as a set of addresses.
#[must_use]
pub fn net_match(family: Family, value: u128, mask: u128) -> AddrMatch {
    let free = !mask & ones(family);
    match free & free.wrapping_add(1) {
        0 => AddrMatch::Ranges(RangeSet::range(value, value | free)),
        _ => AddrMatch::Masked { value, mask },
    }
}

/// All bits of an address.
#[must_use]
pub fn ones(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}

/// The bits of an address.
#[must_use]
pub fn bits(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(address) => (Family::V4, u128::from(address.to_bits())),
        IpAddr::V6(address) => (Family::V6, address.to_bits()),
    }
}

/// A comparison of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// `=`
    Equal(u16),
    /// `!=`
    NotEqual(u16),
    /// `<`
    Less(u16),
    /// `>`
    Greater(u16),
    /// `<=`
    LessEqual(u16),
    /// `>=`
    GreaterEqual(u16),
    /// `a >< b`: strictly between.
    Between(u16, u16),
    /// `a <> b`: strictly outside.
    Outside(u16, u16),
    /// `a:b`: from a to b.
    Span(u16, u16),
}

impl Port {
    /// The ports for which it holds.
    #[must_use]
    pub fn ports(self) -> RangeSet<u16> {
        let below = |port: u16| port.checked_sub(1).map(|last| (0, last));
        let above = |port: u16| port.checked_add(1).map(|first| (first, u16::MAX));
        match self {
            Self::Equal(port) => RangeSet::one(port),
            Self::NotEqual(port) => {
                RangeSet::from_ranges(below(port).into_iter().chain(above(port)))
            }
            Self::Less(port) => RangeSet::from_ranges(below(port)),
            Self::Greater(port) => RangeSet::from_ranges(above(port)),
            Self::LessEqual(port) => RangeSet::range(0, port),
            Self::GreaterEqual(port) => RangeSet::range(port, u16::MAX),
            Self::Between(low, high) => match (low.checked_add(1), high.checked_sub(1)) {
                (Some(first), Some(last)) => RangeSet::range(first, last),
                _ => RangeSet::default(),
            },
            // "Outside" a range that is written backwards excludes nothing, as in the original.
            Self::Outside(low, high) if low > high => RangeSet::range(0, u16::MAX),
            Self::Outside(low, high) => {
                RangeSet::from_ranges(below(low).into_iter().chain(above(high)))
            }
            Self::Span(first, last) => RangeSet::range(first, last),
        }
    }
}

/// `with`: every bit is one of the tables in [`super::words`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct With {
    /// Attributes looked at.
    pub attributes: u32,
    /// Those of them that must be present.
    pub attributes_set: u32,
    /// IPv4 options looked at.
    pub options: u32,
    /// Those of them that must be present.
    pub options_set: u32,
    /// Security classes looked at.
    pub classes: u8,
    /// Those of them that must be present.
    pub classes_set: u8,
    /// IPv6 extension headers that must be present.
    pub headers: u16,
    /// IPv6 extension headers that must be absent.
    pub no_headers: u16,
    /// Domain of interpretation of a CIPSO option.
    pub doi: Option<u32>,
}

impl With {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `keep state` and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepState {
    /// Entries that this rule may have.
    pub limit: Option<u32>,
    /// Sources that may have entries.
    pub max_sources: Option<u32>,
    /// Entries for one source, and how much of an address is a source.
    pub max_per_source: Option<(u32, Option<u8>)>,
    /// In order only.
    pub strict: bool,
    /// No window check.
    pub loose: bool,
    /// New initial sequence numbers.
    pub newisn: bool,
    /// ICMP errors do not belong to it.
    pub no_icmp_errors: bool,
    /// Sent to another machine.
    pub sync: bool,
    /// No records of its entries.
    pub nolog: bool,
    /// The group that judges ICMP errors.
    pub icmp_head: Option<Name>,
    /// Remote procedure calls, of a program.
    pub rpc: Option<Option<Name>>,
}

/// HP-UX `keep limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimit {
    /// Concurrent connections.
    pub limit: u32,
    /// All sources together.
    pub cumulative: bool,
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// `log=N`
    pub log: Option<u32>,
    /// `nat=NAME`
    pub nat: Option<Name>,
}

/// One rule, as loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The words it was written with.
    pub at: Place,
    /// `@n`
    pub insert: Option<u32>,
    /// The collection, a sort key.
    pub collection: u32,
    /// What it does.
    pub action: Action,
    /// How a blocked packet is answered.
    pub answer: Option<Return>,
    /// Which list.
    pub direction: Direction,
    /// Whether and how it logs.
    pub log: Option<Log>,
    /// Stop here.
    pub quick: bool,
    /// Forward and reverse interface on this side.
    pub on: [Option<Name>; 2],
    /// Forward and reverse interface on the other side.
    pub via: [Option<Name>; 2],
    /// Where the packet goes.
    pub to: Option<Destination>,
    /// Where a copy goes.
    pub dup_to: Option<Destination>,
    /// Where replies go.
    pub reply_to: Option<Destination>,
    /// `fastroute`
    pub fastroute: bool,
    /// Family, where something fixes it.
    pub family: Option<Family>,
    /// What a packet must be.
    pub matching: Matching,
    /// `keep state`
    pub keep_state: Option<KeepState>,
    /// `keep frags`; strict or not.
    pub keep_frags: Option<bool>,
    /// HP-UX `keep limit`.
    pub keep_limit: Option<KeepLimit>,
    /// The group that this rule leads into.
    pub head: Option<Name>,
    /// The group that it is in.
    pub group: Option<Name>,
    /// Tags to set.
    pub set_tag: Tags,
    /// Tags to match.
    pub match_tag: Tags,
    /// Packets per second.
    pub pps: Option<u32>,
    /// Lifetime of state entries, forward and reverse.
    pub age: Option<(u32, u32)>,
    /// Seconds after which the rule goes away.
    pub rule_ttl: Option<u32>,
    /// A remark.
    pub comment: Option<Name>,
}

impl Rule {
    /// Whether it says the same as another, wherever both stand: what the original calls a
    /// duplicate.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        let place = |rule: &Self| (rule.direction, rule.action == Action::Count);
        if place(self) != place(other) || self.group != other.group {
            return false;
        }
        let (mut one, mut two) = (self.clone(), other.clone());
        for rule in [&mut one, &mut two] {
            rule.insert = None;
            rule.collection = 0;
            rule.comment = None;
        }
        one == two
    }

    /// Gives interfaces the names that they have here.
    pub(super) fn rename_interfaces(&mut self, renamed: &Renamed) {
        let rename = |name: &mut Name| {
            if let Some(new) = renamed.get(name) {
                *name = new.into();
            }
        };
        let named = self.on.iter_mut().chain(&mut self.via);
        named.flatten().for_each(rename);
        for way in [&mut self.to, &mut self.dup_to, &mut self.reply_to] {
            if let Some(Destination::Interface(name, _)) = way {
                rename(name);
            }
        }
        if let Matching::Fields(fields) = &mut self.matching {
            for side in [&mut fields.source, &mut fields.destination] {
                if let Address::Interface(name, _) = &mut side.address {
                    rename(name);
                }
            }
        }
    }

    /// The field tests, where there are any.
    #[must_use]
    pub fn fields(&self) -> Option<&Fields> {
        match &self.matching {
            Matching::Fields(fields) => Some(fields),
            _ => None,
        }
    }
}
