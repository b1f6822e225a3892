//! `weir-lab flat`: does the cost per packet depend on the number of rules?
//!
//! For every family one interleaved run with all sizes and the bare path side by side. Prints what
//! the filter adds to the path at each size and the ratio of whole paths between sizes, each the
//! median over rounds of what was measured within a round.

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Common, families, grouped, nanoseconds};
use crate::contender::{Contender, Loaded, Loader};
use crate::hook::time_alone;
use crate::inject::Injector;
use crate::measure::{Lane, Limits, rounds};
use crate::programs::time_per_packet;
use crate::record::{Sample, Table};
use crate::rules::{RuleSet, Shape};
use crate::space::Family;
use crate::stats::{Summary, differences, median, ratios, summarise};
use crate::trace::Trace;

/// Distinct headers in the traffic.
pub const HEADERS: usize = 65_536;
/// The first lane that holds rules, behind floor, bare path and bare hook.
const PATHS: usize = 3;

/// Options of `flat`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules
    #[arg(long, value_delimiter = ',', default_values_t = [25, 100, 1_000, 5_000, 25_600, 100_000])]
    sizes: Vec<usize>,
    /// Rule-set families [default: all stateless ones; with --quick exp, real and cross]
    #[arg(long, value_delimiter = ',')]
    families: Vec<Shape>,
    /// The filter to examine
    #[arg(long, default_value = "weir")]
    contender: Contender,
    /// Measure IPv6 as well
    #[arg(long)]
    v6: bool,
    /// Also measure the eBPF programs alone, by the kernel's run-time statistics
    #[arg(long)]
    program: bool,
    /// With --v6: measure only IPv6
    #[arg(long, requires = "v6")]
    no_v4: bool,
}

/// One family of rules in one address family.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    shape: Shape,
    family: Family,
    /// The injection alone, frames dropped before the stack.
    floor: Summary,
    /// The path without any filter.
    bare: Summary,
    /// What a program in INPUT that accepts everything adds.
    hook: Summary,
    /// Nanoseconds of that program alone, under BPF_PROG_TEST_RUN.
    hook_alone: Option<f64>,
    cells: Vec<Cell>,
}

/// One size.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    rules: usize,
    /// Why there is no figure.
    refused: Option<String>,
    load_seconds: Option<f64>,
    /// The whole path with the filter.
    path: Option<Summary>,
    /// What the filter adds to the bare path of the same round.
    added: Option<Summary>,
    /// This path against the path at the smallest size of the same round.
    ratio: Option<f64>,
    /// Nanoseconds of the eBPF programs alone.
    program: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// When the machine refuses to measure. Rule sets that are refused appear as such.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let loader = options.common.loader();
    let limits = options.common.limits();
    let shapes = match (&options.families[..], options.common.quick) {
        ([], true) => vec![Shape::Exp, Shape::Real, Shape::Cross],
        ([], false) => Shape::ALL
            .into_iter()
            .filter(|shape| *shape != Shape::Stateful)
            .collect(),
        (given, _) => given.to_vec(),
    };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for family in families(options.v6, !options.no_v4) {
        let mut injector = Injector::new(&Trace::tcp(family, HEADERS, options.common.seed))?;
        for &shape in &shapes {
            eprintln!("flat: {shape} {family}");
            let row = one(options, shape, &loader, &mut injector, limits, &mut samples)?;
            rows.push(row);
        }
    }
    options
        .common
        .finish("flat", &table(options, &rows), &rows, &samples)
}

fn one(
    options: &Options,
    shape: Shape,
    loader: &Loader,
    injector: &mut Injector,
    limits: Limits,
    samples: &mut Vec<Sample>,
) -> Result<Row> {
    let family = injector.family();
    let none = RuleSet::generate(shape, 0, options.common.seed, family);
    let bare = loader
        .load(Contender::None, &none)?
        .map_err(anyhow_refused)?;
    let hook = loader
        .load(Contender::Hook, &none)?
        .map_err(anyhow_refused)?;
    let (mut loaded, mut cells) = (Vec::new(), Vec::new());
    for &rules in &options.sizes {
        crate::interrupt::check()?;
        let set = RuleSet::generate(shape, rules, options.common.seed, family);
        let mut cell = Cell {
            rules,
            refused: None,
            load_seconds: None,
            path: None,
            added: None,
            ratio: None,
            program: None,
        };
        match loader.load(options.contender, &set)? {
            Ok(one) => {
                cell.load_seconds = one.loading.map(|loading| loading.seconds);
                loaded.push((cells.len(), one));
            }
            Err(refused) => cell.refused = Some(refused.reason),
        }
        cells.push(cell);
    }
    let mut lanes = vec![Lane::Floor(&bare), Lane::Path(&bare), Lane::Path(&hook)];
    lanes.extend(loaded.iter().map(|(_, one)| Lane::Path(one)));
    let results = rounds(&lanes, injector, limits)?;
    // The ratio is that to the smallest set, if that was taken at all.
    let smallest = loaded.first().filter(|(index, _)| *index == 0);
    let smallest = smallest.map(|_| &results[PATHS]);
    for ((index, _), path) in loaded.iter().zip(&results[PATHS..]) {
        let cell = &mut cells[*index];
        cell.path = Some(summarise(path));
        cell.added = Some(summarise(&differences(path, &results[1])));
        cell.ratio = smallest.map(|smallest| median(&ratios(path, smallest)));
        let name = options.contender.name();
        note(samples, shape, family, cell.rules, name, path);
    }
    for (name, values) in ["floor", "none", "hook"].into_iter().zip(&results) {
        note(samples, shape, family, 0, name, values);
    }
    let mut hook_alone = None;
    if options.program {
        let alone = time_alone()?;
        let with_rules: Vec<_> = loaded.iter().map(|(_, one)| one).collect();
        let times = program_times(&hook, &with_rules, injector, limits)?;
        for ((index, _), time) in loaded.iter().zip(times) {
            cells[*index].program = time.map(|time| time + alone);
        }
        hook_alone = Some(alone);
    }
    Ok(Row {
        shape,
        family,
        floor: summarise(&results[0]),
        bare: summarise(&results[1]),
        hook: summarise(&differences(&results[2], &results[1])),
        hook_alone,
        cells,
    })
}

/// What programs take beyond the accepting one, median of three rounds; nothing without programs.
fn program_times(
    hook: &Loaded,
    loaded: &[&Loaded],
    injector: &mut Injector,
    limits: Limits,
) -> Result<Vec<Option<f64>>> {
    let mut beyond = vec![Vec::new(); loaded.len()];
    for _ in 0..3 {
        let Some(empty) = time_per_packet(hook, injector, limits.packets)? else {
            bail!("the accepting program did not see every packet");
        };
        for (one, values) in loaded.iter().zip(&mut beyond) {
            let time = time_per_packet(one, injector, limits.packets)?;
            values.extend(time.map(|time| time - empty));
        }
    }
    let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
    Ok(beyond.into_iter().map(middle).collect())
}

/// Adds one lane's rounds to the samples of a record.
pub fn note(
    samples: &mut Vec<Sample>,
    shape: Shape,
    family: Family,
    rules: usize,
    contender: &str,
    values: &[f64],
) {
    samples.extend(values.iter().enumerate().map(|(round, &value)| Sample {
        shape: shape.name().to_owned(),
        family: family.digit(),
        rules,
        contender: contender.to_owned(),
        round,
        metric: "ns_per_packet",
        value,
    }));
}

/// A refusal where there must be none.
pub fn anyhow_refused(refused: crate::contender::Refused) -> anyhow::Error {
    anyhow::anyhow!(refused.reason)
}

fn table(options: &Options, rows: &[Row]) -> String {
    let smallest = options.sizes.first().copied().unwrap_or(0);
    let compared: Vec<_> = options
        .sizes
        .iter()
        .copied()
        .filter(|&size| size >= 1_000)
        .collect();
    let mut headings = ["family", "floor", "bare", "+hook"]
        .map(str::to_owned)
        .to_vec();
    headings.extend(
        options
            .sizes
            .iter()
            .map(|&size| format!("+{}", grouped(size))),
    );
    headings.extend(
        compared
            .iter()
            .map(|size| format!("{}/{smallest}", grouped(*size))),
    );
    let mut table = Table::new(&headings);
    let mut notes = String::new();
    for row in rows {
        let name = format!("{} {}", row.shape, row.family);
        let base = [row.floor, row.bare, row.hook].map(|one| nanoseconds(one.median));
        let mut cells = [vec![name.clone()], base.to_vec()].concat();
        for cell in &row.cells {
            cells.push(match &cell.added {
                Some(added) => nanoseconds(added.median),
                None => "refused".to_owned(),
            });
            if let Some(reason) = &cell.refused {
                notes += &format!("  {name}, {} rules: {reason}\n", grouped(cell.rules));
            }
        }
        let ratio = |size: &usize| {
            let cell = row.cells.iter().find(|cell| cell.rules == *size);
            cell.and_then(|cell| cell.ratio)
                .map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
        };
        cells.extend(compared.iter().map(ratio));
        table.row(cells);
    }
    let programs = if options.program {
        programs(options, rows)
    } else {
        String::new()
    };
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("\nrefused:\n{notes}")
    };
    format!(
        "{} in INPUT, live frames, {HEADERS} headers; floor and bare path in ns per packet, \
         +N: ns added by N rules, M/N: ratio of whole paths\n\n{}{programs}{notes}",
        options.contender,
        table.text()
    )
}

/// The second table: the programs alone, as BPF_PROG_TEST_RUN would show them with this traffic.
fn programs(options: &Options, rows: &[Row]) -> String {
    let smallest = options.sizes.first().copied().unwrap_or(0);
    let mut headings = ["family", "hook"].map(str::to_owned).to_vec();
    headings.extend(options.sizes.iter().map(|&size| grouped(size)));
    let compared: Vec<_> = options
        .sizes
        .iter()
        .copied()
        .filter(|&size| size >= 1_000)
        .collect();
    headings.extend(
        compared
            .iter()
            .map(|size| format!("{}/{smallest}", grouped(*size))),
    );
    let mut table = Table::new(&headings);
    let text = |value: Option<f64>| value.map_or("-".to_owned(), nanoseconds);
    for row in rows {
        let mut cells = vec![
            format!("{} {}", row.shape, row.family),
            text(row.hook_alone),
        ];
        cells.extend(row.cells.iter().map(|cell| text(cell.program)));
        let first = row.cells.first().and_then(|cell| cell.program);
        for size in &compared {
            let cell = row.cells.iter().find(|cell| cell.rules == *size);
            let ratio = cell.and_then(|cell| cell.program).zip(first);
            cells.push(ratio.map_or("-".to_owned(), |(this, first)| {
                format!("{:.2}", this / first)
            }));
        }
        table.row(cells);
    }
    format!(
        "\nprograms alone, ns: the kernel's run-time statistics over the same traffic, less what \
         they show for an accepting program, plus its BPF_PROG_TEST_RUN time (hook)\n\n{}",
        table.text()
    )
}
