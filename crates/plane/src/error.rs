//! What can go wrong between a compiled policy and the kernel, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// An error of the kernel plane.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// Not root.
    #[error(
        "this needs root (or CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_NET_RAW): run it with sudo"
    )]
    Privilege,
    /// The kernel lacks something.
    #[error("this kernel cannot enforce policies: {0}")]
    Kernel(String),
    /// The programs were refused.
    #[error("the kernel refused weir's programs: {message}\n{log}")]
    Load {
        /// What was tried.
        message: String,
        /// The end of the verifier's log.
        log: String,
    },
    /// No such network namespace.
    #[error(
        "network namespace `{name}` cannot be opened ({source}); `ip netns list` shows the names"
    )]
    Namespace {
        /// As given.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A file or pin could not be used.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A hook could not be attached.
    #[error("attaching to {hook} failed: {source}")]
    Attach {
        /// Which.
        hook: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody's queueing discipline is where ours would be.
    #[error(
        "{interface} has a queueing discipline of its own ({what}), and weir replaces none: `tc qdisc \
         del dev {interface} root`, or name other interfaces with `xmit` in the rules with pipes"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// What is there.
        what: String,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The image asks for what the programs do not have.
    #[error(
        "the policy needs tests that the kernel programs of this version do not have (histories or fields of flows)"
    )]
    Unsupported,
    /// The policy does not fit.
    #[error(
        "the policy needs {needed} bytes of {what}, and {limit} are the most that fit; make it smaller, or raise the budget"
    )]
    Budget {
        /// What is too large.
        what: &'static str,
        /// Bytes.
        needed: u64,
        /// Bytes.
        limit: u64,
    },
    /// There is no policy to work with.
    #[error("no policy is enforced here; `weir apply FILE` loads one")]
    Nothing,
    /// There is no previous policy to go back to.
    #[error("there is no previous policy to return to")]
    NoPrevious,
    /// Somebody else is at it.
    #[error("another weir command is working on this namespace ({0}); try again when it is done")]
    Busy(String),
    /// Pins of another version of weir.
    #[error(
        "the running programs are of another version of weir (abi {found}, this one has {wanted}); `weir unload` and apply again"
    )]
    Version {
        /// In the kernel.
        found: u32,
        /// Ours.
        wanted: u32,
    },
}

/// Result of plane functions.
pub type Result<T> = std::result::Result<T, PlaneError>;

/// Wrap the error of a system call with what was tried.
pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> PlaneError {
    move |source| PlaneError::System { action, source }
}

/// Wrap the error of a file operation.
pub(crate) fn file(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> PlaneError {
    let path = path.to_path_buf();
    move |source| PlaneError::File {
        action,
        path,
        source,
    }
}
