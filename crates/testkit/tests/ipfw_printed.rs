//! What is printed reads back and means the same, whatever the rule: random lists in which options
//! name protocols and addresses that the original moves into `from ... to ...`, alternatives,
//! `not`, and blocks that nothing closes. Rules only count, so that each packet asks all of them.

use fastrand::Rng;
use std::fmt::Write as _;
use weir_engine::packet::settle;
use weir_policy::dialect::ipfw::lower::candidates;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{NoNames, Program, Settings, read};
use weir_policy::eval::ipfw::{Carried, Evaluator, Packet, Pass};
use weir_policy::model::{Family, Hook, SourceId};
use weir_testkit::random::PacketSource;
use weir_testkit::random::ipfw::text;
use weir_testkit::seeds::seeds;

const PROTOCOLS: &[&str] = &[
    "ip", "all", "tcp", "udp", "41", "ip4", "ip6", "58", "icmp", "0x6", "300", "65536",
];
const ADDRESSES: &[&str] = &[
    "any",
    "me",
    "me6",
    "10.1.2.3",
    "10.0.0.0/8,192.168.0.1",
    "2001:db8::/32",
    "table(nets)",
    "table(nets,2)",
    "10.1.2.0/24{1,3,5-9}",
];
const OPTIONS: &[&str] = &[
    "proto 41",
    "proto tcp",
    "proto 58",
    "ip4",
    "ip6",
    "proto ip6",
    "src-ip 10.1.2.3",
    "dst-ip 10.0.0.0/8",
    "src-ip6 2001:db8::/32",
    "dst-ip6 me6",
    "src-ip me",
    "dst-ip table(nets)",
    "src-ip6 table(nets)",
    "src-port 53,80",
    "dst-port 1-1023",
    "lookup dst-port ports",
    "in",
    "out",
    "via eth0",
    "via any",
    "via table(ifs)",
    "established",
    "frag",
    "tagged tablearg",
];

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

fn maybe_not(rng: &mut Rng) -> &'static str {
    one(rng, &["", "", "", "not "])
}

/// One of the words, or a block of them.
fn part(rng: &mut Rng, words: &[&str]) -> String {
    let first = format!("{}{}", maybe_not(rng), one(rng, words));
    match rng.u8(..4) {
        0 => format!("{{ {first} or {}{} }}", maybe_not(rng), one(rng, words)),
        _ => first,
    }
}

fn rule(rng: &mut Rng) -> String {
    let action = one(rng, &["count", "count", "count", "count tag tablearg"]);
    let mut out = action.to_owned();
    if rng.u8(..8) > 0 {
        let (protocol, from) = (part(rng, PROTOCOLS), part(rng, ADDRESSES));
        let port = one(rng, &["", "", " 80", " not 53"]);
        let to = part(rng, ADDRESSES);
        write!(out, " {protocol} from {from}{port} to {to}").unwrap();
    }
    for _ in 0..rng.usize(..4) {
        write!(out, " {}", part(rng, OPTIONS)).unwrap();
    }
    out + one(
        rng,
        &[
            "",
            "",
            "",
            "",
            " { in or proto udp",
            " { proto tcp or // x",
            " // y",
        ],
    )
}

fn read_text(text: &str) -> Program {
    read(text, SourceId(0), &NoNames, Settings::default())
}

/// A list of rules that ipfw takes.
fn list(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed);
    let tables = text(seed);
    let tables: Vec<&str> = tables
        .lines()
        .filter(|line| line.starts_with("table"))
        .collect();
    let mut out = tables.join("\n") + "\n";
    let mut number = 0;
    while number < 1_000 {
        let line = format!("add {} {}\n", number + 10, rule(rng));
        if !read_text(&line)
            .diagnostics
            .iter()
            .any(|found| found.is_error())
        {
            number += 10;
            out += &line;
        }
    }
    out
}

#[test]
fn rules_mean_what_they_are_printed_as() {
    let (mut rules, mut acted) = (0, 0);
    for seed in seeds(60) {
        let text = list(seed);
        let set = read_text(&text).ruleset;
        let printed = listing::commands(&set);
        let again = read_text(&printed);
        let wrong: Vec<_> = again
            .diagnostics
            .iter()
            .filter(|found| found.is_error())
            .collect();
        assert!(
            wrong.is_empty(),
            "seed {seed}: {wrong:#?}\n{text}\n{printed}"
        );
        assert_eq!(printed, listing::commands(&again.ruleset), "seed {seed}");
        rules += set.rules.len();
        let (mut first, mut second) = (Evaluator::new(&set), Evaluator::new(&again.ruleset));
        let policy = candidates(&set).expect("nothing calls");
        let mut source = PacketSource::new(&policy, seed);
        for number in 0..300 {
            let (hook, pass) =
                [(Hook::Prerouting, Pass::In), (Hook::Output, Pass::Out)][number % 2];
            let mut made = source.packet([Family::V4, Family::V6][number / 2 % 2], hook);
            settle(&mut made);
            let Some(packet) = Packet::of(&made, pass) else {
                continue;
            };
            let mut carried = [Carried::of(&packet), Carried::of(&packet)];
            let meant = first.judge(&packet, &mut carried[0], 0);
            let found = second.judge(&packet, &mut carried[1], 0);
            let numbers = |judged: &weir_policy::eval::ipfw::Judgement| -> Vec<u32> {
                judged.trail.iter().map(|acted| acted.number).collect()
            };
            acted += meant.trail.len();
            assert_eq!(
                numbers(&meant),
                numbers(&found),
                "seed {seed} {packet:?}\n{text}\n{printed}"
            );
            assert_eq!(
                carried[0].tags, carried[1].tags,
                "seed {seed}\n{text}\n{printed}"
            );
        }
    }
    println!("{rules} rules, which acted {acted} times");
    assert!(rules > 5_000 && acted > 100_000, "{rules} {acted}");
}

#[test]
fn all_protocols_read_back() {
    for number in 1..=256 {
        for rule in [
            format!("count {number} from any to any"),
            format!("count ip from any to any proto {number}"),
            format!("count not {number} from any to any in"),
            format!("count {{ {number} or udp }} from any to any"),
            format!("count proto {number} in"),
            format!("count ip from 10.0.0.1 to any {{ out or proto {number} }}"),
            format!("count ip from any to 10.0.0.1 proto {number}"),
        ] {
            let set = read_text(&format!("add 100 {rule}\n")).ruleset;
            let printed = listing::commands(&set);
            let again = read_text(&printed).ruleset;
            let patterns = |set: &weir_policy::dialect::ipfw::Ruleset| {
                let body = &set.rules[0].rule.body;
                let mut out: Vec<String> = body
                    .iter()
                    .map(|one| format!("{:?} {} {}", one.pattern, one.negate, one.or_next))
                    .collect();
                out.sort();
                out
            };
            assert_eq!(patterns(&set), patterns(&again), "{rule}: {printed}");
        }
    }
}
