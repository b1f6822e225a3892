//! Tables as `table ... list`, `info` and `detail` print them, and as commands.
//!
//! In: tables. Out: text.

use super::super::ast::ValueType;
use super::super::command::TableType;
use super::super::ruleset::{Entry, Ruleset, Table};
use std::fmt::Write;

/// Bytes that `info` counts for the table itself and for each entry.
const SIZE_BYTES: (usize, usize) = (296, 128);

/// Fields of a flow key.
const FLOW_FIELDS: [(&str, u8); 5] = [
    ("src-ip", 1),
    ("proto", 2),
    ("src-port", 4),
    ("dst-ip", 8),
    ("dst-port", 16),
];

/// The word of a type.
#[must_use]
pub fn type_name(kind: TableType) -> String {
    match kind {
        TableType::Addr => "addr".to_owned(),
        TableType::Iface => "iface".to_owned(),
        TableType::Number => "number".to_owned(),
        TableType::Mac => "mac".to_owned(),
        TableType::Flow(fields) => {
            let list: Vec<&str> = FLOW_FIELDS
                .iter()
                .filter(|(_, bit)| fields & bit != 0)
                .map(|(name, _)| *name)
                .collect();
            format!("flow:{}", list.join(","))
        }
    }
}

fn algorithm(table: &Table) -> String {
    let usual = match table.kind {
        TableType::Addr => "addr:radix",
        TableType::Iface => "iface:array",
        TableType::Number => "number:array",
        TableType::Mac => "mac:radix",
        TableType::Flow(_) => "flow:hash",
    };
    table.algorithm.clone().unwrap_or_else(|| usual.to_owned())
}

fn value_types(kinds: &[ValueType]) -> String {
    if kinds.is_empty() {
        return "legacy".to_owned();
    }
    let list: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    list.join(",")
}

/// One entry.
#[must_use]
pub fn entry(table: &Table, entry: &Entry, as_address: bool) -> String {
    let value = entry.value.text(&table.values, as_address);
    format!("{} {value}", entry.key.text(table.kind))
}

/// All entries, one a line.
#[must_use]
pub fn entries(table: &Table, as_address: bool) -> String {
    let list = table.sorted();
    list.iter()
        .map(|one| entry(table, one, as_address) + "\n")
        .collect()
}

/// The line before a table when several are printed.
#[must_use]
pub fn header(name: &str) -> String {
    format!("--- table({name}), set(0) ---\n")
}

/// What `info` and `detail` print.
#[must_use]
pub fn info(ruleset: &Ruleset, name: &str, detail: bool) -> String {
    let Some(at) = ruleset.tables.iter().position(|table| table.name == name) else {
        return String::new();
    };
    let table = &ruleset.tables[at];
    let count = table.entries.len();
    let locked = if table.locked { ", locked" } else { "" };
    let kind = type_name(table.kind);
    let mut out = header(name);
    let _ = writeln!(out, " kindex: {}, type: {kind}{locked}", at + 1);
    let references = ruleset.references(name);
    let values = value_types(&table.values);
    let _ = writeln!(out, " references: {references}, valtype: {values}");
    let algorithm = algorithm(table);
    let _ = writeln!(out, " algorithm: {algorithm}");
    let size = SIZE_BYTES.0 + SIZE_BYTES.1 * count;
    let _ = writeln!(out, " items: {count}, size: {size}");
    if table.limit > 0 {
        let _ = writeln!(out, " limit: {}", table.limit);
    }
    if detail {
        let class = algorithm.split(':').nth(1).unwrap_or("radix");
        let four = table.entries.iter();
        let four = four
            .filter(|e| !matches!(e.key, super::super::ruleset::Key::V6(..)))
            .count();
        if table.kind == TableType::Addr {
            let _ = writeln!(out, " IPv4 algorithm {class} info");
            let _ = writeln!(out, "  items: {four} itemsize: 200");
            let _ = writeln!(out, " IPv6 algorithm {class} info");
            let _ = writeln!(out, "  items: {} itemsize: 200", count - four);
        } else {
            let _ = writeln!(out, " algorithm {class} info");
            let _ = writeln!(out, "  items: {count}");
        }
    }
    out
}

/// The commands that make a table and fill it.
#[must_use]
pub fn commands(table: &Table) -> String {
    let name = &table.name;
    let mut out = format!("table {name} create type {}", type_name(table.kind));
    if !table.values.is_empty() {
        let _ = write!(out, " valtype {}", value_types(&table.values));
    }
    if let Some(algorithm) = &table.algorithm {
        let _ = write!(out, " algo {algorithm}");
    }
    if table.limit > 0 {
        let _ = write!(out, " limit {}", table.limit);
    }
    out.push('\n');
    for one in table.sorted() {
        let _ = writeln!(out, "table {name} add {}", entry(table, one, false));
    }
    if table.locked {
        let _ = writeln!(out, "table {name} lock");
    }
    out
}
