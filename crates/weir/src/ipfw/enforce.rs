//! Rules of ipfw for the kernel: texts to a rule set and its policy.
//!
//! In: the texts of a policy, `# --sysctl NAME=VALUE` lines in them as the recorder writes them,
//! what names meant. Out: the rule set, the policy, all messages. Reading the same texts with the
//! same answers gives the same rule numbers, so counters can be told by texts alone.

use super::load::System;
use crate::input::{Answers, Hosts};
use crate::state::SavedSource;
use std::net::Ipv4Addr;
use weir_policy::dialect::ipfw::lower::{Options, lower};
use weir_policy::dialect::ipfw::{Program, Ruleset, Settings};
use weir_policy::model::{Policy, SourceId};
use weir_policy::syntax::{Diagnostic, Sources, Span};

/// Rules after lowering.
pub struct Lowered {
    /// The texts.
    pub sources: Sources,
    /// All messages.
    pub diagnostics: Vec<Diagnostic>,
    /// What the commands came to.
    pub ruleset: Ruleset,
    /// The policy, if nothing was wrong.
    pub policy: Option<Policy>,
    /// What names meant.
    pub answers: Answers,
}

/// What settings stand in front of a line that sets one.
const SYSCTL: &str = "# --sysctl ";

/// The text that gives settings, those that are not FreeBSD's own.
pub fn settings_text(settings: &Settings) -> String {
    let usual = Settings::default();
    let names = Settings::names().iter().copied().chain(["net.fibs"]);
    let changed = names.filter(|name| settings.get(name) != usual.get(name));
    let line = |name: &str| format!("{SYSCTL}{name}={}\n", settings.get(name).unwrap_or(0));
    changed.map(line).collect()
}

/// The settings that texts give.
pub fn settings_of(
    texts: &[SavedSource],
    ids: &[SourceId],
    found: &mut Vec<Diagnostic>,
) -> Settings {
    let mut settings = Settings::default();
    for (text, id) in texts.iter().zip(ids) {
        let mut start = 0;
        for line in text.text.split_inclusive('\n') {
            let at = start;
            start += line.len();
            let Some(given) = line.strip_prefix(SYSCTL) else {
                continue;
            };
            let set = given.trim().split_once('=').is_some_and(|(name, value)| {
                value.parse().is_ok_and(|value| settings.set(name, value))
            });
            if !set {
                let span = Span::new(*id, at, at + line.trim_end().len());
                let message = format!("no such setting: {}", given.trim());
                let warning = Diagnostic::warning("sysctl", span, message);
                found.push(warning.help("see weir ipfw-record, which lists settings"));
            }
        }
    }
    settings
}

/// Tells a rule set which interface has which address, where a rule asks for that.
pub fn find_owners(ruleset: &mut Ruleset, hosts: &Hosts) {
    let asked = ruleset.asked_owners();
    if asked.is_empty() {
        return;
    }
    let owners = asked.into_iter().flat_map(|address| {
        let names = hosts.owners(Ipv4Addr::from_bits(address)).into_iter();
        names.map(move |name| (name, address))
    });
    ruleset.owners = Some(owners.collect());
}

/// Reads and lowers texts.
pub fn lower_texts(texts: &[SavedSource], allow_unsupported: bool, hosts: Hosts) -> Lowered {
    let mut sources = Sources::new();
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        ids.push(sources.add(text.name.as_str(), text.text.as_str()));
    }
    let mut diagnostics = Vec::new();
    let settings = settings_of(texts, &ids, &mut diagnostics);
    let names = System::with(hosts);
    let mut program = Program::new(settings);
    for (text, id) in texts.iter().zip(&ids) {
        program.add(&text.text, *id, &names);
    }
    program.finish();
    diagnostics.append(&mut program.diagnostics);
    if allow_unsupported {
        for found in diagnostics
            .iter_mut()
            .filter(|found| found.is_unsupported())
        {
            found.severity = weir_policy::syntax::Severity::Warning;
        }
    }
    find_owners(&mut program.ruleset, names.hosts());
    let mut policy = None;
    if !diagnostics.iter().any(Diagnostic::is_error) {
        let options = Options {
            allow_unsupported,
            frames: true,
        };
        let (made, found) = lower(&program.ruleset, &sources, options);
        diagnostics.extend(found);
        policy = made;
    }
    diagnostics.sort_by_key(|found| (found.span.source, found.span.start));
    Lowered {
        sources,
        diagnostics,
        ruleset: program.ruleset,
        policy,
        answers: names.into_answers(),
    }
}
