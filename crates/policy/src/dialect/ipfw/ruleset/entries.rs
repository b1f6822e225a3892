//! Entries of tables: keys and values, read and printed.
//!
//! In: words and the table's type. Out: [`Key`]s and [`Value`]s. Values written as IPv4 addresses
//! are 32-bit numbers in a table without value types.

use super::super::ast::ValueType;
use super::super::command::{Placed, TableType};
use super::super::fault::{ExitClass, Fault};
use super::super::names::{DSCP, number, protocols, services};
use super::super::parse::{Names, ether_address};
use super::super::words::interface_name;
use super::super::{numbers, print};
use crate::model::Family;
use crate::syntax::Span;

/// What an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// IPv4 prefix.
    V4(u32, u8),
    /// IPv6 prefix.
    V6(u128, u8),
    /// Interface name.
    Iface(String),
    /// Number.
    Number(u32),
    /// Hardware address prefix.
    Mac(u64, u8),
    /// Flow; fields that the table doesn't have are 0.
    Flow {
        /// IPv6.
        six: bool,
        /// Source address.
        src: u128,
        /// Protocol.
        proto: u8,
        /// Source port.
        src_port: u16,
        /// Destination address.
        dst: u128,
        /// Destination port.
        dst_port: u16,
    },
}

/// The value of an entry: one number for everything, or one for each value type of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The values, in the order of [`ValueType::ALL`]; IPv6 next hops need all bits.
    pub numbers: [u128; 12],
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Key,
    /// Value.
    pub value: Value,
}

impl Value {
    /// One number for everything.
    #[must_use]
    pub fn legacy(value: u32) -> Self {
        let mut numbers = [u128::from(value); 12];
        numbers[ValueType::Dscp as usize] = u128::from(value & 0xff);
        numbers[ValueType::Ipv6 as usize] = 0;
        Self { numbers }
    }

    /// The number for one purpose.
    #[must_use]
    pub fn get(&self, kind: ValueType) -> u128 {
        self.numbers[kind as usize]
    }

    /// As `table list` prints it.
    #[must_use]
    pub fn text(&self, kinds: &[ValueType], as_address: bool) -> String {
        if kinds.is_empty() {
            let value = self.get(ValueType::Tag) as u32;
            return match as_address {
                true => print::ipv4(value),
                false => value.to_string(),
            };
        }
        let one = |kind: &ValueType| match kind {
            ValueType::Ipv4 => print::ipv4(self.get(*kind) as u32),
            ValueType::Ipv6 => print::ipv6(self.get(*kind)),
            ValueType::Mark => format!("{:#x}", self.get(*kind)),
            _ => self.get(*kind).to_string(),
        };
        kinds.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

impl Key {
    /// As `table list` prints it.
    #[must_use]
    pub fn text(&self, kind: TableType) -> String {
        match self {
            Key::V4(address, length) => format!("{}/{length}", print::ipv4(*address)),
            Key::V6(address, length) => format!("{}/{length}", print::ipv6(*address)),
            Key::Iface(name) => name.clone(),
            Key::Number(number) => number.to_string(),
            Key::Mac(address, length) => {
                let bytes = address.to_be_bytes();
                let text: Vec<String> = bytes[2..].iter().map(|b| format!("{b:02x}")).collect();
                format!("{}/{length}", text.join(":"))
            }
            Key::Flow { .. } => self.flow_text(kind),
        }
    }

    fn flow_text(&self, kind: TableType) -> String {
        let (
            Key::Flow {
                six,
                src,
                proto,
                src_port,
                dst,
                dst_port,
            },
            TableType::Flow(fields),
        ) = (self, kind)
        else {
            return String::new();
        };
        let address = |value: u128| match six {
            true => print::ipv6(value),
            false => print::ipv4(value as u32),
        };
        let mut parts = Vec::new();
        if fields & 1 != 0 {
            parts.push(address(*src));
        }
        if fields & 2 != 0 {
            parts.push(proto.to_string());
        }
        if fields & 4 != 0 {
            parts.push(src_port.to_string());
        }
        if fields & 8 != 0 {
            parts.push(address(*dst));
        }
        if fields & 16 != 0 {
            parts.push(dst_port.to_string());
        }
        parts.join(",")
    }
}

fn wrong(key: &Placed, message: impl Into<String>, help: &str) -> Fault {
    Fault::data("table-key", key.1, message).help(help)
}

/// Reads a key of a table's type.
///
/// # Errors
/// Words that are no such key.
pub fn key(word: &Placed, kind: TableType, names: &dyn Names) -> Result<Key, Fault> {
    match kind {
        TableType::Addr => address_key(word, names),
        TableType::Iface => match interface_name(&word.0) {
            Ok(name) => Ok(Key::Iface(name.to_owned())),
            Err(name) => Err(wrong(
                word,
                format!("invalid interface name: {name}"),
                "names of interfaces have 15 bytes at most",
            )),
        },
        TableType::Number => {
            let (value, rest) = numbers::strtol(&word.0, 10);
            match rest.is_empty() {
                true => Ok(Key::Number(value as u32)),
                false => Err(wrong(
                    word,
                    format!("invalid number: {}", word.0),
                    "keys of this table are decimal numbers",
                )),
            }
        }
        TableType::Mac => mac_key(word),
        TableType::Flow(fields) => flow_key(word, fields),
    }
}

fn length_of(text: Option<&str>, width: i64, word: &Placed) -> Result<u8, Fault> {
    let length = text.map_or(width, numbers::atoi);
    match (0..=width).contains(&length) {
        true => Ok(length as u8),
        false => Err(wrong(
            word,
            format!("bad mask width: {}", text.unwrap_or_default()),
            &format!("widths are 0 to {width}"),
        )),
    }
}

fn address_key(word: &Placed, names: &dyn Names) -> Result<Key, Fault> {
    let (host, length) = match word.0.split_once('/') {
        Some((host, length)) => (host, Some(length)),
        None => (word.0.as_str(), None),
    };
    if let Some(address) = numbers::ipv4(host) {
        let length = length_of(length, 32, word)?;
        let mask = numbers::prefix_mask(u32::from(length), 32) as u32;
        return Ok(Key::V4(address & mask, length));
    }
    if let Some(address) = numbers::ipv6(host) {
        if address >> 32 == 0 && address > 1 {
            return Err(wrong(
                word,
                "Use IPv4 instead of v4-compatible",
                "write the IPv4 address",
            ));
        }
        let length = length_of(length, 128, word)?;
        return Ok(Key::V6(
            address & numbers::prefix_mask(u32::from(length), 128),
            length,
        ));
    }
    let found = numbers::inet_aton(host).or_else(|| names.ipv4(host).map(u32::from));
    found.map(|address| Key::V4(address, 32)).ok_or_else(|| {
        Fault::new(
            ExitClass::NoHost,
            "unknown-host",
            word.1,
            format!("hostname `{host}` unknown"),
        )
        .help("write an address, with /LENGTH if wanted")
    })
}

fn mac_key(word: &Placed) -> Result<Key, Fault> {
    let (address, length) = match word.0.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word.0.as_str(), None),
    };
    let length = length_of(length, 48, word)?;
    let bytes = ether_address(address)
        .ok_or_else(|| wrong(word, "incorrect MAC address", "write xx:xx:xx:xx:xx:xx"))?;
    let bits = bytes
        .iter()
        .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let mask = numbers::prefix_mask(u32::from(length), 48) as u64;
    Ok(Key::Mac(bits & mask, length))
}

fn flow_key(word: &Placed, fields: u8) -> Result<Key, Fault> {
    let mut parts = word.0.split(',');
    let missing = |what: &str| {
        wrong(
            word,
            format!("invalid key: {what} missing"),
            "write the fields of the table's type with commas between",
        )
    };
    let mut family: Option<Family> = None;
    let mut address = |text: &str| -> Result<u128, Fault> {
        let (found, value) = match (numbers::ipv4(text), numbers::ipv6(text)) {
            (Some(v4), _) => (Family::V4, u128::from(v4)),
            (None, Some(v6)) => (Family::V6, v6),
            (None, None) => {
                return Err(wrong(
                    word,
                    format!("bad address {text}"),
                    "write an address",
                ));
            }
        };
        if family.replace(found).is_some_and(|before| before != found) {
            return Err(wrong(
                word,
                "inconsistent address family",
                "write addresses of one family",
            ));
        }
        Ok(value)
    };
    let port = |text: &str| -> Result<u16, Fault> {
        let (value, rest) = numbers::strtol(text, 10);
        match rest.is_empty() {
            true => Ok(value as u16),
            false => services::port(text, 0).ok_or_else(|| {
                wrong(
                    word,
                    format!("Unknown service: {text}"),
                    "write a port number",
                )
            }),
        }
    };
    let (mut src, mut proto, mut src_port, mut dst, mut dst_port) = (0, 0, 0, 0, 0);
    if fields & 1 != 0 {
        src = address(parts.next().ok_or_else(|| missing("src ip"))?)?;
    }
    if fields & 2 != 0 {
        let text = parts.next().ok_or_else(|| missing("proto"))?;
        let (value, rest) = numbers::strtol(text, 10);
        let named = protocols::number(text).map(i64::from);
        let value = if rest.is_empty() { Some(value) } else { named };
        proto = value
            .and_then(|value| u8::try_from(value).ok())
            .ok_or_else(|| {
                wrong(
                    word,
                    format!("Unknown proto: {text}"),
                    "write a protocol of protocols(5)",
                )
            })?;
    }
    if fields & 4 != 0 {
        src_port = port(parts.next().ok_or_else(|| missing("src port"))?)?;
    }
    if fields & 8 != 0 {
        dst = address(parts.next().ok_or_else(|| missing("dst ip"))?)?;
    }
    if fields & 16 != 0 {
        dst_port = port(parts.next().ok_or_else(|| missing("dst port"))?)?;
    }
    Ok(Key::Flow {
        six: family == Some(Family::V6),
        src,
        proto,
        src_port,
        dst,
        dst_port,
    })
}

/// The type of a table that doesn't exist yet, by the look of its first key.
#[must_use]
pub fn guess(word: &str, names: &dyn Names) -> Option<TableType> {
    let head = word.split('/').next().unwrap_or(word);
    let first = word.bytes().next()?;
    if first.is_ascii_hexdigit() || first == b':' {
        if numbers::ipv4(head).is_some() || numbers::ipv6(head).is_some() {
            return Some(TableType::Addr);
        }
        let (_, rest) = numbers::strtol(head, 10);
        if rest.is_empty() {
            return Some(TableType::Number);
        }
        if rest.len() != head.len() && rest.starts_with('.') {
            return None;
        }
    }
    if !word.contains('.') {
        return Some(TableType::Iface);
    }
    names.ipv4(head).map(|_| TableType::Addr)
}

/// Reads the value of an entry.
///
/// # Errors
/// Words that are no such value.
pub fn value(word: &Placed, kinds: &[ValueType], names: &dyn Names) -> Result<Value, Fault> {
    if kinds.is_empty() {
        let (number, rest) = numbers::strtol(&word.0, 0);
        if rest.is_empty() {
            return Ok(Value::legacy(number as u32));
        }
        let address = numbers::ipv4(&word.0)
            .or_else(|| numbers::inet_aton(&word.0))
            .or_else(|| names.ipv4(&word.0).map(u32::from));
        return address.map(Value::legacy).ok_or_else(|| {
            Fault::new(
                ExitClass::System,
                "table-value",
                word.1,
                format!("Unable to parse value {}", word.0),
            )
            .help("write a number or an IPv4 address")
        });
    }
    let parts: Vec<&str> = word.0.split(',').collect();
    if parts.len() < kinds.len() {
        return Err(unparsable(
            word.1,
            "Not enough fields inside value".to_owned(),
        ));
    }
    let mut out = Value::default();
    for (kind, text) in kinds.iter().zip(parts) {
        let number = typed(*kind, text, names).ok_or_else(|| {
            unparsable(word.1, format!("Unable to parse {text} as {}", kind.name()))
        })?;
        out.numbers[*kind as usize] = number;
    }
    Ok(out)
}

fn unparsable(span: Span, message: String) -> Fault {
    Fault::usage("table-value", span, message)
        .help("write one value for each value type, with commas between, in their order")
}

fn typed(kind: ValueType, text: &str, names: &dyn Names) -> Option<u128> {
    let (decimal, rest) = numbers::strtol(text, 10);
    let plain = rest.is_empty().then_some(u128::from(decimal as u32));
    match kind {
        ValueType::Ipv4 => numbers::ipv4(text)
            .or_else(|| numbers::inet_aton(text))
            .or_else(|| names.ipv4(text).map(u32::from))
            .map(u128::from),
        ValueType::Ipv6 => numbers::ipv6(text),
        ValueType::Dscp => number(DSCP, text)
            .map(u128::from)
            .or(plain.filter(|code| *code <= 63)),
        ValueType::Mark => {
            let (value, rest) = numbers::strtol(text, 16);
            rest.is_empty().then_some(u128::from(value as u32))
        }
        _ => plain,
    }
}
