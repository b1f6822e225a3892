//! What an ipfw rule is once it is read: a list of patterns, each perhaps negated and perhaps the
//! beginning of an alternative, then state, modifiers and an action.
//!
//! The list is kept in the order in which the original tests it, because order carries meaning
//! there: `or` ties a pattern to whatever follows it in this list, also when what followed in the
//! text (`any`) left nothing in it. Printing and evaluation both work on this form.

use crate::syntax::Place;

/// A number, or the value that the last table lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Written.
    Number(u32),
    /// `tablearg`.
    TableArg,
}

/// Bits that must be set and bits that must be clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Set.
    pub set: u8,
    /// Clear.
    pub clear: u8,
}

/// Inclusive ranges as written; a range whose ends are swapped holds nothing.
pub type Ranges = Vec<(u16, u16)>;

/// Values of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4 addresses with masks, which may have holes.
    V4(Vec<(u32, u32)>),
    /// Some last octets of an IPv4 network: first address, size, one bit an address.
    Octets {
        /// The network.
        base: u32,
        /// Addresses in it, 2 to 256.
        size: u16,
        /// Which of them.
        bits: [u32; 8],
    },
    /// Any address of the host, IPv4 or IPv6.
    Me,
    /// Any IPv6 address of the host.
    Me6,
    /// IPv6 addresses with masks.
    V6(Vec<(u128, u128)>),
    /// A table, and the value that the entry must have.
    Table {
        /// Name.
        name: String,
        /// Value.
        value: Option<TableValue>,
    },
}

/// The value that `table(name,value)` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableValue {
    /// Which of the entry's values; `None` is the legacy one (`tag`).
    pub kind: Option<ValueType>,
    /// The number.
    pub value: u32,
}

/// What a table entry's value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// Rule number to skip to.
    Skipto,
    /// Pipe or queue.
    Pipe,
    /// Routing table.
    Fib,
    /// Translation instance.
    Nat,
    /// DSCP.
    Dscp,
    /// Tag.
    Tag,
    /// Divert port.
    Divert,
    /// Netgraph cookie.
    Netgraph,
    /// Limit of states.
    Limit,
    /// IPv4 next hop.
    Ipv4,
    /// IPv6 next hop.
    Ipv6,
    /// Packet mark.
    Mark,
}

impl ValueType {
    /// All of them, in the order of the original's bits, which is the order of values in a list.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Skipto, "skipto"),
        (Self::Pipe, "pipe"),
        (Self::Fib, "fib"),
        (Self::Nat, "nat"),
        (Self::Dscp, "dscp"),
        (Self::Tag, "tag"),
        (Self::Divert, "divert"),
        (Self::Netgraph, "netgraph"),
        (Self::Limit, "limit"),
        (Self::Ipv4, "ipv4"),
        (Self::Ipv6, "ipv6"),
        (Self::Mark, "mark"),
    ];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, name)| name)
    }
}

/// Which interface of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of this pass.
    Via,
    /// The receiving one.
    Recv,
    /// The sending one.
    Xmit,
}

/// How an interface is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceName {
    /// By name.
    Name(String),
    /// By a shell pattern.
    Glob(String),
    /// By an address that it owns.
    Address(u32),
    /// By membership in a table.
    Table(String),
}

/// Fields that are compared with lists of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberField {
    /// IPv4 identification.
    IpId,
    /// Length.
    IpLen,
    /// IPv4 time to live.
    IpTtl,
    /// Bytes of TCP payload.
    TcpDataLen,
    /// TCP window.
    TcpWin,
    /// TCP maximum segment size, of segments with SYN.
    TcpMss,
}

impl NumberField {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IpId => "ipid",
            Self::IpLen => "iplen",
            Self::IpTtl => "ipttl",
            Self::TcpDataLen => "tcpdatalen",
            Self::TcpWin => "tcpwin",
            Self::TcpMss => "tcpmss",
        }
    }
}

/// A hardware address with its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac {
    /// Address, masked.
    pub address: [u8; 6],
    /// Mask.
    pub mask: [u8; 6],
}

/// What `lookup` looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupKey {
    /// Destination address.
    DstIp,
    /// Source address.
    SrcIp,
    /// Destination port.
    DstPort,
    /// Source port.
    SrcPort,
    /// User of the socket.
    Uid,
    /// Jail of the socket.
    Jail,
    /// DSCP.
    Dscp,
    /// Destination hardware address.
    DstMac,
    /// Source hardware address.
    SrcMac,
    /// Packet mark.
    Mark,
    /// Number of the rule.
    RuleNumber,
}

impl LookupKey {
    /// All of them.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::DstIp, "dst-ip"),
        (Self::SrcIp, "src-ip"),
        (Self::DstPort, "dst-port"),
        (Self::SrcPort, "src-port"),
        (Self::Uid, "uid"),
        (Self::Jail, "jail"),
        (Self::Dscp, "dscp"),
        (Self::DstMac, "dst-mac"),
        (Self::SrcMac, "src-mac"),
        (Self::Mark, "mark"),
        (Self::RuleNumber, "rulenum"),
    ];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(key, _)| *key == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `// text`: holds.
    Comment(String),
    /// Protocol; above 255 it never holds.
    Proto(u16),
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// Source address.
    Src(Address),
    /// Destination address.
    Dst(Address),
    /// Source port.
    SrcPort(Ranges),
    /// Destination port.
    DstPort(Ranges),
    /// Input pass (`out` is its negation).
    In,
    /// Interface.
    Interface(Side, InterfaceName),
    /// Link-layer pass.
    Layer2,
    /// Came back from a divert socket: 1 from input, 2 from output, 3 either.
    Diverted(u8),
    /// TCP, and not a bare SYN.
    Established,
    /// TCP flags.
    TcpFlags(Flags),
    /// TCP options.
    TcpOptions(Flags),
    /// TCP sequence number.
    TcpSeq(u32),
    /// TCP acknowledgement number.
    TcpAck(u32),
    /// A numeric field.
    Number(NumberField, Ranges),
    /// Fragment flags: reserved 0x80, do not 0x40, more 0x20, offset not zero 1.
    Frag(Flags),
    /// IPv4 options.
    IpOptions(Flags),
    /// IPv4 type of service bits.
    IpTos(Flags),
    /// IPv4 precedence, 0 to 7.
    IpPrecedence(u8),
    /// IP version.
    IpVersion(u16),
    /// DSCP, one bit a value.
    Dscp(u64),
    /// ICMP types, one bit a type.
    IcmpTypes(u32),
    /// ICMPv6 types.
    Icmp6Types([u32; 8]),
    /// IPv6 extension headers, bits of [`super::names::EXTENSIONS`].
    Ext6Hdr(u8),
    /// IPv6 flow labels.
    FlowId(Vec<u32>),
    /// Hardware addresses: destination, source.
    Mac(Mac, Mac),
    /// Ethernet types.
    MacType(Ranges),
    /// Source hardware address in a table, and the value that the entry must have.
    SrcMac(String, Option<TableValue>),
    /// The same of the destination's.
    DstMac(String, Option<TableValue>),
    /// User of the socket, and the name that it was given by.
    Uid(u32, Option<String>),
    /// Group of the socket, the same.
    Gid(u32, Option<String>),
    /// Jail of the socket.
    Jail(u32),
    /// Socket argument.
    SockArg,
    /// Came out of IPsec.
    Ipsec,
    /// Routing table.
    Fib(u16),
    /// The way back to the source leaves by the receiving interface.
    VerRevPath,
    /// The source is reachable.
    VerSrcReach,
    /// A source on a connected network comes in by that network.
    AntiSpoof,
    /// One of these tags.
    Tagged(Ranges),
    /// The tag that a table gave.
    TaggedTableArg,
    /// Packet mark.
    Mark {
        /// Value.
        value: Argument,
        /// Bits that count.
        mask: u32,
    },
    /// Some field in a table.
    Lookup {
        /// The field.
        key: LookupKey,
        /// Bits that count: for addresses an address mask, for other keys 32 bits.
        mask: Option<u128>,
        /// The table.
        table: String,
    },
    /// The flow in a table of type flow.
    Flow {
        /// The table.
        table: String,
        /// The value that the entry must have.
        value: Option<TableValue>,
    },
}

/// One pattern as it stands in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The condition.
    pub pattern: Pattern,
    /// `not`.
    pub negate: bool,
    /// `or` follows: when this holds, what comes next in the rule is passed over.
    pub or_next: bool,
    /// Where it was written.
    pub place: Place,
}

/// What a state option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// `keep-state` or, without looking up first, `record-state`.
    Keep,
    /// `limit` or `set-limit`: fields that are counted together, and how many.
    Limit {
        /// Bits: source address 1, source port 2, destination address 4, destination port 8.
        mask: u8,
        /// How many.
        count: Argument,
    },
}

/// A state option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOption {
    /// What it does.
    pub kind: StateKind,
    /// Whether states are looked up when the rule is reached.
    pub probe: bool,
    /// Name of the flow.
    pub name: String,
    /// `not` before it.
    pub negate: bool,
    /// Where it was written.
    pub place: Place,
}

/// `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Lines before it falls silent; 0 is no limit, `None` the setting.
    pub amount: Option<u32>,
    /// Where lines go, bits: syslog 1, ipfw0 2, rtsock 4; 0 is the setting.
    pub destinations: u8,
}

/// `tag` or `untag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The tag.
    pub tag: Argument,
    /// Take it away.
    pub remove: bool,
}

/// Answer to a refused packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// ICMP unreachable with this code, and the MTU for needfrag.
    Unreach(u8, Option<u16>),
    /// ICMPv6 unreachable.
    Unreach6(u8),
    /// TCP reset, IPv4 or IPv6.
    Reset,
    /// TCP reset, IPv6.
    Reset6,
    /// SCTP abort.
    Abort,
    /// SCTP abort, IPv6.
    Abort6,
}

/// What happens to a packet that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pass.
    Allow,
    /// Drop.
    Deny,
    /// Drop and answer.
    Reject(Reject),
    /// Count and go on.
    Count,
    /// Look states up; `None` is `:any`.
    CheckState(Option<String>),
    /// Go on at a number.
    Skipto(Argument),
    /// Go on at a number, and come back.
    Call(Argument),
    /// Come back.
    Return,
    /// To a divert socket.
    Divert(Argument),
    /// A copy to a divert socket.
    Tee(Argument),
    /// To another next hop.
    Forward {
        /// The next hop; `None` is `tablearg`.
        address: Option<std::net::IpAddr>,
        /// Port, 0 for none.
        port: u16,
    },
    /// Into a pipe.
    Pipe(Argument),
    /// Into a queue.
    Queue(Argument),
    /// To a netgraph hook.
    Netgraph(Argument),
    /// A copy to a netgraph hook.
    Ngtee(Argument),
    /// Translate; `None` is `global`.
    Nat(Option<Argument>),
    /// Set the routing table.
    SetFib(Argument),
    /// Set the DSCP.
    SetDscp(Argument),
    /// Set the packet mark.
    SetMark(Argument),
    /// Lower the maximum segment size.
    TcpSetMss(u16),
    /// Reassemble.
    Reass,
    /// An action of a module: its name and its instance.
    External(String, String),
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Number; 0 until it is given one.
    pub number: u32,
    /// Set.
    pub set: u8,
    /// Probability in units of 1/0x7fffffff, when it isn't 1.
    pub probability: Option<u32>,
    /// Patterns, in order.
    pub body: Vec<Instruction>,
    /// State option.
    pub state: Option<StateOption>,
    /// `defer-action`: the action waits for a packet that finds the state.
    pub defer: bool,
    /// `log`.
    pub log: Option<Log>,
    /// `altq`.
    pub altq: Option<String>,
    /// `tag`, `untag`.
    pub tag: Option<Tag>,
    /// Action.
    pub action: Action,
    /// The body has no `from ... to ...`.
    pub just_options: bool,
    /// Neither addresses nor ports were given.
    pub any_to_any: bool,
    /// Where it was written.
    pub place: Place,
    /// Where its action was written.
    pub action_place: Place,
    /// Where its modifiers were written.
    pub modifier_place: Place,
}

impl Action {
    /// What may be `tablearg`, and which of a table's values that is then. Not that of `fwd`, which
    /// is an address.
    #[must_use]
    pub fn argument(&self) -> Option<(Argument, ValueType)> {
        Some(match self {
            Self::Skipto(one) | Self::Call(one) => (*one, ValueType::Skipto),
            Self::Pipe(one) | Self::Queue(one) => (*one, ValueType::Pipe),
            Self::SetFib(one) => (*one, ValueType::Fib),
            Self::SetDscp(one) => (*one, ValueType::Dscp),
            Self::SetMark(one) => (*one, ValueType::Mark),
            Self::Nat(Some(one)) => (*one, ValueType::Nat),
            Self::Divert(one) | Self::Tee(one) => (*one, ValueType::Divert),
            Self::Netgraph(one) | Self::Ngtee(one) => (*one, ValueType::Netgraph),
            _ => return None,
        })
    }
}

impl Rule {
    /// Whether the limit of its flows is `tablearg`.
    #[must_use]
    pub fn is_limited_by_table(&self) -> bool {
        let kind = self.state.as_ref().map(|state| state.kind);
        let by_table = |count| count == Argument::TableArg;
        matches!(kind, Some(StateKind::Limit { count, .. }) if by_table(count))
    }

    /// The comment.
    #[must_use]
    pub fn comment(&self) -> Option<&str> {
        self.body.iter().find_map(|one| match &one.pattern {
            Pattern::Comment(text) => Some(text.as_str()),
            _ => None,
        })
    }
}
