//! Any bytes as an image: refused, or walked without a panic, a read outside or a walk without end.
//!
//! An even first byte: the rest is the image itself. An odd one: the rest edits a compiled image,
//! eight bytes an edit (where, and the word that goes there). Either way magic, version, length and
//! checksum are made right, so that every other check has to stand on its own.
//! `cargo +nightly fuzz run load_image -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use weir_engine::compile::{Options, compile};
use weir_engine::image::layout::{ALIGN, CHECKSUM_AT, MAGIC, VERSION};
use weir_engine::image::checksum;
use weir_engine::run::{Reference, Runner};
use weir_policy::eval::Passage;
use weir_policy::model::{Family, Hook, Policy};
use weir_testkit::random::{PacketSource, Shape, policy};

const HOOKS: [Hook; 3] = [Hook::Prerouting, Hook::Input, Hook::Output];
/// Entries that one packet may meet, with room: more is a walk that does not end.
const STEPS_MAX: u32 = 3 << 22;

/// Small and large policies with their images.
static MADE: LazyLock<Vec<(Policy, Vec<u8>)>> = LazyLock::new(|| {
    let shape = |seed: u64| Shape {
        rules_max: if seed % 3 == 0 { 70 } else { 12 },
        chains_max: 2,
        ..Shape::default()
    };
    let policies = (0..24).map(|seed| policy(seed, shape(seed)));
    let made = policies.filter_map(|policy| {
        let image = compile(&policy, &Options::default()).ok()?.image;
        Some((policy, image))
    });
    made.collect()
});

fn put(image: &mut [u8], at: usize, word: u32) {
    image[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let (policy, made) = &MADE[usize::from(choice / 2) % MADE.len()];
    let mut image = if choice & 1 == 0 { rest.to_vec() } else { made.clone() };
    if choice & 1 == 0 {
        image.resize(image.len().next_multiple_of(ALIGN).max(1024), 0);
    } else {
        for edit in rest.chunks_exact(8) {
            let word = |at: usize| u32::from_le_bytes(edit[at..at + 4].try_into().unwrap());
            let at = word(0) as usize % (image.len() - 3);
            put(&mut image, at, word(4));
        }
    }
    put(&mut image, 0, MAGIC);
    put(&mut image, 4, VERSION);
    let length = image.len() as u32;
    put(&mut image, 8, length);
    let sum = checksum(&image);
    image[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());

    let Ok(mut runner) = Runner::new(&image, 0) else { return };
    let mut live = Reference::new(policy);
    let mut source = PacketSource::new(policy, u64::from(choice));
    for number in 0..6 {
        let family = if number % 2 == 0 { Family::V4 } else { Family::V6 };
        let packet = source.packet(family, HOOKS[number % 3]);
        live.begin();
        let outcome = runner.judge(&packet, &mut Passage::of(&packet), &mut live, 1000);
        assert!(outcome.steps <= STEPS_MAX, "the walk ends");
    }
});
