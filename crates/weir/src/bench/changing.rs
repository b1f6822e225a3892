//! Random changes of single rules of a set in use, and how long each takes until packets meet it.
//!
//! In: a kept policy. Out: the times, and how many changes took a new image. Each change takes out
//! a random rule, or puts one of those taken out back in at a random number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_engine::update::{Change, Home, Kept};
use weir_policy::model::{ChainId, Rule};

/// Which changes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many.
    pub updates: u32,
    /// Seed of what changes.
    pub seed: u64,
    /// Changes a second; 0: one after the other.
    pub rate: u32,
}

/// What the changes took.
#[derive(Debug, Default, serde::Serialize)]
pub struct Times {
    /// Made by a few stores.
    pub in_place: usize,
    /// Those that took a new image, by the reason.
    pub rebuilt: BTreeMap<String, usize>,
    /// Those that failed.
    pub failed: usize,
    /// Images that took the place of worn ones, in the background.
    pub renewals: usize,
    /// Microseconds until packets meet the change, all of them.
    pub p50_us: f64,
    /// The same.
    pub p99_us: f64,
    /// The same.
    pub max_us: f64,
    /// Seconds for all.
    pub seconds: f64,
}

/// Random numbers (Steele, Lea, Flood 2014).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % limit.max(1) as u64) as usize
    }
}

/// Makes the changes in the first chain.
pub fn changes<H: Home>(kept: &mut Kept<H>, plan: Plan) -> Times {
    let chain = ChainId(0);
    let mut numbers = Numbers(plan.seed);
    let mut pool: Vec<Rule> = Vec::new();
    let mut micros = Vec::with_capacity(plan.updates as usize);
    let mut out = Times::default();
    let started = Instant::now();
    for number in 0..plan.updates {
        if plan.rate > 0 {
            let due = Duration::from_secs_f64(f64::from(number) / f64::from(plan.rate));
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        let order = kept.live().order(chain).unwrap_or_default();
        let (at, length) = (numbers.below(order.len()), order.len());
        let change = match pool.is_empty() || length > 0 && numbers.below(2) == 0 {
            true => {
                let rule = order.get(at).and_then(|id| kept.live().rule(*id));
                pool.extend(rule.cloned());
                Change::Delete(chain, at)
            }
            false => {
                let taken = numbers.below(pool.len());
                Change::Insert(chain, at, pool.swap_remove(taken))
            }
        };
        let began = Instant::now();
        match kept.change(&change) {
            Ok(done) => {
                micros.push(began.elapsed().as_nanos() as f64 / 1e3);
                match done.rebuilt {
                    None => out.in_place += 1,
                    Some(why) => *out.rebuilt.entry(why.0.to_owned()).or_default() += 1,
                }
            }
            Err(_) => out.failed += 1,
        }
    }
    out.seconds = started.elapsed().as_secs_f64();
    out.renewals = kept.renewals();
    out.take(micros);
    out
}

impl Times {
    /// Takes the microseconds of all changes in.
    pub fn take(&mut self, mut micros: Vec<f64>) {
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = micros.len().saturating_sub(1);
            let place = (last as f64 * share) as usize;
            micros.get(place).copied().unwrap_or(0.0)
        };
        (self.p50_us, self.p99_us, self.max_us) = (at(0.5), at(0.99), at(1.0));
    }

    /// In words.
    pub fn words(&self, name: &str) -> String {
        format!(
            "{name}: {} in place, built for one {:?}, {} in the background, {} failed; \
             p50 {:.1} us, p99 {:.1} us, most {:.0} us; {:.1} s in all",
            self.in_place,
            self.rebuilt,
            self.renewals,
            self.failed,
            self.p50_us,
            self.p99_us,
            self.max_us,
            self.seconds
        )
    }
}
