//! Packets: bytes to the fixed-size [`Key`] that lookups work on, to
//! [`weir_policy::model::Packet`] that the evaluator works on, and back to bytes.
//!
//! [`parse`] is the twin of `plane/bpf/parse.h`; a test runs both on the same random bytes.

pub mod beside;
pub mod build;
pub mod checksum;
pub mod convert;
pub mod frame;
pub mod ipf;
pub mod ipfw;
pub mod key;
pub mod parse;
mod reading;

pub use build::{BuildError, build, settle};
pub use convert::{Arrival, key_of, packet};
pub use frame::frame;
pub use key::Key;
pub use parse::{Bytes, embedded, parse};
