//! Generated rule sets through weir's own model and compiler: same meaning as the generator says.

use weir_engine::compile::{Options, compile};
use weir_lab::rules::{Last, RuleSet, Shape, model};
use weir_lab::space::Family;
use weir_policy::model::{Cond, CtState, StateMask, Verdict};

#[test]
fn every_shape_compiles_and_the_last_rule_is_the_last() {
    for shape in Shape::ALL {
        for family in [Family::V4, Family::V6] {
            let set = RuleSet::generate(shape, 300, 1, family);
            let policy = model::policy(&set);
            let rules = &policy.chains[0].rules;
            assert_eq!(
                rules.len(),
                301 + usize::from(set.stateful),
                "{shape} {family}"
            );
            let last = &rules[rules.len() - 1];
            assert!(last.tests.is_empty(), "{shape} {family}");
            assert_eq!(
                last.flow,
                weir_policy::model::Flow::Verdict(Verdict::Accept)
            );
            let compiled = compile(&policy, &Options::default());
            assert!(compiled.is_ok(), "{shape} {family}: {:?}", compiled.err());
        }
    }
}

#[test]
fn stateful_sets_ask_for_state_first_and_in_every_rule() {
    let mut set = RuleSet::generate(Shape::Stateful, 10, 1, Family::V4);
    set.last = Last::Drop;
    let policy = model::policy(&set);
    let rules = &policy.chains[0].rules;
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
    assert_eq!(
        rules[11].flow,
        weir_policy::model::Flow::Verdict(Verdict::Drop)
    );
}
