//! `weir completions SHELL`: a script that completes commands, options and file names.

use crate::exit::Exit;
use crate::output::Output;
use clap::CommandFactory;

/// Options of `weir completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = crate::cli::Cli::command();
    clap_complete::generate(args.shell, &mut command, "weir", &mut script);
    out.raw(&script)?;
    Ok(Exit::Done)
}
