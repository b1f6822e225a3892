//! Commands that ipfw refuses: how it ends, the code of the message, and what is underlined.
//!
//! In: `testdata/vectors/ipfw/refused.txt`. Out: one failure that lists every difference, as the
//! line that would hold.

use std::fmt::Write as _;
use std::path::Path;
use weir_policy::dialect::ipfw::{NoNames, Notes, Ruleset, Settings, read_line, words};
use weir_policy::model::SourceId;

/// What is there when a command comes.
const BEFORE: [&str; 8] = [
    "add 100 count ip from any to any",
    "table A create type addr",
    "table A add 10.0.0.0/8 1",
    "table I create type iface",
    "table L create type addr locked",
    "pipe 1 config",
    "sched 1 config",
    "nat 1 config ip 192.0.2.1",
];

fn ruleset() -> Ruleset {
    let mut ruleset = Ruleset::new(Settings::default());
    for command in BEFORE {
        let mut notes = Notes::default();
        let words = [command.to_owned()];
        read_line(&words, SourceId(0), &mut ruleset, &NoNames, &mut notes).unwrap();
    }
    ruleset
}

#[test]
fn refusals_say_where_and_how() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/ipfw/refused.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let before = ruleset();
    let (mut count, mut wrong) = (0, String::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [exit, code, underlined, command] = fields[..] else {
            panic!("not four fields: {line}");
        };
        count += 1;
        let mut ruleset = before.clone();
        let mut notes = Notes::default();
        let arguments = [command.to_owned()];
        let joined = words::joined(&arguments);
        let done = read_line(&arguments, SourceId(0), &mut ruleset, &NoNames, &mut notes);
        let fault = match done {
            Err(fault) => {
                assert_eq!(
                    ruleset, before,
                    "{command}: refused, and yet something changed"
                );
                Some(fault)
            }
            Ok(step) => step.answer.fault,
        };
        let Some(fault) = fault else {
            writeln!(wrong, "ok\t\t\t{command}").unwrap();
            continue;
        };
        let (start, end) = (fault.span.start as usize, fault.span.end as usize);
        let seen = joined.get(start..end).unwrap_or("outside");
        assert!(
            fault.help.is_some(),
            "{command}: no help with {}",
            fault.message
        );
        assert!(!fault.unsupported, "{command}");
        let is = (fault.exit as u8).to_string();
        if (exit, code, underlined) != (&is, fault.code, seen) {
            writeln!(wrong, "{is}\t{}\t{seen}\t{command}", fault.code).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(count >= 200, "only {count} refusals were found");
}
