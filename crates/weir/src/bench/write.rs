//! Writing filters and traces as ClassBench's programs do.
//!
//! In: filters, packets. Out: text that `read` takes back to the same values.

use super::filter::{Filter, FilterSet, Trace, Version};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

fn address(value: u128, version: Version) -> String {
    match version {
        Version::V4 => Ipv4Addr::from(value as u32).to_string(),
        Version::V6 => Ipv6Addr::from(value).to_string(),
    }
}

/// The text of a filter file.
pub fn filters(set: &FilterSet) -> String {
    let mut out = String::with_capacity(set.filters.len() * 90);
    for filter in &set.filters {
        let Filter {
            src,
            dst,
            src_port,
            dst_port,
            proto,
            flags,
        } = filter;
        let _ = writeln!(
            out,
            "@{}/{}\t{}/{}\t{} : {}\t{} : {}\t0x{:02x}/0x{:02X}\t0x{:04x}/0x{:04x}\t",
            address(src.first, set.version),
            src.length,
            address(dst.first, set.version),
            dst.length,
            src_port.first,
            src_port.last,
            dst_port.first,
            dst_port.last,
            proto.value,
            proto.mask,
            flags.value,
            flags.mask
        );
    }
    out
}

/// The text of a trace file: five columns, and the filter where it is known.
pub fn trace(trace: &Trace) -> String {
    let mut out = String::with_capacity(trace.packets.len() * 48);
    for (at, packet) in trace.packets.iter().enumerate() {
        let _ = write!(
            out,
            "{}\t{}\t{}\t{}\t{}",
            packet.src, packet.dst, packet.src_port, packet.dst_port, packet.proto
        );
        if let Some(filter) = trace.made_for.get(at) {
            let _ = write!(out, "\t{filter}");
        }
        out.push('\n');
    }
    out
}
