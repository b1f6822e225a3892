//! Protocol names, as Debian's `/etc/protocols` has them, and the few that iptables adds.

/// Number and the name that is printed.
#[rustfmt::skip]
static PROTOCOLS: &[(u8, &str)] = &[
    (0, "ip"), (1, "icmp"), (2, "igmp"), (3, "ggp"), (4, "ipencap"), (5, "st"), (6, "tcp"),
    (8, "egp"), (9, "igp"), (12, "pup"), (17, "udp"), (20, "hmp"), (22, "xns-idp"), (27, "rdp"),
    (29, "iso-tp4"), (33, "dccp"), (36, "xtp"), (37, "ddp"), (38, "idpr-cmtp"), (41, "ipv6"),
    (43, "ipv6-route"), (44, "ipv6-frag"), (45, "idrp"), (46, "rsvp"), (47, "gre"), (50, "esp"),
    (51, "ah"), (57, "skip"), (58, "ipv6-icmp"), (59, "ipv6-nonxt"), (60, "ipv6-opts"),
    (73, "rspf"), (81, "vmtp"), (88, "eigrp"), (89, "ospf"), (93, "ax.25"), (94, "ipip"),
    (97, "etherip"), (98, "encap"), (103, "pim"), (108, "ipcomp"), (112, "vrrp"), (115, "l2tp"),
    (124, "isis"), (132, "sctp"), (133, "fc"), (135, "mobility-header"), (136, "udplite"),
    (137, "mpls-in-ip"), (138, "manet"), (139, "hip"), (140, "shim6"), (141, "wesp"),
    (142, "rohc"), (143, "ethernet"),
];

/// Other names that are read.
static ALIASES: &[(u8, &str)] = &[
    (0, "all"),
    (0, "hopopt"),
    (58, "icmpv6"),
    (58, "icmp6"),
    (135, "mh"),
    (135, "ipv6-mh"),
    (4, "ip-encap"),
    (4, "ipv4"),
    (89, "ospfigp"),
    (73, "cphb"),
    (50, "ipsec-esp"),
    (51, "ipsec-ah"),
];

/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP.
pub const ICMP: u8 = 1;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// SCTP.
pub const SCTP: u8 = 132;
/// DCCP.
pub const DCCP: u8 = 33;
/// UDP-Lite.
pub const UDPLITE: u8 = 136;
/// ESP.
pub const ESP: u8 = 50;
/// AH.
pub const AH: u8 = 51;
/// IP payload compression.
pub const IPCOMP: u8 = 108;
/// IPv6 mobility header.
pub const MOBILITY: u8 = 135;

/// The number of a protocol name; 0 is every protocol.
#[must_use]
pub fn number(name: &str) -> Option<u8> {
    PROTOCOLS
        .iter()
        .chain(ALIASES)
        .find(|row| row.1.eq_ignore_ascii_case(name))
        .map(|row| row.0)
}

/// The name that is printed for a number, if it has one.
#[must_use]
pub fn name(number: u8) -> Option<&'static str> {
    PROTOCOLS
        .iter()
        .find(|row| row.0 == number && number != 0)
        .map(|row| row.1)
}

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().chain(ALIASES).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_name_reads_back() {
        for n in 1..=255 {
            if let Some(name) = name(n) {
                assert_eq!(number(name), Some(n));
            }
        }
        assert_eq!(number("IPv6-ICMP"), Some(ICMPV6));
        assert_eq!(number("ipv6-mh"), Some(MOBILITY));
        assert_eq!(number("all"), Some(0));
        assert_eq!(name(0), None);
        assert_eq!(name(200), None);
    }
}
