//! The sets of a policy as lists of members that can be changed.
//!
//! In: the files of a policy and how long it has been in force. Out: the sets as they are now:
//! members whose time is over are gone, others have what is left of theirs; and the same as text.

use super::members::{self, ELEMENTS_MAX};
use crate::exit::{Exit, failure};
use weir_policy::dialect::ipset::ast::{
    Add, Create, File, Member, OptionValue, SetOption, Statement, StatementKind, option,
};
use weir_policy::dialect::ipset::print;
use weir_policy::dialect::iptables::ast::{FileSource, Line};
use weir_policy::model::SourceId;
use weir_policy::syntax::{Place, Span};

/// A set.
#[derive(Clone, Debug)]
pub struct Set {
    /// How it was made.
    pub create: Create,
    /// Its members, in the order in which they were added.
    pub members: Vec<Add>,
}

/// All sets, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The sets.
    pub list: Vec<Set>,
}

/// What ipset says of a command that can't be carried out.
pub const NO_SET: &str = "The set with the given name does not exist";

fn timeout(options: &[SetOption]) -> Option<u64> {
    match option(options, "timeout").map(|option| &option.value) {
        Some(OptionValue::Number(seconds)) => Some(*seconds),
        _ => None,
    }
}

fn nowhere() -> Span {
    Span::new(SourceId(0), 0, 0)
}

fn set_timeout(options: &mut Vec<SetOption>, seconds: u64) {
    let value = OptionValue::Number(seconds);
    match options.iter_mut().find(|option| option.name == "timeout") {
        Some(option) => option.value = value,
        None => options.insert(
            0,
            SetOption {
                name: "timeout",
                value,
                at: Place(nowhere()),
            },
        ),
    }
}

fn statement(kind: StatementKind) -> Statement {
    Statement {
        at: Place(nowhere()),
        line: Line::new(1, 1),
        kind,
    }
}

fn text(statements: Vec<Statement>) -> String {
    print(&File {
        source: FileSource(SourceId(0)),
        statements,
    })
}

/// A member as text, with its options.
pub fn member_text(add: &Add) -> String {
    let line = text(vec![statement(StatementKind::Add(add.clone()))]);
    let rest = line.trim_end().splitn(3, ' ').nth(2);
    rest.unwrap_or_default().to_owned()
}

/// How a set was made, as text, without `create`.
pub fn create_text(create: &Create) -> String {
    let line = text(vec![statement(StatementKind::Create(create.clone()))]);
    line.trim_end().trim_start_matches("create ").to_owned()
}

impl Set {
    /// Whether its members have lifetimes.
    pub fn has_timeouts(&self) -> bool {
        timeout(&self.create.options).is_some()
    }

    fn age(&mut self, elapsed: u64) {
        let usual = timeout(&self.create.options);
        self.members.retain_mut(|add| {
            let given = timeout(&add.options).or(usual);
            let Some(seconds) = given.filter(|seconds| *seconds > 0) else {
                return true;
            };
            let left = seconds.saturating_sub(elapsed);
            set_timeout(&mut add.options, left);
            left > 0
        });
    }

    /// Makes each member one element, so that one can be taken out of a range.
    fn expand(&mut self) -> anyhow::Result<()> {
        let mut out = Vec::with_capacity(self.members.len());
        for add in &self.members {
            let all = members::elements(&add.member, self.create.set_type).ok_or_else(too_many)?;
            out.extend(all.into_iter().map(|member| Add {
                member,
                ..add.clone()
            }));
        }
        self.members = out;
        Ok(())
    }

    /// Adds a member. `Ok(false)`: it is there, and not to be added again.
    pub fn add(&mut self, add: &Add, exist: bool) -> anyhow::Result<bool> {
        self.expand()?;
        let all = members::elements(&add.member, self.create.set_type).ok_or_else(too_many)?;
        for member in all {
            let mut add = Add {
                member,
                ..add.clone()
            };
            add.options.retain(|option| option.name != "-exist");
            match self.members.iter_mut().find(|one| one.member == add.member) {
                Some(_) if !exist => return Ok(false),
                Some(known) => *known = add,
                None => self.members.push(add),
            }
        }
        Ok(true)
    }

    /// Takes a member out. `Ok(false)`: it is not there.
    pub fn delete(&mut self, member: &Member, exist: bool) -> anyhow::Result<bool> {
        self.expand()?;
        for member in members::elements(member, self.create.set_type).ok_or_else(too_many)? {
            let before = self.members.len();
            self.members.retain(|one| one.member != member);
            if self.members.len() == before && !exist {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a member is in it: the most specific entry decides.
    pub fn has(&self, member: &Member) -> bool {
        let wide = |add: &Add| members::holds(&add.member, member);
        let holds = self
            .members
            .iter()
            .filter_map(|add| Some((wide(add)?, add)));
        let best = holds.min_by_key(|(wide, _)| *wide);
        best.is_some_and(|(_, add)| option(&add.options, "nomatch").is_none())
    }
}

fn too_many() -> anyhow::Error {
    let message = format!("a member stands for more than {ELEMENTS_MAX} elements");
    failure(Exit::Unsupported, message)
}

impl Sets {
    /// The sets of files that have been in force for so many seconds.
    pub fn of<'f>(files: impl Iterator<Item = &'f File>, elapsed: u64) -> anyhow::Result<Self> {
        let mut sets = Sets::default();
        for statement in files.flat_map(|file| &file.statements) {
            match &statement.kind {
                StatementKind::Comment(_) => {}
                StatementKind::Create(create) => sets.list.push(Set {
                    create: create.clone(),
                    members: Vec::new(),
                }),
                StatementKind::Flush(name) => {
                    if let Some(set) = sets.find(name) {
                        set.members.clear();
                    }
                }
                StatementKind::Add(add) => {
                    if let Some(set) = sets.find(&add.name) {
                        set.members.push(add.clone());
                    }
                }
            }
        }
        sets.list.iter_mut().for_each(|set| set.age(elapsed));
        Ok(sets)
    }

    /// A set.
    pub fn find(&mut self, name: &str) -> Option<&mut Set> {
        self.list.iter_mut().find(|set| &*set.create.name == name)
    }

    /// All sets as a file, with members only in the one with a number, which is to be this.
    pub fn with_members_of(&self, at: usize, own: &Set) -> File {
        let made = self
            .list
            .iter()
            .map(|set| StatementKind::Create(set.create.clone()));
        let members = own.members.iter().cloned().map(StatementKind::Add);
        debug_assert_eq!(self.list[at].create.name, own.create.name);
        File {
            source: FileSource(SourceId(0)),
            statements: made.chain(members).map(statement).collect(),
        }
    }

    /// The lines that make them.
    pub fn creates(&self) -> String {
        let one = |set: &Set| format!("create {}\n", create_text(&set.create));
        self.list.iter().map(one).collect()
    }

    /// The text of all.
    pub fn print(&self) -> String {
        let mut statements = Vec::new();
        for set in &self.list {
            statements.push(statement(StatementKind::Create(set.create.clone())));
        }
        for set in &self.list {
            let adds = set.members.iter().cloned().map(StatementKind::Add);
            statements.extend(adds.map(statement));
        }
        text(statements)
    }
}
