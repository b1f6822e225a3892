//! One rule put in, taken out or replaced in an image that is in use, without building it anew.
//!
//! In: a policy, then changes. Out: an image with room ([`crate::compile`]'s `room`), and for each
//! change a few stores into it through a [`Store`]; or a [`Rebuild`] that says why the change can't
//! be made in place, with nothing stored. Walkers know nothing of it: what changes is what they
//! read anyway, so an image that never changes costs nothing.
//!
//! *Switching.* An entry has behind its tests one that no packet passes. How many tests are run is
//! one aligned word, so a rule is switched on or off by one store, and a packet meets the old
//! policy or the new one. Everything else (the entry, records, groups) is written before a rule is
//! switched on, or after it was switched off, where nobody follows it.
//!
//! *Positions* are the order. Free ones lie between rules, off. A rule takes the nearest free one;
//! on the way there it may pass only rules that share no packets with it, and no place to which
//! other rules jump. A rule that passed some is *displaced*: rules put in near it later must share
//! no packets with it either, so that the order of any two rules that share some is the right one.
//!
//! *Terms* of a new rule go into hashed tables: a group of a few records is written anew into free
//! room, then its slot, one store, as often as it has copies. What the tables can't take goes to
//! spare ones with wide keys, of which a root has five; they are counted among its tables from
//! their first record on. Terms of a rule that was taken out leave the groups in the same way, and
//! their bits in bit vectors are cleared, in the field with the fewest rows.
//!
//! *What was unlinked* (positions, groups, counters) is used again after [`Store::wait`], when no
//! packet can be under way with it. That is done for many at a time.
//!
//! *Not in place*: chains other than the roots' own, rules that jump, remember, change packets or
//! log, new interface names, services that no rule has, a rule that says something about packets of
//! established flows before their own list ends ([`compile::known`]), and what finds no room. The
//! caller builds anew from [`Live::policy`], beside what is in use.

mod bits;
mod groups;
mod place;

use crate::compile::flatten::{Entry as Draft, flatten_rule};
use crate::compile::interfaces::Interfaces;
use crate::compile::residual::Blob;
use crate::compile::room::{NEVER, Plan, RoomyRoot, Slot};
use crate::compile::service::Services;
use crate::compile::statics::Context;
use crate::compile::term::Term;
use crate::compile::{self, Options, compile_with_room, known};
use crate::image::layout::{self, Header, TESTS_MAX};
use groups::Room;
use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;
use weir_policy::model::{ChainId, Flow, Policy, Rule, RuleId};
use zerocopy::{FromBytes, IntoBytes};

/// Where an image is in use.
pub trait Store {
    /// Writes bytes that nobody follows yet.
    fn write(&mut self, at: u32, bytes: &[u8]);
    /// Stores an aligned word; who sees it sees everything written before.
    fn store32(&mut self, at: u32, value: u32);
    /// Stores an aligned double word.
    fn store64(&mut self, at: u32, value: u64);
    /// Lets the counter of a rule begin at zero.
    fn zero(&mut self, rule: RuleId);
    /// Waits until no packet is under way that was when this was called.
    fn wait(&mut self);
}

/// An image that nobody else reads.
impl Store for Vec<u8> {
    fn write(&mut self, at: u32, bytes: &[u8]) {
        self[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn store32(&mut self, at: u32, value: u32) {
        self.write(at, &value.to_le_bytes());
    }

    fn store64(&mut self, at: u32, value: u64) {
        self.write(at, &value.to_le_bytes());
    }

    fn zero(&mut self, _: RuleId) {}

    fn wait(&mut self) {}
}

/// Why a change can't be made in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rebuild(pub &'static str);

/// No position.
const NONE: u32 = u32::MAX;
/// Unlinked things after which they are waited for.
const LEAVING_MAX: usize = 512;

/// A chain whose rules can change.
struct List {
    chain: ChainId,
    /// Its rules in order.
    order: Vec<RuleId>,
    /// Roots over it, as indices.
    roots: Vec<usize>,
}

/// A root, and where its rules are.
struct Place {
    root: RoomyRoot,
    /// Position of each rule's first entry, by id; [`NONE`] without.
    at: Vec<u32>,
    /// Rules that are not where the order has them, by position.
    displaced: BTreeMap<u32, RuleId>,
    /// Bits of terms, by position.
    bits: HashMap<u32, Vec<(u32, u32)>>,
}

/// A policy whose image can change while it is in use.
pub struct Live {
    policy: Policy,
    interfaces: Interfaces,
    /// What is in use, byte for byte.
    image: Vec<u8>,
    rules: Vec<Option<Rule>>,
    lists: Vec<List>,
    places: Vec<Place>,
    room: Room,
    never_at: u32,
    free_rules: Vec<RuleId>,
    leaving_rules: Vec<RuleId>,
    leaving_positions: Vec<(usize, u32)>,
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
    /// Builds an image with room for a policy.
    pub fn new(policy: &Policy, options: &Options) -> Result<Self, compile::Error> {
        let mut plan = Plan::default();
        let compiled = compile_with_room(policy, options, &mut plan)?;
        let capacity = (plan.first_rule + plan.rules) as usize;
        let mut live = Live {
            interfaces: Interfaces::of(policy)?,
            policy: policy.clone(),
            rules: vec![None; capacity],
            lists: Vec::new(),
            places: Vec::new(),
            room: Room::new(plan.room_at, plan.room),
            never_at: plan.never_at,
            free_rules: (plan.first_rule..capacity as u32)
                .rev()
                .map(RuleId)
                .collect(),
            leaving_rules: Vec::new(),
            leaving_positions: Vec::new(),
            image: compiled.image,
        };
        let mut uses = vec![0u32; policy.rule_count as usize];
        for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
            uses[rule.id.0 as usize] += 1;
        }
        for root in std::mem::take(&mut plan.roots) {
            live.adopt(root, &uses, capacity);
        }
        let places = &live.places;
        live.lists.retain(|list| {
            // A list for packets cut short changes with the other, or not at all.
            let header = header(&live.image);
            list.roots.iter().all(|at| {
                let root = &places[*at].root;
                let (own, short) = (header.roots[root.number], header.shorts[root.number]);
                own == short || list.roots.len() == 2
            })
        });
        Ok(live)
    }

    /// Takes up a root, unless rules of it share a counter with others.
    fn adopt(&mut self, root: RoomyRoot, uses: &[u32], capacity: usize) {
        let rules = &self.policy.chain(root.chain).rules;
        // Skips name rules by number, which change.
        let counts_shift = rules.iter().any(|rule| matches!(rule.flow, Flow::Skip(_)));
        if counts_shift || rules.iter().any(|rule| uses[rule.id.0 as usize] != 1) {
            return;
        }
        let mut at = vec![NONE; capacity];
        for (rule, start) in rules.iter().zip(&root.starts) {
            at[rule.id.0 as usize] = start.unwrap_or(NONE);
        }
        let number = self.places.len();
        match self.lists.iter_mut().find(|list| list.chain == root.chain) {
            Some(list) => list.roots.push(number),
            None => {
                for rule in rules {
                    self.rules[rule.id.0 as usize] = Some(rule.clone());
                }
                self.lists.push(List {
                    chain: root.chain,
                    order: rules.iter().map(|rule| rule.id).collect(),
                    roots: vec![number],
                });
            }
        }
        self.places.push(Place {
            bits: bits::of(&self.image, root.at),
            root,
            at,
            displaced: BTreeMap::new(),
        });
    }

    /// The image as it is now. Its checksum is that of when it was built.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The image as it is now, with the checksum that fits it.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut image = self.image.clone();
        let sum = crate::image::checksum(&image);
        image[layout::CHECKSUM_AT..layout::CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
        image
    }

    /// Counters that rules can have.
    pub fn counters(&self) -> u32 {
        self.rules.len() as u32
    }

    /// The policy as it is now.
    pub fn policy(&self) -> Policy {
        let mut policy = self.policy.clone();
        for list in &self.lists {
            let rules = list.order.iter().enumerate().filter_map(|(index, id)| {
                let rule = self.rules[id.0 as usize].clone()?;
                Some(Rule {
                    index: index as u32 + 1,
                    ..rule
                })
            });
            policy.chains[list.chain.0 as usize].rules = rules.collect();
        }
        policy.rule_count = self.counters();
        policy
    }

    /// Rules of a chain that can change in place, in order.
    pub fn order(&self, chain: ChainId) -> Option<&[RuleId]> {
        let list = self.lists.iter().find(|list| list.chain == chain)?;
        Some(&list.order)
    }

    fn list(&self, chain: ChainId) -> Result<usize, Rebuild> {
        let found = self.lists.iter().position(|list| list.chain == chain);
        found.ok_or(Rebuild("the chain has no room for changes in place"))
    }

    /// Puts a rule in front of the one that is number `index` (from 0) of a chain. It gets a
    /// counter of its own.
    pub fn insert(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<RuleId, Rebuild> {
        self.settle(store, false);
        let first = self.try_insert(store, chain, index, rule);
        match first {
            Err(_) if self.settle(store, true) => self.try_insert(store, chain, index, rule),
            done => done,
        }
    }

    fn try_insert(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<RuleId, Rebuild> {
        let list = self.list(chain)?;
        suits(rule, &self.interfaces)?;
        let id = *self
            .free_rules
            .last()
            .ok_or(Rebuild("no counter is left"))?;
        let rule = Rule { id, ..rule.clone() };
        let mut all = Vec::new();
        for place in self.lists[list].roots.clone() {
            all.extend(self.prepare(place, list, index, &rule)?);
        }
        for (number, coming) in all.iter().enumerate() {
            if let Err(rebuild) = self.write(store, coming) {
                for written in &all[..=number] {
                    let place = &mut self.places[written.place];
                    let (terms, position) = (&written.terms, written.position);
                    let (image, room) = (&mut self.image, &mut self.room);
                    if !place.unlink(image, store, room, &self.interfaces, terms, position) {
                        place.root.slots[position as usize] = Slot::Leaving;
                    }
                }
                return Err(rebuild);
            }
        }
        store.zero(id);
        for coming in all {
            self.switch_on(store, coming, id);
        }
        self.free_rules.pop();
        self.rules[id.0 as usize] = Some(rule);
        self.lists[list].order.insert(index, id);
        Ok(id)
    }

    /// What a rule is in one root, and where it can stand; `None`: no packet there can match it.
    fn prepare(
        &mut self,
        number: usize,
        list: usize,
        index: usize,
        rule: &Rule,
    ) -> Result<Option<Coming>, Rebuild> {
        let place = &mut self.places[number];
        let (family, short) = (place.root.family, place.root.short);
        let mut context = Context {
            sets: &self.policy.sets,
            interfaces: &self.interfaces,
            family,
            terms_max: 1 << 12,
            services: std::mem::take(&mut place.root.services),
        };
        let mut blob = Blob::default();
        let flat = flatten_rule(&self.policy, rule, &mut context, &mut blob, short);
        place.root.services = context.services;
        let mut flat = flat.map_err(|_| Rebuild("the rule takes more than one entry"))?;
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
        let order = &self.lists[list].order;
        let (position, displaced) = place.find(order, index, &terms).ok_or(Rebuild(
            "no free position among rules that share packets with it",
        ))?;
        place.known(position, &terms)?;
        Ok(Some(Coming {
            place: number,
            position,
            displaced,
            terms,
            draft,
            blob: blob.bytes,
        }))
    }

    /// Writes an entry that is off, and what leads to it.
    fn write(&mut self, store: &mut impl Store, coming: &Coming) -> Result<(), Rebuild> {
        let draft = &coming.draft;
        let full = Rebuild("no room is left");
        let blob_at = match coming.blob.as_slice() {
            [] => 0,
            bytes => self.room.put(&mut self.image, store, bytes).ok_or(full)?,
        };
        let mut tests: Vec<layout::Test> = draft.tests.clone();
        for test in tests.iter_mut().filter(|test| test.at != 0) {
            test.at = test.at - 1 + blob_at;
        }
        let tests_at = match tests.is_empty() {
            true => self.never_at,
            false => {
                tests.push(NEVER);
                self.room
                    .put(&mut self.image, store, tests.as_bytes())
                    .ok_or(full)?
            }
        };
        let next = coming.position + 1;
        let entry = layout::Entry {
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
        };
        let place = &mut self.places[coming.place];
        let at = place.entry(coming.position);
        store.write(at, entry.as_bytes());
        self.image.write(at, entry.as_bytes());
        for term in &coming.terms {
            let (image, room) = (&mut self.image, &mut self.room);
            place.link(image, store, room, &self.interfaces, term, coming.position)?;
        }
        Ok(())
    }

    /// One store, from which on packets meet the rule.
    fn switch_on(&mut self, store: &mut impl Store, coming: Coming, id: RuleId) {
        let place = &mut self.places[coming.place];
        place.switch(
            &mut self.image,
            store,
            coming.position,
            coming.draft.tests.len() as u32,
        );
        place.at[id.0 as usize] = coming.position;
        if coming.displaced {
            place.displaced.insert(coming.position, id);
        }
        place.root.slots[coming.position as usize] = Slot::Plain(coming.terms);
    }

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
            match &place.root.slots[position as usize] {
                Slot::Plain(terms) => place.known(position, terms)?,
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
        let (list, id) = self.may_delete(chain, index)?;
        let roots = self.lists[list].roots.clone();
        let mut gone = Vec::new();
        for number in &roots {
            let place = &mut self.places[*number];
            let position = std::mem::replace(&mut place.at[id.0 as usize], NONE);
            if position == NONE {
                continue;
            }
            let count = place.tests(&self.image, position);
            place.switch(&mut self.image, store, position, count + 1);
            place.displaced.remove(&position);
            gone.push((*number, position));
        }
        for (number, position) in gone {
            let place = &mut self.places[number];
            let slot = &mut place.root.slots[position as usize];
            if let Slot::Plain(terms) = std::mem::replace(slot, Slot::Leaving) {
                let (image, room) = (&mut self.image, &mut self.room);
                let gone = place.unlink(image, store, room, &self.interfaces, &terms, position);
                place.clear(image, store, position);
                if gone {
                    self.leaving_positions.push((number, position));
                }
            }
        }
        self.leaving_rules.push(id);
        self.rules[id.0 as usize] = None;
        self.lists[list].order.remove(index);
        Ok(id)
    }

    /// Puts a rule in the place of the one that is number `index` (from 0) of a chain. In between
    /// both are there, the new one first, which for each packet is the old policy or the new one.
    pub fn replace(
        &mut self,
        store: &mut impl Store,
        chain: ChainId,
        index: usize,
        rule: &Rule,
    ) -> Result<RuleId, Rebuild> {
        let (_, old) = self.may_delete(chain, index)?;
        let goes_on = |rule: &Rule| !matches!(rule.flow, Flow::Verdict(_));
        let counts = self.rules[old.0 as usize].as_ref().is_some_and(goes_on);
        if counts || goes_on(rule) {
            // A packet could count at both.
            return Err(Rebuild("a rule that only counts is replaced"));
        }
        let id = self.insert(store, chain, index, rule)?;
        self.delete(store, chain, index + 1)?;
        Ok(id)
    }

    /// Lets what was unlinked be used again, when there is much of it, or `now` when there is some.
    fn settle(&mut self, store: &mut impl Store, now: bool) -> bool {
        let count = self.leaving_positions.len() + self.leaving_rules.len() + self.room.leaving();
        // A change that finds no room may wait for a good deal of it, not for little each time.
        let least = if now { LEAVING_MAX / 8 } else { LEAVING_MAX };
        if count < least {
            return false;
        }
        store.wait();
        for (place, position) in self.leaving_positions.drain(..) {
            self.places[place].root.slots[position as usize] = Slot::Free;
        }
        self.free_rules.append(&mut self.leaving_rules);
        self.room.settle();
        true
    }
}

fn header(image: &[u8]) -> Header {
    let (header, _) = Header::read_from_prefix(image).expect("an image begins with its header");
    header
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

impl Place {
    /// Offset of the entry at a position.
    fn entry(&self, position: u32) -> u32 {
        self.root.entries_at + position * size_of::<layout::Entry>() as u32
    }

    /// How many tests of an entry are run.
    fn tests(&self, image: &[u8], position: u32) -> u32 {
        let at = self.entry(position) as usize + offset_of!(layout::Entry, tests);
        u32::from(u16::from_le_bytes([image[at], image[at + 1]]))
    }

    /// Lets so many tests of an entry be run.
    fn switch(&self, image: &mut Vec<u8>, store: &mut impl Store, position: u32, tests: u32) {
        let at = self.entry(position) + offset_of!(layout::Entry, tests) as u32;
        let ops = u16::from_le_bytes([image[at as usize + 2], image[at as usize + 3]]);
        let word = tests | u32::from(ops) << 16;
        store.store32(at, word);
        image.store32(at, word);
    }

    /// Whether what a rule says of packets of established flows is said in their own list too.
    fn known(&self, position: u32, terms: &[Term]) -> Result<(), Rebuild> {
        let services: &Services = &self.root.services;
        let concerns = |term: &Term| known::concerns(services.get(term.service));
        match self.root.known_end {
            Some(end) if position < end && terms.iter().any(concerns) => {
                Err(Rebuild("the rule says something of established flows"))
            }
            _ => Ok(()),
        }
    }
}
