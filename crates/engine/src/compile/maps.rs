//! Maps from a value of one field to a class: trees of bytes and searches for addresses, blocks for
//! ports.
//!
//! In: intervals with the class of each, as [`super::sets::sweep`] gives them. Out: sections of the
//! image and the record that leads to them.

use super::Error;
use super::hash::QuickMap;
use crate::image::layout::{AddressMap, Chunk, FOLD_PORTS, Map, SEARCH_STEPS_MAX, WIDE_UNTIL};
use crate::image::write::Writer;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// What a map from addresses may take to be quick.
#[derive(Clone, Copy, Debug)]
pub struct AddressRoom {
    /// Blocks of a tree; more of them, and addresses are searched.
    pub blocks_max: usize,
    /// Whether the index in front of a search may be finer than one cell for each interval.
    pub fine: bool,
}

/// The log of the cells for each interval that a fine index has more, and the log of its cells from
/// which on it has not: 64 KB. Networks that lie anywhere share a cell with few others by then, and
/// four times as many cells again spared no step (500 hosts that lie anywhere: 4 steps, 3, 3).
const FINER_LOG: u32 = 2;
const FINE_UNTIL_LOG: u32 = 14;

/// A map from addresses to classes.
pub fn addresses(
    bounds: &[(u128, u32)],
    classes: u32,
    family: Family,
    room: AddressRoom,
    writer: &mut Writer,
) -> Result<AddressMap, Error> {
    if family == Family::V4
        && let Some(cells) = tree(bounds, classes, room.blocks_max)
    {
        return Ok(AddressMap {
            tree_at: writer.section(cells.as_bytes()),
            tree: cells.len() as u32,
            rows: classes,
            ..AddressMap::default()
        });
    }
    let mut map = address_index(bounds, room.fine, writer)?;
    map.rows = classes;
    match family {
        Family::V4 => {
            let pairs: Vec<[u32; 2]> = bounds.iter().map(|b| [b.0 as u32, b.1]).collect();
            map.bounds_at = writer.section(pairs.as_bytes());
        }
        Family::V6 => {
            let firsts: Vec<[u64; 2]> = bounds
                .iter()
                .map(|b| [(b.0 >> 64) as u64, b.0 as u64])
                .collect();
            map.bounds_at = writer.section(firsts.as_bytes());
            let classes: Vec<u32> = bounds.iter().map(|b| b.1).collect();
            map.classes_at = writer.section(classes.as_bytes());
        }
    }
    Ok(map)
}

/// A tree under construction.
struct Tree<'b> {
    bounds: &'b [(u128, u32)],
    cells: Vec<u32>,
    /// Where equal blocks are.
    known: QuickMap<Vec<u32>, u32>,
    cells_max: usize,
}

/// The cells of a tree of bytes over IPv4 addresses; `None` when it has too many blocks.
fn tree(bounds: &[(u128, u32)], classes: u32, blocks_max: usize) -> Option<Vec<u32>> {
    let mut tree = Tree {
        bounds,
        cells: (0..classes).map(|class| class << 8).collect(),
        known: QuickMap::default(),
        cells_max: classes as usize + blocks_max * 256,
    };
    // The root's block comes first, whatever is in it.
    let root = tree.cells.len();
    tree.cells.resize(root + 256, 0);
    let block = tree.block(0, 24, 0)?;
    tree.cells[root..root + 256].copy_from_slice(&block);
    Some(tree.cells)
}

impl Tree<'_> {
    /// The cells for the 256 parts of `2^shift` addresses each from `first` on; `at` is the number
    /// of the interval that `first` is in.
    fn block(&mut self, first: u128, shift: u32, mut at: usize) -> Option<Vec<u32>> {
        let mut block = Vec::with_capacity(256);
        for part in 0..256u128 {
            let low = first + (part << shift);
            let last = low + (1 << shift) - 1;
            while self.bounds.get(at + 1).is_some_and(|b| b.0 <= low) {
                at += 1;
            }
            if self.bounds.get(at + 1).is_none_or(|b| b.0 > last) {
                block.push(self.bounds[at].1 << 8);
                continue;
            }
            let inner = self.block(low, shift - 8, at)?;
            let next = match self.known.get(&inner) {
                Some(next) => *next,
                None => {
                    let next = self.cells.len() as u32;
                    if self.cells.len() + 256 > self.cells_max {
                        return None;
                    }
                    self.cells.extend_from_slice(&inner);
                    self.known.insert(inner, next);
                    next
                }
            };
            block.push(next << 8 | 255);
        }
        Some(block)
    }
}

/// Lays out ports and, if there is room for that too, addresses to be found in fewer steps.
pub fn widen(chunk: &mut Chunk, writer: &mut Writer) {
    let fits = |writer: &Writer, more: usize| writer.length() + more <= WIDE_UNTIL;
    if chunk.fold.used & FOLD_PORTS != 0 && fits(writer, 2 << 17) {
        for side in 0..2 {
            let table_at = chunk.fold.ports[side].table_at;
            let class = |port: u32| {
                let block = u32::from(writer.number(table_at + (port >> 8) * 2));
                writer.number(table_at + 512 + block * 512 + (port & 255) * 2)
            };
            let classes: Vec<u16> = (0..1 << 16).map(class).collect();
            chunk.fold.direct_at[side] = writer.section(classes.as_bytes());
        }
    }
    let trees = chunk.addresses.iter().all(|map| map.tree > 0);
    if trees && fits(writer, 2 << 18) {
        for map in &mut chunk.addresses {
            let step = |part: u32| {
                let at = writer.cell(map.tree_at + (map.rows + (part >> 8)) * 4);
                writer.cell(map.tree_at + ((at >> 8) + (part & at & 255)) * 4)
            };
            let cells: Vec<u32> = (0..1 << 16).map(step).collect();
            map.wide_at = writer.section(cells.as_bytes());
        }
    }
}

/// The index over equal cells in front of the search, and how many steps the search then takes.
fn address_index(
    bounds: &[(u128, u32)],
    fine: bool,
    writer: &mut Writer,
) -> Result<AddressMap, Error> {
    let base = bounds.get(1).map_or(0, |b| b.0);
    let end = bounds.last().map_or(0, |b| b.0);
    // About as many cells as intervals; the last one reaches to the end of the field.
    let mut cells_log = bounds.len().next_power_of_two().trailing_zeros().min(20);
    if fine {
        cells_log = cells_log.max((cells_log + FINER_LOG).min(FINE_UNTIL_LOG));
    }
    let width = 128 - (end - base).leading_zeros();
    let shift = width.saturating_sub(cells_log);
    let cell_last = ((end - base) >> shift) as usize;
    let mut index = Vec::with_capacity(cell_last + 2);
    for cell in 0..=cell_last {
        let first = if cell == 0 {
            0
        } else {
            base + ((cell as u128) << shift)
        };
        index.push(bounds.partition_point(|b| b.0 <= first).saturating_sub(1) as u32);
    }
    index.push(bounds.len() as u32 - 1);
    let longest = index.windows(2).map(|w| w[1] - w[0] + 1).max().unwrap_or(1);
    let steps = u32::BITS - (longest - 1).leading_zeros();
    if steps > SEARCH_STEPS_MAX {
        let limit = 1 << SEARCH_STEPS_MAX;
        return Err(Error::Addresses {
            given: longest as usize,
            limit,
        });
    }
    Ok(AddressMap {
        base: [(base >> 64) as u64, base as u64],
        shift,
        cell_last: cell_last as u32,
        index_at: writer.section(index.as_bytes()),
        bounds: bounds.len() as u32,
        steps,
        ..AddressMap::default()
    })
}

/// A map from ports to classes.
pub fn ports(bounds: &[(u16, u32)], classes: u32, writer: &mut Writer) -> Map {
    let mut values = vec![0u16; 1 << 16];
    for (at, (first, class)) in bounds.iter().enumerate() {
        let until = bounds
            .get(at + 1)
            .map_or(values.len(), |b| usize::from(b.0));
        values[usize::from(*first)..until].fill(*class as u16);
    }
    let mut numbers: QuickMap<&[u16], u16> = QuickMap::default();
    let mut tops = Vec::with_capacity(256);
    let mut blocks: Vec<u16> = Vec::new();
    for block in values.chunks_exact(256) {
        let next = numbers.len() as u16;
        let number = *numbers.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            next
        });
        tops.push(number);
    }
    let blocks_count = numbers.len() as u32;
    tops.extend_from_slice(&blocks);
    Map {
        table_at: writer.section(tops.as_bytes()),
        blocks: blocks_count,
        rows_at: 0,
        rows: classes,
    }
}
