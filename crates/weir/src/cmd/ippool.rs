//! `weir ippool`: address tables of the enforced rules, or of a file, with the options of
//! IPFilter's `ippool`.
//!
//! In: one of -f, -l, -a, -r, -A, -R, -F, -s. Out: other tables in force, together with the rules
//! that ask for them; or tables printed. With -n files are only read.

use super::ipnat::{read, tell};
use crate::exit::{Exit, failure};
use crate::ipf::live::{Hits, Live};
use crate::ipf::pools::{self, Which};
use crate::output::{Output, count};
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::pool::{self, Shape, Table};

/// Options of `weir ippool`.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the original's flags"
)]
pub struct Args {
    /// Load the tables of a file; `-` is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// List tables.
    #[arg(short = 'l')]
    list: bool,
    /// Add an address to a table.
    #[arg(short = 'a', requires = "address")]
    add: bool,
    /// Take an address out of a table.
    #[arg(short = 'r', requires = "address")]
    remove: bool,
    /// Add an empty table.
    #[arg(short = 'A')]
    add_table: bool,
    /// Take a table away; with -f: resolve no names (none are).
    #[arg(short = 'R')]
    remove_table: bool,
    /// Take all tables away, or those of a role and a type.
    #[arg(short = 'F')]
    flush: bool,
    /// How many tables and addresses there are.
    #[arg(short = 's')]
    statistics: bool,
    /// With -f: take its tables away instead.
    #[arg(short = 'u', requires = "file")]
    unload: bool,
    /// The address, with a mask if it is a network.
    #[arg(short = 'i', value_name = "ADDRESS")]
    address: Option<String>,
    /// The name of the table.
    #[arg(short = 'm', value_name = "NAME")]
    name: Option<String>,
    /// The role of the table; -a, -r, -A and -R mean role ipf without it, others every role.
    #[arg(short = 'o', value_name = "ROLE")]
    role: Option<String>,
    /// The type of the table.
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// Seed of a hash.
    #[arg(short = 'S', value_name = "SEED")]
    seed: Option<u32>,
    /// Only read; change nothing.
    #[arg(short = 'n')]
    nothing: bool,
    /// Print what is loaded.
    #[arg(short = 'v')]
    verbose: bool,
    /// Accepted, and means nothing here.
    #[arg(short = 'd', hide = true)]
    debug: bool,
    /// Network namespace; default: the present one.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

/// The tables of a file.
fn given(path: &Path) -> anyhow::Result<Vec<Table>> {
    let (text, sources, id) = read(path)?;
    let (file, found) = pool::parse(&text, id);
    tell(&found, &sources)?;
    Ok(file.tables)
}

/// Does it.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    check(args)?;
    if let Some(role) = &args.role {
        pools::role(role)?;
    }
    let which = Which {
        name: args.name.clone(),
        role: args.role.clone(),
        kind: args.kind.clone(),
    };
    let mut loaded = match &args.file {
        Some(path) => given(path)?,
        None => Vec::new(),
    };
    if args.verbose {
        out.raw(pools::text(loaded.clone()).as_bytes())?;
    }
    if args.nothing && args.file.is_some() {
        return Ok(Exit::Done);
    }
    if let Some(path) = &args.file {
        // Before the namespace is entered: the folder may be another there.
        for table in &mut loaded {
            pools::anchor(table, path);
        }
    }
    let mut live = match args.list || args.statistics || args.nothing {
        true => Live::open(args.netns.as_deref())?,
        false => Live::open_to_change(args.netns.as_deref())?,
    };
    let before = pools::tables(&live.rules);
    if args.list {
        let tables = pools::meant(&before, &which);
        out.raw(pools::text(tables).as_bytes())?;
        return Ok(Exit::Done);
    }
    if args.statistics {
        return statistics(&pools::meant(&before, &which), out);
    }
    let mut tables = before.clone();
    let said = change(args, &which, loaded, &mut tables)?;
    if !args.nothing && tables != before {
        live.set_pools(pools::text(tables));
        let rules = live.listed();
        live.replace(&rules, Hits::default())?;
    }
    // Only now it is so.
    said.map_or(Ok(()), |said| out.line(said))?;
    Ok(Exit::Done)
}

/// The tables as they are to be, and what to say of that.
fn change(
    args: &Args,
    which: &Which,
    loaded: Vec<Table>,
    tables: &mut Vec<Table>,
) -> anyhow::Result<Option<String>> {
    match (&args.file, &args.address) {
        (Some(_), _) if args.unload => pools::unload(tables, &loaded)?,
        (Some(_), _) => pools::load(tables, loaded),
        (None, Some(address)) if args.add || args.remove => {
            pools::change(tables, which, address, args.remove)?;
        }
        _ if args.add_table => pools::add(tables, which, args.seed)?,
        _ if args.flush => {
            let gone = count(pools::flush(tables, which) as u64, "object", "objects");
            return Ok(Some(format!("{gone} flushed")));
        }
        _ => pools::remove(tables, which)?,
    }
    Ok(None)
}

fn statistics(tables: &[Table], out: &mut Output) -> anyhow::Result<Exit> {
    let of = |hash: bool| {
        let is_hash = move |table: &&Table| matches!(table.shape, Shape::Hash) == hash;
        tables.iter().filter(is_hash)
    };
    for (word, hash) in [("Pools", false), ("Hash Tables", true)] {
        let nodes: usize = of(hash).map(|table| table.entries.len()).sum();
        out.line(format!("{word}:\t{}", of(hash).count()))?;
        out.line(format!("Nodes:\t{nodes}"))?;
    }
    Ok(Exit::Done)
}

/// One thing is done at a time.
fn check(args: &Args) -> anyhow::Result<()> {
    let wanted = [
        args.file.is_some(),
        args.list,
        args.add,
        args.remove,
        args.add_table,
        args.remove_table && args.file.is_none(),
        args.flush,
        args.statistics,
    ];
    match wanted.iter().filter(|wanted| **wanted).count() {
        1 => Ok(()),
        _ => Err(failure(
            Exit::Usage,
            "give one of -f FILE, -l, -a, -r, -A, -R, -F and -s",
        )),
    }
}
