//! Commands of ipfw on the rules that are enforced.
//!
//! In: the texts of the enforced policy with the kernel's counters, one command (or a file of
//! commands) in ipfw's words. Out: what ipfw would print; and where the command changed something,
//! the changed rules in force, whole or not at all, with the counters of rules that are still
//! there. Lines counted by `logamount` start anew, which is what `resetlog` is for.

use super::enforce::{find_owners, settings_text};
use super::load::{DIALECT, System};
use super::pathname::Pathname;
use super::tool::{Ended, with_counters};
use crate::enforce::{self, How, nothing_enforced};
use crate::exit::{Exit, OrExit, failure};
use crate::input::{self, Hosts, told};
use crate::kernel::Kernel;
use crate::output::Output;
use crate::state::{Saved, SavedSource};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_policy::dialect::ipfw::command::{Command, Switches};
use weir_policy::dialect::ipfw::lower::{Options, lower};
use weir_policy::dialect::ipfw::{
    ExitClass, Notes, Program, Ruleset, Step, looks_like_script, parse_command, read_line,
    refusals, words,
};
use weir_policy::syntax::{Diagnostic, Severity, Sources, Span};

/// The texts with settings behind them, so that these win over lines in the texts.
pub fn with_settings(texts: Vec<SavedSource>, given: &[String]) -> Vec<SavedSource> {
    if given.is_empty() {
        return texts;
    }
    let lines = given.iter().map(|one| format!("# --sysctl {one}\n"));
    let settings = SavedSource {
        name: "--sysctl".to_owned(),
        text: lines.collect(),
    };
    texts.into_iter().chain([settings]).collect()
}

/// A firewall script is no rule file; says what makes one of it.
pub fn refuse_scripts(texts: &[SavedSource]) -> anyhow::Result<()> {
    match texts.iter().find(|text| looks_like_script(&text.text)) {
        None => Ok(()),
        Some(text) => {
            let name = &text.name;
            let message = format!(
                "{name} is a script: `weir ipfw-record {name} > RULES`, then `weir apply RULES`"
            );
            Err(failure(Exit::Usage, message))
        }
    }
}

/// The enforced rules, with the kernel's counters.
pub fn enforced(kernel: &Kernel) -> anyhow::Result<(Saved, Ruleset)> {
    let saved = kernel.active_texts()?.ok_or_else(nothing_enforced)?;
    let loaded = input::load_saved(&saved)?;
    let policy = loaded.policy()?;
    let counted = kernel.counters(policy.rule_count)?;
    let Some(mut ruleset) = loaded.ruleset.clone() else {
        let message = "the policy that is enforced is not of ipfw; --rules FILE names a saved one";
        return Err(failure(Exit::Usage, message));
    };
    ruleset.flows = super::pipes::flows(kernel, &ruleset, policy)?;
    let (_, times) = kernel.times(policy.rule_count)?;
    for one in &mut ruleset.rules {
        let at = one.id.0 as usize;
        one.counters = counted.get(at).copied().unwrap_or_default();
        one.last_match = times.get(at).copied().flatten();
    }
    Ok((saved, ruleset))
}

/// How rules that are read anew go on: those that were there before count on, and have matched when
/// they did unless they were zeroed.
fn going_on(
    kernel: &Kernel,
    before: &Ruleset,
    (ruleset, anew): (&Ruleset, &Ruleset),
) -> anyhow::Result<How> {
    let (known, _) = kernel.times(before.rule_count())?;
    let mut counted = vec![(0, 0); before.rule_count() as usize];
    for one in &before.rules {
        counted[one.id.0 as usize] = (one.counters.packets, one.counters.bytes);
    }
    let rules = anew.rule_count() as usize;
    let (mut times, mut was) = (vec![0; rules], vec![None; rules]);
    for (one, new) in ruleset.rules.iter().zip(&anew.rules) {
        let (old, new) = (one.id.0, new.id.0 as usize);
        let kept = one.last_match.and(known.get(old as usize));
        times[new] = kept.copied().unwrap_or(0);
        was[new] = Some(old).filter(|old| *old < before.rule_count());
    }
    Ok(How {
        preset_counters: true,
        times,
        counted,
        was,
        ..How::default()
    })
}

/// What a command did to a rule set.
pub struct Carried {
    /// What ipfw would print, for when it is done.
    pub said: String,
    /// The same on standard error, one line each.
    pub errors: Vec<String>,
    /// The texts that messages are about.
    pub sources: Sources,
    /// Messages.
    pub found: Vec<Diagnostic>,
    /// How it ended, if badly.
    pub ended: Option<ExitClass>,
    /// Lines are counted anew.
    restarts_log: bool,
}

fn restarts_log(step: &Step) -> bool {
    let resets = matches!(step.line.command, Command::Zero { .. });
    resets && step.answer.fault.is_none()
}

/// Carries a command out on a rule set.
pub fn carry_out(command: &[String], ruleset: &mut Ruleset) -> Carried {
    let mut sources = Sources::new();
    let text = words::joined(command);
    let source = sources.add("ipfw", text.as_str());
    let mut notes = Notes::default();
    let names = System::default();
    let done = read_line(command, source, ruleset, &names, &mut notes);
    let mut found = notes.list;
    let (mut said, mut errors) = (String::new(), Vec::new());
    let restarts = done.as_ref().is_ok_and(restarts_log);
    let fault = match done {
        Err(fault) => Some(fault),
        Ok(Step { line, answer }) => {
            (said, errors) = (answer.out, answer.err);
            found.extend(refusals(&line));
            answer.fault
        }
    };
    found.extend(fault.iter().map(|fault| fault.diagnostic()));
    found.retain(|one| one.severity >= Severity::Warning);
    Carried {
        said,
        errors,
        sources,
        found,
        ended: fault.map(|fault| fault.exit),
        restarts_log: restarts,
    }
}

impl Carried {
    /// Says what ipfw would.
    pub fn say(&self, out: &mut Output) -> anyhow::Result<()> {
        out.raw(self.said.as_bytes())?;
        for line in &self.errors {
            eprintln!("ipfw: {line}");
        }
        out.flush()
    }
}

/// The options in front of a file, which stand for each of its lines.
fn standing(call: &Pathname<'_>) -> anyhow::Result<Switches> {
    let mut arguments = call.switches.to_vec();
    arguments.push("list".to_owned());
    let mut sources = Sources::new();
    let source = sources.add("ipfw", words::joined(&arguments).as_str());
    let span = Span::new(source, 0, words::joined(&arguments).len());
    let split = words::split_arguments(&arguments, source);
    let names = System::default();
    let line = parse_command(
        &split,
        span,
        Switches::default(),
        &mut Notes::default(),
        &names,
    );
    line.map(|line| line.switches).map_err(|fault| {
        told::show(&[fault.diagnostic()], &sources);
        anyhow::Error::new(Ended(fault.exit as u8))
    })
}

/// Carries out a file of commands, all of them or none; with `-f` those that are not wrong.
pub fn carry_out_file(call: &Pathname<'_>, ruleset: &mut Ruleset) -> anyhow::Result<Carried> {
    let standing = standing(call)?;
    let folder = std::env::current_dir().unwrap_or_default();
    let mut input = Vec::new();
    if call.is_standard_input() {
        let read = std::io::stdin().lock().read_to_end(&mut input);
        read.or_exit(Exit::Usage, "can't read standard input")?;
    }
    let text = call.read(&folder, &input);
    let text = SavedSource {
        name: call.path.to_owned(),
        text: text.map_err(|wrong| failure(Exit::Usage, wrong))?,
    };
    refuse_scripts(std::slice::from_ref(&text))?;
    let mut sources = Sources::new();
    let source = sources.add(text.name.as_str(), text.text.as_str());
    let mut program = Program::default();
    program.ruleset = ruleset.clone();
    program.add_under(&text.text, source, &System::default(), standing);
    let said = program
        .steps
        .iter()
        .map(|step| step.answer.out.as_str())
        .collect();
    let restarts_log = program.steps.iter().any(restarts_log);
    let mut found = program.diagnostics;
    found.retain(|one| one.severity >= Severity::Warning);
    let sound = standing.force || !found.iter().any(Diagnostic::is_error);
    if sound {
        *ruleset = program.ruleset;
    }
    Ok(Carried {
        said,
        errors: Vec::new(),
        sources,
        found,
        ended: program.ended,
        restarts_log: restarts_log && sound,
    })
}

/// Carries a command out on the enforced rules.
pub fn run(command: &[String], netns: Option<&str>, out: &mut Output) -> anyhow::Result<Exit> {
    let mut kernel = Kernel::open(netns)?;
    if kernel.generation().is_none() {
        let message = "no policy is enforced here: `weir apply FILE` first, or --rules FILE";
        return Err(failure(Exit::Negative, message));
    }
    let _lock = kernel.store.lock()?;
    kernel.refresh()?;
    let (saved, mut before) = enforced(&kernel)?;
    before.states = super::states::lines(&kernel, &before)?;
    let mut ruleset = before.clone();
    let carried = match Pathname::of(command) {
        Some(call) => carry_out_file(&call, &mut ruleset)?,
        None => carry_out(command, &mut ruleset),
    };
    told::show(&carried.found, &carried.sources);
    if ruleset != before || carried.restarts_log {
        // We have entered the namespace.
        find_owners(&mut ruleset, &Hosts::asking());
        check(&carried, &saved, &ruleset)?;
        replace(&mut kernel, &saved, (&before, &ruleset))?;
    } else if carried.ended.is_none() && carried.found.iter().any(Diagnostic::is_error) {
        return Err(unchanged(Exit::Unsupported));
    }
    carried.say(out)?;
    match carried.ended {
        None => Ok(Exit::Done),
        Some(exit) => Err(anyhow::Error::new(Ended(exit as u8))),
    }
}

fn unchanged(exit: Exit) -> anyhow::Error {
    failure(exit, "the enforced rules are as they were")
}

/// Whether changed rules can be enforced; says why not.
fn check(carried: &Carried, saved: &Saved, ruleset: &Ruleset) -> anyhow::Result<()> {
    let allow_unsupported = saved.allow_unsupported;
    if carried.found.iter().any(Diagnostic::is_unsupported) && !allow_unsupported {
        return Err(unchanged(Exit::Unsupported));
    }
    let options = Options {
        allow_unsupported,
        frames: true,
    };
    let (policy, found) = lower(ruleset, &carried.sources, options);
    if policy.is_none() {
        told::show(&found, &carried.sources);
        return Err(unchanged(Exit::Unsupported));
    }
    Ok(())
}

/// Puts changed rules in force in the place of those that are.
fn replace(
    kernel: &mut Kernel,
    saved: &Saved,
    (before, ruleset): (&Ruleset, &Ruleset),
) -> anyhow::Result<()> {
    enforce::refuse_on_trial(&kernel.store)?;
    let text = settings_text(&ruleset.settings) + &with_counters(ruleset);
    let mut changed = Saved {
        sources: vec![SavedSource {
            name: "ipfw".to_owned(),
            text,
        }],
        dialect: Some(DIALECT.to_owned()),
        allow_unsupported: saved.allow_unsupported,
        names: saved.names.without_interfaces(),
        kernel_nat: saved.kernel_nat,
        applied_at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        changed: None,
    };
    let loaded = input::load_saved(&changed)?;
    changed.names = loaded.answers.clone();
    let compiled = loaded.compile()?;
    let how = match &loaded.ruleset {
        Some(anew) => going_on(kernel, before, (ruleset, anew))?,
        None => How::default(),
    };
    enforce::apply_locked(kernel, &loaded, &compiled, &changed, &how)?;
    Ok(())
}
