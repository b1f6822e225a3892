//! The programs in the kernel judge the same packets as the evaluator does: verdict, deciding rule,
//! mark, connection state, and in the end every counter. Needs root; see `WEIR_REQUIRE_KERNEL`.
//!
//! `WEIR_KERNEL_POLICIES` and `WEIR_KERNEL_PACKETS` say how much is tried.

use weir_engine::compile::{Options, compile};
use weir_engine::image::Image;
use weir_engine::image::layout::FEATURE_BOUNDS;
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::model::{Family, Hook};
use weir_testkit::equality::{Comparison, Tally};
use weir_testkit::random::{HOOKS, Shape, boxes, ipfw, policy};
use weir_testkit::seeds::{seeds, setting};

#[test]
fn the_kernel_equals_the_evaluator() {
    let Some(()) = weir_plane::kernel_or_skip("the_kernel_equals_the_evaluator") else {
        return;
    };
    let policies = setting("WEIR_KERNEL_POLICIES", 300);
    let packets = setting("WEIR_KERNEL_PACKETS", 3_400) as usize;
    let capacity = Capacity::for_policy(4 << 20, 4096, 1 << 20, 4096).expect("it fits");
    let kernel = TestRun::new(capacity).unwrap_or_else(|e| panic!("{e}"));
    let without_flows = TestRun::without_flows(capacity).unwrap_or_else(|e| panic!("{e}"));
    for programs in [&kernel, &without_flows] {
        programs.set_locals(&weir_policy::eval::Locals::default());
    }
    let (mut all, mut short_ways) = (Tally::default(), 0);
    let mut refused = 0;
    for seed in seeds(policies) {
        let shape = match seed % 4 {
            0 | 1 => Shape {
                histories: seed % 4 == 1,
                ..if seed % 3 == 1 {
                    Shape::lists()
                } else {
                    Shape::default()
                }
            },
            // For the short way: with state and without.
            rest => Shape {
                state: rest == 2,
                changes: false,
                plain: true,
                ..Shape::default()
            },
        };
        let policy = policy(seed, shape);
        let compiled = compile(&policy, &Options::default()).expect("it compiles");
        if !weir_plane::swap::is_supported(&compiled.image) {
            refused += 1;
            continue;
        }
        // States of packets, which these programs don't tell, are compared for seeds that leave 7.
        let plain = seed % 8 == 3;
        let comparison = Comparison {
            policy: &policy,
            packets,
            seed,
            hooks: &HOOKS,
            options: Options::default(),
            kernel: Some(if plain { &without_flows } else { &kernel }),
            dressed: false,
        };
        match comparison.run() {
            Ok(tally) => {
                short_ways += u64::from(plain) * tally.short_ways;
                all.add(&tally);
            }
            Err(mismatch) => panic!("policy seed {seed}: {}", mismatch.0),
        }
    }
    println!("{policies} policies, {refused} of them need what the programs lack: {all:?}");
    assert!(all.verdicts.iter().all(|n| *n > 100), "{all:?}");
    assert!(all.short_ways > packets as u64 * policies / 100, "{all:?}");
    assert!(short_ways > packets as u64 * policies / 100, "{short_ways}");
    assert!(all.short_icmp > policies, "{all:?}");
}

/// Rows that only say which terms may hold: one chunk on the short way and on the whole one,
/// several chunks, tables beside them, both families.
#[test]
fn the_kernel_equals_the_evaluator_where_rows_are_coarse() {
    let Some(()) =
        weir_plane::kernel_or_skip("the_kernel_equals_the_evaluator_where_rows_are_coarse")
    else {
        return;
    };
    let capacity = Capacity::for_policy(16 << 20, 8192, 1 << 20, 4096).expect("it fits");
    let kernel = TestRun::new(capacity).unwrap_or_else(|e| panic!("{e}"));
    let without_flows = TestRun::without_flows(capacity).unwrap_or_else(|e| panic!("{e}"));
    let packets = setting("WEIR_KERNEL_PACKETS", 3_400) as usize * 2;
    let mut all = Tally::default();
    for family in [Family::V4, Family::V6] {
        let policies = [
            boxes::stairs(1, family, 60),
            boxes::stairs(2, family, 1_500),
            boxes::stairs(3, family, 5_000),
            boxes::policy(4, family, 900),
            boxes::policy(5, family, 3_000),
        ];
        for (number, policy) in policies.iter().enumerate() {
            let options = Options {
                row_bytes: 0,
                ..Options::default()
            };
            let image = compile(policy, &options).expect("it compiles").image;
            let image = Image::from_bytes(&image).expect("valid");
            assert!(image.header().features & FEATURE_BOUNDS != 0, "{number}");
            let comparison = Comparison {
                policy,
                packets,
                seed: number as u64,
                hooks: &[Hook::Forward],
                options,
                kernel: Some([&kernel, &without_flows][number % 2]),
                dressed: false,
            };
            match comparison.run() {
                Ok(tally) => all.add(&tally),
                Err(mismatch) => panic!("{family:?}, policy {number}: {}", mismatch.0),
            }
        }
    }
    println!("{all:?}");
    assert!(all.verdicts[..2].iter().all(|n| *n > 1000), "{all:?}");
    assert!(all.rules_hit > 3000, "{all:?}");
    assert!(all.short_ways > packets as u64, "{all:?}");
}

#[test]
fn the_kernel_equals_the_evaluator_for_rules_of_ipfw() {
    let name = "the_kernel_equals_the_evaluator_for_rules_of_ipfw";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let policies = setting("WEIR_KERNEL_POLICIES", 300);
    let capacity = Capacity::for_policy(4 << 20, 4096, 1 << 20, 4096).expect("it fits");
    let kernel = TestRun::new(capacity).unwrap_or_else(|e| panic!("{e}"));
    kernel.set_locals(&weir_policy::eval::Locals::default());
    let mut all = Tally::default();
    for seed in seeds(policies) {
        let comparison = Comparison {
            policy: &ipfw::policy(seed),
            packets: setting("WEIR_KERNEL_PACKETS", 3_400) as usize,
            seed,
            hooks: &[Hook::Prerouting, Hook::Forward, Hook::Output],
            options: Options::default(),
            kernel: Some(&kernel),
            dressed: true,
        };
        match comparison.run() {
            Ok(tally) => all.add(&tally),
            Err(mismatch) => panic!("policy seed {seed}: {}", mismatch.0),
        }
    }
    println!("{policies} policies: {all:?}");
    assert!(all.verdicts.iter().all(|n| *n > 100), "{all:?}");
}
