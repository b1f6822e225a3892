//! Policies that find rules and decide nothing: what a compiled lookup tells an evaluator that has
//! an order of its own.
//!
//! In: for each rule the tests of headers that hold wherever it might match, and whether it surely
//! ends the walk there. Out: chains and roots of a [`Policy`] whose last number is that of packets
//! for which nothing ended it.

use crate::model::{
    Chain, ChainId, ChainPolicy, Counters, Family, Flow, Hook, Origin, Policy, Root, Rule, RuleId,
    SourceId, Table, Test, Verdict,
};

/// Nobody wrote these rules.
const NOWHERE: Origin = Origin {
    source: SourceId(0),
    line: 1,
    column: 1,
};

/// A rule that a packet might match.
pub(crate) struct Candidate {
    /// Its identity.
    pub rule: RuleId,
    /// What holds wherever it matches.
    pub tests: Vec<Test>,
    /// No packet for which they hold goes on.
    pub ends: bool,
}

/// A policy without rules, for `count` of them.
pub(crate) fn policy(count: u32) -> Policy {
    Policy {
        rule_count: count + 1,
        short_goes_on: true,
        ..Policy::default()
    }
}

/// Adds the rules for packets of a family at some hooks.
pub(crate) fn add(
    policy: &mut Policy,
    family: Family,
    hooks: &[Hook],
    rules: impl Iterator<Item = Candidate>,
) {
    let chain = ChainId(policy.chains.len() as u32);
    let rules = rules.map(|one| Rule {
        id: one.rule,
        origin: NOWHERE,
        index: one.rule.0,
        tests: one.tests,
        ops: Vec::new(),
        flow: match one.ends {
            true => Flow::Verdict(Verdict::Drop),
            false => Flow::Next,
        },
        preset: Counters::default(),
    });
    policy.chains.push(Chain {
        name: "candidates".to_owned(),
        family,
        table: Table::Filter,
        rules: rules.collect(),
        policy: Some(ChainPolicy {
            id: RuleId(policy.rule_count - 1),
            origin: NOWHERE,
            verdict: Verdict::Accept,
            preset: Counters::default(),
        }),
    });
    policy.roots.extend(hooks.iter().map(|&hook| Root {
        family,
        hook,
        table: Table::Filter,
        chain,
    }));
    policy
        .roots
        .sort_by_key(|root| (root.family, root.hook, root.table));
}
