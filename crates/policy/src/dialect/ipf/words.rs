//! Words that stand for numbers: ICMP types and codes, options, classes, facilities.
//!
//! Each table is in the order of its bits, which is the order of printing. Sources: RFC 791, 792,
//! 1108, 4443; `ipf(5)`; the order of printing is that of 5.1.2.

use crate::dialect::ipfw::names::services as freebsd;
use crate::dialect::iptables::names::{Transport, services};
use crate::model::Family;

/// Names of ICMP types: type and name; the first name of a type is the one that is printed.
pub static ICMP_TYPES: &[(u8, &str)] = &[
    (0, "echorep"),
    (3, "unreach"),
    (4, "squench"),
    (5, "redir"),
    (8, "echo"),
    (9, "routerad"),
    (10, "routersol"),
    (11, "timex"),
    (12, "paramprob"),
    (13, "timest"),
    (14, "timestrep"),
    (15, "inforeq"),
    (16, "inforep"),
    (17, "maskreq"),
    (18, "maskrep"),
];

/// Names of ICMPv6 types.
pub static ICMP6_TYPES: &[(u8, &str)] = &[
    (1, "unreach"),
    (2, "toobig"),
    (3, "timex"),
    (4, "paramprob"),
    (128, "echo"),
    (129, "echorep"),
    (130, "listenqry"),
    (130, "memberqry"),
    (131, "listenrep"),
    (131, "memberreply"),
    (132, "listendone"),
    (132, "memberred"),
    (133, "routersol"),
    (133, "routersolcit"),
    (134, "routerad"),
    (134, "routeradvert"),
    (135, "neighborsol"),
    (135, "neighborsolicit"),
    (136, "neighadvert"),
    (137, "redir"),
    (138, "renumber"),
    (139, "inforeq"),
    (139, "infoqry"),
    (139, "whoreq"),
    (139, "fqdnquery"),
    (140, "inforep"),
    (140, "whorep"),
    (140, "fqdnreply"),
];

/// Names of the codes of ICMP unreachable, by code.
pub static ICMP_CODES: [&str; 16] = [
    "net-unr",
    "host-unr",
    "proto-unr",
    "port-unr",
    "needfrag",
    "srcfail",
    "net-unk",
    "host-unk",
    "isolate",
    "net-prohib",
    "host-prohib",
    "net-tos",
    "host-tos",
    "filter-prohib",
    "host-preced",
    "cutoff-preced",
];

/// The types of a family.
#[must_use]
pub fn icmp_types(family: Family) -> &'static [(u8, &'static str)] {
    match family {
        Family::V4 => ICMP_TYPES,
        Family::V6 => ICMP6_TYPES,
    }
}

/// The type of this name.
#[must_use]
pub fn icmp_type(family: Family, name: &str) -> Option<u8> {
    let mut rows = icmp_types(family).iter();
    rows.find(|row| row.1.eq_ignore_ascii_case(name))
        .map(|row| row.0)
}

/// The name that is printed for a type.
#[must_use]
pub fn icmp_type_name(family: Family, kind: u8) -> Option<&'static str> {
    let mut rows = icmp_types(family).iter();
    rows.find(|row| row.0 == kind).map(|row| row.1)
}

/// The code of this name.
#[must_use]
pub fn icmp_code(name: &str) -> Option<u8> {
    position(&ICMP_CODES, name)
}

/// An IPv4 option: name, number on the wire, bytes that a test packet gets.
#[derive(Clone, Copy, Debug)]
pub struct IpOption {
    /// Name.
    pub name: &'static str,
    /// The type byte.
    pub number: u8,
    /// Bytes in packets written as text.
    pub size: u8,
}

const fn option(name: &'static str, number: u8, size: u8) -> IpOption {
    IpOption { name, number, size }
}

/// IPv4 options, by bit.
pub static IP_OPTIONS: [IpOption; 24] = [
    option("nop", 1, 1),
    option("rr", 7, 8),
    option("zsu", 10, 4),
    option("mtup", 11, 4),
    option("mtur", 12, 4),
    option("encode", 15, 4),
    option("ts", 68, 8),
    option("tr", 82, 4),
    option("sec", 130, 12),
    option("lsrr", 131, 8),
    option("e-sec", 133, 8),
    option("cipso", 134, 8),
    option("satid", 136, 4),
    option("ssrr", 137, 8),
    option("addext", 147, 4),
    option("visa", 142, 4),
    option("imitd", 144, 4),
    option("eip", 145, 4),
    option("finn", 205, 4),
    option("dps", 151, 4),
    option("sdb", 149, 4),
    option("nsapa", 150, 4),
    option("rtralrt", 148, 4),
    option("ump", 152, 4),
];

/// The bit of `sec`, which `sec-class` shares.
pub const OPTION_SEC: u32 = 1 << 8;
/// The bit of `cipso`.
pub const OPTION_CIPSO: u32 = 1 << 11;

/// The bit of an option of this name.
#[must_use]
pub fn ip_option(name: &str) -> Option<u32> {
    let at = IP_OPTIONS
        .iter()
        .position(|row| row.name.eq_ignore_ascii_case(name))?;
    Some(1 << at)
}

/// The bit of an option of this number.
#[must_use]
pub fn ip_option_bit(number: u8) -> u32 {
    match IP_OPTIONS.iter().position(|row| row.number == number) {
        Some(at) => 1 << at,
        None => 0,
    }
}

/// Security classes (RFC 1108): name and value on the wire, by bit.
pub static CLASSES: [(&str, u8); 8] = [
    ("reserv-4", 0x01),
    ("topsecret", 0x3d),
    ("secret", 0x5a),
    ("reserv-3", 0x66),
    ("confid", 0x96),
    ("unclass", 0xab),
    ("reserv-2", 0xcc),
    ("reserv-1", 0xf1),
];

/// The bit of a class of this name.
#[must_use]
pub fn class(name: &str) -> Option<u8> {
    let at = CLASSES
        .iter()
        .position(|row| row.0.eq_ignore_ascii_case(name))?;
    Some(1 << at)
}

/// The bit of a class with this value.
#[must_use]
pub fn class_bit(value: u8) -> u8 {
    match CLASSES.iter().position(|row| row.1 == value) {
        Some(at) => 1 << at,
        None => 0,
    }
}

/// IPv6 headers: name and protocol number, by bit.
pub static HEADERS: [(&str, u8); 9] = [
    ("hopopts", 0),
    ("ipv6", 41),
    ("routing", 43),
    ("frag", 44),
    ("esp", 50),
    ("ah", 51),
    ("none", 59),
    ("dstopts", 60),
    ("mobility", 135),
];

/// The bit of a header of this name.
#[must_use]
pub fn header(name: &str) -> Option<u16> {
    let at = HEADERS
        .iter()
        .position(|row| row.0.eq_ignore_ascii_case(name))?;
    Some(1 << at)
}

/// The bit of a header of this number.
#[must_use]
pub fn header_bit(number: u8) -> u16 {
    match HEADERS.iter().position(|row| row.1 == number) {
        Some(at) => 1 << at,
        None => 0,
    }
}

/// Bits of packets that `with` asks about, named after its words.
pub mod attribute {
    /// IPv4 options are there.
    pub const IPOPTS: u32 = 1 << 0;
    /// A header is cut short.
    pub const SHORT: u32 = 1 << 1;
    /// A fragment.
    pub const FRAG: u32 = 1 << 2;
    /// A fragment that is not the first.
    pub const FRAG_BODY: u32 = 1 << 3;
    /// Translated.
    pub const NAT: u32 = 1 << 4;
    /// Few hops left.
    pub const LOWTTL: u32 = 1 << 5;
    /// Malformed.
    pub const BAD: u32 = 1 << 6;
    /// From where it cannot be from.
    pub const BAD_SRC: u32 = 1 << 7;
    /// Could not be translated.
    pub const BAD_NAT: u32 = 1 << 8;
    /// Outside the window of its connection.
    pub const OOW: u32 = 1 << 9;
    /// To many, by whatever way.
    pub const MBCAST: u32 = 1 << 10;
    /// Link-layer broadcast.
    pub const BCAST: u32 = 1 << 11;
    /// Multicast.
    pub const MCAST: u32 = 1 << 12;
    /// Belongs to a state entry.
    pub const STATE: u32 = 1 << 13;
    /// IPv6 extension headers are there.
    pub const V6HDRS: u32 = 1 << 14;
    /// An authentication header is there.
    pub const AH: u32 = 1 << 15;
}

/// Words of `with` and their bits, in the order of printing.
pub static ATTRIBUTES: &[(&str, u32)] = &[
    ("ipopts", attribute::IPOPTS),
    ("short", attribute::SHORT),
    ("frag", attribute::FRAG),
    ("frag-body", attribute::FRAG_BODY),
    ("nat", attribute::NAT),
    ("lowttl", attribute::LOWTTL),
    ("bad", attribute::BAD),
    ("bad-src", attribute::BAD_SRC),
    ("bad-nat", attribute::BAD_NAT),
    ("oow", attribute::OOW),
    ("mbcast", attribute::MBCAST),
    ("bcast", attribute::BCAST),
    ("mcast", attribute::MCAST),
    ("state", attribute::STATE),
    ("v6hdrs", attribute::V6HDRS),
    ("ah", attribute::AH),
];

/// The bit of a word of `with`, other spellings included.
#[must_use]
pub fn attribute(name: &str) -> Option<u32> {
    let name = match () {
        () if name.eq_ignore_ascii_case("frags") => "frag",
        () if name.eq_ignore_ascii_case("multicast") => "mcast",
        () if name.eq_ignore_ascii_case("ipopt") => "ipopts",
        () => name,
    };
    let mut rows = ATTRIBUTES.iter();
    rows.find(|row| row.0.eq_ignore_ascii_case(name))
        .map(|row| row.1)
}

/// Letters of TCP flags, by bit.
pub const FLAG_LETTERS: &str = "FSRPAUEC";
/// The mask of `flags X` without a mask: E and C are not looked at.
pub const FLAGS_DEFAULT_MASK: u8 = 0x3f;

/// Syslog facilities.
pub static FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "ftp",
    "authpriv", "audit", "logalert", "console", "security", "local0", "local1", "local2", "local3",
    "local4", "local5", "local6", "local7",
];
/// The facility of `level PRIORITY`.
pub const FACILITY_DEFAULT: u8 = 16;

/// Syslog priorities, by number.
pub static PRIORITIES: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warn", "notice", "info", "debug",
];

/// The index of a name, letter case counting for nothing.
#[must_use]
pub fn position(names: &[&str], name: &str) -> Option<u8> {
    let at = names
        .iter()
        .position(|known| known.eq_ignore_ascii_case(name))?;
    u8::try_from(at).ok()
}

/// The port of a service: by the names of Linux; what has no such name at all, by FreeBSD's, where
/// such rules come from (`nfsd`, `lockd`, `rpcbind`).
#[must_use]
pub fn service(name: &str, transport: Option<Transport>) -> Option<u16> {
    let number = match transport {
        None => 0,
        Some(Transport::Tcp) => 6,
        Some(Transport::Udp) => 17,
        Some(Transport::Sctp) => 132,
    };
    match services::port(name, None) {
        Some(_) => services::port(name, transport),
        None => freebsd::port(name, number),
    }
}

/// ICMP messages that a state can begin with: queries (echo, timestamp, information, mask), and in
/// IPv6 echo, and queries of listeners, routers, neighbours and nodes.
#[must_use]
pub fn begins_state(family: Family, kind: u8) -> bool {
    let queries: &[u8] = match family {
        Family::V4 => &[8, 13, 15, 17],
        Family::V6 => &[128, 130, 133, 135, 139],
    };
    queries.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_bits_and_back() {
        for (at, row) in IP_OPTIONS.iter().enumerate() {
            assert_eq!(ip_option(row.name), Some(1 << at));
            assert_eq!(ip_option_bit(row.number), 1 << at);
        }
        assert_eq!(ip_option("sec"), Some(OPTION_SEC));
        assert_eq!(ip_option("cipso"), Some(OPTION_CIPSO));
        for (kind, name) in ICMP6_TYPES.iter().chain(ICMP_TYPES) {
            let known = [Family::V4, Family::V6].map(|family| icmp_type(family, name));
            assert!(known.contains(&Some(*kind)), "{name}");
        }
        assert_eq!(icmp_code("FILTER-prohib"), Some(13));
        assert_eq!(attribute("multicast"), Some(attribute::MCAST));
        assert_eq!(class_bit(0x3d), class("topsecret").unwrap());
        assert_eq!(header_bit(44), header("frag").unwrap());
        assert_eq!(service("nfsd", Some(Transport::Udp)), Some(2049));
        assert_eq!(service("domain", None), Some(53));
        assert_eq!(service("login", Some(Transport::Udp)), None);
        assert_eq!(service("nobody", None), None);
    }
}
