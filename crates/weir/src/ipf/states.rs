//! States that enforced IPFilter rules keep, as `ipfstat -s`, `-sl` and `-t` print them.
//!
//! In: the kernel's table of learned states, and what is counted of it. Out: text. What the
//! original prints of the inside of its own table (a rule's flags as a number) has no counterpart
//! here; lines of the table, of 16 places each, stand for its buckets.

use super::live::Live;
use super::statistics::number;
use crate::exit::Exit;
use crate::kernel::plane_error;
use crate::output::Output;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_plane::learned::{Lines, State, Statistics};
use weir_policy::dialect::ipf::Form;
use weir_policy::dialect::ipf::ast::{Action, Direction, Rule};
use weir_policy::dialect::iptables::names::protocols;
use weir_policy::eval::ipf::limit::host;
use weir_policy::eval::ipf::log::clock;
use weir_policy::model::Family;

/// What is known of states.
#[derive(Default)]
struct Known {
    counts: Statistics,
    lines: Lines,
    active: u64,
    /// Packets that belonged to a state, and others, since the rules were put in force.
    hits: u64,
    misses: Option<u64>,
    /// Limits without a place.
    no_memory: u64,
    /// Records about states are written while somebody reads them.
    logging: bool,
    records: (u64, u64),
}

fn known(live: &Live) -> anyhow::Result<Known> {
    let plane = &live.kernel.plane;
    if live.kernel.generation().is_none() {
        return Ok(Known::default());
    }
    let limits = plane.limit_statistics().map_err(plane_error)?;
    let mut known = Known {
        active: states(live)?.len() as u64,
        counts: plane
            .state_statistics()
            .map_err(plane_error)?
            .unwrap_or_default(),
        lines: plane
            .state_lines()
            .map_err(plane_error)?
            .unwrap_or_default(),
        no_memory: limits.no_memory,
        logging: plane.records_are_read().map_err(plane_error)?,
        records: (limits.records, limits.records_lost),
        ..Known::default()
    };
    // Where lists of one direction alone are asked, those of the other are asked for states too.
    let sides = plane.tally().map_err(plane_error)?.unwrap_or_default();
    let mut misses = Some(0);
    for side in sides.iter().flatten() {
        known.hits += side.looked;
        let all = side.passed.map(|passed| passed + side.blocked);
        let others = all.map(|all| all.saturating_sub(side.looked));
        misses = misses.zip(others).map(|(sum, more)| sum + more);
    }
    let keeps = |rule: &Rule| rule.keep_state.is_some() || rule.keep_limit.is_some();
    let asked = live.rules.set.rules.iter().any(keeps);
    known.misses = if asked { misses } else { Some(0) };
    Ok(known)
}

/// `-s`: what happened to states.
pub fn statistics(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let known = known(live)?;
    let lines = match live.form() {
        Form::V5 => new(&known),
        Form::V4 => old(&known),
    };
    for line in lines {
        out.line(line)?;
    }
    Ok(Exit::Done)
}

/// `value<TAB>label`; what isn't counted has no line.
fn new(known: &Known) -> Vec<String> {
    let counts = &known.counts;
    let [add_bad, add_oow, resets, small, no_query] = counts.unfit;
    let [icmp_hits, icmp_banned, icmp_blocked, icmp_many] = counts.icmp_errors;
    let (of_rules, of_hosts) = counts.of_limits;
    let mut lines = Vec::new();
    for (value, label) in [
        (Some(known.active), "active entries"),
        (Some(add_bad), "add bad"),
        (Some(0), "add locked"),
        (Some(add_oow), "add oow"),
        (Some(counts.full), "bucket full"),
        (known.misses, "check miss"),
        (Some(0), "check nattag"),
        (Some(0), "check notag"),
        (Some(known.hits), "check success"),
        (Some(0), "cloned"),
        (Some(counts.expired), "expired"),
        (Some(0), "flush all"),
        (Some(0), "flush closing"),
        (Some(0), "flush queue"),
        (Some(0), "flush state"),
        (Some(0), "flush timeout"),
        (Some(known.lines.used as u64), "hash buckets in use"),
        (Some(icmp_banned), "ICMP banned"),
        (Some(icmp_blocked), "ICMP head block"),
        (Some(icmp_hits), "ICMP hits"),
        (Some(no_query), "ICMP not query"),
        (Some(icmp_many), "ICMP too many"),
        (Some(known.records.1), "log fail"),
        (Some(known.records.0), "log ok"),
        (Some(of_rules), "maximum rule references"),
        (Some(of_hosts), "maximum hosts per rule"),
        (Some(known.no_memory), "no memory"),
        (Some(counts.out_of_window), "out of window"),
        (Some(0), "orphans"),
        (
            Some(counts.no_room.saturating_sub(of_rules + of_hosts)),
            "table maximum reached",
        ),
        (Some(resets), "TCP RST add"),
        (Some(small), "TCP too small"),
    ] {
        lines.extend(value.map(|value| format!("{value}\t{label}")));
    }
    lines.push(format!("State logging {}", logging(known)));
    lines.push("IP states added:".to_owned());
    let [tcp, udp, icmp, icmp6] = counts.protocols;
    let other = counts.made.saturating_sub(tcp + udp + icmp + icmp6);
    for (value, name) in [
        (icmp, "icmp"),
        (tcp, "tcp"),
        (udp, "udp"),
        (icmp6, "ipv6-icmp"),
        (other, "other"),
    ] {
        if value > 0 {
            lines.push(format!("{value}\t{name}"));
        }
    }
    lines.extend(buckets(&known.lines));
    lines
}

/// The list of 4.x, which HP-UX has, too.
fn old(known: &Known) -> Vec<String> {
    let counts = &known.counts;
    let [tcp, udp, icmp, icmp6] = counts.protocols;
    let mut lines = vec!["IP states added:".to_owned()];
    for (value, label) in [
        (Some(tcp), "TCP"),
        (Some(udp), "UDP"),
        (Some(icmp + icmp6), "ICMP"),
        (Some(known.hits), "hits"),
        (known.misses, "misses"),
        (Some(counts.no_room), "maximum"),
        (Some(known.no_memory), "no memory"),
        (Some(counts.full), "max bucket"),
        (Some(known.lines.used as u64), "bkts in use"),
        (Some(known.active), "active"),
        (Some(counts.expired.saturating_sub(counts.ended)), "expired"),
        (Some(counts.ended), "closed"),
    ] {
        lines.push(format!("\t{} {label}", number(value)));
    }
    lines.push(format!("State logging {}", logging(known)));
    lines.extend(buckets(&known.lines));
    lines
}

fn logging(known: &Known) -> &'static str {
    if known.logging { "enabled" } else { "disabled" }
}

/// How full the table's lines are, which stand for buckets.
fn buckets(lines: &Lines) -> Vec<String> {
    let share = |part: usize, of: usize| match of {
        0 => 0.0,
        _ => part as f64 / of as f64,
    };
    vec![
        "State table bucket statistics:".to_owned(),
        format!("\t{} in use", lines.used),
        format!(
            "\t{:.2}% hash efficiency",
            share(lines.used, lines.entries) * 100.0
        ),
        format!(
            "\t{:.2}% bucket usage",
            share(lines.used, lines.all) * 100.0
        ),
        format!("\t{} minimal length", lines.lengths.0),
        format!("\t{} maximal length", lines.lengths.1),
        format!("\t{:.3} average length", share(lines.entries, lines.used)),
    ]
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
        known.map_or_else(|| "-[]".to_owned(), |(_, name)| format!("{name}[{name}]"))
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
        if state.proto == 6 {
            let [(forward, window, scale), (reverse, back, scale_back)] = state.windows;
            out.line(format!(
                "\t{forward:x}:{reverse:x} {window}<<{scale}:{back}<<{scale_back}"
            ))?;
        }
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
