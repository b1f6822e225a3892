//! Packet and byte counters of rules: sums over the shards of a slot.

use crate::load::Instance;

/// Packets and bytes of the first `rules` rules of a slot. A packet counted meanwhile may be seen
/// in one number and not in the other.
pub fn read(instance: &Instance, slot: u32, rules: u32) -> Vec<(u64, u64)> {
    let map = instance.map("counters");
    let shards = 1usize << instance.settings.shard_shift;
    let mut bytes = vec![0u8; rules as usize * shards * 16];
    map.memory().read(slot as usize * map.entry, &mut bytes);
    let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    (0..rules as usize)
        .map(|rule| {
            (0..shards).fold((0, 0), |(packets, total), shard| {
                let at = (rule * shards + shard) * 16;
                (packets + number(at), total + number(at + 8))
            })
        })
        .collect()
}

/// Start the counters of a slot that packets do not use from these numbers.
pub fn preset(instance: &Instance, slot: u32, values: &[(u64, u64)]) {
    let map = instance.map("counters");
    let rules = instance.settings.rule_capacity as usize;
    for (rule, (packets, bytes)) in values.iter().take(rules).enumerate() {
        let at = slot as usize * map.entry + (rule << instance.settings.shard_shift) * 16;
        map.memory().store64(at, *packets);
        map.memory().store64(at + 8, *bytes);
    }
}
