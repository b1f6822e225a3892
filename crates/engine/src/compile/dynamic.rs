//! ipfw's states as the image has them: settings, and the rules that note flows, by identity.

use super::flatten::verdict_numbers;
use crate::image::layout::{self, DynamicRule};
use weir_policy::model::{Family, Keeper, Policy};
use zerocopy::IntoBytes;

/// What all tests of ipfw's states refer to.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// [`layout::Dynamic`] and its rules.
    pub bytes: Vec<u8>,
    /// The place of each learner among the rules.
    pub places: Vec<u32>,
}

/// The directory of a policy; empty where no rule notes flows as ipfw does.
pub fn directory(policy: &Policy) -> Directory {
    let Some(dynamic) = &policy.dynamic else {
        return Directory::default();
    };
    let mut rules: Vec<(DynamicRule, Option<usize>)> = Vec::new();
    for (number, learner) in policy.learners.iter().enumerate() {
        let Keeper::Ipfw(keeper) = &learner.keeper else {
            continue;
        };
        let [v4, v6] = [Family::V4, Family::V6].map(|f| verdict_numbers(learner.verdict(f)));
        let limit = keeper
            .limit
            .map(|(mask, most)| (mask, most.min(u32::MAX - 1)));
        let (mask, limit) = limit.unwrap_or((0, u32::MAX));
        let rule = DynamicRule {
            identity: keeper.identity,
            rule: learner.rule.0,
            flags: 0,
            name: keeper.name,
            limit,
            reject: [v4.1, v6.1],
            verdict: [v4.0, v6.0],
            mask,
            padding: 0,
        };
        rules.push((rule, Some(number)));
    }
    rules.extend(dynamic.off.iter().map(|identity| {
        let rule = DynamicRule {
            identity: *identity,
            flags: layout::DYNAMIC_OFF,
            limit: u32::MAX,
            verdict: [2, 2],
            ..DynamicRule::default()
        };
        (rule, None)
    }));
    rules.sort_by_key(|(rule, _)| rule.identity);
    let head = layout::Dynamic {
        tcp: dynamic.tcp,
        udp: dynamic.udp,
        short: dynamic.short,
        states_max: policy.states_max,
        parents_max: dynamic.parents_max,
        count: rules.len() as u32,
        icmp_errors: u32::from(dynamic.icmp_errors),
        ..layout::Dynamic::default()
    };
    let mut out = Directory {
        bytes: head.as_bytes().to_vec(),
        places: vec![0; policy.learners.len()],
    };
    for (place, (rule, learner)) in rules.iter().enumerate() {
        out.bytes.extend_from_slice(rule.as_bytes());
        if let Some(learner) = learner {
            out.places[*learner] = place as u32;
        }
    }
    out
}
