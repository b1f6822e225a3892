//! The classifier of one root: which terms go into which structure.
//!
//! Few terms: bit vectors alone. Many: hashed tables for what is specific enough, bit vectors for
//! the rest.

use super::Error;
use super::flatten::Flat;
use super::interfaces::Interfaces;
use super::service::Services;
use super::splits;
use super::tables::{self, Hashed};
use super::term::Term;
use super::vectors::{self, Builder};
use crate::image::layout::{CHUNK_TERMS_MAX, CHUNKS_MAX, GROUP_MAX, Leaf, Root};
use crate::image::write::Writer;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Up to so many terms, bit vectors alone serve best.
const SMALL: usize = 192;

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
    /// Bytes that the image may have.
    pub limit: usize,
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
        if self.tables && terms.len() > SMALL {
            let hashed = tables::build(&terms, self.family, writer);
            if !hashed.tables.is_empty() {
                made.hashed = terms.len() - hashed.rest.len();
                self.services(&hashed, root, writer)?;
                made.worst_loads += hashed.tables.len() as u32 * (2 + 4 * GROUP_MAX as u32);
                terms = hashed.rest;
            }
        }
        if !self.tables {
            (root.chunks_at, root.chunks) = self.vectors(flat, &terms, &mut made, writer)?;
            return Ok(made);
        }
        let loads = made.worst_loads;
        let tree = splits::split(terms, self.services);
        let mut leaves = Vec::with_capacity(tree.leaves.len());
        for terms in &tree.leaves {
            let mut leaf = Made::default();
            let (chunks_at, chunks) = self.vectors(flat, terms, &mut leaf, writer)?;
            made.chunks = made.chunks.max(leaf.chunks);
            made.worst_loads = made.worst_loads.max(loads + leaf.worst_loads);
            leaves.push(Leaf { chunks_at, chunks });
        }
        if tree.nodes.is_empty() {
            (root.chunks_at, root.chunks) = (leaves[0].chunks_at, leaves[0].chunks);
        } else {
            root.splits = tree.depth as u32;
            root.splits_at = writer.section(tree.nodes.as_bytes());
            root.split_nodes = tree.nodes.len() as u32;
            root.leaves_at = writer.section(leaves.as_bytes());
            root.leaves = leaves.len() as u32;
        }
        Ok(made)
    }

    /// Writes the tables and the bit vector of one word that says which services hold.
    fn services(&self, hashed: &Hashed, root: &mut Root, writer: &mut Writer) -> Result<(), Error> {
        let terms: Vec<Term> = hashed
            .services
            .iter()
            .map(|service| Term {
                service: *service,
                ..Term::ANY
            })
            .collect();
        let placed: Vec<(&Term, u32)> = terms.iter().map(|term| (term, 0)).collect();
        let builder = Builder {
            family: self.family,
            interfaces: self.interfaces,
            services: self.services,
        };
        let chunk = builder.chunk(&placed, writer)?;
        root.services_at = writer.section(chunk.as_bytes());
        root.tables = hashed.tables.len() as u32;
        root.tables_at = writer.section(hashed.tables.as_bytes());
        Ok(())
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
            chunks.push(builder.chunk(terms, writer)?);
            if writer.length() > self.limit {
                return Err(Error::Budget {
                    given: writer.length(),
                    limit: self.limit,
                });
            }
        }
        made.chunks = made.chunks.max(chunks.len());
        made.worst_loads = made
            .worst_loads
            .max(chunks.iter().map(vectors::worst_loads).sum::<u32>());
        Ok((writer.section(chunks.as_bytes()), chunks.len() as u32))
    }
}
