//! The order of steps in which a policy becomes the enforced one, and goes away again.
//!
//! In: a loaded and compiled policy. Out: it is enforced, or everything is as before. Each step may
//! be the last one that this process takes: texts are kept and the trial is written down before the
//! kernel switches, and the kernel's generation tells afterwards which side of the switch we are
//! on.

use crate::agent;
use crate::exit::{Exit, failure};
use crate::input::{self, Answers, Loaded};
use crate::kernel::{self, Counts, Kernel};
use crate::nat::{self, NatTable};
use crate::state::{Pending, Saved, Store, boot_time_ms};
use weir_engine::compile::Compiled;
use weir_policy::model::{Family, Reading};

/// How a policy is put in force.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Seconds until it goes away again unless it is confirmed.
    pub confirm_seconds: Option<u64>,
    /// Nat tables for the kernel.
    pub nat: Vec<NatTable>,
    /// Whether counters start from the file's.
    pub preset_counters: bool,
    /// What counters start from, by rule id; empty for zeros.
    pub counters: Vec<(u64, u64)>,
    /// When rules last matched, by rule id ([`weir_plane::Plane::times`]); empty for never.
    pub times: Vec<u32>,
    /// What counters of the enforced rules were when those above were made of them, by rule id.
    pub counted: Vec<(u64, u64)>,
    /// By rule id: the enforced rule that it is, so that nothing counted meanwhile is lost.
    pub was: Vec<Option<u32>>,
}

impl How {
    /// Rules go on as the enforced ones that they are, with what these have counted.
    pub fn going_on(was: Vec<Option<u32>>, counted: Vec<(u64, u64)>) -> Self {
        let count = |was: &Option<u32>| counted.get((*was)? as usize).copied();
        How {
            counters: was
                .iter()
                .map(|was| count(was).unwrap_or_default())
                .collect(),
            counted,
            was,
            ..How::default()
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Generation that is enforced now.
    pub generation: u32,
    /// Generation that was enforced before.
    pub previous: Option<u32>,
    /// Whether this ended an earlier trial by confirming it.
    pub confirmed_earlier: bool,
}

/// Where the kernel's nat table of before our first hand-over is kept, by family.
fn nat_original(family: Family) -> &'static str {
    match family {
        Family::V4 => "nat-original.v4",
        Family::V6 => "nat-original.v6",
    }
}

/// Where the nat table of before the present trial is kept, by family.
fn nat_previous(family: Family) -> &'static str {
    match family {
        Family::V4 => "nat-previous.v4",
        Family::V6 => "nat-previous.v6",
    }
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// What changes rule by rule is no trial; where one is on, this says so.
pub fn refuse_on_trial(store: &Store) -> anyhow::Result<()> {
    match store.pending()? {
        None => Ok(()),
        Some(_) => {
            let message = "the policy is on trial: `weir confirm` it, or wait until it goes back";
            Err(failure(Exit::Negative, message))
        }
    }
}

/// Puts a policy in force.
pub fn apply(
    kernel: &mut Kernel,
    loaded: &Loaded,
    compiled: &Compiled,
    saved: &Saved,
    how: &How,
) -> anyhow::Result<Done> {
    let _lock = kernel.store.lock()?;
    kernel.refresh()?;
    apply_locked(kernel, loaded, compiled, saved, how)
}

/// The same by somebody who holds the lock of the store and has looked what is in force.
pub fn apply_locked(
    kernel: &mut Kernel,
    loaded: &Loaded,
    compiled: &Compiled,
    saved: &Saved,
    how: &How,
) -> anyhow::Result<Done> {
    let looking = looking_for_states(kernel, loaded, saved)?;
    let (loaded, compiled, saved) = match &looking {
        Some((loaded, compiled, saved)) => (loaded, compiled, saved),
        None => (loaded, compiled, saved),
    };
    let previous = kernel.generation();
    if previous.is_none() {
        // What is there belongs to a namespace that is gone and had the same number.
        kernel.store.clear_contents()?;
    }
    let trial = kernel.store.pending()?;
    let next = previous.map_or(1, |previous| previous + 1);
    // The policy that a new trial returns to is the last one that was confirmed.
    let fallback = match trial {
        Some(trial) if trial.is_of(previous) => trial.previous,
        _ => previous,
    };
    for table in &how.nat {
        table.test()?;
    }
    kernel.store.save(next, saved)?;
    let on_trial = || {
        how.confirm_seconds.map(|seconds| Pending {
            generation: next,
            renewed: None,
            previous: fallback,
            deadline_ms: boot_time_ms() + seconds * 1000,
        })
    };
    if let Some(new) = on_trial() {
        kernel.store.set_pending(Some(&new))?;
        // Somebody must watch the clock before there is anything to return from.
        agent::ensure(&kernel.store)?;
    }
    put_in_force(kernel, (loaded, compiled), next, how, trial.as_ref())?;
    // The seconds count from when the policy is in force.
    kernel.store.set_pending(on_trial().as_ref())?;
    agent::ensure(&kernel.store)?;
    kernel.wait_for_answers();
    kernel.store.prune(&[Some(next), fallback, previous])?;
    Ok(Done {
        generation: next,
        previous,
        confirmed_earlier: trial.is_some() && how.confirm_seconds.is_none(),
    })
}

/// Rules of IPFilter that make no states look for them all the same where some live: what belongs
/// to a state meets no rule, whichever rules are in force.
fn looking_for_states(
    kernel: &Kernel,
    loaded: &Loaded,
    saved: &Saved,
) -> anyhow::Result<Option<(Loaded, Compiled, Saved)>> {
    let policy = loaded.policy()?;
    let makes = policy.reading != Reading::Ipf || !policy.learners.is_empty();
    if makes || !kernel.ipf_states_live()? {
        return Ok(None);
    }
    let mut saved = saved.clone();
    saved.names.states_live = true;
    let loaded = input::load_saved(&saved)?;
    let compiled = loaded.compile()?;
    Ok(Some((loaded, compiled, saved)))
}

/// Where rules ask for addresses of interfaces that are others now: lets the same policy go on with
/// these, under the next generation, with its counters and on trial as long as before. Tells the
/// generation. For somebody who holds the lock of the store.
pub fn follow_addresses(kernel: &mut Kernel) -> anyhow::Result<Option<u32>> {
    kernel.refresh()?;
    let Some(generation) = kernel.generation() else {
        return Ok(None);
    };
    let names = kernel.store.names(generation)?;
    let Some(names) = names.filter(Answers::ask_for_interfaces) else {
        return Ok(None);
    };
    let present = names.as_it_is_now();
    if present == names {
        return Ok(None);
    }
    let Some(mut saved) = kernel.store.load(generation)? else {
        return Ok(None);
    };
    saved.names = present;
    let loaded = input::load_saved(&saved)?;
    let compiled = loaded.compile()?;
    let rules = loaded.policy()?.rule_count;
    let how = How {
        times: kernel.times(rules)?.0,
        ..How::going_on((0..rules).map(Some).collect(), kernel.counted(rules)?)
    };
    let next = generation + 1;
    let trial = kernel.store.pending()?;
    let trial = trial.filter(|trial| trial.is_of(Some(generation)));
    kernel.store.save(next, &saved)?;
    let on_trial = |generation, renewed| {
        trial.map(|trial| Pending {
            generation,
            renewed,
            ..trial
        })
    };
    // Whichever of the two is in force when this process ends is on trial.
    let both = on_trial(generation, Some(next));
    kernel.store.set_pending(both.as_ref())?;
    kernel.keep_early();
    put_in_force(kernel, (&loaded, &compiled), next, &how, trial.as_ref())?;
    kernel.store.set_pending(on_trial(next, None).as_ref())?;
    let fallback = trial.and_then(|trial| trial.previous);
    kernel.store.prune(&[Some(next), fallback])?;
    Ok(Some(next))
}

/// Puts a policy in force whose texts are kept; where that fails, everything is as before. `trial`:
/// that of before.
fn put_in_force(
    kernel: &mut Kernel,
    of: (&Loaded, &Compiled),
    next: u32,
    how: &How,
    trial: Option<&Pending>,
) -> anyhow::Result<()> {
    let previous = kernel.generation();
    exchange(kernel, of, next, how).inspect_err(|_| {
        // The first error is the one to tell; what else goes wrong here leaves an old text behind.
        let _ = take_back(kernel, previous, trial);
    })
}

/// Nat tables, then the policy; without the policy the nat tables of before.
fn exchange(
    kernel: &mut Kernel,
    (loaded, compiled): (&Loaded, &Compiled),
    next: u32,
    how: &How,
) -> anyhow::Result<()> {
    let presets = match how.preset_counters {
        true => kernel::presets(loaded)?,
        false => how.counters.clone(),
    };
    let before = exchange_nat(kernel, &how.nat, how.confirm_seconds.is_some())?;
    let counts = Counts {
        presets: &presets,
        times: &how.times,
        counted: &how.counted,
        was: &how.was,
    };
    let swapped = kernel.swap(loaded, compiled, next, &counts);
    if swapped.is_err() {
        for table in &before {
            // The swap's error is the one to tell.
            let _ = table.load();
        }
    }
    swapped?;
    crate::ipfw::states::forget_gone(kernel, loaded.ruleset.as_ref())
}

/// Makes the store what it was before an apply that failed.
fn take_back(
    kernel: &Kernel,
    previous: Option<u32>,
    trial: Option<&Pending>,
) -> anyhow::Result<()> {
    if previous.is_none() {
        agent::stop(&kernel.store)?;
        return kernel.store.remove_all();
    }
    kernel.store.set_pending(trial)?;
    let fallback = trial.and_then(|trial| trial.previous);
    kernel.store.prune(&[previous, fallback])
}

/// Loads nat tables, all or none, and gives back those that were there.
fn exchange_nat(
    kernel: &Kernel,
    tables: &[NatTable],
    on_trial: bool,
) -> anyhow::Result<Vec<NatTable>> {
    let mut before: Vec<NatTable> = Vec::new();
    for table in tables {
        let present = nat::present(table.family)?;
        let original = nat_original(table.family);
        if kernel.store.kept(original)?.is_none() {
            kernel.store.keep(original, present.text.as_bytes())?;
        }
        if on_trial {
            kernel
                .store
                .keep(nat_previous(table.family), present.text.as_bytes())?;
        }
        if let Err(error) = table.load() {
            for earlier in &before {
                let _ = earlier.load();
            }
            return Err(error);
        }
        before.push(present);
    }
    Ok(before)
}

/// Gives the kernel back nat tables that were kept, and forgets them.
fn return_nat(kernel: &Kernel, kept_as: fn(Family) -> &'static str) -> anyhow::Result<()> {
    for family in FAMILIES {
        if let Some(text) = kernel.store.kept(kept_as(family))? {
            let text = String::from_utf8_lossy(&text).into_owned();
            NatTable { family, text }.load()?;
            kernel.store.forget(kept_as(family))?;
        }
    }
    Ok(())
}

/// Keeps the policy that is on trial. `None` when there is no trial.
pub fn confirm(kernel: &mut Kernel) -> anyhow::Result<Option<u32>> {
    let _lock = kernel.store.lock()?;
    kernel.refresh()?;
    let Some(trial) = kernel.store.pending()? else {
        return Ok(None);
    };
    let generation = kernel.generation();
    let Some(generation) = generation.filter(|_| trial.is_of(generation)) else {
        // The process that applied it died before the switch: the old policy is in force.
        kernel.store.set_pending(None)?;
        return Ok(None);
    };
    kernel.store.set_pending(None)?;
    for family in FAMILIES {
        kernel.store.forget(nat_previous(family))?;
    }
    kernel.store.prune(&[Some(generation)])?;
    Ok(Some(generation))
}

/// Ends a trial whose time is over. Tells whether it did; while somebody else is at work, it waits
/// for the next time.
pub fn end_trial(kernel: &mut Kernel, now_ms: u64) -> anyhow::Result<bool> {
    if kernel.store.pending()?.is_none() {
        return Ok(false);
    }
    let Some(_lock) = kernel.store.try_lock()? else {
        return Ok(false);
    };
    kernel.refresh()?;
    let Some(trial) = kernel.store.pending()?.filter(|trial| trial.is_due(now_ms)) else {
        return Ok(false);
    };
    let mut nat = Ok(());
    if trial.is_of(kernel.generation()) {
        match trial.previous {
            Some(previous) => kernel.return_to(previous)?,
            None => {
                kernel.unload()?;
            }
        }
        // The policy goes back even where the nat table can't.
        nat = return_nat(kernel, nat_previous);
    }
    kernel.store.set_pending(None)?;
    nat.map(|()| true)
}

/// Stops enforcing. Tells whether anything was enforced.
pub fn unload(kernel: &mut Kernel) -> anyhow::Result<bool> {
    let _lock = kernel.store.lock()?;
    let enforced = kernel.unload()?;
    agent::stop(&kernel.store)?;
    return_nat(kernel, nat_original)?;
    kernel.store.remove_all()?;
    Ok(enforced)
}

/// The error when a command needs a policy and there is none.
pub fn nothing_enforced() -> anyhow::Error {
    failure(Exit::Negative, "no policy is enforced here")
}
