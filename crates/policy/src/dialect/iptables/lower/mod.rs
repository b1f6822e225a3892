//! Syntax trees to rule model: several files (IPv4, IPv6, sets) become one policy.
//!
//! In: parsed files in the order given. Out: a [`Policy`] if nothing was wrong, and a
//! [`LowerReport`] with every located message. The commands of the files are carried out in order
//! (`tables`), jumps are resolved and what a rule may do where is checked (`check`), then every
//! rule becomes tests, operations and control flow (`rule`, `matches`, `targets`). What cannot be
//! honoured is refused by name (`refuse`). Rules of the nat table are kept out and counted.
//!
//! Nothing here does I/O: host names are resolved by the caller through [`Names`].

mod aside;
mod changing;
mod check;
mod commands;
mod emit;
mod hosts;
mod matches;
mod memory;
mod refuse;
mod sets;
mod tables;
mod targets;

use super::ast::File;
use crate::dialect::ipset;
use crate::model::{Family, HistoryObject, NamedSet, Policy, SetId};
use crate::syntax::{Diagnostic, Span};
use std::collections::HashMap;
use std::net::IpAddr;

/// One parsed file with the name that messages and counters show.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Rules.
    Rules {
        /// Name of the text.
        name: &'a str,
        /// What was read from it.
        file: &'a File,
    },
    /// Named sets.
    Sets {
        /// Name of the text.
        name: &'a str,
        /// What was read from it.
        file: &'a ipset::File,
    },
}

/// Answers for names in rules. The answers become part of the policy.
pub trait Names {
    /// The addresses of a host name.
    ///
    /// # Errors
    /// Why there are none.
    fn addresses(&self, name: &str, family: Family) -> Result<Vec<IpAddr>, String>;

    /// The number of a user.
    fn user(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }

    /// The number of a control group (cgroup v2) by its path below the root, and how many groups
    /// are above it.
    fn control_group(&self, _path: &str) -> Option<(u64, u32)> {
        None
    }

    /// The number of a group.
    fn group(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
}

/// How to lower.
#[derive(Clone, Copy, Default)]
pub struct LowerOptions<'a> {
    /// Who resolves names; without one, host names are refused.
    pub names: Option<&'a dyn Names>,
    /// Refuse host names even where they could be resolved.
    pub refuse_host_names: bool,
    /// Go on where a rule cannot be honoured, without becoming more open than written.
    pub allow_unsupported: bool,
    /// Seconds east of UTC of the kernel's time zone, which `--kerneltz` asks for.
    pub kernel_zone: Option<i32>,
}

/// What happened to a rule that cannot be honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The whole policy is refused, because without the rule it could be more open.
    Refused,
    /// Left out: treated as not matching, because it could only accept or note.
    LeftOut,
}

/// A rule that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Its line.
    pub at: Span,
    /// What is not supported.
    pub reason: String,
    /// What was done about it.
    pub treatment: Treatment,
}

/// A name that was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The name.
    pub name: String,
    /// Family of the addresses.
    pub family: Family,
    /// Addresses, sorted.
    pub addresses: Vec<IpAddr>,
    /// Where the name stands first.
    pub at: Span,
}

/// Everything that there is to say about a lowering.
#[derive(Clone, Debug, Default)]
pub struct LowerReport {
    /// Messages. An error among them means that there is no policy.
    pub diagnostics: Vec<Diagnostic>,
    /// Rules of the nat tables, which are not part of the policy.
    pub nat_rules: usize,
    /// Rules that cannot be honoured.
    pub affected: Vec<Affected>,
    /// Names that were resolved, sorted by family and name.
    pub resolved: Vec<Resolved>,
}

impl LowerReport {
    /// Whether something is wrong beyond what weir does not support (exit status 1, not 3).
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|found| found.is_error() && !found.is_unsupported())
    }

    /// Whether something is not supported.
    #[must_use]
    pub fn has_unsupported(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_unsupported)
    }
}

/// State of a lowering.
struct Lowering<'a> {
    options: LowerOptions<'a>,
    report: LowerReport,
    sets: Vec<NamedSet>,
    set_ids: HashMap<String, SetId>,
    /// Of each set, what the model does not keep.
    created: Vec<changing::Created>,
    /// The sets that rules change.
    changed: HashMap<SetId, changing::Changed>,
    histories: Vec<HistoryObject>,
    host_answers: HashMap<(Family, Box<str>), Option<Vec<u128>>>,
}

/// Makes one policy of the files.
#[must_use]
pub fn lower(inputs: &[Input<'_>], options: &LowerOptions<'_>) -> (Option<Policy>, LowerReport) {
    let mut lowering = Lowering {
        options: *options,
        report: LowerReport::default(),
        sets: Vec::new(),
        set_ids: HashMap::new(),
        created: Vec::new(),
        changed: HashMap::new(),
        histories: Vec::new(),
        host_answers: HashMap::new(),
    };
    for input in inputs {
        if let Input::Sets { file, .. } = input {
            lowering.add_sets(file);
        }
    }
    let mut tables = tables::Tables::default();
    for input in inputs {
        if let Input::Rules { file, .. } = input {
            lowering.carry_out(file, &mut tables);
        }
    }
    for table in &mut tables.list {
        check::check(table, &mut lowering.report);
    }
    lowering.find_changes(&tables);
    let policy = lowering.emit(&tables, source_names(inputs));
    let mut report = lowering.report;
    report
        .resolved
        .sort_by(|a, b| (a.family, &a.name).cmp(&(b.family, &b.name)));
    let failed = report.diagnostics.iter().any(Diagnostic::is_error);
    ((!failed).then_some(policy), report)
}

/// Names of the texts, by their number.
fn source_names(inputs: &[Input<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for input in inputs {
        let (name, source) = match input {
            Input::Rules { name, file } => (name, file.source.0),
            Input::Sets { name, file } => (name, file.source.0),
        };
        let index = usize::from(source.0);
        if names.len() <= index {
            names.resize(index + 1, String::new());
        }
        (*name).clone_into(&mut names[index]);
    }
    names
}
