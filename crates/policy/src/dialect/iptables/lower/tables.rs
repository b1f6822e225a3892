//! The commands of the files, carried out in order: what `iptables-restore` would load.
//!
//! A file replaces the tables that it has. A further file adds to what earlier ones declared, as
//! with `--noflush`: a user chain that it declares again is emptied first. Rules with lists of
//! addresses become one entry for each element, and positions count entries.

use super::super::ast::{
    ChainVerdict, File, Name, Placement, Rule, RuleLine, Statement, StatementKind, table_name,
};
use super::Lowering;
use super::commands::command;
use super::hosts::Host;
use crate::dialect::Headings;
use crate::model::{Counters, Family, Hook, Origin, SourceId, Table};
use crate::syntax::diag::nearest;
use crate::syntax::{Diagnostic, Span};
use std::collections::HashMap;
use std::sync::Arc;

/// All tables of all families.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub(super) list: Vec<TableState<'a>>,
}

/// One table.
pub(super) struct TableState<'a> {
    pub(super) family: Family,
    pub(super) table: Table,
    pub(super) chains: Vec<ChainState>,
    pub(super) by_name: HashMap<Name, usize>,
    pub(super) entries: Vec<Entry<'a>>,
    /// The text and line that opened it last.
    opened: (SourceId, Span),
}

/// One chain.
pub(super) struct ChainState {
    pub(super) name: Name,
    /// The hook of a built-in chain.
    pub(super) hook: Option<Hook>,
    pub(super) policy: ChainVerdict,
    pub(super) preset: Counters,
    pub(super) origin: Origin,
    pub(super) at: Span,
    pub(super) rules: RuleList,
    /// A `:chain` or `-N` line was carried out (and not only seen ahead).
    pub(super) declared: bool,
    /// Taken out by `-X`.
    pub(super) deleted: bool,
}

/// One rule as the kernel would have it.
pub(super) struct Entry<'a> {
    pub(super) rule: &'a Rule,
    pub(super) source: Option<Host>,
    pub(super) destination: Option<Host>,
    pub(super) origin: Origin,
    pub(super) at: Span,
    pub(super) preset: Counters,
    /// The chain it jumps or goes to, once resolved.
    pub(super) jump: Option<usize>,
}

/// Rules of a chain as indices of entries. Rules put in at the front are kept apart, last first, so
/// that a file full of `-I` costs no more than one full of `-A`.
#[derive(Default)]
pub(super) struct RuleList {
    front: Vec<u32>,
    back: Vec<u32>,
}

impl RuleList {
    pub(super) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.front
            .iter()
            .rev()
            .chain(&self.back)
            .map(|&index| index as usize)
    }

    fn straighten(&mut self) {
        if !self.front.is_empty() {
            self.front.reverse();
            self.front.append(&mut self.back);
            std::mem::swap(&mut self.front, &mut self.back);
        }
    }

    /// Puts an entry in so that it has this index.
    fn insert(&mut self, at: usize, entry: u32) {
        if at == 0 {
            return self.front.push(entry);
        }
        if at == self.len() {
            return self.back.push(entry);
        }
        self.straighten();
        self.back.insert(at, entry);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.straighten();
        self.back.remove(at);
    }

    pub(super) fn clear(&mut self) {
        self.front.clear();
        self.back.clear();
    }
}

/// The hook of a built-in chain.
fn hook_of(table: Table, chain: &str) -> Option<Hook> {
    let hook = match chain {
        "PREROUTING" => Hook::Prerouting,
        "INPUT" => Hook::Input,
        "FORWARD" => Hook::Forward,
        "OUTPUT" => Hook::Output,
        "POSTROUTING" => Hook::Postrouting,
        _ => return None,
    };
    super::super::built_in_chains(table)
        .contains(&chain)
        .then_some(hook)
}

impl TableState<'_> {
    fn new(family: Family, table: Table, source: SourceId, at: Span, origin: Origin) -> Self {
        let mut state = Self {
            family,
            table,
            chains: Vec::new(),
            by_name: HashMap::new(),
            entries: Vec::new(),
            opened: (source, at),
        };
        for name in super::super::built_in_chains(table) {
            let name: Name = (*name).into();
            let index = state.create(&name, origin, at);
            state.chains[index].declared = true;
        }
        state
    }

    pub(super) fn create(&mut self, name: &Name, origin: Origin, at: Span) -> usize {
        let index = self.chains.len();
        self.chains.push(ChainState {
            name: Arc::clone(name),
            hook: hook_of(self.table, name),
            policy: ChainVerdict::Accept,
            preset: Counters::default(),
            origin,
            at,
            rules: RuleList::default(),
            declared: false,
            deleted: false,
        });
        self.by_name.insert(Arc::clone(name), index);
        index
    }

    /// The chain of this name, or a message that there is none.
    pub(super) fn unknown(&self, name: &str, at: Span) -> Diagnostic {
        const ALL: [Table; 4] = [Table::Raw, Table::Mangle, Table::Nat, Table::Filter];
        let own = |table: &Table| super::super::built_in_chains(*table).contains(&name);
        let owners: Vec<_> = ALL.into_iter().filter(own).map(table_name).collect();
        let table = table_name(self.table);
        if !owners.is_empty() {
            let message = format!("table {table} has no chain `{name}`");
            return Diagnostic::error("unknown-chain", at, message)
                .help(format!("move the line into table {}", owners.join(" or ")));
        }
        let names = self.by_name.keys().map(|name| &**name);
        Diagnostic::error(
            "unknown-chain",
            at,
            format!("table {table} has no chain `{name}`"),
        )
        .help(format!(
            "declare it with `:{name} - [0:0]`, or give the file that declares it too"
        ))
        .did_you_mean(name, names)
    }

    /// As [`Self::unknown`], for a target, which may be meant as a built-in one.
    pub(super) fn unknown_target(&self, name: &str, at: Span) -> Diagnostic {
        let known = super::super::grammar::names(super::super::grammar::Role::Target, self.family);
        let mut targets: Vec<&str> = vec!["ACCEPT", "DROP", "RETURN"];
        for name in known {
            targets.push(name);
        }
        targets.extend(self.by_name.keys().map(|name| &**name));
        let found = self.unknown(name, at);
        match nearest(name, targets) {
            Some(near) => found.help(format!("did you mean `{near}`?")),
            None => found,
        }
    }
}

/// State while one file is carried out.
struct Reading<'t, 'a> {
    tables: &'t mut Tables<'a>,
    file: &'a File,
    /// Of the tables that follow.
    family: Family,
    headings: Headings,
    current: Option<usize>,
    /// The chain used last, which the next rule probably uses too.
    last: Option<(Name, usize)>,
}

impl<'a> Lowering<'_> {
    /// Carries out the commands of a file.
    pub(super) fn carry_out(&mut self, file: &'a File, tables: &mut Tables<'a>) {
        let mut reading = Reading {
            tables,
            file,
            family: file.family,
            headings: Headings::default(),
            current: None,
            last: None,
        };
        for (index, statement) in file.statements.iter().enumerate() {
            match &statement.kind {
                StatementKind::Comment(text) => {
                    reading.family = reading.headings.note(text).unwrap_or(reading.family);
                }
                StatementKind::Table(table) => {
                    self.open(&mut reading, *table, statement);
                    look_ahead(&mut reading, &file.statements[index + 1..]);
                }
                StatementKind::Commit => reading.current = None,
                kind => {
                    if let Some(current) = reading.current {
                        self.in_table(&mut reading, current, statement, kind);
                    }
                }
            }
        }
    }

    fn open(&mut self, reading: &mut Reading<'_, 'a>, table: Table, statement: &Statement) {
        let family = reading.family;
        let source = reading.file.source.0;
        let at = statement.at.0;
        let origin = origin_of(reading.file, statement);
        reading.last = None;
        let list = &mut reading.tables.list;
        let known = list
            .iter()
            .position(|state| (state.family, state.table) == (family, table));
        let Some(index) = known else {
            list.push(TableState::new(family, table, source, at, origin));
            reading.current = Some(list.len() - 1);
            return;
        };
        reading.current = Some(index);
        if list[index].opened.0 == source {
            let name = table_name(table);
            let message = format!("this block replaces the earlier block of table {name}");
            let found = Diagnostic::warning("replaced-table", at, message)
                .related(list[index].opened.1, "the block that is lost")
                .help("join the two blocks, or put them into two files");
            self.report.diagnostics.push(found);
            list[index] = TableState::new(family, table, source, at, origin);
        }
        list[index].opened = (source, at);
    }

    /// One statement inside a table.
    fn in_table(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        current: usize,
        statement: &'a Statement,
        kind: &'a StatementKind,
    ) {
        let file = reading.file;
        let at = statement.at.0;
        let origin = origin_of(file, statement);
        if let StatementKind::Rule(line) = kind {
            let chain = match &reading.last {
                Some((name, index)) if Arc::ptr_eq(name, &line.chain) => Some(*index),
                _ => reading.tables.list[current]
                    .by_name
                    .get(&line.chain)
                    .copied(),
            };
            let Some(chain) = chain else {
                let found = reading.tables.list[current].unknown(&line.chain, line.chain_at.0);
                self.report.diagnostics.push(found);
                return;
            };
            reading.last = Some((Arc::clone(&line.chain), chain));
            return self.rule_line(&mut reading.tables.list[current], chain, line, origin, at);
        }
        reading.last = None;
        let table = &mut reading.tables.list[current];
        if let Err(found) = command(table, kind, origin, at) {
            self.report.diagnostics.push(found);
        }
    }

    fn rule_line(
        &mut self,
        table: &mut TableState<'a>,
        chain: usize,
        line: &'a RuleLine,
        origin: Origin,
        at: Span,
    ) {
        if line.rule.only.is_some_and(|only| only != table.family) {
            let message = "this line is only for the other address family and is left out here";
            let found = Diagnostic::warning("other-family", at, message);
            self.report
                .diagnostics
                .push(found.help("give the file for that family, too"));
            return;
        }
        let Some(sources) = self.hosts(line.rule.source.as_ref(), table.family) else {
            return;
        };
        let Some(destinations) = self.hosts(line.rule.destination.as_ref(), table.family) else {
            return;
        };
        let preset = line.counters.unwrap_or_default();
        let mut offset = 0;
        for &source in sources.as_slice() {
            for &destination in destinations.as_slice() {
                let rule = &line.rule;
                let entry = Entry {
                    rule,
                    source,
                    destination,
                    origin,
                    at,
                    preset,
                    jump: None,
                };
                if let Err(found) = place(table, chain, line, entry, offset) {
                    self.report.diagnostics.push(found);
                    return;
                }
                offset += 1;
            }
        }
    }
}

/// Creates the chains that the block declares, so that rules may use a chain before its line.
fn look_ahead(reading: &mut Reading<'_, '_>, statements: &[Statement]) {
    let Some(current) = reading.current else {
        return;
    };
    let table = &mut reading.tables.list[current];
    for statement in statements {
        let name = match &statement.kind {
            StatementKind::Commit | StatementKind::Table(_) => return,
            StatementKind::Chain(chain) => &chain.name,
            _ => continue,
        };
        if !table.by_name.contains_key(name) {
            table.create(name, origin_of(reading.file, statement), statement.at.0);
        }
    }
}

fn origin_of(file: &File, statement: &Statement) -> Origin {
    Origin {
        source: file.source.0,
        line: statement.line.number,
        column: statement.line.column,
    }
}

/// Puts an entry where its command says.
fn place<'a>(
    table: &mut TableState<'a>,
    chain: usize,
    line: &RuleLine,
    entry: Entry<'a>,
    offset: usize,
) -> Result<(), Diagnostic> {
    let at = entry.at;
    let index = u32::try_from(table.entries.len()).map_err(|_| {
        Diagnostic::error("too-many-rules", at, "more than 4,294,967,295 rules")
            .help("split the file")
    })?;
    let length = table.chains[chain].rules.len();
    let out_of_range = |number: u32| {
        let message = format!(
            "chain {} has {length} rules here, so there is no {number}",
            line.chain
        );
        Diagnostic::error("bad-rule-number", line.chain_at.0, message)
            .help("rules are numbered from 1")
    };
    match line.placement {
        Placement::Append => table.chains[chain].rules.insert(length, index),
        Placement::Insert(number) => {
            // All elements are put in at the same number, so that the last one comes first.
            let position = number as usize - 1;
            if position > length {
                return Err(out_of_range(number));
            }
            table.chains[chain].rules.insert(position, index);
        }
        Placement::Replace(number) => {
            let position = number as usize - 1;
            if offset > 0 {
                let message = "`-R` with several addresses";
                let found = Diagnostic::error("bad-rule-number", at, message);
                return Err(found.help("one rule can only be replaced by one rule"));
            }
            if position >= length {
                return Err(out_of_range(number));
            }
            table.chains[chain].rules.remove(position);
            table.chains[chain].rules.insert(position, index);
        }
        Placement::Delete => {
            let same = |&position: &usize| same_rule(&table.entries[position], &entry);
            let Some(position) = table.chains[chain].rules.iter().position(|at| same(&at)) else {
                let message = format!("chain {} has no such rule here", line.chain);
                let found = Diagnostic::error("no-such-rule", at, message);
                return Err(found.help("the rule has to be the same as the one that was added"));
            };
            table.chains[chain].rules.remove(position);
            return Ok(());
        }
    }
    table.entries.push(entry);
    Ok(())
}

/// Whether two entries match and do the same; counters do not count.
fn same_rule(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let negated = |addresses: &Option<super::super::value::Addresses>| {
        addresses
            .as_ref()
            .is_some_and(|addresses| addresses.negated)
    };
    a.source == b.source
        && a.destination == b.destination
        && negated(&a.rule.source) == negated(&b.rule.source)
        && negated(&a.rule.destination) == negated(&b.rule.destination)
        && a.rule.in_interface == b.rule.in_interface
        && a.rule.out_interface == b.rule.out_interface
        && a.rule.protocol == b.rule.protocol
        && a.rule.fragment == b.rule.fragment
        && a.rule.matches == b.rule.matches
        && a.rule.target == b.rule.target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_at_the_front_and_elsewhere_keep_order() {
        let mut list = RuleList::default();
        list.insert(0, 3);
        list.insert(0, 2);
        list.insert(2, 4);
        list.insert(0, 1);
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        list.insert(2, 9);
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2, 9, 3, 4]);
        list.remove(0);
        list.insert(0, 7);
        assert_eq!(list.iter().collect::<Vec<_>>(), [7, 2, 9, 3, 4]);
        assert_eq!(list.len(), 5);
    }
}
