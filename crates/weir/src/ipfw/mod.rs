//! The ipfw language in the program: check, show, explain, replay, and the tools of its own.
//!
//! In: rule files whose language is ipfw, by `--dialect` or by their content. Out: what the
//! commands of the same name print for other languages, with rule numbers where those have
//! `file:line`. What rules mean is decided in `weir_policy::eval::ipfw`.

pub mod check;
pub mod counters;
pub mod enforce;
pub mod explain;
mod facts;
mod index;
mod judge;
pub mod live;
mod load;
pub mod log;
mod pathname;
pub mod pipes;
pub mod record;
pub mod replay;
pub mod show;
pub mod states;
pub mod tool;

pub use facts::FactArgs;
pub use load::{are_meant, is_meant};
