//! Interleaved rounds: every lane once per round, in changing order, differences inside a round.
//!
//! In: loaded namespaces, an injector, limits. Out: CPU nanoseconds per packet, lane by lane and
//! round by round. A lane that is slow gets fewer packets (a bounded time per turn), never fewer
//! rounds. A lane that does not deliver every packet it was given fails the measurement.

use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::contender::Loaded;
use crate::inject::{Fate, Injector, delivered};
use crate::interrupt;
use crate::sys;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rounds in which every lane is measured once.
    pub rounds: usize,
    /// Packets per lane and round, at most.
    pub packets: u32,
    /// CPU time per lane and round, at most (roughly).
    pub turn: Duration,
}

impl Limits {
    /// The usual amount. Many short turns beat few long ones: identical lanes then agree within
    /// some 3 ns instead of 10 on a busy machine.
    pub const STANDARD: Limits = Limits {
        rounds: 15,
        packets: 65_536,
        turn: Duration::from_millis(60),
    };
    /// For a first look.
    pub const QUICK: Limits = Limits {
        rounds: 3,
        packets: 40_000,
        turn: Duration::from_millis(40),
    };
    /// Fewest packets that a turn consists of.
    const PACKETS_MIN: u32 = 64;
}

/// Packets before a timed turn, to bring the lane's data into the caches, as a share of the turn.
const LEAD_IN_SHARE: u32 = 8;

/// What a lane is.
pub enum Lane<'a> {
    /// A loaded namespace; frames go up its stack.
    Path(&'a Loaded),
    /// The same frames dropped by the injector: what injection itself costs.
    Floor(&'a Loaded),
}

impl Lane<'_> {
    fn parts(&self) -> (&Loaded, Fate) {
        match self {
            Lane::Path(loaded) => (loaded, Fate::Pass),
            Lane::Floor(loaded) => (loaded, Fate::Drop),
        }
    }
}

/// Keeps the thread on one CPU under real-time scheduling, in turns; returns it as it was.
pub struct Pinned {
    /// The CPU that the thread is on.
    pub cpu: usize,
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to the last CPU it may run on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn to_last_cpu() -> Result<Pinned> {
        let before = sched_getaffinity(None)?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| before.is_set(cpu));
        let cpu = last.unwrap_or(0);
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only)?;
        Ok(Pinned { cpu, before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        sys::set_real_time(false).ok();
        sched_setaffinity(None, &self.before).ok();
    }
}

/// Measures all lanes; the result has one vector of rounds per lane, in nanoseconds per packet.
///
/// # Errors
/// When packets are lost, a signal came, or the kernel refuses.
pub fn rounds(lanes: &[Lane], injector: &mut Injector, limits: Limits) -> Result<Vec<Vec<f64>>> {
    let _pinned = Pinned::to_last_cpu()?;
    let counts: Vec<u32> = lanes
        .iter()
        .map(|lane| calibrate(lane, injector, limits))
        .collect::<Result<_>>()?;
    let mut results = vec![Vec::with_capacity(limits.rounds); lanes.len()];
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    // The order changes from round to round so that no lane always follows the same neighbour.
    let mut random = fastrand::Rng::with_seed(lanes.len() as u64);
    for _ in 0..limits.rounds {
        random.shuffle(&mut order);
        for &lane in &order {
            interrupt::check()?;
            let count = counts[lane];
            turn(&lanes[lane], injector, (count / LEAD_IN_SHARE).max(1))?;
            let time = turn(&lanes[lane], injector, count)?;
            results[lane].push(time.as_nanos() as f64 / f64::from(count));
        }
    }
    Ok(results)
}

/// How many packets of this lane fit into a turn.
fn calibrate(lane: &Lane, injector: &mut Injector, limits: Limits) -> Result<u32> {
    let mut count = Limits::PACKETS_MIN;
    loop {
        interrupt::check()?;
        let time = turn(lane, injector, count)?;
        let fitting = limits.turn.as_secs_f64() / (time.as_secs_f64() / f64::from(count));
        let fitting = fitting.min(f64::from(limits.packets)) as u32;
        // The first packets pay for setting up a run, so small counts look dearer than they are.
        if count >= 4_096 || fitting <= count * 4 {
            return Ok(fitting.clamp(Limits::PACKETS_MIN, limits.packets));
        }
        count *= 8;
    }
}

/// One run; fails unless every packet came out behind the filter.
fn turn(lane: &Lane, injector: &mut Injector, count: u32) -> Result<Duration> {
    let (loaded, fate) = lane.parts();
    let before = delivered(&loaded.namespace)?;
    sys::set_real_time(true)?;
    let time = injector.run(&loaded.namespace, count, fate);
    sys::set_real_time(false)?;
    let time = time?;
    let arrived = delivered(&loaded.namespace)? - before;
    let expected = if fate == Fate::Pass {
        u64::from(count)
    } else {
        0
    };
    ensure!(
        arrived == expected,
        "{}: {arrived} of {expected} packets arrived behind the filter: a wrong verdict or a loss",
        loaded.contender
    );
    Ok(time)
}
