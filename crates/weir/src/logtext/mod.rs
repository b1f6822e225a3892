//! One logged packet as the kernel's packet log writes it.
//!
//! In: a record of a LOG rule. Out: the line that log readers know, `IN=eth0 OUT= MAC=... SRC=...`.
//! The order and spelling of the fields are those of the kernel's `nf_log_syslog` module, observed;
//! a packet that ends early is marked `INCOMPLETE [n bytes]` there as here.

mod transport;

use std::fmt::Write;
use std::net::Ipv4Addr;
use transport::transport;

/// A packet that a LOG rule saw.
#[derive(Clone, Debug, Default)]
pub struct Logged<'a> {
    /// The rule's prefix.
    pub prefix: &'a str,
    /// Receiving interface, empty for packets made here.
    pub in_name: &'a str,
    /// Sending interface, empty for packets that stay.
    pub out_name: &'a str,
    /// Link header of a received packet.
    pub link: &'a [u8],
    /// Bytes from the network header on.
    pub bytes: &'a [u8],
    /// Packet mark.
    pub mark: u32,
    /// User and group of the sending socket.
    pub owner: Option<(u32, u32)>,
    /// What else the rule asked for.
    pub wants: Wants,
}

/// Parts of a line that a rule asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Sequence numbers of TCP.
    pub tcp_sequence: bool,
    /// Options of TCP.
    pub tcp_options: bool,
    /// Options of IP.
    pub ip_options: bool,
    /// The sending socket's owner.
    pub uid: bool,
}

/// Big-endian numbers in a packet that may end early.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        let pair = self.0.get(at..at + 2)?;
        Some(u16::from_be_bytes([pair[0], pair[1]]))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let four = self.0.get(at..at + 4)?;
        Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }
}

/// The line, without a line end.
pub fn line(logged: &Logged<'_>) -> String {
    let mut out = format!(
        "{}IN={} OUT={} ",
        logged.prefix, logged.in_name, logged.out_name
    );
    if !logged.in_name.is_empty() {
        let bytes: Vec<String> = logged.link.iter().map(|b| format!("{b:02x}")).collect();
        put(&mut out, format_args!("MAC={} ", bytes.join(":")));
    }
    network(&mut out, logged.bytes, logged.wants, Depth::Outer);
    if let (true, Some((uid, gid))) = (logged.wants.uid, logged.owner) {
        put(&mut out, format_args!("UID={uid} GID={gid} "));
    }
    if logged.mark != 0 {
        put(&mut out, format_args!("MARK={:#x} ", logged.mark));
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a packet stands alone or inside an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Outer,
    Inner,
}

/// Text into a string, which can't fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn hex(out: &mut String, bytes: &[u8]) {
    out.push_str("OPT (");
    for byte in bytes {
        put(out, format_args!("{byte:02X}"));
    }
    out.push_str(") ");
}

fn incomplete(out: &mut String, bytes: usize) {
    put(out, format_args!("INCOMPLETE [{bytes} bytes] "));
}

fn network(out: &mut String, bytes: &[u8], wants: Wants, depth: Depth) {
    let done = match bytes.first().map(|first| first >> 4) {
        Some(6) => ipv6(out, Bytes(bytes), wants, depth),
        _ => ipv4(out, Bytes(bytes), wants, depth),
    };
    if done.is_none() {
        out.push_str("TRUNCATED ");
    }
}

fn ipv4(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) -> Option<()> {
    let (source, destination) = (packet.u32(12)?, packet.u32(16)?);
    let tos = packet.u8(1)?;
    put(
        out,
        format_args!(
            "SRC={} DST={} LEN={} TOS=0x{:02X} PREC=0x{:02X} TTL={} ID={} ",
            Ipv4Addr::from(source),
            Ipv4Addr::from(destination),
            packet.u16(2)?,
            tos & 0x1e,
            tos & 0xe0,
            packet.u8(8)?,
            packet.u16(4)?,
        ),
    );
    let fragment = packet.u16(6)?;
    for (bit, word) in [(0x8000, "CE "), (0x4000, "DF "), (0x2000, "MF ")] {
        if fragment & bit != 0 {
            out.push_str(word);
        }
    }
    let offset = fragment & 0x1fff;
    if offset != 0 {
        put(out, format_args!("FRAG:{offset} "));
    }
    let header = usize::from(packet.u8(0)? & 15) * 4;
    if wants.ip_options && header > 20 {
        hex(out, packet.0.get(20..header)?);
    }
    let rest = packet.0.get(header..).unwrap_or_default();
    transport(out, packet.u8(9)?, rest, offset != 0, wants, depth);
    Some(())
}

/// Full groups, as the kernel prints them.
fn address6(bytes: &[u8]) -> String {
    let groups: Vec<String> = bytes
        .chunks(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":")
}

fn ipv6(out: &mut String, packet: Bytes<'_>, wants: Wants, depth: Depth) -> Option<()> {
    let word = packet.u32(0)?;
    put(
        out,
        format_args!(
            "SRC={} DST={} LEN={} TC={} HOPLIMIT={} FLOWLBL={} ",
            address6(packet.0.get(8..24)?),
            address6(packet.0.get(24..40)?),
            usize::from(packet.u16(4)?) + 40,
            word >> 20 & 0xff,
            packet.u8(7)?,
            word & 0xf_ffff,
        ),
    );
    let (mut next, mut at, mut later) = (packet.u8(6)?, 40, false);
    loop {
        match next {
            // Hop-by-hop, routing, destination options.
            0 | 43 | 60 => {
                let length = usize::from(packet.u8(at + 1)?) * 8 + 8;
                if wants.ip_options {
                    hex(out, packet.0.get(at..at + length)?);
                }
                (next, at) = (packet.u8(at)?, at + length);
            }
            44 => {
                let field = packet.u16(at + 2)?;
                put(out, format_args!("FRAG:{} ", field & 0xfff8));
                if field & 1 != 0 {
                    out.push_str("INCOMPLETE ");
                }
                put(out, format_args!("ID:{:08x} ", packet.u32(at + 4)?));
                later = field & 0xfff8 != 0;
                (next, at) = (packet.u8(at)?, at + 8);
            }
            _ => break,
        }
    }
    let rest = packet.0.get(at..).unwrap_or_default();
    transport(out, next, rest, later, wants, depth);
    Some(())
}

#[cfg(test)]
mod tests;
