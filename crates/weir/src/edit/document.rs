//! The rules of the policy in force as text, changed one by one.
//!
//! In: a policy and its texts; changes. Out: where a rule stands that is told by its words, and the
//! texts with all changes, without reading or printing a rule again.

use crate::input::Loaded;
use crate::live::tables::{Chain, Chains, chain_line, heading, rule_line, tables};
use crate::live::{Text, otherwise, rules_name};
use crate::state::{ChainName, Numbers};
use std::collections::HashMap;
use std::sync::Arc;
use weir_policy::model::{ChainId, Family, Policy, Table};

/// A chain.
#[derive(Debug)]
pub struct Rules {
    /// Its name.
    pub name: ChainName,
    /// Its number in the policy.
    pub id: ChainId,
    /// The counters of its rules, in order.
    pub order: Vec<u32>,
    end: Option<u32>,
    /// The line that declares it.
    declared: String,
    /// The counters of its rules by their words.
    by_words: HashMap<Arc<str>, Vec<u32>>,
}

impl Rules {
    /// Number (from 0) of the first rule with these words.
    pub fn position(&self, words: &str) -> Option<usize> {
        match self.by_words.get(words)?.as_slice() {
            [one] => self.order.iter().position(|id| id == one),
            all => self.order.iter().position(|id| all.contains(id)),
        }
    }
}

/// A table as it is printed.
#[derive(Debug)]
enum Piece {
    /// One that is not enforced here.
    Kept(String),
    /// The chains of one that is, as numbers in [`Document::chains`].
    Chains(Table, Vec<usize>),
}

/// All texts of rules.
#[derive(Debug)]
pub struct Document {
    /// The chains, in the order of the policy.
    pub chains: Vec<Rules>,
    /// The words of rules by counter.
    lines: Vec<Option<Arc<str>>>,
    /// For each family its text's name and its tables.
    families: Vec<(Family, String, Vec<Piece>)>,
}

impl Document {
    /// Of a policy and its texts. `None`: its rules are not one by one those of the texts.
    pub fn of(loaded: &Loaded, policy: &Policy) -> anyhow::Result<Option<Self>> {
        let mut document = Document {
            chains: Vec::with_capacity(policy.chains.len()),
            lines: vec![None; policy.rule_count as usize],
            families: Vec::new(),
        };
        for (number, chain) in policy.chains.iter().enumerate() {
            let numbered =
                |(at, rule): (usize, &weir_policy::model::Rule)| rule.index as usize == at + 1;
            if !chain.rules.iter().enumerate().all(numbered) {
                return Ok(None);
            }
            document.chains.push(Rules {
                name: ChainName::of(chain.family, chain.table, &chain.name),
                id: ChainId(number as u32),
                order: chain.rules.iter().map(|rule| rule.id.0).collect(),
                end: chain.policy.map(|end| end.id.0),
                declared: String::new(),
                by_words: HashMap::new(),
            });
        }
        for family in [Family::V4, Family::V6] {
            let all = tables(loaded, family)?;
            let mut pieces = Vec::new();
            for chains in &all {
                let Some(piece) = document.piece(family, chains) else {
                    return Ok(None);
                };
                pieces.push(piece);
            }
            if !pieces.is_empty() {
                let name = rules_name(loaded, family, otherwise(family));
                document.families.push((family, name, pieces));
            }
        }
        let is_declared = |rules: &Rules| !rules.declared.is_empty();
        Ok(document.chains.iter().all(is_declared).then_some(document))
    }

    fn piece(&mut self, family: Family, chains: &Chains) -> Option<Piece> {
        if matches!(chains.table, Table::Nat | Table::Security) {
            let mut text = Text::default();
            chains.lines(&mut text);
            let lines = text.lines.iter().map(|(line, _)| format!("{line}\n"));
            return Some(Piece::Kept(lines.collect()));
        }
        let numbers = chains.list.iter().map(|chain| {
            let name = ChainName::of(family, chains.table, &chain.name);
            self.take_up(&name, chain)
        });
        Some(Piece::Chains(chains.table, numbers.collect::<Option<_>>()?))
    }

    fn take_up(&mut self, name: &ChainName, chain: &Chain) -> Option<usize> {
        let at = self.find(name)?;
        let rules = &mut self.chains[at];
        if rules.order.len() != chain.rules.len() {
            return None;
        }
        rules.declared = chain_line(chain);
        for (id, kept) in rules.order.iter().zip(&chain.rules) {
            let line: Arc<str> = rule_line(&chain.name, &kept.rule).into();
            rules
                .by_words
                .entry(Arc::clone(&line))
                .or_default()
                .push(*id);
            self.lines[*id as usize] = Some(line);
        }
        Some(at)
    }

    /// The number of a chain.
    pub fn find(&self, name: &ChainName) -> Option<usize> {
        self.chains.iter().position(|rules| rules.name == *name)
    }

    /// The line that declares a chain, where it has to be declared before it has rules.
    pub fn declared(&self, chain: usize) -> String {
        let rules = &self.chains[chain];
        match rules.end {
            Some(_) => String::new(),
            None => format!("{}\n", rules.declared),
        }
    }

    /// Notes a rule that came, in front of the one with a number (from 0).
    pub fn insert(&mut self, chain: usize, at: usize, id: u32, words: &str) {
        let words: Arc<str> = words.into();
        let rules = &mut self.chains[chain];
        rules.order.insert(at, id);
        rules
            .by_words
            .entry(Arc::clone(&words))
            .or_default()
            .push(id);
        let least = id as usize + 1;
        if self.lines.len() < least {
            self.lines.resize(least, None);
        }
        self.lines[id as usize] = Some(words);
    }

    /// Notes that the rule with a number is gone.
    pub fn delete(&mut self, chain: usize, at: usize) {
        let rules = &mut self.chains[chain];
        let id = rules.order.remove(at);
        let Some(words) = self.lines[id as usize].take() else {
            return;
        };
        if let Some(all) = rules.by_words.get_mut(&words) {
            all.retain(|one| *one != id);
            if all.is_empty() {
                rules.by_words.remove(&words);
            }
        }
    }

    /// The texts.
    pub fn texts(&self) -> Vec<Text> {
        let text = |(family, name, pieces): &(Family, String, Vec<Piece>)| {
            let mut all = format!("{}\n", heading(*family));
            for piece in pieces {
                match piece {
                    Piece::Kept(text) => all.push_str(text),
                    Piece::Chains(table, chains) => self.table(*table, chains, &mut all),
                }
            }
            all.truncate(all.trim_end().len());
            Text {
                name: name.clone(),
                lines: vec![(all, None)],
            }
        };
        self.families.iter().map(text).collect()
    }

    fn table(&self, table: Table, chains: &[usize], all: &mut String) {
        let name = crate::describe::table_name(table);
        all.push_str(&format!("*{name}\n"));
        for chain in chains {
            all.push_str(&self.chains[*chain].declared);
            all.push('\n');
        }
        for chain in chains {
            for id in &self.chains[*chain].order {
                all.push_str(self.lines[*id as usize].as_deref().unwrap_or_default());
                all.push('\n');
            }
        }
        all.push_str("COMMIT\n");
    }

    /// The counters of all chains.
    pub fn numbers(&self) -> Numbers {
        let one = |rules: &Rules| (rules.name.clone(), rules.end, rules.order.clone());
        Numbers {
            chains: self.chains.iter().map(one).collect(),
        }
    }
}
