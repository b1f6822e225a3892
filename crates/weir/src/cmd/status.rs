//! `weir status`: what is enforced in a namespace, and how it is doing.
//!
//! In: the kernel's maps and the store. Out: which files since when, a trial that is on, the agent,
//! drops by reason. Exit status 1 when nothing is enforced.

use crate::agent;
use crate::describe::places;
use crate::enforce;
use crate::exit::Exit;
use crate::kernel::{Kernel, plane_error};
use crate::output::{Output, Paint, bytes, count, number, report, utc_in_words};
use crate::state::boot_time_ms;
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};
use weir_engine::flow::Layout;

/// Options of `weir status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Answer {
    enforced: bool,
    generation: Option<u32>,
    previous: Option<u32>,
    files: Vec<String>,
    applied_at: Option<u64>,
    hooks: Vec<String>,
    /// The same for people.
    #[serde(skip)]
    places: Vec<String>,
    trial_seconds_left: Option<u64>,
    agent: Option<i32>,
    answers_rejects: bool,
    /// Whether ends of TCP states are asked before these end; None where no policy wants that.
    keep_alives: Option<bool>,
    map_bytes: u64,
    /// None where no rule asks about flows.
    flows_max: u32,
    /// States that rules made, where rules make any.
    states: Option<States>,
    /// Interfaces on which packets wait in classes of ours.
    shaped: Vec<Shaped>,
    packets: Vec<Reason>,
}

/// Classes of one interface.
#[derive(Debug, Serialize)]
struct Shaped {
    interface: String,
    classes: usize,
    sent: u64,
    waiting: u64,
    dropped: u64,
}

/// What waits where.
fn shaped(kernel: &Kernel) -> anyhow::Result<Vec<Shaped>> {
    let mut out: Vec<Shaped> = Vec::new();
    for class in kernel.plane.classes().map_err(plane_error)? {
        let at = out.iter().position(|one| one.interface == class.interface);
        let at = at.unwrap_or_else(|| {
            out.push(Shaped {
                interface: class.interface.clone(),
                classes: 0,
                sent: 0,
                waiting: 0,
                dropped: 0,
            });
            out.len() - 1
        });
        let one = &mut out[at];
        one.classes += 1;
        one.waiting += u64::from(class.waiting.0);
        one.dropped += class.dropped;
        // What is sent below counts above too.
        if class.parent == 0 {
            one.sent += class.sent.0;
        }
    }
    Ok(out)
}

/// States that rules made.
#[derive(Debug, Serialize)]
struct States {
    /// In the table; the time of some may be up.
    entries: u32,
    made: u64,
    /// Not made: a limit of the rules.
    limited: u64,
    /// Not made: the places of such states were taken.
    full: u64,
}

/// Packets that something noteworthy happened to.
#[derive(Debug, Serialize)]
struct Reason {
    reason: &'static str,
    packets: u64,
}

/// Names of `enum weir_reason`, in its order.
const REASONS: [&str; 10] = [
    "dropped by a rule",
    "rejected and answered",
    "rejected without an answer",
    "dropped: transport header cut short",
    "dropped: no valid network header",
    "dropped: image out of bounds",
    "log records lost: reader too slow",
    "log records left out: over the rate",
    "flows not kept: table full",
    "changes not carried on: table full",
];

/// Tells.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut kernel = Kernel::open(args.netns.as_deref())?;
    // An agent that was killed can't end a trial; whoever looks next does.
    enforce::end_trial(&mut kernel, boot_time_ms())?;
    let answer = answer(&kernel)?;
    let exit = if answer.enforced {
        Exit::Done
    } else {
        Exit::Negative
    };
    match out.is_json() {
        true => out.object(&report(answer))?,
        false => text(&answer, out)?,
    }
    Ok(exit)
}

fn answer(kernel: &Kernel) -> anyhow::Result<Answer> {
    let mut answer = Answer {
        enforced: false,
        generation: None,
        previous: None,
        files: Vec::new(),
        applied_at: None,
        hooks: Vec::new(),
        places: Vec::new(),
        trial_seconds_left: None,
        agent: agent::running(&kernel.store).map(|agent| agent.pid),
        answers_rejects: false,
        keep_alives: None,
        map_bytes: 0,
        flows_max: 0,
        states: None,
        shaped: Vec::new(),
        packets: Vec::new(),
    };
    if kernel.generation().is_none() {
        return Ok(answer);
    }
    let status = kernel.plane.status().map_err(plane_error)?;
    answer.enforced = true;
    answer.generation = Some(status.number);
    answer.previous = status.previous;
    answer.hooks = status.links;
    answer.hooks.sort_unstable();
    let interfaces = kernel.plane.interfaces().map_err(plane_error)?;
    answer.places = places(&answer.hooks, &interfaces);
    answer.answers_rejects = status.answering;
    let has_agent = answer.agent.is_some();
    answer.keep_alives = status.keep_alives.map(|sent| sent && has_agent);
    let size = &status.capacity;
    let flows = Layout::for_flows(size.flows).bytes() as u64;
    answer.map_bytes = 2 * (u64::from(size.image) + u64::from(size.history)) + flows;
    answer.flows_max = if status.keeps_flows { size.flows } else { 0 };
    let states = kernel.plane.state_statistics().map_err(plane_error)?;
    answer.states = states.map(|states| States {
        entries: states.entries,
        made: states.made,
        limited: states.no_room,
        full: states.full,
    });
    if let Some(saved) = kernel.store.load(status.number)? {
        answer.files = saved
            .sources
            .into_iter()
            .map(|source| source.name)
            .collect();
        answer.applied_at = Some(saved.applied_at);
    }
    answer.shaped = shaped(kernel)?;
    let trial = kernel
        .store
        .pending()?
        .filter(|trial| trial.is_of(Some(status.number)));
    answer.trial_seconds_left = trial.map(|trial| trial.seconds_left(boot_time_ms()));
    answer.packets = REASONS
        .iter()
        .zip(status.reasons)
        .filter(|(_, packets)| *packets > 0)
        .map(|(reason, packets)| Reason { reason, packets })
        .collect();
    Ok(answer)
}

fn text(answer: &Answer, out: &mut Output) -> anyhow::Result<()> {
    let Some(generation) = answer.generation else {
        return out.line("no policy is enforced here");
    };
    let heading = out.paint(Paint::Good, "enforced");
    out.line(format!(
        "{heading}: policy {generation}, from {}",
        answer.files.join(" ")
    ))?;
    if let Some(left) = answer.trial_seconds_left {
        let warning = format!("on trial: goes back in {left} s unless `weir confirm` is run");
        let warning = out.paint(Paint::Warn, &warning);
        out.line(warning)?;
    }
    if let Some(previous) = answer.previous {
        out.line(format!("in reserve: policy {previous}"))?;
    }
    if let Some(seconds) = answer.applied_at {
        out.line(format!(
            "since: {}",
            utc_in_words(UNIX_EPOCH + Duration::from_secs(seconds))
        ))?;
    }
    for place in &answer.places {
        out.line(place)?;
    }
    let flows = match answer.flows_max {
        0 => "no rule asks about flows".to_owned(),
        flows => format!("room for {}", count(u64::from(flows), "flow", "flows")),
    };
    out.line(format!(
        "memory of the maps: {}, {flows}",
        bytes(answer.map_bytes)
    ))?;
    if let Some(states) = &answer.states {
        out.line(format!(
            "states: {} in the table, {} made, {} over a limit, {} without a place",
            number(u64::from(states.entries)),
            number(states.made),
            number(states.limited),
            number(states.full)
        ))?;
    }
    for one in &answer.shaped {
        out.line(format!(
            "shaped: {}, {}, {} sent, {} waiting, {} dropped there",
            one.interface,
            count(one.classes as u64, "class", "classes"),
            number(one.sent),
            number(one.waiting),
            number(one.dropped)
        ))?;
    }
    out.line(match (answer.agent, answer.answers_rejects) {
        (Some(pid), true) => format!("agent: process {pid}, answers rejected packets"),
        (Some(pid), false) => format!("agent: process {pid}, does not answer rejected packets"),
        (None, _) => "agent: none; rejected packets are dropped without an answer".to_owned(),
    })?;
    if answer.keep_alives == Some(false) {
        out.line("keep-alives: none are sent; idle TCP states end when their time is up")?;
    }
    for reason in &answer.packets {
        out.line(format!("{}: {}", reason.reason, number(reason.packets)))?;
    }
    Ok(())
}
