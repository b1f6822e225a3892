//! `weir-lab classify`: the classifier over families and sizes, into a record.
//!
//! Runs `weir bench generate` and `weir bench classify`, so that what is measured is what users
//! get. A workload whose answers are not those of `definitions/classify.csv` fails the command, and
//! so does an answer that differs from the linear search: nobody wins by being wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{Common, grouped, nanoseconds};
use crate::record::{Sample, Table};

/// Workloads with verified answers: `family,version,rules,seed,packets,answers`.
const DEFINITIONS: &str = include_str!("../../definitions/classify.csv");
/// The shapes of access lists, firewalls and IP chains.
const USUAL: [&str; 12] = [
    "acl1", "acl2", "acl3", "acl4", "acl5", "fw1", "fw2", "fw3", "fw4", "fw5", "ipc1", "ipc2",
];
/// Packets of a trace; fewer would sit in the caches.
const PACKETS: u32 = 65_536;

/// Options of `classify`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of rules
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    sizes: Vec<usize>,
    /// Families of `weir bench generate` [default: the twelve usual ones]
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// IPv6 addresses
    #[arg(long)]
    v6: bool,
    /// Measure DPDK's librte_acl beside it: the program of peers/rte_acl.c (IPv4)
    #[arg(long, value_name = "PROGRAM")]
    rte_acl: Option<PathBuf>,
    /// Print the lines that definitions/classify.csv should have, and check none
    #[arg(long)]
    define: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    family: String,
    rules: usize,
    answer: Value,
    /// Of librte_acl: algorithm and batch size, nanoseconds, seconds to build.
    rte_acl: Vec<(String, f64, f64)>,
}

/// Runs the command.
///
/// # Errors
/// When weir is missing or fails, or an answer is wrong.
pub fn run(options: &Options) -> Result<()> {
    let weir = options
        .common
        .loader()
        .weir
        .context("no weir beside weir-lab: --weir PATH")?;
    let folder = Folder::new()?;
    let usual = || USUAL.map(str::to_owned).to_vec();
    let families = match options.families.is_empty() {
        true => usual(),
        false => options.families.clone(),
    };
    let mut rows = Vec::new();
    for &rules in &options.sizes {
        for family in &families {
            let name = || format!("{family} with {rules} rules");
            let answer = one(options, &weir, &folder.0, family, rules).with_context(name)?;
            let rte_acl = match &options.rte_acl {
                Some(program) => rte_acl(program, &folder.0).with_context(name)?,
                None => Vec::new(),
            };
            if options.define {
                println!("{}", definition(options, family, rules, &answer));
            } else {
                check(options, family, rules, &answer)?;
                eprintln!(
                    "{family} {rules}: {} ns",
                    walker(&answer, "scalar", "ns_median")
                );
            }
            rows.push(Row {
                family: family.clone(),
                rules,
                answer,
                rte_acl,
            });
        }
    }
    if options.define {
        return Ok(());
    }
    let version = if options.v6 { '6' } else { '4' };
    let samples: Vec<Sample> = rows.iter().flat_map(|row| samples(row, version)).collect();
    options
        .common
        .finish("classify", &table(&rows).text(), &rows, &samples)
}

/// Generates and classifies one workload.
fn one(options: &Options, weir: &Path, folder: &Path, family: &str, rules: usize) -> Result<Value> {
    let [filters, trace] = ["filters", "trace"].map(|name| folder.join(name));
    let (filters, trace) = (filters.display().to_string(), trace.display().to_string());
    let packets = options.common.packets.unwrap_or(PACKETS).to_string();
    let (seed, rules) = (options.common.seed.to_string(), rules.to_string());
    let mut generate = vec!["bench", "generate", "--family", family, "--rules", &rules];
    generate.extend(["--seed", &seed, "--out", &filters, "--trace", &trace]);
    generate.extend(["--packets", &packets]);
    generate.extend(options.v6.then_some("--v6"));
    answer_of(weir, &generate)?;
    let passes = options
        .common
        .rounds
        .unwrap_or(if options.common.quick { 3 } else { 9 });
    let passes = passes.to_string();
    let mut classify = vec!["bench", "classify", "--rules", &filters, "--trace", &trace];
    classify.extend(["--passes", &passes, "--json"]);
    let answer = answer_of(weir, &classify)?;
    let answer: Value = serde_json::from_slice(&answer).context("weir's answer is no JSON")?;
    ensure!(
        answer["differ"] == 0 && answer["misplaced"] == 0,
        "wrong answers: {answer:#}"
    );
    Ok(answer)
}

/// What the program of librte_acl exits with where it can't build the rules.
const CANNOT_BUILD: i32 = 3;

/// What librte_acl takes for the same files, nothing where it can't build them. It may not be wrong
/// either.
fn rte_acl(program: &Path, folder: &Path) -> Result<Vec<(String, f64, f64)>> {
    let files = ["filters", "trace"].map(|name| folder.join(name).display().to_string());
    let arguments = [files[0].as_str(), &files[1]];
    let run = output_of(program, &arguments)?;
    if run.status.code() == Some(CANNOT_BUILD) {
        eprint!("{}", String::from_utf8_lossy(&run.stderr));
        return Ok(Vec::new());
    }
    let text = String::from_utf8(succeeded(program, &arguments, run)?)?;
    let mut out = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [algorithm, batch, ns, differ, build] = fields[..] else {
            bail!("librte_acl says `{line}`");
        };
        ensure!(differ == "0", "librte_acl is wrong: {line}");
        let name = format!("rte_acl {algorithm} batch {batch}");
        out.push((name, ns.parse()?, build.parse()?));
    }
    Ok(out)
}

fn answer_of(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    succeeded(program, arguments, output_of(program, arguments)?)
}

fn output_of(program: &Path, arguments: &[&str]) -> Result<Output> {
    let run = Command::new(program).args(arguments).output();
    run.with_context(|| format!("cannot run {}", program.display()))
}

/// What a program printed, or an error with what it said.
fn succeeded(program: &Path, arguments: &[&str], run: Output) -> Result<Vec<u8>> {
    if !run.status.success() {
        let told = String::from_utf8_lossy(&run.stderr);
        bail!(
            "{} {}: {}: {told}",
            program.display(),
            arguments.join(" "),
            run.status
        );
    }
    Ok(run.stdout)
}

/// The line of a workload in the definitions.
fn definition(options: &Options, family: &str, rules: usize, answer: &Value) -> String {
    let version = answer["family"].as_str().unwrap_or("?");
    let (packets, answers) = (
        &answer["packets"],
        answer["answers"].as_str().unwrap_or("?"),
    );
    format!(
        "{family},{version},{rules},{},{packets},{answers}",
        options.common.seed
    )
}

/// Whether the answers of a workload are those that were written down. Workloads that nobody
/// defined are still compared with the linear search.
fn check(options: &Options, family: &str, rules: usize, answer: &Value) -> Result<()> {
    let line = definition(options, family, rules, answer);
    let (name, _) = line.rsplit_once(',').unwrap_or((&line, ""));
    let known = DEFINITIONS.lines().find(|defined| {
        defined
            .rsplit_once(',')
            .is_some_and(|(defined, _)| defined == name)
    });
    match known {
        Some(defined) if defined != line => {
            bail!("the answers are not the defined ones: {line}, defined: {defined}")
        }
        _ => Ok(()),
    }
}

fn walker(answer: &Value, name: &str, field: &str) -> f64 {
    let walkers = answer["walkers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = walkers.iter().find(|walker| walker["name"] == name);
    found
        .and_then(|walker| walker[field].as_f64())
        .unwrap_or(f64::NAN)
}

const WALKERS: [&str; 5] = ["scalar", "vector", "batch", "ordered", "ebpf"];

fn samples(row: &Row, version: char) -> Vec<Sample> {
    let sample = |contender: &str, metric, value: f64| Sample {
        shape: row.family.clone(),
        family: version,
        rules: row.rules,
        contender: contender.to_owned(),
        round: 0,
        metric,
        value,
    };
    let mut out = Vec::new();
    for name in WALKERS {
        for (field, metric) in [("ns_median", "ns_per_lookup"), ("ns_p99", "ns_p99")] {
            out.push(sample(name, metric, walker(&row.answer, name, field)));
        }
    }
    let fields = [
        ("build_seconds", "build_seconds"),
        ("image_bytes", "image_bytes"),
        ("worst_loads", "worst_loads"),
        ("linear_ns", "linear_ns"),
        ("update_us", "update_us"),
    ];
    for (field, metric) in fields {
        let value = row.answer[field].as_f64().unwrap_or(f64::NAN);
        out.push(sample("weir", metric, value));
    }
    for (name, ns, build) in &row.rte_acl {
        out.push(sample(name, "ns_per_lookup", *ns));
        out.push(sample(name, "build_seconds", *build));
    }
    out.retain(|sample| !sample.value.is_nan());
    out
}

fn table(rows: &[Row]) -> Table {
    let headings = ["family", "rules", "build s", "bytes", "B/rule", "loads"];
    let headings = headings
        .iter()
        .chain(&WALKERS)
        .chain(&["rte_acl"])
        .map(|name| (*name).to_owned());
    let mut table = Table::new(&headings.collect::<Vec<_>>());
    for row in rows {
        let number = |field: &str| row.answer[field].as_f64().unwrap_or(f64::NAN);
        let mut cells = vec![
            row.family.clone(),
            grouped(row.rules),
            format!("{:.3}", number("build_seconds")),
            grouped(number("image_bytes") as usize),
            format!("{:.0}", number("bytes_per_rule")),
            grouped(number("worst_loads") as usize),
        ];
        cells.extend(
            WALKERS.map(|name| match walker(&row.answer, name, "ns_median") {
                ns if ns.is_nan() => "-".to_owned(),
                ns => nanoseconds(ns),
            }),
        );
        let best = row.rte_acl.iter().map(|peer| peer.1).min_by(f64::total_cmp);
        cells.push(best.map_or_else(|| "-".to_owned(), nanoseconds));
        table.row(cells);
    }
    table
}

/// A temporary folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("weir-lab-classify-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
