//! Packets and valuations: one packet out of a set, and a packet as the bits of a diagram.
//!
//! In: a set of packets. Out: values of all fields, plain ones where there is a choice, and the
//! packet that they are. Or the other way round, so that a packet can be looked up in a diagram.

use super::cut::{TOO_LONG, bit, proto_for, reads, short_for};
use super::diagram::{NO, Node};
use super::field::{FIELDS, Field, OPAQUE};
use super::space::{ICMP, Space, TCP};
use super::truth::{half, packet_type};
use crate::eval::{Locals, Path, tcp_option};
use crate::model::{
    CtState, Facts, Family, Fragment, Hook, Packet, PacketType, RangeSet, Reading, SctpChunk,
    Transport, handling,
};
use std::collections::BTreeSet;

/// The states of [`Field::State`], by number.
pub const STATES: [CtState; 5] = [
    CtState::Invalid,
    CtState::New,
    CtState::Established,
    CtState::Related,
    CtState::Untracked,
];

/// Values of all fields, and which unknown conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valuation {
    values: Vec<u128>,
    /// Conditions that hold, by number.
    pub holds: BTreeSet<u32>,
}

impl Default for Valuation {
    fn default() -> Self {
        Valuation {
            values: vec![0; FIELDS.len()],
            holds: BTreeSet::new(),
        }
    }
}

impl Valuation {
    /// The value of a field.
    pub fn get(&self, field: Field) -> u128 {
        self.values[field as usize]
    }

    /// Sets the value of a field.
    pub fn set(&mut self, field: Field, value: u128) {
        self.values[field as usize] = value;
    }

    /// The bit at a level of a diagram.
    pub fn bit(&self, level: u32) -> bool {
        if level >= OPAQUE {
            return self.holds.contains(&(level - OPAQUE));
        }
        let mut end = 0;
        for (field, width) in FIELDS {
            end += width;
            if level < end {
                return self.get(field) >> (end - 1 - level) & 1 != 0;
            }
        }
        false
    }

    /// The state that connection tracking finds.
    pub fn state(&self) -> CtState {
        STATES[(self.get(Field::State) as usize).min(4)]
    }

    /// The flow's mark, if there is a flow.
    pub fn connmark(&self) -> Option<u32> {
        (self.get(Field::HasFlow) != 0).then_some(self.get(Field::Connmark) as u32)
    }

    /// The addresses of the host that make the addresses of the packet what they are.
    pub fn locals(&self, family: Family) -> Locals {
        let mut locals = Locals::default();
        for (own, address) in [(Field::SrcOwn, Field::Src), (Field::DstOwn, Field::Dst)] {
            let one = RangeSet::one(self.get(address));
            match (self.get(own), family) {
                (1, Family::V4) => locals.local = locals.local.union(&one),
                (1, Family::V6) => locals.local6 = locals.local6.union(&one),
                (2, Family::V4) => locals.broadcast = locals.broadcast.union(&one),
                _ => {}
            }
        }
        locals
    }

    /// The values of a packet on its way, read as Linux reads it; `state` and `connmark` are what
    /// tracking would find.
    pub fn of(
        space: &Space,
        packet: &Packet,
        state: CtState,
        connmark: Option<u32>,
    ) -> Option<Valuation> {
        let mut v = Valuation::default();
        for (field, name) in [
            (Field::In, &packet.in_iface),
            (Field::Out, &packet.out_iface),
        ] {
            if !name.is_empty() {
                v.set(field, space.class_of(name)? as u128);
            }
        }
        let state = STATES.iter().position(|one| *one == state)?;
        v.set(Field::State, state as u128);
        let bit = |bit: u16, value: u128| if packet.handling & bit != 0 { value } else { 0 };
        let source = bit(handling::SOURCE_TRANSLATED, 1);
        v.set(
            Field::Translated,
            source | bit(handling::DESTINATION_TRANSLATED, 2),
        );
        let ipsec = bit(handling::IPSEC_IN, 1) | bit(handling::IPSEC_OUT, 2);
        v.set(Field::Ipsec, ipsec);
        v.set(Field::Proto, packet.proto.into());
        v.set(
            Field::Fragment,
            match packet.fragment {
                Fragment::Whole => 0,
                Fragment::First => 1,
                Fragment::Later(_) => 2,
            },
        );
        v.set(Field::Src, packet.src);
        v.set(Field::Dst, packet.dst);
        v.set(Field::PacketType, packet_type(packet.packet_type));
        if let Some(mac) = packet.mac {
            v.set(Field::HasMac, 1);
            let value = mac.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
            v.set(Field::Mac, value);
        }
        if let Some((uid, gid)) = packet.owner {
            v.set(Field::HasOwner, 1);
            v.set(Field::Uid, uid.into());
            v.set(Field::Gid, gid.into());
        }
        v.set(Field::Length, u128::from(packet.length).min(65_536));
        v.set(Field::Ttl, packet.ttl.into());
        v.set(Field::Tos, packet.tos.into());
        v.set(Field::Mark, packet.mark.into());
        if let Some(mark) = connmark {
            v.set(Field::HasFlow, 1);
            v.set(Field::Connmark, mark.into());
        }
        if let Some((kind, left)) = packet.routing {
            v.set(Field::HasRouting, 1);
            v.set(Field::RoutingType, kind.into());
            v.set(Field::Segments, left.into());
        }
        v.transport(&packet.transport);
        if packet.transport == Transport::Short {
            let later = matches!(packet.fragment, Fragment::Later(_));
            let short = short_for(Reading::Linux, packet.family, packet.proto, later);
            v.set(Field::Short, short & space.cuts);
        }
        Some(v)
    }

    fn transport(&mut self, transport: &Transport) {
        match transport {
            Transport::None | Transport::Short => {}
            Transport::Tcp {
                flags,
                options,
                malformed,
                ..
            } => {
                self.set(Field::Flags, (*flags).into());
                self.set(Field::Malformed, u128::from(*malformed));
                for kind in 0..=255 {
                    if tcp_option(options, kind).is_some() {
                        let (field, bit) = half(kind, Field::OptionsLow, Field::OptionsHigh);
                        self.set(field, self.get(field) | bit);
                    }
                }
                if let Some(&[high, low]) = tcp_option(options, 2) {
                    self.set(Field::HasMss, 1);
                    self.set(Field::Mss, u16::from_be_bytes([high, low]).into());
                }
            }
            Transport::Udp { .. } => {}
            Transport::Sctp { chunks, broken, .. } => {
                self.set(Field::Malformed, u128::from(*broken));
                for chunk in chunks {
                    let (field, bit) = half(chunk.kind, Field::ChunksLow, Field::ChunksHigh);
                    self.set(field, self.get(field) | bit);
                }
            }
            Transport::Icmp { kind, code, .. } => {
                self.set(Field::IcmpType, (*kind).into());
                self.set(Field::IcmpCode, (*code).into());
            }
            Transport::Spi(spi) => self.set(Field::Spi, (*spi).into()),
        }
        let ports = match transport {
            Transport::Tcp {
                src_port, dst_port, ..
            }
            | Transport::Udp { src_port, dst_port }
            | Transport::Sctp {
                src_port, dst_port, ..
            } => Some((*src_port, *dst_port)),
            _ => None,
        };
        if let Some((src, dst)) = ports {
            self.set(Field::SrcPort, src.into());
            self.set(Field::DstPort, dst.into());
        }
    }

    /// The packet as a language reads it, at the last hook of its way.
    pub fn packet(&self, space: &Space, path: Path, reading: Reading) -> Packet {
        let proto = self.get(Field::Proto) as u8;
        let later = self.get(Field::Fragment) == 2;
        let short = self.get(Field::Short);
        let name = |field: Field| {
            let class = self.get(field) as usize;
            space.interfaces.get(class).cloned().unwrap_or_default()
        };
        let (hook, in_iface, out_iface) = match path {
            Path::Input => (Hook::Input, name(Field::In), String::new()),
            Path::Forward => (Hook::Forward, name(Field::In), name(Field::Out)),
            Path::Output => (Hook::Output, String::new(), name(Field::Out)),
        };
        let has = |field: Field| self.get(field) != 0;
        let translated = self.get(Field::Translated);
        let ipsec = self.get(Field::Ipsec);
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let mac = self.get(Field::Mac).to_be_bytes();
        Packet {
            family: space.family,
            hook,
            in_iface,
            out_iface,
            src: self.get(Field::Src),
            dst: self.get(Field::Dst),
            proto: proto_for(reading, space.family, (later, short), proto),
            length: self.get(Field::Length) as u32,
            ttl: self.get(Field::Ttl) as u8,
            tos: self.get(Field::Tos) as u8,
            fragment: match (self.get(Field::Fragment), has(Field::Short)) {
                (0, _) => Fragment::Whole,
                (1, _) => Fragment::First,
                // RFC 3128.
                (2, true) => Fragment::Later(1),
                (2, false) => Fragment::Later(185),
                _ if reading == Reading::Ipf => Fragment::First,
                _ => Fragment::Whole,
            },
            transport: self.transport_header(reading, space.family),
            routing: has(Field::HasRouting).then(|| {
                (
                    self.get(Field::RoutingType) as u8,
                    self.get(Field::Segments) as u8,
                )
            }),
            mark: self.get(Field::Mark) as u32,
            mac: has(Field::HasMac).then(|| std::array::from_fn(|at| mac[mac.len() - 6 + at])),
            packet_type: match self.get(Field::PacketType) {
                0 => PacketType::Unicast,
                1 => PacketType::Broadcast,
                2 => PacketType::Multicast,
                3 => PacketType::OtherHost,
                _ => PacketType::Outgoing,
            },
            owner: has(Field::HasOwner)
                .then(|| (self.get(Field::Uid) as u32, self.get(Field::Gid) as u32)),
            handling: bit(translated & 1 != 0, handling::SOURCE_TRANSLATED)
                | bit(translated & 2 != 0, handling::DESTINATION_TRANSLATED)
                | bit(ipsec & 1 != 0, handling::IPSEC_IN)
                | bit(ipsec & 2 != 0, handling::IPSEC_OUT),
            aside: Facts::default(),
        }
    }

    fn transport_header(&self, reading: Reading, family: Family) -> Transport {
        let short = self.get(Field::Short);
        if short & bit(reading) != 0 {
            return Transport::Short;
        }
        let proto = self.get(Field::Proto) as u8;
        if self.get(Field::Fragment) == 2 || !reads(reading, family, proto, short) {
            return Transport::None;
        }
        let malformed = self.get(Field::Malformed);
        let (src_port, dst_port) = (
            self.get(Field::SrcPort) as u16,
            self.get(Field::DstPort) as u16,
        );
        let has_chunk = |kind: u8| {
            let (field, bit) = half(kind, Field::ChunksLow, Field::ChunksHigh);
            self.get(field) & bit != 0
        };
        let chunk = |kind| SctpChunk { kind, flags: 0 };
        match proto {
            TCP => Transport::Tcp {
                src_port,
                dst_port,
                // IPFilter takes none from a header that is shorter than it may be.
                flags: match reading == Reading::Ipf && malformed > TOO_LONG {
                    true => 0,
                    false => self.get(Field::Flags) as u8,
                },
                sequence: 1,
                acknowledgement: 0,
                window: 65_535,
                options: self.tcp_options(),
                payload: 0,
                malformed: malformed != 0,
            },
            17 | 33 | 136 => Transport::Udp { src_port, dst_port },
            132 => Transport::Sctp {
                src_port,
                dst_port,
                chunks: (0..=255).filter(|k| has_chunk(*k)).map(chunk).collect(),
                broken: malformed != 0,
            },
            proto if ICMP.contains(&proto) => Transport::Icmp {
                kind: self.get(Field::IcmpType) as u8,
                code: self.get(Field::IcmpCode) as u8,
                id: 0,
                about: None,
            },
            50 | 51 => Transport::Spi(self.get(Field::Spi) as u32),
            _ => Transport::None,
        }
    }

    fn tcp_options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        for kind in 0..=255u8 {
            let (field, bit) = half(kind, Field::OptionsLow, Field::OptionsHigh);
            if self.get(field) & bit == 0 {
                continue;
            }
            match kind {
                0 | 1 => options.push(kind),
                2 => {
                    let mss = self.get(Field::Mss) as u16;
                    options.extend([2, 4]);
                    options.extend(mss.to_be_bytes());
                }
                _ => options.extend([kind, 2]),
            }
        }
        options
    }
}

impl Space {
    /// A packet of a set, plain where there is a choice; `None` when there is none.
    pub fn example(&self, packets: Node) -> Option<Valuation> {
        if packets == NO {
            return None;
        }
        let (mut left, mut v) = (packets, Valuation::default());
        for (field, _) in FIELDS {
            let mut chosen = None;
            for value in self.usual(field, &v) {
                let with = self.narrow(left, field, value);
                if with != NO {
                    chosen = Some((value, with));
                    break;
                }
            }
            let (value, with) = match chosen {
                Some(chosen) => chosen,
                None => {
                    let value = self.smallest(left, field);
                    (value, self.narrow(left, field, value))
                }
            };
            v.set(field, value);
            left = with;
        }
        // Only unknown conditions are left: as few as can be hold.
        while let level @ OPAQUE.. = self.diagram.level(left)
            && level != u32::MAX
        {
            let (low, high) = self.diagram.branches(left, level);
            if low == NO {
                v.holds.insert(level - OPAQUE);
            }
            left = if low == NO { high } else { low };
        }
        Some(v)
    }

    /// What is left of a set whose first levels are those of a field, for a value of the field.
    fn narrow(&self, packets: Node, field: Field, value: u128) -> Node {
        let bits = (0..field.width()).rev();
        bits.fold(packets, |node, bit| {
            let (low, high) = self.diagram.branches(node, field.bit(bit));
            if value >> bit & 1 != 0 { high } else { low }
        })
    }

    /// The smallest value of a field whose levels come first in a set of packets.
    fn smallest(&self, packets: Node, field: Field) -> u128 {
        let (mut node, mut value) = (packets, 0);
        for bit in (0..field.width()).rev() {
            let (low, high) = self.diagram.branches(node, field.bit(bit));
            node = if low == NO { high } else { low };
            value |= u128::from(low == NO) << bit;
        }
        value
    }

    /// Values that a reader expects, best first.
    fn usual(&self, field: Field, so_far: &Valuation) -> Vec<u128> {
        let proto = so_far.get(Field::Proto) as u8;
        let v4 = self.family == Family::V4;
        let established = so_far.get(Field::State) == 2;
        match field {
            Field::State => vec![1, 2, 3],
            Field::Proto if v4 => vec![6, 17, 1],
            Field::Proto => vec![6, 17, 58],
            Field::IcmpType if proto == 58 => vec![128],
            Field::IcmpType => vec![8],
            Field::Flags if established => vec![16, 2],
            Field::Flags => vec![2, 16],
            Field::DstPort if proto == TCP => vec![80, 22, 443],
            Field::DstPort => vec![53, 80],
            Field::SrcPort => vec![40_000],
            Field::Dst if v4 => vec![0xc633_6407, 0x0a00_0001],
            Field::Src if v4 => vec![0xc000_0201, 0x0a00_0002],
            Field::Dst => vec![0x2001_0db8 << 96 | 2],
            Field::Src => vec![0x2001_0db8 << 96 | 1],
            Field::PacketType => vec![0, 4],
            Field::Length => {
                let header = if v4 { 20 } else { 40 };
                let transport = match proto {
                    TCP => 20,
                    132 => 12,
                    _ => 8,
                };
                let short = so_far.get(Field::Short) != 0;
                vec![header + if short { 4 } else { transport }, 1500]
            }
            Field::Ttl => vec![64],
            _ => vec![],
        }
    }
}
