//! Addresses of rules: `any`, `me`, tables, lists with masks, sets of last octets.
//!
//! In: one word. Out: a pattern added to the draft, or nothing for addresses that test nothing.
//! What the original's two readers (IPv4 and IPv6) make of odd words is kept: a list that has
//! `/0` in it is `any` in IPv4, and is dropped from the list in IPv6.

use super::super::ast::{Address, Pattern, TableValue, ValueType};
use super::super::fault::{ExitClass, Fault};
use super::super::numbers;
use super::super::words::Word;
use super::rule::Draft;
use super::{Reader, is_prefix, table};

/// Addresses with masks in one list.
const LIST_MAX: usize = 15;
/// IPv6 addresses with masks in one list.
const LIST6_MAX: usize = 7;

/// Which reader the word is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// That of IPv4.
    V4,
    /// That of IPv6.
    V6,
}

/// The address after `from` or `to`.
pub fn address(draft: &mut Draft<'_, '_>, word: &Word, source: bool) -> Result<(), Fault> {
    let text = word.text.as_str();
    let head = text.split(['/', ',']).next().unwrap_or(text);
    let six = draft.proto == 41 || text == "me6" || numbers::ipv6(head).is_some();
    let reading = if six { Reading::V6 } else { Reading::V4 };
    add(draft, word, source, reading)
}

/// Reads a word and adds what it tests.
pub fn add(
    draft: &mut Draft<'_, '_>,
    word: &Word,
    source: bool,
    reading: Reading,
) -> Result<(), Fault> {
    let read = match reading {
        Reading::V4 => v4(draft, word)?,
        Reading::V6 => v6(draft, word)?,
    };
    doubtful(draft, word);
    match read {
        None => draft.nothing(word),
        Some(address) => draft.push(
            match source {
                true => Pattern::Src(address),
                false => Pattern::Dst(address),
            },
            word.span,
        ),
    }
    Ok(())
}

fn v4(draft: &mut Draft<'_, '_>, word: &Word) -> Result<Option<Address>, Fault> {
    if is_prefix(word, "any", draft.reader.notes) {
        return Ok(None);
    }
    if is_prefix(word, "me", draft.reader.notes) {
        return Ok(Some(Address::Me));
    }
    if word.text.starts_with("table(") {
        let (name, value) = table_reference(draft.reader, word)?;
        return Ok(Some(Address::Table { name, value }));
    }
    let mut list: Vec<(u32, u32)> = Vec::new();
    let mut rest = word.text.as_str();
    loop {
        let end = rest.find(['/', ':', ',', '{']).unwrap_or(rest.len());
        let (host, after) = rest.split_at(end);
        let address = host4(draft, host, word)?;
        let masked = after.starts_with(['/', ':']);
        let (mask, after) = mask4(after, word)?;
        few_numbers(draft, host, (address, mask, masked), word);
        let base = address & mask;
        if let Some(set) = after.strip_prefix('{') {
            if !list.is_empty() {
                return Err(Fault::data(
                    "set-in-list",
                    word.span,
                    "address set cannot be in a list",
                )
                .help("write it as an alternative of its own: { a or b }"));
            }
            return octets(base, mask, set, word).map(Some);
        }
        if mask == 0 {
            return any_in_list(draft, word, after.is_empty() && list.is_empty());
        }
        list.push((base, mask));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    check_length(word, list.len(), LIST_MAX)?;
    Ok(Some(Address::V4(list)))
}

/// `/0` makes the whole list `any`; alone after `not` it is refused.
fn any_in_list(
    draft: &mut Draft<'_, '_>,
    word: &Word,
    alone: bool,
) -> Result<Option<Address>, Fault> {
    if alone && draft.negate.is_some() {
        return Err(never(word));
    }
    if !alone {
        draft.reader.notes.warn(
            "any-in-list",
            word.span,
            "`/0` makes the whole list `any`".to_owned(),
            "ipfw reads it so; leave the rest of the list out",
        );
    }
    Ok(None)
}

fn never(word: &Word) -> Fault {
    Fault::data("not-any", word.span, "not any never matches").help("leave the rule out")
}

fn check_length(word: &Word, length: usize, max: usize) -> Result<(), Fault> {
    if length <= max {
        return Ok(());
    }
    Err(Fault::data(
        "address-list",
        word.span,
        format!("address list too long: {length} entries, {max} fit"),
    )
    .help("use a table, or several alternatives"))
}

/// Warns about what is read otherwise than it looks.
fn doubtful(draft: &mut Draft<'_, '_>, word: &Word) {
    let text = word.text.as_str();
    if text.starts_with("table(") {
        return;
    }
    if text.contains('{') && !text.ends_with('}') {
        draft.reader.notes.warn(
            "open-set",
            word.span,
            "the set of addresses is not closed, or something follows it".to_owned(),
            "ipfw takes it; write NETWORK/24{n,n-n} as one word",
        );
    }
    for part in text.split([',', '{']) {
        if let Some((_, width)) = part.split_once('/')
            && !width.contains(':')
        {
            super::number(draft.reader.notes, word, width, 10);
        }
    }
}

/// Warns about an address of fewer than four numbers, of which the last one fills up the rest:
/// `10` is 0.0.0.10, and `10.0.0` a host.
fn few_numbers(
    draft: &mut Draft<'_, '_>,
    host: &str,
    (address, mask, masked): (u32, u32, bool),
    word: &Word,
) {
    let numbers = host.split('.').count();
    if numbers > 3 || numbers::inet_aton(host).is_none() {
        return;
    }
    let zeros = ".0".repeat(4 - numbers);
    let looks = numbers::inet_aton(&format!("{host}{zeros}"));
    if masked && looks.is_some_and(|looks| (looks ^ address) & mask == 0) {
        return;
    }
    draft.reader.notes.warn(
        "few-numbers",
        word.span,
        format!("`{host}` is {}", std::net::Ipv4Addr::from(address)),
        "ipfw reads it so; write all four numbers, and the width of a network",
    );
}

fn host4(draft: &Draft<'_, '_>, host: &str, word: &Word) -> Result<u32, Fault> {
    if let Some(address) = numbers::inet_aton(host) {
        return Ok(address);
    }
    if let Some(address) = draft.reader.names.ipv4(host) {
        return Ok(address.into());
    }
    Err(Fault::new(
        ExitClass::NoHost,
        "unknown-host",
        word.span,
        format!("hostname `{host}` unknown"),
    )
    .help("write an address; names are resolved once, when the rules are read"))
}

/// The mask behind an address, and what follows it.
fn mask4<'t>(after: &'t str, word: &Word) -> Result<(u32, &'t str), Fault> {
    let end = |text: &str| text.find([',', '{']).unwrap_or(text.len());
    if let Some(text) = after.strip_prefix('/') {
        let (width, rest) = text.split_at(end(text));
        let length = numbers::atoi(width);
        if !(0..=32).contains(&length) {
            return Err(
                Fault::data("bad-width", word.span, format!("bad width `{width}`"))
                    .help("widths are 0 to 32"),
            );
        }
        return Ok((numbers::prefix_mask(length as u32, 32) as u32, rest));
    }
    if let Some(text) = after.strip_prefix(':') {
        let (mask, rest) = text.split_at(end(text));
        let value = numbers::inet_aton(mask).ok_or_else(|| {
            Fault::data("bad-netmask", word.span, format!("bad netmask `{mask}`"))
                .help("write ADDRESS:MASK as 10.0.0.0:255.0.0.0")
        })?;
        return Ok((value, rest));
    }
    if after.starts_with('{') {
        return Ok((0xffff_ff00, after));
    }
    Ok((u32::MAX, after))
}

/// `a-b,c}` of an address set.
fn octets(base: u32, mask: u32, text: &str, word: &Word) -> Result<Address, Fault> {
    let wrong = |message: String| {
        Fault::data("address-set", word.span, message)
            .help("write NETWORK/24..31{n,n-n}, numbers being last octets of the network")
    };
    let length = numbers::mask_length(u128::from(mask), 32).unwrap_or(0);
    if !(24..=31).contains(&length) {
        return Err(wrong(format!("invalid set with mask {length}")));
    }
    let size = 1i64 << (32 - length);
    let low = i64::from(base & 0xff);
    let mut bits = [0u32; 8];
    let mut from: Option<i64> = None;
    let mut rest = text;
    while rest.bytes().next().is_some_and(|b| b.is_ascii_digit()) {
        let (value, after) = numbers::strtol(rest, 0);
        if !(low..low + size).contains(&value) {
            let high = low + size - 1;
            return Err(wrong(format!("addr {value} out of range [{low}-{high}]")));
        }
        let value = value - low;
        let first = match from.take() {
            None => value,
            Some(first) if first > value => {
                return Err(wrong(format!(
                    "invalid range {}-{}",
                    first + low,
                    value + low
                )));
            }
            Some(_) if after.starts_with('-') => {
                return Err(wrong("double '-' in range".to_owned()));
            }
            Some(first) => first,
        };
        for bit in first..=value {
            bits[bit as usize / 32] |= 1 << (bit % 32);
        }
        if after.starts_with('-') {
            from = Some(value);
        } else if after.starts_with('}') {
            break;
        }
        rest = after.get(1..).unwrap_or("");
    }
    Ok(Address::Octets {
        base,
        size: size as u16,
        bits,
    })
}

fn v6(draft: &mut Draft<'_, '_>, word: &Word) -> Result<Option<Address>, Fault> {
    match word.text.as_str() {
        "any" => return Ok(None),
        "me" | "me6" => return Ok(Some(Address::Me6)),
        text if text.starts_with("table(") => {
            let (name, value) = table_reference(draft.reader, word)?;
            return Ok(Some(Address::Table { name, value }));
        }
        _ => {}
    }
    let mut list: Vec<(u128, u128)> = Vec::new();
    let parts: Vec<&str> = word.text.split(',').collect();
    for (index, part) in parts.iter().enumerate() {
        let (host, width) = match part.split_once('/') {
            Some((host, width)) => (host, Some(width)),
            None => (*part, None),
        };
        let address = numbers::ipv6(host)
            .or_else(|| draft.reader.names.ipv6(host).map(u128::from))
            .ok_or_else(|| {
                Fault::data("bad-address", word.span, format!("bad address \"{host}\""))
                    .help("write IPv6 addresses here, with /LENGTH if wanted")
            })?;
        let mask = mask6(width, word)?;
        if mask == 0 {
            let last = index + 1 == parts.len();
            if draft.negate.is_some() && last && list.is_empty() {
                return Err(never(word));
            }
            draft.reader.notes.warn(
                "any-in-list",
                word.span,
                "`/0` is left out of a list of IPv6 addresses; with nothing else in it the \
                 list means `me6`"
                    .to_owned(),
                "ipfw reads it so; write `any` with protocol ip6",
            );
            continue;
        }
        list.push((address & mask, mask));
    }
    check_length(word, list.len(), LIST6_MAX)?;
    if list.is_empty() {
        return Ok(Some(Address::Me6));
    }
    Ok(Some(Address::V6(list)))
}

fn mask6(width: Option<&str>, word: &Word) -> Result<u128, Fault> {
    let Some(width) = width else {
        return Ok(u128::MAX);
    };
    if width.contains(':') {
        return numbers::ipv6(width).ok_or_else(|| {
            Fault::data("bad-netmask", word.span, format!("bad mask \"{width}\""))
                .help("write a mask as an IPv6 address, or a length")
        });
    }
    let length = numbers::atoi(width);
    if !(0..=128).contains(&length) {
        return Err(
            Fault::data("bad-width", word.span, format!("bad width \"{width}\""))
                .help("widths are 0 to 128"),
        );
    }
    Ok(numbers::prefix_mask(length as u32, 128))
}

/// `table(NAME)`, `table(NAME,VALUE)`, `table(NAME,TYPE=VALUE)`.
pub fn table_reference(
    reader: &mut Reader<'_>,
    word: &Word,
) -> Result<(String, Option<TableValue>), Fault> {
    let inside = &word.text["table(".len()..];
    let Some((inside, _)) = inside.split_once(')') else {
        return Err(Fault::data(
            "table-parenthesis",
            word.span,
            format!("forgotten parenthesis: '{}'", word.text),
        )
        .help("write table(NAME) without blanks"));
    };
    let (name, value) = match inside.split_once(',') {
        Some((name, value)) => (name, Some(value)),
        None => (inside, None),
    };
    table::check_table_name(name, word.span)?;
    let value = match value {
        None => None,
        Some(text) => Some(table_value(reader, text, word)?),
    };
    Ok((name.to_owned(), value))
}

fn table_value(reader: &mut Reader<'_>, text: &str, word: &Word) -> Result<TableValue, Fault> {
    let (kind, number) = match text.split_once('=') {
        Some((kind, number)) => (Some(kind), number),
        None => (None, text),
    };
    let kind = match kind {
        None => None,
        Some(name) => {
            let known = ValueType::ALL.iter().find(|(_, known)| *known == name);
            let Some((kind, _)) = known else {
                let names = ValueType::ALL.iter().map(|(_, name)| *name);
                return Err(Fault::data(
                    "value-type",
                    word.span,
                    format!("unknown value type `{name}`"),
                )
                .nearest(name, names, "write skipto, pipe, tag, dscp, mark ..."));
            };
            Some(*kind)
        }
    };
    let value = match kind {
        Some(ValueType::Ipv4) => numbers::ipv4(number),
        _ => None,
    };
    Ok(TableValue {
        kind,
        value: value.unwrap_or_else(|| super::number(reader.notes, word, number, 0)),
    })
}
