//! `weir`: check, explain, replay and enforce rule files.
//!
//! In: command line arguments. Out: an answer on standard output, messages on standard error, and
//! an exit code from [`exit::Exit`]. This file only connects the parts; each command is in `cmd`.
#![forbid(unsafe_code)]

mod agent;
mod bench;
mod called;
mod capture;
mod cli;
mod cmd;
mod describe;
mod diff;
mod edit;
mod enforce;
mod exit;
mod explain;
mod input;
mod interfaces;
mod ipf;
mod ipfw;
mod kernel;
mod live;
mod nat;
mod netns;
mod output;
mod progress;
mod rules;
mod spec;
mod ssh;
mod state;

use clap::Parser;
use exit::Exit;
use output::{Format, Output};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Called as a tool of a script that is being recorded: answered before anything is parsed.
    if let Some(code) = ipfw::record::shim::run() {
        return code;
    }
    let cli = cli::Cli::parse_from(called::arguments());
    let format = match cli.command.json() {
        true => Format::Json,
        false => Format::Text,
    };
    let mut out = Output::stdout(format);
    let done = cmd::run(cli.command, &mut out);
    let done = done.and_then(|exit| out.flush().map(|()| exit));
    match done {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) if let Some(code) = ipfw::tool::status(&error) => code,
        Err(error) => {
            // What the command had to say before it failed still belongs to the reader.
            let _ = out.failed(&error);
            eprintln!("weir: {error:#}");
            exit::code(&error).into()
        }
    }
}
