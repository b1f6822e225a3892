//! `weir replay FILES... PCAP`: a capture through the compiled policy.
//!
//! In: rule files and a capture. Out: for each packet its verdict, the rule that decided and the
//! mark, and at the end the counters. The classifier is the one that the kernel walks, connection
//! tracking and histories are the reference's; the clock is the capture's timestamps. No privilege.

use super::capturing::{CaptureArgs, packet_of};
use crate::capture::Capture;
use crate::describe::{verdict, verdict_name};
use crate::exit::{Exit, OrExit, failure};
use crate::explain::way;
use crate::input::{self, ReadingArgs};
use crate::output::{Align, Output, Paint, Table, number, report};
use crate::progress::Progress;
use crate::rules::{CounterLine, Places};
use crate::spec::{describe_packet, state_name};
use serde::Serialize;
use std::path::PathBuf;
use weir_engine::run::{Outcome, Reference, Runner};
use weir_policy::eval::Passage;
use weir_policy::model::{Packet, Policy, RejectKind, Verdict};

/// Options of `weir replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rule files, and last the pcap or pcapng file.
    #[arg(required = true, num_args = 2.., value_name = "FILES... PCAP")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    capturing: CaptureArgs,
    #[command(flatten)]
    facts: crate::ipfw::FactArgs,
    /// Print only the counters at the end; with --json as `counters --rules --json` does.
    #[arg(long)]
    quiet: bool,
    /// Print JSON: one object per packet.
    #[arg(long)]
    pub json: bool,
}

/// One packet of `replay --json`; `verdict`, `rule` and `mark` are an interface.
#[derive(Debug, Serialize)]
struct Record {
    packet: u64,
    time: f64,
    /// `accept`, `drop` or `reject`; absent for frames that hold no IP packet.
    verdict: Option<&'static str>,
    /// `file:line` of the rule or chain policy that decided.
    rule: Option<String>,
    mark: Option<u32>,
    chain: Option<String>,
    reject: Option<String>,
    hook: Option<&'static str>,
    state: Option<&'static str>,
    tos: Option<u8>,
    /// Why the frame was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'static str>,
}

/// What is left of a packet at the end of its way.
struct Final {
    outcome: Outcome,
    hook: &'static str,
    decided_by: Option<weir_policy::model::RuleId>,
}

/// Replays.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut progress = Progress::new();
    let (path, files) = match args.paths.split_last() {
        Some((path, files)) => (path, files),
        None => return Err(failure(Exit::Usage, "which capture?")),
    };
    let given = args.capturing.given()?;
    if crate::ipf::is_meant(files, &args.reading)? {
        drop(progress);
        let wanted = crate::ipf::judge::Wanted {
            files,
            reading: &args.reading,
            subject: crate::ipf::judge::Subject::Capture(path),
            given,
            explain: false,
            quiet: args.quiet,
            exit_verdict: false,
        };
        return crate::ipf::judge::run(&wanted, out);
    }
    if crate::ipfw::is_meant(files, &args.reading)? {
        drop(progress);
        let wanted = crate::ipfw::replay::Wanted {
            files,
            capture: path,
            given,
            local: &args.capturing.local,
            facts: &args.facts,
            reading: &args.reading,
            quiet: args.quiet,
        };
        return crate::ipfw::replay::run(&wanted, out);
    }
    let mut capture = Capture::open(path)?;
    let loaded = input::load_files(files, &args.reading)?;
    let policy = loaded.policy()?;
    progress.stage("compiling");
    let compiled = loaded.compile()?;
    let places = Places::of(policy);
    let mut replay: Option<Replay<'_>> = None;
    while let Some(frame) = capture.next() {
        let frame = frame?;
        let now_ms = frame.time.as_millis() as u64;
        let replay = match &mut replay {
            Some(replay) => replay,
            None => replay.insert(Replay::new(policy, &compiled.image, args, now_ms)?),
        };
        progress.count(|| format!("packet {}", number(frame.number)));
        let judged = packet_of(&frame, &given, policy.reading).map(|packet| {
            let done = replay.packet(&packet, now_ms);
            (packet, done)
        });
        if args.quiet {
            continue;
        }
        let time = frame.time.as_secs_f64();
        match judged {
            Ok((packet, done)) if out.is_json() => {
                out.record(&report(record(frame.number, time, &done, &packet, &places)))?;
            }
            Ok((packet, done)) => line(out, frame.number, &packet, &done, &places)?,
            Err(reason) if out.is_json() => {
                out.record(&report(skipped(frame.number, time, reason)))?
            }
            Err(reason) => out.line(format!("{:>6} not judged: {reason}", frame.number))?,
        }
    }
    drop(progress);
    if let Some(replay) = replay {
        let lines = places.counters(&replay.runner.counters);
        match (out.is_json(), args.quiet) {
            (true, true) => out.object(&lines)?,
            (true, false) => {}
            (false, _) => counters(out, &lines)?,
        }
    }
    Ok(Exit::Done)
}

struct Replay<'p> {
    runner: Runner<'p>,
    live: Reference,
}

impl<'p> Replay<'p> {
    fn new(policy: &Policy, image: &'p [u8], args: &Args, now_ms: u64) -> anyhow::Result<Self> {
        let runner = Runner::new(image, now_ms).or_exit(
            Exit::Kernel,
            "the compiled policy fails its own check; please report this",
        )?;
        let mut live = Reference::new(policy);
        live.locals = args.capturing.locals()?;
        Ok(Replay { runner, live })
    }

    /// Takes a packet through all hooks of its way.
    fn packet(&mut self, packet: &Packet, now_ms: u64) -> Final {
        self.live.begin();
        let mut passage = Passage::of(packet);
        let mut decided_by = None;
        let mut last = None;
        for &hook in way(packet.hook) {
            let at = packet.at(hook);
            let outcome = self.runner.judge(&at, &mut passage, &mut self.live, now_ms);
            if outcome.hot_drop || outcome.decided_by.is_some() {
                decided_by = outcome.decided_by;
            }
            let accepted = outcome.verdict == Verdict::Accept;
            last = Some((outcome, crate::spec::hook_name(hook)));
            if !accepted {
                break;
            }
        }
        let Some((outcome, hook)) = last else {
            unreachable!("every way has a hook");
        };
        Final {
            outcome,
            hook,
            decided_by,
        }
    }
}

fn record(number: u64, time: f64, done: &Final, _: &Packet, places: &Places<'_>) -> Record {
    let outcome = &done.outcome;
    Record {
        packet: number,
        time,
        verdict: Some(verdict_name(outcome.verdict)),
        rule: done.decided_by.and_then(|id| places.location(id)),
        mark: Some(outcome.mark),
        chain: done.decided_by.and_then(|id| places.name(id)),
        reject: match outcome.verdict {
            Verdict::Reject(kind) => Some(reject_name(kind)),
            Verdict::Accept | Verdict::Drop => None,
        },
        hook: Some(done.hook),
        state: Some(state_name(outcome.state)),
        tos: Some(outcome.tos),
        skipped: None,
    }
}

fn reject_name(kind: RejectKind) -> String {
    match kind {
        RejectKind::TcpReset => "tcp-reset".to_owned(),
        RejectKind::Icmp(code) => format!("icmp 3/{code}"),
        RejectKind::Icmp6(code) => format!("icmpv6 1/{code}"),
        RejectKind::IcmpAsDestination(code) => format!("icmp 3/{code} as its destination"),
        RejectKind::Icmp6AsDestination(code) => format!("icmpv6 1/{code} as its destination"),
        RejectKind::FragmentationNeeded(mtu) => format!("icmp 3/4 mtu {mtu}"),
    }
}

fn skipped(number: u64, time: f64, reason: &'static str) -> Record {
    Record {
        packet: number,
        time,
        verdict: None,
        rule: None,
        mark: None,
        chain: None,
        reject: None,
        hook: None,
        state: None,
        tos: None,
        skipped: Some(reason),
    }
}

fn line(
    out: &mut Output,
    number: u64,
    packet: &Packet,
    done: &Final,
    places: &Places<'_>,
) -> anyhow::Result<()> {
    let paint = match done.outcome.verdict {
        Verdict::Accept => Paint::Good,
        Verdict::Drop | Verdict::Reject(_) => Paint::Bad,
    };
    let word = out.paint(paint, &verdict(done.outcome.verdict));
    let rule = done
        .decided_by
        .and_then(|id| places.location(id))
        .unwrap_or_else(|| {
            if done.outcome.hot_drop {
                "cut short"
            } else {
                "-"
            }
            .to_owned()
        });
    let mark = match done.outcome.mark {
        0 => String::new(),
        mark => format!(" mark {mark:#x}"),
    };
    let state = state_name(done.outcome.state);
    out.line(format!(
        "{number:>6} {word} {rule}{mark} [{state}] {}",
        describe_packet(packet)
    ))
}

/// The counters that moved.
fn counters(out: &mut Output, lines: &[CounterLine]) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        ("packets", Align::Right),
        ("bytes", Align::Right),
        ("rule", Align::Left),
        ("chain", Align::Left),
    ]);
    for line in lines.iter().filter(|line| line.packets > 0) {
        table.row(vec![
            number(line.packets),
            number(line.bytes),
            format!("{}:{}", line.file, line.line),
            line.place(),
        ]);
    }
    out.line("")?;
    out.table(&table)
}
