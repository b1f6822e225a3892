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

    /// The position of the first rule from number `index` on that is where the order has it, or of
    /// the chain policy. `None`: there are not so many rules.
    pub(super) fn anchor(&self, order: &[RuleId], index: usize) -> Option<u32> {
        let own = |id: &RuleId| {
            let at = self.at[id.0 as usize];
            (at != NONE && !self.displaced.contains_key(&at)).then_some(at)
        };
        let found = order.get(index..)?.iter().find_map(own);
        Some(found.unwrap_or(self.root.slots.len() as u32 - 1))
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
        let anchor = self.anchor(order, index)?;
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
        let clear = self.keeps_order(order, (index, position), near, terms);
        clear.then_some((position, displaced))
    }

    /// Whether a rule with these terms can come in front of number `index` at a position: those
    /// near that share packets with it, and are elsewhere than the order has them, are on the right
    /// side.
    pub(super) fn keeps_order(
        &self,
        order: &[RuleId],
        (index, position): (usize, u32),
        near: RangeInclusive<u32>,
        terms: &[Term],
    ) -> bool {
        let is_right = |(at, id): (u32, RuleId)| order[..index].contains(&id) == (at < position);
        self.displaced_near(near, terms).all(is_right)
    }

    /// Rules near these positions that share packets with terms, and are elsewhere than the order
    /// has them.
    pub(super) fn displaced_near(
        &self,
        near: RangeInclusive<u32>,
        terms: &[Term],
    ) -> impl Iterator<Item = (u32, RuleId)> {
        let shares = |at: u32| match &self.root.slots[at as usize] {
            Slot::Plain(others) | Slot::Covered(others, _) => self.meets(terms, others),
            _ => true,
        };
        let low = near.start().saturating_sub(2 * SCAN);
        let all = self.displaced.range(low..=near.end() + 2 * SCAN);
        all.map(|(at, id)| (*at, *id))
            .filter(move |(at, _)| shares(*at))
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
