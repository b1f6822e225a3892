//! `weir replay` for ipfw: a capture through the rule set, packet by packet.
//!
//! In: rule files and a capture. Out: for each packet its verdict and the number of the rule that
//! decided, in order; at the end the counters. States are kept between packets, the clock is the
//! capture's.

use super::facts::FactArgs;
use super::index::Built;
use super::judge::{Judge, Judged, judge, verdict_name};
use super::load::{Loaded, load_sound};
use crate::capture::{Capture, Given};
use crate::exit::{Exit, failure};
use crate::input::ReadingArgs;
use crate::output::{Output, Paint, report};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipfw::command::Switches;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::eval::ipfw::{Evaluator, Outcome, Pass, Way};
use weir_policy::syntax::Span;

/// What replaying needs to be told.
pub struct Wanted<'a> {
    /// Rule files.
    pub files: &'a [PathBuf],
    /// The capture.
    pub capture: &'a Path,
    /// The way of its packets.
    pub given: Given,
    /// Addresses of the host.
    pub local: &'a [String],
    /// Other facts.
    pub facts: &'a FactArgs,
    /// How to read them.
    pub reading: &'a ReadingArgs,
    /// Only the counters.
    pub quiet: bool,
}

/// One packet; `verdict` and `rule` are an interface.
#[derive(Debug, Serialize)]
struct Record {
    packet: u64,
    time: f64,
    /// `accept`, `drop` or `reject`; absent for frames without an IP packet that nothing judges.
    verdict: Option<&'static str>,
    /// Number of the rule that decided; absent when the packet was dropped before the rules.
    rule: Option<u32>,
    /// `file:line` of that rule.
    location: Option<String>,
    /// `in` or `out`: the pass that decided.
    pass: Option<&'static str>,
    /// Its interface.
    interface: Option<String>,
    /// Numbers of all rules that acted, in order, over all passes.
    trail: Vec<u32>,
    /// Whether a state was found, and the direction in it.
    state: Option<&'static str>,
    mark: Option<u32>,
    tos: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mss: Option<u16>,
    /// Pipe or queue that took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    shaped: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<String>,
    /// Why no rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Why the frame was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'static str>,
}

/// The counters of a rule.
#[derive(Debug, Serialize)]
struct Count {
    rule: u32,
    set: u8,
    packets: u64,
    bytes: u64,
    location: Option<String>,
    text: String,
}

/// Replays.
pub fn run(wanted: &Wanted<'_>, out: &mut Output) -> anyhow::Result<Exit> {
    let mut capture = Capture::open(wanted.capture)?;
    let loaded = load_sound(wanted.files, wanted.facts, wanted.reading)?;
    let ruleset = &loaded.program.ruleset;
    let built = Built::of(ruleset);
    let mut judging = Judge {
        evaluator: Evaluator::new(ruleset),
        index: built.as_ref().and_then(Built::index),
    };
    judging.evaluator.host = wanted.facts.host(wanted.local)?;
    let mut rules: Vec<Option<Span>> = vec![None; ruleset.rule_count() as usize];
    for one in &ruleset.rules {
        rules[one.id.0 as usize] = Some(one.rule.place.0);
    }
    let place = |judged: &Judged| {
        let id = judged.last().judgement.rule?;
        loaded.location((*rules.get(id.0 as usize)?)?)
    };
    while let Some(frame) = capture.next() {
        let frame = frame?;
        let now_ms = frame.time.as_millis() as u64;
        let judged = judge(&mut judging, &frame, &wanted.given, now_ms);
        if wanted.quiet {
            continue;
        }
        let time = frame.time.as_secs_f64();
        match judged {
            Ok(judged) if out.is_json() => {
                out.record(&report(record(frame.number, time, &judged, place(&judged))))?;
            }
            Ok(judged) => line(out, frame.number, &judged, place(&judged))?,
            Err(reason) if out.is_json() => {
                out.record(&report(skipped(frame.number, time, reason)))?
            }
            Err(reason) => out.line(format!("{:>6} not judged: {reason}", frame.number))?,
        }
    }
    counters(out, wanted.quiet, &judging.evaluator, &loaded)?;
    Ok(Exit::Done)
}

fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::In => "in",
        Pass::Out => "out",
    }
}

fn record(number: u64, time: f64, judged: &Judged, location: Option<String>) -> Record {
    let last = judged.last();
    let all = || judged.passes.iter().map(|passed| &passed.judgement);
    // The last pass may be that of the frame.
    let mut latest = judged.passes.iter().rev().map(|passed| &passed.judgement);
    let state = latest.clone().find_map(|one| one.state);
    let shaped = latest.find_map(|one| one.shaped);
    Record {
        packet: number,
        time,
        verdict: Some(verdict_name(&last.judgement.outcome)),
        rule: last.judgement.number(),
        location,
        pass: Some(pass_name(last.pass)),
        interface: Some(last.interface.clone()).filter(|name| !name.is_empty()),
        trail: all()
            .flat_map(|one| one.trail.iter().map(|acted| acted.number))
            .collect(),
        state: state.map(|way| match way {
            Way::Forward => "forward",
            Way::Reverse => "reverse",
        }),
        mark: Some(judged.carried.mark),
        tos: Some(judged.carried.tos),
        tags: judged.carried.tags.iter().copied().collect(),
        mss: judged.carried.mss,
        shaped: shaped.map(|(pipe, number)| match pipe {
            true => format!("pipe {number}"),
            false => format!("queue {number}"),
        }),
        log: all().flat_map(|one| one.log.clone()).collect(),
        reason: last.judgement.unjudged.map(|why| why.text()),
        skipped: None,
    }
}

fn skipped(number: u64, time: f64, reason: &'static str) -> Record {
    Record {
        packet: number,
        time,
        verdict: None,
        rule: None,
        location: None,
        pass: None,
        interface: None,
        trail: Vec::new(),
        state: None,
        mark: None,
        tos: None,
        tags: Vec::new(),
        mss: None,
        shaped: None,
        log: Vec::new(),
        reason: None,
        skipped: Some(reason),
    }
}

fn line(
    out: &mut Output,
    number: u64,
    judged: &Judged,
    location: Option<String>,
) -> anyhow::Result<()> {
    let last = judged.last();
    let name = verdict_name(&last.judgement.outcome);
    let paint = match last.judgement.outcome {
        Outcome::Accept => Paint::Good,
        _ => Paint::Bad,
    };
    let word = out.paint(paint, name);
    let rule = match (last.judgement.number(), last.judgement.unjudged) {
        (Some(rule), _) => format!("{rule:05}"),
        (None, Some(why)) => why.text().to_owned(),
        (None, None) => "-".to_owned(),
    };
    let place = location.map_or(String::new(), |place| format!(" ({place})"));
    let pass = pass_name(last.pass);
    let via = match last.interface.as_str() {
        "" => String::new(),
        name => format!(" via {name}"),
    };
    out.line(format!("{number:>6} {word} {rule}{place} {pass}{via}"))?;
    for log in judged
        .passes
        .iter()
        .flat_map(|passed| &passed.judgement.log)
    {
        out.line(format!("       {log}"))?;
    }
    Ok(())
}

/// The rule set with the counters of the replay.
fn counters(
    out: &mut Output,
    quiet: bool,
    evaluator: &Evaluator<'_>,
    loaded: &Loaded,
) -> anyhow::Result<()> {
    let mut ruleset = loaded.program.ruleset.clone();
    for one in &mut ruleset.rules {
        one.counters = evaluator.counters[one.id.0 as usize];
        one.last_match = evaluator.last_match[one.id.0 as usize];
    }
    if out.is_json() {
        if !quiet {
            return Ok(());
        }
        let lines: Vec<Count> = ruleset
            .rules
            .iter()
            .map(|one| Count {
                rule: one.rule.number,
                set: one.rule.set,
                packets: one.counters.packets,
                bytes: one.counters.bytes,
                location: loaded.location(one.rule.place.0),
                text: listing::line(&one.rule, None, &ruleset, Switches::default(), None),
            })
            .collect();
        return out.object(&lines);
    }
    let span = Span::default();
    let all = Vec::new();
    let shown = listing::list(&ruleset, &all, true, None, Switches::default(), &[], span);
    let text = shown
        .map_err(|fault| failure(Exit::Usage, fault.message))?
        .out;
    if !quiet {
        out.line("")?;
    }
    out.raw(text.as_bytes())
}
