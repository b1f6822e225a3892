//! Traces: the packet headers that are injected, made once and played in order, over and over.
//!
//! In: address family, number of headers, seed. Out: a [`Trace`] of complete network and transport
//! headers with right checksums, plus the fields for checking against rules. TCP headers are bare
//! RST segments to ports where nobody listens: the stack walks its whole receive path and sends
//! nothing back. UDP headers belong to flows with a listening socket that throws everything away.
//! Header layouts: RFC 791, 8200, 9293, 768; checksums: RFC 1071.

use std::collections::HashSet;

use crate::rules::Header;
use crate::space::{self, Address, Family};

/// Bytes of payload behind every header, all zero: 46 bytes in all for IPv4 and TCP.
pub const PAYLOAD_LENGTH: usize = 6;
/// Room for the largest header (IPv6 and TCP, 60 bytes) in whole words.
pub const HEADER_ROOM: usize = 64;

const TCP: u8 = 6;
const UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;

/// The headers of one kind of traffic.
#[derive(Debug, Clone)]
pub struct Trace {
    /// IPv4 or IPv6.
    pub family: Family,
    /// What is in the packets, in the order of injection.
    pub headers: Vec<Header>,
}

impl Trace {
    /// Distinct random TCP headers.
    pub fn tcp(family: Family, count: usize, seed: u64) -> Trace {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut seen = HashSet::with_capacity(count);
        let mut headers = Vec::with_capacity(count);
        while headers.len() < count {
            let header = Header {
                family,
                source: family.traffic_source(&mut random),
                destination: family.traffic_destination(&mut random),
                protocol: TCP,
                source_port: space::traffic_source_port(&mut random),
                destination_port: space::traffic_destination_port(&mut random),
            };
            if seen.insert(header) {
                headers.push(header);
            }
        }
        Trace { family, headers }
    }

    /// Distinct UDP flows from anywhere to one socket, in random order.
    pub fn udp_flows(family: Family, count: usize, seed: u64) -> Trace {
        let mut random = fastrand::Rng::with_seed(seed);
        let destination = family.traffic_destination(&mut random);
        let destination_port = space::traffic_destination_port(&mut random);
        let mut seen = HashSet::with_capacity(count);
        let mut headers = Vec::with_capacity(count);
        while headers.len() < count {
            let header = Header {
                family,
                source: family.traffic_source(&mut random),
                destination,
                protocol: UDP,
                source_port: space::traffic_source_port(&mut random),
                destination_port,
            };
            if seen.insert(header) {
                headers.push(header);
            }
        }
        Trace { family, headers }
    }

    /// The same traffic, all of it to one address.
    pub fn to_address(mut self, destination: Address) -> Trace {
        for header in &mut self.headers {
            header.destination = destination;
        }
        self
    }

    /// Bytes of one whole frame, Ethernet header included.
    pub fn frame_length(&self) -> usize {
        14 + network_length(self.family) + 20 + PAYLOAD_LENGTH
    }

    /// The bytes of every header, each padded to [`HEADER_ROOM`].
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.headers.len() * HEADER_ROOM);
        for header in &self.headers {
            out.extend_from_slice(&encode(header));
        }
        out
    }
}

fn network_length(family: Family) -> usize {
    if family == Family::V6 { 40 } else { 20 }
}

/// Builds the headers of one packet. All packets of a family have the same length, so a UDP
/// datagram carries more payload than a TCP segment.
fn encode(header: &Header) -> [u8; HEADER_ROOM] {
    let mut bytes = [0; HEADER_ROOM];
    let start = network_length(header.family);
    let transport_length = 20 + PAYLOAD_LENGTH;
    let total = (start + transport_length) as u16;
    match header.family {
        Family::V4 => {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            bytes[6] = 0x40; // don't fragment
            bytes[8] = TIME_TO_LIVE;
            bytes[9] = header.protocol;
            bytes[12..16].copy_from_slice(&(header.source as u32).to_be_bytes());
            bytes[16..20].copy_from_slice(&(header.destination as u32).to_be_bytes());
            let sum = checksum(&[&bytes[..20]]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Family::V6 => {
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&(transport_length as u16).to_be_bytes());
            bytes[6] = header.protocol;
            bytes[7] = TIME_TO_LIVE;
            bytes[8..24].copy_from_slice(&header.source.to_be_bytes());
            bytes[24..40].copy_from_slice(&header.destination.to_be_bytes());
        }
    }
    let transport = &mut bytes[start..];
    transport[0..2].copy_from_slice(&header.source_port.to_be_bytes());
    transport[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    let (place, used) = if header.protocol == TCP {
        transport[12] = 5 << 4; // header length in words
        transport[13] = 0x04; // RST
        (16, 20)
    } else {
        transport[4..6].copy_from_slice(&(transport_length as u16).to_be_bytes());
        (6, 8)
    };
    let addresses = match header.family {
        Family::V4 => bytes[12..20].to_vec(),
        Family::V6 => bytes[8..40].to_vec(),
    };
    let pseudo = [0, header.protocol, 0, transport_length as u8];
    let sum = checksum(&[&addresses, &pseudo, &bytes[start..start + used]]);
    bytes[start + place..start + place + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The internet checksum over several parts of even length; payload of zeros adds nothing.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks_exact(2)) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // In UDP a sum of zero means "none"; both complements stand for the same number.
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_header_checksum_known_answer() {
        // The worked example that many texts use: checksum 0xb861.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&[&header]), 0xb861);
    }

    #[test]
    fn a_whole_packet_sums_to_zero() {
        for family in [Family::V4, Family::V6] {
            for trace in [Trace::tcp(family, 50, 3), Trace::udp_flows(family, 50, 3)] {
                for header in &trace.headers {
                    let bytes = encode(header);
                    let start = network_length(family);
                    let addresses = if family == Family::V4 {
                        &bytes[12..20]
                    } else {
                        &bytes[8..40]
                    };
                    let length = (20 + PAYLOAD_LENGTH) as u8;
                    let pseudo = [0, header.protocol, 0, length];
                    let used = if header.protocol == TCP { 20 } else { 8 };
                    let sum = checksum(&[addresses, &pseudo, &bytes[start..start + used]]);
                    assert_eq!(sum, 0xffff, "transport of {header:?}");
                    if family == Family::V4 {
                        assert_eq!(checksum(&[&bytes[..20]]), 0xffff, "network of {header:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn headers_are_distinct_and_repeatable() {
        let trace = Trace::tcp(Family::V6, 65_536, 9);
        let distinct: HashSet<_> = trace.headers.iter().collect();
        assert_eq!(distinct.len(), 65_536);
        assert_eq!(trace.bytes(), Trace::tcp(Family::V6, 65_536, 9).bytes());
        assert_ne!(trace.bytes(), Trace::tcp(Family::V6, 65_536, 10).bytes());
        assert_eq!(trace.bytes().len(), 65_536 * HEADER_ROOM);
        assert_eq!(Trace::tcp(Family::V4, 1, 1).frame_length(), 60);
        assert_eq!(trace.frame_length(), 80);
    }
}
