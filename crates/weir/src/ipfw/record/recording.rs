//! The pending transaction of a recorded script: what its calls have come to.
//!
//! In: calls of `ipfw` and `dnctl`. Out: what ipfw would have printed and its exit status, at once,
//! so that the script goes on as it would; reading commands see all that came before.

use super::super::load::System;
use super::super::pathname::Pathname;
use super::wire::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use weir_policy::dialect::ipfw::{
    ExitClass, Fault, Notes, Ruleset, Settings, read_line, refusals, words,
};
use weir_policy::eval::ipfw::Host;
use weir_policy::model::SourceId;
use weir_policy::syntax::{Diagnostic, Sources};

/// What is recorded.
pub struct Recording {
    /// The rule set so far.
    pub ruleset: Ruleset,
    /// Texts of the calls, for messages.
    pub sources: Sources,
    /// Messages about calls.
    pub diagnostics: Vec<Diagnostic>,
    /// Calls of ipfw and dnctl.
    pub calls: u64,
    /// Calls that failed although nothing but their words was wrong.
    pub failed: u64,
    /// All commands that were carried out, as lines of a rule file.
    pub commands: Vec<String>,
    /// Facts about the host, for `ifconfig` and `route`.
    pub host: Host,
    /// Settings of the kernel that ipfw does not have.
    pub others: BTreeMap<String, String>,
    /// Modules that were loaded.
    pub modules: BTreeSet<String>,
    /// What scripts asked for and nobody told.
    pub missing: BTreeSet<String>,
    script: String,
    names: System,
}

impl Recording {
    /// An empty one.
    pub fn new(script: &str, settings: Settings, host: Host) -> Self {
        Self {
            ruleset: Ruleset::new(settings),
            sources: Sources::new(),
            diagnostics: Vec::new(),
            calls: 0,
            failed: 0,
            commands: Vec::new(),
            host,
            others: BTreeMap::new(),
            modules: BTreeSet::from(["kernel".to_owned(), "ipfw".to_owned()]),
            missing: BTreeSet::new(),
            script: script.to_owned(),
            names: System::default(),
        }
    }

    /// A call of ipfw.
    pub fn ipfw(&mut self, folder: &str, arguments: &[String], input: &[u8]) -> Reply {
        self.calls += 1;
        match Pathname::of(arguments) {
            Some(call) => self.file(&call, folder, input),
            None => self.command(arguments, None),
        }
    }

    /// The pathname form: line by line, to the first error.
    fn file(&mut self, call: &Pathname<'_>, folder: &str, input: &[u8]) -> Reply {
        let text = match call.read(Path::new(folder), input) {
            Ok(text) => text,
            Err(error) => {
                self.failed += 1;
                return Reply {
                    status: ExitClass::Usage as u8,
                    err: format!("ipfw: {error}\n"),
                    ..Reply::default()
                };
            }
        };
        let switches = call.switches.join(" ");
        let file = call.path;
        let mut all = Reply::default();
        for (index, line) in text.lines().enumerate() {
            if words::split_line(line, 0, SourceId(0)).is_empty() {
                continue;
            }
            let place = format!("{file}:{}", index + 1);
            let one = self.command(&[format!("{switches} {line}")], Some(place));
            all.out += &one.out;
            all.err += &one.err;
            if one.status != 0 {
                all.status = one.status;
                break;
            }
        }
        all
    }

    fn command(&mut self, arguments: &[String], place: Option<String>) -> Reply {
        let text = words::joined(arguments);
        let name = place.unwrap_or_else(|| format!("{}: call {}", self.script, self.calls));
        let source = self.sources.add(name.as_str(), text.as_str());
        let mut notes = Notes::default();
        let done = read_line(
            arguments,
            source,
            &mut self.ruleset,
            &self.names,
            &mut notes,
        );
        self.diagnostics.extend(notes.list);
        match done {
            Err(fault) => self.refused(&fault, &text, true),
            Ok(step) => {
                self.diagnostics.extend(refusals(&step.line));
                let mut reply = Reply {
                    out: step.answer.out,
                    ..Reply::default()
                };
                for line in &step.answer.err {
                    reply.err += &format!("ipfw: {line}\n");
                }
                if let Some(fault) = &step.answer.fault {
                    let refused = self.refused(fault, &text, false);
                    reply.status = refused.status;
                    reply.err += &refused.err;
                } else {
                    self.commands.push(text.trim().to_owned());
                }
                reply
            }
        }
    }

    /// A command that ends badly. What the kernel refuses because of what is there already, such
    /// as a table or a key that exists, is the script's to care for.
    fn refused(&mut self, fault: &Fault, text: &str, parsed: bool) -> Reply {
        let state = matches!(fault.exit, ExitClass::Unavailable | ExitClass::System);
        let adds = text.split_whitespace().any(|word| word == "add");
        let rule = adds && !text.split_whitespace().any(|word| word == "table");
        let mut diagnostic = fault.diagnostic();
        if state && !(rule && parsed) {
            diagnostic.severity = weir_policy::syntax::Severity::Warning;
        } else {
            self.failed += 1;
        }
        self.diagnostics.push(diagnostic);
        Reply {
            status: fault.exit as u8,
            err: format!("ipfw: {}\n", fault.message),
            ..Reply::default()
        }
    }
}
