//! [`Packet`] to bytes, with right checksums: for tests, generators and `explain`.
//!
//! Made are: an IPv4 header without options; an IPv6 header with the routing and fragment header
//! that the packet names; the transport header; zeros up to the packet's length. What cannot be
//! written in bytes is an error, so that no test believes in a packet that does not exist;
//! [`settle`] changes a packet into one that can be written.

use weir_policy::model::{Family, Fragment, Packet, SctpChunk, Transport};

use super::checksum;
use super::parse::{icmp_is_error, icmp_is_query, proto, transport_needs};

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The protocol and the transport header do not go together.
    #[error("protocol {0} does not have this transport header")]
    Transport(u8),
    /// The length does not fit its headers.
    #[error("a length of {0} bytes does not fit the headers or the payload")]
    Length(u32),
    /// The option bytes are more than 40 or not a multiple of 4.
    #[error("{0} bytes of TCP options")]
    Options(usize),
    /// A fragment's fields contradict its transport header.
    #[error("a fragment with this offset cannot have this transport header")]
    Fragment,
}

/// Offset of the transport header in the bytes that [`build`] makes.
pub fn transport_offset(packet: &Packet) -> usize {
    match packet.family {
        Family::V4 => 20,
        Family::V6 => {
            40 + if packet.routing.is_some() { 8 } else { 0 }
                + if packet.fragment == Fragment::Whole {
                    0
                } else {
                    8
                }
        }
    }
}

/// An IPv4 TCP fragment so placed that it could overwrite the flags (RFC 3128).
fn is_tiny(packet: &Packet) -> bool {
    packet.family == Family::V4
        && packet.proto == proto::TCP
        && packet.fragment == Fragment::Later(1)
}

fn fits(packet: &Packet) -> bool {
    let later = matches!(packet.fragment, Fragment::Later(_));
    match (&packet.transport, packet.proto) {
        (Transport::Short, proto::TCP) if is_tiny(packet) => true,
        (Transport::None, proto::TCP) if later => !is_tiny(packet),
        (Transport::None, _) if later => true,
        (_, _) if later => false,
        (Transport::None, p) => transport_needs(p, false) == 0,
        (Transport::Short, p) => transport_needs(p, false) > 0,
        (Transport::Tcp { .. }, proto::TCP)
        | (Transport::Udp { .. }, proto::UDP | proto::UDPLITE | proto::DCCP)
        | (Transport::Sctp { .. }, proto::SCTP)
        | (Transport::Spi(_), proto::ESP)
        | (Transport::Icmp { .. }, proto::ICMP | proto::ICMPV6) => true,
        (Transport::Spi(_), proto::AH) => packet.family == Family::V4,
        _ => false,
    }
}

/// Write the transport header, without checksum.
fn put_transport(packet: &Packet, out: &mut Vec<u8>) -> Result<(), BuildError> {
    match &packet.transport {
        Transport::None | Transport::Short => {}
        Transport::Tcp {
            src_port,
            dst_port,
            flags,
            sequence,
            acknowledgement,
            window,
            options,
            malformed,
            ..
        } => {
            if options.len() > 40 || options.len() % 4 != 0 {
                return Err(BuildError::Options(options.len()));
            }
            out.extend(src_port.to_be_bytes());
            out.extend(dst_port.to_be_bytes());
            out.extend(sequence.to_be_bytes());
            out.extend(acknowledgement.to_be_bytes());
            let words = if *malformed {
                4
            } else {
                5 + options.len() as u8 / 4
            };
            out.extend([words << 4, *flags]);
            out.extend(window.to_be_bytes());
            out.extend([0; 4]);
            out.extend(options);
        }
        Transport::Udp { src_port, dst_port } => {
            out.extend(src_port.to_be_bytes());
            out.extend(dst_port.to_be_bytes());
            let rest = (packet.length as usize - transport_offset(packet)) as u16;
            out.extend(if packet.proto == proto::UDP {
                rest.to_be_bytes()
            } else {
                [0; 2]
            });
            out.extend([0; 2]);
            if packet.proto == proto::DCCP {
                out.extend([0; 4]);
            }
        }
        Transport::Sctp {
            src_port,
            dst_port,
            chunks,
            broken,
        } => {
            out.extend(src_port.to_be_bytes());
            out.extend(dst_port.to_be_bytes());
            out.extend([0; 8]);
            for chunk in chunks {
                out.extend([chunk.kind, chunk.flags, 0, 4]);
            }
            let rest = (packet.length as usize).saturating_sub(out.len()) as u16;
            match out.len().checked_sub(2) {
                _ if *broken => out.extend([0; 4]),
                // What is left is the last one's.
                Some(at) => out[at..].copy_from_slice(&(4 + rest).to_be_bytes()),
                None => {}
            }
        }
        Transport::Icmp {
            kind,
            code,
            id,
            about,
        } => {
            out.extend([*kind, *code, 0, 0]);
            out.extend(id.to_be_bytes());
            out.extend([0; 2]);
            if let Some(inner) = about {
                out.extend(headers(inner)?);
            }
        }
        Transport::Spi(spi) => {
            if packet.proto == proto::AH {
                out.extend([59, 1, 0, 0]);
            }
            out.extend(spi.to_be_bytes());
            out.extend([0; 4]);
        }
    }
    Ok(())
}

fn put_ipv4(packet: &Packet, out: &mut Vec<u8>) {
    let fragment: u16 = match packet.fragment {
        Fragment::Whole => 0,
        Fragment::First => 0x2000,
        Fragment::Later(offset) => offset & 0x1fff,
    };
    out.extend([0x45, packet.tos]);
    out.extend((packet.length as u16).to_be_bytes());
    out.extend([0, 1]);
    out.extend(fragment.to_be_bytes());
    out.extend([packet.ttl, packet.proto, 0, 0]);
    out.extend((packet.src as u32).to_be_bytes());
    out.extend((packet.dst as u32).to_be_bytes());
    let sum = checksum::finish(checksum::sum(&out[..20], 0));
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn put_ipv6(packet: &Packet, out: &mut Vec<u8>) {
    let fragmented = packet.fragment != Fragment::Whole;
    let after_routing = if fragmented {
        proto::FRAGMENT
    } else {
        packet.proto
    };
    let first = if packet.routing.is_some() {
        proto::ROUTING
    } else {
        after_routing
    };
    out.extend((0x6000_0000u32 | u32::from(packet.tos) << 20).to_be_bytes());
    out.extend((packet.length as u16).wrapping_sub(40).to_be_bytes());
    out.extend([first, packet.ttl]);
    out.extend(packet.src.to_be_bytes());
    out.extend(packet.dst.to_be_bytes());
    if let Some((kind, left)) = packet.routing {
        out.extend([after_routing, 0, kind, left, 0, 0, 0, 0]);
    }
    if fragmented {
        let word = match packet.fragment {
            Fragment::Later(offset) => offset << 3,
            _ => 1,
        };
        out.extend([packet.proto, 0]);
        out.extend(word.to_be_bytes());
        out.extend([0, 0, 0, 1]);
    }
}

/// Headers only: the packet up to its payload.
fn headers(packet: &Packet) -> Result<Vec<u8>, BuildError> {
    if !fits(packet) {
        return Err(if matches!(packet.fragment, Fragment::Later(_)) {
            BuildError::Fragment
        } else {
            BuildError::Transport(packet.proto)
        });
    }
    let offset = transport_offset(packet);
    if (packet.length as usize) < offset || packet.length > 65535 {
        return Err(BuildError::Length(packet.length));
    }
    let mut out = Vec::with_capacity(offset + 64);
    match packet.family {
        Family::V4 => put_ipv4(packet, &mut out),
        Family::V6 => put_ipv6(packet, &mut out),
    }
    put_transport(packet, &mut out)?;
    Ok(out)
}

/// Where the checksum of a transport header is, and whether it covers a pseudo header.
fn checksum_place(packet: &Packet) -> Option<(usize, bool)> {
    if packet.fragment != Fragment::Whole {
        return None;
    }
    match (&packet.transport, packet.proto) {
        (Transport::Tcp { .. }, _) => Some((16, true)),
        (Transport::Udp { .. }, proto::UDP | proto::UDPLITE) => Some((6, true)),
        (Transport::Icmp { .. }, proto::ICMPV6) => Some((2, true)),
        (Transport::Icmp { .. }, _) => Some((2, false)),
        _ => None,
    }
}

fn put_checksum(packet: &Packet, out: &mut [u8]) {
    let Some((place, with_pseudo)) = checksum_place(packet) else {
        return;
    };
    let offset = transport_offset(packet);
    let addresses = match packet.family {
        Family::V4 => (12..16, 16..20),
        Family::V6 => (8..24, 24..40),
    };
    let mut sum = 0;
    if with_pseudo {
        let rest = packet.length - offset as u32;
        sum = checksum::pseudo(&out[addresses.0], &out[addresses.1], packet.proto, rest);
    }
    let mut value = checksum::finish(checksum::sum(&out[offset..], sum));
    if value == 0 && packet.proto == proto::UDP {
        value = 0xffff;
    }
    out[offset + place..offset + place + 2].copy_from_slice(&value.to_be_bytes());
}

/// The packet's bytes, at most `limit` of them (the rest would be zeros).
pub fn build(packet: &Packet, limit: usize) -> Result<Vec<u8>, BuildError> {
    let mut out = headers(packet)?;
    let total = packet.length as usize;
    let needs = transport_needs(packet.proto, false) as usize;
    if packet.transport == Transport::Short && !is_tiny(packet) {
        if total - out.len() >= needs {
            return Err(BuildError::Length(packet.length));
        }
    } else if out.len() > total {
        return Err(BuildError::Length(packet.length));
    }
    if let Transport::Tcp {
        payload, malformed, ..
    } = &packet.transport
    {
        let rest = if *malformed {
            0
        } else {
            (total - out.len()) as u32
        };
        if *payload != rest {
            return Err(BuildError::Length(packet.length));
        }
    }
    out.resize(out.len().max(total.min(limit)), 0);
    put_checksum(packet, &mut out);
    out.truncate(limit);
    Ok(out)
}

/// Change what contradicts itself, so that [`build`] can write the packet: transport header and
/// fragment by protocol, lengths by headers. What can stay stays.
pub fn settle(packet: &mut Packet) {
    if packet.family == Family::V4 {
        packet.routing = None;
        packet.src &= u128::from(u32::MAX);
        packet.dst &= u128::from(u32::MAX);
    } else if matches!(packet.proto, 0 | 43 | 44 | 51 | 60) {
        packet.proto = 59; // an extension header is never the upper-layer protocol
    }
    if let Fragment::Later(offset) = &mut packet.fragment {
        *offset = (*offset & 0x1fff).max(1);
        packet.transport = if is_tiny(packet) {
            Transport::Short
        } else {
            Transport::None
        };
    } else if !fits(packet) {
        packet.transport = plain_transport(packet.proto);
    }
    settle_transport(packet);
    settle_length(packet);
}

fn plain_transport(protocol: u8) -> Transport {
    match protocol {
        proto::TCP => Transport::Tcp {
            src_port: 1024,
            dst_port: 80,
            flags: 2,
            sequence: 0,
            acknowledgement: 0,
            window: 64240,
            options: Vec::new(),
            payload: 0,
            malformed: false,
        },
        proto::UDP | proto::UDPLITE | proto::DCCP => Transport::Udp {
            src_port: 1024,
            dst_port: 53,
        },
        proto::SCTP => Transport::Sctp {
            src_port: 1024,
            dst_port: 80,
            chunks: vec![SctpChunk { kind: 1, flags: 0 }],
            broken: false,
        },
        proto::ICMP => Transport::Icmp {
            kind: 8,
            code: 0,
            id: 1,
            about: None,
        },
        proto::ICMPV6 => Transport::Icmp {
            kind: 128,
            code: 0,
            id: 1,
            about: None,
        },
        proto::AH | proto::ESP => Transport::Spi(256),
        _ => Transport::None,
    }
}

fn settle_transport(packet: &mut Packet) {
    let (hook, family, protocol) = (packet.hook, packet.family, packet.proto);
    match &mut packet.transport {
        Transport::Tcp {
            options, malformed, ..
        } => {
            if *malformed {
                options.clear();
            }
            options.truncate(40);
            options.resize(options.len().next_multiple_of(4), 0);
        }
        Transport::Sctp { chunks, broken, .. } => *broken |= chunks.is_empty(),
        Transport::Icmp {
            kind, id, about, ..
        } => {
            if !icmp_is_query(protocol, *kind) {
                *id = 0;
            }
            let inner_family = if protocol == proto::ICMPV6 {
                Family::V6
            } else {
                Family::V4
            };
            match about {
                Some(inner) if icmp_is_error(protocol, *kind) && inner_family == family => {
                    settle_inner(inner, hook);
                }
                _ => *about = None,
            }
        }
        _ => {}
    }
}

/// An embedded packet as far as it is read: 8 bytes of transport header, nothing of its arrival.
fn settle_inner(inner: &mut Packet, hook: weir_policy::model::Hook) {
    let arrival = super::convert::Arrival::at(hook);
    (inner.in_iface, inner.out_iface) = (arrival.in_iface, arrival.out_iface);
    (inner.hook, inner.mark, inner.mac, inner.owner) = (hook, 0, None, None);
    inner.packet_type = arrival.packet_type;
    settle(inner);
    if inner.transport == Transport::Short && !matches!(inner.fragment, Fragment::Later(_)) {
        inner.transport = plain_transport(inner.proto);
    }
    match &mut inner.transport {
        Transport::Tcp {
            flags,
            acknowledgement,
            window,
            options,
            payload,
            malformed,
            ..
        } => {
            (*flags, *acknowledgement, *window, *payload, *malformed) = (0, 0, 0, 0, false);
            options.clear();
        }
        Transport::Sctp { chunks, broken, .. } => {
            chunks.clear();
            *broken = true;
        }
        Transport::Icmp { about, .. } => *about = None,
        _ => {}
    }
    settle_length(inner);
    if let Transport::Tcp {
        flags,
        window,
        payload,
        ..
    } = &mut inner.transport
    {
        (*flags, *window, *payload) = (0, 0, 0);
    }
}

fn settle_length(packet: &mut Packet) {
    let offset = transport_offset(packet) as u32;
    let needs = transport_needs(packet.proto, false);
    if packet.transport == Transport::Short && !is_tiny(packet) {
        packet.length = packet.length.clamp(offset, offset + needs - 1);
        return;
    }
    packet.length = packet.length.clamp(offset + 1, 65535);
    let Ok(made) = headers(packet) else { return };
    packet.length = packet.length.max(made.len() as u32);
    if let Transport::Tcp {
        payload, malformed, ..
    } = &mut packet.transport
    {
        *payload = if *malformed {
            0
        } else {
            packet.length - made.len() as u32
        };
    }
}
