//! What a change of rules changes, as text and as JSON.
//!
//! In: two policies and what the exact comparison found. Out: for each way through the host the
//! classes of packets that are treated differently, with the rules of both sides and an example.
//! The comparison itself is `weir_policy::compare`.

mod report;
mod words;

pub use report::{print, report};

use crate::exit::{Exit, failure};
use crate::rules::Places;
use weir_policy::compare::{Comparison, Options, compare};
use weir_policy::model::{Policy, RuleId};

/// One of the two sides.
pub struct Side<'a> {
    /// Where its rules are.
    pub places: &'a Places<'a>,
    /// Their texts.
    pub texts: &'a dyn crate::explain::Texts,
}

impl Side<'_> {
    /// `file:line` of a rule.
    fn place(&self, id: RuleId) -> Option<String> {
        self.places.location(id)
    }
}

/// Compares; policies that are too large are refused.
pub fn exactly(old: &Policy, new: &Policy, options: &Options) -> anyhow::Result<Comparison> {
    compare(old, new, options).map_err(|error| failure(Exit::Unsupported, error.to_string()))
}
