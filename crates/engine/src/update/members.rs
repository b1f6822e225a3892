//! Members of a set put in and taken out, in the rules that name it.
//!
//! In: a set as it is to be. Out: the rule that names it has other terms, at the same position:
//! what comes is linked before what goes is unlinked, so that each packet meets the rule as it was
//! or as it is. Not in place: sets that several rules name, of which a packet could meet some as
//! they were and others as they are; sets in lists of sets; sets whose rule takes more than one
//! entry; a set that becomes empty, or was.

use super::{Live, NONE, Place, Rebuild, Store};
use crate::compile::flatten::{Flat, flatten_rule};
use crate::compile::residual::Blob;
use crate::compile::room::Slot;
use crate::compile::statics::Context;
use crate::compile::term::Term;
use std::sync::Arc;
use weir_policy::model::{Cond, NamedSet, Rule, RuleId, SetId, Test};
use zerocopy::IntoBytes;

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

/// What changes in one root.
struct Turn {
    place: usize,
    position: u32,
    comes: Vec<Term>,
    goes: Vec<Term>,
    terms: Vec<Term>,
}

impl Live {
    /// Lets a set have other members. After an error, packets may meet the rule with those that
    /// come already: build anew.
    pub fn set_members(
        &mut self,
        store: &mut impl Store,
        set: SetId,
        members: &NamedSet,
    ) -> Result<(), Rebuild> {
        self.settle(store, false);
        let old = self.policy.sets.get(set.0 as usize);
        let old = old.ok_or(Rebuild("there is no such set"))?;
        let is_same_kind = old.dimensions == members.dimensions
            && old.family == members.family
            && !old.changes
            && !members.changes;
        if !is_same_kind
            || self
                .policy
                .sets
                .iter()
                .any(|list| list.members.contains(&set))
        {
            return Err(Rebuild("a set of another kind, or in a list of sets"));
        }
        let fixed = self.policy.chains.iter().flat_map(|chain| &chain.rules);
        if { fixed }.any(|rule| rule.tests.iter().any(|test| names(test, set))) {
            return Err(Rebuild("a rule that can't change names the set"));
        }
        let own = self.rules.iter().flatten();
        let own: Vec<Arc<Rule>> = own
            .filter(|rule| rule.tests.iter().any(|test| names(test, set)))
            .cloned()
            .collect();
        let mut sets = self.policy.sets.clone();
        sets[set.0 as usize] = members.clone();
        match own.as_slice() {
            [] => {}
            [rule] => self.change_terms(store, rule, &sets)?,
            _ => return Err(Rebuild("several rules name the set")),
        }
        Arc::make_mut(&mut self.policy).sets = sets;
        Ok(())
    }

    /// Lets a rule have the terms that it has with these sets.
    fn change_terms(
        &mut self,
        store: &mut impl Store,
        rule: &Rule,
        sets: &[NamedSet],
    ) -> Result<(), Rebuild> {
        let of_rule = |list: &&super::List| list.order.contains(&rule.id);
        let list = self.lists.iter().find(of_rule);
        let roots = list.ok_or(Rebuild("there is no such rule"))?.roots.clone();
        let mut turns = Vec::new();
        for place in roots {
            turns.extend(self.turn(place, rule, sets)?);
        }
        for turn in &turns {
            // Rules that this one covered may be met now.
            self.uncover(store, turn.place, rule.id)?;
        }
        for turn in &turns {
            let (place, mut hand) = self.place(store, turn.place);
            place.link(&mut hand, &turn.comes, turn.position)?;
        }
        for turn in turns {
            let (place, mut hand) = self.place(store, turn.place);
            let gone = place.unlink(&mut hand, &turn.goes, turn.position);
            if !gone {
                return Err(Rebuild("no room is left"));
            }
            place.root.slots[turn.position as usize] = Slot::Plain(turn.terms);
        }
        Ok(())
    }

    /// What changes in a root; `None`: nothing.
    fn turn(
        &mut self,
        number: usize,
        rule: &Rule,
        sets: &[NamedSet],
    ) -> Result<Option<Turn>, Rebuild> {
        let before = self.flat(number, rule, &self.policy.sets.clone())?;
        let after = self.flat(number, rule, sets)?;
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
        let not_in = |all: &[Term], of: &[Term]| -> Vec<Term> {
            let other = of.iter().filter(|term| !all.contains(term));
            other.cloned().collect()
        };
        let turn = Turn {
            place: number,
            position,
            comes: not_in(terms, &is.terms),
            goes: not_in(&is.terms, terms),
            terms: is.terms.clone(),
        };
        place.known(position, terms)?;
        place.known(position, &turn.comes)?;
        match place.may_turn(&turn, rule.id) {
            true => Ok(Some(turn)),
            false => Err(Rebuild("the order of rules nearby would change")),
        }
    }

    /// What a rule is in a root with these sets, and what its tests lead to.
    fn flat(
        &mut self,
        number: usize,
        rule: &Rule,
        sets: &[NamedSet],
    ) -> Result<(Flat, Vec<u8>), Rebuild> {
        let place = &mut self.places[number];
        let mut context = Context {
            sets,
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

impl Place {
    /// Whether a rule can have more terms where it stands, and fewer.
    fn may_turn(&self, turn: &Turn, id: RuleId) -> bool {
        let stands = self.displaced.get(&turn.position) != Some(&id);
        stands && self.passed_by_none(turn.position..=turn.position, &turn.comes)
    }
}
