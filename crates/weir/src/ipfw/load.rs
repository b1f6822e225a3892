//! Rule files of ipfw to a rule set.
//!
//! In: paths, settings, those of `# --sysctl` lines in the files among them. Out: a [`Loaded`] with
//! the texts, the rule set and every message. Wrong lines are an error, as nothing may be judged by
//! half a rule set.

use super::enforce::settings_of;
use super::facts::FactArgs;
use crate::exit::{Exit, failure};
use crate::input::{Answers, Hosts, ReadingArgs, read_files, told};
use crate::state::SavedSource;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use weir_policy::dialect::ipfw;
use weir_policy::dialect::iptables::Names as HostNames;
use weir_policy::model::{Family, SourceId};
use weir_policy::syntax::{Severity, Sources, Span};

/// The name of the language.
pub const DIALECT: &str = "ipfw";

/// Rule files after reading.
pub struct Loaded {
    /// The texts.
    pub sources: Sources,
    /// Their names.
    pub names: Vec<String>,
    /// What they came to.
    pub program: ipfw::Program,
}

/// Whether the files are ipfw's: because somebody said so, or because all of them look like it.
pub fn is_meant(files: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<bool> {
    let texts = match reading.dialect {
        Some(_) => Vec::new(),
        None => read_files(files)?,
    };
    Ok(are_meant(&texts, reading.dialect.as_deref()))
}

/// The same of texts that are already read.
pub fn are_meant(texts: &[SavedSource], dialect: Option<&str>) -> bool {
    match dialect {
        Some(dialect) => dialect == DIALECT,
        None => !texts.is_empty() && texts.iter().all(|one| ipfw::looks_like(&one.text)),
    }
}

/// Files, or commands in their place: what holds a blank and is no file is a command.
fn read_files_or_commands(paths: &[PathBuf]) -> anyhow::Result<Vec<SavedSource>> {
    let mut out = Vec::with_capacity(paths.len());
    for path in paths {
        match path.to_str() {
            Some(text) if text.contains(' ') && !path.exists() => out.push(SavedSource {
                name: "command line".to_owned(),
                text: format!("{text}\n"),
            }),
            _ => out.extend(read_files(std::slice::from_ref(path))?),
        }
    }
    Ok(out)
}

/// Names of hosts, users and groups, asked of this host.
#[derive(Default)]
pub struct System(Hosts);

impl System {
    /// Names as somebody knows them.
    pub fn with(hosts: Hosts) -> Self {
        System(hosts)
    }

    /// Who answers.
    pub fn hosts(&self) -> &Hosts {
        &self.0
    }

    /// All answers so far.
    pub fn into_answers(self) -> Answers {
        self.0.into_answers()
    }
}

impl ipfw::Names for System {
    fn ipv4(&self, host: &str) -> Option<Ipv4Addr> {
        self.0
            .addresses(host, Family::V4)
            .ok()?
            .into_iter()
            .find_map(|address| match address {
                IpAddr::V4(four) => Some(four),
                IpAddr::V6(_) => None,
            })
    }

    fn ipv6(&self, host: &str) -> Option<Ipv6Addr> {
        self.0
            .addresses(host, Family::V6)
            .ok()?
            .into_iter()
            .find_map(|address| match address {
                IpAddr::V6(six) => Some(six),
                IpAddr::V4(_) => None,
            })
    }

    fn user(&self, name: &str) -> Option<u32> {
        self.0.user(name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.0.group(name)
    }
}

/// Reads files; what is wrong with them is told, and is not yet an error.
pub fn load(files: &[PathBuf], facts: &FactArgs, reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let names = System::default();
    let mut sources = Sources::new();
    let mut texts = read_files_or_commands(files)?;
    let mut ids = Vec::with_capacity(texts.len());
    for one in &mut texts {
        reading.name_interfaces(one);
        if one.text.starts_with("#!") || ipfw::looks_like_script(&one.text) {
            let name = &one.name;
            return Err(failure(
                Exit::Usage,
                format!("{name} is a script; `weir ipfw-record {name}` gives the rules it makes"),
            ));
        }
        ids.push(sources.add(one.name.as_str(), one.text.as_str()));
    }
    let mut found = Vec::new();
    let settings = facts.settings_over(settings_of(&texts, &ids, &mut found))?;
    let mut program = ipfw::Program::new(settings);
    program.diagnostics = found;
    for (one, id) in texts.iter().zip(&ids) {
        program.add(&one.text, *id, &names);
    }
    program.finish();
    Ok(Loaded {
        sources,
        names: texts.into_iter().map(|one| one.name).collect(),
        program,
    })
}

/// Reads files that are to be judged by: told from warnings on, wrong lines are an error.
pub fn load_sound(
    files: &[PathBuf],
    facts: &FactArgs,
    reading: &ReadingArgs,
) -> anyhow::Result<Loaded> {
    let loaded = load(files, facts, reading)?;
    loaded.tell(Severity::Warning);
    let errors = loaded.errors(reading.allow_unsupported);
    told::check_errors(errors, loaded.only_unsupported())?;
    Ok(loaded)
}

impl Loaded {
    /// How many errors there are, those about unsupported constructs left out if wished.
    pub fn errors(&self, allow_unsupported: bool) -> usize {
        let all = self.program.diagnostics.iter();
        all.filter(|d| d.is_error() && !(allow_unsupported && d.is_unsupported()))
            .count()
    }

    /// Whether all errors are about constructs that can't be honoured, and there are some.
    pub fn only_unsupported(&self) -> bool {
        told::only_unsupported(&self.program.diagnostics)
    }

    /// Prints messages from a severity on to standard error.
    pub fn tell(&self, least: Severity) {
        told::tell(&self.program.diagnostics, &self.sources, least);
    }

    /// `file:line` of a place.
    pub fn location(&self, span: Span) -> Option<String> {
        if span.source == SourceId(0) && span.end == 0 {
            return None;
        }
        let source = self.sources.get(span.source)?;
        Some(format!("{}:{}", source.name(), source.line_of(span.start)))
    }
}
