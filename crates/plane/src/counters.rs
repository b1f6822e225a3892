//! Packet and byte counters of rules: sums over the shards of a slot. Behind them, for policies
//! that ask for it, the time of each rule's last match.

use crate::load::Instance;
use weir_engine::image::layout::FEATURE_TIMES;

/// Bytes of a counter: packets and bytes.
pub const SIZE: usize = 16;

/// Packets and bytes of the first `rules` rules of a slot. A packet counted meanwhile may be seen
/// in one number and not in the other.
pub fn read(instance: &Instance, slot: u32, rules: u32) -> Vec<(u64, u64)> {
    let map = instance.map("counters");
    let mut sums = vec![(0, 0); rules as usize];
    let mut bytes = vec![0u8; rules as usize * SIZE];
    for shard in 0..instance.settings.shards {
        map.memory()
            .read(place(instance, slot, shard, 0), &mut bytes);
        for ((packets, total), counter) in sums.iter_mut().zip(bytes.chunks_exact(SIZE)) {
            let number =
                |at| u64::from_ne_bytes(counter[at..at + 8].try_into().expect("eight bytes"));
            *packets += number(0);
            *total += number(8);
        }
    }
    sums
}

/// Start the counters of a slot that packets do not use from these numbers.
pub fn preset(instance: &Instance, slot: u32, values: &[(u64, u64)]) {
    let map = instance.map("counters");
    let rules = instance.settings.rule_capacity;
    for (rule, (packets, bytes)) in (0..rules).zip(values) {
        let at = place(instance, slot, 0, rule);
        map.memory().store64(at, *packets);
        map.memory().store64(at + 8, *bytes);
    }
}

/// Add to the counters of a slot what these numbers have beyond earlier ones.
pub fn add(instance: &Instance, slot: u32, before: &[(u64, u64)], after: &[(u64, u64)]) {
    let map = instance.map("counters");
    for (rule, (before, after)) in before.iter().zip(after).enumerate() {
        let at = place(instance, slot, 0, rule as u32);
        for (offset, more) in [(0, after.0 - before.0), (8, after.1 - before.1)] {
            if more > 0 {
                map.memory().add64(at + offset, more);
            }
        }
    }
}

/// Let one rule's counter begin at zero.
pub fn zero(instance: &Instance, slot: u32, rule: u32) {
    let map = instance.map("counters");
    for shard in 0..instance.settings.shards {
        map.memory().zero(place(instance, slot, shard, rule), SIZE);
    }
}

/// Where a rule's counter in a shard is (`weir_count` in `maps.h`).
fn place(instance: &Instance, slot: u32, shard: u32, rule: u32) -> usize {
    let number = shard as usize * instance.settings.rule_capacity as usize + rule as usize;
    slot as usize * instance.map("counters").entry + number * SIZE
}

/// Bytes of a time: units of 1024 ms of the packet clock, 0 for never.
const TIME_SIZE: usize = 4;

/// Bytes of a slot for so many rules, counted in so many shards.
pub fn slot_size(rules: u32, shards: u32, features: u32) -> u32 {
    let times = match features & FEATURE_TIMES {
        0 => 0,
        _ => TIME_SIZE as u32,
    };
    rules * (shards * SIZE as u32 + times)
}

/// Where the times of a slot are; `None` where none are kept.
fn times_at(instance: &Instance, slot: u32) -> Option<usize> {
    let kept = instance.settings.features & FEATURE_TIMES != 0;
    kept.then(|| place(instance, slot, instance.settings.shards, 0))
}

/// When the first `rules` rules of a slot last matched; zeros where that isn't kept.
pub fn times(instance: &Instance, slot: u32, rules: u32) -> Vec<u32> {
    let Some(at) = times_at(instance, slot) else {
        return vec![0; rules as usize];
    };
    let memory = instance.map("counters").memory();
    let time = |rule: usize| memory.load32(at + rule * TIME_SIZE);
    (0..rules as usize).map(time).collect()
}

/// Let rules of a slot that packets do not use have matched then.
pub fn preset_times(instance: &Instance, slot: u32, times: &[u32]) {
    let Some(at) = times_at(instance, slot) else {
        return;
    };
    let memory = instance.map("counters").memory();
    let rules = instance.settings.rule_capacity as usize;
    for (rule, time) in times.iter().take(rules).enumerate() {
        memory.store32(at + rule * TIME_SIZE, *time);
    }
}
