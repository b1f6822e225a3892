//! Packets in words, one a line.
//!
//! In: `in on e0 tcp 10.0.0.1,1024 10.0.0.2,80 S`. Out: bytes with right checksums. A line that
//! can't be read is told on standard error and left out, as the original does; so are words that
//! mean nothing, of lines that count. What is not said has the original's defaults: TTL 63,
//! identification 0, window 4096, no payload.

use super::packets::TestPacket;
use std::net::{Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use weir_engine::packet::checksum;
use weir_policy::dialect::ipf::words;
use weir_policy::dialect::iptables::names::{Transport, services};
use weir_policy::model::Family;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const ICMPV6: u8 = 58;

/// Words of a line; more are not looked at.
const WORDS_MAX: usize = 19;
/// Bytes of options that a packet may have.
const OPTIONS_MAX: usize = 48;

/// All packets of a text.
pub fn packets(text: &str, names: bool) -> Vec<TestPacket> {
    let mut packets = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split(['#', '\r']).next().unwrap_or("");
        let words: Vec<&str> = line
            .split([' ', '\t', '\u{8}'])
            .filter(|word| !word.is_empty())
            .take(WORDS_MAX)
            .collect();
        if words.is_empty() {
            continue;
        }
        match packet(&words, names) {
            Ok((packet, notes)) => {
                packets.push(packet);
                for note in notes {
                    eprintln!("weir: packet in line {}: {note}", number + 1);
                }
            }
            Err(why) => eprintln!("weir: packet in line {} is left out: {why}", number + 1),
        }
    }
    packets
}

/// The words that are left.
struct Words<'w> {
    words: &'w [&'w str],
    names: bool,
    /// What is said of words that mean less than they might.
    notes: Vec<String>,
}

impl<'w> Words<'w> {
    fn peek(&self) -> Option<&'w str> {
        self.words.first().copied()
    }

    fn take(&mut self) -> Option<&'w str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn need(&mut self, what: &str) -> Result<&'w str, String> {
        self.take().ok_or_else(|| format!("{what} is missing"))
    }

    /// A number behind `name=`.
    fn value(&mut self, name: &str) -> Option<u32> {
        let word = self.peek()?;
        let start = word.get(..name.len())?;
        if !start.eq_ignore_ascii_case(name) {
            return None;
        }
        self.take();
        // Taken modulo 2^32, as atoi and a cast do it.
        let number: Result<i64, _> = word[name.len()..].parse();
        if number.is_err() {
            self.notes
                .push(format!("`{word}` has no number: taken as 0"));
        }
        Some(number.unwrap_or(0) as u32)
    }
}

/// A packet, and what is to be said of its line.
fn packet(words: &[&str], names: bool) -> Result<(TestPacket, Vec<String>), String> {
    let mut words = Words {
        words,
        names,
        notes: Vec::new(),
    };
    let direction = words.need("a direction")?;
    let out = match direction.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('i') => false,
        Some('o') => true,
        _ => return Err(format!("bad direction `{direction}`")),
    };
    let mut packet = TestPacket {
        out,
        ..TestPacket::default()
    };
    if words
        .peek()
        .is_some_and(|word| word.eq_ignore_ascii_case("on"))
    {
        words.take();
        let name = words.need("the name of an interface")?;
        let (name, address) = name
            .split_once('=')
            .map_or((name, None), |(n, a)| (n, Some(a)));
        packet.interface = Some(name.to_owned());
        packet.address = address.and_then(dotted);
    }
    let six = ["in6", "out6"]
        .iter()
        .any(|word| direction.eq_ignore_ascii_case(word));
    packet.bytes = match six {
        true => ipv6(&mut words)?,
        false => ipv4(&mut words)?,
    };
    if let Some(word) = words.peek() {
        words.notes.push(format!("`{word}` is not looked at"));
    }
    Ok((packet, words.notes))
}

/// A protocol word, or the default.
fn protocol(words: &mut Words<'_>, six: bool) -> u8 {
    let Some(word) = words.peek() else {
        return 0;
    };
    let named = match &*word.to_ascii_lowercase() {
        "tcp" => Some(TCP),
        "udp" => Some(UDP),
        "icmp" if !six => Some(ICMP),
        "icmpv6" if six => Some(ICMPV6),
        _ => None,
    };
    let address = if six { ':' } else { '.' };
    let digits = word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(address);
    match (named, digits) {
        (Some(proto), _) => {
            words.take();
            proto
        }
        (None, true) => {
            words.take();
            leading_number(word) as u8
        }
        (None, false) if six => IPV6,
        (None, false) => 0,
    }
}

/// The number at the start of a word, as atoi reads it.
fn leading_number(word: &str) -> u32 {
    let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// An address, and behind a comma a port where the protocol has them.
fn end<'w>(words: &mut Words<'w>, proto: u8, what: &str) -> Result<(&'w str, u16), String> {
    let word = words.need(&format!("the {what}"))?;
    if !matches!(proto, TCP | UDP) {
        return Ok((word, 0));
    }
    let Some((address, port)) = word.split_once(',') else {
        return Err(format!("tcp and udp need a {what} port: `{word},PORT`"));
    };
    let transport = if proto == TCP {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    let number = match port.starts_with(|c: char| c.is_ascii_digit()) {
        true => Some(leading_number(port) as u16),
        false => services::port(port, Some(transport)),
    };
    match number {
        Some(port) => Ok((address, port)),
        None => Err(format!("unknown service `{port}`")),
    }
}

/// An IPv4 address of one to four parts, the last filling what is left.
fn dotted(text: &str) -> Option<u32> {
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let mut value = 0u32;
    for (at, part) in first.iter().enumerate() {
        value |= u32::from(part.parse::<u8>().ok()?) << (24 - 8 * at);
    }
    let rest: u64 = last.parse().ok()?;
    let room = 32 - 8 * first.len();
    (rest < 1 << room).then_some(value | rest as u32)
}

fn host4(words: &Words<'_>, name: &str) -> Result<u32, String> {
    if name.eq_ignore_ascii_case("any") {
        return Ok(0);
    }
    if let Some(address) = dotted(name) {
        return Ok(address);
    }
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    if digit || !words.names {
        return Err(format!("`{name}` is no address"));
    }
    let found = (name, 0)
        .to_socket_addrs()
        .map_err(|error| format!("{name}: {error}"))?;
    let mut addresses = found.filter_map(|socket| match socket.ip() {
        std::net::IpAddr::V4(address) => Some(address.to_bits()),
        std::net::IpAddr::V6(_) => None,
    });
    addresses
        .next()
        .ok_or_else(|| format!("{name} has no IPv4 address"))
}

fn ipv4(words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let proto = protocol(words, false);
    let (source, source_port) = end(words, proto, "source")?;
    let source = host4(words, source)?;
    let (destination, port) = end(words, proto, "destination")?;
    let destination = host4(words, destination)?;
    let mut data = match proto {
        TCP => tcp(words, source_port, port),
        UDP => udp(source_port, port),
        ICMP => icmp(words, Family::V4, 28)?,
        _ => Vec::new(),
    };
    let options = ip_options(words)?;
    let header = 20 + options.len();
    let mut bytes = vec![0x40 | (header / 4) as u8, 0];
    bytes.extend(((header + data.len()) as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 63, proto, 0, 0]);
    bytes.extend(Ipv4Addr::from_bits(source).octets());
    bytes.extend(Ipv4Addr::from_bits(destination).octets());
    bytes.extend(options);
    bytes.append(&mut data);
    fix_checksums(&mut bytes);
    Ok(bytes)
}

fn ipv6(words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let proto = protocol(words, true);
    let (source, source_port) = end(words, proto, "source")?;
    let (destination, port) = end(words, proto, "destination")?;
    let address = |text: &str| {
        text.parse::<Ipv6Addr>()
            .map_err(|_| format!("`{text}` is no IPv6 address"))
    };
    let (source, destination) = (address(source)?, address(destination)?);
    let data = match proto {
        TCP => tcp(words, source_port, port),
        UDP => udp(source_port, port),
        ICMPV6 => icmp(words, Family::V6, 88)?,
        // A length of 0 would be a jumbogram.
        _ => vec![0],
    };
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend([proto, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(data);
    // The hop limit is not part of any checksum; the original leaves it at 0, and then every
    // packet would be `lowttl`.
    bytes[7] = 63;
    fix_checksums(&mut bytes);
    Ok(bytes)
}

fn tcp(words: &mut Words<'_>, source: u16, destination: u16) -> Vec<u8> {
    let mut flags = 0u8;
    if let Some(word) = words.peek() {
        let bits = word
            .chars()
            .filter_map(|letter| words::FLAG_LETTERS.find(letter));
        flags = bits.fold(0, |set, bit| set | 1 << bit);
        if flags != 0 {
            words.take();
        }
    }
    let sequence = words.value("seq=").unwrap_or(0);
    let acknowledgement = words.value("ack=").unwrap_or(0);
    let mut data = Vec::with_capacity(20);
    data.extend(source.to_be_bytes());
    data.extend(destination.to_be_bytes());
    data.extend(sequence.to_be_bytes());
    data.extend(acknowledgement.to_be_bytes());
    data.extend([0x50, flags, 0x10, 0, 0, 0, 0, u8::from(flags & 0x20 != 0)]);
    data
}

fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut data = Vec::with_capacity(8);
    data.extend(source.to_be_bytes());
    data.extend(destination.to_be_bytes());
    data.extend([0, 8, 0, 0]);
    data
}

fn icmp(words: &mut Words<'_>, family: Family, size: usize) -> Result<Vec<u8>, String> {
    let mut data = vec![0; size];
    let Some(word) = words
        .peek()
        .filter(|word| !word.eq_ignore_ascii_case("opt"))
    else {
        return Ok(data);
    };
    words.take();
    let (kind, code) = word
        .split_once(',')
        .map_or((word, ""), |(kind, code)| (kind, code));
    let number = kind.starts_with(|c: char| c.is_ascii_digit());
    let kind = match number {
        true => leading_number(kind) as u8,
        false => words::icmp_type(family, kind).ok_or(format!("unknown ICMP type `{kind}`"))?,
    };
    (data[0], data[1]) = (kind, leading_number(code) as u8);
    let echo = match family {
        Family::V4 => matches!(kind, 0 | 8),
        Family::V6 => matches!(kind, 128 | 129),
    };
    if echo {
        // The process's number, so that query and reply of one run belong together.
        data[4..6].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
    }
    Ok(data)
}

/// `opt NAME[=ARGUMENT],...` as bytes, a multiple of four.
fn ip_options(words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if !words
        .peek()
        .is_some_and(|word| word.eq_ignore_ascii_case("opt"))
    {
        return Ok(bytes);
    }
    words.take();
    let mut known = 0u32;
    for part in words.need("the name of an IP option")?.split(',') {
        let (name, argument) = part.split_once('=').map_or((part, ""), |(n, a)| (n, a));
        let class = name.eq_ignore_ascii_case("sec-class");
        let bit = match class {
            true => words::OPTION_SEC,
            false => words::ip_option(name).ok_or(format!("unknown IP option `{name}`"))?,
        };
        if known & bit != 0 {
            continue;
        }
        known |= bit;
        let option = words::IP_OPTIONS[bit.trailing_zeros() as usize];
        let size = usize::from(option.size);
        if bytes.len() + size > OPTIONS_MAX {
            return Err("the options are longer than 48 bytes".to_owned());
        }
        bytes.extend(one_option(option, argument)?);
    }
    while bytes.len() % 4 != 3 {
        bytes.push(1);
    }
    bytes.push(0);
    if bytes.len() > 40 {
        return Err("an IP header has room for 40 bytes of options".to_owned());
    }
    Ok(bytes)
}

fn one_option(option: words::IpOption, argument: &str) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; usize::from(option.size)];
    bytes[0] = option.number;
    if option.size == 1 {
        return Ok(bytes);
    }
    (bytes[1], bytes[2]) = (option.size, 4);
    match option.name {
        "sec" => {
            let bit = words::class(argument).map(|bit| bit.trailing_zeros() as usize);
            bytes[2] = bit.map_or(0, |bit| words::CLASSES[bit].1);
        }
        "lsrr" | "ssrr" => {
            let address = dotted(argument).unwrap_or(u32::MAX);
            bytes[3..7].copy_from_slice(&address.to_be_bytes());
        }
        "satid" if !argument.is_empty() => {
            let number = leading_number(argument) as u16;
            bytes[2..4].copy_from_slice(&number.to_be_bytes());
        }
        _ => {}
    }
    Ok(bytes)
}

/// Puts the checksums of a packet right.
pub fn fix_checksums(bytes: &mut [u8]) {
    let six = bytes.first().is_some_and(|byte| byte >> 4 == 6);
    let (at, proto) = match six {
        true if bytes.len() > 40 => (40, bytes[6]),
        false if bytes.len() >= 20 => (usize::from(bytes[0] & 0xf) * 4, bytes[9]),
        _ => return,
    };
    if !six && (20..=bytes.len()).contains(&at) {
        bytes[10..12].fill(0);
        let sum = checksum::finish(checksum::sum(&bytes[..at], 0));
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let length = match six {
        true => usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + 40,
        false => usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
    };
    let field = match proto {
        TCP => 16,
        UDP => 6,
        ICMP | ICMPV6 => 2,
        _ => return,
    };
    let end = length.min(bytes.len());
    if end < at + field + 2 {
        return;
    }
    bytes[at + field..at + field + 2].fill(0);
    let size = (end - at) as u32;
    let start = match (proto, six) {
        (ICMP, _) => 0,
        (_, false) => checksum::pseudo(&bytes[12..16], &bytes[16..20], proto, size),
        (_, true) => checksum::pseudo(&bytes[8..24], &bytes[24..40], proto, size),
    };
    let sum = checksum::finish(checksum::sum(&bytes[at..end], start));
    let sum = if sum == 0 && proto == UDP {
        0xffff
    } else {
        sum
    };
    bytes[at + field..at + field + 2].copy_from_slice(&sum.to_be_bytes());
}
