//! Address tables of the enforced rules, for `weir ippool`: loaded, listed, changed, taken away.
//!
//! In: the tables that are there, and a change. Out: other tables. A file's table takes the place
//! of the one of the same role, kind and name. A change takes effect with the rules, all at once,
//! and where rules would ask for a table that is gone, nothing changes.

use super::files::Rules;
use crate::exit::{Exit, failure};
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::ast::{Name, PoolEntry};
use weir_policy::dialect::ipf::pool::{self, Entry, Role, Shape, Table};

/// Which tables are meant; what isn't said means all.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// `-m`
    pub name: Option<String>,
    /// `-o`
    pub role: Option<String>,
    /// `-t`
    pub kind: Option<String>,
}

fn kind(table: &Table) -> &'static str {
    match table.shape {
        Shape::Tree => "tree",
        Shape::Hash => "hash",
        Shape::Map { .. } => "group-map",
        Shape::Destinations(_) => "dstlist",
    }
}

impl Which {
    fn means(&self, table: &Table) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|w| w == own);
        is(&self.name, table.name.as_deref().unwrap_or_default())
            && is(&self.role, table.role.word())
            && is(&self.kind, kind(table))
    }

    /// The same for one table: without `-o` that of role ipf, as the original's ippool has it.
    fn one(&self) -> Which {
        let role = self.role.clone().unwrap_or_else(|| "ipf".to_owned());
        Which {
            role: Some(role),
            ..self.clone()
        }
    }

    /// What to say where nothing is meant.
    fn missing(&self) -> anyhow::Error {
        let name = self.name.as_deref().unwrap_or("that kind");
        let role = self.role.as_deref().unwrap_or("ipf");
        let message = format!("there is no table {name} of role {role} (-o names another role)");
        failure(Exit::Negative, message)
    }
}

/// The role that a word of `-o` names.
pub fn role(word: &str) -> anyhow::Result<Role> {
    Ok(match word {
        "ipf" => Role::Ipf,
        "nat" => Role::Nat,
        "auth" => Role::Auth,
        "count" => Role::Count,
        "all" => Role::All,
        other => return Err(failure(Exit::Usage, format!("-o {other}: no such role"))),
    })
}

/// The tables of rules, each with the files that it names as absolute paths.
pub fn tables(rules: &Rules) -> Vec<Table> {
    let all = rules.pools.iter().flat_map(|file| &file.tables);
    all.cloned().collect()
}

/// Names in a table files by absolute paths, so that it may be printed to somewhere else.
pub fn anchor(table: &mut Table, file: &Path) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let full = |path: &Name| -> Name {
        let joined: PathBuf = folder.join(&**path);
        let full = std::path::absolute(&joined).unwrap_or(joined);
        Name::from(full.display().to_string())
    };
    for entry in &mut table.entries {
        match entry {
            Entry::File(path) | Entry::Whois(path) => *path = full(path),
            Entry::Address(..) => {}
        }
    }
}

/// The text of tables.
pub fn text(tables: Vec<Table>) -> String {
    pool::print(&pool::File { tables })
}

/// The tables that are meant.
pub fn meant(tables: &[Table], which: &Which) -> Vec<Table> {
    let own = tables.iter().filter(|table| which.means(table));
    own.cloned().collect()
}

fn same(one: &Table, other: &Table) -> bool {
    (kind(one), one.role, &one.name) == (kind(other), other.role, &other.name)
}

/// Adds tables; those of the same role, kind and name give way.
pub fn load(tables: &mut Vec<Table>, given: Vec<Table>) {
    for table in given {
        tables.retain(|known| !same(known, &table));
        tables.push(table);
    }
}

/// Takes tables away that are in a file.
pub fn unload(tables: &mut Vec<Table>, given: &[Table]) -> anyhow::Result<()> {
    for table in given {
        let before = tables.len();
        tables.retain(|known| !same(known, table));
        if tables.len() == before {
            let name = table.name.as_deref().unwrap_or("?");
            return Err(failure(Exit::Negative, format!("there is no table {name}")));
        }
    }
    Ok(())
}

/// Takes tables away that are meant; how many.
pub fn flush(tables: &mut Vec<Table>, which: &Which) -> usize {
    let before = tables.len();
    tables.retain(|table| !which.means(table));
    before - tables.len()
}

/// Adds an empty table.
pub fn add(tables: &mut Vec<Table>, which: &Which, seed: Option<u32>) -> anyhow::Result<()> {
    let Some(name) = &which.name else {
        return Err(failure(Exit::Usage, "-A: give the name with -m"));
    };
    let role = role(which.role.as_deref().unwrap_or("ipf"))?;
    let shape = match which.kind.as_deref() {
        None | Some("tree") => Shape::Tree,
        Some("hash") => Shape::Hash,
        Some(other) => {
            let message = format!("-t {other}: `tree` and `hash` can be added without a file");
            return Err(failure(Exit::Usage, message));
        }
    };
    let table = Table {
        at: weir_policy::syntax::Place::default(),
        role,
        shape,
        name: Some(Name::from(name.as_str())),
        size: None,
        seed,
        entries: Vec::new(),
    };
    if tables.iter().any(|known| same(known, &table)) {
        return Err(failure(
            Exit::Negative,
            format!("table {name} is there already"),
        ));
    }
    tables.push(table);
    Ok(())
}

/// An address with its mask, as it stands in a file of addresses.
fn entry(address: &str) -> anyhow::Result<PoolEntry> {
    let found = pool::addresses_of(address);
    let words = address.split_whitespace().count() == 1 && !address.contains('#');
    match found.as_slice() {
        [entry] if words => Ok(*entry),
        _ => Err(failure(Exit::Usage, format!("-i {address}: no address"))),
    }
}

/// Adds an address to the tables that are meant, or takes it out.
pub fn change(
    tables: &mut [Table],
    which: &Which,
    address: &str,
    remove: bool,
) -> anyhow::Result<()> {
    let own = entry(address)?;
    let which = which.one();
    let mut known = false;
    for table in tables.iter_mut().filter(|table| which.means(table)) {
        known = true;
        let own = Entry::Address(own, None);
        let there = table.entries.contains(&own);
        match remove {
            true if !there => {
                let message = format!("{address} is not in the table");
                return Err(failure(Exit::Negative, message));
            }
            true => table.entries.retain(|entry| *entry != own),
            false if there => {
                let message = format!("{address} is in the table already");
                return Err(failure(Exit::Negative, message));
            }
            false => table.entries.push(own),
        }
    }
    known.then_some(()).ok_or_else(|| which.missing())
}

/// Takes away one table.
pub fn remove(tables: &mut Vec<Table>, which: &Which) -> anyhow::Result<()> {
    if which.name.is_none() {
        return Err(failure(Exit::Usage, "-R: give the name with -m"));
    }
    match flush(tables, &which.one()) {
        0 => Err(which.missing()),
        _ => Ok(()),
    }
}
