//! `weir man FOLDER`: manual pages, one for the program and one for each command.

use crate::exit::{Exit, OrExit};
use crate::output::Output;
use clap::CommandFactory;
use std::path::PathBuf;

/// Options of `weir man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the pages go.
    folder: PathBuf,
}

/// Writes the pages.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(crate::cli::Cli::command(), &args.folder))
        .or_exit(Exit::Usage, format!("can't write manual pages to {folder}"))?;
    out.line(format!("manual pages are in {folder}"))?;
    Ok(Exit::Done)
}
