//! `weir bench update`: single rules put into a rule set in use, and taken out.
//!
//! In: ClassBench filters and packets. Out: how many of the changes were made in place, how long
//! they took in this process and until packets in the kernel meet them, and what a lookup takes
//! afterwards beside an image built anew. Every packet's rule is compared in both at the end. Each
//! change takes out a random rule, or puts one of those taken out back at a random number.

use super::files;
use crate::bench::filter::Flags;
use crate::bench::policy;
use crate::exit::{Exit, OrExit, failure};
use crate::output::{Output, report};
use std::path::PathBuf;
use std::time::Instant;
use weir_engine::compile::{Options, compile};
use weir_engine::image::Image;
use weir_engine::image::layout::{Entry, root_number};
use weir_engine::lookup::Key;
use weir_engine::update::{Live, Store};
use weir_plane::load::Capacity;
use weir_plane::swap::Policy as KernelPolicy;
use weir_plane::testrun::TestRun;
use weir_plane::update::InForce;
use weir_policy::model::{ChainId, Policy, Rule};

/// Options of `weir bench update`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filters, as ClassBench writes them.
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// Packets, as ClassBench writes them.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Changes.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    updates: u32,
    /// Seed of what changes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The answer.
#[derive(Debug, serde::Serialize)]
struct Answer {
    rules: usize,
    updates: u32,
    here: Side,
    kernel: Option<Side>,
    rules_after: usize,
    compared: usize,
    differ: usize,
    fresh_ns: f64,
    changed_ns: f64,
}

/// Where changes were made.
#[derive(Debug, serde::Serialize)]
struct Side {
    in_place: usize,
    /// Refused: these need a build.
    refused: usize,
    first_reason: Option<String>,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// Random numbers (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % limit.max(1) as u64) as usize
    }
}

/// Makes the changes.
fn changes(live: &mut Live, store: &mut impl Store, model: &Policy, args: &Args) -> Side {
    let chain = ChainId(0);
    let mut numbers = Numbers(args.seed);
    let mut pool: Vec<Rule> = Vec::new();
    let mut known: Vec<Option<Rule>> = model.chains[0].rules.iter().cloned().map(Some).collect();
    known.resize(live.counters() as usize, None);
    let mut times = Vec::with_capacity(args.updates as usize);
    let (mut refused, mut first_reason) = (0, None);
    for _ in 0..args.updates {
        let length = live.order(chain).map_or(0, <[_]>::len);
        let puts = !pool.is_empty() && numbers.below(2) == 0;
        let at = numbers.below(length);
        let began;
        let done = if puts {
            let taken = numbers.below(pool.len());
            let rule = pool.swap_remove(taken);
            began = Instant::now();
            let done = live.insert(store, chain, at, &rule);
            match done {
                Ok(id) => known[id.0 as usize] = Some(rule),
                Err(_) => pool.push(rule),
            }
            done
        } else {
            began = Instant::now();
            let done = live.delete(store, chain, at);
            pool.extend(done.ok().and_then(|id| known[id.0 as usize].take()));
            done
        };
        match done {
            Ok(_) => times.push(began.elapsed().as_nanos() as f64 / 1e3),
            Err(error) => {
                refused += 1;
                first_reason.get_or_insert_with(|| error.to_string());
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        times
            .get((last as f64 * share) as usize)
            .copied()
            .unwrap_or(0.0)
    };
    Side {
        in_place: times.len(),
        refused,
        first_reason,
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
    }
}

/// The rule of each key, and the nanoseconds of one lookup (the quickest of five passes).
fn ask(bytes: &[u8], model: &Policy, keys: &[Key]) -> anyhow::Result<(Vec<u32>, f64)> {
    let image = Image::from_bytes(bytes).or_exit(Exit::Kernel, "the image is wrong")?;
    let family = model.chains[0].family;
    let root = root_number(family, policy::HOOK, policy::TABLE).unwrap_or(0);
    let searcher = image.searcher(image.header().roots[root]);
    let entries_at = searcher.root().entries_at;
    let mut best = f64::MAX;
    let mut found = vec![0; keys.len()];
    for _ in 0..5 {
        let began = Instant::now();
        for (key, found) in keys.iter().zip(&mut found) {
            *found = searcher.first(key);
        }
        best = best.min(began.elapsed().as_nanos() as f64 / keys.len() as f64);
    }
    let rule = |position: &u32| {
        let entry: Entry = image.read(entries_at + position * size_of::<Entry>() as u32);
        entry.rule
    };
    Ok((found.iter().map(rule).collect(), best))
}

/// The changes again, in the kernel; `None` without it.
fn in_kernel(model: &Policy, args: &Args) -> anyhow::Result<Option<Side>> {
    if weir_plane::features::check().is_err() {
        return Ok(None);
    }
    let built = Live::new(model, &Options::default());
    let mut live = built.or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let length = live.image().len();
    let capacity = Capacity::for_policy(length, live.counters(), 0, 4096);
    let kernel = capacity.and_then(TestRun::new);
    let kernel = kernel.or_exit(Exit::Kernel, "the programs can't be loaded")?;
    let policy = KernelPolicy {
        image: live.image(),
        rules: live.counters(),
        history: 0,
        hooks: weir_plane::needs::of(model),
    };
    let installed = kernel.install(&policy);
    installed.or_exit(Exit::Kernel, "the image can't be put in force")?;
    let mut store = InForce::of(kernel.instance());
    Ok(Some(changes(&mut live, &mut store, model, args)))
}

/// Measures.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (set, trace) = files::read(&args.rules, &args.trace, Flags::Ignored)?;
    let model = policy::policy(&set, Flags::Ignored);
    let built = Live::new(&model, &Options::default());
    let mut live = built.or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let mut image = live.image().to_vec();
    let here = changes(&mut live, &mut image, &model, args);
    if image != live.image() {
        return Err(failure(Exit::Kernel, "what is in use is not what is known"));
    }
    let kernel = in_kernel(&model, args)?;
    let keys: Vec<Key> = trace.packets.iter().map(policy::key).collect();
    let after = live.policy();
    let fresh = compile(&after, &Options::default())
        .or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let (expected, fresh_ns) = ask(&fresh.image, &after, &keys)?;
    let (found, changed_ns) = ask(&live.snapshot(), &after, &keys)?;
    let differ = expected.iter().zip(&found).filter(|(a, b)| a != b).count();
    let answer = Answer {
        rules: set.filters.len(),
        updates: args.updates,
        here,
        kernel,
        rules_after: after.chains[0].rules.len(),
        compared: keys.len(),
        differ,
        fresh_ns,
        changed_ns,
    };
    match out.is_json() {
        true => out.object(&report(&answer))?,
        false => text(&answer, out)?,
    }
    Ok(if differ == 0 {
        Exit::Done
    } else {
        Exit::Negative
    })
}

fn text(answer: &Answer, out: &mut Output) -> anyhow::Result<()> {
    let side = |name: &str, side: &Side| {
        let reason = side.first_reason.as_deref().unwrap_or("none");
        format!(
            "{name}: {} in place, {} refused ({reason}); p50 {:.1} us, p99 {:.1} us, most {:.0} us",
            side.in_place, side.refused, side.p50_us, side.p99_us, side.max_us
        )
    };
    out.line(format!(
        "{} rules, {} changes, {} rules afterwards",
        answer.rules, answer.updates, answer.rules_after
    ))?;
    out.line(side("here", &answer.here))?;
    match &answer.kernel {
        Some(kernel) => out.line(side("kernel", kernel))?,
        None => out.line("kernel: not there, or no permission")?,
    }
    out.line(format!(
        "lookup: {:.0} ns changed, {:.0} ns built anew; {} packets compared, {} differ",
        answer.changed_ns, answer.fresh_ns, answer.compared, answer.differ
    ))
}
