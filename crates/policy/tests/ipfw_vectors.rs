//! Vectors of ipfw: rules, packets, and what is to become of them.
//!
//! In: `testdata/vectors/ipfw/*.txt`, in the format that its README tells. Out: one failure that
//! lists every difference. Packets cut short and IPv6 headers are the packet reader's tests.

#[path = "ipfw/case.rs"]
mod case;
#[path = "ipfw/packet.rs"]
mod packet;

use case::{Case, Known, all_cases};
use std::fmt::Write as _;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{Notes, Ruleset, read, read_line};
use weir_policy::eval::ipfw::{Carried, Evaluator, Judgement, Outcome, Packet};
use weir_policy::model::SourceId;

/// `accept 100 trail 50,100 log ... tos N tags N,N fib N mss N pipe N`, as far as it is asked.
fn seen(judgement: &Judgement, carried: &Carried, asked: &str) -> String {
    let mut out = match &judgement.outcome {
        Outcome::Accept => "accept".to_owned(),
        Outcome::Deny => "drop".to_owned(),
        Outcome::Reject { answered: true, .. } => "reject".to_owned(),
        Outcome::Reject { .. } => "reject-silent".to_owned(),
    };
    match judgement.number() {
        Some(number) => write!(out, " {number}").unwrap(),
        None => out.push_str(" none"),
    }
    let list = |numbers: Vec<u32>| {
        let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
        if texts.is_empty() {
            "-".to_owned()
        } else {
            texts.join(",")
        }
    };
    for word in asked.split_whitespace() {
        match word {
            "trail" => {
                let trail = judgement.trail.iter().map(|acted| acted.number).collect();
                write!(out, " trail {}", list(trail)).unwrap();
            }
            "tags" => write!(
                out,
                " tags {}",
                list(carried.tags.iter().copied().collect())
            )
            .unwrap(),
            "tos" => write!(out, " tos {}", carried.tos).unwrap(),
            "mark" => write!(out, " mark {}", carried.mark).unwrap(),
            "fib" => write!(out, " fib {}", carried.fib).unwrap(),
            "mss" => write!(out, " mss {}", carried.mss.unwrap_or(0)).unwrap(),
            "pipe" => match judgement.shaped {
                Some((true, number)) => write!(out, " pipe {number}").unwrap(),
                _ => out.push_str(" pipe 0"),
            },
            "queue" => match judgement.shaped {
                Some((false, number)) => write!(out, " queue {number}").unwrap(),
                _ => out.push_str(" queue 0"),
            },
            _ => {}
        }
    }
    out
}

fn say(ruleset: &mut Ruleset, command: &str) -> String {
    let mut notes = Notes::default();
    match read_line(
        &[command.to_owned()],
        SourceId(0),
        ruleset,
        &Known,
        &mut notes,
    ) {
        Err(fault) => format!("exit {}\n", fault.exit as u8),
        Ok(step) => {
            let mut out = step.answer.out;
            for line in step.answer.err {
                writeln!(out, "! {line}").unwrap();
            }
            if let Some(fault) = step.answer.fault {
                writeln!(out, "exit {}", fault.exit as u8).unwrap();
            }
            out
        }
    }
}

/// Runs a case; the number of expectations, and the differences.
fn run(case: &Case, wrong: &mut String) -> usize {
    let program = read(&case.commands, SourceId(0), &Known, case.settings.clone());
    for found in &program.diagnostics {
        if found.is_error() && !found.is_unsupported() {
            writeln!(wrong, "{} ({}): {}", case.place, case.name, found.message).unwrap();
            return 1;
        }
    }
    let ruleset = program.ruleset;
    let mut evaluator = Evaluator::new(&ruleset);
    evaluator.host = case.host.clone();
    let mut changed = ruleset.clone();
    let mut last: Option<(Packet, Carried)> = None;
    let (mut now, mut count) = (0, 0);
    let mut at = 0;
    while let Some((place, line)) = case.checks.get(at) {
        at += 1;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (expected, got) = match word {
            "at" => {
                now = (rest.parse::<f64>().unwrap() * 1000.0) as u64;
                continue;
            }
            "count" => {
                let wanted: u32 = rest.split(' ').next().unwrap().parse().unwrap();
                let mut sum = (0, 0);
                for one in ruleset.rules.iter().filter(|one| one.rule.number == wanted) {
                    let counters = evaluator.counters[one.id.0 as usize];
                    sum = (sum.0 + counters.packets, sum.1 + counters.bytes);
                }
                (rest.to_owned(), format!("{wanted} {} {}", sum.0, sum.1))
            }
            "says" => {
                let mut expected = String::new();
                while let Some((_, line)) = case.checks.get(at).filter(|c| c.1.starts_with('|')) {
                    expected.push_str(line[1..].strip_prefix(' ').unwrap_or(""));
                    expected.push('\n');
                    at += 1;
                }
                (expected, say(&mut changed, rest))
            }
            _ => {
                let (what, expected) = line.split_once(" -> ").unwrap();
                let (packet, mut carried) = match (word, last.take()) {
                    ("again", Some((mut packet, carried))) => {
                        let words: Vec<&str> = what.split(' ').collect();
                        assert_eq!(words[1], "out", "{place}");
                        packet.pass = weir_policy::eval::ipfw::Pass::Out;
                        words[2].clone_into(&mut packet.xmit);
                        (packet, carried)
                    }
                    _ => {
                        let packet = packet::packet(what);
                        let carried = Carried::of(&packet);
                        (packet, carried)
                    }
                };
                let judgement = evaluator.judge(&packet, &mut carried, now);
                let (expected, log) = match expected.split_once(" log ") {
                    Some((expected, log)) => (expected, Some(log)),
                    None => (expected, None),
                };
                let mut got = seen(&judgement, &carried, expected);
                let mut expected = expected.to_owned();
                if let Some(log) = log {
                    write!(expected, " log {log}").unwrap();
                    write!(got, " log {}", judgement.log.join("; ")).unwrap();
                }
                last = Some((packet, carried));
                (expected, got)
            }
        };
        count += 1;
        if expected != got {
            writeln!(wrong, "{place} ({}): {line}\n  is {got}", case.name).unwrap();
        }
    }
    count
}

#[test]
fn what_is_printed_reads_back() {
    let mut count = 0;
    for case in all_cases() {
        let program = read(&case.commands, SourceId(0), &Known, case.settings.clone());
        let printed = listing::commands(&program.ruleset);
        let again = read(&printed, SourceId(0), &Known, case.settings.clone());
        let errors: Vec<_> = again.diagnostics.iter().filter(|d| d.is_error()).collect();
        let place = &case.place;
        assert!(
            errors.is_empty() || !program.is_sound(),
            "{place}: {printed}{errors:?}"
        );
        assert_eq!(printed, listing::commands(&again.ruleset), "{place}");
        // Options that name a part of `from ... to ...` have moved there, so the proof that the
        // rules are the same is what they do.
        let mut checks = case.checks.clone();
        checks.retain(|(_, line)| !line.starts_with("says") && !line.starts_with('|'));
        let (commands, mut wrong) = (printed.clone(), String::new());
        let printed_case = Case {
            commands,
            checks,
            ..case.clone()
        };
        run(&printed_case, &mut wrong);
        assert!(wrong.is_empty(), "{wrong}{printed}");
        assert_eq!(
            program.ruleset.tables, again.ruleset.tables,
            "{place}: {printed}"
        );
        assert_eq!(
            program.ruleset.disabled, again.ruleset.disabled,
            "{place}: {printed}"
        );
        count += program.ruleset.rules.len();
    }
    assert!(count >= 300, "only {count} rules were found");
}

#[test]
fn packets_meet_the_rules_that_they_should() {
    let (mut count, mut wrong) = (0, String::new());
    for case in all_cases() {
        count += run(&case, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 500, "only {count} expectations were found");
}
