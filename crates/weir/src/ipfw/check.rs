//! `weir check` for ipfw: everything that is wrong with rule files, and what they come to.
//!
//! In: rule files, or single commands in a file. Out: messages on standard error, a summary on
//! standard output.

use super::enforce::find_owners;
use super::facts::FactArgs;
use super::load::{Loaded, load};
use crate::exit::Exit;
use crate::input::told::summary_in_words;
use crate::input::{FileArgs, Message, messages};
use crate::output::{Output, count, report};
use serde::Serialize;
use weir_policy::dialect::ipfw::lower::{Options, lower};
use weir_policy::syntax::Severity;

/// The answer.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
    /// `weir apply` would take them.
    enforceable: bool,
    dialect: &'static str,
    errors: usize,
    unsupported: usize,
    warnings: usize,
    files: Vec<String>,
    rules: usize,
    tables: usize,
    sets_disabled: Vec<u32>,
    pipes: usize,
    messages: Vec<Message>,
}

/// Checks.
pub fn run(files: &FileArgs, facts: &FactArgs, out: &mut Output) -> anyhow::Result<Exit> {
    let mut loaded = load(&files.files, facts.settings()?)?;
    let enforceable = what_is_not_enforced(&mut loaded, files.reading.allow_unsupported);
    loaded.tell(Severity::Note);
    let summary = summary(&loaded, files.reading.allow_unsupported, enforceable);
    if out.is_json() {
        out.object(&report(&summary))?;
    } else {
        text(out, &summary)?;
    }
    Ok(match (summary.errors, loaded.only_unsupported()) {
        (0, _) => Exit::Done,
        (_, true) => Exit::Unsupported,
        (_, false) => Exit::Negative,
    })
}

/// Notes what of sound rules `weir apply` would refuse; tells whether it would take them.
fn what_is_not_enforced(loaded: &mut Loaded, allow_unsupported: bool) -> bool {
    if loaded.errors(allow_unsupported) > 0 {
        return false;
    }
    find_owners(&mut loaded.program.ruleset, None);
    let options = Options { allow_unsupported };
    let (policy, found) = lower(&loaded.program.ruleset, &loaded.sources, options);
    let notes = found.into_iter().map(|mut one| {
        one.severity = one.severity.min(Severity::Note);
        one
    });
    loaded.program.diagnostics.extend(notes);
    policy.is_some()
}

fn summary(loaded: &Loaded, allow_unsupported: bool, enforceable: bool) -> Summary {
    let found = &loaded.program.diagnostics;
    let ruleset = &loaded.program.ruleset;
    let errors = loaded.errors(allow_unsupported);
    Summary {
        ok: errors == 0,
        enforceable,
        dialect: super::load::DIALECT,
        errors,
        unsupported: found.iter().filter(|d| d.is_unsupported()).count(),
        warnings: found
            .iter()
            .filter(|d| d.severity == Severity::Warning)
            .count(),
        files: loaded.names.clone(),
        rules: ruleset.rules.len() - 1,
        tables: ruleset.tables.len(),
        sets_disabled: (0..31)
            .filter(|set| ruleset.disabled & 1 << set != 0)
            .collect(),
        pipes: ruleset.dummynet.len(),
        messages: messages(found, &loaded.sources),
    }
}

fn text(out: &mut Output, summary: &Summary) -> anyhow::Result<()> {
    out.line(format!(
        "ipfw: {}",
        count(summary.rules as u64, "rule", "rules")
    ))?;
    if summary.tables > 0 {
        out.line(count(summary.tables as u64, "table", "tables"))?;
    }
    if summary.pipes > 0 {
        out.line(count(
            summary.pipes as u64,
            "pipe, queue or scheduler",
            "pipes, queues and schedulers",
        ))?;
    }
    if summary.ok && !summary.enforceable {
        out.line("apply would refuse them; the notes say why")?;
    }
    out.line(summary_in_words(summary.errors, summary.warnings))
}
