//! Whether a pattern holds for a packet.
//!
//! In: a pattern, a packet, what the packet carries along, the host, the tables. Out: yes, no, or
//! that the packet is dropped because what must be read isn't there. A lookup in a table also
//! leaves the value that it found.

use super::host::Host;
use super::packet::{Ip, Packet, Pass, Upper, proto};
use super::{Carried, Found};
use crate::dialect::ipfw::ast::{
    Address, Argument, Flags, InterfaceName, LookupKey, Mac, NumberField, Pattern, Ranges, Side,
    TableValue, ValueType,
};
use crate::dialect::ipfw::{Key, Ruleset, Value};
use crate::model::Family;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What patterns are tested against.
pub struct Context<'c> {
    /// The rule set.
    pub ruleset: &'c Ruleset,
    /// The host.
    pub host: &'c Host,
    /// The packet.
    pub packet: &'c Packet,
    /// What it carries along.
    pub carried: &'c Carried,
    /// Number of the rule.
    pub rule: u32,
}

/// The answer of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    Yes,
    /// It doesn't.
    No,
    /// The packet ends before what must be read: it is dropped, and no rule counts it.
    CutShort,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Truth::Yes } else { Truth::No }
    }
}

fn in_ranges(list: &Ranges, value: u16) -> bool {
    list.iter()
        .any(|(first, last)| (*first..=*last).contains(&value))
}

fn flags_hold(flags: Flags, bits: u8) -> bool {
    bits & flags.set == flags.set && bits & flags.clear == 0
}

/// Tests a pattern.
pub fn holds(pattern: &Pattern, context: &Context<'_>, found: &mut Found) -> Truth {
    let packet = context.packet;
    let ip = packet.ip.as_ref();
    let four = ip.filter(|ip| ip.family == Family::V4);
    match pattern {
        Pattern::Comment(_) => true,
        Pattern::Proto(number) => u16::from(packet.proto()) == *number,
        Pattern::Ip4 => four.is_some(),
        Pattern::Ip6 => ip.is_some_and(|ip| ip.family == Family::V6),
        Pattern::Src(address) => address_holds(address, context, true, found),
        Pattern::Dst(address) => address_holds(address, context, false, found),
        Pattern::SrcPort(list) => packet
            .ports()
            .is_some_and(|(port, _)| in_ranges(list, port)),
        Pattern::DstPort(list) => packet
            .ports()
            .is_some_and(|(_, port)| in_ranges(list, port)),
        Pattern::In => packet.pass == Pass::In,
        Pattern::Interface(side, name) => interface_holds(*side, name, context, found),
        Pattern::Layer2 => packet.layer2,
        // Nothing ever comes back from a divert socket here.
        Pattern::Diverted(_) => false,
        Pattern::IpOptions(flags) => four.is_some_and(|ip| ip_options(ip, *flags)),
        Pattern::IpTos(flags) => four.is_some() && flags_hold(*flags, context.carried.tos),
        Pattern::IpPrecedence(value) => four.is_some() && context.carried.tos >> 5 == *value,
        Pattern::IpVersion(version) => ip.is_some_and(|ip| match ip.family {
            Family::V4 => *version == 4,
            Family::V6 => *version == 6,
        }),
        Pattern::Dscp(set) => ip.is_some() && set & 1 << (context.carried.tos >> 2) != 0,
        Pattern::Frag(flags) => ip.is_some_and(|ip| fragment(ip, *flags)),
        Pattern::Ext6Hdr(set) => ip.is_some_and(|ip| ip.extensions & set != 0),
        Pattern::FlowId(list) => {
            ip.is_some_and(|ip| ip.family == Family::V6 && list.contains(&ip.flow_label))
        }
        Pattern::Mac(destination, source) => packet.frame.is_some_and(|(to, from, _)| {
            packet.layer2 && mac_holds(destination, to) && mac_holds(source, from)
        }),
        Pattern::MacType(list) => {
            packet.layer2
                && packet
                    .frame
                    .is_some_and(|(_, _, kind)| in_ranges(list, kind))
        }
        Pattern::SrcMac(table, value) => {
            mac_table(context, (table, value.as_ref()), |frame| frame.1, found)
        }
        Pattern::DstMac(table, value) => {
            mac_table(context, (table, value.as_ref()), |frame| frame.0, found)
        }
        Pattern::Uid(id, _) => owner(context, |(uid, _)| uid == *id),
        Pattern::Gid(id, _) => owner(context, |(_, gid)| gid == *id),
        Pattern::Jail(_) | Pattern::SockArg | Pattern::Ipsec => false,
        Pattern::Fib(fib) => context.carried.fib == u32::from(*fib),
        Pattern::VerRevPath | Pattern::VerSrcReach | Pattern::AntiSpoof => {
            path_holds(pattern, context)
        }
        Pattern::Tagged(list) => context
            .carried
            .tags
            .iter()
            .any(|tag| u16::try_from(*tag).is_ok_and(|tag| in_ranges(list, tag))),
        Pattern::TaggedTableArg => context
            .carried
            .tags
            .contains(&(found.get(ValueType::Tag) as u32)),
        Pattern::Mark { value, mask } => {
            let value = match value {
                Argument::Number(number) => *number,
                Argument::TableArg => found.get(ValueType::Mark) as u32,
            };
            context.carried.mark & mask == value
        }
        Pattern::Lookup { key, mask, table } => lookup(context, *key, *mask, table, found),
        Pattern::Flow { table, value } => flow(context, table, value.as_ref(), found),
        _ => return transport_holds(pattern, context),
    }
    .into()
}

/// Patterns on the upper layer.
fn transport_holds(pattern: &Pattern, context: &Context<'_>) -> Truth {
    let packet = context.packet;
    let tcp = packet.tcp();
    match pattern {
        Pattern::Established => tcp
            .is_some_and(|tcp| match context.ruleset.settings.established_strict {
                true => tcp.flags & (RST | ACK) != 0,
                false => tcp.flags & (RST | ACK | SYN) != SYN,
            })
            .into(),
        Pattern::TcpFlags(flags) => tcp.is_some_and(|tcp| flags_hold(*flags, tcp.flags)).into(),
        Pattern::TcpSeq(number) => tcp.is_some_and(|tcp| tcp.sequence == *number).into(),
        Pattern::TcpAck(number) => tcp.is_some_and(|tcp| tcp.acknowledgement == *number).into(),
        Pattern::TcpOptions(flags) => match tcp.map(|tcp| &tcp.options) {
            None => Truth::No,
            Some(None) => Truth::CutShort,
            Some(Some(options)) => flags_hold(*flags, tcp_options(options).0).into(),
        },
        Pattern::Number(NumberField::TcpMss, list) => match tcp.filter(|t| t.flags & SYN != 0) {
            None => Truth::No,
            Some(tcp) => match &tcp.options {
                None => Truth::CutShort,
                Some(options) => tcp_options(options)
                    .1
                    .is_some_and(|mss| in_ranges(list, mss))
                    .into(),
            },
        },
        Pattern::Number(field, list) => number(*field, packet)
            .is_some_and(|value| in_ranges(list, value))
            .into(),
        Pattern::IcmpTypes(set) => match packet.ip.as_ref().map(|ip| (ip.proto, &ip.upper)) {
            Some((proto::ICMP, Upper::Icmp(kind, _))) => {
                (*kind < 32 && set & 1 << kind != 0).into()
            }
            _ => Truth::No,
        },
        Pattern::Icmp6Types(set) => match packet.ip.as_ref().map(|ip| (ip.proto, &ip.upper)) {
            Some((proto::ICMPV6, Upper::Icmp(kind, _))) => {
                (set[usize::from(kind / 32)] & 1 << (kind % 32) != 0).into()
            }
            _ => Truth::No,
        },
        _ => Truth::No,
    }
}

fn number(field: NumberField, packet: &Packet) -> Option<u16> {
    let ip = packet.ip.as_ref()?;
    let four = ip.family == Family::V4;
    match field {
        NumberField::IpId => four.then_some(ip.id as u16),
        NumberField::IpTtl => four.then_some(u16::from(ip.ttl)),
        NumberField::IpLen => Some(ip.length),
        NumberField::TcpWin => packet.tcp().map(|tcp| tcp.window),
        NumberField::TcpDataLen => packet.tcp().map(|tcp| {
            // Lengths that don't fit wrap, as in the original's 16 bits.
            ip.length.wrapping_sub(ip.header).wrapping_sub(tcp.header)
        }),
        NumberField::TcpMss => None,
    }
}

fn fragment(ip: &Ip, flags: Flags) -> bool {
    let later = u8::from(ip.offset != 0);
    match ip.family {
        Family::V4 => flags_hold(flags, (ip.flags & 0xe0) | later),
        // Only the plain test for later fragments knows IPv6.
        Family::V6 => flags == (Flags { set: 1, clear: 0 }) && later == 1,
    }
}

/// IPv4 options present: strict route 1, loose route 2, record route 4, timestamp 8.
fn ip_options(ip: &Ip, wanted: Flags) -> bool {
    let bytes = &ip.options;
    let (mut at, mut bits) = (0, 0u8);
    while at < bytes.len() {
        let kind = bytes[at];
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(bytes.get(at + 1).copied().unwrap_or(0)),
        };
        if length == 0 || length > bytes.len() - at {
            return false;
        }
        bits |= match kind {
            137 => 1,
            131 => 2,
            7 => 4,
            68 => 8,
            _ => 0,
        };
        at += length;
    }
    flags_hold(wanted, bits)
}

/// TCP options present (MSS 1, window 2, SACK 4, timestamp 8) and the MSS.
pub fn tcp_options(bytes: &[u8]) -> (u8, Option<u16>) {
    let (mut at, mut bits, mut mss) = (0, 0u8, None);
    while at < bytes.len() {
        let kind = bytes[at];
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(bytes.get(at + 1).copied().unwrap_or(0)),
        };
        if length == 0 {
            break;
        }
        bits |= match kind {
            2 => {
                mss = bytes
                    .get(at + 2..at + 4)
                    .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
                    .or(mss);
                1
            }
            3 => 2,
            4 | 5 => 4,
            8 => 8,
            _ => 0,
        };
        at += length;
    }
    (bits, mss)
}

fn mac_holds(wanted: &Mac, address: [u8; 6]) -> bool {
    let pairs = address.iter().zip(wanted.mask).zip(wanted.address);
    pairs
        .into_iter()
        .all(|((byte, mask), value)| byte & mask == value)
}

fn mac_number(address: [u8; 6]) -> u64 {
    address
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn mac_table(
    context: &Context<'_>,
    (table, wanted): (&str, Option<&TableValue>),
    pick: impl Fn(([u8; 6], [u8; 6], u16)) -> [u8; 6],
    found: &mut Found,
) -> bool {
    let Some(frame) = context.packet.frame.filter(|_| context.packet.layer2) else {
        return false;
    };
    let table = context.ruleset.table(table);
    let value = table.and_then(|table| table.find_mac(mac_number(pick(frame))));
    found.take_if(value, wanted)
}

fn owner(context: &Context<'_>, test: impl Fn((u32, u32)) -> bool) -> bool {
    let packet = context.packet;
    let with_socket = matches!(packet.proto(), proto::TCP | proto::UDP | proto::UDPLITE);
    with_socket && packet.ports().is_some() && packet.owner.is_some_and(test)
}

fn path_holds(pattern: &Pattern, context: &Context<'_>) -> bool {
    let (packet, host) = (context.packet, context.host);
    let ip = packet.ip.as_ref();
    match (pattern, ip) {
        (Pattern::VerRevPath, _) if packet.pass == Pass::Out || packet.recv.is_empty() => true,
        (Pattern::VerRevPath, Some(ip)) => host.leaves_by(ip.family, ip.src, &packet.recv),
        (Pattern::VerSrcReach, Some(_)) if packet.pass == Pass::Out => true,
        (Pattern::VerSrcReach, Some(ip)) => host.reaches(ip.family, ip.src),
        (Pattern::AntiSpoof, Some(ip))
            if packet.pass == Pass::In && host.is_connected(ip.family, ip.src) =>
        {
            host.leaves_by(ip.family, ip.src, &packet.recv)
        }
        (Pattern::AntiSpoof, _) => true,
        _ => false,
    }
}

fn interface_holds(
    side: Side,
    name: &InterfaceName,
    context: &Context<'_>,
    found: &mut Found,
) -> bool {
    let packet = context.packet;
    let interface = match side {
        Side::Via => packet.interface(),
        Side::Recv => &packet.recv,
        Side::Xmit => &packet.xmit,
    };
    if interface.is_empty() {
        return false;
    }
    match name {
        InterfaceName::Name(name) => name == interface,
        InterfaceName::Glob(pattern) => super::glob::matches(pattern, interface),
        InterfaceName::Address(address) => context.host.owns(interface, *address),
        InterfaceName::Table(table) => {
            let key = Key::Iface(interface.to_owned());
            found.take(
                context
                    .ruleset
                    .table(table)
                    .and_then(|table| table.find(&key)),
            )
        }
    }
}

fn address_holds(
    address: &Address,
    context: &Context<'_>,
    source: bool,
    found: &mut Found,
) -> bool {
    let Some(ip) = &context.packet.ip else {
        return false;
    };
    let value = if source { ip.src } else { ip.dst };
    match (address, ip.family) {
        (Address::V4(list), Family::V4) => {
            list.iter().any(|(base, mask)| value as u32 & mask == *base)
        }
        (Address::V6(list), Family::V6) => list.iter().any(|(base, mask)| value & mask == *base),
        (Address::Octets { base, size, bits }, Family::V4) => {
            let offset = (value as u32).wrapping_sub(*base);
            value as u32 >= *base
                && offset < u32::from(*size)
                && bits[offset as usize / 32] & 1 << (offset % 32) != 0
        }
        (Address::Me, family) => context.host.is_me(family, value),
        (Address::Me6, Family::V6) => context.host.is_me(Family::V6, value),
        (
            Address::Table {
                name,
                value: wanted,
            },
            family,
        ) => {
            let entry = find_address(context.ruleset, name, family, value);
            found.take_if(entry, wanted.as_ref())
        }
        _ => false,
    }
}

fn find_address<'r>(
    ruleset: &'r Ruleset,
    name: &str,
    family: Family,
    address: u128,
) -> Option<&'r Value> {
    let table = ruleset.table(name)?;
    match family {
        Family::V4 => table.find_v4(address as u32),
        Family::V6 => table.find_v6(address),
    }
}

fn lookup(
    context: &Context<'_>,
    key: LookupKey,
    mask: Option<u128>,
    name: &str,
    found: &mut Found,
) -> bool {
    let packet = context.packet;
    let masked = |value: u32| mask.map_or(value, |mask| value & mask as u32);
    let Some(table) = context.ruleset.table(name) else {
        return false;
    };
    let number = match key {
        LookupKey::DstIp | LookupKey::SrcIp => {
            let Some(ip) = &packet.ip else {
                return false;
            };
            let address = if key == LookupKey::SrcIp {
                ip.src
            } else {
                ip.dst
            };
            let address = mask.map_or(address, |mask| address & mask);
            return found.take(find_address(context.ruleset, name, ip.family, address));
        }
        LookupKey::DstMac | LookupKey::SrcMac => {
            let pick = |frame: ([u8; 6], [u8; 6], u16)| match key {
                LookupKey::DstMac => frame.0,
                _ => frame.1,
            };
            return mac_table(context, (name, None), pick, found);
        }
        LookupKey::DstPort => packet.ports().map(|(_, port)| u32::from(port)),
        LookupKey::SrcPort => packet.ports().map(|(port, _)| u32::from(port)),
        LookupKey::Dscp => packet
            .ip
            .as_ref()
            .map(|_| u32::from(context.carried.tos >> 2)),
        LookupKey::Uid => packet.owner.map(|(uid, _)| uid),
        LookupKey::Jail => None,
        LookupKey::Mark => Some(context.carried.mark),
        LookupKey::RuleNumber => Some(context.rule),
    };
    let value = number.and_then(|number| table.find(&Key::Number(masked(number))));
    found.take(value)
}

fn flow(context: &Context<'_>, name: &str, wanted: Option<&TableValue>, found: &mut Found) -> bool {
    let (Some(ip), Some(table)) = (&context.packet.ip, context.ruleset.table(name)) else {
        return false;
    };
    let crate::dialect::ipfw::command::TableType::Flow(fields) = table.kind else {
        return false;
    };
    let (src_port, dst_port) = context.packet.ports().unwrap_or((0, 0));
    let has = |bit: u8| fields & bit != 0;
    let key = Key::Flow {
        six: ip.family == Family::V6 && (has(1) || has(8)),
        src: if has(1) { ip.src } else { 0 },
        proto: if has(2) { ip.proto } else { 0 },
        src_port: if has(4) { src_port } else { 0 },
        dst: if has(8) { ip.dst } else { 0 },
        dst_port: if has(16) { dst_port } else { 0 },
    };
    found.take_if(table.find(&key), wanted)
}
