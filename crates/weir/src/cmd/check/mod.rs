//! `weir check FILES...`: everything that is wrong with rule files, and what they come to.
//!
//! In: rule files. Out: all messages on standard error, a summary on standard output: rules and
//! tables, what is not enforced, memory, and with --cost the work that the dearest packet can
//! cause. Needs no privilege and touches no kernel.

mod size;

pub use size::{Size, compile_policy};

use crate::describe::{family_name, table_name};
use crate::exit::{Exit, failure};
use crate::explain::Texts;
use crate::input::told::{summary_in_words, with_warnings};
use crate::input::{self, FileArgs, Loaded, Message, messages};
use crate::output::{Output, count, report};
use crate::rules::Places;
use serde::Serialize;
use weir_policy::compare::{Options as ExactOptions, unreached};
use weir_policy::model::{Policy, RuleId};
use weir_policy::syntax::{Diagnostic, Severity};

/// What is said of sound rules that a host can't enforce.
pub const REFUSED: &str = "apply would refuse them; the notes say why";

/// What `apply` would say of sound rules, as notes.
pub fn as_notes(found: Vec<Diagnostic>) -> impl Iterator<Item = Diagnostic> {
    found.into_iter().map(|mut one| {
        one.severity = one.severity.min(Severity::Note);
        one
    })
}

/// Why rules that nobody enforces have none that is never matched.
pub fn not_looked_through() -> anyhow::Error {
    let message = "--unreachable: what is not enforced can't be looked through";
    failure(Exit::Unsupported, message)
}

/// Options of `weir check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub files: FileArgs,
    /// Also print the worst-case work per packet, for each chain that packets enter.
    #[arg(long)]
    pub cost: bool,
    /// Also list the rules that no packet can match, on any way through the host.
    #[arg(long)]
    pub unreachable: bool,
    #[command(flatten)]
    pub facts: crate::ipfw::FactArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
    errors: usize,
    warnings: usize,
    files: Vec<String>,
    rules: usize,
    chains: usize,
    sets: usize,
    tables: Vec<TableSummary>,
    not_enforced: Vec<NotEnforced>,
    #[serde(flatten)]
    size: Size,
    /// With --unreachable: the rules that no packet can match.
    #[serde(skip_serializing_if = "Option::is_none")]
    never_matched: Option<Vec<NeverMatched>>,
    messages: Vec<Message>,
}

#[derive(Debug, Serialize)]
struct TableSummary {
    family: &'static str,
    table: &'static str,
    chains: usize,
    rules: usize,
}

#[derive(Debug, Serialize)]
struct NotEnforced {
    family: &'static str,
    table: &'static str,
    rules: usize,
    why: &'static str,
}

/// A rule that no packet can match.
#[derive(Debug, Serialize)]
pub struct NeverMatched {
    /// `file:line`.
    pub rule: String,
    /// Its chain and number.
    pub name: String,
    /// The rule.
    pub text: String,
}

/// Checks.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if crate::ipf::is_meant(&args.files.files, &args.files.reading)? {
        return crate::ipf::check::check(args, out);
    }
    if crate::ipfw::is_meant(&args.files.files, &args.files.reading)? {
        return crate::ipfw::check::run(args, out);
    }
    let loaded = input::read_and_lower(&args.files)?;
    let mut summary = summary(&loaded);
    if args.unreachable
        && let Ok(policy) = loaded.policy()
    {
        let text = |id| loaded.text(id);
        summary.never_matched = Some(never_matched(policy, &text)?);
    }
    if out.is_json() {
        out.object(&report(&summary))?;
    } else {
        text(out, &summary, args.cost)?;
    }
    Ok(exit(
        summary.errors,
        loaded.only_unsupported(),
        &summary.size,
    ))
}

/// How a check ends. Why rules can't be compiled is told on standard error.
pub fn exit(errors: usize, only_unsupported: bool, size: &Size) -> Exit {
    if let Some(error) = &size.compile_error {
        eprintln!("weir: {error}");
        return Exit::Unsupported;
    }
    match (errors, only_unsupported) {
        (0, _) => Exit::Done,
        (_, true) => Exit::Unsupported,
        (_, false) => Exit::Negative,
    }
}

fn summary(loaded: &Loaded) -> Summary {
    let count = |severity| {
        loaded
            .diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count()
    };
    let errors = count(Severity::Error);
    let policy = loaded.policy().ok();
    let size = Size::of(policy);
    let mut summary = Summary {
        ok: errors == 0 && size.is_known(),
        errors,
        warnings: count(Severity::Warning),
        files: loaded.names(),
        rules: policy.map_or(0, |p| p.chains.iter().map(|c| c.rules.len()).sum()),
        chains: policy.map_or(0, |p| p.chains.len()),
        sets: policy.map_or(0, |p| p.sets.len()),
        tables: policy.map_or_else(Vec::new, tables),
        not_enforced: Vec::new(),
        size,
        never_matched: None,
        messages: messages(&loaded.diagnostics, &loaded.sources),
    };
    for (family, rules) in loaded.nat_rules() {
        summary.not_enforced.push(NotEnforced {
            family: family_name(family),
            table: "nat",
            rules,
            why: "weir translates no addresses; the kernel's nat table stays as it is, or takes \
                  these rules with apply --nat=kernel",
        });
    }
    summary
}

fn tables(policy: &Policy) -> Vec<TableSummary> {
    let mut out: Vec<TableSummary> = Vec::new();
    for chain in &policy.chains {
        let (family, table) = (family_name(chain.family), table_name(chain.table));
        match out
            .iter_mut()
            .find(|t| (t.family, t.table) == (family, table))
        {
            Some(summary) => {
                summary.chains += 1;
                summary.rules += chain.rules.len();
            }
            None => out.push(TableSummary {
                family,
                table,
                chains: 1,
                rules: chain.rules.len(),
            }),
        }
    }
    out
}

/// The rules that no packet can match, on any way through the host. `text`: a rule as written.
pub fn never_matched(
    policy: &Policy,
    text: &dyn Fn(RuleId) -> Option<String>,
) -> anyhow::Result<Vec<NeverMatched>> {
    let found = unreached(policy, ExactOptions::default().nodes)
        .map_err(|error| failure(Exit::Unsupported, error.to_string()))?;
    let places = Places::of(policy);
    let rules = found.rules.into_iter().map(|id| NeverMatched {
        rule: places.location(id).unwrap_or_default(),
        name: places.name(id).unwrap_or_default(),
        text: text(id).unwrap_or_default().trim().to_owned(),
    });
    Ok(rules.collect())
}

/// Prints them, a line each.
pub fn print_never_matched(rules: &[NeverMatched], out: &mut Output) -> anyhow::Result<()> {
    for NeverMatched { rule, name, text } in rules {
        out.line(format!("never matched: {rule} ({name}): {text}"))?;
    }
    Ok(())
}

fn text(out: &mut Output, summary: &Summary, cost: bool) -> anyhow::Result<()> {
    for table in &summary.tables {
        out.line(format!(
            "{} {}: {} in {}",
            table.family,
            table.table,
            count(table.rules as u64, "rule", "rules"),
            count(table.chains as u64, "chain", "chains")
        ))?;
    }
    if summary.sets > 0 {
        out.line(count(summary.sets as u64, "set", "sets"))?;
    }
    for part in &summary.not_enforced {
        let rules = count(part.rules as u64, "rule", "rules");
        out.line(format!(
            "{} {}: {rules} not enforced: {}",
            part.family, part.table, part.why
        ))?;
    }
    summary.size.print(summary.rules, out)?;
    print_never_matched(summary.never_matched.as_deref().unwrap_or_default(), out)?;
    if cost {
        summary.size.print_costs(out)?;
    }
    out.line(match (summary.errors, summary.ok) {
        (0, false) => with_warnings("can't be compiled", summary.warnings),
        (errors, _) => summary_in_words(errors, summary.warnings),
    })
}
