//! `weir ipnat -nvf FILE` and `weir ippool -nvf FILE`: files read, and printed with -v.
//!
//! In: translation rules or address tables. Out: the same in canonical form. weir translates no
//! addresses: applying translation rules is refused. Tables are used where rules are, with
//! `weir ipftest -P`.

use crate::exit::{Exit, failure};
use crate::input::{read_files, told};
use crate::output::Output;
use std::path::PathBuf;
use weir_policy::dialect::ipf::{nat, pool};
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// Options that both share.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; `-` is standard input.
    #[arg(short = 'f', value_name = "FILE", required = true)]
    file: PathBuf,
    /// Only read; change nothing.
    #[arg(short = 'n')]
    nothing: bool,
    /// Print what was read.
    #[arg(short = 'v')]
    verbose: bool,
    /// Do not resolve names: none are resolved.
    #[arg(short = 'R')]
    no_names: bool,
    /// Flush: not there.
    #[arg(short = 'F')]
    flush: bool,
    /// Clear the rules: not there.
    #[arg(short = 'C')]
    clear: bool,
    /// Remove what is listed: not there.
    #[arg(short = 'r')]
    remove: bool,
}

fn tell(diagnostics: &[Diagnostic], sources: &Sources) -> anyhow::Result<()> {
    told::tell(diagnostics, sources, Severity::Note);
    match diagnostics.iter().filter(|found| found.is_error()).count() {
        0 => Ok(()),
        errors => Err(failure(Exit::Usage, format!("{errors} wrong statements"))),
    }
}

fn read(args: &Args) -> anyhow::Result<(String, Sources, weir_policy::model::SourceId)> {
    let mut texts = read_files(std::slice::from_ref(&args.file))?;
    let text = texts.pop().map(|text| (text.name, text.text));
    let (name, text) = text.unwrap_or_default();
    let mut sources = Sources::new();
    let id = sources.add(name, text.clone());
    Ok((text, sources, id))
}

/// Translation rules.
pub fn run_nat(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (text, sources, id) = read(args)?;
    let (file, found) = nat::parse(&text, id);
    tell(&found, &sources)?;
    if args.verbose {
        out.raw(nat::print(&file).as_bytes())?;
    }
    if !args.nothing {
        let message = "weir translates no addresses: these rules are read, and not applied; -n \
                       only reads them, the kernel's nat table can do their work";
        return Err(failure(Exit::Unsupported, message));
    }
    Ok(Exit::Done)
}

/// Address tables.
pub fn run_pool(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (text, sources, id) = read(args)?;
    let (file, found) = pool::parse(&text, id);
    tell(&found, &sources)?;
    if args.verbose {
        out.raw(pool::print(&file).as_bytes())?;
    }
    if !args.nothing {
        let message = "weir ippool changes no tables in the kernel: -n only reads the \
                       tables, `weir ipftest -P FILE` uses them";
        return Err(failure(Exit::Unsupported, message));
    }
    Ok(Exit::Done)
}
