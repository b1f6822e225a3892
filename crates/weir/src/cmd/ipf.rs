//! `weir ipf`: the enforced lists are changed, or with -n only read, with the options of IPFilter's
//! `ipf`.
//!
//! In: rule files. Out: other rules in force (`crate::ipf::change`); with -v each rule of the files
//! in canonical form, lists multiplied out. What can't be done is refused by name.

use crate::exit::{Exit, failure};
use crate::input::interface_pair;
use crate::ipf::change::Change;
use crate::ipf::enforce::settings_of;
use crate::ipf::files::{Reading, Rules, are_of_hpux};
use crate::ipf::live::{Hits, Live};
use crate::ipf::{interface_exists, tunables};
use crate::output::Output;
use std::path::PathBuf;
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::dialect::ipf::{Form, Language, PrintOptions, print_rule};
use weir_policy::eval::ipf::Settings;
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
    /// Switch filtering off: all packets pass.
    #[arg(short = 'D')]
    disable: bool,
    /// Switch filtering on again.
    #[arg(short = 'E')]
    enable: bool,
    /// Flush lists: i inbound, o outbound, a all.
    #[arg(short = 'F', value_name = "WHAT")]
    flush: Vec<String>,
    /// Rules; `-` is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Work on the inactive lists.
    #[arg(short = 'I')]
    inactive: bool,
    /// Log what passes, what is blocked or what no rule matched: not there.
    #[arg(short = 'l', value_name = "pass|block|nomatch")]
    log: Vec<String>,
    /// HP-UX: limits of connections are switched on (e), off (d), over (t), or asked for (q).
    #[arg(short = 'm', value_name = "e|d|t|q", value_parser = ["e", "d", "t", "q"])]
    limits: Option<String>,
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
    /// Exchange active and inactive lists.
    #[arg(short = 's')]
    swap: bool,
    /// Tunables of the enforced lists: `list`, name, or name=value.
    #[arg(short = 'T', value_name = "TUNABLES")]
    tunables: Vec<String>,
    /// Whether packets are filtered, and what becomes of those that no rule is for.
    #[arg(short = 'V')]
    version: bool,
    /// Print each rule as loaded.
    #[arg(short = 'v')]
    verbose: bool,
    /// Ask for the addresses of interfaces again.
    #[arg(short = 'y')]
    resync: bool,
    /// Print the hits of the rules of the files, and zero them.
    #[arg(short = 'z')]
    zero: bool,
    /// Zero the hits of all rules, and print the rules with them.
    #[arg(short = 'Z')]
    zero_all: bool,
    /// Language of the rules; told by their content when absent.
    #[arg(long, value_name = "DIALECT", value_parser = ["ipf", "hpux"])]
    dialect: Option<String>,
    /// Print the form of 4.x.
    #[arg(long)]
    old_form: bool,
    /// Only warn of names that nobody knows; such rules match nothing.
    #[arg(long)]
    lenient: bool,
    /// What an interface of the files is called here, such as lo0=lo.
    #[arg(long, value_name = "OLD=NEW", value_parser = interface_pair)]
    interface: Vec<String>,
    /// Network namespace whose lists are changed; default: the present one.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

/// Changes, or reads and prints.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.tunables.iter().any(|list| list == "list") {
        return tunables_of(args, out);
    }
    if args.version {
        return version(args, out);
    }
    if args.nothing {
        return read_only(args, out);
    }
    let wants = [(args.authentication, "-P"), (!args.log.is_empty(), "-l")];
    if let Some((_, what)) = wants.iter().find(|(wanted, _)| *wanted) {
        let message = format!("{what} is not offered for the enforced lists");
        return Err(failure(Exit::Unsupported, message));
    }
    change(args, out)
}

/// What is to be flushed, as letters.
fn flush_of(args: &Args) -> anyhow::Result<Vec<char>> {
    let letters: Vec<char> = args.flush.iter().flat_map(|list| list.chars()).collect();
    match letters.iter().find(|letter| !"ioa".contains(**letter)) {
        None => Ok(letters),
        Some('s' | 'S') => {
            let message = "-Fs and -FS: states can't be flushed alone; `weir ipf -D` and `-E`, or \
                `weir unload`, forget all";
            Err(failure(Exit::Unsupported, message))
        }
        Some(letter) => {
            let message = format!("-F {letter}: i, o and a are known");
            Err(failure(Exit::Usage, message))
        }
    }
}

/// `-T list`: the tunables that the enforced lists have, with their values.
fn tunables_of(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let live = Live::open(args.netns.as_deref())?;
    for (name, value) in tunables::enforced(&said(&live)) {
        out.line(format!("{name}\tcurrent {value}"))?;
    }
    Ok(Exit::Done)
}

/// `-V`: which program this is, and whether it filters.
fn version(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    out.line(format!("ipf: weir {}", env!("CARGO_PKG_VERSION")))?;
    let live = Live::open(args.netns.as_deref())?;
    let filters = live.kernel.generation().is_some() && !live.is_off()?;
    let default = match said(&live).default_block {
        true => "block",
        false => "pass",
    };
    for line in [
        format!("Running: {}", if filters { "yes" } else { "no" }),
        "Log Flags: 0 = none set".to_owned(),
        format!("Default: {default} all, Logging: available"),
    ] {
        out.line(line)?;
    }
    Ok(Exit::Done)
}

/// The settings that the enforced lists have.
fn said(live: &Live) -> Settings {
    let mut settings = settings_of(live.language());
    for (name, value) in live.settings() {
        // What isn't known was told when it was applied.
        let _ = tunables::set(&mut settings, name, *value);
    }
    settings
}

/// `-T name` prints, `-T name=value` says another value; whether any was said.
fn tune(args: &Args, live: &mut Live, out: &mut Output) -> anyhow::Result<bool> {
    let mut changed = false;
    let limits = args.limits.as_deref().map(|word| match word {
        "e" => "dca=1",
        "d" => "dca=0",
        "t" if said(live).limits_on => "dca=0",
        "t" => "dca=1",
        _ => "dca",
    });
    let all = args.tunables.iter().flat_map(|list| list.split(','));
    let all = all.chain(limits);
    for part in all.map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part
            .split_once('=')
            .map_or((part, None), |(n, v)| (n, Some(v)));
        let known = tunables::canonical(name.trim());
        let now = said(live);
        let row = tunables::enforced(&now).find(|row| Some(row.0) == known);
        let Some((name, current)) = row else {
            let names: Vec<&str> = tunables::enforced(&now).map(|row| row.0).collect();
            let message = format!("-T {name}: the enforced lists have {}", names.join(", "));
            return Err(failure(Exit::Unsupported, message));
        };
        match value {
            None => out.line(format!("{name}\tcurrent {current}"))?,
            Some(value) => {
                let number = tunables::number(value);
                live.set(name, number.map_err(|why| failure(Exit::Usage, why))?);
                changed = true;
            }
        }
    }
    Ok(changed)
}

fn change(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    // Before the namespace is entered: the files may be others there.
    let files = reading_of(args).files(&args.files)?;
    let change = Change {
        flush: flush_of(args)?,
        files: &files,
        remove: args.remove,
        zero: args.zero,
        zero_all: args.zero_all,
        inactive: args.inactive,
        swap: args.swap,
        verbose: args.verbose,
    };
    let tunes = !args.tunables.is_empty() || args.limits.is_some();
    let switches = args.disable || args.enable || args.resync || tunes;
    if change.is_nothing() && !switches {
        return Err(failure(
            Exit::Usage,
            "nothing to do: give -f FILE, -F LIST, -s, -z, -Z, -T or -m",
        ));
    }
    let mut live = Live::open_to_change(args.netns.as_deref())?;
    let hpux = match args.dialect.as_deref() {
        Some(dialect) => dialect == "hpux",
        None => are_of_hpux(&files),
    };
    if hpux {
        let all = change.flush.contains(&'a')
            || (change.flush.contains(&'i') && change.flush.contains(&'o'));
        live.speak_hpux(all && !args.inactive)?;
    }
    let tuned = tune(args, &mut live, out)?;
    let exit = match change.is_nothing() {
        true => Exit::Done,
        false => change.run(&mut live, &reading_of(args), out)?,
    };
    let again = args.resync && live.kernel.generation().is_some() || tuned;
    if again && (change.is_nothing() || tuned) {
        let rules = live.listed();
        live.replace(&rules, Hits::default())?;
    }
    if args.disable {
        live.disable()?;
    }
    if args.enable {
        live.enable()?;
    }
    Ok(exit)
}

fn reading_of(args: &Args) -> Reading {
    let hpux = args.dialect.as_deref() == Some("hpux");
    Reading {
        language: if hpux { Language::Hpux } else { Language::Ipf },
        family: match (args.six, args.four || hpux) {
            (true, _) => Some(Family::V6),
            (false, true) => Some(Family::V4),
            (false, false) => None,
        },
        lenient: args.lenient,
        no_names: args.no_names,
        told: args.dialect.is_some(),
        interface: args.interface.clone(),
    }
}

fn read_only(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.files.is_empty() {
        return Err(failure(Exit::Usage, "nothing to do: give -f FILE"));
    }
    let reading = reading_of(args);
    let mut rules = Rules::read(&args.files, &[], &reading)?;
    let texts_only = |code: &str| code == "unknown-table";
    // A pool may be in the kernel already: `ipf` alone cannot know.
    rules.diagnostics.retain(|found| !texts_only(found.code));
    rules.tell(Severity::Warning);
    let known = |name: &str| interface_exists(name);
    let options = PrintOptions {
        form: match rules.file.language == Language::Hpux || args.old_form {
            true => Form::V4,
            false => Form::V5,
        },
        entries: Some(0),
        known: Some(&known),
    };
    if args.verbose {
        for rule in rules.file.rules() {
            // As the original prints them: where a rule was put isn't part of it.
            let plain = Rule {
                insert: None,
                ..rule.clone()
            };
            out.line(print_rule(&plain, &options))?;
        }
    }
    rules.check().map(|()| Exit::Done)
}
