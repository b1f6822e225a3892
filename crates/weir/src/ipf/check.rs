//! `weir check` and `weir show` of IPFilter files.
//!
//! In: rule files, pool files, translation rules. Out: all messages and a summary, or the same
//! rules in canonical form.

use super::enforce;
use super::files::{Reading, Rules};
use crate::cmd::check::{self, NeverMatched, Size};
use crate::cmd::show;
use crate::exit::Exit;
use crate::input::told::{self, summary_in_words};
use crate::input::{Hosts, Message, ReadingArgs, messages};
use crate::output::{Output, count, report};
use crate::state::SavedSource;
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::dialect::ipf::load::Unit;
use weir_policy::dialect::ipf::{Language, PrintOptions, nat, pool, print, print_rule};
use weir_policy::model::{Policy, RuleId};
use weir_policy::syntax::{Diagnostic, Severity};

/// The answer of a check.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
    /// `weir apply` would take them.
    enforceable: bool,
    dialect: &'static str,
    errors: usize,
    warnings: usize,
    files: Vec<String>,
    rules: usize,
    lists: Vec<(&'static str, usize)>,
    groups: usize,
    tables: usize,
    translations: usize,
    #[serde(flatten)]
    size: Size,
    /// With --unreachable: the rules that no packet can match.
    #[serde(skip_serializing_if = "Option::is_none")]
    never_matched: Option<Vec<NeverMatched>>,
    messages: Vec<Message>,
}

fn name_of(language: Language) -> &'static str {
    match language {
        Language::Ipf => "ipf",
        Language::Hpux => "hpux",
    }
}

/// How the options of `check` and `show` want files to be read.
pub fn reading_of(args: &ReadingArgs) -> Reading {
    Reading {
        language: match args.dialect.as_deref() {
            Some("hpux") => Language::Hpux,
            _ => Language::Ipf,
        },
        told: args.dialect.is_some(),
        lenient: args.lenient,
        ..Reading::default()
    }
}

/// What `weir apply` would enforce of sound rules; what it would refuse is noted.
fn enforced(rules: &mut Rules, args: &ReadingArgs) -> Option<Policy> {
    if rules.diagnostics.iter().any(Diagnostic::is_error) {
        return None;
    }
    let hosts = Hosts::asking_in(args.netns.as_deref());
    let (policy, found) = enforce::lower_rules(rules, &hosts, None);
    rules.diagnostics.extend(check::as_notes(found));
    policy
}

/// The rules that no packet can match: told by what `weir apply` would enforce.
fn never_matched(policy: &Policy, rules: &Rules) -> anyhow::Result<Vec<NeverMatched>> {
    let text = |id: RuleId| {
        let rule = rules.set.rules.get(id.0 as usize)?;
        Some(print_rule(rule, &PrintOptions::default()))
    };
    let mut never = check::never_matched(policy, &text)?;
    // Members of groups that nothing leads into are in no chain.
    let chains = policy.chains.iter().flat_map(|chain| &chain.rules);
    let entered: HashSet<u32> = chains.map(|rule| rule.id.0).collect();
    for (number, rule) in rules.set.rules.iter().enumerate() {
        if !entered.contains(&(number as u32)) {
            never.push(NeverMatched {
                rule: place(rules, rule),
                name: format!("group {}", rule.group.as_deref().unwrap_or("0")),
                text: print_rule(rule, &PrintOptions::default()),
            });
        }
    }
    Ok(never)
}

/// `file:line` of a rule.
fn place(rules: &Rules, rule: &Rule) -> String {
    let source = rules.sources.get(rule.at.0.source);
    let name = source.map_or("?", |source| source.name());
    let line = rules.sources.position(rule.at.0).map_or(0, |at| at.line);
    format!("{name}:{line}")
}

/// Checks.
pub fn check(args: &check::Args, out: &mut Output) -> anyhow::Result<Exit> {
    let reading = &args.files.reading;
    let mut rules = Rules::of_texts(
        &reading.read_files(&args.files.files)?,
        &reading_of(reading),
    );
    rules.refuse_translations();
    let policy = enforced(&mut rules, reading);
    rules.tell(Severity::Note);
    let number = |severity| {
        let of = rules.diagnostics.iter().filter(|d| d.severity == severity);
        of.count()
    };
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    let never_matched = match (args.unreachable && errors == 0, &policy) {
        (false, _) => None,
        (true, Some(policy)) => Some(never_matched(policy, &rules)?),
        (true, None) => {
            return Err(check::not_looked_through());
        }
    };
    let set = &rules.set;
    let summary = Summary {
        ok: errors == 0,
        enforceable: policy.is_some(),
        dialect: name_of(rules.file.language),
        errors,
        warnings,
        files: args
            .files
            .files
            .iter()
            .map(|f| f.display().to_string())
            .collect(),
        rules: set.rules.len(),
        lists: vec![
            ("in", set.filter[0].len()),
            ("out", set.filter[1].len()),
            ("count in", set.account[0].len()),
            ("count out", set.account[1].len()),
        ],
        groups: set
            .groups
            .keys()
            .filter(|key| key.0 == Unit::Filter)
            .count(),
        tables: rules.pools.iter().map(|file| file.tables.len()).sum(),
        translations: rules.translations.iter().map(|file| file.rules.len()).sum(),
        size: Size::of(policy.as_ref()),
        never_matched,
        messages: messages(&rules.diagnostics, &rules.sources),
    };
    if out.is_json() {
        out.object(&report(&summary))?;
    } else {
        text(out, &summary, args.cost)?;
    }
    let only_unsupported = told::only_unsupported(&rules.diagnostics);
    Ok(check::exit(errors, only_unsupported, &summary.size))
}

fn text(out: &mut Output, summary: &Summary, cost: bool) -> anyhow::Result<()> {
    for (list, rules) in summary.lists.iter().filter(|(_, rules)| *rules > 0) {
        let rules = count(*rules as u64, "rule", "rules");
        out.line(format!("{} {list}: {rules}", summary.dialect))?;
    }
    for (number, one, many) in [
        (summary.groups, "group", "groups"),
        (summary.tables, "table", "tables"),
        (
            summary.translations,
            "translation rule",
            "translation rules",
        ),
    ] {
        if number > 0 {
            out.line(count(number as u64, one, many))?;
        }
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

/// All files as one text, beside what every language gives.
#[derive(Debug, Serialize)]
struct Shown {
    dialect: &'static str,
    text: String,
    lines: Vec<String>,
    files: [show::File; 1],
}

/// Shows.
pub fn show(files: &[PathBuf], args: &ReadingArgs, out: &mut Output) -> anyhow::Result<Exit> {
    show_texts(&args.read_files(files)?, args, out)
}

/// The same of texts that are already read.
pub fn show_texts(
    texts: &[SavedSource],
    args: &ReadingArgs,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let mut rules = Rules::of_texts(texts, &reading_of(args));
    rules.only_print();
    rules.tell(Severity::Warning);
    rules.check()?;
    let mut text = String::new();
    for file in &rules.pools {
        text += &pool::print(file);
    }
    for file in &rules.translations {
        text += &nat::print(file);
    }
    text += &print(&rules.file);
    if out.is_json() {
        let dialect = name_of(rules.file.language);
        let names: Vec<&str> = texts.iter().map(|text| text.name.as_str()).collect();
        out.object(&report(Shown {
            dialect,
            lines: text.lines().map(str::to_owned).collect(),
            files: [show::File::new(
                names.join(" "),
                dialect,
                None,
                text.clone(),
            )],
            text,
        }))?;
    } else {
        out.raw(text.as_bytes())?;
    }
    Ok(Exit::Done)
}
