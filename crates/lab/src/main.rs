//! The `weir-lab` program: reads the command line and hands over to one command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_lab::cmd;

/// The performance lab of weir: generated rule sets, live frames, peers side by side.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a generated rule set to standard output
    Rules(cmd::rules::Options),
    /// Does the cost per packet depend on the number of rules?
    Flat(cmd::flat::Options),
    /// Several builds of weir side by side
    Beside(cmd::beside::Options),
    /// All filters side by side
    Peers(cmd::peers::Options),
    /// Seconds and bytes from text to enforced
    Load(cmd::load::Options),
    /// What a packet of an established flow costs
    Established(cmd::established::Options),
    /// Service demand of TCP transactions through stateful rules
    Crr(cmd::crr::Options),
    /// Images without a kernel: build time, bytes, user-plane lookups
    Image(cmd::image::Options),
    /// The classifier over rule-set families and sizes, every answer checked
    Classify(cmd::classify::Options),
    /// Draw the classifier's pictures from its records
    Plot(cmd::plot::Options),
    /// Push packets into somebody else's namespace and time its receive path
    Push(cmd::push::Options),
}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Rules(options) => cmd::rules::run(&options),
        Command::Flat(options) => cmd::flat::run(&options),
        Command::Beside(options) => cmd::beside::run(&options),
        Command::Peers(options) => cmd::peers::run(&options),
        Command::Load(options) => cmd::load::run(&options),
        Command::Established(options) => cmd::established::run(&options),
        Command::Crr(options) => cmd::crr::run(&options),
        Command::Image(options) => cmd::image::run(&options),
        Command::Classify(options) => cmd::classify::run(&options),
        Command::Plot(options) => cmd::plot::run(&options),
        Command::Push(options) => cmd::push::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
