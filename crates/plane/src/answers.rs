//! The packets that answer rejected ones: TCP RST (RFC 9293 section 3.5.2), ICMP type 3 (RFC 792,
//! RFC 1812 section 4.3.2.7, RFC 1191 for the MTU) and ICMPv6 type 1 (RFC 4443 section 2.4).
//!
//! In: the record of a rejected packet. Out: the bytes of the answer and where it goes, or nothing:
//! what must not be answered (RST, ICMP errors, broadcast, multicast, later fragments) is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_engine::image::layout::REJECT_MTU;
use weir_engine::packet::checksum::{finish, pseudo, sum};
use weir_engine::packet::key::{fragment, transport};
use weir_engine::packet::parse::{icmp_is_error, proto};
use weir_policy::eval::Locals;
use weir_policy::model::{AddrType, Family};

use crate::events::{Event, Kind};

/// A packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// From the network header on. An IPv4 source of zero is for the kernel to fill in; so is an
    /// IPv6 one for the agent.
    pub bytes: Vec<u8>,
    /// Where it goes.
    pub to: IpAddr,
    /// Whether it is an ICMP message, which is limited in rate.
    pub icmp: bool,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const TTL: u8 = 64;
/// Code of ICMP type 3.
const NEED_FRAGMENTATION: u8 = 4;
/// Largest ICMP error (RFC 1812 section 4.3.2.3), and ICMPv6 error (RFC 4443 section 2.4).
const ICMP_TOTAL: usize = 576;
const ICMP6_TOTAL: usize = 1280;

/// The answer to a rejected packet, if it may have one. `mark`: what resets to this host itself
/// carry, as keep-alives do ([`crate::alive`]); 0 for others.
pub fn answer(event: &Event, locals: &Locals, mark: u32) -> Option<Answer> {
    let Kind::Reject(kind) = event.kind else {
        return None;
    };
    if event.key.fragment == fragment::LATER || is_unverifiable(event) || !may_answer(event, locals)
    {
        return None;
    }
    match (kind & !0xff, event.key.family) {
        (0, _) => reset(event, mark),
        (0x100, 4) => icmp(event, (kind as u8, 0), is_to_us(event, locals)),
        (0x200, 6) => icmp6(event, kind as u8, is_to_us(event, locals)),
        (0x300, 4) => icmp(event, (kind as u8, 0), true),
        (0x400, 6) => icmp6(event, kind as u8, true),
        (0x8000.., 4) => {
            let mtu = kind as u16 & !REJECT_MTU;
            icmp(event, (NEED_FRAGMENTATION, mtu), is_to_us(event, locals))
        }
        _ => None,
    }
}

fn address(half: [u64; 2]) -> u128 {
    u128::from(half[0]) << 64 | u128::from(half[1])
}

/// Whether a packet is the first fragment of something with a transport checksum. The kernel's
/// REJECT verifies the checksum before it answers, and over one fragment it never fits.
fn is_unverifiable(event: &Event) -> bool {
    let key = &event.key;
    if key.fragment != fragment::FIRST {
        return false;
    }
    match key.proto {
        proto::TCP | proto::ICMP | proto::ICMPV6 => true,
        proto::UDP => {
            let at = usize::from(key.transport_offset) + 6;
            event.bytes.get(at..at + 2) != Some(&[0, 0])
        }
        _ => false,
    }
}

/// Unicast both ways: nobody is answered who does not stand for one host.
fn may_answer(event: &Event, locals: &Locals) -> bool {
    let key = &event.key;
    let family = if key.family == 4 {
        Family::V4
    } else {
        Family::V6
    };
    let single = |a: u128| {
        a != 0
            && !matches!(
                locals.kind(family, a),
                AddrType::Broadcast | AddrType::Multicast
            )
    };
    key.packet_type == 0 && single(address(key.src)) && single(address(key.dst))
}

fn ip4(half: [u64; 2]) -> [u8; 4] {
    (half[1] as u32).to_be_bytes()
}

fn put_ipv4(out: &mut Vec<u8>, src: [u8; 4], dst: [u8; 4], proto: u8, tos: u8, keep_whole: bool) {
    let flags = if keep_whole { 0x40 } else { 0 };
    out.extend([0x45, tos, 0, 0, 0, 0, flags, 0, TTL, proto, 0, 0]);
    out.extend(src);
    out.extend(dst);
}

fn put_ipv6(out: &mut Vec<u8>, src: u128, dst: u128, next: u8, length: usize) {
    out.extend([0x60, 0, 0, 0]);
    out.extend((length as u16).to_be_bytes());
    out.extend([next, TTL]);
    out.extend(src.to_be_bytes());
    out.extend(dst.to_be_bytes());
}

/// Length and header checksum of a finished IPv4 packet. (The kernel does it again.)
fn seal_ipv4(out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    out[2..4].copy_from_slice(&length);
    let value = finish(sum(&out[..20], 0)).to_be_bytes();
    out[10..12].copy_from_slice(&value);
}

fn reset(event: &Event, mark: u32) -> Option<Answer> {
    let key = &event.key;
    if key.transport != transport::TCP || key.tcp_flags & RST != 0 {
        return None;
    }
    let (sequence, acknowledgement, flags) = if key.tcp_flags & ACK != 0 {
        (key.acknowledgement, 0, RST)
    } else {
        let controls = u32::from(key.tcp_flags & SYN != 0) + u32::from(key.tcp_flags & FIN != 0);
        let end = key
            .sequence
            .wrapping_add(controls)
            .wrapping_add(key.payload);
        (0, end, RST | ACK)
    };
    let mut tcp = Vec::with_capacity(20);
    tcp.extend(key.dst_port.to_be_bytes());
    tcp.extend(key.src_port.to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgement.to_be_bytes());
    let (number, urgent) = (((mark >> 16) as u16).to_be_bytes(), mark as u16);
    tcp.extend([5 << 4, flags, 0, 0, 0, 0]);
    tcp.extend(urgent.to_be_bytes());
    let mut out = Vec::with_capacity(60);
    let to = if key.family == 4 {
        let (src, dst) = (ip4(key.dst), ip4(key.src));
        let value = finish(sum(&tcp, pseudo(&src, &dst, proto::TCP, 20)));
        tcp[16..18].copy_from_slice(&value.to_be_bytes());
        put_ipv4(&mut out, src, dst, proto::TCP, 0, true);
        out[4..6].copy_from_slice(&number);
        out.extend(tcp);
        seal_ipv4(&mut out);
        IpAddr::V4(Ipv4Addr::from(dst))
    } else {
        let (src, dst) = (address(key.dst), address(key.src));
        let start = pseudo(&src.to_be_bytes(), &dst.to_be_bytes(), proto::TCP, 20);
        let value = finish(sum(&tcp, start));
        tcp[16..18].copy_from_slice(&value.to_be_bytes());
        put_ipv6(&mut out, src, dst, proto::TCP, 20);
        out[2..4].copy_from_slice(&number);
        out.extend(tcp);
        IpAddr::V6(Ipv6Addr::from(dst))
    };
    Some(Answer {
        bytes: out,
        to,
        icmp: false,
    })
}

/// Whether a packet must not be answered by an ICMP message: an ICMP error, one of a type that
/// nobody knows, or a packet whose transport header is cut short, as its checksum can't be right.
fn is_unanswerable(event: &Event) -> bool {
    let key = &event.key;
    if key.transport == transport::SHORT {
        return true;
    }
    let kind = (key.src_port >> 8) as u8;
    match key.proto {
        proto::ICMP if key.family == 4 => {
            key.transport != transport::ICMP || icmp_is_error(proto::ICMP, kind) || kind > 18
        }
        proto::ICMPV6 if key.family == 6 => {
            key.transport != transport::ICMP || icmp_is_error(proto::ICMPV6, kind) || kind == 137
        }
        _ => false,
    }
}

fn is_to_us(event: &Event, locals: &Locals) -> bool {
    let family = match event.key.family {
        4 => Family::V4,
        _ => Family::V6,
    };
    locals.kind(family, address(event.key.dst)) == AddrType::Local
}

/// `mtu`: of the next hop (RFC 1191 section 4), 0 where the code doesn't tell of one.
/// `as_destination`: in the name of the packet's destination; otherwise the kernel chooses.
fn icmp(event: &Event, (code, mtu): (u8, u16), as_destination: bool) -> Option<Answer> {
    if is_unanswerable(event) {
        return None;
    }
    let key = &event.key;
    let (src, dst) = (
        if as_destination { ip4(key.dst) } else { [0; 4] },
        ip4(key.src),
    );
    let quoted = &event.bytes[..event.bytes.len().min(ICMP_TOTAL - 28)];
    let [high, low] = mtu.to_be_bytes();
    let mut message = vec![3, code, 0, 0, 0, 0, high, low];
    message.extend(quoted);
    let value = finish(sum(&message, 0));
    message[2..4].copy_from_slice(&value.to_be_bytes());
    let mut out = Vec::with_capacity(28 + quoted.len());
    // Precedence "internetwork control", the other bits as in the packet (RFC 1812, 4.3.2.5).
    put_ipv4(
        &mut out,
        src,
        dst,
        proto::ICMP,
        key.tos & 0x1e | 0xc0,
        false,
    );
    out.extend(message);
    seal_ipv4(&mut out);
    Some(Answer {
        bytes: out,
        to: IpAddr::V4(Ipv4Addr::from(dst)),
        icmp: true,
    })
}

fn icmp6(event: &Event, code: u8, as_destination: bool) -> Option<Answer> {
    if is_unanswerable(event) {
        return None;
    }
    let key = &event.key;
    let src = if as_destination { address(key.dst) } else { 0 };
    let dst = address(key.src);
    let quoted = &event.bytes[..event.bytes.len().min(ICMP6_TOTAL - 48)];
    let mut out = Vec::with_capacity(48 + quoted.len());
    put_ipv6(&mut out, src, dst, proto::ICMPV6, 8 + quoted.len());
    out.extend([1, code, 0, 0, 0, 0, 0, 0]);
    out.extend(quoted);
    let mut answer = Answer {
        bytes: out,
        to: IpAddr::V6(Ipv6Addr::from(dst)),
        icmp: true,
    };
    if src != 0 {
        set_source6(&mut answer, Ipv6Addr::from(src));
    }
    Some(answer)
}

/// Whether the source of an ICMPv6 answer is still to be chosen.
pub fn needs_source6(answer: &Answer) -> bool {
    answer.to.is_ipv6() && answer.bytes[8..24] == [0; 16]
}

/// Fill in the source of an ICMPv6 answer, and its checksum.
pub fn set_source6(answer: &mut Answer, source: Ipv6Addr) {
    let bytes = &mut answer.bytes;
    bytes[8..24].copy_from_slice(&source.octets());
    bytes[42..44].copy_from_slice(&[0, 0]);
    let length = (bytes.len() - 40) as u32;
    let start = pseudo(&bytes[8..24], &bytes[24..40], proto::ICMPV6, length);
    let value = finish(sum(&bytes[40..], start)).to_be_bytes();
    bytes[42..44].copy_from_slice(&value);
}
