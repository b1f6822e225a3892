//! `weir bench`: measure the classifier, and make rule sets to measure it with.

mod answer;
mod change;
mod classify;
mod files;
mod generate;
mod search;
mod update;

use crate::exit::Exit;
use crate::output::Output;

/// Options of `weir bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Look packets up in a ClassBench rule set by every means, and check every answer.
    Classify(classify::Args),
    /// Write a rule set and a trace of packets in ClassBench's formats.
    Generate(generate::Args),
    /// Put rules into a ClassBench rule set in use, and take rules out.
    Update(update::Args),
    /// Take rules of what is enforced in a namespace out and put them back in, through the agent.
    Change(change::Args),
    /// Look for the rule sets that weir's own engine likes least.
    Search(search::Args),
}

impl Args {
    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Classify(args) => args.json,
            Command::Generate(args) => args.json,
            Command::Update(args) => args.json,
            Command::Change(args) => args.json,
            Command::Search(args) => args.json,
        }
    }
}

/// Runs one of them.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Classify(args) => classify::run(args, out),
        Command::Generate(args) => generate::run(args, out),
        Command::Update(args) => update::run(args, out),
        Command::Change(args) => change::run(args, out),
        Command::Search(args) => search::run(args, out),
    }
}
