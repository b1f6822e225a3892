//! `weir unload`: stop enforcing, and leave the namespace as it was found.
//!
//! In: whatever weir has in the kernel and under /run. Out: none of it; a nat table that was handed
//! over is given back. Unloading where nothing is loaded is done, not an error.

use crate::enforce;
use crate::exit::Exit;
use crate::kernel::Kernel;
use crate::output::{Output, report};
use serde::Serialize;

/// Options of `weir unload`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Answer {
    unloaded: bool,
}

/// Unloads.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut kernel = Kernel::open_to_unload(args.netns.as_deref())?;
    let unloaded = enforce::unload(&mut kernel)?;
    if out.is_json() {
        out.object(&report(Answer { unloaded }))?;
    } else if unloaded {
        out.line("unloaded: no policy is enforced here any more")?;
    } else {
        out.line("nothing was loaded here")?;
    }
    Ok(Exit::Done)
}
