//! Bytes of a packet, from the network header on, to [`Key`]. Twin of `plane/bpf/parse.h`: same
//! names, same order, same limits.
//!
//! Sources: RFC 791, 8200, 9293, 768, 792, 4443, 4302, 4303, 9260.

use super::key::{Key, fragment, transport};
use super::reading;
use weir_policy::model::{Reading, SctpChunk};

/// Bytes of the longest IPv6 packet that is no jumbogram (RFC 2675). What says no length and is
/// longer is a segment that isn't cut up yet.
const LENGTH_MAX: u32 = 40 + 0xffff;
/// IPv6 extension headers looked at.
pub const EXTENSIONS_MAX: usize = 8;

/// Protocol numbers that the parser knows.
pub mod proto {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// ESP.
    pub const ESP: u8 = 50;
    /// AH.
    pub const AH: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDPLITE: u8 = 136;
    /// IPv6 hop-by-hop options.
    pub const HOPOPTS: u8 = 0;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// IPv6 destination options.
    pub const DSTOPTS: u8 = 60;
    /// No next header (RFC 8200 section 4.7).
    pub const NONE: u8 = 59;
    /// Mobility header (RFC 6275): an extension header as IPFilter reads it.
    pub const MOBILITY: u8 = 135;
}

/// Readable bytes of a packet, of `wire` that the packet has.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// From the network header on.
    pub data: &'a [u8],
    /// Bytes that the packet has, also where `data` was cut off.
    pub wire: u32,
    /// As whose language they are read.
    pub reading: Reading,
}

impl Bytes<'_> {
    pub(super) fn have(&self) -> u32 {
        self.data.len() as u32
    }
    pub(super) fn u8(&self, at: u32) -> u8 {
        self.data[at as usize]
    }
    pub(super) fn u16(&self, at: u32) -> u16 {
        let at = at as usize;
        u16::from_be_bytes([self.data[at], self.data[at + 1]])
    }
    fn u32(&self, at: u32) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }
    fn u64(&self, at: u32) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }
}

/// Whether an ICMP or ICMPv6 type carries the packet that it is about.
pub fn icmp_is_error(proto: u8, kind: u8) -> bool {
    if proto == proto::ICMPV6 {
        return kind < 128;
    }
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// Whether an ICMP or ICMPv6 type has an identifier.
pub fn icmp_is_query(proto: u8, kind: u8) -> bool {
    if proto == proto::ICMPV6 {
        return kind == 128 || kind == 129;
    }
    matches!(kind, 0 | 8 | 13..=18)
}

/// Bytes of transport header that must be there for its fields to count as read.
pub fn transport_needs(proto: u8, inner: bool) -> u32 {
    match proto {
        proto::TCP => {
            if inner {
                8
            } else {
                20
            }
        }
        proto::UDP | proto::UDPLITE | proto::ICMP | proto::ICMPV6 | proto::ESP => 8,
        proto::SCTP | proto::DCCP | proto::AH => {
            if inner {
                8
            } else {
                12
            }
        }
        _ => 0,
    }
}

fn parse_tcp(b: &Bytes, at: u32, available: u32, p: &mut Key) {
    let header = u32::from(b.u8(at + 12) >> 4) * 4;
    p.acknowledgement = b.u32(at + 8);
    p.tcp_flags = b.u8(at + 13);
    p.window = b.u16(at + 14);
    if header < 20 || header > available {
        p.malformed = 1;
        // IPFilter looks no further than to the length.
        if header < 20 && b.reading == Reading::Ipf {
            p.tcp_flags = 0;
        }
        return;
    }
    p.tcp_options = (header - 20) as u8;
    p.payload = available - header;
    let start = (at + 20) as usize;
    let whole = b.data.get(start..start + usize::from(p.tcp_options));
    put_tcp_options(p, whole.unwrap_or_default());
}

/// What tracking asks of the options; `bytes` is empty when they are not all there.
pub fn put_tcp_options(p: &mut Key, bytes: &[u8]) {
    let options = weir_policy::eval::track::tcp::options(bytes, p.acknowledgement);
    p.sack = options.sack;
    p.tcp_scale = options.scale.map_or(0, |scale| scale + 1);
    p.tcp_sack_permitted = u8::from(options.sack_permitted);
}

/// The transport header at `p.transport_offset`. `end`: of the packet by its network header.
fn parse_transport(b: &Bytes, end: u32, inner: bool, p: &mut Key) {
    let at = u32::from(p.transport_offset);
    let readable = end.min(b.have());
    p.transport = transport::NONE;
    if p.fragment == fragment::LATER {
        // RFC 3128; ip6_tables counts offsets in bytes, so there this never happens. IPFilter has
        // rules for it (`with short`).
        let inside = p.proto == proto::TCP && p.fragment_offset == 1 && p.family == 4;
        if inside && b.reading != Reading::Ipf {
            p.transport = transport::SHORT;
        }
        return;
    }
    let needs = match b.reading {
        Reading::Linux => {
            let needs = transport_needs(p.proto, inner);
            (at + needs <= readable || needs == 0).then_some(needs)
        }
        reading => reading::needs(reading, b, end, p),
    };
    match needs {
        Some(0) => return,
        Some(_) => {}
        None => {
            p.transport = transport::SHORT;
            return;
        }
    }
    let word = b.u32(at);
    match p.proto {
        proto::ICMP | proto::ICMPV6 => {
            p.transport = transport::ICMP;
            p.src_port = (word >> 16) as u16;
            // ipfw doesn't need the identifier to be there.
            if icmp_is_query(p.proto, (word >> 24) as u8) && at + 8 <= readable {
                p.dst_port = b.u16(at + 4);
            }
            return;
        }
        proto::AH | proto::ESP => {
            p.transport = transport::SPI;
            p.sequence = if p.proto == proto::AH {
                b.u32(at + 4)
            } else {
                word
            };
            return;
        }
        _ => {}
    }
    p.src_port = (word >> 16) as u16;
    p.dst_port = word as u16;
    if p.proto == proto::TCP {
        p.transport = transport::TCP;
        p.sequence = b.u32(at + 4);
        if !inner {
            parse_tcp(b, at, end - at, p);
        }
    } else if p.proto == proto::SCTP {
        p.transport = transport::SCTP;
    } else {
        p.transport = transport::UDP;
    }
}

fn parse_ipv4(b: &Bytes, start: u32, inner: bool, p: &mut Key) -> Option<()> {
    if start + 20 > b.have() || b.u8(start) >> 4 != 4 {
        return None;
    }
    let header = u32::from(b.u8(start) & 15) * 4;
    let mut total = u32::from(b.u16(start + 2));
    if total == 0 {
        // A segment above 64 KiB that is not cut up yet.
        total = b.wire - start;
    }
    if header < 20 || total < header {
        return None;
    }
    p.family = 4;
    p.length = total;
    p.tos = b.u8(start + 1);
    p.ttl = b.u8(start + 8);
    p.proto = b.u8(start + 9);
    p.src[1] = u64::from(b.u32(start + 12));
    p.dst[1] = u64::from(b.u32(start + 16));
    p.transport_offset = (start + header) as u16;
    let word = b.u16(start + 6);
    p.fragment_offset = word & 0x1fff;
    p.fragment = fragment::WHOLE;
    if p.fragment_offset != 0 {
        p.fragment = fragment::LATER;
    } else if word & 0x2000 != 0 {
        p.fragment = fragment::FIRST;
    }
    parse_transport(b, start + total, inner, p);
    Some(())
}

/// Bytes of an extension header that must be there.
fn extension_needs(reading: Reading, header: u8) -> u32 {
    match header {
        _ if reading == Reading::Ipf => 8,
        proto::FRAGMENT => 8,
        proto::ROUTING => 4,
        _ => 2,
    }
}

/// Whether the next header is an extension header.
fn is_extension(reading: Reading, next: u8) -> bool {
    match next {
        proto::HOPOPTS | proto::ROUTING | proto::FRAGMENT | proto::AH | proto::DSTOPTS => true,
        proto::MOBILITY => reading == Reading::Ipf,
        _ => false,
    }
}

/// A routing header of type 0 that leads further than its addresses.
fn is_odd_route(b: &Bytes, at: u32) -> bool {
    let (length, left) = (b.u8(at + 1), b.u8(at + 3));
    b.u8(at + 2) == 0 && (length / 2 < left || left != 0 && length & 1 != 0)
}

/// A routing header of a type that ipfw doesn't know: it looks for those, whatever came before.
fn unknown_route(b: &Bytes, at: u32) -> bool {
    b.reading == Reading::Ipfw && !matches!(b.u8(at + 2), 0 | 2)
}

/// Walk the extension headers. Returns whether the upper-layer protocol was reached; if not, the
/// chain is cut short or too long, and `p.proto` is where it stopped. For IPFilter there is nothing
/// behind a header that is cut short or can't be.
fn parse_extensions(b: &Bytes, end: u32, p: &mut Key) -> bool {
    let readable = end.min(b.have());
    let ipf = b.reading == Reading::Ipf;
    let mut at = u32::from(p.transport_offset);
    for _ in 0..EXTENSIONS_MAX {
        let next = p.proto;
        p.transport_offset = at as u16;
        if !is_extension(b.reading, next) {
            return true;
        }
        if at + extension_needs(b.reading, next) > readable {
            let broken = ipf && at + 8 > end;
            if broken {
                p.proto = proto::NONE;
                if next == proto::FRAGMENT {
                    p.fragment = fragment::FIRST;
                }
            }
            return broken;
        }
        let mut size = (u32::from(b.u8(at + 1)) + 1) * 8;
        p.proto = b.u8(at);
        if next == proto::AH {
            size = (u32::from(b.u8(at + 1)) + 2) * 4;
        } else if next == proto::ROUTING && (p.has_routing == 0 || unknown_route(b, at)) {
            p.has_routing = 1;
            p.routing_type = b.u8(at + 2);
            p.routing_left = b.u8(at + 3);
        } else if next == proto::FRAGMENT {
            let word = b.u16(at + 2);
            size = 8;
            p.fragment_offset = word >> 3;
            if p.fragment_offset != 0 {
                p.fragment = fragment::LATER;
                p.transport_offset = (at + 8) as u16;
                return true;
            }
            // IPFilter's `frag` is a header of this kind, also of a packet in one piece.
            if word & 1 != 0 || ipf {
                p.fragment = fragment::FIRST;
            }
        }
        if ipf && (at + size > end || next == proto::ROUTING && is_odd_route(b, at)) {
            p.proto = proto::NONE;
            return true;
        }
        at += size;
    }
    p.transport_offset = at as u16;
    false
}

fn parse_ipv6(b: &Bytes, start: u32, inner: bool, p: &mut Key) -> Option<()> {
    if start + 40 > b.have() || b.u8(start) >> 4 != 6 {
        return None;
    }
    let mut total = u32::from(b.u16(start + 4));
    // 0: a jumbogram, or not cut up yet.
    total = if total != 0 {
        total + 40
    } else {
        b.wire - start
    };
    p.family = 6;
    p.length = total;
    p.tos = (b.u16(start) >> 4) as u8;
    p.ttl = b.u8(start + 7);
    p.proto = b.u8(start + 6);
    p.src = [b.u64(start + 8), b.u64(start + 16)];
    p.dst = [b.u64(start + 24), b.u64(start + 32)];
    p.fragment = fragment::WHOLE;
    p.transport_offset = (start + 40) as u16;
    // What says no length is a jumbogram for IPFilter, of which it handles none.
    let jumbogram = b.u16(start + 4) == 0 && total <= LENGTH_MAX && b.reading == Reading::Ipf;
    if jumbogram || !parse_extensions(b, start + total, p) {
        p.transport = transport::SHORT;
        return Some(());
    }
    parse_transport(b, start + total, inner, p);
    Some(())
}

/// The packet's key, or `None` when it has no valid IPv4 or IPv6 header. `data` may be cut off;
/// `wire` is the number of bytes that the packet has.
pub fn parse(data: &[u8], wire: u32, reading: Reading) -> Option<Key> {
    let bytes = Bytes {
        data,
        wire: wire.max(data.len() as u32),
        reading,
    };
    let mut p = Key::default();
    match data.first()? >> 4 {
        4 => parse_ipv4(&bytes, 0, false, &mut p)?,
        6 => parse_ipv6(&bytes, 0, false, &mut p)?,
        _ => return None,
    }
    Some(p)
}

/// The packet that an ICMP error speaks of; offsets count from the start of the outer packet. Of
/// its transport header only the first 8 bytes are looked at.
pub fn embedded(data: &[u8], wire: u32, outer: &Key) -> Option<Key> {
    let bytes = Bytes {
        data,
        wire: wire.max(data.len() as u32),
        reading: Reading::Linux,
    };
    let start = u32::from(outer.transport_offset) + 8;
    if outer.transport != transport::ICMP
        || !icmp_is_error(outer.proto, (outer.src_port >> 8) as u8)
    {
        return None;
    }
    let mut inner = Key {
        hook: outer.hook,
        ..Key::default()
    };
    if outer.proto == proto::ICMPV6 {
        parse_ipv6(&bytes, start, true, &mut inner)?;
    } else {
        parse_ipv4(&bytes, start, true, &mut inner)?;
    }
    Some(inner)
}

/// The SCTP chunks of a packet, and whether they end before the packet does, as xt_sctp has it.
pub fn sctp_chunks(data: &[u8], p: &Key) -> (Vec<SctpChunk>, bool) {
    let mut chunks = Vec::new();
    let length = p.length as usize;
    let mut at = usize::from(p.transport_offset) + 12;
    loop {
        let head = data.get(..length.min(data.len())).and_then(|d| d.get(at..));
        let Some(&[kind, flags, high, low]) = head.and_then(|head| head.first_chunk()) else {
            return (chunks, true);
        };
        let size = usize::from(u16::from_be_bytes([high, low]));
        if size == 0 {
            return (chunks, true);
        }
        chunks.push(SctpChunk { kind, flags });
        at += (size + 3) & !3;
        if at >= length {
            return (chunks, false);
        }
    }
}

/// The option bytes of a TCP segment, as far as they are there.
pub fn tcp_options<'a>(data: &'a [u8], p: &Key) -> &'a [u8] {
    let start = (usize::from(p.transport_offset) + 20).min(data.len());
    let end = (start + usize::from(p.tcp_options)).min(data.len());
    &data[start..end]
}
