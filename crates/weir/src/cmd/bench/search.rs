//! `weir bench search`: rule sets that our own engine likes least.
//!
//! In: what hurts, a size, seconds. Out: the worst genomes found, for `generate --genome`. Exit
//! status 1 when an answer was wrong.

use crate::bench::filter::Version;
use crate::bench::generate::genome::Genome;
use crate::bench::search::{Cost, Found, Goal, Plan, search};
use crate::exit::Exit;
use crate::output::{Align, Output, Table, bytes, count, number, report};
use crate::progress::Progress;
use serde::Serialize;
use std::time::Duration;

/// Options of `weir bench search`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is looked for.
    #[arg(long, value_enum, default_value = "ns")]
    goal: Goal,
    /// Filters of every set that is tried.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rules: u32,
    /// How long.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u32,
    /// Seed of the search and of the sets.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// IPv6 addresses.
    #[arg(long)]
    v6: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer {
    rules: u32,
    seed: u64,
    tried: usize,
    refused: usize,
    refusal: Option<String>,
    differ: usize,
    worst: Vec<Worst>,
}

#[derive(Serialize)]
struct Worst {
    genome: String,
    #[serde(flatten)]
    cost: Cost,
}

/// Searches.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let plan = Plan {
        goal: args.goal,
        rules: args.rules as usize,
        seed: args.seed,
        time: Duration::from_secs(args.seconds.into()),
        version: if args.v6 { Version::V6 } else { Version::V4 },
    };
    let mut progress = Progress::new();
    let found = search(&plan, |found| {
        progress.count(|| {
            let worst = found
                .worst
                .first()
                .map_or(0.0, |worst| worst.1.of(plan.goal));
            format!("{} sets, the worst {worst:.1}", found.tried)
        });
    })?;
    drop(progress);
    let answer = answer(args, &found);
    if out.is_json() {
        out.object(&report(&answer))?;
    } else {
        text(out, &answer)?;
    }
    Ok(match answer.differ {
        0 => Exit::Done,
        _ => Exit::Negative,
    })
}

fn answer(args: &Args, found: &Found) -> Answer {
    let worst = |(genome, cost): &(Genome, Cost)| Worst {
        genome: genome.to_string(),
        cost: *cost,
    };
    let refusal = found.refusal.as_ref();
    Answer {
        rules: args.rules,
        seed: args.seed,
        tried: found.tried,
        refused: found.refused,
        refusal: refusal.map(|(genome, why)| format!("{genome}: {why}")),
        differ: found.worst.iter().map(|(_, cost)| cost.differ).sum(),
        worst: found.worst.iter().map(worst).collect(),
    }
}

fn text(out: &mut Output, answer: &Answer) -> anyhow::Result<()> {
    let rules = count(answer.rules.into(), "filter", "filters");
    out.line(format!(
        "{} sets of {rules} tried",
        number(answer.tried as u64)
    ))?;
    if let Some(refusal) = &answer.refusal {
        out.line(format!(
            "{} refused by the compiler, as {refusal}",
            answer.refused
        ))?;
    }
    let mut table = Table::new(&[
        ("genome", Align::Left),
        ("ns", Align::Right),
        ("loads", Align::Right),
        ("image", Align::Right),
        ("build s", Align::Right),
        ("differ", Align::Right),
    ]);
    for Worst { genome, cost } in &answer.worst {
        table.row(vec![
            genome.clone(),
            format!("{:.1}", cost.ns),
            number(cost.loads.into()),
            bytes(cost.bytes as u64),
            format!("{:.3}", cost.build),
            number(cost.differ as u64),
        ]);
    }
    out.table(&table)
}
