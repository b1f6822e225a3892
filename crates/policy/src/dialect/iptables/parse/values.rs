//! The words of an option to its typed value, by the option's kind.
//!
//! Each reader takes exactly the words that its kind has and returns a value or one located error;
//! what values mean together is `finish`'s business.

use super::super::names::{Transport, icmp, protocols, services, small};
use super::super::value::{Address, Kind, MarkForm, Value, choice_name, probability_bits};
use super::address::{self, Fault};
use super::clock;
use super::lesser;
use super::lists::{chunks, names_list, port_list, set, tcp_flags, text, words};
use super::nat;
use super::numbers::{fraction, number, number_up_to, number32};
use super::rates::{hash_burst, hash_rate, rate};
use crate::model::Family;
use crate::syntax::{Cursor, Diagnostic, Span};
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a reader knows of the rule around the option.
pub(super) struct Context {
    pub(super) family: Family,
    pub(super) protocol: Option<u8>,
    pub(super) option: &'static str,
    pub(super) option_at: Span,
}

/// One word of a value.
pub(super) struct Text<'w> {
    pub(super) text: Cow<'w, str>,
    pub(super) at: Span,
}

pub(super) type Read = Result<Value, Diagnostic>;

/// Reads the value of an option.
pub(super) fn read<'w>(
    kind: Kind,
    inline: Option<&'w str>,
    cursor: &mut Cursor<'w, '_>,
    context: &Context,
) -> Read {
    if matches!(kind, Kind::Flag | Kind::Syn) {
        return match inline {
            None if matches!(kind, Kind::Flag) => Ok(Value::Flag),
            None => Ok(Value::Masked(SYN_VALUE, SYN_MASK)),
            Some(_) => {
                let message = format!("`--{}` takes no value", context.option);
                Err(
                    Diagnostic::error("unexpected-word", context.option_at, message)
                        .help("take `=` and what follows it out"),
                )
            }
        };
    }
    let word = match inline {
        Some(text) => Text {
            text: Cow::Borrowed(text),
            at: context.option_at,
        },
        None => next(cursor, context, takes_any_word(kind))?,
    };
    let at = word.at;
    let fault = |code| move |fault: Fault| located(code, at, fault);
    match kind {
        Kind::TcpFlags => tcp_flags(&word, cursor, context),
        Kind::Set => set(&word, cursor, context),
        Kind::Chunks => chunks(&word, cursor, context),
        Kind::Words(count) => words(word, count, cursor, context),
        Kind::Text(least, most) => text(&word, least, most, context),
        Kind::Ports(transport) => ports(&word.text, transport, context).map_err(fault("bad-port")),
        Kind::PortList => port_list(&word, context),
        Kind::Names(names) => names_list(&word, names, context),
        Kind::NatTo => nat::to(&word.text, context.family).map_err(fault("bad-translation")),
        Kind::NatPorts => nat::ports(&word.text).map_err(fault("bad-port")),
        Kind::NetmapTo => address::address(&word.text, context.family, true)
            .map(|address| Value::Address(Box::new(address)))
            .map_err(fault("bad-address")),
        Kind::Pattern(hex) => lesser::pattern(&word.text, hex).map_err(fault("bad-pattern")),
        Kind::U32 => lesser::words_tested(&word.text).map_err(fault("bad-test")),
        Kind::Quoted(most) => text(&word, 0, most, context),
        Kind::Date => clock::date(&word.text).map_err(fault("bad-time")),
        Kind::TimeOfDay => clock::time_of_day(&word.text).map_err(fault("bad-time")),
        Kind::MonthDays => clock::month_days(&word.text).map_err(fault("bad-time")),
        Kind::WeekDays => clock::week_days(&word.text).map_err(fault("bad-time")),
        _ => single(kind, &word.text, context).map_err(fault(code_of(kind))),
    }
}

const SYN_MASK: u32 = 0x17;
const SYN_VALUE: u32 = 0x02;

/// The code of errors in values of a kind.
fn code_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Address | Kind::AddressRange | Kind::AddressMask => "bad-address",
        Kind::Choice(_) | Kind::Reject | Kind::LogLevel | Kind::DscpClass => "unknown-name",
        Kind::Icmp(_) => "bad-icmp-type",
        Kind::Rate | Kind::HashRate => "bad-rate",
        Kind::Mac => "bad-mac",
        Kind::Interface => "bad-interface",
        Kind::Protocol => "unknown-protocol",
        _ => "bad-number",
    }
}

pub(super) fn located(code: &'static str, at: Span, fault: Fault) -> Diagnostic {
    let mut found = Diagnostic::error(code, at, fault.message);
    found.help = fault.help;
    found
}

/// Texts take the next word whatever it is, as the original does.
fn takes_any_word(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Text(..) | Kind::Words(_) | Kind::Quoted(_) | Kind::Pattern(_)
    )
}

pub(super) fn next<'w>(
    cursor: &mut Cursor<'w, '_>,
    context: &Context,
    any: bool,
) -> Result<Text<'w>, Diagnostic> {
    match cursor.peek() {
        Some(word) if any || word.quoted || !word.text.starts_with('-') => {
            cursor.take();
            Ok(Text {
                text: Cow::Borrowed(&*word.text),
                at: cursor.span(word),
            })
        }
        _ => {
            let message = format!("`--{}` needs a value", context.option);
            Err(
                Diagnostic::error("missing-value", context.option_at, message)
                    .help("write it after the option"),
            )
        }
    }
}

/// Kinds of one word that need nothing but the word.
fn single(kind: Kind, text: &str, context: &Context) -> Result<Value, Fault> {
    match kind {
        Kind::Number(least, most) => bounded(text, least, most).map(Value::Number),
        Kind::Hex(most) => bounded(text, 0, most).map(Value::Number),
        Kind::Mask => bounded(text, 0, u64::from(u32::MAX)).map(Value::Number),
        Kind::Range(most) => range(text, most),
        Kind::Icmp(ipv6) => icmp_type(text, ipv6),
        Kind::Mark => mark(text, MarkForm::Xor),
        Kind::SetMark(form) => mark(text, form),
        Kind::Tos(mask) => tos(text, mask),
        Kind::SetTos(form) => set_tos(text, form),
        Kind::DscpClass => by_name(text, small::DSCP_CLASSES, "DSCP class"),
        Kind::Choice(names) => choice(text, names),
        Kind::Reject => reject(text, context.family),
        Kind::LogLevel => log_level(text),
        Kind::Rate => rate(text, 10_000).map(Value::Period),
        Kind::HashRate => hash_rate(text),
        Kind::HashBurst => hash_burst(text),
        Kind::Probability => fraction(text)
            .map(|scaled| Value::Number(probability_bits(scaled)))
            .ok_or_else(|| Fault::new(format!("bad probability `{text}`")).help("0.0 to 1.0")),
        Kind::Address => address::address(text, context.family, false)
            .map(|address| Value::Address(Box::new(address))),
        Kind::AddressRange => {
            address::range(text, context.family).map(|range| Value::Addresses(Box::new(range)))
        }
        Kind::AddressMask => address_mask(text, context.family),
        Kind::Mac => address::mac(text).map(Value::Mac).ok_or_else(|| {
            Fault::new(format!("bad Ethernet address `{text}`"))
                .help("six bytes in hexadecimal, such as 00:11:22:aa:bb:cc")
        }),
        Kind::Interface => address::interface(text).map(Value::Interface),
        Kind::Protocol => protocol(text),
        Kind::Class => class(text),
        Kind::Ids => ids(text),
        Kind::Wide => lesser::wide(text),
        Kind::Padded(digits) => bounded(text, 0, (1 << (4 * digits)) - 1).map(Value::Number),
        Kind::Named(name) => lesser::named(text, name),
        Kind::HeaderOptions => lesser::header_options(text),
        Kind::Headers => lesser::headers(text),
        Kind::Mobility => lesser::mobility(text),
        Kind::Span => lesser::span(text),
        Kind::TcpOptions => lesser::tcp_options(text),
        Kind::Zone => lesser::zone(text),
        Kind::FullMark => lesser::full_mark(text),
        Kind::Prefix => address::address(text, context.family, false)
            .map(|address| Value::Address(Box::new(address))),
        Kind::Port => {
            port(text, transport_of(context.protocol)).map(|port| Value::Number(u64::from(port)))
        }
        _ => Err(Fault::new(format!("`{text}` cannot be read here")).help("take it out")),
    }
}

pub(super) fn bounded(text: &str, least: u64, most: u64) -> Result<u64, Fault> {
    match number(text) {
        Some(value) if value >= least && value <= most => Ok(value),
        Some(_) => {
            Err(Fault::new(format!("`{text}` is out of range")).help(format!("{least} to {most}")))
        }
        None => Err(Fault::new(format!("`{text}` is not a number"))
            .help(format!("a number from {least} to {most}"))),
    }
}

/// `a[:b]`, open ends at 0 and at `most`.
fn range(text: &str, most: u32) -> Result<Value, Fault> {
    let most_wide = u64::from(most);
    let (first, last) = match text.split_once(':') {
        None => {
            let value = bounded(text, 0, most_wide)?;
            (value, value)
        }
        Some((first, last)) => (
            if first.is_empty() {
                0
            } else {
                bounded(first, 0, most_wide)?
            },
            if last.is_empty() {
                most_wide
            } else {
                bounded(last, 0, most_wide)?
            },
        ),
    };
    if first > last {
        return Err(
            Fault::new(format!("the range `{text}` is reversed")).help("write the lower end first")
        );
    }
    Ok(Value::Range(first as u32, last as u32))
}

/// The transport whose service names count for a protocol.
pub(super) fn transport_of(protocol: Option<u8>) -> Option<Transport> {
    match protocol? {
        protocols::TCP => Some(Transport::Tcp),
        protocols::UDP | protocols::UDPLITE => Some(Transport::Udp),
        protocols::SCTP => Some(Transport::Sctp),
        _ => None,
    }
}

fn port(text: &str, transport: Option<Transport>) -> Result<u16, Fault> {
    if let Some(value) = number(text) {
        return u16::try_from(value)
            .map_err(|_| Fault::new(format!("port `{text}` is out of range")).help("0 to 65535"));
    }
    services::port(text, transport).ok_or_else(|| {
        let fault = Fault::new(format!("unknown port `{text}`"));
        if let Some(other) = services::port(text, None) {
            return fault.help(format!(
                "this protocol has no such service name; write {other}"
            ));
        }
        match crate::syntax::diag::nearest(text, services::names()) {
            Some(near) => fault.help(format!("did you mean `{near}`?")),
            None => fault.help("a number from 0 to 65535 or a service name"),
        }
    })
}

/// `a[:b]` of ports; an open end is 0 or 65535.
pub(super) fn port_pair(text: &str, transport: Option<Transport>) -> Result<(u16, u16), Fault> {
    let (first, last) = match text.split_once(':') {
        None => {
            let value = port(text, transport)?;
            (value, value)
        }
        Some((first, last)) => (
            if first.is_empty() {
                0
            } else {
                port(first, transport)?
            },
            if last.is_empty() {
                u16::MAX
            } else {
                port(last, transport)?
            },
        ),
    };
    if first > last {
        return Err(Fault::new(format!("the port range `{text}` is reversed"))
            .help("write the lower port first"));
    }
    Ok((first, last))
}

fn ports(text: &str, transport: Option<Transport>, context: &Context) -> Result<Value, Fault> {
    let transport = transport.or_else(|| transport_of(context.protocol));
    let (first, last) = port_pair(text, transport)?;
    Ok(Value::Range(u32::from(first), u32::from(last)))
}

fn icmp_type(text: &str, ipv6: bool) -> Result<Value, Fault> {
    if text.eq_ignore_ascii_case("any") && !ipv6 {
        return Ok(Value::Icmp(None, (0, 255)));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let (kind, code) = match text.split_once('/') {
            Some((kind, code)) => (kind, Some(code)),
            None => (text, None),
        };
        let kind = bounded(kind, 0, 255)?;
        let codes = match code.map(|code| code.split_once('-').unwrap_or((code, code))) {
            None => (0, 255),
            Some((first, last)) => (bounded(first, 0, 255)?, bounded(last, 0, 255)?),
        };
        if codes.0 > codes.1 {
            return Err(Fault::new(format!("the code range `{text}` is reversed"))
                .help("write the lower code first"));
        }
        if kind == 255 && !ipv6 {
            // The kernel keeps "any" as type 255, and looks at no code then.
            return Ok(Value::Icmp(None, (0, 255)));
        }
        return Ok(Value::Icmp(
            Some(kind as u8),
            (codes.0 as u8, codes.1 as u8),
        ));
    }
    match icmp::named(text, ipv6) {
        Some(named) => Ok(Value::Icmp(Some(named.kind), named.codes)),
        None => {
            let version = if ipv6 { "ICMPv6" } else { "ICMP" };
            let fault = Fault::new(format!("unknown {version} type `{text}`"));
            Err(
                match crate::syntax::diag::nearest(text, icmp::names(ipv6)) {
                    Some(near) => fault.help(format!("did you mean `{near}`?")),
                    None => fault.help("a name such as echo-request, or type/code in numbers"),
                },
            )
        }
    }
}

/// `value[/mask]` with the meaning of its form, as clear-mask and exclusive-or value.
fn mark(text: &str, form: MarkForm) -> Result<Value, Fault> {
    let fault = || {
        Fault::new(format!("bad mark `{text}`"))
            .help("a 32-bit number, and a second one after `/` for a mask")
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) if matches!(form, MarkForm::Xor | MarkForm::Set) => (
            number32(value).ok_or_else(fault)?,
            number32(mask).ok_or_else(fault)?,
        ),
        _ => (number32(text).ok_or_else(fault)?, u32::MAX),
    };
    Ok(match form {
        MarkForm::Xor => Value::Masked(value, mask),
        MarkForm::Set => Value::Masked(value, mask | value),
        MarkForm::And => Value::Masked(0, !value),
        MarkForm::Or => Value::Masked(value, value),
        MarkForm::Flip => Value::Masked(value, 0),
    })
}

/// `value[/mask]` or a name, with the mask that a name has.
fn tos(text: &str, name_mask: u8) -> Result<Value, Fault> {
    if let Ok(Value::Number(value)) = by_name(text, small::TOS_NAMES, "TOS") {
        return Ok(Value::Masked(value as u32, u32::from(name_mask)));
    }
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xff"));
    match (number_up_to(value, 255), number_up_to(mask, 255)) {
        (Some(value), Some(mask)) => Ok(Value::Masked(value as u32, mask as u32)),
        _ => {
            let fault = Fault::new(format!("bad TOS `{text}`"));
            let names = small::TOS_NAMES.iter().map(|row| row.0);
            Err(match crate::syntax::diag::nearest(text, names) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault.help("a number from 0 to 255 with an optional mask, or a name"),
            })
        }
    }
}

fn set_tos(text: &str, form: MarkForm) -> Result<Value, Fault> {
    if matches!(form, MarkForm::Xor | MarkForm::Set) {
        return tos(text, 0x3f);
    }
    let bits = bounded(text, 0, 255)? as u32;
    Ok(match form {
        MarkForm::And => Value::Masked(0, !bits & 0xff),
        MarkForm::Or => Value::Masked(bits, bits),
        _ => Value::Masked(bits, 0),
    })
}

fn by_name(text: &str, table: &[(&'static str, u8)], what: &str) -> Result<Value, Fault> {
    match table.iter().find(|row| row.0.eq_ignore_ascii_case(text)) {
        Some(row) => Ok(Value::Number(u64::from(row.1))),
        None => {
            let fault = Fault::new(format!("unknown {what} `{text}`"));
            Err(
                match crate::syntax::diag::nearest(text, table.iter().map(|row| row.0)) {
                    Some(near) => fault.help(format!("did you mean `{near}`?")),
                    None => {
                        let names: Vec<_> = table.iter().map(|row| row.0).collect();
                        fault.help(format!("one of {}", names.join(", ")))
                    }
                },
            )
        }
    }
}

fn choice(text: &str, names: &'static [&'static str]) -> Result<Value, Fault> {
    let fits = |name: &&str| name.split('=').any(|name| name.eq_ignore_ascii_case(text));
    match names.iter().position(fits) {
        Some(index) => Ok(Value::Number(index as u64)),
        None => {
            let printed: Vec<_> = names.iter().map(|name| choice_name(name)).collect();
            Err(Fault::new(format!("unknown word `{text}`"))
                .help(format!("one of {}", printed.join(", "))))
        }
    }
}

fn reject(text: &str, family: Family) -> Result<Value, Fault> {
    let (table, other) = match family {
        Family::V4 => (small::REJECT_V4, small::REJECT_V6),
        Family::V6 => (small::REJECT_V6, small::REJECT_V4),
    };
    let fits = |row: &small::RejectRow| {
        row.0.eq_ignore_ascii_case(text) || row.1.eq_ignore_ascii_case(text)
    };
    if let Some(row) = table.iter().find(|row| fits(row)) {
        return Ok(Value::Text(row.0.into()));
    }
    if other.iter().any(fits) {
        return Err(
            Fault::new(format!("`{text}` is an answer of the other address family"))
                .help(format!("use {}", table[3].0)),
        );
    }
    let names = table.iter().flat_map(|row| [row.0, row.1]);
    let fault = Fault::new(format!("unknown reject type `{text}`"));
    Err(match crate::syntax::diag::nearest(text, names) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => {
            let names: Vec<_> = table.iter().map(|row| row.0).collect();
            fault.help(format!("one of {}", names.join(", ")))
        }
    })
}

fn log_level(text: &str) -> Result<Value, Fault> {
    if let Some(value) = number(text) {
        return match value {
            0..=7 => Ok(Value::Number(value)),
            _ => Err(Fault::new(format!("log level `{text}` is out of range")).help("0 to 7")),
        };
    }
    by_name(text, small::LOG_LEVELS, "log level")
}

fn address_mask(text: &str, family: Family) -> Result<Value, Fault> {
    let bits = address::mask_bits(text, family)?;
    Ok(Value::Address(Box::new(match family {
        Family::V4 => {
            let mask = Ipv4Addr::from_bits(bits as u32);
            Address::V4(mask, Ipv4Addr::BROADCAST)
        }
        Family::V6 => Address::V6(Ipv6Addr::from_bits(bits), Ipv6Addr::from_bits(u128::MAX)),
    })))
}

fn protocol(text: &str) -> Result<Value, Fault> {
    let value = protocols::number(text)
        .map(u64::from)
        .or_else(|| number_up_to(text, 255));
    value
        .filter(|&value| value != 0)
        .map(Value::Number)
        .ok_or_else(|| {
            let fault = Fault::new(format!("unknown protocol `{text}`"));
            match crate::syntax::diag::nearest(text, protocols::names()) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault.help("a name such as tcp, or a number from 1 to 255"),
            }
        })
}

/// `major:minor`, always hexadecimal.
fn class(text: &str) -> Result<Value, Fault> {
    let half = |text: &str| -> Option<u64> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all.then(|| u64::from_str_radix(digits, 16).ok())
            .flatten()
            .filter(|&n| n <= 0xffff)
    };
    let parts = text
        .split_once(':')
        .and_then(|(major, minor)| Some((half(major)?, half(minor)?)));
    parts
        .map(|(major, minor)| Value::Number(major << 16 | minor))
        .ok_or_else(|| {
            Fault::new(format!("bad class `{text}`"))
                .help("`major:minor`, both hexadecimal, such as 1:10")
        })
}

/// An id, a range of ids, or a name.
fn ids(text: &str) -> Result<Value, Fault> {
    let id = |text: &str| number32(text).filter(|&id| id != u32::MAX);
    if let Some(value) = id(text) {
        return Ok(Value::Range(value, value));
    }
    if let Some((first, last)) = text.split_once('-')
        && let (Some(first), Some(last)) = (id(first), id(last))
    {
        if first > last {
            return Err(Fault::new(format!("the range `{text}` is reversed"))
                .help("write the lower id first"));
        }
        return Ok(Value::Range(first, last));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-$@".contains(c);
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(allowed);
    if is_name {
        return Ok(Value::Text(text.into()));
    }
    Err(Fault::new(format!("`{text}` is no id")).help("a number, a range such as 0-999, or a name"))
}
