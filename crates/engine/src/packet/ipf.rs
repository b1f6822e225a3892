//! Bytes to [`IpfPacket`]: headers read and judged as IPFilter judges them.
//!
//! In: the bytes of a packet from its IP header on, and where it was met. Out: its fields, with the
//! attributes that `with` asks about (short, bad, fragments, options, extension headers). The
//! header's own length counts, as in the original; a header that reaches beyond the bytes that
//! are there makes the packet unreadable. Nothing here looks at rules.
//!
//! Source: RFC 791, 792, 793, 8200; the checks are those of IPFilter 5.1.2.

use super::checksum;
use weir_policy::dialect::ipf::words::{self, attribute};
use weir_policy::eval::ipf::{Icmp, IpfPacket, Tcp};
use weir_policy::model::Family;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
const ICMPV6: u8 = 58;
const NONE: u8 = 59;

/// To whom the frame was addressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkClass {
    /// Link-layer multicast.
    pub multicast: bool,
    /// Link-layer broadcast.
    pub broadcast: bool,
    /// To many, nobody says which way.
    pub many: bool,
}

impl LinkClass {
    fn attributes(self) -> u32 {
        let mut set = 0;
        if self.multicast {
            set |= attribute::MCAST | attribute::MBCAST;
        }
        if self.broadcast {
            set |= attribute::BCAST | attribute::MBCAST;
        }
        if self.many {
            set |= attribute::MBCAST;
        }
        set
    }
}

/// What is known of the checksum of the transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summed {
    /// Nothing: it is looked at.
    Not,
    /// It is right, or will be.
    Right,
    /// It is wrong.
    Wrong,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// The packet in these bytes.
#[must_use]
pub fn ipf_packet(bytes: &[u8], out: bool, interface: &str, link: LinkClass) -> IpfPacket {
    ipf_packet_summed(bytes, out, interface, link, Summed::Not)
}

/// The same of a packet whose checksum somebody has looked at.
#[must_use]
pub fn ipf_packet_summed(
    bytes: &[u8],
    out: bool,
    interface: &str,
    link: LinkClass,
    summed: Summed,
) -> IpfPacket {
    let family = match bytes.first().map(|byte| byte >> 4) {
        Some(6) => Family::V6,
        _ => Family::V4,
    };
    let mut reader = Reader {
        bytes,
        at: 0,
        summed,
        packet: IpfPacket::empty(family, out, interface),
    };
    reader.packet.attributes = link.attributes();
    reader.read();
    reader.packet
}

struct Reader<'b> {
    bytes: &'b [u8],
    /// Where the transport header begins.
    at: usize,
    summed: Summed,
    packet: IpfPacket,
}

impl Reader<'_> {
    fn read(&mut self) {
        match self.bytes.first().map(|byte| byte >> 4) {
            Some(4) if self.bytes.len() >= 20 => self.ipv4(),
            Some(6) if self.bytes.len() >= 40 => self.ipv6(),
            _ => self.packet.unreadable = true,
        }
    }

    fn mark(&mut self, bit: u32) {
        self.packet.attributes |= bit;
    }

    /// Needs this many bytes from the transport header on.
    fn needs(&mut self, count: usize) -> bool {
        if self.bytes.len() < self.at + count {
            self.packet.unreadable = true;
            return false;
        }
        true
    }

    /// A header of this size must be inside this fragment.
    fn short_below(&mut self, size: u32) {
        let there = match self.packet.offset {
            0 => self.packet.data,
            offset => offset,
        };
        if there < size {
            self.mark(attribute::SHORT);
        }
    }

    fn ipv4(&mut self) {
        let header = usize::from(self.bytes[0] & 0xf) * 4;
        let length = u32::from(half(self.bytes, 2).unwrap_or(0));
        if header < 20 || self.bytes.len() < header || length < header as u32 {
            self.packet.unreadable = true;
            return;
        }
        let packet = &mut self.packet;
        packet.tos = self.bytes[1];
        packet.id = u32::from(half(self.bytes, 4).unwrap_or(0));
        packet.ttl = self.bytes[8];
        packet.proto = self.bytes[9];
        packet.source = u128::from(word(self.bytes, 12).unwrap_or(0));
        packet.destination = u128::from(word(self.bytes, 16).unwrap_or(0));
        packet.length = length;
        packet.data = length - header as u32;
        if packet.destination >> 28 == 0xe {
            packet.attributes |= attribute::MCAST | attribute::MBCAST;
        }
        let fragment = half(self.bytes, 6).unwrap_or(0);
        packet.more = fragment & 0x2000 != 0;
        packet.offset = u32::from(fragment & 0x1fff) * 8;
        let proto = packet.proto;
        self.fragment(proto);
        self.at = header;
        self.transport4(proto);
        if header > 20 && !self.packet.unreadable {
            self.mark(attribute::IPOPTS);
            self.options(&self.bytes[20..header]);
        }
    }

    fn fragment(&mut self, proto: u8) {
        let packet = &mut self.packet;
        if !packet.more && packet.offset == 0 {
            return;
        }
        packet.attributes |= attribute::FRAG;
        if packet.offset == 0 {
            return;
        }
        packet.attributes |= attribute::FRAG_BODY;
        if packet.offset == 8 && proto == TCP {
            // Could overwrite the flags (RFC 3128).
            packet.attributes |= attribute::SHORT;
        }
        let odd = packet.more && !packet.data.is_multiple_of(8);
        if packet.offset + packet.data > 65_535 || packet.data == 0 || odd {
            packet.attributes |= attribute::BAD;
        }
    }

    fn transport4(&mut self, mut proto: u8) {
        if proto == AH {
            proto = self.authentication();
        }
        match proto {
            UDP => self.udp(),
            TCP => self.tcp(),
            ICMP => self.icmp(),
            ESP if self.packet.offset == 0 => {
                self.short_below(8);
                self.needs(8);
            }
            GRE => {
                self.short_below(8);
                if self.packet.offset == 0 {
                    self.needs(8);
                }
            }
            _ => {}
        }
    }

    /// Steps over an IPv4 authentication header.
    fn authentication(&mut self) -> u8 {
        self.mark(attribute::AH);
        self.short_below(12);
        if self.packet.is(attribute::SHORT) || self.packet.offset != 0 || !self.needs(12) {
            return NONE;
        }
        let next = self.bytes[self.at];
        let size = (u32::from(self.bytes[self.at + 1]) + 2) * 4;
        self.short_below(size);
        if !self.needs(size as usize) {
            return NONE;
        }
        self.at += size as usize;
        self.packet.data = self.packet.data.saturating_sub(size);
        next
    }

    fn options(&mut self, mut rest: &[u8]) {
        while let Some(&kind) = rest.first() {
            let size = match kind {
                0 => return,
                1 => 1,
                _ => match rest.get(1) {
                    Some(&size) if size >= 2 && usize::from(size) <= rest.len() => {
                        usize::from(size)
                    }
                    _ => return,
                },
            };
            let bit = words::ip_option_bit(kind);
            let (option, behind) = rest.split_at(size);
            self.option(bit, option);
            rest = behind;
        }
    }

    fn option(&mut self, bit: u32, option: &[u8]) {
        let again = self.packet.options & bit != 0;
        match bit {
            words::OPTION_SEC if again => self.mark(attribute::BAD),
            words::OPTION_SEC => {
                self.packet.classes |= option.get(2).map_or(0, |class| words::class_bit(*class));
            }
            words::OPTION_CIPSO if again => self.mark(attribute::BAD),
            words::OPTION_CIPSO => self.cipso(option),
            _ => {}
        }
        self.packet.options |= bit;
        if option.len() > 4 {
            self.packet.long_options |= bit;
        }
    }

    /// A CIPSO option: domain of interpretation and tags (draft-ietf-cipso-ipsecurity-01).
    fn cipso(&mut self, option: &[u8]) {
        if !(6..=40).contains(&option.len()) {
            return self.mark(attribute::BAD);
        }
        self.packet.doi = word(option, 2);
        let mut rest = &option[6..];
        while let [tag, size, ..] = *rest {
            let size = usize::from(size);
            if size > rest.len() || !(4..=34).contains(&size) {
                return self.mark(attribute::BAD);
            }
            let aligned = rest[2] == 0;
            match tag {
                1 | 2 | 5 if aligned => {}
                128.. => {}
                _ => self.mark(attribute::BAD),
            }
            rest = &rest[size..];
        }
    }

    fn udp(&mut self) {
        if self.packet.family == Family::V4 {
            self.short_below(8);
        }
        if self.packet.offset == 0 && self.packet.data > 3 {
            if !self.needs(8) {
                return;
            }
            self.packet.ports = self.ports();
        }
        self.checksum(UDP, 6);
    }

    fn ports(&self) -> Option<(u16, u16)> {
        Some((half(self.bytes, self.at)?, half(self.bytes, self.at + 2)?))
    }

    fn tcp(&mut self) {
        if self.packet.family == Family::V4 {
            self.short_below(20);
        }
        if self.packet.offset != 0 {
            return;
        }
        if !self.needs(20) {
            return;
        }
        if self.packet.data > 3 {
            self.packet.ports = self.ports();
        }
        if self.packet.is(attribute::SHORT) {
            return;
        }
        let at = self.at;
        let header = u32::from(self.bytes[at + 12] >> 4) * 4;
        let mut tcp = Tcp {
            sequence: word(self.bytes, at + 4).unwrap_or(0),
            acknowledgement: word(self.bytes, at + 8).unwrap_or(0),
            window: half(self.bytes, at + 14).unwrap_or(0),
            header,
            ..Tcp::default()
        };
        if header < 20 {
            self.mark(attribute::BAD);
            self.packet.tcp = Some(tcp);
            return;
        }
        tcp.flags = self.bytes[at + 13];
        let urgent = half(self.bytes, at + 18).unwrap_or(0);
        let bad = bad_flags(tcp.flags, urgent);
        if !bad && header > 20 && !self.needs(header as usize) {
            return;
        }
        let end = (at + header as usize).min(self.bytes.len());
        read_options(&mut tcp, self.bytes.get(at + 20..end).unwrap_or(&[]));
        self.packet.tcp = Some(tcp);
        match bad {
            true => self.mark(attribute::BAD),
            false => self.checksum(TCP, 16),
        }
    }

    fn icmp(&mut self) {
        self.short_below(8);
        if self.packet.offset != 0 || !self.needs(8) {
            return;
        }
        let (kind, code) = (self.bytes[self.at], self.bytes[self.at + 1]);
        let size = match kind {
            0 | 8 | 9 | 10 => 8,
            13 | 14 => 20,
            15..=18 => 12,
            _ => 28,
        };
        let error = matches!(kind, 3 | 4 | 5 | 11 | 12);
        let mut icmp = Icmp {
            kind,
            code,
            id: half(self.bytes, self.at + 4).unwrap_or(0),
            error,
            about: None,
        };
        if error {
            icmp.about = self.quoted4();
        }
        // "Fragmentation needed" with a next-hop MTU that no link has (RFC 1191, RFC 791).
        if kind == 3 && code == 4 && half(self.bytes, self.at + 6).unwrap_or(0) < 68 {
            self.mark(attribute::BAD);
        }
        self.packet.icmp = Some(icmp);
        self.short_below(size);
        self.checksum(ICMP, 2);
    }

    /// The packet that an ICMP error quotes, and whether the error can be true.
    fn quoted4(&mut self) -> Option<Box<IpfPacket>> {
        let quote = self.bytes.get(self.at + 8..)?;
        if quote.len() < 20 {
            return None;
        }
        let later = half(quote, 6).unwrap_or(0) & 0x1fff != 0;
        let source = u128::from(word(quote, 12).unwrap_or(0));
        if later || source != self.packet.destination {
            self.mark(attribute::BAD);
        }
        let header = usize::from(quote[0] & 0xf) * 4;
        let enough = self.packet.length as usize >= 20 + 8 + 8 + header;
        let plain = self.at == 20 && header >= 20 && quote[0] >> 4 == 4;
        if !plain || !enough || self.packet.data < 8 + header as u32 {
            return None;
        }
        // The quote ends where the error ends, whatever it says itself.
        let available = quote.len().min(self.packet.data as usize - 8);
        let mut copy = quote[..available].to_vec();
        let length = u16::try_from(available).unwrap_or(u16::MAX);
        copy[2..4].copy_from_slice(&length.to_be_bytes());
        let mut inner = self.quote(&copy, Family::V4);
        inner.length = u32::from(half(quote, 2).unwrap_or(0));
        Some(Box::new(inner))
    }

    /// Reads a quoted packet; eight bytes of its transport header are enough.
    fn quote(&self, bytes: &[u8], family: Family) -> IpfPacket {
        let mut reader = Reader {
            bytes,
            at: 0,
            // Checksums are not there to be checked.
            summed: Summed::Right,
            packet: IpfPacket::empty(family, !self.packet.out, &self.packet.interface),
        };
        reader.read();
        let at = reader.at;
        let mut inner = reader.packet;
        if inner.ports.is_none() && matches!(inner.proto, TCP | UDP) && inner.offset == 0 {
            inner.ports = half(bytes, at).zip(half(bytes, at + 2));
        }
        if inner.icmp.is_none() && inner.proto == ICMPV6 && bytes.len() >= at + 8 {
            inner.icmp = Some(Icmp {
                kind: bytes[at],
                code: bytes[at + 1],
                id: half(bytes, at + 4).unwrap_or(0),
                ..Icmp::default()
            });
        }
        inner.attributes &= !(attribute::BAD | attribute::SHORT);
        inner.unreadable = false;
        inner
    }

    /// A wrong checksum is bad, where it can be checked.
    fn checksum(&mut self, proto: u8, field: usize) {
        let unchecked = attribute::FRAG | attribute::SHORT | attribute::BAD;
        if self.packet.is(unchecked) || self.packet.unreadable {
            return;
        }
        self.packet.wrong_sum = match self.summed {
            Summed::Not => self.is_wrong(proto, field),
            Summed::Right => false,
            Summed::Wrong => true,
        };
        if self.packet.wrong_sum {
            self.mark(attribute::BAD);
        }
    }

    fn is_wrong(&self, proto: u8, field: usize) -> bool {
        let end = self.at + self.packet.data as usize;
        let (Some(data), Some(stored)) = (
            self.bytes.get(self.at..end),
            half(self.bytes, self.at + field),
        ) else {
            // Cut off by the capture: nothing can be said.
            return false;
        };
        if proto == UDP && stored == 0 {
            return false;
        }
        let start = match (proto, self.packet.family) {
            (ICMP, _) => 0,
            (_, Family::V4) => checksum::pseudo(
                &self.bytes[12..16],
                &self.bytes[16..20],
                proto,
                data.len() as u32,
            ),
            (_, Family::V6) => checksum::pseudo(
                &self.bytes[8..24],
                &self.bytes[24..40],
                proto,
                data.len() as u32,
            ),
        };
        checksum::finish(checksum::sum(data, start)) != 0
    }
}

/// Combinations of TCP flags that no healthy host sends.
pub(super) fn bad_flags(flags: u8, urgent: u16) -> bool {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PUSH: u8 = 8;
    const ACK: u8 = 16;
    const URG: u8 = 32;
    let without_ack =
        flags & ACK == 0 && (flags & (RST | SYN) == 0 || flags & (URG | PUSH | FIN) != 0);
    flags & URG != 0 && urgent == 0
        || flags & (SYN | FIN) != 0 && flags & (RST | ACK) == RST
        || flags & SYN != 0 && flags & (URG | PUSH) != 0
        || without_ack
}

/// Window scale and SACK of a SYN.
fn read_options(tcp: &mut Tcp, mut rest: &[u8]) {
    while let Some(&kind) = rest.first() {
        let size = match kind {
            0 => return,
            1 => 1,
            _ => match rest.get(1) {
                Some(&size) if size >= 2 && usize::from(size) <= rest.len() => usize::from(size),
                _ => return,
            },
        };
        match (kind, size) {
            (3, 3) => tcp.scale = Some(rest[2].min(14)),
            (4, 2) => tcp.sack = true,
            _ => {}
        }
        rest = &rest[size..];
    }
}

mod six;

#[cfg(test)]
mod tests;
