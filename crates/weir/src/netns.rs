//! Network namespaces: entering one by name, and telling which one we are in.
//!
//! In: a name as `ip netns` knows it, or a path. Out: this thread, and what it starts, is in that
//! namespace. Must be called before other threads exist. The identity of a namespace is that of its
//! nsfs inode, which is unique as long as something holds the namespace.

use crate::exit::{Exit, OrExit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where `ip netns add` puts names (ip-netns(8)).
const NAMED: &str = "/run/netns";
/// The present namespace of this thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// Which namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device of the nsfs.
    pub device: u64,
    /// Inode in it.
    pub inode: u64,
}

/// The file behind a namespace's name.
pub fn path_of(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => Path::new(NAMED).join(name),
    }
}

/// Moves this thread into a namespace, when a name is given.
pub fn enter(name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        return Ok(());
    };
    let path = path_of(name);
    let file = File::open(&path).or_exit(
        Exit::Usage,
        format!("no network namespace `{name}` ({})", path.display()),
    )?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).or_exit(
        Exit::Kernel,
        format!("can't enter network namespace `{name}`"),
    )
}

/// Leaves the mount namespace that `ip netns exec` makes for its command, so that the agent, which
/// outlives the command, sees the same files as everybody else. Files named by the user must have
/// been opened before.
pub fn leave_private_mounts() -> anyhow::Result<()> {
    let Some(mounts) = weir_plane::space::first_mounts() else {
        return Ok(());
    };
    // The kernel moves to the root of the other mounts (setns(2)).
    let folder = std::env::current_dir();
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))
        .or_exit(Exit::Kernel, "can't leave the private mount namespace")?;
    if let Ok(folder) = folder {
        // Where it isn't there for everybody, relative paths are refused as not found.
        let _ = std::env::set_current_dir(folder);
    }
    Ok(())
}

/// The namespace of this thread.
pub fn identity() -> anyhow::Result<Identity> {
    identity_of(Path::new(CURRENT)).or_exit(Exit::Kernel, "can't tell the network namespace")
}

/// The namespace behind a file.
pub fn identity_of(path: &Path) -> std::io::Result<Identity> {
    let metadata = std::fs::metadata(path)?;
    Ok(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// The name under which `ip netns` knows a namespace, if any.
pub fn name_of(identity: Identity) -> Option<PathBuf> {
    let entries = std::fs::read_dir(NAMED).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| identity_of(path).is_ok_and(|other| other == identity))
}

/// Whether a namespace is the one that the machine's first process is in.
pub fn is_first(identity: Identity) -> bool {
    identity_of(Path::new("/proc/1/ns/net")).is_ok_and(|first| first == identity)
}
