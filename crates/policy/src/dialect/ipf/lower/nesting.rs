//! How deep groups lead into each other. In: rules, and a group. Out: the depth below it, which the
//! original has a limit for.

use crate::dialect::ipf::ast::Name;
use crate::dialect::ipf::load::{RuleSet, Unit};
use std::collections::BTreeMap;

/// Nesting of groups.
pub(super) const DEPTH_MAX: usize = 16;

/// How many groups lead into each other from here on; more than [`DEPTH_MAX`] for a circle. What
/// was found is kept in `known`, where 0 is a group that is being looked at.
pub(super) fn of(set: &RuleSet, unit: Unit, group: &Name, known: &mut Known) -> usize {
    let key = (unit, group.clone());
    match known.get(&key) {
        Some(0) => return DEPTH_MAX + 1,
        Some(depth) => return *depth,
        None => known.insert(key.clone(), 0),
    };
    let members = set.group(unit, group).map_or(&[][..], Vec::as_slice);
    let heads = members
        .iter()
        .filter_map(|&number| set.rules[number].head.as_ref());
    let mut below = 0;
    for head in heads {
        below = below.max(of(set, unit, head, known));
    }
    let depth = (below + 1).min(DEPTH_MAX + 1);
    known.insert(key, depth);
    depth
}

/// What was found.
pub(super) type Known = BTreeMap<(Unit, Name), usize>;
