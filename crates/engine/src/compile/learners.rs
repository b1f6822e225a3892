//! Learners of a policy as the image has them.

use super::flatten::verdict_numbers;
use crate::image::layout::{self, Learner};
use weir_policy::model::{Family, Keeper, Policy};

/// The parameters of each learner.
pub fn records(policy: &Policy) -> Vec<Learner> {
    let record = |learner: &weir_policy::model::Learner| {
        let Keeper::Ipf(keeper) = &learner.keeper else {
            // In the directory of ipfw's.
            return Learner::default();
        };
        let [v4, v6] = [Family::V4, Family::V6].map(|f| verdict_numbers(learner.verdict(f)));
        let allocation = keeper.allocation;
        let limits = allocation.unwrap_or_default();
        let flags = [
            (keeper.strict, layout::LEARN_STRICT),
            (keeper.loose, layout::LEARN_LOOSE),
            (keeper.no_icmp_errors, layout::LEARN_NO_ICMP_ERRORS),
            (keeper.any_interface, layout::LEARN_ANY_INTERFACE),
            (learner.log.is_some(), layout::LEARN_LOG),
            (learner.counts, layout::LEARN_COUNT),
            (keeper.state, layout::LEARN_STATE),
            (keeper.fragments.is_some(), layout::LEARN_FRAGMENTS),
            (
                keeper.fragments == Some(true),
                layout::LEARN_FRAGMENTS_STRICT,
            ),
            (keeper.fragments_anyway, layout::LEARN_FRAGMENTS_ANYWAY),
            (allocation.is_some(), layout::LEARN_LIMITED),
            (limits.cumulative, layout::LEARN_CUMULATIVE),
            (limits.resets, layout::LEARN_RESETS),
            (limits.fails_closed, layout::LEARN_FAILS_CLOSED),
            (
                learner.log.as_ref().is_some_and(|log| log.or_block),
                layout::LEARN_OR_BLOCK,
            ),
            (
                keeper.max_sources.is_some() || keeper.max_per_source.is_some(),
                layout::LEARN_SOURCES,
            ),
        ];
        let per_source = keeper.max_per_source;
        let prefix = |width: u8| {
            let length = per_source.and_then(|(_, length)| length);
            length.unwrap_or(width).min(width)
        };
        let set = flags.iter().filter(|(there, _)| *there);
        Learner {
            rule: learner.rule.0,
            flags: set.fold(0, |all, (_, bit)| all | bit),
            limit: keeper.limit.unwrap_or(u32::MAX),
            states_max: policy.states_max,
            age: keeper
                .age
                .map_or([u32::MAX; 2], |(forward, reverse)| [forward, reverse]),
            reject: [v4.1, v6.1],
            verdict: [v4.0, v6.0],
            source_prefix: [prefix(32), prefix(128)],
            sources: [
                keeper.max_sources.unwrap_or(u32::MAX),
                per_source.map_or(u32::MAX, |(most, _)| most),
            ],
            identity: keeper.identity,
            connections: limits.limit,
            alerts: limits.alerts.unwrap_or(0),
            kind: limits.kind.into(),
            icmp_head: keeper.icmp_head.unwrap_or(0).into(),
            ..Learner::default()
        }
    };
    policy.learners.iter().map(record).collect()
}
