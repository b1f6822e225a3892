//! One rule of a command as a rule of the policy in force.
//!
//! In: its line, read, and the sets of the policy. Out: the rule, or why it can't be had alone:
//! what it remembers, jumps to, or asks of the whole policy.

use crate::input::{Loaded, Parsed};
use crate::live::tables::elements;
use crate::state::ChainName;
use weir_policy::dialect::ipset;
use weir_policy::dialect::iptables::ast::{
    File, Placement, RuleLine, Statement, StatementKind, Target,
};
use weir_policy::dialect::iptables::value::Value;
use weir_policy::dialect::iptables::{Input, LowerOptions, lower, parse_as};
use weir_policy::model::{Family, NamedSet, Rule, SourceId};

/// A command on one rule.
pub enum Command {
    /// One that tells a rule by its words.
    Rule(Box<RuleLine>),
    /// `-D CHAIN NUMBER`.
    DeleteNumber(u32),
}

/// What a command names.
pub struct Read {
    /// The command.
    pub command: Command,
    file: File,
}

/// The family of a request.
pub fn family(number: u8) -> Family {
    match number {
        6 => Family::V6,
        _ => Family::V4,
    }
}

/// Reads a command. `None`: it is another one, or wrong.
pub fn read(number: u8, table: &str, line: &str, declared: &str) -> Option<Read> {
    let text = format!("*{table}\n{declared}{line}\nCOMMIT\n");
    let (mut file, found) = parse_as(&text, SourceId(0), family(number));
    if found.iter().any(|one| one.is_error()) {
        return None;
    }
    let of_command = |kind: &StatementKind| {
        matches!(
            kind,
            StatementKind::Rule(_) | StatementKind::DeleteNumber(..)
        )
    };
    let at = file
        .statements
        .iter()
        .position(|one| of_command(&one.kind))?;
    let command = match &mut file.statements[at].kind {
        StatementKind::Rule(line) => {
            let own = line.clone();
            line.placement = Placement::Append;
            Command::Rule(own)
        }
        StatementKind::DeleteNumber(_, number) => Command::DeleteNumber(*number),
        _ => return None,
    };
    Some(Read { command, file })
}

/// The sets of a policy as rules name them.
pub struct SetNames {
    /// The lines that make them, read.
    pub file: ipset::File,
    /// Whether rules change sets: what asks for a set then is more than the set.
    pub change: bool,
    /// The kernel's time zone.
    pub kernel_zone: Option<i32>,
}

impl SetNames {
    /// Of the texts of a policy.
    pub fn of(loaded: &Loaded, creates: &str) -> Self {
        let (file, _) = ipset::parse(creates, SourceId(0));
        let sets = |one: &Statement| match &one.kind {
            StatementKind::Rule(line) => matches!(
                &line.rule.target,
                Some(Target::Module(instance)) if instance.spec.name == "SET"
            ),
            _ => false,
        };
        let rules = |(_, parsed): &(SourceId, Parsed)| match parsed {
            Parsed::Rules(file) => file.statements.iter().any(sets),
            Parsed::Sets(_) => false,
        };
        SetNames {
            file,
            change: loaded.parsed.iter().any(rules),
            kernel_zone: weir_plane::kernel_zone(),
        }
    }

    /// Whether rules that name a set can be had alone.
    fn is_plain(&self, name: &str) -> bool {
        let mut creates = self.file.statements.iter();
        !self.change
            && creates.any(|one| match &one.kind {
                ipset::ast::StatementKind::Create(create) => {
                    &*create.name == name && !create.set_type.kept
                }
                _ => false,
            })
    }
}

/// The rule of a command that brings one.
pub fn lowered(
    read: &Read,
    chain: &ChainName,
    names: &SetNames,
    sets: &[NamedSet],
) -> Result<Rule, &'static str> {
    let Command::Rule(line) = &read.command else {
        return Err("not a rule");
    };
    if line.counters.is_some() || elements(&line.rule).len() != 1 {
        return Err("several rules, or one with counters");
    }
    if matches!(line.rule.target, Some(Target::Jump(..) | Target::Goto(..))) {
        return Err("the rule leads to another chain");
    }
    let used = line.rule.matches.iter().flat_map(|one| &one.options);
    let mut used = used.filter_map(|option| match &option.value {
        Value::Set(used) => Some(&used.name),
        _ => None,
    });
    if !used.all(|name| names.is_plain(name)) {
        return Err("the rule names a set that rules change, or one that is not of addresses");
    }
    let inputs = [
        Input::Sets {
            name: "",
            file: &names.file,
        },
        Input::Rules {
            name: "",
            file: &read.file,
        },
    ];
    let options = LowerOptions {
        refuse_host_names: true,
        kernel_zone: names.kernel_zone,
        ..LowerOptions::default()
    };
    let (policy, _) = lower(&inputs, &options);
    let mut policy = policy.ok_or("the rule can't be had alone")?;
    let same = policy.sets.len() == sets.len()
        && policy.sets.iter().zip(sets).all(|(a, b)| a.name == b.name);
    if !same || !policy.histories.is_empty() || !policy.learners.is_empty() {
        return Err("the rule remembers something");
    }
    let is_own = |one: &&mut weir_policy::model::Chain| {
        ChainName::of(one.family, one.table, &one.name) == *chain
    };
    let rules = policy
        .chains
        .iter_mut()
        .find(is_own)
        .map(|one| &mut one.rules);
    let rules = rules.ok_or("the rule can't be had alone")?;
    match rules.len() {
        1 => Ok(rules.remove(0)),
        _ => Err("the rule can't be had alone"),
    }
}
