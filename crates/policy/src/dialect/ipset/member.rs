//! Members of sets: `address[/length]`, `address-address`, `[protocol:]port[-port]`, joined by
//! commas.

use super::ast::{Member, Part, SetType};
use crate::dialect::iptables::{Fault, names::Transport, names::icmp, names::protocols};
use crate::dialect::iptables::{names::services, parse_ip, parse_mac, parse_number};
use crate::model::{Family, SetDimension};
use std::net::IpAddr;

/// Reads a member of a set of this type and family.
///
/// # Errors
/// What is wrong with it.
pub fn member(text: &str, set_type: &SetType, family: Option<Family>) -> Result<Member, Fault> {
    if set_type.kept {
        return kept(text, set_type);
    }
    if set_type.dimensions.is_empty() {
        return Ok(Member::Set(text.into()));
    }
    let words: Vec<&str> = text.split(',').collect();
    if words.len() != set_type.dimensions.len() {
        let shape: Vec<_> = set_type
            .dimensions
            .iter()
            .map(|dimension| shape(*dimension))
            .collect();
        return Err(
            Fault::new(format!("`{text}` is no member of a {}", set_type.name))
                .help(format!("write it as {}", shape.join(","))),
        );
    }
    let family = family.unwrap_or(Family::V4);
    let parts = words
        .iter()
        .zip(set_type.dimensions)
        .map(|(word, dimension)| match dimension {
            SetDimension::Address => address(word, family),
            SetDimension::ProtoPort => proto_port(word),
            SetDimension::Port => {
                let (first, last) = port_range(word, None)?;
                Ok(Part::Ports(None, first, last))
            }
        });
    Ok(Member::Parts(parts.collect::<Result<_, _>>()?))
}

/// A member of a type that is kept: as many parts as the type's name has, and MAC addresses that
/// are some.
fn kept(text: &str, set_type: &SetType) -> Result<Member, Fault> {
    let (_, names) = set_type.name.split_once(':').unwrap_or(("", ""));
    let (names, words): (Vec<_>, Vec<_>) = (names.split(',').collect(), text.split(',').collect());
    // bitmap:ip,mac takes an address alone.
    let few = set_type.name == "bitmap:ip,mac" && words.len() == 1;
    let whole = words.len() == names.len() || few;
    let mac = |(name, word): (&&str, &&str)| *name != "mac" || parse_mac(word).is_some();
    if !whole || !names.iter().zip(&words).all(mac) {
        let message = format!("`{text}` is no member of a {}", set_type.name);
        return Err(Fault::new(message).help(format!("write it as {}", names.join(","))));
    }
    Ok(Member::Kept(text.into()))
}

fn shape(dimension: SetDimension) -> &'static str {
    match dimension {
        SetDimension::Address => "address",
        SetDimension::ProtoPort => "protocol:port",
        SetDimension::Port => "port",
    }
}

fn address(text: &str, family: Family) -> Result<Part, Fault> {
    let width = match family {
        Family::V4 => 32,
        Family::V6 => 128,
    };
    if let Some((address, length)) = text.split_once('/') {
        let address = parse_ip(address, family)?;
        let length = parse_number(length)
            .filter(|&length| length <= width)
            .ok_or_else(|| {
                Fault::new(format!("bad prefix length `{length}`")).help(format!("0 to {width}"))
            })?;
        return Ok(Part::Network(network(address, length as u32), length as u8));
    }
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (parse_ip(first, family)?, parse_ip(last, family)?);
        if first > last {
            return Err(Fault::new(format!("the range `{text}` is reversed"))
                .help("write the lower address first"));
        }
        if first == last {
            return Ok(Part::Network(first, width as u8));
        }
        return Ok(Part::Range(first, last));
    }
    Ok(Part::Network(parse_ip(text, family)?, width as u8))
}

/// The first address of the network.
fn network(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// `[protocol:]port[-port]`; without a protocol it is TCP, as in ipset.
fn proto_port(text: &str) -> Result<Part, Fault> {
    let (protocol, rest) = match text.split_once(':') {
        Some((protocol, rest)) => {
            let number = protocols::number(protocol)
                .or_else(|| parse_number(protocol).and_then(|number| u8::try_from(number).ok()));
            let fault =
                || Fault::new(format!("unknown protocol `{protocol}`")).help("tcp, udp ...");
            (
                number.filter(|&number| number != 0).ok_or_else(fault)?,
                rest,
            )
        }
        None => (protocols::TCP, text),
    };
    match protocol {
        protocols::ICMP | protocols::ICMPV6 => icmp_part(rest, protocol == protocols::ICMPV6),
        protocols::TCP | protocols::UDP | protocols::SCTP | protocols::UDPLITE => {
            let transport = match protocol {
                protocols::TCP => Transport::Tcp,
                protocols::SCTP => Transport::Sctp,
                _ => Transport::Udp,
            };
            let (first, last) = port_range(rest, Some(transport))?;
            Ok(Part::Ports(Some(protocol), first, last))
        }
        // Protocols without ports are written with port 0.
        _ => match parse_number(rest) {
            Some(0) => Ok(Part::Ports(Some(protocol), 0, 0)),
            _ => Err(Fault::new(format!("protocol {protocol} has no ports")).help("write port 0")),
        },
    }
}

fn icmp_part(text: &str, ipv6: bool) -> Result<Part, Fault> {
    let fault =
        || Fault::new(format!("bad ICMP type `{text}`")).help("type/code in numbers, or a name");
    if let Some((kind, code)) = text.split_once('/') {
        let byte = |text| parse_number(text).and_then(|number| u8::try_from(number).ok());
        return match (byte(kind), byte(code)) {
            (Some(kind), Some(code)) => Ok(Part::Icmp(ipv6, kind, code)),
            _ => Err(fault()),
        };
    }
    icmp::named(text, ipv6)
        .map(|named| Part::Icmp(ipv6, named.kind, named.codes.0))
        .ok_or_else(fault)
}

fn port(text: &str, transport: Option<Transport>) -> Result<u16, Fault> {
    let number = match parse_number(text) {
        Some(number) => u16::try_from(number).ok(),
        None => services::port(text, transport),
    };
    number.ok_or_else(|| Fault::new(format!("bad port `{text}`")).help("0 to 65535, or a name"))
}

fn port_range(text: &str, transport: Option<Transport>) -> Result<(u16, u16), Fault> {
    if let Ok(single) = port(text, transport) {
        return Ok((single, single));
    }
    let Some((first, last)) = text.split_once('-') else {
        return port(text, transport).map(|port| (port, port));
    };
    let (first, last) = (port(first, transport)?, port(last, transport)?);
    if first > last {
        return Err(Fault::new(format!("the port range `{text}` is reversed"))
            .help("write the lower port first"));
    }
    Ok((first, last))
}
