//! What lists of rules do that chains do not: skips, proposals, heads of groups, alternatives.
//!
//! In: a chain of random rules. Out: the same rules, some of them changed to what the languages of
//! IPFilter and IPFW need. Skips lead to any later rule or to the end.

use super::{chance, pick};
use fastrand::Rng;
use weir_policy::model::{ChainId, Cond, Flow, Rule, Test, Verdict};

/// Changes some rules of a chain; `callable` are the chains that a head may lead to.
pub(super) fn change(rng: &mut Rng, rules: &mut [Rule], callable: &[ChainId]) {
    let count = rules.len() as u32;
    let mut proposers = Vec::new();
    for (at, rule) in rules.iter_mut().enumerate() {
        let verdict = *pick(rng, &[Verdict::Accept, Verdict::Drop]);
        match rng.u8(..10) {
            0..=2 => rule.flow = Flow::Propose(verdict),
            3 => rule.flow = Flow::Skip(rng.u32(at as u32 + 1..=count)),
            4 if !callable.is_empty() => {
                rule.flow = Flow::Head {
                    verdict,
                    group: *pick(rng, callable),
                    quick: rng.bool(),
                };
            }
            _ => {}
        }
        if chance(rng, 20) {
            alternatives(rng, &mut rule.tests);
        }
        if let (Flow::Propose(_), true) = (rule.flow, chance(rng, 30)) {
            proposers.push(rule.id);
        } else if let (Some(by), true) = (proposers.pop(), chance(rng, 40)) {
            rule.tests.push(Test {
                negate: chance(rng, 20),
                cond: Cond::ProposedBy(by),
            });
        }
    }
}

/// Puts some tests in a place where one of them is enough, sometimes the opposite.
fn alternatives(rng: &mut Rng, tests: &mut Vec<Test>) {
    let alone = |test: &Test| matches!(test.cond, Cond::Set { .. } | Cond::ProposedBy(_));
    let usable = |test: &Test| !test.cond.remembers() && !alone(test);
    let chosen: Vec<Test> = tests.iter().filter(|test| usable(test)).cloned().collect();
    if chosen.is_empty() {
        return;
    }
    tests.retain(|test| !usable(test));
    let negate = chance(rng, 40);
    let cond = Cond::Any(chosen);
    tests.insert(rng.usize(..=tests.len()), Test { negate, cond });
}
