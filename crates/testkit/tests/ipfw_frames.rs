//! ipfw's pass of the link layer four ways: its own evaluator (the meaning), the rule model, the
//! compiled image in user space, and the programs for frames in the kernel. Same verdicts, rules,
//! changes and counters, frame by frame: IPv4, IPv6, ARP and others, with VLAN tags and without,
//! whole and cut short.
//!
//! Not compared: what `ipfw_lowered.rs` doesn't, and the counted bytes of IP packets that say they
//! are longer than their frame.

#[path = "ipfw/both.rs"]
mod both;

use both::{Both, ended};
use fastrand::Rng;
use weir_engine::compile::{Options, compile};
use weir_engine::packet::frame::header;
use weir_engine::packet::ipfw::{Met, Read, frame as link_packet, read};
use weir_engine::packet::{Arrival, build, frame, settle};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipfw::lower::{Options as Lowering, lower};
use weir_policy::dialect::ipfw::{NoNames, Settings, read as read_rules};
use weir_policy::eval::Passage;
use weir_policy::eval::ipfw::{Carried, Judgement as Meant, Pass};
use weir_policy::model::{Family, Hook, Packet, Reading, Root, Verdict};
use weir_policy::syntax::Sources;
use weir_testkit::dress::Dress;
use weir_testkit::random::PacketSource;
use weir_testkit::random::ipfw::{KINDS, MACS, lowered, text_of_frames, ways_back};
use weir_testkit::seeds::seeds;

const NOW_MS: u64 = 1_000;

/// A frame and where it is met.
struct Sent {
    bytes: Vec<u8>,
    arrival: Arrival,
    pass: Pass,
}

/// The packet in a frame, or something else.
fn sent(rng: &mut Rng, source: &mut PacketSource, number: usize) -> Sent {
    let family = [Family::V4, Family::V6][number % 2];
    let (met, pass) = [
        (Hook::Prerouting, Pass::In),
        (Hook::Forward, Pass::Out),
        (Hook::Output, Pass::Out),
    ][number / 2 % 3];
    let mut made = source.packet(family, met);
    settle(&mut made);
    let mut inside = build(&made, usize::MAX).expect("a settled packet can be built");
    Dress::new(rng).put_on(&mut inside);
    let mut kind = match family {
        Family::V4 => KINDS[0],
        Family::V6 => KINDS[1],
    };
    match rng.u8(..8) {
        0 => {
            kind = KINDS[rng.usize(2..KINDS.len())];
            inside = (0..rng.usize(28..64)).map(|_| rng.u8(..)).collect();
        }
        1 => inside.truncate(rng.usize(..=inside.len().min(60))),
        2 => kind = KINDS[rng.usize(..KINDS.len())],
        // Frames are filled up.
        3 => inside.resize(inside.len().max(46), 0),
        _ => {}
    }
    let mac = |rng: &mut Rng| MACS[rng.usize(..MACS.len())].to_be_bytes();
    let mut bytes = [&mac(rng)[2..], &mac(rng)[2..]].concat();
    for _ in 0..rng.usize(..12).saturating_sub(9) {
        bytes.extend_from_slice(&[[0x81, 0], [0x88, 0xa8]][rng.usize(..2)]);
        bytes.extend_from_slice(&[0, 5]);
    }
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&inside);
    let mut arrival = Arrival::of(&made);
    arrival.hook = match pass {
        Pass::In => Root::FRAMES_RECEIVED.0,
        Pass::Out => Root::FRAMES_SENT.0,
    };
    if met == Hook::Output && number.is_multiple_of(5) {
        arrival.owner = Some((0, 0));
    }
    Sent {
        bytes,
        arrival,
        pass,
    }
}

impl Both<'_> {
    /// What a frame means; `None` for what is not compared.
    fn meant(&mut self, sent: &mut Sent, seen: &mut Packet) -> Option<(Meant, Carried)> {
        let (told, at) = header(&sent.bytes)?;
        let inside = &sent.bytes[at..];
        let mac = |number: u64| {
            let bytes = number.to_be_bytes();
            std::array::from_fn(|at| bytes[at + 2])
        };
        let met = Met {
            pass: sent.pass,
            recv: sent.arrival.in_iface.clone(),
            xmit: sent.arrival.out_iface.clone(),
            frame: Some((mac(told.destination), mac(told.source), told.kind)),
            to_many: false,
        };
        let length = inside.len() as u32;
        let held = match told.kind {
            0x0800 | 0x86dd => read(inside, length, &met, &self.set.settings),
            _ => Read::NotIp,
        };
        let held = match held {
            Read::NotIp => None,
            Read::Dropped(why) => return Some((Meant::dropped(why), Carried::default())),
            Read::Packet(held) => Some(*held),
        };
        if held.as_ref().is_some_and(|held| held.bytes != seen.length) {
            return None;
        }
        let mut packet = link_packet(&met, length, held);
        packet.owner = sent.arrival.owner;
        sent.arrival.handling = ways_back(&self.meaning.host, &packet);
        seen.handling = sent.arrival.handling;
        let mut carried = self.carried(&packet, sent.arrival.mark);
        let meant = self.meaning.judge(&packet, &mut carried, NOW_MS);
        Some((meant, carried))
    }
}

#[derive(Default, Debug)]
struct Tally {
    sets: u32,
    frames: u32,
    bare: u32,
    tagged: u32,
    /// Unread, passed, denied, answered.
    outcomes: [u32; 4],
}

impl Tally {
    fn note(&mut self, meant: &Meant, sent: &Sent, seen: &Packet) {
        self.frames += 1;
        self.bare += u32::from(seen.aside.frame.is_some_and(|frame| frame.bare));
        self.tagged += u32::from(matches!(sent.bytes[12], 0x81 | 0x88) && sent.bytes[13] != 6);
        self.outcomes[ended(meant)] += 1;
    }
}

/// Frames that newer kernels take in no test run: with less than the header that their type says.
fn is_refused(bytes: &[u8]) -> bool {
    let least = match bytes[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    bytes.len() < 14 + least
}

/// Frames of one rule set, all four ways.
fn run(seed: u64, kernel: Option<&TestRun>, tally: &mut Tally) {
    let text = text_of_frames(seed);
    let settings = Settings {
        ether_ipfw: true,
        ..Settings::default()
    };
    let Some((set, policy)) = lowered(&text, settings) else {
        return;
    };
    tally.sets += 1;
    let compiled = compile(&policy, &Options::default()).expect("it compiles");
    let mut image = Runner::new(&compiled.image, NOW_MS).expect("the image is sound");
    let mut live = Reference::new(&policy);
    let mut both = Both::new(&set, &policy);
    live.locals = both.model.locals.clone();
    if let Some(kernel) = kernel {
        kernel.set_locals(&both.model.locals);
        kernel.set_clock(NOW_MS);
        let policy = weir_plane::Policy::of(&policy, &compiled);
        kernel.install(&policy).expect("the kernel takes it");
    }
    let mut source = PacketSource::new(&policy, seed);
    let mut rng = Rng::with_seed(seed);
    for number in 0..120 {
        let mut sent = sent(&mut rng, &mut source, number);
        if kernel.is_some() && is_refused(&sent.bytes) {
            continue;
        }
        let Some(mut seen) = frame(&sent.bytes, &sent.arrival, Reading::Ipfw) else {
            continue;
        };
        let Some((meant, carried)) = both.meant(&mut sent, &mut seen) else {
            continue;
        };
        tally.note(&meant, &sent, &seen);
        let mut passage = Passage::of(&seen);
        let found = both.model.judge(&seen, &mut passage, NOW_MS);
        let place = || {
            let told = format!("seed {seed} frame {number} {:02x?} {seen:?}", sent.bytes);
            format!("{told}\n{meant:?}\n{carried:?}\n{found:?}\n{text}")
        };
        if let Err(what) = both.compare(&meant, &carried, &found) {
            panic!("{what}: {}", place());
        }
        live.begin();
        let walked = image.judge(&seen, &mut Passage::of(&seen), &mut live, NOW_MS);
        let of_model = (found.verdict, found.decided_by, &found.matched, found.mark);
        let of_image = (
            walked.verdict,
            walked.decided_by,
            &walked.matched,
            walked.mark,
        );
        assert_eq!(of_model, of_image, "{}", place());
        let Some(kernel) = kernel.filter(|_| sent.bytes.len() <= TestRun::LIMIT) else {
            continue;
        };
        let outcome = kernel
            .judge_frame(&sent.bytes, &sent.arrival)
            .expect("a test run");
        let verdict = match found.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        let of_model = (verdict, found.decided_by.map(|rule| rule.0), found.mark);
        let of_kernel = (outcome.verdict, outcome.deciding, outcome.mark);
        assert_eq!(of_model, of_kernel, "kernel: {}", place());
        assert_eq!(outcome.accepted, verdict == 1, "{}", place());
    }
    let counted = &both.model.counters;
    both.compare_counters(&format!("seed {seed}\n{text}"));
    assert_eq!(counted, &image.counters, "seed {seed}\n{text}");
    if let Some(kernel) = kernel {
        let found = kernel.counters(policy.rule_count);
        let meant: Vec<(u64, u64)> = counted.iter().map(|c| (c.packets, c.bytes)).collect();
        assert_eq!(meant, found, "kernel: seed {seed}\n{text}");
    }
}

#[test]
fn without_the_setting_nothing_changes() {
    let mut sets = 0;
    for seed in seeds(100) {
        let text = text_of_frames(seed);
        let mut sources = Sources::new();
        let id = sources.add("rules", &*text);
        let set = read_rules(&text, id, &NoNames, Settings::default()).ruleset;
        let policies = [false, true].map(|frames| {
            let options = Lowering {
                allow_unsupported: true,
                frames,
            };
            lower(&set, &sources, options).0
        });
        let [Some(without), Some(with)] = policies else {
            continue;
        };
        sets += 1;
        assert!(without == with, "seed {seed}\n{text}");
        assert!(!with.roots.iter().any(Root::is_of_frames), "seed {seed}");
    }
    assert!(sets > 60, "{sets}");
}

#[test]
fn frames_are_judged_as_their_evaluator_says() {
    let name = "frames_are_judged_as_their_evaluator_says";
    let kernel = weir_plane::kernel_or_skip(name).map(|()| {
        let capacity = Capacity::for_policy(4 << 20, 4096, 1 << 20, 4096).expect("it fits");
        TestRun::frames(capacity).unwrap_or_else(|error| panic!("{error}"))
    });
    let mut tally = Tally::default();
    for seed in seeds(600) {
        run(seed, kernel.as_ref(), &mut tally);
    }
    println!("{tally:?}");
    assert!(
        tally.sets >= 300 && tally.bare > 3_000 && tally.tagged > 1_000,
        "{tally:?}"
    );
    assert!(tally.outcomes.iter().all(|count| *count > 300), "{tally:?}");
}
