//! `weir-lab established`: what a packet of an established flow costs.
//!
//! UDP flows, opened from inside (one datagram out per flow), then answered by the injector. The
//! last rule drops, so that every packet which arrives was found ESTABLISHED: a filter that loses
//! a flow fails the measurement instead of being quick.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::flat::anyhow_refused;
use super::{Common, grouped, nanoseconds};
use crate::contender::{Contender, Loaded, Loader};
use crate::inject::Injector;
use crate::measure::{Lane, Limits, rounds};
use crate::record::{Sample, Table};
use crate::rules::{Last, RuleSet, Shape};
use crate::space::{Address, Family};
use crate::stats::{Summary, differences, summarise};
use crate::sys;
use crate::trace::Trace;

/// Options of `established`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of flows
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 65_536])]
    flows: Vec<usize>,
    /// Numbers of rules behind the state rule [default: 25,25600; with --quick 1000]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Contenders beside the bare path
    #[arg(long, value_delimiter = ',', default_value = "legacy,nft,weir")]
    contenders: Vec<Contender>,
    /// Measure IPv6 instead of IPv4
    #[arg(long)]
    v6: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    flows: usize,
    rules: usize,
    bare: Summary,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Serialize)]
struct Cell {
    contender: Contender,
    refused: Option<String>,
    added: Option<Summary>,
}

/// Runs the command.
///
/// # Errors
/// When the machine refuses to measure, or a filter drops a packet of an established flow.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let loader = options.common.loader();
    let limits = options.common.limits();
    let family = if options.v6 { Family::V6 } else { Family::V4 };
    let sizes = match (&options.sizes[..], options.common.quick) {
        ([], true) => vec![1_000],
        ([], false) => vec![25, 25_600],
        (given, _) => given.to_vec(),
    };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for &flows in &options.flows {
        let trace = Trace::udp_flows(family, flows, options.common.seed);
        let mut injector = Injector::new(&trace)?;
        for &size in &sizes {
            eprintln!(
                "established: {} flows, {} rules",
                grouped(flows),
                grouped(size)
            );
            let mut set = RuleSet::generate(Shape::Stateful, size, options.common.seed, family);
            set.last = Last::Drop;
            let row = one(
                options,
                &set,
                &trace,
                &loader,
                &mut injector,
                limits,
                &mut samples,
            )?;
            rows.push(row);
        }
    }
    options
        .common
        .finish("established", &table(options, &rows), &rows, &samples)
}

fn one(
    options: &Options,
    set: &RuleSet,
    trace: &Trace,
    loader: &Loader,
    injector: &mut Injector,
    limits: Limits,
    samples: &mut Vec<Sample>,
) -> Result<Row> {
    let bare = loader.load(Contender::None, set)?.map_err(anyhow_refused)?;
    // Sockets stay open to the end; one binding, so none closes before its namespace goes.
    let mut sockets = vec![open_flows(&bare, trace)?];
    let (mut loaded, mut cells) = (Vec::new(), Vec::new());
    for &contender in &options.contenders {
        crate::interrupt::check()?;
        let mut refused = None;
        match loader.load(contender, set)? {
            Ok(one) => {
                sockets.push(open_flows(&one, trace)?);
                loaded.push((cells.len(), one));
            }
            Err(why) => refused = Some(why.reason),
        }
        cells.push(Cell {
            contender,
            refused,
            added: None,
        });
    }
    let mut lanes = vec![Lane::Path(&bare)];
    lanes.extend(loaded.iter().map(|(_, one)| Lane::Path(one)));
    let results = rounds(&lanes, injector, limits)?;
    let (flows, rules) = (trace.headers.len(), set.rules.len());
    let mut note = |contender: &str, values: &[f64]| {
        samples.extend(values.iter().enumerate().map(|(round, &value)| Sample {
            shape: format!("established-{flows}"),
            family: set.family.digit(),
            rules,
            contender: contender.to_owned(),
            round,
            metric: "ns_per_packet",
            value,
        }));
    };
    note("none", &results[0]);
    for ((index, one), path) in loaded.iter().zip(&results[1..]) {
        cells[*index].added = Some(summarise(&differences(path, &results[0])));
        note(one.contender.name(), path);
    }
    drop(sockets);
    Ok(Row {
        flows,
        rules,
        bare: summarise(&results[0]),
        cells,
    })
}

/// Sends one datagram to the far end of every flow, from a socket that throws answers away.
///
/// # Errors
/// When a socket can't be had or sent from.
pub fn open_flows(loaded: &Loaded, trace: &Trace) -> Result<UdpSocket> {
    let first = trace.headers.first().context("no flows")?;
    let family = trace.family;
    let here = SocketAddr::new(ip(first.destination, family), first.destination_port);
    loaded.namespace.enter(|| {
        let socket = UdpSocket::bind(here).with_context(|| format!("cannot bind {here}"))?;
        sys::discard_input(&socket)?;
        for header in &trace.headers {
            let there = SocketAddr::new(ip(header.source, family), header.source_port);
            socket
                .send_to(&[0], there)
                .with_context(|| format!("cannot send to {there}"))?;
        }
        Ok(socket)
    })
}

fn ip(address: Address, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(address as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(address)),
    }
}

fn table(options: &Options, rows: &[Row]) -> String {
    let mut headings = vec!["flows".to_owned(), "rules".to_owned(), "bare".to_owned()];
    headings.extend(options.contenders.iter().map(ToString::to_string));
    let mut table = Table::new(&headings);
    let mut notes = String::new();
    for row in rows {
        let mut line = vec![
            grouped(row.flows),
            grouped(row.rules),
            nanoseconds(row.bare.median),
        ];
        for cell in &row.cells {
            line.push(
                cell.added
                    .map_or("-".to_owned(), |added| nanoseconds(added.median)),
            );
            if let Some(reason) = &cell.refused {
                notes += &format!("  {}: {reason}\n", cell.contender);
            }
        }
        table.row(line);
    }
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("\nrefused:\n{notes}")
    };
    format!(
        "Added ns per packet of an established UDP flow (state rule first, then the rules, then \
         drop)\n\n{}{notes}",
        table.text()
    )
}
