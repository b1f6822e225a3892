//! The text of one pattern, with the keyword that it needs where it stands.
//!
//! In: a pattern. Out: text that begins with a blank.

use super::super::ast::{
    Address, Argument, Flags, InterfaceName, LookupKey, Mac, Pattern, Ranges, Side, TableValue,
};
use super::super::names::{
    self, DSCP, EXTENSIONS, FRAGMENT, IP_OPTIONS, IP_TOS, TCP_FLAGS, TCP_OPTIONS,
};
use super::super::{numbers, parse};
use super::{ipv4, ipv6};
use crate::model::Family;

/// A number or `tablearg`.
pub fn argument(argument: Argument) -> String {
    match argument {
        Argument::Number(number) => number.to_string(),
        Argument::TableArg => "tablearg".to_owned(),
    }
}

/// Ranges with commas between.
pub fn ranges(list: &Ranges, print: impl Fn(u16) -> String) -> String {
    let one = |(first, last): &(u16, u16)| match first == last {
        true => print(*first),
        false => format!("{}-{}", print(*first), print(*last)),
    };
    list.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Ports, by name when wanted.
pub fn ports(list: &Ranges, proto: u16, by_name: bool) -> String {
    ranges(list, |port| {
        let name = by_name
            .then(|| names::services::name(port, proto))
            .flatten();
        // A dash in a name would read as a range.
        name.map_or_else(|| port.to_string(), |name| name.replace('-', "\\-"))
    })
}

/// An address without keyword.
pub fn address(address: &Address) -> String {
    match address {
        Address::Me => "me".to_owned(),
        Address::Me6 => "me6".to_owned(),
        Address::Table { name, value } => table(name, value.as_ref()),
        Address::V4(list) => {
            let one =
                |(address, mask): &(u32, u32)| match numbers::mask_length(u128::from(*mask), 32) {
                    Some(32) => ipv4(*address),
                    Some(length) => format!("{}/{length}", ipv4(*address)),
                    None => format!("{}:{}", ipv4(*address), ipv4(*mask)),
                };
            list.iter().map(one).collect::<Vec<_>>().join(",")
        }
        Address::V6(list) => {
            let one = |(address, mask): &(u128, u128)| match numbers::mask_length(*mask, 128) {
                Some(128) => ipv6(*address),
                Some(length) => format!("{}/{length}", ipv6(*address)),
                None => format!("{}/{}", ipv6(*address), ipv6(*mask)),
            };
            list.iter().map(one).collect::<Vec<_>>().join(",")
        }
        Address::Octets { base, size, bits } => octets(*base, *size, bits),
    }
}

/// Three or more neighbours are printed as a range.
fn octets(base: u32, size: u16, bits: &[u32; 8]) -> String {
    let has = |at: u16| bits[usize::from(at / 32)] & 1 << (at % 32) != 0;
    let low = (base & 0xff) as u16;
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < size {
        if !has(at) {
            at += 1;
            continue;
        }
        let end = (at..size).find(|next| !has(*next)).unwrap_or(size);
        if end > at + 2 {
            parts.push(format!("{}-{}", at + low, end - 1 + low));
            at = end;
        } else {
            parts.push((at + low).to_string());
            at += 1;
        }
    }
    let length = 32 - size.trailing_zeros();
    format!("{}/{length}{{{}}}", ipv4(base), parts.join(","))
}

/// `table(NAME)` and its value.
pub fn table(name: &str, value: Option<&TableValue>) -> String {
    match value {
        None => format!("table({name})"),
        Some(TableValue { kind: None, value }) => format!("table({name},{value})"),
        Some(TableValue {
            kind: Some(kind),
            value,
        }) => format!("table({name},{}={value})", kind.name()),
    }
}

/// The family of an address word.
pub fn family(address: &Address) -> Family {
    match address {
        Address::V6(_) | Address::Me6 => Family::V6,
        _ => Family::V4,
    }
}

fn flag_option(word: &str, known: &names::Names, flags: Flags) -> String {
    format!(" {word} {}", names::flag_list(known, flags))
}

fn mac(mac: &Mac) -> String {
    if mac.mask == [0; 6] {
        return "any".to_owned();
    }
    let colons = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let bits = mac
        .mask
        .iter()
        .fold(0u128, |all, byte| all << 8 | u128::from(*byte));
    match numbers::mask_length(bits, 48) {
        Some(48) => colons(mac.address),
        Some(length) => format!("{}/{length}", colons(mac.address)),
        None => format!("{}&{}", colons(mac.address), colons(mac.mask)),
    }
}

fn interface(side: Side, name: &InterfaceName) -> String {
    let word = match side {
        Side::Via => "via",
        Side::Recv => "recv",
        Side::Xmit => "xmit",
    };
    match name {
        InterfaceName::Name(name) | InterfaceName::Glob(name) => format!(" {word} {name}"),
        InterfaceName::Address(address) => format!(" {word} {}", ipv4(*address)),
        InterfaceName::Table(name) => format!(" {word} table({name})"),
    }
}

fn bits(word: &str, is: impl Fn(u32) -> bool, count: u32) -> String {
    let list: Vec<String> = (0..count)
        .filter(|bit| is(*bit))
        .map(|b| b.to_string())
        .collect();
    format!(" {word} {}", list.join(","))
}

fn lookup(key: LookupKey, mask: Option<u128>, table: &str) -> String {
    let mask = match (key, mask) {
        (_, None) => String::new(),
        (LookupKey::DstIp | LookupKey::SrcIp, Some(mask)) => match u32::try_from(mask) {
            Ok(mask) => format!(":{}", ipv4(mask)),
            Err(_) => format!(":{}", ipv6(mask)),
        },
        (_, Some(mask)) => format!(":{mask:#x}"),
    };
    format!(" lookup {}{mask} {table}", key.name())
}

/// An option that is no protocol, address or port; those depend on where they stand.
pub fn option(pattern: &Pattern, by_name: bool) -> String {
    match pattern {
        Pattern::In => " in".to_owned(),
        Pattern::Interface(side, name) => interface(*side, name),
        Pattern::Layer2 => " layer2".to_owned(),
        Pattern::Diverted(1) => " diverted-loopback".to_owned(),
        Pattern::Diverted(2) => " diverted-output".to_owned(),
        Pattern::Diverted(_) => " diverted".to_owned(),
        Pattern::Established => " established".to_owned(),
        Pattern::TcpFlags(Flags {
            set: 0x02,
            clear: 0x10,
        }) => " setup".to_owned(),
        Pattern::TcpFlags(flags) => flag_option("tcpflags", TCP_FLAGS, *flags),
        Pattern::TcpOptions(flags) => flag_option("tcpoptions", TCP_OPTIONS, *flags),
        Pattern::TcpSeq(number) => format!(" tcpseq {}", *number as i32),
        Pattern::TcpAck(number) => format!(" tcpack {}", *number as i32),
        Pattern::Number(field, list) => {
            format!(" {} {}", field.name(), ranges(list, |n| n.to_string()))
        }
        Pattern::Frag(flags) => flag_option("frag", FRAGMENT, *flags),
        Pattern::IpOptions(flags) => flag_option("ipoptions", IP_OPTIONS, *flags),
        Pattern::IpTos(flags) => flag_option("iptos", IP_TOS, *flags),
        Pattern::IpPrecedence(value) => format!(" ipprecedence {value}"),
        Pattern::IpVersion(value) => format!(" ipver {value}"),
        Pattern::Dscp(set) => {
            let list: Vec<String> = (0..64u32)
                .filter(|code| set & 1 << code != 0)
                .map(|code| names::word(DSCP, code).map_or(code.to_string(), str::to_owned))
                .collect();
            format!(" dscp {}", list.join(","))
        }
        Pattern::IcmpTypes(set) => bits("icmptypes", |bit| set & 1 << bit != 0, 32),
        Pattern::Icmp6Types(set) => bits(
            "icmp6types",
            |bit| set[bit as usize / 32] & 1 << (bit % 32) != 0,
            256,
        ),
        Pattern::Ext6Hdr(set) => {
            let list: Vec<&str> = EXTENSIONS
                .iter()
                .filter(|(_, bit)| u32::from(*set) & bit != 0)
                .map(|(name, _)| *name)
                .collect();
            format!(" ext6hdr {}", list.join(","))
        }
        Pattern::FlowId(list) => {
            let list: Vec<String> = list.iter().map(u32::to_string).collect();
            format!(" flow-id {}", list.join(","))
        }
        Pattern::Mac(destination, source) => format!(" MAC {} {}", mac(destination), mac(source)),
        Pattern::MacType(list) => format!(" mac-type {}", ethernet(list, by_name)),
        Pattern::SrcMac(name, value) => format!(" src-mac {}", table(name, value.as_ref())),
        Pattern::DstMac(name, value) => format!(" dst-mac {}", table(name, value.as_ref())),
        Pattern::Flow { table: name, value } => format!(" flow {}", table(name, value.as_ref())),
        Pattern::Lookup { key, mask, table } => lookup(*key, *mask, table),
        other => small(other),
    }
}

fn ethernet(list: &Ranges, by_name: bool) -> String {
    ranges(list, |kind| {
        let name = by_name
            .then(|| names::word(names::ETHERNET, u32::from(kind)))
            .flatten();
        name.map_or_else(|| format!("{kind:#06x}"), str::to_owned)
    })
}

/// By name, where it was given so: what it is here another host need not know.
fn owner(id: u32, name: Option<&str>) -> String {
    name.map_or_else(|| id.to_string(), str::to_owned)
}

/// Options with a plain number or nothing.
fn small(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Uid(id, name) => format!(" uid {}", owner(*id, name.as_deref())),
        Pattern::Gid(id, name) => format!(" gid {}", owner(*id, name.as_deref())),
        Pattern::Jail(id) => format!(" jail {}", *id as i32),
        Pattern::SockArg => " sockarg".to_owned(),
        Pattern::Ipsec => " ipsec".to_owned(),
        Pattern::Fib(fib) => format!(" fib {fib}"),
        Pattern::VerRevPath => " verrevpath".to_owned(),
        Pattern::VerSrcReach => " versrcreach".to_owned(),
        Pattern::AntiSpoof => " antispoof".to_owned(),
        Pattern::Tagged(list) => format!(" tagged {}", ranges(list, |n| n.to_string())),
        Pattern::TaggedTableArg => " tagged tablearg".to_owned(),
        Pattern::Mark { value, mask } => {
            let value = match value {
                Argument::Number(number) => format!("{number:#x}"),
                Argument::TableArg => "tablearg".to_owned(),
            };
            match *mask {
                u32::MAX => format!(" mark {value}"),
                mask => format!(" mark {value}:{mask:#x}"),
            }
        }
        _ => String::new(),
    }
}

/// ` :name` of a flow.
pub fn flow(name: &str) -> String {
    debug_assert!(parse::check_name(name) || name == "all");
    format!(" :{name}")
}
