//! The flow table in the kernel against the table in user space and the reference: the same
//! answers, statistics and bytes for the same packets. Needs root and a kernel from 6.6 on.

#[path = "../../engine/tests/conversation/mod.rs"]
mod conversation;
#[path = "flow/kernel.rs"]
mod kernel;

use conversation::{Traffic, about};
use kernel::{Kernel, Try};
use weir_engine::flow::{FlowTable, Found, Layout, Seed, flows};
use weir_engine::packet::key_of;
use weir_policy::eval::track::Tracker;

/// Runs the same packets through kernel, table and, when the table is large enough never to be
/// full, the reference.
fn equal(seed: u64, packets: u32, layout: Layout, reference: bool) -> ([u64; 16], usize) {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xff);
    let hash = Seed([rng.u64(..), rng.u64(..)]);
    let mut kernel = Kernel::load(layout, hash);
    let mut table = FlowTable::new(layout, hash);
    let mut tracker = Tracker::default();
    let mut traffic = Traffic::new(seed);
    if !reference {
        traffic.ports = 200;
    }
    let mut now = 0;
    for at in 0..packets {
        let packet = traffic.next();
        // Nothing sweeps a whole table here: stay within the life of an entry's clock.
        if traffic.now_ms - now > 400_000_000 && now > 0 {
            traffic.now_ms -= 399_000_000;
        }
        now = traffic.now_ms;
        let mut key = key_of(&packet);
        let inside = about(&packet);
        let mut one = Try {
            packet: key,
            about: inside.unwrap_or_default(),
            now_ms: now,
            has_about: u32::from(inside.is_some()),
            confirm: u32::from(rng.u8(..8) != 0),
            set_mark: u32::from(rng.u8(..8) == 0),
            mark: rng.u32(..),
            ..Try::default()
        };
        kernel.run(&mut one);
        let mut found = table.lookup(&mut key, inside.as_ref(), now);
        let mark = table.mark(&found);
        let context =
            || format!("seed {seed}, packet {at}, {now} ms: {packet:#?}\n{found:?}\n{one:?}");
        assert_eq!(one.packet.state, key.state, "{}", context());
        assert_eq!(one.found.found, found.found as u8, "{}", context());
        assert_eq!(
            (one.has_mark != 0).then_some(one.result_mark),
            mark,
            "{}",
            context()
        );
        if found.found == Found::Known {
            assert_eq!(one.found.slot, found.slot, "{}", context());
            assert_eq!(one.found.reply != 0, found.reply, "{}", context());
        }
        if one.set_mark != 0 {
            table.set_mark(&mut found, one.mark);
        }
        if one.confirm != 0 {
            table.confirm(&key, &found, now);
        }
        if reference {
            let seen = tracker.look(&packet, now);
            assert_eq!(key.state, seen.state as u8, "seed {seed}, packet {at}");
            if one.set_mark != 0 {
                tracker.set_connmark(&seen, one.mark);
            }
            if one.confirm != 0 {
                tracker.confirm(&packet, &seen, now);
            }
        }
    }
    assert_eq!(kernel.statistics(), table.statistics, "seed {seed}");
    let bytes = kernel.read("flows", 0);
    let theirs: Vec<_> = flows(&bytes, layout, now).collect();
    let ours: Vec<_> = table.flows(now).collect();
    assert_eq!(theirs, ours, "seed {seed}");
    (table.statistics, ours.len())
}

#[test]
fn kernel_equals_table_and_reference() {
    for seed in 0..10 {
        let (statistics, _) = equal(seed, 4000, Layout::for_flows(4096), true);
        assert_eq!(statistics[3], 0, "the table must not fill up here");
        assert!(statistics[0] > 100);
    }
}

#[test]
fn kernel_equals_table_when_full() {
    let mut sum = [0; 16];
    for seed in 100..106 {
        let (statistics, _) = equal(seed, 6000, Layout { lines: 1 }, false);
        for (sum, one) in sum.iter_mut().zip(statistics) {
            *sum += one;
        }
    }
    println!(
        "inserted, expired, evicted, full, exists, busy: {:?}",
        &sum[..6]
    );
    assert!(sum[1] > 0 && sum[2] > 0);
}
