//! The syntax tree of an `iptables-save` or `ip6tables-save` file.
//!
//! One [`Statement`] a line, in the order written. Values are typed and canonical (names resolved,
//! masks applied, defaults that are always printed filled in), so that two spellings of one rule
//! give equal trees, and printing and reading again gives the same tree. Places never take part in
//! comparisons.

use super::grammar::{ModuleSpec, OptionSpec};
use super::value::{Addresses, InterfaceName, Value};
use crate::dialect::Headings;
use crate::model::{Counters, Family, SourceId, Table};
use crate::syntax::Place;
use std::sync::Arc;

/// A name of a chain, shared by all rules that use it.
pub type Name = Arc<str>;

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Family of the rules in it, up to a heading of the other family ([`File::families`]).
    pub family: Family,
    /// Which text it was read from; not compared.
    pub source: FileSource,
    /// Lines that say something, in order. Faulty lines are not among them.
    pub statements: Vec<Statement>,
}

impl File {
    /// The families of its tables.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let (mut headings, mut family) = (Headings::default(), self.family);
        let mut found = Vec::new();
        for statement in &self.statements {
            match &statement.kind {
                StatementKind::Comment(text) => family = headings.note(text).unwrap_or(family),
                StatementKind::Table(_) if !found.contains(&family) => found.push(family),
                _ => {}
            }
        }
        found
    }
}

/// The text a file was read from. Compares equal to any other, as places do.
#[derive(Clone, Copy, Debug)]
pub struct FileSource(pub SourceId);

impl PartialEq for FileSource {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line, from its first to its last word.
    pub at: Place,
    /// Its number and column.
    pub line: Line,
    /// What it says.
    pub kind: StatementKind,
}

/// A line number and the column of its first word, which take no part in comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Line, from 1.
    pub number: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl Line {
    /// The line with this number, starting at this column.
    #[must_use]
    pub fn new(number: u32, column: usize) -> Self {
        Self {
            number,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

impl PartialEq for Line {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `# text`, without the `#`.
    Comment(Box<str>),
    /// `*table`
    Table(Table),
    /// `COMMIT`
    Commit,
    /// `:chain policy [packets:bytes]`
    Chain(ChainLine),
    /// A rule that is added, put in or taken out.
    Rule(Box<RuleLine>),
    /// `-D chain number`
    DeleteNumber(Name, u32),
    /// `-N chain`
    NewChain(Name),
    /// `-P chain policy`
    Policy(Name, ChainVerdict),
    /// `-X [chain]`
    DeleteChain(Option<Name>),
    /// `-F [chain]`
    Flush(Option<Name>),
    /// `-E old new`
    Rename(Name, Name),
    /// `-Z [chain [number]]`
    Zero(Option<Name>, Option<u32>),
}

/// The end of a built-in chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainVerdict {
    /// `ACCEPT`
    Accept,
    /// `DROP`
    Drop,
}

/// `:chain policy [packets:bytes]`
#[derive(Clone, Debug, PartialEq)]
pub struct ChainLine {
    /// Its name.
    pub name: Name,
    /// `None` for `-`: a user chain, or a built-in one whose policy stays.
    pub policy: Option<ChainVerdict>,
    /// Counters, when written.
    pub counters: Option<Counters>,
}

/// Where a rule goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `-A`
    Append,
    /// `-I chain [number]`, from 1.
    Insert(u32),
    /// `-R chain number`
    Replace(u32),
    /// `-D chain rule`: takes out the first rule that is equal.
    Delete,
}

/// A rule with its chain.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLine {
    /// Where it goes.
    pub placement: Placement,
    /// The chain.
    pub chain: Name,
    /// Where the chain's name stands.
    pub chain_at: Place,
    /// Counters, from `[p:b]` or `-c`.
    pub counters: Option<Counters>,
    /// What it matches and does.
    pub rule: Rule,
}

/// What a rule matches and does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// `-4` or `-6`: the line is only for that family.
    pub only: Option<Family>,
    /// `-s`
    pub source: Option<Addresses>,
    /// `-d`
    pub destination: Option<Addresses>,
    /// `-i`
    pub in_interface: Option<Basic<InterfaceName>>,
    /// `-o`
    pub out_interface: Option<Basic<InterfaceName>>,
    /// `-p`
    pub protocol: Option<Basic<u8>>,
    /// `-f`
    pub fragment: Option<Basic<()>>,
    /// `-m` modules, in the order written.
    pub matches: Vec<Instance>,
    /// `-j` or `-g`; a rule without one only counts.
    pub target: Option<Target>,
}

/// One basic match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic<T> {
    /// `!` before it.
    pub negated: bool,
    /// Its value.
    pub value: T,
    /// The option and its value.
    pub at: Place,
}

/// A match or target module as used in one rule.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Which module.
    pub spec: &'static ModuleSpec,
    /// Its options: in the order in which they are printed, or as written where order is meaning.
    pub options: Vec<Opt>,
    /// The module's name, or its first option where the protocol loaded it.
    pub at: Place,
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.spec, other.spec) && self.options == other.options
    }
}

impl Instance {
    /// The option with this (printed) name.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&Opt> {
        self.options.iter().find(|option| option.spec.name == name)
    }
}

/// One option of a module.
#[derive(Clone, Debug)]
pub struct Opt {
    /// Which option.
    pub spec: &'static OptionSpec,
    /// `!` before it.
    pub negated: bool,
    /// Its value.
    pub value: Value,
    /// The option and its value; for a default that was filled in, the module.
    pub at: Place,
}

impl PartialEq for Opt {
    fn eq(&self, other: &Self) -> bool {
        self.spec.name == other.spec.name
            && self.negated == other.negated
            && self.value == other.value
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// `ACCEPT`, `DROP` or `RETURN`.
    Verdict(BuiltIn, Place),
    /// `-j` to a user chain.
    Jump(Name, Place),
    /// `-g` to a user chain.
    Goto(Name, Place),
    /// A target module.
    Module(Instance),
}

/// The targets that are no modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// `ACCEPT`
    Accept,
    /// `DROP`
    Drop,
    /// `RETURN`
    Return,
}

impl BuiltIn {
    /// The word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "ACCEPT",
            Self::Drop => "DROP",
            Self::Return => "RETURN",
        }
    }
}

/// The word for a table.
#[must_use]
pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Raw => "raw",
        Table::Mangle => "mangle",
        Table::Nat => "nat",
        Table::Filter => "filter",
        Table::Security => "security",
    }
}
