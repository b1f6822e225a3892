//! The evaluator, the compiled image and (as root) the kernel judge the same packets alike.
//!
//! The number of policies and packets grows with `WEIR_EQUALITY_POLICIES` (default 300) and
//! `WEIR_EQUALITY_PACKETS` (default 3,400 a policy, so over 10^6 in all).

use std::path::Path;

use weir_engine::compile::Options;
use weir_policy::model::Hook;
use weir_testkit::compare::{case, model};
use weir_testkit::equality::{Comparison, Tally};
use weir_testkit::random::{HOOKS, Shape, ipfw, policy};
use weir_testkit::seeds::{seeds, setting};

const FILTER_HOOKS: [Hook; 3] = [Hook::Input, Hook::Forward, Hook::Output];

/// Compares many random policies, and shows what was tried.
fn compare(first_seed: u64, shape: Shape, hooks: &[Hook], options: Options) -> Tally {
    let policies = setting("WEIR_EQUALITY_POLICIES", 300);
    let packets = setting("WEIR_EQUALITY_PACKETS", 3_400) as usize;
    let mut all = Tally::default();
    for seed in seeds(policies).map(|seed| first_seed + seed) {
        let policy = policy(seed, shape);
        let comparison = Comparison {
            policy: &policy,
            packets,
            seed,
            hooks,
            options,
            kernel: None,
            dressed: false,
        };
        match comparison.run() {
            Ok(tally) => all.add(&tally),
            Err(mismatch) => panic!("policy seed {seed}, {shape:?}: {}", mismatch.0),
        }
    }
    println!("{policies} policies: {all:?}");
    all
}

#[test]
fn the_image_equals_the_evaluator_with_changes_and_histories() {
    let shape = Shape {
        histories: true,
        ..Shape::default()
    };
    let tally = compare(0, shape, &HOOKS, Options::default());
    assert!(tally.verdicts.iter().all(|n| *n > 1000), "{tally:?}");
    assert!(tally.states.iter().all(|n| *n > 50), "{tally:?}");
}

#[test]
fn lists_with_proposals_and_skips_equal_the_evaluator() {
    let shape = Shape {
        histories: true,
        ..Shape::lists()
    };
    let tally = compare(20_000, shape, &HOOKS, Options::default());
    assert!(tally.verdicts.iter().all(|n| *n > 1000), "{tally:?}");
}

#[test]
fn numbered_lists_of_ipfw_equal_the_evaluator() {
    let policies = setting("WEIR_EQUALITY_POLICIES", 300);
    let mut all = Tally::default();
    for seed in seeds(policies) {
        let policy = ipfw::policy(seed);
        let comparison = Comparison {
            policy: &policy,
            packets: setting("WEIR_EQUALITY_PACKETS", 3_400) as usize,
            seed,
            hooks: &[Hook::Prerouting, Hook::Forward, Hook::Output],
            options: Options::default(),
            kernel: None,
            dressed: true,
        };
        match comparison.run() {
            Ok(tally) => all.add(&tally),
            Err(mismatch) => panic!("policy seed {seed}: {}", mismatch.0),
        }
    }
    println!("{policies} policies: {all:?}");
    assert!(all.verdicts.iter().all(|n| *n > 1000), "{all:?}");
}

#[test]
fn the_image_without_reductions_equals_the_evaluator() {
    let options = Options {
        reduce: false,
        tables: false,
        ..Options::default()
    };
    compare(10_000, Shape::default(), &FILTER_HOOKS, options);
}

#[test]
fn large_chains_equal_the_evaluator() {
    let shape = Shape {
        rules_max: 160,
        chains_max: 1,
        ..Shape::default()
    };
    compare(20_000, shape, &FILTER_HOOKS, Options::default());
}

#[test]
fn the_rule_files_people_write_equal_the_evaluator() {
    let packets = setting("WEIR_EQUALITY_PACKETS", 3_400) as usize;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs/iptables");
    let mut all = Tally::default();
    for case in case::find(&folder).expect("the corpus must be readable") {
        let policy = model::policy_of(&case).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        for options in [
            Options::default(),
            Options {
                reduce: false,
                tables: false,
                ..Options::default()
            },
        ] {
            let hooks = &HOOKS;
            let comparison = Comparison {
                policy: &policy,
                packets,
                seed: 1,
                hooks,
                options,
                kernel: None,
                dressed: false,
            };
            match comparison.run() {
                Ok(tally) => all.add(&tally),
                Err(mismatch) => panic!("{}: {}", case.name, mismatch.0),
            }
        }
    }
    println!("{all:?}");
    assert!(all.verdicts.iter().all(|n| *n > 500), "{all:?}");
}
