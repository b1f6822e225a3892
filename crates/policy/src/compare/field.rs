//! The fields that a packet is asked for, and at which levels of a diagram their bits are.
//!
//! In: nothing. Out: a base and a width for each field; the most significant bit comes first. The
//! order is by experience with rule lists: small fields first, ports before addresses, seldom used
//! ones last, and behind them one bit for each condition that isn't a function of the packet.

use super::diagram::{Diagram, NO, Node, TooLarge, YES};

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Number of the class of the receiving interface.
    In,
    /// Number of the class of the sending interface.
    Out,
    /// What connection tracking finds: 0 INVALID, 1 NEW, 2 ESTABLISHED, 3 RELATED, 4 UNTRACKED.
    State,
    /// Bit 0: its source is translated by the kernel, bit 1: its destination.
    Translated,
    /// Bit 0: it came through IPsec, bit 1: it leaves through IPsec.
    Ipsec,
    /// Protocol.
    Proto,
    /// 0 whole, 1 first fragment, 2 later fragment, 3 whole but with a fragment header (IPv6, where
    /// that matters).
    Fragment,
    /// The transport header is cut short, and the packet dropped for it, by Linux (1), by IPFilter
    /// (2), by ipfw (4); for IPFilter a header in front of it is broken (8).
    Short,
    /// The TCP header, or what is behind SCTP's, is longer than the packet (1), or the TCP header
    /// shorter than it may be (2, where that matters).
    Malformed,
    /// ICMP type.
    IcmpType,
    /// ICMP code.
    IcmpCode,
    /// TCP flags.
    Flags,
    /// Destination port.
    DstPort,
    /// Source port.
    SrcPort,
    /// Destination address.
    Dst,
    /// Source address.
    Src,
    /// Link-layer type: 0 unicast, 1 broadcast, 2 multicast, 3 to another host, 4 made here.
    PacketType,
    /// There is a source Ethernet address.
    HasMac,
    /// Source Ethernet address.
    Mac,
    /// The sending socket has an owner.
    HasOwner,
    /// User id.
    Uid,
    /// Group id.
    Gid,
    /// Layer 3 length, 65,536 standing for everything from there on.
    Length,
    /// TTL or hop limit.
    Ttl,
    /// TOS byte.
    Tos,
    /// Packet mark on arrival.
    Mark,
    /// There is a flow that has a mark.
    HasFlow,
    /// Flow mark on arrival.
    Connmark,
    /// There is an MSS option.
    HasMss,
    /// Maximum segment size.
    Mss,
    /// SPI of AH or ESP.
    Spi,
    /// There is an IPv6 routing header.
    HasRouting,
    /// Its type.
    RoutingType,
    /// Segments left.
    Segments,
    /// TCP options present, kinds 0 to 127, one bit a kind.
    OptionsLow,
    /// TCP options present, kinds 128 to 255.
    OptionsHigh,
    /// SCTP chunks present, types 0 to 127, one bit a type.
    ChunksLow,
    /// SCTP chunks present, types 128 to 255.
    ChunksHigh,
    /// The source is an address of this host; bit 1: a broadcast address of this host.
    SrcOwn,
    /// The same of the destination.
    DstOwn,
}

/// Fields with their widths in bits, in the order of the levels.
pub const FIELDS: [(Field, u32); 40] = [
    (Field::In, 16),
    (Field::Out, 16),
    (Field::State, 3),
    (Field::Translated, 2),
    (Field::Ipsec, 2),
    (Field::Proto, 8),
    (Field::Fragment, 2),
    (Field::Short, 4),
    (Field::Malformed, 2),
    (Field::IcmpType, 8),
    (Field::IcmpCode, 8),
    (Field::Flags, 8),
    (Field::DstPort, 16),
    (Field::SrcPort, 16),
    (Field::Dst, 128),
    (Field::Src, 128),
    (Field::PacketType, 3),
    (Field::HasMac, 1),
    (Field::Mac, 48),
    (Field::HasOwner, 1),
    (Field::Uid, 32),
    (Field::Gid, 32),
    (Field::Length, 17),
    (Field::Ttl, 8),
    (Field::Tos, 8),
    (Field::Mark, 32),
    (Field::HasFlow, 1),
    (Field::Connmark, 32),
    (Field::HasMss, 1),
    (Field::Mss, 16),
    (Field::Spi, 32),
    (Field::HasRouting, 1),
    (Field::RoutingType, 8),
    (Field::Segments, 8),
    (Field::OptionsLow, 128),
    (Field::OptionsHigh, 128),
    (Field::ChunksLow, 128),
    (Field::ChunksHigh, 128),
    (Field::SrcOwn, 2),
    (Field::DstOwn, 2),
];

/// The level of the first condition that isn't a function of the packet.
pub const OPAQUE: u32 = {
    let (mut sum, mut at) = (0, 0);
    while at < FIELDS.len() {
        sum += FIELDS[at].1;
        at += 1;
    }
    sum
};

impl Field {
    /// Its width in bits.
    pub fn width(self) -> u32 {
        FIELDS[self as usize].1
    }

    /// The level of its most significant bit.
    pub fn base(self) -> u32 {
        FIELDS[..self as usize].iter().map(|field| field.1).sum()
    }

    /// Its largest value.
    pub fn top(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }

    /// The level of one of its bits, 0 being the least significant one.
    pub fn bit(self, bit: u32) -> u32 {
        self.base() + self.width() - 1 - bit
    }
}

impl Diagram {
    /// Packets whose field is in one of these ranges: sorted, disjoint, inclusive.
    pub fn among(&mut self, field: Field, ranges: &[(u128, u128)]) -> Result<Node, TooLarge> {
        self.among_low(field, field.width(), ranges)
    }

    /// The same of a field of which only the lowest bits are in use.
    pub fn among_low(
        &mut self,
        field: Field,
        width: u32,
        ranges: &[(u128, u128)],
    ) -> Result<Node, TooLarge> {
        let top = u128::MAX >> (128 - width);
        let inside = ranges.partition_point(|range| range.0 <= top);
        let level = field.base() + field.width() - width;
        self.ranges((level, width), 0, &ranges[..inside])
    }

    /// Packets whose field has this value.
    pub fn is(&mut self, field: Field, value: u128) -> Result<Node, TooLarge> {
        self.among(field, &[(value, value)])
    }

    /// The part of a field whose bits above `width` are those of `first`.
    fn ranges(
        &mut self,
        (level, width): (u32, u32),
        first: u128,
        ranges: &[(u128, u128)],
    ) -> Result<Node, TooLarge> {
        let below = match width {
            128 => u128::MAX,
            bits => (1 << bits) - 1,
        };
        let last = first | below;
        match ranges {
            [] => return Ok(NO),
            [(from, to)] if *from <= first && last <= *to => return Ok(YES),
            _ => {}
        }
        let middle = first | 1 << (width - 1);
        let upto = ranges.partition_point(|range| range.0 < middle);
        let from = ranges.partition_point(|range| range.1 < middle);
        let low = self.ranges((level + 1, width - 1), first, &ranges[..upto])?;
        let high = self.ranges((level + 1, width - 1), middle, &ranges[from..])?;
        self.make(level, low, high)
    }

    /// Packets whose field, masked, has this value.
    pub fn masked(&mut self, field: Field, value: u128, mask: u128) -> Result<Node, TooLarge> {
        if value & !mask != 0 || mask > field.top() && value > field.top() {
            return Ok(NO);
        }
        let mut node = YES;
        for bit in (0..field.width()).filter(|bit| mask >> bit & 1 != 0) {
            let level = field.bit(bit);
            node = match value >> bit & 1 {
                0 => self.make(level, node, NO)?,
                _ => self.make(level, NO, node)?,
            };
        }
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_where_its_number_says() {
        for (at, (field, _)) in FIELDS.iter().enumerate() {
            assert_eq!(*field as usize, at);
        }
        assert_eq!(Field::DstOwn.base() + 2, OPAQUE);
    }

    #[test]
    fn ranges_and_masks_hold_what_they_say() {
        let mut d = Diagram::new(10_000);
        let ranges = [(0, 3), (7, 7), (100, 255)];
        let node = d.among(Field::Ttl, &ranges).unwrap();
        let masked = d.masked(Field::Ttl, 0x41, 0xc1).unwrap();
        for value in 0..=255u128 {
            let bit = |level: u32| value >> (Field::Ttl.bit(0) - level) & 1 != 0;
            let inside = ranges.iter().any(|r| (r.0..=r.1).contains(&value));
            assert_eq!(d.at(node, bit) == 1, inside, "{value}");
            assert_eq!(d.at(masked, bit) == 1, value & 0xc1 == 0x41, "{value}");
        }
        let all = d.among(Field::Src, &[(0, u128::MAX)]).unwrap();
        assert_eq!(all, YES);
    }
}
