//! A damaged image of many rules: refused, or searched by every walker without a read outside.
//!
//! `load_image` walks small policies entry by entry; here are roots with hashed tables, IPv6 among
//! them, split trees and chunks, and what looks for the first position: scalar code, vectors,
//! batches. The first byte chooses the image, eight bytes are an edit: where, and the word that
//! goes there. With the highest bit of where, it is in a structure that has offsets.
//! `cargo +nightly fuzz run search_image -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use weir_engine::compile::{Options, compile};
use weir_engine::image::layout::{
    CHECKSUM_AT, Chunk, FEATURE_BOUNDS, Fold, HashTable, Header, Leaf, Root, Split, root_number,
};
use weir_engine::image::{Aligned, Image, checksum};
use weir_engine::lookup::{Key, Lookup};
use weir_policy::model::{CtState, Family, Hook, Policy, Table};
use weir_testkit::random::{PacketSource, boxes};

/// Keys that are searched for: more than a batch, and not a multiple of one.
const KEYS: usize = 39;

struct Made {
    image: Vec<u8>,
    number: usize,
    root: Root,
    /// Bytes of a record of its first table; 0 without.
    record: u32,
    keys: Vec<Key>,
    has_bounds: bool,
    /// Words of structures.
    places: Vec<u32>,
}

static MADE: LazyLock<Vec<Made>> = LazyLock::new(|| {
    let v4 = [200, 1200, 6000].map(|rules| boxes::policy(rules.into(), Family::V4, rules));
    let v6 = [600, 3000].map(|rules| boxes::policy(rules.into(), Family::V6, rules));
    // Few and many tables, records of prefixes and of ranges, bits alone and a split tree.
    let sources = [1200, 9000].map(|rules| boxes::sources(rules.into(), rules));
    let kinds = [1, 5].map(|width| boxes::kinds(1, 6000, width));
    let stairs = [boxes::stairs(1, Family::V4, 4300)];
    let policies = v4
        .into_iter()
        .chain(v6)
        .chain(sources)
        .chain(kinds)
        .chain(stairs);
    let exact = usize::MAX;
    let mut made: Vec<Made> = policies.map(|policy| self::made(&policy, exact)).collect();
    // Rows that only say which terms may hold.
    let coarse = [(Family::V4, 900), (Family::V4, 4300), (Family::V6, 900)];
    let coarse = coarse.map(|(family, rules)| boxes::stairs(2, family, rules));
    made.extend(coarse.iter().map(|policy| self::made(policy, 0)));
    let bounds = made.iter().filter(|made| made.has_bounds);
    assert_eq!(bounds.count(), coarse.len(), "chunks with bounds");
    for record in [16, 32, 64] {
        assert!(made.iter().any(|made| made.record == record), "{record}");
    }
    assert!(made.iter().any(|made| made.root.tables > 4), "many tables");
    assert!(made.iter().any(|made| made.root.splits > 0), "a split tree");
    made
});

fn made(policy: &Policy, row_bytes: usize) -> Made {
    let options = Options {
        row_bytes,
        ..Options::default()
    };
    let image = compile(policy, &options).expect("compiles").image;
    let family = policy.roots[0].family;
    let number = root_number(family, Hook::Forward, Table::Filter).expect("a root");
    let mut source = PacketSource::new(policy, 1);
    let packets = (0..KEYS).map(|_| source.packet(family, Hook::Forward));
    let keys = packets
        .map(|packet| Key::of(&packet, CtState::New, |_| 0))
        .collect();
    let whole = Image::from_bytes(&image).expect("valid");
    let root: Root = whole.read(whole.header().roots[number]);
    let record = match root.tables {
        0 => 0,
        _ => whole.read::<HashTable>(root.tables_at).record,
    };
    let places = places(&whole, number);
    let has_bounds = whole.header().features & FEATURE_BOUNDS != 0;
    Made {
        has_bounds,
        image,
        number,
        root,
        record,
        keys,
        places,
    }
}

/// Where the words of a root's structures are.
fn places(image: &Image, number: usize) -> Vec<u32> {
    let mut places = Vec::new();
    let mut add = |at: u32, count: u32, size: usize| {
        let end = at + count * size as u32;
        places.extend((at..end).step_by(4));
    };
    add(0, 1, size_of::<Header>());
    let at = image.header().roots[number];
    let root: Root = image.read(at);
    add(at, 1, size_of::<Root>());
    add(root.tables_at, root.tables, size_of::<HashTable>());
    if root.tables > 0 {
        add(root.services_at, 1, size_of::<Fold>());
    }
    add(root.splits_at, root.split_nodes, size_of::<Split>());
    add(root.leaves_at, root.leaves, size_of::<Leaf>());
    add(root.chunks_at, root.chunks, size_of::<Chunk>());
    for number in 0..root.leaves {
        let leaf: Leaf = image.read(root.leaves_at + number * size_of::<Leaf>() as u32);
        add(leaf.chunks_at, leaf.chunks, size_of::<Chunk>());
    }
    places
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, edits)) = bytes.split_first() else {
        return;
    };
    let made = &MADE[usize::from(choice) % MADE.len()];
    let mut image = made.image.clone();
    for edit in edits.chunks_exact(8) {
        let word = |at: usize| u32::from_le_bytes(edit[at..at + 4].try_into().unwrap());
        let (place, new) = (word(0), word(4));
        let at = match place >> 31 {
            0 => place as usize % (image.len() - 3),
            _ => made.places[(place & 0xffff) as usize % made.places.len()] as usize,
        };
        // Numbers that are nearly right get further: of a structure, some are added to.
        let old = u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        let new = match place >> 30 {
            3 => old.wrapping_add(new as u8 as i8 as u32),
            _ => new,
        };
        image[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
    let sum = checksum(&image);
    image[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    let lines = Aligned::of(&image);
    let Ok(image) = Image::from_bytes(lines.bytes()) else {
        return;
    };
    let root_at = image.header().roots[made.number];
    if root_at == 0 {
        return;
    }
    let searcher = image.searcher(root_at);
    let last = searcher.root().entries - 1;
    let mut out = [0; KEYS];
    searcher.first_of_each(&made.keys, &mut out);
    for (key, found) in made.keys.iter().zip(out) {
        let own = [found, searcher.first(key), searcher.first_scalar(key)];
        assert!(own.iter().all(|position| *position <= last), "{own:?}");
        let mut lookup = Lookup::new(&image, root_at, *key);
        let mut position = 0;
        for _ in 0..32 {
            let next = lookup.next(position);
            assert!(next <= last, "{next}");
            if next == last {
                break;
            }
            position = next + 1;
        }
    }
});
