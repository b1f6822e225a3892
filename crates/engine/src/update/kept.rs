//! A policy in use that stays quick: changes in place, and a new image when they can't be or when
//! they have cost too much.
//!
//! In: changes, one after the other, and a [`Home`], which is where images are put and used. Out:
//! packets that meet each change. A change that can't be made in place waits for an image with it.
//! Building for other reasons goes on in a thread of its own ([`super::renewal`]): changes made
//! meanwhile are made in the new image too, and then packets are let to it by one store.

use super::renewal::{Logged, Lost, Renewal};
use super::{COUNTERS, Live, Rebuild, Shot, Store};
use crate::compile::room::Plan;
use crate::compile::{self, Options};
use weir_policy::model::{ChainId, NamedSet, Policy, Rule, RuleId, SetId};

/// Where images are put, and used.
pub trait Home: Clone + Send + 'static {
    /// An image there.
    type Store: Store + Send + 'static;

    /// Puts an image where no packet goes yet.
    fn prepare(&self, image: &[u8], counters: u32) -> Result<Self::Store, String>;

    /// Lets packets go to an image that was put there; rules keep what they have counted.
    fn switch(&self, to: &mut Self::Store) -> Result<(), String>;

    /// Called in a thread that builds in the background, which may give way to others.
    fn give_way(&self) {}
}

/// Images that nobody else reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Home for Here {
    type Store = Vec<u8>;

    fn prepare(&self, image: &[u8], _: u32) -> Result<Vec<u8>, String> {
        Ok(image.to_vec())
    }

    fn switch(&self, _: &mut Vec<u8>) -> Result<(), String> {
        Ok(())
    }
}

/// A change of one rule, or of the members of a set. Numbers of rules count from 0.
#[derive(Clone, Debug)]
pub enum Change {
    /// In front of the rule with a number, or behind the last.
    Insert(ChainId, usize, Rule),
    /// The rule with a number goes.
    Delete(ChainId, usize),
    /// The rule with a number gives way to another.
    Replace(ChainId, usize, Rule),
    /// A set has other members.
    Members(SetId, NamedSet),
}

impl Change {
    /// Makes it in an image. The counter of a rule that comes.
    pub(super) fn make(
        &self,
        live: &mut Live,
        store: &mut impl Store,
        id: Option<RuleId>,
    ) -> Result<Option<RuleId>, Rebuild> {
        match self {
            Change::Insert(chain, index, rule) => {
                live.insert_as(store, *chain, *index, rule, id).map(Some)
            }
            Change::Delete(chain, index) => live.delete(store, *chain, *index).map(|_| None),
            Change::Replace(chain, index, rule) => {
                live.replace_as(store, *chain, *index, rule, id).map(Some)
            }
            Change::Members(set, members) => live.set_members(store, *set, members).map(|()| None),
        }
    }

    /// Whether a rule comes, which has a counter.
    fn brings_rule(&self) -> bool {
        matches!(self, Change::Insert(..) | Change::Replace(..))
    }

    /// The counter of the rule of a policy that goes.
    fn gone(&self, policy: &Policy) -> Option<RuleId> {
        match self {
            Change::Insert(..) | Change::Members(..) => None,
            Change::Delete(chain, index) | Change::Replace(chain, index, _) => {
                let rules = &policy.chains.get(chain.0 as usize)?.rules;
                rules.get(*index).map(|rule| rule.id)
            }
        }
    }

    /// Makes it in a policy, with this counter for a rule that comes. False: there is no rule with
    /// that number.
    fn make_in(&self, policy: &mut Policy, id: Option<RuleId>) -> bool {
        let (chain, index) = match self {
            Change::Insert(chain, index, _)
            | Change::Delete(chain, index)
            | Change::Replace(chain, index, _) => (chain, index),
            Change::Members(set, members) => {
                let set = policy.sets.get_mut(set.0 as usize);
                return set.map(|set| set.clone_from(members)).is_some();
            }
        };
        let Some(chain) = policy.chains.get_mut(chain.0 as usize) else {
            return false;
        };
        let rules = &mut chain.rules;
        let is_there = *index < rules.len() + usize::from(matches!(self, Change::Insert(..)));
        if is_there {
            match self {
                Change::Insert(_, index, rule) => rules.insert(*index, rule.clone()),
                Change::Delete(_, index) => drop(rules.remove(*index)),
                Change::Replace(_, index, rule) => rules[*index] = rule.clone(),
                Change::Members(..) => {}
            }
            if let Some(id) = id {
                rules[*index].id = id;
            }
            for (at, rule) in rules.iter_mut().enumerate() {
                rule.index = at as u32 + 1;
            }
        }
        is_there
    }
}

/// What became of a change: packets meet it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The counter of the rule that came.
    pub id: Option<RuleId>,
    /// Why it took a new image; `None`: it was made in place.
    pub rebuilt: Option<Rebuild>,
}

/// Why a change was not made; everything is as before.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no rule with that number, or no such set.
    #[error("there is no such rule or set")]
    NoRule,
    /// The changed policy can't be compiled.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The new image can't be used.
    #[error("{0}")]
    Home(String),
}

/// Changes after which a renewal that failed is tried again.
const RETRY: usize = 1024;
/// How often one begins anew at once where a change can't be made in the new image alone: it was
/// built without what a rule needs that came meanwhile, and now that rule is there.
const AGAIN: usize = 2;

/// A policy in use.
pub struct Kept<H: Home> {
    live: Live,
    store: H::Store,
    home: H,
    options: Options,
    renewal: Option<Renewal<H>>,
    /// Images that took the place of worn ones.
    renewals: usize,
    /// Changes until a renewal may begin.
    rest: usize,
    /// How often in a row one began anew.
    again: usize,
}

impl<H: Home> Kept<H> {
    /// Builds an image with room for a policy and lets packets go to it.
    pub fn new(policy: &Policy, options: &Options, home: H) -> Result<Self, Failure> {
        let live = Live::new(policy, options)?;
        let mut store = home
            .prepare(live.image(), live.counters())
            .map_err(Failure::Home)?;
        home.switch(&mut store).map_err(Failure::Home)?;
        Ok(Kept::adopt(live, store, options, home))
    }

    /// An image that packets go to already.
    pub fn adopt(live: Live, store: H::Store, options: &Options, home: H) -> Self {
        Kept {
            live,
            store,
            home,
            options: *options,
            renewal: None,
            renewals: 0,
            rest: 0,
            again: 0,
        }
    }

    /// The policy and its image.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Where the image is used.
    pub fn store(&self) -> &H::Store {
        &self.store
    }

    /// How many worn images were replaced.
    pub fn renewals(&self) -> usize {
        self.renewals
    }

    /// A counter for the rule that comes next.
    pub fn next_counter(&self) -> RuleId {
        let live = &self.live;
        let free = live.free_rules.last().or(live.leaving_rules.last());
        free.copied().unwrap_or(RuleId(live.counters()))
    }

    /// Makes a change. When this returns, packets meet it, or nothing has changed.
    pub fn change(&mut self, change: &Change) -> Result<Done, Failure> {
        self.change_as(change, None)
    }

    /// The same with this counter for a rule that comes: that of [`Kept::next_counter`].
    pub fn change_as(&mut self, change: &Change, id: Option<RuleId>) -> Result<Done, Failure> {
        self.take_up()?;
        match change.make(&mut self.live, &mut self.store, id) {
            Ok(id) => {
                if let Some(renewal) = &self.renewal {
                    let change = change.clone();
                    renewal.note(Logged { change, id });
                }
                self.begin_when_worn();
                Ok(Done { id, rebuilt: None })
            }
            Err(why) => self.rebuild(change, why, id),
        }
    }

    /// Begins to build anew when it is time.
    fn begin_when_worn(&mut self) {
        self.rest = self.rest.saturating_sub(1);
        if self.rest == 0 && self.live.is_worn() {
            self.renew();
        }
    }

    /// Begins to build anew in the background, unless that has begun.
    pub fn renew(&mut self) {
        if self.renewal.is_none() {
            let (shot, free) = (self.live.shot(), self.live.unused());
            self.renewal = Some(Renewal::begin(shot, free, self.options, self.home.clone()));
        }
    }

    /// Lets packets go to an image that was built in the background, if there is one.
    pub fn take_up(&mut self) -> Result<(), Failure> {
        if let Some(renewal) = self.renewal.take_if(|renewal| renewal.is_over()) {
            match renewal.end() {
                Ok((live, mut store)) => {
                    self.home.switch(&mut store).map_err(Failure::Home)?;
                    (self.live, self.store) = (live, store);
                    self.renewals += 1;
                    self.again = 0;
                }
                // What is in use stays in use, and goes on as it is.
                Err(Lost::Change) if self.again < AGAIN => {
                    self.again += 1;
                    self.renew();
                }
                Err(_) => (self.rest, self.again) = (RETRY, 0),
            }
        }
        Ok(())
    }

    /// Whether there is an image to take up.
    pub fn has_built(&self) -> bool {
        self.renewal.as_ref().is_some_and(Renewal::is_over)
    }

    /// Waits until nothing is built in the background.
    pub fn finish(&mut self) -> Result<(), Failure> {
        while self.renewal.is_some() {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.take_up()?;
        }
        self.tidy();
        Ok(())
    }

    /// Does what has time and was left by changes ([`Live::is_untidy`]).
    pub fn tidy(&mut self) {
        self.live.tidy(&mut self.store);
    }

    /// Builds an image with a change.
    fn rebuild(
        &mut self,
        change: &Change,
        why: Rebuild,
        id: Option<RuleId>,
    ) -> Result<Done, Failure> {
        // What is being built lacks the change.
        self.renewal = None;
        let mut policy = self.live.policy();
        let mut free = self.live.unused();
        let id = match change.brings_rule() {
            false => None,
            true => {
                let known = id.and_then(|id| free.iter().rposition(|free| *free == id));
                let known = known.map(|at| free.swap_remove(at)).or_else(|| free.pop());
                Some(known.unwrap_or_else(|| {
                    policy.rule_count += 1;
                    RuleId(policy.rule_count - 1)
                }))
            }
        };
        let gone = change.gone(&policy);
        if !change.make_in(&mut policy, id) {
            return Err(Failure::NoRule);
        }
        free.extend(gone);
        let more = counters_for(&free);
        let live = Live::with_counters(&policy, &self.options, free, more)?;
        if let Some(id) = id.filter(|id| id.0 < self.live.counters()) {
            // What an earlier rule has counted there is not carried over.
            if self.live.leaving_rules.contains(&id) {
                self.store.wait();
            }
            self.store.zero(id);
        }
        let prepared = self.home.prepare(live.image(), live.counters());
        let mut store = prepared.map_err(Failure::Home)?;
        self.home.switch(&mut store).map_err(Failure::Home)?;
        (self.live, self.store) = (live, store);
        Ok(Done {
            id,
            rebuilt: Some(why),
        })
    }
}

/// How many counters a new image gets beyond those that are free.
pub(super) fn counters_for(free: &[RuleId]) -> u32 {
    if free.len() < COUNTERS as usize / 2 {
        COUNTERS
    } else {
        0
    }
}

impl Live {
    /// Counters that a new image may use.
    fn unused(&self) -> Vec<RuleId> {
        let all = self.free_rules.iter().chain(&self.leaving_rules);
        all.copied().collect()
    }
}

impl Shot {
    /// Builds an image with room for it, in which the same rules can be put as in the one in use.
    pub(super) fn build(
        &self,
        options: &Options,
        free: Vec<RuleId>,
    ) -> Result<Live, compile::Error> {
        let mut plan = Plan::of(counters_for(&free));
        plan.shorts.clone_from(&self.shorts);
        Live::planned(&self.policy(), options, free, plan)
    }
}
