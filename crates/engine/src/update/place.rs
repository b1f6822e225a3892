//! A position for a rule between others.

use super::{NONE, Place};
use crate::compile::room::Slot;
use crate::compile::service::Services;
use crate::compile::term::{Term, address_last};
use std::ops::RangeInclusive;
use weir_policy::model::{Family, RuleId};

/// Positions looked at on each side.
const SCAN: u32 = 64;

/// Whether some packet is in a term of both.
fn meet(a: &[Term], b: &[Term], services: &Services, family: Family) -> bool {
    let top = address_last(family);
    let both = |a: &Term, b: &Term| {
        (0..2).all(|side| a.address[side].and(&b.address[side], top).is_some())
            && (0..2).all(|side| a.port[side].and(&b.port[side], u16::MAX).is_some())
            && (a.service == b.service
                || services
                    .get(a.service)
                    .and(services.get(b.service))
                    .is_some())
    };
    a.iter().any(|a| b.iter().any(|b| both(a, b)))
}

impl Place {
    pub(super) fn meets(&self, terms: &[Term], others: &[Term]) -> bool {
        meet(terms, others, &self.root.services, self.root.family)
    }

    /// Where a rule can stand that comes in front of number `index`, and whether that is behind
    /// rules that come later, or in front of earlier ones.
    pub(super) fn find(
        &self,
        order: &[RuleId],
        index: usize,
        terms: &[Term],
    ) -> Option<(u32, bool)> {
        let last = self.root.slots.len() as u32 - 1;
        // The next rule that is where the order has it.
        let own = |id: &RuleId| {
            let at = self.at[id.0 as usize];
            (at != NONE && !self.displaced.contains_key(&at)).then_some(at)
        };
        let anchor = order.get(index..)?.iter().find_map(own).unwrap_or(last);
        let found = self.backward(anchor, terms).map(|(from, to, passed)| {
            // Of a run of free positions the one that leaves most to those that come next.
            let position = match (index, index == order.len()) {
                (0, _) => to,
                (_, true) => from,
                _ => from + (to - from).div_ceil(2),
            };
            (position, passed)
        });
        let found = found.or_else(|| Some((self.forward(anchor, last, terms)?, true)));
        let (position, displaced) = found?;
        let near = position.min(anchor)..=position.max(anchor);
        let clear = self.passed_by_none(near, terms);
        clear.then_some((position, displaced))
    }

    /// Whether no rule that is elsewhere than the order has it, near these positions, shares
    /// packets with terms.
    pub(super) fn passed_by_none(&self, near: RangeInclusive<u32>, terms: &[Term]) -> bool {
        let clear = |(at, _): (&u32, &RuleId)| match &self.root.slots[*at as usize] {
            Slot::Plain(others) | Slot::Covered(others, _) => !self.meets(terms, others),
            _ => false,
        };
        let low = near.start().saturating_sub(2 * SCAN);
        let mut all = self.displaced.range(low..=near.end() + 2 * SCAN);
        all.all(clear)
    }

    /// The nearest run of free positions in front of one, and whether rules lie between.
    fn backward(&self, anchor: u32, terms: &[Term]) -> Option<(u32, u32, bool)> {
        let mut passed = false;
        let mut run: Option<(u32, u32)> = None;
        for at in (anchor.saturating_sub(SCAN)..anchor).rev() {
            // Who goes on behind this one would leave out what stands here.
            let slot = match self.root.landed[at as usize + 1] {
                true => return run.map(|(from, to)| (from, to, passed)),
                false => &self.root.slots[at as usize],
            };
            match slot {
                Slot::Free => run = Some((at, run.map_or(at, |(_, to)| to))),
                _ if run.is_some() => break,
                Slot::Leaving => {}
                Slot::Plain(others) | Slot::Covered(others, _) if !self.meets(terms, others) => {
                    passed = true;
                }
                _ => return None,
            }
        }
        run.map(|(from, to)| (from, to, passed))
    }

    /// The nearest free position behind one.
    fn forward(&self, anchor: u32, last: u32, terms: &[Term]) -> Option<u32> {
        for at in anchor..last.min(anchor + SCAN) {
            // Who goes on here would meet what stands behind.
            if at > anchor && self.root.landed[at as usize] {
                return None;
            }
            match &self.root.slots[at as usize] {
                Slot::Free => return Some(at),
                Slot::Leaving => {}
                Slot::Plain(others) | Slot::Covered(others, _) if !self.meets(terms, others) => {}
                _ => return None,
            }
        }
        None
    }
}
