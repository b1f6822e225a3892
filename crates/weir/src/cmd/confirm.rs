//! `weir confirm`: keep the policy that was applied on trial.
//!
//! In: a trial that is on. Out: it is over and the new policy stays. Run it over a new connection:
//! that it can be run at all is what the trial was about.

use crate::enforce;
use crate::exit::Exit;
use crate::kernel::Kernel;
use crate::output::{Output, report};
use crate::state::boot_time_ms;
use serde::Serialize;

/// Options of `weir confirm`.
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
    confirmed: bool,
    generation: Option<u32>,
}

/// Confirms.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut kernel = Kernel::open(args.netns.as_deref())?;
    // A trial whose time is over can't be confirmed any more, even if nobody has ended it yet.
    enforce::end_trial(&mut kernel, boot_time_ms())?;
    let generation = enforce::confirm(&mut kernel)?;
    let answer = Answer {
        confirmed: generation.is_some(),
        generation,
    };
    if out.is_json() {
        out.object(&report(answer))?;
    } else if generation.is_some() {
        out.line("confirmed: the policy stays")?;
    } else {
        out.line("nothing waits for confirmation")?;
    }
    Ok(match generation {
        Some(_) => Exit::Done,
        None => Exit::Negative,
    })
}
