//! The text form of a traffic script.
//!
//! In: the text of a `*.traffic` file. Out: steps in order, each with its line, or an error that
//! names the line and the word. It resolves host names of the lab to addresses and gives every
//! step without a source port one of its own that is the same in every run. The grammar is shown
//! in the comment of the module `traffic`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail, ensure};

use super::{Action, Endpoint, Link, Packet, Segment, Step, Talk, Transport};
use crate::netns::Node;

/// Parses a whole script.
pub fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let statement = line.split('#').next().unwrap_or_default().trim();
        if statement.is_empty() {
            continue;
        }
        let number = index + 1;
        let port = 40_000 + number as u16;
        let action = parse_action(statement, port)
            .with_context(|| format!("traffic line {number}: {statement}"))?;
        steps.push(Step {
            line: number,
            text: statement.to_owned(),
            action,
        });
    }
    ensure!(!steps.is_empty(), "the script has no step");
    Ok(steps)
}

fn parse_action(statement: &str, port: u16) -> Result<Action> {
    let mut words = Words {
        words: statement.split_whitespace().collect(),
        next: 0,
    };
    let first = words.take()?;
    let action = match first {
        "wait" => Action::Wait {
            milliseconds: words.number()?,
        },
        "more" => Action::More {
            name: words.take()?.to_owned(),
            exchanges: words.number()?,
        },
        "end" | "reset" => Action::End {
            name: words.take()?.to_owned(),
            reset: first == "reset",
        },
        _ if words.words.contains(&"talk") => Action::Talk(parse_talk(first, &mut words, port)?),
        _ => Action::Send(parse_packet(first, &mut words, port)?),
    };
    ensure!(
        words.next == words.words.len(),
        "left over: {}",
        words.words[words.next..].join(" ")
    );
    Ok(action)
}

/// The words of one statement, taken from left to right.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Result<&'a str> {
        self.take_if_any()
            .context("the line ends where a word should follow")
    }

    fn take_if_any(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T> {
        number(self.take()?)
    }
}

fn number<T: TryFrom<u64>>(word: &str) -> Result<T> {
    let value = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let value = value.with_context(|| format!("{word:?} is no number"))?;
    T::try_from(value)
        .ok()
        .with_context(|| format!("{word} is too large"))
}

fn pair(word: &str, separator: char) -> Result<(u32, u32)> {
    match word.split_once(separator) {
        Some((left, right)) => Ok((number(left)?, number(right)?)),
        None => Ok((number(word)?, 0)),
    }
}

fn parse_ends(word: &str, is_v6: bool, port: u16) -> Result<(Endpoint, Endpoint)> {
    let (from, to) = word.split_once("->").context("expected FROM->TO")?;
    let (from_node, to_node) = (parse_node(from)?, parse_node(to)?);
    let from = parse_end(from, from_node, to_node, is_v6, port)?;
    Ok((from, parse_end(to, to_node, from_node, is_v6, 0)?))
}

fn parse_node(word: &str) -> Result<Node> {
    let name: String = word.chars().take_while(char::is_ascii_alphabetic).collect();
    let found = Node::ALL.into_iter().find(|node| node.name() == name);
    found.with_context(|| format!("no host {name:?}: client, gw or server"))
}

/// `NODE[.HOST|[ADDRESS]][:PORT]`; `other` decides which side of the gateway is meant.
fn parse_end(
    word: &str,
    node: Node,
    other: Node,
    is_v6: bool,
    default_port: u16,
) -> Result<Endpoint> {
    let mut rest = &word[node.name().len()..];
    let mut host = if node == Node::Gateway { 1 } else { 2 };
    let mut address = None;
    if let Some(inner) = rest.strip_prefix('[') {
        let (literal, after) = inner.split_once(']').context("no closing bracket")?;
        let literal: IpAddr = literal.parse().with_context(|| literal.to_owned())?;
        ensure!(
            literal.is_ipv6() == is_v6,
            "{literal} is of the other family"
        );
        address = Some(literal);
        rest = after;
    } else if let Some(after) = rest.strip_prefix('.') {
        let end = after.find(':').unwrap_or(after.len());
        host = number(&after[..end])?;
        rest = &after[end..];
    }
    let port = match rest.strip_prefix(':') {
        Some(digits) => number(digits)?,
        None if rest.is_empty() => default_port,
        None => bail!("{rest:?} after the host"),
    };
    let loopback = node == Node::Gateway && other == Node::Gateway;
    let net = if node == Node::Server || (node == Node::Gateway && other == Node::Server) {
        2
    } else {
        1
    };
    let own: IpAddr = match (loopback, is_v6) {
        (true, false) => Ipv4Addr::LOCALHOST.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::new(10, 77, net, host).into(),
        (false, true) => {
            Ipv6Addr::new(0xfd77, u16::from(net), 0, 0, 0, 0, 0, u16::from(host)).into()
        }
    };
    Ok(Endpoint {
        node,
        address: address.unwrap_or(own),
        port,
    })
}

fn split_family(word: &str) -> (&str, bool) {
    word.strip_suffix('6')
        .map_or((word, false), |name| (name, true))
}

fn parse_talk(protocol: &str, words: &mut Words, port: u16) -> Result<Talk> {
    let (protocol, is_v6) = split_family(protocol);
    ensure!(
        matches!(protocol, "tcp" | "udp"),
        "only tcp and udp can talk"
    );
    let (from, to) = parse_ends(words.take()?, is_v6, port)?;
    ensure!(words.take()? == "talk", "talk must follow the hosts");
    let exchanges = words.number()?;
    let is_tcp = protocol == "tcp";
    let mut talk = Talk {
        from,
        to,
        via: None,
        is_tcp,
        exchanges,
        request: 64,
        answer: 200,
        hold: None,
        owner: None,
        tos: 0,
    };
    while let Some(word) = words.take_if_any() {
        match word {
            "via" => talk.via = Some(words.take()?.parse().context("via ADDRESS:PORT")?),
            "request" => talk.request = words.number()?,
            "answer" => talk.answer = words.number()?,
            "hold" => talk.hold = Some(words.take()?.to_owned()),
            "as" => talk.owner = Some(pair(words.take()?, ':')?),
            "tos" => talk.tos = words.number()?,
            other => bail!("{other:?} is no option of a conversation"),
        }
    }
    Ok(talk)
}

fn parse_packet(protocol: &str, words: &mut Words, port: u16) -> Result<Packet> {
    let (name, is_v6) = split_family(protocol);
    let (from, to) = parse_ends(words.take()?, is_v6, port)?;
    let transport = match name {
        "tcp" => Transport::Tcp(Segment {
            window: 8192,
            ..Segment::default()
        }),
        "udp" => Transport::Udp,
        "icmp" => Transport::Icmp {
            kind: 0,
            code: 0,
            rest: 0,
        },
        "ip" => Transport::Other {
            protocol: words.number()?,
            head: Vec::new(),
        },
        "esp" => Transport::Other {
            protocol: 50,
            head: vec![0, 0, 1, 0, 0, 0, 0, 1],
        },
        "ah" => Transport::Other {
            protocol: 51,
            head: authentication_header(0x100),
        },
        // RFC 2784: no checksum, version 0, carrying IPv4.
        "gre" => Transport::Other {
            protocol: 47,
            head: vec![0, 0, 8, 0],
        },
        "sctp" => Transport::Other {
            protocol: 132,
            head: sctp_header(from.port, to.port),
        },
        "udplite" => Transport::Other {
            protocol: 136,
            head: udplite_header(from.port, to.port),
        },
        other => bail!("{other:?} is no protocol of a script"),
    };
    let mut packet = Packet {
        from,
        to,
        transport,
        payload: 0,
        ttl: 64,
        tos: 0,
        extensions: Vec::new(),
        bad_checksum: false,
        cut: None,
        fragments: None,
        source_mac: None,
        link: Link::Neighbour,
        owner: None,
        times: 1,
    };
    while let Some(word) = words.take_if_any() {
        let done = parse_common(&mut packet, word, words)?
            || match packet.transport {
                Transport::Tcp(_) => parse_tcp(&mut packet, word, words)?,
                Transport::Icmp { .. } => parse_icmp(&mut packet, word, words, is_v6, port)?,
                Transport::Other { .. } => parse_other(&mut packet, word, words)?,
                _ => false,
            };
        ensure!(done, "{word:?} is no option of {name}");
    }
    Ok(packet)
}

fn parse_common(packet: &mut Packet, word: &str, words: &mut Words) -> Result<bool> {
    match word {
        "len" => packet.payload = words.number()?,
        "ttl" => packet.ttl = words.number()?,
        "tos" => packet.tos = words.number()?,
        "dscp" => packet.tos = words.number::<u8>()? << 2,
        "times" => packet.times = words.number()?,
        "bad-checksum" => packet.bad_checksum = true,
        "cut" => packet.cut = Some(words.number()?),
        "fragments" => packet.fragments = Some((words.number()?, Vec::new())),
        "only" => {
            let list: Result<Vec<usize>> = words.take()?.split(',').map(number).collect();
            packet
                .fragments
                .as_mut()
                .context("only follows fragments")?
                .1 = list?;
        }
        "as" => packet.owner = Some(pair(words.take()?, ':')?),
        "broadcast" => packet.link = Link::Broadcast,
        "multicast" => packet.link = Link::Multicast,
        "source-mac" => {
            let bytes: Result<Vec<u8>, _> = words
                .take()?
                .split(':')
                .map(|byte| u8::from_str_radix(byte, 16))
                .collect();
            packet.source_mac = Some(bytes?.try_into().ok().context("six bytes, please")?);
        }
        // IPv4: four NOP options. IPv6: hop-by-hop, destination options, routing type 0, each
        // eight bytes, PadN inside.
        "options" => packet.extensions.push((0, vec![1, 1, 1, 1])),
        "hop-by-hop" => packet.extensions.push((0, vec![0, 1, 4, 0, 0, 0, 0])),
        "destination" => packet.extensions.push((60, vec![0, 1, 4, 0, 0, 0, 0])),
        "routing" => packet.extensions.push((43, vec![0, 0, 0, 0, 0, 0, 0])),
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_tcp(packet: &mut Packet, word: &str, words: &mut Words) -> Result<bool> {
    let Transport::Tcp(segment) = &mut packet.transport else {
        return Ok(false);
    };
    match word {
        "syn" => segment.flags = 0x02,
        "synack" => segment.flags = 0x12,
        "rst" => segment.flags = 0x04,
        "rstack" => segment.flags = 0x14,
        "fin" => segment.flags = 0x01,
        "finack" => segment.flags = 0x11,
        "null" => segment.flags = 0x00,
        "xmas" => segment.flags = 0x29,
        "flags" => segment.flags = tcp_flags(words.take()?)?,
        "seq" => segment.sequence = words.number()?,
        // `ack` alone is the flag; `ack N` is the number.
        "ack" => match words.words.get(words.next).map(|next| number(next)) {
            Some(Ok(value)) => {
                segment.acknowledge = value;
                words.next += 1;
            }
            _ => segment.flags = 0x10,
        },
        "win" => segment.window = words.number()?,
        "mss" => {
            let mss: u16 = words.number()?;
            segment.options.extend([2, 4]);
            segment.options.extend(mss.to_be_bytes());
        }
        "wscale" => segment.options.extend([1, 3, 3, words.number()?]),
        "sack-permitted" => segment.options.extend([1, 1, 4, 2]),
        "option" => segment.options.extend([words.number()?, 2]),
        _ => return Ok(false),
    }
    Ok(true)
}

fn tcp_flags(word: &str) -> Result<u8> {
    const LETTERS: &str = "FSRPAUEC";
    word.chars().try_fold(0, |flags, letter| {
        let bit = LETTERS
            .find(letter)
            .with_context(|| format!("flag {letter}: {LETTERS}"))?;
        Ok(flags | 1 << bit)
    })
}

fn parse_icmp(
    packet: &mut Packet,
    word: &str,
    words: &mut Words,
    is_v6: bool,
    port: u16,
) -> Result<bool> {
    let Transport::Icmp { kind, code, rest } = &mut packet.transport else {
        return Ok(false);
    };
    match word {
        "echo" | "reply" => {
            *kind = match (word, is_v6) {
                ("echo", false) => 8,
                ("reply", false) => 0,
                ("echo", true) => 128,
                _ => 129,
            };
            *rest = u32::from(packet.from.port) << 16 | 1;
            packet.payload = 24;
        }
        "id" => *rest = words.number::<u32>()? << 16 | *rest & 0xffff,
        "type" => *kind = words.number()?,
        "code" => *code = words.number()?,
        "rest" => *rest = words.number()?,
        "error" => {
            let (kind, code) = pair(words.take()?, '/')?;
            ensure!(words.take()? == "about", "error T/C about PACKET");
            let protocol = words.take()?;
            let about = Box::new(parse_packet(protocol, words, port)?);
            packet.transport = Transport::IcmpError {
                kind: kind as u8,
                code: code as u8,
                about,
            };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_other(packet: &mut Packet, word: &str, words: &mut Words) -> Result<bool> {
    let Transport::Other { protocol, head } = &mut packet.transport else {
        return Ok(false);
    };
    match (word, *protocol) {
        ("spi", 50) => head[..4].copy_from_slice(&words.number::<u32>()?.to_be_bytes()),
        ("spi", 51) => *head = authentication_header(words.number()?),
        ("chunk", 132) => {
            head[12] = words.number()?;
            // INIT comes with the verification tag 0 (RFC 9260, section 8.5.1).
            if head[12] == 1 {
                head[7] = 0;
            }
        }
        // All behind the common header, in hexadecimal digits.
        ("chunks", 132) => {
            head.truncate(12);
            head.extend(hexadecimal(words.take()?)?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Bytes by two digits each.
fn hexadecimal(digits: &str) -> Result<Vec<u8>> {
    let bytes = digits.as_bytes().chunks(2);
    let byte = |two: &[u8]| {
        let two = std::str::from_utf8(two)?;
        u8::from_str_radix(two, 16).with_context(|| format!("{two:?} is no byte"))
    };
    bytes.map(byte).collect()
}

/// RFC 4302: next header 59 (nothing follows), 12 bytes plus a 12-byte check value.
fn authentication_header(spi: u32) -> Vec<u8> {
    let mut head = vec![59, 4, 0, 0];
    head.extend(spi.to_be_bytes());
    head.extend([0, 0, 0, 1]);
    head.extend([0; 12]);
    head
}

/// RFC 9260: common header and an empty DATA chunk header; the CRC is filled in when crafted.
fn sctp_header(from: u16, to: u16) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend(from.to_be_bytes());
    head.extend(to.to_be_bytes());
    head.extend([0, 0, 0, 7, 0, 0, 0, 0]);
    head.extend([0, 3, 0, 4]);
    head
}

/// RFC 3828: checksum coverage 8, the checksum is filled in when crafted.
fn udplite_header(from: u16, to: u16) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend(from.to_be_bytes());
    head.extend(to.to_be_bytes());
    head.extend([0, 8, 0, 0]);
    head
}
