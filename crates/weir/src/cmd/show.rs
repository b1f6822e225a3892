//! `weir show FILES...`: rules printed back in canonical form; without files, what is enforced.
//!
//! In: rule files, or the kept texts of the enforced policy. Out: the same rules in the language
//! they were written in; reading that again gives the same rules. With --counters, each with the
//! kernel's counters instead of the file's.

use crate::exit::{Exit, failure};
use crate::input::{self, Loaded, Parsed, ReadingArgs};
use crate::kernel::Kernel;
use crate::output::{Output, report};
use crate::rules::Places;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use weir_policy::dialect::iptables::ast::StatementKind;
use weir_policy::model::{Counters, RuleId, SourceId};

/// Options of `weir show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rule files; without any, the enforced policy.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print each rule of the enforced policy with the kernel's counters.
    #[arg(long, conflicts_with = "files")]
    counters: bool,
    /// Network namespace of the enforced policy.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    netns: Option<String>,
    #[command(flatten)]
    facts: crate::ipfw::FactArgs,
    /// Print JSON: the texts with their names, dialects and families.
    #[arg(long)]
    pub json: bool,
}

/// The JSON of every language.
#[derive(Debug, Serialize)]
pub struct Shown {
    files: Vec<File>,
}

/// One text, printed back.
#[derive(Debug, Serialize)]
pub struct File {
    name: String,
    dialect: &'static str,
    family: Option<&'static str>,
    text: String,
    lines: Vec<String>,
}

impl File {
    /// Of a text; `family` where it holds rules of one alone.
    pub fn new(
        name: String,
        dialect: &'static str,
        family: Option<&'static str>,
        text: String,
    ) -> Self {
        File {
            name,
            dialect,
            family,
            lines: text.lines().map(str::to_owned).collect(),
            text,
        }
    }
}

/// Prints texts, or their JSON.
pub fn print(files: Vec<File>, out: &mut Output) -> anyhow::Result<Exit> {
    if out.is_json() {
        out.object(&report(Shown { files }))?;
    } else {
        for file in &files {
            out.raw(file.text.as_bytes())?;
        }
    }
    Ok(Exit::Done)
}

/// Shows.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if crate::ipf::is_meant(&args.files, &args.reading)? {
        return crate::ipf::check::show(&args.files, &args.reading, out);
    }
    if crate::ipfw::is_meant(&args.files, &args.reading)? {
        return crate::ipfw::show::run(&args.files, &args.reading, &args.facts, out);
    }
    let loaded = match args.files.is_empty() {
        false => input::read_and_parse(&args.files, &args.reading)?,
        true => {
            let kernel = Kernel::open(args.netns.as_deref())?;
            let Some(saved) = kernel.active_texts()? else {
                return Err(failure(Exit::Negative, "no policy is enforced here"));
            };
            if crate::ipf::are_meant(&saved.sources, saved.dialect.as_deref()) {
                let reading = ReadingArgs {
                    dialect: saved.dialect,
                    ..ReadingArgs::default()
                };
                return crate::ipf::check::show_texts(&saved.sources, &reading, out);
            }
            if crate::ipfw::are_meant(&saved.sources, saved.dialect.as_deref()) {
                return crate::ipfw::show::enforced(&kernel, args.counters, out);
            }
            match args.counters {
                false => input::parse_saved(&saved)?,
                true => with_counters(&kernel, input::load_saved(&saved)?)?,
            }
        }
    };
    print(files(&loaded), out)
}

/// Puts the kernel's counters into the syntax trees. Rules that one line became count together, as
/// the line is what is printed.
fn with_counters(kernel: &Kernel, mut loaded: Loaded) -> anyhow::Result<Loaded> {
    let policy = loaded.policy()?;
    let places = Places::of(policy);
    let mut by_line: HashMap<(SourceId, u32), Counters> = HashMap::new();
    for (id, count) in kernel.counters(policy.rule_count)?.iter().enumerate() {
        if let Some(place) = places.get(RuleId(id as u32)) {
            let sum = by_line
                .entry((place.origin.source, place.origin.line))
                .or_default();
            sum.packets += count.packets;
            sum.bytes += count.bytes;
        }
    }
    for (source, parsed) in &mut loaded.parsed {
        let Parsed::Rules(file) = parsed else {
            continue;
        };
        for statement in &mut file.statements {
            let count = by_line.get(&(*source, statement.line.number)).copied();
            match &mut statement.kind {
                StatementKind::Rule(rule) => rule.counters = count,
                StatementKind::Chain(chain) if chain.policy.is_some() => chain.counters = count,
                _ => {}
            }
        }
    }
    Ok(loaded)
}

fn files(loaded: &Loaded) -> Vec<File> {
    let printed = |parsed: &Parsed| match parsed {
        Parsed::Rules(file) => (
            "iptables",
            match file.families().as_slice() {
                // Saves of both families one after the other.
                [_, _, ..] => None,
                _ => Some(crate::describe::family_name(file.family)),
            },
            weir_policy::dialect::iptables::print(file),
        ),
        Parsed::Sets(file) => ("ipset", None, weir_policy::dialect::ipset::print(file)),
    };
    loaded
        .parsed
        .iter()
        .map(|(source, parsed)| {
            let (dialect, family, text) = printed(parsed);
            File::new(loaded.name(*source), dialect, family, text)
        })
        .collect()
}
