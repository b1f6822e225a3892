//! Packets of the vectors, written in words.
//!
//! In: `in|out IF [from IF] PROTO SRC[:PORT] > DST[:PORT] WORD...`. Out: a packet on one pass.
//! What may stand in WORD is said in `testdata/vectors/ipfw/README.txt`.

use std::net::IpAddr;
use weir_policy::dialect::ipfw::names::EXTENSIONS;
use weir_policy::eval::ipfw::{Ip, Packet, Pass, Tcp, Upper};
use weir_policy::model::Family;

fn number(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => text
            .parse()
            .unwrap_or_else(|_| panic!("{text} is no number")),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap())
        .collect()
}

fn mac(text: &str) -> [u8; 6] {
    bytes(&text.replace(':', "")).try_into().unwrap()
}

/// Address and port; IPv6 with a port stands in brackets.
fn end(text: &str) -> (IpAddr, u16) {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once("]:").unwrap();
        return (address.parse().unwrap(), port.parse().unwrap());
    }
    if let Ok(address) = text.parse() {
        return (address, 0);
    }
    let (address, port) = text.rsplit_once(':').unwrap();
    (address.parse().unwrap(), port.parse().unwrap())
}

fn parts(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(four) => (Family::V4, u128::from(u32::from(four))),
        IpAddr::V6(six) => (Family::V6, u128::from(six)),
    }
}

fn protocol(text: &str) -> u8 {
    match text {
        "icmp" => 1,
        "igmp" => 2,
        "tcp" => 6,
        "udp" => 17,
        "gre" => 47,
        "esp" => 50,
        "icmp6" => 58,
        "sctp" => 132,
        "udplite" => 136,
        other => number(other) as u8,
    }
}

fn tcp_flags(text: &str) -> u8 {
    text.chars()
        .map(|letter| match letter {
            'F' => 1,
            'S' => 2,
            'R' => 4,
            'P' => 8,
            'A' => 16,
            'U' => 32,
            '0' => 0,
            other => panic!("no TCP flag {other}"),
        })
        .sum()
}

fn bare(pass: Pass, interface: &str, recv: &str) -> Packet {
    let (recv, xmit) = match pass {
        Pass::In => (interface, ""),
        Pass::Out => (recv, interface),
    };
    Packet {
        pass,
        recv: recv.to_owned(),
        xmit: xmit.to_owned(),
        layer2: false,
        frame: None,
        to_many: false,
        bytes: 0,
        ip: None,
        owner: None,
        quoted: None,
    }
}

/// The packet of a line.
pub fn packet(line: &str) -> Packet {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pass = match words[0] {
        "in" => Pass::In,
        "out" => Pass::Out,
        other => panic!("`{other}` is neither in nor out: {line}"),
    };
    let (recv, rest) = match words[2] {
        "from" => (words[3], &words[4..]),
        _ => ("", &words[2..]),
    };
    let mut packet = bare(pass, words[1], recv);
    if rest[0] == "frame" {
        packet.layer2 = true;
        packet.bytes = 46;
        for word in &rest[1..] {
            link(&mut packet, word);
        }
        return packet;
    }
    assert_eq!(rest[2], ">", "{line}");
    let ((src, src_port), (dst, dst_port)) = (end(rest[1]), end(rest[3]));
    let ((family, src), (_, dst)) = (parts(src), parts(dst));
    let proto = protocol(rest[0]);
    let upper = match proto {
        6 => Upper::Tcp(Tcp {
            src_port,
            dst_port,
            flags: 2,
            header: 20,
            options: Some(Vec::new()),
            ..Tcp::default()
        }),
        17 | 132 | 136 => Upper::Ports(src_port, dst_port),
        1 => Upper::Icmp(8, 0),
        58 => Upper::Icmp(128, 0),
        _ => Upper::None,
    };
    packet.ip = Some(Ip {
        family,
        src,
        dst,
        proto,
        length: 60,
        ttl: 64,
        tos: 0,
        id: 0,
        flags: 0,
        offset: 0,
        more: false,
        options: Vec::new(),
        extensions: 0,
        flow_label: 0,
        header: if family == Family::V4 { 20 } else { 40 },
        upper,
    });
    packet.bytes = 60;
    for word in &rest[4..] {
        if !link(&mut packet, word) {
            field(&mut packet, word);
        }
    }
    if let Some(ip) = &mut packet.ip
        && ip.family == Family::V6
    {
        // Each is of eight bytes; `route` stands for its two kinds, and ESP ends the chain.
        if ip.more || ip.offset != 0 {
            ip.extensions |= 0x01;
        }
        ip.header += 8 * (ip.extensions & !0x14).count_ones() as u16;
    }
    packet
}

/// Words about the frame and the host.
fn link(packet: &mut Packet, word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "layer2" => packet.layer2 = true,
        "mac" => {
            let parts: Vec<&str> = value.split('/').collect();
            packet.frame = Some((mac(parts[0]), mac(parts[1]), number(parts[2]) as u16));
        }
        "many" => packet.to_many = true,
        "bytes" => packet.bytes = number(value),
        "owner" => {
            let (user, group) = value.split_once('/').unwrap();
            packet.owner = Some((number(user), number(group)));
        }
        _ => return false,
    }
    true
}

fn field(packet: &mut Packet, word: &str) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let Some(ip) = &mut packet.ip else {
        panic!("no IP packet");
    };
    match name {
        "len" => {
            ip.length = number(value) as u16;
            packet.bytes = number(value);
        }
        "ttl" => ip.ttl = number(value) as u8,
        "tos" => ip.tos = number(value) as u8,
        "id" => ip.id = number(value),
        "df" => ip.flags |= 0x40,
        "rf" => ip.flags |= 0x80,
        "frag" => {
            let (offset, more) = match value.strip_suffix('+') {
                Some(offset) => (offset, true),
                None => (value, false),
            };
            ip.offset = number(offset) as u16;
            ip.more = more;
            if more && ip.family == Family::V4 {
                ip.flags |= 0x20;
            }
            if ip.offset != 0 {
                ip.upper = Upper::None;
            }
        }
        "ipopt" => {
            ip.options = bytes(value);
            ip.header += ip.options.len().next_multiple_of(4) as u16;
        }
        "ext" => {
            for wanted in value.split(',') {
                let found = EXTENSIONS.iter().find(|(name, _)| *name == wanted);
                let found = found.unwrap_or_else(|| panic!("no header {wanted}"));
                ip.extensions |= found.1 as u8;
            }
        }
        "flow" => ip.flow_label = number(value),
        "type" => {
            let (kind, code) = value.split_once('.').unwrap_or((value, "0"));
            ip.upper = Upper::Icmp(number(kind) as u8, number(code) as u8);
        }
        _ => match &mut ip.upper {
            Upper::Tcp(tcp) => tcp_field(tcp, name, value),
            _ => panic!("no word {word}"),
        },
    }
}

fn tcp_field(tcp: &mut Tcp, name: &str, value: &str) {
    match name {
        "flags" => tcp.flags = tcp_flags(value),
        "seq" => tcp.sequence = number(value),
        "ack" => tcp.acknowledgement = number(value),
        "win" => tcp.window = number(value) as u16,
        "tcpopt" => {
            let options = bytes(value);
            tcp.header = 20 + options.len() as u16;
            tcp.options = Some(options);
        }
        other => panic!("no word {other}"),
    }
}
