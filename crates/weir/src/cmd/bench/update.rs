//! `weir bench update`: single rules put into a rule set in use, and taken out.
//!
//! In: ClassBench filters and packets. Out: how many of the changes were made in place, how long
//! all of them took in this process and until packets in the kernel meet them (there while packets
//! are judged), and what a lookup takes right after the last change, and after the building in the
//! background has ended, beside an image built anew. Every packet's rule is compared in all three.

use super::files;
use crate::bench::changing::{Plan, Times, changes};
use crate::bench::filter::{Flags, Trace};
use crate::bench::policy;
use crate::exit::{Exit, OrExit, failure};
use crate::output::{Output, report};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_engine::compile::{Options, compile};
use weir_engine::image::layout::root_number;
use weir_engine::image::{Aligned, Image};
use weir_engine::lookup::{Key, Lookup};
use weir_engine::packet::{Arrival, build, settle};
use weir_engine::update::{Here, Kept, Live};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_plane::update::Slots;
use weir_policy::model::Policy;

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
    /// Changes a second; 0: one after the other.
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u32,
    /// Seed of what changes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Packets of the trace that the kernel judges while rules change.
const TRAFFIC: usize = 256;

/// The answer.
#[derive(Debug, serde::Serialize)]
struct Answer {
    rules: usize,
    updates: u32,
    here: Times,
    kernel: Option<Times>,
    /// Packets that the kernel judged meanwhile.
    judged: u64,
    rules_after: usize,
    compared: usize,
    differ: usize,
    /// Nanoseconds of a lookup: built anew without and with room for changes, right after the last
    /// change, once all is built.
    fresh_ns: f64,
    roomy_ns: f64,
    changed_ns: f64,
    settled_ns: f64,
}

/// The rule of each key in each image, and the nanoseconds of one lookup (the median of passes that
/// take turns).
fn ask(images: &[&[u8]], model: &Policy, keys: &[Key]) -> anyhow::Result<Vec<(Vec<u32>, f64)>> {
    const PASSES: usize = 9;
    let family = model.chains[0].family;
    let number = root_number(family, policy::HOOK, policy::TABLE).unwrap_or(0);
    // Lines of the image are lines of memory in the kernel's maps, and in no vector of bytes. The
    // images are checked before anything is timed: that reads all of them, and so leaves in the
    // caches what no lookup asked for.
    let aligned: Vec<Aligned> = images.iter().map(|bytes| Aligned::of(bytes)).collect();
    let checked: Result<Vec<Image<'_>>, _> = aligned
        .iter()
        .map(|one| Image::from_bytes(one.bytes()))
        .collect();
    let images = checked.or_exit(Exit::Kernel, "the image is wrong")?;
    let mut found = vec![(vec![0; keys.len()], Vec::new()); images.len()];
    for _ in 0..PASSES {
        for (image, (found, times)) in images.iter().zip(&mut found) {
            let searcher = image.searcher(image.header().roots[number]);
            let began = Instant::now();
            for (key, found) in keys.iter().zip(found.iter_mut()) {
                *found = searcher.first(key);
            }
            times.push(began.elapsed().as_nanos() as f64 / keys.len() as f64);
            for (key, found) in keys.iter().zip(found.iter_mut()) {
                let root = searcher.root();
                let mut entry = image.entry(root, *found);
                // These rules have no tests: it is off, and packets look on behind it.
                while entry.tests > 0 {
                    let at = image.header().roots[number];
                    *found = Lookup::new(image, at, *key).next(*found + 1);
                    entry = image.entry(root, *found);
                }
                *found = entry.rule;
            }
        }
    }
    let median = |(found, mut times): (Vec<u32>, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        (found, times[PASSES / 2])
    };
    Ok(found.into_iter().map(median).collect())
}

/// The changes again, in the kernel, while it judges packets; `None` without it.
fn in_kernel(model: &Policy, trace: &Trace, args: &Args) -> anyhow::Result<(Option<Times>, u64)> {
    if weir_plane::features::check().is_err() {
        return Ok((None, 0));
    }
    let probe = Live::new(model, &Options::default());
    let probe = probe.or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    // Images that are built later may be a little larger.
    let length = probe.image().len() + probe.image().len() / 4;
    let counters = probe.counters() + probe.counters() / 8;
    drop(probe);
    let kernel = Capacity::for_policy(length, counters, 0, 4096).and_then(TestRun::new);
    let kernel = kernel.or_exit(Exit::Kernel, "the programs can't be loaded")?;
    let slots = Slots::of(kernel.instance(), 1, weir_plane::needs::of(model), 0);
    let kept = Kept::new(model, &Options::default(), slots);
    let mut kept = kept.or_exit(Exit::Kernel, "the image can't be put in force")?;
    let family = model.chains[0].family;
    let packets: Vec<(Vec<u8>, Arrival)> = trace.packets[..trace.packets.len().min(TRAFFIC)]
        .iter()
        .filter_map(|packet| {
            let mut packet = policy::datagram(packet, family);
            settle(&mut packet);
            let bytes = build(&packet, TestRun::LIMIT).ok()?;
            Some((bytes, Arrival::of(&packet)))
        })
        .collect();
    let over = AtomicBool::new(false);
    let mut judged = 0;
    let times = std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let times = changes(&mut kept, plan(args));
            over.store(true, Ordering::SeqCst);
            times
        });
        while !over.load(Ordering::SeqCst) {
            for (bytes, arrival) in &packets {
                judged += u64::from(kernel.judge(family, bytes, arrival, 0).is_ok());
            }
            if packets.is_empty() {
                std::thread::yield_now();
            }
        }
        changing.join()
    });
    let times = times.map_err(|_| failure(Exit::Kernel, "the changes failed"))?;
    Ok((Some(times), judged))
}

fn plan(args: &Args) -> Plan {
    Plan {
        updates: args.updates,
        seed: args.seed,
        rate: args.rate,
    }
}

/// Measures.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (set, trace) = files::read(&args.rules, &args.trace, Flags::Ignored)?;
    let model = policy::policy(&set, Flags::Ignored);
    let kept = Kept::new(&model, &Options::default(), Here);
    let mut kept = kept.or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let here = changes(&mut kept, plan(args));
    let changed = kept.live().snapshot();
    kept.finish().or_exit(Exit::Kernel, "the image is wrong")?;
    let settled = kept.live().snapshot();
    if kept.store() != kept.live().image() {
        return Err(failure(Exit::Kernel, "what is in use is not what is known"));
    }
    let (kernel, judged) = in_kernel(&model, &trace, args)?;
    let keys: Vec<Key> = trace.packets.iter().map(policy::key).collect();
    let after = kept.live().policy();
    let fresh = compile(&after, &Options::default())
        .or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let roomy = Live::new(&after, &Options::default())
        .or_exit(Exit::Unsupported, "the rule set can't be compiled")?;
    let images = [&fresh.image[..], roomy.image(), &changed, &settled];
    let answers = ask(&images, &after, &keys)?;
    let expected = &answers[0].0;
    let wrong = |found: &Vec<u32>| expected.iter().zip(found).filter(|(a, b)| a != b).count();
    let differ = answers.iter().map(|(found, _)| wrong(found)).sum();
    let answer = Answer {
        rules: set.filters.len(),
        updates: args.updates,
        here,
        kernel,
        judged,
        rules_after: after.chains[0].rules.len(),
        compared: keys.len() * 2,
        differ,
        fresh_ns: answers[0].1,
        roomy_ns: answers[1].1,
        changed_ns: answers[2].1,
        settled_ns: answers[3].1,
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
    out.line(format!(
        "{} rules, {} changes, {} rules afterwards",
        answer.rules, answer.updates, answer.rules_after
    ))?;
    out.line(answer.here.words("here"))?;
    match &answer.kernel {
        Some(kernel) => {
            out.line(kernel.words("kernel"))?;
            out.line(format!("judged by the kernel meanwhile: {}", answer.judged))?;
        }
        None => out.line("kernel: not there, or no permission")?,
    }
    out.line(format!(
        "lookup: {:.0} ns built anew, {:.0} with room for changes, {:.0} after the last change, \
         {:.0} when all is built; {} packets compared, {} differ",
        answer.fresh_ns,
        answer.roomy_ns,
        answer.changed_ns,
        answer.settled_ns,
        answer.compared,
        answer.differ
    ))
}
