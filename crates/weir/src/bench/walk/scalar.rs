//! The Rust lookups: first matches one packet after the other, many at once, and the walk that can
//! go on to later matches.

use super::{Asked, Walker};
use std::hint::black_box;
use std::time::Instant;
use weir_engine::lookup::{Key, Lookup, Searcher};

/// Looks packets up and takes the time.
fn timed(out: &mut [u32], look: impl FnOnce(&mut [u32])) -> f64 {
    let began = Instant::now();
    look(out);
    black_box(out);
    began.elapsed().as_secs_f64() * 1e9
}

/// First matches, one packet after the other, one word after the other.
pub struct Scalar<'a> {
    searcher: Searcher<'a, 'a>,
    keys: &'a [Key],
}

/// First matches, one packet after the other, with vector instructions.
pub struct Vector<'a>(Scalar<'a>);

impl<'a> Vector<'a> {
    /// A walker over these packets, where the CPU and the image allow it.
    pub fn new(asked: &'a Asked<'a>) -> Option<Self> {
        let scalar = Scalar::new(asked);
        scalar.searcher.has_vectors().then_some(Vector(scalar))
    }
}

impl Walker for Vector<'_> {
    fn name(&self) -> &'static str {
        "vector"
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        let keys = &self.0.keys[first..first + out.len()];
        Ok(timed(out, |out| {
            for (key, out) in keys.iter().zip(out) {
                *out = self.0.searcher.first(key);
            }
        }))
    }
}

impl<'a> Scalar<'a> {
    /// A walker over these packets.
    pub fn new(asked: &'a Asked<'a>) -> Self {
        Scalar {
            searcher: asked.image.searcher(asked.root_at),
            keys: &asked.keys,
        }
    }
}

impl Walker for Scalar<'_> {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        let keys = &self.keys[first..first + out.len()];
        Ok(timed(out, |out| {
            for (key, out) in keys.iter().zip(out) {
                *out = self.searcher.first_scalar(key);
            }
        }))
    }
}

/// First matches of many packets at once.
pub struct Batch<'a> {
    searcher: Searcher<'a, 'a>,
    keys: &'a [Key],
    size: usize,
}

impl<'a> Batch<'a> {
    /// A walker that hands over `size` packets at once.
    pub fn new(asked: &'a Asked<'a>, size: usize) -> Self {
        Batch {
            searcher: asked.image.searcher(asked.root_at),
            keys: &asked.keys,
            size,
        }
    }
}

impl Walker for Batch<'_> {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn sample(&self) -> usize {
        super::SAMPLE.next_multiple_of(self.size)
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        let keys = &self.keys[first..first + out.len()];
        Ok(timed(out, |out| {
            for (keys, out) in keys.chunks(self.size).zip(out.chunks_mut(self.size)) {
                self.searcher.first_of_each(keys, out);
            }
        }))
    }
}

/// The walk over all matches, as far as its first.
pub struct Ordered<'a> {
    asked: &'a Asked<'a>,
}

impl<'a> Ordered<'a> {
    /// A walker over these packets.
    pub fn new(asked: &'a Asked<'a>) -> Self {
        Ordered { asked }
    }
}

impl Walker for Ordered<'_> {
    fn name(&self) -> &'static str {
        "ordered"
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        let keys = &self.asked.keys[first..first + out.len()];
        let (image, root_at) = (self.asked.image, self.asked.root_at);
        Ok(timed(out, |out| {
            for (key, out) in keys.iter().zip(out) {
                *out = Lookup::new(image, root_at, *key).next(0);
            }
        }))
    }
}
