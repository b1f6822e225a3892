//! `weir show` for ipfw: rules in canonical form, as `ipfw list` prints them.
//!
//! In: rule files. Out: commands for tables, shaping and sets, then the rules by number; reading
//! that again gives the same rule set. The default rule is not printed, as no file can set it.

use super::enforce::settings_text;
use super::facts::FactArgs;
use super::load::load_sound;
use crate::cmd::show;
use crate::exit::Exit;
use crate::input::ReadingArgs;
use crate::kernel::Kernel;
use crate::output::Output;
use std::path::PathBuf;
use weir_policy::dialect::ipfw::command::Switches;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{DEFAULT_RULE, Ruleset};

/// Shows. What can't be honoured is printed like everything else.
pub fn run(
    files: &[PathBuf],
    reading: &ReadingArgs,
    facts: &FactArgs,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let reading = ReadingArgs {
        allow_unsupported: true,
        ..reading.clone()
    };
    let loaded = load_sound(files, facts, &reading)?;
    let ruleset = &loaded.program.ruleset;
    let text = settings_text(&ruleset.settings) + &canonical(ruleset);
    show::print(vec![file(loaded.names.join(" "), text)], out)
}

/// Shows the rules that are enforced.
pub fn enforced(kernel: &Kernel, counters: bool, out: &mut Output) -> anyhow::Result<Exit> {
    let (saved, ruleset) = super::live::enforced(kernel)?;
    let text = settings_text(&ruleset.settings)
        + &match counters {
            true => super::tool::with_counters(&ruleset),
            false => canonical(&ruleset),
        };
    let names: Vec<String> = saved
        .sources
        .into_iter()
        .map(|source| source.name)
        .collect();
    show::print(vec![file(names.join(" "), text)], out)
}

fn file(name: String, text: String) -> show::File {
    show::File::new(name, super::load::DIALECT, None, text)
}

/// The rule set as text that reads back: what isn't a rule as commands, rules as listed.
pub fn canonical(ruleset: &Ruleset) -> String {
    let commands = listing::commands(ruleset);
    let mut out: String = commands
        .lines()
        .filter(|line| !line.starts_with("add "))
        .map(|line| format!("{line}\n"))
        .collect();
    for one in ruleset
        .rules
        .iter()
        .filter(|one| one.rule.number != DEFAULT_RULE)
    {
        let switches = Switches {
            // Sets are part of what a rule is; without them the text would not read back.
            sets: one.rule.set != 0,
            ..Switches::default()
        };
        let line = listing::line(&one.rule, None, ruleset, switches, None);
        // Which sets are off is said by a command before; a line with # in front is a comment.
        out += line.trim_start_matches("# DISABLED ");
        out.push('\n');
    }
    out
}
