//! Names of ICMP and ICMPv6 types and codes, as iptables reads them.

/// Name, type, first and last code.
type Row = (&'static str, u8, u8, u8);

/// ICMP (RFC 792, RFC 950, RFC 1256, RFC 1812).
#[rustfmt::skip]
static ICMP: &[Row] = &[
    ("echo-reply", 0, 0, 255), ("pong", 0, 0, 255),
    ("destination-unreachable", 3, 0, 255),
    ("network-unreachable", 3, 0, 0), ("host-unreachable", 3, 1, 1),
    ("protocol-unreachable", 3, 2, 2), ("port-unreachable", 3, 3, 3),
    ("fragmentation-needed", 3, 4, 4), ("source-route-failed", 3, 5, 5),
    ("network-unknown", 3, 6, 6), ("host-unknown", 3, 7, 7),
    ("network-prohibited", 3, 9, 9), ("host-prohibited", 3, 10, 10),
    ("TOS-network-unreachable", 3, 11, 11), ("TOS-host-unreachable", 3, 12, 12),
    ("communication-prohibited", 3, 13, 13), ("host-precedence-violation", 3, 14, 14),
    ("precedence-cutoff", 3, 15, 15),
    ("source-quench", 4, 0, 255),
    ("redirect", 5, 0, 255), ("network-redirect", 5, 0, 0), ("host-redirect", 5, 1, 1),
    ("TOS-network-redirect", 5, 2, 2), ("TOS-host-redirect", 5, 3, 3),
    ("echo-request", 8, 0, 255), ("ping", 8, 0, 255),
    ("router-advertisement", 9, 0, 255), ("router-solicitation", 10, 0, 255),
    ("time-exceeded", 11, 0, 255), ("ttl-exceeded", 11, 0, 255),
    ("ttl-zero-during-transit", 11, 0, 0), ("ttl-zero-during-reassembly", 11, 1, 1),
    ("parameter-problem", 12, 0, 255), ("ip-header-bad", 12, 0, 0),
    ("required-option-missing", 12, 1, 1),
    ("timestamp-request", 13, 0, 255), ("timestamp-reply", 14, 0, 255),
    ("address-mask-request", 17, 0, 255), ("address-mask-reply", 18, 0, 255),
];

/// ICMPv6 (RFC 4443, RFC 4861).
#[rustfmt::skip]
static ICMPV6: &[Row] = &[
    ("destination-unreachable", 1, 0, 255), ("no-route", 1, 0, 0),
    ("communication-prohibited", 1, 1, 1), ("beyond-scope", 1, 2, 2),
    ("address-unreachable", 1, 3, 3), ("port-unreachable", 1, 4, 4),
    ("failed-policy", 1, 5, 5), ("reject-route", 1, 6, 6),
    ("packet-too-big", 2, 0, 255),
    ("time-exceeded", 3, 0, 255), ("ttl-exceeded", 3, 0, 255),
    ("ttl-zero-during-transit", 3, 0, 0), ("ttl-zero-during-reassembly", 3, 1, 1),
    ("parameter-problem", 4, 0, 255), ("bad-header", 4, 0, 0),
    ("unknown-header-type", 4, 1, 1), ("unknown-option", 4, 2, 2),
    ("echo-request", 128, 0, 255), ("ping", 128, 0, 255),
    ("echo-reply", 129, 0, 255), ("pong", 129, 0, 255),
    ("router-solicitation", 133, 0, 255), ("router-advertisement", 134, 0, 255),
    ("neighbour-solicitation", 135, 0, 255), ("neighbor-solicitation", 135, 0, 255),
    ("neighbour-advertisement", 136, 0, 255), ("neighbor-advertisement", 136, 0, 255),
    ("redirect", 137, 0, 255),
];

/// What a type name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Type.
    pub kind: u8,
    /// First and last code.
    pub codes: (u8, u8),
}

fn table(ipv6: bool) -> &'static [Row] {
    if ipv6 { ICMPV6 } else { ICMP }
}

/// Looks a type name up; `None` when it is unknown or the beginning of several.
#[must_use]
pub fn named(word: &str, ipv6: bool) -> Option<Named> {
    let rows = table(ipv6);
    match super::look_up(word, rows.iter().map(|row| row.0)) {
        super::Lookup::Found(index) => {
            let (_, kind, first, last) = rows[index];
            Some(Named {
                kind,
                codes: (first, last),
            })
        }
        _ => None,
    }
}

/// All names, for suggestions.
pub fn names(ipv6: bool) -> impl Iterator<Item = &'static str> {
    table(ipv6).iter().map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_the_family() {
        assert_eq!(
            named("echo-request", false),
            Some(Named {
                kind: 8,
                codes: (0, 255)
            })
        );
        assert_eq!(
            named("echo-request", true),
            Some(Named {
                kind: 128,
                codes: (0, 255)
            })
        );
        assert_eq!(
            named("fragmentation-needed", false),
            Some(Named {
                kind: 3,
                codes: (4, 4)
            })
        );
        assert_eq!(named("packet-too-big", false), None);
        assert_eq!(named("tos-host", false), None, "two names begin like this");
        assert_eq!(
            named("timestamp-req", false),
            Some(Named {
                kind: 13,
                codes: (0, 255)
            })
        );
    }
}
