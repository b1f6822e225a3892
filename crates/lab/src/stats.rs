//! Small statistics over measured rounds: medians, quartiles, paired differences, intervals.
//!
//! In: samples in nanoseconds (or any unit), round by round. Out: order statistics and a seeded
//! bootstrap interval of the median, so that a report can be recomputed from its raw rows. Means
//! are not offered: on a shared machine the mean is the neighbours and the median is the path.

use serde::Serialize;

/// The middle of a sample and how far it strays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub quartile_low: f64,
    /// The upper quartile.
    pub quartile_high: f64,
    /// Lower end of the 95 % bootstrap interval of the median.
    pub interval_low: f64,
    /// Upper end of the same interval.
    pub interval_high: f64,
}

/// Resamples for one bootstrap interval; more change the ends by less than the noise here.
const RESAMPLES: usize = 2000;
/// Every interval starts from this seed, so that the same samples give the same interval.
const SEED: u64 = 0x5eed;

/// The value below which the share `q` of the samples lies, linear between neighbours.
///
/// # Panics
/// When there is no sample, or one is not a number.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    assert!(!samples.is_empty(), "a quantile needs at least one sample");
    assert!(
        samples.iter().all(|sample| !sample.is_nan()),
        "a sample is not a number"
    );
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The median.
///
/// # Panics
/// As [`quantile`].
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Median, quartiles and a 95 % interval of the median.
///
/// # Panics
/// As [`quantile`].
pub fn summarise(samples: &[f64]) -> Summary {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut medians = Vec::with_capacity(RESAMPLES);
    let mut resample = vec![0.0; samples.len()];
    for _ in 0..RESAMPLES {
        for slot in &mut resample {
            *slot = samples[random.usize(..samples.len())];
        }
        medians.push(median(&resample));
    }
    Summary {
        count: samples.len(),
        median: median(samples),
        quartile_low: quantile(samples, 0.25),
        quartile_high: quantile(samples, 0.75),
        interval_low: quantile(&medians, 0.025),
        interval_high: quantile(&medians, 0.975),
    }
}

/// `a - b` round by round: what was added inside the same minute, not between two minutes.
///
/// # Panics
/// When the two have different numbers of rounds.
pub fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    assert_eq!(a.len(), b.len(), "rounds are paired");
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// `a / b` round by round.
///
/// # Panics
/// When the two have different numbers of rounds.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    assert_eq!(a.len(), b.len(), "rounds are paired");
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn quartiles_are_linear_between_neighbours() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(quantile(&samples, 0.25), 2.0);
        assert_eq!(quantile(&samples, 0.75), 4.0);
        assert_eq!(quantile(&samples, 0.1), 1.4);
        assert_eq!(quantile(&samples, 0.0), 1.0);
        assert_eq!(quantile(&samples, 1.0), 5.0);
    }

    #[test]
    fn one_wild_round_does_not_move_the_median() {
        let calm = summarise(&[10.0, 11.0, 12.0, 13.0, 14.0]);
        let wild = summarise(&[10.0, 11.0, 12.0, 13.0, 14_000.0]);
        assert_eq!(calm.median, wild.median);
        assert_eq!(calm.quartile_low, wild.quartile_low);
    }

    #[test]
    fn interval_is_repeatable_and_holds_the_median() {
        let samples: Vec<f64> = (0..41).map(|i| f64::from(i * 37 % 41)).collect();
        let once = summarise(&samples);
        assert_eq!(once, summarise(&samples));
        assert!(once.interval_low < once.median && once.median < once.interval_high);
        assert!(once.quartile_low < once.interval_low && once.interval_high < once.quartile_high);
    }

    #[test]
    fn pairing_cancels_a_slow_minute() {
        let base = [700.0, 1400.0, 700.0];
        let loaded = [740.0, 1440.0, 740.0];
        assert_eq!(differences(&loaded, &base), [40.0, 40.0, 40.0]);
        assert_eq!(ratios(&[2.0, 3.0], &[1.0, 2.0]), [2.0, 1.5]);
    }

    #[test]
    #[should_panic(expected = "rounds are paired")]
    fn unequal_rounds_are_refused() {
        differences(&[1.0], &[1.0, 2.0]);
    }
}
