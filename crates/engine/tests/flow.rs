//! The flow table against the reference: the same answers for the same packets.

mod conversation;

use conversation::{Traffic, about};
use weir_engine::flow::{FlowTable, Found, Layout, Seed};
use weir_engine::packet::key_of;
use weir_policy::eval::track::Tracker;
use weir_policy::model::Direction;

/// Runs both over the same packets.
fn equal(seed: u64, packets: u32) -> [u64; 5] {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xff);
    let mut traffic = Traffic::new(seed);
    let mut tracker = Tracker::default();
    let mut table = FlowTable::new(Layout::for_flows(4096), Seed([rng.u64(..), rng.u64(..)]));
    let mut states = [0; 5];
    let mut now = traffic.now_ms;
    for at in 0..packets {
        let packet = traffic.next();
        if traffic.now_ms - now > 86_400_000 {
            table.sweep(table.layout.slots(), traffic.now_ms);
        }
        now = traffic.now_ms;
        let mut key = key_of(&packet);
        let seen = tracker.look(&packet, now);
        let mut found = table.lookup(&mut key, about(&packet).as_ref(), now);
        let context =
            || format!("seed {seed}, packet {at}, {now} ms: {packet:#?}\n{seen:?}\n{found:?}");
        assert_eq!(key.state, seen.state as u8, "{}", context());
        assert_eq!(
            found.found != Found::None,
            seen.flow.is_some(),
            "{}",
            context()
        );
        states[key.state.trailing_zeros() as usize] += 1;
        if let Some(flow) = tracker.flow(&seen) {
            let reply = seen.direction == Direction::Reply;
            assert_eq!(found.reply, reply, "{}", context());
            assert_eq!(table.mark(&found), tracker.connmark(&seen), "{}", context());
            if let Some(mine) = table.flow(&found, now) {
                assert_eq!(
                    u64::from(mine.left_ms),
                    flow.expires_ms - now,
                    "{}",
                    context()
                );
                assert_eq!(mine.answered, flow.status & 2 != 0, "{}", context());
                assert_eq!(mine.assured, flow.status & 4 != 0, "{}", context());
                assert_eq!(mine.state, flow.tcp.state as u8, "{}", context());
                assert_eq!((mine.src, mine.dst), (flow.original.src, flow.original.dst));
                assert_eq!(mine.src_port, flow.original.src_port);
                assert_eq!(mine.dst_port, flow.original.dst_port);
            }
            if rng.u8(..8) == 0 {
                let mark = rng.u32(..);
                tracker.set_connmark(&seen, mark);
                table.set_mark(&mut found, mark);
            }
        }
        if rng.u8(..8) != 0 {
            tracker.confirm(&packet, &seen, now);
            table.confirm(&key, &found, now);
        }
    }
    states
}

#[test]
fn table_equals_reference() {
    let mut sum = [0; 5];
    for seed in 0..200 {
        for (sum, count) in sum.iter_mut().zip(equal(seed, 2000)) {
            *sum += count;
        }
    }
    println!("invalid, new, established, related, untracked: {sum:?}");
    assert!(sum.iter().all(|count| *count > 1000), "{sum:?}");
}
