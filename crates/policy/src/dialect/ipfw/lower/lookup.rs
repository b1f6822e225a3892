//! `lookup` and `flow`: fields of a packet in a table.
//!
//! In: the pattern, its table. Out: a [`Formula`] with one alternative for what the table holds.

use super::formula::{Formula, any, constant, is, is_not, strict};
use super::literal::{Asked, Refused, Scope, ports, refused};
use super::tables::{View, view};
use crate::dialect::ipfw::Key;
use crate::dialect::ipfw::ast::{LookupKey, Pattern};
use crate::eval::ipfw::Pass;
use crate::model::{AddrMatch, Cond, Family, Owner, OwnerRange, RangeSet};

impl Scope<'_> {
    fn held(&self, asked: &Asked<'_>) -> View {
        match (asked.view, asked.pattern) {
            (Some(view), _) => view.clone(),
            (None, Pattern::Lookup { table, .. }) => view(self.set.table(table), None),
            (None, Pattern::Flow { table, value }) => view(self.set.table(table), value.as_ref()),
            _ => View::default(),
        }
    }

    /// Some field in a table.
    pub fn lookup(&self, asked: &Asked<'_>, rule: u32) -> Result<Formula, Refused> {
        let Pattern::Lookup { key, mask, .. } = asked.pattern else {
            return Ok(constant(asked.negate));
        };
        let negate = asked.negate;
        let held = self.held(asked);
        let masked = |value: u32| mask.map_or(value, |mask| value & mask as u32);
        let has = |value: u32| held.numbers.contains(&masked(value));
        Ok(match key {
            LookupKey::SrcIp | LookupKey::DstIp if mask.is_some() => {
                return refused(
                    "a mask on a looked up address",
                    "put the masked networks in",
                );
            }
            LookupKey::SrcIp | LookupKey::DstIp => {
                let set = match self.family {
                    Family::V4 => held.v4,
                    Family::V6 => held.v6,
                };
                let values = AddrMatch::Ranges(set.clone());
                match (set.is_empty(), key) {
                    (true, _) => constant(negate),
                    (false, LookupKey::SrcIp) => strict(Cond::Src(values), negate),
                    (false, _) => strict(Cond::Dst(values), negate),
                }
            }
            LookupKey::SrcPort | LookupKey::DstPort => {
                let inside = (0..=u16::MAX).filter(|port| has(u32::from(*port)));
                let set = RangeSet::from_ranges(inside.map(|port| (port, port)));
                ports(*key == LookupKey::SrcPort, set, negate)
            }
            LookupKey::Dscp => numbered((0..64).filter(|code| has(*code)), negate, &|code| {
                Cond::Dscp(code as u8)
            }),
            LookupKey::Mark => {
                let mask = mask.map_or(u32::MAX, |mask| mask as u32);
                let possible = held
                    .numbers
                    .iter()
                    .copied()
                    .filter(|value| value & !mask == 0);
                numbered(possible, negate, &|value| Cond::Mark { value, mask })
            }
            LookupKey::RuleNumber => constant(has(rule) != negate),
            LookupKey::Uid if mask.is_some() || self.pass == Pass::In => {
                let help = "the receiving socket isn't known yet: add `out` to the rule, no mask";
                return refused("`lookup uid` of received packets", help);
            }
            LookupKey::Uid => numbered(held.numbers.iter().copied(), negate, &|id| {
                let range = OwnerRange {
                    first: id,
                    last: id,
                };
                Cond::Owner(Owner::Uid(range))
            }),
            LookupKey::DstMac => self.mac_among(false, held.macs, negate),
            LookupKey::SrcMac => self.mac_among(true, held.macs, negate),
            // Nothing is in a jail.
            LookupKey::Jail => constant(negate),
        })
    }

    /// The flow in a table of type flow.
    pub fn flow(&self, asked: &Asked<'_>) -> Result<Formula, Refused> {
        if asked.negate {
            return refused("`not flow`", "deny the others in a rule before");
        }
        let mut out = Formula::new();
        for key in self.held(asked).flows {
            let Key::Flow {
                six,
                src,
                proto,
                src_port,
                dst,
                dst_port,
            } = key
            else {
                continue;
            };
            let fields = match asked.pattern {
                Pattern::Flow { table, .. } => self.set.table(table).map(|table| table.kind),
                _ => None,
            };
            let Some(crate::dialect::ipfw::command::TableType::Flow(fields)) = fields else {
                continue;
            };
            let has = |bit: u8| fields & bit != 0;
            let with_addresses = has(1) || has(8);
            if with_addresses && six != (self.family == Family::V6) {
                continue;
            }
            if has(4) && src_port == 0 || has(16) && dst_port == 0 {
                let help = "packets without ports have port 0 there: write a rule for them";
                return refused("port 0 in a table of flows", help);
            }
            let mut tests = Vec::new();
            let address = |value| AddrMatch::Ranges(RangeSet::one(value));
            if has(1) {
                tests.push(is(Cond::Src(address(src))));
            }
            if has(8) {
                tests.push(is(Cond::Dst(address(dst))));
            }
            if has(2) {
                tests.push(is(Cond::Proto(RangeSet::one(proto))));
            }
            if has(4) {
                tests.extend(ports(true, RangeSet::one(src_port), false).remove(0));
            }
            if has(16) {
                tests.extend(ports(false, RangeSet::one(dst_port), false).remove(0));
            }
            out.push(tests);
        }
        Ok(out)
    }
}

fn numbered(
    numbers: impl Iterator<Item = u32>,
    negate: bool,
    cond: &dyn Fn(u32) -> Cond,
) -> Formula {
    let conds: Vec<Cond> = numbers.map(cond).collect();
    match (conds.is_empty(), negate) {
        (true, _) => constant(negate),
        (false, false) => vec![any(conds.into_iter().map(is).collect())],
        (false, true) => vec![conds.into_iter().map(is_not).collect()],
    }
}
