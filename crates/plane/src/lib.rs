//! Data planes that carry packets: eBPF programs on netfilter hooks.

pub mod abi;
mod clock;
mod counters;
pub mod error;
pub mod features;
pub mod load;
pub mod swap;
mod sys;
pub mod testrun;

pub use error::{PlaneError, Result};

/// For tests: whether kernel tests can run here. Says loudly when not; with `WEIR_REQUIRE_KERNEL=1`
/// that is a failure.
///
/// # Panics
/// When the kernel is required and missing.
pub fn kernel_or_skip(test: &str) -> Option<()> {
    match features::check() {
        Ok(()) => Some(()),
        Err(e) if std::env::var_os("WEIR_REQUIRE_KERNEL").is_some_and(|v| v == "1") => {
            panic!("{test} needs the kernel: {e}")
        }
        Err(e) => {
            eprintln!("SKIPPED {test}: {e}");
            None
        }
    }
}
