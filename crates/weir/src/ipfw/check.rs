//! `weir check` for ipfw: everything that is wrong with rule files, and what they come to.
//!
//! In: rule files, or single commands in a file. Out: messages on standard error, a summary on
//! standard output.

use super::enforce::find_owners;
use super::load::{Loaded, load};
use crate::cmd::check::{self, NeverMatched, Size};
use crate::exit::Exit;
use crate::input::told::summary_in_words;
use crate::input::{Hosts, Message, messages};
use crate::output::{Output, count, report};
use crate::rules::Places;
use serde::Serialize;
use weir_policy::dialect::ipfw::lower::{Options, lower};
use weir_policy::model::Policy;
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
    #[serde(flatten)]
    size: Size,
    /// With --unreachable: the rules that no packet can match.
    #[serde(skip_serializing_if = "Option::is_none")]
    never_matched: Option<Vec<NeverMatched>>,
    messages: Vec<Message>,
}

/// Checks.
pub fn run(args: &check::Args, out: &mut Output) -> anyhow::Result<Exit> {
    let files = &args.files;
    let mut loaded = load(&files.files, &args.facts, &files.reading)?;
    let policy = enforced(&mut loaded, files.reading.allow_unsupported);
    loaded.tell(Severity::Note);
    let mut summary = summary(&loaded, files.reading.allow_unsupported, policy.is_some());
    summary.size = Size::of(policy.as_ref());
    if args.unreachable && summary.ok {
        let Some(policy) = policy else {
            return Err(check::not_looked_through());
        };
        summary.never_matched = Some(never_matched(&policy, &loaded)?);
    }
    if out.is_json() {
        out.object(&report(&summary))?;
    } else {
        text(out, &summary, args.cost)?;
    }
    Ok(check::exit(
        summary.errors,
        loaded.only_unsupported(),
        &summary.size,
    ))
}

/// What `weir apply` would enforce of sound rules; what it would refuse is noted.
fn enforced(loaded: &mut Loaded, allow_unsupported: bool) -> Option<Policy> {
    if loaded.errors(allow_unsupported) > 0 {
        return None;
    }
    find_owners(&mut loaded.program.ruleset, &Hosts::asking());
    let options = Options {
        allow_unsupported,
        frames: true,
    };
    let (policy, found) = lower(&loaded.program.ruleset, &loaded.sources, options);
    loaded.program.diagnostics.extend(check::as_notes(found));
    policy
}

fn never_matched(policy: &Policy, loaded: &Loaded) -> anyhow::Result<Vec<NeverMatched>> {
    let places = Places::of(policy);
    let text = |id| {
        let origin = places.get(id)?.origin;
        let source = loaded.sources.get(origin.source)?;
        Some(source.line_text(origin.line).to_owned())
    };
    check::never_matched(policy, &text)
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
        size: Size::default(),
        never_matched: None,
        messages: messages(found, &loaded.sources),
    }
}

fn text(out: &mut Output, summary: &Summary, cost: bool) -> anyhow::Result<()> {
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
        out.line(check::REFUSED)?;
    }
    summary.size.print(summary.rules, out)?;
    check::print_never_matched(summary.never_matched.as_deref().unwrap_or_default(), out)?;
    if cost {
        summary.size.print_costs(out)?;
    }
    out.line(summary_in_words(summary.errors, summary.warnings))
}
