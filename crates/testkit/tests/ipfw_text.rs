//! The vectors of ipfw through the lowered form: the evaluator of the model, the compiled image in
//! user space and, as root, the programs in the kernel.
//!
//! In: the cases whose rules can be enforced, with packets that can be written as bytes. Out: the
//! same verdict, rule, trail and changes as the vectors say. What is left out is counted: cases
//! that note flows, packets of the link layer, and fields that only ipfw asks for.

#[path = "../../policy/tests/ipfw/case.rs"]
mod case;
#[path = "../../policy/tests/ipfw/packet.rs"]
mod words;

use case::{Case, Known, all_cases};
use std::collections::BTreeMap;
use weir_engine::compile::{Options as Compiling, compile};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipfw::lower::{Options, lower, tags_in_mark};
use weir_policy::dialect::ipfw::{Ruleset, read};
use weir_policy::eval::ipfw::{self as own, Pass, Upper};
use weir_policy::eval::{Evaluator, Judgement, Locals, Passage};
use weir_policy::model::{
    Family, Fragment, Hook, Packet, PacketType, Policy, RangeSet, RuleId, SourceId, Transport,
    Verdict,
};
use weir_policy::syntax::Sources;

/// The packet of a vector in the common form; `None` when it has what that form lacks.
fn common(from: &own::Packet) -> Option<Packet> {
    let ip = from.ip.as_ref()?;
    let plain = !from.layer2
        && from.frame.is_none()
        && ip.options.is_empty()
        && ip.extensions == 0
        && ip.flow_label == 0
        && ip.flags & 0xc0 == 0
        && ip.id == 0
        && from.bytes == u32::from(ip.length);
    if !plain {
        return None;
    }
    let transport = match &ip.upper {
        Upper::None => Transport::None,
        Upper::Tcp(tcp) => Transport::Tcp {
            src_port: tcp.src_port,
            dst_port: tcp.dst_port,
            flags: tcp.flags,
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            window: tcp.window,
            options: tcp.options.clone()?,
            payload: 0,
            malformed: false,
        },
        Upper::Ports(src_port, dst_port) if ip.proto == 132 => Transport::Sctp {
            src_port: *src_port,
            dst_port: *dst_port,
            chunks: [0; 4],
        },
        Upper::Ports(src_port, dst_port) => Transport::Udp {
            src_port: *src_port,
            dst_port: *dst_port,
        },
        Upper::Icmp(kind, code) => Transport::Icmp {
            kind: *kind,
            code: *code,
            id: 0,
            about: None,
        },
    };
    let hook = match (from.pass, from.recv.is_empty()) {
        (Pass::In, _) => Hook::Prerouting,
        (Pass::Out, true) => Hook::Output,
        (Pass::Out, false) => Hook::Forward,
    };
    let fragment = match (ip.offset, ip.more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        (offset, _) => Fragment::Later(offset),
    };
    let mut packet = Packet {
        family: ip.family,
        hook,
        in_iface: from.recv.clone(),
        out_iface: from.xmit.clone(),
        src: ip.src,
        dst: ip.dst,
        proto: ip.proto,
        length: u32::from(ip.length),
        ttl: ip.ttl,
        tos: ip.tos,
        fragment,
        transport,
        routing: None,
        mark: 0,
        mac: None,
        packet_type: match from.pass {
            Pass::In if from.to_many => PacketType::Multicast,
            Pass::In => PacketType::Unicast,
            Pass::Out => PacketType::Outgoing,
        },
        owner: from.owner,
        handling: 0,
    };
    let wanted = packet.clone();
    settle(&mut packet);
    let kept = (packet.length, packet.proto, packet.fragment);
    (kept == (wanted.length, wanted.proto, wanted.fragment)).then_some(packet)
}

/// What a vector expects of verdict, rule and trail.
struct Expected<'e> {
    verdict: &'e str,
    rule: &'e str,
    trail: Option<&'e str>,
    tos: Option<&'e str>,
    tags: Option<&'e str>,
}

fn expected(text: &str) -> Expected<'_> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |word: &str| {
        let at = words.iter().position(|one| *one == word)?;
        words.get(at + 1).copied()
    };
    Expected {
        verdict: words[0],
        rule: words[1],
        trail: after("trail"),
        tos: after("tos"),
        tags: after("tags"),
    }
}

/// One case, ready to be judged.
struct Ready<'c> {
    case: &'c Case,
    set: &'c Ruleset,
    policy: &'c Policy,
    kernel: Option<&'c TestRun>,
}

impl Ready<'_> {
    fn number(&self, rule: RuleId) -> Option<u32> {
        self.set.rule(rule).map(|one| one.rule.number)
    }

    fn check(&self, found: &Judgement, expected: &Expected<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut same = |what: &str, meant: String, found: String| {
            if meant != found {
                wrong.push(format!("{what}: {meant} is {found}"));
            }
        };
        let verdict = match found.verdict {
            Verdict::Accept => "accept",
            Verdict::Drop => "drop",
            Verdict::Reject(_) => "reject",
        };
        // Whether an answer may be given is for the answering process to say.
        let meant = match expected.verdict {
            "reject-silent" if verdict == "drop" => "drop",
            "reject-silent" => "reject",
            other => other,
        };
        same("verdict", meant.to_owned(), verdict.to_owned());
        let by = found.decided_by.and_then(|rule| self.number(rule));
        let by = by.map_or("none".to_owned(), |number| number.to_string());
        same("rule", expected.rule.to_owned(), by);
        if let Some(trail) = expected.trail {
            let matched = found.matched.iter().filter_map(|rule| self.number(*rule));
            let matched: Vec<String> = matched.map(|number| number.to_string()).collect();
            let matched = if matched.is_empty() {
                "-".to_owned()
            } else {
                matched.join(",")
            };
            same("trail", trail.to_owned(), matched);
        }
        if let Some(tos) = expected.tos {
            same("tos", tos.to_owned(), found.tos.to_string());
        }
        if let Some(tags) = expected.tags {
            let there = tags_in_mark(self.set, found.mark);
            // A tag that only `untag` names, or that a packet brought along, has no bit.
            let there: Vec<String> = there.iter().map(u32::to_string).collect();
            let there = if there.is_empty() {
                "-".to_owned()
            } else {
                there.join(",")
            };
            same("tags", tags.to_owned(), there);
        }
        wrong
    }

    /// Runs the packets of a case; how many, and what was wrong.
    fn run(&self, counts: &mut Counts) -> Vec<String> {
        let compiled = compile(self.policy, &Compiling::default()).expect("it compiles");
        let mut runner = Runner::new(&compiled.image, 0).expect("a sound image");
        let mut live = Reference::new(self.policy);
        let mut model = Evaluator::new(self.policy, 0);
        let locals = self.locals();
        model.locals = locals.clone();
        live.locals = locals.clone();
        if let Some(kernel) = self.kernel {
            kernel.set_locals(&locals);
            let policy = weir_plane::Policy::of(self.policy, &compiled);
            kernel.install(&policy).expect("it can be installed");
        }
        let mut wrong = Vec::new();
        let mut last: Option<(own::Packet, u8, u32)> = None;
        for (place, line) in &self.case.checks {
            let Some((what, text)) = line.split_once(" -> ") else {
                continue;
            };
            let (from, tos, mark) = match (what.strip_prefix("again out "), last.take()) {
                (Some(interface), Some((mut from, tos, mark))) => {
                    from.pass = Pass::Out;
                    interface.clone_into(&mut from.xmit);
                    (from, Some(tos), mark)
                }
                (Some(_), None) => {
                    counts.other_packets += 1;
                    continue;
                }
                (None, _) => (words::packet(what), None, 0),
            };
            let Some(mut made) = common(&from) else {
                counts.other_packets += 1;
                continue;
            };
            (made.tos, made.mark) = (tos.unwrap_or(made.tos), mark);
            let bytes = build(&made, usize::MAX).expect("a settled packet can be built");
            let met = packet(&bytes, made.length, &Arrival::of(&made)).expect("it parses");
            let expected = expected(text);
            let judged = model.judge(&met, &mut Passage::of(&met), 0);
            live.begin();
            let looked = runner.judge(&met, &mut Passage::of(&met), &mut live, 0);
            let name = &self.case.name;
            for what in self.check(&judged, &expected) {
                wrong.push(format!("{place} ({name}): {line}: {what}"));
            }
            let meant = (
                judged.verdict,
                judged.decided_by,
                &judged.matched,
                judged.tos,
            );
            if meant
                != (
                    looked.verdict,
                    looked.decided_by,
                    &looked.matched,
                    looked.tos,
                )
            {
                wrong.push(format!("{place} ({name}) lookup: {line}: {looked:?}"));
            }
            if let Some(kernel) = self.kernel {
                counts.in_kernel += 1;
                let wrongly = in_kernel(kernel, &met, &bytes, &judged);
                wrong
                    .extend(wrongly.map(|what| format!("{place} ({name}) kernel: {line}: {what}")));
            }
            last = Some((from, judged.tos, judged.mark));
            counts.packets += 1;
        }
        if let Some(kernel) = self.kernel {
            let counted = kernel.counters(self.policy.rule_count);
            let meant: Vec<_> = model
                .counters
                .iter()
                .map(|c| (c.packets, c.bytes))
                .collect();
            if counted != meant {
                wrong.push(format!(
                    "{}: counters {counted:?} {meant:?}",
                    self.case.place
                ));
            }
        }
        wrong
    }

    fn locals(&self) -> Locals {
        let of = |family: Family| {
            let all = self
                .case
                .host
                .addresses
                .iter()
                .filter(|own| own.family == family);
            RangeSet::from_ranges(all.map(|own| (own.address, own.address)))
        };
        Locals {
            local: of(Family::V4),
            local6: of(Family::V6),
            ..Locals::default()
        }
    }
}

/// What the kernel says otherwise than the evaluator.
fn in_kernel(kernel: &TestRun, met: &Packet, bytes: &[u8], judged: &Judgement) -> Option<String> {
    let found = kernel.judge(met.family, bytes, &Arrival::of(met), 0);
    let found = found.expect("a test run");
    let decided = judged.decided_by.map(|rule| rule.0);
    let number = match judged.verdict {
        Verdict::Accept => 1,
        Verdict::Drop => 2,
        Verdict::Reject(_) => 3,
    };
    let same = (found.verdict, found.deciding, found.mark) == (number, decided, judged.mark);
    (!same).then(|| format!("{found:?}"))
}

#[derive(Debug, Default)]
struct Counts {
    cases: usize,
    packets: usize,
    in_kernel: usize,
    other_packets: usize,
    not_enforced: BTreeMap<String, usize>,
}

#[test]
fn the_vectors_hold_for_the_lowered_rules() {
    let kernel = weir_plane::kernel_or_skip("the_vectors_hold_for_the_lowered_rules").map(|()| {
        let capacity = Capacity::for_policy(1 << 20, 4096, 1 << 16, 4096).expect("it fits");
        let kernel = TestRun::new(capacity).unwrap_or_else(|error| panic!("{error}"));
        kernel.set_clock(1_000);
        kernel
    });
    let (mut counts, mut wrong) = (Counts::default(), Vec::new());
    for case in all_cases() {
        let mut sources = Sources::new();
        let id = sources.add("rules", case.commands.as_str());
        assert_eq!(id, SourceId(0));
        let program = read(&case.commands, id, &Known, case.settings.clone());
        let options = Options {
            allow_unsupported: true,
        };
        let (policy, found) = lower(&program.ruleset, &sources, options);
        let Some(policy) = policy else {
            for one in found.iter().filter(|one| one.is_error()) {
                *counts.not_enforced.entry(one.message.clone()).or_default() += 1;
            }
            continue;
        };
        counts.cases += 1;
        let ready = Ready {
            case: &case,
            set: &program.ruleset,
            policy: &policy,
            kernel: kernel.as_ref(),
        };
        wrong.extend(ready.run(&mut counts));
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.cases > 60 && counts.packets > 200, "{counts:?}");
}
