//! Conditions on what the kernel knows beside headers, and on bytes, in words; and what the packet
//! has there.

use super::values::{masked, numbers};
use weir_policy::model::{Aside, BROKEN_OPTIONS, Ethernet, Packet, TcpNumber, TextSearch};

/// Such a condition in words.
pub fn aside(aside: &Aside) -> String {
    match aside {
        Aside::Socket => "sent by a socket".to_owned(),
        Aside::Groups(range) => {
            format!("owner in group {}", numbers(&[(range.first, range.last)]))
        }
        Aside::Class(class) => format!("class {class:#x} of the socket"),
        Aside::Group { id, .. } => format!("socket in control group {id}"),
        Aside::Cpu(cpu) => format!("judged by CPU {cpu}"),
        Aside::DeviceGroup { out, value, mask } => {
            let way = if *out { "sending" } else { "receiving" };
            format!("group {} of the {way} interface", masked(*value, *mask))
        }
        Aside::Realm { value, mask } => format!("realm {} of the route", masked(*value, *mask)),
        Aside::Port { out, name } => {
            let way = if *out { "to" } else { "from" };
            match name {
                None => format!("{way} a bridge port"),
                Some(pattern) => {
                    let more = if pattern.prefix { "+" } else { "" };
                    format!("{way} the bridge port {}{more}", pattern.name)
                }
            }
        }
        Aside::Words(tests) => match tests.as_slice() {
            [one] => format!("the word at {}", one.start),
            tests => format!("{} words", tests.len()),
        },
        Aside::Text(search) => format!("the text {}", text(search)),
        Aside::Tcp(number, ranges) => {
            format!("{} {}", tcp_number(*number), numbers(ranges.ranges()))
        }
        Aside::IpOptions { value, mask } => {
            format!("IP options {}", masked((*value).into(), (*mask).into()))
        }
        Aside::Headers { value, mask } => match mask {
            0xff => format!("IPv6 headers {}", header_names(*value)),
            mask if value == mask => format!("IPv6 headers with {}", header_names(*mask)),
            mask => format!("IPv6 headers without {}", header_names(*mask)),
        },
        Aside::Extensions(bits) => format!("IPv6 extension headers {bits:#x}"),
        Aside::Name { out, pattern } => {
            let way = if *out { "to" } else { "from" };
            format!("{way} an interface {pattern}")
        }
        Aside::Ethernet(asked) => ethernet(asked),
    }
}

fn ethernet(asked: &Ethernet) -> String {
    let side = |source: &bool| if *source { "source" } else { "destination" };
    match asked {
        Ethernet::Bare => "a frame without an IP packet".to_owned(),
        Ethernet::Type(kinds) => format!("EtherType {}", numbers(kinds.ranges())),
        Ethernet::Masked {
            source,
            value,
            mask,
        } => format!("{} MAC address & {mask:#x} = {value:#x}", side(source)),
        Ethernet::Among { source, .. } => format!("{} MAC address of a table", side(source)),
    }
}

fn tcp_number(number: TcpNumber) -> &'static str {
    match number {
        TcpNumber::Sequence => "TCP sequence",
        TcpNumber::Acknowledgement => "TCP acknowledgement",
        TcpNumber::Window => "TCP window",
        TcpNumber::Data => "bytes of TCP data",
    }
}

fn text(search: &TextSearch) -> String {
    let words = search.pattern.escape_ascii();
    let case = if search.ignore_case {
        " in either case"
    } else {
        ""
    };
    let last = search.to.saturating_sub(1);
    format!("\"{words}\"{case} in bytes {}-{last}", search.from)
}

/// What the packet has there; `None` where no single value decided.
pub fn observed(aside: &Aside, packet: &Packet) -> Option<String> {
    let facts = &packet.aside;
    let no_socket = || "no socket is known".to_owned();
    Some(match aside {
        Aside::Socket if facts.socket || packet.owner.is_some() => "there is one".to_owned(),
        Aside::Socket => no_socket(),
        Aside::Groups(_) => match packet.owner {
            None => "no owner is known".to_owned(),
            Some((_, main)) => {
                let all = std::iter::once(&main).chain(&facts.groups);
                let all: Vec<String> = all.map(u32::to_string).collect();
                format!("the groups are {}", all.join(","))
            }
        },
        Aside::Class(_) => facts
            .class
            .map_or_else(no_socket, |class| format!("it is {class:#x}")),
        Aside::Group { .. } => match facts.control_groups.last() {
            None => no_socket(),
            Some(group) => format!("it is in {group}"),
        },
        Aside::Cpu(_) => format!("it is CPU {}", facts.cpu),
        Aside::DeviceGroup { out, .. } => {
            format!("it is {}", facts.device_groups[usize::from(*out)])
        }
        Aside::Realm { .. } => format!("it is {}", facts.realm),
        Aside::Port { out, .. } => match &facts.ports {
            None => "no bridge hands the packet over".to_owned(),
            Some(ports) => match ports[usize::from(*out)].as_str() {
                "" => "there is none".to_owned(),
                port => format!("it is {port}"),
            },
        },
        Aside::Tcp(number, _) => match packet.tcp_number(*number) {
            Some(value) => format!("it is {value}"),
            None => "there is no TCP header".to_owned(),
        },
        Aside::IpOptions { .. } if facts.ip_options & BROKEN_OPTIONS != 0 => {
            "they can't be told apart".to_owned()
        }
        Aside::IpOptions { .. } => format!("they are {:#x}", facts.ip_options),
        Aside::Headers { .. } => match facts.headers {
            Some(headers) => format!("they are {}", header_names(headers)),
            None => "it has none that can be followed".to_owned(),
        },
        Aside::Extensions(_) => format!("they are {:#x}", facts.extensions),
        Aside::Name { out, .. } => {
            let name = match out {
                true => &packet.out_iface,
                false => &packet.in_iface,
            };
            match name.as_str() {
                "" => "there is none".to_owned(),
                name => format!("it is {name}"),
            }
        }
        Aside::Ethernet(_) => match &facts.frame {
            None => "no frame is known".to_owned(),
            Some(frame) => format!(
                "it goes from {:#x} to {:#x}, type {:#x}",
                frame.source, frame.destination, frame.kind
            ),
        },
        Aside::Words(_) | Aside::Text(_) => return None,
    })
}

/// What an IPv6 packet consists of, by the names of `-m ipv6header`.
fn header_names(bits: u8) -> String {
    const NAMES: [&str; 8] = ["hop", "dst", "route", "frag", "auth", "esp", "none", "prot"];
    let named = NAMES
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1);
    named.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}
