//! Lists in rules: ports and other 16-bit numbers, flags, DSCP, ICMP types, arguments.
//!
//! In: words. Out: values, or faults. Numbers are C integers cut to 16 bits, as the original
//! stores them; what surprises is warned about.

use super::super::ast::{Argument, Flags, Ranges};
use super::super::fault::{ExitClass, Fault};
use super::super::names::{self, DSCP, ETHERNET, Names, services};
use super::super::numbers;
use super::super::words::Word;
use super::{Reader, is_prefix};

/// Ranges in one list of a rule.
pub const RANGES_MAX: usize = 30;

/// The pseudo protocol of Ethernet types.
pub const ETHERNET_TYPES: u16 = 0x1000;

/// Words that can't be ports, so that an option may follow an address.
const RESERVED: [&str; 16] = [
    "altq",
    "//",
    "diverted",
    "dst-port",
    "src-port",
    "established",
    "keep-state",
    "frag",
    "icmptypes",
    "in",
    "out",
    "ip6",
    "any",
    "to",
    "via",
    "{",
];

/// A list of ports, or `None` when the word is none.
pub fn ports(reader: &mut Reader<'_>, word: &Word, proto: u16) -> Result<Option<Ranges>, Fault> {
    if RESERVED.contains(&word.text.as_str()) {
        return Ok(None);
    }
    Ok(ranges(reader, word, proto))
}

/// A list of ranges of 16-bit numbers or names, or `None` when the word is none.
pub fn ranges(reader: &mut Reader<'_>, word: &Word, proto: u16) -> Option<Ranges> {
    let mut out = Ranges::new();
    let mut rest = word.text.as_str();
    loop {
        let (first, after) = number_or_name(rest, proto)?;
        let (last, after) = match after.strip_prefix('-') {
            Some(end) => {
                let (last, after) = number_or_name(end, proto)?;
                if !after.is_empty() && !after.starts_with(',') {
                    return None;
                }
                (last, after)
            }
            None => (first, after),
        };
        let pair = (first as u16, last as u16);
        for value in [first, last] {
            if !(0..=65535).contains(&value) {
                reader.notes.warn(
                    "wrapped-number",
                    word.span,
                    format!("{value} is cut to 16 bits: {}", value as u16),
                    "ipfw reads it so; write a number up to 65535",
                );
                break;
            }
        }
        if pair.0 > pair.1 {
            reader.notes.warn(
                "empty-range",
                word.span,
                format!("{}-{} is empty and never matches", pair.0, pair.1),
                "write the smaller number first",
            );
        }
        out.push(pair);
        rest = match after.strip_prefix(',') {
            // A list may end in a comma.
            Some("") => return Some(out),
            Some(more) => more,
            None if after.is_empty() => return Some(out),
            None => return None,
        };
    }
}

/// The number at the start of a text, or that of the name there; and what is left.
fn number_or_name(text: &str, proto: u16) -> Option<(i64, &str)> {
    if text.bytes().next()?.is_ascii_digit() {
        return Some(numbers::strtol(text, 0));
    }
    let mut name = String::new();
    let mut end = 0;
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        if character == '\\' {
            end = index + 1;
            if let Some((index, next)) = characters.next() {
                name.push(next);
                end = index + next.len_utf8();
            }
        } else if character.is_ascii_alphanumeric() || character == '_' || character == '.' {
            name.push(character);
            end = index + 1;
        } else {
            break;
        }
    }
    if end == 0 {
        return None;
    }
    let value = match proto {
        ETHERNET_TYPES => names::number(ETHERNET, &name)?,
        _ => u32::from(services::port(&name, proto)?),
    };
    Some((i64::from(value), &text[end..]))
}

/// More ranges than the kernel takes: exit status 69.
pub fn check_count(word: &Word, ranges: &Ranges) -> Result<(), Fault> {
    if ranges.len() <= RANGES_MAX {
        return Ok(());
    }
    Err(Fault::new(
        ExitClass::Unavailable,
        "too-many-ranges",
        word.span,
        format!("{} ranges in one list; {RANGES_MAX} fit", ranges.len()),
    )
    .help("use several rules, or a table of type number with lookup"))
}

/// A list of numbers, or one number read to the first character that is none.
pub fn numbers_of(reader: &mut Reader<'_>, word: &Word, what: &str) -> Result<Ranges, Fault> {
    let list = word.text.contains(['-', ',']);
    let found = match list {
        true => ports(reader, word, 0)?,
        false => {
            let (value, rest) = numbers::strtol(&word.text, 0);
            if !rest.is_empty() || !(0..=65535).contains(&value) {
                reader.notes.warn(
                    "number-read-in-part",
                    word.span,
                    format!("`{}` is read as {}", word.text, value as u16),
                    "ipfw reads it so; write a number up to 65535",
                );
            }
            Some(vec![(value as u16, value as u16)])
        }
    };
    let Some(ranges) = found else {
        return Err(Fault::data(
            "invalid-list",
            word.span,
            format!("invalid {what} {}", word.text),
        )
        .help("write numbers and ranges with commas between, such as 1,5-9"));
    };
    check_count(word, &ranges)?;
    Ok(ranges)
}

/// A list of flag words, `!` before those that must be clear.
pub fn flags(word: &Word, known: &Names) -> Result<Flags, Fault> {
    let (mut set, mut clear) = (0u32, 0u32);
    for part in word.text.split(',') {
        let (which, name) = match part.strip_prefix('!') {
            Some(name) => (&mut clear, name),
            None => (&mut set, part),
        };
        let Some(bits) = names::number(known, name) else {
            let words = known.iter().map(|(name, _)| *name);
            let list: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(
                Fault::data("invalid-flag", word.span, format!("invalid flag {name}")).nearest(
                    name,
                    words,
                    &format!("one of {}", list.join(", ")),
                ),
            );
        };
        *which |= bits;
    }
    Ok(Flags {
        set: set as u8,
        clear: clear as u8,
    })
}

/// One DSCP by name or, for `dscp`, by a number up to 63.
pub fn dscp(text: &str, word: &Word) -> Result<u8, Fault> {
    if text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()) {
        return names::number(DSCP, text)
            .map(|code| code as u8)
            .ok_or_else(|| {
                let known = DSCP.iter().map(|(name, _)| *name);
                Fault::data(
                    "unknown-dscp",
                    word.span,
                    format!("unknown DSCP code `{text}`"),
                )
                .nearest(
                    text,
                    known,
                    "write af11 to af43, cs0 to cs7, ef, va, be or a number",
                )
            });
    }
    let (value, _) = numbers::strtol(text, 10);
    u8::try_from(value)
        .ok()
        .filter(|v| *v <= 63)
        .ok_or_else(|| {
            Fault::data(
                "invalid-dscp",
                word.span,
                format!("invalid DSCP value `{text}`"),
            )
            .help("DSCPs are 0 to 63")
        })
}

/// ICMP types: a set of bits; values are cut to 8 bits first.
pub fn icmp_types(reader: &mut Reader<'_>, word: &Word, max: u8) -> Result<[u32; 8], Fault> {
    let mut bits = [0u32; 8];
    let mut rest = word.text.as_str();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let (value, after) = numbers::strtol(rest, 0);
        if (!after.is_empty() && !after.starts_with(',')) || (after == rest && !rest.is_empty()) {
            return Err(
                Fault::data("invalid-icmp-type", word.span, "invalid ICMP type")
                    .help("write numbers with commas between; ranges are not allowed"),
            );
        }
        let kind = value as u8;
        if kind > max {
            return Err(
                Fault::data("icmp-type-range", word.span, "ICMP type out of range")
                    .help(format!("types are 0 to {max}")),
            );
        }
        if value != i64::from(kind) {
            reader.notes.warn(
                "wrapped-number",
                word.span,
                format!("type {value} is cut to 8 bits: {kind}"),
                "ipfw reads it so; write a number up to 255",
            );
        }
        bits[usize::from(kind / 32)] |= 1 << (kind % 32);
        rest = after;
    }
    Ok(bits)
}

/// `tablearg`, or a decimal number from 1 to 65534, as tags and limits have it.
pub fn argument(reader: &mut Reader<'_>, what: &str) -> Result<Argument, Fault> {
    let word = reader.need(&format!("an argument of {what}"))?;
    if is_prefix(word, "tablearg", reader.notes) {
        return Ok(Argument::TableArg);
    }
    let (value, rest) = numbers::strtol(&word.text, 10);
    if !word.is_digit() || !rest.is_empty() {
        return Err(Fault::data(
            "invalid-argument",
            word.span,
            format!("{what}: invalid argument: {}", word.text),
        )
        .help("write a number from 1 to 65534, or tablearg"));
    }
    if !(1..=65534).contains(&value) {
        return Err(Fault::data(
            "argument-range",
            word.span,
            format!("{what}: argument is out of range (1..65534): {}", word.text),
        )
        .help("write a number from 1 to 65534"));
    }
    Ok(Argument::Number(value as u32))
}
