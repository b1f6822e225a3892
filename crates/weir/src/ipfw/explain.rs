//! `weir explain` for ipfw: what happens to a packet, rule by rule.
//!
//! In: rule files, and a packet in words or a capture. Out: every rule whose patterns were tested,
//! the first pattern that failed, what acted, the verdict and the rule that decided.

use super::facts::FactArgs;
use super::judge::{Judge, Judged, Passed, judge, judge_packet, verdict_name};
use super::load::{Loaded, load_sound};
use crate::capture::{Capture, Given};
use crate::exit::Exit;
use crate::input::ReadingArgs;
use crate::output::{Output, Paint, report};
use crate::spec::{Spec, describe_packet};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipfw::ast::Pattern;
use weir_policy::dialect::ipfw::command::Switches;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::eval::ipfw::{Acted, Effect, Evaluator, Judgement, Pass, Tested};
use weir_policy::model::{Reading, RuleId};

/// What is to be explained.
pub enum Subject<'a> {
    /// A packet in words.
    Packet(&'a Spec),
    /// A capture.
    Capture(&'a Path),
}

/// What explaining needs to be told.
pub struct Wanted<'a> {
    /// Rule files.
    pub files: &'a [PathBuf],
    /// What to explain.
    pub subject: Subject<'a>,
    /// The way of captured packets.
    pub given: Given,
    /// Addresses of the host.
    pub local: &'a [String],
    /// Other facts.
    pub facts: &'a FactArgs,
    /// How to read them.
    pub reading: &'a ReadingArgs,
    /// Only rules that acted.
    pub matched: bool,
    /// A refused packet is a negative answer.
    pub exit_verdict: bool,
}

#[derive(Debug, Serialize)]
struct Explanation {
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    packet: String,
    verdict: &'static str,
    rule: Option<u32>,
    passes: Vec<PassReport>,
    tos: u8,
    mark: u32,
}

#[derive(Debug, Serialize)]
struct PassReport {
    pass: &'static str,
    /// The pass of the link layer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    frame: bool,
    interface: String,
    verdict: &'static str,
    rule: Option<u32>,
    reason: Option<&'static str>,
    tried: Vec<RuleReport>,
    log: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RuleReport {
    rule: u32,
    location: Option<String>,
    text: String,
    /// `acted` or `failed`.
    result: &'static str,
    /// What it did, or the pattern that failed.
    because: String,
}

/// Explains.
pub fn run(wanted: &Wanted<'_>, out: &mut Output) -> anyhow::Result<Exit> {
    let loaded = load_sound(wanted.files, wanted.facts, wanted.reading)?;
    // Every test is told, so every rule is walked.
    let mut judging = Judge {
        evaluator: Evaluator::new(&loaded.program.ruleset),
        index: None,
    };
    judging.evaluator.host = wanted.facts.host(wanted.local)?;
    judging.evaluator.wants_tests = true;
    let mut refused = false;
    match &wanted.subject {
        Subject::Packet(spec) => {
            let hook = spec.packet.hook;
            let judged = judge_packet(&mut judging.evaluator, &spec.packet, hook, 0);
            let explanation = explanation(&loaded, &judged, None, spec.describe());
            refused |= explanation.verdict != "accept";
            match out.is_json() {
                true => out.object(&report(&explanation))?,
                false => text(out, &explanation, wanted.matched)?,
            }
        }
        Subject::Capture(path) => {
            let mut capture = Capture::open(path)?;
            while let Some(frame) = capture.next() {
                let frame = frame?;
                let now_ms = frame.time.as_millis() as u64;
                match judge(&mut judging, &frame, &wanted.given, now_ms) {
                    Ok(judged) => {
                        let packet = describe(&frame, &wanted.given);
                        let number = Some(frame.number);
                        let explanation = explanation(&loaded, &judged, number, packet);
                        refused |= explanation.verdict != "accept";
                        match out.is_json() {
                            true => out.record(&report(&explanation))?,
                            false => text(out, &explanation, wanted.matched)?,
                        }
                    }
                    Err(reason) if !out.is_json() => {
                        out.line(format!("packet #{}: not judged: {reason}", frame.number))?;
                    }
                    Err(_) => {}
                }
                if !out.is_json() {
                    out.line("")?;
                }
            }
        }
    }
    Ok(match wanted.exit_verdict && refused {
        true => Exit::Negative,
        false => Exit::Done,
    })
}

fn describe(frame: &crate::capture::Frame, given: &Given) -> String {
    let bare = frame.bare.as_ref().and_then(|bare| bare.link.frame);
    match (crate::cmd::packet_of(frame, given, Reading::Ipfw), bare) {
        (Ok(packet), _) => describe_packet(&packet),
        (Err(_), Some((to, from, kind))) => {
            let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
            format!("frame type={kind:#06x} {} > {}", mac(from), mac(to))
        }
        (Err(reason), None) => reason.to_owned(),
    }
}

fn explanation(
    loaded: &Loaded,
    judged: &Judged,
    number: Option<u64>,
    packet: String,
) -> Explanation {
    let last = &judged.last().judgement;
    Explanation {
        number,
        packet,
        verdict: verdict_name(&last.outcome),
        rule: last.number(),
        passes: judged
            .passes
            .iter()
            .map(|passed| pass_report(loaded, passed))
            .collect(),
        tos: judged.carried.tos,
        mark: judged.carried.mark,
    }
}

fn pass_report(loaded: &Loaded, passed: &Passed) -> PassReport {
    let judgement = &passed.judgement;
    PassReport {
        pass: match passed.pass {
            Pass::In => "in",
            Pass::Out => "out",
        },
        frame: passed.frame,
        interface: passed.interface.clone(),
        verdict: verdict_name(&judgement.outcome),
        rule: judgement.number(),
        reason: judgement.unjudged.map(|why| why.text()),
        tried: tried(loaded, judgement),
        log: judgement.log.clone(),
    }
}

/// Rules that acted, and rules that a pattern stopped, in the order in which they were visited.
fn tried(loaded: &Loaded, judgement: &Judgement) -> Vec<RuleReport> {
    let ruleset = &loaded.program.ruleset;
    let report = |id: RuleId, result: &'static str, because: String| {
        let one = ruleset.rule(id)?;
        Some(RuleReport {
            rule: one.rule.number,
            location: loaded.location(one.rule.place.0),
            text: listing::line(&one.rule, None, ruleset, Switches::default(), None),
            result,
            because,
        })
    };
    let did = |acted: &Acted| report(acted.rule, "acted", effect(acted));
    let mut out: Vec<RuleReport> = Vec::new();
    let mut trail = judgement.trail.iter().peekable();
    for (number, test) in judgement.tests.iter().enumerate() {
        // Rules without a test, and those that a state brought the packet to.
        while let Some(acted) = trail.next_if(|acted| acted.after <= number) {
            out.extend(did(acted));
        }
        let next = judgement.tests.get(number + 1);
        let goes_on = next.is_some_and(|next| next.rule == test.rule);
        let acts = trail
            .peek()
            .is_some_and(|acted| acted.after == number + 1 && acted.rule == test.rule);
        if !goes_on && !acts {
            out.extend(report(test.rule, "failed", failed(test, loaded)));
        }
    }
    out.extend(trail.filter_map(did));
    out
}

fn effect(acted: &Acted) -> String {
    match &acted.effect {
        Effect::Action(action) => weir_policy::dialect::ipfw::log::word(action, acted.tablearg),
        Effect::StateRefused => "the flow can't be noted: denied".to_owned(),
    }
}

fn failed(test: &Tested, loaded: &Loaded) -> String {
    if test.held != test.instruction.negate {
        return "its patterns hold, and it does nothing here".to_owned();
    }
    // `out` is kept as `not in`.
    if test.instruction.pattern == Pattern::In {
        let word = if test.instruction.negate { "out" } else { "in" };
        return format!("`{word}` fails");
    }
    let span = test.instruction.place.0;
    let written = loaded
        .sources
        .get(span.source)
        .and_then(|source| source.text().get(span.start as usize..span.end as usize));
    let not = if test.instruction.negate { "not " } else { "" };
    format!("`{not}{}` fails", written.unwrap_or("?").trim())
}

fn text(out: &mut Output, explanation: &Explanation, matched: bool) -> anyhow::Result<()> {
    let number = explanation
        .number
        .map_or(String::new(), |number| format!(" #{number}"));
    out.line(format!("packet{number}: {}", explanation.packet))?;
    for pass in &explanation.passes {
        let via = match pass.interface.as_str() {
            "" => String::new(),
            name => format!(" via {name}"),
        };
        let frame = if pass.frame { ", the frame" } else { "" };
        out.line(format!("{}{via}{frame}:", pass.pass))?;
        if let Some(reason) = pass.reason {
            out.line(format!("  {reason}"))?;
        }
        for rule in pass
            .tried
            .iter()
            .filter(|rule| !matched || rule.result == "acted")
        {
            let sign = if rule.result == "acted" { "+" } else { "-" };
            out.line(format!("  {sign} {}", rule.text))?;
            out.line(format!("      {}", rule.because))?;
        }
        for line in &pass.log {
            out.line(format!("  {line}"))?;
        }
    }
    let paint = match explanation.verdict {
        "accept" => Paint::Good,
        _ => Paint::Bad,
    };
    let verdict = out.paint(paint, explanation.verdict);
    let rule = explanation
        .rule
        .map_or(String::new(), |rule| format!(" by rule {rule:05}"));
    out.line(format!("=> {verdict}{rule}"))
}
