//! The list that packets of established flows have of their own says what the whole list says,
//! after every change in place that lets it stand.

use fastrand::Rng;
use std::mem::offset_of;
use weir_engine::compile::Options;
use weir_engine::image::checksum;
use weir_engine::image::layout::{CHECKSUM_AT, Header, ROOTS};
use weir_engine::run::{Reference, Runner};
use weir_engine::update::Live;
use weir_policy::eval::Passage;
use weir_policy::model::{
    ChainId, Cond, CtState, Family, Flow, Fragment, Hook, Packet, Policy, Rule, RuleId, StateMask,
    Test, Transport, Verdict,
};
use weir_testkit::random::{PacketSource, boxes};

const CHAIN: ChainId = ChainId(0);

/// A packet as the short way takes it for one of an established flow (`bpf/lane.h`).
fn of_a_flow(mut packet: Packet) -> Option<Packet> {
    match &mut packet.transport {
        Transport::Tcp { flags, .. } => *flags = *flags & 0x28 | 0x10,
        Transport::Udp { .. } => {}
        _ => return None,
    }
    (packet.fragment == Fragment::Whole).then_some(packet)
}

/// The image where all packets meet the lists for established flows; `None`: it has none.
fn with_its_lists_alone(image: &[u8]) -> Option<Vec<u8>> {
    let mut out = image.to_vec();
    let mut any = false;
    for number in 0..ROOTS {
        let from = offset_of!(Header, established) + 4 * number;
        let to = offset_of!(Header, roots) + 4 * number;
        if image[from..from + 4] != [0; 4] {
            out[to..to + 4].copy_from_slice(&image[from..from + 4]);
            any = true;
        }
    }
    let sum = checksum(&out);
    out[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    any.then_some(out)
}

/// How many packets were judged by both.
fn compare(live: &Live, model: &Policy, seed: u64) -> u64 {
    let whole = live.snapshot();
    let Some(alone) = with_its_lists_alone(&whole).filter(|_| !live.is_whole()) else {
        return 0;
    };
    let mut runners =
        [&whole, &alone].map(|image| Runner::new(image, 1000).expect("a whole image"));
    let mut source = PacketSource::new(model, seed);
    let mut judged = 0;
    let family = model.chain(CHAIN).family;
    for _ in 0..60 {
        let Some(packet) = of_a_flow(source.packet(family, Hook::Forward)) else {
            continue;
        };
        let [a, b] = runners.each_mut().map(|runner| {
            let mut passage = Passage::of(&packet);
            passage.state = Some(CtState::Established);
            let mut reference = Reference::new(model);
            reference.begin();
            let out = runner.judge(&packet, &mut passage, &mut reference, 1000);
            (out.verdict, out.decided_by, out.matched)
        });
        assert_eq!(a, b, "seed {seed}: {packet:?}");
        judged += 1;
    }
    judged
}

fn established(like: &Rule) -> Rule {
    Rule {
        tests: vec![Test {
            cond: Cond::State(StateMask(CtState::Established as u8)),
            negate: false,
        }],
        flow: Flow::Verdict(Verdict::Accept),
        ..like.clone()
    }
}

#[derive(Debug, Default)]
struct Done {
    judged: u64,
    in_place: u64,
    given_up: u64,
}

fn changing(seed: u64, family: Family, all: &mut Done) {
    let mut rng = Rng::with_seed(seed);
    let mut model = boxes::policy(seed, family, 30);
    let first = established(&model.chain(CHAIN).rules[0]);
    // Mostly in front, as in files that people have.
    let at = [0, 0, 1, 12][seed as usize % 4];
    model.chains[0].rules[at] = established(&model.chain(CHAIN).rules[at]);
    let mut live = Live::new(&model, &Options::default()).expect("it can be built");
    for step in 0..60u64 {
        all.judged += compare(&live, &model, seed << 16 | step);
        let length = model.chain(CHAIN).rules.len();
        let index = match rng.bool() {
            true => rng.usize(..length.min(4)),
            false => rng.usize(..length),
        };
        let mut image = live.image().to_vec();
        let (made, given_up) = match rng.u32(..3) {
            0 if length > 8 => {
                model.chains[0].rules.remove(index);
                (live.delete(&mut image, CHAIN, index), live.is_whole())
            }
            kind => {
                let mut rule = match rng.u32(..4) {
                    0 => first.clone(),
                    _ => boxes::rule(0, family, &mut rng),
                };
                let made = match kind {
                    1 => live.replace(&mut image, CHAIN, index, &rule),
                    _ => live.insert(&mut image, CHAIN, index, &rule),
                };
                rule.id = made.unwrap_or(RuleId(model.rule_count));
                model.rule_count = model.rule_count.max(rule.id.0 + 1);
                let rules = &mut model.chains[0].rules;
                match kind {
                    1 => rules[index] = rule,
                    _ => rules.insert(index, rule),
                }
                (made, live.is_whole())
            }
        };
        all.in_place += u64::from(made.is_ok());
        all.given_up += u64::from(made.is_ok() && given_up);
        model.rule_count = model.rule_count.max(live.counters());
        if made.is_err() || live.is_whole() {
            live = Live::new(&model, &Options::default()).expect("it can be built");
            model.rule_count = live.counters();
        }
    }
}

#[test]
fn lists_for_established_flows_say_what_the_whole_list_says() {
    let mut all = Done::default();
    for seed in 0..8 {
        let family = [Family::V4, Family::V6][seed as usize / 4 % 2];
        changing(seed, family, &mut all);
    }
    println!("{all:?}");
    // Some changes let the lists stand, others don't.
    assert!(all.judged > 5_000, "{all:?}");
    assert!(
        all.given_up > 50 && all.in_place > all.given_up + 100,
        "{all:?}"
    );
}
