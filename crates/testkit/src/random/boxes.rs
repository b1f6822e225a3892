//! Large sets of rules about boxes of addresses and ports, in one chain: what hashed tables hold.

use fastrand::Rng;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, Hook, Origin, Policy,
    RangeSet, Root, Rule, RuleId, SourceId, Table, Test, Verdict,
};

const ORIGIN: Origin = Origin {
    source: SourceId(0),
    line: 1,
    column: 1,
};

/// A rule about one box of addresses and ports.
pub fn rule(id: u32, family: Family, rng: &mut Rng) -> Rule {
    let width = if family == Family::V4 { 32 } else { 128 };
    let address = |rng: &mut Rng| {
        let base = match family {
            Family::V4 => 0x0a00_0000,
            Family::V6 => 0x2001_0db8_u128 << 96,
        };
        let free = [0, 0, 4, 8, 12, 20, width][rng.usize(..7)];
        let value = base | u128::from(rng.u32(..1 << 16)) << (width / 32);
        if free == width {
            return None;
        }
        let low = value >> free << free;
        Some(RangeSet::range(low, low | ((1u128 << free) - 1)))
    };
    let mut tests = Vec::new();
    let mut put = |cond| tests.push(test(cond));
    address(rng)
        .into_iter()
        .for_each(|set| put(Cond::Src(AddrMatch::Ranges(set))));
    address(rng)
        .into_iter()
        .for_each(|set| put(Cond::Dst(AddrMatch::Ranges(set))));
    let proto = [6u8, 6, 17][rng.usize(..3)];
    put(Cond::Proto(RangeSet::range(proto, proto)));
    if rng.u32(..4) > 0 {
        let first = rng.u16(1..2000);
        let last = first + [0, 0, 0, 100][rng.usize(..4)];
        put(Cond::DstPort(RangeSet::range(first, last)));
    }
    Rule {
        id: RuleId(id),
        origin: ORIGIN,
        index: id + 1,
        tests,
        ops: vec![],
        flow: match rng.u32(..12) {
            0 => Flow::Next,
            1..6 => Flow::Verdict(Verdict::Accept),
            _ => Flow::Verdict(Verdict::Drop),
        },
        preset: Counters::default(),
    }
}

/// A policy of so many of them at FORWARD.
pub fn policy(seed: u64, family: Family, rules: u32) -> Policy {
    policy_of(seed, family, rules, rule)
}

/// A policy of so many IPv4 sources at FORWARD, which one table holds: by their number its filters
/// stand beside one another.
pub fn sources(seed: u64, rules: u32) -> Policy {
    policy_of(seed, Family::V4, rules, |id, family, rng| Rule {
        tests: vec![source(0x0a00_0000 | rng.u32(..1 << 16))],
        ..rule(id, family, rng)
    })
}

/// A policy of so many IPv4 rules about wide ranges of ports, each of which shares packets with all
/// others.
pub fn wide(seed: u64, rules: u32) -> Policy {
    policy_of(seed, Family::V4, rules, |id, _, rng| wide_rule(id, rng))
}

/// One of those.
pub fn wide_rule(id: u32, rng: &mut Rng) -> Rule {
    let (first, last) = (rng.u16(1..20_000), rng.u16(20_000..));
    let ports = Cond::DstPort(RangeSet::range(first, last));
    let tcp = Cond::Proto(RangeSet::one(6));
    Rule {
        tests: vec![test(tcp), test(ports)],
        flow: Flow::Verdict([Verdict::Accept, Verdict::Drop][rng.usize(..2)]),
        ..rule(id, Family::V4, rng)
    }
}

/// A policy of IPv4 rules that are narrow in one of six fields or pairs of fields, so that each
/// kind has a table of its own. `width`: addresses of a range; a power of two makes them prefixes.
pub fn kinds(seed: u64, rules: u32, width: u32) -> Policy {
    policy_of(seed, Family::V4, rules, |id, family, rng| {
        let mut addresses = |count: u32| {
            let first = 0x0a00_0000 + rng.u32(..count) * width.next_power_of_two();
            addresses(first, width)
        };
        // Of pairs, one field alone has too few values for a table.
        let (one, few) = (
            [addresses(1 << 16), addresses(1 << 16)],
            [addresses(64), addresses(64)],
        );
        let ports = |count: u16, rng: &mut Rng| RangeSet::one(rng.u16(1..=count));
        let own = match id % 6 {
            0 => vec![Cond::Src(one[0].clone())],
            1 => vec![Cond::Dst(one[1].clone())],
            2 => vec![Cond::SrcPort(ports(u16::MAX, rng))],
            3 => vec![Cond::DstPort(ports(u16::MAX, rng))],
            4 => vec![Cond::Src(few[0].clone()), Cond::Dst(few[1].clone())],
            _ => vec![Cond::Src(few[0].clone()), Cond::DstPort(ports(64, rng))],
        };
        about_tcp(own, rule(id, family, rng))
    })
}

/// A policy of rules that are wide in four fields, which overlap like stairs: no table holds them.
pub fn stairs(seed: u64, family: Family, rules: u32) -> Policy {
    policy_of(seed, family, rules, |id, family, rng| {
        let address = |step: u32| match family {
            Family::V4 => addresses(0x0a00_0000 + id * step, 1 << 20),
            Family::V6 => {
                // Across the middle of an address too, where the upper half counts on.
                let first = (0x2001_0db8_u128 << 96) + (u128::from(id * step) << 52);
                AddrMatch::Ranges(RangeSet::range(first, first + (1 << 72)))
            }
        };
        let port = |step: u16| {
            let first = (id as u16).wrapping_mul(step) % 30_000;
            RangeSet::range(first, first + 20_000)
        };
        let own = vec![
            Cond::Src(address(4096)),
            Cond::Dst(address(2048)),
            Cond::SrcPort(port(3)),
            Cond::DstPort(port(7)),
        ];
        about_tcp(own, rule(id, family, rng))
    })
}

/// So many IPv4 addresses.
fn addresses(first: u32, width: u32) -> AddrMatch {
    AddrMatch::Ranges(RangeSet::range(first.into(), (first + width - 1).into()))
}

/// The rule with other tests: these, of TCP.
fn about_tcp(own: Vec<Cond>, rule: Rule) -> Rule {
    let own = own.into_iter().chain([Cond::Proto(RangeSet::one(6))]);
    Rule {
        tests: own.map(test).collect(),
        ..rule
    }
}

/// Packets from one address.
pub fn source(address: u32) -> Test {
    test(Cond::Src(addresses(address, 1)))
}

/// That a packet is as a condition says.
fn test(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

fn policy_of(
    seed: u64,
    family: Family,
    rules: u32,
    mut rule: impl FnMut(u32, Family, &mut Rng) -> Rule,
) -> Policy {
    let mut rng = Rng::with_seed(seed);
    let chain = Chain {
        name: "FORWARD".into(),
        family,
        table: Table::Filter,
        rules: (0..rules).map(|id| rule(id, family, &mut rng)).collect(),
        policy: Some(ChainPolicy {
            id: RuleId(rules),
            origin: ORIGIN,
            verdict: Verdict::Accept,
            preset: Counters::default(),
        }),
    };
    Policy {
        chains: vec![chain],
        roots: vec![Root {
            family,
            hook: Hook::Forward,
            table: Table::Filter,
            chain: ChainId(0),
        }],
        rule_count: rules + 1,
        ..Policy::default()
    }
}
