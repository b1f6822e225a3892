//! Typed values of options, and how each is printed.
//!
//! A [`Kind`] says how an option's words are read and printed; a [`Value`] is what was read. Reading
//! is in `parse::values`; printing is here, beside the types, so that both sides of the identity
//! "print, then read" can be compared.

use super::names::Transport;
use crate::model::SetField;
use crate::syntax::Place;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address with its mask, or a name still to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4 address and mask.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 address and mask.
    V6(Ipv6Addr, Ipv6Addr),
    /// A host name (with the text of a mask, if one was written).
    Name(Box<str>),
}

/// The addresses of `-s` or `-d`; several make one rule each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `!` before it; only with one address.
    pub negated: bool,
    /// The first address.
    pub first: Address,
    /// The others.
    pub more: Vec<Address>,
    /// The words.
    pub at: Place,
}

impl Addresses {
    /// All of them, in the order written.
    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

/// An interface name, or a beginning (`eth+`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName {
    /// The name without `+`.
    pub name: Box<str>,
    /// Whether any ending fits.
    pub prefix: bool,
}

/// How the value of an option is written.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// No value.
    Flag,
    /// A number between the two, decimal, hexadecimal or octal; printed in decimal.
    Number(u64, u64),
    /// A number up to this, printed as two hexadecimal digits.
    Hex(u64),
    /// `a[:b]` up to this, open ends allowed.
    Range(u32),
    /// `a[:b]`, numbers or service names.
    Ports(Option<Transport>),
    /// Up to 15 ports or ranges.
    PortList,
    /// Two lists of TCP flags.
    TcpFlags,
    /// No value; stands for a certain `--tcp-flags`.
    Syn,
    /// `type[/code]` or a name; the flag says ICMPv6.
    Icmp(bool),
    /// `value[/mask]`, 32 bits.
    Mark,
    /// One of the ways to write `--set-xmark`.
    SetMark(MarkForm),
    /// A 32-bit mask in hexadecimal.
    Mask,
    /// `value[/mask]` or a name, 8 bits; the mask that a name has.
    Tos(u8),
    /// One of the ways to write `--set-tos`.
    SetTos(MarkForm),
    /// A DSCP class.
    DscpClass,
    /// A list of names, comma between them.
    Names(&'static [&'static str]),
    /// One of some names; a second name after `=` stands for the same.
    Choice(&'static [&'static str]),
    /// A kind of REJECT.
    Reject,
    /// A log level.
    LogLevel,
    /// `n[/unit]`
    Rate,
    /// `n[/unit]` or `n[kmg]b/s`
    HashRate,
    /// A number or `n[kmg]b`
    HashBurst,
    /// 0.0 to 1.0
    Probability,
    /// An address with an optional mask, which is not applied.
    Address,
    /// `from[-to]`
    AddressRange,
    /// A netmask.
    AddressMask,
    /// An Ethernet address.
    Mac,
    /// An interface, `+` at its end for any ending.
    Interface,
    /// A text of this many characters (least, most).
    Text(usize, usize),
    /// A protocol.
    Protocol,
    /// The name of a set and directions.
    Set,
    /// `all|any|only` and SCTP chunk types.
    Chunks,
    /// `major:minor`
    Class,
    /// An id, a range of ids, or the name of a user or group.
    Ids,
    /// `[address[-address]][:port[-port[/base]]]`
    NatTo,
    /// `port[-port]`
    NatPorts,
    /// `address[/mask]`
    NetmapTo,
    /// `YYYY[-MM[-DD[Thh[:mm[:ss]]]]]`
    Date,
    /// `hh:mm[:ss]`
    TimeOfDay,
    /// Days of the month.
    MonthDays,
    /// Days of the week.
    WeekDays,
    /// This many words, kept as they are.
    Words(usize),
}

/// The ways to write a change of a mark or of the TOS byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkForm {
    /// `value/mask`: clear mask, exclusive-or value.
    Xor,
    /// `value/mask`: clear mask, or value.
    Set,
    /// `bits`: keep only these.
    And,
    /// `bits`: set these.
    Or,
    /// `bits`: flip these.
    Flip,
}

/// A named set with directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUse {
    /// Its name.
    pub name: Box<str>,
    /// Which packet field feeds each dimension.
    pub fields: Vec<SetField>,
}

/// SCTP chunk types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// 0 all, 1 any, 2 only.
    pub kind: u8,
    /// One bit a type.
    pub types: [u64; 4],
    /// Type, mask and value of flags, sorted by type.
    pub flags: Vec<(u8, u8, u8)>,
}

/// A translation target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatTo {
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
    /// Port that the first port stands for.
    pub base: Option<u16>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Flag,
    /// A number, the index of a name, seconds, days as bits, a probability of 2^31.
    Number(u64),
    /// First and last.
    Range(u32, u32),
    /// Ports and ranges of ports, as written.
    Ports(Box<[(u16, u16)]>),
    /// Value and mask.
    Masked(u32, u32),
    /// ICMP type (`None`: any) and codes.
    Icmp(Option<u8>, (u8, u8)),
    /// An address.
    Address(Box<Address>),
    /// First and last address.
    Addresses(Box<(IpAddr, IpAddr)>),
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An interface.
    Interface(InterfaceName),
    /// A text.
    Text(Box<str>),
    /// Words, kept.
    Words(Box<[Box<str>]>),
    /// Time for one packet: in units of 1/10000 s (limit) or 1/1000000 s (hashlimit).
    Period(u32),
    /// Bytes (a second, or of burst).
    Bytes(u64),
    /// A set.
    Set(Box<SetUse>),
    /// Chunk types.
    Chunks(Box<Chunks>),
    /// A translation target.
    Nat(Box<NatTo>),
}

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

/// Texts are quoted as `iptables-save` does: whatever is not a plain word is quoted, with backslashes
/// before both quotes and the backslash.
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
        Kind::WeekDays => bit_names(number >> 1, super::names::small::WEEKDAYS),
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

fn date_text(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day since 1970-01-01 (proleptic Gregorian calendar).
#[must_use]
pub fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date, the inverse of [`civil`]; `year` from 1970.
#[must_use]
pub fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let shifted_year = year - u64::from(month <= 2);
    let (era, of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
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
                bits => bit_names(u64::from(bits), super::names::small::TCP_FLAGS),
            };
            format!("{} {}", names(mask), names(value))
        }
        Kind::Tos(_) | Kind::SetTos(_) => format!("0x{value:02x}/0x{mask:02x}"),
        Kind::Mark if mask == u32::MAX => format!("{value:#x}"),
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
    use super::names::small::{SCTP_CHUNK_FLAGS, SCTP_CHUNKS};
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
    fn dates_read_back() {
        assert_eq!(date_text(0), "1970-01-01T00:00:00");
        assert_eq!(date_text(2_147_483_647), "2038-01-19T03:14:07");
        for days in 0..40_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_from_civil(year, month, day), days);
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
