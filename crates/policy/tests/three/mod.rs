//! Texts of three languages as policies, and the files of `testdata/three`.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_policy::convert::{Kind, Language};
use weir_policy::dialect::{ipf, ipfw, ipset, iptables};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{Family, Policy};
use weir_policy::syntax::{Diagnostic, Sources};

/// A policy with its texts.
pub struct Case {
    /// Their language.
    pub language: Language,
    /// The policy.
    pub policy: Policy,
    /// The texts.
    pub sources: Sources,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/three")
}

fn sound(text: &str, found: &[Diagnostic]) {
    let errors: Vec<&Diagnostic> = found.iter().filter(|one| one.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?} in\n{text}");
}

enum Read {
    Rules(iptables::File),
    Sets(ipset::File),
}

impl Case {
    /// A file of the folder.
    pub fn read(name: &str, language: Language) -> Case {
        let text =
            |suffix: &str| fs::read_to_string(folder().join(format!("{name}.{suffix}"))).ok();
        let kinds = match language {
            Language::Ipf => vec![(Kind::Rules(None), text("ipf"))],
            Language::Ipfw => vec![(Kind::Rules(None), text("ipfw"))],
            Language::Iptables => vec![
                (Kind::Rules(Some(Family::V4)), text("v4")),
                (Kind::Rules(Some(Family::V6)), text("v6")),
            ],
        };
        let there = kinds
            .iter()
            .filter_map(|(kind, text)| Some((*kind, text.as_deref()?)));
        Case::of_texts(language, there.collect())
    }

    /// Texts.
    pub fn of_texts(language: Language, texts: Vec<(Kind, &str)>) -> Case {
        let mut sources = Sources::new();
        let policy = match language {
            Language::Iptables => of_iptables(&texts, &mut sources),
            Language::Ipf => of_ipf(&texts, &mut sources),
            Language::Ipfw => of_ipfw(&texts, &mut sources),
        };
        Case {
            language,
            policy,
            sources,
        }
    }
}

fn of_iptables(texts: &[(Kind, &str)], sources: &mut Sources) -> Policy {
    let mut files = Vec::new();
    for (kind, text) in texts {
        let (name, family) = match kind {
            Kind::Rules(Some(Family::V6)) => ("rules.v6", Family::V6),
            Kind::Rules(_) => ("rules.v4", Family::V4),
            _ => ("sets", Family::V4),
        };
        let id = sources.add(name, *text);
        if *kind == Kind::Sets {
            let (file, found) = ipset::parse(text, id);
            sound(text, &found);
            files.push((name, Read::Sets(file)));
            continue;
        }
        let (file, found) = iptables::parse_as(text, id, family);
        sound(text, &found);
        files.push((name, Read::Rules(file)));
    }
    let inputs: Vec<iptables::Input<'_>> = files
        .iter()
        .map(|(name, read)| match read {
            Read::Rules(file) => iptables::Input::Rules { name, file },
            Read::Sets(file) => iptables::Input::Sets { name, file },
        })
        .collect();
    let (policy, report) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    sound(texts[0].1, &report.diagnostics);
    policy.unwrap()
}

fn of_ipf(texts: &[(Kind, &str)], sources: &mut Sources) -> Policy {
    use ipf::lower::{LowerOptions, lower};
    let mut tables = Tables::default();
    for (_, text) in texts.iter().filter(|one| one.0 == Kind::Pools) {
        let id = sources.add("pools", *text);
        let (pools, found) = ipf::pool::parse(text, id);
        sound(text, &found);
        for table in &pools.tables {
            if let Some((kind, name)) = table.lookup() {
                tables.add(kind, &name, &table.entries());
            }
        }
    }
    let text = texts[0].1;
    let id = sources.add("rules.ipf", text);
    let (file, found) = ipf::parse(text, id, &ipf::ParseOptions::default());
    sound(text, &found);
    let (set, found) = ipf::load::RuleSet::of(&file);
    sound(text, &found);
    let (policy, found) = lower(&set, &tables, sources, LowerOptions::default());
    sound(text, &found);
    policy.unwrap()
}

fn of_ipfw(texts: &[(Kind, &str)], sources: &mut Sources) -> Policy {
    use ipfw::lower::{Options, lower};
    let text = texts[0].1;
    let id = sources.add("rules.ipfw", text);
    let program = ipfw::read(text, id, &ipfw::NoNames, ipfw::Settings::default());
    sound(text, &program.diagnostics);
    let (policy, found) = lower(&program.ruleset, sources, Options::default());
    sound(text, &found);
    policy.unwrap()
}

/// The policies by name, with the families they are written for.
pub fn names() -> BTreeMap<String, Vec<Family>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = file.strip_suffix(".v4") {
            let mut families = vec![Family::V4];
            if folder().join(format!("{name}.v6")).exists() {
                families.push(Family::V6);
            }
            out.insert(name.to_owned(), families);
        }
    }
    out
}
