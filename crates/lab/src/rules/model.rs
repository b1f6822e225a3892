//! Turns a rule set into weir's rule model, for measuring compiler and images without text.
//!
//! In: a [`RuleSet`]. Out: a policy with one chain on INPUT that says the same as the text of
//! [`super::iptables`]: rules in order, the last rule behind them.

use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, CtState, Flow, Hook, Origin, Policy,
    RangeSet, Root, Rule as ModelRule, RuleId, SourceId, StateMask, Table, Test, Verdict,
};

use super::{Addresses, Last, Rule, RuleSet};
use crate::space::Family;

/// SYN out of FIN, SYN, RST and ACK: what `--syn` looks at.
const SYN: u8 = 2;
const SYN_MASK: u8 = 1 | 2 | 4 | 16;

/// The policy.
pub fn policy(set: &RuleSet) -> Policy {
    let family = match set.family {
        Family::V4 => weir_policy::model::Family::V4,
        Family::V6 => weir_policy::model::Family::V6,
    };
    let state = |mask: u8| test(Cond::State(StateMask(mask)));
    let new = set.stateful.then(|| state(CtState::New as u8));
    let known = CtState::Established as u8 | CtState::Related as u8;
    let mut bodies = Vec::with_capacity(set.rules.len() + 2);
    if set.stateful {
        bodies.push((vec![state(known)], Verdict::Accept));
    }
    for rule in &set.rules {
        let mut tests = tests(rule, set.family);
        tests.extend(new.clone());
        bodies.push((tests, Verdict::Drop));
    }
    let last = match set.last {
        Last::Accept => Verdict::Accept,
        Last::Drop => Verdict::Drop,
    };
    bodies.push((Vec::new(), last));
    let rules: Vec<_> = bodies
        .into_iter()
        .zip(0..)
        .map(|((tests, verdict), number)| rule(tests, verdict, number))
        .collect();
    let policy_id = RuleId(rules.len() as u32);
    let chain = Chain {
        name: "INPUT".to_owned(),
        family,
        table: Table::Filter,
        rules,
        policy: Some(ChainPolicy {
            id: policy_id,
            origin: origin(0),
            verdict: Verdict::Accept,
            preset: Counters::default(),
        }),
    };
    Policy {
        sources: vec!["generated".to_owned()],
        chains: vec![chain],
        roots: vec![Root {
            family,
            hook: Hook::Input,
            table: Table::Filter,
            chain: ChainId(0),
        }],
        rule_count: policy_id.0 + 1,
        ..Policy::default()
    }
}

fn rule(tests: Vec<Test>, verdict: Verdict, number: u32) -> ModelRule {
    ModelRule {
        id: RuleId(number),
        origin: origin(number),
        index: number + 1,
        tests,
        ops: Vec::new(),
        flow: Flow::Verdict(verdict),
        preset: Counters::default(),
    }
}

fn origin(number: u32) -> Origin {
    Origin {
        source: SourceId(0),
        line: number + 1,
        column: 1,
    }
}

fn test(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

fn tests(rule: &Rule, family: Family) -> Vec<Test> {
    let addresses = |addresses: Addresses| match addresses {
        Addresses::Any => None,
        Addresses::Prefix(prefix) if prefix.length == 0 => None,
        Addresses::Prefix(prefix) => Some((prefix.base, prefix.last(family))),
        Addresses::Range(first, last) => Some((first, last)),
    };
    let range = |(first, last)| AddrMatch::Ranges(RangeSet::range(first, last));
    let ports = |ports: super::Ports| RangeSet::range(ports.first, ports.last);
    let conditions = [
        addresses(rule.source).map(|ends| Cond::Src(range(ends))),
        addresses(rule.destination).map(|ends| Cond::Dst(range(ends))),
        rule.protocol
            .map(|one| Cond::Proto(RangeSet::one(one.number()))),
        rule.source_ports.map(|one| Cond::SrcPort(ports(one))),
        rule.destination_ports.map(|one| Cond::DstPort(ports(one))),
        rule.syn.then_some(Cond::TcpFlags {
            mask: SYN_MASK,
            value: SYN,
        }),
    ];
    conditions.into_iter().flatten().map(test).collect()
}
