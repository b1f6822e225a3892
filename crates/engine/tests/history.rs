//! Histories in flat memory against the reference.

mod conversation;
#[path = "conversation/memory.rs"]
mod memory;

use conversation::{Traffic, about};
use weir_engine::flow::{FlowTable, Layout, Seed};
use weir_engine::history::{Histories, layout};
use weir_engine::packet::key_of;
use weir_policy::eval::history::Histories as Reference;
use weir_policy::eval::track::Tracker;
use weir_policy::model::{HistoryId, HistoryKind};

fn discriminant(kind: &HistoryKind) -> usize {
    match kind {
        HistoryKind::Limit(_) => 0,
        HistoryKind::HashLimit(_) => 1,
        HistoryKind::Recent(_) => 2,
        HistoryKind::ConnLimit(_) => 3,
        HistoryKind::Statistic(_) => 4,
        HistoryKind::Quota(_) => 5,
        HistoryKind::Time(_) => 6,
        HistoryKind::PerSecond(_) => 7,
        HistoryKind::Meter(_) => 8,
    }
}

/// Counts of answers by kind: no, yes.
fn equal(seed: u64, packets: u32) -> [[u64; 2]; 9] {
    let mut rng = fastrand::Rng::with_seed(seed);
    let policy = memory::policy(&mut rng, 12);
    let hash = Seed([rng.u64(..), rng.u64(..)]);
    let mut traffic = Traffic::new(seed);
    let mut tracker = Tracker::default();
    let mut table = FlowTable::new(Layout::for_flows(4096), hash);
    let mut reference = Reference::new(&policy);
    reference.seed = seed;
    let mut engine = Histories::new(layout(&policy, seed).expect("it fits"), hash);
    let mut answers = [[0; 2]; 9];
    let mut now = traffic.now_ms;
    for at in 0..packets {
        let packet = traffic.next();
        if traffic.now_ms - now > 86_400_000 {
            table.sweep(table.layout.slots(), traffic.now_ms);
        }
        now = traffic.now_ms;
        let mut key = key_of(&packet);
        let seen = tracker.look(&packet, now);
        let found = table.lookup(&mut key, about(&packet).as_ref(), now);
        for _ in 0..4 {
            let index = rng.u32(..12);
            let kind = &policy.histories[index as usize].kind;
            let theirs = engine.test(index, &key, &table, &found, now);
            let ours = reference.test(HistoryId(index), &packet, &tracker, Some(&seen), now);
            assert_eq!(
                theirs, ours,
                "seed {seed}, packet {at}, {now} ms, {kind:?}: {packet:#?}"
            );
            answers[discriminant(kind)][usize::from(ours)] += 1;
        }
        if rng.u8(..8) != 0 {
            tracker.confirm(&packet, &seen, now);
            table.confirm(&key, &found, now);
        }
    }
    answers
}

#[test]
fn histories_equal_reference() {
    let mut sum = [[0; 2]; 9];
    for seed in 0..150 {
        for (sum, one) in sum.iter_mut().zip(equal(seed, 1500)) {
            sum[0] += one[0];
            sum[1] += one[1];
        }
    }
    println!(
        "limit, hashlimit, recent, connlimit, statistic, quota, time, per second, meter: {sum:?}"
    );
    assert!(sum.iter().flatten().all(|count| *count > 100), "{sum:?}");
}
