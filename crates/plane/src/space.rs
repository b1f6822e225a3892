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

/// The mount namespace of the first process, when it is another than ours and may be entered.
fn first_mounts() -> Option<OwnedFd> {
    let first = File::open("/proc/1/ns/mnt").ok()?;
    let own = std::fs::metadata("/proc/thread-self/ns/mnt").ok()?;
    let about = first.metadata().ok()?;
    (about.ino() != own.ino()).then(|| first.into())
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
