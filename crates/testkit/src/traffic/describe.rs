//! Captured frames as comparable text.
//!
//! In: an Ethernet frame and whether it belongs to a crafted step. Out: one line that holds every
//! field two correct filters must agree on. Left out is what the hosts themselves choose anew in
//! each run: IP identification, flow label, and for real sockets sequence numbers, windows and
//! option values. Checksums are verified, not printed. Source: the RFCs named in `craft`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::craft::{self, FRAGMENT, ICMP, ICMPV6, TCP, UDP, pseudo_header, sum};

/// How much of a packet is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Crafted: also sequence numbers, windows, payload.
    Crafted,
    /// From real sockets: only what the script determines.
    Sockets,
}

/// The text of a frame; `None` for what is not IP.
#[must_use]
pub fn frame(bytes: &[u8], detail: Detail) -> Option<String> {
    let ethertype = u16::from_be_bytes(bytes.get(12..14)?.try_into().ok()?);
    if !matches!(ethertype, 0x0800 | 0x86dd) {
        return None;
    }
    let mac = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let packet = packet(&bytes[14..], detail, Quoted::No);
    Some(format!(
        "[{}>{}] {packet}",
        mac(&bytes[6..12]),
        mac(&bytes[..6])
    ))
}

/// The text of a packet that starts with its network header.
#[must_use]
pub fn network(bytes: &[u8]) -> String {
    packet(bytes, Detail::Crafted, Quoted::No)
}

/// Whether the packet is quoted by an ICMP error, so cut short and its checksums worthless.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    Yes,
}

fn packet(bytes: &[u8], detail: Detail, quoted: Quoted) -> String {
    let text = match bytes.first().map(|byte| byte >> 4) {
        Some(4) => packet_v4(bytes, detail, quoted),
        Some(6) => packet_v6(bytes, detail, quoted),
        _ => None,
    };
    text.unwrap_or_else(|| format!("malformed, {} bytes {}", bytes.len(), digest(bytes)))
}

fn packet_v4(bytes: &[u8], detail: Detail, quoted: Quoted) -> Option<String> {
    let header = usize::from(bytes.first()? & 15) * 4;
    let head = bytes.get(..header).filter(|head| head.len() >= 20)?;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let from: Ipv4Addr = <[u8; 4]>::try_from(&head[12..16]).ok()?.into();
    let to: Ipv4Addr = <[u8; 4]>::try_from(&head[16..20]).ok()?.into();
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    let offset = usize::from(fragment & 0x1fff) * 8;
    let mut text = format!(
        "{from}>{to} ttl {} tos {:#04x} len {total}",
        head[8], head[1]
    );
    if fragment & 0x4000 != 0 {
        text += " DF";
    }
    if fragment & 0x3fff != 0 {
        text += &format!(
            " fragment {offset}{}",
            if fragment & 0x2000 != 0 { "+" } else { "" }
        );
    }
    if header > 20 {
        text += &format!(" options {:02x?}", &head[20..]);
    }
    if quoted == Quoted::No && sum(head, 0) != 0xffff {
        text += " BAD-IP-CHECKSUM";
    }
    let end = total.clamp(header, bytes.len());
    let body = Body {
        bytes: &bytes[header..end],
        protocol: head[9],
        ends: (from.into(), to.into()),
        whole: quoted == Quoted::No && fragment & 0x3fff == 0,
        first: offset == 0,
    };
    Some(format!("{text} {}", body.describe(detail)))
}

fn packet_v6(bytes: &[u8], detail: Detail, quoted: Quoted) -> Option<String> {
    let head = bytes.get(..40)?;
    let total = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let from: Ipv6Addr = <[u8; 16]>::try_from(&head[8..24]).ok()?.into();
    let to: Ipv6Addr = <[u8; 16]>::try_from(&head[24..40]).ok()?.into();
    let class = u16::from_be_bytes([head[0], head[1]]) >> 4 & 0xff;
    let mut text = format!("{from}>{to} hl {} class {class:#04x} len {total}", head[7]);
    let end = (40 + total).clamp(40, bytes.len());
    let (mut rest, mut next) = (&bytes[40..end], head[6]);
    let (mut whole, mut first) = (quoted == Quoted::No, true);
    while let 0 | 43 | 60 | FRAGMENT = next {
        let Some(length) = rest.get(1).map(|words| (usize::from(*words) + 1) * 8) else {
            break;
        };
        let length = if next == FRAGMENT { 8 } else { length };
        let Some(extension) = rest.get(..length) else {
            break;
        };
        if next == FRAGMENT {
            let field = u16::from_be_bytes([extension[2], extension[3]]);
            text += &format!(
                " fragment {}{}",
                field & !7,
                if field & 1 == 1 { "+" } else { "" }
            );
            whole = false;
            first = field & !7 == 0;
        } else {
            text += &format!(" extension {next}");
        }
        (next, rest) = (extension[0], &rest[length..]);
        if !first {
            break;
        }
    }
    let body = Body {
        bytes: rest,
        protocol: next,
        ends: (from.into(), to.into()),
        whole,
        first,
    };
    Some(format!("{text} {}", body.describe(detail)))
}

/// What follows the network header.
struct Body<'a> {
    bytes: &'a [u8],
    protocol: u8,
    ends: (IpAddr, IpAddr),
    whole: bool,
    first: bool,
}

impl Body<'_> {
    fn describe(&self, detail: Detail) -> String {
        let text = match self.protocol {
            _ if !self.first => None,
            TCP => self.tcp(detail),
            UDP => self.udp(),
            ICMP | ICMPV6 => self.icmp(detail),
            _ => None,
        };
        let text = text.unwrap_or_else(|| {
            format!(
                "protocol {} {} bytes {}",
                self.protocol,
                self.bytes.len(),
                digest(self.bytes)
            )
        });
        if self.checksum_is_right() {
            text
        } else {
            text + " BAD-CHECKSUM"
        }
    }

    fn checksum_is_right(&self) -> bool {
        if !self.whole || !matches!(self.protocol, TCP | UDP | ICMP | ICMPV6) {
            return true;
        }
        // UDP over IPv4 may leave the checksum out.
        if self.protocol == UDP && self.bytes.get(6..8) == Some(&[0, 0]) {
            return self.ends.0.is_ipv4();
        }
        let start = match self.protocol {
            ICMP => 0,
            protocol => pseudo_header(self.ends.0, self.ends.1, protocol, self.bytes.len()),
        };
        craft::sum(self.bytes, start) == 0xffff
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(
            self.bytes.get(at..at + 2)?.try_into().ok()?,
        ))
    }

    fn long(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(
            self.bytes.get(at..at + 4)?.try_into().ok()?,
        ))
    }

    fn udp(&self) -> Option<String> {
        let (from, to, length) = (self.word(0)?, self.word(2)?, self.word(4)?);
        Some(format!(
            "udp {from}>{to} length {length} {}",
            digest(self.bytes.get(8..)?)
        ))
    }

    fn tcp(&self, detail: Detail) -> Option<String> {
        let (from, to, bits) = (self.word(0)?, self.word(2)?, u32::from(self.word(12)?));
        let flags: String = "FSRPAUEC"
            .chars()
            .enumerate()
            .filter(|(bit, _)| bits >> bit & 1 == 1)
            .map(|(_, letter)| letter)
            .collect();
        let header = (bits >> 12) as usize * 4;
        let mut text = format!("tcp {from}>{to} {flags:?}");
        if detail == Detail::Crafted {
            let (sequence, acknowledge) = (self.long(4)?, self.long(8)?);
            // A listening kernel's own first number is new in each run; RST answers are not.
            let sequence = if bits & 0x12 == 0x12 && sequence > 1 << 24 {
                "chosen".to_owned()
            } else {
                sequence.to_string()
            };
            text += &format!(" seq {sequence} ack {acknowledge} win {}", self.word(14)?);
        }
        text += &format!(" {}", tcp_options(self.bytes.get(20..header.max(20))?));
        Some(text + &format!(" data {}", digest(self.bytes.get(header..)?)))
    }

    fn icmp(&self, detail: Detail) -> Option<String> {
        let (kind, code) = (*self.bytes.first()?, *self.bytes.get(1)?);
        let is_error = match self.protocol {
            ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
            _ => kind < 128,
        };
        let rest = self.long(4)?;
        let text = format!("icmp {kind}/{code} {rest:#x}");
        Some(if is_error {
            text + &format!(
                " about {{{}}}",
                packet(self.bytes.get(8..)?, detail, Quoted::Yes)
            )
        } else {
            // A time stamp reply carries the time of day.
            let rest = self.bytes.get(8..)?;
            match (self.protocol, kind) {
                (ICMP, 14) => text + &format!(" {} bytes", rest.len()),
                _ => text + &format!(" {}", digest(rest)),
            }
        })
    }
}

/// Kinds of the TCP options in order, the value only of MSS: time stamps differ from run to run.
fn tcp_options(mut bytes: &[u8]) -> String {
    let mut kinds = Vec::new();
    while let Some(&kind) = bytes.first() {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*bytes.get(1).unwrap_or(&2)).max(2),
        };
        match (kind, bytes.get(2..4)) {
            (2, Some(value)) => {
                kinds.push(format!("mss {}", u16::from_be_bytes([value[0], value[1]])));
            }
            (1, _) => {}
            _ => kinds.push(kind.to_string()),
        }
        bytes = bytes.get(length..).unwrap_or_default();
    }
    format!("options [{}]", kinds.join(" "))
}

/// Length and FNV-1a of some bytes.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0x811c_9dc5u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    if bytes.is_empty() {
        "0".to_owned()
    } else {
        format!("{}:{hash:08x}", bytes.len())
    }
}
