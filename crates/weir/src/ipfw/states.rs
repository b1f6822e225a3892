//! States of enforced rules, as `ipfw -d list` shows them.
//!
//! In: the kernel's table, the rules that are enforced. Out: lines of listings. Rules and names are
//! numbers in the kernel; those of rules that are gone are not listed.

use crate::kernel::{Kernel, plane_error};
use weir_plane::dynamic::{DynamicState, Kind};
use weir_policy::dialect::ipfw::Ruleset;
use weir_policy::dialect::ipfw::lower::{state_names, state_rules};
use weir_policy::dialect::ipfw::print::listing::StateLine;

/// The lines, by rule number, oldest first.
pub fn lines(kernel: &Kernel, ruleset: &Ruleset) -> anyhow::Result<Vec<StateLine>> {
    let states = kernel.plane.dynamic_states().map_err(plane_error)?;
    if states.is_empty() {
        return Ok(Vec::new());
    }
    let (rules, names) = (state_rules(ruleset), state_names(ruleset));
    let line = |state: &DynamicState| {
        let one = ruleset.rule(*rules.get(&state.identity)?)?;
        Some(StateLine {
            rule: one.rule.number,
            set: one.rule.set,
            packets: state.counts.0,
            bytes: state.counts.1,
            seconds: state.left_ms.div_ceil(1000),
            kind: match state.kind {
                Kind::State => "STATE".to_owned(),
                Kind::Limited => "LIMIT".to_owned(),
                Kind::Counter(count) => format!("PARENT {count}"),
            },
            proto: state.proto,
            family: state.family,
            src: state.source,
            dst: state.destination,
            flow: names.get(&state.name).cloned().unwrap_or_default(),
        })
    };
    let mut out: Vec<StateLine> = states.iter().filter_map(line).collect();
    out.sort_by_key(|line| line.rule);
    Ok(out)
}

/// Forgets the states of rules that are not there any more.
pub fn forget_gone(kernel: &Kernel, ruleset: Option<&Ruleset>) -> anyhow::Result<()> {
    let rules = ruleset.map(state_rules).unwrap_or_default();
    let keep = |identity| rules.contains_key(&identity);
    kernel.plane.forget_states(&keep).map_err(plane_error)
}
