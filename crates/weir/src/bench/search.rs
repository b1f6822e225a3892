//! A random search for the rule sets that our own engine likes least.
//!
//! In: what hurts (nanoseconds, loads, bytes), a size, a seed, seconds. Out: the worst genomes.
//! Random genomes first, then mutations of the worst ones. Every set that is tried is also checked:
//! an answer that differs from the linear search ends the search, and the genome is the report.

use super::filter::{FilterSet, Flags, Version};
use super::generate::genome::Genome;
use super::generate::trace::{self, Kind};
use super::generate::{Family, Options, generate};
use super::measure::Measured;
use super::random::{Random, mix};
use super::walk::{Asked, Walker, scalar};
use super::{linear, measure, policy};
use std::time::{Duration, Instant};
use weir_engine::compile::{self, compile};
use weir_engine::image::Image;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Nanoseconds of a scalar lookup.
    Ns,
    /// Loads that the dearest packet can cause, as the image says.
    Loads,
    /// Bytes of the image.
    Bytes,
    /// Seconds of compiling.
    Build,
}

/// What one rule set costs.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Cost {
    /// Nanoseconds of a scalar lookup, the worst of three kinds of trace.
    pub ns: f64,
    /// Loads that the dearest packet can cause.
    pub loads: u32,
    /// Bytes of the image.
    pub bytes: usize,
    /// Seconds of compiling.
    pub build: f64,
    /// Answers that differ from the linear search.
    pub differ: usize,
}

impl Cost {
    /// The figure that is looked for.
    pub fn of(&self, goal: Goal) -> f64 {
        match goal {
            Goal::Ns => self.ns,
            Goal::Loads => f64::from(self.loads),
            Goal::Bytes => self.bytes as f64,
            Goal::Build => self.build,
        }
    }
}

/// How a search is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is looked for.
    pub goal: Goal,
    /// Filters of every set.
    pub rules: usize,
    /// Seed of the search and of every set.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// Kind of addresses.
    pub version: Version,
}

/// What became of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The worst, worst first.
    pub worst: Vec<(Genome, Cost)>,
    /// Sets that were tried.
    pub tried: usize,
    /// Sets that the compiler refused, and the last of them with its reason.
    pub refused: usize,
    /// A refused genome and why.
    pub refusal: Option<(Genome, String)>,
}

/// Packets of each kind that a set is asked about.
const PACKETS: usize = 2048;
/// The worst sets that mutations start from.
const KEPT: usize = 8;
/// Random sets before mutations begin.
const RANDOM: usize = 32;

/// Searches.
pub fn search(plan: &Plan, mut tell: impl FnMut(&Found)) -> anyhow::Result<Found> {
    let mut random = Random::new(mix(plan.seed ^ 0x7365_6172_6368));
    let mut found = Found {
        worst: vec![],
        tried: 0,
        refused: 0,
        refusal: None,
    };
    let began = Instant::now();
    while began.elapsed() < plan.time {
        let parents = found.worst.len() as u64;
        let genome = if found.tried < RANDOM || parents == 0 || random.chance(0.1) {
            Genome::random(&mut random)
        } else {
            let parent = found.worst[random.below(parents) as usize].0;
            parent.mutated(&mut random)
        };
        let options = Options {
            version: plan.version,
            ..Options::new(Family::Bred(genome), plan.rules, plan.seed)
        };
        // Few genes can make few distinct filters.
        let Ok(set) = generate(&options) else {
            continue;
        };
        found.tried += 1;
        match cost(&set, plan.seed)? {
            Ok(cost) => {
                found.worst.push((genome, cost));
                if cost.differ > 0 {
                    found.worst.rotate_right(1);
                    return Ok(found);
                }
                let by = |cost: &Cost| cost.of(plan.goal);
                found.worst.sort_by(|a, b| by(&b.1).total_cmp(&by(&a.1)));
                found.worst.truncate(KEPT);
            }
            Err(why) => {
                found.refused += 1;
                found.refusal = Some((genome, why));
            }
        }
        tell(&found);
    }
    Ok(found)
}

/// What a rule set costs, or why it can't be compiled.
pub fn cost(set: &FilterSet, seed: u64) -> anyhow::Result<Result<Cost, String>> {
    let model = policy::policy(set, Flags::Ignored);
    let began = Instant::now();
    let compiled = match compile(&model, &compile::Options::default()) {
        Ok(compiled) => compiled,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let build = began.elapsed().as_secs_f64();
    let image = Image::from_bytes(&compiled.image)?;
    let mut cost = Cost {
        loads: image.header().worst_loads,
        bytes: compiled.image.len(),
        build,
        ..Cost::default()
    };
    for kind in Kind::ALL {
        let trace = trace::make(set, PACKETS, kind, seed);
        let expected = linear::search(set, &trace.packets, Flags::Ignored);
        let Some(asked) = Asked::new(&image, set, &trace.packets) else {
            anyhow::bail!("the image has no root for the filters");
        };
        let mut walkers: Vec<Box<dyn Walker + '_>> = vec![Box::new(scalar::Scalar::new(&asked))];
        let effort = measure::Effort { passes: 5 };
        let measured = measure::measure(&mut walkers, &asked, &expected, effort, |_, _| ())?;
        cost.differ += measured.iter().map(|walker| walker.differ).sum::<usize>();
        // The quickest samples are those that nobody disturbed.
        let ns = measured
            .iter()
            .map(|walker: &Measured| walker.quantile(0.2));
        cost.ns = ns.fold(cost.ns, f64::max);
    }
    Ok(Ok(cost))
}
