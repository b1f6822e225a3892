//! Typed values of options.
//!
//! A [`Kind`] says how an option's words are read and printed; a [`Value`] is what was read.
//! Reading is in `parse::values`; printing is in `print` beside the types, so that both sides of
//! the identity "print, then read" can be compared.

mod calendar;
mod lesser;
mod print;

pub use calendar::{civil, days_from_civil};
pub use lesser::{HEADERS, MH_TYPES, U32, is_readable};
pub use print::{
    MaskText, address_text, choice_name, interface_text, print, probability_bits, push_quoted,
    push_word, rate_unit,
};

use super::names::Transport;
use crate::model::SetField;
use crate::syntax::Place;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address with its mask, or a name still to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4 address and mask.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 address and mask.
    V6(Ipv6Addr, Ipv6Addr),
    /// A host name (with the text of a mask, if one was written).
    Name(Box<str>),
}

/// The addresses of `-s` or `-d`; several make one rule each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `!` before it; only with one address.
    pub negated: bool,
    /// The first address.
    pub first: Address,
    /// The others.
    pub more: Vec<Address>,
    /// The words.
    pub at: Place,
}

impl Addresses {
    /// All of them, in the order written.
    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

/// An interface name, or a beginning (`eth+`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName {
    /// The name without `+`.
    pub name: Box<str>,
    /// Whether any ending fits.
    pub prefix: bool,
}

/// How the value of an option is written.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// No value.
    Flag,
    /// A number between the two, decimal, hexadecimal or octal; printed in decimal.
    Number(u64, u64),
    /// A number up to this, printed as two hexadecimal digits.
    Hex(u64),
    /// `a[:b]` up to this, open ends allowed.
    Range(u32),
    /// `a[:b]`, numbers or service names.
    Ports(Option<Transport>),
    /// Up to 15 ports or ranges.
    PortList,
    /// Two lists of TCP flags.
    TcpFlags,
    /// No value; stands for a certain `--tcp-flags`.
    Syn,
    /// `type[/code]` or a name; the flag says ICMPv6.
    Icmp(bool),
    /// `value[/mask]`, 32 bits.
    Mark,
    /// One of the ways to write `--set-xmark`.
    SetMark(MarkForm),
    /// A 32-bit mask in hexadecimal.
    Mask,
    /// `value[/mask]` or a name, 8 bits; the mask that a name has.
    Tos(u8),
    /// One of the ways to write `--set-tos`.
    SetTos(MarkForm),
    /// A DSCP class.
    DscpClass,
    /// A list of names, comma between them.
    Names(&'static [&'static str]),
    /// One of some names; a second name after `=` stands for the same.
    Choice(&'static [&'static str]),
    /// A kind of REJECT.
    Reject,
    /// A log level.
    LogLevel,
    /// `n[/unit]`
    Rate,
    /// `n[/unit]` or `n[kmg]b/s`
    HashRate,
    /// A number or `n[kmg]b`
    HashBurst,
    /// 0.0 to 1.0
    Probability,
    /// An address with an optional mask, which is not applied.
    Address,
    /// `from[-to]`
    AddressRange,
    /// A netmask.
    AddressMask,
    /// An Ethernet address.
    Mac,
    /// An interface, `+` at its end for any ending.
    Interface,
    /// A text of this many characters (least, most).
    Text(usize, usize),
    /// A protocol.
    Protocol,
    /// The name of a set and directions.
    Set,
    /// `all|any|only` and SCTP chunk types.
    Chunks,
    /// `major:minor`
    Class,
    /// An id, a range of ids, or the name of a user or group.
    Ids,
    /// `[address[-address]][:port[-port[/base]]]`
    NatTo,
    /// `port[-port]`
    NatPorts,
    /// `address[/mask]`
    NetmapTo,
    /// `YYYY[-MM[-DD[Thh[:mm[:ss]]]]]`
    Date,
    /// `hh:mm[:ss]`
    TimeOfDay,
    /// Days of the month.
    MonthDays,
    /// Days of the week.
    WeekDays,
    /// This many words, kept as they are.
    Words(usize),
    /// A text always printed in quotes, up to this long.
    Quoted(usize),
    /// Bytes to look for; the flag says that they may be written in hexadecimal.
    Pattern(bool),
    /// Tests of 32-bit words of the packet.
    U32,
    /// `[a]:[b]` of 64 bits.
    Wide,
    /// A number of this many hexadecimal digits.
    Padded(usize),
    /// `value[/mask]`, or the name that 0 has.
    Named(&'static str),
    /// `number[:length]`, comma between them: options of an IPv6 header.
    HeaderOptions,
    /// A list of IPv6 extension headers.
    Headers,
    /// `a[:b]` of mobility header types.
    Mobility,
    /// A length of time with `us`, `ms` or `s`, in microseconds.
    Span,
    /// TCP options, numbers or names.
    TcpOptions,
    /// The number of a zone, or `mark`.
    Zone,
    /// `value[/mask]`, the mask always printed.
    FullMark,
    /// An address, its mask always printed.
    Prefix,
    /// A port, number or service name.
    Port,
}

/// The ways to write a change of a mark or of the TOS byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkForm {
    /// `value/mask`: clear mask, exclusive-or value.
    Xor,
    /// `value/mask`: clear mask, or value.
    Set,
    /// `bits`: keep only these.
    And,
    /// `bits`: set these.
    Or,
    /// `bits`: flip these.
    Flip,
}

/// A named set with directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUse {
    /// Its name.
    pub name: Box<str>,
    /// Which packet field feeds each dimension.
    pub fields: Vec<SetField>,
}

/// SCTP chunk types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// 0 all, 1 any, 2 only.
    pub kind: u8,
    /// One bit a type.
    pub types: [u64; 4],
    /// Type, mask and value of flags, sorted by type.
    pub flags: Vec<(u8, u8, u8)>,
}

/// A translation target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatTo {
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
    /// Port that the first port stands for.
    pub base: Option<u16>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Flag,
    /// A number, the index of a name, seconds, days as bits, a probability of 2^31.
    Number(u64),
    /// First and last.
    Range(u32, u32),
    /// Ports and ranges of ports, as written.
    Ports(Box<[(u16, u16)]>),
    /// Value and mask.
    Masked(u32, u32),
    /// ICMP type (`None`: any) and codes.
    Icmp(Option<u8>, (u8, u8)),
    /// An address.
    Address(Box<Address>),
    /// First and last address.
    Addresses(Box<(IpAddr, IpAddr)>),
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An interface.
    Interface(InterfaceName),
    /// A text.
    Text(Box<str>),
    /// Words, kept.
    Words(Box<[Box<str>]>),
    /// Time for one packet: in units of 1/10000 s (limit) or 1/1000000 s (hashlimit).
    Period(u32),
    /// Bytes (a second, or of burst).
    Bytes(u64),
    /// A set.
    Set(Box<SetUse>),
    /// Chunk types.
    Chunks(Box<Chunks>),
    /// A translation target.
    Nat(Box<NatTo>),
    /// Bytes to look for.
    Pattern(Box<[u8]>),
    /// Tests of words.
    U32(Box<U32>),
    /// First and last.
    Wide(u64, u64),
    /// One bit for each number up to 255.
    Bits(Box<[u64; 4]>),
}
