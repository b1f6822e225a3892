//! `keep state`, `keep frags`: rules that remember, and the look at it in front of each list.
//!
//! A `quick` rule makes its state as its last condition: where none can be made it counts as not
//! matched, but it has counted. A rule without `quick` makes it behind the list, if its proposal
//! still stands there; where none can be made, a pass becomes a block.

use super::Lowering;
use crate::dialect::ipf::ast::{Action, KeepState, Rule};
use crate::model::{
    Cond, Counters, Family, Flow, IpfKeeper, Keeper, Learner, LearnerId, Op, Origin, RuleId,
    SourceId, Test,
};

/// The most states that the table has room for.
pub const STATES_MAX: u32 = 65_536;

/// What of a rule's `keep` cannot be enforced.
pub(super) fn missing(rule: &Rule) -> Vec<&'static str> {
    let mut out = Vec::new();
    let mut note = |there: bool, what| {
        if there {
            out.push(what);
        }
    };
    if rule.keep_state.is_none() && rule.keep_frags.is_none() {
        return out;
    }
    let none = KeepState::default();
    let keep = rule.keep_state.as_ref().unwrap_or(&none);
    note(keep.newisn, "`newisn`");
    note(keep.sync, "`sync`");
    note(keep.rpc.is_some(), "`rpc`");
    let decides = matches!(rule.action, Action::Pass | Action::Block);
    note(!decides, "`keep` of a rule that neither passes nor blocks");
    let head = rule.quick && rule.head.is_some();
    note(head, "`keep` of a head with `quick`");
    out
}

/// A condition that is not negated.
pub(super) fn holds(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

impl Lowering<'_> {
    /// Whether any rule makes states, or some live.
    pub(super) fn learns(&self) -> bool {
        let rules = &self.set.rules;
        let limits = |rule: &Rule| rule.keep_limit.is_some() && self.options.limits_on;
        let keeps =
            |rule: &Rule| rule.keep_state.is_some() || rule.keep_frags.is_some() || limits(rule);
        self.options.states_live || rules.iter().any(keeps)
    }

    /// The learner of a rule, if it keeps anything.
    pub(super) fn learner(&mut self, number: usize) -> Option<LearnerId> {
        let rule = &self.set.rules[number];
        let allocation = self.allocation(rule);
        if rule.keep_state.is_none() && rule.keep_frags.is_none() && allocation.is_none() {
            return None;
        }
        let none = KeepState::default();
        let keep = rule.keep_state.as_ref().unwrap_or(&none);
        let icmp_head = self.icmp_head(keep);
        let id = RuleId(number as u32);
        let known = self.policy.learners.iter().position(|l| l.rule == id);
        let at = known.unwrap_or_else(|| {
            // `log first` is about the packet that makes the state.
            let log = rule.log.filter(|log| !log.first && log.limit.is_none());
            self.policy.learners.push(Learner {
                rule: id,
                verdicts: [Family::V4, Family::V6].map(|family| super::answers::said(rule, family)),
                counts: false,
                log: log.map(|_| super::log_of(rule)),
                keeper: Keeper::Ipf(IpfKeeper {
                    state: rule.keep_state.is_some() || allocation.is_some(),
                    fragments: rule.keep_frags,
                    fragments_anyway: !rule.quick,
                    strict: keep.strict,
                    loose: keep.loose,
                    no_icmp_errors: keep.no_icmp_errors,
                    icmp_head,
                    any_interface: rule.on[0].as_deref() == Some("-"),
                    limit: keep.limit,
                    age: rule.age,
                    max_sources: keep.max_sources,
                    max_per_source: keep.max_per_source,
                    allocation,
                    identity: super::limits::identity(rule),
                }),
            });
            self.policy.learners.len() - 1
        });
        Some(LearnerId(at as u32))
    }

    /// The rule in front of a list: what belongs to a state meets no other.
    pub(super) fn look(&mut self) -> crate::model::Rule {
        crate::model::Rule {
            id: self.hidden(),
            origin: Origin {
                source: SourceId(0),
                line: 1,
                column: 1,
            },
            index: crate::model::Rule::HIDDEN,
            tests: vec![holds(Cond::Learned)],
            ops: Vec::new(),
            flow: Flow::AsLearned,
            preset: Counters::default(),
        }
    }

    /// A `quick` rule that makes a state, and what is left of it where none can be made.
    pub(super) fn learning(
        mut rule: crate::model::Rule,
        learner: LearnerId,
    ) -> [crate::model::Rule; 2] {
        let mut counted = rule.clone();
        (counted.ops, counted.flow) = (Vec::new(), Flow::Next);
        rule.tests.push(holds(Cond::Learn(learner)));
        [rule, counted]
    }

    /// Behind a list: states of rules whose proposal stands.
    pub(super) fn learn_at_the_end(
        &mut self,
        proposing: &[crate::model::Rule],
    ) -> Vec<crate::model::Rule> {
        let mut out = Vec::new();
        for rule in proposing {
            let number = rule.id.0 as usize;
            let Some(learner) = self.learner(number) else {
                continue;
            };
            let passes = self.set.rules[number].action == Action::Pass;
            let mut made = rule.clone();
            made.tests.push(holds(Cond::ProposedBy(rule.id)));
            made.tests.push(Test {
                negate: passes,
                cond: Cond::Learn(learner),
            });
            made.ops = Vec::<Op>::new();
            made.flow = if passes { Flow::Refuse } else { Flow::Next };
            made.id = self.hidden();
            made.index = crate::model::Rule::HIDDEN;
            out.push(made);
        }
        out
    }
}
