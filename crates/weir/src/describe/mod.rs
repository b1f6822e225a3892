//! Rules in words: what a test asks, what the packet has, what an operation does.
//!
//! In: pieces of the rule model. Out: short phrases for `explain`, in the terms of the model, so
//! they read the same whatever language the rule was written in. The rule's own text is printed
//! beside them by the caller.

mod action;
mod aside;
mod condition;
mod observed;
mod places;
mod values;

pub use action::{family_name, flow, op, table_name, verdict, verdict_name};
pub use condition::test;
pub use observed::{Moment, observed};
pub use places::places;
pub use values::{addresses, mac, numbers};

#[cfg(test)]
mod tests;
