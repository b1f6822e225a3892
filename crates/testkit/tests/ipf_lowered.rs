//! IPFilter rules three ways: their own evaluator (the meaning), the rule model that they are
//! lowered to, and the compiled image. Same verdicts and same rules matched, packet by packet.
//!
//! Rules are random texts of what can be lowered: last match and quick, heads, groups and skips,
//! counts and logs, ports, flags, ICMP, fragments. Packets sit on the edges of the lowered rules.

use fastrand::Rng;
use weir_engine::compile::Options;
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_engine::run::Matching;
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::dialect::ipf::{ParseOptions, parse, pool};
use weir_policy::eval::ipf::{Evaluator as Meaning, Outcome, Settings, Tables, candidates};
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{Family, Hook, Policy, Reading, RejectKind, SourceId, Verdict};
use weir_policy::syntax::Sources;
use weir_testkit::equality::Comparison;
use weir_testkit::random::PacketSource;
use weir_testkit::seeds::seeds;

const HOOKS: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Output];

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

const V4: &[&str] = &[
    "any",
    "any",
    "10.0.0.0/8",
    "!10.1.0.0/16",
    "10.1.2.3",
    "10.1.2.0/24",
    "10.0.0.0/255.0.255.0",
    "192.168.0.0/16",
];
const V6: &[&str] = &["any", "any", "2001:db8::/32", "!2001:db8:0:1::/64"];

fn side(rng: &mut Rng, word: &str, addresses: &[&str], with_port: bool) -> String {
    let address = one(rng, addresses);
    let port = match with_port && rng.u8(..3) == 0 {
        true => one(
            rng,
            &[
                " port = 80",
                " port != 53",
                " port < 1024",
                " port >= 1024",
                " port 20 >< 30",
                " port 20 <> 30",
                " port 22:25",
            ],
        ),
        false => "",
    };
    format!("{word} {address}{port}")
}

/// Terms of the expression language.
const TERMS: &[&str] = &[
    "ip.src = 10.1.2.0/24, 192.168.0.0/16",
    "ip.addr != 10.0.0.0/8",
    "ip6.addr = 2001:db8::/32",
    "ip.dst = 10.1.2.3",
    "tcp.dport = 22, 80",
    "tcp.port != 80",
    "udp.sport != 53",
    "udp.port = 53, 1024",
    "tcp.flags = S/SA, F",
    "tcp.flags != S/SA",
    "ip.p != tcp, 17",
    "tcp.state = 4",
];

fn matching(rng: &mut Rng) -> String {
    match rng.u8(..10) {
        0 | 1 => return "all".to_owned(),
        2 => {
            let more = one(rng, &["", "ip.p = tcp; ", "ip.src != 10.1.2.3; "]);
            return format!("exp {{ \"{more}{};\" }}", one(rng, TERMS));
        }
        _ => {}
    }
    let proto = one(
        rng,
        &[
            "",
            "",
            "proto tcp ",
            "proto udp ",
            "proto tcp/udp ",
            "proto icmp ",
            "proto 47 ",
        ],
    );
    let ports = proto.is_empty() || proto.contains("tcp") || proto.contains("udp");
    let tos = one(rng, &["", "", "", "tos 0x10 ", "ttl 64 "]);
    let addresses = if proto == "proto icmp " || rng.u8(..3) > 0 {
        V4
    } else {
        V6
    };
    let source = side(rng, "from", addresses, ports);
    let destination = side(rng, "to", addresses, ports);
    let tail = match proto {
        "proto tcp " => one(
            rng,
            &["", "", " flags S", " flags S/SA", " flags /A", " flags FPU"],
        ),
        "proto icmp " => one(
            rng,
            &["", "", " icmp-type echo", " icmp-type unreach code 3"],
        ),
        _ => "",
    };
    let with = one(
        rng,
        &[
            "",
            "",
            "",
            "",
            " with frag",
            " with not frag",
            " with frag-body",
        ],
    );
    format!("{tos}{proto}{source} {destination}{tail}{with}")
}

fn text(rng: &mut Rng) -> String {
    let mut out = String::new();
    for _ in 0..rng.usize(2..24) {
        let direction = one(rng, &["in", "out"]);
        let mut action = one(
            rng,
            &[
                "pass",
                "pass",
                "block",
                "block",
                "block return-rst",
                "block return-icmp",
                "block return-icmp-as-dest",
                "log",
                "count",
                "skip 2",
                "call now srcgrpmap/1",
                "call now dstgrpmap/2",
            ],
        )
        .to_owned();
        let calls = action.starts_with("call");
        if direction == "out" && (calls || matches!(&*action, "count" | "skip 2")) {
            action = "pass".to_owned();
        }
        let collection = one(rng, &["", "", "", "10 ", "5 "]);
        let log = one(rng, &["", "", " log", " log level warn", " log or-block"]);
        let calls = action.starts_with("call");
        let log = if calls || matches!(&*action, "log" | "count" | "skip 2") {
            ""
        } else {
            log
        };
        let quick = one(rng, &["", "", " quick"]);
        let quick = if action == "skip 2" { "" } else { quick };
        let on = one(rng, &["", "", " on eth0", " on eth1", " on eth0,eth1"]);
        let matching = matching(rng);
        let head = match !calls && !action.starts_with("block r") && rng.u8(..4) == 0 {
            true => format!(" head {direction}{}", rng.u8(..3)),
            false => String::new(),
        };
        let group = match !calls && head.is_empty() && rng.u8(..3) == 0 {
            true => format!(" group {direction}{}", rng.u8(..3)),
            false => String::new(),
        };
        let rate = match matches!(&*action, "pass" | "block") {
            true => one(rng, &["", "", "", "", "", " pps 2"]),
            false => "",
        };
        out += &format!(
            "{collection}{action} {direction}{log}{quick}{on} {matching}{head}{group}{rate}\n"
        );
    }
    out
}

/// Group maps: holes in a network, a group that isn't there, both families.
fn tables() -> Tables {
    const MAPS: &str = "group-map in role = ipf number = 1 group = in0 { 10.0.0.0/8; \
        10.1.0.0/16, group = in1; 10.1.2.0/24, group = in0; 2001:db8::/32; \
        192.168.0.0/16, group = nobody; };\n\
        group-map in role = ipf number = 2 group = in2 { 0.0.0.0/0; 10.1.2.3/32, group = in1; };\n";
    let mut sources = Sources::new();
    let (file, found) = pool::parse(MAPS, sources.add("maps", MAPS));
    assert!(found.is_empty(), "{found:?}");
    let mut tables = Tables::default();
    for table in &file.tables {
        let (out, number) = table.map().expect("it is a map");
        tables.add_map(out, number, table.mapped());
    }
    tables
}

/// Reads and lowers a text.
fn lowered(text: &str) -> Option<(RuleSet, Policy)> {
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let (file, found) = parse(text, id, &ParseOptions::default());
    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
    // Mixed families and the like are the parser's to refuse.
    if !errors.is_empty() {
        return None;
    }
    let (set, _) = RuleSet::of(&file);
    let (policy, found) = lower(&set, &tables(), &sources, LowerOptions::default());
    let policy = policy.unwrap_or_else(|| panic!("{found:?} in\n{text}"));
    Some((set, policy))
}

#[test]
fn lowered_rules_mean_what_their_own_evaluator_says() {
    let (mut policies, mut packets, mut outcomes) = (0, 0u32, [0u32; 4]);
    for seed in seeds(1_500) {
        let text = text(&mut Rng::with_seed(seed));
        let Some((set, policy)) = lowered(&text) else {
            continue;
        };
        policies += 1;
        let mut meaning = Meaning::new(&set, tables(), Settings::default());
        let mut evaluator = Evaluator::new(&policy, 0);
        let mut source = PacketSource::new(&policy, seed);
        for number in 0..120 {
            let family = [Family::V4, Family::V6][number % 2];
            let hook = HOOKS[number / 2 % 3];
            let mut made = source.packet(family, hook);
            settle(&mut made);
            let bytes = build(&made, usize::MAX).expect("a settled packet can be built");
            let met = packet(
                &bytes,
                bytes.len() as u32,
                &Arrival::of(&made),
                Reading::Ipf,
            )
            .expect("it parses");
            let out = hook != Hook::Prerouting;
            let interface = if out { &met.out_iface } else { &met.in_iface };
            let own = ipf_packet(&bytes, out, interface, LinkClass::default());
            let meant = meaning.judge(&own, 1_000);
            if meant.outcome == Outcome::BadPacket {
                continue;
            }
            packets += 1;
            let found = evaluator.judge(&met, &mut Passage::of(&met), 1_000);
            let place = || {
                format!(
                    "seed {seed} packet {number} {met:?}\n{own:?}\n{meant:?}\n{found:?}\n{text}"
                )
            };
            assert_eq!(
                meant.passes,
                found.verdict == Verdict::Accept,
                "{}",
                place()
            );
            let rules = set.rules.len() as u32;
            let matched = found
                .matched
                .iter()
                .map(|rule| rule.0)
                .filter(|rule| *rule < rules);
            let matched: Vec<usize> = matched.map(|rule| rule as usize).collect();
            assert_eq!(meant.matched, matched, "{}", place());
            let decided = found.decided_by.map(|rule| rule.0 as usize);
            assert_eq!(
                meant.rule,
                decided.filter(|rule| *rule < set.rules.len()),
                "{}",
                place()
            );
            let answered = matches!(hook, Hook::Prerouting | Hook::Output);
            let reset = meant.outcome == Outcome::BlockReturnRst && own.proto == 6 && answered;
            let resets = found.verdict == Verdict::Reject(RejectKind::TcpReset);
            assert_eq!(reset, resets, "{}", place());
            outcomes[match (meant.outcome, meant.passes) {
                (Outcome::Nomatch, _) => 0,
                (_, true) => 1,
                (Outcome::Block, _) => 2,
                _ => 3,
            }] += 1;
        }
    }
    println!("{policies} rule sets, {packets} packets: nomatch, pass, block, answer {outcomes:?}");
    assert!(
        policies > 500 && outcomes.iter().all(|count| *count > 1_000),
        "{policies} {outcomes:?}"
    );
}

#[test]
fn lowered_rules_compile_to_what_they_mean() {
    let mut policies = 0;
    for seed in seeds(300) {
        let Some((_, policy)) = lowered(&text(&mut Rng::with_seed(seed))) else {
            continue;
        };
        policies += 1;
        let comparison = Comparison {
            policy: &policy,
            packets: 600,
            seed,
            hooks: &HOOKS,
            options: Options::default(),
            kernel: None,
            dressed: false,
        };
        if let Err(mismatch) = comparison.run() {
            panic!("seed {seed}: {}", mismatch.0);
        }
    }
    assert!(policies > 100, "{policies}");
}

/// A long rule set, in the order of its lines, some of which keep states.
fn long(rng: &mut Rng) -> RuleSet {
    let mut out = String::new();
    for _ in 0..rng.usize(5..9) {
        for line in text(rng).lines() {
            let line = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let keeps = line.starts_with("pass") && !line.contains(" pps ") && rng.u8(..4) == 0;
            let place = line
                .find(" head ")
                .or(line.find(" group "))
                .unwrap_or(line.len());
            let (body, groups) = line.split_at(place);
            let line = match keeps {
                true => format!("{body} keep state{groups}\n"),
                false => format!("{line}\n"),
            };
            let (_, found) = parse(&line, SourceId(0), &ParseOptions::default());
            if !found.iter().any(|found| found.is_error()) {
                out += line.trim_start();
            }
        }
    }
    let (file, _) = parse(&out, SourceId(0), &ParseOptions::default());
    RuleSet::of(&file).0
}

#[test]
fn rules_that_a_lookup_leaves_out_do_not_match() {
    let (mut packets, mut rules, mut tested, mut states) = (0u64, 0, 0, 0);
    for seed in seeds(300) {
        let rng = &mut Rng::with_seed(seed);
        let set = long(rng);
        let policy = candidates(&set, &Tables::default()).expect("lines in order");
        let mut source = PacketSource::new(&policy, seed);
        let matching = Matching::of(policy).expect("it fits");
        let mut matcher = matching.matcher().expect("it is sound");
        let make = || Meaning::new(&set, Tables::default(), Settings::default());
        let (mut all, mut some) = (make(), make());
        for number in 0..150u64 {
            let family = [Family::V4, Family::V6][rng.usize(..2)];
            let out = rng.bool();
            let mut made =
                source.packet(family, [Hook::Prerouting, Hook::Output][usize::from(out)]);
            settle(&mut made);
            let mut bytes = build(&made, usize::MAX).expect("a settled packet can be built");
            if rng.u8(..10) == 0 {
                bytes.truncate(rng.usize(20..=bytes.len().max(20)));
            }
            let interface = if out { &made.out_iface } else { &made.in_iface };
            let own = ipf_packet(&bytes, out, interface, LinkClass::default());
            let matched = matcher
                .matched(&own.headers())
                .expect("nothing is short here");
            let among: Vec<usize> = matched.rules.iter().map(|rule| rule.0 as usize).collect();
            let meant = all.judge(&own, number * 300);
            let found = some.judge_among(&own, number * 300, Some(&among));
            assert_eq!(
                meant, found,
                "seed {seed} packet {number} {own:?} {among:?}"
            );
            packets += 1;
            rules += set.rules.len();
            tested += among.len();
        }
        assert_eq!(all.counters, some.counters, "seed {seed}");
        assert_eq!(all.statistics, some.statistics, "seed {seed}");
        states += all.statistics.iter().map(|one| one.states.0).sum::<u64>();
    }
    println!("{packets} packets, {states} states, {tested} of {rules} rules left to test");
    assert!(packets > 40_000 && states > 100 && tested * 3 < rules * 2);
}
