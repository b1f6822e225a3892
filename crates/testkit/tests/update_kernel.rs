//! Changes of single rules in the kernel while packets are judged: every packet meets the policy of
//! before the change or the one after it, by its verdict and by the rule that decides; also while
//! images are built anew beside the changes and put in force. Needs root; see
//! `WEIR_REQUIRE_KERNEL`.

use fastrand::Rng;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_engine::compile::Options;
use weir_engine::packet::{Arrival, build, settle};
use weir_engine::update::{Change, Kept, Live};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_plane::update::Slots;
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{
    ChainId, Cond, Family, Flow, Hook, Packet, Policy, Rule, RuleId, Test, Transport, Verdict,
};
use weir_testkit::random::{PacketSource, boxes};

const CHAIN: ChainId = ChainId(0);

/// A rule that comes and goes, and the packets that it matches.
struct Guest {
    rule: Rule,
    index: usize,
    matches: Vec<bool>,
}

/// The number of the rule of a policy that decides, and the verdict.
fn judged(policy: &Policy, packet: &Packet) -> (usize, u32) {
    let mut evaluator = Evaluator::new(policy, 1000);
    let meant = evaluator.judge(packet, &mut Passage::of(packet), 1000);
    let number = match meant.verdict {
        Verdict::Accept => 1,
        Verdict::Drop => 2,
        Verdict::Reject(_) => 3,
    };
    let rules = &policy.chain(CHAIN).rules;
    let at = rules
        .iter()
        .position(|rule| Some(rule.id) == meant.decided_by);
    (at.unwrap_or(rules.len()), number)
}

fn guests(base: &Policy, packets: &[Packet], count: usize, family: Family) -> Vec<Guest> {
    let mut rng = Rng::with_seed(77);
    let rules = &base.chain(CHAIN).rules;
    let id = base.rule_count;
    // To a list of wide rules guests come where those decide and one of them has to move.
    let is_wide = rules.len() < 200;
    let places = if is_wide { 1..6 } else { 0..200 };
    let guest = |_| {
        // One in two is like a rule that is there, with another end.
        let mut rule = match rng.bool() {
            true if is_of_sources(base) => {
                let packet = &packets[rng.usize(..packets.len())];
                Rule {
                    tests: vec![boxes::source(packet.src as u32)],
                    ..rules[0].clone()
                }
            }
            true if is_wide => boxes::wide_rule(id, &mut rng),
            true => boxes::rule(id, family, &mut rng),
            false => rules[rng.usize(..rules.len())].clone(),
        };
        rule.id = RuleId(id);
        rule.flow = Flow::Verdict([Verdict::Accept, Verdict::Drop][rng.usize(..2)]);
        let mut alone = base.clone();
        alone.chains[0].rules = vec![rule.clone()];
        alone.rule_count = id + 1;
        let matches = packets.iter().map(|packet| judged(&alone, packet).0 == 0);
        Guest {
            matches: matches.collect(),
            index: rng.usize(places.clone()),
            rule,
        }
    };
    (0..count).map(guest).collect()
}

/// Whether an answer (verdict, and whether a guest gave it) is that of one of these states.
fn allows(
    guests: &[Guest],
    plain: &[(usize, u32)],
    number: usize,
    mut states: RangeInclusive<usize>,
    own: (u32, bool),
) -> bool {
    let (decider, verdict) = plain[number];
    states.any(|state| {
        let guest = guests.get(state / 2).filter(|_| state % 2 == 1);
        let matches = |guest: &Guest| guest.matches[number] && guest.index <= decider;
        match guest.filter(|guest| matches(guest)) {
            None => own == (verdict, false),
            Some(guest) => match guest.rule.flow {
                Flow::Verdict(Verdict::Accept) => own == (1, true),
                _ => own == (2, true),
            },
        }
    })
}

/// Whether all rules name a source and nothing else.
fn is_of_sources(policy: &Policy) -> bool {
    let rules = &policy.chain(CHAIN).rules;
    let is_source = |rule: &Rule| {
        matches!(
            &rule.tests[..],
            [Test {
                cond: Cond::Src(_),
                ..
            }]
        )
    };
    rules.iter().all(is_source)
}

/// Packets for a policy. The first rule that reads ports drops those that are cut short, and does
/// not decide: they are left out.
fn whole_packets(base: &Policy, family: Family) -> Vec<Packet> {
    let mut source = PacketSource::new(base, 9);
    let mut packets: Vec<Packet> = Vec::new();
    while packets.len() < 96 {
        let mut packet = source.conversation(family, Hook::Forward);
        settle(&mut packet);
        if !matches!(packet.transport, Transport::Short) {
            packets.push(packet);
        }
    }
    packets
}

fn run(base: Policy, family: Family) {
    let packets = whole_packets(&base, family);
    let guests = guests(&base, &packets, 2000, family);
    let plain: Vec<(usize, u32)> = packets.iter().map(|packet| judged(&base, packet)).collect();
    let met = guests
        .iter()
        .flat_map(|guest| &guest.matches)
        .filter(|m| **m);
    assert!(met.count() > 700, "guests match packets");

    let probe = Live::new(&base, &Options::default()).expect("it compiles");
    let capacity = Capacity::for_policy(probe.image().len() * 2, probe.counters() * 2, 0, 4096);
    let kernel = TestRun::new(capacity.expect("it fits")).unwrap_or_else(|e| panic!("{e}"));
    kernel.set_locals(&weir_policy::eval::Locals::default());
    kernel.set_clock(1000);
    let slots = Slots::of(kernel.instance(), 1, weir_plane::needs::of(&base), 0);
    let kept = Kept::new(&base, &Options::default(), slots);
    let mut kept = kept.expect("the kernel takes it");
    let bytes: Vec<Vec<u8>> = packets
        .iter()
        .map(|packet| build(packet, TestRun::LIMIT).expect("packets can be written"))
        .collect();

    // Twice the number of a state (even: the base; odd: with guest number half of it), and one more
    // while a change is under way to the next.
    let state = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let (mut judged, mut changed) = (0u64, 0u64);
    let (rebuilt, renewals, moves) = std::thread::scope(|scope| {
        let updater = scope.spawn(|| {
            let (mut rebuilt, mut moves) = (0, 0);
            for (number, guest) in guests.iter().enumerate() {
                if number % 200 == 100 {
                    kept.renew();
                }
                let put = Change::Insert(CHAIN, guest.index, guest.rule.clone());
                state.fetch_add(1, Ordering::SeqCst);
                let put = kept.change(&put).expect("it is put in");
                rebuilt += usize::from(put.rebuilt.is_some());
                moves = moves.max(kept.live().moves());
                state.fetch_add(1, Ordering::SeqCst);
                // One processor may have both to do.
                std::thread::sleep(Duration::from_micros(300));
                state.fetch_add(1, Ordering::SeqCst);
                let gone = kept.change(&Change::Delete(CHAIN, guest.index));
                let gone = gone.expect("what was put in can be taken out");
                rebuilt += usize::from(gone.rebuilt.is_some());
                state.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(50));
            }
            kept.finish()
                .expect("what is built in the background comes");
            over.store(true, Ordering::SeqCst);
            (rebuilt, kept.renewals(), moves)
        });
        let began = Instant::now();
        while !over.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(60) {
            for (number, packet) in packets.iter().enumerate() {
                let before = state.load(Ordering::SeqCst);
                let found = kernel.judge(family, &bytes[number], &Arrival::of(packet), 0);
                let found = found.unwrap_or_else(|e| panic!("{e}"));
                let after = state.load(Ordering::SeqCst);
                let own = (found.verdict, found.deciding >= Some(base.rule_count));
                let fits = allows(&guests, &plain, number, before / 2..=after.div_ceil(2), own);
                assert!(fits, "states {before} to {after}: {own:?}; {packet:?}");
                judged += 1;
                changed += u64::from(own.1);
            }
        }
        updater.join().expect("the updater ends")
    });
    println!("{family:?}: {judged} packets, {changed} met a guest; {rebuilt} changes built anew");
    println!("{renewals} images built in the background, {moves} moves in one image");
    assert!(
        changed > 100,
        "packets met rules that came and went: {changed}"
    );
    assert!(
        rebuilt < guests.len() / 2,
        "{rebuilt} changes were not made in place"
    );
    assert!(renewals > 0, "some images were built in the background");
    assert!(moves > 0 || base.rule_count > 200, "rules have moved");
    // What is left is the base.
    for (number, packet) in packets.iter().enumerate() {
        let found = kernel.judge(family, &bytes[number], &Arrival::of(packet), 0);
        let found = found.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found.verdict, plain[number].1, "{packet:?}");
    }
}

#[test]
fn packets_meet_the_old_rules_or_the_new() {
    if weir_plane::kernel_or_skip("packets_meet_the_old_rules_or_the_new").is_none() {
        return;
    }
    run(boxes::policy(5, Family::V4, 2500), Family::V4);
    run(boxes::policy(5, Family::V6, 2500), Family::V6);
    run(boxes::sources(5, 4000), Family::V4);
    run(boxes::wide(5, 120), Family::V4);
}
