//! Reads a generated text with weir's own parser, as far as the policy: no kernel, no files.
//!
//! In: the text of [`super::iptables`]. Out: the policy, or weir's first complaint about it.

use anyhow::{Context, Result, bail};
use weir_policy::dialect::iptables::{Input, LowerOptions, lower, parse};
use weir_policy::model::{Policy, SourceId};

/// The policy that a text stands for.
///
/// # Errors
/// When weir has anything to say against the text, a warning included.
pub fn read(text: &str) -> Result<Policy> {
    let (file, found) = parse(text, SourceId(0));
    if let Some(first) = found.first() {
        bail!("weir does not read its own lab's rules: {first:?}");
    }
    let name = "generated";
    let input = Input::Rules { name, file: &file };
    let (policy, report) = lower(&[input], &LowerOptions::default());
    if let Some(first) = report.diagnostics.first() {
        bail!("weir complains about its own lab's rules: {first:?}");
    }
    policy.context("weir made no policy and gave no reason")
}
