//! A file of commands to a rule set.
//!
//! In: text, who knows names, settings to begin with. Out: a [`Program`]: the rule set, all
//! messages, and what each line said. Unlike the original, which stops at the first error and
//! leaves the lines before it loaded, every line is read and every error told, and a program with
//! errors is not to be used.
//!
//! Lines that ipfw itself printed (`00100 allow ip from any to any`, with or without counters)
//! are taken as the `add` commands that they came from.

use super::ast::{Action, InterfaceName, Pattern};
use super::command::{Command, CommandLine, Placed, Switches, TableCommand, TableType};
use super::fault::{ExitClass, Fault, Notes};
use super::lint;
use super::parse::{self, Names};
use super::refuse::refusals;
use super::ruleset::{Answer, DEFAULT_RULE, Ruleset, guess};
use super::settings::Settings;
use super::words::{self, LINE_BYTES_MAX, Word};
use crate::dialect::renamed::Renamed;
use crate::model::{Counters, SourceId};
use crate::syntax::words::lines;
use crate::syntax::{Diagnostic, Span};

/// What became of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The command.
    pub line: CommandLine,
    /// What it said.
    pub answer: Answer,
}

/// A file that was read.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The rule set.
    pub ruleset: Ruleset,
    /// All messages, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
    /// Lines that were carried out.
    pub steps: Vec<Step>,
    /// How ipfw would have ended at the first line that was wrong.
    pub ended: Option<ExitClass>,
    /// Interfaces of the file that is being read which have other names here.
    renamed: Renamed,
}

/// Reads a file.
#[must_use]
pub fn read(text: &str, source: SourceId, names: &dyn Names, settings: Settings) -> Program {
    let mut program = Program::new(settings);
    program.add(text, source, names);
    program.finish();
    program
}

/// Reads one command that comes as arguments; places count in [`words::joined`].
///
/// # Errors
/// The fault with which ipfw would end.
pub fn read_line(
    arguments: &[String],
    source: SourceId,
    ruleset: &mut Ruleset,
    names: &dyn Names,
    notes: &mut Notes,
) -> Result<Step, Fault> {
    let words = words::split_arguments(arguments, source);
    let length = words::joined(arguments).len();
    let span = Span::new(source, 0, length);
    let line = parse::command(&words, span, Switches::default(), notes, names)?;
    let answer = ruleset.apply(&line, names)?;
    Ok(Step { line, answer })
}

impl Program {
    /// A program without lines.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            ruleset: Ruleset::new(settings),
            ..Self::default()
        }
    }

    /// Reads a file on top of what was read before.
    pub fn add(&mut self, text: &str, source: SourceId, names: &dyn Names) {
        self.add_under(text, source, names, Switches::default());
    }

    /// The same with options that stand for every line.
    pub fn add_under(
        &mut self,
        text: &str,
        source: SourceId,
        names: &dyn Names,
        mut standing: Switches,
    ) {
        self.renamed = Renamed::of(text, source, &mut self.diagnostics);
        for line in lines(text) {
            let span = Span::new(source, line.start, line.start + line.text.len());
            if line.text.len() > LINE_BYTES_MAX {
                let bytes = line.text.len();
                let message = format!("the line has {bytes} bytes; {LINE_BYTES_MAX} fit");
                let fault = Fault::usage("line-length", span, message)
                    .help("split it into several commands, or use a table");
                self.diagnostics.push(fault.diagnostic());
                self.ended.get_or_insert(fault.exit);
                continue;
            }
            let words = words::split_line(line.text, line.start, source);
            standing = self.line(&words, span, standing, names);
        }
    }

    fn line(
        &mut self,
        words: &[Word],
        span: Span,
        standing: Switches,
        names: &dyn Names,
    ) -> Switches {
        let mut notes = Notes::default();
        let (listed, preset) = listing(words);
        let words = listed.as_deref().unwrap_or(words);
        let parsed = if self.is_default_rule(words) {
            if let (Some(preset), Some(last)) = (preset, self.ruleset.rules.last_mut()) {
                last.counters = preset;
            }
            None
        } else {
            Some(parse::command(words, span, standing, &mut notes, names))
        };
        let done = match parsed {
            None => Ok(None),
            Some(Err(fault)) => Err(fault),
            Some(Ok(mut line)) => {
                self.rename_interfaces(&mut line.command, names);
                let answer = self.ruleset.apply(&line, names);
                answer.map(|answer| Some(Step { line, answer }))
            }
        };
        self.diagnostics.extend(notes.list);
        match done {
            Ok(None) => standing,
            Err(fault) => {
                self.diagnostics.push(fault.diagnostic());
                self.ended.get_or_insert(fault.exit);
                standing
            }
            Ok(Some(step)) => {
                self.diagnostics.extend(refusals(&step.line));
                if let Some(fault) = &step.answer.fault {
                    self.ended.get_or_insert(fault.exit);
                    self.diagnostics.push(fault.diagnostic());
                }
                for text in &step.answer.err {
                    let found = Diagnostic::warning("ipfw", step.line.span, text.clone());
                    self.diagnostics
                        .push(found.help("ipfw says so and goes on"));
                }
                if let (Some(preset), Command::Add(rule)) = (preset, &step.line.command) {
                    self.ruleset.preset(rule, preset);
                }
                let switches = step.line.switches;
                if step.line.command != Command::Nothing {
                    self.steps.push(step);
                }
                switches
            }
        }
    }

    /// Gives the interfaces of a command the names that they have here.
    fn rename_interfaces(&mut self, command: &mut Command, names: &dyn Names) {
        if self.renamed.is_empty() {
            return;
        }
        match command {
            Command::Add(rule) => {
                for one in &mut rule.body {
                    match &mut one.pattern {
                        Pattern::Interface(_, InterfaceName::Name(name)) => {
                            rename(&self.renamed, name);
                        }
                        Pattern::Interface(_, InterfaceName::Glob(pattern)) => {
                            let found = self.renamed.left_out(pattern, one.place.0);
                            self.diagnostics.extend(found);
                        }
                        _ => {}
                    }
                }
            }
            Command::Table {
                name: Some(name),
                command,
                ..
            } => {
                let kind = self.ruleset.table(name).map(|table| table.kind);
                let keys: Vec<&mut Placed> = match command {
                    TableCommand::Add { entries, .. } => {
                        entries.iter_mut().map(|(key, _)| key).collect()
                    }
                    TableCommand::Delete(keys) => keys.iter_mut().collect(),
                    TableCommand::Lookup(key) => vec![key],
                    _ => return,
                };
                for (key, _) in keys {
                    if kind.or_else(|| guess(key, names)) == Some(TableType::Iface) {
                        rename(&self.renamed, key);
                    }
                }
            }
            _ => {}
        }
    }

    /// The last line of a listing says what the default rule does.
    fn is_default_rule(&mut self, words: &[Word]) -> bool {
        let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let ["add", "65535", rest @ ..] = &text[..] else {
            return false;
        };
        let accept = match rest {
            ["allow", "ip", "from", "any", "to", "any"] => true,
            ["deny", "ip", "from", "any", "to", "any"] => false,
            _ => return false,
        };
        // Only a listing has this line; the command itself is refused.
        if !words[0].span.start.eq(&words[1].span.start) {
            return false;
        }
        self.ruleset.settings.default_to_accept = accept;
        if let Some(last) = self.ruleset.rules.last_mut() {
            debug_assert_eq!(last.rule.number, DEFAULT_RULE);
            last.rule.action = if accept { Action::Allow } else { Action::Deny };
        }
        true
    }

    /// Looks at the rule set as a whole, after the last file.
    pub fn finish(&mut self) {
        self.diagnostics.extend(lint::lint(&self.ruleset));
        self.diagnostics
            .sort_by_key(|found| (found.span.source, found.span.start));
    }

    /// Whether it may be used.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

fn rename(renamed: &Renamed, name: &mut String) {
    if let Some(new) = renamed.get(name) {
        new.clone_into(name);
    }
}

/// A line that ipfw printed, as an `add` command, with its counters.
fn listing(words: &[Word]) -> (Option<Vec<Word>>, Option<Counters>) {
    let Some(number) = words
        .first()
        .filter(|word| word.text.len() == 5 && word.text.bytes().all(|byte| byte.is_ascii_digit()))
    else {
        return (None, None);
    };
    let decimal = |at: usize| -> Option<u64> { words.get(at)?.text.parse().ok() };
    let (rest, counters) = match (decimal(1), decimal(2)) {
        (Some(packets), Some(bytes)) => (3, Some(Counters { packets, bytes })),
        _ => (1, None),
    };
    // `100 add ...` is a command whose number stands first.
    let verb = words.get(rest).map_or("", |word| word.text.as_str());
    let is_listing = verb == "set" || verb == "prob" || parse::ACTIONS.contains(&verb);
    if !is_listing {
        return (None, None);
    }
    let add = Word {
        text: "add".to_owned(),
        span: number.span,
    };
    let mut out = vec![add, number.clone()];
    out.extend_from_slice(&words[rest..]);
    (Some(out), counters)
}

/// Lines looked at to tell the language of a text.
const LINES_TO_LOOK_AT: usize = 2000;

/// Whether a text is a file of ipfw commands, by its first line that no other language has.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    let verdicts = lines(text.trim_start_matches('\u{feff}'))
        .take(LINES_TO_LOOK_AT)
        .filter_map(|line| line_looks_like(line.text));
    verdicts.into_iter().next().unwrap_or(false)
}

/// Whether a text is a script of the shell that calls ipfw, by its name or by a variable's.
#[must_use]
pub fn looks_like_script(text: &str) -> bool {
    let is_ipfw = |word: &str| {
        let word = word.trim_start_matches(['"', '\'']);
        let word = word.split(['"', '\'']).next().unwrap_or(word);
        word.rsplit('/').next() == Some("ipfw")
    };
    let calls = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        let variable = first.split_once('=').filter(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        is_ipfw(variable.map_or(first, |(_, value)| value))
    };
    let names = |word: &str| word.contains("ipfw");
    text.starts_with("#!") && text.split_whitespace().any(names) || text.lines().any(calls)
}

/// `None` for lines that tell nothing.
fn line_looks_like(line: &str) -> Option<bool> {
    let words = words::split_line(line, 0, SourceId(0));
    let mut words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    if listing(&words::split_line(line, 0, SourceId(0)))
        .0
        .is_some()
    {
        return Some(true);
    }
    while words
        .first()
        .is_some_and(|w| w.len() > 1 && w.starts_with('-') && w.len() < 5)
    {
        let flags = words[0][1..].chars();
        if !flags.clone().all(|c| "abcdDefinNqStTv".contains(c)) || words.len() < 2 {
            return Some(false);
        }
        words.remove(0);
    }
    let number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    if words.len() > 1 && number(&words[0]) {
        words.swap(0, 1);
    }
    let (verb, mut rest) = words.split_first().map(|(verb, rest)| (*verb, rest))?;
    match verb {
        "add" => {
            if rest.first().is_some_and(number) {
                rest = &rest[1..];
            }
            while rest.len() > 2 && matches!(rest[0], "set" | "prob") {
                rest = &rest[2..];
            }
            Some(
                rest.first()
                    .is_some_and(|word| parse::ACTIONS.contains(word)),
            )
        }
        "table" => Some(rest.len() > 1),
        "pipe" | "queue" | "sched" | "nat" => Some(rest.len() > 1),
        "set" => Some(
            matches!(
                rest.first().copied(),
                Some("disable" | "enable" | "swap" | "move" | "show")
            ) || rest.first().is_some_and(number),
        ),
        "enable" | "disable" | "zero" | "resetlog" => Some(true),
        "flush" if rest.is_empty() => None,
        "delete" => Some(rest.first().is_some_and(number) || rest.first() == Some(&"set")),
        _ => Some(false),
    }
}
