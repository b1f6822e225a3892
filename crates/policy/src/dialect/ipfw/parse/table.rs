//! `table ...` commands and names of objects.
//!
//! In: the words after `table`. Out: a [`TableCommand`]. Keys and values stay words: what they
//! mean depends on the table, which the rule set knows.

use super::super::ast::ValueType;
use super::super::command::{Command, Placed, TableCommand, TableOptions, TableType};
use super::super::fault::Fault;
use super::super::numbers;
use super::super::words::Word;
use super::Reader;
use crate::syntax::Span;

/// Bytes of an object's name.
const NAME_BYTES_MAX: usize = 63;

const COMMANDS: [&str; 16] = [
    "add", "delete", "create", "destroy", "flush", "modify", "swap", "info", "detail", "list",
    "lookup", "atomic", "lock", "unlock", "show", "all",
];
const CREATE_WORDS: [&str; 7] = [
    "type", "valtype", "algo", "limit", "locked", "missing", "or-flush",
];
/// Fields of flow keys and their bits.
pub const FLOW_FIELDS: [(&str, u8); 5] = [
    ("src-ip", 1),
    ("proto", 2),
    ("src-port", 4),
    ("dst-ip", 8),
    ("dst-port", 16),
];

/// Whether a text can name a table, a flow or an instance.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

pub(super) fn check_object_name(word: &Word) -> Result<(), Fault> {
    if is_object_name(&word.text) {
        return Ok(());
    }
    Err(Fault::data(
        "object-name",
        word.span,
        format!("invalid name {}", word.text),
    )
    .help("names have 1 to 63 letters, digits, `-`, `_` and `.`"))
}

/// Whether a text can name a table.
#[must_use]
pub fn check_name(name: &str) -> bool {
    is_object_name(name) && name != "all"
}

pub(super) fn check_table_name(name: &str, span: Span) -> Result<(), Fault> {
    if check_name(name) {
        return Ok(());
    }
    Err(
        Fault::data("table-name", span, format!("invalid table name: {name}"))
            .help("names have 1 to 63 letters, digits, `-`, `_` and `.`, and `all` is none"),
    )
}

/// `xx:xx:xx:xx:xx:xx`, each part one or two hexadecimal digits.
#[must_use]
pub fn ether_address(text: &str) -> Option<[u8; 6]> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        let part = parts.next()?;
        if !(1..=2).contains(&part.len()) || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// The one word that begins with the given text.
pub(super) fn relaxed<'w>(word: &Word, known: &[&'w str], what: &str) -> Result<&'w str, Fault> {
    let text = word.text.as_str();
    if let Some(exact) = known.iter().find(|name| **name == text) {
        return Ok(exact);
    }
    let mut found = known.iter().filter(|name| name.starts_with(text));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(name),
        (Some(_), Some(_)) => Err(Fault::usage(
            "ambiguous-word",
            word.span,
            format!("ambiguous {what} {text}"),
        )
        .help("write the whole word")),
        _ => Err(
            Fault::usage("unknown-word", word.span, format!("invalid {what} {text}")).nearest(
                text,
                known.iter().copied(),
                "see ipfw(8), LOOKUP TABLES",
            ),
        ),
    }
}

/// Reads what follows `table`.
pub fn table(reader: &mut Reader<'_>, set: u8) -> Result<Command, Fault> {
    let name = reader.need("a table name")?;
    let all = name.text == "all";
    if !all && !check_name(&name.text) {
        return Err(Fault::usage(
            "table-name",
            name.span,
            format!("table name {} is invalid", name.text),
        )
        .help("names have 1 to 63 letters, digits, `-`, `_` and `.`"));
    }
    let word = reader.need("a table command")?;
    let mut verb = relaxed(word, &COMMANDS, "table command")?;
    let atomic = verb == "atomic";
    if atomic {
        let word = reader.need("a command after atomic")?;
        verb = relaxed(word, &COMMANDS, "table command")?;
        if verb != "add" {
            return Err(Fault::usage(
                "atomic",
                word.span,
                format!("atomic is not compatible with {}", word.text),
            )
            .help("write atomic add"));
        }
    }
    if all
        && !matches!(
            verb,
            "list" | "show" | "info" | "detail" | "flush" | "destroy"
        )
    {
        return Err(Fault::usage("table-name", name.span, "table name required")
            .help("write the name of one table"));
    }
    let command = verb_of(reader, verb, word, atomic)?;
    Ok(Command::Table {
        name: (!all).then(|| name.text.clone()),
        set,
        command,
    })
}

fn verb_of(
    reader: &mut Reader<'_>,
    verb: &str,
    word: &Word,
    atomic: bool,
) -> Result<TableCommand, Fault> {
    Ok(match verb {
        "create" => TableCommand::Create(create(reader)?),
        "add" => TableCommand::Add {
            entries: entries(reader)?,
            atomic,
        },
        "delete" => {
            let keys: Vec<Placed> = reader.rest().iter().map(placed).collect();
            if keys.is_empty() {
                return Err(missing_key(reader));
            }
            TableCommand::Delete(keys)
        }
        "lookup" => match reader.take() {
            Some(key) => TableCommand::Lookup(placed(key)),
            None => return Err(missing_key(reader)),
        },
        "swap" => {
            let other = reader.need("a second table name")?;
            if !check_name(&other.text) {
                return Err(Fault::usage(
                    "table-name",
                    other.span,
                    format!("table name {} is invalid", other.text),
                )
                .help("write the name of a table"));
            }
            TableCommand::Swap(other.text.clone())
        }
        "modify" => modify(reader)?,
        "lock" => TableCommand::Lock(true),
        "unlock" => TableCommand::Lock(false),
        "list" | "show" => TableCommand::List,
        "info" => TableCommand::Info,
        "detail" => TableCommand::Detail,
        "flush" => TableCommand::Flush,
        "destroy" => TableCommand::Destroy,
        _ => {
            return Err(Fault::usage(
                "unknown-word",
                word.span,
                format!("invalid table command {}", word.text),
            )
            .help("see ipfw(8), LOOKUP TABLES"));
        }
    })
}

fn placed(word: &Word) -> Placed {
    (word.text.clone(), word.span)
}

fn missing_key(reader: &Reader<'_>) -> Fault {
    Fault::usage("missing-word", reader.here(), "address required").help("write a key")
}

/// Keys and values in turn; the last value may be missing.
fn entries(reader: &mut Reader<'_>) -> Result<Vec<(Placed, Option<Placed>)>, Fault> {
    let mut out = Vec::new();
    while let Some(key) = reader.take() {
        out.push((placed(key), reader.take().map(placed)));
    }
    if out.is_empty() {
        return Err(missing_key(reader));
    }
    Ok(out)
}

fn modify(reader: &mut Reader<'_>) -> Result<TableCommand, Fault> {
    let word = reader.need("what to modify")?;
    if relaxed(word, &CREATE_WORDS, "option")? != "limit" {
        return Err(
            Fault::usage("modify", word.span, "cmd is not supported for modification")
                .help("only limit can be changed"),
        );
    }
    let value = reader.need("a limit value")?;
    Ok(TableCommand::Limit(numbers::u32_of(&value.text, 10)))
}

fn create(reader: &mut Reader<'_>) -> Result<TableOptions, Fault> {
    let mut options = TableOptions {
        kind: TableType::Addr,
        values: Vec::new(),
        algorithm: None,
        limit: 0,
        locked: false,
        missing: false,
        or_flush: false,
    };
    while let Some(word) = reader.take() {
        match relaxed(word, &CREATE_WORDS, "option")? {
            "type" => options.kind = table_type(reader.need("a table type")?)?,
            "valtype" => options.values = value_types(reader.need("a table value type")?)?,
            "algo" => {
                let word = reader.need("an algorithm name")?;
                options.algorithm = Some(word.text.clone());
            }
            "limit" => {
                let value = reader.need("a limit value")?;
                options.limit = numbers::u32_of(&value.text, 10);
            }
            "locked" => options.locked = true,
            "missing" => options.missing = true,
            _ => (options.missing, options.or_flush) = (true, true),
        }
    }
    Ok(options)
}

fn table_type(word: &Word) -> Result<TableType, Fault> {
    let (name, fields) = match word.text.split_once(':') {
        Some((name, fields)) => (name, Some(fields)),
        None => (word.text.as_str(), None),
    };
    let kind = match name {
        "addr" => TableType::Addr,
        "iface" => TableType::Iface,
        "number" => TableType::Number,
        "mac" => TableType::Mac,
        "flow" => {
            let mut bits = 0;
            for field in fields.into_iter().flat_map(|fields| fields.split(',')) {
                let Some((_, bit)) = FLOW_FIELDS.iter().find(|(known, _)| *known == field) else {
                    return Err(Fault::usage(
                        "flow-field",
                        word.span,
                        format!("unable to parse flow option {field}"),
                    )
                    .help("write src-ip, proto, src-port, dst-ip, dst-port"));
                };
                bits |= bit;
            }
            // Without fields the whole flow is the key.
            return Ok(TableType::Flow(if fields.is_none() { 31 } else { bits }));
        }
        _ => {
            return Err(Fault::usage(
                "table-type",
                word.span,
                format!("unknown tabletype: {name}"),
            )
            .nearest(
                name,
                ["addr", "iface", "number", "flow", "mac"],
                "write addr, iface, number, flow or mac",
            ));
        }
    };
    if let Some(fields) = fields {
        return Err(Fault::usage(
            "table-type",
            word.span,
            format!("unsupported suboptions: {fields}"),
        )
        .help("only type flow has fields"));
    }
    Ok(kind)
}

fn value_types(word: &Word) -> Result<Vec<ValueType>, Fault> {
    let mut out = Vec::new();
    for name in word.text.split(',') {
        let Some((kind, _)) = ValueType::ALL.iter().find(|(_, known)| *known == name) else {
            let known = ValueType::ALL.iter().map(|(_, name)| *name);
            return Err(Fault::usage(
                "value-type",
                word.span,
                format!("unknown value type: {name}"),
            )
            .nearest(name, known, "write skipto, pipe, tag, dscp, mark ..."));
        };
        if !out.contains(kind) {
            out.push(*kind);
        }
    }
    out.sort_unstable();
    Ok(out)
}
