//! `weir-lab push`: packets into a namespace that somebody else made, timed.
//!
//! For scripts: the namespace and its filter are theirs, the traffic is the lab's. Prints how many
//! packets reached the transport layer and what one cost, so that filters can be compared in turn.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::inject::{Fate, Injector, delivered};
use crate::interrupt;
use crate::measure::Pinned;
use crate::netns::Namespace;
use crate::space::Family;
use crate::stats::{Summary, summarise};
use crate::sys;
use crate::trace::Trace;

/// Options of `push`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The namespace, as `ip netns` shows it
    #[arg(long, value_name = "NAME")]
    netns: String,
    /// The interface in it that packets come in by
    #[arg(long, value_name = "NAME")]
    interface: String,
    /// The address that all packets go to (its family decides theirs)
    #[arg(long, value_name = "ADDRESS")]
    to: IpAddr,
    /// Packets per repetition
    #[arg(long, default_value_t = 65_536)]
    packets: u32,
    /// Repetitions
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Distinct headers
    #[arg(long, default_value_t = 65_536)]
    headers: usize,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    sent: u64,
    delivered: u64,
    ns_per_packet: Summary,
}

/// Runs the command.
///
/// # Errors
/// When the namespace is not there or the kernel refuses to inject.
pub fn run(options: &Options) -> Result<()> {
    interrupt::listen()?;
    let namespace = Namespace::open(&options.netns, &options.interface)?;
    let (family, address) = match options.to {
        IpAddr::V4(address) => (Family::V4, u128::from(u32::from(address))),
        IpAddr::V6(address) => (Family::V6, u128::from(address)),
    };
    let trace = Trace::tcp(family, options.headers.max(1), options.seed).to_address(address);
    let mut injector = Injector::new(&trace)?;
    let before = delivered(&namespace)?;
    let _pinned = Pinned::to_last_cpu()?;
    let mut samples = Vec::new();
    // The first repetition warms caches up and does not count as a sample.
    for repetition in 0..=options.repeat.max(1) {
        interrupt::check()?;
        sys::set_real_time(true)?;
        let time = injector.run(&namespace, options.packets, Fate::Pass);
        sys::set_real_time(false)?;
        let time = time?;
        if repetition > 0 {
            samples.push(time.as_nanos() as f64 / f64::from(options.packets.max(1)));
        }
    }
    let result = Report {
        schema: super::SCHEMA,
        sent: u64::from(options.packets) * (options.repeat.max(1) as u64 + 1),
        delivered: delivered(&namespace)? - before,
        ns_per_packet: summarise(&samples),
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        let Report {
            sent,
            delivered,
            ns_per_packet,
            ..
        } = &result;
        println!(
            "{sent} packets sent, {delivered} delivered, {:.1} ns each",
            ns_per_packet.median
        );
    }
    Ok(())
}
