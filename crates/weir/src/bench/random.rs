//! Random numbers that stay the same for ever: xoshiro256** (Blackman, Vigna 2018), seeded by
//! splitmix64.
//!
//! In: a seed. Out: the same numbers on every machine and with every version of weir, so that a
//! published family, size and seed name one rule set. Not for anything that has to be secret.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

/// One step of splitmix64; also a good hash of a word.
pub fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The source that a seed names.
    pub fn new(seed: u64) -> Self {
        let step = |n: u64| mix(seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Random([step(0), step(1), step(2), step(3)])
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number below `end`, which is not 0. The bias is below 2^-32 for what is asked for here.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A number from 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Any value from `first` to `last`, both included, of 128 bits.
    pub fn wide(&mut self, first: u128, last: u128) -> u128 {
        let word = u128::from(self.word()) << 64 | u128::from(self.word());
        match (last - first).checked_add(1) {
            None => word,
            Some(count) => first + word % count,
        }
    }

    /// The index of one of these weights, each as often as it weighs.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.unit() * weights.clone().sum::<f64>();
        let mut last = 0;
        for (at, weight) in weights.enumerate() {
            last = at;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// A rank below `count`, the low ones more often: skew 0 is even, 1 is much like Zipf's law.
    pub fn rank(&mut self, count: usize, skew: f64) -> usize {
        let power = 1.0 + 3.0 * skew;
        ((self.unit().powf(power) * count as f64) as usize).min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_change() {
        // Whoever changes these makes every published seed mean something else.
        let mut random = Random::new(1);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(words, NUMBERS);
    }

    const NUMBERS: [u64; 3] = [
        12_966_619_160_104_079_557,
        9_600_361_134_598_540_522,
        10_590_380_919_521_690_900,
    ];

    #[test]
    fn ranges_are_inclusive_and_reached() {
        let mut random = Random::new(7);
        let seen: std::collections::BTreeSet<u64> =
            (0..200).map(|_| random.between(3, 5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
        assert!((0..1000).all(|_| random.unit() < 1.0));
        assert!((0..1000).all(|_| (10..=12).contains(&random.wide(10, 12))));
        assert!((0..1000).all(|_| random.weighted([0.0, 1.0, 0.0].into_iter()) == 1));
    }
}
