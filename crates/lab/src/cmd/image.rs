//! `weir-lab image`: what the compiler makes of each family, without a kernel and without root.
//!
//! Prints build time, image size, how the rules were stored, and the cost of a lookup in user
//! space over the traffic. Every lookup must end at the last rule, else the command fails.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use weir_engine::compile::{Options as CompileOptions, RootReport, compile};
use weir_engine::image::Image;
use weir_engine::image::layout::{kind_of, root_number};
use weir_engine::lookup::{Key, Lookup};
use weir_engine::packet::key::{fragment, transport};
use weir_policy::model::{CtState, Hook, Table};

use super::flat::HEADERS;
use super::{Common, families, grouped, nanoseconds};
use crate::inject::thread_time;
use crate::record::{Sample, Table as TextTable};
use crate::rules::{Header, RuleSet, Shape, iptables, policy};
use crate::space::Family;
use crate::stats::median;
use crate::trace::Trace;

/// Options of `image`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules
    #[arg(long, value_delimiter = ',', default_values_t = [25, 1_000, 25_600, 100_000])]
    sizes: Vec<usize>,
    /// Rule-set families [default: all stateless ones]
    #[arg(long, value_delimiter = ',')]
    families: Vec<Shape>,
    /// Measure IPv6 as well
    #[arg(long)]
    v6: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    shape: Shape,
    family: Family,
    rules: usize,
    /// Why there is no image.
    refused: Option<String>,
    /// From text to rule model.
    read_seconds: f64,
    /// From rule model to image.
    build_seconds: f64,
    bytes: usize,
    entries: usize,
    terms: usize,
    hashed: usize,
    tables: usize,
    chunks: usize,
    worst_loads: u32,
    /// Nanoseconds of one lookup, median over rounds.
    lookup: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// When an image is broken or a lookup ends at a wrong rule.
pub fn run(options: &Options) -> Result<()> {
    let shapes = match &options.families[..] {
        [] => Shape::ALL
            .into_iter()
            .filter(|one| *one != Shape::Stateful)
            .collect(),
        given => given.to_vec(),
    };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for family in families(options.v6, true) {
        let trace = Trace::tcp(family, HEADERS, options.common.seed);
        for &shape in &shapes {
            for &size in &options.sizes {
                let row = one(options, shape, size, &trace)?;
                samples.extend(row.lookup.map(|value| Sample {
                    shape: shape.name().to_owned(),
                    family: family.digit(),
                    rules: size,
                    contender: "user-plane".to_owned(),
                    round: 0,
                    metric: "lookup_ns",
                    value,
                }));
                rows.push(row);
            }
        }
    }
    options
        .common
        .finish("image", &table(&rows), &rows, &samples)
}

fn one(options: &Options, shape: Shape, size: usize, trace: &Trace) -> Result<Row> {
    let family = trace.family;
    let set = RuleSet::generate(shape, size, options.common.seed, family);
    let text = iptables::text(&set);
    let start = Instant::now();
    let policy = policy::read(&text)?;
    let read_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let compiled = compile(&policy, &CompileOptions::default());
    let build_seconds = start.elapsed().as_secs_f64();
    let mut row = Row {
        shape,
        family,
        rules: size,
        refused: None,
        read_seconds,
        build_seconds,
        bytes: 0,
        entries: 0,
        terms: 0,
        hashed: 0,
        tables: 0,
        chunks: 0,
        worst_loads: 0,
        lookup: None,
    };
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(error) => {
            row.refused = Some(error.to_string());
            return Ok(row);
        }
    };
    row.bytes = compiled.image.len();
    let mut roots = compiled.report.roots.iter();
    if let Some(report) = roots.find(|root| root.hook == Hook::Input) {
        fill(&mut row, report);
    }
    let image = Image::from_bytes(&compiled.image)
        .map_err(|error| anyhow::anyhow!("the compiler made a broken image: {error:?}"))?;
    let model_family = match family {
        Family::V4 => weir_policy::model::Family::V4,
        Family::V6 => weir_policy::model::Family::V6,
    };
    let number = root_number(model_family, Hook::Input, Table::Filter);
    let root = image.header().roots[number.context("INPUT has a root")?];
    let keys: Vec<Key> = trace.headers.iter().map(key).collect();
    row.lookup = Some(time(&image, root, &keys, options.common.limits().rounds)?);
    Ok(row)
}

fn fill(row: &mut Row, report: &RootReport) {
    row.entries = report.entries;
    row.terms = report.terms;
    row.hashed = report.hashed;
    row.tables = report.tables;
    row.chunks = report.chunks;
    row.worst_loads = report.worst_loads;
}

/// The key of a packet of the trace: whole, TCP with RST, a new connection as far as that goes.
fn key(header: &Header) -> Key {
    Key {
        address: [header.source, header.destination],
        port: [header.source_port, header.destination_port],
        proto: header.protocol,
        kind: kind_of(
            transport::TCP,
            fragment::WHOLE,
            (CtState::New as u8).trailing_zeros() as u8,
        ),
        flags: 4,
        class: [0, 0],
    }
}

/// Nanoseconds of one lookup.
fn time(image: &Image, root: u32, keys: &[Key], rounds: usize) -> Result<f64> {
    // The rule that accepts is the last but the chain's policy, or the policy itself when the
    // compiler found them to be the same.
    let entries = Lookup::new(image, root, keys[0]).root().entries;
    for key in keys {
        let found = Lookup::new(image, root, *key).next(0);
        ensure!(
            found + 2 >= entries,
            "a lookup ended at entry {found} of {entries}: no rule matches this traffic"
        );
    }
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = thread_time();
        for key in keys {
            black_box(Lookup::new(image, root, black_box(*key)).next(0));
        }
        let time = thread_time() - start;
        samples.push(time.as_nanos() as f64 / keys.len() as f64);
    }
    Ok(median(&samples))
}

fn table(rows: &[Row]) -> String {
    let headings = [
        "family", "rules", "read ms", "build ms", "KiB", "B/rule", "entries", "terms", "hashed",
        "tables", "chunks", "loads", "ns",
    ];
    let mut table = TextTable::new(&headings.map(str::to_owned));
    let mut notes = String::new();
    for row in rows {
        let name = format!("{} {}", row.shape, row.family);
        if let Some(reason) = &row.refused {
            notes += &format!("  {name}, {} rules: {reason}\n", grouped(row.rules));
        }
        table.row(vec![
            name,
            grouped(row.rules),
            format!("{:.1}", row.read_seconds * 1000.0),
            format!("{:.1}", row.build_seconds * 1000.0),
            grouped(row.bytes.div_ceil(1024)),
            format!("{:.0}", row.bytes as f64 / row.rules.max(1) as f64),
            grouped(row.entries),
            grouped(row.terms),
            grouped(row.hashed),
            grouped(row.tables),
            grouped(row.chunks),
            grouped(row.worst_loads as usize),
            row.lookup.map_or("-".to_owned(), nanoseconds),
        ]);
    }
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("\nrefused:\n{notes}")
    };
    format!(
        "Images and lookups in user space, {HEADERS} headers\n\n{}{notes}",
        table.text()
    )
}
