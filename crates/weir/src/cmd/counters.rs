//! `weir counters`: packets and bytes of the enforced policy.
//!
//! In: the kernel's counters and the kept texts. Out: one line a chain, or with --rules one a rule.
//! `--rules --json` is a list whose objects' fields are an interface that scripts lean on.

use crate::enforce::nothing_enforced;
use crate::exit::Exit;
use crate::input;
use crate::kernel::Kernel;
use crate::output::{Align, Output, Table, number, report};
use crate::rules::{CounterLine, Places};
use serde::Serialize;

/// Options of `weir counters`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Every rule, not only chain policies and totals.
    #[arg(long)]
    rules: bool,
    /// Leave out rules that nothing matched; with --rules.
    #[arg(long, requires = "rules")]
    nonzero: bool,
    /// Print JSON; with --rules a list.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Totals {
    generation: u32,
    chains: Vec<ChainTotal>,
}

/// What a built-in chain's policy counted.
#[derive(Debug, Serialize)]
struct ChainTotal {
    family: &'static str,
    table: &'static str,
    chain: String,
    policy_packets: u64,
    policy_bytes: u64,
    rules: usize,
    rules_matched: usize,
}

/// Prints counters.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let kernel = Kernel::open(args.netns.as_deref())?;
    let generation = kernel.generation().ok_or_else(nothing_enforced)?;
    let saved = kernel.active_texts()?.ok_or_else(nothing_enforced)?;
    let loaded = input::load_saved(&saved)?;
    let policy = loaded.policy()?;
    let counters = kernel.counters(policy.rule_count)?;
    let mut lines = match &loaded.ruleset {
        Some(ruleset) => crate::ipfw::counters::lines(ruleset, &loaded.sources, policy, &counters),
        None => Places::of(policy).counters(&counters),
    };
    if args.nonzero {
        lines.retain(|line| line.packets > 0);
    }
    match (args.rules, out.is_json()) {
        (true, true) => out.object(&lines)?,
        (true, false) => out.table(&rules_table(&lines))?,
        (false, json) => {
            let chains = totals(&lines);
            match json {
                true => out.object(&report(Totals { generation, chains }))?,
                false => out.table(&chains_table(&chains))?,
            }
        }
    }
    Ok(Exit::Done)
}

fn totals(lines: &[CounterLine]) -> Vec<ChainTotal> {
    let mut out: Vec<ChainTotal> = Vec::new();
    for line in lines {
        let policy = line.is_policy();
        let same = |total: &&mut ChainTotal| {
            (total.family, total.table, &total.chain) == (line.family, line.table, &line.chain)
        };
        if let Some(total) = out.last_mut().filter(same) {
            if policy {
                (total.policy_packets, total.policy_bytes) = (line.packets, line.bytes);
            } else {
                total.rules += 1;
                total.rules_matched += usize::from(line.packets > 0);
            }
            continue;
        }
        out.push(ChainTotal {
            family: line.family,
            table: line.table,
            chain: line.chain.clone(),
            policy_packets: if policy { line.packets } else { 0 },
            policy_bytes: if policy { line.bytes } else { 0 },
            rules: usize::from(!policy),
            rules_matched: usize::from(!policy && line.packets > 0),
        });
    }
    out
}

fn rules_table(lines: &[CounterLine]) -> Table {
    let mut table = Table::new(&[
        ("packets", Align::Right),
        ("bytes", Align::Right),
        ("family", Align::Left),
        ("table", Align::Left),
        ("chain", Align::Left),
        ("rule", Align::Right),
        ("where", Align::Left),
    ]);
    for line in lines {
        table.row(vec![
            number(line.packets),
            number(line.bytes),
            line.family.to_owned(),
            line.table.to_owned(),
            line.chain.clone(),
            match line.index {
                0 => "policy".to_owned(),
                index => index.to_string(),
            },
            format!("{}:{}", line.file, line.line),
        ]);
    }
    table
}

fn chains_table(chains: &[ChainTotal]) -> Table {
    let mut table = Table::new(&[
        ("family", Align::Left),
        ("table", Align::Left),
        ("chain", Align::Left),
        ("policy packets", Align::Right),
        ("policy bytes", Align::Right),
        ("rules", Align::Right),
        ("matched", Align::Right),
    ]);
    for chain in chains {
        table.row(vec![
            chain.family.to_owned(),
            chain.table.to_owned(),
            chain.chain.clone(),
            number(chain.policy_packets),
            number(chain.policy_bytes),
            number(chain.rules as u64),
            number(chain.rules_matched as u64),
        ]);
    }
    table
}
