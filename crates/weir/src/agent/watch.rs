//! The agent's loop.
//!
//! In: reject events, address changes, the clock. Out: answers, the plane's local addresses, the end
//! of a trial. It ends by itself when nothing is enforced any more, when its namespace's name is
//! gone, when another took its place, and on SIGTERM.

use super::announce;
use crate::enforce;
use crate::kernel::Kernel;
use crate::netns::{self, Identity};
use crate::state::{Lock, boot_time_ms};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the loop waits for events before it looks at everything else.
const TICK: Duration = Duration::from_millis(200);
/// How often it looks whether the namespace is still wanted by anybody.
const CENSUS: Duration = Duration::from_secs(5);

/// Runs until there is nothing left to do.
pub fn watch() -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut kernel = Kernel::open(None)?;
    let Some(place) = kernel.store.lock_agent()? else {
        return Ok(());
    };
    let home = Home::of(netns::identity()?);
    announce(&kernel.store)?;
    let mut census = Instant::now();
    while !stop.load(Ordering::Relaxed) && place.is_valid() {
        if !kernel.serve(TICK) && is_over(&kernel, &place)? {
            break;
        }
        enforce::end_trial(&mut kernel, boot_time_ms())?;
        if census.elapsed() >= CENSUS {
            census = Instant::now();
            if !home.is_wanted() {
                kernel.unload()?;
                kernel.store.remove_all()?;
                break;
            }
        }
    }
    Ok(())
}

/// Whether nothing is enforced and nobody is about to change that.
fn is_over(kernel: &Kernel, place: &Lock) -> anyhow::Result<bool> {
    if !place.is_valid() {
        return Ok(true);
    }
    let Some(_lock) = kernel.store.try_lock()? else {
        return Ok(false);
    };
    Ok(kernel.generation().is_none() && kernel.store.pending()?.is_none())
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
