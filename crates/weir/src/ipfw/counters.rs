//! Counters of ipfw's rules, in ipfw's numbers.
//!
//! In: the rule set, its policy, counters by identity. Out: one line a rule in the order of the
//! list, both families and passes together, as ipfw counts them. Rules of sets that are off are
//! listed with what they counted before.

use crate::rules::CounterLine;
use weir_policy::dialect::ipfw::Ruleset;
use weir_policy::model::{Counters, Policy};
use weir_policy::syntax::Sources;

/// The name of the only list.
pub const CHAIN: &str = "ipfw";

/// The lines.
pub fn lines(
    ruleset: &Ruleset,
    sources: &Sources,
    policy: &Policy,
    counters: &[Counters],
) -> Vec<CounterLine> {
    let line = |one: &weir_policy::dialect::ipfw::LoadedRule| {
        let count = counters.get(one.id.0 as usize).copied().unwrap_or_default();
        let span = one.rule.place.0;
        let position = sources.position(span);
        let file = policy.sources.get(usize::from(span.source.0));
        CounterLine {
            family: "both",
            table: "filter",
            chain: CHAIN.to_owned(),
            index: one.rule.number,
            line: position.map_or(1, |position| position.line),
            packets: count.packets,
            bytes: count.bytes,
            file: file.cloned().unwrap_or_default(),
        }
    };
    ruleset.rules.iter().map(line).collect()
}
