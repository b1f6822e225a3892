//! First matches by every way (vectors, one word after the other, the ordered lookup) equal a
//! linear scan, on random rule sets of sizes that reach every structure.

use fastrand::Rng;
use weir_engine::compile::{Options, compile};
use weir_engine::image::layout::{
    self, CHECKSUM_AT, Chunk, DIM_DST, FEATURE_BOUNDS, Fold, HashTable, Header, Split, kind_of,
    root_number,
};
use weir_engine::image::{Image, checksum};
use weir_engine::lookup::{Key, Lookup};
use weir_engine::update::Live;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, Hook, Origin, Policy,
    RangeSet, Root, Rule, RuleId, SourceId, Table, Test, Verdict,
};

const ORIGIN: Origin = Origin {
    source: SourceId(0),
    line: 1,
    column: 1,
};

/// What a set is like: how many rules, prefixes or any ranges, how many distinct port ranges.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rules: usize,
    ranges: bool,
    ports: usize,
    wide: bool,
}

#[derive(Clone, Copy)]
struct Box4 {
    address: [(u32, u32); 2],
    port: [(u16, u16); 2],
    proto: Option<u8>,
}

impl Box4 {
    fn random(shape: &Shape, ports: &[(u16, u16)], rng: &mut Rng) -> Self {
        let address = |rng: &mut Rng| {
            let value = 0x0a00_0000 | rng.u32(0..1 << 20);
            let bits = if shape.wide {
                rng.u32(8..=24)
            } else {
                [18, 20, 24, 28, 30, 32, 32, 32][rng.usize(..8)]
            };
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            if shape.ranges && bits > 0 {
                (value, value.saturating_add(rng.u32(0..=!mask)))
            } else {
                (value & mask, value | !mask)
            }
        };
        let address = [address(rng), address(rng)];
        let proto = [None, Some(6), Some(6), Some(17)][rng.usize(..4)];
        let mut port = [(0, u16::MAX); 2];
        if proto.is_some() {
            for one in &mut port {
                if rng.bool() {
                    *one = ports[rng.usize(..ports.len())];
                }
            }
        }
        Box4 {
            address,
            port,
            proto,
        }
    }

    fn rule(&self, at: usize) -> Rule {
        let mut tests = Vec::new();
        let mut put = |cond| {
            tests.push(Test {
                negate: false,
                cond,
            })
        };
        let range = |at: usize| {
            let (first, last) = self.address[at];
            AddrMatch::Ranges(RangeSet::range(first.into(), last.into()))
        };
        put(Cond::Src(range(0)));
        put(Cond::Dst(range(1)));
        if let Some(proto) = self.proto {
            put(Cond::Proto(RangeSet::one(proto)));
        }
        if self.port[0] != (0, u16::MAX) {
            put(Cond::SrcPort(RangeSet::range(
                self.port[0].0,
                self.port[0].1,
            )));
        }
        if self.port[1] != (0, u16::MAX) {
            put(Cond::DstPort(RangeSet::range(
                self.port[1].0,
                self.port[1].1,
            )));
        }
        Rule {
            id: RuleId(at as u32),
            origin: ORIGIN,
            index: at as u32 + 1,
            tests,
            ops: vec![],
            flow: Flow::Verdict(Verdict::Drop),
            preset: Counters::default(),
        }
    }

    fn holds(&self, key: &Key) -> bool {
        let address = |at: usize| {
            let (first, last) = self.address[at];
            (first..=last).contains(&(key.address[at] as u32))
        };
        let port = |at: usize| {
            let (first, last) = self.port[at];
            (first..=last).contains(&key.port[at])
        };
        let proto = self.proto.is_none_or(|proto| proto == key.proto);
        address(0) && address(1) && port(0) && port(1) && proto
    }
}

/// A packet with fields of one rule, or of several, at corners, inside or beside.
fn key(boxes: &[Box4], rng: &mut Rng) -> Key {
    let one = boxes[rng.usize(..boxes.len())];
    let other = if rng.u8(..3) == 0 {
        boxes[rng.usize(..boxes.len())]
    } else {
        one
    };
    let mut pick = |(first, last): (u32, u32)| match rng.u8(..8) {
        0 | 1 => first,
        2 | 3 => last,
        4 => first.wrapping_sub(1),
        5 => last.wrapping_add(1),
        _ => rng.u32(first..=last),
    };
    let address = [pick(one.address[0]).into(), pick(other.address[1]).into()];
    let mut port = |(first, last): (u16, u16)| pick((first.into(), last.into())) as u16;
    let port = [port(other.port[0]), port(one.port[1])];
    let proto = one.proto.unwrap_or([6, 17][rng.usize(..2)]);
    Key {
        address,
        port,
        proto,
        kind: kind_of(if proto == 6 { 3 } else { 4 }, 1, 1),
        flags: 16,
        class: [0, 0],
    }
}

fn policy(boxes: &[Box4]) -> Policy {
    Policy {
        sources: vec!["test".into()],
        chains: vec![Chain {
            name: "INPUT".into(),
            family: Family::V4,
            table: Table::Filter,
            rules: boxes.iter().enumerate().map(|(at, b)| b.rule(at)).collect(),
            policy: Some(ChainPolicy {
                id: RuleId(boxes.len() as u32),
                origin: ORIGIN,
                verdict: Verdict::Accept,
                preset: Counters::default(),
            }),
        }],
        roots: vec![Root {
            family: Family::V4,
            hook: Hook::Input,
            table: Table::Filter,
            chain: ChainId(0),
        }],
        rule_count: boxes.len() as u32 + 1,
        ..Policy::default()
    }
}

/// Compares all ways on one set; how many tables and chunks it had, and cuts of addresses.
fn compare(shape: &Shape, seed: u64) -> [usize; 3] {
    let mut rng = Rng::with_seed(seed);
    let ports: Vec<(u16, u16)> = (0..shape.ports)
        .map(|_| {
            let first = rng.u16(..);
            (
                first,
                first.saturating_add([0, 0, 10, 20_000][rng.usize(..4)]),
            )
        })
        .collect();
    let boxes: Vec<Box4> = (0..shape.rules)
        .map(|_| Box4::random(shape, &ports, &mut rng))
        .collect();
    compare_boxes(&boxes, &mut rng)
}

/// Compares all ways in an image of boxes with a linear scan; the root.
fn compare_ways(image: &Image, boxes: &[Box4], rng: &mut Rng) -> layout::Root {
    let number = root_number(Family::V4, Hook::Input, Table::Filter).expect("a root");
    let root_at = image.header().roots[number];
    let searcher = image.searcher(root_at);
    let keys: Vec<Key> = (0..1500).map(|_| key(boxes, rng)).collect();
    let mut many = vec![0; keys.len()];
    for (keys, out) in keys.chunks(37).zip(many.chunks_mut(37)) {
        searcher.first_of_each(keys, out);
    }
    for (key, batched) in keys.iter().zip(&many) {
        let expected = boxes
            .iter()
            .position(|b| b.holds(key))
            .unwrap_or(boxes.len());
        let first = searcher.first(key);
        let entry = image.entry(searcher.root(), first);
        assert_eq!(
            entry.rule as usize,
            expected,
            "{} boxes: {key:?}",
            boxes.len()
        );
        assert_eq!(
            searcher.first_scalar(key),
            first,
            "{} boxes: {key:?}",
            boxes.len()
        );
        assert_eq!(Lookup::new(image, root_at, *key).next(0), first);
        assert_eq!(*batched, first, "{} boxes: {key:?}", boxes.len());
    }
    *searcher.root()
}

/// The same, on these boxes.
fn compare_boxes(boxes: &[Box4], rng: &mut Rng) -> [usize; 3] {
    let by = |threads| {
        let options = Options {
            threads,
            ..Options::default()
        };
        compile(&policy(boxes), &options).expect("compiles")
    };
    let (compiled, again) = (by(1), by(3));
    assert_eq!(
        compiled.image, again.image,
        "the same rules, the same bytes, by any number of threads"
    );
    let image = Image::from_bytes(&compiled.image).expect("valid");
    let root = compare_ways(&image, boxes, rng);
    // Rows that only say which terms may hold.
    let options = Options {
        row_bytes: 0,
        ..Options::default()
    };
    let coarse = compile(&policy(boxes), &options).expect("compiles");
    let coarse = Image::from_bytes(&coarse.image).expect("valid");
    let has_bounds = coarse.header().features & FEATURE_BOUNDS != 0;
    assert!(has_bounds || root.chunks + root.leaves == 0);
    compare_ways(&coarse, boxes, &mut rng.clone());
    let report = &compiled.report.roots[0];
    let nodes = (0..root.split_nodes).map(|at| image.read::<Split>(root.splits_at + at * 16));
    let cuts = nodes.filter(|node| (node.dim as usize) <= DIM_DST).count();
    [report.tables, report.chunks, cuts]
}

#[test]
fn every_way_gives_the_first_rule_that_holds() {
    let mut most = [0; 3];
    let mut seed = 0;
    for rules in [1, 3, 64, 65, 700, 1500, 9000] {
        for (ranges, ports, wide) in [
            (false, 8, false),
            (false, 3000, false),
            (true, 40, false),
            (true, 3000, true),
            (false, 20, true),
        ] {
            seed += 1;
            let shape = Shape {
                rules,
                ranges,
                ports,
                wide,
            };
            let made = compare(&shape, seed);
            most = std::array::from_fn(|at| made[at].max(most[at]));
        }
    }
    let [tables, chunks, _] = most;
    assert!(tables > 0 && chunks > 0, "{tables} tables, {chunks} chunks");
}

#[test]
fn wide_boxes_in_two_halves_are_cut_by_address() {
    let mut rng = Rng::with_seed(77);
    let mut range = || {
        let first = (rng.u32(..2) << 31) + rng.u32(..1 << 29);
        (first, first + (1 << 30) + rng.u32(..1 << 29))
    };
    let boxes: Vec<Box4> = (0..2500)
        .map(|at| Box4 {
            address: [range(), range()],
            // Half of all ports, so that no table has room.
            port: [(0, u16::MAX), (at, at + 32_000)],
            proto: Some(6),
        })
        .collect();
    let [_, chunks, cuts] = compare_boxes(&boxes, &mut rng);
    assert!(
        chunks > 0 && cuts > 0,
        "{chunks} chunks, {cuts} cuts of addresses"
    );
}

/// Rules of so many kinds, each of which takes a table: hosts of either side, pairs of ports,
/// networks.
/// Of a third of them there are several with one pair of addresses, so that groups are long.
fn of_kinds(kinds: usize, rng: &mut Rng) -> Vec<Box4> {
    let prefix = |bits: u32, rng: &mut Rng| {
        let host = u32::MAX.checked_shr(bits).unwrap_or(0);
        let first = (0x0a00_0000 | rng.u32(..1 << 22)) & !host;
        (first, first | host)
    };
    let any = (0, u32::MAX);
    let mut boxes: Vec<Box4> = Vec::new();
    for at in 0..3000 * kinds {
        let address = match (boxes.last(), at % kinds) {
            (Some(last), _) if rng.u8(..3) == 0 => last.address,
            (_, 0) => [prefix(32, rng), any],
            (_, 1) => [any, prefix(32, rng)],
            (_, 2) => [any, any],
            _ => [prefix(18, rng), prefix(18, rng)],
        };
        let port = rng.u16(..60);
        let source = rng.u16(..60);
        boxes.push(Box4 {
            address,
            port: match address == [any, any] {
                true => [(source, source), (port, port)],
                false => [(0, u16::MAX), (port, port)],
            },
            proto: Some(6),
        });
    }
    boxes
}

/// Rules that name two fields of four, in so many of the six ways. A value of one field has many
/// rules, so that each way takes a table of its own.
fn of_pairs(ways: usize, rng: &mut Rng) -> Vec<Box4> {
    let any = ((0, u32::MAX), (0, u16::MAX));
    let mut values = [[any; 40]; 4];
    for value in values.iter_mut().flatten() {
        let (network, port) = (rng.u32(..) & !255, rng.u16(..));
        *value = ((network, network | 255), (port, port));
    }
    let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    let one = |at: usize| {
        let mut fields = [any; 4];
        for field in pairs[at % ways] {
            fields[field] = values[field][rng.usize(..40)];
        }
        let [source, destination, low, high] = fields;
        Box4 {
            address: [source.0, destination.0],
            port: [low.1, high.1],
            proto: Some([6, 17][at / ways % 2]),
        }
    };
    (0..1000 * ways).map(one).collect()
}

#[test]
fn roots_of_more_tables_are_asked_by_vectors_of_slots() {
    let mut rng = Rng::with_seed(14);
    for ways in [5, 6] {
        let boxes = of_pairs(ways, &mut rng);
        let [tables, ..] = compare_boxes(&boxes, &mut rng);
        assert!((5..=8).contains(&tables), "{ways} ways, {tables} tables");
    }
}

/// Puts the sum of a changed image right.
fn seal(image: &mut [u8]) {
    let sum = checksum(image);
    image[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn slots_may_begin_anywhere() {
    let mut rng = Rng::with_seed(15);
    for boxes in [of_pairs(6, &mut rng), of_kinds(4, &mut rng)] {
        let built = compile(&policy(&boxes), &Options::default()).expect("compiles");
        let mut bytes = built.image;
        let number = root_number(Family::V4, Hook::Input, Table::Filter).expect("a root");
        let image = Image::from_bytes(&bytes).expect("valid");
        let root = *image.searcher(image.header().roots[number]).root();
        let size = size_of::<HashTable>() as u32;
        let tables: Vec<HashTable> = (0..root.tables)
            .map(|at| image.read(root.tables_at + at * size))
            .collect();
        // The slots of each table once more, one to three bytes off.
        for (at, table) in tables.iter().enumerate() {
            let from = table.slots_at as usize;
            let slots = bytes[from..from + (4 << (64 - table.shift))].to_vec();
            bytes.resize(bytes.len() + 1 + at % 3, 0);
            let slots_at = bytes.len() as u32;
            bytes.extend_from_slice(&slots);
            let field = (root.tables_at + at as u32 * size) as usize
                + std::mem::offset_of!(HashTable, slots_at);
            bytes[field..field + 4].copy_from_slice(&slots_at.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let length = bytes.len() as u32;
        let field = std::mem::offset_of!(Header, length);
        bytes[field..field + 4].copy_from_slice(&length.to_le_bytes());
        seal(&mut bytes);
        let image = Image::from_bytes(&bytes).expect("valid");
        compare_ways(&image, &boxes, &mut rng);
    }
}

#[test]
fn roots_of_few_tables_read_neighbours_that_are_true() {
    let mut rng = Rng::with_seed(4);
    let mut seen = [false; 6];
    for kinds in 1..=4 {
        let boxes = of_kinds(kinds, &mut rng);
        let [tables, ..] = compare_boxes(&boxes, &mut rng);
        seen[tables.min(5)] = true;
        let built = compile(&policy(&boxes), &Options::default()).expect("compiles");
        let live = Live::new(&policy(&boxes), &Options::default()).expect("compiles");
        // Where rules are changed in place, what is behind a group may be of a rule that is gone.
        for (bytes, packed) in [(&built.image[..], 1), (live.image(), 0)] {
            let image = Image::from_bytes(bytes).expect("valid");
            let number = root_number(Family::V4, Hook::Input, Table::Filter).expect("a root");
            let searcher = image.searcher(image.header().roots[number]);
            assert_eq!(searcher.root().packed, packed, "{kinds} kinds");
        }
    }
    assert_eq!(seen[1..5], [true; 4], "one table, two, three, four");
}

/// Changes a few bytes of the structures at some places, or anywhere, and puts the sum right.
fn damage(image: &mut [u8], structures: &[(usize, usize)], rng: &mut Rng) {
    for _ in 0..rng.usize(1..4) {
        let (from, length) = match rng.u8(..4) {
            0 => (24, image.len() - 24),
            _ => structures[rng.usize(..structures.len())],
        };
        let at = (from + rng.usize(..length)) & !3;
        let word = [0, 1, 4, 16, 64, u32::MAX, rng.u32(..), rng.u32(..1 << 20)];
        let word = match rng.bool() {
            true => word[rng.usize(..word.len())],
            false => {
                let own: [u8; 4] = image[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(own) ^ 1 << rng.u32(..32)
            }
        };
        image[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    seal(image);
}

#[test]
fn damaged_images_with_tables_are_refused_or_harmless() {
    let mut rng = Rng::with_seed(9);
    let (mut refused, mut asked) = (0, 0);
    let sets = [1, 2, 4].map(|kinds| of_kinds(kinds, &mut rng));
    let sets = sets.into_iter().chain([of_pairs(6, &mut rng)]);
    for boxes in sets.collect::<Vec<_>>() {
        let built = compile(&policy(&boxes), &Options::default()).expect("compiles");
        let number = root_number(Family::V4, Hook::Input, Table::Filter).expect("a root");
        let keys: Vec<Key> = (0..200).map(|_| key(&boxes, &mut rng)).collect();
        let image = Image::from_bytes(&built.image).expect("valid");
        let root_at = image.header().roots[number];
        let root = *image.searcher(root_at).root();
        let table: HashTable = image.read(root.tables_at);
        let structures = [
            (root_at as usize, 64),
            (root.tables_at as usize, root.tables as usize * 64),
            (table.slots_at as usize, 1 << (64 - table.shift)),
            (table.groups_at as usize, 4096),
            (root.services_at as usize, size_of::<Fold>()),
            (
                root.chunks_at as usize,
                root.chunks as usize * size_of::<Chunk>(),
            ),
        ];
        let structures: Vec<(usize, usize)> = structures.into_iter().filter(|s| s.1 > 0).collect();
        for _ in 0..100 {
            let mut bytes = built.image.clone();
            damage(&mut bytes, &structures, &mut rng);
            let Ok(image) = Image::from_bytes(&bytes) else {
                refused += 1;
                continue;
            };
            asked += 1;
            let root_at = image.header().roots[number];
            if root_at == 0 {
                continue;
            }
            let searcher = image.searcher(root_at);
            let mut many = vec![0; keys.len()];
            searcher.first_of_each(&keys, &mut many);
            for (key, batched) in keys.iter().zip(many) {
                let single = searcher.first(key);
                assert!(single < searcher.root().entries && batched < searcher.root().entries);
            }
        }
    }
    assert!(
        refused > 50 && asked > 50,
        "{refused} refused, {asked} asked"
    );
}

/// A set with tables and one chunk beside them.
fn beside_tables(ports: usize) -> (Vec<Box4>, Vec<u8>) {
    let shape = Shape {
        rules: 6000,
        ranges: false,
        ports,
        wide: false,
    };
    let mut rng = Rng::with_seed(21);
    let ports: Vec<(u16, u16)> = (0..shape.ports)
        .map(|_| {
            let first = rng.u16(..60_000);
            (first, first + 4000)
        })
        .collect();
    let any = (0, u32::MAX);
    let boxes: Vec<Box4> = (0..shape.rules)
        .map(|at| {
            let mut one = Box4::random(&shape, &ports, &mut rng);
            // What is wide on both sides finds no room in tables.
            if at % 8 == 0 {
                one.address = [any, any];
                one.port[0] = ports[rng.usize(..ports.len())];
            }
            one
        })
        .collect();
    compare_boxes(&boxes, &mut rng);
    let built = compile(&policy(&boxes), &Options::default()).expect("compiles");
    (boxes, built.image)
}

/// Root and chunk of such a set.
fn only_chunk(image: &Image) -> (layout::Root, Chunk) {
    let number = root_number(Family::V4, Hook::Input, Table::Filter).expect("a root");
    let root = *image.searcher(image.header().roots[number]).root();
    assert!(root.tables > 0 && root.chunks == 1, "{root:?}");
    let chunk = image.read(root.chunks_at);
    (root, chunk)
}

#[test]
fn a_chunk_beside_tables_has_the_classes_of_services_where_they_are_few() {
    let (boxes, bytes) = beside_tables(60);
    let (_, chunk) = only_chunk(&Image::from_bytes(&bytes).expect("valid"));
    assert_eq!((chunk.shared, chunk.rows), (1, 5));
    let (_, bytes) = beside_tables(1500);
    let (_, chunk) = only_chunk(&Image::from_bytes(&bytes).expect("valid"));
    assert_eq!(
        chunk.shared, 0,
        "rows for so many classes would take too much room"
    );
    let live = Live::new(&policy(&boxes), &Options::default()).expect("compiles");
    let image = Image::from_bytes(live.image()).expect("valid");
    let (_, chunk) = only_chunk(&image);
    assert_eq!(chunk.shared, 0, "classes of chunks are changed in place");
}

#[test]
fn shared_classes_that_are_not_the_same_are_refused() {
    let (_, bytes) = beside_tables(60);
    let (root, chunk) = only_chunk(&Image::from_bytes(&bytes).expect("valid"));
    let (chunk_at, services_at) = (root.chunks_at as usize, root.services_at as usize);
    let fold_at = chunk_at + std::mem::offset_of!(Chunk, fold);
    let ports_at = chunk_at + std::mem::offset_of!(Chunk, ports);
    let refused = |at: usize, word: u32| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        seal(&mut bytes);
        Image::from_bytes(&bytes).is_err()
    };
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let shared_at = chunk_at + std::mem::offset_of!(Chunk, shared);
    assert!(!refused(shared_at, 1) && !refused(shared_at, 0));
    assert!(refused(shared_at, 2));
    // The other port's map, which is as sound; other classes of flags; fewer rows.
    assert!(refused(ports_at, chunk.ports[1].table_at));
    let flags_at = fold_at + std::mem::offset_of!(Fold, small_at) + 8;
    assert!(refused(flags_at, word(flags_at - 4)));
    let rows_at = services_at + std::mem::offset_of!(Fold, rows);
    assert!(refused(rows_at, word(rows_at) + 1));
}
