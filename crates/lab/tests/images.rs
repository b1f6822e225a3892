//! Generated rule sets through weir's own parser and compiler: read whole, nothing in the way.

use weir_engine::compile::{Options, compile};
use weir_lab::rules::{Last, RuleSet, Shape, iptables, policy};
use weir_lab::space::Family;
use weir_policy::model::{Chain, Cond, CtState, Flow, Policy, StateMask, Verdict};

fn input(policy: &Policy) -> &Chain {
    policy
        .chains
        .iter()
        .find(|chain| chain.name == "INPUT")
        .expect("there is an INPUT chain")
}

#[test]
fn weir_reads_every_shape_and_compiles_it() {
    for shape in Shape::ALL {
        for family in [Family::V4, Family::V6] {
            let set = RuleSet::generate(shape, 300, 1, family);
            let policy = policy::read(&iptables::text(&set));
            let policy = policy.unwrap_or_else(|error| panic!("{shape} {family}: {error:#}"));
            let rules = &input(&policy).rules;
            assert_eq!(
                rules.len(),
                301 + usize::from(set.stateful),
                "{shape} {family}"
            );
            let last = &rules[rules.len() - 1];
            assert!(last.tests.is_empty(), "{shape} {family}");
            assert_eq!(last.flow, Flow::Verdict(Verdict::Accept));
            let compiled = compile(&policy, &Options::default());
            assert!(compiled.is_ok(), "{shape} {family}: {:?}", compiled.err());
        }
    }
}

#[test]
fn stateful_sets_ask_for_state_first_and_in_every_rule() {
    let mut set = RuleSet::generate(Shape::Stateful, 10, 1, Family::V4);
    set.last = Last::Drop;
    let policy = policy::read(&iptables::text(&set)).expect("weir reads it");
    let rules = &input(&policy).rules;
    let state = |mask| Cond::State(StateMask(mask));
    let known = CtState::Established as u8 | CtState::Related as u8;
    assert_eq!(rules[0].tests[0].cond, state(known));
    for rule in &rules[1..11] {
        let asks = rule
            .tests
            .iter()
            .any(|test| test.cond == state(CtState::New as u8));
        assert!(asks, "rule {} does not ask for NEW", rule.index);
    }
    assert_eq!(rules[11].flow, Flow::Verdict(Verdict::Drop));
}
