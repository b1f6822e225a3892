//! The evaluator of ipfw with all rules, and with those alone that a compiled lookup names: same
//! verdicts, trails, lines, counters and states, over random lists with states, jumps, random
//! choices and options that no image knows, and over packets that end too early.

#[path = "states/ipfw_text.rs"]
mod ipfw_text;

use fastrand::Rng;
use std::fmt::Write;
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{build, settle};
use weir_engine::run::Matching;
use weir_policy::dialect::ipfw::lower::candidates;
use weir_policy::dialect::ipfw::{NoNames, Settings, read as read_rules};
use weir_policy::eval::ipfw::{Carried, Evaluator, Pass, Positions};
use weir_policy::model::{Family, Hook, SourceId};
use weir_testkit::random::PacketSource;
use weir_testkit::random::ipfw::text;
use weir_testkit::seeds::seeds;

/// Rules on what headers alone don't tell, or what an image can't ask.
const ODD: &[&str] = &[
    "prob 0.4 count ip from any to any",
    "prob 0.5 deny tcp from any to any 80",
    "count tcp from any to any tcpoptions mss",
    "count tcp from any to any tcpmss 1-1000 dst-port 80",
    "deny tcp from any to any 22 not tcpoptions sack",
    "allow udp from me to any",
    "count ip from any to any { tcpwin 0-9000 or src-port 53 }",
    "count ip from any to any ipttl 1-60",
    "skipto 900 ip from any to any ipid 0-30000",
    "skipto 40000 tcp from any to any established",
    "deny ip from any to any not recv em*",
    "count ip from any to { 10.1.2.3 or any }",
    "count ip from any to any not via *",
    "setdscp ef ip from any to any dscp be",
    "allow tcp from any to any setup keep-state",
    "check-state :web",
    "count log ip from any to any frag",
    "allow icmp from any to any icmptypes 0,3,8,11",
];

/// A list out of a seed: without states, or with them.
fn list(seed: u64) -> (String, Settings) {
    let rng = &mut Rng::with_seed(seed);
    let (mut out, settings) = match seed % 3 {
        0 => (ipfw_text::text(rng), ipfw_text::settings(rng)),
        _ => (text(seed), Settings::default()),
    };
    for _ in 0..rng.usize(..6) {
        let number = [50, 150, 350, 1000, 30_500, 50_100][rng.usize(..6)];
        let _ = writeln!(out, "add {number} {}", ODD[rng.usize(..ODD.len())]);
    }
    // Calls go back; such lists are walked.
    (
        ["6000", "7000", "40000", "tablearg"]
            .iter()
            .fold(out, |out, to| out.replace(&format!("call {to}"), "count")),
        settings,
    )
}

#[test]
fn rules_that_a_lookup_leaves_out_do_nothing() {
    let (mut lists, mut packets, mut left_out, mut noted) = (0, 0u64, 0u64, 0u32);
    for seed in seeds(1_500) {
        let (text, settings) = list(seed);
        let program = read_rules(&text, SourceId(0), &NoNames, settings);
        let set = &program.ruleset;
        let policy = candidates(set).expect("nothing calls");
        let mut source = PacketSource::new(&policy, seed);
        let Some(matching) = Matching::of(policy) else {
            panic!("a short list fits: seed {seed}\n{text}");
        };
        let mut matcher = matching.matcher().expect("it is sound");
        let positions = Positions::of(set);
        let (mut all, mut some) = (Evaluator::new(set), Evaluator::new(set));
        lists += 1;
        let rng = &mut Rng::with_seed(seed);
        for number in 0..120u64 {
            let family = [Family::V4, Family::V6][rng.usize(..2)];
            let hook = [Hook::Prerouting, Hook::Forward, Hook::Output][rng.usize(..3)];
            let mut made = source.packet(family, hook);
            settle(&mut made);
            let mut bytes = build(&made, usize::MAX).expect("a settled packet can be built");
            if rng.u8(..8) == 0 {
                bytes.truncate(rng.usize(20..=bytes.len().max(20)));
            }
            let met = Met {
                pass: match hook {
                    Hook::Prerouting => Pass::In,
                    _ => Pass::Out,
                },
                recv: made.in_iface.clone(),
                xmit: made.out_iface.clone(),
                frame: None,
                to_many: false,
            };
            let length = bytes.len() as u32;
            let Read::Packet(packet) = read(&bytes, length, &met, &set.settings) else {
                continue;
            };
            packets += 1;
            let now_ms = number * 400;
            let mut carried = [Carried::of(&packet), Carried::of(&packet)];
            let meant = all.judge(&packet, &mut carried[0], now_ms);
            let matched = packet
                .headers()
                .and_then(|headers| matcher.matched(&headers));
            left_out += u64::from(matched.is_some());
            let among = matched.map_or_else(Default::default, |matched| {
                positions.among(&matched.rules, matched.ended)
            });
            let found = some.judge_among(&packet, &mut carried[1], now_ms, &among);
            assert!(
                meant == found && carried[0] == carried[1],
                "seed {seed} packet {number} {packet:?}\n{meant:?}\n{found:?}\n{carried:?}\n\
                 {among:?}\n{text}"
            );
            noted = noted.max(all.states.len());
            assert_eq!(all.states.len(), some.states.len(), "seed {seed}\n{text}");
        }
        assert_eq!(all.counters, some.counters, "seed {seed}\n{text}");
        assert_eq!(all.last_match, some.last_match, "seed {seed}\n{text}");
    }
    println!("{lists} lists, {packets} packets, {left_out} looked up, up to {noted} states");
    assert!(left_out > 100_000 && noted > 3, "{left_out} {noted}");
}
