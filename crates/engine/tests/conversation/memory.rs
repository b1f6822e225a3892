//! Random histories for tests: every kind, with bounds that traffic meets.

use fastrand::Rng;
use weir_policy::model::*;

fn recent(rng: &mut Rng) -> HistoryKind {
    use RecentAction::{Check, Remove, Set, Update};
    HistoryKind::Recent(Recent {
        action: rng
            .choice([Set, Set, Set, Check, Update, Update, Remove])
            .unwrap(),
        seconds: rng.choice([0, 1, 3, 60]).unwrap(),
        hitcount: rng.choice([0, 1, 3, 8, 20]).unwrap(),
        reap: rng.u8(..4) == 0,
        ttl: rng.u8(..4) == 0,
        destination: rng.bool(),
        mask: rng.choice([u128::MAX, !0xff, !1]).unwrap(),
    })
}

fn hash_limit(rng: &mut Rng) -> HistoryKind {
    let bytes = rng.u8(..3) == 0;
    HistoryKind::HashLimit(HashLimit {
        key: HashKey {
            src: rng.bool(),
            src_port: rng.bool(),
            dst: rng.bool(),
            dst_port: rng.bool(),
            src_prefix: rng.choice([32, 24, 31, 0, 64, 128]).unwrap(),
            dst_prefix: rng.choice([32, 24, 31, 0, 64, 128]).unwrap(),
        },
        above: rng.bool(),
        rate: if bytes {
            rng.u64(1..20_000)
        } else {
            rng.u64(1..3_000_000)
        },
        burst: if bytes {
            rng.u64(50..5000)
        } else {
            rng.u64(1..6)
        },
        bytes,
        expire_ms: rng.choice([100, 1000, 60_000]).unwrap(),
        max: 0,
        sampled: (!bytes && rng.bool()).then(|| rng.u32(1..4)),
    })
}

fn meter(rng: &mut Rng) -> HistoryKind {
    HistoryKind::Meter(Meter {
        rate: rng.choice([0, 800, 9_000, 64_001, 3_000_000]).unwrap(),
        room: match rng.u8(..3) {
            0 => MeterRoom::Bytes(rng.u32(..4000)),
            1 => MeterRoom::Packets(0),
            _ => MeterRoom::Packets(rng.u32(1..12)),
        },
        burst: rng.choice([0, 0, 700, 20_000]).unwrap(),
        key: rng.bool().then(|| MeterKey {
            src: rng.choice([0, 0xff, !0xff, u32::MAX]).unwrap(),
            dst: rng.choice([0, 0xff, !0xff, u32::MAX]).unwrap(),
            src6: rng.choice([0, 64, 127, 128]).unwrap(),
            dst6: rng.choice([0, 64, 127, 128]).unwrap(),
            src_port: rng.choice([0, 0xff, u16::MAX]).unwrap(),
            dst_port: rng.choice([0, 0xff, u16::MAX]).unwrap(),
            proto: rng.choice([0, u8::MAX]).unwrap(),
        }),
    })
}

fn kind(rng: &mut Rng) -> HistoryKind {
    match rng.u8(..13) {
        0 => HistoryKind::Limit(Limit {
            cost: rng.u32(1..40_000),
            burst: rng.u32(1..8),
        }),
        1..=3 => hash_limit(rng),
        4..=6 => recent(rng),
        7 => HistoryKind::ConnLimit(ConnLimit {
            destination: rng.bool(),
            prefix: rng.choice([32, 24, 31, 64, 128, 0]).unwrap(),
            above: rng.bool(),
            count: rng.u32(..6),
        }),
        8 => HistoryKind::Statistic(if rng.bool() {
            Statistic::Random(rng.u32(..1 << 31))
        } else {
            let every = rng.u32(1..5);
            Statistic::Nth {
                every,
                packet: rng.u32(..every),
            }
        }),
        9 => HistoryKind::PerSecond(rng.u32(1..20)),
        10 | 11 => meter(rng),
        _ if rng.bool() => HistoryKind::Quota(rng.u64(..40_000)),
        _ => HistoryKind::Time(TimeWindow {
            date_start: rng.choice([0, 1_000_000]).unwrap(),
            date_stop: rng.choice([u64::MAX, 5_000_000]).unwrap(),
            day_start: rng.u32(..86_400),
            day_stop: rng.u32(..86_400),
            month_days: rng.u32(..) | 1,
            week_days: rng.u8(..),
            offset: rng.i32(-50_000..50_000),
            contiguous: rng.bool(),
        }),
    }
}

/// A policy with so many histories, some with shared memory, some negated.
pub fn policy(rng: &mut Rng, count: u32) -> Policy {
    let mut policy = Policy::default();
    let mut tests = Vec::new();
    for at in 0..count {
        let kind = kind(rng);
        let name = match kind {
            HistoryKind::Recent(_) | HistoryKind::HashLimit(_) if rng.bool() => {
                Some("shared".into())
            }
            _ => None,
        };
        policy.histories.push(HistoryObject { shared: name, kind });
        tests.push(Test {
            negate: rng.u8(..4) == 0,
            cond: Cond::History(HistoryId(at)),
        });
    }
    let origin = Origin {
        source: SourceId(0),
        line: 1,
        column: 1,
    };
    let rule = Rule {
        id: RuleId(0),
        origin,
        index: 1,
        tests,
        ops: Vec::new(),
        flow: Flow::Next,
        preset: Counters::default(),
    };
    policy.chains.push(Chain {
        name: "chain".into(),
        family: Family::V4,
        table: Table::Filter,
        rules: vec![rule],
        policy: None,
    });
    policy
}
