//! Checking bit vectors: chunks, folds, and the maps from values to classes.

use super::Error;
use super::walk::{Checked, Checker, hold};
use crate::image::layout::{
    ALIGN, AddressMap, Bounds6, CELLS_MAX, CHUNK_TERMS_MAX, Chunk, FEATURE_BOUNDS, FOLD_APART,
    FOLD_LINKS, FOLD_PORTS, Fold, Map, Record4, Root, SEARCH_STEPS_MAX, SMALL_CELLS_MAX, VAIN_MAX,
    row_words,
};
use crate::lookup::class::port_class;
use std::collections::BTreeSet;
use zerocopy::IntoBytes;

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
        let stride = row_words(chunk.words) * 8;
        hold(chunk.stride == stride, "a chunk's stride")?;
        hold(chunk.rows == 3 || chunk.rows == 5, "a chunk's rows")?;
        let numbers = stride * 8 + 1;
        self.array(chunk.positions_at, numbers, 4, "positions")?;
        for term in 0..numbers {
            let position: u32 = self.image.read(chunk.positions_at + term * 4);
            let fits = if term < chunk.terms {
                position < root.entries
            } else {
                position == u32::MAX
            };
            hold(fits, "a term's position")?;
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
        if chunk.bounds_at > 0 {
            let size = match root.family {
                4 => size_of::<Record4>(),
                _ => size_of::<Bounds6>(),
            };
            let form = chunk.rows == 5 && chunk.shared == 0 && chunk.vain_max <= VAIN_MAX;
            hold(form && self.has(FEATURE_BOUNDS), "a chunk with bounds")?;
            self.array(chunk.bounds_at, chunk.terms, size, "bounds of terms")?;
        }
        match chunk.shared {
            0 => Ok(()),
            _ => self.shared(chunk, root),
        }
    }

    /// That a packet has the same classes in a chunk and in the services of the root's tables: by
    /// the same maps, or every walker would have to look them up anew.
    fn shared(&self, chunk: &Chunk, root: &Root) -> Checked {
        let what = "the classes of a chunk beside tables";
        hold(
            chunk.shared == 1 && chunk.rows == 5 && root.tables > 0,
            what,
        )?;
        self.array(root.services_at, 1, size_of::<Fold>(), what)?;
        let services: Fold = self.image.read(root.services_at);
        let maps = |fold: &Fold| Fold {
            used: fold.used & FOLD_LINKS,
            rows_at: 0,
            stride: 0,
            ports: [Map::default(); 2],
            ..*fold
        };
        let own = maps(&chunk.fold);
        hold(own.as_bytes() == maps(&services).as_bytes(), what)?;
        hold(chunk.fold.used & (FOLD_PORTS | FOLD_APART) == 0, what)?;
        hold(services.used & FOLD_APART != 0, what)?;
        for (own, map) in chunk.ports.iter().zip(&services.ports) {
            let map = Map {
                rows_at: own.rows_at,
                ..*map
            };
            hold(own.as_bytes() == map.as_bytes(), what)?;
        }
        Ok(())
    }

    /// That rows are inside the image, with their summary words, and have no bits beyond the
    /// chunk's terms.
    fn rows(&self, at: u32, rows: u32, chunk: &Chunk) -> Checked {
        self.array(at, rows, chunk.stride as usize, "rows")?;
        if chunk.words > 1 {
            hold(at.is_multiple_of(ALIGN as u32), "where rows begin")?;
            let before = u64::from(rows) * 8;
            hold(before <= u64::from(at), "summary words")?;
            self.array(at - before as u32, rows, 8, "summary words")?;
        }
        for row in 0..rows {
            let mut summary = 0;
            for word in 0..chunk.stride / 8 {
                let bits: u64 = self.image.read(at + row * chunk.stride + word * 8);
                let beyond = match chunk.terms.saturating_sub(word * 64) {
                    0 => u64::MAX,
                    terms @ 1..64 => u64::MAX << terms,
                    _ => 0,
                };
                hold(bits & beyond == 0, "a row's words")?;
                summary |= u64::from(bits != 0) << word;
            }
            // Bits too many only cost time, and are there where a rule was taken out.
            if chunk.words > 1 {
                let own: u64 = self.image.read(at - (row + 1) * 8);
                let beyond = u64::MAX.checked_shl(chunk.words).unwrap_or(0);
                hold(
                    own & summary == summary && own & beyond == 0,
                    "a row's summary",
                )?;
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
        // Walkers go by either; without pairs, classes by port lead nowhere.
        let with_ports = fold.used & FOLD_PORTS != 0;
        hold(with_ports || fold.direct_at == [0; 2], "classes by port")?;
        if with_ports {
            let [source, destination] = &fold.ports;
            self.port_map(source)?;
            self.port_map(destination)?;
            let count = u64::from(source.rows) * u64::from(destination.rows);
            hold(count <= u64::from(fold.pairs), "a fold's pairs")?;
            let [first, second] = fold.direct_at.map(|at| at == 0);
            hold(first == second, "classes by port")?;
            for side in 0..2 {
                self.direct(fold.direct_at[side], &fold.ports[side])?;
            }
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

    /// That classes by port, where they are, are those by blocks.
    fn direct(&self, at: u32, map: &Map) -> Checked {
        if at == 0 {
            return Ok(());
        }
        let what = "classes by port";
        self.array(at, 1 << 16, 2, what)?;
        for port in 0..1 << 16 {
            let class: u16 = self.image.read(at + port * 2);
            let class = u32::from(class);
            hold(
                class == port_class(self.image.bytes(), map, port as u16),
                what,
            )?;
        }
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
        if map.wide_at > 0 {
            self.array(map.wide_at, 1 << 16, 4, what)?;
            for part in 0..1 << 16 {
                let at = cell(map.rows + (part >> 8));
                let at = cell((at >> 8) + (part & at & 255));
                hold(self.image.read::<u32>(map.wide_at + part * 4) == at, what)?;
            }
        }
        Ok(())
    }
}
