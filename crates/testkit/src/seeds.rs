//! Which random cases tests make: the same in every run, unless somebody asks for others.
//!
//! In: the environment. Out: numbers. `WEIR_SEED=100000` shifts the seeds of all random tests.

use std::ops::Range;

/// A number of the environment, or the usual one.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
}

/// So many seeds.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let first = setting("WEIR_SEED", 0);
    first..first + count
}
