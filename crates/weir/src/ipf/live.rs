//! The enforced IPFilter rules, for the commands of IPFilter users: read from the kernel's policy,
//! changed rule by rule, put in force again with the hits that they had.
//!
//! In: a namespace. Out: its lists with their hits, or another policy. The kernel takes a policy as
//! a whole, so a change is a new text, applied like any other: nothing is enforced in between that
//! is neither the old nor the new rules. The inactive lists are a text that is kept beside it.

use super::files::{Reading, Rules};
use super::parts::parts;
use crate::enforce::{self, How};
use crate::exit::{Exit, failure};
use crate::input::{self, ReadingArgs};
use crate::kernel::Kernel;
use crate::state::{Lock, Saved, SavedSource};
use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::dialect::ipf::families::Between;
use weir_policy::dialect::ipf::{Form, Kind, Language, PrintOptions, detect, print_rule};
use weir_policy::model::{Counters, Family};

/// Where the inactive lists are kept.
const INACTIVE: &str = "ipf-inactive";
/// Where the lists are kept that `ipf -D` switched off.
const DISABLED: &str = "ipf-disabled";
/// Name of a text that these commands made.
const NAME: &str = "<ipf>";

/// Which rules go on with the hits that they had. Rules are told by [`Live::key`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Hits<'a> {
    /// Of those, the ones that begin at zero.
    pub zeroed: &'a [String],
    /// Those that are still there; `None`: all that have the same words.
    pub kept: Option<&'a [String]>,
}

/// The rules of a namespace.
pub struct Live {
    /// The namespace.
    pub kernel: Kernel,
    /// Held from reading to writing, by commands that change something.
    lock: Option<Lock>,
    /// What is enforced.
    pub rules: Rules,
    /// Packets and bytes of each rule, as indices of `rules.set.rules`, then of what belongs to
    /// none of them.
    pub counters: Vec<Counters>,
    /// Tables that rules ask about, as they were given.
    pools: Vec<SavedSource>,
    /// What `set` said in front of the rules, or `ipf -T`: name, value.
    settings: Vec<(String, u32)>,
    language: Language,
    /// Seconds since the rules were applied, which `rule-ttl` counts.
    age: u32,
}

fn language_name(language: Language) -> &'static str {
    match language {
        Language::Ipf => "ipf",
        Language::Hpux => "hpux",
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// The rules of texts that were accepted before.
fn read_again(texts: &[SavedSource], language: Language) -> Rules {
    let reading = Reading {
        language,
        told: true,
        ..Reading::default()
    };
    Rules::of_texts(texts, &reading)
}

impl Live {
    /// The rules that are enforced; nothing enforced is empty lists.
    pub fn open(netns: Option<&str>) -> anyhow::Result<Self> {
        Live::of(Kernel::open(netns)?)
    }

    /// The same, to change them: nobody else does meanwhile.
    pub fn open_to_change(netns: Option<&str>) -> anyhow::Result<Self> {
        let mut kernel = Kernel::open(netns)?;
        let lock = kernel.store.lock()?;
        kernel.refresh()?;
        enforce::refuse_on_trial(&kernel.store)?;
        let mut live = Live::of(kernel)?;
        live.lock = Some(lock);
        Ok(live)
    }

    fn of(kernel: Kernel) -> anyhow::Result<Self> {
        let saved = kernel.active_texts()?.unwrap_or_default();
        let language = match saved.dialect.as_deref() {
            Some("hpux") => Language::Hpux,
            Some("ipf") => Language::Ipf,
            _ if saved.sources.is_empty() => Language::Ipf,
            None if super::are_meant(&saved.sources, None) => {
                let told = saved.sources.iter().map(|text| detect(&text.text));
                let hpux = |kind| kind == Some(Kind::Rules(Language::Hpux));
                match told.into_iter().any(hpux) {
                    true => Language::Hpux,
                    false => Language::Ipf,
                }
            }
            _ => {
                let message = "the enforced policy is not of IPFilter: `weir status` tells it, \
                    `weir unload` takes it away";
                return Err(failure(Exit::Unsupported, message));
            }
        };
        let rules = read_again(&saved.sources, language);
        let mut settings = Vec::new();
        for setting in rules.settings() {
            put(&mut settings, &setting.name, setting.value);
        }
        let age = now().saturating_sub(saved.applied_at);
        let mut counters = Vec::new();
        if !saved.sources.is_empty() {
            let loaded = input::load_saved(&saved)?;
            counters = kernel.counters(loaded.policy()?.rule_count)?;
        }
        let mut pools = Vec::new();
        for source in saved.sources {
            let own = parts(&source.text).into_iter();
            let own = own.filter(|(kind, _)| *kind == Some(Kind::Pools));
            pools.extend(own.map(|(_, text)| SavedSource {
                name: source.name.clone(),
                text: text.into_owned(),
            }));
        }
        Ok(Live {
            kernel,
            lock: None,
            rules,
            counters,
            pools,
            settings,
            language,
            age: u32::try_from(age).unwrap_or(u32::MAX),
        })
    }

    /// What `set` said: name, value.
    pub fn settings(&self) -> &[(String, u32)] {
        &self.settings
    }

    /// Says another value from the next [`Live::replace`] on.
    pub fn set(&mut self, name: &str, value: u32) {
        put(&mut self.settings, name, value);
    }

    /// Gives rules other tables from the next [`Live::replace`] on.
    pub fn set_pools(&mut self, text: String) {
        let name = "<ippool>".to_owned();
        self.pools = match text.is_empty() {
            true => Vec::new(),
            false => vec![SavedSource { name, text }],
        };
    }

    /// The form in which the rules are printed.
    pub fn form(&self) -> Form {
        Form::of(self.language)
    }

    /// The language of the rules.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Where nothing is enforced yet, or all that is gives way, rules to come are of HP-UX.
    pub fn speak_hpux(&mut self, all_go: bool) -> anyhow::Result<()> {
        match (self.language, all_go || self.listed().is_empty()) {
            (Language::Hpux, _) => {}
            (Language::Ipf, true) => {
                self.language = Language::Hpux;
                // Lists of the one language are none of the other's.
                (self.rules.set, self.counters) = Default::default();
            }
            (Language::Ipf, false) => {
                let message = "the enforced rules are not of HP-UX: flush them with -Fa first";
                return Err(failure(Exit::Usage, message));
            }
        }
        Ok(())
    }

    /// A rule as one line.
    pub fn line(&self, rule: &Rule) -> String {
        let options = PrintOptions {
            form: self.form(),
            ..PrintOptions::default()
        };
        print_rule(rule, &options)
    }

    /// The same without its position, by which rules are found again.
    pub fn key(&self, rule: &Rule) -> String {
        let mut plain = rule.clone();
        (plain.insert, plain.rule_ttl) = (None, None);
        let line = self.line(&plain);
        match (self.language, rule.family) {
            // The form has no word for it, and the same words may stand in the other list.
            (Language::Hpux, Some(Family::V6)) => line + " # ipv6",
            _ => line,
        }
    }

    fn text(&self, rules: &[Rule]) -> String {
        let mut between = Between::of(self.form(), rules.iter());
        let mut text = String::new();
        for rule in rules {
            text.extend(between.line(rule));
            text.extend([&*self.line(rule), "\n"]);
        }
        text
    }

    /// The rules in an order in which they can be read again: each list as packets meet it.
    pub fn listed(&self) -> Vec<Rule> {
        let rules = listed(&self.rules).into_iter();
        rules.filter_map(|rule| self.living(&rule)).collect()
    }

    /// An enforced rule with what is left of its time; `None` when that is over.
    pub fn living(&self, rule: &Rule) -> Option<Rule> {
        let mut rule = rule.clone();
        if let Some(seconds) = rule.rule_ttl {
            rule.rule_ttl = Some(seconds.checked_sub(self.age).filter(|left| *left > 0)?);
        }
        Some(rule)
    }

    /// The inactive lists.
    pub fn inactive(&self) -> anyhow::Result<Rules> {
        self.kept(INACTIVE)
    }

    fn kept(&self, name: &str) -> anyhow::Result<Rules> {
        let bytes = self.kernel.store.kept(name)?.unwrap_or_default();
        let mut texts = self.pools.clone();
        texts.push(SavedSource {
            name: NAME.to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        });
        Ok(read_again(&texts, self.language))
    }

    /// Keeps other inactive lists.
    pub fn set_inactive(&self, rules: &[Rule]) -> anyhow::Result<()> {
        self.keep(INACTIVE, rules)
    }

    fn keep(&self, name: &str, rules: &[Rule]) -> anyhow::Result<()> {
        debug_assert!(self.lock.is_some(), "opened to change");
        let text = self.text(rules);
        self.kernel.store.keep(name, text.as_bytes())
    }

    /// Exchanges the active and the inactive lists.
    pub fn swap(&mut self) -> anyhow::Result<()> {
        let (active, inactive) = (self.active()?, listed(&self.inactive()?));
        let none = Hits {
            kept: Some(&[]),
            ..Hits::default()
        };
        self.set_active(&inactive, none)?;
        self.set_inactive(&active)
    }

    /// Whether filtering is switched off. Lists that are enforced were applied since.
    pub fn is_off(&self) -> anyhow::Result<bool> {
        Ok(self.listed().is_empty() && self.kernel.store.kept(DISABLED)?.is_some())
    }

    /// The active lists: enforced, or, while filtering is off, those that will be.
    pub fn active(&self) -> anyhow::Result<Vec<Rule>> {
        Ok(match self.is_off()? {
            true => listed(&self.kept(DISABLED)?),
            false => self.listed(),
        })
    }

    /// Other active lists, which are enforced unless filtering is off.
    pub fn set_active(&mut self, rules: &[Rule], hits: Hits<'_>) -> anyhow::Result<()> {
        if !self.is_off()? {
            // What was kept by an earlier `-D` is over.
            self.kernel.store.forget(DISABLED)?;
            return self.replace(rules, hits);
        }
        self.keep(DISABLED, rules)?;
        eprintln!("weir: filtering is off: the lists are kept, `weir ipf -E` enforces them");
        Ok(())
    }

    /// Switches filtering off: everything passes until [`Live::enable`].
    pub fn disable(&mut self) -> anyhow::Result<()> {
        if self.is_off()? || self.kernel.generation().is_none() {
            return Ok(());
        }
        self.keep(DISABLED, &self.listed())?;
        self.replace(&[], Hits::default())
    }

    /// Switches filtering on again; where it is on, nothing happens.
    pub fn enable(&mut self) -> anyhow::Result<()> {
        if !self.is_off()? {
            return Ok(());
        }
        let rules = listed(&self.kept(DISABLED)?);
        self.replace(&rules, Hits::default())?;
        self.kernel.store.forget(DISABLED)
    }

    /// Puts other rules in force. Those that were there before go on with their hits and states.
    pub fn replace(&mut self, rules: &[Rule], hits: Hits<'_>) -> anyhow::Result<()> {
        debug_assert!(self.lock.is_some(), "opened to change");
        let mut sources = self.pools.clone();
        let set = |(name, value): &(String, u32)| format!("set {name} {value};\n");
        let settings: String = self.settings.iter().map(set).collect();
        sources.push(SavedSource {
            name: NAME.to_owned(),
            text: settings + &self.text(rules),
        });
        let reading = ReadingArgs {
            dialect: Some(language_name(self.language).to_owned()),
            ..ReadingArgs::default()
        };
        let loaded = input::load_texts(&sources, &reading)?;
        let compiled = loaded.compile()?;
        let made = read_again(&sources, self.language);
        let set = |keys: &'_ [String]| -> HashSet<String> { keys.iter().cloned().collect() };
        let (kept, zeroed) = (hits.kept.map(set), set(hits.zeroed));
        let mut known: HashMap<String, Vec<u32>> = HashMap::new();
        for (number, rule) in self.rules.set.rules.iter().enumerate().rev() {
            let key = self.key(rule);
            if kept.as_ref().is_none_or(|kept| kept.contains(&key)) {
                known.entry(key).or_default().push(number as u32);
            }
        }
        let keys: Vec<String> = made.set.rules.iter().map(|rule| self.key(rule)).collect();
        // The first of those that are alike is the first that was.
        let first = |key| known.get_mut(key).and_then(Vec::pop);
        let was: Vec<Option<u32>> = keys.iter().map(first).collect();
        let counted = self.counters.iter().map(|c| (c.packets, c.bytes));
        let mut how = How::going_on(was, counted.collect());
        for (key, count) in keys.iter().zip(&mut how.counters) {
            if zeroed.contains(key) {
                *count = (0, 0);
            }
        }
        let saved = Saved {
            sources,
            dialect: reading.dialect,
            names: loaded.answers.clone(),
            applied_at: now(),
            ..Saved::default()
        };
        enforce::apply_locked(&mut self.kernel, &loaded, &compiled, &saved, &how)?;
        (self.rules, self.age) = (made, 0);
        self.counters = self.kernel.counters(loaded.policy()?.rule_count)?;
        Ok(())
    }
}

/// The last value of a name counts.
fn put(settings: &mut Vec<(String, u32)>, name: &str, value: u32) {
    settings.retain(|known| !known.0.eq_ignore_ascii_case(name));
    settings.push((name.to_owned(), value));
}

/// The rules of all lists, each list in the order in which packets meet it.
pub fn listed(rules: &Rules) -> Vec<Rule> {
    let set = &rules.set;
    let lists = set.filter.iter().chain(&set.account);
    let numbers = lists.chain(set.groups.values()).flatten();
    let plain = numbers.map(|&number| Rule {
        insert: None,
        ..set.rules[number].clone()
    });
    plain.collect()
}
