//! The network namespace that a plane works in, and the mount namespace that its pins live in.
//!
//! `ip netns exec` gives its command a `/sys` of its own without the BPF file system; pins made
//! there would go away with the command, and enforcement with them. So pins and links are always
//! handled from the mount namespace of the first process, in a thread of their own.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{PlaneError, Result, system};
use crate::sys::namespace;

/// A network namespace, held open.
#[derive(Debug)]
pub struct Space {
    network: OwnedFd,
    mounts: Option<OwnedFd>,
    cookie: u64,
}

/// The file of a namespace: a name of `ip netns`, a process number, or a path.
fn path_of(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if name.bytes().all(|b| b.is_ascii_digit())
        && !Path::new("/run/netns").join(name).exists()
    {
        PathBuf::from(format!("/proc/{name}/ns/net"))
    } else {
        Path::new("/run/netns").join(name)
    }
}

/// The mount namespace of the first process, when it is another than ours. Where that process may
/// not be looked at (in some containers), the topmost ancestor that may be stands in for it: it is
/// from before `ip netns exec`. Who has no such ancestor any more takes that of whoever has a BPF
/// file system.
pub fn first_mounts() -> Option<OwnedFd> {
    let own = std::fs::metadata("/proc/thread-self/ns/mnt").ok()?.ino();
    let is_other = |(inode, _): &(u64, OwnedFd)| *inode != own;
    mounts_of(1)
        .or_else(|| mounts_of_ancestor().filter(is_other))
        .or_else(mounts_of_anybody)
        .filter(is_other)
        .map(|(_, file)| file)
}

/// That of the topmost ancestor that may be looked at.
fn mounts_of_ancestor() -> Option<(u64, OwnedFd)> {
    let mut found = None;
    let mut process = parent_of("self");
    while let Some(number) = process.filter(|number| *number > 0)
        && let Some(mounts) = mounts_of(number)
    {
        found = Some(mounts);
        process = parent_of(&number.to_string());
    }
    found
}

/// Where the own mount namespace has no BPF file system: that of the oldest process which has one.
fn mounts_of_anybody() -> Option<(u64, OwnedFd)> {
    const PINS: &str = "sys/fs/bpf";
    if namespace::is_bpf(&Path::new("/").join(PINS)) {
        return None;
    }
    let named = std::fs::read_dir("/proc").ok()?.flatten();
    let mut processes: Vec<u32> = named
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    processes.sort_unstable();
    let root = |process: &u32| PathBuf::from(format!("/proc/{process}/root"));
    let has_pins = |process: &&u32| namespace::is_bpf(&root(process).join(PINS));
    let mut with_pins = processes.iter().filter(has_pins);
    with_pins.find_map(|one| mounts_of(*one))
}

/// A process's mount namespace, if it may be opened.
fn mounts_of(process: u32) -> Option<(u64, OwnedFd)> {
    let file = File::open(format!("/proc/{process}/ns/mnt")).ok()?;
    let inode = file.metadata().ok()?.ino();
    Some((inode, file.into()))
}

/// The parent of a process; field 4 of proc_pid_stat(5), counted behind the name in brackets.
fn parent_of(process: &str) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..]
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The addresses of the interfaces of a namespace; `None` is the calling thread's.
pub fn interface_addresses(name: Option<&str>) -> Result<Vec<crate::sys::addresses::Address>> {
    let asking = "asking for the addresses of interfaces";
    let ask = || crate::sys::addresses::of_interfaces().map_err(system(asking));
    match name {
        None => ask(),
        Some(name) => Space::open(Some(name))?.enter(ask),
    }
}

impl Space {
    /// Open a namespace by name; `None` is the calling thread's.
    pub fn open(name: Option<&str>) -> Result<Space> {
        let path = name.map_or_else(|| PathBuf::from("/proc/thread-self/ns/net"), path_of);
        let wrap = |source: io::Error| PlaneError::Namespace {
            name: name.unwrap_or("of this process").to_string(),
            source,
        };
        let network: OwnedFd = File::open(&path).map_err(wrap)?.into();
        let mut space = Space {
            network,
            mounts: first_mounts(),
            cookie: 0,
        };
        space.cookie = space.enter(|| {
            namespace::network_cookie().map_err(system("asking for the namespace's number"))
        })?;
        Ok(space)
    }

    /// Number of the namespace, unique until the next boot.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Do something inside, in a thread of its own.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                if let Some(mounts) = &self.mounts {
                    namespace::enter_mount(mounts.as_fd())
                        .map_err(system("entering the first process's mount namespace"))?;
                }
                namespace::enter_network(self.network.as_fd())
                    .map_err(system("entering the network namespace"))?;
                work()
            });
            match inside.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}
