//! Random numbers for sampling: the same for all engines, from a seed and a count of packets.

/// The number for packet `count` of an object: 31 bits, uniform. SplitMix64's finisher (Steele,
/// Lea, Flood 2014) over a counter.
pub fn random_31(seed: u64, object: u32, count: u64) -> u32 {
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let start = seed ^ u64::from(object).wrapping_mul(0xd134_2543_de82_ef95);
    let mut x = start.wrapping_add(count.wrapping_add(1).wrapping_mul(step));
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 33) as u32
}
