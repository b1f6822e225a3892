//! How values are printed: as `iptables-save` prints them.

use super::calendar::date_text;
use super::lesser::{bits_text, headers_text, pattern_text, span_text, u32_text};
use super::{Address, Chunks, InterfaceName, Kind, NatTo, Value};
use crate::model::SetField;
use std::fmt::Write;
use std::net::IpAddr;

/// Prints `value`, read as `kind`, with a blank before each word.
pub fn print(out: &mut String, kind: Kind, value: &Value) {
    match value {
        Value::Flag => {}
        Value::Number(number) => print_number(out, kind, *number),
        Value::Range(first, last) => print_range(out, kind, *first, *last),
        Value::Ports(list) => {
            let parts = list.iter().map(|&(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}:{last}"),
            });
            push(out, &parts.collect::<Vec<_>>().join(","));
        }
        Value::Masked(value, mask) => print_masked(out, kind, *value, *mask),
        Value::Icmp(kind, codes) => print_icmp(out, *kind, *codes),
        Value::Address(address) => print_value_address(out, kind, address),
        Value::Addresses(range) => push(out, &format!("{}-{}", range.0, range.1)),
        Value::Mac(bytes) => {
            let parts = bytes.map(|byte| format!("{byte:02x}"));
            push(out, &parts.join(":"));
        }
        Value::Interface(interface) => push_word(out, &interface_text(interface)),
        Value::Text(text) if matches!(kind, Kind::Quoted(_)) => push_always_quoted(out, text),
        Value::Text(text) => push_quoted(out, text),
        Value::Words(words) => words.iter().for_each(|word| push_word(out, word)),
        Value::Period(period) => print_period(out, kind, *period),
        Value::Bytes(bytes) => print_bytes(out, kind, *bytes),
        Value::Set(set) => {
            push_word(out, &set.name);
            let fields = set.fields.iter().map(|field| match field {
                SetField::Src => "src",
                SetField::Dst => "dst",
            });
            push(out, &fields.collect::<Vec<_>>().join(","));
        }
        Value::Chunks(chunks) => print_chunks(out, chunks),
        Value::Nat(nat) => push(out, &nat_text(nat)),
        Value::Pattern(bytes) => push(out, &pattern_text(bytes)),
        Value::U32(tests) => push(out, &u32_text(tests)),
        Value::Wide(first, u64::MAX) => push(out, &first.to_string()),
        Value::Wide(first, last) => push(out, &format!("{first}:{last}")),
        Value::Bits(bits) => push(out, &bits_text(bits)),
    }
}

/// The interface as it is written.
#[must_use]
pub fn interface_text(interface: &InterfaceName) -> String {
    let plus = if interface.prefix { "+" } else { "" };
    format!("{}{plus}", interface.name)
}

fn push(out: &mut String, text: &str) {
    out.push(' ');
    out.push_str(text);
}

/// Texts are quoted as `iptables-save` does: whatever is not a plain word is quoted, with
/// backslashes before both quotes and the backslash.
pub fn push_quoted(out: &mut String, text: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return push(out, text);
    }
    push_in_quotes(out, text);
}

/// Words of unsupported modules: quoted only where they must be.
pub fn push_word(out: &mut String, text: &str) {
    let needs = |c: char| c == ' ' || c == '\t' || c == '"' || c.is_control();
    if text.is_empty() || text == "!" || text.starts_with('-') || text.chars().any(needs) {
        return push_in_quotes(out, text);
    }
    push(out, text);
}

/// Texts that the original always puts into quotes.
fn push_always_quoted(out: &mut String, text: &str) {
    out.push_str(" \"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

fn push_in_quotes(out: &mut String, text: &str) {
    out.push_str(" \"");
    for character in text.chars() {
        if matches!(character, '"' | '\\' | '\'') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

fn print_number(out: &mut String, kind: Kind, number: u64) {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let text = match kind {
        Kind::Hex(_) | Kind::DscpClass => format!("0x{number:02x}"),
        Kind::Mask => format!("{number:#x}"),
        Kind::Names(names) => bit_names(number, names),
        Kind::WeekDays => bit_names(number >> 1, super::super::names::small::WEEKDAYS),
        Kind::MonthDays => {
            let days = (1..=31)
                .filter(|day| number >> day & 1 == 1)
                .map(|day: u32| day.to_string());
            days.collect::<Vec<_>>().join(",")
        }
        Kind::Choice(names) => names
            .get(index)
            .map_or("?", |name| choice_name(name))
            .to_owned(),
        Kind::Padded(digits) => format!("0x{number:0digits$x}"),
        Kind::Headers => headers_text(number),
        Kind::Span => span_text(number),
        Kind::Zone if number > 0xffff => "mark".to_owned(),
        Kind::Class => format!("{:04x}:{:04x}", number >> 16, number & 0xffff),
        Kind::Probability => probability_text(number),
        Kind::Date => date_text(number),
        Kind::TimeOfDay => {
            format!(
                "{:02}:{:02}:{:02}",
                number / 3600,
                number / 60 % 60,
                number % 60
            )
        }
        _ => number.to_string(),
    };
    push(out, &text);
}

/// The printed one of a choice's names.
#[must_use]
pub fn choice_name(name: &'static str) -> &'static str {
    name.split_once('=').map_or(name, |(printed, _)| printed)
}

fn bit_names(bits: u64, names: &[&str]) -> String {
    let set = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

/// A probability of 2^31 with eleven decimals, as the original prints it; enough to read it back.
fn probability_text(number: u64) -> String {
    let scaled = (u128::from(number) * 100_000_000_000 + (1 << 30)) >> 31;
    format!(
        "{}.{:011}",
        scaled / 100_000_000_000,
        scaled % 100_000_000_000
    )
}

/// The 31-bit probability for a decimal fraction scaled by 10^11, rounded to the nearest.
#[must_use]
pub fn probability_bits(scaled: u128) -> u64 {
    let bits = ((scaled << 32) / 100_000_000_000).div_ceil(2);
    u64::try_from(bits).unwrap_or(u64::MAX)
}

fn print_range(out: &mut String, kind: Kind, first: u32, last: u32) {
    let separator = match kind {
        Kind::Ids | Kind::NatPorts => '-',
        _ => ':',
    };
    out.push(' ');
    match first == last {
        true => write!(out, "{first}"),
        false => write!(out, "{first}{separator}{last}"),
    }
    .expect("writing to a string cannot fail");
}

fn print_masked(out: &mut String, kind: Kind, value: u32, mask: u32) {
    let text = match kind {
        Kind::TcpFlags | Kind::Syn => {
            let names = |bits: u32| match bits {
                0 => "NONE".to_owned(),
                bits => bit_names(u64::from(bits), super::super::names::small::TCP_FLAGS),
            };
            format!("{} {}", names(mask), names(value))
        }
        Kind::Tos(_) | Kind::SetTos(_) => format!("0x{value:02x}/0x{mask:02x}"),
        Kind::Named(name) if (value, mask) == (0, u32::MAX) => name.to_owned(),
        Kind::Mark | Kind::Named(_) if mask == u32::MAX => format!("{value:#x}"),
        _ => format!("{value:#x}/{mask:#x}"),
    };
    push(out, &text);
}

fn print_icmp(out: &mut String, kind: Option<u8>, codes: (u8, u8)) {
    let text = match (kind, codes) {
        (None, _) => "any".to_owned(),
        (Some(kind), (0, 255)) => kind.to_string(),
        (Some(kind), (first, last)) if first == last => format!("{kind}/{first}"),
        (Some(kind), (first, last)) => format!("{kind}/{first}-{last}"),
    };
    push(out, &text);
}

fn print_value_address(out: &mut String, kind: Kind, address: &Address) {
    match (kind, address) {
        (Kind::AddressMask, Address::V4(mask, _)) => push(out, &mask.to_string()),
        (Kind::AddressMask, Address::V6(mask, _)) => push(out, &mask.to_string()),
        (Kind::Prefix, address) => push(out, &address_text(address, MaskText::Always)),
        (_, address) => push(out, &address_text(address, MaskText::UnlessHost)),
    }
}

/// When the mask is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskText {
    /// Always.
    Always,
    /// Not for a single address.
    UnlessHost,
}

/// An address with its mask as a prefix length where it is one.
#[must_use]
pub fn address_text(address: &Address, when: MaskText) -> String {
    match address {
        Address::V4(address, mask) => match prefix_length_v4(mask.to_bits()) {
            Some(32) if when == MaskText::UnlessHost => address.to_string(),
            Some(length) => format!("{address}/{length}"),
            None => format!("{address}/{mask}"),
        },
        Address::V6(address, mask) => match prefix_length(mask.to_bits()) {
            Some(128) if when == MaskText::UnlessHost => address.to_string(),
            Some(length) => format!("{address}/{length}"),
            None => format!("{address}/{mask}"),
        },
        Address::Name(name) => name.to_string(),
    }
}

/// The length of an IPv4 mask of leading ones, if it is one.
#[must_use]
pub fn prefix_length_v4(mask: u32) -> Option<u32> {
    let length = mask.leading_ones();
    (mask.count_ones() == length).then_some(length)
}

/// The length of a mask of leading ones, if it is one.
#[must_use]
pub fn prefix_length(mask: u128) -> Option<u32> {
    let length = mask.leading_ones();
    (mask.count_ones() == length).then_some(length)
}

fn print_period(out: &mut String, kind: Kind, period: u32) {
    let second = if matches!(kind, Kind::HashRate) {
        1_000_000
    } else {
        10_000
    };
    push(out, &rate_text(period, second));
}

fn rate_text(period: u32, second: u64) -> String {
    let (name, seconds) = rate_unit(period, second);
    format!("{}/{name}", seconds * second / u64::from(period.max(1)))
}

/// Name and seconds of the finest unit in which a rate reads back to the same period, as
/// `iptables-save` chooses it; `second` is a second in units of the period.
#[must_use]
pub fn rate_unit(period: u32, second: u64) -> (&'static str, u64) {
    let period = u64::from(period.max(1));
    let units = [("sec", 1), ("min", 60), ("hour", 3600), ("day", 86_400)];
    let fits = |unit: &(&str, u64)| {
        let amount = unit.1 * second / period;
        amount > 0 && unit.1 * second / amount == period
    };
    units.into_iter().find(fits).unwrap_or(units[3])
}

fn print_bytes(out: &mut String, kind: Kind, bytes: u64) {
    let units = [("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10), ("", 1)];
    let (name, size) = units
        .iter()
        .find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size))
        .unwrap_or(&units[3]);
    let per_second = if matches!(kind, Kind::HashRate) {
        "/s"
    } else {
        ""
    };
    push(out, &format!("{}{name}b{per_second}", bytes / size));
}

fn print_chunks(out: &mut String, chunks: &Chunks) {
    use super::super::names::small::{SCTP_CHUNK_FLAGS, SCTP_CHUNKS};
    push(
        out,
        ["all", "any", "only"]
            .get(usize::from(chunks.kind))
            .unwrap_or(&"any"),
    );
    if chunks.types == [u64::MAX; 4] {
        return push(out, "ALL");
    }
    if chunks.types == [0; 4] {
        return push(out, "NONE");
    }
    let mut parts = Vec::new();
    for &(name, number) in SCTP_CHUNKS {
        if chunks.types[usize::from(number / 64)] >> (number % 64) & 1 == 0 {
            continue;
        }
        let mut part = name.to_owned();
        if let Some(&(_, mask, value)) = chunks.flags.iter().find(|row| row.0 == number) {
            let letters = SCTP_CHUNK_FLAGS
                .iter()
                .find(|row| row.0 == number)
                .map_or("", |row| row.1);
            part.push(':');
            for (bit, letter) in letters.bytes().enumerate().rev() {
                let set = value >> bit & 1 == 1;
                if mask >> bit & 1 == 1 {
                    let letter = if set {
                        letter
                    } else {
                        letter.to_ascii_lowercase()
                    };
                    part.push(char::from(letter));
                }
            }
        }
        parts.push(part);
    }
    push(out, &parts.join(","));
}

fn nat_text(nat: &NatTo) -> String {
    let mut out = String::new();
    if let Some((first, last)) = nat.addresses {
        let bracket = |address: IpAddr| match address {
            IpAddr::V6(address) if nat.ports.is_some() => format!("[{address}]"),
            address => address.to_string(),
        };
        out += &bracket(first);
        if first != last {
            out += &format!("-{}", bracket(last));
        }
    }
    if let Some((first, last)) = nat.ports {
        out += &format!(":{first}");
        if first != last {
            out += &format!("-{last}");
        }
        if let Some(base) = nat.base {
            out += &format!("/{base}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn text(kind: Kind, value: &Value) -> String {
        let mut out = String::new();
        print(&mut out, kind, value);
        out.split_off(usize::from(!out.is_empty()))
    }

    #[test]
    fn rates_print_as_the_original_does() {
        let limit = |period| text(Kind::Rate, &Value::Period(period));
        assert_eq!(limit(10_000), "1/sec");
        assert_eq!(limit(600_000 / 90), "90/min");
        assert_eq!(limit(600_000 / 7), "7/min");
        assert_eq!(limit(12_000_000), "3/hour");
        assert_eq!(limit(864_000_000), "1/day");
        assert_eq!(
            text(Kind::HashRate, &Value::Period(1_000_000 / 300_000)),
            "333333/sec"
        );
    }

    #[test]
    fn every_rate_prints_to_a_rate_of_the_same_period() {
        for (seconds, name) in [(1u64, "sec"), (60, "min"), (3600, "hour"), (86_400, "day")] {
            for amount in 1..=10_000u64 {
                let period = u32::try_from(seconds * 10_000 / amount).unwrap();
                let printed = rate_text(period, 10_000);
                let (number, unit) = printed.split_once('/').unwrap();
                let unit = [("sec", 1u64), ("min", 60), ("hour", 3600), ("day", 86_400)]
                    .iter()
                    .find(|row| row.0 == unit)
                    .unwrap()
                    .1;
                let again = unit * 10_000 / number.parse::<u64>().unwrap();
                assert_eq!(
                    again,
                    u64::from(period),
                    "{amount}/{name} printed as {printed}"
                );
            }
        }
    }

    #[test]
    fn probabilities_read_back() {
        assert_eq!(
            text(Kind::Probability, &Value::Number(1 << 31)),
            "1.00000000000"
        );
        assert_eq!(
            text(Kind::Probability, &Value::Number(1 << 30)),
            "0.50000000000"
        );
        for number in (0..1u64 << 31).step_by(999_983) {
            let printed = probability_text(number);
            let digits: u128 = printed.replace('.', "").parse().unwrap();
            assert_eq!(probability_bits(digits), number, "{printed}");
        }
    }

    #[test]
    fn masks_print_as_lengths_where_they_are_prefixes() {
        let v4 = |a: [u8; 4], m: [u8; 4]| Address::V4(a.into(), m.into());
        let host = v4([1, 2, 3, 4], [255; 4]);
        assert_eq!(address_text(&host, MaskText::Always), "1.2.3.4/32");
        assert_eq!(address_text(&host, MaskText::UnlessHost), "1.2.3.4");
        assert_eq!(
            address_text(&v4([0; 4], [0; 4]), MaskText::Always),
            "0.0.0.0/0"
        );
        let odd = v4([10, 0, 2, 0], [255, 0, 255, 0]);
        assert_eq!(address_text(&odd, MaskText::Always), "10.0.2.0/255.0.255.0");
        let all = Address::V6(Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        assert_eq!(address_text(&all, MaskText::Always), "::/0");
    }

    #[test]
    fn texts_are_quoted_as_the_original_does() {
        let quoted = |text: &str| {
            let mut out = String::new();
            push_quoted(&mut out, text);
            out
        };
        assert_eq!(quoted("abc"), " abc");
        assert_eq!(quoted("abc "), " \"abc \"");
        assert_eq!(quoted(r#"a b'"c"#), r#" "a b\'\"c""#);
        assert_eq!(quoted(""), " \"\"");
    }
}
