//! `weir check` for ipfw: everything that is wrong with rule files, and what they come to.
//!
//! In: rule files, or single commands in a file. Out: messages on standard error, a summary on
//! standard output.

use super::facts::FactArgs;
use super::load::{Loaded, load};
use crate::exit::Exit;
use crate::input::told::summary_in_words;
use crate::input::{FileArgs, Message, messages};
use crate::output::{Output, count, report};
use serde::Serialize;
use weir_policy::syntax::Severity;

/// The answer.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
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
    let loaded = load(&files.files, facts.settings()?)?;
    loaded.tell(Severity::Note);
    let summary = summary(&loaded, files.reading.allow_unsupported);
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

fn summary(loaded: &Loaded, allow_unsupported: bool) -> Summary {
    let found = &loaded.program.diagnostics;
    let ruleset = &loaded.program.ruleset;
    let errors = loaded.errors(allow_unsupported);
    Summary {
        ok: errors == 0,
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
    out.line(summary_in_words(summary.errors, summary.warnings))
}
