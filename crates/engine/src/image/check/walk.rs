//! Following everything that a walker could follow.

use super::{Error, Image};
use crate::image::layout::{
    AddressMap, CHUNK_TERMS_MAX, CHUNKS_MAX, Chunk, DIM_DST_PORT, DIM_IN, DIM_PROTO, DIM_SRC,
    DIM_SRC_PORT, DIMS, Entry, FLAG_PROPOSE, FLAG_STANDING, FLAG_VERDICT, GROUP_MAX, HashTable,
    Leaf, Map, OPS_MAX, Op, Pattern, RULES_MAX, Record4, Record6, Root, SEARCH_STEPS_MAX,
    SPLITS_MAX, STEPS_MAX, Split, TABLES_MAX, TEST_CT, TEST_DST_MASKED, TEST_HISTORY, TEST_LAST,
    TEST_LENGTH, TEST_SCTP, TEST_SPI, TEST_SRC_MASKED, TEST_TCP_MSS, TESTS_MAX, Test,
};

type Checked = Result<(), Error>;

fn hold(condition: bool, what: &'static str) -> Checked {
    if condition {
        Ok(())
    } else {
        Err(Error::Bounds(what))
    }
}

struct Checker<'i, 'b> {
    image: &'i Image<'b>,
    length: u64,
    classes: u32,
}

/// Checks all that the header leads to.
pub fn everything(image: &Image) -> Checked {
    let header = image.header();
    let length = image.bytes().len() as u64;
    let checker = Checker {
        image,
        length,
        classes: header.patterns.saturating_add(1),
    };
    hold(
        header.patterns <= 1 << 12,
        "the number of interface patterns",
    )?;
    hold(header.rule_count <= 1 << 26, "the number of rules")?;
    checker.array(
        header.patterns_at,
        header.patterns,
        size_of::<Pattern>(),
        "patterns",
    )?;
    hold(header.history_count <= 1 << 20, "the number of histories")?;
    for (number, root) in header.roots.iter().chain(&header.shorts).enumerate() {
        if *root != 0 {
            let family = if number % 30 < 15 { 4 } else { 6 };
            checker.root(*root, family)?;
        }
    }
    Ok(())
}

impl Checker<'_, '_> {
    /// An array inside the image, behind the header.
    fn array(&self, at: u32, count: u32, size: usize, what: &'static str) -> Checked {
        let end = u64::from(at) + u64::from(count) * size as u64;
        hold(
            count == 0 || (at as usize >= 64 && end <= self.length),
            what,
        )
    }

    fn root(&self, at: u32, family: u32) -> Checked {
        self.array(at, 1, size_of::<Root>(), "a root")?;
        let root: Root = self.image.read(at);
        hold(root.family == family, "a root's family")?;
        hold(root.entries > 0, "the number of entries")?;
        self.array(root.entries_at, root.entries, size_of::<Entry>(), "entries")?;
        for number in 0..root.entries {
            self.entry(&root, number)?;
        }
        hold(root.tables as usize <= TABLES_MAX, "the number of tables")?;
        self.array(
            root.tables_at,
            root.tables,
            size_of::<HashTable>(),
            "tables",
        )?;
        for number in 0..root.tables {
            self.table(&self.image.read(root.tables_at + number * 64), &root)?;
        }
        if root.tables > 0 {
            self.chunks(root.services_at, 1, &root, 1)?;
        }
        if root.splits == 0 {
            return self.chunks(root.chunks_at, root.chunks, &root, CHUNKS_MAX as u32);
        }
        self.splits(&root)
    }

    fn splits(&self, root: &Root) -> Checked {
        hold(root.splits as usize <= SPLITS_MAX, "the depth of splits")?;
        hold(root.split_nodes > 0, "the number of splits")?;
        self.array(
            root.splits_at,
            root.split_nodes,
            size_of::<Split>(),
            "splits",
        )?;
        self.array(root.leaves_at, root.leaves, size_of::<Leaf>(), "leaves")?;
        // Depth of each node; children come behind their parents, so one pass is enough.
        let mut depths = vec![0u32; root.split_nodes as usize];
        for number in 0..root.split_nodes {
            let node: Split = self.image.read(root.splits_at + number * 16);
            let dims = [DIM_SRC_PORT as u32, DIM_DST_PORT as u32, DIM_PROTO as u32];
            hold(dims.contains(&node.dim), "the dimension of a split")?;
            let depth = depths[number as usize] + 1;
            hold(depth <= root.splits, "the depth of a split")?;
            for next in node.next {
                if next >> 31 != 0 {
                    hold(next & (u32::MAX >> 1) < root.leaves, "a leaf")?;
                } else {
                    hold(next > number && next < root.split_nodes, "a split's child")?;
                    let known = &mut depths[next as usize];
                    *known = (*known).max(depth);
                }
            }
        }
        for number in 0..root.leaves {
            let leaf: Leaf = self.image.read(root.leaves_at + number * 8);
            self.chunks(leaf.chunks_at, leaf.chunks, root, CHUNKS_MAX as u32)?;
        }
        Ok(())
    }

    fn entry(&self, root: &Root, number: u32) -> Checked {
        let entry: Entry = self.image.read(root.entries_at + number * 32);
        let last = number == root.entries - 1;
        let header = self.image.header();
        hold(entry.verdict <= 4, "a verdict")?;
        hold(
            !last || (entry.verdict > 0 && entry.tests == 0),
            "the last entry",
        )?;
        let forward = |to: u32| to > number && to < root.entries;
        hold(
            entry.verdict > 0 || forward(entry.next_match),
            "where a match goes on",
        )?;
        hold(
            entry.tests == 0 || forward(entry.next_fail),
            "where a failure goes on",
        )?;
        hold(
            entry.rules as usize <= RULES_MAX,
            "the number of rules that count",
        )?;
        if entry.rules == 1 {
            hold(entry.rule < header.rule_count, "a rule")?;
        } else {
            self.array(entry.rule, entry.rules, 4, "rules")?;
            for at in 0..entry.rules {
                let rule: u32 = self.image.read(entry.rule + at * 4);
                hold(rule < header.rule_count, "a rule")?;
            }
        }
        let proposes = entry.flags & FLAG_PROPOSE != 0;
        let named =
            !proposes || entry.verdict == 0 && entry.rules == 1 && entry.flags & FLAG_VERDICT != 0;
        let known = entry.flags & !(FLAG_PROPOSE | FLAG_STANDING | FLAG_VERDICT) == 0;
        hold(known && named, "what an entry proposes")?;
        hold(usize::from(entry.tests) <= TESTS_MAX, "the number of tests")?;
        self.array(
            entry.tests_at,
            entry.tests.into(),
            size_of::<Test>(),
            "tests",
        )?;
        for at in 0..u32::from(entry.tests) {
            self.test(&self.image.read(entry.tests_at + at * 32))?;
        }
        hold(
            usize::from(entry.ops) <= OPS_MAX,
            "the number of operations",
        )?;
        self.array(
            entry.ops_at,
            entry.ops.into(),
            size_of::<Op>(),
            "operations",
        )?;
        for at in 0..u32::from(entry.ops) {
            let op: Op = self.image.read(entry.ops_at + at * 16);
            hold(op.rule < header.rule_count, "an operation's rule")?;
        }
        Ok(())
    }

    fn test(&self, test: &Test) -> Checked {
        hold(test.kind > 0 && test.kind <= TEST_LAST, "a kind of test")?;
        hold(test.negate <= 1, "a negation")?;
        match test.kind {
            TEST_SRC_MASKED | TEST_DST_MASKED | TEST_SCTP => self.array(test.at, 1, 32, "a test"),
            TEST_LENGTH | TEST_TCP_MSS | TEST_SPI => {
                hold(test.count < 1 << 17, "the ranges of a test")?;
                self.array(test.at, test.count, 8, "the ranges of a test")
            }
            TEST_CT => {
                hold(test.count < 1 << 17, "the ranges of a test")?;
                self.array(test.at, test.count, 32, "the ranges of a test")
                    .or_else(|error| {
                        // Port ranges are shorter.
                        let ports = (6..=9).contains(&test.small);
                        if ports {
                            self.array(test.at, test.count, 8, "ranges")
                        } else {
                            Err(error)
                        }
                    })
            }
            TEST_HISTORY => {
                hold(test.a < self.image.header().history_count, "a history")?;
                self.array(test.at, 1, 64, "a history")
            }
            _ => Ok(()),
        }
    }

    fn table(&self, table: &HashTable, root: &Root) -> Checked {
        let record = if root.family == 4 {
            size_of::<Record4>()
        } else {
            size_of::<Record6>()
        };
        hold(table.record as usize == record, "the size of records")?;
        hold((34..64).contains(&table.shift), "the number of slots")?;
        let slots = 1u32 << (64 - table.shift);
        self.array(table.slots_at, slots, 4, "slots")?;
        for slot in 0..slots {
            let group: u32 = self.image.read(table.slots_at + slot * 4);
            let count = group & 31;
            hold(count as usize <= GROUP_MAX, "the size of a group")?;
            let at = u64::from(table.groups_at) + u64::from(group & !31);
            let end = at + u64::from(count) * record as u64;
            hold(count == 0 || (at >= 64 && end <= self.length), "a group")?;
            for number in 0..count {
                let at = at as u32 + number * record as u32;
                let position: u32 = self.image.read(at + if record == 32 { 24 } else { 40 });
                hold(position < root.entries, "a record's position")?;
                let shifts: [u8; 4] = self.image.read(at + 48);
                let fit = record == 32 || shifts.iter().all(|shift| *shift <= 64);
                hold(fit, "a record's shift")?;
            }
        }
        Ok(())
    }

    fn chunks(&self, at: u32, count: u32, root: &Root, most: u32) -> Checked {
        hold(count <= most, "the number of chunks")?;
        self.array(at, count, size_of::<Chunk>(), "chunks")?;
        for number in 0..count {
            let size = size_of::<Chunk>() as u32;
            self.chunk(
                &self.image.read(at + number * size),
                root,
                at == root.services_at,
            )?;
        }
        Ok(())
    }

    fn chunk(&self, chunk: &Chunk, root: &Root, services: bool) -> Checked {
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
        hold(
            chunk.zero == 0 && chunk.ones == u64::MAX,
            "a chunk's constants",
        )?;
        hold(
            chunk.used > 0 && chunk.used >> DIMS == 0,
            "a chunk's dimensions",
        )?;
        hold(
            !services || (chunk.words == 1 && chunk.used & 15 == 0),
            "the services' dimensions",
        )?;
        self.array(chunk.positions_at, chunk.terms, 4, "positions")?;
        for term in 0..chunk.terms {
            let position: u32 = self.image.read(chunk.positions_at + term * 4);
            hold(position < root.entries, "a term's position")?;
        }
        let used = |dim: usize| chunk.used >> dim & 1 != 0;
        for (at, map) in chunk.addresses.iter().enumerate() {
            if used(DIM_SRC + at) {
                self.address_map(map, chunk, root)?;
            }
        }
        for (at, map) in chunk.ports.iter().enumerate() {
            if used(DIM_SRC_PORT + at) {
                self.port_map(map, chunk)?;
            }
        }
        for (at, map) in chunk.small.iter().enumerate() {
            if used(DIM_PROTO + at) {
                let values = if DIM_PROTO + at >= DIM_IN {
                    self.classes
                } else {
                    256
                };
                hold(map.values == values, "the values of a field")?;
                self.array(map.table_at, values, 2, "a field's classes")?;
                self.classes(map.table_at, values, 2, map.rows, map.rows_at, chunk)?;
            }
        }
        Ok(())
    }

    /// That classes at `at`, each of `size` bytes apart, have rows, and rows no bits beyond terms.
    fn classes(
        &self,
        at: u32,
        count: u32,
        size: u32,
        rows: u32,
        rows_at: u32,
        chunk: &Chunk,
    ) -> Checked {
        self.array(rows_at, rows, chunk.stride as usize, "rows")?;
        for number in 0..count {
            let class = match size {
                2 => u32::from(self.image.read::<u16>(at + number * 2)),
                _ => self.image.read::<u32>(at + number * size),
            };
            hold(class < rows, "a class")?;
        }
        let beyond = |words: u32| match words % 64 {
            0 => 0,
            bits => u64::MAX << bits,
        };
        for row in 0..rows {
            let row_at = rows_at + row * chunk.stride;
            let last: u64 = self.image.read(row_at + chunk.stride - 8);
            hold(last & beyond(chunk.terms) == 0, "a row's last word")?;
            if chunk.words > 1 {
                let summary: u64 = self.image.read(row_at);
                hold(summary & (u64::MAX << chunk.words) == 0, "a row's summary")?;
            }
        }
        Ok(())
    }

    fn port_map(&self, map: &Map, chunk: &Chunk) -> Checked {
        hold(
            map.values > 0 && map.values <= 256,
            "the blocks of a port map",
        )?;
        self.array(map.table_at, 256 * (map.values + 1), 2, "a port map")?;
        for at in 0..256 {
            let block: u16 = self.image.read(map.table_at + at * 2);
            hold(u32::from(block) < map.values, "a block of ports")?;
        }
        self.classes(
            map.table_at + 512,
            256 * map.values,
            2,
            map.rows,
            map.rows_at,
            chunk,
        )
    }

    fn address_map(&self, map: &AddressMap, chunk: &Chunk, root: &Root) -> Checked {
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
        if root.family == 4 {
            self.array(map.bounds_at, map.bounds, 8, "address intervals")?;
            return self.classes(
                map.bounds_at + 4,
                map.bounds,
                8,
                map.rows,
                map.rows_at,
                chunk,
            );
        }
        self.array(map.bounds_at, map.bounds, 16, "address intervals")?;
        self.array(map.classes_at, map.bounds, 4, "address classes")?;
        self.classes(map.classes_at, map.bounds, 4, map.rows, map.rows_at, chunk)
    }
}

const _: () = assert!(
    size_of::<Entry>() == 32
        && size_of::<Test>() == 32
        && size_of::<Op>() == 16
        && size_of::<Split>() == 16
        && size_of::<Leaf>() == 8
        && size_of::<HashTable>() == 64
        && size_of::<Record4>() == 32
        && size_of::<Record6>() == 64
        && size_of::<Root>() == 64
        && size_of::<Pattern>() == 32
        && size_of::<AddressMap>() == 56
        && size_of::<Chunk>() == 256
        && DIM_DST_PORT == DIM_SRC_PORT + 1
        && STEPS_MAX > 0
);
