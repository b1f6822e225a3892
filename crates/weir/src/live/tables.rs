//! The tables of a family as lists of rules that can be changed.
//!
//! In: the files of a policy, whose commands are carried out in order as when they were read; a
//! rule with lists of addresses is one for each element, as numbers count them. Out: the tables,
//! and the same as text. What commands do is `iptables(8)`'s.

use super::{From, Text};
use crate::describe::table_name;
use crate::exit::{Exit, failure};
use crate::input::{Loaded, Parsed};
use std::sync::Arc;
use weir_policy::dialect::Headings;
use weir_policy::dialect::iptables::ast::{
    ChainLine, ChainVerdict, File, FileSource, Line, Name, Placement, Rule, RuleLine, Statement,
    StatementKind, Target,
};
use weir_policy::dialect::iptables::value::{Address, Addresses};
use weir_policy::dialect::iptables::{built_in_chains, print};
use weir_policy::model::{Family, SourceId, Table};
use weir_policy::syntax::{Place, Span};

/// A rule and whose counters it goes on with.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The rule; shared, so that a list of many is short.
    pub rule: Arc<Rule>,
    from: Option<From>,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name.
    pub name: Name,
    /// Its policy, if it is built in.
    pub policy: Option<ChainVerdict>,
    /// Its rules.
    pub rules: Vec<Kept>,
    from: Option<From>,
    /// Whether a file has rules of it before the line that declares it.
    ahead: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Chains {
    /// Which.
    pub table: Table,
    /// Its chains.
    pub list: Vec<Chain>,
}

/// What iptables says of a command that can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No such chain.
    NoChain,
    /// No such rule.
    NoRule,
    /// A number beyond the rules, of this command.
    Index(&'static str),
    /// A chain of that name.
    Exists,
    /// A chain with rules.
    NotEmpty,
    /// A chain that rules lead to.
    Used,
    /// A built-in chain, or none.
    BuiltIn,
}

impl Fault {
    /// In iptables' words.
    pub fn words(self) -> String {
        match self {
            Fault::NoChain => "No chain/target/match by that name.".to_owned(),
            Fault::NoRule => "Bad rule (does a matching rule exist in that chain?).".to_owned(),
            Fault::Index(what) => format!("Index of {what} too big."),
            Fault::Exists => "Chain already exists.".to_owned(),
            Fault::NotEmpty => "Directory not empty.".to_owned(),
            Fault::Used => "Too many links.".to_owned(),
            Fault::BuiltIn => "Bad built-in chain name.".to_owned(),
        }
    }
}

/// One rule for each pair of addresses.
pub fn elements(rule: &Rule) -> Vec<Rule> {
    let each = |all: &Option<Addresses>| -> Vec<Option<Addresses>> {
        let Some(all) = all else { return vec![None] };
        let one = |address: &Address| {
            Some(Addresses {
                first: address.clone(),
                more: Vec::new(),
                ..all.clone()
            })
        };
        all.iter().map(one).collect()
    };
    let mut out = Vec::new();
    for source in each(&rule.source) {
        for destination in each(&rule.destination) {
            out.push(Rule {
                source: source.clone(),
                destination,
                ..rule.clone()
            });
        }
    }
    out
}

impl Chains {
    fn new(table: Table) -> Self {
        let chain = |name: &&str| Chain {
            name: (*name).into(),
            policy: Some(ChainVerdict::Accept),
            rules: Vec::new(),
            from: None,
            ahead: false,
        };
        let list = built_in_chains(table).iter().map(chain).collect();
        Chains { table, list }
    }

    /// A chain.
    pub fn find(&mut self, name: &str) -> Result<&mut Chain, Fault> {
        let found = self.list.iter_mut().find(|chain| &*chain.name == name);
        found.ok_or(Fault::NoChain)
    }

    fn create(&mut self, name: &Name) -> &mut Chain {
        self.list.push(Chain {
            name: name.clone(),
            policy: None,
            rules: Vec::new(),
            from: None,
            ahead: false,
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn is_used(&self, name: &Name) -> bool {
        let leads = |kept: &Kept| match &kept.rule.target {
            Some(Target::Jump(to, _) | Target::Goto(to, _)) => to == name,
            _ => false,
        };
        self.list.iter().any(|chain| chain.rules.iter().any(leads))
    }

    /// Carries out a line of a file or a command. `from`: where a file has it.
    pub fn carry_out(
        &mut self,
        kind: &StatementKind,
        from: Option<(SourceId, u32)>,
    ) -> Result<(), Fault> {
        let whole = from.map(|line| From { line, part: (0, 1) });
        match kind {
            StatementKind::Rule(line) => return self.rule(line, from),
            StatementKind::Chain(line) => self.declare(line, whole),
            StatementKind::DeleteNumber(name, number) => {
                let rules = &mut self.find(name)?.rules;
                if *number as usize > rules.len() {
                    return Err(Fault::Index("deletion"));
                }
                rules.remove(*number as usize - 1);
            }
            StatementKind::NewChain(name) => match self.find(name) {
                Ok(chain) if chain.ahead => chain.ahead = false,
                Ok(_) => return Err(Fault::Exists),
                Err(_) => {
                    self.create(name);
                }
            },
            StatementKind::Policy(name, verdict) => {
                let chain = self.find(name)?;
                if chain.policy.is_none() {
                    return Err(Fault::BuiltIn);
                }
                (chain.policy, chain.from) = (Some(*verdict), whole.or(chain.from));
            }
            StatementKind::Flush(name) => {
                let all = self.list.iter_mut();
                let mut chosen = all.filter(|c| name.as_ref().is_none_or(|n| *n == c.name));
                let mut some = name.is_none();
                chosen.by_ref().for_each(|chain| {
                    chain.rules.clear();
                    some = true;
                });
                return if some { Ok(()) } else { Err(Fault::NoChain) };
            }
            StatementKind::DeleteChain(name) => return self.delete(name.as_ref()),
            StatementKind::Rename(old, new) => {
                if self.find(new).is_ok() {
                    return Err(Fault::Exists);
                }
                self.find(old)?.name = new.clone();
            }
            StatementKind::Zero(..)
            | StatementKind::Table(_)
            | StatementKind::Commit
            | StatementKind::Comment(_) => {}
        }
        Ok(())
    }

    fn declare(&mut self, line: &ChainLine, from: Option<From>) {
        match self.find(&line.name) {
            Ok(chain) if chain.policy.is_some() => {
                if line.policy.is_some() {
                    (chain.policy, chain.from) = (line.policy, from);
                }
            }
            Ok(chain) if chain.ahead => chain.ahead = false,
            Ok(chain) => chain.rules.clear(),
            Err(_) => {
                self.create(&line.name);
            }
        }
    }

    fn delete(&mut self, name: Option<&Name>) -> Result<(), Fault> {
        let Some(name) = name else {
            let list = self.list.clone();
            let own = list.iter().filter(|chain| chain.policy.is_none());
            return own
                .map(|chain| &chain.name)
                .try_for_each(|name| self.delete(Some(name)));
        };
        let chain = self.find(name)?;
        if chain.policy.is_some() {
            return Err(Fault::BuiltIn);
        }
        if !chain.rules.is_empty() {
            return Err(Fault::NotEmpty);
        }
        if self.is_used(name) {
            return Err(Fault::Used);
        }
        self.list.retain(|chain| chain.name != *name);
        Ok(())
    }

    fn rule(&mut self, line: &RuleLine, from: Option<(SourceId, u32)>) -> Result<(), Fault> {
        let each = elements(&line.rule);
        let parts = each.len();
        if from.is_some() && self.find(&line.chain).is_err() {
            self.create(&line.chain).ahead = true;
        }
        let rules = &mut self.find(&line.chain)?.rules;
        let kept = each.into_iter().enumerate().map(|(part, rule)| Kept {
            rule: Arc::new(rule),
            from: from.map(|line| From {
                line,
                part: (part, parts),
            }),
        });
        match line.placement {
            Placement::Append => rules.extend(kept),
            Placement::Insert(number) => {
                let at = number as usize - 1;
                if at > rules.len() {
                    return Err(Fault::Index("insertion"));
                }
                // Each element is put in at the same number, so that the last one is first.
                kept.for_each(|kept| rules.insert(at, kept));
            }
            Placement::Replace(number) => {
                let at = number as usize - 1;
                if at >= rules.len() {
                    return Err(Fault::Index("replacement"));
                }
                rules.splice(at..=at, kept);
            }
            Placement::Delete => {
                for wanted in kept {
                    let at = rules.iter().position(|kept| kept.rule == wanted.rule);
                    rules.remove(at.ok_or(Fault::NoRule)?);
                }
            }
        }
        Ok(())
    }

    /// Whether a chain has a rule, element by element.
    pub fn has(&mut self, line: &RuleLine) -> Result<bool, Fault> {
        let rules = &self.find(&line.chain)?.rules;
        let one = |rule: &Rule| rules.iter().any(|kept| *kept.rule == *rule);
        Ok(elements(&line.rule).iter().all(one))
    }

    /// Its lines.
    pub fn lines(&self, text: &mut Text) {
        text.push(format!("*{}", table_name(self.table)));
        for chain in &self.list {
            text.lines.push((chain_line(chain), chain.from));
        }
        for (chain, kept) in self.rules() {
            text.lines
                .push((rule_line(&chain.name, &kept.rule), kept.from));
        }
        text.push("COMMIT");
    }

    fn rules(&self) -> impl Iterator<Item = (&Chain, &Kept)> {
        self.list
            .iter()
            .flat_map(|chain| chain.rules.iter().map(move |kept| (chain, kept)))
    }
}

/// One statement as text.
fn printed(kind: StatementKind) -> String {
    let nowhere = Span::new(SourceId(0), 0, 0);
    let file = File {
        family: Family::V4,
        source: FileSource(SourceId(0)),
        statements: vec![Statement {
            at: Place(nowhere),
            line: Line::new(1, 1),
            kind,
        }],
    };
    print(&file).trim_end().to_owned()
}

/// The line that declares a chain.
pub fn chain_line(chain: &Chain) -> String {
    printed(StatementKind::Chain(ChainLine {
        name: chain.name.clone(),
        policy: chain.policy,
        counters: None,
    }))
}

/// A rule as `iptables-save` prints it.
pub fn rule_line(chain: &Name, rule: &Rule) -> String {
    printed(StatementKind::Rule(Box::new(RuleLine {
        placement: Placement::Append,
        chain: chain.clone(),
        chain_at: Place(Span::new(SourceId(0), 0, 0)),
        counters: None,
        rule: rule.clone(),
    })))
}

/// The tables of a family.
pub fn tables(loaded: &Loaded, family: Family) -> anyhow::Result<Vec<Chains>> {
    let mut out: Vec<Chains> = Vec::new();
    for (source, parsed) in &loaded.parsed {
        let Parsed::Rules(file) = parsed else {
            continue;
        };
        let mut now = None;
        let (mut of, mut headings) = (file.family, Headings::default());
        for statement in &file.statements {
            match (&statement.kind, now) {
                (StatementKind::Comment(text), _) => of = headings.note(text).unwrap_or(of),
                (StatementKind::Table(table), _) => {
                    now = (of == family).then(|| open(&mut out, *table));
                }
                (_, None) => {}
                (kind, Some(at)) => {
                    let from = (*source, statement.line.number);
                    out[at].carry_out(kind, Some(from)).map_err(|fault| {
                        let number = statement.line.number;
                        let place = format!("{}:{number}", loaded.name(*source));
                        failure(Exit::Usage, format!("{place}: {}", fault.words()))
                    })?;
                }
            }
        }
    }
    Ok(out)
}

/// The number of a table, which is made if it is not there.
pub fn open(all: &mut Vec<Chains>, table: Table) -> usize {
    let known = all.iter().position(|one| one.table == table);
    known.unwrap_or_else(|| {
        all.push(Chains::new(table));
        all.len() - 1
    })
}

/// The first line of the text of a family's tables, which tells the family.
pub fn heading(family: Family) -> &'static str {
    match family {
        Family::V4 => "# Kept by weir, as iptables-save has it",
        Family::V6 => "# Kept by weir, as ip6tables-save has it",
    }
}

/// The text of tables.
pub fn text(family: Family, name: String, all: &[Chains]) -> Text {
    let mut text = Text {
        name,
        ..Text::default()
    };
    text.push(heading(family));
    all.iter().for_each(|chains| chains.lines(&mut text));
    text
}

/// The texts of all families that have rules.
pub fn texts(loaded: &Loaded, name: impl Fn(Family, &str) -> String) -> anyhow::Result<Vec<Text>> {
    let mut out = Vec::new();
    for family in [Family::V4, Family::V6] {
        let all = tables(loaded, family)?;
        if !all.is_empty() {
            let name = name(family, super::otherwise(family));
            out.push(text(family, name, &all));
        }
    }
    Ok(out)
}
