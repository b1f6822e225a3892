//! The plane of one network namespace: what commands and the agent use.
//!
//! Every step is safe to be the last one of its process: the policy in force is told by the maps,
//! and the next command removes what was left half done.

use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;

use weir_policy::model;

use crate::abi::{Control, REASONS};
use crate::ahead::Ahead;
use crate::attach;
use crate::counters;
use crate::error::{PlaneError, Result, system};
use crate::features;
use crate::load::{Capacity, Instance, Learning, families, load, tracks};
use crate::locals;
use crate::needs;
use crate::pin::{self, Folder, Pinned};
use crate::space::Space;
use crate::swap::{self, Policy};
use crate::sys::memory::grace_period;
use crate::wayback;
use weir_engine::image::layout::FEATURE_DYNAMIC;

/// The plane of a network namespace.
#[derive(Debug)]
pub struct Plane {
    pub(crate) space: Space,
    pub(crate) current: Option<Pinned>,
    ahead: Option<Ahead>,
}

/// How a policy is put in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplyOptions<'a> {
    /// Number of the policy, for [`Status`]; 0 picks the next one.
    pub number: u32,
    /// Counters to start with, by rule.
    pub presets: &'a [(u64, u64)],
    /// When rules last matched, by rule ([`Plane::times`]).
    pub times: &'a [u32],
    /// Rules that go on with the counters of others.
    pub going_on: GoingOn<'a>,
    /// What histories remember from the start: places in their memory and bytes
    /// ([`crate::meters::carried`]).
    pub memory: &'a [(usize, Vec<u8>)],
    /// Conversations that can be tracked at once; 0 means 262,144. Only used when the programs are
    /// loaded for the first time.
    pub flows: u32,
}

/// Rules that go on with the counters of the policy in force: what these count between the reading
/// that `presets` were made of and the switch is added to theirs.
#[derive(Clone, Copy, Debug, Default)]
pub struct GoingOn<'a> {
    /// That reading, by rule of the policy in force.
    pub counted: &'a [(u64, u64)],
    /// By rule: the one of the policy in force that it is. Empty for none.
    pub was: &'a [Option<u32>],
    /// By learner: its rule. States of rules that go on are theirs.
    pub learners: &'a [u32],
}

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Number of the policy in force now.
    pub number: u32,
    /// Number of the one before.
    pub previous: Option<u32>,
    /// Whether programs were loaded (the first time, or because the policy outgrew the maps).
    pub loaded: bool,
}

/// What is in force.
#[derive(Clone, Debug)]
pub struct Status {
    /// Number of the policy.
    pub number: u32,
    /// Number of the policy that one can return to.
    pub previous: Option<u32>,
    /// Hooks ([`crate::hooks`]).
    pub hooks: u32,
    /// Names of the attached links.
    pub links: Vec<String>,
    /// Sizes of the maps.
    pub capacity: Capacity,
    /// Whether the programs keep flows; without, there is no room for any.
    pub keeps_flows: bool,
    /// Whether an answer process takes rejects.
    pub answering: bool,
    /// Whether TCP states are kept alive; `None` where the policy doesn't want that.
    pub keep_alives: Option<bool>,
    /// Packets by `enum weir_reason`.
    pub reasons: [u64; REASONS],
    /// Counts of the flow table (`flow.h`).
    pub flow_statistics: [u64; 16],
}

const DEFAULT_FLOWS: u32 = 262_144;

impl Plane {
    /// Open the plane of a namespace (`None`: the calling thread's), with the policy that is in
    /// force there. Needs root, changes nothing.
    pub fn open(netns: Option<&str>) -> Result<Plane> {
        features::check()?;
        let space = Space::open(netns)?;
        let current = space.enter(|| Folder::of(space.cookie())?.current())?;
        Ok(Plane {
            space,
            current,
            ahead: None,
        })
    }

    /// Open the plane of a namespace to unload it, also where the programs in force are of another
    /// version, of which nothing else can be asked.
    pub fn open_to_unload(netns: Option<&str>) -> Result<Plane> {
        match Plane::open(netns) {
            Err(PlaneError::Version { .. }) => Ok(Plane {
                space: Space::open(netns)?,
                current: None,
                ahead: None,
            }),
            opened => opened,
        }
    }

    /// Works inside the namespace.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.space.enter(work)
    }

    pub(crate) fn instance(&self) -> Result<&Instance> {
        self.current
            .as_ref()
            .map(|c| &*c.instance)
            .ok_or(PlaneError::Nothing)
    }

    /// Number of the policy in force.
    pub fn number(&self) -> Option<u32> {
        let instance = self.instance().ok()?;
        Some(swap::generation(instance, swap::active(instance))).filter(|n| *n != 0)
    }

    /// Which of the loaded programs and maps are in force: another number, others.
    pub fn instance_number(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.number)
    }

    /// Whether another process has loaded or removed programs since this was opened.
    pub fn is_outdated(&self) -> Result<bool> {
        let newest = self
            .space
            .enter(|| Ok(Folder::of(self.space.cookie())?.newest()))?;
        Ok(newest != self.current.as_ref().map(|c| c.number))
    }

    /// Look again, after another process may have changed something.
    pub fn refresh(&mut self) -> Result<()> {
        self.current = self
            .space
            .enter(|| Folder::of(self.space.cookie())?.current())?;
        Ok(())
    }

    /// Begin to load the programs for a policy that is still to be compiled and applied, where
    /// nothing is in force yet.
    pub fn load_ahead(&mut self, policy: &model::Policy) {
        if self.current.is_none() {
            self.ahead = Ahead::begin(policy, DEFAULT_FLOWS);
        }
    }

    /// Put a policy in force, whole or not at all.
    pub fn apply(&mut self, policy: &Policy<'_>, options: ApplyOptions<'_>) -> Result<Applied> {
        let (space, cookie) = (&self.space, self.space.cookie());
        let (current, hooks) = space.enter(|| {
            let current = Folder::of(cookie)?.sweep()?;
            Ok((current, needs::settle(policy.hooks)))
        })?;
        let policy = &Policy { hooks, ..*policy };
        let previous = current
            .as_ref()
            .map(|c| swap::generation(&c.instance, swap::active(&c.instance)));
        let number = match (options.number, previous) {
            (0, previous) => previous.unwrap_or(0) + 1,
            (number, _) => number,
        };
        let fits = current.as_ref().is_some_and(|c| {
            let room =
                c.instance
                    .capacity()
                    .holds(policy.image.len(), policy.rules, policy.history);
            let features = swap::features(policy.image) | families(policy.hooks);
            room && features & !c.instance.settings.features == 0
                && Learning::of(features).is_done_by(&c.instance)
                && !attach::conflicts(&c.path, policy.hooks)
        });
        let ahead = self.ahead.take();
        let work = || match current {
            Some(current) if fits => replace(current, policy, number, &options),
            current => grow(cookie, (current, ahead), policy, number, &options),
        };
        self.current = Some(space.enter(work)?);
        Ok(Applied {
            number,
            previous,
            loaded: !fits,
        })
    }

    /// Return to the policy before, if it is still there.
    pub fn flip_back(&mut self) -> Result<u32> {
        let current = self
            .space
            .enter(|| Folder::of(self.space.cookie())?.sweep())?;
        let current = current.ok_or(PlaneError::Nothing)?;
        let slot = 1 - swap::active(&current.instance);
        let number = swap::generation(&current.instance, slot);
        if number == 0 {
            return Err(PlaneError::NoPrevious);
        }
        self.space.enter(|| {
            let bits = swap::hooks(&current.instance, slot);
            exchange(&current, bits)
        })?;
        self.current = Some(current);
        Ok(number)
    }

    /// Attach the policy in force to interfaces that are new. Harmless beside another process that
    /// replaces the policy: programs ask the policy in force whether it needs them.
    pub fn take_up_interfaces(&self) -> Result<()> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let bits = swap::hooks(&current.instance, swap::active(&current.instance));
        self.space
            .enter(|| attach::attach_interfaces(&current.instance, &current.path, bits))
    }

    /// Interfaces of the namespace: number and name.
    pub fn interfaces(&self) -> Result<Vec<(u32, String)>> {
        self.space.enter(|| Ok(attach::interfaces()))
    }

    /// What is in force.
    pub fn status(&self) -> Result<Status> {
        let current = self.current.as_ref().ok_or(PlaneError::Nothing)?;
        let instance = &current.instance;
        let slot = swap::active(instance);
        let control = instance.control();
        let previous = swap::generation(instance, 1 - slot);
        let words = |offset: usize, at: usize| control.load64(offset + at * 8);
        Ok(Status {
            number: swap::generation(instance, slot),
            previous: (previous != 0).then_some(previous),
            hooks: swap::hooks(instance, slot),
            links: self.space.enter(|| Ok(pin::links(&current.path)))?,
            capacity: instance.capacity(),
            keeps_flows: tracks(instance.settings.features),
            answering: control.load32(offset_of!(Control, answering)) != 0,
            keep_alives: swap::keeps_alive(instance)
                .then(|| control.load32(offset_of!(Control, own_mark)) != 0),
            reasons: swap::reasons(instance),
            flow_statistics: std::array::from_fn(|i| {
                words(offset_of!(Control, flow_statistics), i)
            }),
        })
    }

    /// Packets and bytes of the first `rules` rules of the policy in force.
    pub fn counters(&self, rules: u32) -> Result<Vec<(u64, u64)>> {
        let instance = self.instance()?;
        let rules = rules.min(instance.capacity().rules);
        Ok(counters::read(instance, swap::active(instance), rules))
    }

    /// When the first `rules` rules of the policy in force last matched, in units of 1024 ms of the
    /// packet clock, 0 for never; and what that clock says in milliseconds. Zeros for policies that
    /// don't ask for it.
    pub fn times(&self, rules: u32) -> Result<(Vec<u32>, u64)> {
        let instance = self.instance()?;
        let rules = rules.min(instance.capacity().rules);
        let times = counters::times(instance, swap::active(instance), rules);
        Ok((times, crate::clock::now_ms(instance)?))
    }

    /// Remove everything. Tells whether there was anything.
    pub fn unload(&mut self) -> Result<bool> {
        let enabled = self
            .current
            .take()
            .map_or(0, |current| wayback::enabled(&current.instance));
        self.space.enter(|| {
            let existed = Folder::of(self.space.cookie())?.clear()?;
            wayback::disable(enabled)?;
            Ok(existed)
        })
    }
}

/// Replace the policy within the loaded instance.
fn replace(
    current: Pinned,
    policy: &Policy<'_>,
    number: u32,
    options: &ApplyOptions<'_>,
) -> Result<Pinned> {
    let slot = swap::write_spare(&current.instance, policy, number)?;
    counters::preset(&current.instance, slot, options.presets);
    counters::preset_times(&current.instance, slot, options.times);
    crate::tally::begin(&current.instance, slot, policy, options.presets);
    crate::meters::preset(&current.instance, slot, options.memory);
    locals::write(&current.instance, &locals::read()?);
    exchange(&current, policy.hooks)?;
    if !options.going_on.was.is_empty() {
        grace_period().map_err(system("waiting for running programs to end"))?;
        let instance = &current.instance;
        let missed = counters::missed((instance, 1 - slot), options.going_on);
        counters::add(instance, slot, &missed);
        let old = swap::generation(instance, 1 - slot);
        crate::learned::go_on(instance, old, options.going_on);
    }
    Ok(current)
}

/// Attach what the policy in the spare slot needs, switch to it, detach what only the other needed.
fn exchange(current: &Pinned, bits: u32) -> Result<()> {
    let (instance, path) = (&current.instance, &current.path);
    attach::attach(instance, current.number, path, bits)?;
    attach::attach_interfaces(instance, path, bits)?;
    swap::flip(instance);
    attach::detach_others(path, bits)?;
    attach::detach_interfaces(path, bits)
}

/// Load an instance that has room, let it judge beside the old one, remove the old one.
fn grow(
    cookie: u64,
    (old, ahead): (Option<Pinned>, Option<Ahead>),
    policy: &Policy<'_>,
    number: u32,
    options: &ApplyOptions<'_>,
) -> Result<Pinned> {
    let folder = Folder::of(cookie)?;
    let flows = if options.flows == 0 {
        DEFAULT_FLOWS
    } else {
        options.flows
    };
    let mut capacity =
        Capacity::for_policy(policy.image.len(), policy.rules, policy.history, flows)?;
    let mut features = swap::features(policy.image) | families(policy.hooks);
    if let Some(old) = &old {
        features |= old.instance.settings.features;
        if Learning::of(swap::features(policy.image)) == Learning::Ipf {
            features &= !FEATURE_DYNAMIC;
        }
        capacity = capacity.at_least(old.instance.capacity());
        if !tracks(old.instance.settings.features) {
            capacity.flows = flows;
        }
    }
    let ahead = ahead.filter(|_| old.is_none());
    let loaded = ahead.and_then(|ahead| ahead.take(policy, flows, features));
    let instance = match loaded {
        Some(instance) => instance,
        None => load(
            capacity,
            false,
            features,
            old.as_ref().map(|old| &*old.instance),
        )?,
    };
    if let Some(old) = &old {
        swap::carry_over(&old.instance, &instance);
    }
    let slot = swap::write_spare(&instance, policy, number)?;
    counters::preset(&instance, slot, options.presets);
    counters::preset_times(&instance, slot, options.times);
    crate::tally::begin(&instance, slot, policy, options.presets);
    crate::meters::preset(&instance, slot, options.memory);
    locals::write(&instance, &locals::read()?);
    let (instance_number, built) = folder.build(&instance)?;
    // Everything is attached while the active slot is empty, which accepts; then one store puts
    // the policy in force.
    let attached = attach::attach(&instance, instance_number, &built, policy.hooks)
        .and_then(|()| attach::attach_interfaces(&instance, &built, policy.hooks));
    if let Err(error) = attached {
        discard(&built);
        return Err(error);
    }
    let path = folder.finish(instance_number, &built)?;
    if let Some(old) = &old {
        // From here on packets are counted in the new one.
        let from = (&*old.instance, swap::active(&old.instance));
        counters::add(&instance, slot, &counters::missed(from, options.going_on));
    }
    swap::flip(&instance);
    if let Some(old) = old {
        let number = swap::generation(&old.instance, swap::active(&old.instance));
        swap::keep_previous(&old.instance, &instance)?;
        pin::remove(&old.path)?;
        crate::learned::go_on(&instance, number, options.going_on);
    }
    Ok(Pinned {
        number: instance_number,
        path,
        instance: Arc::new(instance),
    })
}

/// Remove a half-built instance; the error that led here is the one to tell.
fn discard(path: &Path) {
    let _ = pin::remove(path);
}
