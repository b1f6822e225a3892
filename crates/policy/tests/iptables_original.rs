//! Spellings as iptables itself takes them: recorded answers of the original, rule by rule.
//!
//! `testdata/spellings/iptables.txt` holds each rule with what `iptables-legacy-restore` and
//! `-save` made of it, and where weir differs on purpose, what weir makes of it. With
//! `WEIR_RECORD=1` the second kind of line is written anew; read the difference before keeping it.

use std::path::PathBuf;
use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::model::{Family, SourceId};

/// One rule and what became of it.
#[derive(Default)]
struct Recorded {
    place: String,
    rule: String,
    /// Lines of the original.
    original: Vec<String>,
    /// Outcome of weir, where it is another.
    own: Vec<String>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spellings/iptables.txt")
}

fn read() -> (String, Vec<Recorded>) {
    let text = std::fs::read_to_string(path()).expect("the record is readable");
    let (mut head, mut place, mut all) = (String::new(), String::new(), Vec::<Recorded>::new());
    for line in text.lines() {
        let Some((sign, rest)) = line.split_at_checked(2) else {
            // "$" with nothing behind it is a rule without options.
            if line == "$" {
                all.push(Recorded {
                    place: place.clone(),
                    ..Recorded::default()
                });
            }
            continue;
        };
        match (sign, all.last_mut()) {
            ("@ ", _) => place = rest.to_owned(),
            ("$ ", _) => all.push(Recorded {
                place: place.clone(),
                rule: rest.to_owned(),
                ..Recorded::default()
            }),
            ("= ", Some(last)) => last.original.push(rest.to_owned()),
            ("~ ", Some(last)) => last.own.push(rest.to_owned()),
            _ => head += &format!("{line}\n"),
        }
    }
    (head, all)
}

/// What weir makes of a rule, in the words of the record.
fn outcome(recorded: &Recorded) -> Vec<String> {
    let mut words = recorded.place.split(' ');
    let mut next = || words.next().expect("family, table and chain");
    let family = match next() {
        "v4" => Family::V4,
        _ => Family::V6,
    };
    let (table, chain) = (next(), next());
    let rule = &recorded.rule;
    let text = format!("*{table}\n:foo - [0:0]\n-A {chain} {rule}\nCOMMIT\n");
    let (tree, found) = iptables::parse_as(&text, SourceId(0), family);
    let input = Input::Rules {
        name: "rules",
        file: &tree,
    };
    let (_, report) = iptables::lower(&[input], &LowerOptions::default());
    let mut errors = found
        .iter()
        .chain(&report.diagnostics)
        .filter(|d| d.is_error());
    if errors.clone().any(|error| !error.is_unsupported()) {
        return vec!["refused".to_owned()];
    }
    let printed = iptables::print(&tree);
    let rules = printed.lines().filter_map(|line| {
        let rule = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "));
        let rule = rule.map_or(line, |(_, rule)| rule);
        rule.starts_with("-A").then(|| rule.to_owned())
    });
    let mut lines: Vec<String> = rules.collect();
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    if errors.next().is_some() {
        lines.push("unsupported".to_owned());
    }
    lines
}

#[test]
fn every_spelling_is_taken_as_the_original_takes_it_or_as_recorded() {
    let (head, all) = read();
    assert!(all.len() > 1_000, "{} rules", all.len());
    if std::env::var_os("WEIR_RECORD").is_some() {
        return record(&head, &all);
    }
    let mut wrong = Vec::new();
    for recorded in &all {
        let found = outcome(recorded);
        let expected = match recorded.own.is_empty() {
            true => &recorded.original,
            false => &recorded.own,
        };
        if &found != expected {
            let place = (&recorded.place, &recorded.rule);
            wrong.push(format!("{place:?}: expected {expected:?}, found {found:?}"));
        }
        assert_ne!(recorded.own, recorded.original, "{}", recorded.rule);
    }
    assert!(
        wrong.is_empty(),
        "{} rules:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn record(head: &str, all: &[Recorded]) {
    let (mut out, mut place) = (head.to_owned(), "");
    for recorded in all {
        if recorded.place != place {
            place = &recorded.place;
            out += &format!("\n@ {place}\n");
        }
        out += format!("$ {}", recorded.rule).trim_end();
        out.push('\n');
        for line in &recorded.original {
            out += &format!("= {line}\n");
        }
        let found = outcome(recorded);
        if found != recorded.original {
            for line in found {
                out += &format!("~ {line}\n");
            }
        }
    }
    std::fs::write(path(), out).expect("the record can be written");
}
