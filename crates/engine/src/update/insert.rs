//! A rule put into an image in use.

use super::{Hand, Live, NONE, Place, Rebuild, Store, header, members};
use crate::compile;
use crate::compile::flatten::Entry as Draft;
use crate::compile::interfaces::Interfaces;
use crate::compile::room::{NEVER, Slot};
use crate::compile::term::Term;
use crate::image::layout::{self, TESTS_MAX};
use std::sync::Arc;
use weir_policy::model::{ChainId, Flow, Rule, RuleId};
use zerocopy::IntoBytes;

const NO_POSITION: Rebuild = Rebuild("no free position among rules that share packets with it");

/// What a rule is in one root.
pub(super) struct Own {
    pub terms: Vec<Term>,
    draft: Draft,
    blob: Vec<u8>,
}

/// A rule on its way into one root.
struct Coming {
    place: usize,
    position: u32,
    displaced: bool,
    terms: Vec<Term>,
    draft: Draft,
    blob: Vec<u8>,
}

impl Live {
    /// Puts a rule in front of the one that is number `index` (from 0) of a chain. It gets a
    /// counter of its own.
    pub fn insert(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<RuleId, Rebuild> {
        self.insert_as(store, chain, index, rule, None)
    }

    /// The same with this counter, which must be free.
    pub(super) fn insert_as(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
        id: Option<RuleId>,
    ) -> Result<RuleId, Rebuild> {
        self.settle(store);
        if id.is_some_and(|id| self.leaving_rules.contains(&id)) {
            // The image in use, whose changes these are, has waited for it.
            self.reclaim(store);
        }
        let done = self.with_room(store, |live, store| {
            live.try_insert(store, chain, index, rule, id)
        });
        match done {
            Err(NO_POSITION) if self.make_way(store, chain, index, rule)? => {
                self.try_insert(store, chain, index, rule, id)
            }
            done => done,
        }
    }

    fn try_insert(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
        id: Option<RuleId>,
    ) -> Result<RuleId, Rebuild> {
        let list = self.list(chain)?;
        suits(rule, &self.interfaces)?;
        let free = match id {
            Some(id) => self.free_rules.iter().rposition(|free| *free == id),
            None => self.free_rules.len().checked_sub(1),
        };
        let free = free.ok_or(Rebuild("no counter is left"))?;
        let id = self.free_rules[free];
        let rule = Rule { id, ..rule.clone() };
        let mut all = Vec::new();
        for place in self.lists[list].roots.clone() {
            all.extend(self.prepare(place, list, index, &rule)?);
        }
        let is_known =
            |coming: &Coming| self.places[coming.place].is_known(coming.position, &coming.terms);
        if all.iter().any(is_known) {
            self.give_up_known(store);
        }
        for (number, coming) in all.iter().enumerate() {
            if let Err(rebuild) = self.write(store, coming) {
                for written in &all[..=number] {
                    let at = (written.place, written.position);
                    self.take_back(store, at, &written.terms);
                }
                return Err(rebuild);
            }
        }
        store.zero(id);
        for coming in all {
            self.switch_on(store, coming, id);
        }
        self.free_rules.swap_remove(free);
        if members::names_sets(&rule) {
            self.with_sets.push(id);
        }
        self.rules[id.0 as usize] = Some(Arc::new(rule));
        self.lists[list].order.insert(index, id);
        Ok(id)
    }

    /// What a rule is in one root; `None`: no packet there can match it.
    pub(super) fn own(&mut self, number: usize, rule: &Rule) -> Result<Option<Own>, Rebuild> {
        let (mut flat, blob) = self.flat(number, rule)?;
        let place = &self.places[number];
        let header = header(&self.image);
        let (own, cut) = (
            header.roots[place.root.number],
            header.shorts[place.root.number],
        );
        if flat.reads_transport && own == cut && !self.policy.short_goes_on {
            return Err(Rebuild("the first rule that reads the transport header"));
        }
        if flat.entries.len() > 1 {
            return Err(Rebuild("the rule takes more than one entry"));
        }
        let Some(draft) = flat.entries.pop() else {
            return Ok(None);
        };
        let terms = flat.terms;
        let is_simple = compile::features(&draft) == 0
            && draft.flags == 0
            && draft.tests.len() < TESTS_MAX
            && draft.rules.len() <= 1;
        if !is_simple {
            return Err(Rebuild("the rule remembers or asks for flows"));
        }
        Ok(Some(Own { terms, draft, blob }))
    }

    /// What a rule is in one root, and where it can stand; `None`: no packet there can match it.
    fn prepare(
        &mut self,
        number: usize,
        list: usize,
        index: usize,
        rule: &Rule,
    ) -> Result<Option<Coming>, Rebuild> {
        let Some(Own { terms, draft, blob }) = self.own(number, rule)? else {
            return Ok(None);
        };
        let (place, order) = (&self.places[number], &self.lists[list].order);
        let (position, displaced) = place.find(order, index, &terms).ok_or(NO_POSITION)?;
        Ok(Some(Coming {
            place: number,
            position,
            displaced,
            terms,
            draft,
            blob,
        }))
    }

    /// Writes an entry that is off, and what leads to it.
    fn write(&mut self, store: &mut impl Store, coming: &Coming) -> Result<(), Rebuild> {
        let never_at = self.never_at;
        let (place, mut hand) = self.place(store, coming.place);
        let entry = entry(&mut hand, coming, never_at).ok_or(Rebuild("no room is left"))?;
        hand.write(place.entry(coming.position), entry.as_bytes());
        place.link(&mut hand, &coming.terms, coming.position)
    }

    /// One store, from which on packets meet the rule.
    fn switch_on(&mut self, store: &mut impl Store, coming: Coming, id: RuleId) {
        let (place, mut hand) = self.place(store, coming.place);
        place.switch(&mut hand, coming.position, coming.draft.tests.len() as u32);
        place.stands(id, &coming);
        place.root.slots[coming.position as usize] = Slot::Plain(coming.terms);
    }
}

impl Place {
    /// Notes where a rule stands now.
    fn stands(&mut self, id: RuleId, coming: &Coming) {
        debug_assert_eq!(self.at[id.0 as usize], NONE, "a rule stands once");
        self.at[id.0 as usize] = coming.position;
        if coming.displaced {
            self.displaced.insert(coming.position, id);
        }
        self.taken += 1;
    }
}

/// An entry that is off; what it leads to is written. `None`: no room.
fn entry(hand: &mut Hand<'_, impl Store>, coming: &Coming, never_at: u32) -> Option<layout::Entry> {
    let draft = &coming.draft;
    let blob_at = match coming.blob.as_slice() {
        [] => 0,
        bytes => hand.put(bytes)?,
    };
    let mut tests: Vec<layout::Test> = draft.tests.clone();
    for test in tests.iter_mut().filter(|test| test.at != 0) {
        test.at = test.at - 1 + blob_at;
    }
    let tests_at = match tests.is_empty() {
        true => never_at,
        false => {
            tests.push(NEVER);
            hand.put(tests.as_bytes())?
        }
    };
    let next = coming.position + 1;
    Some(layout::Entry {
        verdict: draft.verdict,
        flags: 0,
        reject: draft.reject,
        rule: draft.rules.first().map_or(0, |rule| rule.0),
        rules: draft.rules.len() as u32,
        tests_at,
        ops_at: 0,
        tests: draft.tests.len() as u16 + 1,
        ops: 0,
        next_match: next,
        next_fail: next,
    })
}

/// Whether a rule is of the kind that is put in in place.
fn suits(rule: &Rule, interfaces: &Interfaces) -> Result<(), Rebuild> {
    if !matches!(rule.flow, Flow::Verdict(_) | Flow::Next) {
        return Err(Rebuild("the rule leads elsewhere"));
    }
    if !rule.ops.is_empty() {
        return Err(Rebuild("the rule logs or changes packets"));
    }
    match interfaces.knows(&rule.tests) {
        true => Ok(()),
        false => Err(Rebuild("no rule has named this interface before")),
    }
}
