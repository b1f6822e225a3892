//! What needs a moving clock: lifetimes of states and fragments, rates, and records of states.

use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::words::attribute;
use weir_policy::dialect::ipf::{ParseOptions, parse};
use weir_policy::eval::ipf::log::{Style, state_line};
use weir_policy::eval::ipf::{Evaluator, Icmp, IpfPacket, Outcome, Settings, Tables, Tcp};
use weir_policy::model::Family;
use weir_policy::syntax::SourceId;

fn rules(text: &str) -> RuleSet {
    let (file, found) = parse(text, SourceId(0), &ParseOptions::default());
    assert!(found.iter().all(|found| !found.is_error()), "{found:#?}");
    RuleSet::of(&file).0
}

/// From host 1 to host 2 and in, or back and out.
fn packet(proto: u8, back: bool) -> IpfPacket {
    let mut packet = IpfPacket::empty(Family::V4, back, "e0");
    let ends = if back { (2, 1) } else { (1, 2) };
    (packet.source, packet.destination) = (0x0a00_0000 + ends.0, 0x0a00_0000 + ends.1);
    (packet.proto, packet.ttl, packet.length, packet.data) = (proto, 64, 28, 8);
    if matches!(proto, 6 | 17) {
        packet.ports = Some(if back { (53, 1000) } else { (1000, 53) });
    }
    packet
}

fn icmp(kind: u8, back: bool) -> IpfPacket {
    let mut packet = packet(1, back);
    packet.icmp = Some(Icmp {
        kind,
        id: 7,
        ..Icmp::default()
    });
    packet
}

fn tcp(flags: u8, sequence: u32, acknowledgement: u32, back: bool) -> IpfPacket {
    let mut packet = packet(6, back);
    (packet.length, packet.data) = (40, 20);
    packet.tcp = Some(Tcp {
        flags,
        sequence,
        acknowledgement,
        window: 4096,
        header: 20,
        ..Tcp::default()
    });
    packet
}

const SECOND: u64 = 1000;

/// Judges packets at their times, in milliseconds.
fn run(text: &str, steps: &[(u64, IpfPacket, Outcome)]) {
    let set = rules(text);
    let mut evaluator = Evaluator::new(&set, Tables::default(), Settings::default());
    for (number, (time, packet, wanted)) in steps.iter().enumerate() {
        let found = evaluator.judge(packet, *time).outcome;
        assert_eq!(found, *wanted, "step {number} of {text}");
    }
}

const KEEP: &str = "block out all\npass in quick proto udp all keep state";

#[test]
fn udp_lives_two_minutes_and_twelve_seconds_behind_a_reply() {
    use Outcome::{Block, Pass};
    let (there, back) = (packet(17, false), packet(17, true));
    run(
        KEEP,
        &[(0, there.clone(), Pass), (119 * SECOND, back.clone(), Pass)],
    );
    run(
        KEEP,
        &[
            (0, there.clone(), Pass),
            (120 * SECOND, back.clone(), Block),
        ],
    );
    let replied = [
        (0, there.clone(), Pass),
        (SECOND, back.clone(), Pass),
        (12 * SECOND, back.clone(), Pass),
        (24 * SECOND, back.clone(), Block),
    ];
    run(KEEP, &replied);
    let again = [
        (0, there.clone(), Pass),
        (SECOND, back.clone(), Pass),
        (12 * SECOND, there, Pass),
        (131 * SECOND, back, Pass),
    ];
    run(KEEP, &again);
}

#[test]
fn icmp_lives_a_minute_and_six_seconds_behind_a_reply() {
    use Outcome::{Block, Pass};
    let text = "block out all\npass in quick proto icmp all keep state";
    run(
        text,
        &[
            (0, icmp(8, false), Pass),
            (59 * SECOND, icmp(0, true), Pass),
        ],
    );
    run(
        text,
        &[
            (0, icmp(8, false), Pass),
            (60 * SECOND, icmp(0, true), Block),
        ],
    );
    let replied = [
        (0, icmp(8, false), Pass),
        (0, icmp(0, true), Pass),
        (6 * SECOND, icmp(0, true), Block),
    ];
    run(text, &replied);
}

#[test]
fn other_protocols_live_a_minute() {
    use Outcome::{Block, Pass};
    let text = "block out all\npass in quick proto 132 all keep state";
    run(
        text,
        &[
            (0, packet(132, false), Pass),
            (59 * SECOND, packet(132, true), Pass),
        ],
    );
    run(
        text,
        &[
            (0, packet(132, false), Pass),
            (60 * SECOND, packet(132, true), Block),
        ],
    );
}

#[test]
fn age_replaces_both_lifetimes() {
    use Outcome::{Block, Pass};
    let text = "block out all\npass in quick proto udp all keep state (age 30/5)";
    let (there, back) = (packet(17, false), packet(17, true));
    run(
        text,
        &[(0, there.clone(), Pass), (29 * SECOND, back.clone(), Pass)],
    );
    run(
        text,
        &[(0, there.clone(), Pass), (30 * SECOND, back.clone(), Block)],
    );
    run(
        text,
        &[
            (0, there, Pass),
            (0, back.clone(), Pass),
            (5 * SECOND, back, Block),
        ],
    );
}

#[test]
fn tcp_lives_by_its_state() {
    use Outcome::{Block, Pass};
    let text = "block out all\nblock in all\npass in quick proto tcp all flags S/SA keep state";
    let syn = (0, tcp(0x02, 100, 0, false), Pass);
    let answer = |time, wanted| (time, tcp(0x12, 500, 101, true), wanted);
    run(text, &[syn.clone(), answer(239 * SECOND, Pass)]);
    run(text, &[syn.clone(), answer(240 * SECOND, Block)]);
    let open = [syn, answer(0, Pass), (0, tcp(0x10, 101, 501, false), Pass)];
    let five_days = 432_000 * SECOND;
    let ack = |time, wanted| (time, tcp(0x10, 501, 101, true), wanted);
    run(text, &[&open[..], &[ack(five_days - 1, Pass)]].concat());
    run(text, &[&open[..], &[ack(five_days, Block)]].concat());
    // Half closed: two hours.
    let half = [&open[..], &[(0, tcp(0x11, 101, 501, false), Pass)]].concat();
    run(
        text,
        &[
            &half[..],
            &[(7_199 * SECOND, tcp(0x10, 501, 102, true), Pass)],
        ]
        .concat(),
    );
    run(
        text,
        &[
            &half[..],
            &[(7_200 * SECOND, tcp(0x10, 501, 102, true), Block)],
        ]
        .concat(),
    );
    // Reset: half a minute.
    let reset = [&open[..], &[(0, tcp(0x14, 101, 501, false), Pass)]].concat();
    run(
        text,
        &[
            &reset[..],
            &[(30 * SECOND, tcp(0x10, 501, 101, true), Block)],
        ]
        .concat(),
    );
}

#[test]
fn fragments_are_remembered_a_minute() {
    use Outcome::{Block, Pass};
    let text = "block in all\npass in quick proto udp from any to any port = 53 keep frags";
    let mut first = packet(17, false);
    (first.attributes, first.more, first.id) = (attribute::FRAG, true, 9);
    let mut later = packet(17, false);
    (later.attributes, later.ports) = (attribute::FRAG | attribute::FRAG_BODY, None);
    (later.offset, later.id) = (8, 9);
    run(
        text,
        &[(0, first.clone(), Pass), (59 * SECOND, later.clone(), Pass)],
    );
    run(text, &[(0, first, Pass), (60 * SECOND, later, Block)]);
}

#[test]
fn rates_begin_anew_each_second() {
    use Outcome::{Block, Pass};
    let udp = || packet(17, false);
    let steps = [
        (0, udp(), Pass),
        (500, udp(), Block),
        (999, udp(), Block),
        (1000, udp(), Pass),
        (1500, udp(), Block),
        (5000, udp(), Pass),
    ];
    run("pass in all pps 1", &steps);
}

#[test]
fn states_have_records() {
    let set = rules("pass in quick proto udp all keep state set-tag(log=3)");
    let mut evaluator = Evaluator::new(&set, Tables::default(), Settings::default());
    evaluator.judge(&packet(17, false), 0);
    evaluator.judge(&packet(17, true), 0);
    let state = &evaluator.states.entries()[0];
    let style = Style {
        syslog: true,
        ..Style::default()
    };
    let new = "STATE:NEW 10.0.0.1,1000 -> 10.0.0.2,53 PR udp tag 3";
    assert_eq!(state_line(state, "NEW", 0, style), new);
    let line = state_line(state, "EXPIRE", 86_400_000, Style::default());
    let wanted = "02/01/1970 00:00:00.000000 STATE:EXPIRE 10.0.0.1,1000 -> 10.0.0.2,53 PR udp \
                  tag 3 Forward: Pkts in 1 Bytes in 28 Pkts out 0 Bytes out 0 Backward: Pkts in 0 \
                  Bytes in 0 Pkts out 1 Bytes out 28";
    assert_eq!(line, wanted);
}
