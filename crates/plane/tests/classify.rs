//! The lookup in C (under BPF_PROG_TEST_RUN) = the lookup in Rust, on random images and keys.

mod kernel;

use kernel::Kernel;
use weir_engine::compile::{Options, compile};
use weir_engine::image::Image;
use weir_engine::image::layout::Root;
use weir_engine::lookup::{Key, Lookup};
use weir_engine::packet::key_of;
use weir_policy::model::{CtState, Family, Hook, Policy};
use weir_testkit::random::{PacketSource, Shape, boxes, policy};

const STATES: [CtState; 5] = [
    CtState::Invalid,
    CtState::New,
    CtState::Established,
    CtState::Related,
    CtState::Untracked,
];

/// The whole trail of one packet through one root, in C and in Rust; its length.
fn compare(kernel: &Kernel, image: &Image, root_at: u32, key: &weir_engine::packet::Key) -> usize {
    let root: Root = image.read(root_at);
    let mut lookup = Lookup::new(image, root_at, Key::parsed(key));
    let (mut from, mut length) = (0, 0);
    loop {
        let expected = lookup.next(from);
        let position = kernel.next(root_at, from, key);
        assert_eq!(position, expected, "root {root_at}, from {from}, {key:?}");
        length += 1;
        if position + 1 >= root.entries {
            return length;
        }
        from = position + 1;
    }
}

fn run(seeds: std::ops::Range<u64>, shape: Shape, packets: usize) -> usize {
    run_at(
        seeds.map(|seed| (seed, policy(seed, shape))),
        Hook::Input,
        packets,
    )
}

fn run_at(policies: impl Iterator<Item = (u64, Policy)>, hook: Hook, packets: usize) -> usize {
    let kernel = Kernel::load(1 << 25);
    let mut steps = 0;
    for (seed, policy) in policies {
        let compiled = match compile(&policy, &Options::default()) {
            // Jumps multiply rules in some random policies.
            Err(weir_engine::compile::Error::Steps { .. }) => continue,
            compiled => compiled.expect("compiles"),
        };
        kernel.put(&compiled.image);
        let image = Image::from_bytes(&compiled.image).expect("valid");
        let mut source = PacketSource::new(&policy, seed);
        for number in 0..packets {
            let family = if number % 2 == 0 {
                Family::V4
            } else {
                Family::V6
            };
            let packet = source.packet(family, hook);
            let mut key = key_of(&packet);
            key.state = STATES[number % 5] as u8;
            key.in_class = (number % (image.header().patterns as usize + 1)) as u16;
            let roots = [&image.header().roots, &image.header().shorts];
            let wanted = if family == Family::V4 { 0..15 } else { 15..30 };
            for root_at in roots.iter().flat_map(|roots| &roots[wanted.clone()]) {
                if *root_at != 0 {
                    steps += compare(&kernel, &image, *root_at, &key);
                }
            }
        }
    }
    steps
}

#[test]
fn lookups_of_small_policies_are_equal() {
    let steps = run(0..40, Shape::default(), 40);
    assert!(steps > 10_000, "only {steps} steps compared");
}

#[test]
fn lookups_of_many_words_are_equal() {
    let shape = Shape {
        rules_max: 90,
        chains_max: 2,
        ..Shape::default()
    };
    let steps = run(1000..1012, shape, 25);
    assert!(steps > 10_000, "only {steps} steps compared");
}

/// Tables of boxes, and tables of sources, whose filters stand beside one another.
#[test]
fn lookups_in_hashed_tables_are_equal() {
    let policies = (0..8).map(|seed| {
        let policy = match seed % 4 {
            0 => boxes::policy(seed, Family::V6, 2500),
            1 => boxes::policy(seed, Family::V4, 2500),
            _ => boxes::sources(seed, 4000),
        };
        (seed, policy)
    });
    let steps = run_at(policies, Hook::Forward, 300);
    assert!(steps > 3_000, "only {steps} steps compared");
}
