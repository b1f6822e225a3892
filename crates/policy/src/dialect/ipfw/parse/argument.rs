//! Arguments of the rarer options: link addresses, owners, tags, marks, lookups.
//!
//! In: the option's word, the reader behind it. Out: one pattern in the draft. Blocks and `not`
//! are the caller's.

use super::super::ast::{Argument, LookupKey, Mac, Pattern};
use super::super::fault::Fault;
use super::super::names::{self, EXTENSIONS};
use super::super::numbers;
use super::super::words::Word;
use super::rule::Draft;
use super::{address, lists, table};

pub(super) fn extension_headers(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a list of IPv6 extension headers")?;
    let mut bits = 0u32;
    for name in value.text.split(',') {
        let Some(bit) = names::number(EXTENSIONS, name) else {
            let known = EXTENSIONS.iter().map(|(name, _)| *name);
            return Err(Fault::data(
                "extension-header",
                value.span,
                format!("invalid option for ipv6 exten header: `{name}`"),
            )
            .nearest(
                name,
                known,
                "write frag, hopopt, route, dstopt, ah, esp, rthdr0, rthdr2",
            ));
        };
        bits |= bit;
    }
    draft.push(Pattern::Ext6Hdr(bits as u8), word.span.to(value.span));
    Ok(())
}

pub(super) fn flow_id(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    if draft.proto != 41 {
        return Err(Fault::usage(
            "flow-id-family",
            word.span,
            "flow-id filter is active only for ipv6 protocol",
        )
        .help("write the protocol ip6 before it"));
    }
    let value = draft.reader.need("a flow number")?;
    let mut list = Vec::new();
    for part in value.text.split(',') {
        let (number, rest) = numbers::strtol(part, 0);
        if !rest.is_empty() {
            return Err(Fault::data(
                "flow-number",
                value.span,
                format!("invalid ipv6 flow number {part}"),
            )
            .help("write numbers with commas between"));
        }
        if !(0..=0xf_ffff).contains(&number) {
            return Err(Fault::data(
                "flow-number",
                value.span,
                format!("flow number out of range {part}"),
            )
            .help("flow labels have 20 bits"));
        }
        list.push(number as u32);
    }
    draft.push(Pattern::FlowId(list), word.span.to(value.span));
    Ok(())
}

pub(super) fn mac(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let (Some(destination), Some(source)) = (draft.reader.take(), draft.reader.take()) else {
        return Err(Fault::data("missing-word", word.span, "MAC dst src")
            .help("write the destination, then the source, each an address or any"));
    };
    let pattern = Pattern::Mac(mac_address(destination)?, mac_address(source)?);
    draft.push(pattern, word.span.to(source.span));
    Ok(())
}

/// `any`, an address, or one with `/LENGTH` or `&MASK`.
pub fn mac_address(word: &Word) -> Result<Mac, Fault> {
    if word.text == "any" {
        return Ok(Mac {
            address: [0; 6],
            mask: [0; 6],
        });
    }
    let wrong = |message: &str| {
        Fault::data("mac-address", word.span, message)
            .help("write xx:xx:xx:xx:xx:xx, with /LENGTH or &MASK if wanted")
    };
    let (address, mask) = match word.text.find(['&', '/']) {
        Some(at) => (&word.text[..at], Some(&word.text[at..])),
        None => (word.text.as_str(), None),
    };
    let address = table::ether_address(address).ok_or_else(|| wrong("incorrect MAC address"))?;
    let mask = match mask {
        None => [0xff; 6],
        Some(text) => match text.strip_prefix('/') {
            Some(length) => {
                let (length, rest) = numbers::strtol(length, 10);
                if !rest.is_empty() || !(0..=48).contains(&length) {
                    return Err(wrong("incorrect mask length"));
                }
                let bits = numbers::prefix_mask(length as u32, 48) as u64;
                bits.to_be_bytes()[2..].try_into().unwrap_or([0; 6])
            }
            None => table::ether_address(&text[1..]).ok_or_else(|| wrong("incorrect mask"))?,
        },
    };
    let mut masked = address;
    for (byte, bits) in masked.iter_mut().zip(mask) {
        *byte &= bits;
    }
    Ok(Mac {
        address: masked,
        mask,
    })
}

pub(super) fn mac_type(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a MAC type")?;
    let found = match value.text.as_str() {
        "any" => None,
        _ => lists::ranges(draft.reader, value, lists::ETHERNET_TYPES),
    };
    let Some(ranges) = found else {
        return Err(Fault::data(
            "mac-type",
            value.span,
            format!("invalid mac type {}", value.text),
        )
        .help("write numbers such as 0x0800, or ipv4, ipv6, arp, vlan ..."));
    };
    lists::check_count(value, &ranges)?;
    draft.push(Pattern::MacType(ranges), word.span.to(value.span));
    Ok(())
}

pub(super) fn mac_table(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("a table of {text}"))?;
    if !value.text.starts_with("table(") {
        return Err(no_table(value));
    }
    let (name, wanted) = address::table_reference(draft.reader, value)?;
    let pattern = match text {
        "src-mac" => Pattern::SrcMac(name, wanted),
        _ => Pattern::DstMac(name, wanted),
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

pub(super) fn no_table(word: &Word) -> Fault {
    Fault::data(
        "table-parenthesis",
        word.span,
        "enclose table name into \"table()\"",
    )
    .help("write table(NAME)")
}

pub(super) fn owner(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("an argument of {text}"))?;
    let (number, rest) = numbers::strtol(&value.text, 0);
    let id = match rest.is_empty() {
        true => u32::try_from(number).ok(),
        false if text == "uid" => draft.reader.names.user(&value.text),
        false => draft.reader.names.group(&value.text),
    };
    let Some(id) = id else {
        return Err(Fault::data(
            "unknown-owner",
            value.span,
            format!("{text} \"{}\" nonexistent", value.text),
        )
        .help("write a number, or a name that this host knows"));
    };
    let name = (!rest.is_empty()).then(|| value.text.clone());
    let pattern = match text {
        "uid" => Pattern::Uid(id, name),
        _ => Pattern::Gid(id, name),
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

pub(super) fn jail(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a jail")?;
    let (number, rest) = numbers::strtol(&value.text, 10);
    if !rest.is_empty() {
        return Err(Fault::data(
            "unknown-jail",
            value.span,
            format!("jail \"{}\" not found", value.text),
        )
        .help("write the number of the jail"));
    }
    draft.push(Pattern::Jail(number as u32), word.span.to(value.span));
    Ok(())
}

pub(super) fn tagged(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let list = draft.reader.peek().filter(|w| w.text.contains(['-', ',']));
    if let Some(value) = list {
        draft.reader.take();
        let ranges = lists::numbers_of(draft.reader, value, "tag list")?;
        draft.push(Pattern::Tagged(ranges), word.span.to(value.span));
        return Ok(());
    }
    let span = word.span.to(draft.reader.here());
    let pattern = match lists::argument(draft.reader, "tagged")? {
        Argument::TableArg => Pattern::TaggedTableArg,
        Argument::Number(tag) => Pattern::Tagged(vec![(tag as u16, tag as u16)]),
    };
    draft.push(pattern, span);
    Ok(())
}

pub(super) fn mark(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a mark")?;
    let (text, mask) = match value.text.split_once(':') {
        Some((text, mask)) => (text, super::number(draft.reader.notes, value, mask, 0)),
        None => (value.text.as_str(), u32::MAX),
    };
    let argument = match text {
        "tablearg" => Argument::TableArg,
        _ => Argument::Number(super::number(draft.reader.notes, value, text, 0)),
    };
    if let Argument::Number(number) = argument
        && number & mask != number
    {
        return Err(Fault::data(
            "mark-mask",
            value.span,
            "some bits of the mark are not in its mask, so that it never matches",
        )
        .help("write a mark within the mask"));
    }
    let pattern = Pattern::Mark {
        value: argument,
        mask,
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

pub(super) fn lookup(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let (Some(key), Some(name)) = (draft.reader.take(), draft.reader.take()) else {
        return Err(Fault::usage(
            "missing-word",
            word.span,
            "format: lookup argument tablenum",
        )
        .help("write lookup KEY TABLE"));
    };
    let (text, mask) = match key.text.split_once(':') {
        Some((text, mask)) => (text, Some(mask)),
        None => (key.text.as_str(), None),
    };
    // Newer releases give the families of an address mask names of their own.
    let plain = match text {
        "src-ip4" | "src-ip6" => "src-ip",
        "dst-ip4" | "dst-ip6" => "dst-ip",
        other => other,
    };
    let Some((found, _)) = LookupKey::ALL.iter().find(|(_, known)| *known == plain) else {
        let known = LookupKey::ALL.iter().map(|(_, name)| *name);
        return Err(Fault::usage(
            "lookup-key",
            key.span,
            format!("format: cannot lookup on {text}"),
        )
        .nearest(
            text,
            known,
            "write dst-ip, src-ip, dst-port, src-port, dscp, uid ...",
        ));
    };
    let mask = match mask {
        None => None,
        Some(mask) => Some(lookup_mask(*found, mask, key)?),
    };
    table::check_table_name(&name.text, name.span)?;
    let pattern = Pattern::Lookup {
        key: *found,
        mask,
        table: name.text.clone(),
    };
    draft.push(pattern, word.span.to(name.span));
    Ok(())
}

pub(super) fn lookup_mask(key: LookupKey, text: &str, word: &Word) -> Result<u128, Fault> {
    let address = matches!(key, LookupKey::DstIp | LookupKey::SrcIp);
    let mask = match address {
        true => numbers::ipv4(text)
            .map(u128::from)
            .or_else(|| numbers::ipv6(text)),
        false => {
            let (value, rest) = numbers::strtol(text, 0);
            (rest.is_empty() && (0..=i64::from(u32::MAX)).contains(&value)).then_some(value as u128)
        }
    };
    mask.ok_or_else(|| {
        Fault::data("lookup-mask", word.span, format!("bad mask `{text}`"))
            .help("write an address as mask of addresses, else a number of 32 bits")
    })
}
