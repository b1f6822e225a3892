//! Tables: what they hold, how they are searched, and the commands on them.
//!
//! In: [`TableCommand`]s, and keys of packets. Out: changed tables, printed answers, found values.
//! Prefix tables find the longest prefix, the others exact keys.

use super::super::ast::{Address, Pattern, Rule, ValueType};
use super::super::ast::{InterfaceName, LookupKey};
use super::super::command::{Placed, Switches, TableCommand, TableOptions, TableType};
use super::super::fault::{ExitClass, Fault};
use super::super::numbers::prefix_mask;
use super::super::parse::Names;
use super::super::print;
use super::Ruleset;
use super::apply::Answer;
use super::entries::{self, Entry, Key, Value};
use crate::syntax::Span;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Keys.
    pub kind: TableType,
    /// Values; empty means the legacy value.
    pub values: Vec<ValueType>,
    /// Algorithm, when it was named.
    pub algorithm: Option<String>,
    /// Largest number of entries, 0 for none.
    pub limit: u32,
    /// No entry may change.
    pub locked: bool,
    /// Entries, in no order that matters.
    pub entries: Vec<Entry>,
}

impl Table {
    /// An empty table of the usual kind.
    #[must_use]
    pub fn new(name: &str, kind: TableType) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            values: Vec::new(),
            algorithm: None,
            limit: 0,
            locked: false,
            entries: Vec::new(),
        }
    }

    /// The value of the longest prefix that covers an IPv4 address.
    #[must_use]
    pub fn find_v4(&self, address: u32) -> Option<&Value> {
        self.longest(|key| match key {
            Key::V4(base, length) => {
                let mask = prefix_mask(u32::from(*length), 32) as u32;
                (address & mask == *base).then_some(*length)
            }
            _ => None,
        })
    }

    /// The value of the longest prefix that covers an IPv6 address.
    #[must_use]
    pub fn find_v6(&self, address: u128) -> Option<&Value> {
        self.longest(|key| match key {
            Key::V6(base, length) => {
                (address & prefix_mask(u32::from(*length), 128) == *base).then_some(*length)
            }
            _ => None,
        })
    }

    /// The value of the longest prefix that covers a hardware address.
    #[must_use]
    pub fn find_mac(&self, address: u64) -> Option<&Value> {
        self.longest(|key| match key {
            Key::Mac(base, length) => {
                let mask = prefix_mask(u32::from(*length), 48) as u64;
                (address & mask == *base).then_some(*length)
            }
            _ => None,
        })
    }

    fn longest(&self, covers: impl Fn(&Key) -> Option<u8>) -> Option<&Value> {
        let found = self
            .entries
            .iter()
            .filter_map(|e| Some((covers(&e.key)?, &e.value)));
        found
            .max_by_key(|(length, _)| *length)
            .map(|(_, value)| value)
    }

    /// The value of exactly this key.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<&Value> {
        let found = self.entries.iter().find(|entry| entry.key == *key);
        found.map(|entry| &entry.value)
    }

    /// Entries in the order in which they are printed: IPv4 before IPv6, then by key, the more
    /// specific of two first.
    #[must_use]
    pub fn sorted(&self) -> Vec<&Entry> {
        let mut list: Vec<&Entry> = self.entries.iter().collect();
        let order = |key: &Key| match key {
            Key::V4(address, length) => (0, u128::from(*address), 255 - *length),
            Key::V6(address, length) => (1, *address, 255 - *length),
            Key::Mac(address, length) => (2, u128::from(*address), 255 - *length),
            Key::Number(number) => (3, u128::from(*number), 0),
            Key::Iface(_) | Key::Flow { .. } => (4, 0, 0),
        };
        list.sort_by_key(|entry| order(&entry.key));
        list
    }
}

fn system(code: &'static str, span: Span, message: String) -> Fault {
    Fault::new(ExitClass::System, code, span, message)
}

impl Ruleset {
    /// Makes the tables that a rule names and that don't exist yet.
    pub(super) fn make_tables_of(&mut self, rule: &Rule) -> Result<(), Fault> {
        let mut wanted: Vec<(String, TableType, Span)> = Vec::new();
        for one in &rule.body {
            let (name, kind) = match &one.pattern {
                Pattern::Src(Address::Table { name, .. })
                | Pattern::Dst(Address::Table { name, .. }) => (name, TableType::Addr),
                Pattern::Interface(_, InterfaceName::Table(name)) => (name, TableType::Iface),
                Pattern::SrcMac(name, _) | Pattern::DstMac(name, _) => (name, TableType::Mac),
                Pattern::Flow { table, .. } => (table, TableType::Flow(31)),
                Pattern::Lookup { key, table, .. } => (table, kind_of(*key)),
                _ => continue,
            };
            wanted.push((name.clone(), kind, one.place.0));
        }
        for (name, kind, span) in wanted {
            match self.table(&name) {
                None => self.tables.push(Table::new(&name, kind)),
                Some(table) if same_kind(table.kind, kind) => {}
                Some(table) => {
                    let message = format!(
                        "table {name} has type {}, which does not fit here",
                        print::table::type_name(table.kind)
                    );
                    return Err(
                        Fault::new(ExitClass::Unavailable, "table-type", span, message)
                            .help("use a table of another type, or another table"),
                    );
                }
            }
        }
        Ok(())
    }

    pub(super) fn table_command(
        &mut self,
        name: Option<&str>,
        command: &TableCommand,
        switches: Switches,
        span: Span,
        names: &dyn Names,
    ) -> Result<Answer, Fault> {
        let Some(name) = name else {
            return self.all_tables(command, switches, span);
        };
        let mut answer = Answer::default();
        match command {
            TableCommand::Create(options) => self.create(name, options, span)?,
            TableCommand::Add { entries, atomic } => {
                return self.add_entries(name, entries, *atomic, switches, span, names);
            }
            TableCommand::Delete(keys) => {
                return self.delete_entries(name, keys, switches, span, names);
            }
            TableCommand::Lookup(key) => {
                return self.lookup_entry(name, key, switches, names);
            }
            TableCommand::Swap(other) => self.swap(name, other, span)?,
            TableCommand::Limit(limit) => self.existing(name, span)?.limit = *limit,
            TableCommand::Lock(locked) => self.existing(name, span)?.locked = *locked,
            TableCommand::List => {
                let table = self.existing(name, span)?;
                answer.out = print::table::entries(table, switches.values_as_addresses);
            }
            TableCommand::Info | TableCommand::Detail => {
                self.existing(name, span)?;
                let detail = *command == TableCommand::Detail;
                answer.out = print::table::info(self, name, detail);
            }
            TableCommand::Flush => match self.table_mut(name) {
                Some(table) => table.entries.clear(),
                None if switches.quiet => {}
                None => answer
                    .err
                    .push(format!("failed to flush table {name} info")),
            },
            TableCommand::Destroy => self.destroy(name, switches, span, &mut answer)?,
        }
        Ok(answer)
    }

    fn existing(&mut self, name: &str, span: Span) -> Result<&mut Table, Fault> {
        self.table_mut(name).ok_or_else(|| {
            system("no-table", span, format!("table {name} does not exist"))
                .help("create it first: table NAME create")
        })
    }

    /// How many rules name a table.
    #[must_use]
    pub fn references(&self, name: &str) -> usize {
        let names = |pattern: &Pattern| match pattern {
            Pattern::Src(Address::Table { name: n, .. })
            | Pattern::Dst(Address::Table { name: n, .. })
            | Pattern::Interface(_, InterfaceName::Table(n))
            | Pattern::SrcMac(n, _)
            | Pattern::DstMac(n, _)
            | Pattern::Flow { table: n, .. }
            | Pattern::Lookup { table: n, .. } => n == name,
            _ => false,
        };
        let bodies = self.rules.iter().flat_map(|one| &one.rule.body);
        bodies.filter(|one| names(&one.pattern)).count()
    }

    fn destroy(
        &mut self,
        name: &str,
        switches: Switches,
        span: Span,
        answer: &mut Answer,
    ) -> Result<(), Fault> {
        if self.table(name).is_none() {
            if !switches.quiet {
                answer.err.push(format!("failed to destroy table {name}"));
            }
            return Ok(());
        }
        if self.references(name) > 0 {
            let message = format!("failed to destroy table {name}: a rule uses it");
            return Err(system("table-used", span, message).help("delete the rules first"));
        }
        self.tables.retain(|table| table.name != name);
        Ok(())
    }

    fn all_tables(
        &mut self,
        command: &TableCommand,
        switches: Switches,
        span: Span,
    ) -> Result<Answer, Fault> {
        let mut answer = Answer::default();
        let mut names: Vec<String> = self.tables.iter().map(|table| table.name.clone()).collect();
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        for name in names {
            if *command == TableCommand::List {
                answer.out += &print::table::header(&name);
            }
            let one = self.table_command(Some(&name), command, switches, span, &super::NO_NAMES);
            match one {
                Ok(one) => {
                    answer.out += &one.out;
                    answer.err.extend(one.err);
                }
                Err(fault) => answer.err.push(fault.message),
            }
        }
        Ok(answer)
    }

    fn create(&mut self, name: &str, options: &TableOptions, span: Span) -> Result<(), Fault> {
        if let Some(table) = self.table_mut(name) {
            if !options.missing {
                let message = "Table creation failed: File exists".to_owned();
                return Err(system("table-exists", span, message)
                    .help("write `missing`, or `or-flush`, to allow an existing table"));
            }
            let same = table.kind == options.kind
                && table.values == options.values
                && table.limit == options.limit
                && table.locked == options.locked;
            if !same {
                let message = "The existing table is not compatible with one you are creating.";
                return Err(Fault::data("table-exists", span, message)
                    .help("destroy it first, or create it with the same options"));
            }
            if options.or_flush {
                table.entries.clear();
            }
            return Ok(());
        }
        let max = self.settings.tables_max as usize;
        if self.tables.len() >= max {
            let message = format!("Table creation failed: {max} tables exist");
            return Err(
                system("too-many-tables", span, message).help("raise net.inet.ip.fw.tables_max")
            );
        }
        self.tables.push(Table {
            values: options.values.clone(),
            algorithm: options.algorithm.clone(),
            limit: options.limit,
            locked: options.locked,
            ..Table::new(name, options.kind)
        });
        Ok(())
    }

    fn swap(&mut self, name: &str, other: &str, span: Span) -> Result<(), Fault> {
        self.existing(name, span)?;
        self.existing(other, span)?;
        let at = |name: &str| self.tables.iter().position(|table| table.name == name);
        let (Some(a), Some(b)) = (at(name), at(other)) else {
            return Ok(());
        };
        let (one, two) = (&self.tables[a], &self.tables[b]);
        if one.kind != two.kind || one.values != two.values {
            return Err(
                Fault::usage("table-swap", span, "Unable to swap table: check types")
                    .help("tables of one type and one value type can be swapped"),
            );
        }
        let fits = |table: &Table, count: usize| table.limit == 0 || count <= table.limit as usize;
        if !fits(one, two.entries.len()) || !fits(two, one.entries.len()) {
            return Err(
                Fault::usage("table-swap", span, "Unable to swap table: check limits")
                    .help("raise the limit of the smaller table"),
            );
        }
        let kept = std::mem::take(&mut self.tables[a].entries);
        self.tables[a].entries = std::mem::replace(&mut self.tables[b].entries, kept);
        Ok(())
    }

    fn lookup_entry(
        &mut self,
        name: &str,
        word: &Placed,
        switches: Switches,
        names: &dyn Names,
    ) -> Result<Answer, Fault> {
        let unavailable = |message: String| {
            Fault::new(ExitClass::Unavailable, "no-entry", word.1, message)
                .help("see table NAME list")
        };
        let Some(table) = self.table(name) else {
            return Err(unavailable(format!("Table {name} not found")));
        };
        let key = entries::key(word, table.kind, names)?;
        let found = table
            .entries
            .iter()
            .filter(|entry| covers(&entry.key, &key));
        let longest = found.max_by_key(|entry| match entry.key {
            Key::V4(_, length) | Key::V6(_, length) | Key::Mac(_, length) => length,
            _ => 0,
        });
        let Some(entry) = longest else {
            return Err(unavailable(format!("Entry {} not found", word.0)));
        };
        Ok(Answer {
            out: print::table::entry(table, entry, switches.values_as_addresses) + "\n",
            ..Answer::default()
        })
    }

    fn add_entries(
        &mut self,
        name: &str,
        list: &[(Placed, Option<Placed>)],
        atomic: bool,
        switches: Switches,
        span: Span,
        names: &dyn Names,
    ) -> Result<Answer, Fault> {
        let mut answer = Answer::default();
        let mut made = None;
        if self.table(name).is_none() {
            let Some(kind) = list
                .first()
                .and_then(|(key, _)| entries::guess(&key.0, names))
            else {
                return Err(Fault::usage(
                    "table-key",
                    list.first().map_or(span, |(key, _)| key.1),
                    format!("Table {name} does not exist, cannot guess key type"),
                )
                .help("create the table first: table NAME create type TYPE"));
            };
            if !switches.quiet {
                answer.err.push(format!(
                    "DEPRECATED: inserting data into non-existent table {name}. (auto-created)"
                ));
            }
            made = Some(Table::new(name, kind));
        }
        let table = match &made {
            Some(table) => table,
            None => self.existing(name, span)?,
        };
        let (kind, kinds) = (table.kind, table.values.clone());
        let mut new = Vec::with_capacity(list.len());
        for (word, value) in list {
            let value = match value {
                Some(value) => entries::value(value, &kinds, names)?,
                None => Value::default(),
            };
            let key = entries::key(word, kind, names)?;
            new.push(Entry { key, value });
        }
        self.tables.extend(made);
        let table = self.existing(name, span)?;
        insert(table, new, atomic, switches, span, answer)
    }

    fn delete_entries(
        &mut self,
        name: &str,
        list: &[Placed],
        switches: Switches,
        span: Span,
        names: &dyn Names,
    ) -> Result<Answer, Fault> {
        let Some(table) = self.table_mut(name) else {
            return Err(
                Fault::data("no-table", span, format!("Table {name} does not exist"))
                    .help("create it first"),
            );
        };
        let mut answer = Answer::default();
        let mut failed = None;
        for word in list {
            let key = entries::key(word, table.kind, names)?;
            let at = table.entries.iter().position(|entry| entry.key == key);
            let shown = |value: &Value| {
                format!(
                    "{} {}\n",
                    key.text(table.kind),
                    value.text(&table.values, false)
                )
            };
            match at {
                Some(_) if table.locked => {
                    answer.out += &format!("ignored: {}", shown(&Value::default()));
                    failed = Some("table is locked");
                }
                Some(at) => {
                    let value = table.entries[at].value.clone();
                    answer.out += &format!("deleted: {}", shown(&value));
                    table.entries.remove(at);
                }
                None => {
                    answer.out += &format!("notfound: {}", shown(&Value::default()));
                    failed = failed.or(Some("record not found"));
                }
            }
        }
        finish(answer, failed, "Deleting record failed", switches, span)
    }
}

/// Puts entries in, and says of each what became of it.
fn insert(
    table: &mut Table,
    new: Vec<Entry>,
    atomic: bool,
    switches: Switches,
    span: Span,
    mut answer: Answer,
) -> Result<Answer, Fault> {
    let before = table.entries.clone();
    let mut failed = None;
    let mut lines: Vec<(&str, bool, Entry)> = Vec::new();
    for entry in new {
        let at = table.entries.iter().position(|old| old.key == entry.key);
        let full = table.limit != 0 && table.entries.len() >= table.limit as usize;
        let (word, kept) = match at {
            _ if table.locked => ("ignored", false),
            Some(at) if switches.quiet => {
                table.entries[at].value = entry.value.clone();
                ("updated", true)
            }
            Some(_) => ("exists", false),
            None if full => ("limit", false),
            None => {
                table.entries.push(entry.clone());
                ("added", true)
            }
        };
        if !kept {
            failed = failed.or(match word {
                "ignored" => Some("table is locked"),
                "exists" => Some("record already exists"),
                _ => Some("limit hit"),
            });
        }
        lines.push((word, kept, entry));
    }
    if atomic && failed.is_some() {
        table.entries = before;
    }
    for (word, kept, entry) in lines {
        let reverted = match atomic && failed.is_some() && kept {
            true => "(reverted)",
            false => "",
        };
        let shown = print::table::entry(table, &entry, switches.values_as_addresses);
        answer.out += &format!("{word}{reverted}: {shown}\n");
    }
    finish(answer, failed, "Adding record failed", switches, span)
}

fn finish(
    mut answer: Answer,
    failed: Option<&'static str>,
    what: &str,
    switches: Switches,
    span: Span,
) -> Result<Answer, Fault> {
    if switches.quiet {
        answer.out.clear();
        if failed != Some("table is locked") && failed != Some("limit hit") {
            return Ok(answer);
        }
    }
    match failed {
        None => Ok(answer),
        Some(why) => {
            let fault = system("table-entry", span, format!("{what}: {why}"));
            answer.fault = Some(fault.help(match why {
                "record already exists" => "-q updates entries that exist",
                "record not found" => "see table NAME list; -q passes over it",
                "table is locked" => "table NAME unlock",
                _ => "table NAME modify limit NUMBER",
            }));
            Ok(answer)
        }
    }
}

fn covers(entry: &Key, key: &Key) -> bool {
    match (entry, key) {
        (Key::V4(base, length), Key::V4(address, _)) => {
            address & prefix_mask(u32::from(*length), 32) as u32 == *base
        }
        (Key::V6(base, length), Key::V6(address, _)) => {
            address & prefix_mask(u32::from(*length), 128) == *base
        }
        (Key::Mac(base, length), Key::Mac(address, _)) => {
            address & prefix_mask(u32::from(*length), 48) as u64 == *base
        }
        _ => entry == key,
    }
}

fn kind_of(key: LookupKey) -> TableType {
    match key {
        LookupKey::DstIp | LookupKey::SrcIp => TableType::Addr,
        LookupKey::DstMac | LookupKey::SrcMac => TableType::Mac,
        _ => TableType::Number,
    }
}

fn same_kind(a: TableType, b: TableType) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}
