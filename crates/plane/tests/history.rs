//! Histories in the kernel against user space and the reference. Needs root and a kernel from 6.6
//! on.

#[path = "../../engine/tests/conversation/mod.rs"]
mod conversation;
#[path = "flow/kernel.rs"]
mod kernel;
#[path = "../../engine/tests/conversation/memory.rs"]
mod memory;

use conversation::{Traffic, about};
use kernel::{Kernel, Try};
use weir_engine::flow::{FlowTable, Layout, Seed};
use weir_engine::history::{Histories, layout};
use weir_engine::packet::key_of;
use weir_policy::eval::history::Histories as Reference;
use weir_policy::eval::track::Tracker;
use weir_policy::model::HistoryId;
use zerocopy::IntoBytes;

const HISTORIES: u32 = 12;

/// How often a history held.
fn equal(seed: u64, packets: u32) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let policy = memory::policy(&mut rng, HISTORIES);
    let hash = Seed([rng.u64(..), rng.u64(..)]);
    let places = layout(&policy, seed).expect("it fits");
    let flows = Layout::for_flows(4096);
    let mask = places.bytes.next_power_of_two().max(1 << 16) as u32 - 1;
    let mut kernel = Kernel::load_with(flows, hash, mask);
    let mut image = vec![0u8; 0x10000 + 4096];
    for (at, record) in places.records.iter().enumerate() {
        image[64 * at..64 * at + 64].copy_from_slice(record.as_bytes());
    }
    kernel.write("images", 0, &image);
    let mut engine = Histories::new(places, hash);
    let mut table = FlowTable::new(flows, hash);
    let mut traffic = Traffic::new(seed);
    let mut tracker = Tracker::default();
    let mut reference = Reference::new(&policy);
    reference.seed = seed;
    let (mut now, mut held) = (0, 0);
    for at in 0..packets {
        let packet = traffic.next();
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
            tests: 6,
            number: std::array::from_fn(|_| rng.u32(..HISTORIES)),
            ..Try::default()
        };
        kernel.run(&mut one);
        let seen = tracker.look(&packet, now);
        let found = table.lookup(&mut key, inside.as_ref(), now);
        for (index, theirs) in one.number.into_iter().zip(one.answer).take(6) {
            let kind = &policy.histories[index as usize].kind;
            let context = || format!("seed {seed}, packet {at}, {now} ms, {kind:?}: {packet:#?}");
            let ours = reference.test(HistoryId(index), &packet, &tracker, Some(&seen), now);
            let user = engine.test(index, &key, &table, &found, now);
            assert_eq!(user, ours, "user space: {}", context());
            assert_eq!(theirs != 0, ours, "kernel: {}", context());
            held += u64::from(ours);
        }
        if one.confirm != 0 {
            tracker.confirm(&packet, &seen, now);
            table.confirm(&key, &found, now);
        }
    }
    held
}

#[test]
fn kernel_equals_user_space_and_reference() {
    let held: u64 = (0..16).map(|seed| equal(seed, 1500)).sum();
    println!("{held} of {} tests held", 16 * 1500 * 6);
    assert!(held > 10_000);
}
