//! Limits of connections that HP-UX rules keep, as `ipfstat -L`, `-vL` and `-r` print them.
//!
//! In: the kernel's shares where rules are enforced, the evaluator's limits where files were
//! judged. Out: one list of both, and text in the original's layout.

use super::live::Live;
use super::records::place;
use crate::exit::Exit;
use crate::kernel::plane_error;
use crate::output::Output;
use weir_plane::shares::{Limit, Statistics};
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::eval::ipf::Evaluator;
use weir_policy::eval::ipf::limit::{ends_of, host};
use weir_policy::model::Family;

/// A limit as listings tell it.
pub struct Listed {
    letter: char,
    place: String,
    /// Source, destination, its port.
    ends: (String, String, String),
    configured: u32,
    current: u32,
    exceeded: u64,
    resets: u64,
}

/// Types of limits as listings call them.
const TYPES: [(&str, char); 4] = [
    ("Individual", 'I'),
    ("Subnet", 'S'),
    ("Cumulative", 'C'),
    ("Unknown IP", 'U'),
];

/// The letter of listings, by HP's number.
fn letter(kind: u8) -> char {
    match kind {
        2 => 'I',
        4 => 'C',
        6 => 'S',
        _ => 'U',
    }
}

/// Between whom a limit is; one without a source is for all that its rule is for.
fn ends(
    family: Family,
    source: Option<u128>,
    (destination, port): (u128, u16),
    rule: Option<&Rule>,
) -> (String, String, String) {
    match (source, rule) {
        (None, Some(rule)) => ends_of(rule),
        _ => (
            host(family, source.unwrap_or_default()),
            host(family, destination),
            port.to_string(),
        ),
    }
}

/// The same of one that is enforced.
pub fn ends_of_enforced(live: &Live, limit: &Limit) -> (String, String, String) {
    let rules = &live.rules.set.rules;
    ends(
        limit.family,
        (limit.kind != 4).then_some(limit.source),
        (limit.destination, limit.port),
        limit.rule.and_then(|rule| rules.get(rule as usize)),
    )
}

/// Those that are enforced.
pub fn enforced(live: &Live) -> anyhow::Result<Vec<Listed>> {
    let limits = match live.kernel.generation() {
        Some(_) => live.kernel.plane.limits().map_err(plane_error)?,
        None => Vec::new(),
    };
    let listed = |limit: &Limit| Listed {
        letter: letter(limit.kind),
        place: place_of(live, limit.rule),
        ends: ends_of_enforced(live, limit),
        configured: limit.configured,
        current: limit.current,
        exceeded: limit.exceeded,
        resets: limit.resets.into(),
    };
    Ok(limits.iter().map(listed).collect())
}

/// Those that an evaluator keeps.
pub fn judged(evaluator: &Evaluator<'_>) -> Vec<Listed> {
    let limits = evaluator.limits.entries();
    let listed = limits.map(|limit| Listed {
        letter: limit.kind.letter(),
        place: limit.place.clone(),
        ends: ends(
            limit.family,
            limit.source,
            (limit.destination, limit.port),
            evaluator.rules.rules.get(limit.rule),
        ),
        configured: limit.configured,
        current: limit.current,
        exceeded: limit.exceeded,
        resets: limit.resets,
    });
    listed.collect()
}

/// What happened to those that are enforced.
pub fn enforced_counts(live: &Live) -> anyhow::Result<Statistics> {
    match live.kernel.generation() {
        Some(_) => live.kernel.plane.limit_statistics().map_err(plane_error),
        None => Ok(Statistics::default()),
    }
}

/// What happened to those that an evaluator keeps.
pub fn judged_counts(evaluator: &Evaluator<'_>) -> Statistics {
    Statistics {
        added: evaluator.limits.added,
        records: evaluator.limits.records.len() as u64,
        ..Statistics::default()
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
pub fn statistics(limits: &[Listed], counts: Statistics, out: &mut Output) -> anyhow::Result<Exit> {
    for (label, letter) in TYPES {
        let number = limits.iter().filter(|limit| limit.letter == letter).count();
        out.line(format!("{label} {number}"))?;
    }
    for (label, value) in [
        ("Total", limits.len() as u64),
        ("No Memory", counts.no_memory),
        ("Logged Records", counts.records),
        ("Log Failures", counts.records_lost),
        ("Limits Added", counts.added),
        ("Add Failures", counts.no_memory),
    ] {
        out.line(format!("{label} {value}"))?;
    }
    Ok(Exit::Done)
}

/// `-vL`: each of them.
pub fn list(limits: &[Listed], out: &mut Output) -> anyhow::Result<Exit> {
    out.line("Type Rule Src IP Src Port Dest IP Dest Port Limit Current")?;
    for limit in limits {
        out.line(format!(
            "{} {} {} * {} {} {} {} ({})",
            limit.letter,
            limit.place,
            limit.ends.0,
            limit.ends.1,
            limit.ends.2,
            limit.configured,
            limit.current,
            limit.exceeded
        ))?;
    }
    Ok(Exit::Done)
}

/// `-r g:r`: those of one rule.
pub fn of_rule(limits: &[Listed], rule: &str, out: &mut Output) -> anyhow::Result<Exit> {
    let place = format!("@{rule}");
    let mut found = false;
    for limit in limits.iter().filter(|limit| limit.place == place) {
        found = true;
        let kind = TYPES.iter().find(|(_, letter)| *letter == limit.letter);
        out.line(format!("Limit Type {}", kind.map_or("", |(word, _)| word)))?;
        for (label, value) in [
            ("Group:Rule Number", place.clone()),
            ("Configured Limit", limit.configured.to_string()),
            ("Current connections", limit.current.to_string()),
            ("Limit Exceeded (#times)", limit.exceeded.to_string()),
            ("TCP RSTs sent (#times)", limit.resets.to_string()),
        ] {
            out.line(format!("{label} {value}"))?;
        }
    }
    Ok(if found { Exit::Done } else { Exit::Negative })
}
