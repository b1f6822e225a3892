//! `weir flows`: the connections in weir's flow table.
//!
//! In: the kernel's table. Out: one line or one JSON object a flow, in the direction of its first
//! packet, with its state, mark and time left. The table changes while it is read.

use crate::enforce::nothing_enforced;
use crate::exit::{Exit, failure};
use crate::kernel::{Kernel, plane_error};
use crate::output::{Align, Output, Table, count};
use crate::spec::{address, protocol};
use serde::Serialize;
use std::net::IpAddr;
use weir_engine::flow::Flow;
use weir_engine::flow::list::state_name;
use weir_policy::model::Family;

/// Options of `weir flows`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Only flows of this protocol, by name or number.
    #[arg(long, value_name = "PROTOCOL")]
    proto: Option<String>,
    /// Only flows from or to this address.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Print JSON: one object per flow.
    #[arg(long)]
    pub json: bool,
}

/// One flow, in the direction of its first packet.
#[derive(Debug, Serialize)]
struct Record {
    schema: u32,
    family: &'static str,
    proto: String,
    src_ip: IpAddr,
    src_port: Option<u16>,
    dest_ip: IpAddr,
    dest_port: Option<u16>,
    /// Identifier of an ICMP query.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u16>,
    /// State of TCP.
    state: Option<&'static str>,
    answered: bool,
    assured: bool,
    mark: u32,
    seconds_left: f64,
}

/// Lists.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let proto = args.proto.as_deref().map(proto_of).transpose()?;
    let kernel = Kernel::open(args.netns.as_deref())?;
    if kernel.generation().is_none() {
        return Err(nothing_enforced());
    }
    let mut flows = kernel.plane.flows().map_err(plane_error)?;
    flows.retain(|flow| proto.is_none_or(|proto| flow.proto == proto));
    if let Some(wanted) = args.address {
        flows.retain(|flow| ends(flow).contains(&wanted));
    }
    flows.sort_unstable_by_key(|flow| {
        (
            flow.family,
            flow.proto,
            flow.src,
            flow.dst,
            flow.src_port,
            flow.dst_port,
        )
    });
    if out.is_json() {
        for flow in &flows {
            out.record(&record(flow))?;
        }
    } else {
        out.table(&table(&flows))?;
        out.line(count(flows.len() as u64, "flow", "flows"))?;
    }
    Ok(Exit::Done)
}

fn proto_of(word: &str) -> anyhow::Result<u8> {
    let known = word.parse().ok().or_else(|| crate::spec::protocol_of(word));
    known.ok_or_else(|| failure(Exit::Usage, format!("no protocol `{word}`")))
}

fn ends(flow: &Flow) -> [IpAddr; 2] {
    let family = if flow.family == 6 {
        Family::V6
    } else {
        Family::V4
    };
    [address(family, flow.src), address(family, flow.dst)]
}

fn has_ports(flow: &Flow) -> bool {
    matches!(flow.proto, 6 | 17 | 33 | 132 | 136)
}

fn is_icmp(flow: &Flow) -> bool {
    matches!(flow.proto, 1 | 58)
}

fn record(flow: &Flow) -> Record {
    let [source, destination] = ends(flow);
    let port = |port| has_ports(flow).then_some(port);
    Record {
        schema: 1,
        family: if flow.family == 6 { "ipv6" } else { "ipv4" },
        proto: protocol(flow.proto),
        src_ip: source,
        src_port: port(flow.src_port),
        dest_ip: destination,
        dest_port: port(flow.dst_port),
        id: is_icmp(flow).then_some(flow.src_port),
        state: (flow.proto == 6).then(|| state_name(flow.state)),
        answered: flow.answered,
        assured: flow.assured,
        mark: flow.mark,
        seconds_left: f64::from(flow.left_ms) / 1000.0,
    }
}

/// A time in the largest unit of which there are at least two.
fn time_left(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let unit = units.iter().find(|(unit, _)| seconds >= 2 * unit);
    unit.map_or(format!("{seconds} s"), |(unit, name)| {
        format!("{} {name}", seconds / unit)
    })
}

fn table(flows: &[Flow]) -> Table {
    let mut table = Table::new(&[
        ("proto", Align::Left),
        ("source", Align::Left),
        ("destination", Align::Left),
        ("state", Align::Left),
        ("mark", Align::Right),
        ("left", Align::Right),
    ]);
    for flow in flows {
        let [source, destination] = ends(flow);
        let end = |address: IpAddr, port: u16| match (has_ports(flow), address) {
            (true, IpAddr::V4(v4)) => format!("{v4}:{port}"),
            (true, IpAddr::V6(v6)) => format!("[{v6}]:{port}"),
            (false, address) => address.to_string(),
        };
        let state = match (flow.proto, flow.answered) {
            (6, _) => state_name(flow.state).to_owned(),
            (_, true) => "answered".to_owned(),
            (_, false) => "unanswered".to_owned(),
        };
        table.row(vec![
            protocol(flow.proto),
            end(source, flow.src_port),
            end(destination, flow.dst_port),
            state,
            format!("{:#x}", flow.mark),
            time_left(u64::from(flow.left_ms).div_ceil(1000)),
        ]);
    }
    table
}
