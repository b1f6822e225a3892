//! Rule files to a policy: read, parsed, lowered, compiled.
//!
//! In: paths or kept texts, and how to read them. Out: a [`Loaded`] with the syntax trees, the
//! policy and every message. Messages go to standard error as soon as they are known; the exit code
//! tells wrong input (2) from constructs that can't be honoured (3).

mod hosts;
mod loaded;
mod message;
pub mod once;
mod read;
mod related;
mod steering;
pub mod told;

pub use hosts::{Answers, Hosts, Own};
pub use message::{Message, messages};
pub use read::{FileArgs, ReadingArgs, interface_pair, read_files};

use crate::exit::{Exit, failure};
use crate::state::{Saved, SavedSource};
use std::path::PathBuf;
use weir_policy::convert::Language;
use weir_policy::dialect::{self, Dialect, family_of, ipset, iptables, renamed};
use weir_policy::model::{Origin, Policy, SourceId};
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// A text after parsing.
pub enum Parsed {
    /// Rules.
    Rules(iptables::File),
    /// Sets.
    Sets(ipset::File),
}

/// Rule files after reading.
pub struct Loaded {
    /// The texts, for showing places.
    pub sources: Sources,
    /// The syntax trees, in the order of the files.
    pub parsed: Vec<(SourceId, Parsed)>,
    /// All messages, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// What names in the rules meant.
    pub answers: Answers,
    /// The language of the rules.
    pub language: Language,
    /// Rules of ipfw: what their numbers, sets and tables are.
    pub ruleset: Option<weir_policy::dialect::ipfw::Ruleset>,
    /// How many rules there are as their language counts them, where the policy has others.
    pub rules: Option<usize>,
    policy: Option<Policy>,
    /// Where each rule was written, by its id.
    origins: Vec<Option<Origin>>,
}

/// Parses texts. A text whose language nobody can tell is an error of usage.
fn parse(texts: &[SavedSource], wanted: Option<&str>) -> anyhow::Result<Loaded> {
    let ours = |text: &SavedSource| dialect::ipf::detect(&text.text).is_some();
    if matches!(wanted, Some("ipf" | "hpux")) || wanted.is_none() && texts.iter().any(ours) {
        let message = "this can't be done with IPFilter rules yet; `weir show FILE` prints them, \
                       and ipftest, explain, replay and ipfstat read them";
        return Err(failure(Exit::Unsupported, message));
    }
    if texts.iter().any(|text| text.text.contains(renamed::LINE)) {
        let message = "--interface is for rules of ipf, hpux and ipfw";
        return Err(failure(Exit::Usage, message));
    }
    let wanted = wanted.and_then(Dialect::from_name);
    let mut loaded = Loaded {
        sources: Sources::new(),
        parsed: Vec::with_capacity(texts.len()),
        diagnostics: Vec::new(),
        answers: Answers::default(),
        language: Language::Iptables,
        ruleset: None,
        rules: None,
        policy: None,
        origins: Vec::new(),
    };
    for source in texts {
        let id = loaded
            .sources
            .add(source.name.as_str(), source.text.as_str());
        // One `--dialect` for rules and sets together would never fit both, so a set file is told
        // by its content whatever was asked for.
        let told = dialect::detect(&source.text);
        let dialect = match (told, wanted) {
            (Some(Dialect::Ipset), _) => Dialect::Ipset,
            (_, Some(wanted)) => wanted,
            (Some(told), None) => told,
            (None, None) if source.says_nothing() => Dialect::Iptables,
            (None, None) => {
                let message = unknown_language(source);
                return Err(failure(Exit::Usage, message));
            }
        };
        let (parsed, diagnostics) = match dialect {
            Dialect::Iptables => {
                let family = family_of(&source.name, &source.text);
                let (file, diagnostics) = iptables::parse_as(&source.text, id, family);
                (Parsed::Rules(file), diagnostics)
            }
            Dialect::Ipset => {
                let (file, diagnostics) = ipset::parse(&source.text, id);
                (Parsed::Sets(file), diagnostics)
            }
        };
        loaded.parsed.push((id, parsed));
        loaded.diagnostics.extend(diagnostics);
    }
    Ok(loaded)
}

/// What to say of a text whose language nobody can tell.
fn unknown_language(source: &SavedSource) -> String {
    if weir_policy::dialect::ipfw::looks_like_script(&source.text) {
        let name = &source.name;
        return format!(
            "{name}: a script that calls ipfw; `weir ipfw-record {name}` gives the rules it makes"
        );
    }
    if weir_policy::dialect::ipf::looks_like_script(&source.text) {
        let (message, help) = crate::ipf::files::SCRIPT;
        return format!("{}: {message}; {help}", source.name);
    }
    let mut words = source
        .text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let tools = [
        "iptables",
        "ip6tables",
        "/sbin/iptables",
        "$IPTABLES",
        "$IPT",
    ];
    if source.text.starts_with("#!") || words.any(|word| tools.contains(&word)) {
        return format!(
            "{}: a script of commands, not saved rules; give what `iptables-save` prints after it",
            source.name
        );
    }
    format!(
        "{}: not iptables-save, ip6tables-save or ipset save; name it with --dialect",
        source.name
    )
}

impl Loaded {
    /// Lowers what was parsed to a policy. Its messages join those of parsing.
    fn lower(&mut self, hosts: Hosts, allow_unsupported: bool) {
        let names: Vec<String> = self.names();
        let inputs: Vec<iptables::Input<'_>> = self
            .parsed
            .iter()
            .zip(&names)
            .map(|((_, parsed), name)| match parsed {
                Parsed::Rules(file) => iptables::Input::Rules { name, file },
                Parsed::Sets(file) => iptables::Input::Sets { name, file },
            })
            .collect();
        let options = iptables::LowerOptions {
            names: Some(&hosts),
            allow_unsupported,
            kernel_zone: weir_plane::kernel_zone(),
            ..iptables::LowerOptions::default()
        };
        let (policy, report) = iptables::lower(&inputs, &options);
        self.origins = policy.as_ref().map_or_else(Vec::new, origins);
        self.policy = policy;
        self.diagnostics.extend(report.diagnostics);
        self.diagnostics
            .sort_by_key(|found| (found.span.source, found.span.start));
        self.answers = hosts.into_answers();
    }
}

impl Loaded {
    /// Gives rules the numbers that the kernel knows them by, where changes in place made those
    /// others than the texts would.
    fn number(&mut self, saved: &Saved) -> anyhow::Result<()> {
        if let (Some(policy), Some(changed)) = (&mut self.policy, &saved.changed) {
            if !changed.numbers.give(policy) {
                let message = "the numbers of the rules of the policy are damaged";
                return Err(failure(Exit::Kernel, message));
            }
            self.origins = origins(policy);
        }
        Ok(())
    }
}

fn origins(policy: &Policy) -> Vec<Option<Origin>> {
    let mut out = vec![None; policy.rule_count as usize];
    for chain in &policy.chains {
        for rule in &chain.rules {
            out[rule.id.0 as usize] = Some(rule.origin);
        }
        if let Some(end) = chain.policy {
            out[end.id.0 as usize] = Some(end.origin);
        }
    }
    out
}

/// Reads, parses and lowers files, and prints their messages. Wrong input is not yet an error.
pub fn read_and_lower(args: &FileArgs) -> anyhow::Result<Loaded> {
    let texts = args.reading.read_files(&args.files)?;
    let mut loaded = parse(&texts, args.reading.dialect.as_deref())?;
    loaded.lower(Hosts::asking(), args.reading.allow_unsupported);
    if let Some(policy) = &loaded.policy {
        let related = related::note(policy, &loaded.sources);
        let steering = steering::note(policy, &loaded.sources);
        loaded
            .diagnostics
            .extend(related.into_iter().chain(steering));
    }
    loaded.tell(Severity::Note);
    Ok(loaded)
}

/// Reads, parses and lowers files; wrong input is an error.
pub fn load_files(paths: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    load_texts(&reading.read_files(paths)?, reading)
}

/// Parses and lowers texts; wrong input is an error.
pub fn load_texts(texts: &[SavedSource], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let loaded = lower_texts(texts, reading)?;
    loaded.check_errors()?;
    Ok(loaded)
}

/// The languages whose files say nothing that the others do: IPFilter's and ipfw.
fn lists(texts: &[SavedSource], reading: &ReadingArgs, hosts: Hosts) -> Result<Loaded, Box<Hosts>> {
    let dialect = reading.dialect.as_deref();
    if crate::ipfw::are_meant(texts, dialect) {
        let allowed = reading.allow_unsupported;
        let lowered = crate::ipfw::enforce::lower_texts(texts, allowed, hosts);
        return Ok(Loaded {
            sources: lowered.sources,
            parsed: Vec::new(),
            diagnostics: lowered.diagnostics,
            answers: lowered.answers,
            language: Language::Ipfw,
            // As they are numbered, with the last one.
            rules: Some(lowered.ruleset.rules.len()),
            ruleset: Some(lowered.ruleset),
            origins: lowered.policy.as_ref().map_or_else(Vec::new, origins),
            policy: lowered.policy,
        });
    }
    if !crate::ipf::are_meant(texts, dialect) {
        return Err(Box::new(hosts));
    }
    let lowered = crate::ipf::enforce::lower_texts(texts, reading, hosts);
    Ok(Loaded {
        sources: lowered.sources,
        parsed: Vec::new(),
        diagnostics: lowered.diagnostics,
        answers: lowered.answers,
        language: Language::Ipf,
        ruleset: None,
        rules: Some(lowered.rules),
        origins: lowered.policy.as_ref().map_or_else(Vec::new, origins),
        policy: lowered.policy,
    })
}

fn lower_texts(texts: &[SavedSource], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let hosts = Hosts::asking_in(reading.netns.as_deref());
    let hosts = match lists(texts, reading, hosts) {
        Ok(loaded) => {
            loaded.tell(Severity::Note);
            return Ok(loaded);
        }
        Err(hosts) => *hosts,
    };
    let mut loaded = parse(texts, reading.dialect.as_deref())?;
    loaded.lower(hosts, reading.allow_unsupported);
    loaded.tell(Severity::Note);
    Ok(loaded)
}

/// Reads and parses files without lowering them; wrong lines are an error.
pub fn read_and_parse(paths: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let loaded = parse(&reading.read_files(paths)?, reading.dialect.as_deref())?;
    loaded.tell(Severity::Warning);
    loaded.check_errors()?;
    Ok(loaded)
}

/// Parses the kept texts of a policy.
pub fn parse_saved(saved: &Saved) -> anyhow::Result<Loaded> {
    let loaded = parse(&saved.sources, saved.dialect.as_deref())?;
    loaded.check_errors()?;
    Ok(loaded)
}

/// Parses and lowers the kept texts of a policy as they were when it was applied; wrong texts are
/// an error.
pub fn load_saved(saved: &Saved) -> anyhow::Result<Loaded> {
    let loaded = lower_saved(saved)?;
    loaded.check_errors()?;
    Ok(loaded)
}

/// The same; what is wrong with the texts is in what is returned.
pub fn lower_saved(saved: &Saved) -> anyhow::Result<Loaded> {
    let reading = ReadingArgs {
        dialect: saved.dialect.clone(),
        allow_unsupported: saved.allow_unsupported,
        since: Some(saved.applied_at),
        ..ReadingArgs::default()
    };
    let hosts = match lists(&saved.sources, &reading, Hosts::known(&saved.names)) {
        Ok(loaded) => return Ok(loaded),
        Err(hosts) => *hosts,
    };
    let mut loaded = parse(&saved.sources, saved.dialect.as_deref())?;
    loaded.lower(hosts, saved.allow_unsupported);
    loaded.number(saved)?;
    Ok(loaded)
}
