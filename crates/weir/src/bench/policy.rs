//! Filters as a policy of weir, and packets as keys of its lookups.
//!
//! In: a filter set. Out: a policy with one chain whose rule N is filter N, so that a lookup's
//! rule is a filter's number. Ports of these files are fields of every packet: all keys have a
//! transport with ports, whatever the protocol's number.

use super::filter::{Filter, FilterSet, Flags, Masked, Packet, Ports, Prefix, Version};
use weir_engine::image::layout::kind_of;
use weir_engine::lookup::Key;
use weir_engine::packet::key::{fragment, transport};
use weir_policy::model::{
    self, AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, CtState, Facts, Family, Flow,
    Fragment, Hook, Origin, PacketType, Policy, RangeSet, Root, Rule, RuleId, SourceId, Table,
    Test, Transport, Verdict,
};

/// The hook at which all filters are asked.
pub const HOOK: Hook = Hook::Input;
/// The stage.
pub const TABLE: Table = Table::Filter;

/// The family in the rule model.
pub fn family(version: Version) -> Family {
    match version {
        Version::V4 => Family::V4,
        Version::V6 => Family::V6,
    }
}

/// The policy of a filter set.
pub fn policy(set: &FilterSet, flags: Flags) -> Policy {
    let family = family(set.version);
    let origin = |line| Origin {
        source: SourceId(0),
        line,
        column: 1,
    };
    let rule = |(at, filter): (usize, &Filter)| Rule {
        id: RuleId(at as u32),
        origin: origin(at as u32 + 1),
        index: at as u32 + 1,
        tests: tests(filter, set.version, flags),
        ops: vec![],
        flow: Flow::Verdict(Verdict::Drop),
        preset: Counters::default(),
    };
    let count = set.filters.len() as u32;
    Policy {
        sources: vec!["filters".into()],
        chains: vec![Chain {
            name: "INPUT".into(),
            family,
            table: TABLE,
            rules: set.filters.iter().enumerate().map(rule).collect(),
            policy: Some(ChainPolicy {
                id: RuleId(count),
                origin: origin(1),
                verdict: Verdict::Accept,
                preset: Counters::default(),
            }),
        }],
        roots: vec![Root {
            family,
            hook: HOOK,
            table: TABLE,
            chain: ChainId(0),
        }],
        rule_count: count + 1,
        ..Policy::default()
    }
}

fn tests(filter: &Filter, version: Version, flags: Flags) -> Vec<Test> {
    let addresses = |prefix: Prefix| {
        let range = RangeSet::range(prefix.first, prefix.last(version));
        (prefix.length > 0).then_some(AddrMatch::Ranges(range))
    };
    let ports = |ports: Ports| {
        let range = RangeSet::range(ports.first, ports.last);
        (ports != Ports::ANY).then_some(range)
    };
    let flag_byte = match flags {
        Flags::Matched => filter.tcp_flags(),
        Flags::Ignored => None,
    };
    [
        addresses(filter.src).map(Cond::Src),
        addresses(filter.dst).map(Cond::Dst),
        (filter.proto.mask != 0).then(|| Cond::Proto(protocols(filter.proto))),
        ports(filter.src_port).map(Cond::SrcPort),
        ports(filter.dst_port).map(Cond::DstPort),
        flag_byte.map(|Masked { value, mask }| Cond::TcpFlags { mask, value }),
    ]
    .into_iter()
    .flatten()
    .map(|cond| Test {
        negate: false,
        cond,
    })
    .collect()
}

fn protocols(proto: Masked<u8>) -> RangeSet<u8> {
    match proto.mask {
        0xff => RangeSet::one(proto.value),
        _ => RangeSet::from_ranges((0..=u8::MAX).filter(|v| proto.contains(*v)).map(|v| (v, v))),
    }
}

/// A datagram with the addresses and ports of a packet, as it comes to the hook.
pub fn datagram(packet: &Packet, family: Family) -> model::Packet {
    model::Packet {
        family,
        hook: HOOK,
        in_iface: "lo".into(),
        out_iface: String::new(),
        src: packet.src,
        dst: packet.dst,
        proto: 17,
        length: 0,
        ttl: 64,
        tos: 0,
        fragment: Fragment::Whole,
        transport: Transport::Udp {
            src_port: packet.src_port,
            dst_port: packet.dst_port,
        },
        routing: None,
        mark: 0,
        mac: None,
        packet_type: PacketType::Unicast,
        owner: None,
        handling: 0,
        aside: Facts::default(),
    }
}

/// The key of a packet.
pub fn key(packet: &Packet) -> Key {
    let kind = match packet.proto {
        6 => transport::TCP,
        _ => transport::UDP,
    };
    let state = (CtState::New as u8).trailing_zeros() as u8;
    Key {
        address: [packet.src, packet.dst],
        port: [packet.src_port, packet.dst_port],
        proto: packet.proto,
        kind: kind_of(kind, fragment::WHOLE, state),
        flags: packet.flags,
        class: [0, 0],
    }
}
