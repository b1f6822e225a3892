//! Refused spellings of IPFilter's rules: each has a message at the right words, with advice.

mod lists;

use weir_policy::dialect::ipf::{Language, ParseOptions, parse};
use weir_policy::syntax::{Diagnostic, SourceId};

/// The text without its marks, and the bytes between them.
fn unmarked(line: &str) -> (String, usize, usize) {
    let start = line.find("[[").expect("a mark");
    let rest = &line[start + 2..];
    let length = rest.find("]]").expect("a closing mark");
    let text = format!(
        "{}{}{}",
        &line[..start],
        &rest[..length],
        &rest[length + 2..]
    );
    (text, start, start + length)
}

fn run(list: &str, language: Language) -> usize {
    lists::check(list, |line| {
        let (text, start, end) = unmarked(line);
        let options = ParseOptions {
            language,
            ..ParseOptions::default()
        };
        let (_, found) = parse(&text, SourceId(0), &options);
        let errors: Vec<&Diagnostic> = found.iter().filter(|found| found.is_error()).collect();
        let placed = errors.iter().any(|error| {
            let span = error.span;
            span.start as usize == start && span.end as usize == end && error.help.is_some()
        });
        (!placed).then(|| {
            let got: Vec<String> = errors
                .iter()
                .map(|e| format!("{}..{} {}", e.span.start, e.span.end, e.message))
                .collect();
            format!("{line}\n    wanted {start}..{end}, found {got:?}")
        })
    })
}

#[test]
fn refused_spellings_are_placed() {
    let list = include_str!("../../../testdata/vectors/ipf/refused.txt");
    assert!(run(list, Language::Ipf) >= 250);
}

#[test]
fn refused_spellings_of_hpux_are_placed() {
    let list = include_str!("../../../testdata/vectors/ipf/refused_hpux.txt");
    assert!(run(list, Language::Hpux) >= 20);
}

#[test]
fn all_errors_are_found_in_one_run() {
    let text = "pass in all\nblok in all\npass in foo\nblock in proto nosuch all\npass out all\n\
                pass in from 1.2.3.400 to any\nblock in quick all keep stat\nlog in all\n";
    let (file, found) = parse(text, SourceId(0), &ParseOptions::default());
    let errors = found.iter().filter(|found| found.is_error()).count();
    assert_eq!(errors, 5, "{found:#?}");
    assert_eq!(file.rules().count(), 3);
}
