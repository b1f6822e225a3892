//! Rule files as people write them (`testdata/ipf`): each is read without an error, printed and
//! read again as the same, and lowered; what the kernel's side refuses is listed here by name.

use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::dialect::ipf::{
    File, Item, Language, ParseOptions, detect, nat, parse, pool, print,
};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::Family;
use weir_policy::syntax::{Diagnostic, Sources};

/// Files of which something is refused, each with what.
const REFUSED: &[(&str, &[&str])] = &[
    ("auth.ipf", &["`auth`", "`preauth`"]),
    ("bpf.ipf", &["a packet filter program"]),
    ("decapsulate.ipf", &["`decapsulate`"]),
    (
        "fastroute.ipf",
        &["`to`", "`fastroute`", "`dup-to`", "`reply-to`"],
    ),
    (
        "four-slots.ipf",
        &[
            "a second interface of a rule that keeps state",
            "an interface of the other side",
        ],
    ),
    ("state-head.ipf", &["`keep` of a head with `quick`"]),
    ("states-options.ipf", &["`newisn`"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ipf")
}

/// The files with one of these endings, by name.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let ending = path.extension().and_then(|e| e.to_str());
            ending.is_some_and(|ending| endings.contains(&ending))
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    out.sort();
    assert!(!out.is_empty());
    out
}

fn errors(found: &[Diagnostic]) -> Vec<&Diagnostic> {
    found.iter().filter(|found| found.is_error()).collect()
}

struct Hosts;

impl weir_policy::dialect::ipf::Names for Hosts {
    fn addresses(&self, name: &str) -> Result<Vec<std::net::IpAddr>, String> {
        match name {
            "localhost" | "here" => Ok(vec![[127, 0, 0, 1].into()]),
            _ => Err("unknown".to_owned()),
        }
    }

    fn this_host(&self) -> Option<String> {
        Some("here".to_owned())
    }
}

fn read(name: &str, text: &str, sources: &mut Sources) -> (File, Vec<Diagnostic>) {
    let hpux = name.ends_with(".hpux");
    let options = ParseOptions {
        language: if hpux { Language::Hpux } else { Language::Ipf },
        family: match (hpux, name.contains("ipf6")) {
            (true, true) => Some(Family::V6),
            (true, false) => Some(Family::V4),
            (false, _) => None,
        },
        names: Some(&Hosts),
        lenient: false,
    };
    parse(text, sources.add(name, text), &options)
}

fn tables(name: &str) -> Tables {
    let mut tables = Tables::default();
    let path = folder().join(name).with_extension("pool");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut sources = Sources::new();
    let (file, found) = pool::parse(&text, sources.add("pool", text.as_str()));
    assert!(errors(&found).is_empty(), "{name}: {found:?}");
    for table in &file.tables {
        if let Some((kind, name)) = table.lookup() {
            tables.add(kind, &name, &table.entries());
        } else if let Some((out, number)) = table.map() {
            tables.add_map(out, number, table.mapped());
        }
    }
    tables
}

#[test]
fn each_file_is_read_printed_and_lowered() {
    let all = files(&["ipf", "hpux"]);
    let mut refused = Vec::new();
    for (name, text) in &all {
        let mut sources = Sources::new();
        let (file, found) = read(name, text, &mut sources);
        assert!(errors(&found).is_empty(), "{name}: {found:#?}");
        assert!(
            detect(text).is_some(),
            "{name}: nobody could tell what it is"
        );
        let printed = print(&file);
        let (again, found) = read(name, &printed, &mut sources);
        assert!(errors(&found).is_empty(), "{name}: {printed}\n{found:#?}");
        let items = |file: &File| file.items.clone();
        assert_eq!(items(&file), items(&again), "{name}: {printed}");
        assert!(
            file.items.iter().any(|item| matches!(item, Item::Rule(_))),
            "{name}"
        );
        let (set, found) = RuleSet::of(&file);
        assert!(errors(&found).is_empty(), "{name}: {found:#?}");
        let (policy, found) = lower(&set, &tables(name), &sources, LowerOptions::default());
        assert!(
            found.iter().all(Diagnostic::is_unsupported),
            "{name}: {found:#?}"
        );
        assert_eq!(policy.is_none(), !found.is_empty(), "{name}");
        if !found.is_empty() {
            refused.push((name.as_str(), found));
        }
    }
    assert!(all.len() >= 62, "{}", all.len());
    let names: Vec<&str> = refused.iter().map(|row| row.0).collect();
    let expected: Vec<&str> = REFUSED.iter().map(|row| row.0).collect();
    assert_eq!(names, expected);
    for ((name, found), (_, wanted)) in refused.iter().zip(REFUSED) {
        for one in found {
            let known = wanted.iter().any(|what| one.message.starts_with(what));
            assert!(known, "{name}: {}", one.message);
        }
        for what in *wanted {
            let said = found.iter().any(|one| one.message.starts_with(what));
            assert!(said, "{name}: nothing said of {what}");
        }
    }
}

#[test]
fn tables_and_translations_print_back() {
    for (name, text) in files(&["pool"]) {
        let mut sources = Sources::new();
        let (file, found) = pool::parse(&text, sources.add(name.as_str(), text.as_str()));
        assert!(errors(&found).is_empty(), "{name}: {found:#?}");
        let printed = pool::print(&file);
        let (again, _) = pool::parse(&printed, sources.add("again", printed.as_str()));
        assert_eq!(file, again, "{name}: {printed}");
    }
    for (name, text) in files(&["nat"]) {
        let mut sources = Sources::new();
        let (file, found) = nat::parse(&text, sources.add(name.as_str(), text.as_str()));
        assert!(errors(&found).is_empty(), "{name}: {found:#?}");
        let rules = text.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(file.rules.len(), rules, "{name}");
        let printed = nat::print(&file);
        let (again, _) = nat::parse(&printed, sources.add("again", printed.as_str()));
        assert_eq!(file, again, "{name}: {printed}");
    }
}
