//! `weir check` and `weir show` of IPFilter files.
//!
//! In: rule files, pool files, translation rules. Out: all messages and a summary, or the same
//! rules in canonical form.

use super::files::{Reading, Rules};
use crate::exit::Exit;
use crate::input::told::summary_in_words;
use crate::input::{FileArgs, Message, ReadingArgs, messages, read_files};
use crate::output::{Output, count, report};
use crate::state::SavedSource;
use serde::Serialize;
use std::path::PathBuf;
use weir_policy::dialect::ipf::load::Unit;
use weir_policy::dialect::ipf::{Language, nat, pool, print};
use weir_policy::syntax::Severity;

/// The answer of a check.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
    dialect: &'static str,
    errors: usize,
    warnings: usize,
    files: Vec<String>,
    rules: usize,
    lists: Vec<(&'static str, usize)>,
    groups: usize,
    tables: usize,
    translations: usize,
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

/// Checks.
pub fn check(args: &FileArgs, out: &mut Output) -> anyhow::Result<Exit> {
    let mut rules = Rules::of_files(&args.files, &reading_of(&args.reading))?;
    rules.refuse_translations();
    rules.tell(Severity::Note);
    let number = |severity| {
        let of = rules.diagnostics.iter().filter(|d| d.severity == severity);
        of.count()
    };
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    let set = &rules.set;
    let summary = Summary {
        ok: errors == 0,
        dialect: name_of(rules.file.language),
        errors,
        warnings,
        files: args.files.iter().map(|f| f.display().to_string()).collect(),
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
        messages: messages(&rules.diagnostics, &rules.sources),
    };
    if out.is_json() {
        out.object(&report(&summary))?;
    } else {
        text(out, &summary)?;
    }
    let unsupported = rules.diagnostics.iter().filter(|d| d.is_error());
    Ok(match errors {
        0 => Exit::Done,
        _ if unsupported.clone().all(|d| d.is_unsupported()) => Exit::Unsupported,
        _ => Exit::Negative,
    })
}

fn text(out: &mut Output, summary: &Summary) -> anyhow::Result<()> {
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
    out.line(summary_in_words(summary.errors, summary.warnings))
}

#[derive(Debug, Serialize)]
struct Shown {
    dialect: &'static str,
    text: String,
    lines: Vec<String>,
}

/// Shows.
pub fn show(files: &[PathBuf], args: &ReadingArgs, out: &mut Output) -> anyhow::Result<Exit> {
    show_texts(&read_files(files)?, args, out)
}

/// The same of texts that are already read.
pub fn show_texts(
    texts: &[SavedSource],
    args: &ReadingArgs,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let rules = Rules::of_texts(texts, &reading_of(args));
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
        let lines = text.lines().map(str::to_owned).collect();
        let dialect = name_of(rules.file.language);
        out.object(&report(Shown {
            dialect,
            text,
            lines,
        }))?;
    } else {
        out.raw(text.as_bytes())?;
    }
    Ok(Exit::Done)
}
