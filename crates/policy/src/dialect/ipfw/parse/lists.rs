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
use crate::syntax::diag::nearest;

/// The largest type that `icmptypes` takes.
pub const ICMP_TYPE_MAX: u8 = 31;

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
    match masked(reader, word, proto)? {
        Some(found) => Ok(Some(found)),
        None => Ok(unreserved(reader, word, proto)),
    }
}

/// The same without masks.
fn unreserved(reader: &mut Reader<'_>, word: &Word, proto: u16) -> Option<Ranges> {
    match RESERVED.contains(&word.text.as_str()) {
        true => None,
        false => ranges(reader, word, proto),
    }
}

/// `PORT:MASK`, alone or in front of a list, as ipfw had it before FreeBSD 5: the ports that are
/// PORT in the bits of MASK. `None` when the word is something else.
fn masked(reader: &mut Reader<'_>, word: &Word, proto: u16) -> Result<Option<Ranges>, Fault> {
    let Some((port, rest)) = number_or_name(&word.text, proto) else {
        return Ok(None);
    };
    let Some(rest) = rest.strip_prefix(':') else {
        return match rest.contains(':') && ranges_in_front(&word.text, proto) {
            true => Err(Fault::usage(
                "mask-not-first",
                word.span,
                "port:mask must be first in list",
            )
            .help("write it in front of the other ports, or as ranges")),
            false => Ok(None),
        };
    };
    let Some((mask, rest)) = number_or_name(rest, proto) else {
        return Ok(None);
    };
    let wide = |value: i64| !(0..=65535).contains(&value);
    if wide(port) || wide(mask) || port & !mask != 0 {
        return Err(Fault::data(
            "port-mask",
            word.span,
            format!("port {port} has bits that the mask {mask:#x} leaves out"),
        )
        .help(format!("write {}:{mask:#x}", port & mask)));
    }
    let mut out = under_mask(port as u16, mask as u16);
    out.truncate(RANGES_MAX + 1);
    let shown: Vec<String> = out.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    if out.len() <= RANGES_MAX {
        reader.notes.warn(
            "port-mask",
            word.span,
            format!("ports under a mask: {}", shown.join(",")),
            "ipfw before FreeBSD 5 reads it so, later ones refuse it; write the ranges",
        );
    }
    match rest.strip_prefix(',') {
        None if rest.is_empty() => Ok(Some(out)),
        None => Ok(None),
        Some(rest) => {
            let (start, end) = (word.text.len() - rest.len(), word.text.len());
            let rest = Word {
                text: rest.to_owned(),
                span: word.span.part(start, end),
            };
            Ok(ranges(reader, &rest, proto).map(|more| [out, more].concat()))
        }
    }
}

/// Whether a text begins with a list of ports.
fn ranges_in_front(text: &str, proto: u16) -> bool {
    let Some((front, _)) = text.split_once(':') else {
        return false;
    };
    let mut parts = front.split([',', '-']);
    parts.all(|part| number_or_name(part, proto).is_some_and(|(_, rest)| rest.is_empty()))
}

/// All values that are `value` in the bits of a mask, as ranges.
fn under_mask(value: u16, mask: u16) -> Ranges {
    let size = 1u32 << mask.trailing_zeros().min(16);
    let starts = (0..0x1_0000u32).step_by(size as usize);
    let matching = starts.filter(|start| *start as u16 & mask == value);
    let mut out = Ranges::new();
    for start in matching {
        let end = (start + size - 1) as u16;
        match out.last_mut() {
            Some(last) if u32::from(last.1) + 1 == start => last.1 = end,
            _ => out.push((start as u16, end)),
        }
    }
    out
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

/// Says of a fault at a word in the place of ports what in it is no port, if it looks like one.
pub fn about_ports(fault: Fault, word: &Word, proto: u16) -> Fault {
    let mut start = 0;
    for part in word.text.split([',', '-']) {
        let at = start;
        start += part.len() + 1;
        let named = part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if !named || number_or_name(part, proto).is_some() {
            continue;
        }
        let near = nearest(part, services::names());
        if part.len() == word.text.len() && near.is_none() {
            return fault;
        }
        // Blanks behind commas are not in the text.
        let whole = (word.span.end - word.span.start) as usize == word.text.len();
        let span = match whole {
            true => word.span.part(at, at + part.len()),
            false => fault.span,
        };
        let near = near.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        return Fault { span, ..fault }.help(format!("no service is called `{part}`{near}"));
    }
    fault
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
        true => unreserved(reader, word, 0),
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

/// ICMP types: a set of bits; values are cut to 8 bits first. Ranges are of ipfw in FreeBSD 2,
/// which knew no ICMPv6.
pub fn icmp_types(reader: &mut Reader<'_>, word: &Word, max: u8) -> Result<[u32; 8], Fault> {
    let mut bits = [0u32; 8];
    let mut rest = word.text.as_str();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let (first, after) = icmp_type(reader, word, rest, max)?;
        let (last, after) = match after.strip_prefix('-') {
            Some(end) if max == ICMP_TYPE_MAX => icmp_type(reader, word, end, max)?,
            _ => (first, after),
        };
        if (!after.is_empty() && !after.starts_with(',')) || first > last {
            return Err(no_icmp_type(word));
        }
        if first != last {
            reader.notes.warn(
                "icmp-type-range",
                word.span,
                format!("types {first} to {last}"),
                "ipfw of FreeBSD 2 reads it so, later ones refuse it; write each type",
            );
        }
        for kind in first..=last {
            bits[usize::from(kind / 32)] |= 1 << (kind % 32);
        }
        rest = after;
    }
    Ok(bits)
}

fn no_icmp_type(word: &Word) -> Fault {
    Fault::data("invalid-icmp-type", word.span, "invalid ICMP type")
        .help("write numbers with commas between")
}

/// The type at the start of a text, and what is left.
fn icmp_type<'t>(
    reader: &mut Reader<'_>,
    word: &Word,
    text: &'t str,
    max: u8,
) -> Result<(u8, &'t str), Fault> {
    let (value, after) = numbers::strtol(text, 0);
    if after == text && !text.is_empty() {
        return Err(no_icmp_type(word));
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
    Ok((kind, after))
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
