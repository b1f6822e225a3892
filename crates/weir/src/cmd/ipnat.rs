//! `weir ipnat -nvf FILE`: translation rules read, and printed with -v.
//!
//! In: translation rules. Out: the same in canonical form. weir translates no addresses: applying
//! rules that translate is refused, and lists of what is applied are empty.

use crate::exit::{Exit, failure};
use crate::input::{read_files, told};
use crate::output::Output;
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::nat;
use weir_policy::model::SourceId;
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// Options of `weir ipnat`.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the original's flags"
)]
pub struct Args {
    /// The file; `-` is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only read; change nothing.
    #[arg(short = 'n')]
    nothing: bool,
    /// Print what was read.
    #[arg(short = 'v')]
    verbose: bool,
    /// Do not resolve names: none are resolved.
    #[arg(short = 'R')]
    no_names: bool,
    /// Flush the table of translations: it is empty.
    #[arg(short = 'F')]
    flush: bool,
    /// Clear the rules: there are none.
    #[arg(short = 'C')]
    clear: bool,
    /// List rules and translations: there are none.
    #[arg(short = 'l')]
    list: bool,
    /// Remove the rules of the file: none of them is there.
    #[arg(short = 'r', requires = "file")]
    remove: bool,
    /// Accepted, and means nothing here.
    #[arg(short = 'd', hide = true)]
    debug: bool,
}

/// Prints messages; errors end the command.
pub(super) fn tell(diagnostics: &[Diagnostic], sources: &Sources) -> anyhow::Result<()> {
    told::tell(diagnostics, sources, Severity::Note);
    match diagnostics.iter().filter(|found| found.is_error()).count() {
        0 => Ok(()),
        _ if told::only_unsupported(diagnostics) => Err(failure(
            Exit::Unsupported,
            "constructs that weir can't honour; nothing is loaded",
        )),
        errors => Err(failure(Exit::Usage, format!("{errors} wrong statements"))),
    }
}

/// The text of a file, and where it stands.
pub(super) fn read(path: &Path) -> anyhow::Result<(String, Sources, SourceId)> {
    let mut texts = read_files(&[path.to_path_buf()])?;
    let text = texts.pop().map(|text| (text.name, text.text));
    let (name, text) = text.unwrap_or_default();
    let mut sources = Sources::new();
    let id = sources.add(name, text.clone());
    Ok((text, sources, id))
}

/// Reads, prints, refuses.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.file.is_none() && !(args.flush || args.clear || args.list) {
        return Err(failure(Exit::Usage, "give one of -f FILE, -l, -C and -F"));
    }
    if args.flush {
        out.line("0 entries flushed from NAT table")?;
    }
    if args.clear {
        out.line("0 entries flushed from NAT list")?;
    }
    if args.list {
        out.line("List of active MAP/Redirect filters:\n\nList of active sessions:")?;
    }
    match &args.file {
        Some(path) => file(args, path, out),
        None => Ok(Exit::Done),
    }
}

fn file(args: &Args, path: &Path, out: &mut Output) -> anyhow::Result<Exit> {
    let (text, sources, id) = read(path)?;
    let (file, mut found) = nat::parse(&text, id);
    // Exceptions alone translate nothing.
    let translates = file.rules.iter().filter(|rule| !rule.no);
    if !args.nothing && !found.iter().any(Diagnostic::is_error) {
        let refused = translates.map(nat::refusal);
        found.extend(refused);
    }
    let refused = found.iter().any(Diagnostic::is_unsupported);
    if args.verbose && (refused || !found.iter().any(Diagnostic::is_error)) {
        out.raw(nat::print(&file).as_bytes())?;
    }
    match (refused, tell(&found, &sources)) {
        (true, _) => Err(failure(
            Exit::Unsupported,
            "weir translates no addresses: nothing is applied; -n only reads",
        )),
        (false, told) => told.map(|()| Exit::Done),
    }
}
