//! The words of a packet specification to a [`Draft`].
//!
//! In: one text. Out: a [`Spec`], or the first error with its place. Words come in any order; only
//! `>` ties its two neighbours together. A field given twice is an error, never an overwrite.

use super::draft::{Draft, Endpoint, Placed, at};
use super::names::{self, nearest};
use super::{Spec, SpecError};
use std::net::{IpAddr, Ipv6Addr};
use weir_policy::model::{Fragment, PacketType};

/// Numbers by key, with the largest value that fits the field.
const NUMBERS: &[(&str, u64)] = &[
    ("mark", u32::MAX as u64),
    ("connmark", u32::MAX as u64),
    ("ttl", 255),
    ("tos", 255),
    ("dscp", 63),
    ("len", 65_535 + 40),
    ("id", 65_535),
    ("spi", u32::MAX as u64),
    ("chunk", 255),
    ("chunk-flags", 255),
    ("mss", 65_535),
    ("uid", u32::MAX as u64),
    ("gid", u32::MAX as u64),
    ("class", u32::MAX as u64),
    ("cpu", u32::MAX as u64),
    ("in-group", u32::MAX as u64),
    ("out-group", u32::MAX as u64),
    ("realm", u32::MAX as u64),
];

/// Keys that are not plain numbers.
const KEYS: &[&str] = &[
    "in", "out", "hook", "state", "proto", "mac", "type", "frag", "flags", "icmp", "kernel",
    "groups", "bridge", "payload",
];

type Word = Placed<String>;

/// Reads a specification.
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    let words = split(text);
    let mut reader = Reader {
        text,
        draft: Draft::default(),
    };
    let mut i = 0;
    while i < words.len() {
        let arrow = words.get(i + 1).is_some_and(|w| w.value == ">");
        if words[i].value == ">" {
            let help = Some("write SOURCE > DESTINATION");
            return Err(at(text, &words[i], "no source before `>`", help));
        }
        if arrow {
            let Some(destination) = words.get(i + 2) else {
                let help = Some("write SOURCE > DESTINATION");
                return Err(at(text, &words[i + 1], "no destination after `>`", help));
            };
            reader.addresses(&words[i], destination)?;
            i += 3;
        } else {
            reader.word(&words[i])?;
            i += 1;
        }
    }
    reader.draft.finish(text)
}

/// Words separated by blanks; `>` and `->` stand alone even without blanks around them. Only an
/// arrow between other characters is split off, so `name->x` is one too.
fn split(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = None;
    let bytes = text.as_bytes();
    let mut push = |from: Option<usize>, to: usize| {
        if let Some(from) = from.filter(|from| *from < to) {
            words.push(Placed {
                value: text[from..to].to_owned(),
                start: from,
                length: to - from,
            });
        }
    };
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => push(start.take(), i),
            b'>' => {
                let dashed = i > 0 && bytes[i - 1] == b'-';
                push(start.take(), if dashed { i - 1 } else { i });
                push(Some(i), i + 1);
            }
            _ => start = start.or(Some(i)),
        }
    }
    push(start, text.len());
    words
}

struct Reader<'a> {
    text: &'a str,
    draft: Draft,
}

impl Reader<'_> {
    fn error<T>(&self, message: &str, word: &Word, help: Option<&str>) -> Result<T, SpecError> {
        Err(at(self.text, word, message, help))
    }

    fn addresses(&mut self, source: &Word, destination: &Word) -> Result<(), SpecError> {
        if self.draft.source.is_some() {
            return self.error("a second pair of addresses", source, None);
        }
        self.draft.source = Some(self.endpoint(source)?);
        self.draft.destination = Some(self.endpoint(destination)?);
        Ok(())
    }

    fn endpoint(&self, word: &Word) -> Result<Placed<Endpoint>, SpecError> {
        let help = Some("addresses are numbers, with :PORT when there is one; [IPv6]:PORT");
        let Some((address, port)) = split_port(&word.value) else {
            return self.error("not an address", word, help);
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) => Some(port),
            Some(Err(_)) => {
                let help = Some("ports are numbers from 0 to 65535");
                return self.error("not a port number", word, help);
            }
        };
        Ok(place(word, Endpoint { address, port }))
    }

    fn word(&mut self, word: &Word) -> Result<(), SpecError> {
        if let Some((key, value)) = word.value.split_once('=') {
            let value = Placed {
                value: value.to_owned(),
                start: word.start + key.len() + 1,
                length: value.len(),
            };
            return self.assignment(word, key, &value);
        }
        if let Some(proto) = names::find(names::PROTOCOLS, &word.value) {
            return self.set(word, "protocol", proto, |d| &mut d.proto);
        }
        if let Some(flags) = names::flags_of(&word.value) {
            let before = self.draft.flags.take().map_or(0, |f| f.value);
            self.draft.flags = Some(place(word, before | flags));
            return Ok(());
        }
        let icmp = names::icmp_of(&word.value, false).or(names::icmp_of(&word.value, true));
        if icmp.is_some() {
            return self.set(word, "ICMP type", word.value.clone(), |d| &mut d.icmp);
        }
        if split_port(&word.value).is_some() {
            let help = Some("two addresses belong together: SOURCE > DESTINATION");
            return self.error("an address without `>`", word, help);
        }
        let protocols = names::PROTOCOLS.iter().map(|p| p.0);
        let known = protocols
            .chain(names::FLAGS.iter().map(|f| f.0))
            .chain(names::ICMP.iter().map(|n| n.0))
            .chain(names::ICMP6.iter().map(|n| n.0));
        let help = nearest(&word.value, known).map(|name| format!("did you mean `{name}`?"));
        self.error("this word means nothing here", word, help.as_deref())
    }

    fn assignment(&mut self, whole: &Word, key: &str, value: &Word) -> Result<(), SpecError> {
        if let Some(&(key, top)) = NUMBERS.iter().find(|n| n.0 == key) {
            return self.number(whole, key, top, value);
        }
        match key {
            "in" => {
                let name = self.interface(value)?;
                self.set(whole, "receiving interface", name, |d| &mut d.in_iface)
            }
            "out" => {
                let name = self.interface(value)?;
                self.set(whole, "sending interface", name, |d| &mut d.out_iface)
            }
            "hook" => {
                let hook = self.named(names::HOOKS, value, "no such hook")?;
                self.set(whole, "hook", hook, |d| &mut d.hook)
            }
            "state" => {
                let state = self.named(names::STATES, value, "no such state")?;
                self.set(whole, "state", state, |d| &mut d.state)
            }
            "proto" => {
                let proto = match value.value.parse::<u8>() {
                    Ok(number) => number,
                    Err(_) => self.named(names::PROTOCOLS, value, "no such protocol")?,
                };
                self.set(whole, "protocol", proto, |d| &mut d.proto)
            }
            "flags" => match names::flags_of(&value.value) {
                Some(flags) => self.set(whole, "TCP flags", flags, |d| &mut d.flags),
                None => self.error("no such TCP flags", value, Some("as in flags=syn,ack")),
            },
            "kernel" => match names::handling_of(&value.value) {
                Some(bits) => self.set(whole, "handling by the kernel", bits, |d| &mut d.handling),
                None => self.error(
                    "no such handling",
                    value,
                    Some("as in kernel=dnat,ipsec-in"),
                ),
            },
            "groups" => {
                let groups = value.value.split(',').map(str::parse).collect();
                match groups {
                    Ok(groups) => self.set(whole, "list of groups", groups, |d| &mut d.groups),
                    Err(_) => self.error("not a list of groups", value, Some("as in groups=4,27")),
                }
            }
            "bridge" => match value.value.split_once(',') {
                Some((from, to)) => {
                    let ports = [from.to_owned(), to.to_owned()];
                    self.set(whole, "pair of bridge ports", ports, |d| &mut d.bridge)
                }
                None => {
                    let help = Some("as in bridge=tap0,tap1 or, for this host, bridge=tap0,");
                    self.error("not a pair of bridge ports", value, help)
                }
            },
            "payload" => self.set(whole, "payload", value.value.clone(), |d| &mut d.payload),
            "icmp" => self.set(whole, "ICMP type", value.value.clone(), |d| &mut d.icmp),
            "mac" => match mac_of(&value.value) {
                Some(mac) => self.set(whole, "MAC address", mac, |d| &mut d.mac),
                None => self.error("not a MAC address", value, Some("as in 02:00:5e:10:00:01")),
            },
            "type" => {
                let kind = self.named(TYPES, value, "no such packet type")?;
                self.set(whole, "packet type", kind, |d| &mut d.packet_type)
            }
            "frag" => {
                let fragment = self.named(FRAGMENTS, value, "no such fragment")?;
                self.set(whole, "fragment", fragment, |d| &mut d.fragment)
            }
            _ => {
                let known = KEYS.iter().copied().chain(NUMBERS.iter().map(|n| n.0));
                let help = nearest(key, known).map(|name| format!("did you mean `{name}=`?"));
                self.error("no such field", whole, help.as_deref())
            }
        }
    }

    fn number(
        &mut self,
        whole: &Word,
        key: &'static str,
        top: u64,
        value: &Word,
    ) -> Result<(), SpecError> {
        let parsed = match value.value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.value.parse(),
        };
        let Some(number) = parsed.ok().filter(|number| *number <= top) else {
            let message = format!("not a number from 0 to {top}");
            return self.error(&message, value, None);
        };
        if self.draft.numbers.iter().any(|n| n.0 == key) {
            return self.error(&format!("a second `{key}`"), whole, None);
        }
        self.draft.numbers.push((key, place(whole, number)));
        Ok(())
    }

    fn interface(&self, value: &Word) -> Result<String, SpecError> {
        let bytes = value.value.len();
        if bytes == 0 || bytes > 15 {
            let help = Some("interface names have 1 to 15 bytes");
            return self.error("not an interface name", value, help);
        }
        Ok(value.value.clone())
    }

    fn named<T: Copy>(
        &self,
        table: &[(&str, T)],
        value: &Word,
        message: &str,
    ) -> Result<T, SpecError> {
        if let Some(found) = names::find(table, &value.value) {
            return Ok(found);
        }
        let all: Vec<&str> = table.iter().map(|t| t.0).collect();
        let help = match nearest(&value.value, all.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("one of {}", all.join(", ")),
        };
        self.error(message, value, Some(&help))
    }

    /// Sets a field once.
    fn set<T>(
        &mut self,
        word: &Word,
        what: &str,
        value: T,
        field: impl Fn(&mut Draft) -> &mut Option<Placed<T>>,
    ) -> Result<(), SpecError> {
        if field(&mut self.draft).is_some() {
            return self.error(&format!("a second {what}"), word, None);
        }
        *field(&mut self.draft) = Some(place(word, value));
        Ok(())
    }
}

const TYPES: &[(&str, PacketType)] = &[
    ("unicast", PacketType::Unicast),
    ("broadcast", PacketType::Broadcast),
    ("multicast", PacketType::Multicast),
];

/// A later fragment of an ordinary datagram: behind 1,480 bytes.
const FRAGMENTS: &[(&str, Fragment)] =
    &[("first", Fragment::First), ("later", Fragment::Later(185))];

fn place<T>(word: &Word, value: T) -> Placed<T> {
    Placed {
        value,
        start: word.start,
        length: word.length,
    }
}

/// `ADDRESS`, `V4:PORT` or `[V6]:PORT` to the address and the text of the port.
fn split_port(text: &str) -> Option<(IpAddr, Option<&str>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, None));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let address = IpAddr::V6(inside.parse::<Ipv6Addr>().ok()?);
        return match after.strip_prefix(':') {
            Some(port) => Some((address, Some(port))),
            None if after.is_empty() => Some((address, None)),
            None => None,
        };
    }
    let (address, port) = text.rsplit_once(':')?;
    Some((IpAddr::V4(address.parse().ok()?), Some(port)))
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 2 {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests;
