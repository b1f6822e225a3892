//! Finding the cases of the corpus.
//!
//! In: the folder. Out: cases in name order, their texts read. A script without rules, or rules
//! without a script, is an error: nothing in the folder may lie there untested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::traffic::script::{self, Step};

/// Address family of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// iptables.
    V4,
    /// ip6tables.
    V6,
}

impl Family {
    /// As weir names it in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        }
    }

    /// The program of the original.
    #[must_use]
    pub fn program(self, suffix: &str) -> String {
        let stem = if self == Family::V4 {
            "iptables"
        } else {
            "ip6tables"
        };
        format!("{stem}-legacy-{suffix}")
    }
}

/// One rule file.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its family.
    pub family: Family,
    /// Its text.
    pub text: String,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The common stem.
    pub name: String,
    /// Rule files, IPv4 first.
    pub rules: Vec<RuleFile>,
    /// The set file and its text.
    pub sets: Option<(PathBuf, String)>,
    /// The script.
    pub steps: Vec<Step>,
    /// Whether the rules hold a nat table that the kernel has to carry out.
    pub has_nat: bool,
}

/// Every case of a folder.
pub fn find(folder: &Path) -> Result<Vec<Case>> {
    let mut groups: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("file name")?;
        if name.ends_with(".md") {
            continue;
        }
        let (stem, kind) = name
            .split_once('.')
            .with_context(|| format!("{name}: no kind"))?;
        groups
            .entry(stem.to_owned())
            .or_default()
            .insert(kind.to_owned(), path);
    }
    groups
        .into_iter()
        .map(|(name, files)| read_case(name, &files))
        .collect()
}

fn read_case(name: String, files: &BTreeMap<String, PathBuf>) -> Result<Case> {
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let (mut rules, mut sets, mut steps) = (Vec::new(), None, None);
    for (kind, path) in files {
        match kind.as_str() {
            "v4" => rules.push(RuleFile {
                path: path.clone(),
                family: Family::V4,
                text: read(path)?,
            }),
            "v6" => rules.push(RuleFile {
                path: path.clone(),
                family: Family::V6,
                text: read(path)?,
            }),
            "ipset" => sets = Some((path.clone(), read(path)?)),
            "traffic" => {
                let parsed = script::parse(&read(path)?);
                steps = Some(parsed.with_context(|| path.display().to_string())?);
            }
            other => bail!("{name}.{other}: neither v4, v6, ipset nor traffic"),
        }
    }
    ensure!(!rules.is_empty(), "{name}: no rule file");
    let steps = steps.with_context(|| format!("{name}: no traffic script"))?;
    let has_nat = rules
        .iter()
        .any(|file| file.text.lines().any(|line| line.trim() == "*nat"));
    Ok(Case {
        name,
        rules,
        sets,
        steps,
        has_nat,
    })
}
