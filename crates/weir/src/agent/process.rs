//! The agent as a process: started, found, ended.
//!
//! In: the store of a namespace. Out: exactly one agent there, or none. A process is known by its
//! number and its start time, so a number that was given to somebody else is never signalled; that
//! it is alive is told by the lock that it holds.

use crate::exit::{Exit, OrExit, failure};
use crate::state::Store;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RECORD: &str = "agent.json";
/// How long a new agent may take until it answers, and an old one until it is gone.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// An agent that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process number.
    pub pid: i32,
    /// When it started, in clock ticks since boot (proc_pid_stat(5), field 22).
    pub start_time: u64,
}

impl Running {
    /// This process.
    pub fn me() -> anyhow::Result<Self> {
        let pid = std::process::id() as i32;
        let start_time =
            start_time(pid).ok_or_else(|| failure(Exit::Kernel, "can't read /proc/self/stat"))?;
        Ok(Running { pid, start_time })
    }

    /// Whether it is still the process that was recorded.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// Start time of a process that is not a zombie. The command's name may hold blanks and brackets,
/// so fields are counted from the last bracket.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// Records this process as the namespace's agent, ready to work.
pub fn announce(store: &Store) -> anyhow::Result<()> {
    let record = serde_json::to_vec(&Running::me()?)?;
    store.keep(RECORD, &record)
}

/// The namespace's agent, if it runs and is ready.
pub fn running(store: &Store) -> Option<Running> {
    let record = store.kept(RECORD).ok()??;
    let running: Running = serde_json::from_slice(&record).ok()?;
    running.is_alive().then_some(running)
}

/// Starts an agent for this thread's namespace, unless one runs, and waits until it is ready. The
/// caller holds the store's lock, so the folder is there.
pub fn ensure(store: &Store) -> anyhow::Result<Running> {
    if let Some(running) = running(store) {
        return Ok(running);
    }
    // The first process leaves our session and starts the second, which so belongs to nobody.
    let status = Command::new("/proc/self/exe")
        .args(["agent", "--detach"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .or_exit(Exit::Kernel, "can't start the agent")?;
    if !status.success() {
        return Err(failure(Exit::Kernel, "the agent could not be started"));
    }
    wait_for(|| running(store)).ok_or_else(|| {
        let log = store.root().join("agent.log");
        let message = format!("the agent did not become ready; see {}", log.display());
        failure(Exit::Kernel, message)
    })
}

/// Ends the namespace's agent, if one runs, and waits until it is gone.
pub fn stop(store: &Store) -> anyhow::Result<()> {
    let Some(running) = running(store) else {
        return Ok(());
    };
    let pid = Pid::from_raw(running.pid)
        .ok_or_else(|| failure(Exit::Kernel, "the agent's record is damaged"))?;
    // The descriptor holds on to the process, so checking after opening leaves no gap.
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
        && running.is_alive()
    {
        pidfd_send_signal(&process, Signal::TERM).or_exit(Exit::Kernel, "can't end the agent")?;
    }
    wait_for(|| (!running.is_alive()).then_some(())).ok_or_else(|| {
        let message = format!("the agent (process {}) does not end", running.pid);
        failure(Exit::Kernel, message)
    })
}

fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match ready() {
            Some(value) => return Some(value),
            None if start.elapsed() > PATIENCE => return None,
            None => std::thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_and_start() {
        let me = Running::me().unwrap();
        assert!(me.is_alive());
        let other = Running {
            start_time: me.start_time + 1,
            ..me
        };
        assert!(!other.is_alive());
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        // A zombie is not alive, and neither is a number without a process.
        assert!(wait_for(|| start_time(pid).is_none().then_some(())).is_some());
        child.wait().unwrap();
        assert_eq!(start_time(pid), None);
    }

    #[test]
    fn stopping_ends_the_recorded_process_and_no_other() {
        let folder = format!("weir-agent-{}", std::process::id());
        let store = Store::at(std::env::temp_dir().join(folder));
        let _lock = store.lock().unwrap();
        stop(&store).unwrap();
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let pid = child.id() as i32;
        let record = Running {
            pid,
            start_time: start_time(pid).unwrap(),
        };
        let wrong = Running {
            start_time: record.start_time + 1,
            ..record
        };
        store
            .keep(RECORD, &serde_json::to_vec(&wrong).unwrap())
            .unwrap();
        stop(&store).unwrap();
        assert!(
            record.is_alive(),
            "a process with another start time was signalled"
        );
        store
            .keep(RECORD, &serde_json::to_vec(&record).unwrap())
            .unwrap();
        assert_eq!(running(&store), Some(record));
        stop(&store).unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it ended by a signal");
        store.remove_all().unwrap();
    }
}
