//! One rule put in, taken out or replaced in an image that is in use, without building it anew.
//!
//! In: a policy, then changes. Out: an image with room ([`crate::compile`]'s `room`), and for each
//! change a few stores into it through a [`Store`]; or a [`Rebuild`] that says why the change can't
//! be made in place, with nothing that packets could notice. Walkers know nothing of it: what
//! changes is what they read anyway, so an image that never changes costs nothing.
//!
//! *Switching.* An entry has behind its tests one that no packet passes. How many tests are run is
//! one aligned word, so a rule is switched on or off by one store, and a packet meets the old
//! policy or the new one. Everything else (the entry, records, groups, leaves) is written before a
//! rule is switched on, or after it was switched off, where nobody follows it.
//!
//! *Positions* are the order. Free ones lie between rules, off. A rule takes the nearest free one;
//! on the way there it may pass only rules that share no packets with it, and no place to which
//! other rules jump. A rule that passed some is *displaced*: rules put in near it later must share
//! no packets with it either, so that the order of any two rules that share some is the right one.
//! Where none is free, rules that decide move by a position each ([`moves`]).
//!
//! *Terms* of a new rule go into the hashed tables that there are: a group of a few records is
//! written anew into free room, then its slot, one store, as often as it has copies. What no table
//! can take goes into bit vectors: in each leaf that its packets reach it takes a free bit in
//! place, or rows are written beside those in use, or the chunk as the compiler would have it, then
//! the word that leads there. Terms of a rule that was taken out leave the groups in the same way,
//! and their bits are cleared, in the field with the fewest rows.
//!
//! *Covered rules*, whose packets an earlier rule takes, have no terms in the image. They get them
//! when that rule goes. A packet under way may have looked for them before, and not meet that rule
//! any more: so what leads to a rule that is replaced or uncovers others stays for a grace period,
//! and its entry, which is off, says that who passes it looks anew ([`layout::FLAG_AGAIN`]).
//!
//! *What was unlinked* (positions, groups, bits, rows, counters) is used again after
//! a grace period ([`Store::waiter`]), when no packet can be under way with it. One is waited for
//! for many at a time, in a thread of its own ([`grace`]).
//!
//! *Established flows* have lists of their own ([`compile::known`]), which don't change: from the
//! first change on of a rule that has a say in them, their packets are looked up as all others are,
//! until there is a new image. A packet that has one of those lists in hand meets the policy of
//! before.
//!
//! *Not in place*: chains other than the roots' own, rules that jump, remember, change packets or
//! log, new interface names, and what finds no room.
//! [`Kept`] then builds anew, and does so in the background before too much has changed.

mod bits;
mod delete;
mod grace;
mod groups;
mod hand;
mod insert;
mod kept;
mod leaves;
mod members;
mod moves;
mod place;
mod quality;
mod refold;
mod renewal;
mod room;
mod shape;

pub use kept::{Change, Done, Failure, Here, Home, Kept};

use crate::compile::interfaces::Interfaces;
use crate::compile::room::{Plan, RoomyRoot, Slot};
use crate::compile::service::Services;
use crate::compile::term::Term;
use crate::compile::{self, Options, compile_with_room, known};
use crate::image::layout::{self, Header};
use crate::image::read;
use grace::Grace;
use hand::Hand;
use leaves::{Cleared, Leaf};
use room::Room;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::offset_of;
use std::sync::Arc;
use weir_policy::model::{ChainId, Flow, Policy, Rule, RuleId, SetId};

/// Waits for packets under way.
pub type Waiter = Box<dyn FnOnce() + Send>;

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
    /// What waits, wherever it is called, until no packet is under way that was when this was
    /// called. `None`: there is none.
    fn waiter(&self) -> Option<Waiter>;
    /// Waits for that.
    fn wait(&mut self) {
        if let Some(waiter) = self.waiter() {
            waiter();
        }
    }
    /// Lets packets of established flows be looked up in the lists of all packets from here on.
    fn whole(&mut self);
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

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn whole(&mut self) {}
}

/// Why a change can't be made in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rebuild(pub &'static str);

/// No position.
const NONE: u32 = u32::MAX;
/// Counters for new rules.
const COUNTERS: u32 = 4096;

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
    /// Bit vectors.
    leaves: Vec<Leaf>,
    /// Bits of them that packets under way may have in hand.
    cleared: Vec<Cleared>,
    /// Chunks of them that were built for a change.
    chunks_built: usize,
    /// Rules that have no terms because of the one at a position.
    covers: HashMap<u32, Vec<u32>>,
    /// Free positions when the image was built, and how many fewer there are.
    free: usize,
    taken: isize,
    /// What packets pay for records that came, less those that went.
    pays: f64,
}

/// A policy whose image can change while it is in use.
pub struct Live {
    /// The policy; rules of chains in `lists` are there and in `rules`.
    policy: Arc<Policy>,
    interfaces: Interfaces,
    /// What is in use, byte for byte.
    image: Vec<u8>,
    rules: Vec<Option<Arc<Rule>>>,
    lists: Vec<List>,
    places: Vec<Place>,
    room: Room,
    never_at: u32,
    free_rules: Vec<RuleId>,
    leaving_rules: Vec<RuleId>,
    leaving_positions: Vec<(usize, u32)>,
    /// Rules that are off, and that packets may still have to be led to: place, position, terms.
    off: Vec<(usize, u32, Vec<Term>)>,
    /// Those that no packet needs any more.
    unneeded: Vec<(usize, u32, Vec<Term>)>,
    /// Packets that may be under way with the first of these.
    grace: Option<Grace>,
    /// How often a rule was moved.
    moves: usize,
    /// Whether lists for established flows were given up.
    whole: bool,
    /// Rules in `rules` that ask for sets.
    with_sets: Vec<RuleId>,
    /// Sets that rules of other chains ask for.
    fixed_sets: HashSet<SetId>,
}

impl Live {
    /// Builds an image with room for a policy.
    pub fn new(policy: &Policy, options: &Options) -> Result<Self, compile::Error> {
        Live::with_counters(policy, options, Vec::new(), COUNTERS)
    }

    /// The same where these counters of the policy are free, with so many more.
    pub fn with_counters(
        policy: &Policy,
        options: &Options,
        free: Vec<RuleId>,
        more: u32,
    ) -> Result<Self, compile::Error> {
        Live::planned(policy, options, free, Plan::of(more))
    }

    fn planned(
        policy: &Policy,
        options: &Options,
        free: Vec<RuleId>,
        mut plan: Plan,
    ) -> Result<Self, compile::Error> {
        let compiled = compile_with_room(policy, options, &mut plan)?;
        let capacity = plan.first_rule + plan.rules;
        let mut free_rules = free;
        free_rules.extend((plan.first_rule..capacity).rev().map(RuleId));
        let mut live = Live {
            interfaces: Interfaces::of(policy)?,
            policy: Arc::new(policy.clone()),
            rules: vec![None; capacity as usize],
            lists: Vec::new(),
            places: Vec::new(),
            room: Room::new(plan.room_at, plan.room),
            never_at: plan.never_at,
            free_rules,
            leaving_rules: Vec::new(),
            leaving_positions: Vec::new(),
            off: Vec::new(),
            unneeded: Vec::new(),
            grace: None,
            moves: 0,
            whole: false,
            with_sets: Vec::new(),
            fixed_sets: HashSet::new(),
            image: compiled.image,
        };
        let mut uses = vec![0u32; policy.rule_count as usize];
        for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
            uses[rule.id.0 as usize] += 1;
        }
        for root in std::mem::take(&mut plan.roots) {
            live.adopt(root, &uses);
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
        let policy = Arc::make_mut(&mut live.policy);
        for list in &live.lists {
            policy.chains[list.chain.0 as usize].rules = Vec::new();
        }
        live.fixed_sets = members::named(policy);
        let own = live.rules.iter().flatten();
        let own = own.filter(|rule| members::names_sets(rule));
        live.with_sets = own.map(|rule| rule.id).collect();
        Ok(live)
    }

    /// Takes up a root, unless rules of it share a counter with others.
    fn adopt(&mut self, mut root: RoomyRoot, uses: &[u32]) {
        let rules = &self.policy.chain(root.chain).rules;
        // Skips name rules by number, which change.
        let counts_shift = rules.iter().any(|rule| matches!(rule.flow, Flow::Skip(_)));
        if counts_shift || rules.iter().any(|rule| uses[rule.id.0 as usize] != 1) {
            return;
        }
        let mut at = vec![NONE; self.rules.len()];
        for (rule, start) in rules.iter().zip(&root.starts) {
            at[rule.id.0 as usize] = start.unwrap_or(NONE);
        }
        let number = self.places.len();
        match self.lists.iter_mut().find(|list| list.chain == root.chain) {
            Some(list) => list.roots.push(number),
            None => {
                for rule in rules {
                    self.rules[rule.id.0 as usize] = Some(Arc::new(rule.clone()));
                }
                self.lists.push(List {
                    chain: root.chain,
                    order: rules.iter().map(|rule| rule.id).collect(),
                    roots: vec![number],
                });
            }
        }
        let (mut covers, mut free) = (HashMap::<u32, Vec<u32>>::new(), 0);
        for (position, slot) in root.slots.iter().enumerate() {
            match slot {
                Slot::Covered(_, by) => covers.entry(*by).or_default().push(position as u32),
                Slot::Free => free += 1,
                _ => {}
            }
        }
        let terms = std::mem::take(&mut root.spare.leaves);
        self.places.push(Place {
            leaves: leaves::of(&self.image, root.at, terms),
            root,
            at,
            displaced: BTreeMap::new(),
            cleared: Vec::new(),
            chunks_built: 0,
            covers,
            free,
            taken: 0,
            pays: 0.0,
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

    /// Whether packets of established flows have no lists of their own any more, which a new image
    /// gives them.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Gives up the lists for established flows.
    fn give_up_known(&mut self, store: &mut impl Store) {
        store.whole();
        for place in &mut self.places {
            place.root.known_end = None;
        }
        self.whole = true;
    }

    /// Chunks of bit vectors that changes have built anew: what one costs is what building the
    /// rules in it costs. Other changes of bit vectors write bits, or rows beside those in use.
    pub fn chunks_built(&self) -> usize {
        self.places.iter().map(|place| place.chunks_built).sum()
    }

    /// Counters that rules can have.
    pub fn counters(&self) -> u32 {
        self.rules.len() as u32
    }

    /// The policy as it is now.
    pub fn policy(&self) -> Policy {
        self.shot().policy()
    }

    /// What the policy as it is now is made of.
    fn shot(&self) -> Shot {
        let lists = self.lists.iter();
        let header = header(&self.image);
        let roots = header.roots.iter().zip(&header.shorts).enumerate();
        let shorts = roots.filter(|(_, (own, short))| own != short);
        Shot {
            policy: Arc::clone(&self.policy),
            rules: self.rules.clone(),
            orders: lists.map(|list| (list.chain, list.order.clone())).collect(),
            shorts: shorts.map(|one| one.0).collect(),
        }
    }

    /// Rules of a chain that can change in place, in order.
    pub fn order(&self, chain: ChainId) -> Option<&[RuleId]> {
        let list = self.lists.iter().find(|list| list.chain == chain)?;
        Some(&list.order)
    }

    /// A rule of a chain that can change in place.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0 as usize)?.as_deref()
    }

    fn list(&self, chain: ChainId) -> Result<usize, Rebuild> {
        let found = self.lists.iter().position(|list| list.chain == chain);
        found.ok_or(Rebuild("the chain has no room for changes in place"))
    }

    /// A place, and what it is changed with.
    fn place<'a, S: Store>(
        &'a mut self,
        store: &'a mut S,
        number: usize,
    ) -> (&'a mut Place, Hand<'a, S>) {
        let hand = Hand {
            image: &mut self.image,
            store,
            room: &mut self.room,
            interfaces: &self.interfaces,
        };
        (&mut self.places[number], hand)
    }
}

/// A policy at one moment, cheap to take.
struct Shot {
    policy: Arc<Policy>,
    rules: Vec<Option<Arc<Rule>>>,
    orders: Vec<(ChainId, Vec<RuleId>)>,
    /// Roots, by number, with a list of their own for packets cut short.
    shorts: Vec<usize>,
}

impl Shot {
    fn policy(&self) -> Policy {
        let mut policy = Policy::clone(&self.policy);
        for (chain, order) in &self.orders {
            let rules = order.iter().enumerate().filter_map(|(index, id)| {
                let rule = self.rules[id.0 as usize].as_deref()?.clone();
                let index = index as u32 + 1;
                Some(Rule { index, ..rule })
            });
            policy.chains[chain.0 as usize].rules = rules.collect();
        }
        policy.rule_count = self.rules.len() as u32;
        policy
    }
}

fn header(image: &[u8]) -> Header {
    read(image, 0).expect("an image begins with its header")
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
    fn switch(&self, hand: &mut Hand<'_, impl Store>, position: u32, tests: u32) {
        let at = self.entry(position) + offset_of!(layout::Entry, tests) as u32;
        let ops = u16::from_le_bytes([hand.image[at as usize + 2], hand.image[at as usize + 3]]);
        hand.store32(at, tests | u32::from(ops) << 16);
    }

    /// Lets packets that pass an entry look up anew what is behind it.
    fn let_ask_again(&self, hand: &mut Hand<'_, impl Store>, position: u32) {
        let at = self.entry(position);
        let entry: layout::Entry = read(hand.image, at).expect("positions have entries");
        let flags = entry.flags | layout::FLAG_AGAIN;
        let word = [entry.verdict, flags].map(u32::from);
        hand.store32(at, word[0] | word[1] << 8 | u32::from(entry.reject) << 16);
    }

    /// Whether the list for established flows says what these terms at a position say.
    fn is_known(&self, position: u32, terms: &[Term]) -> bool {
        let services: &Services = &self.root.services;
        let concerns = |term: &Term| known::concerns(services.get(term.service));
        // The rule that ends the list is one of it.
        let within = self.root.known_end.is_some_and(|end| position <= end);
        within && terms.iter().any(concerns)
    }
}
