//! Limits of connections that enforced HP-UX rules keep, as `ipfstat -L`, `-vL` and `-r` print
//! them.
//!
//! In: the kernel's shares. Out: text in the layout of the listings of files (`cmd::ipfstat`).

use super::live::Live;
use super::records::place;
use crate::exit::Exit;
use crate::kernel::plane_error;
use crate::output::Output;
use weir_plane::shares::{Limit, Statistics};
use weir_policy::eval::ipf::limit::host;

/// The letter of listings, by HP's number.
fn letter(kind: u8) -> char {
    match kind {
        2 => 'I',
        4 => 'C',
        6 => 'S',
        _ => 'U',
    }
}

fn limits(live: &Live) -> anyhow::Result<Vec<Limit>> {
    match live.kernel.generation() {
        Some(_) => live.kernel.plane.limits().map_err(plane_error),
        None => Ok(Vec::new()),
    }
}

/// Where the rule of a limit is.
pub fn place_of(live: &Live, rule: Option<u32>) -> String {
    let set = &live.rules.set;
    match rule.map(|rule| rule as usize) {
        Some(rule) if rule < set.rules.len() => place(set, rule),
        _ => "@(del)".to_owned(),
    }
}

/// `-L`: how many are in use.
pub fn statistics(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let limits = limits(live)?;
    let counts = match live.kernel.generation() {
        Some(_) => live.kernel.plane.limit_statistics().map_err(plane_error)?,
        None => Statistics::default(),
    };
    for (label, kind) in [
        ("Individual", 2),
        ("Subnet", 6),
        ("Cumulative", 4),
        ("Unknown IP", 8),
    ] {
        let number = limits.iter().filter(|limit| limit.kind == kind).count();
        out.line(format!("{label}: {number}"))?;
    }
    for (label, value) in [
        ("Total", limits.len() as u64),
        ("No Memory", counts.no_memory),
        ("Logged Records", counts.records),
        ("Log Failures", counts.records_lost),
        ("Limits Added", counts.added),
        ("Add Failures", counts.no_memory),
    ] {
        out.line(format!("{label}: {value}"))?;
    }
    Ok(Exit::Done)
}

/// `-vL`: each of them.
pub fn list(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    out.line("Type @group:rule source,port destination,port Limit Current (exceeded)")?;
    for limit in limits(live)? {
        let source = match limit.kind {
            4 => "*".to_owned(),
            _ => host(limit.family, limit.source),
        };
        out.line(format!(
            "{} {} {source},* {},{} {} {} ({})",
            letter(limit.kind),
            place_of(live, limit.rule),
            host(limit.family, limit.destination),
            limit.port,
            limit.configured,
            limit.current,
            limit.exceeded
        ))?;
    }
    Ok(Exit::Done)
}

/// `-r g:r`: those of one rule.
pub fn of_rule(live: &Live, rule: &str, out: &mut Output) -> anyhow::Result<Exit> {
    let wanted = format!("@{rule}");
    let mut found = false;
    for limit in limits(live)? {
        let place = place_of(live, limit.rule);
        if place != wanted {
            continue;
        }
        found = true;
        out.line(format!(
            "{} {place} limit {} current {} exceeded {} RSTs sent {}",
            letter(limit.kind),
            limit.configured,
            limit.current,
            limit.exceeded,
            limit.resets
        ))?;
    }
    Ok(if found { Exit::Done } else { Exit::Negative })
}
