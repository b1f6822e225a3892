//! Every broken input gives exactly the errors that its case names, each with line and column.
//!
//! In: `testdata/broken/iptables/cases.txt`. A case is read and lowered, so that faults which only
//! lowering can see (unknown chains, cycles, wrong hooks, unsupported modules) are cases, too.

use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::model::Family;
use weir_policy::syntax::diag::{Colour, render};
use weir_policy::syntax::{Diagnostic, Sources};

const CASES: &str = include_str!("../../../testdata/broken/iptables/cases.txt");

#[derive(Debug)]
struct Case<'c> {
    name: &'c str,
    family: Family,
    /// Line, column, and how the error goes on: `code: part of the message`.
    expected: Vec<(u32, u32, &'c str)>,
    text: String,
}

fn cases() -> Vec<Case<'static>> {
    let mut cases: Vec<Case<'static>> = Vec::new();
    for line in CASES.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            let family = Family::V4;
            cases.push(Case {
                name,
                family,
                expected: Vec::new(),
                text: String::new(),
            });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            continue;
        };
        if let Some(rest) = line.strip_prefix("# expect: ") {
            let (place, message) = rest.split_once(' ').expect("a place, then a message");
            let (line, column) = place.split_once(':').expect("line:column");
            case.expected
                .push((line.parse().unwrap(), column.parse().unwrap(), message));
        } else if line == "# family: 6" {
            case.family = Family::V6;
        } else {
            case.text.push_str(line);
            case.text.push('\n');
        }
    }
    cases
}

/// All messages of reading and lowering.
fn messages(case: &Case<'_>, sources: &mut Sources) -> Vec<Diagnostic> {
    let id = sources.add("rules", case.text.trim_end_matches('\n').to_owned() + "\n");
    let text = sources.get(id).unwrap().text().to_owned();
    let (file, mut found) = iptables::parse_as(&text, id, case.family);
    let input = Input::Rules {
        name: "rules",
        file: &file,
    };
    let (policy, report) = iptables::lower(&[input], &LowerOptions::default());
    let lowering_failed = report.diagnostics.iter().any(Diagnostic::is_error);
    assert_eq!(
        policy.is_none(),
        lowering_failed,
        "{}: a policy exactly when nothing is wrong",
        case.name
    );
    found.extend(report.diagnostics);
    found
}

#[test]
fn every_broken_input_gives_its_located_errors() {
    let cases = cases();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        assert!(!case.expected.is_empty(), "{} expects nothing", case.name);
        let mut sources = Sources::new();
        let found = messages(case, &mut sources);
        let mut errors: Vec<_> = found
            .iter()
            .filter(|found| found.is_error())
            .map(|found| {
                let at = sources.position(found.span).expect("a place in the text");
                (
                    at.line,
                    at.column,
                    format!("{}: {}", found.code, found.message),
                )
            })
            .collect();
        errors.sort();
        let mut expected = case.expected.clone();
        expected.sort_unstable();
        let same = errors.len() == expected.len()
            && errors.iter().zip(&expected).all(|(is, should)| {
                (is.0, is.1) == (should.0, should.1) && is.2.starts_with(should.2)
            });
        if !same {
            wrong.push(format!(
                "{}: expected {expected:?}, found {errors:?}",
                case.name
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_error_says_what_to_do_and_can_be_shown() {
    for case in cases() {
        let mut sources = Sources::new();
        for found in messages(&case, &mut sources) {
            assert!(
                found.help.is_some(),
                "{}: no help with `{}`",
                case.name,
                found.message
            );
            let shown = render(std::slice::from_ref(&found), &sources, Colour::Plain);
            let at = sources.position(found.span).unwrap();
            let place = format!("rules:{}:{}", at.line, at.column);
            assert!(
                shown.contains(&place),
                "{}: {place} is not in\n{shown}",
                case.name
            );
            assert!(found.line(&sources).starts_with(&format!("{place}: ")));
        }
    }
}

#[test]
fn texts_that_are_no_text_files_are_located_too() {
    let mut sources = Sources::new();
    let control = "*filter\n-A INPUT -m comment --comment a\u{7}b -j DROP\nCOMMIT\n";
    let id = sources.add("rules", control);
    let (file, found) = iptables::parse_as(control, id, Family::V4);
    assert_eq!(file.statements.len(), 2, "the other lines are read");
    let at = sources.position(found[0].span).unwrap();
    assert_eq!(
        (found[0].code, at.line, at.column),
        ("control-character", 2, 32)
    );

    let crlf = "*filter\r\n:INPUT ACCEPT [0:0]\r\nCOMMIT\r\n";
    let id = sources.add("crlf", crlf);
    let (file, found) = iptables::parse_as(crlf, id, Family::V4);
    assert_eq!(file.statements.len(), 3);
    assert_eq!(found.len(), 1, "one warning for the whole file");
    assert_eq!((found[0].code, found[0].is_error()), ("crlf", false));

    let cut = "*filter\nCOMMIT";
    let id = sources.add("cut", cut);
    let (file, found) = iptables::parse_as(cut, id, Family::V4);
    assert_eq!(file.statements.len(), 2);
    assert_eq!((found[0].code, found[0].is_error()), ("no-newline", false));

    let marked = "\u{feff}*filter\nCOMMIT\n";
    let id = sources.add("marked", marked);
    let (file, found) = iptables::parse_as(marked, id, Family::V4);
    assert_eq!((file.statements.len(), found.len()), (2, 0));
}

#[test]
fn old_spellings_are_accepted_with_a_warning() {
    for (old, new) in [
        (
            "-A INPUT -s ! 10.0.0.0/8 -j DROP",
            "-A INPUT ! -s 10.0.0.0/8 -j DROP",
        ),
        ("-A INPUT -p ! tcp -j DROP", "-A INPUT ! -p tcp -j DROP"),
        ("-A INPUT -i ! eth0 -j DROP", "-A INPUT ! -i eth0 -j DROP"),
        (
            "-A INPUT -p tcp --dport ! 22 -j DROP",
            "-A INPUT -p tcp -m tcp ! --dport 22 -j DROP",
        ),
        (
            "-A INPUT -p icmp --icmp-type ! 8 -j DROP",
            "-A INPUT -p icmp -m icmp ! --icmp-type 8 -j DROP",
        ),
    ] {
        let text = format!("*filter\n{old}\nCOMMIT\n");
        let mut sources = Sources::new();
        let id = sources.add("rules", text.clone());
        let (file, found) = iptables::parse_as(&text, id, Family::V4);
        assert_eq!(found.len(), 1, "{old}");
        assert_eq!(
            (found[0].code, found[0].is_error()),
            ("old-negation", false),
            "{old}"
        );
        assert_eq!(iptables::print(&file), format!("*filter\n{new}\nCOMMIT\n"));
    }
}
