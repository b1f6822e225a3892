//! An image from a stranger: whatever bytes it has, it is refused or walked without harm.
//!
//! Random images are damaged at random places, mostly in structures, and given a right checksum, so
//! that every other check has to stand on its own. What `from_bytes` lets through is then walked.

use fastrand::Rng;
use std::mem::offset_of;
use weir_engine::compile::{Options, compile};
use weir_engine::image::layout::{CHECKSUM_AT, Chunk, FOLD_PORTS, Fold, Leaf, Root, root_number};
use weir_engine::image::{Image, checksum};
use weir_engine::lookup::{Key, Lookup};
use weir_engine::run::{Reference, Runner};
use weir_policy::eval::Passage;
use weir_policy::model::{CtState, Family, Hook, Table};
use weir_testkit::random::{PacketSource, Shape, boxes, policy};
use weir_testkit::seeds::seeds;

const HOOKS: [Hook; 3] = [Hook::Prerouting, Hook::Input, Hook::Output];

fn damage(image: &mut [u8], rng: &mut Rng) {
    for _ in 0..rng.usize(1..4) {
        // Header and the root records at the end of each root's sections matter most.
        let at = match rng.u8(..4) {
            0 => rng.usize(24..320.min(image.len())),
            _ => rng.usize(24..image.len()),
        };
        match rng.u8(..4) {
            0 => image[at] ^= 1 << rng.u8(..8),
            1 => image[at] = rng.u8(..),
            2 => {
                let at = at & !3;
                let word = *rng
                    .choice(&[0, 1, u32::MAX, u32::MAX / 2, 64])
                    .expect("some");
                image[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
            }
            _ => {
                let (from, to) = (at & !3, rng.usize(24..image.len()) & !3);
                let word: [u8; 4] = image[from..from + 4].try_into().expect("four bytes");
                image[to..to + 4].copy_from_slice(&word);
            }
        }
    }
    seal(image);
}

fn seal(image: &mut [u8]) {
    let sum = checksum(image);
    image[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn damaged_images_are_refused_or_harmless() {
    let (mut refused, mut walked) = (0, 0);
    for seed in seeds(30) {
        let rules_max = if seed % 3 == 0 { 70 } else { 12 };
        let shape = Shape {
            rules_max,
            chains_max: 2,
            ..Shape::default()
        };
        let policy = policy(seed, shape);
        let Ok(compiled) = compile(&policy, &Options::default()) else {
            continue;
        };
        let mut rng = Rng::with_seed(seed);
        for _ in 0..60 {
            let mut image = compiled.image.clone();
            damage(&mut image, &mut rng);
            let Ok(mut runner) = Runner::new(&image, 0) else {
                refused += 1;
                continue;
            };
            walked += 1;
            let mut live = Reference::new(&policy);
            let mut source = PacketSource::new(&policy, seed);
            for number in 0..6 {
                let family = if number % 2 == 0 {
                    Family::V4
                } else {
                    Family::V6
                };
                let packet = source.packet(family, HOOKS[number % 3]);
                live.begin();
                let mut passage = Passage::of(&packet);
                let outcome = runner.judge(&packet, &mut passage, &mut live, 1000);
                assert!(outcome.steps <= 3 << 22, "the walk ends");
            }
        }
    }
    assert!(
        refused > 100 && walked > 100,
        "{refused} refused, {walked} walked"
    );
}

/// Where rows only say which terms may hold, walkers read what terms say: no further than there are
/// terms, and whatever rows lead to.
#[test]
fn damaged_bounds_are_refused_or_harmless() {
    let (mut refused, mut asked) = (0, 0);
    for (family, rules) in [(Family::V4, 300), (Family::V4, 4200), (Family::V6, 300)] {
        let policy = boxes::stairs(1, family, rules);
        let options = Options {
            row_bytes: 0,
            ..Options::default()
        };
        let compiled = compile(&policy, &options).expect("compiles");
        let number = root_number(family, Hook::Forward, Table::Filter).expect("a root");
        let whole = Image::from_bytes(&compiled.image).expect("valid");
        let root: Root = whole.read(whole.header().roots[number]);
        let leaf: Leaf = whole.read(root.leaves_at);
        let chunk_at = if root.splits > 0 {
            leaf.chunks_at
        } else {
            root.chunks_at
        };
        let chunk: Chunk = whole.read(chunk_at);
        assert!(chunk.bounds_at > 0, "{family:?}, {rules} rules");
        let mut source = PacketSource::new(&policy, 1);
        let packets = (0..50).map(|_| source.packet(family, Hook::Forward));
        let keys: Vec<Key> = packets
            .map(|packet| Key::of(&packet, CtState::New, |_| 0))
            .collect();
        let mut rng = Rng::with_seed(rules.into());
        for round in 0..120 {
            let mut image = compiled.image.clone();
            // The head of the chunk, or anything of its bounds.
            let (from, words) = match round % 2 {
                0 => (chunk_at as usize, 8),
                _ => (chunk.bounds_at as usize, chunk.terms as usize * 8),
            };
            let at = from + rng.usize(..words) * 4;
            let word = match rng.u8(..3) {
                0 => rng.u32(..),
                1 => rng.u32(..image.len() as u32),
                _ => image.len() as u32 - rng.u32(..200),
            };
            image[at..at + 4].copy_from_slice(&word.to_le_bytes());
            seal(&mut image);
            let Ok(image) = Image::from_bytes(&image) else {
                refused += 1;
                continue;
            };
            asked += 1;
            let searcher = image.searcher(image.header().roots[number]);
            let entries = searcher.root().entries;
            let mut many = vec![0; keys.len()];
            searcher.first_of_each(&keys, &mut many);
            for (key, batched) in keys.iter().zip(many) {
                let own = [batched, searcher.first(key), searcher.first_scalar(key)];
                assert!(own.iter().all(|position| *position < entries));
                let mut lookup = Lookup::new(&image, image.header().roots[number], *key);
                assert!(lookup.next(0) < entries);
            }
        }
    }
    assert!(
        refused > 30 && asked > 100,
        "{refused} refused, {asked} asked"
    );
}

#[test]
fn every_truncation_is_refused() {
    let policy = policy(3, Shape::default());
    let image = compile(&policy, &Options::default())
        .expect("compiles")
        .image;
    for length in 0..image.len().min(2000) {
        assert!(
            Image::from_bytes(&image[..length]).is_err(),
            "{length} bytes"
        );
    }
}

#[test]
fn classes_by_port_without_pairs_are_refused() {
    let policy = boxes::policy(1, Family::V4, 1000);
    let mut image = compile(&policy, &Options::default())
        .expect("compiles")
        .image;
    let number = root_number(Family::V4, Hook::Forward, Table::Filter).expect("a root");
    let whole = Image::from_bytes(&image).expect("valid");
    let root: Root = whole.read(whole.header().roots[number]);
    let chunk: Chunk = whole.read(root.chunks_at);
    assert!(
        chunk.fold.used & FOLD_PORTS != 0 && chunk.fold.direct_at[0] != 0,
        "{chunk:?}"
    );
    // Vectors took the classes for places among pairs, of which there were none.
    let at = root.chunks_at as usize + offset_of!(Chunk, fold) + offset_of!(Fold, used);
    let used = chunk.fold.used & !FOLD_PORTS;
    image[at..at + 4].copy_from_slice(&used.to_le_bytes());
    seal(&mut image);
    assert!(Image::from_bytes(&image).is_err(), "what `used` leaves out");
}
