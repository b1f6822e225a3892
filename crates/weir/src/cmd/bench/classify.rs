//! `weir bench classify`: a rule set, a trace, every walker.
//!
//! In: ClassBench files. Out: what compiling cost, what the image is, nanoseconds per lookup of
//! each walker, and how many answers differ from the linear search. Exit status 1 when any does.

use super::answer::{self, Answer, WalkerAnswer};
use super::files;
use crate::bench::changing::{Plan, changes};
use crate::bench::filter::{FilterSet, Flags, Trace};
use crate::bench::linear;
use crate::bench::measure::{self, Effort, Measured};
use crate::bench::policy;
use crate::bench::walk::{self, Asked};
use crate::exit::{Exit, OrExit, failure};
use crate::output::{Output, report};
use crate::progress::Progress;
use std::path::PathBuf;
use std::time::Instant;
use weir_engine::compile::{Compiled, Options, compile};
use weir_engine::image::{Aligned, Image};
use weir_engine::update::{Here, Kept};
use weir_policy::model::Policy;

/// Options of `weir bench classify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filters, as ClassBench writes them.
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// Packets, as ClassBench writes them.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Packets that are handed to a batch walker at once.
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// Threads that look up at the same time, each the whole trace.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Passes over the trace that are timed.
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    passes: u16,
    /// Take the flags columns as a sixth field; without it they are not looked at.
    #[arg(long)]
    flags: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Changes of single rules that are timed; `weir bench update` tells more of them.
const UPDATES: u32 = 1000;

/// Measures.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut progress = Progress::new();
    progress.stage("reading");
    let flags = match args.flags {
        true => Flags::Matched,
        false => Flags::Ignored,
    };
    let (set, trace) = files::read(&args.rules, &args.trace, flags)?;
    progress.stage("compiling");
    let model = policy::policy(&set, flags);
    let began = Instant::now();
    let compiled = compile(&model, &Options::default())
        .or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let build_seconds = began.elapsed().as_secs_f64();
    progress.stage("changing single rules");
    let update_us = update_us(&model);
    drop(model);
    progress.stage("searching linearly");
    let began = Instant::now();
    let expected = linear::search(&set, &trace.packets, flags);
    let linear_ns = began.elapsed().as_secs_f64() * 1e9 / expected.len() as f64;
    let misplaced = misplaced(&set, &trace, &expected, flags);
    let (walkers, absent) = walkers(args, &compiled, &set, &trace, &expected, &mut progress)?;
    let image = Image::from_bytes(&compiled.image).or_exit(Exit::Kernel, "the image is wrong")?;
    progress.clear();
    let answer = Answer::new(answer::Parts {
        rules: &args.rules,
        trace: &args.trace,
        set: &set,
        packets: &trace,
        flags,
        expected: &expected,
        misplaced,
        build_seconds,
        update_us,
        linear_ns,
        batch: args.batch,
        threads: args.threads,
        header: image.header(),
        walkers: walkers
            .iter()
            .map(WalkerAnswer::measured)
            .chain(absent.into_iter().map(WalkerAnswer::absent))
            .collect(),
    });
    if out.is_json() {
        out.object(&report(&answer))?;
    } else {
        answer.text(out)?;
    }
    Ok(match answer.differ + answer.misplaced {
        0 => Exit::Done,
        _ => Exit::Negative,
    })
}

/// The median of the microseconds that a change of a single rule takes, in place or not. `None`:
/// there is no image with room for changes.
fn update_us(model: &Policy) -> Option<f64> {
    let mut kept = Kept::new(model, &Options::default(), Here).ok()?;
    let plan = Plan {
        updates: UPDATES,
        seed: 1,
        rate: 0,
    };
    Some(changes(&mut kept, plan).p50_us)
}

/// Packets whose own filter does not hold for them, or that an answer behind it was found for: the
/// trace is of another rule set, or the linear search is wrong.
fn misplaced(set: &FilterSet, trace: &Trace, expected: &[u32], flags: Flags) -> usize {
    let wrong = |((at, packet), found): ((&u32, _), &u32)| {
        let filter = &set.filters[*at as usize];
        !filter.holds(packet, set.version, flags) || found > at
    };
    let pairs = trace.made_for.iter().zip(&trace.packets).zip(expected);
    pairs.filter(|pair| wrong(*pair)).count()
}

/// Runs all walkers, on as many threads as asked for.
fn walkers(
    args: &Args,
    compiled: &Compiled,
    set: &FilterSet,
    trace: &Trace,
    expected: &[u32],
    progress: &mut Progress,
) -> anyhow::Result<(Vec<Measured>, Vec<walk::Absent>)> {
    let lines = Aligned::of(&compiled.image);
    let image = Image::from_bytes(lines.bytes()).or_exit(Exit::Kernel, "the image is wrong")?;
    let asked = Asked::new(&image, set, &trace.packets)
        .ok_or_else(|| failure(Exit::Kernel, "the image has no root for the filters"))?;
    let effort = Effort {
        passes: args.passes.into(),
    };
    let with = walk::With {
        batch: args.batch.into(),
        threads: args.threads.into(),
    };
    let (mut here, absent) = walk::all(&asked, with);
    if args.threads == 1 {
        let tick = |pass: usize, of: usize| progress.stage(&format!("pass {} of {of}", pass + 1));
        let measured = measure::measure(&mut here, &asked, expected, effort, tick)?;
        return Ok((measured, absent));
    }
    drop(here);
    let each = |_| {
        let (mut walkers, _) = walk::all(&asked, with);
        measure::measure(&mut walkers, &asked, expected, effort, |_, _| ())
    };
    let parts: Vec<anyhow::Result<Vec<Measured>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads)
            .map(|n| scope.spawn(move || each(n)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let died = |_| Err(failure(Exit::Kernel, "a measuring thread died"));
            thread.join().unwrap_or_else(died)
        };
        threads.into_iter().map(join).collect()
    });
    let mut sum: Vec<Measured> = Vec::new();
    for part in parts {
        measure::merge(&mut sum, part?);
    }
    Ok((sum, absent))
}
