//! Changes made in place of the policy in force, beside its texts, and what they are carried out
//! on.
//!
//! In: a change, before it is made. Out: all of them, for whoever reads the texts, who carries them
//! out first. A line is written by one call, and it is written before packets can meet the change;
//! what is saved is so always what is enforced, or, where a process died between the two, what the
//! next one will enforce. Nothing is synced to a disk: the folder is in memory and goes with the
//! machine, as does the policy in the kernel.
//!
//! The counters of rules are kept by their numbers in the kernel, which stay what they are as long
//! as a rule is there; reading texts anew would number rules otherwise. So the numbers are kept
//! too, chain by chain.
//!
//! Once in a while texts and numbers are written anew with all changes in them, under new names;
//! the manifest says which names count, and is exchanged whole.

use super::Store;
use super::saved::{Manifest, SavedSource};
use crate::exit::{Exit, OrExit, failure};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use weir_policy::model::{Family, Policy, RuleId, Table};

/// A chain, as texts name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChainName {
    /// 4 or 6.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
}

impl ChainName {
    /// Of a chain of a policy.
    pub fn of(family: Family, table: Table, chain: &str) -> Self {
        ChainName {
            family: match family {
                Family::V4 => 4,
                Family::V6 => 6,
            },
            table: crate::describe::table_name(table).to_owned(),
            chain: chain.to_owned(),
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A rule in front of the one with a number, from 1, with a counter; the rule as a line.
    Insert(ChainName, u32, u32, String),
    /// A rule in the place of the one with a number.
    Replace(ChainName, u32, u32, String),
    /// The rule with a number goes.
    Delete(ChainName, u32),
    /// A member as a line of a set file.
    Add(String),
    /// The same member goes.
    Del(String),
}

/// The counters of each chain: of its policy, and of its rules in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// By chain, in the order of the policy.
    pub chains: Vec<(ChainName, Option<u32>, Vec<u32>)>,
}

impl Numbers {
    fn chain(&mut self, name: &ChainName) -> Option<&mut Vec<u32>> {
        let found = self.chains.iter_mut().find(|chain| chain.0 == *name);
        found.map(|chain| &mut chain.2)
    }

    /// Carries out a change. `None`: there is no such chain or rule.
    pub fn carry_out(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Insert(name, number, id, _) => {
                let rules = self.chain(name)?;
                let at = (*number as usize).checked_sub(1)?;
                (at <= rules.len()).then(|| rules.insert(at, *id))
            }
            Step::Replace(name, number, id, _) => {
                let at = (*number as usize).checked_sub(1)?;
                *self.chain(name)?.get_mut(at)? = *id;
                Some(())
            }
            Step::Delete(name, number) => {
                let rules = self.chain(name)?;
                let at = (*number as usize).checked_sub(1)?;
                (at < rules.len()).then(|| {
                    rules.remove(at);
                })
            }
            Step::Add(_) | Step::Del(_) => Some(()),
        }
    }

    /// Gives the rules of a policy that was made of the texts their numbers. False: they are not
    /// those of this policy.
    pub fn give(&self, policy: &mut Policy) -> bool {
        let named = |(name, end, rules): &'_ (ChainName, Option<u32>, Vec<u32>)| {
            (name.clone(), (*end, rules.clone()))
        };
        let mut known: HashMap<_, _> = self.chains.iter().map(named).collect();
        let mut count = 0;
        for chain in &mut policy.chains {
            let name = ChainName::of(chain.family, chain.table, &chain.name);
            let Some((end, rules)) = known.remove(&name) else {
                return false;
            };
            if rules.len() != chain.rules.len() || end.is_some() != chain.policy.is_some() {
                return false;
            }
            count = rules
                .iter()
                .chain(&end)
                .fold(count, |all, id| all.max(id + 1));
            for (rule, id) in chain.rules.iter_mut().zip(rules) {
                rule.id = RuleId(id);
            }
            if let (Some(policy), Some(end)) = (&mut chain.policy, end) {
                policy.id = RuleId(end);
            }
        }
        policy.rule_count = count;
        true
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, end, rules) in &self.chains {
            let end = end.map_or_else(|| "-".to_owned(), |end| end.to_string());
            // A name of a chain has no blanks.
            let _ = write!(text, "{} {} {} {end}", name.family, name.table, name.chain);
            for id in rules {
                let _ = write!(text, " {id}");
            }
            text.push('\n');
        }
        text
    }

    fn read(text: &str) -> Option<Self> {
        let mut chains = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let name = ChainName {
                family: words.next()?.parse().ok()?,
                table: words.next()?.to_owned(),
                chain: words.next()?.to_owned(),
            };
            let end = match words.next()? {
                "-" => None,
                number => Some(number.parse().ok()?),
            };
            let rules: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
            chains.push((name, end, rules?));
        }
        Some(Numbers { chains })
    }
}

/// What changes are carried out on, and the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The counters of the texts' rules.
    pub numbers: Numbers,
    /// Changes since the texts were written.
    pub steps: Vec<Step>,
}

/// The name of a file of a policy's folder, as of how often its texts were written anew.
pub(super) fn part(base: u32, what: &str) -> String {
    match base {
        0 => what.to_owned(),
        base => format!("{base}.{what}"),
    }
}

const NUMBERS: &str = "numbers";
const JOURNAL: &str = "journal";

fn folder(generation: u32) -> String {
    format!("policy-{generation}")
}

impl Store {
    /// What was changed in place of a generation; `None`: nothing.
    pub(super) fn changed(&self, generation: u32, base: u32) -> std::io::Result<Option<Changed>> {
        let named = |what| format!("{}/{}", folder(generation), part(base, what));
        let Some(numbers) = self.read(&named(NUMBERS))? else {
            return Ok(None);
        };
        let damaged = |what: &str| {
            let at = folder(generation);
            std::io::Error::other(format!("{at}/{what} is damaged"))
        };
        let numbers = Numbers::read(&String::from_utf8_lossy(&numbers));
        let journal = self.read(&named(JOURNAL))?.unwrap_or_default();
        let journal = String::from_utf8_lossy(&journal).into_owned();
        // A line that was cut off was never answered.
        let whole = journal.rfind('\n').map_or("", |end| &journal[..end]);
        let step = |line: &str| serde_json::from_str(line).map_err(|_| damaged(JOURNAL));
        Ok(Some(Changed {
            numbers: numbers.ok_or_else(|| damaged(NUMBERS))?,
            steps: whole.lines().map(step).collect::<Result<_, _>>()?,
        }))
    }

    /// What tells that a generation's texts or changes are others than before.
    pub fn stamp(&self, generation: u32) -> Option<(u32, u64)> {
        let base = self.manifest(generation).ok()??.base;
        let journal = format!("{}/{}", folder(generation), part(base, JOURNAL));
        let found = std::fs::metadata(self.root.join(journal));
        Some((base, found.map_or(0, |found| found.len())))
    }
}

/// The changes of a generation, to be written.
pub struct Journal {
    store: Store,
    generation: u32,
    base: u32,
    file: File,
    length: u64,
    lines: usize,
}

impl Journal {
    /// Begins to write where texts have these numbers and no changes, or goes on behind the
    /// changes. The caller holds the lock.
    pub fn open(store: &Store, generation: u32, numbers: &Numbers) -> anyhow::Result<Self> {
        let failed = || format!("can't write in {}", store.root.display());
        let manifest = store.manifest(generation).or_exit(Exit::Kernel, failed())?;
        let base = manifest
            .ok_or_else(|| failure(Exit::Kernel, "the texts of the policy are gone"))?
            .base;
        let named = |what| format!("{}/{}", folder(generation), part(base, what));
        let known = store
            .read(&named(NUMBERS))
            .or_exit(Exit::Kernel, failed())?;
        if known.is_none() {
            let text = numbers.text();
            let kept = store.write(&named(NUMBERS), text.as_bytes());
            kept.or_exit(Exit::Kernel, failed())?;
        }
        let path = store.root.join(named(JOURNAL));
        let old = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            other => other.or_exit(Exit::Kernel, failed())?,
        };
        let whole = old.iter().rposition(|byte| *byte == b'\n');
        let length = whole.map_or(0, |end| end as u64 + 1);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.or_exit(Exit::Kernel, failed())?;
        file.set_len(length).or_exit(Exit::Kernel, failed())?;
        Ok(Journal {
            store: store.clone(),
            generation,
            base,
            file,
            length,
            lines: old.iter().filter(|byte| **byte == b'\n').count(),
        })
    }

    /// Changes since the texts were written.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Writes a change that is about to be made.
    pub fn write(&mut self, step: &Step) -> anyhow::Result<Written> {
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        let before = self.length;
        if let Err(error) = self.file.write_all(&line) {
            let _ = self.file.set_len(before);
            return Err(error).or_exit(Exit::Kernel, "can't write the journal");
        }
        self.length += line.len() as u64;
        self.lines += 1;
        Ok(Written(before))
    }

    /// Takes back the last change, which was not made.
    pub fn take_back(&mut self, written: Written) -> anyhow::Result<()> {
        let cut = self.file.set_len(written.0);
        cut.or_exit(Exit::Kernel, "can't write the journal")?;
        self.length = written.0;
        self.lines -= 1;
        Ok(())
    }

    /// Puts texts and numbers with all changes in the place of those that changes were carried out
    /// on.
    pub fn renew(&mut self, sources: &[SavedSource], numbers: &Numbers) -> anyhow::Result<()> {
        let failed = format!("can't write in {}", self.store.root.display());
        self.renew_io(sources, numbers)
            .or_exit(Exit::Kernel, failed)
    }

    fn renew_io(&mut self, sources: &[SavedSource], numbers: &Numbers) -> std::io::Result<()> {
        let folder = folder(self.generation);
        let store = &self.store;
        let Some(manifest) = store.manifest(self.generation)? else {
            return Err(ErrorKind::NotFound.into());
        };
        let base = self.base + 1;
        let at = |base, what: &str| store.root.join(&folder).join(part(base, what));
        for (number, source) in sources.iter().enumerate() {
            std::fs::write(at(base, &number.to_string()), &source.text)?;
        }
        std::fs::write(at(base, NUMBERS), numbers.text())?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(at(base, JOURNAL))?;
        file.set_len(0)?;
        let fresh = Manifest {
            base,
            sources: sources.iter().map(|source| source.name.clone()).collect(),
            ..manifest
        };
        let text = serde_json::to_vec(&fresh)?;
        store.write(&format!("{folder}/manifest.json"), &text)?;
        // From here on the others are nobody's.
        let old = std::mem::replace(&mut self.base, base);
        let names = (0..manifest.sources.len()).map(|number| number.to_string());
        for name in names.chain([NUMBERS.to_owned(), JOURNAL.to_owned()]) {
            let _ = std::fs::remove_file(at(old, &name));
        }
        (self.file, self.length, self.lines) = (file, 0, 0);
        Ok(())
    }
}

/// Where a change begins in the journal.
#[must_use]
pub struct Written(u64);
