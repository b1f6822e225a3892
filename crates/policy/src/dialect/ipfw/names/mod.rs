//! Words that stand for numbers: protocols, services, ICMP codes, flags, DSCP, Ethernet types.
//!
//! In: a word or a number. Out: the other. The databases are FreeBSD's and travel with weir, so
//! that a name means here what it meant there.
//!
//! Source: ipfw(8) of FreeBSD 13 and 14; RFC 792, 1812, 2474, 2597, 3246, 4443, 9293.

pub mod protocols;
pub mod services;

use super::ast::Flags;

/// A word and its number.
pub type Names = [(&'static str, u32)];

/// TCP flags, in the order in which they are printed.
pub const TCP_FLAGS: &Names = &[
    ("syn", 0x02),
    ("fin", 0x01),
    ("ack", 0x10),
    ("psh", 0x08),
    ("rst", 0x04),
    ("urg", 0x20),
];

/// TCP options.
pub const TCP_OPTIONS: &Names = &[
    ("mss", 0x01),
    ("maxseg", 0x01),
    ("window", 0x02),
    ("sack", 0x04),
    ("ts", 0x08),
    ("timestamp", 0x08),
    ("cc", 0x10),
];

/// IPv4 options.
pub const IP_OPTIONS: &Names = &[("ssrr", 0x01), ("lsrr", 0x02), ("rr", 0x04), ("ts", 0x08)];

/// Bits of the type of service. The last two are the ECN bits and overlap `mincost`.
pub const IP_TOS: &Names = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("mincost", 0x02),
    ("congestion", 0x03),
    ("ecntransport", 0x02),
];

/// Fragment flags.
pub const FRAGMENT: &Names = &[("rf", 0x80), ("df", 0x40), ("mf", 0x20), ("offset", 0x01)];

/// IPv6 extension headers.
pub const EXTENSIONS: &Names = &[
    ("frag", 0x01),
    ("hopopt", 0x02),
    ("route", 0x04),
    ("dstopt", 0x20),
    ("ah", 0x08),
    ("esp", 0x10),
    ("rthdr0", 0x40),
    ("rthdr2", 0x80),
];

/// DSCP names; where two have one number the first is printed.
pub const DSCP: &Names = &[
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("be", 0),
    ("va", 44),
    ("ef", 46),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
];

/// Codes of ICMP destination unreachable.
pub const UNREACH: &Names = &[
    ("net", 0),
    ("host", 1),
    ("protocol", 2),
    ("port", 3),
    ("needfrag", 4),
    ("srcfail", 5),
    ("net-unknown", 6),
    ("host-unknown", 7),
    ("isolated", 8),
    ("net-prohib", 9),
    ("host-prohib", 10),
    ("tosnet", 11),
    ("toshost", 12),
    ("filter-prohib", 13),
    ("host-precedence", 14),
    ("precedence-cutoff", 15),
];

/// Codes of ICMPv6 destination unreachable.
pub const UNREACH6: &Names = &[
    ("no-route", 0),
    ("admin-prohib", 1),
    ("address", 3),
    ("port", 4),
];

/// Ethernet types.
pub const ETHERNET: &Names = &[
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("vlan", 0x8100),
    ("loop", 0x9000),
    ("trail", 0x1000),
    ("at", 0x809b),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("pppoe_disc", 0x8863),
    ("pppoe_sess", 0x8864),
    ("ipx_8022", 0x00e0),
    ("ipx_8023", 0x0000),
    ("ipx_ii", 0x8137),
    ("ipx_snap", 0x8137),
    ("ipx", 0x8137),
    ("ns", 0x0600),
];

/// Fields of `limit`, in the order in which they are printed.
pub const LIMIT_FIELDS: &Names = &[
    ("all", 0x0f),
    ("src-addr", 0x01),
    ("src-port", 0x02),
    ("dst-addr", 0x04),
    ("dst-port", 0x08),
];

/// Where log lines go.
pub const LOG_DESTINATIONS: &Names = &[("syslog", 1), ("ipfw0", 2), ("rtsock", 4)];

/// The number of a word.
#[must_use]
pub fn number(names: &Names, word: &str) -> Option<u32> {
    let found = names.iter().find(|(name, _)| *name == word);
    found.map(|(_, number)| *number)
}

/// The first word of a number.
#[must_use]
pub fn word(names: &Names, number: u32) -> Option<&'static str> {
    let found = names.iter().find(|(_, value)| *value == number);
    found.map(|(name, _)| *name)
}

/// Flags as they are printed: each bit under the first name that covers it, `!` for clear ones.
#[must_use]
pub fn flag_list(names: &Names, flags: Flags) -> String {
    let (mut set, mut clear) = (u32::from(flags.set), u32::from(flags.clear));
    let mut out: Vec<String> = Vec::new();
    for (name, bits) in names {
        if set & bits != 0 {
            set &= !bits;
            out.push((*name).to_owned());
        }
        if clear & bits != 0 {
            clear &= !bits;
            out.push(format!("!{name}"));
        }
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_mean_on_freebsd() {
        assert_eq!(protocols::number("icmp6"), Some(58));
        assert_eq!(protocols::number("TCP"), Some(6));
        assert_eq!(protocols::name(58), Some("ipv6-icmp"));
        assert_eq!(services::port("natd", services::DIVERT), Some(8668));
        assert_eq!(services::port("syslog", 6), None);
        assert_eq!(services::port("syslog", 17), Some(514));
        assert_eq!(services::name(513, 17), Some("who"));
        assert_eq!(services::port("https", 0), Some(443));
        assert_eq!(services::port("https", 1), None);
    }

    #[test]
    fn overlapping_flags_print_under_the_first_name() {
        let flags = Flags { set: 3, clear: 0 };
        assert_eq!(flag_list(IP_TOS, flags), "mincost,congestion");
        let flags = Flags {
            set: 2,
            clear: 0x10,
        };
        assert_eq!(flag_list(TCP_FLAGS, flags), "syn,!ack");
    }
}
