//! What few rules ask of headers and [`Key`] does not hold: the length of TCP data, IPv4 options,
//! IPv6 extension headers.
//!
//! In: the packet's bytes and its key; without the bytes, as of a packet in an ICMP error, there is
//! nothing. Twin: `plane/bpf/aside_header.h`. Sources: RFC 791, 8200, 9293; ipfw(8).

use super::key::{Key, fragment, transport};
use super::parse::{EXTENSIONS_MAX, proto};
use weir_policy::model::{BROKEN_OPTIONS, Facts};

/// Bytes of the longest IPv4 header.
const HEADER_MAX: usize = 60;

/// Puts all of it into what is known of the packet.
pub fn tell(facts: &mut Facts, data: &[u8], p: &Key) {
    facts.tcp_data = tcp_data(data, p);
    facts.ip_options = ip_options(data, p);
    facts.extensions = extensions(data, p);
    facts.headers = headers(data, p);
}

/// [`Facts::tcp_data`].
fn tcp_data(data: &[u8], p: &Key) -> u16 {
    let at = usize::from(p.transport_offset);
    match data.get(at + 12) {
        Some(byte) if p.transport == transport::TCP => {
            let headers = u32::from(p.transport_offset) + u32::from(byte >> 4) * 4;
            p.length.wrapping_sub(headers) as u16
        }
        _ => 0,
    }
}

/// [`Facts::ip_options`].
fn ip_options(data: &[u8], p: &Key) -> u8 {
    let end = usize::from(p.transport_offset).min(HEADER_MAX);
    if p.family != 4 || data.is_empty() || end <= 20 {
        return 0;
    }
    let Some(options) = data.get(20..end) else {
        return BROKEN_OPTIONS;
    };
    let (mut at, mut bits) = (0, 0);
    while at < options.len() {
        let size = match options[at] {
            0 => break,
            1 => 1,
            _ => options.get(at + 1).map_or(0, |size| usize::from(*size)),
        };
        if size == 0 || size > options.len() - at {
            return BROKEN_OPTIONS;
        }
        bits |= match options[at] {
            137 => 1,
            131 => 2,
            7 => 4,
            68 => 8,
            _ => 0,
        };
        at += size;
    }
    bits
}

/// [`Facts::extensions`], of a packet whose upper layer was reached.
fn extensions(data: &[u8], p: &Key) -> u8 {
    if p.family != 6 || data.is_empty() || p.transport == transport::SHORT {
        return 0;
    }
    let mut bits = 0;
    let mut at = 40;
    let mut next = data.get(6).copied().unwrap_or(proto::TCP);
    for _ in 0..EXTENSIONS_MAX {
        if at >= usize::from(p.transport_offset) {
            break;
        }
        // A routing header was reached, so it has its type.
        let Some(header) = data.get(at..).filter(|rest| rest.len() >= 2) else {
            break;
        };
        bits |= match (next, header.get(2)) {
            (proto::FRAGMENT, _) => 0x01,
            (proto::HOPOPTS, _) => 0x02,
            (proto::ROUTING, Some(0)) => 0x44,
            (proto::ROUTING, Some(2)) => 0x84,
            (proto::ROUTING, _) => 0x04,
            (proto::AH, _) => 0x08,
            _ => 0x20,
        };
        at += match next {
            proto::AH => (usize::from(header[1]) + 2) * 4,
            proto::FRAGMENT => 8,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        next = header[0];
    }
    // Of a later fragment nothing behind the fragment header is looked at.
    match p.proto == proto::ESP && p.fragment != fragment::LATER {
        true => bits | 0x10,
        false => bits,
    }
}

/// IPv6 headers that [`Facts::headers`] is followed through.
const HEADERS_MAX: usize = 256;

/// [`Facts::headers`]. A fragment's payload is followed as if it were whole, as Linux does.
fn headers(data: &[u8], p: &Key) -> Option<u8> {
    if p.family != 6 || data.is_empty() {
        return None;
    }
    let length = p.length as usize;
    let (mut bits, mut at, mut next) = (0, 40usize, *data.get(6)?);
    for _ in 0..HEADERS_MAX {
        let bit = match next {
            proto::HOPOPTS => 1,
            proto::DSTOPTS => 2,
            proto::ROUTING => 4,
            proto::FRAGMENT => 8,
            proto::AH => 16,
            proto::ESP => 32,
            proto::NONE => 64,
            _ => return Some(bits | 128),
        };
        if next == proto::NONE {
            return Some(bits | bit);
        }
        let rest = data.get(..length.min(data.len()))?.get(at..)?;
        let [behind, size] = *rest.first_chunk()?;
        bits |= bit;
        if next == proto::ESP {
            return Some(bits);
        }
        at += match next {
            proto::FRAGMENT => 8,
            proto::AH => (usize::from(size) + 2) * 4,
            _ => (usize::from(size) + 1) * 8,
        };
        next = behind;
        if at > length {
            break;
        }
    }
    Some(match next {
        proto::NONE | proto::ESP => bits,
        _ => bits | 128,
    })
}
