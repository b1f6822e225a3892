//! `weir bench generate`: a rule set of a family, and packets for it.
//!
//! In: family, size, seed. Out: files in ClassBench's formats, the same for the same arguments.

use crate::bench::filter::Version;
use crate::bench::generate::genome::Genome;
use crate::bench::generate::trace::{self, Kind};
use crate::bench::generate::{Exhausted, Family, Options, generate};
use crate::bench::write;
use crate::exit::{Exit, OrExit, failure};
use crate::output::{Output, count, report};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Options of `weir bench generate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// acl1 to acl5, fw1 to fw5, ipc1, ipc2: usual shapes; the same with `-blocks` behind them:
    /// imitations of ClassBench's sets of those names; cross, stair, wide, hipac-worst: made
    /// against classifiers; weir-worst, weir-loads, weir-bytes: found by `bench search`.
    #[arg(long, value_name = "FAMILY", value_parser = str::parse::<Family>,
          required_unless_present = "genome")]
    family: Option<Family>,
    /// A set that `bench search` found, by its genome.
    #[arg(long, value_name = "HEX", conflicts_with = "family")]
    genome: Option<Genome>,
    /// How many distinct filters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8_000_000))]
    rules: u32,
    /// The same seed gives the same files.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Where the filters go.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where packets go.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many packets.
    #[arg(long, value_name = "M", default_value_t = 100_000, requires = "trace")]
    packets: u32,
    /// Packets anywhere inside a filter; without it at its corners.
    #[arg(long, requires = "trace", conflicts_with = "mix")]
    interior: bool,
    /// Packets of fields from different filters, values beside their ends, and noise.
    #[arg(long, requires = "trace")]
    mix: bool,
    /// IPv6 addresses.
    #[arg(long)]
    v6: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    family: &'static str,
    version: &'static str,
    seed: u64,
    rules: usize,
    packets: usize,
    out: &'a Path,
    trace: Option<&'a Path>,
}

/// Generates.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let family = match (args.family, args.genome) {
        (_, Some(genome)) => Family::Bred(genome),
        (Some(family), _) => family,
        (None, None) => return Err(failure(Exit::Usage, "--family or --genome is missing")),
    };
    let options = Options {
        version: if args.v6 { Version::V6 } else { Version::V4 },
        ..Options::new(family, args.rules as usize, args.seed)
    };
    let set = generate(&options).map_err(|Exhausted { found }| {
        let message = format!(
            "family {family} has only {found} distinct filters at this size: ask for fewer"
        );
        failure(Exit::Negative, message)
    })?;
    write_file(&args.out, &write::filters(&set))?;
    let mut packets = 0;
    if let Some(path) = &args.trace {
        let kind = match (args.interior, args.mix) {
            (true, _) => Kind::Interior,
            (_, true) => Kind::Mix,
            _ => Kind::Corners,
        };
        let trace = trace::make(&set, args.packets as usize, kind, args.seed);
        packets = trace.packets.len();
        write_file(path, &write::trace(&trace))?;
    }
    let answer = Answer {
        family: family.name(),
        version: options.version.name(),
        seed: args.seed,
        rules: set.filters.len(),
        packets,
        out: &args.out,
        trace: args.trace.as_deref(),
    };
    if out.is_json() {
        out.object(&report(&answer))?;
    } else {
        let rules = count(answer.rules as u64, "filter", "filters");
        out.line(format!(
            "{rules} of {} to {}",
            answer.family,
            args.out.display()
        ))?;
        if let Some(path) = &args.trace {
            let packets = count(packets as u64, "packet", "packets");
            out.line(format!("{packets} to {}", path.display()))?;
        }
    }
    Ok(Exit::Done)
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).or_exit(Exit::Usage, format!("can't write {}", path.display()))
}
