//! Log lines as the original's kernel writes them.
//!
//! In: what was logged. Out: one line, without time and host, as syslog gets it.
//!
//! Source: the format of FreeBSD 13's ipfw; a logged `setdscp` prints `UNKNOWN` there, here its
//! own name.

use super::ast::{Action, Argument, Reject};
use super::print::{ipv4, ipv6};
use crate::model::Family;

/// What a line says about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPacket {
    /// Family; `None` for frames that hold no IP packet.
    pub family: Option<Family>,
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Protocol.
    pub proto: u8,
    /// Ports of TCP and UDP, when the packet has its transport header.
    pub ports: Option<(u16, u16)>,
    /// ICMP type and code, when the packet has them.
    pub icmp: Option<(u8, u8)>,
    /// Fragment.
    pub fragment: Option<LogFragment>,
    /// Sent, not received.
    pub out: bool,
    /// Interface of the pass.
    pub interface: String,
}

/// What a line says about a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFragment {
    /// Identification.
    pub id: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Offset in bytes.
    pub offset: u32,
    /// More follow.
    pub more: bool,
}

/// The line of a rule and a packet; `tablearg` is what the last lookup gave.
#[must_use]
pub fn line(rule: u32, action: &Action, tablearg: u32, packet: &LogPacket) -> String {
    let action = word(action, tablearg);
    format!("ipfw: {rule} {action} {}", what(packet))
}

/// What a line says about its packet, behind the action.
#[must_use]
pub fn what(packet: &LogPacket) -> String {
    let direction = if packet.out { "out" } else { "in" };
    let place = match packet.interface.is_empty() {
        true => "[no if info]".to_owned(),
        false => format!("{direction} via {}", packet.interface),
    };
    let addresses = addresses(packet);
    let fragment = packet.fragment.map_or(String::new(), |f| {
        let more = if f.more { "+" } else { "" };
        match packet.family {
            Some(Family::V6) => {
                format!(" (frag {:08x}:{}@{}{more})", f.id, f.payload, f.offset)
            }
            _ => format!(" (frag {}:{}@{}{more})", f.id, f.payload, f.offset),
        }
    });
    format!("{addresses} {place}{fragment}")
}

/// The line after the last one that a rule may log.
#[must_use]
pub fn limit_line(rule: u32, limit: u32) -> String {
    format!("ipfw: limit {limit} reached on entry {rule}")
}

fn addresses(packet: &LogPacket) -> String {
    let Some(family) = packet.family else {
        return "MAC".to_owned();
    };
    let address = |value: u128| match family {
        Family::V4 => ipv4(value as u32),
        Family::V6 => format!("[{}]", ipv6(value)),
    };
    let (src, dst) = (address(packet.src), address(packet.dst));
    let icmp = |name: &str| match packet.icmp {
        Some((kind, code)) => format!("{name}:{kind}.{code} {src} {dst}"),
        None => format!("{name} {src} {dst}"),
    };
    match (packet.proto, packet.ports) {
        (6, Some((from, to))) => format!("TCP {src}:{from} {dst}:{to}"),
        (6, None) => format!("TCP {src} {dst}"),
        (17, Some((from, to))) => format!("UDP {src}:{from} {dst}:{to}"),
        (17, None) => format!("UDP {src} {dst}"),
        (136, Some((from, to))) => format!("UDP-Lite {src}:{from} {dst}:{to}"),
        (136, None) => format!("UDP-Lite {src} {dst}"),
        (1, _) => icmp("ICMP"),
        (58, _) => icmp("ICMPv6"),
        (proto, _) => format!("P:{proto} {src} {dst}"),
    }
}

/// The word for an action.
#[must_use]
pub fn word(action: &Action, tablearg: u32) -> String {
    let number = |argument: &Argument| match argument {
        Argument::Number(number) => *number,
        Argument::TableArg => tablearg,
    };
    match action {
        Action::Allow => "Accept".to_owned(),
        Action::Deny => "Deny".to_owned(),
        Action::Count => "Count".to_owned(),
        Action::Reject(kind) => match kind {
            Reject::Reset | Reject::Reset6 => "Reset".to_owned(),
            Reject::Abort | Reject::Abort6 => "Abort".to_owned(),
            Reject::Unreach(1, _) => "Reject".to_owned(),
            Reject::Unreach(code, _) | Reject::Unreach6(code) => format!("Unreach {code}"),
        },
        Action::CheckState(_) => "CheckState".to_owned(),
        Action::Skipto(to) => format!("SkipTo {}", number(to)),
        Action::Call(to) => format!("Call {}", number(to)),
        Action::Return => "Return".to_owned(),
        Action::Divert(port) => format!("Divert {}", number(port)),
        Action::Tee(port) => format!("Tee {}", number(port)),
        Action::Pipe(pipe) => format!("Pipe {}", number(pipe)),
        Action::Queue(queue) => format!("Queue {}", number(queue)),
        Action::Netgraph(cookie) => format!("Netgraph {}", number(cookie)),
        Action::Ngtee(cookie) => format!("Ngtee {}", number(cookie)),
        Action::Nat(_) => "Nat".to_owned(),
        Action::Reass => "Reass".to_owned(),
        Action::SetFib(fib) => format!("SetFib {}", number(fib)),
        Action::SetDscp(code) => format!("SetDscp {}", number(code) & 0x3f),
        Action::SetMark(mark) => format!("SetMark {:#010x}", number(mark)),
        Action::TcpSetMss(mss) => format!("Eaction tcp-setmss {mss}"),
        Action::External(name, _) => format!("Eaction {name}"),
        Action::Forward { address, port } => {
            let host = match address {
                None => ipv4(tablearg),
                Some(std::net::IpAddr::V6(six)) => format!("[{six}]"),
                Some(four) => four.to_string(),
            };
            match port {
                0 => format!("Forward to {host}"),
                port => format!("Forward to {host}:{port}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(proto: u8) -> LogPacket {
        LogPacket {
            family: Some(Family::V4),
            src: 0xc633_6407,
            dst: 0xc000_0201,
            proto,
            ports: None,
            icmp: None,
            fragment: None,
            out: false,
            interface: "em0".to_owned(),
        }
    }

    #[test]
    fn lines_of_the_common_kinds() {
        let tcp = LogPacket {
            ports: Some((4000, 80)),
            ..packet(6)
        };
        assert_eq!(
            line(100, &Action::Deny, 0, &tcp),
            "ipfw: 100 Deny TCP 198.51.100.7:4000 192.0.2.1:80 in via em0"
        );
        let icmp = LogPacket {
            icmp: Some((13, 0)),
            ..packet(1)
        };
        let unreach = Action::Reject(Reject::Unreach(3, None));
        assert_eq!(
            line(300, &unreach, 0, &icmp),
            "ipfw: 300 Unreach 3 ICMP:13.0 198.51.100.7 192.0.2.1 in via em0"
        );
        let fragment = LogPacket {
            fragment: Some(LogFragment {
                id: 1,
                payload: 16,
                offset: 24,
                more: false,
            }),
            ..packet(17)
        };
        assert_eq!(
            line(10, &Action::Count, 0, &fragment),
            "ipfw: 10 Count UDP 198.51.100.7 192.0.2.1 in via em0 (frag 1:16@24)"
        );
        assert!(line(1, &Action::Deny, 0, &packet(47)).contains("P:47 198"));
        let frame = LogPacket {
            family: None,
            ..packet(0)
        };
        assert_eq!(
            line(1, &Action::Allow, 0, &frame),
            "ipfw: 1 Accept MAC in via em0"
        );
        assert_eq!(limit_line(200, 1), "ipfw: limit 1 reached on entry 200");
    }
}
