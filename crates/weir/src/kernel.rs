//! The plane of one namespace together with what is remembered about it.
//!
//! In: a namespace's name. Out: the plane's calls with this program's exit codes, and the store
//! with the texts. Opening moves this thread into the namespace, so that what it starts (the agent,
//! iptables-restore) is there too.

use crate::exit::{Exit, failure};
use crate::input::{self, Loaded};
use crate::netns;
use crate::state::{Saved, Store};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_engine::compile::Compiled;
use weir_plane::PlaneError;
use weir_plane::hooks::{self, Early};
use weir_plane::meters::{self, MeterMemory};
use weir_plane::swap::Policy as KernelPolicy;
use weir_plane::{ApplyOptions, GoingOn, Plane};
use weir_policy::dialect::ipfw::shaping;
use weir_policy::model::{Counters, Hook, Root, Shape, Table};

/// How long to wait for the agent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Classes that packets wait in, and what meters remember by their names.
type Shaped = (Option<Shape>, BTreeMap<String, MeterMemory>);

/// What counters begin with, by rule id: nothing for zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts<'a> {
    /// Packets and bytes.
    pub presets: &'a [(u64, u64)],
    /// When rules last matched ([`Plane::times`]).
    pub times: &'a [u32],
    /// What counters of the enforced rules were when those above were made of them.
    pub counted: &'a [(u64, u64)],
    /// The enforced rule that a rule is, and goes on as.
    pub was: &'a [Option<u32>],
}

/// A namespace with, or ready for, a policy.
pub struct Kernel {
    /// The kernel's side.
    pub plane: Plane,
    /// Our memory of it.
    pub store: Store,
    /// Where policies put in force from here on drop early.
    pub early: Option<Early>,
}

/// An error of the plane with the exit code that fits it.
pub fn plane_error(error: PlaneError) -> anyhow::Error {
    let exit = match error {
        PlaneError::Namespace { .. } => Exit::Usage,
        PlaneError::Nothing | PlaneError::NoPrevious => Exit::Negative,
        _ => Exit::Kernel,
    };
    failure(exit, error.to_string())
}

impl Kernel {
    /// Opens the plane of a namespace, `None` for the present one.
    pub fn open(name: Option<&str>) -> anyhow::Result<Self> {
        Kernel::open_by(name, Plane::open)
    }

    /// The same to unload it, also where it is of another version of weir.
    pub fn open_to_unload(name: Option<&str>) -> anyhow::Result<Self> {
        Kernel::open_by(name, Plane::open_to_unload)
    }

    fn open_by(
        name: Option<&str>,
        open: fn(Option<&str>) -> Result<Plane, PlaneError>,
    ) -> anyhow::Result<Self> {
        netns::enter(name)?;
        let plane = open(None).map_err(plane_error)?;
        netns::leave_private_mounts()?;
        Ok(Kernel {
            plane,
            store: Store::of(netns::identity()?),
            early: None,
        })
    }

    /// Looks again at what is enforced, after waiting for somebody.
    pub fn refresh(&mut self) -> anyhow::Result<()> {
        self.plane.refresh().map_err(plane_error)
    }

    /// Policies put in force from here on drop where the one that is enforced does.
    pub fn keep_early(&mut self) {
        let status = self.plane.status().ok();
        self.early = status.and_then(|status| hooks::early(status.hooks));
    }

    /// Whether rules of IPFilter are enforced, and states of such rules live.
    pub fn ipf_states_live(&self) -> anyhow::Result<bool> {
        if self.plane.number().is_none() {
            return Ok(false);
        }
        let hooks = self.plane.status().map_err(plane_error)?.hooks;
        let states = || self.plane.states().map_err(plane_error);
        Ok(hooks & hooks::READS_IPF != 0 && !states()?.is_empty())
    }

    /// The generation that is enforced.
    pub fn generation(&self) -> Option<u32> {
        self.plane.number()
    }

    /// The texts of the policy that is enforced, `None` when nothing is.
    pub fn active_texts(&self) -> anyhow::Result<Option<Saved>> {
        let Some(generation) = self.generation() else {
            return Ok(None);
        };
        match self.store.load(generation)? {
            Some(saved) => Ok(Some(saved)),
            None => {
                let folder = self.store.root().display();
                let message = format!("the texts of policy {generation} are gone from {folder}");
                Err(failure(Exit::Kernel, message))
            }
        }
    }

    /// Puts a compiled policy in force under a generation.
    pub fn swap(
        &mut self,
        loaded: &Loaded,
        compiled: &Compiled,
        generation: u32,
        counts: &Counts<'_>,
    ) -> anyhow::Result<()> {
        let policy = loaded.policy()?;
        let mut kernel_policy = KernelPolicy::of(policy, compiled);
        // Packets that are judged there don't come to the lists at PREROUTING.
        let lists = |root: &Root| (root.hook, root.table) == (Hook::Prerouting, Table::Filter);
        let early = self.early.filter(|_| !policy.roots.iter().any(lists));
        if let Some(early) = early {
            kernel_policy.hooks = hooks::with_early(kernel_policy.hooks, early);
        }
        let before = self.shaped()?;
        let memory = match &before {
            Some((_, memory)) => meters::carried(memory, policy),
            None => Vec::new(),
        };
        let before = before.and_then(|(shape, _)| shape);
        let after = loaded.ruleset.as_ref().and_then(shaping::shape);
        if let Some(shape) = &after {
            self.plane
                .shape(shape, before.as_ref())
                .map_err(plane_error)?;
        }
        let learners: Vec<u32> = policy.learners.iter().map(|one| one.rule.0).collect();
        let options = ApplyOptions {
            number: generation,
            presets: counts.presets,
            times: counts.times,
            going_on: GoingOn {
                counted: counts.counted,
                was: counts.was,
                learners: &learners,
            },
            memory: &memory,
            flows: 0,
        };
        let applied = self.plane.apply(&kernel_policy, options);
        if let (Err(_), Some(_)) = (&applied, &after) {
            if let Some(before) = &before {
                // The error of applying is the one to tell.
                let _ = self.plane.shape(before, None);
            }
            let _ = self.plane.settle(before.as_ref());
        }
        applied.map_err(plane_error)?;
        self.settle(after.as_ref());
        Ok(())
    }

    /// Where packets wait by the policy in force, and what its meters remember; `None` where it has
    /// neither.
    fn shaped(&self) -> anyhow::Result<Option<Shaped>> {
        let Some(saved) = self.generation().map(|one| self.store.load(one)) else {
            return Ok(None);
        };
        let is_shaped = |saved: &Saved| {
            let mut texts = saved.sources.iter();
            texts.any(|text| {
                ["pipe", "queue"]
                    .iter()
                    .any(|word| text.text.contains(word))
            })
        };
        let Some(saved) = saved?.filter(is_shaped) else {
            return Ok(None);
        };
        let loaded = input::load_saved(&saved)?;
        let Some(ruleset) = loaded
            .ruleset
            .as_ref()
            .filter(|set| !set.dummynet.is_empty())
        else {
            return Ok(None);
        };
        let memory = self.plane.meter_memory(loaded.policy()?);
        Ok(Some((
            shaping::shape(ruleset),
            memory.map_err(plane_error)?,
        )))
    }

    /// Gives interfaces that came the classes of the policy in force.
    pub fn reshape(&self) -> anyhow::Result<()> {
        match self.shaped()? {
            Some((Some(shape), _)) => {
                let same = self.plane.shape(&shape, Some(&shape));
                same.map_err(plane_error)
            }
            _ => Ok(()),
        }
    }

    /// Takes away the classes that the policy in force doesn't have. What is left over does
    /// nothing, so an error is told and no more.
    fn settle(&self, shape: Option<&Shape>) {
        if let Err(error) = self.plane.settle(shape) {
            eprintln!("weir: {error}");
        }
    }

    /// Waits until the agent answers for the policy that is now in force, or two seconds: without
    /// answers a reject is a silent drop, which is safe, so the wait may end without them.
    pub fn wait_for_answers(&self) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.plane.status() {
                Ok(status) if !status.answering => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
    }

    /// Returns to an earlier generation: to its image where the kernel still has it, else by way of
    /// its texts.
    pub fn return_to(&mut self, generation: u32) -> anyhow::Result<()> {
        if self
            .plane
            .status()
            .is_ok_and(|status| status.previous == Some(generation))
        {
            let saved = self.store.load(generation)?;
            let loaded = saved.map(|saved| input::load_saved(&saved)).transpose()?;
            let set = loaded.as_ref().and_then(|loaded| loaded.ruleset.as_ref());
            let shape = set.and_then(shaping::shape);
            if let Some(shape) = &shape {
                self.plane.shape(shape, None).map_err(plane_error)?;
            }
            self.plane.flip_back().map_err(plane_error)?;
            self.settle(shape.as_ref());
            return Ok(());
        }
        let saved = self.store.load(generation)?.ok_or_else(|| {
            failure(
                Exit::Kernel,
                format!("the texts of policy {generation} are gone"),
            )
        })?;
        let loaded = input::load_saved(&saved)?;
        let compiled = loaded.compile()?;
        self.swap(&loaded, &compiled, generation, &Counts::default())
    }

    /// Packets and bytes of the enforced policy, by rule id.
    pub fn counted(&self, rules: u32) -> anyhow::Result<Vec<(u64, u64)>> {
        self.plane.counters(rules).map_err(plane_error)
    }

    /// The same as counters.
    pub fn counters(&self, rules: u32) -> anyhow::Result<Vec<Counters>> {
        Ok(self
            .counted(rules)?
            .into_iter()
            .map(|(packets, bytes)| Counters { packets, bytes })
            .collect())
    }

    /// When rules of the enforced policy last matched, by rule id, in the kernel's own units; and
    /// the same in seconds since 1970, to a second or so.
    pub fn times(&self, rules: u32) -> anyhow::Result<(Vec<u32>, Vec<Option<u64>>)> {
        let (times, now_ms) = self.plane.times(rules).map_err(plane_error)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ms = since.map_or(0, |since| since.as_millis() as u64);
        let seconds = |unit: &u32| {
            let ago = now_ms.saturating_sub(u64::from(*unit) << 10);
            (*unit != 0).then(|| wall_ms.saturating_sub(ago) / 1000)
        };
        let told = times.iter().map(seconds).collect();
        Ok((times, told))
    }

    /// Takes everything out of the kernel.
    pub fn unload(&mut self) -> anyhow::Result<bool> {
        let unloaded = self.plane.unload().map_err(plane_error)?;
        self.plane.settle(None).map_err(plane_error)?;
        Ok(unloaded)
    }
}

/// The counters that the files give their rules, by rule id.
pub fn presets(loaded: &Loaded) -> anyhow::Result<Vec<(u64, u64)>> {
    let policy = loaded.policy()?;
    let mut out = vec![(0, 0); policy.rule_count as usize];
    for chain in &policy.chains {
        let rules = chain.rules.iter().map(|rule| (rule.id, rule.preset));
        let end = chain.policy.iter().map(|end| (end.id, end.preset));
        for (id, preset) in rules.chain(end) {
            out[id.0 as usize] = (preset.packets, preset.bytes);
        }
    }
    Ok(out)
}
