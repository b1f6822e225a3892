//! Random policies and packets for equality tests, reproducible from a seed.
//!
//! Policies are made as [`weir_policy::model::Policy`] directly, from small pools of values so that
//! rules overlap, nest and nearly miss. Packets are made from the policy they will meet: fields sit
//! on the ends of its ranges, one beside them, or anywhere.

mod aside;
pub mod boxes;
pub mod ipfw;
mod lists;
mod packets;
mod policies;
pub mod saved;
mod shape;

pub use packets::PacketSource;
pub use policies::{HOOKS, policy};
pub use shape::Shape;

use fastrand::Rng;

/// One of the values.
pub(crate) fn pick<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    &values[rng.usize(..values.len())]
}

/// True in `percent` of 100 cases.
pub(crate) fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(..100) < percent
}
