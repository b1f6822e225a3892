//! Any bytes as IPFilter's files: nothing crashes, every place is inside the text, what is kept of
//! the text prints back to an equal tree, and the lists are made.
//!
//! The first byte chooses the language; the rest is the text.
//! `cargo +nightly fuzz run parse_ipf -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::{Language, ParseOptions, detect, nat, parse, pool, print};
use weir_policy::eval::ipf::{Evaluator, IpfPacket, Settings, Tables};
use weir_policy::model::Family;
use weir_policy::syntax::{Diagnostic, Sources};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest).into_owned();
    let options = ParseOptions {
        language: if choice & 1 == 0 { Language::Ipf } else { Language::Hpux },
        family: [None, Some(Family::V4), Some(Family::V6)][usize::from(choice / 2) % 3],
        names: None,
        lenient: choice & 64 != 0,
    };
    let _ = detect(&text);
    let mut sources = Sources::new();
    let id = sources.add("rules", text.clone());
    let (file, found) = parse(&text, id, &options);
    check_places(&found, &sources);

    let printed = print(&file);
    let (again, _) = parse(&printed, id, &options);
    assert_eq!(file, again, "printed as {printed}");

    let (set, _) = RuleSet::of(&file);
    let mut evaluator = Evaluator::new(&set, Tables::default(), Settings::default());
    for out in [false, true] {
        evaluator.judge(&IpfPacket::empty(Family::V4, out, "e0"), 0);
    }

    let (tables, found) = pool::parse(&text, id);
    check_places(&found, &sources);
    let (again, _) = pool::parse(&pool::print(&tables), id);
    assert_eq!(tables, again);
    let (rules, found) = nat::parse(&text, id);
    check_places(&found, &sources);
    let (again, _) = nat::parse(&nat::print(&rules), id);
    assert_eq!(rules, again);
});

fn check_places(found: &[Diagnostic], sources: &Sources) {
    for diagnostic in found {
        let source = sources.get(diagnostic.span.source).expect("a known text");
        assert!(diagnostic.span.end as usize <= source.text().len());
        assert!(diagnostic.span.start <= diagnostic.span.end);
        assert!(!diagnostic.message.is_empty() && diagnostic.help.is_some());
    }
}
