//! The Rust lookup, one packet after the other.

use super::{Asked, Walker};
use std::hint::black_box;
use std::time::Instant;
use weir_engine::lookup::Lookup;

/// The Rust lookup.
pub struct Scalar<'a> {
    asked: &'a Asked<'a>,
}

impl<'a> Scalar<'a> {
    /// A walker over these packets.
    pub fn new(asked: &'a Asked<'a>) -> Self {
        Scalar { asked }
    }
}

impl Walker for Scalar<'_> {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        let keys = &self.asked.keys[first..first + out.len()];
        let began = Instant::now();
        for (key, out) in keys.iter().zip(&mut *out) {
            *out = Lookup::new(self.asked.image, self.asked.root_at, *key).next(0);
        }
        black_box(out);
        Ok(began.elapsed().as_secs_f64() * 1e9)
    }
}
