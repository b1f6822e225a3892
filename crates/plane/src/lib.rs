//! Data planes that carry packets: eBPF programs on netfilter hooks.

pub mod abi;
pub mod agent;
mod ahead;
mod alive;
pub mod answers;
mod attach;
pub mod bench;
mod clock;
mod counters;
pub mod dynamic;
pub mod error;
pub mod events;
pub mod features;
mod flows;
pub mod hooks;
mod lanes;
pub mod learned;
pub mod load;
pub mod locals;
pub mod logtext;
pub mod meters;
pub mod needs;
mod pace;
mod parts;
mod pin;
mod plane;
pub mod records;
pub mod shape;
pub mod shares;
pub mod space;
pub mod swap;
mod sys;
pub mod tally;

pub use sys::addresses::Address;
pub use sys::zone::kernel_zone;
pub mod testrun;
pub mod update;
mod wayback;
pub mod written;

pub use agent::Agent;
pub use error::{PlaneError, Result};
pub use plane::{Applied, ApplyOptions, GoingOn, Plane, Status};
pub use swap::Policy;

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
