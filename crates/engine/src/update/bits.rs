//! Bits of terms in bit vectors: where they are, and how they are cleared.

use super::{Place, Store};
use crate::image::layout::{Chunk, Leaf, Root};
use std::collections::HashMap;
use zerocopy::FromBytes;

/// A structure of a checked image.
fn at<T: FromBytes>(image: &[u8], offset: u32) -> T {
    let read = T::read_from_prefix(&image[offset as usize..]);
    read.map_or_else(
        |_| panic!("the image ends before {offset}"),
        |(value, _)| value,
    )
}

/// The bits of each position: chunk and number of the term in it.
pub fn of(image: &[u8], root_at: u32) -> HashMap<u32, Vec<(u32, u32)>> {
    let root: Root = at(image, root_at);
    let mut lists = vec![(root.chunks_at, root.chunks)];
    if root.splits > 0 {
        lists = (0..root.leaves)
            .map(|number| {
                let leaf: Leaf = at(image, root.leaves_at + number * size_of::<Leaf>() as u32);
                (leaf.chunks_at, leaf.chunks)
            })
            .collect();
    }
    let mut out: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
    for (chunks_at, chunks) in lists {
        for number in 0..chunks {
            let chunk_at = chunks_at + number * size_of::<Chunk>() as u32;
            let chunk: Chunk = at(image, chunk_at);
            for bit in 0..chunk.terms {
                let position: u32 = at(image, chunk.positions_at + bit * 4);
                out.entry(position).or_default().push((chunk_at, bit));
            }
        }
    }
    out
}

impl Place {
    /// Clears the bits of a position, in the field with the fewest rows.
    pub(super) fn clear(&mut self, image: &mut Vec<u8>, store: &mut impl Store, position: u32) {
        for (chunk_at, bit) in self.bits.remove(&position).unwrap_or_default() {
            let chunk: Chunk = at(image, chunk_at);
            let [source, destination] = &chunk.addresses;
            let fields = [
                (source.rows, source.rows_at, chunk.stride),
                (destination.rows, destination.rows_at, chunk.stride),
                (chunk.fold.rows, chunk.fold.rows_at, chunk.fold.stride),
            ];
            let (rows, rows_at, stride) = fields.into_iter().min().unwrap_or(fields[0]);
            let word = bit / 64 * 8;
            for row in 0..rows {
                let offset = rows_at + row * stride + word;
                let old: u64 = at(image, offset);
                let new = old & !(1 << (bit % 64));
                if old != new {
                    store.store64(offset, new);
                    image.store64(offset, new);
                }
            }
        }
    }
}
