//! A packet in the words of a specification, with everything that was assumed spelled out.
//!
//! In: a packet of the rule model. Out: one line that `parse` reads back as the same packet (TCP
//! options other than MSS, sequence numbers and what an ICMP error speaks of are not printed).

use super::{Spec, hook_name, names, state_name};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_policy::model::{Facts, Family, Fragment, Packet, PacketType, Transport};

impl Spec {
    /// The whole specification in one line.
    pub fn describe(&self) -> String {
        let mut text = packet(&self.packet);
        if let Some(state) = self.state {
            let _ = write!(text, " state={}", state_name(state));
        }
        if let Some(mark) = self.connmark {
            let _ = write!(text, " connmark={mark:#x}");
        }
        text
    }
}

/// An address of a family.
pub fn address(family: Family, value: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(value as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(value)),
    }
}

fn endpoint(family: Family, value: u128, port: Option<u16>) -> String {
    match (address(family, value), port) {
        (address, None) => address.to_string(),
        (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
    }
}

/// The name of a protocol, or `proto=NUMBER`.
pub fn protocol(number: u8) -> String {
    match names::PROTOCOLS.iter().find(|p| p.1 == number) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("proto={number}"),
    }
}

/// A packet in one line.
pub fn packet(packet: &Packet) -> String {
    let mut text = format!("hook={}", hook_name(packet.hook));
    for (key, name) in [("in", &packet.in_iface), ("out", &packet.out_iface)] {
        if !name.is_empty() {
            let _ = write!(text, " {key}={name}");
        }
    }
    let ports = packet.ports();
    let _ = write!(
        text,
        " {} {} > {}",
        protocol(packet.proto),
        endpoint(packet.family, packet.src, ports.map(|p| p.0)),
        endpoint(packet.family, packet.dst, ports.map(|p| p.1)),
    );
    transport(&mut text, &packet.transport);
    let _ = write!(text, " len={} ttl={}", packet.length, packet.ttl);
    if packet.tos != 0 {
        let _ = write!(text, " tos={:#x}", packet.tos);
    }
    if packet.mark != 0 {
        let _ = write!(text, " mark={:#x}", packet.mark);
    }
    match packet.fragment {
        Fragment::Whole => {}
        Fragment::First => text.push_str(" frag=first"),
        Fragment::Later(_) => text.push_str(" frag=later"),
    }
    if packet.handling != 0 {
        let words = names::HANDLING
            .iter()
            .filter(|word| packet.handling & word.1 != 0);
        let words: Vec<&str> = words.map(|word| word.0).collect();
        let _ = write!(text, " kernel={}", words.join(","));
    }
    if let Some(mac) = packet.mac {
        let bytes: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
        let _ = write!(text, " mac={}", bytes.join(":"));
    }
    match packet.packet_type {
        PacketType::Broadcast => text.push_str(" type=broadcast"),
        PacketType::Multicast => text.push_str(" type=multicast"),
        PacketType::Unicast | PacketType::OtherHost | PacketType::Outgoing => {}
    }
    if let Some((uid, gid)) = packet.owner {
        let _ = write!(text, " uid={uid} gid={gid}");
    }
    facts(&mut text, &packet.aside);
    text
}

/// What is known beside the headers.
fn facts(text: &mut String, facts: &Facts) {
    if !facts.groups.is_empty() {
        let groups: Vec<String> = facts.groups.iter().map(u32::to_string).collect();
        let _ = write!(text, " groups={}", groups.join(","));
    }
    if let Some(class) = facts.class {
        let _ = write!(text, " class={class:#x}");
    }
    let [received, sent] = facts.device_groups;
    let numbers = [
        ("cpu", facts.cpu),
        ("in-group", received),
        ("out-group", sent),
        ("realm", facts.realm),
    ];
    for (key, number) in numbers.into_iter().filter(|pair| pair.1 != 0) {
        let _ = write!(text, " {key}={number}");
    }
    if let Some([from, to]) = &facts.ports {
        let _ = write!(text, " bridge={from},{to}");
    }
}

fn transport(text: &mut String, transport: &Transport) {
    let _ = match transport {
        Transport::Tcp { flags, options, .. } => {
            text.push(' ');
            text.push_str(&flag_names(*flags));
            match options.as_slice() {
                [2, 4, high, low, ..] => {
                    write!(text, " mss={}", u16::from_be_bytes([*high, *low]))
                }
                _ => Ok(()),
            }
        }
        Transport::Icmp { kind, code, id, .. } => write!(text, " icmp={kind}/{code} id={id}"),
        Transport::Spi(spi) => write!(text, " spi={spi:#x}"),
        Transport::Sctp { chunks, .. } => chunks.iter().take(1).try_for_each(|chunk| {
            write!(text, " chunk={}", chunk.kind)?;
            match chunk.flags {
                0 => Ok(()),
                flags => write!(text, " chunk-flags={flags}"),
            }
        }),
        Transport::Short => write!(text, " (transport header cut short)"),
        Transport::None | Transport::Udp { .. } => Ok(()),
    };
}

/// TCP flags as words, `none` without any.
pub fn flag_names(flags: u8) -> String {
    let set: Vec<&str> = names::FLAGS
        .iter()
        .filter(|f| flags & f.1 != 0)
        .map(|f| f.0)
        .collect();
    match set.is_empty() {
        true => "none".to_owned(),
        false => set.join(","),
    }
}
