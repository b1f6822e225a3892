//! Following everything that a walker could follow.

use super::{Error, Image};
use crate::image::brief::entry_at;
use crate::image::layout::{
    ALIGN, AddressMap, Bounds6, CHUNK_FLAGS_MAX, CHUNKS_MAX, Chunk, DIM_DST_PORT, DIM_PROTO,
    DIM_SRC, DIM_SRC_PORT, Entry, FEATURE_TABLES, FLAG_AGAIN, FLAG_AS_LEARNED, FLAG_PROPOSE,
    FLAG_REFUSE, FLAG_STANDING, FLAG_VERDICT, FOLD_APART, Fold, HashTable, IpfWith, Leaf, Learner,
    Lifetimes, Map, OPS_MAX, Op, Pattern, Prefixes4, RULES_MAX, Record4, Record6, Root,
    SERVICES_MAX, SLOT_FILTER, SPLITS_MAX, STEPS_MAX, Split, TABLES_MAX, TEST_ASIDE, TEST_CT,
    TEST_DST_MASKED, TEST_HISTORY, TEST_IPF_WITH, TEST_LAST, TEST_LEARN, TEST_LEARNED, TEST_LENGTH,
    TEST_SCTP, TEST_SPI, TEST_SRC_MASKED, TEST_TCP_MSS, TESTS_MAX, Test, filter_place, is_reject,
    slot_offset, slot_records,
};
use std::cell::Cell;

pub(super) type Checked = Result<(), Error>;

pub(super) fn hold(condition: bool, what: &'static str) -> Checked {
    if condition {
        Ok(())
    } else {
        Err(Error::Bounds(what))
    }
}

pub(super) struct Checker<'i, 'b> {
    pub(super) image: &'i Image<'b>,
    length: u64,
    /// Classes of interfaces.
    pub(super) classes: u32,
    /// Rules with states that were gone through last.
    pub(super) dynamic_seen: Cell<u32>,
}

/// Checks all that the header leads to.
pub fn everything(image: &Image) -> Checked {
    let header = image.header();
    let length = image.bytes().len() as u64;
    let checker = Checker {
        image,
        length,
        classes: header.patterns.saturating_add(1),
        dynamic_seen: Cell::new(0),
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
    let roots = header.roots.iter().chain(&header.shorts);
    for (number, root) in roots.chain(&header.established).enumerate() {
        if *root != 0 {
            let family = if number % 30 < 15 { 4 } else { 6 };
            checker.root(*root, family)?;
        }
    }
    Ok(())
}

impl Checker<'_, '_> {
    /// An array inside the image, behind the header.
    pub(super) fn array(&self, at: u32, count: u32, size: usize, what: &'static str) -> Checked {
        let end = u64::from(at) + u64::from(count) * size as u64;
        hold(
            count == 0 || (at as usize >= 64 && end <= self.length),
            what,
        )
    }

    /// Whether the header tells of a feature.
    pub(super) fn has(&self, feature: u32) -> bool {
        self.image.header().features & feature != 0
    }

    fn root(&self, at: u32, family: u32) -> Checked {
        self.array(at, 1, size_of::<Root>(), "a root")?;
        let root: Root = self.image.read(at);
        hold(root.family == family, "a root's family")?;
        hold(root.entries > 0, "the number of entries")?;
        self.array(root.entries_at, 1, 0, "entries")?;
        if root.brief_at != 0 {
            self.array(root.brief_at, root.entries, size_of::<u32>(), "entries")?;
        }
        for position in 0..root.entries {
            let entry = entry_at(self.image.bytes(), &root, position);
            self.entry(&root, position, &entry.ok_or(Error::Bounds("entries"))?)?;
        }
        hold(root.tables as usize <= TABLES_MAX, "the number of tables")?;
        hold(root.packed <= 1, "the form of tables")?;
        // The kernel's programs leave out what features don't tell of.
        hold(
            root.tables == 0 || self.has(FEATURE_TABLES),
            "tables without their feature",
        )?;
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
            hold(
                root.services as usize <= SERVICES_MAX,
                "the number of services",
            )?;
            self.array(root.services_at, 1, size_of::<Fold>(), "services")?;
            let fold: Fold = self.image.read(root.services_at);
            hold(
                fold.stride >= root.services.div_ceil(64) * 8
                    && fold.stride.is_multiple_of(ALIGN as u32),
                "a row of services",
            )?;
            hold(fold.used & FOLD_APART != 0, "the ports of services")?;
            self.fold(&fold)?;
        }
        if root.splits == 0 {
            hold(root.split_nodes == 0, "the number of splits")?;
            hold(root.leaves == 0, "the number of leaves")?;
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
            // Bounds have 32 bits.
            let least = if root.family == 4 {
                DIM_SRC
            } else {
                DIM_SRC_PORT
            };
            let dims = least as u32..=DIM_PROTO as u32;
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

    fn entry(&self, root: &Root, number: u32, entry: &Entry) -> Checked {
        let last = number == root.entries - 1;
        let header = self.image.header();
        hold(entry.verdict <= 4 && is_reject(entry.reject), "a verdict")?;
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
        let named = !proposes || entry.verdict == 0 && entry.rules == 1;
        let own = FLAG_STANDING | FLAG_VERDICT | FLAG_AS_LEARNED | FLAG_REFUSE | FLAG_AGAIN;
        let known = entry.flags & !(FLAG_PROPOSE | own) == 0;
        hold(known && named, "what an entry proposes")?;
        hold(
            entry.flags & FLAG_AS_LEARNED == 0 || entry.verdict != 0,
            "an entry that decides by a state",
        )?;
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
            TEST_SRC_MASKED | TEST_DST_MASKED => self.array(test.at, 1, 32, "a test"),
            TEST_SCTP => {
                let rows = test.count as usize <= CHUNK_FLAGS_MAX;
                hold(rows && test.small <= 2, "a test of chunks")?;
                self.array(test.at, 1, 32 + 4 * CHUNK_FLAGS_MAX, "a test of chunks")
            }
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
            TEST_LEARN => {
                self.array(test.at, 1, size_of::<Learner>(), "a learner")?;
                let learner: Learner = self.image.read(test.at);
                let header = self.image.header();
                let verdicts = learner.verdict.iter().all(|v| (1..=3).contains(v));
                let answers = learner.reject.iter().all(|kind| is_reject(*kind));
                hold(verdicts && answers, "the verdict of a learner")?;
                hold(learner.icmp_head < 256, "the group of a learner")?;
                hold(learner.rule < header.rule_count, "the rule of a learner")
            }
            TEST_LEARNED => self.array(test.at, 1, size_of::<Lifetimes>(), "lifetimes"),
            TEST_IPF_WITH => self.array(test.at, 1, size_of::<IpfWith>(), "a test"),
            TEST_HISTORY => {
                hold(test.a < self.image.header().history_count, "a history")?;
                self.array(test.at, 1, 64, "a history")
            }
            TEST_ASIDE => self.aside(test),
            _ => self.dynamic(test),
        }
    }

    fn table(&self, table: &HashTable, root: &Root) -> Checked {
        let sizes: &[u32] = if root.family == 4 { &[16, 32] } else { &[64] };
        let record = table.record;
        hold(sizes.contains(&record), "the size of records")?;
        hold(root.packed == 0 || record == 16, "the form of tables")?;
        hold((34..64).contains(&table.shift), "the number of slots")?;
        let slots = 1u32 << (64 - table.shift);
        self.array(table.slots_at, slots, 4, "slots")?;
        if table.filters_at != 0 {
            self.array(table.filters_at, slots / 8, 4, "filters")?;
        }
        // Walkers may read the first record of an empty slot, and take nothing from it.
        self.array(table.groups_at, 1, record as usize, "groups")?;
        hold(table.groups_at.is_multiple_of(16), "where groups begin")?;
        for slot in 0..slots {
            let group: u32 = self.image.read(table.slots_at + slot * 4);
            let count = slot_records(group);
            let at = u64::from(table.groups_at) + u64::from(slot_offset(group));
            let end = at + u64::from(count) * u64::from(record);
            hold(count == 0 || (at >= 64 && end <= self.length), "a group")?;
            // Four records are read wherever a slot leads, also where it is empty.
            let four = at + 4 * u64::from(record);
            hold(root.packed == 0 || four <= self.length, "a group's end")?;
            if table.filters_at != 0 {
                let (word_at, shift) = filter_place(table.filters_at, slot);
                let word: u32 = self.image.read(word_at);
                hold(word >> shift & 15 == group >> SLOT_FILTER, "a filter")?;
            }
            for number in 0..count {
                self.record(at as u32 + number * record, record, root)?;
            }
        }
        Ok(())
    }

    fn record(&self, at: u32, size: u32, root: &Root) -> Checked {
        let (position_at, service, shifts, most): (u32, u32, [u8; 4], u8) = match size {
            16 => {
                let [a, b]: [u8; 2] = self.image.read(at + 10);
                let service: u16 = self.image.read(at + 8);
                (12, service.into(), [a, b, 0, 0], 32)
            }
            32 => (24, self.image.read(at + 28), [0; 4], 0),
            _ => (40, self.image.read(at + 44), self.image.read(at + 48), 64),
        };
        let position: u32 = self.image.read(at + position_at);
        hold(position < root.entries, "a record's position")?;
        hold(service < root.services, "a record's service")?;
        hold(
            shifts.iter().all(|shift| *shift <= most),
            "a record's shift",
        )
    }
}

const _: () = assert!(
    size_of::<Entry>() == 32
        && size_of::<Test>() == 32
        && size_of::<Op>() == 16
        && size_of::<Learner>() == 64
        && size_of::<IpfWith>() == 32
        && size_of::<Split>() == 16
        && size_of::<Leaf>() == 8
        && size_of::<HashTable>() == 64
        && size_of::<Prefixes4>() == 16
        && size_of::<Record4>() == 32
        && size_of::<Record6>() == 64
        && size_of::<Bounds6>() == 80
        && size_of::<Root>() == 64
        && size_of::<Pattern>() == 32
        && size_of::<AddressMap>() == 64
        && size_of::<Map>() == 16
        && size_of::<Fold>() == 128
        && size_of::<Chunk>() == 320
        && DIM_DST_PORT == DIM_SRC_PORT + 1
        && STEPS_MAX > 0
);
