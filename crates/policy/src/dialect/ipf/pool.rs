//! `ippool.conf`: tables of addresses, group maps, destination lists.
//!
//! In: text in either version's form. Out: tables that print back in the form of 4.x (which 5.1
//! reads too) or, for destination lists, of 5.x. Longest prefix decides; `!` entries are holes.
//! Source: `ippool(5)`.

use super::ast::{Name, PoolEntry, TableKind};
use super::lex::lex;
use super::parse::{ParseOptions, parser};
use super::print::{pool_entry, quoted, word};
use crate::model::SourceId;
use crate::syntax::{Diagnostic, Place};

/// For whom a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The packet filter.
    Ipf,
    /// Translation.
    Nat,
    /// Authentication.
    Auth,
    /// Accounting.
    Count,
    /// Everybody.
    All,
}

impl Role {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ipf => "ipf",
            Self::Nat => "nat",
            Self::Auth => "auth",
            Self::Count => "count",
            Self::All => "all",
        }
    }
}

/// What kind of table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `type = tree`
    Tree,
    /// `type = hash`
    Hash,
    /// `group-map in|out`; the group of entries that name none.
    Map {
        /// For outbound packets.
        out: bool,
        /// The group of entries that name none.
        group: Option<Name>,
    },
    /// A list of destinations with its policy.
    Destinations(Option<Name>),
}

/// Where entries come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Written here; in a map with a group, in a list of destinations with an interface.
    Address(PoolEntry, Option<Name>),
    /// `file://path`
    File(Name),
    /// `whois file path`
    Whois(Name),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Where it is.
    pub at: Place,
    /// For whom.
    pub role: Role,
    /// What kind.
    pub shape: Shape,
    /// Number or name.
    pub name: Option<Name>,
    /// Buckets of a hash.
    pub size: Option<u32>,
    /// Seed of a hash.
    pub seed: Option<u32>,
    /// Entries.
    pub entries: Vec<Entry>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Tables, in order.
    pub tables: Vec<Table>,
}

impl Table {
    /// The entries that are written in the table.
    #[must_use]
    pub fn entries(&self) -> Vec<PoolEntry> {
        let own = |entry: &Entry| match entry {
            Entry::Address(entry, _) => Some(*entry),
            _ => None,
        };
        self.entries.iter().filter_map(own).collect()
    }

    /// Files whose lines are entries too.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::File(path) | Entry::Whois(path) => Some(&**path),
            _ => None,
        })
    }

    /// Whether filter rules see it.
    #[must_use]
    pub fn is_of_filter(&self) -> bool {
        matches!(self.role, Role::Ipf | Role::All)
    }

    /// How filter rules call it, if they can.
    #[must_use]
    pub fn lookup(&self) -> Option<(TableKind, Name)> {
        if !self.is_of_filter() {
            return None;
        }
        let kind = match self.shape {
            Shape::Tree => TableKind::Pool,
            Shape::Hash => TableKind::Hash,
            _ => return None,
        };
        Some((kind, self.name.clone()?))
    }

    /// Direction and number of a group map.
    #[must_use]
    pub fn map(&self) -> Option<(bool, u32)> {
        match &self.shape {
            _ if !self.is_of_filter() => None,
            Shape::Map { out, .. } => Some((*out, self.name.as_deref()?.parse().ok()?)),
            _ => None,
        }
    }

    /// The entries of a group map with their groups.
    #[must_use]
    pub fn mapped(&self) -> Vec<(PoolEntry, Name)> {
        let Shape::Map { group, .. } = &self.shape else {
            return Vec::new();
        };
        let own = |entry: &Entry| match entry {
            Entry::Address(entry, own) => Some((*entry, own.clone().or(group.clone())?)),
            _ => None,
        };
        self.entries.iter().filter_map(own).collect()
    }
}

/// Reads a file.
#[must_use]
pub fn parse(text: &str, source: SourceId) -> (File, Vec<Diagnostic>) {
    let (tokens, diagnostics) = lex(text, source);
    let options = ParseOptions::default();
    let end = crate::syntax::Span::new(source, text.len(), text.len());
    let mut parser = parser(&tokens, end, &options, diagnostics);
    let mut file = File::default();
    while parser.peek().is_some() {
        if parser.take_sign(";") || parser.take_assignment() {
            continue;
        }
        match parser.pool_table() {
            Ok(table) => file.tables.push(table),
            Err(found) => {
                parser.diagnostics.push(*found);
                parser.skip_to(&["table", "pool", "group-map"]);
            }
        }
    }
    (file, parser.diagnostics)
}

/// The addresses of a file of addresses: one a line, the rest of a line is a remark.
#[must_use]
pub fn addresses_of(text: &str) -> Vec<PoolEntry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        let (tokens, _) = lex(word, SourceId(0));
        let end = crate::syntax::Span::new(SourceId(0), word.len(), word.len());
        let options = ParseOptions::default();
        let mut parser = parser(&tokens, end, &options, Vec::new());
        let negate = parser.take_sign("!");
        entries.extend(parser.pool_entry(negate).ok());
    }
    entries
}

/// Prints a file.
#[must_use]
pub fn print(file: &File) -> String {
    let mut out = String::new();
    for table in &file.tables {
        out += &head(table);
        for entry in &table.entries {
            out += &match entry {
                Entry::Address(entry, None) => format!(" {};", pool_entry(entry)),
                Entry::Address(entry, Some(name)) => match table.shape {
                    Shape::Destinations(_) => format!(" {}:{};", word(name), pool_entry(entry)),
                    _ => format!(" {}, group = {};", pool_entry(entry), word(name)),
                },
                Entry::File(path) => format!(" {};", quoted(&format!("file://{path}"))),
                Entry::Whois(path) => format!(" whois file {};", quoted(path)),
            };
        }
        out += " };\n";
    }
    out
}

fn head(table: &Table) -> String {
    let role = table.role.word();
    let name = |verb: &str| match &table.name {
        Some(name) if name.parse::<u32>().is_ok_and(|n| n.to_string() == **name) => {
            format!(" number = {name}")
        }
        Some(name) => format!(" {verb} = {}", word(name)),
        None => String::new(),
    };
    let size = table
        .size
        .map(|size| format!(" size = {size}"))
        .unwrap_or_default();
    let seed = table
        .seed
        .map(|seed| format!(" seed = {seed}"))
        .unwrap_or_default();
    match &table.shape {
        Shape::Tree => format!(
            "table role = {role} type = tree{}{size}{seed}\n\t{{",
            name("name")
        ),
        Shape::Hash => format!(
            "table role = {role} type = hash{}{size}{seed}\n\t{{",
            name("name")
        ),
        Shape::Map { out, group } => {
            let direction = if *out { "out" } else { "in" };
            let group = group
                .as_ref()
                .map(|g| format!(" group = {}", word(g)))
                .unwrap_or_default();
            format!(
                "group-map {direction} role = {role}{}{group}\n\t{{",
                name("number")
            )
        }
        Shape::Destinations(policy) => {
            let name = word(table.name.as_deref().unwrap_or(""));
            let size = table
                .size
                .map(|n| format!(" size {n};"))
                .unwrap_or_default();
            let seed = table
                .seed
                .map(|n| format!(" seed {n};"))
                .unwrap_or_default();
            let policy = policy
                .as_ref()
                .map(|p| format!(" policy {p};"))
                .unwrap_or_default();
            format!("pool {role}/dstlist (name {name};{size}{seed}{policy})\n\t{{")
        }
    }
}
