//! `weir ipfw`: a command of ipfw on the enforced rules, or on a saved rule set.
//!
//! In: one command in ipfw's own words; with `--rules` a rule file, which may hold counters as
//! `ipfw show` prints them. Out: what ipfw would print, and its exit status. With a file the kernel
//! is not asked, and what the command changes is kept only when the file is to be written; without
//! one see [`live`].

use super::enforce::settings_text;
use super::facts::FactArgs;
use super::live;
use super::load::{Loaded, load_sound};
use super::pathname::Pathname;
use super::show::canonical;
use crate::exit::{Exit, OrExit};
use crate::input::{ReadingArgs, told};
use crate::output::Output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_policy::dialect::ipfw::command::Switches;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{DEFAULT_RULE, ExitClass, Ruleset};
use weir_policy::model::Counters;
use weir_policy::syntax::Diagnostic;

/// Options of `weir ipfw`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir ipfw -a list\n  weir ipfw add 150 deny ip from 192.0.2.0/24 \
                        to any\n  weir ipfw --rules /etc/ipfw.rules -a list 100-200"
)]
pub struct Args {
    /// A saved rule set instead of the rules that are enforced.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Write what the command changes back to the file, in canonical form.
    #[arg(long, requires = "rules")]
    pub write: bool,
    /// Network namespace whose rules are meant; default: the present one.
    #[arg(long, value_name = "NAME", conflicts_with = "rules")]
    pub netns: Option<String>,
    /// Facts.
    #[command(flatten)]
    pub facts: FactArgs,
    /// Options and command of ipfw.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Carries the command out; ipfw's exit status comes back when it ends badly.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.command.is_empty() {
        eprintln!("ipfw: missing command: weir ipfw [OPTIONS] COMMAND, as `weir ipfw list`");
        return Err(anyhow::Error::new(Ended(ExitClass::Usage as u8)));
    }
    let Some(rules) = &args.rules else {
        return live::run(&args.command, args.netns.as_deref(), out);
    };
    let reading = ReadingArgs {
        allow_unsupported: true,
        ..ReadingArgs::default()
    };
    let loaded = load_sound(std::slice::from_ref(rules), &args.facts, &reading)?;
    let Loaded { program, .. } = loaded;
    let before = program.ruleset;
    let mut ruleset = before.clone();
    let mut carried = match Pathname::of(&args.command) {
        Some(call) => live::carry_out_file(&call, &mut ruleset)?,
        None => live::carry_out(&args.command, &mut ruleset),
    };
    carried.say(out)?;
    let wrong = |one: &Diagnostic| one.is_error() && !one.is_unsupported();
    let failed = carried.ended.is_none() && carried.found.iter().any(wrong);
    // What can't be enforced can be written all the same.
    carried.found.retain(|one| !one.is_unsupported());
    told::show(&carried.found, &carried.sources);
    if ruleset != before {
        keep(rules, args.write, &ruleset)?;
    }
    match carried.ended {
        None if failed => Ok(Exit::Negative),
        None => Ok(Exit::Done),
        Some(exit) => {
            out.flush()?;
            Err(anyhow::Error::new(Ended(exit as u8)))
        }
    }
}

fn keep(rules: &Path, write: bool, ruleset: &Ruleset) -> anyhow::Result<()> {
    let name = rules.display();
    if !write {
        eprintln!("weir: {name} is as it was; --write keeps the change");
        return Ok(());
    }
    let beside = rules.with_extension("weir-new");
    let text = settings_text(&ruleset.settings) + &with_counters(ruleset);
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, rules))
        .or_exit(Exit::Usage, format!("{name}: can't be written"))
}

/// The canonical text, with the counters of rules that have some.
pub(super) fn with_counters(ruleset: &Ruleset) -> String {
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
