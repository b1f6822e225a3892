//! `weir-lab peers`: all filters side by side, as written and each in its own best form.
//!
//! For every family and size one interleaved run with all contenders and the bare path. Prints what
//! each adds to the path, and how many times that is of what weir adds.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::flat::{HEADERS, anyhow_refused, note};
use super::{Common, families, grouped, nanoseconds};
use crate::contender::{Contender, Loader};
use crate::inject::Injector;
use crate::measure::{Lane, Limits, rounds};
use crate::record::{Sample, Table};
use crate::rules::{RuleSet, Shape};
use crate::space::Family;
use crate::stats::{Summary, differences, median, summarise};
use crate::trace::Trace;

/// Options of `peers`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules [default: 25,100,1000,5000,25600; with --quick 25,1000]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Rule-set families [default: exp,cheap,real,mix,all-different; with --quick exp,real]
    #[arg(long, value_delimiter = ',')]
    families: Vec<Shape>,
    /// Contenders beside the bare path
    #[arg(long, value_delimiter = ',', default_values_t = Contender::ALL[1..8].to_vec())]
    contenders: Vec<Contender>,
    /// Measure IPv6 as well
    #[arg(long)]
    v6: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    shape: Shape,
    family: Family,
    rules: usize,
    bare: Summary,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Serialize)]
struct Cell {
    contender: Contender,
    refused: Option<String>,
    lossy: Option<&'static str>,
    load_seconds: Option<f64>,
    added: Option<Summary>,
    /// What this contender adds as a multiple of what weir adds.
    times_weir: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// When the machine refuses to measure. Filters that refuse their rules appear as such.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let loader = options.common.loader();
    let limits = options.common.limits();
    let quick = options.common.quick;
    let sizes = match (&options.sizes[..], quick) {
        ([], true) => vec![25, 1_000],
        ([], false) => vec![25, 100, 1_000, 5_000, 25_600],
        (given, _) => given.to_vec(),
    };
    let shapes = match (&options.families[..], quick) {
        ([], true) => vec![Shape::Exp, Shape::Real],
        ([], false) => {
            vec![
                Shape::Exp,
                Shape::Cheap,
                Shape::Real,
                Shape::Mix,
                Shape::AllDifferent,
            ]
        }
        (given, _) => given.to_vec(),
    };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for family in families(options.v6, true) {
        let mut injector = Injector::new(&Trace::tcp(family, HEADERS, options.common.seed))?;
        for &shape in &shapes {
            for &size in &sizes {
                eprintln!("peers: {shape} {family}, {} rules", grouped(size));
                let set = RuleSet::generate(shape, size, options.common.seed, family);
                let row = one(options, &set, &loader, &mut injector, limits, &mut samples)?;
                rows.push(row);
            }
        }
    }
    options
        .common
        .finish("peers", &table(options, &rows), &rows, &samples)
}

fn one(
    options: &Options,
    set: &RuleSet,
    loader: &Loader,
    injector: &mut Injector,
    limits: Limits,
    samples: &mut Vec<Sample>,
) -> Result<Row> {
    let (shape, family, rules) = (set.shape, set.family, set.rules.len());
    let bare = loader.load(Contender::None, set)?.map_err(anyhow_refused)?;
    let (mut loaded, mut cells) = (Vec::new(), Vec::new());
    for &contender in &options.contenders {
        crate::interrupt::check()?;
        let (mut refused, mut lossy, mut load_seconds) = (None, None, None);
        match loader.load(contender, set)? {
            Ok(one) => {
                load_seconds = one.loading.map(|loading| loading.seconds);
                lossy = one.lossy;
                loaded.push((cells.len(), one));
            }
            Err(why) => refused = Some(why.reason),
        }
        cells.push(Cell {
            contender,
            refused,
            lossy,
            load_seconds,
            added: None,
            times_weir: None,
        });
    }
    let mut lanes = vec![Lane::Path(&bare)];
    lanes.extend(loaded.iter().map(|(_, one)| Lane::Path(one)));
    let results = rounds(&lanes, injector, limits)?;
    note(samples, shape, family, rules, "none", &results[0]);
    for ((index, one), path) in loaded.iter().zip(&results[1..]) {
        cells[*index].added = Some(summarise(&differences(path, &results[0])));
        note(samples, shape, family, rules, one.contender.name(), path);
    }
    let weir = loaded
        .iter()
        .position(|(_, one)| one.contender == Contender::Weir);
    if let Some(weir) = weir {
        let ours = median(&differences(&results[weir + 1], &results[0]));
        for cell in &mut cells {
            cell.times_weir = cell.added.map(|added| added.median / ours);
        }
    }
    Ok(Row {
        shape,
        family,
        rules,
        bare: summarise(&results[0]),
        cells,
    })
}

fn table(options: &Options, rows: &[Row]) -> String {
    let mut headings = vec!["family".to_owned(), "rules".to_owned(), "bare".to_owned()];
    headings.extend(options.contenders.iter().map(ToString::to_string));
    let mut table = Table::new(&headings);
    let mut notes = std::collections::BTreeSet::new();
    for row in rows {
        let mut cells = vec![
            format!("{} {}", row.shape, row.family),
            grouped(row.rules),
            nanoseconds(row.bare.median),
        ];
        for cell in &row.cells {
            let name = format!("  {} {} {}", cell.contender, row.shape, row.family);
            cells.push(match (cell.added, cell.times_weir) {
                (Some(added), Some(times)) if cell.contender != Contender::Weir => {
                    format!("{} ({times:.1}x)", nanoseconds(added.median))
                }
                (Some(added), _) => nanoseconds(added.median),
                (None, _) => "-".to_owned(),
            });
            if let Some(reason) = &cell.refused {
                notes.insert(format!("{name}, {} rules: {reason}\n", grouped(row.rules)));
            }
            if let Some(lossy) = cell.lossy {
                notes.insert(format!("{name}: does less than the rules say: {lossy}\n"));
            }
        }
        table.row(cells);
    }
    let notes: String = notes.into_iter().collect();
    format!(
        "Added ns per packet in INPUT, live frames, {HEADERS} headers (in brackets: times weir)\n\n\
         {}{}",
        table.text(),
        if notes.is_empty() {
            notes
        } else {
            format!("\nnotes:\n{notes}")
        }
    )
}
