//! Rules that count: packets in a second (`pps`), connections at once (HP-UX `keep limit`).
//!
//! A `quick` rule with `pps` leads into a chain of its own, in which its proposal is refused above
//! the rate; behind it the proposal decides, as that of a `quick` head. A rule without `quick` is
//! asked behind the list, if its proposal still stands there. A rule with `keep limit` decides
//! through what it remembers; where that is nothing, for packets without ports, it passes.

use super::Lowering;
use crate::dialect::ipf::ast::{Action, Return, Rule};
use crate::dialect::ipf::{PrintOptions, print_rule};
use crate::eval::ipf::limit::LimitType;
use crate::model::{
    Allocation, Chain, ChainId, Cond, Family, Flow, HistoryId, HistoryKind, HistoryObject,
    LearnerId, Op, RuleId, Table, Test, Verdict,
};

/// The most packets in a second that are counted.
pub(super) const RATE_MAX: u32 = (1 << 20) - 2;

/// A number for a rule that its limit isn't part of (FNV-1a).
pub(super) fn identity(rule: &Rule) -> u32 {
    let mut plain = rule.clone();
    (plain.insert, plain.rule_ttl) = (None, None);
    if let Some(keep) = &mut plain.keep_state {
        (keep.max_sources, keep.max_per_source) = (None, None);
    }
    if let Some(keep) = &mut plain.keep_limit {
        keep.limit = 1;
    }
    let text = print_rule(&plain, &PrintOptions::default());
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

impl Lowering<'_> {
    /// How connections of a rule are limited, if they are.
    pub(super) fn allocation(&self, rule: &Rule) -> Option<Allocation> {
        let keep = rule.keep_limit.filter(|_| self.options.limits_on)?;
        Some(Allocation {
            kind: LimitType::of(rule) as u8,
            limit: keep.limit,
            cumulative: keep.cumulative,
            resets: rule.answer == Some(Return::Rst),
            alerts: rule
                .log
                .and_then(|log| log.limit)
                .map(|every| every.unwrap_or(1)),
            fails_closed: self.options.limit_fails_closed,
        })
    }

    /// A rule with `keep limit`, and what is left of it for packets without ports.
    pub(super) fn limiting(
        mut rule: crate::model::Rule,
        learner: LearnerId,
    ) -> [crate::model::Rule; 2] {
        let mut plain = rule.clone();
        plain.flow = Flow::Verdict(Verdict::Accept);
        rule.tests.push(Test {
            negate: false,
            cond: Cond::Learn(learner),
        });
        // The packet is logged as those are that belong to its state.
        rule.ops.clear();
        rule.flow = Flow::AsLearned;
        [rule, plain]
    }

    /// The memory of a rule's rate, the same for both families.
    fn rate(&mut self, number: usize, most: u32) -> HistoryId {
        if let Some(known) = self.rates.get(&number) {
            return *known;
        }
        self.policy.histories.push(HistoryObject {
            shared: None,
            kind: HistoryKind::PerSecond(most),
        });
        let id = HistoryId(self.policy.histories.len() as u32 - 1);
        self.rates.insert(number, id);
        id
    }

    /// The rule that refuses a proposal above its rate.
    fn over(&mut self, number: usize, most: u32, tests: Vec<Test>) -> crate::model::Rule {
        let rate = self.rate(number, most);
        let mut made = self.look();
        made.tests = tests;
        made.tests.push(Test {
            negate: false,
            cond: Cond::ProposedBy(RuleId(number as u32)),
        });
        made.tests.push(Test {
            negate: true,
            cond: Cond::History(rate),
        });
        made.flow = Flow::Refuse;
        made
    }

    /// What a `quick` rule leads into, if its rate or its log are asked for behind its group: the
    /// group, if it is a head, and these.
    pub(super) fn rated(
        &mut self,
        (family, table): (Family, Table),
        number: usize,
        group: Option<ChainId>,
    ) -> Option<ChainId> {
        let rule = &self.set.rules[number];
        let decides =
            rule.quick && matches!(rule.action, Action::Pass | Action::Block | Action::Nomatch);
        let most = rule.pps.filter(|_| decides);
        let log = rule.log.filter(|_| super::log_counts(rule));
        let logs = decides && group.is_some() && log.is_some_and(|log| log.limit.is_none());
        if most.is_none() && !logs {
            return group;
        }
        let mut rules = Vec::new();
        if let Some(group) = group {
            let mut lead = self.look();
            (lead.tests, lead.flow) = (Vec::new(), Flow::Jump(group));
            rules.push(lead);
        }
        if let Some(most) = most {
            rules.push(self.over(number, most, Vec::new()));
        }
        if logs {
            let mut made = self.look();
            made.tests = vec![Test {
                negate: false,
                cond: Cond::ProposedBy(RuleId(number as u32)),
            }];
            (made.ops, made.flow) = (vec![Op::Log(super::log_of(rule))], Flow::Next);
            rules.push(made);
        }
        self.policy.chains.push(Chain {
            name: format!("behind rule {number}"),
            family,
            table,
            rules,
            policy: None,
        });
        Some(ChainId(self.policy.chains.len() as u32 - 1))
    }

    /// Behind a list: proposals of rules without `quick` that are above their rate.
    pub(super) fn rates_at_the_end(
        &mut self,
        proposing: &[crate::model::Rule],
    ) -> Vec<crate::model::Rule> {
        let mut out = Vec::new();
        for rule in proposing {
            let number = rule.id.0 as usize;
            let of = &self.set.rules[number];
            if let Some(most) = of.pps.filter(|_| !of.quick) {
                out.push(self.over(number, most, rule.tests.clone()));
            }
        }
        out
    }
}
