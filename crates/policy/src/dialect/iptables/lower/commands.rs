//! Commands on chains: declare, create, delete, empty, rename, zero, set the policy.

use super::super::ast::{ChainLine, Name, StatementKind, Target};
use super::tables::{Entry, TableState};
use crate::model::{Counters, Origin};
use crate::syntax::{Diagnostic, Span};
use std::sync::Arc;

/// A command on chains. A warning is returned as an error that is none.
pub(super) fn command(
    table: &mut TableState<'_>,
    kind: &StatementKind,
    origin: Origin,
    at: Span,
) -> Result<(), Diagnostic> {
    match kind {
        StatementKind::Chain(line) => declare(table, line, origin, at),
        StatementKind::NewChain(name) => match table.by_name.get(name).copied() {
            Some(index) if table.chains[index].declared => Err(twice(table, index, at)),
            Some(index) => {
                table.chains[index].declared = true;
                Ok(())
            }
            None => {
                let index = table.create(name, origin, at);
                table.chains[index].declared = true;
                Ok(())
            }
        },
        StatementKind::Policy(name, verdict) => {
            let index = find(table, name, at)?;
            table.chains[index].policy = *verdict;
            table.chains[index].origin = origin;
            Ok(())
        }
        StatementKind::DeleteNumber(name, number) => {
            let index = find(table, name, at)?;
            let length = table.chains[index].rules.len();
            if *number as usize > length {
                let message =
                    format!("chain {name} has {length} rules here, so there is no {number}");
                return Err(Diagnostic::error("bad-rule-number", at, message)
                    .help("rules are numbered from 1"));
            }
            table.chains[index].rules.remove(*number as usize - 1);
            Ok(())
        }
        StatementKind::DeleteChain(name) => delete_chain(table, name.as_ref(), at),
        StatementKind::Flush(name) => {
            for index in chosen(table, name.as_ref(), at)? {
                table.chains[index].rules.clear();
            }
            Ok(())
        }
        StatementKind::Zero(name, number) => zero(table, name.as_ref(), *number, at),
        StatementKind::Rename(old, new) => rename(table, old, new, at),
        _ => Ok(()),
    }
}

fn twice(table: &TableState<'_>, index: usize, at: Span) -> Diagnostic {
    let chain = &table.chains[index];
    Diagnostic::error(
        "given-twice",
        at,
        format!("the chain `{}` is declared twice", chain.name),
    )
    .related(chain.at, "here first")
    .help("take one of them out")
}

fn declare(
    table: &mut TableState<'_>,
    line: &ChainLine,
    origin: Origin,
    at: Span,
) -> Result<(), Diagnostic> {
    let index = match table.by_name.get(&line.name) {
        Some(&index) => index,
        None => table.create(&line.name, origin, at),
    };
    let same_text = table.chains[index].at.source == at.source;
    let chain = &mut table.chains[index];
    let again = std::mem::replace(&mut chain.declared, true);
    if chain.hook.is_some() {
        if let Some(policy) = line.policy {
            chain.policy = policy;
            chain.origin = origin;
            chain.at = at;
            chain.preset = line.counters.unwrap_or_default();
        }
        return Ok(());
    }
    if !again {
        return Ok(());
    }
    if same_text {
        return Err(twice(table, index, at));
    }
    let lost = chain.rules.len();
    chain.rules.clear();
    if lost == 0 {
        return Ok(());
    }
    let message = format!(
        "declaring `{}` again empties it: {lost} rules are lost",
        line.name
    );
    Err(Diagnostic::warning("emptied-chain", at, message)
        .related(table.chains[index].at, "declared here before")
        .help("take this line out to keep them"))
}

fn find(table: &TableState<'_>, name: &Name, at: Span) -> Result<usize, Diagnostic> {
    table
        .by_name
        .get(name)
        .copied()
        .ok_or_else(|| table.unknown(name, at))
}

/// The named chain, or all of them.
fn chosen(table: &TableState<'_>, name: Option<&Name>, at: Span) -> Result<Vec<usize>, Diagnostic> {
    match name {
        Some(name) => Ok(vec![find(table, name, at)?]),
        None => Ok((0..table.chains.len())
            .filter(|&index| !table.chains[index].deleted)
            .collect()),
    }
}

fn delete_chain(
    table: &mut TableState<'_>,
    name: Option<&Name>,
    at: Span,
) -> Result<(), Diagnostic> {
    for index in chosen(table, name, at)? {
        let chain = &table.chains[index];
        if name.is_none() && (chain.hook.is_some() || !chain.declared) {
            continue;
        }
        if chain.hook.is_some() || chain.rules.len() > 0 {
            let reason = if chain.hook.is_some() {
                "is built in"
            } else {
                "is not empty"
            };
            let message = format!("the chain `{}` {reason} and cannot be deleted", chain.name);
            return Err(Diagnostic::error("bad-delete", at, message).help("empty it first with -F"));
        }
        table.by_name.remove(&table.chains[index].name);
        table.chains[index].deleted = true;
    }
    Ok(())
}

fn zero(
    table: &mut TableState<'_>,
    name: Option<&Name>,
    number: Option<u32>,
    at: Span,
) -> Result<(), Diagnostic> {
    for index in chosen(table, name, at)? {
        let positions: Vec<usize> = table.chains[index].rules.iter().collect();
        match number {
            None => {
                table.chains[index].preset = Counters::default();
                positions
                    .iter()
                    .for_each(|&entry| table.entries[entry].preset = Counters::default());
            }
            Some(number) => match positions.get(number as usize - 1) {
                Some(&entry) => table.entries[entry].preset = Counters::default(),
                None => {
                    let message = format!("there is no rule {number} here");
                    return Err(Diagnostic::error("bad-rule-number", at, message)
                        .help("rules are numbered from 1"));
                }
            },
        }
    }
    Ok(())
}

/// Jumps to a chain follow its new name in the kernel; here a chain that was renamed must not have
/// been used under its old name, so that no jump is read wrongly.
fn rename(table: &mut TableState<'_>, old: &Name, new: &Name, at: Span) -> Result<(), Diagnostic> {
    let index = find(table, old, at)?;
    if table.chains[index].hook.is_some() {
        let message = format!("the built-in chain `{old}` cannot be renamed");
        return Err(Diagnostic::error("bad-rename", at, message).help("take the line out"));
    }
    if let Some(&other) = table.by_name.get(new) {
        return Err(twice(table, other, at));
    }
    let uses = |entry: &&Entry<'_>| match &entry.rule.target {
        Some(Target::Jump(name, _) | Target::Goto(name, _)) => name == old,
        _ => false,
    };
    if let Some(entry) = table.entries.iter().find(uses) {
        let message = format!("renaming `{old}` after a rule has used it");
        return Err(Diagnostic::unsupported(at, message)
            .related(entry.at, "the rule that uses it")
            .help("write the new name in the rules"));
    }
    table.by_name.remove(old);
    table.by_name.insert(Arc::clone(new), index);
    table.chains[index].name = Arc::clone(new);
    Ok(())
}
