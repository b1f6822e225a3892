//! States that enforced IPFilter rules keep, as `ipfstat -s`, `-sl` and `-t` print them.
//!
//! In: the kernel's table of learned states. Out: text. What the original prints of the inside of
//! its own table (sequence numbers, flags as a number, buckets) has no counterpart here.

use super::live::Live;
use crate::exit::Exit;
use crate::kernel::plane_error;
use crate::output::Output;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_plane::learned::State;
use weir_policy::dialect::ipf::ast::{Action, Direction, Rule};
use weir_policy::dialect::iptables::names::protocols;
use weir_policy::eval::ipf::limit::host;
use weir_policy::eval::ipf::log::clock;
use weir_policy::model::Family;

/// `-s`: what happened to states.
pub fn statistics(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let counts = match live.kernel.generation() {
        Some(_) => live.kernel.plane.state_statistics().map_err(plane_error)?,
        None => None,
    };
    let counts = counts.unwrap_or_default();
    let active = states(live)?.len();
    for (value, label) in [
        (active as u64, "active entries"),
        (counts.made, "states added"),
        (counts.expired, "expired"),
        (counts.full, "bucket full"),
        (counts.no_room, "table maximum reached"),
    ] {
        out.line(format!("{value}\t{label}"))?;
    }
    Ok(Exit::Done)
}

fn states(live: &Live) -> anyhow::Result<Vec<State>> {
    match live.kernel.generation() {
        Some(_) => live.kernel.plane.states().map_err(plane_error),
        None => Ok(Vec::new()),
    }
}

/// How many states live of each rule that is in force.
pub fn by_rule(live: &Live) -> anyhow::Result<HashMap<usize, u32>> {
    let mut counts = HashMap::new();
    for rule in states(live)?.iter().filter_map(|state| state.rule) {
        *counts.entry(rule as usize).or_default() += 1;
    }
    Ok(counts)
}

fn end(state: &State, address: u128, port: u16) -> String {
    let host = host(state.family, address);
    match state.proto {
        6 | 17 => format!("{host},{port}"),
        _ => host,
    }
}

fn ends(state: &State) -> (String, String) {
    (
        end(state, state.source, state.ports.0),
        end(state, state.destination, state.ports.1),
    )
}

fn protocol(state: &State) -> String {
    protocols::name(state.proto).map_or_else(|| state.proto.to_string(), str::to_owned)
}

/// What a rule does, in its own words.
fn words(rule: &Rule) -> String {
    let action = match rule.action {
        Action::Block => "block",
        _ => "pass",
    };
    let direction = match rule.direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    let quick = if rule.quick { " quick" } else { "" };
    format!("{action} {direction}{quick} keep state")
}

/// `-sl`: each state.
pub fn list(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let interfaces = live.kernel.plane.interfaces().map_err(plane_error)?;
    let name = |number: u32| {
        let known = interfaces.iter().find(|(index, _)| *index == number);
        known.map_or("-", |(_, name)| name.as_str())
    };
    for state in states(live)? {
        let version = if state.family == Family::V6 { 6 } else { 4 };
        let (source, destination) = ends(&state);
        out.line(format!(
            "{version}:{} src:{source} dst:{destination} state:{:x}/{:x} {}",
            protocol(&state),
            state.tcp[0],
            state.tcp[1],
            state.left_ms / 1000
        ))?;
        if matches!(state.proto, 1 | 58) {
            out.line(format!("\tid {} type {}", state.ports.1, state.ports.0))?;
        }
        for (label, at) in [("FWD", 0), ("REV", 2)] {
            let ((pin, bin), (pout, bout)) = (state.counts[at], state.counts[at + 1]);
            out.line(format!(
                "\t{label}: IN pkts {pin} bytes {bin} OUT pkts {pout} bytes {bout}"
            ))?;
        }
        let rule = state
            .rule
            .and_then(|rule| live.rules.set.rules.get(rule as usize));
        let tag = rule.and_then(|rule| rule.set_tag.log).unwrap_or(0);
        let said = match (rule, state.passes) {
            (Some(rule), _) => words(rule),
            (None, true) => "pass (its rule is gone)".to_owned(),
            (None, false) => "block (its rule is gone)".to_owned(),
        };
        out.line(format!("\ttag {tag} = {said}"))?;
        let [in_forward, in_reverse, out_forward, out_reverse] = state.interfaces.map(name);
        out.line(format!(
            "\tinterfaces: in {in_forward},{in_reverse} out {out_forward},{out_reverse}"
        ))?;
        // There is nobody to share states with.
        out.line("\tSync status: not synchronized")?;
    }
    Ok(Exit::Done)
}

/// Time that is left: `m:ss` or `h:mm:ss`.
fn left(state: &State) -> String {
    let seconds = state.left_ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// `-t`: the states, those with most bytes first; once, for `watch`.
pub fn top(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = clock(since.map_or(0, |time| time.as_millis() as u64));
    let now = now.split('.').next().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    out.line(format!(
        "{} - weir {version} - state top  {now}",
        text.trim()
    ))?;
    out.line(format!(
        "{:<24} {:<24} {:>5} {:>5} {:>9} {:>11} {:>10}",
        "Source IP", "Destination IP", "ST", "PR", "#pkts", "#bytes", "ttl"
    ))?;
    let sum = |state: &State| {
        let all = state.counts.iter();
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let mut states = states(live)?;
    states.sort_by_key(|state| std::cmp::Reverse(sum(state).1));
    for state in &states {
        let (source, destination) = ends(state);
        let (packets, bytes) = sum(state);
        let pair = format!("{:x}/{:x}", state.tcp[0], state.tcp[1]);
        out.line(format!(
            "{source:<24} {destination:<24} {pair:>5} {:>5} {packets:>9} {bytes:>11} {:>10}",
            protocol(state),
            left(state)
        ))?;
    }
    Ok(Exit::Done)
}
