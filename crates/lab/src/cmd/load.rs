//! `weir-lab load`: from text to enforced, in seconds and bytes.
//!
//! Every contender loads the same rules into a namespace of its own, in turn, several times over.
//! Time runs from the start of its program to its end, by which the rules are enforced. Memory: the
//! program's largest resident set, and the kernel memory that is charged to its loading and still
//! there afterwards (where the machine accounts it; ipset's elements never are).

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;

use super::{Common, grouped};
use crate::contender::Contender;
use crate::memory::Group;
use crate::record::{Sample, Table};
use crate::rules::{RuleSet, Shape};
use crate::space::Family;
use crate::stats::{Summary, summarise};

/// Options of `load`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules [default: 25,1000,25600,100000; with --quick 1000,25600]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Rule-set families
    #[arg(long, value_delimiter = ',', default_value = "real")]
    families: Vec<Shape>,
    /// Contenders
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "legacy,iptables-nft,nft-map,ipset,weir"
    )]
    contenders: Vec<Contender>,
    /// Peers are not asked to load more rules than this
    #[arg(long, default_value_t = 100_000)]
    peers_max: usize,
}

#[derive(Debug, Clone, Serialize)]
struct Cell {
    shape: Shape,
    rules: usize,
    contender: Contender,
    refused: Option<String>,
    /// From nothing.
    seconds: Option<Summary>,
    /// Over the same rules, already enforced.
    replace_seconds: Option<Summary>,
    cpu_seconds: Option<Summary>,
    resident_bytes_max: Option<u64>,
    /// Kernel memory that the loading left behind; nothing where it is not accounted.
    kernel_bytes: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// When a namespace cannot be made. Filters that refuse their rules appear as such.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let quick = options.common.quick;
    let sizes = match (&options.sizes[..], quick) {
        ([], true) => vec![1_000, 25_600],
        ([], false) => vec![25, 1_000, 25_600, 100_000],
        (given, _) => given.to_vec(),
    };
    let times = options.common.rounds.unwrap_or(3).max(1);
    let (mut cells, mut samples) = (Vec::new(), Vec::new());
    for &shape in &options.families {
        for &size in &sizes {
            let set = RuleSet::generate(shape, size, options.common.seed, Family::V4);
            let contenders = options
                .contenders
                .iter()
                .copied()
                .filter(|&one| size <= options.peers_max || one == Contender::Weir);
            for contender in contenders {
                eprintln!("load: {shape}, {} rules, {contender}", grouped(size));
                cells.push(one(options, contender, &set, times, &mut samples)?);
            }
        }
    }
    options
        .common
        .finish("load", &table(&cells), &cells, &samples)
}

fn one(
    options: &Options,
    contender: Contender,
    set: &RuleSet,
    times: usize,
    samples: &mut Vec<Sample>,
) -> Result<Cell> {
    let mut cell = Cell {
        shape: set.shape,
        rules: set.rules.len(),
        contender,
        refused: None,
        seconds: None,
        replace_seconds: None,
        cpu_seconds: None,
        resident_bytes_max: None,
        kernel_bytes: None,
    };
    let (mut seconds, mut again, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    let note = |samples: &mut Vec<Sample>, round, metric, value| {
        samples.push(Sample {
            shape: set.shape.name().to_owned(),
            family: set.family.digit(),
            rules: set.rules.len(),
            contender: contender.name().to_owned(),
            round,
            metric,
            value,
        });
    };
    for round in 0..times {
        crate::interrupt::check()?;
        let mut loader = options.common.loader();
        loader.group = Group::new().ok().map(Arc::new);
        let loaded = match loader.load(contender, set)? {
            Ok(loaded) => loaded,
            Err(refused) => {
                cell.refused = Some(refused.reason);
                return Ok(cell);
            }
        };
        if let Some(loading) = loaded.loading {
            seconds.push(loading.seconds);
            cpu.push(loading.cpu_seconds);
            cell.kernel_bytes = loading.kernel_bytes;
            let before = cell.resident_bytes_max.unwrap_or(0);
            cell.resident_bytes_max = Some(before.max(loading.resident_bytes_max));
            note(samples, round, "load_seconds", loading.seconds);
        }
        // Memory was read before: the replacement does not change what one policy needs.
        if let Some(Ok(loading)) = loader.replace(&loaded, set)? {
            again.push(loading.seconds);
            note(samples, round, "replace_seconds", loading.seconds);
        }
    }
    if !seconds.is_empty() {
        cell.seconds = Some(summarise(&seconds));
        cell.cpu_seconds = Some(summarise(&cpu));
    }
    if !again.is_empty() {
        cell.replace_seconds = Some(summarise(&again));
    }
    Ok(cell)
}

fn table(cells: &[Cell]) -> String {
    let headings = [
        "family",
        "rules",
        "contender",
        "seconds",
        "again s",
        "cpu s",
        "program MiB",
        "kernel MiB",
        "kernel B/rule",
    ];
    let mut table = Table::new(&headings.map(str::to_owned));
    let mut notes = String::new();
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let absent = || "-".to_owned();
    for cell in cells {
        if let Some(reason) = &cell.refused {
            notes += &format!(
                "  {} {}, {} rules: {reason}\n",
                cell.contender,
                cell.shape,
                grouped(cell.rules)
            );
        }
        let seconds = |summary: Option<Summary>| {
            summary.map_or_else(absent, |summary| format!("{:.3}", summary.median))
        };
        let per_rule = cell
            .kernel_bytes
            .map(|bytes| bytes as f64 / cell.rules.max(1) as f64);
        table.row(vec![
            cell.shape.to_string(),
            grouped(cell.rules),
            cell.contender.to_string(),
            seconds(cell.seconds),
            seconds(cell.replace_seconds),
            seconds(cell.cpu_seconds),
            cell.resident_bytes_max.map_or_else(absent, mebibytes),
            cell.kernel_bytes.map_or_else(absent, mebibytes),
            per_rule.map_or_else(absent, |bytes| format!("{bytes:.0}")),
        ]);
    }
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("\nrefused:\n{notes}")
    };
    format!(
        "From text to enforced, from nothing and again over the same rules, median\n\n{}{notes}",
        table.text()
    )
}
