//! weir-testkit: what the tests of the other crates share. Development only.
//!
//! [`random`] makes policies and packets from a seed.

pub mod random;
