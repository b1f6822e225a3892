//! Values that are lists or take several words: flags, ports, names, sets, chunk types, texts.

use super::super::names::{Lookup, look_up, small};
use super::super::value::{Chunks, SetUse, Value};
use super::values::{Context, Read, Text, located, next, port_pair, transport_of};
use crate::model::SetField;
use crate::syntax::{Cursor, Diagnostic, Span};

/// Slots of a port list; a range takes two.
const PORT_SLOTS_MAX: usize = 15;
/// Directions of a set.
const SET_FIELDS_MAX: usize = 6;
/// Longest name of a set (IPSET_MAXNAMELEN less its zero).
const SET_NAME_MAX: usize = 31;

pub(super) fn port_list(word: &Text<'_>, context: &Context) -> Read {
    let transport = transport_of(context.protocol);
    let mut list = Vec::new();
    let mut slots = 0;
    let mut offset = 0;
    for part in word.text.split(',') {
        let place = word.at.part(offset, offset + part.len());
        offset += part.len() + 1;
        if part.starts_with(':') || part.ends_with(':') {
            let found = Diagnostic::error("bad-port", place, format!("`{part}` lacks a port"));
            return Err(found.help("in a list write both ends, such as `0:80` or `80:65535`"));
        }
        let pair = port_pair(part, transport).map_err(|fault| located("bad-port", place, fault))?;
        if part.contains(':') && pair.0 == pair.1 {
            let found = Diagnostic::error("bad-port", place, format!("`{part}` is no range"));
            return Err(found.help(format!("write {}", pair.0)));
        }
        slots += if pair.0 == pair.1 { 1 } else { 2 };
        if slots > PORT_SLOTS_MAX {
            let found = Diagnostic::error("too-many-ports", place, "too many ports");
            return Err(found.help("15 at most, and a range counts two; write a second rule"));
        }
        list.push(pair);
    }
    Ok(Value::Ports(list.into()))
}

/// A list of TCP flags, `ALL` or `NONE`.
fn flag_bits(word: &Text<'_>) -> Result<u32, Diagnostic> {
    let mut bits = 0;
    let mut offset = 0;
    for part in word.text.split(',') {
        let place = word.at.part(offset, offset + part.len());
        offset += part.len() + 1;
        let position = small::TCP_FLAGS
            .iter()
            .position(|name| name.eq_ignore_ascii_case(part));
        bits |= match position {
            Some(bit) => 1 << bit,
            None if part.eq_ignore_ascii_case("ALL") => 0x3f,
            None if part.eq_ignore_ascii_case("NONE") => 0,
            None => {
                let message = format!("unknown TCP flag `{part}`");
                return Err(Diagnostic::error("unknown-name", place, message)
                    .help("flags are FIN, SYN, RST, PSH, ACK, URG, ALL and NONE")
                    .did_you_mean(part, small::TCP_FLAGS.iter().copied()));
            }
        };
    }
    Ok(bits)
}

pub(super) fn tcp_flags(word: &Text<'_>, cursor: &mut Cursor<'_, '_>, context: &Context) -> Read {
    let mask = flag_bits(word)?;
    let Ok(second) = next(cursor, context, false) else {
        let message = "`--tcp-flags` needs two lists of flags";
        return Err(
            Diagnostic::error("missing-value", context.option_at, message)
                .help("the flags to look at, then those that must be set: `SYN,ACK SYN`"),
        );
    };
    Ok(Value::Masked(flag_bits(&second)?, mask))
}

pub(super) fn text(word: &Text<'_>, least: usize, most: usize, context: &Context) -> Read {
    let length = word.text.len();
    if length < least || length > most {
        let message = match length < least {
            true => format!("the value of `--{}` is empty", context.option),
            false => {
                format!(
                    "the value of `--{}` is too long ({length} bytes)",
                    context.option
                )
            }
        };
        let found = Diagnostic::error("bad-length", word.at, message);
        return Err(found.help(format!("{least} to {most} bytes")));
    }
    Ok(Value::Text((&*word.text).into()))
}

pub(super) fn names_list(
    word: &Text<'_>,
    names: &'static [&'static str],
    context: &Context,
) -> Read {
    let mut bits = 0u64;
    let mut offset = 0;
    for part in word.text.split(',') {
        let place = word.at.part(offset, offset + part.len());
        offset += part.len() + 1;
        match look_up(part, names.iter().copied()) {
            Lookup::Found(bit) => bits |= 1 << bit,
            _ => {
                let message = format!("unknown word `{part}` in `--{}`", context.option);
                return Err(Diagnostic::error("unknown-name", place, message)
                    .help(format!("words are {}", names.join(", ")))
                    .did_you_mean(part, names.iter().copied()));
            }
        }
    }
    Ok(Value::Number(bits))
}

pub(super) fn set(word: &Text<'_>, cursor: &mut Cursor<'_, '_>, context: &Context) -> Read {
    let name = &*word.text;
    if name.is_empty() || name.len() > SET_NAME_MAX {
        let found = Diagnostic::error(
            "bad-length",
            word.at,
            format!("no set can be called `{name}`"),
        );
        return Err(found.help(format!("a name has 1 to {SET_NAME_MAX} bytes")));
    }
    let Ok(directions) = next(cursor, context, false) else {
        let message = format!("`--{}` needs a set and directions", context.option);
        return Err(Diagnostic::error("missing-value", word.at, message)
            .help("write `src` or `dst` after the name, one for each dimension of the set"));
    };
    let mut fields = Vec::new();
    let mut offset = 0;
    for part in directions.text.split(',') {
        let place = directions.at.part(offset, offset + part.len());
        offset += part.len() + 1;
        fields.push(match part {
            "src" => SetField::Src,
            "dst" => SetField::Dst,
            _ => {
                let message = format!("unknown direction `{part}`");
                return Err(Diagnostic::error("unknown-name", place, message)
                    .help("write src or dst, with commas between them"));
            }
        });
        if fields.len() > SET_FIELDS_MAX {
            let found = Diagnostic::error("too-many-directions", place, "too many directions");
            return Err(found.help(format!("{SET_FIELDS_MAX} at most")));
        }
    }
    Ok(Value::Set(Box::new(SetUse {
        name: name.into(),
        fields,
    })))
}

pub(super) fn chunks(word: &Text<'_>, cursor: &mut Cursor<'_, '_>, context: &Context) -> Read {
    let kind = ["all", "any", "only"]
        .iter()
        .position(|name| name.eq_ignore_ascii_case(&word.text));
    let Some(kind) = kind else {
        let message = format!("unknown word `{}`", word.text);
        return Err(Diagnostic::error("unknown-name", word.at, message)
            .help("write all, any or only, then the chunk types"));
    };
    let Ok(list) = next(cursor, context, false) else {
        return Err(
            Diagnostic::error("missing-value", word.at, "the chunk types are missing")
                .help("write them after all, any or only: `any INIT,DATA`"),
        );
    };
    let mut found = Chunks {
        kind: kind as u8,
        types: [0; 4],
        flags: Vec::new(),
    };
    match &*list.text {
        "ALL" => found.types = [u64::MAX; 4],
        "NONE" => {}
        text => {
            let mut offset = 0;
            for part in text.split(',') {
                let place = list.at.part(offset, offset + part.len());
                offset += part.len() + 1;
                chunk(part, place, &mut found)?;
            }
        }
    }
    found.flags.sort_unstable();
    Ok(Value::Chunks(Box::new(found)))
}

fn chunk(part: &str, at: Span, found: &mut Chunks) -> Result<(), Diagnostic> {
    let (name, letters) = match part.split_once(':') {
        Some((name, letters)) => (name, Some(letters)),
        None => (part, None),
    };
    let Some(&(_, number)) = small::SCTP_CHUNKS
        .iter()
        .find(|row| row.0.eq_ignore_ascii_case(name))
    else {
        let message = format!("unknown chunk type `{name}`");
        let names = small::SCTP_CHUNKS.iter().map(|row| row.0);
        return Err(Diagnostic::error("unknown-name", at, message)
            .help("chunk types are DATA, INIT, SACK and so on")
            .did_you_mean(name, names));
    };
    found.types[usize::from(number / 64)] |= 1 << (number % 64);
    let Some(letters) = letters else {
        return Ok(());
    };
    let valid = small::SCTP_CHUNK_FLAGS
        .iter()
        .find(|row| row.0 == number)
        .map_or("", |row| row.1);
    let (mut mask, mut value) = (0u8, 0u8);
    for letter in letters.chars() {
        let Some(bit) = valid.find(letter.to_ascii_uppercase()) else {
            let message = format!("chunk type {name} has no flag `{letter}`");
            let help = match valid {
                "" => "it has no flags".to_owned(),
                valid => format!("its flags are {valid}"),
            };
            return Err(Diagnostic::error("unknown-name", at, message).help(help));
        };
        mask |= 1 << bit;
        match letter.is_ascii_uppercase() {
            true => value |= 1 << bit,
            false => value &= !(1 << bit),
        }
    }
    found.flags.retain(|row| row.0 != number);
    if mask != 0 {
        found.flags.push((number, mask, value));
    }
    Ok(())
}

pub(super) fn words<'w>(
    first: Text<'w>,
    count: usize,
    cursor: &mut Cursor<'w, '_>,
    context: &Context,
) -> Read {
    let mut list: Vec<Box<str>> = vec![(&*first.text).into()];
    while list.len() < count {
        list.push((&*next(cursor, context, true)?.text).into());
    }
    Ok(Value::Words(list.into()))
}
