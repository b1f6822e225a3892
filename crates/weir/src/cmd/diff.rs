//! `weir diff OLD NEW`: what a change of rules changes, for every packet there is.
//!
//! In: two policies, each in any language that can be enforced; with one, it is compared with what
//! is enforced. Out: that every packet gets the same, or the classes of packets that don't. No
//! privilege is needed for files. Exit status 0: the same, 1: different.

use crate::diff::{Side, exactly, print, report};
use crate::exit::{Exit, failure};
use crate::input::{self, Loaded, ReadingArgs};
use crate::kernel::Kernel;
use crate::output::{Output, report as framed};
use crate::rules::Places;
use std::path::PathBuf;
use weir_policy::compare::{Compared, Options, PATHS};
use weir_policy::eval::Path;
use weir_policy::model::Family;

/// Options of `weir diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The old rules, then the new ones; one file alone is compared with what is enforced.
    #[arg(required = true, num_args = 1..=2, value_name = "OLD NEW")]
    files: Vec<PathBuf>,
    /// More files of the old policy (sets, the other family, tables).
    #[arg(long, value_name = "FILE")]
    with_old: Vec<PathBuf>,
    /// More files of the new policy.
    #[arg(long, value_name = "FILE")]
    with_new: Vec<PathBuf>,
    /// Language of the old files; guessed when absent.
    #[arg(long, value_name = "DIALECT")]
    old_dialect: Option<String>,
    /// Language of the new files; guessed when absent.
    #[arg(long, value_name = "DIALECT")]
    new_dialect: Option<String>,
    /// What an interface of the files is called here, such as em0=eth0 (ipf, hpux, ipfw).
    #[arg(long, value_name = "OLD=NEW", value_parser = input::interface_pair)]
    interface: Vec<String>,
    /// Only this family.
    #[arg(long, value_name = "FAMILY", value_parser = ["ipv4", "ipv6"])]
    family: Option<String>,
    /// Only verdicts: not how a reject answers, nor marks and the like.
    #[arg(long)]
    verdicts: bool,
    /// Leave out packets whose transport header is cut short, which languages treat differently.
    #[arg(long)]
    whole_headers: bool,
    /// Leave out forwarded packets: for a host that forwards none.
    #[arg(long)]
    no_forwarding: bool,
    /// Logs too.
    #[arg(long, conflicts_with = "verdicts")]
    logs: bool,
    /// Classes of packets to print for each way through the host.
    #[arg(long, value_name = "N", default_value_t = 20)]
    classes: usize,
    /// Network namespace of the enforced policy.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compares.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (old, new) = match args.files.as_slice() {
        [old, new] => (
            load(old, &args.with_old, args.old_dialect.as_deref(), args)?,
            load(new, &args.with_new, args.new_dialect.as_deref(), args)?,
        ),
        [new, ..] => {
            // First the file: opening the kernel's side enters a namespace, and leaves the folder.
            let new = load(new, &args.with_new, args.new_dialect.as_deref(), args)?;
            (enforced(args)?, new)
        }
        [] => return Err(failure(Exit::Usage, "there is nothing to compare")),
    };
    let policies = [old.policy()?, new.policy()?];
    let places = policies.map(Places::of);
    let compared = match args.verdicts {
        true => Compared {
            answers: false,
            changes: false,
            logs: false,
            memory: true,
        },
        false => Compared {
            logs: args.logs,
            ..Compared::default()
        },
    };
    let families = match args.family.as_deref() {
        Some("ipv4") => vec![Family::V4],
        Some(_) => vec![Family::V6],
        None => vec![Family::V4, Family::V6],
    };
    let options = Options {
        compared,
        families,
        paths: PATHS
            .into_iter()
            .filter(|path| !(args.no_forwarding && *path == Path::Forward))
            .collect(),
        whole_headers: args.whole_headers,
        listed: args.classes.max(1000),
        ..Options::default()
    };
    let texts: [&Loaded; 2] = [&old, &new];
    let found = exactly(texts, &options)?;
    let sides = [0, 1].map(|side: usize| Side {
        places: &places[side],
        texts: texts[side],
    });
    let answer = report(&found, &sides);
    match out.is_json() {
        true => out.object(&framed(&answer))?,
        false => print(&answer, args.classes, out)?,
    }
    Ok(if answer.same {
        Exit::Done
    } else {
        Exit::Negative
    })
}

fn load(
    file: &std::path::Path,
    more: &[PathBuf],
    dialect: Option<&str>,
    args: &Args,
) -> anyhow::Result<Loaded> {
    let mut files = vec![file.to_path_buf()];
    files.extend(more.iter().cloned());
    let reading = ReadingArgs {
        dialect: dialect.map(str::to_owned),
        interface: args.interface.clone(),
        ..ReadingArgs::default()
    };
    input::load_files(&files, &reading)
}

fn enforced(args: &Args) -> anyhow::Result<Loaded> {
    let kernel = Kernel::open(args.netns.as_deref())?;
    match kernel.active_texts()? {
        Some(saved) => input::load_saved(&saved),
        None => Err(failure(
            Exit::Usage,
            "no policy is enforced here: name two files",
        )),
    }
}
