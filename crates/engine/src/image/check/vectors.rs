//! Checking bit vectors: chunks, folds, and the maps from values to classes.

use super::Error;
use super::walk::{Checked, Checker, hold};
use crate::image::layout::{
    AddressMap, CELLS_MAX, CHUNK_TERMS_MAX, Chunk, FOLD_APART, FOLD_LINKS, FOLD_PORTS, Fold, Map,
    Root, SEARCH_STEPS_MAX, SMALL_CELLS_MAX,
};
use std::collections::BTreeSet;

impl Checker<'_, '_> {
    pub(super) fn chunks(&self, at: u32, count: u32, root: &Root, most: u32) -> Checked {
        hold(count <= most, "the number of chunks")?;
        self.array(at, count, size_of::<Chunk>(), "chunks")?;
        for number in 0..count {
            let size = size_of::<Chunk>() as u32;
            self.chunk(&self.image.read(at + number * size), root)?;
        }
        Ok(())
    }

    fn chunk(&self, chunk: &Chunk, root: &Root) -> Checked {
        hold(
            chunk.terms > 0 && chunk.terms as usize <= CHUNK_TERMS_MAX,
            "a chunk's terms",
        )?;
        hold(chunk.words == chunk.terms.div_ceil(64), "a chunk's words")?;
        let stride = if chunk.words == 1 {
            8
        } else {
            (chunk.words + 1) * 8
        };
        hold(chunk.stride == stride, "a chunk's stride")?;
        hold(chunk.rows == 3 || chunk.rows == 5, "a chunk's rows")?;
        self.array(chunk.positions_at, chunk.terms, 4, "positions")?;
        for term in 0..chunk.terms {
            let position: u32 = self.image.read(chunk.positions_at + term * 4);
            hold(position < root.entries, "a term's position")?;
        }
        for map in &chunk.addresses {
            self.address_map(map, root)?;
            self.rows(map.rows_at, map.rows, chunk)?;
        }
        hold(chunk.fold.stride == stride, "a fold's stride")?;
        self.fold(&chunk.fold)?;
        self.rows(chunk.fold.rows_at, chunk.fold.rows, chunk)?;
        if chunk.rows > 3 {
            for map in &chunk.ports {
                self.port_map(map)?;
                self.rows(map.rows_at, map.rows, chunk)?;
            }
        }
        Ok(())
    }

    /// That rows are inside the image, and have no bits beyond the chunk's terms and words.
    fn rows(&self, at: u32, rows: u32, chunk: &Chunk) -> Checked {
        self.array(at, rows, chunk.stride as usize, "rows")?;
        let beyond = match chunk.terms % 64 {
            0 => 0,
            bits => u64::MAX << bits,
        };
        for row in 0..rows {
            let row_at = at + row * chunk.stride;
            let last: u64 = self.image.read(row_at + chunk.stride - 8);
            hold(last & beyond == 0, "a row's last word")?;
            if chunk.words > 1 && chunk.words < 64 {
                let summary: u64 = self.image.read(row_at);
                hold(summary >> chunk.words == 0, "a row's summary")?;
            }
        }
        Ok(())
    }

    /// An array of u16 that are all below a limit; the largest.
    fn numbers(&self, at: u32, count: u32, below: u32, what: &'static str) -> Result<u32, Error> {
        hold(
            count > 0 && count as usize <= CELLS_MAX.max(SMALL_CELLS_MAX),
            what,
        )?;
        self.array(at, count, 2, what)?;
        let mut most = 0;
        for number in 0..count {
            most = most.max(u32::from(self.image.read::<u16>(at + number * 2)));
        }
        hold(most < below, what)?;
        Ok(most)
    }

    pub(super) fn fold(&self, fold: &Fold) -> Checked {
        hold(
            fold.used & !(FOLD_PORTS | FOLD_LINKS) == 0
                || fold.used & !(FOLD_APART | FOLD_LINKS) == 0,
            "what a fold uses",
        )?;
        hold(
            fold.rows > 0
                && fold.rows <= 1 << 16
                && fold.stride > 0
                && fold.stride.is_multiple_of(8),
            "a fold's rows",
        )?;
        self.array(fold.rows_at, fold.rows, fold.stride as usize, "rows")?;
        let links = fold.used & FOLD_LINKS != 0;
        let small = |at: usize| {
            let values = if at < 3 { 256 } else { self.classes };
            self.numbers(fold.small_at[at], values, 1 << 16, "classes of a field")
        };
        hold(
            fold.link_classes > 0 && (links || fold.link_classes == 1),
            "a fold's interfaces",
        )?;
        hold(
            fold.small_classes > 0 && fold.small_classes <= 1 << 16,
            "a fold's classes",
        )?;
        hold(
            small(0)? + small(1)? + small(2)? < fold.forms,
            "a fold's small fields",
        )?;
        let forms = if links { 1 << 16 } else { fold.small_classes };
        let form = self.numbers(fold.forms_at, fold.forms, forms, "a fold's forms")?;
        if links {
            hold(small(3)? + small(4)? < fold.links, "a fold's links")?;
            let classes = fold.link_classes;
            let link = self.numbers(fold.links_at, fold.links, classes, "a fold's links")?;
            let product = u64::from(form) * u64::from(classes) + u64::from(link);
            hold(product < u64::from(fold.smalls), "a fold's products")?;
            let (at, count) = (fold.smalls_at, fold.smalls);
            self.numbers(at, count, fold.small_classes, "a fold's products")?;
        }
        if fold.used & FOLD_APART != 0 {
            for map in &fold.ports {
                self.port_map(map)?;
                self.array(map.rows_at, map.rows, fold.stride as usize, "rows of ports")?;
            }
        }
        let mut pairs = 0;
        if fold.used & FOLD_PORTS != 0 {
            let [source, destination] = &fold.ports;
            self.port_map(source)?;
            self.port_map(destination)?;
            let count = u64::from(source.rows) * u64::from(destination.rows);
            hold(count <= u64::from(fold.pairs), "a fold's pairs")?;
            pairs = self.numbers(fold.pairs_at, fold.pairs, 1 << 16, "a fold's pairs")?;
        }
        let cells = u64::from(pairs + 1) * u64::from(fold.small_classes);
        hold(cells <= u64::from(fold.cells), "a fold's cells")?;
        self.numbers(fold.cells_at, fold.cells, fold.rows, "a fold's cells")?;
        Ok(())
    }

    fn port_map(&self, map: &Map) -> Checked {
        hold(
            map.blocks > 0 && map.blocks <= 256 && map.rows > 0,
            "the blocks of a port map",
        )?;
        self.numbers(map.table_at, 256, map.blocks, "a block of ports")?;
        let count = 256 * map.blocks;
        self.numbers(map.table_at + 512, count, map.rows, "a class of ports")?;
        Ok(())
    }

    fn address_map(&self, map: &AddressMap, root: &Root) -> Checked {
        hold(map.rows > 0 && map.rows < 1 << 20, "an address map's rows")?;
        if map.tree > 0 {
            hold(root.family == 4, "an address tree")?;
            return self.address_tree(map);
        }
        hold(
            map.bounds > 0 && map.bounds < 1 << 24,
            "the intervals of an address map",
        )?;
        hold(map.cell_last < 1 << 24, "the cells of an address map")?;
        hold(
            map.steps <= SEARCH_STEPS_MAX,
            "the search steps of an address map",
        )?;
        hold(
            map.shift < if root.family == 4 { 32 } else { 128 },
            "an address map's shift",
        )?;
        hold(
            root.family == 6 || (map.base[0] == 0 && map.base[1] >> 32 == 0),
            "a base",
        )?;
        self.array(map.index_at, map.cell_last + 2, 4, "an address index")?;
        let index = |cell: u32| self.image.read::<u32>(map.index_at + cell * 4);
        for cell in 0..=map.cell_last {
            let (low, high) = (index(cell), index(cell + 1));
            hold(low <= high && high < map.bounds, "a cell's intervals")?;
            // Fewer steps would not reach the interval; more do no harm.
            hold(high - low < 1 << map.steps, "a cell's search")?;
        }
        let (at, size) = if root.family == 4 {
            self.array(map.bounds_at, map.bounds, 8, "address intervals")?;
            (map.bounds_at + 4, 8)
        } else {
            self.array(map.bounds_at, map.bounds, 16, "address intervals")?;
            self.array(map.classes_at, map.bounds, 4, "address classes")?;
            (map.classes_at, 4)
        };
        for number in 0..map.bounds {
            let class: u32 = self.image.read(at + number * size);
            hold(class < map.rows, "an address class")?;
        }
        Ok(())
    }

    /// That four steps from the root end at a class, whatever the address.
    fn address_tree(&self, map: &AddressMap) -> Checked {
        let what = "an address tree";
        hold(map.tree >= map.rows + 256 && map.tree < 1 << 24, what)?;
        self.array(map.tree_at, map.tree, 4, what)?;
        let cell = |number: u32| self.image.read::<u32>(map.tree_at + number * 4);
        for class in 0..map.rows {
            hold(cell(class) == class << 8, what)?;
        }
        let mut blocks = BTreeSet::from([map.rows]);
        for depth in 0..4 {
            let mut below = BTreeSet::new();
            for block in &blocks {
                for number in *block..*block + 256 {
                    let (next, mask) = (cell(number) >> 8, cell(number) & 255);
                    if mask == 0 {
                        hold(next < map.rows, what)?;
                        continue;
                    }
                    let fits = next >= map.rows && next + 256 <= map.tree;
                    let aligned = next.wrapping_sub(map.rows).is_multiple_of(256);
                    hold(mask == 255 && fits && aligned && depth < 3, what)?;
                    below.insert(next);
                }
            }
            blocks = below;
        }
        Ok(())
    }
}
