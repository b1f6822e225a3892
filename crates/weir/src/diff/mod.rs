//! What a change of rules changes, as text and as JSON.
//!
//! In: two policies and what the exact comparison found. Out: for each way through the host the
//! classes of packets that are treated differently, with the rules of both sides and an example.
//! The comparison itself is `weir_policy::compare`.

mod report;
mod words;

pub use report::{print, report};

use crate::exit::{Exit, failure};
use crate::input::Loaded;
use crate::rules::Places;
use weir_policy::compare::{Comparison, Options, compare};
use weir_policy::model::RuleId;

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

/// Compares; what can't be compared is refused.
pub fn exactly(sides: [&Loaded; 2], options: &Options) -> anyhow::Result<Comparison> {
    let policies = [sides[0].policy()?, sides[1].policy()?];
    compare(policies[0], policies[1], options)
        .map_err(|refusal| failure(Exit::Unsupported, refusal.to_string()))
}
