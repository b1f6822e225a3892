//! Rule and pool files of IPFilter: read, told, loaded.
//!
//! In: paths and how to read them. Out: a [`Rules`] with the tree, the lists and the tables.
//! Messages go to standard error; an error ends the command.

use super::parts::parts;
use super::tunables;
use crate::exit::{Exit, failure};
use crate::input::{ReadingArgs, read_files, told};
use crate::state::SavedSource;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::{
    self, File, Kind, Language, Names, ParseOptions, looks_like_script,
};
use weir_policy::dialect::ipf::{ast, nat, pool};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{Family, SourceId};
use weir_policy::syntax::{Diagnostic, Severity, Sources, Span};

/// How to read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The dialect.
    pub language: Language,
    /// The family of rules that nothing else fixes.
    pub family: Option<Family>,
    /// Unknown names are only warned of.
    pub lenient: bool,
    /// Names are not asked for.
    pub no_names: bool,
    /// The dialect was said, so it is not told by the content.
    pub told: bool,
    /// What interfaces of the files are called here: `OLD=NEW`.
    pub interface: Vec<String>,
}

impl Reading {
    /// Reads rule files.
    pub fn files(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<SavedSource>> {
        let named = ReadingArgs {
            interface: self.interface.clone(),
            ..ReadingArgs::default()
        };
        named.read_files(paths)
    }
}

/// What is told of a script, and what to do with it.
pub const SCRIPT: (&str, &str) = (
    "a script that calls ipf, and no rules",
    "give the file of rules that it writes, or run it where `ipf` is weir (`scripts/install.sh \
     --tools`)",
);

/// Rules and tables of some files.
#[derive(Default)]
pub struct Rules {
    /// The texts.
    pub sources: Sources,
    /// The tree.
    pub file: File,
    /// Lists and groups.
    pub set: RuleSet,
    /// Pools, hashes, maps.
    pub tables: Tables,
    /// The pool files as read.
    pub pools: Vec<pool::File>,
    /// The translation rules as read.
    pub translations: Vec<nat::File>,
    /// All messages.
    pub diagnostics: Vec<Diagnostic>,
}

/// What is said of `bpf-v4` and `bpf-v6`.
const PROGRAMS: &str = "packet filter programs are not run";

struct System {
    ask: bool,
}

impl Names for System {
    fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        if !self.ask {
            return Err("names are not resolved (-R)".to_owned());
        }
        let found = (name, 0)
            .to_socket_addrs()
            .map_err(|error| error.to_string())?;
        let mut addresses: Vec<IpAddr> = found.map(|socket| socket.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    fn this_host(&self) -> Option<String> {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }
}

/// Whether texts have words that only HP-UX has.
pub fn are_of_hpux(texts: &[SavedSource]) -> bool {
    let parts = texts.iter().flat_map(|text| parts(&text.text));
    parts
        .into_iter()
        .any(|(kind, _)| kind == Some(Kind::Rules(Language::Hpux)))
}

impl Rules {
    /// Reads rule files, and pool files before them. Wrong lines are an error behind which nothing
    /// is loaded.
    pub fn read(rules: &[PathBuf], pools: &[PathBuf], reading: &Reading) -> anyhow::Result<Self> {
        let mut out = Rules::default();
        let texts = reading.files(rules)?;
        let mut reading = reading.clone();
        if !reading.told && are_of_hpux(&texts) {
            reading.language = Language::Hpux;
        }
        if reading.language == Language::Hpux {
            reading.family.get_or_insert(Family::V4);
        }
        out.file.language = reading.language;
        for text in read_files(pools)? {
            out.add_pools(&text.name, &text.text);
        }
        for text in texts {
            out.add_rules(&text.name, &text.text, &reading);
        }
        out.load();
        Ok(out)
    }

    /// Reads files of rules, pools and translation rules, each told by its content.
    pub fn of_files(files: &[PathBuf], reading: &Reading) -> anyhow::Result<Self> {
        Ok(Self::of_texts(&reading.files(files)?, reading))
    }

    /// The same of texts that are already read.
    pub fn of_texts(texts: &[SavedSource], reading: &Reading) -> Self {
        let mut out = Rules::default();
        let mut reading = reading.clone();
        // A text may hold several kinds.
        let parts: Vec<_> = texts.iter().map(|text| parts(&text.text)).collect();
        let hpux = |kind: &Option<Kind>| *kind == Some(Kind::Rules(Language::Hpux));
        if !reading.told && parts.iter().flatten().any(|(kind, _)| hpux(kind)) {
            reading.language = Language::Hpux;
        }
        out.file.language = reading.language;
        let add = |text: &SavedSource| out.sources.add(text.name.as_str(), text.text.as_str());
        let ids: Vec<SourceId> = texts.iter().map(add).collect();
        let own = || texts.iter().zip(&ids).zip(&parts);
        for ((text, &id), parts) in own() {
            for (kind, part) in parts {
                if *kind == Some(Kind::Pools) {
                    out.pools_of(id, &text.name, part);
                }
            }
        }
        for ((text, &id), parts) in own() {
            for (kind, part) in parts {
                match kind {
                    Some(Kind::Pools) => {}
                    Some(Kind::Nat) => out.translations_of(id, part),
                    _ => out.rules_of(id, &text.name, part, &reading),
                }
            }
        }
        out.load();
        out
    }

    /// Takes in the text of a pool file.
    pub fn add_pools(&mut self, name: &str, text: &str) {
        let id = self.sources.add(name, text);
        self.pools_of(id, name, text);
    }

    fn pools_of(&mut self, id: SourceId, name: &str, text: &str) {
        let (file, found) = pool::parse(text, id);
        self.diagnostics.extend(found);
        let beside = Path::new(name).parent().map(Path::to_path_buf);
        self.add_tables(&file, beside.as_deref());
        self.pools.push(file);
    }

    fn translations_of(&mut self, id: SourceId, text: &str) {
        let (file, found) = nat::parse(text, id);
        self.diagnostics.extend(found);
        self.translations.push(file);
    }

    /// Takes in files of translation rules.
    pub fn add_translations_of(&mut self, files: &[PathBuf]) -> anyhow::Result<()> {
        for text in read_files(files)? {
            let id = self.sources.add(text.name.as_str(), text.text.as_str());
            self.translations_of(id, &text.text);
        }
        Ok(())
    }

    /// Says of each translation rule that it can't be applied. Exceptions (`no map`) alone change
    /// no packet.
    pub fn refuse_translations(&mut self) {
        let rules = self.translations.iter().flat_map(|file| &file.rules);
        let refused = rules.filter(|rule| !rule.no).map(nat::refusal);
        self.diagnostics.extend(refused);
    }

    /// Takes in the text of a rule file.
    pub fn add_rules(&mut self, name: &str, text: &str, reading: &Reading) {
        let id = self.sources.add(name, text);
        self.rules_of(id, name, text, reading);
    }

    fn rules_of(&mut self, id: SourceId, name: &str, text: &str, reading: &Reading) {
        let names = System {
            ask: !reading.no_names,
        };
        // HP-UX keeps the families in two files, usually of these names.
        let family = match (reading.language, name.contains("ipf6")) {
            (Language::Ipf, _) => None,
            (Language::Hpux, true) => Some(Family::V6),
            (Language::Hpux, false) => Some(Family::V4),
        };
        let options = ParseOptions {
            language: reading.language,
            family: reading.family.or(family),
            names: Some(&names),
            lenient: reading.lenient || reading.no_names,
        };
        let (file, found) = ipf::parse(text, id, &options);
        let is_wrong = found.iter().any(|one| one.severity == Severity::Error);
        if is_wrong && looks_like_script(text) {
            let first = text.lines().next().unwrap_or("").len() as u32;
            let span = Span {
                source: id,
                start: 0,
                end: first,
            };
            let found = Diagnostic::error("script", span, SCRIPT.0);
            self.diagnostics.push(found.help(SCRIPT.1));
            return;
        }
        self.diagnostics.extend(found);
        self.file.items.extend(file.items);
    }

    fn add_tables(&mut self, file: &pool::File, beside: Option<&Path>) {
        for table in &file.tables {
            let mut entries = table.entries();
            for path in table.files() {
                // A file of addresses, one a line.
                let path = match (beside, Path::new(path).is_absolute()) {
                    (Some(folder), false) => folder.join(path),
                    _ => PathBuf::from(path),
                };
                match std::fs::read_to_string(&path) {
                    Ok(text) => entries.extend(pool::addresses_of(&text)),
                    Err(error) => {
                        let message = format!("can't read {}: {error}", path.display());
                        let found = Diagnostic::error("pool-file", table.at.0, message);
                        self.diagnostics.push(found.help("check the path"));
                    }
                }
            }
            if let Some((kind, name)) = table.lookup() {
                self.tables.add(kind, &name, &entries);
            } else if let Some((out, number)) = table.map() {
                self.tables.add_map(out, number, table.mapped());
            }
        }
    }

    /// Makes the lists, and checks what only the whole can tell.
    pub fn load(&mut self) {
        let (set, found) = RuleSet::of(&self.file);
        self.diagnostics.extend(found);
        let unknown = |set: &&ast::Setting| !tunables::is_known(&set.name);
        for setting in self.file.settings().filter(unknown) {
            let message = format!("there is no tunable `{}`: this has no effect", setting.name);
            let found = Diagnostic::warning("setting-unknown", setting.at.0, message);
            let help = "`weir ipftest -T list` names them";
            self.diagnostics.push(found.help(help));
        }
        for rule in &set.rules {
            let Some(fields) = rule.fields() else {
                if let ast::Matching::Bpf(..) = rule.matching {
                    let found = Diagnostic::unsupported(rule.at.0, PROGRAMS);
                    self.diagnostics
                        .push(found.help("write the fields as rules"));
                }
                continue;
            };
            for side in [&fields.source, &fields.destination] {
                if let ast::Address::Table(kind, name) = &side.address
                    && !self.tables.has(*kind, name)
                {
                    let message = format!("there is no table `{name}` of this kind");
                    let at = word_of_table(&self.sources, rule.at.0, *kind, name);
                    let found = Diagnostic::error("unknown-table", at, message);
                    let mut others = self.pools.iter().flat_map(|file| &file.tables);
                    let other = others.find(|table| table.name.as_ref() == Some(name));
                    let help = match other.filter(|table| !table.is_of_filter()) {
                        Some(table) => format!(
                            "that of `role = {}` is not for filter rules: `role = ipf` or \
                             `role = all` is",
                            table.role.word()
                        ),
                        None => self.other_kind(*kind, name),
                    };
                    self.diagnostics.push(found.help(help));
                }
            }
        }
        self.set = set;
    }

    /// What to do about a table that is not there.
    fn other_kind(&self, kind: ast::TableKind, name: &ast::Name) -> String {
        let (other, word) = match kind {
            ast::TableKind::Pool => (ast::TableKind::Hash, "hash"),
            ast::TableKind::Hash => (ast::TableKind::Pool, "pool"),
        };
        match self.tables.has(other, name) {
            true => format!("it is of another type: write `{word}/{name}`"),
            false => "give the file that defines it too (ipftest: with -P)".to_owned(),
        }
    }

    /// The settings in the files: name, value.
    pub fn settings(&self) -> impl Iterator<Item = &ast::Setting> {
        self.file.settings()
    }

    /// Prints messages from a severity on to standard error.
    pub fn tell(&self, least: Severity) {
        told::tell(&self.diagnostics, &self.sources, least);
    }

    /// What is only printed may have programs: a warning says that they aren't run.
    pub fn only_print(&mut self) {
        let programs = |found: &&mut Diagnostic| found.message == PROGRAMS;
        for found in self.diagnostics.iter_mut().filter(programs) {
            found.severity = Severity::Warning;
        }
    }

    /// Errors as the end of the command.
    pub fn check(&self) -> anyhow::Result<()> {
        let errors = self.diagnostics.iter().filter(|d| d.is_error()).count();
        let unsupported = self
            .diagnostics
            .iter()
            .filter(|d| d.is_unsupported())
            .count();
        match errors {
            0 => Ok(()),
            _ if errors == unsupported => Err(failure(
                Exit::Unsupported,
                "constructs that weir can't honour; nothing is loaded",
            )),
            1 => Err(failure(
                Exit::Usage,
                "1 error in the rules; nothing is loaded",
            )),
            errors => {
                let message = format!("{errors} errors in the rules; nothing is loaded");
                Err(failure(Exit::Usage, message))
            }
        }
    }
}

/// Where a rule names a table; the rule itself, where it does so in other words.
fn word_of_table(sources: &Sources, rule: Span, kind: ast::TableKind, name: &ast::Name) -> Span {
    let word = match kind {
        ast::TableKind::Pool => format!("pool/{name}"),
        ast::TableKind::Hash => format!("hash/{name}"),
    };
    let text = sources.get(rule.source).map_or("", |source| source.text());
    let within = text.get(rule.start as usize..rule.end as usize);
    // `pool/1` is no part of `pool/12`.
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "_.-".contains(c));
    let found = within.and_then(|text| {
        let mut places = text.match_indices(&word).map(|(at, _)| at);
        places.find(|at| ends(&text[at + word.len()..]))
    });
    match found {
        Some(at) => Span {
            start: rule.start + at as u32,
            end: rule.start + (at + word.len()) as u32,
            ..rule
        },
        None => rule,
    }
}
