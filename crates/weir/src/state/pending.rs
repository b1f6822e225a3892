//! The deadline of a policy that waits for `weir confirm`.
//!
//! In: the generation on trial, the one to return to, and until when. Out: the same, for `confirm`,
//! `status` and the agent. Time is the boot clock, which counts through suspension and can't be
//! set.

use super::Store;
use crate::exit::{Exit, OrExit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const FILE: &str = "pending.json";

/// A policy on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Generation on trial.
    pub generation: u32,
    /// The same policy with other addresses of interfaces, while it is put in force.
    #[serde(default)]
    pub renewed: Option<u32>,
    /// Generation whose texts come back; `None`: nothing was enforced before.
    pub previous: Option<u32>,
    /// Boot clock in milliseconds at which the trial ends.
    pub deadline_ms: u64,
}

impl Pending {
    /// Whether a generation is the one on trial.
    pub fn is_of(&self, generation: Option<u32>) -> bool {
        generation.is_some_and(|one| one == self.generation || Some(one) == self.renewed)
    }

    /// Whether the trial is over.
    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.deadline_ms
    }

    /// Whole seconds that are left, rounded up.
    pub fn seconds_left(&self, now_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(now_ms).div_ceil(1000)
    }
}

/// The boot clock in milliseconds.
pub fn boot_time_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

impl Store {
    /// Starts a trial, or ends the one that is on.
    pub fn set_pending(&self, pending: Option<&Pending>) -> anyhow::Result<()> {
        match pending {
            Some(pending) => self.keep(FILE, &serde_json::to_vec(pending)?),
            None => self.forget(FILE),
        }
    }

    /// The trial that is on, if any.
    pub fn pending(&self) -> anyhow::Result<Option<Pending>> {
        match self.kept(FILE)? {
            None => Ok(None),
            Some(text) => serde_json::from_slice(&text).map(Some).or_exit(
                Exit::Kernel,
                format!("{FILE} in {} is damaged", self.root().display()),
            ),
        }
    }
}
