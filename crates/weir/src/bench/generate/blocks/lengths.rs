//! Pairs of prefix lengths.
//!
//! In: spikes, pairs and how often they are. Out: one of them, moved by at most two bits in all, so
//! that tables of lengths are not sparse. How far each is moved is the published model's smoothing
//! of two bits: the sum of both by a binomial distribution, each side's part of it by another.

use crate::bench::random::Random;

/// How often, and source and destination length.
pub type Spike = (f64, u8, u8);

/// How often the sum of both lengths is moved by -2 to 2.
const MOVES: [f64; 5] = [1.0, 4.0, 6.0, 4.0, 1.0];

/// A pair of lengths.
pub fn draw(spikes: &[Spike], random: &mut Random) -> [u8; 2] {
    let (_, src, dst) = spikes[random.weighted(spikes.iter().map(|one| one.0))];
    let fits = |length: i32| (0..=32).contains(&length);
    // What leaves the address is drawn again, so a spike at the edge is a higher one.
    loop {
        let sum = random.weighted(MOVES.into_iter()) as i32 - 2;
        let coin = |random: &mut Random| i32::from(random.chance(0.5));
        let part = match sum {
            0 => coin(random) - coin(random),
            _ => (0..sum.abs()).map(|_| coin(random)).sum::<i32>() * sum.signum(),
        };
        let moved = [i32::from(src) + part, i32::from(dst) + sum - part];
        if moved.iter().all(|&length| fits(length)) {
            return moved.map(|length| length as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_near_and_in_the_address() {
        let mut random = Random::new(1);
        let mut same = 0;
        for _ in 0..10_000 {
            let [src, dst] = draw(&[(1.0, 32, 0)], &mut random);
            assert!((30..=32).contains(&src) && dst <= 2, "{src} {dst}");
            same += usize::from((src, dst) == (32, 0));
        }
        assert!((3_000..6_000).contains(&same), "{same}");
    }
}
