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
    let mut put = |cond| {
        tests.push(Test {
            negate: false,
            cond,
        });
    };
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

/// Packets from one address.
pub fn source(address: u32) -> Test {
    Test {
        negate: false,
        cond: Cond::Src(AddrMatch::Ranges(RangeSet::range(
            address.into(),
            address.into(),
        ))),
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
