//! What the program remembers between runs, under `/run/weir`, one folder per network namespace.
//!
//! In: the texts of a policy, the deadline of an unconfirmed one. Out: the same again, for `show`,
//! `counters`, `confirm` and the agent. The kernel is the authority on what is active: texts are
//! kept by the generation number that the kernel also holds, and are on disk before the kernel
//! switches, so a crash between the two leaves nothing wrong. Files appear whole, by rename.

mod journal;
mod pending;
mod saved;

pub use journal::{ChainName, Changed, Journal, Numbers, Step};
pub use pending::{Pending, boot_time_ms};
pub use saved::{Saved, SavedSource};

use crate::exit::{Exit, OrExit};
use crate::netns::Identity;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const RUN: &str = "/run/weir";

/// The folder of one namespace.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// Exclusive use of a store; given back when dropped, or by the kernel when the process dies.
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Whether the lock's file is still there under its name, so that others see the lock.
    pub fn is_valid(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
            _ => false,
        }
    }
}

impl Store {
    /// The store of a namespace.
    pub fn of(namespace: Identity) -> Self {
        let name = format!("net-{}-{}", namespace.device, namespace.inode);
        Store::at(Path::new(RUN).join(name))
    }

    /// A store in a folder.
    pub fn at(root: PathBuf) -> Self {
        Store { root }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folder and waits until nobody else uses it.
    pub fn lock(&self) -> anyhow::Result<Lock> {
        self.lock_file("lock", FlockOperation::LockExclusive)
            .or_exit(Exit::Kernel, format!("can't use {}", self.root.display()))
    }

    /// Uses the store if nobody else does right now.
    pub fn try_lock(&self) -> anyhow::Result<Option<Lock>> {
        self.attempt("lock")
            .or_exit(Exit::Kernel, format!("can't use {}", self.root.display()))
    }

    /// Takes the place of the namespace's agent, unless another process has it.
    pub fn lock_agent(&self) -> anyhow::Result<Option<Lock>> {
        self.attempt("agent.lock")
            .or_exit(Exit::Kernel, "can't become the agent")
    }

    /// Becomes the reader of the packet log, unless another process is.
    pub fn lock_log(&self) -> anyhow::Result<Option<Lock>> {
        self.attempt("log.lock")
            .or_exit(Exit::Kernel, "can't become the reader of the log")
    }

    fn attempt(&self, name: &str) -> std::io::Result<Option<Lock>> {
        match self.lock_file(name, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lock_file(&self, name: &str, operation: FlockOperation) -> std::io::Result<Lock> {
        loop {
            // Rules tell an attacker what is open: only root reads them.
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.root)?;
            let path = self.root.join(name);
            let file = match OpenOptions::new().create(true).append(true).open(&path) {
                // `unload` removed the folder between the two steps.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other?,
            };
            flock(&file, operation)?;
            // The one who held it may have removed it; then the lock is on a file without a name.
            let lock = Lock { file, path };
            if lock.is_valid() {
                return Ok(lock);
            }
        }
    }

    /// Writes a file that is either wholly there or not at all.
    fn write(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        let target = self.root.join(name);
        let fresh = self.root.join(format!("{name}.{}", std::process::id()));
        let mut file = File::create(&fresh)?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&fresh, &target)
    }

    /// A file's content; `None` when it is not there.
    fn read(&self, name: &str) -> std::io::Result<Option<Vec<u8>>> {
        match fs::read(self.root.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> std::io::Result<()> {
        match fs::remove_file(self.root.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps something by name, for example the nat table that was there before ours.
    pub fn keep(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.write(name, content).or_exit(
            Exit::Kernel,
            format!("can't write {name} in {}", self.root.display()),
        )
    }

    /// What was kept under a name.
    pub fn kept(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.read(name).or_exit(
            Exit::Kernel,
            format!("can't read {name} in {}", self.root.display()),
        )
    }

    /// Forgets what was kept under a name.
    pub fn forget(&self, name: &str) -> anyhow::Result<()> {
        self.remove(name).or_exit(
            Exit::Kernel,
            format!("can't remove {name} in {}", self.root.display()),
        )
    }

    /// Forgets everything but locks and the agent; the caller holds the lock.
    pub fn clear_contents(&self) -> anyhow::Result<()> {
        let entries = fs::read_dir(&self.root)
            .or_exit(Exit::Kernel, format!("can't read {}", self.root.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("policy-") {
                let _ = fs::remove_dir_all(entry.path());
            } else if name.starts_with("pending") || name.starts_with("nat-") {
                self.forget(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the whole folder; the caller holds the lock. A lock that others wait for is told to
    /// them as a file without a name, and they start again.
    pub fn remove_all(&self) -> anyhow::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).or_exit(
                Exit::Kernel,
                format!("can't remove {}", self.root.display()),
            ),
            _ => {
                // Only goes when this was the last namespace.
                let _ = fs::remove_dir(RUN);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
