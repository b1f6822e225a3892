//! Following tests of ipfw's states.

use super::walk::{Checked, Checker, hold};
use crate::image::layout::{
    DYNAMIC_RULES_MAX, Dynamic, DynamicRule, TEST_DYNAMIC_LOOK, TEST_DYNAMIC_NOTE, TEST_DYNAMIC_OF,
    Test, is_reject,
};

impl Checker<'_, '_> {
    pub(super) fn dynamic(&self, test: &Test) -> Checked {
        let rules = self.image.header().rule_count;
        if test.kind == TEST_DYNAMIC_OF {
            return hold(test.a < rules, "the rule of a state");
        }
        if test.kind != TEST_DYNAMIC_LOOK && test.kind != TEST_DYNAMIC_NOTE {
            return Ok(());
        }
        let head = size_of::<Dynamic>() as u32;
        self.array(test.at, 1, size_of::<Dynamic>(), "settings of states")?;
        hold(test.at > 0, "settings of states")?;
        let dynamic: Dynamic = self.image.read(test.at);
        hold(dynamic.count <= DYNAMIC_RULES_MAX, "rules with states")?;
        let first = test.at + head;
        let size = size_of::<DynamicRule>();
        self.array(first, dynamic.count, size, "rules with states")?;
        if test.kind == TEST_DYNAMIC_NOTE {
            hold(test.a < dynamic.count, "a rule with states")?;
        }
        // All tests of a root share these.
        if self.dynamic_seen.replace(test.at) == test.at {
            return Ok(());
        }
        let mut before: Option<DynamicRule> = None;
        for place in 0..dynamic.count {
            let rule: DynamicRule = self.image.read(first + place * size as u32);
            let verdicts = rule.verdict.iter().all(|v| (1..=3).contains(v));
            let answers = rule.reject.iter().all(|kind| is_reject(*kind));
            hold(verdicts && answers, "the verdict of a state")?;
            hold(rule.rule < rules, "the rule of a state")?;
            // One rule with several limits stands there several times, otherwise the same.
            let follows = before.is_none_or(|before| {
                let alike = DynamicRule {
                    limit: rule.limit,
                    ..before
                };
                before.identity < rule.identity || alike == rule
            });
            hold(follows, "the order of rules with states")?;
            before = Some(rule);
        }
        Ok(())
    }
}

const _: () = assert!(size_of::<Dynamic>() == 64 && size_of::<DynamicRule>() == 32);
