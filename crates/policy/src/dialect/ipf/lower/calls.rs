//! `call now srcgrpmap/N` and `dstgrpmap/N`: the group that a map gives an address.
//!
//! In: a rule that calls. Out: a rule for each group of the map, with the addresses that the map
//! gives to it (the longest prefix decides), which leads into that group; and one for all others,
//! which goes on. They are disjoint and share the counter.

use super::Lowering;
use crate::dialect::ipf::ast::{Action, Direction, Name, Rule};
use crate::dialect::ipf::load::Unit;
use crate::model::{AddrMatch, Cond, Family, Flow, RangeSet, Table, Test};

/// What of a rule that calls can't be enforced.
pub(super) fn missing(rule: &Rule) -> Option<&'static str> {
    match (&rule.group, &rule.head) {
        (Some(_), _) => Some("`call` in a group"),
        (None, Some(_)) => Some("`call` of a head"),
        (None, None) if rule.keep_state.is_some() || rule.keep_frags.is_some() => {
            Some("`call` with `keep`")
        }
        (None, None) if rule.pps.is_some() => Some("`call` with `pps`"),
        (None, None) => None,
    }
}

impl Lowering<'_> {
    /// Tests and flows of the rules that one becomes.
    pub(super) fn called(
        &mut self,
        (family, unit, table): (Family, Unit, Table),
        number: usize,
        tests: Vec<Test>,
    ) -> Vec<(Vec<Test>, Flow)> {
        let (set, tables) = (self.set, self.tables);
        let rule = &set.rules[number];
        let Action::Call {
            function, argument, ..
        } = &rule.action
        else {
            return Vec::new();
        };
        let out = rule.direction == Direction::Out;
        let address: fn(AddrMatch) -> Cond = match &**function {
            "srcgrpmap" => Cond::Src,
            _ => Cond::Dst,
        };
        let with = |negate: bool, addresses: RangeSet<u128>| {
            let cond = address(AddrMatch::Ranges(addresses));
            let own = Test { negate, cond };
            tests.iter().cloned().chain([own]).collect::<Vec<Test>>()
        };
        let mut rest = RangeSet::default();
        let mut made = Vec::new();
        let groups: Vec<(Name, RangeSet<u128>)> = tables.mapped(out, *argument, family);
        for (group, addresses) in groups {
            if set.group(unit, &group).is_none() {
                continue;
            }
            rest = rest.union(&addresses);
            let chain = self.group(family, unit, table, &group);
            made.push((with(false, addresses), Flow::Jump(chain)));
        }
        let others = match made.is_empty() {
            true => tests.clone(),
            false => with(true, rest),
        };
        made.push((others, Flow::Next));
        made
    }
}
