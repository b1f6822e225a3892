//! Conditions as sets of packets.
//!
//! In: a condition of the model. Out: the packets for which it holds, those for which it doesn't,
//! and those that are dropped for being cut short; a packet in none of them has no such field. It
//! says what `eval::fields` and `eval::sets` say; tests hold both against each other.

use super::diagram::{NO, Node, TooLarge, YES};
use super::field::Field;
use super::space::{Header, Space};
use crate::model::{
    AddrMatch, AddrType, Cmp, Cond, Family, NamedSet, Owner, PacketType, Policy, RangeSet,
    SetDimension, SetField, SetId, SetPart, handling,
};

/// A condition for every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// It holds.
    pub yes: Node,
    /// It doesn't.
    pub no: Node,
    /// The packet is dropped.
    pub hot: Node,
}

impl Truth {
    pub(super) const NEVER: Truth = Truth {
        yes: NO,
        no: NO,
        hot: NO,
    };
}

fn wide<T: Copy + Into<u128>>(ranges: &[(T, T)]) -> Vec<(u128, u128)> {
    ranges.iter().map(|r| (r.0.into(), r.1.into())).collect()
}

impl Space {
    /// Of a set of packets: holds inside, doesn't outside.
    pub(super) fn either(&mut self, yes: Node) -> Result<Truth, TooLarge> {
        let no = self.diagram.not(yes)?;
        Ok(Truth { yes, no, hot: NO })
    }

    /// The same for packets that have the field.
    pub(super) fn having(&mut self, has: Node, yes: Node) -> Result<Truth, TooLarge> {
        let yes_and_has = self.diagram.and(has, yes)?;
        let no = self.diagram.without(has, yes)?;
        Ok(Truth {
            yes: yes_and_has,
            no,
            hot: NO,
        })
    }

    fn value(&mut self, field: Field, ranges: &[(u128, u128)]) -> Result<Truth, TooLarge> {
        let yes = self.diagram.among(field, ranges)?;
        self.either(yes)
    }

    pub(super) fn address(&mut self, field: Field, values: &AddrMatch) -> Result<Node, TooLarge> {
        let width = self.address_width();
        match values {
            AddrMatch::Ranges(set) => self.diagram.among_low(field, width, &wide(set.ranges())),
            AddrMatch::Masked { value, mask } => {
                let used = u128::MAX >> (128 - width);
                match value & !used {
                    0 => self.diagram.masked(field, *value, mask & used),
                    _ => Ok(NO),
                }
            }
        }
    }

    /// A condition that is a function of the packet alone, whatever the walk has done to it;
    /// `None` for all others.
    pub fn pure(&mut self, cond: &Cond) -> Result<Option<Truth>, TooLarge> {
        Ok(Some(match cond {
            Cond::Never => Truth::NEVER,
            Cond::Src(values) => {
                let yes = self.address(Field::Src, values)?;
                self.either(yes)?
            }
            Cond::Dst(values) => {
                let yes = self.address(Field::Dst, values)?;
                self.either(yes)?
            }
            Cond::Proto(set) => {
                let yes = self.of_protocols(&wide(set.ranges()))?;
                self.either(yes)?
            }
            Cond::LaterFragment => self.value(Field::Fragment, &[(2, 2)])?,
            Cond::CutShort => {
                let short = self.short()?;
                self.either(short)?
            }
            Cond::Fragments(bits) => {
                let yes = self.placed(*bits)?;
                self.either(yes)?
            }
            Cond::Ipsec { out } => {
                let bit = if *out { 2 } else { 1 };
                let yes = self.diagram.masked(Field::Ipsec, bit, bit)?;
                self.either(yes)?
            }
            Cond::Mac(address) => {
                let value = address.iter().fold(0, |all, b| all << 8 | u128::from(*b));
                let has = self.diagram.is(Field::HasMac, 1)?;
                let yes = self.diagram.is(Field::Mac, value)?;
                self.having(has, yes)?
            }
            Cond::PacketType(kind) => {
                let number = packet_type(*kind);
                self.value(Field::PacketType, &[(number, number)])?
            }
            Cond::SrcType(kinds) => self.address_types(Field::Src, Field::SrcOwn, kinds)?,
            Cond::DstType(kinds) => self.address_types(Field::Dst, Field::DstOwn, kinds)?,
            Cond::Owner(owner) => self.owner(*owner)?,
            Cond::Length(set) => self.value(Field::Length, &wide(set.ranges()))?,
            Cond::Ttl(compare) => {
                let range = match *compare {
                    Cmp::Eq(value) => (u128::from(value), u128::from(value)),
                    Cmp::Lt(0) | Cmp::Gt(255) => (1, 0),
                    Cmp::Lt(value) => (0, u128::from(value) - 1),
                    Cmp::Gt(value) => (u128::from(value) + 1, 255),
                };
                let ranges = [range];
                self.value(Field::Ttl, if range.0 > range.1 { &[] } else { &ranges })?
            }
            Cond::RoutingHeader { kind, segments } => {
                let has = self.diagram.is(Field::HasRouting, 1)?;
                let mut yes = match kind {
                    Some(kind) => self.diagram.is(Field::RoutingType, u128::from(*kind))?,
                    None => YES,
                };
                let range = (u128::from(segments.0), u128::from(segments.1).min(255));
                let left = match range.0 <= range.1 {
                    true => self.diagram.among(Field::Segments, &[range])?,
                    false => NO,
                };
                yes = self.diagram.and(yes, left)?;
                self.having(has, yes)?
            }
            _ => return self.transport(cond),
        }))
    }

    /// A condition on the transport header.
    fn transport(&mut self, cond: &Cond) -> Result<Option<Truth>, TooLarge> {
        let Some(header) = header(cond) else {
            return Ok(None);
        };
        let d = &mut self.diagram;
        let yes = match cond {
            Cond::SrcPort(set) => d.among(Field::SrcPort, &wide(set.ranges()))?,
            Cond::DstPort(set) => d.among(Field::DstPort, &wide(set.ranges()))?,
            Cond::AnyPort(set) => {
                let ranges = wide(set.ranges());
                let (src, dst) = (
                    d.among(Field::SrcPort, &ranges)?,
                    d.among(Field::DstPort, &ranges)?,
                );
                d.or(src, dst)?
            }
            Cond::TcpFlags { mask, value } => {
                let said = d.masked(Field::Flags, u128::from(*value), u128::from(*mask))?;
                self.flags_read(said, *value == 0)?
            }
            Cond::EcnTcp(bits) => d.masked(Field::Flags, u128::from(*bits), u128::from(*bits))?,
            Cond::TcpOption(kind) => {
                let (field, bit) = half(*kind, Field::OptionsLow, Field::OptionsHigh);
                d.masked(field, bit, bit)?
            }
            Cond::TcpMss(set) => {
                let has = d.is(Field::HasMss, 1)?;
                let value = d.among(Field::Mss, &wide(set.ranges()))?;
                d.and(has, value)?
            }
            Cond::Icmp { kind, codes } => match kind {
                None => YES,
                Some(kind) if codes.0 <= codes.1 => {
                    let kind = d.is(Field::IcmpType, u128::from(*kind))?;
                    let range = (u128::from(codes.0), u128::from(codes.1));
                    let code = d.among(Field::IcmpCode, &[range])?;
                    d.and(kind, code)?
                }
                Some(_) => NO,
            },
            Cond::AhSpi(set) | Cond::EspSpi(set) => d.among(Field::Spi, &wide(set.ranges()))?,
            Cond::SctpChunks { kind, types, .. } => self.chunks(*kind, types)?,
            _ => NO,
        };
        let mut has = self.readable(header)?;
        let mut hot = match cond.needs_transport() {
            true => self.short()?,
            false => NO,
        };
        if matches!(cond, Cond::TcpOption(_) | Cond::TcpMss(_)) {
            let malformed = self.malformed()?;
            let malformed = self.diagram.and(has, malformed)?;
            has = self.diagram.without(has, malformed)?;
            hot = self.diagram.or(hot, malformed)?;
        }
        if let Cond::SctpChunks { kind, .. } = cond {
            return self.chunked(*kind, yes, hot).map(Some);
        }
        let truth = self.having(has, yes)?;
        Ok(Some(Truth { hot, ..truth }))
    }

    /// What a test of chunks with flags says, where it is not known which: without a chunk, that
    /// there is none of them (1), or none but them (2).
    pub(super) fn of_some_chunk(&mut self, kind: u8, unknown: Node) -> Result<Node, TooLarge> {
        let d = &mut self.diagram;
        let low = d.masked(Field::ChunksLow, 0, u128::MAX)?;
        let high = d.masked(Field::ChunksHigh, 0, u128::MAX)?;
        let none = d.and(low, high)?;
        match kind {
            0 => Ok(unknown),
            1 => d.without(unknown, none),
            _ => d.or(unknown, none),
        }
    }

    /// A test of chunks with flags, see [`Self::of_some_chunk`].
    pub(super) fn flagged_chunks(&mut self, kind: u8, unknown: Node) -> Result<Truth, TooLarge> {
        let yes = self.of_some_chunk(kind, unknown)?;
        let short = self.short()?;
        self.chunked(kind, yes, short)
    }

    /// A test of SCTP chunks, of which `yes` says what it does where they end with the packet;
    /// `hot` are packets dropped for want of the header.
    pub(super) fn chunked(&mut self, kind: u8, yes: Node, hot: Node) -> Result<Truth, TooLarge> {
        let has = self.readable(Header::Sctp)?;
        let broken = self.diagram.is(Field::Malformed, super::cut::TOO_LONG)?;
        let lost = match kind {
            0 => broken,
            1 => self.diagram.without(broken, yes)?,
            _ => self.diagram.and(broken, yes)?,
        };
        let lost = self.diagram.and(has, lost)?;
        let has = self.diagram.without(has, lost)?;
        let truth = self.having(has, yes)?;
        let hot = self.diagram.or(hot, lost)?;
        Ok(Truth { hot, ..truth })
    }

    fn chunks(&mut self, kind: u8, types: &[u64; 4]) -> Result<Node, TooLarge> {
        let halves = [
            (
                Field::ChunksLow,
                u128::from(types[1]) << 64 | u128::from(types[0]),
            ),
            (
                Field::ChunksHigh,
                u128::from(types[3]) << 64 | u128::from(types[2]),
            ),
        ];
        let d = &mut self.diagram;
        let mut all = [YES, YES];
        for (at, (field, wanted)) in halves.into_iter().enumerate() {
            all[at] = match kind {
                0 => d.masked(field, wanted, wanted)?,
                1 => d.masked(field, 0, wanted)?,
                _ => d.masked(field, 0, !wanted)?,
            };
        }
        let both = d.and(all[0], all[1])?;
        match kind {
            1 => d.not(both),
            _ => Ok(both),
        }
    }

    fn owner(&mut self, owner: Owner) -> Result<Truth, TooLarge> {
        let has = self.diagram.is(Field::HasOwner, 1)?;
        let (field, range) = match owner {
            Owner::Uid(range) => (Field::Uid, range),
            Owner::Gid(range) => (Field::Gid, range),
        };
        let ids = match range.first <= range.last {
            true => {
                let range = (u128::from(range.first), u128::from(range.last));
                self.diagram.among(field, &[range])?
            }
            false => NO,
        };
        let yes = self.diagram.and(has, ids)?;
        self.either(yes)
    }

    /// The routing type of an address, as `eval::Locals` has it.
    fn address_types(
        &mut self,
        address: Field,
        own: Field,
        kinds: &[AddrType],
    ) -> Result<Truth, TooLarge> {
        let (own_local, own_broadcast) = (self.diagram.is(own, 1)?, self.diagram.is(own, 2)?);
        let width = self.address_width();
        let block = |space: &mut Self, ranges: &[(u128, u128)]| {
            space.diagram.among_low(address, width, ranges)
        };
        let multicast;
        let mut left = YES;
        let mut parts = Vec::new();
        match self.family {
            Family::V4 => {
                let loopback = block(self, &[(0x7f00_0000, 0x7fff_ffff)])?;
                let local = self.diagram.or(own_local, loopback)?;
                parts.push((AddrType::Local, local));
                let fixed = block(self, &[(0, 0x00ff_ffff), (0xffff_ffff, 0xffff_ffff)])?;
                let broadcast = self.diagram.or(own_broadcast, fixed)?;
                parts.push((AddrType::Broadcast, broadcast));
                multicast = block(self, &[(0xe000_0000, 0xefff_ffff)])?;
                parts.push((AddrType::Multicast, multicast));
            }
            Family::V6 => {
                multicast = block(self, &[(0xff << 120, u128::MAX)])?;
                parts.push((AddrType::Multicast, multicast));
                let loopback = block(self, &[(1, 1)])?;
                let local = self.diagram.or(own_local, loopback)?;
                parts.push((AddrType::Local, local));
                let none = block(self, &[(0, 0), (0xffff << 32, (0x1_0000 << 32) - 1)])?;
                parts.push((AddrType::Unspecified, none));
            }
        }
        parts.push((AddrType::Unicast, YES));
        let mut yes = NO;
        for (kind, part) in parts {
            if kinds.contains(&kind) {
                let mine = self.diagram.and(left, part)?;
                yes = self.diagram.or(yes, mine)?;
            }
            left = self.diagram.without(left, part)?;
        }
        self.either(yes)
    }

    /// Membership in a set that does not change and has no entries that end; `None` for others.
    pub fn member(
        &mut self,
        policy: &Policy,
        id: SetId,
        fields: &[SetField],
    ) -> Result<Option<Node>, TooLarge> {
        let set = &policy.sets[id.0 as usize];
        if set.dimensions.is_empty() {
            let mut all = NO;
            for member in &set.members {
                let dimensions = policy.sets[member.0 as usize].dimensions.len();
                if dimensions > fields.len() {
                    continue;
                }
                let Some(part) = self.member(policy, *member, fields)? else {
                    return Ok(None);
                };
                all = self.diagram.or(all, part)?;
            }
            return Ok(Some(all));
        }
        let timed = |entry: &crate::model::SetEntry| entry.timeout.is_some_and(|t| t > 0);
        if set.changes || set.entries.iter().any(timed) {
            return Ok(None);
        }
        let foreign = set.dimensions.contains(&SetDimension::Address)
            && set.family.is_some_and(|family| family != self.family);
        if foreign || fields.len() < set.dimensions.len() {
            return Ok(Some(NO));
        }
        if let Some(addresses) = set.addresses() {
            let field = side(fields[0], Field::Src, Field::Dst);
            let all = AddrMatch::Ranges(addresses);
            return self.address(field, &all).map(Some);
        }
        self.entries(set, fields).map(Some)
    }

    /// The most specific entry decides; of equal ones the one written first.
    fn entries(&mut self, set: &NamedSet, fields: &[SetField]) -> Result<Node, TooLarge> {
        let size = |part: &SetPart| match part {
            SetPart::Addresses(first, last) => last - first,
            SetPart::ProtoPorts(..) | SetPart::Ports(..) => 0,
        };
        let mut order: Vec<usize> = (0..set.entries.len()).collect();
        order.sort_by_key(|at| set.entries[*at].parts.iter().map(size).max().unwrap_or(0));
        let mut inside = NO;
        for at in order.into_iter().rev() {
            let entry = &set.entries[at];
            let mut all = YES;
            for (part, field) in entry.parts.iter().zip(fields) {
                let part = self.part(part, *field)?;
                all = self.diagram.and(all, part)?;
            }
            inside = match entry.nomatch {
                true => self.diagram.without(inside, all)?,
                false => self.diagram.or(inside, all)?,
            };
        }
        Ok(inside)
    }

    /// One part of an entry, with what ipset takes for a port: see `eval::sets`.
    fn part(&mut self, part: &SetPart, field: SetField) -> Result<Node, TooLarge> {
        let port = side(field, Field::SrcPort, Field::DstPort);
        let own = if self.family == Family::V4 { 1 } else { 58 };
        match *part {
            SetPart::Addresses(first, last) => {
                let range = AddrMatch::Ranges(RangeSet::range(first, last));
                self.address(side(field, Field::Src, Field::Dst), &range)
            }
            SetPart::ProtoPorts(proto, first, last) => {
                let is = self.diagram.is(Field::Proto, u128::from(proto))?;
                let value = match proto {
                    6 | 17 | 132 | 136 => {
                        let has = self.readable(Header::Ports)?;
                        let range = (u128::from(first), u128::from(last));
                        let value = self.diagram.among(port, &[range])?;
                        self.diagram.and(has, value)?
                    }
                    proto if proto == own => self.icmp_number(first, last)?,
                    _ if first == 0 => YES,
                    _ => NO,
                };
                self.diagram.and(is, value)
            }
            SetPart::Ports(first, last) => {
                let is = self.diagram.among(Field::Proto, &[(6, 6), (17, 17)])?;
                let has = self.readable(Header::Ports)?;
                let is = self.diagram.and(is, has)?;
                let range = (u128::from(first), u128::from(last));
                let value = self.diagram.among(port, &[range])?;
                self.diagram.and(is, value)
            }
        }
    }

    /// ICMP type and code as one number in a range.
    fn icmp_number(&mut self, first: u16, last: u16) -> Result<Node, TooLarge> {
        let mut all = NO;
        for kind in first >> 8..=last >> 8 {
            let low = if kind == first >> 8 { first & 255 } else { 0 };
            let high = if kind == last >> 8 { last & 255 } else { 255 };
            let kind = self.diagram.is(Field::IcmpType, u128::from(kind))?;
            let range = (u128::from(low), u128::from(high));
            let code = self.diagram.among(Field::IcmpCode, &[range])?;
            let both = self.diagram.and(kind, code)?;
            all = self.diagram.or(all, both)?;
        }
        let has = self.readable(Header::Icmp)?;
        self.diagram.and(has, all)
    }

    /// Packets in one of these states, or translated so: bits of [`handling::TRANSLATED`].
    pub fn states(&mut self, mask: u8) -> Result<Node, TooLarge> {
        let states = (0..5u128).filter(|state| mask >> state & 1 != 0);
        let states: Vec<(u128, u128)> = states.map(|state| (state, state)).collect();
        let yes = self.diagram.among(Field::State, &states)?;
        let translated = self.translated(mask)?;
        self.diagram.or(yes, translated)
    }

    /// Packets that the kernel translates in one of these ways.
    pub fn translated(&mut self, mask: u8) -> Result<Node, TooLarge> {
        let mut all = NO;
        for (bit, value) in [
            (handling::SOURCE_TRANSLATED, 1),
            (handling::DESTINATION_TRANSLATED, 2),
        ] {
            if u16::from(mask) & bit != 0 {
                let part = self.diagram.masked(Field::Translated, value, value)?;
                all = self.diagram.or(all, part)?;
            }
        }
        Ok(all)
    }
}

/// The transport header that a condition is about. Every other condition is named here, so that a
/// new one can't be forgotten.
fn header(cond: &Cond) -> Option<Header> {
    match cond {
        Cond::SrcPort(_) | Cond::DstPort(_) | Cond::AnyPort(_) => Some(Header::Ports),
        Cond::TcpFlags { .. } | Cond::EcnTcp(_) | Cond::TcpOption(_) | Cond::TcpMss(_) => {
            Some(Header::Tcp)
        }
        Cond::Icmp { .. } => Some(Header::Icmp),
        Cond::AhSpi(_) | Cond::EspSpi(_) => Some(Header::Spi),
        Cond::SctpChunks { flags, .. } if flags.is_empty() => Some(Header::Sctp),
        Cond::Never
        | Cond::Src(_)
        | Cond::Dst(_)
        | Cond::InIface(_)
        | Cond::OutIface(_)
        | Cond::Proto(_)
        | Cond::LaterFragment
        | Cond::Fragments(_)
        | Cond::CutShort
        | Cond::ProposedBy(_)
        | Cond::State(_)
        | Cond::Ipsec { .. }
        | Cond::RouteBack { .. }
        | Cond::ReversePath(_)
        | Cond::Aside(_)
        | Cond::Ct(_)
        | Cond::Mark { .. }
        | Cond::Connmark { .. }
        | Cond::Mac(_)
        | Cond::PacketType(_)
        | Cond::SrcType(_)
        | Cond::DstType(_)
        | Cond::Owner(_)
        | Cond::Set { .. }
        | Cond::Length(_)
        | Cond::Ttl(_)
        | Cond::Dscp(_)
        | Cond::Tos { .. }
        | Cond::EcnIp(_)
        | Cond::RoutingHeader { .. }
        | Cond::SctpChunks { .. }
        | Cond::History(_)
        | Cond::Learned
        | Cond::Learn(_)
        | Cond::OutOfWindow
        | Cond::IcmpHead(_)
        | Cond::IpfWith(_)
        | Cond::Dynamic(_)
        | Cond::Any(_) => None,
    }
}

fn side(field: SetField, src: Field, dst: Field) -> Field {
    match field {
        SetField::Src => src,
        SetField::Dst => dst,
    }
}

/// The half that has a bit for a number, and the bit.
pub(super) fn half(number: u8, low: Field, high: Field) -> (Field, u128) {
    match number {
        0..=127 => (low, 1 << number),
        _ => (high, 1 << (number - 128)),
    }
}

pub(super) fn packet_type(kind: PacketType) -> u128 {
    match kind {
        PacketType::Unicast => 0,
        PacketType::Broadcast => 1,
        PacketType::Multicast => 2,
        PacketType::OtherHost => 3,
        PacketType::Outgoing => 4,
    }
}
