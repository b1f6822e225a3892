//! The transport part of a packet log line.
//!
//! In: a protocol number and the bytes behind the network header. Out: `PROTO=TCP SPT=...` and so
//! on. A later fragment has only its protocol.

use super::{Bytes, Depth, Wants, hex, incomplete, network, put};
use std::net::Ipv4Addr;

const FLAGS: [(u8, &str); 8] = [
    (0x80, "CWR "),
    (0x40, "ECE "),
    (0x20, "URG "),
    (0x10, "ACK "),
    (0x08, "PSH "),
    (0x04, "RST "),
    (0x02, "SYN "),
    (0x01, "FIN "),
];

/// Appends the transport part.
pub fn transport(
    out: &mut String,
    proto: u8,
    bytes: &[u8],
    later: bool,
    wants: Wants,
    depth: Depth,
) {
    let name = match proto {
        6 => "TCP",
        17 => "UDP",
        136 => "UDPLITE",
        1 => "ICMP",
        58 => "ICMPv6",
        51 => "AH",
        50 => "ESP",
        other => {
            put(out, format_args!("PROTO={other} "));
            return;
        }
    };
    put(out, format_args!("PROTO={name} "));
    if later {
        return;
    }
    let packet = Bytes(bytes);
    let done = match proto {
        6 => tcp(out, packet, wants, depth),
        17 | 136 => udp(out, packet),
        1 => icmp(out, packet, wants, depth),
        58 => icmp6(out, packet, wants, depth),
        51 => packet
            .u32(4)
            .map(|spi| put(out, format_args!("SPI={spi:#x} "))),
        _ => packet
            .u32(0)
            .map(|spi| put(out, format_args!("SPI={spi:#x} "))),
    };
    if done.is_none() {
        incomplete(out, bytes.len());
    }
}

fn tcp(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) -> Option<()> {
    packet.u16(18)?;
    put(
        out,
        format_args!("SPT={} DPT={} ", packet.u16(0)?, packet.u16(2)?),
    );
    if wants.tcp_sequence {
        put(
            out,
            format_args!("SEQ={} ACK={} ", packet.u32(4)?, packet.u32(8)?),
        );
    }
    let offset = packet.u8(12)?;
    put(
        out,
        format_args!(
            "WINDOW={} RES=0x{:02x} ",
            packet.u16(14)?,
            (offset & 15) << 2
        ),
    );
    let flags = packet.u8(13)?;
    for (bit, word) in FLAGS {
        if flags & bit != 0 {
            out.push_str(word);
        }
    }
    put(out, format_args!("URGP={} ", packet.u16(18)?));
    let header = usize::from(offset >> 4) * 4;
    if wants.tcp_options && header > 20 && depth == Depth::Outer {
        match packet.0.get(20..header) {
            Some(options) => hex(out, options),
            None => out.push_str("OPT (TRUNCATED)"),
        }
    }
    Some(())
}

fn udp(out: &mut String, packet: Bytes<'_>) -> Option<()> {
    let length = packet.u16(4)?;
    packet.u16(6)?;
    put(
        out,
        format_args!(
            "SPT={} DPT={} LEN={length} ",
            packet.u16(0)?,
            packet.u16(2)?
        ),
    );
    Some(())
}

fn echo(out: &mut String, packet: Bytes<'_>) -> Option<()> {
    put(
        out,
        format_args!("ID={} SEQ={} ", packet.u16(4)?, packet.u16(6)?),
    );
    Some(())
}

/// The packet that an error speaks of, in brackets; errors about errors are not followed.
fn about(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) {
    if let (Depth::Outer, Some(inner)) = (depth, packet.0.get(8..)) {
        out.push('[');
        network(out, inner, wants, Depth::Inner);
        out.push_str("] ");
    }
}

fn icmp(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) -> Option<()> {
    let (kind, code) = (packet.u8(0)?, packet.u8(1)?);
    put(out, format_args!("TYPE={kind} CODE={code} "));
    match kind {
        0 | 8 => echo(out, packet)?,
        12 => {
            put(out, format_args!("PARAMETER={} ", packet.u8(4)?));
            about(out, packet, wants, depth);
        }
        5 => {
            put(
                out,
                format_args!("GATEWAY={} ", Ipv4Addr::from(packet.u32(4)?)),
            );
            about(out, packet, wants, depth);
        }
        3 | 4 | 11 => {
            about(out, packet, wants, depth);
            if (kind, code) == (3, 4) {
                put(out, format_args!("MTU={} ", packet.u16(6)?));
            }
        }
        _ => {}
    }
    Some(())
}

fn icmp6(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) -> Option<()> {
    let (kind, code) = (packet.u8(0)?, packet.u8(1)?);
    put(out, format_args!("TYPE={kind} CODE={code} "));
    match kind {
        128 | 129 => echo(out, packet)?,
        4 => {
            put(out, format_args!("POINTER={:08x} ", packet.u32(4)?));
            about(out, packet, wants, depth);
        }
        1..=3 => {
            about(out, packet, wants, depth);
            if kind == 2 {
                put(out, format_args!("MTU={} ", packet.u32(4)?));
            }
        }
        _ => {}
    }
    Some(())
}
