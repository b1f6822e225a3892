//! The classifier of one root: which terms go into which structure.
//!
//! Few terms: bit vectors alone.

use super::Error;
use super::flatten::Flat;
use super::interfaces::Interfaces;
use super::service::Services;
use super::term::Term;
use super::vectors::{self, Builder};
use crate::image::layout::{CHUNK_TERMS_MAX, CHUNKS_MAX, Root};
use crate::image::write::Writer;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// What building the classifier of a root needs to know.
pub struct Layers<'a> {
    /// Family of the root.
    pub family: Family,
    /// Interface classes.
    pub interfaces: &'a Interfaces,
    /// Services that terms name.
    pub services: &'a Services,
    /// Whether hashed tables and splits may be used.
    pub tables: bool,
    /// Bytes left.
    pub room: usize,
}

/// What was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// Terms in hashed tables.
    pub hashed: usize,
    /// Chunks of the leaf with most of them.
    pub chunks: usize,
    /// Loads that the dearest packet can cause.
    pub worst_loads: u32,
}

impl Layers<'_> {
    /// Builds the classifier of a flattened root and notes it in the record.
    pub fn build(&self, flat: &Flat, root: &mut Root, writer: &mut Writer) -> Result<Made, Error> {
        let mut terms: Vec<(&Term, u32)> = Vec::with_capacity(flat.terms.len());
        for at in 0..flat.entries.len() {
            terms.extend(flat.terms_of(at).iter().map(|term| (term, at as u32)));
        }
        let mut made = Made::default();
        (root.chunks_at, root.chunks) = self.vectors(flat, &terms, &mut made, writer)?;
        Ok(made)
    }

    /// Bit vectors over terms, in chunks.
    fn vectors(
        &self,
        flat: &Flat,
        terms: &[(&Term, u32)],
        made: &mut Made,
        writer: &mut Writer,
    ) -> Result<(u32, u32), Error> {
        let limit = CHUNK_TERMS_MAX * CHUNKS_MAX;
        if terms.len() > limit {
            let rule = |t: &(&Term, u32)| flat.entries[t.1 as usize].rules.first().copied();
            let rules = terms[limit..].iter().filter_map(rule).take(8).collect();
            return Err(Error::Wide {
                given: terms.len(),
                limit,
                rules,
            });
        }
        let builder = Builder {
            family: self.family,
            interfaces: self.interfaces,
            services: self.services,
        };
        let mut chunks = Vec::new();
        for terms in terms.chunks(CHUNK_TERMS_MAX) {
            chunks.push(builder.chunk(terms, writer));
        }
        made.chunks = made.chunks.max(chunks.len());
        made.worst_loads = made
            .worst_loads
            .max(chunks.iter().map(vectors::worst_loads).sum::<u32>());
        Ok((writer.section(chunks.as_bytes()), chunks.len() as u32))
    }
}
