//! Rules taken out of an image in use, and replaced.

use super::{Live, NONE, Rebuild, Store};
use crate::compile::room::Slot;
use crate::compile::term::Term;
use weir_policy::model::{ChainId, Flow, Rule, RuleId};

/// Rules without terms that get them when the one that covers them goes.
const UNCOVERED_MAX: usize = 512;
const MANY: Rebuild = Rebuild("the rule covers many others");

impl Live {
    /// Whether the rule that is number `index` of a chain can be taken out in place.
    fn may_delete(&self, chain: ChainId, index: usize) -> Result<(usize, RuleId), Rebuild> {
        let list = self.list(chain)?;
        let id = self.lists[list].order.get(index);
        let id = *id.ok_or(Rebuild("there is no such rule"))?;
        for number in &self.lists[list].roots {
            let place = &self.places[*number];
            let position = place.at[id.0 as usize];
            if position == NONE {
                continue;
            }
            if place.covered(position).len() > UNCOVERED_MAX {
                return Err(MANY);
            }
            match &place.root.slots[position as usize] {
                Slot::Plain(_) | Slot::Covered(..) => {}
                _ => {
                    return Err(Rebuild(
                        "the rule takes more than one entry, or leads elsewhere",
                    ));
                }
            }
        }
        Ok((list, id))
    }

    /// Takes out the rule that is number `index` (from 0) of a chain.
    pub fn delete(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
    ) -> Result<RuleId, Rebuild> {
        self.settle(store);
        self.may_delete(chain, index)?;
        // From the second time on, rules that it covers may be there in some roots: others came.
        let mut again = false;
        self.with_room(store, |live, store| {
            let others_came = std::mem::replace(&mut again, true);
            live.delete_as(store, chain, index, others_came)
        })
    }

    /// The same. `others_came`: packets of the rule are led to another one now, and those under way
    /// may have asked for it before.
    fn delete_as(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        mut others_came: bool,
    ) -> Result<RuleId, Rebuild> {
        let (list, id) = self.may_delete(chain, index)?;
        let roots = self.lists[list].roots.clone();
        let is_known = |number: &usize| {
            let place = &self.places[*number];
            let position = place.at[id.0 as usize];
            match place.root.slots.get(position as usize) {
                Some(Slot::Plain(terms)) => place.is_known(position, terms),
                _ => false,
            }
        };
        if roots.iter().any(is_known) {
            self.give_up_known(store);
        }
        for number in &roots {
            others_came |= self.uncover(store, *number, id)?;
        }
        let mut gone = Vec::new();
        for number in &roots {
            let (place, mut hand) = self.place(store, *number);
            let position = std::mem::replace(&mut place.at[id.0 as usize], NONE);
            if position == NONE {
                continue;
            }
            let count = place.tests(hand.image, position);
            if others_came {
                place.let_ask_again(&mut hand, position);
            }
            place.switch(&mut hand, position, count + 1);
            place.displaced.remove(&position);
            gone.push((*number, position));
        }
        for (number, position) in gone {
            let slot = &mut self.places[number].root.slots[position as usize];
            match std::mem::replace(slot, Slot::Leaving) {
                Slot::Plain(terms) if others_came => {
                    // Who has asked one table before the others came, and asks the next one now,
                    // must meet this rule there, to ask anew behind it.
                    self.off.push((number, position, terms));
                }
                Slot::Plain(terms) => {
                    self.unlink(store, (number, position), &terms);
                }
                _ => self.leaving_positions.push((number, position)),
            }
        }
        self.leaving_rules.push(id);
        self.rules[id.0 as usize] = None;
        self.with_sets.retain(|rule| *rule != id);
        self.lists[list].order.remove(index);
        Ok(id)
    }

    /// Lets packets be led to the rules that have no terms because of this one. Whether there are
    /// any.
    pub(super) fn uncover(
        &mut self,
        store: &mut impl Store,
        number: usize,
        id: RuleId,
    ) -> Result<bool, Rebuild> {
        let (place, mut hand) = self.place(store, number);
        let position = place.at[id.0 as usize];
        let covered = place.covered(position);
        if covered.len() > UNCOVERED_MAX {
            return Err(MANY);
        }
        for at in covered {
            let Slot::Covered(terms, _) = &place.root.slots[at as usize] else {
                continue;
            };
            let terms: Vec<Term> = terms.clone();
            if let Err(rebuild) = place.link(&mut hand, &terms, at) {
                // What is there does no harm behind the rule that covers it, but takes room.
                place.unlink(&mut hand, &terms, at);
                return Err(rebuild);
            }
            place.root.slots[at as usize] = Slot::Plain(terms);
        }
        if !place.covered(position).is_empty() {
            return Err(Rebuild("a covered rule has no terms"));
        }
        Ok(place.covers.remove(&position).is_some())
    }

    /// Puts a rule in the place of the one that is number `index` (from 0) of a chain. In between
    /// both are there, the old one first, which for each packet is the old policy or the new one.
    pub fn replace(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<RuleId, Rebuild> {
        self.replace_as(store, chain, index, rule, None)
    }

    /// The same with this counter for the new one, which must be free.
    pub(super) fn replace_as(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
        id: Option<RuleId>,
    ) -> Result<RuleId, Rebuild> {
        let (_, old) = self.may_delete(chain, index)?;
        let goes_on = |rule: &Rule| !matches!(rule.flow, Flow::Verdict(_));
        if goes_on(rule) || self.rule(old).is_some_and(goes_on) {
            // A packet could count at both.
            return Err(Rebuild("a rule that only counts is replaced"));
        }
        let id = self.insert_as(store, chain, index + 1, rule, id)?;
        match self.delete_as(store, chain, index, true) {
            Ok(_) => Ok(id),
            Err(rebuild) => {
                // The old rule stays, so the new one goes.
                self.delete(store, chain, index + 1)?;
                Err(rebuild)
            }
        }
    }
}

impl super::Place {
    /// Positions of rules that have no terms because of the one at this position.
    fn covered(&self, position: u32) -> Vec<u32> {
        let all = self.covers.get(&position).into_iter().flatten();
        let own = |at: &u32| match &self.root.slots[*at as usize] {
            Slot::Covered(_, by) => *by == position,
            _ => false,
        };
        all.copied().filter(own).collect()
    }
}
