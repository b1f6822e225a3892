//! Rules that move on to let another in between.
//!
//! In: a rule that comes, and finds no free position among those that share packets with it. Out:
//! a free one in front of the rule that is to follow, after all up to the nearest free one have
//! moved by a position, so that no two change their order. A rule that moves is there twice for a
//! grace period, and which of the two decides a packet is all the same: so only those move that
//! decide, as one that goes on would count twice.

use super::hand::Hand;
use super::insert::Own;
use super::{Live, NONE, Place, Rebuild, Store};
use crate::compile::room::Slot;
use crate::compile::term::Term;
use crate::image::layout;
use crate::image::read;
use std::collections::HashMap;
use weir_policy::model::{ChainId, Flow, Rule, RuleId};
use zerocopy::IntoBytes;

/// Rules that move for one. Each takes two grace periods, some 20 ms in all.
const MOVES_MAX: usize = 12;

/// A rule's way from one position to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Move {
    from: u32,
    to: u32,
}

impl Live {
    /// How often a rule was moved to let another in between.
    pub fn moves(&self) -> usize {
        self.moves
    }

    /// Lets rules move, so that this one finds a free position in front of number `index` of a
    /// chain wherever it found none. False: they can't.
    pub(super) fn make_way(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<bool, Rebuild> {
        let list = self.list(chain)?;
        for number in self.lists[list].roots.clone() {
            let Some(Own { terms, .. }) = self.own(number, rule)? else {
                continue;
            };
            let found = self.places[number].find(&self.lists[list].order, index, &terms);
            if found.is_none() && !self.make_way_in(store, (number, list), index, &terms) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same in one place, for these terms.
    fn make_way_in(
        &mut self,
        store: &mut impl Store,
        (number, list): (usize, usize),
        index: usize,
        terms: &[Term],
    ) -> bool {
        let (place, order) = (&self.places[number], &self.lists[list].order);
        let Some(anchor) = place.anchor(order, index) else {
            return false;
        };
        if !place.keeps_order(order, (index, anchor), anchor..=anchor, terms) {
            return false;
        }
        let ways = [place.before(anchor), place.behind(anchor)];
        let in_the_way = |at: u32| ways.iter().flatten().flatten().any(|one| one.from == at);
        let standing = order.iter().map(|id| (place.at[id.0 as usize], *id));
        let standing: HashMap<u32, RuleId> = standing.filter(|(at, _)| in_the_way(*at)).collect();
        let decides = |rule: &Rule| matches!(rule.flow, Flow::Verdict(_));
        let may_move = |at: u32| {
            let id = standing.get(&at);
            id.and_then(|id| self.rule(*id)).is_some_and(decides)
        };
        let possible = |way: &Vec<Move>| way.iter().all(|one| may_move(one.from));
        let possible = ways.into_iter().flatten().filter(possible);
        let Some(moves) = possible.min_by_key(Vec::len) else {
            return false;
        };
        // The one beside the free position goes first.
        let mut all = moves.into_iter().rev();
        all.all(|one| self.move_on(store, number, standing[&one.from], one))
    }

    /// Lets a rule stand elsewhere: there as well at first, and nowhere else when all packets under
    /// way know that. False: where it stood is not free.
    fn move_on(&mut self, store: &mut impl Store, number: usize, id: RuleId, one: Move) -> bool {
        let (place, mut hand) = self.place(store, number);
        let Some((terms, tests)) = place.copy(&mut hand, one) else {
            return false;
        };
        if place.link(&mut hand, &terms, one.to).is_err() {
            self.take_back(store, (number, one.to), &terms);
            return false;
        }
        place.switch(&mut hand, one.to, tests);
        // Who was led to the old position only must have come there before it is off.
        store.wait();
        let (place, mut hand) = self.place(store, number);
        place.switch(&mut hand, one.from, tests + 1);
        let gone = self.unlink(store, (number, one.from), &terms);
        self.places[number].moved(id, one);
        if gone {
            self.reclaim(store);
            self.moves += 1;
        }
        gone
    }
}

impl Place {
    /// The rules from the one in front of a position on, up to a free position. `None`: there is
    /// none near, or something is in the way.
    fn before(&self, anchor: u32) -> Option<Vec<Move>> {
        // Who goes on behind a free position would leave out what comes to stand there.
        let landed = |at: u32| self.root.landed[at as usize + 1];
        self.way((0..anchor).rev(), landed)
    }

    /// The rules from the one at a position on, up to a free position.
    fn behind(&self, anchor: u32) -> Option<Vec<Move>> {
        let last = self.root.slots.len() as u32 - 1;
        // Who goes on here would meet what comes from in front.
        let landed = |at: u32| at > anchor && self.root.landed[at as usize];
        self.way(anchor..last, landed)
    }

    fn way(
        &self,
        positions: impl Iterator<Item = u32>,
        landed: impl Fn(u32) -> bool,
    ) -> Option<Vec<Move>> {
        let mut moves: Vec<Move> = Vec::new();
        for at in positions {
            if landed(at) {
                return None;
            }
            let slot = &self.root.slots[at as usize];
            let stands = match slot {
                Slot::Leaving => continue,
                Slot::Fixed => return None,
                Slot::Free => false,
                Slot::Plain(_) | Slot::Covered(..) => true,
            };
            if let Some(last) = moves.last_mut() {
                last.to = at;
            }
            if !stands {
                return Some(moves);
            }
            if moves.len() == MOVES_MAX {
                return None;
            }
            moves.push(Move { from: at, to: NONE });
        }
        None
    }

    /// Writes the entry of a rule where it goes, off; what leads to it, and how many tests it runs.
    fn copy(&self, hand: &mut Hand<'_, impl Store>, one: Move) -> Option<(Vec<Term>, u32)> {
        let terms = match &self.root.slots[one.from as usize] {
            Slot::Plain(terms) => terms.clone(),
            Slot::Covered(..) => Vec::new(),
            Slot::Free | Slot::Leaving | Slot::Fixed => return None,
        };
        let entry: layout::Entry = read(hand.image, self.entry(one.from))?;
        let tests = self.tests(hand.image, one.from);
        let next = |old: u32| match old == one.from + 1 {
            true => one.to + 1,
            false => old,
        };
        let copy = layout::Entry {
            tests: entry.tests + 1,
            next_match: next(entry.next_match),
            next_fail: next(entry.next_fail),
            ..entry
        };
        if copy.next_match <= one.to || copy.next_fail <= one.to {
            return None;
        }
        hand.write(self.entry(one.to), copy.as_bytes());
        Some((terms, tests))
    }

    /// Notes that a rule has moved.
    fn moved(&mut self, id: RuleId, Move { from, to }: Move) {
        let slots = &mut self.root.slots;
        slots[to as usize] = std::mem::replace(&mut slots[from as usize], Slot::Leaving);
        if let Slot::Covered(_, by) = slots[to as usize] {
            self.covers.entry(by).or_default().push(to);
        }
        if let Some(covered) = self.covers.remove(&from) {
            for at in &covered {
                match &mut slots[*at as usize] {
                    Slot::Covered(_, by) if *by == from => *by = to,
                    _ => {}
                }
            }
            self.covers.insert(to, covered);
        }
        if let Some(id) = self.displaced.remove(&from) {
            self.displaced.insert(to, id);
        }
        self.at[id.0 as usize] = to;
        self.taken += 1;
        // What comes to stand between has a say in the list for established flows.
        let end = self.root.known_end;
        self.root.known_end = end.map(|end| if end == from { end.max(to) } else { end });
    }
}
