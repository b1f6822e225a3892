//! Changes of single rules and members in place, by the agent of a namespace, for whoever asks.
//!
//! In: requests on a socket in the namespace's folder. Out: the change where packets meet it, in
//! the journal, and the answer which way it took; or that it can't be done here, and then the
//! command that asked puts changed texts in force as a whole ([`crate::live`]).
//!
//! A policy is taken up at its first change: an image of it that has room takes the place of the
//! one in force, with the same rules, counters and histories. It is let go when another policy is
//! put in force.

mod ask;
mod document;
mod editor;
mod home;
mod lowered;
mod open;
mod serve;
mod wire;

pub use ask::{Asked, Asking, Report, ask};
pub use serve::start;
pub use wire::{Answer, Request, Way};
