//! `weir convert FILES... --to LANGUAGE`: rules of one language in the words of another.
//!
//! In: rule files. Out: files of the other language on standard output, or beside a name that is
//! given; what was proved on standard error. What the other language can't say is named with its
//! place, and nothing is written. Needs no privilege. Exit status 3: something can't be said.

use crate::exit::{Exit, OrExit, failure};
use crate::input::{self, FileArgs, Loaded, told};
use crate::output::{Output, report};
use crate::spec::describe_packet;
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_policy::convert::{Converted, Kind, Language, Options, Source, convert};
use weir_policy::model::Family;
use weir_policy::syntax::{Diagnostic, Severity};

/// Options of `weir convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,
    /// The language wanted.
    #[arg(long, value_name = "LANGUAGE", value_parser = ["ipf", "ipfw", "iptables"])]
    to: String,
    /// Write the result here; several files are FILE.v4, FILE.v6, FILE.ipset, FILE.pools.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only this family.
    #[arg(long, value_name = "FAMILY", value_parser = ["ipv4", "ipv6"])]
    family: Option<String>,
    /// This host forwards nothing: forwarded packets are left out, and FORWARD drops them.
    #[arg(long)]
    host: bool,
    /// `tracked`: what follows a passed packet is up to the connection tracking of the result.
    #[arg(long, value_name = "WHICH", value_parser = ["tracked"])]
    states: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    from: &'static str,
    to: &'static str,
    files: Vec<File>,
    /// What was proved, in words.
    proof: Vec<String>,
    /// Whether packets whose transport header is cut short get the same too.
    cut_short: bool,
    /// Conditions taken to be the same on both sides for having the same text.
    assumed: Vec<String>,
}

/// A file of the result.
#[derive(Debug, Serialize)]
struct File {
    /// `rules`, `sets` or `pools`.
    kind: &'static str,
    /// Where it was written.
    name: Option<String>,
    text: String,
}

/// Converts.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let loaded = input::load_files(&args.files.files, &args.files.reading)?;
    let policy = loaded.policy()?;
    let to = match args.to.as_str() {
        "ipf" => Language::Ipf,
        "ipfw" => Language::Ipfw,
        _ => Language::Iptables,
    };
    if to == loaded.language {
        let message = format!(
            "these are rules of {} already; `weir show` prints them",
            to.name()
        );
        return Err(failure(Exit::Usage, message));
    }
    if let Some(span) = loaded.first_nat_rule() {
        let message = "a rule of the nat table can't be converted";
        let found = Diagnostic::unsupported(span, message)
            .help("take the nat table out; `weir apply --nat=kernel` leaves it to the kernel");
        return refuse(&[found], &loaded);
    }
    let mut families = loaded.families();
    if let Some(only) = args.family.as_deref() {
        let only = if only == "ipv4" {
            Family::V4
        } else {
            Family::V6
        };
        families.retain(|family| *family == only);
    }
    if families.is_empty() {
        return Err(failure(
            Exit::Usage,
            "the files have no rules of this family",
        ));
    }
    let source = Source {
        policy,
        sources: &loaded.sources,
        language: loaded.language,
    };
    let options = Options {
        host: args.host,
        tracked: args.states.is_some(),
        families,
        describe: describe_packet,
    };
    match convert(source, to, &options) {
        Ok(found) => written(args, &loaded, to, found, out),
        Err(found) => refuse(&found, &loaded),
    }
}

/// Says why nothing is written.
fn refuse(found: &[Diagnostic], loaded: &Loaded) -> anyhow::Result<Exit> {
    told::tell(found, &loaded.sources, Severity::Note);
    let errors = found.iter().filter(|one| one.is_error()).count();
    let what = if errors == 1 {
        "1 construct"
    } else {
        "several constructs"
    };
    let message = format!("{what} can't be converted with the same meaning; nothing is written");
    Err(failure(Exit::Unsupported, message))
}

fn written(
    args: &Args,
    loaded: &Loaded,
    to: Language,
    found: Converted,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    told::tell(&found.remarks, &loaded.sources, Severity::Note);
    let rules = found
        .files
        .iter()
        .filter(|file| matches!(file.kind, Kind::Rules(_)))
        .count();
    if found.files.len() > 1 && args.output.is_none() && !out.is_json() {
        let message = "the result is several files: name it with --output, or choose --family";
        return Err(failure(Exit::Usage, message));
    }
    let mut answer = Answer {
        from: loaded.language.name(),
        to: to.name(),
        files: Vec::new(),
        proof: found.proof.words,
        cut_short: found.proof.cut_short,
        assumed: found.proof.assumed,
    };
    for file in found.files {
        let name = args
            .output
            .as_deref()
            .map(|name| named(name, file.kind, rules));
        if let Some(name) = &name {
            let message = format!("can't write {name}");
            std::fs::write(name, &file.text).or_exit(Exit::Usage, message)?;
        }
        let kind = match file.kind {
            Kind::Rules(_) => "rules",
            Kind::Sets => "sets",
            Kind::Pools => "pools",
        };
        answer.files.push(File {
            kind,
            name,
            text: file.text,
        });
    }
    if out.is_json() {
        out.object(&report(&answer))?;
        return Ok(Exit::Done);
    }
    for file in &answer.files {
        match &file.name {
            Some(name) => eprintln!("weir: wrote {name}"),
            None => out.raw(file.text.as_bytes())?,
        }
    }
    for line in &answer.proof {
        eprintln!("weir: {line}");
    }
    Ok(Exit::Done)
}

/// The name of a file of the result.
fn named(name: &Path, kind: Kind, rules: usize) -> String {
    let name = name.display();
    match kind {
        Kind::Rules(Some(Family::V4)) if rules > 1 => format!("{name}.v4"),
        Kind::Rules(Some(Family::V6)) if rules > 1 => format!("{name}.v6"),
        Kind::Rules(_) => name.to_string(),
        Kind::Sets => format!("{name}.ipset"),
        Kind::Pools => format!("{name}.pools"),
    }
}
