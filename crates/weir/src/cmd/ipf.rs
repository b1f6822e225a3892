//! `weir ipf -nvf RULES`: rules read and printed as loaded, with the options of IPFilter's `ipf`.
//!
//! In: rule files. Out: with -v each rule in canonical form, lists multiplied out. Only what needs
//! no kernel is done: options that change the kernel's lists are said to be missing, unless -n says
//! that nothing is to be changed.

use crate::exit::{Exit, failure};
use crate::ipf::files::{Reading, Rules};
use crate::ipf::{interface_exists, tunables};
use crate::output::Output;
use std::path::PathBuf;
use weir_policy::dialect::ipf::{Form, Language, PrintOptions, print_rule};
use weir_policy::model::Family;
use weir_policy::syntax::Severity;

/// Options of `weir ipf`.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the original's flags"
)]
pub struct Args {
    /// Rules that nothing else fixes are for IPv4.
    #[arg(short = '4', conflicts_with = "six")]
    four: bool,
    /// Rules that nothing else fixes are for IPv6.
    #[arg(short = '6')]
    six: bool,
    /// Work on the active lists (the default).
    #[arg(short = 'A')]
    active: bool,
    /// Switch filtering off: not there.
    #[arg(short = 'D')]
    disable: bool,
    /// Switch filtering on: not there.
    #[arg(short = 'E')]
    enable: bool,
    /// Flush lists (i, o, a) or states (s, S): not there.
    #[arg(short = 'F', value_name = "WHAT")]
    flush: Vec<String>,
    /// Rules; `-` is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Work on the inactive lists: not there.
    #[arg(short = 'I')]
    inactive: bool,
    /// Log what passes, what is blocked or what no rule matched: not there.
    #[arg(short = 'l', value_name = "pass|block|nomatch")]
    log: Vec<String>,
    /// Only read; change nothing.
    #[arg(short = 'n')]
    nothing: bool,
    /// Rules are outbound unless they say otherwise: every rule says it.
    #[arg(short = 'o', hide = true)]
    outbound: bool,
    /// Rules are for authentication: not there.
    #[arg(short = 'P')]
    authentication: bool,
    /// Do not resolve names.
    #[arg(short = 'R')]
    no_names: bool,
    /// Remove the rules from the lists.
    #[arg(short = 'r')]
    remove: bool,
    /// Swap active and inactive lists: not there.
    #[arg(short = 's')]
    swap: bool,
    /// Tunables: `list` prints the names that weir knows.
    #[arg(short = 'T', value_name = "TUNABLES")]
    tunables: Vec<String>,
    /// Print each rule as loaded.
    #[arg(short = 'v')]
    verbose: bool,
    /// Resynchronise interface addresses: not there.
    #[arg(short = 'y')]
    resync: bool,
    /// Print and zero the counters of the rules: not there.
    #[arg(short = 'z')]
    zero: bool,
    /// Print and zero all statistics: not there.
    #[arg(short = 'Z')]
    zero_all: bool,
    /// Language of the rules.
    #[arg(long, value_name = "DIALECT", default_value = "ipf", value_parser = ["ipf", "hpux"])]
    dialect: String,
    /// Print the form of 4.x.
    #[arg(long)]
    old_form: bool,
    /// Only warn of names that nobody knows; such rules match nothing.
    #[arg(long)]
    lenient: bool,
}

/// Reads and prints.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.tunables.iter().any(|list| list == "list") {
        for name in tunables::names() {
            out.line(name)?;
        }
        return Ok(Exit::Done);
    }
    if !args.nothing {
        let wants = [
            (args.disable || args.enable, "-D and -E"),
            (!args.flush.is_empty(), "-F"),
            (args.swap, "-s"),
            (args.resync, "-y"),
            (args.zero || args.zero_all, "-z and -Z"),
            (!args.log.is_empty(), "-l"),
            (!args.tunables.is_empty(), "-T"),
            (!args.files.is_empty(), "-f without -n"),
        ];
        if let Some((_, what)) = wants.iter().find(|(wanted, _)| *wanted) {
            let message = format!(
                "{what}: weir ipf changes nothing in the kernel (weir apply does); -n reads and checks \
                 them, `weir ipftest` runs packets through them"
            );
            return Err(failure(Exit::Unsupported, message));
        }
    }
    if args.files.is_empty() {
        return Err(failure(Exit::Usage, "nothing to do: give -f FILE"));
    }
    let hpux = args.dialect == "hpux";
    let reading = Reading {
        language: if hpux { Language::Hpux } else { Language::Ipf },
        family: match (args.six, args.four || hpux) {
            (true, _) => Some(Family::V6),
            (false, true) => Some(Family::V4),
            (false, false) => None,
        },
        lenient: args.lenient,
        no_names: args.no_names,
        told: true,
    };
    let rules = Rules::read(&args.files, &[], &reading)?;
    let texts_only = |code: &str| code == "unknown-table";
    // A pool may be in the kernel already: `ipf` alone cannot know.
    let wrong = rules
        .diagnostics
        .iter()
        .any(|d| d.is_error() && !texts_only(d.code));
    rules.tell(Severity::Warning);
    let known = |name: &str| interface_exists(name);
    let options = PrintOptions {
        form: match hpux || args.old_form {
            true => Form::V4,
            false => Form::V5,
        },
        entries: Some(0),
        known: Some(&known),
    };
    if args.verbose {
        for rule in rules.file.rules() {
            out.line(print_rule(rule, &options))?;
        }
    }
    match wrong {
        true => rules.check().map(|()| Exit::Done),
        false => Ok(Exit::Done),
    }
}
