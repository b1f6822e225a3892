//! Bytes of crafted packets.
//!
//! In: a [`Packet`] of a script. Out: complete IP packets, one per fragment, checksums right
//! unless the script asks for a wrong one. It writes what it is told, however odd; whether a host
//! would send it is not its concern. Sources: RFC 791, 8200, 9293, 768, 792, 4443, 3828, 9260.

use std::net::IpAddr;

use super::script::{Endpoint, Packet, Segment, Transport};

/// Protocol numbers that carry a checksum over the pseudo header or that are named elsewhere.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;
/// Fragments of one packet share this identification; each step is finished before the next.
const IDENTIFICATION: u16 = 0x7777;

/// The IP packets that a script's packet means, in sending order.
#[must_use]
pub fn packets(packet: &Packet) -> Vec<Vec<u8>> {
    let (protocol, mut body) = transport(packet);
    if let Some(length) = packet.cut {
        body.truncate(length);
    }
    let Some((size, only)) = &packet.fragments else {
        return vec![network(packet, protocol, &body, None)];
    };
    let chunks: Vec<&[u8]> = body.chunks(*size).collect();
    let order: Vec<usize> = if only.is_empty() {
        (0..chunks.len()).collect()
    } else {
        only.clone()
    };
    order
        .into_iter()
        .filter_map(|index| Some((index, *chunks.get(index)?)))
        .map(|(index, chunk)| {
            let more = index + 1 < chunks.len();
            network(packet, protocol, chunk, Some((index * size, more)))
        })
        .collect()
}

/// One's-complement sum of 16-bit words (RFC 1071), folded, not inverted.
#[must_use]
pub fn sum(bytes: &[u8], start: u32) -> u32 {
    let mut total = start;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total
}

/// The sum of the pseudo header that TCP, UDP and ICMPv6 include.
#[must_use]
pub fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u32 {
    let mut bytes = address_bytes(from);
    bytes.extend(address_bytes(to));
    bytes.extend((length as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    sum(&bytes, 0)
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn payload(length: usize) -> impl Iterator<Item = u8> {
    (0..length).map(|index| (index % 251) as u8)
}

fn ports(from: &Endpoint, to: &Endpoint) -> Vec<u8> {
    [from.port.to_be_bytes(), to.port.to_be_bytes()].concat()
}

/// Protocol number, transport header and payload, checksum included.
fn transport(packet: &Packet) -> (u8, Vec<u8>) {
    let is_v6 = packet.from.address.is_ipv6();
    let icmp = if is_v6 { ICMPV6 } else { ICMP };
    let (protocol, mut body) = match &packet.transport {
        Transport::Tcp(segment) => (TCP, tcp(packet, segment)),
        Transport::Udp => {
            let mut head = ports(&packet.from, &packet.to);
            head.extend((8 + packet.payload as u16).to_be_bytes());
            head.extend([0, 0]);
            (UDP, head)
        }
        Transport::Icmp { kind, code, rest } => {
            let mut head = vec![*kind, *code, 0, 0];
            head.extend(rest.to_be_bytes());
            (icmp, head)
        }
        Transport::IcmpError { kind, code, about } => {
            let mut head = vec![*kind, *code, 0, 0, 0, 0, 0, 0];
            let quoted = packets(about).remove(0);
            // RFC 792 quotes the header and eight bytes; ICMPv6 as much as fits.
            let keep = if is_v6 {
                quoted.len()
            } else {
                quoted.len().min(28)
            };
            head.extend(&quoted[..keep]);
            (icmp, head)
        }
        Transport::Other { protocol, head } => {
            let mut head = head.clone();
            if *protocol == SCTP && head.len() >= 16 && packet.payload > 0 {
                // The payload belongs to the first chunk.
                head[14..16].copy_from_slice(&(4 + packet.payload as u16).to_be_bytes());
            }
            (*protocol, head)
        }
    };
    body.extend(payload(packet.payload));
    fill_checksum(packet, protocol, &mut body);
    (protocol, body)
}

fn tcp(packet: &Packet, segment: &Segment) -> Vec<u8> {
    let mut options = segment.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut head = ports(&packet.from, &packet.to);
    head.extend(segment.sequence.to_be_bytes());
    head.extend(segment.acknowledge.to_be_bytes());
    head.push(((5 + options.len() / 4) << 4) as u8);
    head.push(segment.flags);
    head.extend(segment.window.to_be_bytes());
    head.extend([0, 0, 0, 0]);
    head.extend(options);
    head
}

fn fill_checksum(packet: &Packet, protocol: u8, body: &mut [u8]) {
    let (from, to) = (packet.from.address, packet.to.address);
    let offset = match protocol {
        TCP => 16,
        UDP | UDPLITE => 6,
        ICMP | ICMPV6 => 2,
        SCTP if body.len() >= 12 => {
            let mut crc = crc32c(body);
            crc ^= u32::from(packet.bad_checksum);
            body[8..12].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        _ => return,
    };
    if body.len() < offset + 2 {
        return;
    }
    let start = if protocol == ICMP {
        0
    } else {
        pseudo_header(from, to, protocol, body.len())
    };
    // UDP-Lite covers its first eight bytes here.
    let covered = if protocol == UDPLITE {
        &body[..8]
    } else {
        &*body
    };
    let mut checksum = !(sum(covered, start) as u16);
    if checksum == 0 && matches!(protocol, UDP | UDPLITE) {
        checksum = 0xffff;
    }
    if packet.bad_checksum {
        checksum ^= 0x1234;
    }
    body[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// CRC32c of an SCTP packet whose checksum field is zero (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// Puts the network header before `body`; `fragment` is the offset in bytes and "more follow".
fn network(packet: &Packet, protocol: u8, body: &[u8], fragment: Option<(usize, bool)>) -> Vec<u8> {
    match (packet.from.address, packet.to.address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let options: Vec<u8> = packet
                .extensions
                .iter()
                .flat_map(|(_, bytes)| bytes.clone())
                .collect();
            let header = 20 + options.len();
            let mut bytes = vec![0x40 | (header / 4) as u8, packet.tos];
            bytes.extend(((header + body.len()) as u16).to_be_bytes());
            let (offset, more) = fragment.unwrap_or((0, false));
            bytes.extend(
                if fragment.is_some() {
                    IDENTIFICATION
                } else {
                    1
                }
                .to_be_bytes(),
            );
            bytes.extend(((offset / 8) as u16 | if more { 0x2000 } else { 0 }).to_be_bytes());
            bytes.extend([packet.ttl, protocol, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            bytes.extend(options);
            let checksum = !(sum(&bytes, 0) as u16);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            bytes.extend(body);
            bytes
        }
        (from, to) => {
            let mut chain = packet.extensions.clone();
            if let Some((offset, more)) = fragment {
                let mut head = vec![0];
                head.extend((offset as u16 | u16::from(more)).to_be_bytes());
                head.extend(u32::from(IDENTIFICATION).to_be_bytes());
                chain.push((FRAGMENT, head));
            }
            let length = body.len() + chain.iter().map(|(_, head)| head.len() + 1).sum::<usize>();
            let mut bytes = (0x6000_0000 | u32::from(packet.tos) << 20)
                .to_be_bytes()
                .to_vec();
            bytes.extend((length as u16).to_be_bytes());
            bytes.extend([
                chain.first().map_or(protocol, |(kind, _)| *kind),
                packet.ttl,
            ]);
            bytes.extend(address_bytes(from));
            bytes.extend(address_bytes(to));
            for (index, (_, head)) in chain.iter().enumerate() {
                bytes.push(chain.get(index + 1).map_or(protocol, |(kind, _)| *kind));
                bytes.extend(head);
            }
            bytes.extend(body);
            bytes
        }
    }
}
