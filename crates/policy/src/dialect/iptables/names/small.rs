//! Small vocabularies: DSCP classes, TOS names, log levels, reject kinds, states, days, TCP flags.

/// DSCP classes (RFC 2474, RFC 2597, RFC 3246).
#[rustfmt::skip]
pub static DSCP_CLASSES: &[(&str, u8)] = &[
    ("BE", 0), ("CS0", 0), ("CS1", 8), ("CS2", 16), ("CS3", 24), ("CS4", 32), ("CS5", 40),
    ("CS6", 48), ("CS7", 56), ("AF11", 10), ("AF12", 12), ("AF13", 14), ("AF21", 18),
    ("AF22", 20), ("AF23", 22), ("AF31", 26), ("AF32", 28), ("AF33", 30), ("AF41", 34),
    ("AF42", 36), ("AF43", 38), ("EF", 46),
];

/// Names of TOS values (RFC 1349).
pub static TOS_NAMES: &[(&str, u8)] = &[
    ("Minimize-Delay", 0x10),
    ("Maximize-Throughput", 0x08),
    ("Maximize-Reliability", 0x04),
    ("Minimize-Cost", 0x02),
    ("Normal-Service", 0x00),
];

/// Names of syslog levels. `err` and `warn` are not among them in the original.
pub static LOG_LEVELS: &[(&str, u8)] = &[
    ("emerg", 0),
    ("panic", 0),
    ("alert", 1),
    ("crit", 2),
    ("error", 3),
    ("warning", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
];

/// A kind of REJECT: the name that is printed, another name, and the ICMP code it sends.
pub type RejectRow = (&'static str, &'static str, Option<u8>);

/// Kinds of REJECT for IPv4; no code means TCP RST.
pub static REJECT_V4: &[RejectRow] = &[
    ("icmp-net-unreachable", "net-unreach", Some(0)),
    ("icmp-host-unreachable", "host-unreach", Some(1)),
    ("icmp-proto-unreachable", "proto-unreach", Some(2)),
    ("icmp-port-unreachable", "port-unreach", Some(3)),
    ("icmp-net-prohibited", "net-prohib", Some(9)),
    ("icmp-host-prohibited", "host-prohib", Some(10)),
    ("icmp-admin-prohibited", "admin-prohib", Some(13)),
    ("tcp-reset", "tcp-rst", None),
];

/// Kinds of REJECT for IPv6.
pub static REJECT_V6: &[RejectRow] = &[
    ("icmp6-no-route", "no-route", Some(0)),
    ("icmp6-adm-prohibited", "adm-prohibited", Some(1)),
    ("icmp6-addr-unreachable", "addr-unreach", Some(3)),
    ("icmp6-port-unreachable", "port-unreach", Some(4)),
    ("icmp6-policy-fail", "policy-fail", Some(5)),
    ("icmp6-reject-route", "reject-route", Some(6)),
    ("tcp-reset", "tcp-reset", None),
];

/// Connection states of `-m state`, in the order in which they are printed; bit n is name n.
pub static STATES: &[&str] = &["INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED"];

/// Connection states of `-m conntrack`.
pub static CT_STATES: &[&str] = &[
    "INVALID",
    "NEW",
    "RELATED",
    "ESTABLISHED",
    "UNTRACKED",
    "SNAT",
    "DNAT",
];

/// Connection statuses of `-m conntrack`.
pub static CT_STATUSES: &[&str] = &["NONE", "EXPECTED", "SEEN_REPLY", "ASSURED", "CONFIRMED"];

/// Routing types of addresses.
#[rustfmt::skip]
pub static ADDRESS_TYPES: &[&str] = &[
    "UNSPEC", "UNICAST", "LOCAL", "BROADCAST", "ANYCAST", "MULTICAST", "BLACKHOLE",
    "UNREACHABLE", "PROHIBIT", "THROW", "NAT", "XRESOLVE",
];

/// What a hash limit keeps apart.
pub static HASH_MODES: &[&str] = &["srcip", "srcport", "dstip", "dstport"];

/// Connection tracking events.
#[rustfmt::skip]
pub static CT_EVENTS: &[&str] = &[
    "new", "related", "destroy", "reply", "assured", "protoinfo", "helper", "mark",
    "natseqinfo", "secmark", "label", "synproxy",
];

/// DCCP packet types by number (RFC 4340 section 5.1).
#[rustfmt::skip]
pub static DCCP_TYPES: &[&str] = &[
    "REQUEST", "RESPONSE", "DATA", "ACK", "DATAACK", "CLOSEREQ", "CLOSE", "RESET", "SYNC",
    "SYNCACK", "INVALID",
];

/// Days of the week; bit n is day n, from Monday.
pub static WEEKDAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// TCP flags; bit n is flag n, in the order of the header (RFC 9293).
pub static TCP_FLAGS: &[&str] = &["FIN", "SYN", "RST", "PSH", "ACK", "URG"];

/// SCTP chunk types by number (RFC 9260 and the registry of its extensions).
#[rustfmt::skip]
pub static SCTP_CHUNKS: &[(&str, u8)] = &[
    ("DATA", 0), ("INIT", 1), ("INIT_ACK", 2), ("SACK", 3), ("HEARTBEAT", 4),
    ("HEARTBEAT_ACK", 5), ("ABORT", 6), ("SHUTDOWN", 7), ("SHUTDOWN_ACK", 8), ("ERROR", 9),
    ("COOKIE_ECHO", 10), ("COOKIE_ACK", 11), ("ECN_ECNE", 12), ("ECN_CWR", 13),
    ("SHUTDOWN_COMPLETE", 14), ("I_DATA", 64), ("ASCONF_ACK", 128), ("RE_CONFIG", 130),
    ("PAD", 132), ("FORWARD_TSN", 192), ("ASCONF", 193), ("I_FORWARD_TSN", 194),
];

/// Flag letters of the chunk types that have flags: bit 0 first.
pub static SCTP_CHUNK_FLAGS: &[(u8, &str)] = &[(0, "EBUI"), (64, "EBUI"), (6, "T"), (14, "T")];
