//! `weir-lab crr`: service demand of TCP transactions through stateful rules.
//!
//! Every contender filters INPUT of its own server; samples are interleaved. Prints CPU time per
//! transaction and its ratio to no filter, the median of the ratios within rounds.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::time::Duration;

use super::flat::anyhow_refused;
use super::{Common, grouped};
use crate::contender::Contender;
use crate::record::{Sample, Table};
use crate::rules::{RuleSet, Shape};
use crate::service::{Length, Pair, Test, wire};
use crate::space::Family;
use crate::stats::{Summary, ratios, summarise};

/// Options of `crr`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules [default: 25600; with --quick 1000]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// The rule-set family; stateful ones have a state rule in front
    #[arg(long, default_value = "stateful")]
    family: Shape,
    /// Contenders beside no filter
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "legacy,nft,nft-map,ipset,weir"
    )]
    contenders: Vec<Contender>,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    test: &'static str,
    shape: Shape,
    rules: usize,
    /// Microseconds of CPU per transaction without a filter.
    bare_microseconds: Summary,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Serialize)]
struct Cell {
    contender: Contender,
    refused: Option<String>,
    /// Service demand divided by that of no filter in the same round.
    ratio: Option<Summary>,
}

/// Runs the command.
///
/// # Errors
/// When a transaction fails or the machine refuses to measure.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let quick = options.common.quick;
    let sizes = match (&options.sizes[..], quick) {
        ([], true) => vec![1_000],
        ([], false) => vec![25_600],
        (given, _) => given.to_vec(),
    };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for &size in &sizes {
        eprintln!("crr: {}, {} rules", options.family, grouped(size));
        let set = RuleSet::generate(options.family, size, options.common.seed, Family::V4);
        rows.extend(one(options, &set, &mut samples)?);
    }
    options
        .common
        .finish("crr", &table(options, &rows), &rows, &samples)
}

fn one(options: &Options, set: &RuleSet, samples: &mut Vec<Sample>) -> Result<Vec<Row>> {
    let loader = options.common.loader();
    let pair = |contender: Contender| {
        let (server, client) = wire(contender.name())?;
        let loaded = loader.load_into(contender, set, server)?;
        anyhow::Ok(loaded.map(|loaded| Pair::new(loaded, client)))
    };
    let mut pairs = vec![pair(Contender::None)?.map_err(anyhow_refused)?];
    let mut cells = Vec::new();
    let mut places = Vec::new();
    for &contender in &options.contenders {
        crate::interrupt::check()?;
        let mut refused = None;
        match pair(contender)? {
            Ok(pair) => {
                places.push(cells.len());
                pairs.push(pair);
            }
            Err(why) => refused = Some(why.reason),
        }
        cells.push(Cell {
            contender,
            refused,
            ratio: None,
        });
    }
    let mut rows = Vec::new();
    for (test, name) in [(Test::Crr, "crr"), (Test::Rr, "rr")] {
        let results = measure(options, &pairs, test)?;
        for (pair, values) in pairs.iter().zip(&results) {
            samples.extend(values.iter().enumerate().map(|(round, &value)| Sample {
                shape: format!("{name}-{}", set.shape),
                family: set.family.digit(),
                rules: set.rules.len(),
                contender: pair.server.contender.name().to_owned(),
                round,
                metric: "cpu_ns_per_transaction",
                value,
            }));
        }
        let mut cells = cells.clone();
        for (place, values) in places.iter().zip(&results[1..]) {
            cells[*place].ratio = Some(summarise(&ratios(values, &results[0])));
        }
        let microseconds: Vec<_> = results[0].iter().map(|value| value / 1000.0).collect();
        rows.push(Row {
            test: name,
            shape: set.shape,
            rules: set.rules.len(),
            bare_microseconds: summarise(&microseconds),
            cells,
        });
    }
    Ok(rows)
}

/// Rounds in changing order; the first pair has no filter.
fn measure(options: &Options, pairs: &[Pair], test: Test) -> Result<Vec<Vec<f64>>> {
    let quick = options.common.quick;
    let rounds = options
        .common
        .rounds
        .unwrap_or(if quick { 3 } else { 9 })
        .max(1);
    let length = Length {
        time: Duration::from_millis(if quick { 200 } else { 500 }),
        transactions: match test {
            Test::Crr => (60_000 / (rounds as u32 + 1)).min(6_000),
            Test::Rr => 30_000,
        },
    };
    let mut results = vec![Vec::new(); pairs.len()];
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    let mut random = fastrand::Rng::with_seed(pairs.len() as u64);
    // One sample each that does not count: neighbours are resolved, caches are warm.
    let warm = Length {
        time: Duration::from_millis(50),
        transactions: 500,
    };
    for pair in pairs {
        pair.sample(test, warm)?;
    }
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &index in &order {
            crate::interrupt::check()?;
            results[index].push(pairs[index].sample(test, length)?);
        }
    }
    Ok(results)
}

fn table(options: &Options, rows: &[Row]) -> String {
    let mut headings = ["test", "rules", "bare us"].map(str::to_owned).to_vec();
    headings.extend(options.contenders.iter().map(ToString::to_string));
    let mut table = Table::new(&headings);
    let mut notes = String::new();
    for row in rows {
        let name = format!("{} {}", row.test, row.shape);
        let bare = format!("{:.1}", row.bare_microseconds.median);
        let mut line = vec![name, grouped(row.rules), bare];
        for cell in &row.cells {
            line.push(cell.ratio.map_or("-".to_owned(), |ratio| {
                format!(
                    "{:.3} [{:.2}-{:.2}]",
                    ratio.median, ratio.quartile_low, ratio.quartile_high
                )
            }));
            if let (Some(reason), "crr") = (&cell.refused, row.test) {
                notes += &format!("  {}: {reason}\n", cell.contender);
            }
        }
        table.row(line);
    }
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("\nrefused:\n{notes}")
    };
    format!(
        "Service demand (CPU of both ends on one CPU) relative to no filter, median [quartiles]\
         \n\n{}{notes}",
        table.text()
    )
}
