//! `weir explain` and `weir replay` of IPFilter files, through the evaluator that defines the
//! meaning.
//!
//! In: rules, and a packet in words or a capture. Out: for each packet what became of it on each
//! interface, which rules matched, which decided. The clock is the capture's.

use super::check::reading_of;
use super::files::Rules;
use crate::capture::{Capture, Frame, Given, journey};
use crate::exit::{Exit, OrExit};
use crate::input::ReadingArgs;
use crate::output::{Output, report};
use crate::spec::Spec;
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_engine::packet::{build, settle};
use weir_engine::run::{Matcher, Matching};
use weir_policy::dialect::ipf::{PrintOptions, print_rule};
use weir_policy::eval::ipf::{Evaluator, Judgement, Settings, candidates};
use weir_policy::model::PacketType;
use weir_policy::syntax::Severity;

/// Rule sets up to this size are read as fast as looked up.
const SHORT: usize = 64;

/// What is to be judged.
pub enum Subject<'s> {
    /// A packet in words.
    Packet(&'s Spec),
    /// A capture.
    Capture(&'s Path),
}

/// What the command wants.
pub struct Wanted<'w> {
    /// The rule files.
    pub files: &'w [PathBuf],
    /// How to read them.
    pub reading: &'w ReadingArgs,
    /// The packets.
    pub subject: Subject<'w>,
    /// The way of captured packets.
    pub given: Given,
    /// Every rule that matched is shown.
    pub explain: bool,
    /// Only the counters at the end.
    pub quiet: bool,
    /// A packet that is not passed is a negative answer.
    pub exit_verdict: bool,
}

/// One packet on one interface; `verdict` and `rule` are an interface.
#[derive(Debug, Serialize)]
struct Record {
    packet: u64,
    time: f64,
    /// `in` or `out`.
    direction: &'static str,
    interface: String,
    /// The words of IPFilter's test program.
    verdict: &'static str,
    /// Whether it goes on.
    passes: bool,
    /// `file:line` of the rule that decided.
    rule: Option<String>,
    /// The rule in canonical form.
    text: Option<String>,
    /// `file:line` of all rules that matched.
    matched: Vec<String>,
    /// Number of the state entry it belongs to.
    state: Option<u64>,
    reason: Option<&'static str>,
}

/// Hits of a rule.
#[derive(Debug, Serialize)]
struct Hits {
    rule: String,
    text: String,
    packets: u64,
    bytes: u64,
}

/// Judges.
pub fn run(wanted: &Wanted<'_>, out: &mut Output) -> anyhow::Result<Exit> {
    let rules = Rules::of_texts(
        &wanted.reading.read_files(wanted.files)?,
        &reading_of(wanted.reading),
    );
    rules.tell(Severity::Warning);
    rules.check()?;
    let mut settings = Settings::of(rules.file.language);
    for setting in rules.settings() {
        if let Err(why) = super::tunables::set(&mut settings, &setting.name, setting.value) {
            eprintln!("weir: {why}: left out");
        }
    }
    let long = rules.set.rules.len() > SHORT;
    let candidates = long
        .then(|| candidates(&rules.set, &rules.tables))
        .flatten();
    let matching = candidates.and_then(Matching::of);
    let mut run = Run {
        wanted,
        rules: &rules,
        matcher: matching.as_ref().and_then(Matching::matcher),
        evaluator: Evaluator::new(&rules.set, rules.tables.clone(), settings),
        refused: false,
    };
    match &wanted.subject {
        Subject::Packet(spec) => run.packet(spec, out)?,
        Subject::Capture(path) => run.capture(path, out)?,
    }
    run.counters(out)?;
    Ok(match wanted.exit_verdict && run.refused {
        true => Exit::Negative,
        false => Exit::Done,
    })
}

struct Run<'w> {
    wanted: &'w Wanted<'w>,
    rules: &'w Rules,
    evaluator: Evaluator<'w>,
    /// The compiled image of long lists: it tells which rules are worth the evaluator's test.
    matcher: Option<Matcher<'w>>,
    refused: bool,
}

/// The interfaces that a packet passes: received on, sent on.
struct Stops {
    received: Option<String>,
    sent: Option<String>,
}

impl Run<'_> {
    fn packet(&mut self, spec: &Spec, out: &mut Output) -> anyhow::Result<()> {
        let mut packet = spec.packet.clone();
        settle(&mut packet);
        let bytes = build(&packet, usize::MAX)
            .or_exit(Exit::Usage, "this packet can't be written in bytes")?;
        let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        let mut stops = Stops {
            received: named(&packet.in_iface),
            sent: named(&packet.out_iface),
        };
        if stops.received.is_none() && stops.sent.is_none() {
            stops.received = Some("anon0".to_owned());
        }
        let link = link_class(packet.packet_type);
        self.travel(&bytes, link, &stops, (1, 0.0), 0, out)
    }

    fn capture(&mut self, path: &Path, out: &mut Output) -> anyhow::Result<()> {
        let mut capture = Capture::open(path)?;
        while let Some(frame) = capture.next() {
            let frame = frame?;
            let way = stops_of(&frame, &self.wanted.given);
            match &frame.content {
                Ok(network) => {
                    let link = link_class(network.link.kind);
                    let now_ms = frame.time.as_millis() as u64;
                    let number = (frame.number, frame.time.as_secs_f64());
                    self.travel(&network.bytes, link, &way, number, now_ms, out)?;
                }
                Err(reason) if !out.is_json() && !self.wanted.quiet => {
                    out.line(format!("{:>6} not judged: {reason}", frame.number))?;
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn travel(
        &mut self,
        bytes: &[u8],
        link: LinkClass,
        stops: &Stops,
        number: (u64, f64),
        now_ms: u64,
        out: &mut Output,
    ) -> anyhow::Result<()> {
        let ways = [(false, &stops.received), (true, &stops.sent)];
        for (sent, interface) in ways {
            let Some(interface) = interface else { continue };
            let packet = ipf_packet(bytes, sent, interface, link);
            let matcher = self.matcher.as_mut();
            let matched = matcher.and_then(|matcher| matcher.matched(&packet.headers()));
            let among = matched.map(|matched| -> Vec<usize> {
                let rules = matched.rules.iter().map(|rule| rule.0 as usize);
                rules
                    .filter(|rule| *rule < self.rules.set.rules.len())
                    .collect()
            });
            let judgement = self
                .evaluator
                .judge_among(&packet, now_ms, among.as_deref());
            self.refused |= !judgement.passes;
            if !self.wanted.quiet {
                self.tell(&judgement, sent, interface, bytes, number, out)?;
            }
            if !judgement.passes {
                break;
            }
        }
        Ok(())
    }

    fn place(&self, rule: usize) -> String {
        let span = self.rules.set.rules[rule].at.0;
        let sources = &self.rules.sources;
        let name = sources.get(span.source).map_or("?", |source| source.name());
        let line = sources.position(span).map_or(0, |position| position.line);
        format!("{name}:{line}")
    }

    fn text(&self, rule: usize) -> String {
        print_rule(&self.rules.set.rules[rule], &PrintOptions::default())
    }

    fn tell(
        &self,
        judgement: &Judgement,
        sent: bool,
        interface: &str,
        bytes: &[u8],
        (number, time): (u64, f64),
        out: &mut Output,
    ) -> anyhow::Result<()> {
        if out.is_json() {
            let record = Record {
                packet: number,
                time,
                direction: if sent { "out" } else { "in" },
                interface: interface.to_owned(),
                verdict: judgement.outcome.words(),
                passes: judgement.passes,
                rule: judgement.rule.map(|rule| self.place(rule)),
                text: judgement.rule.map(|rule| self.text(rule)),
                matched: judgement.matched.iter().map(|r| self.place(*r)).collect(),
                state: judgement.state,
                reason: judgement.reason.map(|reason| reason.word()),
            };
            return out.record(&report(record));
        }
        let rule = match judgement.rule {
            Some(rule) => self.place(rule),
            None => "-".to_owned(),
        };
        let shown = super::show::line(bytes, sent, interface);
        let word = judgement.outcome.words();
        out.line(format!("{number:>6} {word} {rule} {}", shown.trim_end()))?;
        if !self.wanted.explain {
            return Ok(());
        }
        for rule in &judgement.matched {
            let decided = if Some(*rule) == judgement.rule {
                " (decides)"
            } else {
                ""
            };
            out.line(format!(
                "       matched {}: {}{decided}",
                self.place(*rule),
                self.text(*rule)
            ))?;
        }
        if let Some(state) = judgement.state {
            out.line(format!("       state entry {state}"))?;
        }
        if judgement.by_fragment {
            out.line("       decided by the fragment cache")?;
        }
        if let Some(reason) = judgement.reason {
            out.line(format!("       reason: {}", reason.word()))?;
        }
        Ok(())
    }

    /// The counters that moved.
    fn counters(&self, out: &mut Output) -> anyhow::Result<()> {
        let all = self.evaluator.counters.iter().enumerate();
        let hits: Vec<Hits> = all
            .filter(|(_, counters)| counters.packets > 0 || self.wanted.quiet)
            .map(|(rule, counters)| Hits {
                rule: self.place(rule),
                text: self.text(rule),
                packets: counters.packets,
                bytes: counters.bytes,
            })
            .collect();
        match (out.is_json(), self.wanted.quiet) {
            (true, true) => out.object(&hits),
            (true, false) => Ok(()),
            (false, _) => {
                out.line("")?;
                for hit in hits {
                    out.line(format!("{} {} {}", hit.packets, hit.bytes, hit.text))?;
                }
                Ok(())
            }
        }
    }
}

fn link_class(kind: PacketType) -> LinkClass {
    LinkClass {
        multicast: kind == PacketType::Multicast,
        broadcast: kind == PacketType::Broadcast,
        many: false,
    }
}

/// Where a frame was met. Without any word about it, it was received on `anon0`.
fn stops_of(frame: &Frame, given: &Given) -> Stops {
    let way = journey(frame, given);
    let named = |name: String| Some(name).filter(|name| !name.is_empty());
    let (received, sent) = (named(way.in_iface), named(way.out_iface));
    match (received, sent) {
        (None, None) => {
            let out = frame.way == Some(crate::capture::Way::Out);
            let anon = Some("anon0".to_owned());
            match out {
                true => Stops {
                    received: None,
                    sent: anon,
                },
                false => Stops {
                    received: anon,
                    sent: None,
                },
            }
        }
        (received, sent) => Stops { received, sent },
    }
}
