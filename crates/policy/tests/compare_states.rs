//! What the comparison says of rules that keep states, of `with`, and of rules out of reach.
//!
//! States: two policies are the same if the same packets make states that are kept alike. Reach:
//! a rule is out of reach exactly if turning its verdict over changes nothing, which the comparison
//! says by another way; and the time does not grow with the square of the rules.

use fastrand::Rng;
use std::fmt::Write;
use std::time::{Duration, Instant};
use weir_policy::compare::{Comparison, Effect, Options, compare, unreached};
use weir_policy::dialect::{ipf, iptables};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{CtState, Family, Flow, Policy, RuleId, Verdict};
use weir_policy::syntax::Sources;

const NODES: usize = 16_000_000;

fn of_ipf(text: &str) -> Policy {
    use ipf::lower::{LowerOptions, lower};
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let (file, found) = ipf::parse(text, id, &ipf::ParseOptions::default());
    assert!(!found.iter().any(|one| one.is_error()), "{found:?}");
    let (set, _) = ipf::load::RuleSet::of(&file);
    let (policy, found) = lower(&set, &Tables::default(), &sources, LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{found:?}"))
}

fn of_iptables(text: &str) -> Policy {
    let mut sources = Sources::new();
    let id = sources.add("rules.v4", text);
    let (file, found) = iptables::parse_as(text, id, Family::V4);
    assert!(!found.iter().any(|one| one.is_error()), "{found:?}");
    let inputs = [iptables::Input::Rules {
        name: "rules.v4",
        file: &file,
    }];
    let (policy, report) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics))
}

fn compared(old: &str, new: &str) -> Comparison {
    let found = compare(&of_ipf(old), &of_ipf(new), &Options::default()).unwrap();
    for journey in &found.journeys {
        for one in &journey.differences {
            assert!(one.confirmed, "{old}\n{new}\n{one:#?}");
        }
    }
    found
}

const KEEPS: &str = "block in all\n\
                     pass in quick proto tcp from any to any port = 22 flags S keep state\n\
                     pass out quick proto udp from any to any port = 53 keep state\n\
                     pass out all\n";

#[test]
fn equal_states_are_the_same_whatever_else_stands_there() {
    assert!(compared(KEEPS, KEEPS).same());
    let turned = "pass in quick proto tcp from any to any port = 22 flags S/SA keep state\n\
                  block in quick proto icmp all\n\
                  block in all\n\
                  pass out quick proto udp from any to any port = 53 keep state\n\
                  pass out all\n";
    let found = compared(KEEPS, turned);
    // `flags S` is S/FSRPAU: a SYN with PSH makes a state only in the second list.
    assert!(!found.same());
    let turned = turned.replace("S/SA", "S/FSRPAU");
    assert!(compared(KEEPS, &turned).same());
}

#[test]
fn states_kept_otherwise_differ_and_say_how() {
    for (from, to) in [
        ("port = 22 flags S keep state", "port = 22 flags S"),
        (
            "port = 22 flags S keep state",
            "port = 22 flags S keep state (strict)",
        ),
        ("port = 53 keep state", "port = 53 keep state (limit 10)"),
        ("port = 53 keep state", "port = 53 keep state keep frags"),
        ("port = 22", "port = 23"),
    ] {
        let other = KEEPS.replace(from, to);
        assert_ne!(other, KEEPS);
        let found = compared(KEEPS, &other);
        assert!(!found.same(), "{from} {to}");
        let texts: Vec<&str> = found
            .journeys
            .iter()
            .flat_map(|journey| &journey.unknowns)
            .map(|unknown| unknown.text.as_str())
            .collect();
        assert!(
            texts.iter().any(|text| text.contains("state kept:")),
            "{texts:?}"
        );
        let asked = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Asked(_)));
        let told = found
            .journeys
            .iter()
            .flat_map(|journey| &journey.differences)
            .any(|one| asked(&one.old.effects) != asked(&one.new.effects) || one.old != one.new);
        assert!(told);
    }
}

#[test]
fn headers_asked_alike_are_the_same() {
    let rules = "block in quick from any to any with opt lsrr\nblock in quick from any to any \
                 with not ipopts\npass in all\n";
    assert!(compared(rules, rules).same());
    let found = compared(rules, &rules.replace("opt lsrr", "opt ssrr"));
    assert!(!found.same());
}

#[test]
fn first_packets_alone_can_be_compared() {
    let plain = "block in all\n\
                 pass in quick proto tcp from any to any port = 22 flags S\n\
                 pass out all\n";
    let options = Options {
        states: Some(vec![CtState::New]),
        compared: weir_policy::compare::Compared {
            memory: false,
            ..Default::default()
        },
        ..Options::default()
    };
    assert!(
        compare(&of_ipf(KEEPS), &of_ipf(plain), &options)
            .unwrap()
            .same()
    );
    assert!(!compared(KEEPS, plain).same());
    let closed = plain.replace("port = 22", "port = 23");
    assert!(
        !compare(&of_ipf(KEEPS), &of_ipf(&closed), &options)
            .unwrap()
            .same()
    );
}

/// A list at one hook, of rules that often hide each other.
fn list(rng: &mut Rng, rules: usize) -> String {
    let mut out = "*filter\n:INPUT DROP [0:0]\n".to_owned();
    for _ in 0..rules {
        let mut rule = "-A INPUT".to_owned();
        if rng.u8(..4) > 0 {
            let length = [8, 16, 24, 28, 32][rng.usize(..5)];
            let address = 0x0a00_0000u32 | rng.u32(..4) << 16 | rng.u32(..3) << 8 | rng.u32(..40);
            let network = std::net::Ipv4Addr::from(address & u32::MAX << (32 - length));
            let _ = write!(rule, " -s {network}/{length}");
        }
        if rng.u8(..3) == 0 {
            let _ = write!(rule, " -p tcp --dport {}:{}", rng.u8(1..9), rng.u8(9..20));
        }
        let target = ["ACCEPT", "DROP"][rng.usize(..2)];
        let _ = writeln!(out, "{rule} -j {target}");
    }
    out + "COMMIT\n"
}

fn turned_over(policy: &Policy, id: RuleId) -> Policy {
    let mut out = policy.clone();
    let rules = out.chains.iter_mut().flat_map(|chain| &mut chain.rules);
    for rule in rules.filter(|rule| rule.id == id) {
        rule.flow = match rule.flow {
            Flow::Verdict(Verdict::Accept) => Flow::Verdict(Verdict::Drop),
            _ => Flow::Verdict(Verdict::Accept),
        };
    }
    out
}

#[test]
fn out_of_reach_is_what_can_be_turned_over_unnoticed() {
    let (mut hidden, mut open) = (0, 0);
    for seed in 0..12 {
        let mut rng = Rng::with_seed(seed);
        let policy = of_iptables(&list(&mut rng, 24));
        let found = unreached(&policy, NODES).unwrap().rules;
        for rule in &policy.chains[0].rules {
            let other = turned_over(&policy, rule.id);
            let same = compare(&policy, &other, &Options::default())
                .unwrap()
                .same();
            assert_eq!(same, found.contains(&rule.id), "seed {seed} {rule:?}");
            match same {
                true => hidden += 1,
                false => open += 1,
            }
        }
    }
    println!("{hidden} rules out of reach, {open} not");
    assert!(hidden > 100 && open > 30, "{hidden} {open}");
}

#[test]
fn proposals_are_met_although_later_ones_win() {
    let policy = of_ipf(
        "pass in from 10.0.0.0/8 to any\n\
         block in quick from 10.1.0.0/16 to any\n\
         block in from 10.1.2.0/24 to any\n\
         pass in from 10.2.0.0/16 to any\n",
    );
    let found = unreached(&policy, NODES).unwrap();
    assert_eq!(found.rules, [RuleId(2)]);
}

/// How long a list of so many rules takes, with the fraction that it hides.
fn timed(rules: usize) -> (Duration, usize) {
    let mut rng = Rng::with_seed(7);
    let mut text = "*filter\n:INPUT DROP [0:0]\n".to_owned();
    for _ in 0..rules {
        let network = std::net::Ipv4Addr::from(rng.u32(..) & 0xffff_ff00);
        let port = rng.u16(..);
        let target = ["ACCEPT", "DROP"][rng.usize(..2)];
        let _ = writeln!(
            text,
            "-A INPUT -s {network}/24 -p tcp --dport {port} -j {target}"
        );
    }
    let policy = of_iptables(&(text + "COMMIT\n"));
    let begin = Instant::now();
    let found = unreached(&policy, NODES).unwrap();
    (begin.elapsed(), found.rules.len())
}

#[test]
fn time_does_not_grow_with_the_square_of_the_rules() {
    let (few, _) = timed(1_000);
    let (many, hidden) = timed(16_000);
    println!("1,000 rules {few:?}, 16,000 rules {many:?}, {hidden} out of reach");
    // 256 times were quadratic.
    assert!(many < few * 80, "{few:?} {many:?}");
}
