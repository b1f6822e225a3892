//! Tags as bits of the packet mark.
//!
//! In: the enabled rules of a rule set. Out: a bit for each tag that some rule sets, from the top
//! of the mark down, or nothing where marks are used too or the tags are too many. A tag is what a
//! packet carries from pass to pass inside the host; so is the mark.

use super::formula::{Formula, any, constant, is};
use super::tables::views;
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{
    Action, Address, Argument, InterfaceName, LookupKey, Pattern, Ranges, Rule, ValueType,
};
use crate::model::{Cond, Op};
use std::collections::BTreeSet;

/// Tags that have room; the rest of the mark is left to others.
const TAGS_MAX: usize = 16;

/// Which bit each tag has.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    numbers: Vec<u32>,
    /// Why there are none.
    pub trouble: Option<&'static str>,
}

/// The table that a pattern looks into.
pub(super) fn table_of(pattern: &Pattern) -> Option<&str> {
    match pattern {
        Pattern::Src(Address::Table { name, .. })
        | Pattern::Dst(Address::Table { name, .. })
        | Pattern::Interface(_, InterfaceName::Table(name)) => Some(name),
        Pattern::SrcMac(name, _) | Pattern::DstMac(name, _) => Some(name),
        Pattern::Lookup { table, .. } | Pattern::Flow { table, .. } => Some(table),
        _ => None,
    }
}

fn uses_marks(rule: &Rule) -> bool {
    let asks = |pattern: &Pattern| {
        let looks = matches!(
            pattern,
            Pattern::Lookup {
                key: LookupKey::Mark,
                ..
            }
        );
        looks || matches!(pattern, Pattern::Mark { .. })
    };
    matches!(rule.action, Action::SetMark(_)) || rule.body.iter().any(|one| asks(&one.pattern))
}

impl Tags {
    /// The tags of a rule set.
    pub fn of(set: &Ruleset) -> Self {
        let enabled = || set.rules.iter().filter(|one| set.is_enabled(one.rule.set));
        let mut numbers = BTreeSet::new();
        for one in enabled() {
            let Some(tag) = one.rule.tag.filter(|tag| !tag.remove) else {
                continue;
            };
            match tag.tag {
                Argument::Number(number) => {
                    numbers.insert(number);
                }
                Argument::TableArg => {
                    // What the rule sets for packets of its states.
                    numbers.extend(one.rule.state.is_some().then_some(0));
                    let tables = one
                        .rule
                        .body
                        .iter()
                        .filter_map(|one| table_of(&one.pattern));
                    for table in tables.filter_map(|name| set.table(name)) {
                        let values = views(table, None, &[ValueType::Tag]);
                        numbers.extend(values.iter().map(|(values, _)| values[0] as u32));
                    }
                }
            }
        }
        let mut out = Self::default();
        if numbers.len() > TAGS_MAX {
            out.trouble = Some("more than 16 tags");
        } else if !numbers.is_empty() && enabled().any(|one| uses_marks(&one.rule)) {
            out.trouble = Some("tags beside marks");
        } else {
            out.numbers = numbers.into_iter().collect();
        }
        out
    }

    fn bit(&self, tag: u32) -> Option<u32> {
        let at = self.numbers.iter().position(|number| *number == tag)?;
        Some(1 << (31 - at))
    }

    /// One of these tags is there.
    pub fn tagged(&self, list: &Ranges, negate: bool) -> Formula {
        let wanted = |tag: &&u32| {
            u16::try_from(**tag)
                .is_ok_and(|tag| list.iter().any(|range| (range.0..=range.1).contains(&tag)))
        };
        let bits: Vec<u32> = self
            .numbers
            .iter()
            .filter(wanted)
            .filter_map(|tag| self.bit(*tag))
            .collect();
        if bits.is_empty() {
            return constant(negate);
        }
        if negate {
            let mask = bits.iter().fold(0, |all, bit| all | bit);
            return vec![vec![is(Cond::Mark { value: 0, mask })]];
        }
        let one = |bit| {
            is(Cond::Mark {
                value: bit,
                mask: bit,
            })
        };
        vec![any(bits.into_iter().map(one).collect())]
    }

    /// Sets a tag or takes it away.
    pub fn change(&self, tag: u32, remove: bool) -> Option<Op> {
        let mask = self.bit(tag)?;
        let value = if remove { 0 } else { mask };
        Some(Op::SetMark { value, mask })
    }

    /// The tags that a mark stands for.
    pub fn in_mark(&self, mark: u32) -> Vec<u32> {
        let there = |tag: &u32| self.bit(*tag).is_some_and(|bit| mark & bit != 0);
        self.numbers.iter().copied().filter(there).collect()
    }
}
