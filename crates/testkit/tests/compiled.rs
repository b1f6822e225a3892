//! Evaluator = compiled image in user space, on random policies and packets at their boundaries:
//! verdict, deciding rule, rules that counted in order, operations, marks, counters.

use weir_engine::compile::{Options, compile};
use weir_policy::model::Family;
use weir_testkit::equality::Both;
use weir_testkit::random::{HOOKS, PacketSource, Shape, policy};
use weir_testkit::seeds::seeds;

/// Runs packets through both and compares everything.
fn compare(seed: u64, shape: Shape, options: &Options, packets: usize) {
    let policy = policy(seed, shape);
    let compiled = compile(&policy, options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut both = Both::new(&policy, &compiled.image, 1000).expect("a fresh image is valid");
    let mut source = PacketSource::new(&policy, seed ^ 0x5eed);
    for number in 0..packets {
        let family = if number % 2 == 0 {
            Family::V4
        } else {
            Family::V6
        };
        let hook = HOOKS[number % 5];
        let packet = source.conversation(family, hook);
        let now_ms = 1000 + number as u64 * 37;
        let place = || format!("seed {seed}, packet {number}: {packet:?}");
        both.judge(&packet, now_ms, &place).unwrap();
    }
    both.compare_counters(&|| format!("seed {seed}")).unwrap();
}

#[test]
fn small_policies_equal_the_evaluator() {
    for seed in seeds(300) {
        let shape = Shape {
            histories: seed % 3 == 0,
            ..Shape::default()
        };
        compare(seed, shape, &Options::default(), 400);
    }
}

#[test]
fn without_reduction_the_same() {
    for seed in seeds(60) {
        let options = Options {
            reduce: false,
            ..Options::default()
        };
        compare(seed, Shape::default(), &options, 300);
    }
}

#[test]
fn policies_of_many_words_equal_the_evaluator() {
    for seed in 1000..1030 {
        let shape = Shape {
            rules_max: 80,
            chains_max: 2,
            histories: true,
            ..Shape::default()
        };
        compare(seed, shape, &Options::default(), 300);
    }
}

#[test]
fn the_same_policy_gives_the_same_bytes() {
    let mut made = 0;
    for seed in seeds(20) {
        let policy = policy(
            seed,
            Shape {
                rules_max: 60,
                ..Shape::default()
            },
        );
        // What is too long for one packet to meet is told alike, too.
        let image = || compile(&policy, &Options::default()).map(|compiled| compiled.image);
        let (one, other) = (image(), image());
        made += u32::from(one.is_ok());
        let said = |image: Result<Vec<u8>, _>| image.map_err(|e| format!("{e:?}"));
        assert_eq!(said(one), said(other), "seed {seed}");
    }
    assert!(made > 15, "{made} compile");
}
