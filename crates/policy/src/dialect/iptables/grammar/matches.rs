//! The match modules whose options are typed, options in the order in which they are printed.

use super::super::names::protocols::{AH, DCCP, ESP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE};
use super::super::names::{Transport, small};
use super::super::value::Kind;
use super::{ModuleSpec, OptionSpec, Role, module, option};
use crate::model::{Family, Hook, Table};

const fn m(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Match, options)
}

const fn sport(transport: Option<Transport>) -> OptionSpec {
    option("sport", Kind::Ports(transport))
        .not()
        .or(&["source-port"])
}

const fn dport(transport: Option<Transport>) -> OptionSpec {
    option("dport", Kind::Ports(transport))
        .not()
        .or(&["destination-port"])
}

const U32: u64 = u32::MAX as u64;
/// Interfaces of received packets are known here.
const RECEIVED: &[Hook] = &[Hook::Prerouting, Hook::Input, Hook::Forward];
/// Sockets of sent packets are known here.
const SENT: &[Hook] = &[Hook::Output, Hook::Postrouting];

/// All of them.
pub static MATCHES: &[ModuleSpec] = &[
    m("tcp", TCP_OPTIONS).with_protocols(&[TCP]),
    m("udp", UDP_OPTIONS).with_protocols(&[UDP]),
    m("udplite", UDP_OPTIONS).with_protocols(&[UDPLITE]),
    m("sctp", SCTP_OPTIONS).with_protocols(&[SCTP]),
    m("dccp", DCCP_OPTIONS).with_protocols(&[DCCP]),
    m("icmp", &[option("icmp-type", Kind::Icmp(false)).not()])
        .only(Family::V4)
        .with_protocols(&[ICMP]),
    m("icmp6", &[option("icmpv6-type", Kind::Icmp(true)).not()])
        .only(Family::V6)
        .with_protocols(&[ICMPV6]),
    m("esp", &[option("espspi", Kind::Range(u32::MAX)).not()]).with_protocols(&[ESP]),
    m("ah", &[option("ahspi", Kind::Range(u32::MAX)).not()])
        .only(Family::V4)
        .with_protocols(&[AH]),
    // No protocol: ip6tables looks for the header among the extensions.
    m("ah", AH6_OPTIONS).only(Family::V6),
    m("multiport", MULTIPORT_OPTIONS).with_protocols(&[TCP, UDP, UDPLITE, SCTP, DCCP]),
    m("iprange", IPRANGE_OPTIONS),
    m("mac", &[option("mac-source", Kind::Mac).not()]).at_hooks(RECEIVED),
    m(
        "state",
        &[option("state", Kind::Names(small::STATES)).not()],
    ),
    m("conntrack", CONNTRACK_OPTIONS),
    m("mark", &[option("mark", Kind::Mark).not()]),
    m("connmark", &[option("mark", Kind::Mark).not()]),
    m("connlimit", CONNLIMIT_OPTIONS),
    m("limit", LIMIT_OPTIONS),
    m("hashlimit", HASHLIMIT_OPTIONS),
    m("recent", RECENT_OPTIONS),
    m("statistic", STATISTIC_OPTIONS),
    m("addrtype", ADDRTYPE_OPTIONS),
    m(
        "pkttype",
        &[option(
            "pkt-type",
            Kind::Choice(&[
                "unicast=host",
                "broadcast=bcast",
                "multicast=mcast",
                "otherhost",
            ]),
        )
        .not()],
    ),
    m("owner", OWNER_OPTIONS).at_hooks(SENT),
    m("set", SET_OPTIONS),
    m("length", &[option("length", Kind::Range(65_535)).not()]),
    m("tcpmss", &[option("mss", Kind::Range(65_535)).not()]).with_protocols(&[TCP]),
    m("ttl", TTL_OPTIONS).only(Family::V4),
    m("hl", HL_OPTIONS).only(Family::V6),
    m("tos", &[option("tos", Kind::Tos(0x3f)).not()]),
    m("dscp", DSCP_OPTIONS),
    m("ecn", ECN_OPTIONS),
    m("rt", RT_OPTIONS).only(Family::V6),
    m("ipv6header", IPV6HEADER_OPTIONS).only(Family::V6),
    m("physdev", PHYSDEV_OPTIONS),
    m("rpfilter", RPFILTER_OPTIONS)
        .in_tables(&[Table::Raw, Table::Mangle])
        .at_hooks(&[Hook::Prerouting]),
    m("policy", POLICY_OPTIONS).kept_as_written(),
    m("time", TIME_OPTIONS),
    m("comment", &[option("comment", Kind::Text(0, 255))]),
];

const TCP_OPTIONS: &[OptionSpec] = &[
    sport(Some(Transport::Tcp)),
    dport(Some(Transport::Tcp)),
    option("tcp-option", Kind::Number(1, 255)).not(),
    option("tcp-flags", Kind::TcpFlags).not(),
    option("syn", Kind::Syn).not().for_option("tcp-flags"),
];

const UDP_OPTIONS: &[OptionSpec] = &[sport(Some(Transport::Udp)), dport(Some(Transport::Udp))];

const SCTP_OPTIONS: &[OptionSpec] = &[
    sport(Some(Transport::Sctp)),
    dport(Some(Transport::Sctp)),
    option("chunk-types", Kind::Chunks).not(),
];

const DCCP_OPTIONS: &[OptionSpec] = &[
    sport(None),
    dport(None),
    option("dccp-types", Kind::Names(small::DCCP_TYPES)).not(),
    option("dccp-option", Kind::Number(1, 255)).not(),
];

const AH6_OPTIONS: &[OptionSpec] = &[
    option("ahspi", Kind::Range(u32::MAX)).not(),
    option("ahlen", Kind::Number(0, U32)).not(),
    option("ahres", Kind::Flag),
];

const MULTIPORT_OPTIONS: &[OptionSpec] = &[
    option("sports", Kind::PortList).not().or(&["source-ports"]),
    option("dports", Kind::PortList)
        .not()
        .or(&["destination-ports"]),
    option("ports", Kind::PortList).not(),
];

const IPRANGE_OPTIONS: &[OptionSpec] = &[
    option("src-range", Kind::AddressRange).not(),
    option("dst-range", Kind::AddressRange).not(),
];

const CONNTRACK_OPTIONS: &[OptionSpec] = &[
    option("ctstate", Kind::Names(small::CT_STATES)).not(),
    option("ctproto", Kind::Protocol).not(),
    option("ctorigsrc", Kind::Address).not(),
    option("ctorigdst", Kind::Address).not(),
    option("ctreplsrc", Kind::Address).not(),
    option("ctrepldst", Kind::Address).not(),
    option("ctorigsrcport", Kind::Ports(None)).not(),
    option("ctorigdstport", Kind::Ports(None)).not(),
    option("ctreplsrcport", Kind::Ports(None)).not(),
    option("ctrepldstport", Kind::Ports(None)).not(),
    option("ctstatus", Kind::Names(small::CT_STATUSES)).not(),
    option("ctexpire", Kind::Range(u32::MAX)).not(),
    option("ctdir", Kind::Choice(&["ORIGINAL", "REPLY"])),
];

const CONNLIMIT_OPTIONS: &[OptionSpec] = &[
    option("connlimit-upto", Kind::Number(0, U32)).not(),
    option("connlimit-above", Kind::Number(0, U32)).not(),
    option("connlimit-mask", Kind::Number(0, 128)),
    option("connlimit-saddr", Kind::Flag),
    option("connlimit-daddr", Kind::Flag),
];

const LIMIT_OPTIONS: &[OptionSpec] = &[
    option("limit", Kind::Rate),
    option("limit-burst", Kind::Number(1, 10_000)),
];

const HASHLIMIT_OPTIONS: &[OptionSpec] = &[
    option("hashlimit-upto", Kind::HashRate)
        .not()
        .or(&["hashlimit"]),
    option("hashlimit-above", Kind::HashRate).not(),
    option("hashlimit-burst", Kind::HashBurst),
    option("hashlimit-mode", Kind::Names(small::HASH_MODES)),
    option("hashlimit-name", Kind::Text(1, 254)),
    option("hashlimit-htable-size", Kind::Number(0, U32)),
    option("hashlimit-htable-max", Kind::Number(0, U32)),
    option("hashlimit-htable-gcinterval", Kind::Number(0, U32)),
    option("hashlimit-htable-expire", Kind::Number(0, U32)),
    option("hashlimit-srcmask", Kind::Number(0, 128)),
    option("hashlimit-dstmask", Kind::Number(0, 128)),
    option("hashlimit-rate-match", Kind::Flag),
    option("hashlimit-rate-interval", Kind::Number(1, U32)),
];

const RECENT_OPTIONS: &[OptionSpec] = &[
    option("set", Kind::Flag).not(),
    option("rcheck", Kind::Flag).not(),
    option("update", Kind::Flag).not(),
    option("remove", Kind::Flag).not(),
    option("seconds", Kind::Number(1, U32)),
    option("reap", Kind::Flag),
    option("hitcount", Kind::Number(0, 65_535)),
    option("rttl", Kind::Flag),
    option("name", Kind::Text(1, 199)),
    option("mask", Kind::AddressMask),
    option("rsource", Kind::Flag),
    option("rdest", Kind::Flag),
];

const STATISTIC_OPTIONS: &[OptionSpec] = &[
    option("mode", Kind::Choice(&["random", "nth"])),
    option("probability", Kind::Probability).not(),
    option("every", Kind::Number(1, U32)).not(),
    option("packet", Kind::Number(0, U32)),
];

const ADDRTYPE_OPTIONS: &[OptionSpec] = &[
    option("src-type", Kind::Names(small::ADDRESS_TYPES)).not(),
    option("dst-type", Kind::Names(small::ADDRESS_TYPES)).not(),
    option("limit-iface-in", Kind::Flag),
    option("limit-iface-out", Kind::Flag),
];

const OWNER_OPTIONS: &[OptionSpec] = &[
    option("socket-exists", Kind::Flag).not(),
    option("uid-owner", Kind::Ids).not(),
    option("gid-owner", Kind::Ids).not(),
    option("suppl-groups", Kind::Flag),
];

const SET_OPTIONS: &[OptionSpec] = &[
    option("match-set", Kind::Set).not().or(&["set"]),
    option("return-nomatch", Kind::Flag),
    option("update-counters", Kind::Flag).not(),
    option("update-subcounters", Kind::Flag).not(),
    option("packets-eq", Kind::Number(0, u64::MAX)).not(),
    option("packets-lt", Kind::Number(0, u64::MAX)),
    option("packets-gt", Kind::Number(0, u64::MAX)),
    option("bytes-eq", Kind::Number(0, u64::MAX)).not(),
    option("bytes-lt", Kind::Number(0, u64::MAX)),
    option("bytes-gt", Kind::Number(0, u64::MAX)),
];

const TTL_OPTIONS: &[OptionSpec] = &[
    option("ttl-eq", Kind::Number(0, 255)).not().or(&["ttl"]),
    option("ttl-lt", Kind::Number(0, 255)),
    option("ttl-gt", Kind::Number(0, 255)),
];

const HL_OPTIONS: &[OptionSpec] = &[
    option("hl-eq", Kind::Number(0, 255)).not(),
    option("hl-lt", Kind::Number(0, 255)),
    option("hl-gt", Kind::Number(0, 255)),
];

const DSCP_OPTIONS: &[OptionSpec] = &[
    option("dscp", Kind::Hex(63)).not(),
    option("dscp-class", Kind::DscpClass)
        .not()
        .for_option("dscp"),
];

const ECN_OPTIONS: &[OptionSpec] = &[
    option("ecn-tcp-ece", Kind::Flag).not(),
    option("ecn-tcp-cwr", Kind::Flag).not(),
    option("ecn-ip-ect", Kind::Number(0, 3)).not(),
];

const IPV6HEADER_OPTIONS: &[OptionSpec] = &[
    option("header", Kind::Headers).not(),
    option("soft", Kind::Flag),
];

const RT_OPTIONS: &[OptionSpec] = &[
    option("rt-type", Kind::Number(0, U32)).not(),
    option("rt-segsleft", Kind::Range(u32::MAX)).not(),
    option("rt-len", Kind::Number(0, U32)).not(),
    option("rt-0-res", Kind::Flag),
    option("rt-0-addrs", Kind::Words(1)),
    option("rt-0-not-strict", Kind::Flag),
];

const PHYSDEV_OPTIONS: &[OptionSpec] = &[
    option("physdev-is-in", Kind::Flag).not(),
    option("physdev-in", Kind::Interface).not(),
    option("physdev-is-out", Kind::Flag).not(),
    option("physdev-out", Kind::Interface).not(),
    option("physdev-is-bridged", Kind::Flag).not(),
];

const RPFILTER_OPTIONS: &[OptionSpec] = &[
    option("loose", Kind::Flag),
    option("validmark", Kind::Flag),
    option("accept-local", Kind::Flag),
    option("invert", Kind::Flag),
];

const POLICY_OPTIONS: &[OptionSpec] = &[
    option("dir", Kind::Choice(&["in", "out"])),
    option("pol", Kind::Choice(&["none", "ipsec"])),
    option("strict", Kind::Flag),
    option("reqid", Kind::Number(0, U32)).not(),
    option("spi", Kind::Mask).not(),
    option("proto", Kind::Choice(&["ah", "esp", "ipcomp"])).not(),
    option("mode", Kind::Choice(&["transport", "tunnel"])).not(),
    option("tunnel-dst", Kind::Address).not(),
    option("tunnel-src", Kind::Address).not(),
    option("next", Kind::Flag),
];

const TIME_OPTIONS: &[OptionSpec] = &[
    option("timestart", Kind::TimeOfDay),
    option("timestop", Kind::TimeOfDay),
    option("monthdays", Kind::MonthDays).not(),
    option("weekdays", Kind::WeekDays).not(),
    option("datestart", Kind::Date),
    option("datestop", Kind::Date),
    option("kerneltz", Kind::Flag),
    option("contiguous", Kind::Flag),
    option("utc", Kind::Flag),
    option("localtz", Kind::Flag),
];
