//! The vectors of ipfw, which `weir-policy` runs through ipfw's own evaluator, here through what is
//! enforced: the rule model, the compiled image in user space, and the programs in the kernel.
//!
//! In: `testdata/vectors/ipfw/*.txt`. Each expectation is compared with the verdict, the number of
//! the rule that decided, the rules that acted, the type of service, mark and tags of all three (of
//! the kernel: verdict, rule, mark, tags) and with all counters. What is left out is counted by
//! reason: cases whose rules `apply` refuses, packets that no bytes say. Cases with frames are
//! judged with the pass of the link layer switched on. Random choices, of which each has its own,
//! are compared by the rules alone.

#[path = "../../policy/tests/ipfw/case.rs"]
mod case;
#[path = "../../policy/tests/ipfw/packet.rs"]
mod packet;
#[path = "ipfw/wire.rs"]
mod wire;

use case::{Case, Known, all_cases};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weir_engine::compile::{Options, compile};
use weir_engine::packet::ipfw::{Met, Read, read as read_bytes};
use weir_engine::packet::{Arrival, frame, packet as model_packet};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipfw::lower::{Options as Lowering, lower, tags_in_mark};
use weir_policy::dialect::ipfw::{Ruleset, read};
use weir_policy::eval::ipfw::{HostAddress, Packet, Pass};
use weir_policy::eval::{Evaluator, Judgement, Locals, Passage};
use weir_policy::model::{
    Family, Hook, PacketType, Policy, RangeSet, Reading, Root, RuleId, SourceId, Verdict,
};
use weir_policy::syntax::Sources;
use weir_testkit::random::ipfw::ways_back;

/// What happened, by kind.
type Tally = BTreeMap<String, usize>;

fn locals(addresses: &[HostAddress]) -> Locals {
    let of = |family: Family| {
        let own = addresses.iter().filter(move |own| own.family == family);
        RangeSet::from_ranges(own.map(|own| (own.address, own.address)))
    };
    Locals {
        local: of(Family::V4),
        local6: of(Family::V6),
        ..Locals::default()
    }
}

/// Where a packet is judged: its input pass at PREROUTING, its output pass where it goes through.
fn arrival(packet: &Packet, mark: u32) -> Arrival {
    let hook = match packet.pass {
        Pass::In if packet.layer2 => Root::FRAMES_RECEIVED.0,
        Pass::Out if packet.layer2 => Root::FRAMES_SENT.0,
        Pass::In => Hook::Prerouting,
        Pass::Out if packet.recv.is_empty() => Hook::Output,
        Pass::Out => Hook::Forward,
    };
    let mut arrival = Arrival::at(hook);
    arrival.in_iface.clone_from(&packet.recv);
    arrival.out_iface.clone_from(&packet.xmit);
    arrival.mark = mark;
    arrival.owner = packet.owner;
    if packet.to_many {
        arrival.packet_type = PacketType::Multicast;
    }
    arrival
}

/// The bytes of a frame, from its Ethernet header on; see [`written`].
fn written_frame(packet: &Packet, set: &Ruleset) -> Option<Vec<u8>> {
    let (destination, source, kind) = packet.frame.unwrap_or_default();
    let mut bytes = [destination, source].concat();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(match packet.ip {
        Some(_) => written(packet, set)?,
        None => vec![0; packet.bytes as usize],
    });
    Some(bytes)
}

/// The bytes of a packet, if they read back as the packet that the words told of.
fn written(packet: &Packet, set: &Ruleset) -> Option<Vec<u8>> {
    let bytes = wire::bytes(packet)?;
    let met = Met {
        pass: packet.pass,
        recv: packet.recv.clone(),
        xmit: packet.xmit.clone(),
        frame: packet.frame,
        to_many: packet.to_many,
    };
    let Read::Packet(mut again) = read_bytes(&bytes, bytes.len() as u32, &met, &set.settings)
    else {
        return None;
    };
    again.owner = packet.owner;
    again.layer2 = packet.layer2;
    let (told, found) = (packet.ip.as_ref()?, again.ip.as_mut()?);
    // Options are padded.
    found.options.truncate(told.options.len());
    (*again == *packet).then_some(bytes)
}

/// A rule as ipfw numbers it; `None` for what lowering added.
fn number(set: &Ruleset, rule: Option<RuleId>) -> Option<u32> {
    let rule = rule?;
    let found = set.rules.iter().find(|one| one.id == rule);
    found.map(|one| one.rule.number)
}

fn list(numbers: &[u32]) -> String {
    match numbers {
        [] => "-".to_owned(),
        _ => {
            let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
            texts.join(",")
        }
    }
}

/// What model and image say of a packet.
struct Said<'j> {
    verdict: Verdict,
    decided_by: Option<RuleId>,
    matched: &'j [RuleId],
    mark: u32,
    tos: u8,
}

/// What an expectation asks, in its own words.
fn seen(set: &Ruleset, said: &Said<'_>, asked: &[&str]) -> String {
    let mut out = match said.verdict {
        Verdict::Accept => "accept",
        Verdict::Drop => "drop",
        Verdict::Reject(_) => "reject",
    }
    .to_owned();
    match number(set, said.decided_by) {
        Some(number) => write!(out, " {number}").expect("a string"),
        None => out.push_str(" none"),
    }
    let mut word = |name: &str, value: String| write!(out, " {name} {value}").expect("a string");
    for pair in asked.chunks(2) {
        match pair[0] {
            "trail" => {
                let acted = said.matched.iter();
                let acted: Vec<u32> = acted.filter_map(|rule| number(set, Some(*rule))).collect();
                word("trail", list(&acted));
            }
            "tags" => word("tags", list(&tags_in_mark(set, said.mark))),
            "tos" => word("tos", said.tos.to_string()),
            "mark" => word("mark", said.mark.to_string()),
            name => word(name, pair[1].to_owned()),
        }
    }
    out
}

/// A case on its way through the three.
struct Run<'a> {
    case: &'a Case,
    set: &'a Ruleset,
    policy: &'a Policy,
    model: Evaluator<'a>,
    image: Runner<'a>,
    live: Reference,
    kernel: Option<&'a TestRun>,
    now_ms: u64,
    wrong: &'a mut String,
    tally: &'a mut Tally,
}

/// The clock at a case's zero; away from zero, as real clocks are.
const START_MS: u64 = 1_000_000;

impl Run<'_> {
    fn note(&mut self, what: &str) {
        *self.tally.entry(what.to_owned()).or_default() += 1;
    }

    fn differ(&mut self, place: &str, line: &str, who: &str, found: &str) {
        let name = &self.case.name;
        writeln!(self.wrong, "{place} ({name}): {line}\n  {who}: {found}").expect("a string");
    }

    /// Judges one packet three ways; returns mark and type of service afterwards.
    fn judge(&mut self, place: &str, line: &str, packet: &Packet, mark: u32) -> Option<(u32, u8)> {
        let expected = line.split_once(" -> ").expect("an expectation").1;
        let expected = expected.split(" log ").next().expect("a first part");
        let bytes = match packet.layer2 {
            true => written_frame(packet, self.set),
            false => written(packet, self.set),
        };
        let Some(bytes) = bytes else {
            self.note("left out: no bytes say this packet");
            return None;
        };
        let mut arrival = arrival(packet, mark);
        arrival.handling = ways_back(&self.case.host, packet);
        let met = match packet.layer2 {
            true => frame(&bytes, &arrival, Reading::Ipfw),
            false => model_packet(&bytes, bytes.len() as u32, &arrival, Reading::Ipfw),
        };
        let Some(met) = met else {
            self.note("left out: no bytes say this packet");
            return None;
        };
        let words: Vec<&str> = expected.split(' ').collect();
        // Where no answer may be sent, a rejection is either told as a drop or left to the agent.
        let silent = words[0] == "reject-silent";
        let passage = || Passage::of(&met);
        let now = self.now_ms;
        let meant = self.model.judge(&met, &mut passage(), now);
        self.live.begin();
        let found = self.image.judge(&met, &mut passage(), &mut self.live, now);
        let of_model = Said {
            verdict: meant.verdict,
            decided_by: meant.decided_by,
            matched: &meant.matched,
            mark: meant.mark,
            tos: meant.tos,
        };
        let of_image = Said {
            verdict: found.verdict,
            decided_by: found.decided_by,
            matched: &found.matched,
            mark: found.mark,
            tos: found.tos,
        };
        for (who, said) in [("model", of_model), ("image", of_image)] {
            let mut text = seen(self.set, &said, &words[2..]);
            if silent && said.verdict != Verdict::Accept {
                let (_, rest) = text.split_once(' ').expect("a rule");
                text = format!("reject-silent {rest}");
            }
            if text != expected {
                self.differ(place, line, who, &text);
            }
        }
        if let Some(kernel) = self.kernel {
            let packet = (met.family, &*bytes, &arrival);
            self.kernel(kernel, (place, line), packet, &meant);
        }
        self.note(match packet.layer2 {
            true => "frames compared",
            false => "compared",
        });
        Some((meant.mark, meant.tos))
    }

    fn kernel(
        &mut self,
        kernel: &TestRun,
        (place, line): (&str, &str),
        (family, bytes, arrival): (Family, &[u8], &Arrival),
        meant: &Judgement,
    ) {
        kernel.set_clock(self.now_ms);
        if bytes.len() > TestRun::LIMIT {
            return self.note("not in the kernel: longer than a test run takes");
        }
        let hooks = [Root::FRAMES_RECEIVED.0, Root::FRAMES_SENT.0];
        let outcome = match hooks.contains(&arrival.hook) {
            true => kernel.judge_frame(bytes, arrival),
            false => kernel.judge(family, bytes, arrival, 0),
        };
        let outcome = outcome.expect("a test run");
        let verdict = match meant.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        let meant = (verdict, meant.decided_by.map(|rule| rule.0), meant.mark);
        let found = (outcome.verdict, outcome.deciding, outcome.mark);
        if meant != found {
            self.differ(
                place,
                line,
                "kernel",
                &format!("{found:?}, meant {meant:?}"),
            );
        }
    }

    fn checks(&mut self) {
        let (mut last, mut at): (Option<(Packet, u32)>, usize) = (None, 0);
        while let Some((place, line)) = self.case.checks.get(at) {
            at += 1;
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "at" => {
                    let seconds: f64 = rest.parse().expect("seconds");
                    self.now_ms = START_MS + (seconds * 1000.0) as u64;
                }
                "count" => self.count(place, rest),
                "says" | "|" => {}
                _ => {
                    let what = line.split_once(" -> ").expect("an expectation").0;
                    let (packet, mark) = match (word, last.take()) {
                        ("again", Some((mut packet, mark))) => {
                            packet.pass = Pass::Out;
                            packet.xmit = what.split(' ').nth(2).expect("an interface").to_owned();
                            (packet, mark)
                        }
                        _ => (packet::packet(what), 0),
                    };
                    let Some((mark, tos)) = self.judge(place, line, &packet, mark) else {
                        return;
                    };
                    let mut packet = packet;
                    if let Some(ip) = &mut packet.ip {
                        ip.tos = tos;
                    }
                    last = Some((packet, mark));
                }
            }
        }
    }

    fn count(&mut self, place: &str, expected: &str) {
        let wanted: u32 = expected
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a rule");
        let rules = self
            .set
            .rules
            .iter()
            .filter(|one| one.rule.number == wanted);
        let ids: Vec<usize> = rules.map(|one| one.id.0 as usize).collect();
        let kernel = self
            .kernel
            .map(|kernel| kernel.counters(self.policy.rule_count));
        let of_kernel = kernel.as_deref().unwrap_or_default();
        let sum = |of: &dyn Fn(usize) -> (u64, u64)| {
            let add = |all: (u64, u64), one: (u64, u64)| (all.0 + one.0, all.1 + one.1);
            let sum = ids.iter().map(|id| of(*id)).fold((0, 0), add);
            format!("{wanted} {} {}", sum.0, sum.1)
        };
        let model = sum(&|id| {
            (
                self.model.counters[id].packets,
                self.model.counters[id].bytes,
            )
        });
        let image = sum(&|id| {
            (
                self.image.counters[id].packets,
                self.image.counters[id].bytes,
            )
        });
        let mut found = vec![("model", model), ("image", image)];
        if self.kernel.is_some() {
            found.push(("kernel", sum(&|id| of_kernel[id])));
        }
        for (who, text) in found {
            if text != expected {
                self.differ(place, &format!("count {expected}"), who, &text);
            }
        }
        self.note("counters compared");
    }
}

/// Runs a case as far as it can be enforced.
fn run(case: &Case, kernel: Option<&TestRun>, wrong: &mut String, tally: &mut Tally) {
    let mut settings = case.settings.clone();
    settings.ether_ipfw |= case
        .checks
        .iter()
        .any(|(_, line)| line.contains(" layer2 "));
    let program = read(&case.commands, SourceId(0), &Known, settings);
    let set = program.ruleset;
    let mut sources = Sources::default();
    sources.add("case", &*case.commands);
    // What was refused where it was read is taken as the vectors' evaluator takes it.
    let lowering = Lowering {
        allow_unsupported: true,
        frames: true,
    };
    let (policy, found) = lower(&set, &sources, lowering);
    let read = program
        .diagnostics
        .iter()
        .filter(|found| !found.is_unsupported());
    let refused = read.chain(&found).find(|found| found.is_error());
    let Some(policy) = policy.filter(|_| refused.is_none()) else {
        let message = refused.map_or("without a message", |found| &*found.message);
        *tally.entry(format!("refused: {message}")).or_default() += 1;
        return;
    };
    let compiled = compile(&policy, &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}", case.place));
    if let Some(kernel) = kernel {
        kernel.set_locals(&locals(&case.host.addresses));
        kernel.set_clock(START_MS);
        kernel.forget_states();
        let policy = weir_plane::Policy::of(&policy, &compiled);
        kernel.install(&policy).expect("the kernel takes it");
    }
    let mut model = Evaluator::new(&policy, START_MS);
    model.locals = locals(&case.host.addresses);
    let mut live = Reference::new(&policy);
    live.locals = locals(&case.host.addresses);
    let mut run = Run {
        case,
        set: &set,
        policy: &policy,
        model,
        image: Runner::new(&compiled.image, START_MS).expect("the image is sound"),
        live,
        kernel,
        now_ms: START_MS,
        wrong,
        tally,
    };
    run.checks();
}

#[test]
fn what_is_enforced_does_as_the_vectors_say() {
    let name = "what_is_enforced_does_as_the_vectors_say";
    let kernel = weir_plane::kernel_or_skip(name).map(|()| {
        let capacity = Capacity::for_policy(4 << 20, 4096, 1 << 20, 4096).expect("it fits");
        TestRun::frames(capacity).unwrap_or_else(|error| panic!("{error}"))
    });
    let (mut wrong, mut tally) = (String::new(), Tally::new());
    for case in all_cases() {
        run(&case, kernel.as_ref(), &mut wrong, &mut tally);
    }
    for (what, count) in &tally {
        println!("{count:5} {what}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tally["compared"] >= 250, "{tally:?}");
    assert!(tally["frames compared"] >= 25, "{tally:?}");
}
