//! Packet and byte counters of rules: sums over the shards of a slot. Behind them, for policies
//! that ask for it, the time of each rule's last match.

use crate::load::Instance;
use crate::plane::GoingOn;
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

/// Add to the counters of a slot.
pub fn add(instance: &Instance, slot: u32, more: &[(u64, u64)]) {
    let map = instance.map("counters");
    for (rule, (packets, bytes)) in more.iter().enumerate() {
        let at = place(instance, slot, 0, rule as u32);
        for (offset, more) in [(0, *packets), (8, *bytes)] {
            if more > 0 {
                map.memory().add64(at + offset, more);
            }
        }
    }
}

/// What counters have beyond an earlier reading.
pub fn beyond(before: &[(u64, u64)], after: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let pairs = before.iter().zip(after);
    // Nothing counts backwards but a rule that was zeroed meanwhile.
    let more = |(before, after): (&(u64, u64), &(u64, u64))| {
        (
            after.0.saturating_sub(before.0),
            after.1.saturating_sub(before.1),
        )
    };
    pairs.map(more).collect()
}

/// What rules that go on with the counters of others have not counted yet, by rule. The others are
/// those of a slot of an instance.
pub fn missed((instance, slot): (&Instance, u32), going_on: GoingOn<'_>) -> Vec<(u64, u64)> {
    if going_on.was.is_empty() {
        return Vec::new();
    }
    let rules = (going_on.counted.len() as u32).min(instance.settings.rule_capacity);
    let more = beyond(going_on.counted, &read(instance, slot, rules));
    let of = |was: &Option<u32>| was.and_then(|was| more.get(was as usize));
    let missed = going_on.was.iter().map(|was| of(was).copied());
    missed.map(Option::unwrap_or_default).collect()
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
