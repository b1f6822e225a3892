//! Data planes that carry packets: eBPF programs on netfilter hooks.

pub mod abi;
mod clock;
pub mod error;
pub mod features;
pub mod load;
mod sys;

pub use error::{PlaneError, Result};
