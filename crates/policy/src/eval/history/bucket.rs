//! Token buckets that start full.
//!
//! What is remembered is what is missing from a full bucket, so that fresh memory is zeros. Units:
//! for packets waiting time (a token costs its price in time), in 100 us for limits and in 1 us for
//! hash limits; for bytes 1/1000 byte.

use crate::model::{HashLimit, Limit};

/// What a packet costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Units that come back each millisecond.
    pub per_ms: u64,
    /// Units that this packet takes.
    pub cost: u64,
    /// Units that a full bucket holds.
    pub full: u64,
}

impl Price {
    /// A limit's price: units of 100 us.
    pub fn limit(limit: &Limit) -> Self {
        Price {
            per_ms: 10,
            cost: u64::from(limit.cost),
            full: u64::from(limit.cost) * u64::from(limit.burst),
        }
    }

    /// A hash limit's price for a packet of that length.
    pub fn hash_limit(limit: &HashLimit, length: u32) -> Self {
        if limit.bytes {
            return Price {
                per_ms: limit.rate,
                cost: u64::from(length) * 1000,
                full: limit.burst.saturating_mul(1000),
            };
        }
        Price {
            per_ms: 1000,
            cost: limit.rate,
            full: limit.rate.saturating_mul(limit.burst),
        }
    }
}

/// A token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Units missing at `at_ms`.
    pub missing: u64,
    /// When it was last touched.
    pub at_ms: u64,
}

impl Bucket {
    /// Takes the cost of a packet out, if there is enough.
    pub fn take(&mut self, price: Price, now_ms: u64) -> bool {
        let waited = now_ms.saturating_sub(self.at_ms);
        let back = u128::from(waited) * u128::from(price.per_ms);
        self.missing = u64::try_from(u128::from(self.missing).saturating_sub(back))
            .expect("not more than before");
        self.at_ms = now_ms;
        let enough = price.full.saturating_sub(self.missing) >= price.cost;
        if enough {
            self.missing += price.cost;
        }
        enough
    }
}

/// Packets counted over a time, as xt_hashlimit does with `--hashlimit-rate-match`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When the present time began, and how many packets it has; `None` before the first.
    now: Option<(u64, u64)>,
    /// Whether the last one had too many.
    exceeded: bool,
}

impl Sample {
    /// Counts a packet; whether the rate is kept.
    pub fn count(&mut self, limit: &HashLimit, seconds: u32, now_ms: u64) -> bool {
        let span = u64::from(seconds) * 1000;
        let (since, packets) = self.now.unwrap_or((now_ms, 0));
        let passed = now_ms.saturating_sub(since);
        let (since, packets) = if passed >= span {
            let had = u128::from(packets) * u128::from(span);
            self.exceeded = had > u128::from(passed) * u128::from(limit.per_second());
            (now_ms, 1)
        } else {
            (since, packets + 1)
        };
        self.now = Some((since, packets));
        !self.exceeded && packets <= limit.burst + limit.per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_full_and_fills_at_its_rate() {
        let price = Price::limit(&Limit {
            cost: 10_000,
            burst: 3,
        });
        let mut bucket = Bucket::default();
        let taken: Vec<bool> = [5_000, 5_000, 5_000, 5_000, 5_999, 6_000, 6_001, 60_000]
            .map(|now| bucket.take(price, now))
            .to_vec();
        assert_eq!(taken, [true, true, true, false, false, true, false, true]);
    }
}
