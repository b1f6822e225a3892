//! Evaluator = compiled image in user space, on random policies and packets at their boundaries:
//! verdict, deciding rule, rules that counted in order, operations, marks, counters.

use weir_engine::compile::{Options, compile};
use weir_engine::run::{Reference, Runner};
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{Family, Op, RuleId};
use weir_testkit::random::{HOOKS, PacketSource, Shape, policy};
use weir_testkit::seeds::seeds;

/// Runs packets through both and compares everything.
fn compare(seed: u64, shape: Shape, options: &Options, packets: usize) {
    let policy = policy(seed, shape);
    let compiled = compile(&policy, options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut evaluator = Evaluator::new(&policy, 1000);
    let mut runner = Runner::new(&compiled.image, 1000).expect("a fresh image is valid");
    let mut live = Reference::new(&policy);
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
        let (mut left, mut right) = (Passage::of(&packet), Passage::of(&packet));
        live.begin();
        let expected = evaluator.judge(&packet, &mut left, now_ms);
        let outcome = runner.judge(&packet, &mut right, &mut live, now_ms);
        let at = format!("seed {seed}, packet {number}: {packet:?}");
        assert_eq!(
            outcome.matched, expected.matched,
            "rules that counted; {at}"
        );
        assert_eq!(outcome.verdict, expected.verdict, "verdict; {at}");
        assert_eq!(outcome.decided_by, expected.decided_by, "decided by; {at}");
        assert_eq!(outcome.hot_drop, expected.hot_drop, "hot drop; {at}");
        assert_eq!(
            (outcome.mark, outcome.tos, outcome.state),
            (expected.mark, expected.tos, expected.state),
            "marks and state; {at}"
        );
        let ops: Vec<(RuleId, Op)> = outcome
            .ops
            .iter()
            .map(|(rule, index)| (*rule, op_of(&policy, *rule, *index)))
            .collect();
        assert_eq!(ops, expected.ops, "operations; {at}");
    }
    assert_eq!(runner.counters, evaluator.counters, "counters; seed {seed}");
}

fn op_of(policy: &weir_policy::model::Policy, rule: RuleId, index: u16) -> Op {
    let mut rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let rule = rules
        .find(|r| r.id == rule)
        .expect("operations belong to rules");
    rule.ops[usize::from(index)].clone()
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
