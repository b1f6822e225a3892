//! The agent's two loops.
//!
//! In: reject events, changes of addresses and interfaces, the clock. Out: answers, the plane's
//! local addresses, classes for packets to wait in on interfaces that came, the policy with new
//! addresses where its rules ask for those of interfaces, the end of a trial.
//! Answers are the first loop's, all else is the second's: reading and compiling a policy again can
//! take a second, and whoever was rejected meanwhile waits for the answer.
//! The agent ends by itself when nothing is enforced any more, when its namespace's name is gone,
//! when another took its place, and on SIGTERM.

use super::announce;
use crate::edit;
use crate::enforce;
use crate::kernel::{Kernel, plane_error};
use crate::netns::{self, Identity};
use crate::state::{Pending, Store, boot_time_ms};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long either loop waits before it looks at everything else.
const TICK: Duration = Duration::from_millis(200);
/// Errors in a row after which it gives up; while it is gone, rejects are silent drops.
const FAILURES_MAX: u32 = 50;
/// Pause after an attempt to end a trial that failed.
const RETRY: Duration = Duration::from_secs(1);
/// How often it looks whether the namespace is still wanted by anybody.
const CENSUS: Duration = Duration::from_secs(5);

/// What the loop that answers has seen: how often addresses or interfaces changed, and the number
/// of the policy in force.
type Seen = (u64, Option<u32>);

/// Runs until there is nothing left to do.
pub fn watch() -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let identity = netns::identity()?;
    let store = Store::of(identity);
    let Some(place) = store.lock_agent()? else {
        return Ok(());
    };
    let mut agent = weir_plane::Agent::open(None).map_err(plane_error)?;
    let home = Home::of(identity);
    edit::start(&store)?;
    announce(&store)?;
    let seen = Mutex::new((agent.changes(), agent.plane().number()));
    std::thread::scope(|scope| {
        // In the namespace of the thread that starts it.
        let chores = scope.spawn(|| {
            let _both = StopsBoth(&stop);
            do_chores(&store, &home, &seen, &stop)
        });
        let served = {
            let _both = StopsBoth(&stop);
            serve(&mut agent, &seen, &stop, || place.is_valid())
        };
        chores.thread().unpark();
        let done = chores.join();
        served.and(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Tells both loops to stop when one ends, also by a panic: neither goes on alone.
struct StopsBoth<'s>(&'s AtomicBool);

impl Drop for StopsBoth<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers until told to stop, or its place is somebody else's.
fn serve(
    agent: &mut weir_plane::Agent,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
    is_ours: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut failures = 0;
    while !stop.load(Ordering::Relaxed) && is_ours() {
        let served = agent.serve(TICK);
        *guard(seen) = (agent.changes(), agent.plane().number());
        match served {
            Ok(true) => failures = 0,
            // Without a policy there are no events to wait for.
            Ok(false) => std::thread::sleep(TICK),
            // A command may just be replacing what the agent looked at.
            Err(_) if failures < FAILURES_MAX => {
                failures += 1;
                std::thread::sleep(TICK);
            }
            Err(error) => return Err(plane_error(error)),
        }
    }
    Ok(())
}

fn guard(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what takes its time, until told to stop or nothing is left to do.
fn do_chores(
    store: &Store,
    home: &Home,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut census, mut kept_up) = (Instant::now(), None);
    while !stop.load(Ordering::Relaxed) {
        let now = *guard(seen);
        if now.1.is_none() && is_over(store)? {
            break;
        }
        if let Err(error) = end_trial_when_due(store) {
            // The trial must end, so it is tried again; agent.log says why it could not.
            eprintln!("weir agent: {error:#}");
            std::thread::sleep(RETRY);
        }
        if kept_up != Some(now) && keep_up(store) {
            kept_up = Some(now);
        }
        if census.elapsed() >= CENSUS {
            census = Instant::now();
            if !home.is_wanted() {
                Kernel::open(None)?.unload()?;
                store.remove_all()?;
                break;
            }
        }
        std::thread::park_timeout(TICK);
    }
    Ok(())
}

fn end_trial_when_due(store: &Store) -> anyhow::Result<()> {
    let is_due = |trial: Pending| trial.is_due(boot_time_ms());
    if store.pending()?.is_some_and(is_due) {
        enforce::end_trial(&mut Kernel::open(None)?, boot_time_ms())?;
    }
    Ok(())
}

/// Gives interfaces that came what packets wait in there, and rules that ask for addresses of
/// interfaces those that are there now. False: somebody is at work, who may not have seen them; it
/// is done later.
fn keep_up(store: &Store) -> bool {
    let Ok(Some(_lock)) = store.try_lock() else {
        return false;
    };
    let done = Kernel::open(None).and_then(|mut kernel| {
        kernel.reshape()?;
        enforce::follow_addresses(&mut kernel)
    });
    match done {
        Ok(None) => {}
        Ok(Some(generation)) => {
            eprintln!("weir agent: addresses of interfaces changed: policy {generation} has them");
        }
        // Rates are kept, and the rules of before enforced, all the same; agent.log says why.
        Err(error) => eprintln!("weir agent: {error:#}"),
    }
    true
}

/// Whether nothing is enforced and nobody is about to change that.
fn is_over(store: &Store) -> anyhow::Result<bool> {
    let Some(_lock) = store.try_lock()? else {
        return Ok(false);
    };
    Ok(Kernel::open(None)?.generation().is_none() && store.pending()?.is_none())
}

/// The namespace that the agent lives in, and by living there keeps alive.
struct Home {
    identity: Identity,
    name: Option<PathBuf>,
    is_first: bool,
}

impl Home {
    fn of(identity: Identity) -> Self {
        Home {
            identity,
            name: netns::name_of(identity),
            is_first: netns::is_first(identity),
        }
    }

    /// Whether anybody but the agent still has the namespace: the machine itself, its name, or
    /// some other process.
    fn is_wanted(&self) -> bool {
        let named = |path: &PathBuf| {
            netns::identity_of(path).is_ok_and(|identity| identity == self.identity)
        };
        self.is_first || self.name.as_ref().is_some_and(named) || self.is_populated()
    }

    fn is_populated(&self) -> bool {
        let me = std::process::id().to_string();
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return true;
        };
        processes
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy() != me.as_str())
            .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
            .any(|entry| {
                netns::identity_of(&entry.path().join("ns/net"))
                    .is_ok_and(|identity| identity == self.identity)
            })
    }
}
