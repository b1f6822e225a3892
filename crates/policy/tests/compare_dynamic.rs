//! What the comparison says of ipfw's dynamic rules.
//!
//! Vectors for every word, and random rule sets: if two are said to be the same, the reference
//! evaluator gives every packet of random conversations the same under both; and where it doesn't,
//! the comparison has said that something differs.

mod dynamic;

use dynamic::{first_difference, mutated, numbered, packet, rules};
use fastrand::Rng;
use weir_policy::compare::{Comparison, Effect, Options, compare, unreached};
use weir_policy::dialect::ipfw;
use weir_policy::eval::Evaluator;
use weir_policy::model::{Family, Policy, Rule, Transport};
use weir_policy::syntax::Sources;

const NODES: usize = 16_000_000;

fn read(text: &str) -> Option<Policy> {
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let program = ipfw::read(text, id, &ipfw::NoNames, ipfw::Settings::default());
    let bad = program.diagnostics.iter().find(|one| one.is_error());
    assert!(bad.is_none(), "{bad:?}\n{text}");
    let options = ipfw::lower::Options::default();
    ipfw::lower::lower(&program.ruleset, &sources, options).0
}

fn of(text: &str) -> Policy {
    read(text).unwrap_or_else(|| panic!("not lowered:\n{text}"))
}

/// With `weir.dyn_icmp_errors=1`.
fn admitting(text: &str) -> Policy {
    let mut policy = of(text);
    if let Some(own) = &mut policy.dynamic {
        own.icmp_errors = true;
    }
    policy
}

fn compared(old: &str, new: &str) -> Comparison {
    let found = compared_policies(&of(old), &of(new), (old, new));
    // With errors that are found by what they quote as well.
    let errors = compared_policies(&admitting(old), &admitting(new), (old, new));
    assert!(found.same() || !errors.same(), "{old}\n{new}");
    found
}

fn compared_policies(a: &Policy, b: &Policy, (old, new): (&str, &str)) -> Comparison {
    let found = compare(a, b, &Options::default()).unwrap();
    // Whether a link-local address is that of another interface is left open.
    let plain = found
        .journeys
        .iter()
        .filter(|journey| journey.family == Family::V4);
    let plain = plain.flat_map(|journey| &journey.differences);
    for one in plain.filter(|one| one.packet.proto != 58) {
        assert!(one.confirmed, "{old}\n{new}\n{one:#?}");
    }
    found
}

fn is_same(old: &str, new: &str) -> bool {
    assert_ne!(old, new);
    compared(old, new).same()
}

const OFFICE: &str = "\
add 100 allow ip from any to any via lo0
add 200 check-state
add 300 deny tcp from any to any established
add 400 allow tcp from any to me 22,80 in setup keep-state
add 500 allow tcp from any to me 25 in setup limit src-addr 4
add 600 allow udp from me to any 53 out keep-state
";

fn changed(from: &str, to: &str) -> String {
    let new = OFFICE.replace(from, to);
    assert_ne!(new, OFFICE, "{from}");
    new
}

#[test]
fn what_later_packets_get_is_told() {
    for (from, to) in [
        // Otherwise only fragments would get so far, and those have no ports.
        (
            "add 300 deny tcp from any to any established\nadd 400 allow tcp from any to me 22,80 in setup",
            "add 400 allow tcp from any to me 22,80 in",
        ),
        ("add 200 check-state\n", ""),
        (
            "add 200 check-state\nadd 300 deny tcp from any to any established\n",
            "add 300 deny tcp from any to any established\nadd 310 check-state\n",
        ),
        ("src-addr 4", "src-addr 5"),
        ("src-addr 4", "dst-addr 4"),
        ("limit src-addr 4", "keep-state"),
        ("limit src-addr 4", "limit src-addr 4 :mail"),
        ("check-state", "check-state :mail"),
        ("53 out keep-state", "53 out"),
        ("53 out keep-state", "53 out keep-state :dns"),
        ("53 out keep-state", "53 out keep-state defer-action"),
        ("add 500 allow", "add 500 deny"),
        ("add 500 allow", "add 500 count"),
        ("add 600 allow", "add 600 reset"),
    ] {
        assert!(!is_same(OFFICE, &changed(from, to)), "{from} to {to}");
    }
}

#[test]
fn what_later_packets_get_all_the_same_is_the_same() {
    for (from, to) in [
        // The look is made in front already.
        ("80 in setup keep-state", "80 in setup record-state"),
        ("limit src-addr 4", "set-limit src-addr 4"),
        ("established\n", "established\nadd 310 check-state\n"),
        ("check-state", "check-state :any"),
        ("add 500 allow", "add 500 allow log"),
        (
            "22,80 in setup keep-state",
            "22 in setup keep-state\nadd 450 allow tcp from any to me 80 in setup keep-state",
        ),
        (
            "add 600 allow udp from me to any 53 out keep-state\n",
            "add 150 check-state\nadd 160 allow udp from me to any 53 out record-state\n",
        ),
    ] {
        assert!(is_same(OFFICE, &changed(from, to)), "{from} to {to}");
    }
    let named = OFFICE
        .replace("check-state", "check-state :office")
        .replace("keep-state", "keep-state :office")
        .replace("src-addr 4", "src-addr 4 :office");
    assert!(is_same(OFFICE, &named));
}

#[test]
fn what_errors_quote_is_compared() {
    let same = |old: &Policy, new: &Policy| compared_policies(old, new, (OFFICE, "")).same();
    let office = admitting(OFFICE);
    // The look is made in front already, and what it finds says the same.
    let alike = changed("80 in setup keep-state", "80 in setup record-state");
    assert!(same(&office, &admitting(&alike)));
    assert!(same(&admitting(&alike), &office));
    // On one side only: errors, and nothing else.
    let found = compared_policies(&of(OFFICE), &office, (OFFICE, OFFICE));
    let kinds: Vec<_> = found
        .journeys
        .iter()
        .flat_map(|journey| &journey.differences)
        .map(|one| match one.packet.transport {
            Transport::Icmp { kind, .. } => (one.packet.proto, kind),
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert!(kinds.iter().any(|(proto, _)| *proto == 1), "{kinds:?}");
    assert!(kinds.iter().any(|(proto, _)| *proto == 58), "{kinds:?}");
    for (proto, kind) in kinds {
        let is_error = if proto == 1 {
            [3, 4, 5, 11, 12].contains(&kind)
        } else {
            kind < 128
        };
        assert!(is_error, "{proto} {kind}");
    }
    // Nothing finds a state, so that the setting does nothing.
    let none = "add 10 record-state tcp from any to any 22\n";
    let none = none
        .replace("record-state tcp", "allow tcp")
        .replace("22", "22 record-state");
    assert!(same(&of(&none), &admitting(&none)));
    // Errors have no state of their own where nothing notes ICMP, and none of what they quote if
    // that has another family.
    let six = "add 10 check-state\nadd 20 deny ip4 from any to any\n\
               add 30 allow ip6 from any to any proto udp keep-state\n";
    let found = compared_policies(&of(six), &admitting(six), (six, six));
    for one in found
        .journeys
        .iter()
        .flat_map(|journey| &journey.differences)
    {
        assert_eq!(one.packet.proto, 58, "{one:?}");
    }
    assert!(!found.same());
    // An error reaches the rules of the flow that it tells of, and no other packet does.
    let rules = "add 10 skipto 100 icmp from any to any icmptypes 3\nadd 20 skipto 200 udp from \
                 any to any\nadd 30 deny ip from any to any\nadd 100 check-state\nadd 110 deny \
                 ip from any to any\nadd 200 skipto 300 udp from any to any record-state\n\
                 add 210 deny ip from any to any\nadd 300 count icmp from any to any\n";
    let unmet = |policy: &Policy| {
        let found = unreached(policy, NODES).unwrap().rules;
        let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
        let mut rules = rules.filter(|rule| rule.index == 300);
        rules.all(|rule| found.contains(&rule.id))
    };
    assert!(unmet(&of(rules)));
    assert!(!unmet(&admitting(rules)));
}

#[test]
fn the_first_look_of_a_name_is_the_only_one() {
    let plain = "add 10 check-state :a\nadd 20 count udp from any to any keep-state :a\n\
                 add 30 check-state :a\nadd 40 allow udp from any to any 53\n";
    assert!(is_same(
        plain,
        &plain.replace("add 30 check-state :a\n", "")
    ));
    // Under another name it looks again, and finds what was noted a moment ago.
    let two = plain.replace(
        "add 30 check-state :a",
        "add 30 check-state :b\nadd 31 check-state :a",
    );
    assert!(!is_same(plain, &two));
    // Rule 20 looks before it is asked whether it matches.
    let late = "add 10 deny tcp from any to any 23\nadd 20 allow udp from any to any keep-state\n\
                add 30 allow tcp from any to any 22 keep-state\n";
    let early = late.replace("add 10", "add 5 check-state\nadd 10");
    // The one that is noted has another port than 23, but its answers may come from there.
    assert!(!is_same(late, &early));
    let udp = late.replace("tcp from any to any 23", "icmp from any to any");
    assert!(is_same(
        &udp,
        &udp.replace("add 10", "add 5 check-state\nadd 10")
    ));
}

#[test]
fn parents_that_go_on_are_followed() {
    let rules = "add 10 check-state\nadd 20 skipto 100 tcp from any to any 22 setup keep-state\n\
                 add 30 deny ip from any to any\nadd 100 deny ip from 10.0.0.0/8 to any\n\
                 add 110 allow ip from any to any\n";
    // Packets of states go where the rule leads, and so do answers.
    let new = rules.replace("10.0.0.0/8", "10.0.0.0/9");
    let found = compared(rules, &new);
    let sources: Vec<u128> = found
        .journeys
        .iter()
        .flat_map(|journey| &journey.differences)
        .map(|one| one.packet.src)
        .collect();
    assert!(!sources.is_empty() && sources.iter().all(|src| src >> 23 == 0x0a80_0000 >> 23));
    let direct = rules
        .replace("skipto 100", "skipto 105")
        .replace("add 110", "add 105");
    assert!(!is_same(rules, &direct));
    let around = rules.replace("add 100", "add 90 count ip from any to any\nadd 100");
    assert!(is_same(rules, &around));
}

#[test]
fn settings_of_states_are_part_of_them() {
    let other = |name: &str, value: u32| {
        let (old, mut new) = (of(OFFICE), of(OFFICE));
        let own = new.dynamic.as_mut().unwrap();
        match name {
            "udp" => own.udp = value,
            "short" => own.short = value,
            "keep_alive" => own.keep_alive = value != 0,
            _ => new.states_max = value,
        }
        compare(&old, &new, &Options::default()).unwrap()
    };
    for (name, value) in [("udp", 30), ("short", 0), ("keep_alive", 0), ("max", 7)] {
        let found = other(name, value);
        assert!(!found.same(), "{name}");
        let effects = found
            .journeys
            .iter()
            .flat_map(|journey| &journey.differences)
            .flat_map(|one| &one.new.effects);
        let texts: Vec<String> = effects
            .filter_map(|effect| match effect {
                Effect::Noted(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        assert!(texts.iter().any(|text| text.contains("dyn_")), "{texts:?}");
    }
    assert!(other("udp", 10).same());
}

#[test]
fn states_are_told_in_the_words_of_the_language() {
    let found = compared(OFFICE, &changed("src-addr 4", "src-addr 5"));
    let noted = |side: usize| -> Vec<String> {
        let all = found
            .journeys
            .iter()
            .flat_map(|journey| &journey.differences);
        let effects = all.flat_map(|one| [&one.old, &one.new][side].effects.clone());
        let texts = effects.filter_map(|effect| match effect {
            Effect::Noted(text) => Some(text),
            _ => None,
        });
        texts.collect()
    };
    assert!(noted(0).contains(&"limit src-addr 4 :default; its packets: accept".to_owned()));
    assert!(noted(1).contains(&"limit src-addr 5 :default; its packets: accept".to_owned()));
}

/// Numbers of rules out of reach.
fn out_of_reach(text: &str) -> Vec<u32> {
    let policy = of(text);
    let found = unreached(&policy, NODES).unwrap().rules;
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let mut out: Vec<u32> = rules
        .filter(|rule| rule.index != Rule::HIDDEN && found.contains(&rule.id))
        .map(|rule| rule.index)
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

#[test]
fn rules_that_no_packet_meets_make_no_states() {
    // Nothing notes a flow in front of rule 20, so nothing finds one at rule 10.
    let rules = "add 10 check-state\nadd 20 deny tcp from any to any\n\
                 add 30 skipto 50 tcp from any to any 22 keep-state\n\
                 add 40 deny ip from any to any\nadd 50 allow ip from any to any\n";
    assert_eq!(out_of_reach(rules), [30, 50]);
    let open = rules.replace("add 20 deny tcp from any to any\n", "");
    assert_eq!(out_of_reach(&open), [0; 0]);
    // Packets of states do not come to rule 30, but the first one does.
    let taken = "add 10 check-state\nadd 20 allow tcp from any to any keep-state\n\
                 add 30 deny tcp from any to any\nadd 40 deny udp from any to any\n";
    assert_eq!(out_of_reach(taken), [30]);
}

fn setting(name: &str, usual: u64) -> u64 {
    let set = std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok());
    set.unwrap_or(usual)
}

#[test]
fn the_same_is_the_same_for_whole_conversations() {
    let pairs = setting("WEIR_COMPARE_POLICIES", 240);
    let (mut same, mut differ, mut seen, mut unseen) = (0, 0, 0, 0);
    let (mut classes, mut unconfirmed) = (0, 0);
    for seed in 0..pairs {
        let mut rng = Rng::with_seed(seed);
        let first = rules(&mut rng);
        let second = (0..rng.u8(1..3)).fold(first.clone(), |all, _| mutated(&all, &mut rng));
        let texts = [numbered(&first), numbered(&second)];
        let (Some(mut old), Some(mut new)) = (read(&texts[0]), read(&texts[1])) else {
            continue;
        };
        if rng.u8(..4) == 0 {
            (old.states_max, new.states_max) = (3, 3);
        }
        let admit = [(false, false), (true, true), (true, true), (false, true)][rng.usize(..4)];
        for (policy, admits) in [(&mut old, admit.0), (&mut new, admit.1)] {
            if let Some(own) = &mut policy.dynamic {
                own.icmp_errors = admits;
            }
        }
        let options = Options {
            families: vec![Family::V4],
            listed: 10_000,
            ..Options::default()
        };
        let found = compare(&old, &new, &options).unwrap();
        let whole = Options {
            only_changed: false,
            ..options
        };
        let again = compare(&old, &new, &whole).unwrap();
        assert_eq!(
            found.same(),
            again.same(),
            "seed {seed}\n{}\n{}",
            texts[0],
            texts[1]
        );
        for one in found
            .journeys
            .iter()
            .flat_map(|journey| &journey.differences)
        {
            classes += 1;
            if !one.confirmed {
                unconfirmed += 1;
                if unconfirmed < 4 {
                    println!("seed {seed}\n{}\n{}\n{one:#?}", texts[0], texts[1]);
                }
            }
        }
        let runs = (0..12).find_map(|_| first_difference(&old, &new, &mut rng, 150));
        match (found.same(), runs) {
            (true, Some(told)) => {
                panic!(
                    "seed {seed}: said to be the same\n{}\n{}\n{told}",
                    texts[0], texts[1]
                )
            }
            (true, None) => same += u64::from(texts[0] != texts[1]),
            (false, Some(_)) => (differ, seen) = (differ + 1, seen + 1),
            (false, None) => {
                (differ, unseen) = (differ + 1, unseen + 1);
                if setting("WEIR_SHOW", 0) > 0 {
                    println!("unseen, seed {seed}\n{}\n{}", texts[0], texts[1]);
                }
            }
        }
    }
    println!(
        "{same} pairs the same, {differ} not: {seen} seen in conversations, {unseen} not; \
         {classes} classes, {unconfirmed} not confirmed"
    );
    assert!(same * 10 > pairs && seen * 4 > pairs, "{same} {seen}");
    assert!(unconfirmed * 50 <= classes, "{unconfirmed} of {classes}");
}

/// Rules out of reach never count.
#[test]
fn what_is_out_of_reach_never_counts() {
    let sets = setting("WEIR_COMPARE_POLICIES", 150);
    let mut hidden = 0;
    for seed in 0..sets {
        let mut rng = Rng::with_seed(seed + 1_000_000);
        let text = numbered(&rules(&mut rng));
        let Some(mut policy) = read(&text) else {
            continue;
        };
        if let Some(own) = &mut policy.dynamic {
            own.icmp_errors = rng.bool();
        }
        let found = unreached(&policy, NODES).unwrap().rules;
        hidden += found.len();
        for _ in 0..6 {
            let mut evaluator = Evaluator::new(&policy, 0);
            let mut now = 0;
            for _ in 0..150 {
                now += [0, 100, 1000, 7000][rng.usize(..4)];
                let (packet, path) = packet(&mut rng);
                evaluator.travel(&packet, path, now);
            }
            for rule in &found {
                let counted = evaluator.counters[rule.0 as usize].packets;
                assert_eq!(counted, 0, "seed {seed}, {rule:?}\n{text}");
            }
        }
    }
    assert!(hidden as u64 * 5 > sets, "{hidden}");
}
