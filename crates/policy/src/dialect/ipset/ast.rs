//! The syntax tree of an `ipset save` file: one statement a line, in the order written.

use super::super::iptables::ast::{FileSource, Line};
use crate::model::{Family, SetDimension};
use crate::syntax::Place;
use std::net::IpAddr;

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Which text it was read from; not compared.
    pub source: FileSource,
    /// Lines that say something. Faulty lines are not among them.
    pub statements: Vec<Statement>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line.
    pub at: Place,
    /// Its number and column.
    pub line: Line,
    /// What it says.
    pub kind: StatementKind,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `# text`
    Comment(Box<str>),
    /// `create name type options`
    Create(Create),
    /// `add name member options`
    Add(Add),
    /// `flush name`
    Flush(Box<str>),
}

/// A type of set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetType {
    /// Its name.
    pub name: &'static str,
    /// Its dimensions; none for a list of sets.
    pub dimensions: &'static [SetDimension],
    /// Whether its addresses may be networks.
    pub networks: bool,
    /// Whether its family is fixed to IPv4, or it has none.
    pub family: TypeFamily,
    /// Whether its members are kept as written: of these types, only hash:mac can be tested.
    pub kept: bool,
}

/// Families of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeFamily {
    /// Chosen by the option `family`.
    Chosen,
    /// Always IPv4.
    V4,
    /// No addresses.
    None,
}

const ADDRESS: SetDimension = SetDimension::Address;
const PORT: SetDimension = SetDimension::ProtoPort;

const fn hash(name: &'static str, dimensions: &'static [SetDimension], networks: bool) -> SetType {
    SetType {
        name,
        dimensions,
        networks,
        family: TypeFamily::Chosen,
        kept: false,
    }
}

const fn kept(name: &'static str, family: TypeFamily) -> SetType {
    SetType {
        name,
        dimensions: &[],
        networks: false,
        family,
        kept: true,
    }
}

/// The types that are read.
pub static TYPES: &[SetType] = &[
    hash("hash:ip", &[ADDRESS], false),
    hash("hash:net", &[ADDRESS], true),
    hash("hash:ip,port", &[ADDRESS, PORT], false),
    hash("hash:net,port", &[ADDRESS, PORT], true),
    hash("hash:ip,port,ip", &[ADDRESS, PORT, ADDRESS], false),
    hash("hash:ip,port,net", &[ADDRESS, PORT, ADDRESS], true),
    hash("hash:net,net", &[ADDRESS, ADDRESS], true),
    hash("hash:net,port,net", &[ADDRESS, PORT, ADDRESS], true),
    SetType {
        name: "bitmap:ip",
        dimensions: &[ADDRESS],
        networks: false,
        family: TypeFamily::V4,
        kept: false,
    },
    SetType {
        name: "bitmap:port",
        dimensions: &[SetDimension::Port],
        networks: false,
        family: TypeFamily::None,
        kept: false,
    },
    SetType {
        name: "list:set",
        dimensions: &[],
        networks: false,
        family: TypeFamily::None,
        kept: false,
    },
    kept("hash:mac", TypeFamily::None),
    kept("hash:ip,mac", TypeFamily::Chosen),
    kept("hash:ip,mark", TypeFamily::Chosen),
    kept("hash:net,iface", TypeFamily::Chosen),
    kept("bitmap:ip,mac", TypeFamily::V4),
];

/// `create name type options`
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub set_type: &'static SetType,
    /// Family of its addresses.
    pub family: Option<Family>,
    /// Options, in the order written, without `family`.
    pub options: Vec<SetOption>,
}

/// `add name member options`
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    /// The set.
    pub name: Box<str>,
    /// The member.
    pub member: Member,
    /// Options, in the order written.
    pub options: Vec<SetOption>,
}

/// A member of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    /// A value for each dimension.
    Parts(Vec<Part>),
    /// A set, in a list of sets.
    Set(Box<str>),
    /// As written.
    Kept(Box<str>),
}

/// The value of a member in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An address with the length of its prefix.
    Network(IpAddr, u8),
    /// All addresses from the first to the last.
    Range(IpAddr, IpAddr),
    /// Protocol (where the type has one) and ports from the first to the last.
    Ports(Option<u8>, u16, u16),
    /// ICMP or ICMPv6 (the flag) with type and code.
    Icmp(bool, u8, u8),
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOption {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OptionValue,
    /// Where it stands.
    pub at: Place,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// None.
    Flag,
    /// A number.
    Number(u64),
    /// A text.
    Text(Box<str>),
}

/// How the value of an option is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// No value.
    Flag,
    /// A number up to this.
    Number(u64),
    /// One word, kept.
    Word,
    /// A quoted text.
    Text,
}

const U32: u64 = u32::MAX as u64;
/// The longest time that ipset keeps (its timeouts are milliseconds in 32 bits).
const TIMEOUT_MAX: u64 = 2_147_483;

/// Options of `create`.
pub static CREATE_OPTIONS: &[(&str, OptionKind)] = &[
    ("hashsize", OptionKind::Number(U32)),
    ("maxelem", OptionKind::Number(U32)),
    ("bucketsize", OptionKind::Number(255)),
    ("initval", OptionKind::Word),
    ("netmask", OptionKind::Number(128)),
    ("markmask", OptionKind::Number(U32)),
    ("range", OptionKind::Word),
    ("size", OptionKind::Number(U32)),
    ("timeout", OptionKind::Number(TIMEOUT_MAX)),
    ("counters", OptionKind::Flag),
    ("comment", OptionKind::Flag),
    ("skbinfo", OptionKind::Flag),
    ("forceadd", OptionKind::Flag),
    ("-exist", OptionKind::Flag),
];

/// Options of `add`.
pub static ADD_OPTIONS: &[(&str, OptionKind)] = &[
    ("timeout", OptionKind::Number(TIMEOUT_MAX)),
    ("packets", OptionKind::Number(u64::MAX)),
    ("bytes", OptionKind::Number(u64::MAX)),
    ("comment", OptionKind::Text),
    ("nomatch", OptionKind::Flag),
    ("wildcard", OptionKind::Flag),
    ("skbmark", OptionKind::Word),
    ("skbprio", OptionKind::Word),
    ("skbqueue", OptionKind::Number(65_535)),
    ("before", OptionKind::Word),
    ("after", OptionKind::Word),
    ("-exist", OptionKind::Flag),
];

/// The option of this name.
#[must_use]
pub fn option<'o>(options: &'o [SetOption], name: &str) -> Option<&'o SetOption> {
    options.iter().find(|option| option.name == name)
}
