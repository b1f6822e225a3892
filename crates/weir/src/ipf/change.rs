//! What `weir ipf` changes: lists are flushed, rules are added and removed, hits are zeroed, lists
//! are exchanged. In this order, whatever the order of the options: `-Fa -f FILE`, `-I -Fa -f FILE
//! -s` and `-rf -` mean what they mean on the original.
//!
//! In: the options and the enforced rules. Out: other rules in force, or other inactive lists.

use super::files::{Reading, Rules};
use super::live::{Hits, Live, listed};
use crate::exit::{Exit, failure};
use crate::interfaces;
use crate::output::Output;
use crate::state::SavedSource;
use weir_policy::dialect::ipf::Language;
use weir_policy::dialect::ipf::ast::{Direction, Rule};
use weir_policy::model::Family;
use weir_policy::syntax::Severity;

/// What to do.
#[derive(Debug, Default)]
pub struct Change<'a> {
    /// Lists to flush: `i`, `o`, `a`.
    pub flush: Vec<char>,
    /// Files of rules.
    pub files: &'a [SavedSource],
    /// The rules of the files are removed.
    pub remove: bool,
    /// The rules of the files are printed with their hits, which begin at zero then.
    pub zero: bool,
    /// All rules are printed with their hits, which begin at zero then.
    pub zero_all: bool,
    /// The inactive lists are meant.
    pub inactive: bool,
    /// Active and inactive lists are exchanged.
    pub swap: bool,
    /// Each rule is printed.
    pub verbose: bool,
}

/// Says of interfaces in rules to come that they aren't here.
fn tell_absent(rules: &[Rule]) {
    let names = rules
        .iter()
        .flat_map(|rule| rule.on.iter().chain(&rule.via));
    let names = names.flatten().map(|name| &**name);
    let absent = interfaces::absent_among(names.filter(|name| !["-", "*"].contains(name)));
    if let Some(remark) = interfaces::remark(&absent) {
        eprintln!("weir: warning: {remark}");
    }
}

impl Change<'_> {
    /// Whether nothing is asked for.
    pub fn is_nothing(&self) -> bool {
        self.flush.is_empty() && self.files.is_empty() && !self.zero_all && !self.swap
    }

    /// Does it.
    pub fn run(
        &self,
        live: &mut Live,
        reading: &Reading,
        out: &mut Output,
    ) -> anyhow::Result<Exit> {
        let before = match self.inactive {
            true => listed(&live.inactive()?),
            false => live.active()?,
        };
        let mut rules: Vec<Rule> = before.clone();
        // HP-UX has a list for each family.
        let family =
            (live.language() == Language::Hpux).then(|| reading.family.unwrap_or(Family::V4));
        let own = |rule: &Rule| family.is_none() || rule.family == family;
        rules.retain(|rule| !(own(rule) && self.flushes(rule)));
        let kept: Vec<String> = rules.iter().map(|rule| live.key(rule)).collect();
        let given = self.given(live, reading)?;
        if self.verbose {
            for rule in &given {
                out.line(live.key(rule))?;
            }
        }
        let mut keys: Vec<String> = given.iter().map(|rule| live.key(rule)).collect();
        let mut missing = Vec::new();
        match (self.remove, self.zero) {
            (true, _) => {
                for key in &keys {
                    match rules.iter().position(|rule| live.key(rule) == *key) {
                        Some(at) => drop(rules.remove(at)),
                        None => missing.push(key),
                    }
                }
            }
            (false, true) => missing = self.print_hits(live, &keys, out)?,
            (false, false) => {
                tell_absent(&given);
                rules.extend(given);
            }
        }
        for key in &missing {
            eprintln!("weir: no such rule: {key}");
        }
        let complete = missing.is_empty();
        if self.zero_all {
            keys = live.listed().iter().map(|rule| live.key(rule)).collect();
            self.print_hits(live, &keys, out)?;
        }
        let zeroes = self.zero || self.zero_all;
        let hits = Hits {
            zeroed: if zeroes { &keys } else { &[] },
            kept: Some(&kept),
        };
        match self.inactive {
            true => live.set_inactive(&rules)?,
            // What is flushed and loaded again has no hits.
            false if rules != before || zeroes || kept.len() < before.len() => {
                live.set_active(&rules, hits)?;
            }
            false => {}
        }
        if self.swap {
            live.swap()?;
        }
        Ok(match complete {
            true => Exit::Done,
            false => Exit::Negative,
        })
    }

    fn flushes(&self, rule: &Rule) -> bool {
        let own = match rule.direction {
            Direction::In => 'i',
            Direction::Out => 'o',
        };
        self.flush.iter().any(|&list| list == 'a' || list == own)
    }

    /// The rules of the files. Tables may be those of the enforced rules.
    fn given(&self, live: &Live, reading: &Reading) -> anyhow::Result<Vec<Rule>> {
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let hpux = live.language() == Language::Hpux;
        let reading = Reading {
            language: live.language(),
            told: true,
            family: reading.family.or(hpux.then_some(Family::V4)),
            ..reading.clone()
        };
        let mut rules = Rules {
            tables: live.rules.tables.clone(),
            ..Rules::default()
        };
        rules.file.language = reading.language;
        for text in self.files {
            rules.add_rules(&text.name, &text.text, &reading);
        }
        rules.load();
        // What they are together with those that are there is told when they are put in force.
        rules.diagnostics.retain(|found| found.code != "no-head");
        rules.tell(Severity::Warning);
        rules.check()?;
        Ok(rules.file.rules().cloned().collect())
    }

    fn print_hits<'k>(
        &self,
        live: &Live,
        keys: &'k [String],
        out: &mut Output,
    ) -> anyhow::Result<Vec<&'k String>> {
        if self.inactive {
            let message = "the inactive lists have no hits: -z is for the active ones";
            return Err(failure(Exit::Usage, message));
        }
        let mut missing = Vec::new();
        for key in keys {
            let at = live.rules.set.rules.iter();
            let Some(number) = at.clone().position(|rule| live.key(rule) == *key) else {
                missing.push(key);
                continue;
            };
            let hits = live.counters.get(number).copied().unwrap_or_default();
            out.line(format!("hits {} bytes {} {key}", hits.packets, hits.bytes))?;
        }
        Ok(missing)
    }
}
