//! Any bytes as an iptables file: nothing crashes, every place is inside the text, what is kept of
//! the text prints back to an equal tree, and lowering survives it in both modes.
//!
//! The first byte chooses the family and the mode; the rest is the text.
//! `cargo +nightly fuzz run parse_iptables -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::dialect::{detect, family_of};
use weir_policy::model::Family;
use weir_policy::syntax::diag::{Colour, render};
use weir_policy::syntax::{Diagnostic, Sources};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest).into_owned();
    let family = if choice & 1 == 0 { Family::V4 } else { Family::V6 };
    let _ = (detect(&text), family_of("rules", &text));
    let mut sources = Sources::new();
    let id = sources.add("rules", text.clone());
    let (file, found) = iptables::parse_as(&text, id, family);
    check_places(&found, &sources);
    if found.len() < 4 {
        let _ = render(&found, &sources, Colour::Plain);
    }

    let printed = iptables::print(&file);
    let (again, _) = iptables::parse_as(&printed, id, family);
    assert_eq!(file, again, "printed as {printed}");
    assert_eq!(printed, iptables::print(&again));

    let options = LowerOptions { allow_unsupported: choice & 2 != 0, ..LowerOptions::default() };
    let input = Input::Rules { name: "rules", file: &file };
    let (policy, report) = iptables::lower(&[input], &options);
    check_places(&report.diagnostics, &sources);
    assert_eq!(policy.is_none(), report.diagnostics.iter().any(Diagnostic::is_error));
    let Some(policy) = policy else { return };
    let rules: usize = policy.chains.iter().map(|chain| chain.rules.len()).sum();
    assert!(rules <= policy.rule_count as usize);
});

fn check_places(found: &[Diagnostic], sources: &Sources) {
    for diagnostic in found {
        let source = sources.get(diagnostic.span.source).expect("a known text");
        assert!(diagnostic.span.end as usize <= source.text().len());
        assert!(diagnostic.span.start <= diagnostic.span.end);
        // Of many alike only the first says what to do.
        let alike = |other: &&Diagnostic| other.code == diagnostic.code;
        let helped = found.iter().filter(alike).any(|other| other.help.is_some());
        assert!(!diagnostic.message.is_empty() && helped);
    }
}
