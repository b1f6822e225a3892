//! Members of a set put in and taken out, in the rules that name it.
//!
//! In: a set as it is to be. Out: the rules that name it have other terms, at the same positions:
//! what comes is linked before what goes is unlinked, so that each packet meets a rule as it was
//! or as it is. Where addresses are all that changes, only the terms of those come or go.
//!
//! *Several rules* must not be met by one packet, one as it was and the next as it is. Rules of
//! hooks of which a packet passes one, and rules that share none of the packets in question, are no
//! matter. Of rules that decide, one behind the other, the first is changed first when packets
//! come, and last when they go, with a wait in between: whoever got past the first as it was has
//! got past the second too.
//!
//! Not in place: sets in lists of sets; sets whose rule takes more than one entry; a set that
//! becomes empty, or was.

use super::{Live, NONE, Place, Rebuild, Store};
use crate::compile::flatten::{Flat, flatten_rule};
use crate::compile::residual::Blob;
use crate::compile::room::Slot;
use crate::compile::span::Span;
use crate::compile::statics::Context;
use crate::compile::term::{Term, address_last};
use std::collections::HashSet;
use std::sync::Arc;
use weir_policy::model::{Cond, Flow, Hook, NamedSet, Policy, RangeSet, Rule, RuleId, SetId, Test};
use zerocopy::IntoBytes;

/// A place that has a rule, the rule, and its terms and tests there before a change.
type Was = (usize, Arc<Rule>, (Flat, Vec<u8>));

/// Terms of a rule.
const TERMS_MAX: usize = 1 << 12;

/// Whether a test asks for a set.
fn names(test: &Test, set: SetId) -> bool {
    match &test.cond {
        Cond::Set { set: named, .. } => *named == set,
        Cond::Any(tests) => tests.iter().any(|test| names(test, set)),
        _ => false,
    }
}

/// Whether a rule asks for any set.
pub fn names_sets(rule: &Rule) -> bool {
    fn asks(test: &Test) -> bool {
        match &test.cond {
            Cond::Set { .. } => true,
            Cond::Any(tests) => tests.iter().any(asks),
            _ => false,
        }
    }
    rule.tests.iter().any(asks)
}

/// The sets that rules of these chains ask for.
pub fn named(policy: &Policy) -> HashSet<SetId> {
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let rules: Vec<&Rule> = rules.filter(|rule| names_sets(rule)).collect();
    let sets = (0..policy.sets.len() as u32).map(SetId);
    sets.filter(|set| {
        let mut tests = rules.iter().flat_map(|rule| &rule.tests);
        tests.any(|test| names(test, *set))
    })
    .collect()
}

/// What changes of one rule in one root.
struct Turn {
    rule: RuleId,
    place: usize,
    position: u32,
    /// Whether packets that the rule matches end with it.
    decides: bool,
    comes: Vec<Term>,
    goes: Vec<Term>,
    /// All terms afterwards.
    terms: Vec<Term>,
    /// Packets that come to the rule, and those that no longer do.
    changed: [Vec<Term>; 2],
}

impl Live {
    /// Lets a set have other members. After an error, packets may meet rules with those that
    /// come already: build anew.
    pub fn set_members(
        &mut self,
        store: &mut impl Store,
        set: SetId,
        members: &NamedSet,
    ) -> Result<(), Rebuild> {
        self.settle(store);
        let old = self.policy.sets.get(set.0 as usize);
        let old = old.ok_or(Rebuild("there is no such set"))?;
        let is_same_kind = old.dimensions == members.dimensions
            && old.family == members.family
            && !old.changes
            && !members.changes;
        let mut lists = self.policy.sets.iter();
        if !is_same_kind || lists.any(|list| list.members.contains(&set)) {
            return Err(Rebuild("a set of another kind, or in a list of sets"));
        }
        if self.fixed_sets.contains(&set) {
            return Err(Rebuild("a rule that can't change names the set"));
        }
        let own = self.with_sets.iter();
        let own = own.filter_map(|id| self.rules[id.0 as usize].clone());
        let own: Vec<Arc<Rule>> = own
            .filter(|rule| rule.tests.iter().any(|test| names(test, set)))
            .collect();
        let mut places = Vec::new();
        for rule in own {
            let of_rule = |list: &&super::List| list.order.contains(&rule.id);
            let list = self.lists.iter().find(of_rule);
            let roots = list.ok_or(Rebuild("there is no such rule"))?.roots.clone();
            for place in roots {
                let was = self.flat(place, &rule)?;
                places.push((place, Arc::clone(&rule), was));
            }
        }
        let sets = Arc::make_mut(&mut self.policy).sets.as_mut_slice();
        let before = std::mem::replace(&mut sets[set.0 as usize], members.clone());
        let done = self.change_terms(store, places);
        if done.is_err() {
            // The policy is what it was; who builds anew makes the change in it.
            Arc::make_mut(&mut self.policy).sets[set.0 as usize] = before;
        }
        done
    }

    /// Lets rules have the terms that they have with the sets as they are now; what they were.
    fn change_terms(&mut self, store: &mut impl Store, places: Vec<Was>) -> Result<(), Rebuild> {
        let mut turns = Vec::new();
        for (place, rule, was) in places {
            turns.extend(self.turn(place, &rule, &was)?);
        }
        let must_wait = self.in_turn(&mut turns)?;
        let is_known = |turn: &Turn| {
            let place = &self.places[turn.place];
            turn.changed
                .iter()
                .any(|terms| place.is_known(turn.position, terms))
        };
        if turns.iter().any(is_known) {
            self.give_up_known(store);
        }
        let mut others_came = false;
        for turn in &turns {
            // Rules that this one covered may be met now.
            others_came |= self.uncover(store, turn.place, turn.rule)?;
        }
        for (number, turn) in turns.into_iter().enumerate() {
            if must_wait && number > 0 {
                store.wait();
            }
            let (place, mut hand) = self.place(store, turn.place);
            place.link(&mut hand, &turn.comes, turn.position)?;
            if !turn.goes.is_empty() && (others_came || !turn.comes.is_empty()) {
                // Who has asked one table before those came must find in the next what goes.
                hand.store.wait();
                others_came = false;
            }
            if !place.unlink(&mut hand, &turn.goes, turn.position) {
                return Err(Rebuild("no room is left"));
            }
            place.root.slots[turn.position as usize] = Slot::Plain(turn.terms);
        }
        Ok(())
    }

    /// Puts turns into the order in which they may be made, and tells whether packets under way
    /// have to be waited for between them.
    fn in_turn(&self, turns: &mut [Turn]) -> Result<bool, Rebuild> {
        let mut must_wait = false;
        let (mut come, mut go) = (false, false);
        for (at, one) in turns.iter().enumerate() {
            let both = turns[at + 1..]
                .iter()
                .filter(|other| other.rule != one.rule);
            for other in both.filter(|other| self.meet(one, other)) {
                let in_order = one.place == other.place && one.decides && other.decides;
                if !in_order {
                    return Err(Rebuild("a packet could meet two rules that name the set"));
                }
                must_wait = true;
                for turn in [one, other] {
                    come |= !turn.changed[0].is_empty();
                    go |= !turn.changed[1].is_empty();
                }
            }
        }
        if must_wait && come && go {
            return Err(Rebuild("members come and go at once in several rules"));
        }
        turns.sort_by_key(|turn| turn.position);
        if go {
            turns.reverse();
        }
        Ok(must_wait)
    }

    /// Whether a packet could meet the changes of two rules.
    fn meet(&self, one: &Turn, other: &Turn) -> bool {
        let [a, b] = [one, other].map(|turn| &self.places[turn.place].root);
        if a.family != b.family || a.short != b.short {
            return false;
        }
        if a.number != b.number {
            // Hooks of which a packet passes one; loopback's are two passages.
            let hook = |number: usize| number / 3 % 5;
            let alone = |number| {
                let hooks = [Hook::Input, Hook::Forward, Hook::Output];
                hooks.iter().any(|one| *one as usize == hook(number))
            };
            if hook(a.number) != hook(b.number) && alone(a.number) && alone(b.number) {
                return false;
            }
            return true;
        }
        let place = &self.places[one.place];
        let all = |turn: &Turn| turn.changed.concat();
        place.meets(&all(one), &all(other))
    }

    /// What changes in a root; `None`: nothing.
    fn turn(
        &mut self,
        number: usize,
        rule: &Rule,
        before: &(Flat, Vec<u8>),
    ) -> Result<Option<Turn>, Rebuild> {
        let after = self.flat(number, rule)?;
        let place = &self.places[number];
        let position = place.at[rule.id.0 as usize];
        let several = Rebuild("the rule takes more than one entry");
        let (was, is) = (&before.0, &after.0);
        if was.entries.is_empty() && is.entries.is_empty() && position == NONE {
            return Ok(None);
        }
        let ([old], [new]) = (was.entries.as_slice(), is.entries.as_slice()) else {
            return Err(several);
        };
        if old.tests.as_bytes() != new.tests.as_bytes() || before.1 != after.1 {
            return Err(several);
        }
        let slot = place.root.slots.get(position as usize);
        let Some(Slot::Plain(terms)) = slot else {
            return Err(Rebuild("the rule is covered, or leads elsewhere"));
        };
        let top = address_last(place.root.family);
        let change = Difference::of_addresses(terms, &is.terms, top);
        let change = change.unwrap_or_else(|| Difference::of_terms(terms, &is.terms));
        let turn = Turn {
            rule: rule.id,
            place: number,
            position,
            decides: matches!(rule.flow, Flow::Verdict(_)),
            changed: change.changed,
            comes: change.comes,
            goes: change.goes,
            terms: change.terms,
        };
        if turn.terms.len() > TERMS_MAX {
            return Err(Rebuild("the rule has too many terms"));
        }
        match place.may_turn(&turn, rule.id) {
            true => Ok(Some(turn)),
            false => Err(Rebuild("the order of rules nearby would change")),
        }
    }

    /// What a rule is in a root, and what its tests lead to.
    pub(super) fn flat(&mut self, number: usize, rule: &Rule) -> Result<(Flat, Vec<u8>), Rebuild> {
        let place = &mut self.places[number];
        let mut context = Context {
            sets: &self.policy.sets,
            interfaces: &self.interfaces,
            family: place.root.family,
            terms_max: TERMS_MAX,
            services: std::mem::take(&mut place.root.services),
        };
        let mut blob = Blob::default();
        let flat = {
            let policy = &*self.policy;
            flatten_rule(policy, rule, &mut context, &mut blob, place.root.short)
        };
        place.root.services = context.services;
        let flat = flat.map_err(|_| Rebuild("the rule takes more than one entry"))?;
        Ok((flat, blob.bytes))
    }
}

/// What terms have to come and go.
struct Difference {
    comes: Vec<Term>,
    goes: Vec<Term>,
    terms: Vec<Term>,
    /// Packets that come, and those that go.
    changed: [Vec<Term>; 2],
}

impl Difference {
    /// Of terms that are a set of addresses on one side and else the same.
    fn of_addresses(now: &[Term], wanted: &[Term], top: u128) -> Option<Self> {
        let [wanted] = wanted else { return None };
        let differs = |side: usize| {
            now.iter()
                .any(|term| term.address[side] != wanted.address[side])
        };
        let side = usize::from(differs(1));
        let with = |span: Span<u128>| {
            let mut term = wanted.clone();
            term.address[side] = span;
            term
        };
        if now
            .iter()
            .any(|term| with(term.address[side].clone()) != *term)
        {
            return None;
        }
        let goal = wanted.address[side].to_set(top);
        let sets: Vec<_> = now
            .iter()
            .map(|term| term.address[side].to_set(top))
            .collect();
        let all = RangeSet::from_ranges(sets.iter().flat_map(|set| set.ranges().iter().copied()));
        let term_of = |set: RangeSet<u128>| Span::of(set, top).map(with);
        let mut out = Difference {
            comes: term_of(goal.intersect(&all.complement(top)))
                .into_iter()
                .collect(),
            goes: Vec::new(),
            terms: Vec::new(),
            changed: [Vec::new(), Vec::new()],
        };
        out.changed[0].clone_from(&out.comes);
        out.changed[1].extend(term_of(all.intersect(&goal.complement(top))));
        for (term, set) in now.iter().zip(&sets) {
            if wanted.address[side].covers(&term.address[side], top) {
                out.terms.push(term.clone());
                continue;
            }
            out.goes.push(term.clone());
            out.comes.extend(term_of(set.intersect(&goal)));
        }
        out.terms.extend(out.comes.iter().cloned());
        Some(out)
    }

    /// Of any terms.
    fn of_terms(now: &[Term], wanted: &[Term]) -> Self {
        let not_in = |all: &[Term], of: &[Term]| -> Vec<Term> {
            let all: HashSet<&Term> = all.iter().collect();
            let other = of.iter().filter(|term| !all.contains(term));
            other.cloned().collect()
        };
        let (comes, goes) = (not_in(now, wanted), not_in(wanted, now));
        Difference {
            changed: [comes.clone(), goes.clone()],
            comes,
            goes,
            terms: wanted.to_vec(),
        }
    }
}

impl Place {
    /// Whether a rule can have more terms where it stands, and fewer.
    fn may_turn(&self, turn: &Turn, id: RuleId) -> bool {
        let stands = self.displaced.get(&turn.position) != Some(&id);
        let near = turn.position..=turn.position;
        stands && self.displaced_near(near, &turn.comes).next().is_none()
    }
}
