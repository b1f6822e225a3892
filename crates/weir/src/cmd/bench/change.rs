//! `weir bench change`: single rules of the policy that is enforced in a namespace taken out and
//! put back in, through the agent, as `weir iptables` does.
//!
//! In: a namespace with IPv4 filter rules in force. Out: the time of each change, from the request
//! on the socket to its answer, and until packets met it as the agent tells; and which ways were
//! taken. The rules afterwards are those of before in another order.

use crate::bench::changing::{Numbers, Times};
use crate::edit::{Answer, Asking, Request, Way};
use crate::enforce::nothing_enforced;
use crate::exit::{Exit, failure};
use crate::kernel::Kernel;
use crate::live::rule_lines;
use crate::output::{Output, report};
use std::time::Instant;
use weir_policy::model::{Family, Table};

/// Options of `weir bench change`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace whose policy is changed.
    #[arg(long, value_name = "NAME")]
    netns: String,
    /// Built-in chain of the table filter.
    #[arg(long, value_name = "CHAIN", default_value = "FORWARD")]
    chain: String,
    /// Changes.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
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
struct Figures {
    rules: usize,
    updates: u32,
    /// From the request to its answer.
    answered: Times,
    /// Until packets met the change.
    met: Times,
}

/// Measures.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let kernel = Kernel::open(Some(&args.netns))?;
    let saved = kernel.active_texts()?.ok_or_else(nothing_enforced)?;
    let mut inside = rule_lines(&saved, Family::V4, Table::Filter, &args.chain)?;
    let asking = Asking::begin(None)?;
    let mut asking = asking.ok_or_else(|| failure(Exit::Kernel, "there is no agent to ask"))?;
    let (rules, mut outside) = (inside.len(), Vec::new());
    let mut numbers = Numbers(args.seed);
    let mut times = [Vec::new(), Vec::new()];
    let (mut answered, mut met) = (Times::default(), Times::default());
    let began = Instant::now();
    for _ in 0..args.updates {
        let out = outside.is_empty() || !inside.is_empty() && numbers.below(2) == 0;
        let line = match out {
            true => {
                let at = numbers.below(inside.len());
                outside.push(inside.remove(at));
                format!("-D {} {}", args.chain, at + 1)
            }
            false => {
                let rule: String = outside.swap_remove(numbers.below(outside.len()));
                let at = numbers.below(inside.len() + 1);
                let words = rule.splitn(3, ' ').nth(2).unwrap_or_default();
                let line = format!("-I {} {} {words}", args.chain, at + 1);
                inside.insert(at, rule);
                line
            }
        };
        let request = Request::Rule(4, "filter".to_owned(), line);
        let asked = Instant::now();
        let answer = asking.ask(&request)?;
        times[0].push(asked.elapsed().as_nanos() as f64 / 1000.0);
        match answer {
            Answer::Done {
                way,
                why,
                microseconds,
            } => {
                times[1].push(microseconds);
                for one in [&mut answered, &mut met] {
                    match (way, &why) {
                        (Way::InPlace, _) => one.in_place += 1,
                        (Way::Rebuilt, why) => {
                            let why = why.clone().unwrap_or_default();
                            *one.rebuilt.entry(why).or_default() += 1;
                        }
                    }
                }
            }
            Answer::Fault(why) | Answer::Unable(why) => {
                return Err(failure(Exit::Kernel, format!("not changed: {why}")));
            }
        }
    }
    for (one, micros) in [&mut answered, &mut met].into_iter().zip(times) {
        one.seconds = began.elapsed().as_secs_f64();
        one.take(micros);
    }
    let figures = Figures {
        rules,
        updates: args.updates,
        answered,
        met,
    };
    if out.is_json() {
        out.object(&report(&figures))?;
        return Ok(Exit::Done);
    }
    out.line(format!("{rules} rules, {} changes", figures.updates))?;
    out.line(figures.answered.words("answered"))?;
    out.line(figures.met.words("met by packets"))?;
    Ok(Exit::Done)
}
