//! Readers of the values that few rules have: search patterns, tests of words, lists of headers.

use super::super::value::{HEADERS, MH_TYPES, U32, Value};
use super::address::Fault;
use super::numbers::{number, number32};
use super::values::bounded;
use crate::model::{WordStep, WordTest};

/// Bytes of a search pattern.
const PATTERN_MAX: usize = 128;
/// Tests, steps and ranges of `--u32`.
const U32_MAX: usize = 10;
/// Microseconds of a length of time.
const SPAN_MAX: f64 = 3.6e9;
/// Options of one IPv6 header.
const HEADER_OPTIONS_MAX: usize = 16;

/// A text to look for, `|0d 0a|` in it where `hex` is set.
pub(super) fn pattern(text: &str, hex: bool) -> Result<Value, Fault> {
    let bytes = match hex {
        true => hex_pattern(text.as_bytes())?,
        false => text.as_bytes().to_vec(),
    };
    if bytes.is_empty() || bytes.len() > PATTERN_MAX {
        let message = format!("a pattern of {} bytes", bytes.len());
        return Err(Fault::new(message).help(format!("1 to {PATTERN_MAX} bytes")));
    }
    Ok(Value::Pattern(bytes.into()))
}

fn hex_pattern(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let bad = || {
        Fault::new("bad bytes in hexadecimal")
            .help("two digits for each byte between two `|`, such as `|0d0a|`")
    };
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'|' => {
                let length = text[at + 1..].iter().position(|&byte| byte == b'|');
                let end = at + 1 + length.ok_or_else(bad)?;
                let digits: Option<Vec<u8>> = text[at + 1..end]
                    .iter()
                    .filter(|byte| **byte != b' ')
                    .map(|&byte| char::from(byte).to_digit(16).map(|digit| digit as u8))
                    .collect();
                let digits = digits.filter(|digits| digits.len() % 2 == 0);
                let pairs = digits.ok_or_else(bad)?;
                bytes.extend(pairs.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
                at = end + 1;
            }
            b'\\' if at + 1 < text.len() => {
                bytes.push(text[at + 1]);
                at += 2;
            }
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Ok(bytes)
}

/// What is left of a text of tests.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let trimmed = self.0.trim_start();
        let rest = trimmed.strip_prefix(sign);
        self.0 = rest.unwrap_or(trimmed);
        rest.is_some()
    }

    fn number(&mut self) -> Result<u32, Fault> {
        let text = self.0.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(text.len());
        let fault = || {
            Fault::new(format!("a number is missing before `{text}`"))
                .help("`location = range`, such as `6 & 0xff = 17`; `&&` between tests")
        };
        let value = number32(&text[..end]).ok_or_else(fault)?;
        self.0 = &text[end..];
        Ok(value)
    }
}

/// `location = ranges [&& ...]`
pub(super) fn words_tested(text: &str) -> Result<Value, Fault> {
    let mut rest = Rest(text);
    let mut tests = Vec::new();
    loop {
        tests.push(word_tested(&mut rest)?);
        if rest.0.trim().is_empty() {
            break;
        }
        if !rest.take("&&") {
            let message = format!("`{}` can't be read here", rest.0);
            return Err(Fault::new(message).help("`&&` stands between two tests"));
        }
    }
    if tests.len() > U32_MAX {
        return Err(too_many("tests"));
    }
    Ok(Value::U32(Box::new(U32 { tests })))
}

fn too_many(what: &str) -> Fault {
    Fault::new(format!("too many {what}")).help(format!("{U32_MAX} at most; write two modules"))
}

fn word_tested(rest: &mut Rest<'_>) -> Result<WordTest, Fault> {
    let mut test = WordTest {
        start: rest.number()?,
        steps: Vec::new(),
        ranges: Vec::new(),
    };
    while !rest.take("=") {
        test.steps.push(if rest.take("<<") {
            WordStep::Left(rest.number()?)
        } else if rest.take(">>") {
            WordStep::Right(rest.number()?)
        } else if rest.take("&") {
            WordStep::And(rest.number()?)
        } else if rest.take("@") {
            WordStep::At(rest.number()?)
        } else {
            let message = format!("`=` and a value are missing before `{}`", rest.0);
            return Err(Fault::new(message).help("operators are &, <<, >> and @"));
        });
    }
    loop {
        let first = rest.number()?;
        let last = if rest.take(":") {
            rest.number()?
        } else {
            first
        };
        test.ranges.push((first, last));
        if !rest.take(",") {
            break;
        }
    }
    if test.steps.len() >= U32_MAX {
        return Err(too_many("steps of a location"));
    }
    if test.ranges.len() > U32_MAX {
        return Err(too_many("ranges"));
    }
    Ok(test)
}

/// `from[:to]` of 64 bits; an open end is the lowest or highest number.
pub(super) fn wide(text: &str) -> Result<Value, Fault> {
    let (first, last) = text.split_once(':').unwrap_or((text, ""));
    let end = |text: &str, open: u64| match text {
        "" => Ok(open),
        text => bounded(text, 0, u64::MAX),
    };
    let (first, last) = (end(first, 0)?, end(last, u64::MAX)?);
    if first > last {
        let message = format!("the range `{text}` is reversed");
        return Err(Fault::new(message).help("write the lower end first"));
    }
    Ok(Value::Wide(first, last))
}

/// `value[/mask]`, or the name of 0.
pub(super) fn named(text: &str, name: &str) -> Result<Value, Fault> {
    if text == name {
        return Ok(Value::Masked(0, u32::MAX));
    }
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    match (number32(value), number32(mask)) {
        (Some(value), Some(mask)) => Ok(Value::Masked(value, mask)),
        _ => Err(Fault::new(format!("unknown name or number `{text}`"))
            .help(format!("a number with an optional mask, or `{name}`"))),
    }
}

/// `number[:length]`, comma between them.
pub(super) fn header_options(text: &str) -> Result<Value, Fault> {
    let mut parts = Vec::new();
    for part in text.split(',') {
        let (kind, length) = match part.split_once(':') {
            Some((kind, length)) => (kind, Some(bounded(length, 0, 255)?)),
            None => (part, None),
        };
        let kind = bounded(kind, 0, 255)?;
        if kind == 0 && length.is_some() {
            return Err(Fault::new("option 0 is padding of one byte").help("it has no length"));
        }
        parts.push(match length {
            Some(length) => format!("{kind}:{length}"),
            None => kind.to_string(),
        });
    }
    if parts.len() > HEADER_OPTIONS_MAX {
        let help = format!("{HEADER_OPTIONS_MAX} at most");
        return Err(Fault::new("too many options").help(help));
    }
    Ok(Value::Words([parts.join(",").into()].into()))
}

/// A list of IPv6 extension headers, by long or short name or number.
pub(super) fn headers(text: &str) -> Result<Value, Fault> {
    let mut bits = 0;
    for part in text.split(',') {
        let value = number(part);
        let row = HEADERS.iter().position(|row| {
            row.0.eq_ignore_ascii_case(part)
                || row.1.eq_ignore_ascii_case(part)
                || value == Some(row.2.into())
        });
        let names: Vec<_> = HEADERS.iter().map(|row| row.0).collect();
        bits |= 1
            << row.ok_or_else(|| {
                Fault::new(format!("unknown header `{part}`")).help(names.join(", "))
            })?;
    }
    Ok(Value::Number(bits))
}

fn mobility_type(text: &str, open: u64) -> Result<u64, Fault> {
    let named =
        |row: &(&str, &str)| row.0.eq_ignore_ascii_case(text) || row.1.eq_ignore_ascii_case(text);
    match MH_TYPES.iter().position(named) {
        _ if text.is_empty() => Ok(open),
        Some(kind) => Ok(kind as u64),
        None => bounded(text, 0, 255),
    }
}

/// `type[:type]` of the mobility header.
pub(super) fn mobility(text: &str) -> Result<Value, Fault> {
    let (first, last) = match text.split_once(':') {
        Some((first, last)) => (mobility_type(first, 0)?, mobility_type(last, 255)?),
        None => {
            let kind = mobility_type(text, 0)?;
            (kind, kind)
        }
    };
    if first > last {
        let message = format!("the range `{text}` is reversed");
        return Err(Fault::new(message).help("write the lower type first"));
    }
    Ok(Value::Range(first as u32, last as u32))
}

/// A length of time in microseconds.
pub(super) fn span(text: &str) -> Result<Value, Fault> {
    let bad = || {
        Fault::new(format!("bad length of time `{text}`"))
            .help("a number with us, ms or s, such as 250ms")
    };
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let size = match &text[digits..] {
        "s" | "sec" | "secs" => 1e6,
        "ms" | "msec" | "msecs" => 1e3,
        "us" | "usec" | "usecs" | "" => 1.0,
        _ => return Err(bad()),
    };
    let amount: f64 = text[..digits].parse().map_err(|_| bad())?;
    let microseconds = (amount * size).round();
    if microseconds > SPAN_MAX {
        return Err(Fault::new(format!("`{text}` is too long")).help("an hour at most"));
    }
    // No finer than it is printed: a tenth of its unit.
    let microseconds = microseconds as u64;
    let tenth = match microseconds {
        1_000_000.. => 100_000,
        1000.. => 100,
        _ => 1,
    };
    Ok(Value::Number((microseconds + tenth / 2) / tenth * tenth))
}

/// Options of the TCP header (IANA, TCP option kinds): numbers or the names that iptables has.
pub(super) fn tcp_options(text: &str) -> Result<Value, Fault> {
    const NAMES: &[(&str, u64)] = &[
        ("wscale", 3),
        ("mss", 2),
        ("sack-permitted", 4),
        ("sack", 5),
        ("timestamp", 8),
        ("md5", 19),
    ];
    let mut bits = [0u64; 4];
    for part in text.split(',') {
        let kind = match NAMES.iter().find(|row| row.0 == part) {
            Some(row) => row.1,
            None => bounded(part, 2, 255)?,
        };
        let word = &mut bits[kind as usize / 64];
        if *word >> (kind % 64) & 1 == 1 {
            return Err(Fault::new(format!("option {kind} is named twice")).help("name it once"));
        }
        *word |= 1 << (kind % 64);
    }
    Ok(Value::Bits(Box::new(bits)))
}

/// A zone: 16 bits, or the packet's mark.
pub(super) fn zone(text: &str) -> Result<Value, Fault> {
    if text == "mark" {
        return Ok(Value::Number(0x1_0000));
    }
    bounded(text, 0, 0xffff).map(Value::Number)
}

/// `value[/mask]` as they are.
pub(super) fn full_mark(text: &str) -> Result<Value, Fault> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    match (number32(value), number32(mask)) {
        (Some(value), Some(mask)) => Ok(Value::Masked(value, mask)),
        _ => Err(Fault::new(format!("bad mark `{text}`"))
            .help("a 32-bit number, and a second one after `/` for a mask")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_no_finer_than_they_print() {
        for (text, microseconds) in [
            ("250ms", 250_000),
            ("1234567us", 1_200_000),
            ("999960us", 1_000_000),
            ("1.25ms", 1300),
            ("7", 7),
        ] {
            assert_eq!(span(text).ok(), Some(Value::Number(microseconds)), "{text}");
        }
        for wrong in ["", "s", "1h", "1.2.3s", "9999999s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_are_bytes() {
        let bytes = |text| match pattern(text, true) {
            Ok(Value::Pattern(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        assert_eq!(bytes("a|42 43|d").as_deref(), Some(&b"aBCd"[..]));
        assert_eq!(bytes("a\\|b").as_deref(), Some(&b"a|b"[..]));
        for wrong in ["", "||", "|4|", "|4x|", "|42"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
