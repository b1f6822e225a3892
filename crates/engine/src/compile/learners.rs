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
        ];
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
            ..Learner::default()
        }
    };
    policy.learners.iter().map(record).collect()
}
