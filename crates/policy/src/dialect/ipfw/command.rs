//! Commands of ipfw, read and not yet carried out.
//!
//! In: what the parser understood. Out: plain data for [`super::Ruleset::apply`].

use super::ast::{Rule, ValueType};
use crate::syntax::Span;

/// How times of the last match are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// `-t`: a date.
    Date,
    /// `-T`: seconds.
    Seconds,
}

/// Options before a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `-q`.
    pub quiet: bool,
    /// `-f`.
    pub force: bool,
    /// `-n`: nothing is carried out.
    pub test: bool,
    /// `-a`.
    pub counters: bool,
    /// `-b`.
    pub brief: bool,
    /// `-c`.
    pub compact: bool,
    /// `-d`.
    pub dynamic: bool,
    /// `-D`.
    pub only_dynamic: bool,
    /// `-e`.
    pub expired: bool,
    /// `-i`.
    pub values_as_addresses: bool,
    /// `-N`.
    pub names: bool,
    /// `-S`.
    pub sets: bool,
    /// `-t`, `-T`.
    pub time: Option<TimeForm>,
    /// `-v`.
    pub verbose: bool,
}

/// One command with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandLine {
    /// Options.
    pub switches: Switches,
    /// The command.
    pub command: Command,
    /// Where it was written.
    pub span: Span,
}

/// Inclusive ranges of rule numbers.
pub type NumberRanges = Vec<(u32, u32)>;
/// A range of numbers and where it stands.
pub type PlacedRange = ((u32, u32), Span);

/// What `zero` and `resetlog` are about.
#[derive(Clone, Debug, PartialEq)]
pub enum Zeroed {
    /// Rules.
    Rules {
        /// Which, the last number included, and where that is said; all when empty.
        numbers: Vec<PlacedRange>,
        /// Only this set.
        set: Option<u8>,
    },
    /// All rules of sets.
    Sets(Vec<u8>),
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing was written.
    Nothing,
    /// `add`.
    Add(Box<Rule>),
    /// `list`, `print`, `show`.
    List {
        /// Which rules; all when empty.
        ranges: NumberRanges,
        /// With counters.
        counters: bool,
        /// Only this set.
        set: Option<u8>,
    },
    /// `delete`.
    Delete {
        /// Numbers are those of sets.
        sets: bool,
        /// Which.
        ranges: NumberRanges,
        /// Only this set.
        set: Option<u8>,
    },
    /// `flush`.
    Flush {
        /// Only this set.
        set: Option<u8>,
    },
    /// `zero` or `resetlog`.
    Zero {
        /// Which rules.
        which: Zeroed,
        /// Only the counts of log lines.
        log: bool,
    },
    /// `set ...`.
    Sets(SetCommand),
    /// `table ...`.
    Table {
        /// Table, or `None` for `all`.
        name: Option<String>,
        /// The set that it belongs to.
        set: u8,
        /// What to do.
        command: TableCommand,
    },
    /// `pipe`, `queue`, `sched`.
    Dummynet(DummynetCommand),
    /// `nat`.
    Nat(NatCommand),
    /// `enable`, `disable`.
    Switch {
        /// Which setting.
        setting: Setting,
        /// On.
        on: bool,
    },
    /// `internal`.
    Internal(String),
    /// Commands of modules (`nat64lsn` ...).
    Module(String),
}

/// Settings of `enable` and `disable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The filter as a whole.
    Firewall,
    /// ALTQ.
    Altq,
    /// Packets that left a pipe are accepted.
    OnePass,
    /// Debugging messages.
    Debug,
    /// Log lines go to syslog.
    Verbose,
    /// Keepalives of states.
    DynKeepalive,
    /// Table of jump targets.
    SkiptoCache,
}

/// `set ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// Print which are on and off.
    Show,
    /// Exchange two.
    Swap(u8, u8),
    /// Move the rules of one to another.
    Move(u8, u8),
    /// Move the rules of a number to a set.
    MoveRule(u32, u8),
    /// Turn sets off and on, one bit a set.
    Switch {
        /// Off.
        disable: u32,
        /// On.
        enable: u32,
    },
}

/// What keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableType {
    /// IPv4 and IPv6 prefixes.
    Addr,
    /// Interface names.
    Iface,
    /// Numbers.
    Number,
    /// Flows: bits source address 1, protocol 2, source port 4, destination address 8,
    /// destination port 16.
    Flow(u8),
    /// Hardware address prefixes.
    Mac,
}

/// How a table is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Keys.
    pub kind: TableType,
    /// Values; empty means the legacy value.
    pub values: Vec<ValueType>,
    /// Algorithm, when written.
    pub algorithm: Option<String>,
    /// Largest number of entries, 0 for none.
    pub limit: u32,
    /// Locked.
    pub locked: bool,
    /// An existing table is fine.
    pub missing: bool,
    /// An existing table is emptied.
    pub or_flush: bool,
}

/// A word of a command with its place.
pub type Placed = (String, Span);

/// What to do with a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// Make it.
    Create(TableOptions),
    /// Add entries: key and value.
    Add {
        /// Entries.
        entries: Vec<(Placed, Option<Placed>)>,
        /// All or none.
        atomic: bool,
    },
    /// Delete entries.
    Delete(Vec<Placed>),
    /// Look a key up.
    Lookup(Placed),
    /// Exchange the contents with another table.
    Swap(String),
    /// Change the limit.
    Limit(u32),
    /// Lock or unlock.
    Lock(bool),
    /// Print the entries.
    List,
    /// Describe.
    Info,
    /// Describe in detail.
    Detail,
    /// Empty it.
    Flush,
    /// Remove it.
    Destroy,
}

/// Objects of dummynet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DummynetKind {
    /// A link.
    Pipe,
    /// A set of flows.
    Queue,
    /// A scheduler.
    Sched,
}

impl DummynetKind {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Sched => "sched",
        }
    }
}

/// What to do with objects of dummynet.
#[derive(Clone, Debug, PartialEq)]
pub enum DummynetCommand {
    /// `config`.
    Config(Box<DummynetConfig>),
    /// `show`, `list`.
    List(DummynetKind, NumberRanges),
    /// `delete`.
    Delete(DummynetKind, Vec<u32>),
    /// `flush`.
    Flush(DummynetKind),
}

/// Bits of flows that are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowMask {
    /// IPv4 destination.
    pub dst: u32,
    /// IPv4 source.
    pub src: u32,
    /// IPv6 destination: length.
    pub dst6: Option<u8>,
    /// IPv6 source: length.
    pub src6: Option<u8>,
    /// Destination port.
    pub dst_port: u16,
    /// Source port.
    pub src_port: u16,
    /// Protocol.
    pub proto: u8,
    /// IPv6 flow label.
    pub flow_id: u32,
}

/// What happens to a queue that grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum QueueManagement {
    /// Drop what doesn't fit.
    #[default]
    DropTail,
    /// Random early detection.
    Red {
        /// The gentle kind.
        gentle: bool,
        /// Weight of the average.
        weight: f64,
        /// Lower threshold.
        min: u32,
        /// Upper threshold.
        max: u32,
        /// Largest probability.
        probability: f64,
        /// Mark instead of dropping.
        ecn: bool,
    },
    /// CoDel or PIE with its words.
    Active {
        /// `codel` or `pie`.
        name: String,
        /// Words and their values.
        words: Vec<String>,
    },
}

/// Configuration of an object of dummynet.
#[derive(Clone, Debug, PartialEq)]
pub struct DummynetConfig {
    /// What it is.
    pub kind: DummynetKind,
    /// Number.
    pub number: u32,
    /// Bits a second; 0 is unlimited.
    pub bandwidth: Option<u64>,
    /// Milliseconds.
    pub delay: Option<u32>,
    /// Bytes.
    pub burst: Option<u64>,
    /// Delay profile.
    pub profile: Option<String>,
    /// Queue size.
    pub queue: Option<QueueSize>,
    /// Packet loss.
    pub loss: Vec<f64>,
    /// Hash buckets.
    pub buckets: Option<u32>,
    /// Report no error for lost packets.
    pub no_error: bool,
    /// Share.
    pub weight: Option<i64>,
    /// Largest packet.
    pub lmax: Option<i64>,
    /// Priority.
    pub priority: Option<i64>,
    /// The pipe or scheduler that it feeds.
    pub parent: Option<u32>,
    /// Flows kept apart.
    pub mask: Option<FlowMask>,
    /// Queue management.
    pub management: QueueManagement,
    /// Scheduler and its words.
    pub scheduler: Option<(String, Vec<String>)>,
}

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSize {
    /// Packets.
    Slots(u32),
    /// Bytes.
    Bytes(u32),
}

/// `nat ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatCommand {
    /// `config`: number and canonical words.
    Config(u32, Vec<String>),
    /// `show config`.
    Show(Option<u32>),
    /// `show log`.
    ShowLog,
    /// `delete`.
    Delete(Vec<u32>),
}
