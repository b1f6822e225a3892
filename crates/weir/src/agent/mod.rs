//! The process that stays behind: one per namespace with a policy.
//!
//! In: the pinned programs' reject events, changes of addresses, the trial's deadline. Out: answers
//! and keep-alives on the wire, the plane's table of local addresses, a return to the previous
//! policy. Enforcement does not need it: without it packets are judged all the same, rejects are
//! silent drops, and idle TCP states of ipfw end when their time is up.

mod process;
mod watch;

pub use process::{announce, ensure, running, stop};
pub use watch::watch;
