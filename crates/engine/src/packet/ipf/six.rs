//! IPv6: the chain of extension headers, fragments, ICMPv6.
//!
//! In: the reader at an IPv6 header. Out: its packet filled in. Each extension header may come
//! once; behind a fragment header none is noted any more, because they can only be judged when the
//! packet is whole again.

use super::{AH, ESP, GRE, ICMPV6, NONE, Reader, TCP, UDP, half, word};
use weir_policy::dialect::ipf::words::{self, attribute};
use weir_policy::eval::ipf::{Icmp, IpfPacket};
use weir_policy::model::Family;

const HOPOPTS: u8 = 0;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DSTOPTS: u8 = 60;
const MOBILITY: u8 = 135;

fn address(bytes: &[u8]) -> u128 {
    let bytes: [u8; 16] = bytes.try_into().unwrap_or_default();
    u128::from_be_bytes(bytes)
}

impl Reader<'_> {
    pub(super) fn ipv6(&mut self) {
        let data = u32::from(half(self.bytes, 4).unwrap_or(0));
        let packet = &mut self.packet;
        packet.ttl = self.bytes[7];
        packet.source = address(&self.bytes[8..24]);
        packet.destination = address(&self.bytes[24..40]);
        packet.length = data + 40;
        packet.data = data;
        if packet.destination >> 120 == 0xff {
            packet.attributes |= attribute::MCAST | attribute::MBCAST;
        }
        if data == 0 {
            // A jumbogram, which nobody handles.
            packet.unreadable = true;
            return;
        }
        self.at = 40;
        let next = self.bytes[6];
        self.packet.proto = self.chain(next);
    }

    /// Walks the headers; gives the protocol behind them.
    fn chain(&mut self, mut proto: u8) -> u8 {
        let mut reached = false;
        while !reached && !self.packet.is(attribute::SHORT) && !self.packet.unreadable {
            match proto {
                UDP | TCP | ICMPV6 | GRE | ESP => {
                    self.transport6(proto);
                    reached = true;
                }
                HOPOPTS | MOBILITY | DSTOPTS | AH | ROUTING => {
                    proto = self.extension(proto).unwrap_or(NONE);
                }
                FRAGMENT => {
                    proto = self.fragment_header().unwrap_or(NONE);
                    reached = self.packet.offset != 0;
                }
                IPV6 | NONE => {
                    self.packet.headers |= words::header_bit(proto);
                    reached = true;
                }
                _ => reached = true,
            }
        }
        // A first fragment that ends before its transport header.
        if !reached && self.packet.is(attribute::FRAG) && self.packet.offset == 0 {
            self.mark(attribute::BAD);
        }
        proto
    }

    /// Steps over an extension header; `None` when it is broken.
    fn extension(&mut self, proto: u8) -> Option<u8> {
        self.mark(attribute::V6HDRS);
        if proto == AH {
            self.mark(attribute::AH);
        }
        if self.packet.data < 8 {
            self.mark(attribute::SHORT);
            return None;
        }
        if !self.needs(8) {
            return None;
        }
        let (next, length) = (self.bytes[self.at], u32::from(self.bytes[self.at + 1]));
        let size = match proto {
            FRAGMENT => 8,
            AH => (length + 2) * 4,
            _ => 8 + length * 8,
        };
        if size > self.packet.data {
            self.mark(attribute::BAD);
            return None;
        }
        let header = self.at;
        self.at += size as usize;
        self.packet.data -= size;
        if !self.packet.is(attribute::FRAG) || proto == FRAGMENT {
            let bit = words::header_bit(proto);
            if self.packet.headers & bit != 0 {
                self.mark(attribute::BAD);
            }
            self.packet.headers |= bit;
        }
        if proto == ROUTING && self.bytes.len() >= header + 4 {
            let (kind, left) = (self.bytes[header + 2], u32::from(self.bytes[header + 3]));
            if kind == 0 && (length / 2 < left || left != 0 && length % 2 != 0) {
                self.mark(attribute::BAD);
                return None;
            }
        }
        Some(next)
    }

    fn fragment_header(&mut self) -> Option<u8> {
        let header = self.at;
        let next = self.extension(FRAGMENT);
        self.mark(attribute::FRAG);
        let next = next?;
        let place = half(self.bytes, header + 2)?;
        self.packet.more = place & 1 != 0;
        self.packet.offset = u32::from(place & !7);
        self.packet.id = word(self.bytes, header + 4)?;
        if self.packet.more && !self.packet.length.is_multiple_of(8) {
            self.mark(attribute::BAD);
        }
        if self.packet.offset != 0 {
            self.mark(attribute::FRAG_BODY);
        }
        if self.packet.offset + self.packet.data > 65_535 {
            self.mark(attribute::BAD);
        }
        Some(next)
    }

    fn transport6(&mut self, proto: u8) {
        match proto {
            UDP => self.udp(),
            TCP => self.tcp(),
            ICMPV6 => self.icmp6(),
            _ => {
                if proto == ESP {
                    self.packet.headers |= words::header_bit(ESP);
                }
                if self.packet.offset == 0 {
                    self.needs(8);
                }
            }
        }
    }

    fn icmp6(&mut self) {
        if !self.needs(8) || self.packet.data < 2 {
            return;
        }
        let kind = self.bytes[self.at];
        let error = matches!(kind, 1..=4);
        let mut icmp = Icmp {
            kind,
            code: self.bytes[self.at + 1],
            id: match kind {
                128 | 129 => half(self.bytes, self.at + 4).unwrap_or(0),
                _ => 0,
            },
            error,
            about: None,
        };
        let size = if error { 48 } else { 8 };
        if error && self.packet.length >= 88 {
            icmp.about = self.quoted6();
        }
        self.packet.icmp = Some(icmp);
        if self.packet.data < size {
            self.mark(attribute::SHORT);
        }
        self.checksum(ICMPV6, 2);
    }

    fn quoted6(&mut self) -> Option<Box<IpfPacket>> {
        let quote = self.bytes.get(self.at + 8..)?;
        if quote.len() < 40 {
            return None;
        }
        if address(&quote[8..24]) != self.packet.destination {
            self.mark(attribute::BAD);
        }
        let available = quote.len().min((self.packet.data as usize).checked_sub(8)?);
        if available <= 40 {
            return None;
        }
        let mut copy = quote[..available].to_vec();
        let length = u16::try_from(available - 40).unwrap_or(u16::MAX);
        copy[4..6].copy_from_slice(&length.to_be_bytes());
        let mut inner = self.quote(&copy, Family::V6);
        inner.length = u32::from(half(quote, 4).unwrap_or(0)) + 40;
        Some(Box::new(inner))
    }
}
