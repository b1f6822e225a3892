//! `weir agent`: the process that answers rejected packets and watches over trials. Hidden.
//!
//! In: started by `apply` with --detach. Out: with --detach a second process in a session of its
//! own, with its messages in the store's agent.log; without, that second process's work.

use crate::agent;
use crate::exit::{Exit, OrExit};
use crate::netns;
use crate::state::Store;
use std::fs::File;
use std::process::{Command, Stdio};

/// Options of `weir agent`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go on in a process of its own.
    #[arg(long)]
    detach: bool,
}

/// Detaches, or works.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !args.detach {
        agent::watch()?;
        return Ok(Exit::Done);
    }
    // Fails only for one who leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let store = Store::of(netns::identity()?);
    let log = store.root().join("agent.log");
    File::create(&log)
        .and_then(|log| {
            Command::new("/proc/self/exe")
                .arg("agent")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
        })
        .or_exit(Exit::Kernel, "can't start the agent")?;
    Ok(Exit::Done)
}
