//! A test of a rule in words.
//!
//! In: a [`Test`] and its policy (for names of sets). Out: a phrase such as `destination port
//! 22,80-90` or `not source 10.0.0.0/8`. The inverse of nothing: the rule text is the authority.

use super::aside::aside;
use super::values::{addresses, mac, masked, numbers};
use crate::spec::{flag_names, protocol};
use weir_policy::model::{
    AddrType, ChunkFlags, Cmp, Cond, CtField, DynamicTest, Family, HistoryKind, IcmpHeadTest,
    IfPattern, Owner, OwnerRange, PacketType, Policy, RecentAction, ReversePath, SetField,
    Statistic, Test,
};

/// A test in words.
pub fn test(policy: &Policy, family: Family, test: &Test) -> String {
    let words = condition(policy, family, &test.cond);
    match test.negate {
        true => format!("not {words}"),
        false => words,
    }
}

fn condition(policy: &Policy, family: Family, cond: &Cond) -> String {
    match cond {
        Cond::Never => "never (not possible in this family)".to_owned(),
        Cond::Src(values) => format!("source {}", addresses(family, values)),
        Cond::Dst(values) => format!("destination {}", addresses(family, values)),
        Cond::InIface(pattern) => format!("received on {}", interface(pattern)),
        Cond::OutIface(pattern) => format!("sent on {}", interface(pattern)),
        Cond::Proto(set) => match set.ranges() {
            [(one, same)] if one == same => format!("protocol {}", protocol(*one)),
            ranges => format!("protocol {}", numbers(ranges)),
        },
        Cond::State(mask) => format!("state {}", states(mask.0)),
        Cond::Ipsec { out: false } => "came through IPsec".to_owned(),
        Cond::Ipsec { out: true } => "leaves through IPsec".to_owned(),
        Cond::RouteBack { loose, marked } => {
            let out = if *loose {
                ""
            } else {
                ", out of the same interface"
            };
            let mark = if *marked {
                ", with the packet's mark"
            } else {
                ""
            };
            format!("a route back to the source{out}{mark}")
        }
        Cond::ReversePath(ReversePath::Verified) => {
            "the best route to the source is by the interface it came from".to_owned()
        }
        Cond::ReversePath(ReversePath::NotSpoofed) => {
            "the source is on no connected network but that of the interface it came from"
                .to_owned()
        }
        Cond::ReversePath(ReversePath::Reached) => {
            "a route to the source, neither a default route nor one that refuses".to_owned()
        }
        Cond::Ct(field) => flow_field(family, field),
        Cond::Mark { value, mask } => format!("mark {}", masked(*value, *mask)),
        Cond::Connmark { value, mask } => format!("flow mark {}", masked(*value, *mask)),
        Cond::Mac(address) => format!("source MAC {}", mac(*address)),
        Cond::PacketType(kind) => format!("packet type {}", packet_type(*kind)),
        Cond::SrcType(kinds) => format!("source type {}", address_types(kinds)),
        Cond::DstType(kinds) => format!("destination type {}", address_types(kinds)),
        Cond::Owner(owner) => owned(*owner),
        Cond::Aside(asked) => aside(asked),
        Cond::Set { set, fields } => {
            let set = &policy.sets[set.0 as usize];
            format!("{} in set {}", set_fields(fields), set.name)
        }
        Cond::Length(set) => format!("length {}", numbers(set.ranges())),
        Cond::Ttl(compare) => format!("TTL {}", comparison(*compare)),
        Cond::Dscp(value) => format!("DSCP {value}"),
        Cond::Tos { value, mask } => format!("TOS {value:#x}/{mask:#x}"),
        Cond::EcnIp(value) => format!("ECN bits {value}"),
        Cond::RoutingHeader { kind, .. } => match kind {
            Some(kind) => format!("routing header of type {kind}"),
            None => "routing header".to_owned(),
        },
        Cond::CutShort => "transport header cut short".to_owned(),
        Cond::Fragments(bits) => match bits {
            1 => "no fragment".to_owned(),
            2 => "first fragment".to_owned(),
            4 => "second or later fragment".to_owned(),
            _ => "fragment".to_owned(),
        },
        Cond::ProposedBy(_) => "the verdict so far is of its rule".to_owned(),
        Cond::Any(tests) => {
            let all: Vec<String> = tests.iter().map(|t| test(policy, family, t)).collect();
            all.join(" or ")
        }
        Cond::Learned => "belongs to a state".to_owned(),
        Cond::Learn(_) => "a state was made".to_owned(),
        Cond::Dynamic(DynamicTest::Look(_)) => "a state is found".to_owned(),
        Cond::Dynamic(DynamicTest::Of(_)) => "the state is of its rule".to_owned(),
        Cond::Dynamic(DynamicTest::Forget) => "states may be asked for again".to_owned(),
        Cond::IcmpHead(asked) => icmp_head(policy, *asked),
        Cond::IpfWith(_) => "headers as `with` asks for".to_owned(),
        Cond::OutOfWindow => "of a state, but outside its window".to_owned(),
        Cond::History(id) => history(&policy.histories[id.0 as usize].kind),
        _ => transport(cond),
    }
}

fn icmp_head(policy: &Policy, asked: IcmpHeadTest) -> String {
    match asked {
        IcmpHeadTest::Waits => "an ICMP error of a state whose group is asked".to_owned(),
        IcmpHeadTest::WaitsFor(group) => {
            let at = usize::from(group).wrapping_sub(1);
            let name = policy.icmp_heads.get(at).map_or("?", String::as_str);
            format!("an ICMP error of a state that group {name} judges")
        }
        IcmpHeadTest::Refused => "the group blocks it".to_owned(),
        IcmpHeadTest::Passes => "the state takes it, or an older one".to_owned(),
        IcmpHeadTest::Blocked => "an older state takes it".to_owned(),
    }
}

fn transport(cond: &Cond) -> String {
    match cond {
        Cond::LaterFragment => "second or later fragment".to_owned(),
        Cond::SrcPort(set) => format!("source port {}", numbers(set.ranges())),
        Cond::DstPort(set) => format!("destination port {}", numbers(set.ranges())),
        Cond::AnyPort(set) => format!("a port of {}", numbers(set.ranges())),
        Cond::TcpFlags { mask, value } => {
            format!("TCP flags {} of {}", flag_names(*value), flag_names(*mask))
        }
        Cond::TcpOption(kind) => format!("TCP option {kind}"),
        Cond::TcpMss(set) => format!("MSS {}", numbers(set.ranges())),
        Cond::Icmp { kind: None, .. } => "any ICMP type".to_owned(),
        Cond::Icmp {
            kind: Some(kind),
            codes,
        } => match codes {
            (0, 255) => format!("ICMP type {kind}"),
            (first, last) => format!("ICMP type {kind} code {}", numbers(&[(*first, *last)])),
        },
        Cond::EcnTcp(bits) => format!("TCP flags {}", flag_names(*bits)),
        Cond::AhSpi(set) => format!("AH SPI {}", numbers(set.ranges())),
        Cond::EspSpi(set) => format!("ESP SPI {}", numbers(set.ranges())),
        Cond::SctpChunks { kind, types, flags } => chunks(*kind, types, flags),
        other => format!("{other:?}"),
    }
}

/// Chunks by number; behind a type its flags as value and mask.
fn chunks(kind: u8, types: &[u64; 4], flags: &[ChunkFlags]) -> String {
    let kind = ["all", "any", "only"]
        .get(usize::from(kind))
        .unwrap_or(&"only");
    let is_named = |kind: &u8| types[usize::from(kind >> 6)] >> (kind & 63) & 1 == 1;
    let named: Vec<u8> = (0..=255).filter(is_named).collect();
    let one = |kind: &u8| match flags.iter().find(|row| row.kind == *kind) {
        Some(row) => format!("{kind} with flags {:#x}/{:#x}", row.value, row.mask),
        None => kind.to_string(),
    };
    let list = match named.len() {
        0 => "none".to_owned(),
        256 if flags.is_empty() => "all".to_owned(),
        _ => named.iter().map(one).collect::<Vec<_>>().join(", "),
    };
    format!("{kind} of SCTP chunk types {list}")
}

fn interface(pattern: &IfPattern) -> String {
    match (pattern.prefix, pattern.name.as_str()) {
        (true, "") => "any interface".to_owned(),
        (true, name) => format!("{name}+"),
        (false, name) => name.to_owned(),
    }
}

/// The names of a mask of states.
pub fn states(mask: u8) -> String {
    let names: [(u8, &str); 7] = [
        (1, "INVALID"),
        (2, "NEW"),
        (4, "ESTABLISHED"),
        (8, "RELATED"),
        (16, "UNTRACKED"),
        (32, "SNAT"),
        (64, "DNAT"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|n| mask & n.0 != 0)
        .map(|n| n.1)
        .collect();
    set.join(",")
}

/// The word for a link-layer packet type.
pub fn packet_type(kind: PacketType) -> &'static str {
    match kind {
        PacketType::Unicast => "unicast",
        PacketType::Broadcast => "broadcast",
        PacketType::Multicast => "multicast",
        PacketType::OtherHost => "to another host",
        PacketType::Outgoing => "made here",
    }
}

fn address_types(kinds: &[AddrType]) -> String {
    let words: Vec<&str> = kinds.iter().map(|kind| address_type(*kind)).collect();
    words.join(",")
}

/// The word for an address type.
pub fn address_type(kind: AddrType) -> &'static str {
    match kind {
        AddrType::Local => "LOCAL",
        AddrType::Broadcast => "BROADCAST",
        AddrType::Multicast => "MULTICAST",
        AddrType::Unicast => "UNICAST",
        AddrType::Unspecified => "UNSPEC",
        AddrType::Anycast => "ANYCAST",
    }
}

fn owned(owner: Owner) -> String {
    let ids = |range: OwnerRange| numbers(&[(range.first, range.last)]);
    match owner {
        Owner::Uid(range) => format!("owner uid {}", ids(range)),
        Owner::Gid(range) => format!("owner gid {}", ids(range)),
    }
}

fn set_fields(fields: &[SetField]) -> String {
    let words: Vec<&str> = fields
        .iter()
        .map(|field| match field {
            SetField::Src => "source",
            SetField::Dst => "destination",
        })
        .collect();
    words.join(",")
}

fn comparison(compare: Cmp) -> String {
    match compare {
        Cmp::Eq(value) => format!("{value}"),
        Cmp::Lt(value) => format!("below {value}"),
        Cmp::Gt(value) => format!("above {value}"),
    }
}

fn flow_field(family: Family, field: &CtField) -> String {
    match field {
        CtField::Proto(proto) => format!("flow protocol {}", protocol(*proto)),
        CtField::OrigSrc(values) => format!("flow source {}", addresses(family, values)),
        CtField::OrigDst(values) => format!("flow destination {}", addresses(family, values)),
        CtField::ReplSrc(values) => format!("flow reply source {}", addresses(family, values)),
        CtField::ReplDst(values) => {
            format!("flow reply destination {}", addresses(family, values))
        }
        CtField::OrigSrcPort(set) => format!("flow source port {}", numbers(set.ranges())),
        CtField::OrigDstPort(set) => format!("flow destination port {}", numbers(set.ranges())),
        CtField::ReplSrcPort(set) => format!("flow reply source port {}", numbers(set.ranges())),
        CtField::ReplDstPort(set) => {
            format!("flow reply destination port {}", numbers(set.ranges()))
        }
        CtField::Status(bits) => format!("flow status {}", statuses(*bits)),
        CtField::Expire(first, last) => format!("flow expires in {first}-{last} s"),
        CtField::Original(true) => "in the flow's original direction".to_owned(),
        CtField::Original(false) => "in the flow's reply direction".to_owned(),
    }
}

fn statuses(bits: u8) -> String {
    let names = [
        (1, "EXPECTED"),
        (2, "SEEN_REPLY"),
        (4, "ASSURED"),
        (8, "CONFIRMED"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|n| bits & n.0 != 0)
        .map(|n| n.1)
        .collect();
    match set.is_empty() {
        true => "NONE".to_owned(),
        false => set.join(","),
    }
}

fn history(kind: &HistoryKind) -> String {
    match kind {
        HistoryKind::Limit(limit) => {
            let each = f64::from(limit.cost) / 10_000.0;
            format!("limit: a token each {each} s, burst {}", limit.burst)
        }
        HistoryKind::HashLimit(limit) => {
            let side = if limit.above { "above" } else { "within" };
            let counted = match limit.sampled {
                Some(seconds) => format!(", counted over {seconds} s"),
                None => String::new(),
            };
            format!(
                "{side} the rate for its key (burst {}){counted}",
                limit.burst
            )
        }
        HistoryKind::Recent(recent) => {
            let what = match recent.action {
                RecentAction::Set => "put the address in",
                RecentAction::Check => "address is in",
                RecentAction::Update => "address is in (and seen again)",
                RecentAction::Remove => "take the address out",
            };
            format!("recent list: {what}")
        }
        HistoryKind::ConnLimit(limit) => {
            let side = if limit.above { "more than" } else { "at most" };
            format!(
                "{side} {} connections of the /{}",
                limit.count, limit.prefix
            )
        }
        HistoryKind::Statistic(Statistic::Random(p)) => {
            format!(
                "random with probability {:.4}",
                f64::from(*p) / 2f64.powi(31)
            )
        }
        HistoryKind::Statistic(Statistic::Nth { every, packet }) => {
            format!("packet {packet} of every {every}")
        }
        HistoryKind::Quota(bytes) => format!("quota of {bytes} bytes"),
        HistoryKind::Time(_) => "time window".to_owned(),
        HistoryKind::PerSecond(most) => format!("at most {most} packets in a second"),
        HistoryKind::Meter(meter) if meter.rate == 0 => "queue of a link without a rate".to_owned(),
        HistoryKind::Meter(meter) => {
            let apart = if meter.key.is_some() {
                " for its flow"
            } else {
                ""
            };
            format!("room in the queue of a link of {} bit/s{apart}", meter.rate)
        }
    }
}
