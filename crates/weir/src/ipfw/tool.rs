//! `weir ipfw`: a command of ipfw on a saved rule set.
//!
//! In: a rule file, which may hold counters as `ipfw show` prints them, and one command in ipfw's
//! own words. Out: what ipfw would print, and its exit status. The kernel is not asked; what the
//! command changes is kept only when the file is to be written.

use super::facts::FactArgs;
use super::load::{Loaded, System, load_sound};
use super::show::canonical;
use crate::exit::{Exit, OrExit};
use crate::output::Output;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_policy::dialect::ipfw::command::Switches;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{DEFAULT_RULE, Notes, Ruleset, Step, read_line, words};
use weir_policy::model::Counters;
use weir_policy::syntax::diag::{Colour, render};
use weir_policy::syntax::{Severity, Sources};

/// Options of `weir ipfw`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: weir ipfw --rules /etc/ipfw.rules -a list 100-200")]
pub struct Args {
    /// The saved rule set.
    #[arg(long, value_name = "FILE", required = true)]
    pub rules: PathBuf,
    /// Write what the command changes back to the file, in canonical form.
    #[arg(long)]
    pub write: bool,
    /// Facts.
    #[command(flatten)]
    pub facts: FactArgs,
    /// Options and command of ipfw.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Carries the command out; ipfw's exit status comes back when it ends badly.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let files = [args.rules.clone()];
    let loaded = load_sound(&files, args.facts.settings()?, true)?;
    let Loaded { program, .. } = loaded;
    let before = program.ruleset;
    let mut ruleset = before.clone();
    let mut sources = Sources::new();
    let text = words::joined(&args.command);
    let source = sources.add("ipfw", text.as_str());
    let mut notes = Notes::default();
    let names = System::default();
    let done = read_line(&args.command, source, &mut ruleset, &names, &mut notes);
    let mut found = notes.list;
    let fault = match done {
        Err(fault) => Some(fault),
        Ok(Step { answer, .. }) => {
            out.raw(answer.out.as_bytes())?;
            for line in &answer.err {
                eprintln!("ipfw: {line}");
            }
            answer.fault
        }
    };
    found.extend(fault.iter().map(|fault| fault.diagnostic()));
    found.retain(|one| one.severity >= Severity::Warning);
    let colour = match crate::output::stderr_colours() {
        true => Colour::Terminal,
        false => Colour::Plain,
    };
    eprint!("{}", render(&found, &sources, colour));
    if ruleset != before {
        keep(args, &ruleset)?;
    }
    match fault {
        None => Ok(Exit::Done),
        Some(fault) => {
            out.flush()?;
            Err(anyhow::Error::new(Ended(fault.exit as u8)))
        }
    }
}

fn keep(args: &Args, ruleset: &Ruleset) -> anyhow::Result<()> {
    let name = args.rules.display();
    if !args.write {
        eprintln!("weir: {name} is as it was; --write keeps the change");
        return Ok(());
    }
    let beside = args.rules.with_extension("weir-new");
    let text = with_counters(ruleset);
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, &args.rules))
        .or_exit(Exit::Usage, format!("{name}: can't be written"))
}

/// The canonical text, with the counters of rules that have some.
fn with_counters(ruleset: &Ruleset) -> String {
    let text = canonical(ruleset);
    let commands = text.lines().filter(|line| !is_rule(line));
    let mut out: String = commands.map(|line| format!("{line}\n")).collect();
    for one in &ruleset.rules {
        let counted = one.counters != Counters::default();
        if one.rule.number == DEFAULT_RULE && !counted {
            continue;
        }
        let switches = Switches {
            sets: one.rule.set != 0 && one.rule.number != DEFAULT_RULE,
            ..Switches::default()
        };
        let line = listing::line(&one.rule, None, ruleset, switches, None);
        let line = line.trim_start_matches("# DISABLED ");
        out += &match (counted, line.split_once(' ')) {
            (true, Some((number, rest))) => {
                let Counters { packets, bytes } = one.counters;
                format!("{number} {packets} {bytes} {rest}\n")
            }
            _ => format!("{line}\n"),
        };
    }
    out
}

fn is_rule(line: &str) -> bool {
    let line = line.strip_prefix("# DISABLED ").unwrap_or(line);
    let number = line.split(' ').next().unwrap_or("");
    number.len() == 5 && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// ipfw's own exit status, for scripts that ask for it.
#[derive(Debug)]
pub struct Ended(pub u8);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ipfw ended with status {}", self.0)
    }
}

impl std::error::Error for Ended {}

/// The status with which ipfw ended, if that is what the error is.
pub fn status(error: &anyhow::Error) -> Option<ExitCode> {
    let ended = error.downcast_ref::<Ended>()?;
    Some(ExitCode::from(ended.0))
}
