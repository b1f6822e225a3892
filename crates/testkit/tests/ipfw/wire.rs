//! Bytes of a packet that the vectors of ipfw tell of in words.
//!
//! In: a packet of `weir_policy::eval::ipfw`. Out: its bytes from the network header on, or `None`
//! where no bytes say the same (a length that its headers do not fit, a segment that is told to be
//! longer than what is counted). The caller reads the bytes back and compares.

use weir_engine::packet::checksum;
use weir_policy::eval::ipfw::{Ip, Packet, Upper};
use weir_policy::model::Family;

/// The upper-layer header.
fn upper(ip: &Ip, out: &mut Vec<u8>) {
    match &ip.upper {
        Upper::Tcp(tcp) => {
            out.extend(tcp.src_port.to_be_bytes());
            out.extend(tcp.dst_port.to_be_bytes());
            out.extend(tcp.sequence.to_be_bytes());
            out.extend(tcp.acknowledgement.to_be_bytes());
            out.extend([((tcp.header / 4) << 4) as u8, tcp.flags]);
            out.extend(tcp.window.to_be_bytes());
            out.extend([0; 4]);
            out.extend(tcp.options.as_deref().unwrap_or_default());
        }
        Upper::Ports(source, destination) => {
            out.extend(source.to_be_bytes());
            out.extend(destination.to_be_bytes());
            let length = match ip.proto {
                132 => [0; 2],
                _ => (usize::from(ip.length) - out.len() + 4).to_be_bytes()[6..]
                    .try_into()
                    .expect("two bytes"),
            };
            out.extend(length);
            out.extend([0; 2]);
            if ip.proto == 132 {
                out.extend([0; 4]);
            }
        }
        Upper::Icmp(kind, code) => {
            out.extend([*kind, *code, 0, 0, 0, 7, 0, 1]);
        }
        Upper::None => {}
    }
}

fn ipv4(ip: &Ip) -> Vec<u8> {
    let mut options = ip.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let header = 20 + options.len();
    let mut out = vec![0x40 | (header / 4) as u8, ip.tos];
    out.extend(ip.length.to_be_bytes());
    out.extend((ip.id as u16).to_be_bytes());
    let flags = u16::from(ip.flags) << 8 | u16::from(ip.more) << 13;
    out.extend((flags | ip.offset).to_be_bytes());
    out.extend([ip.ttl, ip.proto, 0, 0]);
    out.extend((ip.src as u32).to_be_bytes());
    out.extend((ip.dst as u32).to_be_bytes());
    out.extend(options);
    let sum = checksum::finish(checksum::sum(&out, 0));
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out
}

/// An extension header of eight bytes, and the number by which the one before names it.
fn extensions(ip: &Ip) -> Vec<(u8, [u8; 8])> {
    let mut headers = Vec::new();
    let has = |bit: u8| ip.extensions & bit != 0;
    if has(0x02) {
        headers.push((0, [0, 0, 1, 4, 0, 0, 0, 0]));
    }
    if has(0x20) {
        headers.push((60, [0, 0, 1, 4, 0, 0, 0, 0]));
    }
    for (bit, kind) in [(0x40, 0), (0x80, 2)] {
        if has(bit) {
            headers.push((43, [0, 0, kind, 0, 0, 0, 0, 0]));
        }
    }
    if has(0x08) {
        headers.push((51, [0; 8]));
    }
    if has(0x01) || ip.offset != 0 || ip.more {
        let [high, low] = (ip.offset << 3 | u16::from(ip.more)).to_be_bytes();
        let id = ip.id.to_be_bytes();
        headers.push((44, [0, 0, high, low, id[0], id[1], id[2], id[3]]));
    }
    headers
}

fn ipv6(ip: &Ip) -> Vec<u8> {
    let mut headers = extensions(ip);
    let numbers: Vec<u8> = headers
        .iter()
        .map(|header| header.0)
        .chain([ip.proto])
        .collect();
    let first = 6u32 << 28 | u32::from(ip.tos) << 20 | ip.flow_label;
    let mut out = first.to_be_bytes().to_vec();
    out.extend(ip.length.saturating_sub(40).to_be_bytes());
    out.extend([numbers[0], ip.ttl]);
    out.extend(ip.src.to_be_bytes());
    out.extend(ip.dst.to_be_bytes());
    for (header, next) in headers.iter_mut().zip(&numbers[1..]) {
        header.1[0] = *next;
        out.extend(header.1);
    }
    out
}

/// The bytes of a packet.
pub fn bytes(packet: &Packet) -> Option<Vec<u8>> {
    let ip = packet.ip.as_ref()?;
    let mut out = match ip.family {
        Family::V4 => ipv4(ip),
        Family::V6 => ipv6(ip),
    };
    let mut transport = Vec::new();
    if usize::from(ip.length) < out.len() + 8 && ip.upper != Upper::None {
        return None;
    }
    upper(ip, &mut transport);
    out.extend(transport);
    if out.len() > usize::from(ip.length) {
        return None;
    }
    out.resize(usize::from(ip.length), 0);
    Some(out)
}
