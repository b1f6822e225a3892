//! The texts of a policy with what was changed in place since they were written.
//!
//! In: texts as they are kept, and their journal ([`crate::state::Journal`]). Out: texts in which
//! the changes are carried out, and the kernel's numbers of their rules.

use super::tables::{Chains, open, tables, text};
use super::{rules_name, set_text, sets_of};
use crate::describe::table_name;
use crate::exit::{Exit, failure};
use crate::input::{self, Loaded};
use crate::state::{ChainName, Changed, Saved, SavedSource, Step};
use weir_policy::dialect::ipset;
use weir_policy::dialect::iptables::ast::{Placement, StatementKind};
use weir_policy::dialect::iptables::parse_as;
use weir_policy::model::{Family, SourceId, Table};

fn damaged() -> anyhow::Error {
    failure(Exit::Kernel, "the journal of the policy is damaged")
}

/// A rule of the journal: a line of a table, put where it goes.
fn rule(name: &ChainName, line: &str, to: Placement) -> anyhow::Result<StatementKind> {
    let text = format!("*{}\n{line}\nCOMMIT\n", name.table);
    let (mut file, found) = parse_as(&text, SourceId(0), family(name));
    let at = file
        .statements
        .iter()
        .position(|one| matches!(one.kind, StatementKind::Rule(_)));
    let at = at.filter(|_| !found.iter().any(|one| one.is_error()));
    match file.statements.swap_remove(at.ok_or_else(damaged)?).kind {
        StatementKind::Rule(mut line) => {
            line.placement = to;
            Ok(StatementKind::Rule(line))
        }
        _ => Err(damaged()),
    }
}

fn family(name: &ChainName) -> Family {
    match name.family {
        6 => Family::V6,
        _ => Family::V4,
    }
}

/// A member of the journal or of a request. `creates`: the lines that make all sets. `None`: what
/// is wrong is told by who reads the whole.
pub fn parse_add(creates: &str, member: &str) -> Option<ipset::ast::Add> {
    let text = format!("{creates}{member}\n");
    let (mut file, found) = ipset::parse(&text, SourceId(0));
    match file.statements.pop()?.kind {
        ipset::ast::StatementKind::Add(add) if !found.iter().any(|one| one.is_error()) => Some(add),
        _ => None,
    }
}

/// The tables of both families.
struct Both([Vec<Chains>; 2]);

impl Both {
    fn chains(&mut self, name: &ChainName) -> anyhow::Result<&mut Chains> {
        let all = &mut self.0[usize::from(name.family == 6)];
        let tables = [Table::Raw, Table::Mangle, Table::Filter];
        let table = tables
            .into_iter()
            .find(|one| table_name(*one) == name.table);
        let at = open(all, table.ok_or_else(damaged)?);
        Ok(&mut all[at])
    }

    fn carry_out(&mut self, step: &Step) -> anyhow::Result<()> {
        let (name, kind) = match step {
            Step::Insert(name, number, _, line) => {
                (name, rule(name, line, Placement::Insert(*number))?)
            }
            Step::Replace(name, number, _, line) => {
                (name, rule(name, line, Placement::Replace(*number))?)
            }
            Step::Delete(name, number) => {
                let chain = name.chain.as_str().into();
                (name, StatementKind::DeleteNumber(chain, *number))
            }
            Step::Add(_) | Step::Del(_) => return Ok(()),
        };
        let done = self.chains(name)?.carry_out(&kind, None);
        done.map_err(|_| damaged())
    }
}

/// The texts with the changes carried out.
fn texts(loaded: &Loaded, changed: &Changed) -> anyhow::Result<Vec<SavedSource>> {
    let mut both = Both([tables(loaded, Family::V4)?, tables(loaded, Family::V6)?]);
    let mut sets = sets_of(loaded, 0)?;
    let creates = sets.creates();
    for step in &changed.steps {
        both.carry_out(step)?;
        let (Step::Add(member) | Step::Del(member)) = step else {
            continue;
        };
        let add = parse_add(&creates, member).ok_or_else(damaged)?;
        let set = sets.find(&add.name).ok_or_else(damaged)?;
        match step {
            Step::Add(_) => set.add(&add, true)?,
            _ => set.delete(&add.member, true)?,
        };
    }
    let mut out: Vec<SavedSource> = set_text(loaded, &sets)
        .iter()
        .map(super::Text::saved)
        .collect();
    for (family, all) in [Family::V4, Family::V6].into_iter().zip(&both.0) {
        if !all.is_empty() {
            let name = rules_name(loaded, family, super::otherwise(family));
            out.push(text(family, name, all).saved());
        }
    }
    Ok(out)
}

/// What is enforced: the texts with what was changed in place.
pub fn fold(saved: Saved) -> anyhow::Result<Saved> {
    let Some(changed) = saved
        .changed
        .as_ref()
        .filter(|changed| !changed.steps.is_empty())
    else {
        return Ok(saved);
    };
    let mut numbers = changed.numbers.clone();
    for step in &changed.steps {
        numbers.carry_out(step).ok_or_else(damaged)?;
    }
    let loaded = input::parse_saved(&saved)?;
    Ok(Saved {
        sources: texts(&loaded, changed)?,
        changed: Some(Changed {
            numbers,
            steps: Vec::new(),
        }),
        ..saved
    })
}
