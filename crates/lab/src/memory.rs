//! Kernel memory of a loaded filter: what its loading was charged with by the memory controller.
//!
//! In: a program to run. Out: the same program in a control group of its own, and the bytes of
//! kernel memory that the group holds after it ended: rules, sets, tables, eBPF maps, whoever
//! allocated them. ipset's elements are not charged by the kernel and stay invisible. Works with
//! version 1 of the memory controller (`memory.kmem`) and version 2 (`memory.stat`); cgroups(7).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Enters the group named by its first argument and becomes the program that follows.
const ENTER: &str = r#"echo $$ >"$1" && shift && exec "$@""#;

/// A control group that programs are charged to. It is removed with this value; what is still
/// allocated then passes to its parent.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    first_version: bool,
}

impl Group {
    /// Makes a group, when the machine accounts kernel memory.
    ///
    /// # Errors
    /// When there is no memory controller or no permission.
    pub fn new() -> Result<Group> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        let (root, first_version) =
            controller(&mounts).context("no memory controller is mounted")?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{number}", crate::netns::PREFIX, std::process::id());
        let path = Path::new(&root).join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let group = Group {
            path,
            first_version,
        };
        group.kernel_bytes()?;
        Ok(group)
    }

    /// The same program and arguments, started inside the group.
    pub fn command(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "sh"]);
        command.arg(self.path.join("cgroup.procs"));
        command.arg(inner.get_program());
        command.args(inner.get_args());
        command
    }

    /// Bytes of kernel memory that the group is charged with now.
    ///
    /// # Errors
    /// When the figure cannot be read.
    pub fn kernel_bytes(&self) -> Result<u64> {
        let name = if self.first_version {
            "memory.kmem.usage_in_bytes"
        } else {
            "memory.stat"
        };
        let text = fs::read_to_string(self.path.join(name))
            .with_context(|| format!("kernel memory is not accounted ({name})"))?;
        let number = match self.first_version {
            true => Some(text.trim()),
            false => text.lines().find_map(|line| line.strip_prefix("kernel ")),
        };
        let number = number.context("memory.stat does not tell kernel memory")?;
        Ok(number.trim().parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that weir leaves behind would keep the group busy: they move up first.
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        if let Some(parent) = self.path.parent() {
            for pid in members.lines() {
                fs::write(parent.join("cgroup.procs"), pid).ok();
            }
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("weir-lab: {} is left behind: {error}", self.path.display());
        }
    }
}

/// Where the memory controller is, and whether it is of version 1.
fn controller(mounts: &str) -> Option<(String, bool)> {
    let find = |wanted: &dyn Fn(&[&str]) -> bool| {
        let lines = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        lines
            .into_iter()
            .find(|words| words.len() > 3 && wanted(words))
            .map(|w| w[1].to_owned())
    };
    let first = find(&|words| words[2] == "cgroup" && words[3].split(',').any(|o| o == "memory"));
    let second = || {
        let root = find(&|words| words[2] == "cgroup2")?;
        let controllers = fs::read_to_string(Path::new(&root).join("cgroup.controllers")).ok()?;
        controllers
            .split_whitespace()
            .any(|one| one == "memory")
            .then_some(root)
    };
    first
        .map(|root| (root, true))
        .or_else(|| second().map(|root| (root, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_among_mounts() {
        let mounts = "proc /proc proc rw 0 0\n\
             cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
             cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        let found = controller(mounts);
        assert_eq!(found, Some(("/sys/fs/cgroup/memory".to_owned(), true)));
        assert_eq!(controller("proc /proc proc rw 0 0\n"), None);
    }
}
