//! Commands that change one rule or one member of a set of what is enforced, in the words of
//! iptables and ipset.
//!
//! In: a namespace. Out: its texts with the command carried out, in force, whole or not at all,
//! with the counters of the rules that are still there and the time that members of sets have
//! left. The policy is compiled anew.

mod fold;
pub mod ipset;
pub mod iptables;
pub mod members;
pub mod sets;
pub mod tables;

pub use fold::{fold, parse_add};

use crate::enforce::{self, How};
use crate::exit::{Exit, failure};
use crate::input::{self, Loaded, Parsed};
use crate::kernel::Kernel;
use crate::rules::Places;
use crate::state::{Lock, Saved, SavedSource};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_policy::model::{Family, Policy, RuleId, SourceId, Table};
use weir_policy::syntax::Severity;

/// Where a line of a changed text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// Text and line of what was enforced.
    line: (SourceId, u32),
    /// Which of the rules of that line it is, and of how many.
    part: (usize, usize),
}

/// A text for the changed policy.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Its name.
    pub name: String,
    /// Its lines, and whose counters they go on with.
    pub lines: Vec<(String, Option<From>)>,
}

impl Text {
    pub(crate) fn push(&mut self, line: impl Into<String>) {
        self.lines.push((line.into(), None));
    }

    /// To be kept.
    pub fn saved(&self) -> SavedSource {
        SavedSource {
            name: changed(&self.name),
            text: self.lines.iter().fold(String::new(), |mut all, line| {
                all.push_str(&line.0);
                all.push('\n');
                all
            }),
        }
    }
}

/// What is enforced in a namespace, held so that nobody else changes it.
pub struct Held {
    kernel: Kernel,
    saved: Saved,
    loaded: Loaded,
    /// Seconds since it was put in force.
    elapsed: u64,
    now: u64,
    _lock: Lock,
}

/// What the lines of a changed text are told by: they are no longer those of the file. The end of
/// the name stays, as it may tell the family.
fn changed(name: &str) -> String {
    const CHANGED: &str = "changed:";
    match name.starts_with(CHANGED) {
        true => name.to_owned(),
        false => format!("{CHANGED}{name}"),
    }
}

/// Ids of the rules of each line, in order.
fn by_line(policy: &Policy) -> HashMap<(SourceId, u32), Vec<usize>> {
    let places = Places::of(policy);
    let mut out: HashMap<(SourceId, u32), Vec<usize>> = HashMap::new();
    for id in 0..policy.rule_count {
        if let Some(place) = places.get(RuleId(id)) {
            let line = (place.origin.source, place.origin.line);
            out.entry(line).or_default().push(id as usize);
        }
    }
    out
}

impl Held {
    /// What is enforced; nothing enforced is empty tables.
    pub fn open(netns: Option<&str>) -> anyhow::Result<Self> {
        let mut kernel = Kernel::open(netns)?;
        let lock = kernel.store.lock()?;
        kernel.refresh()?;
        kernel.keep_early();
        let saved = kernel.active_texts()?.unwrap_or_default();
        let others = crate::ipf::are_meant(&saved.sources, saved.dialect.as_deref())
            || crate::ipfw::are_meant(&saved.sources, saved.dialect.as_deref());
        if others {
            let message = "the policy that is enforced is not of iptables: `weir ipf` and \
                           `weir ipfw` change those";
            return Err(failure(Exit::Usage, message));
        }
        enforce::refuse_on_trial(&kernel.store)?;
        let loaded = input::load_saved(&saved)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        Ok(Held {
            elapsed: now.saturating_sub(saved.applied_at),
            kernel,
            saved,
            loaded,
            now,
            _lock: lock,
        })
    }

    /// The sets, as they are now.
    fn sets(&self) -> anyhow::Result<sets::Sets> {
        sets_of(&self.loaded, self.elapsed)
    }

    /// What the enforced rules have counted.
    fn counted(&self) -> anyhow::Result<Vec<(u64, u64)>> {
        if self.kernel.generation().is_none() {
            return Ok(Vec::new());
        }
        self.kernel.counted(self.loaded.policy()?.rule_count)
    }

    /// Puts these texts in force. They are read as what was enforced was; an error leaves that.
    fn replace(mut self, texts: Vec<Text>) -> anyhow::Result<()> {
        let changed = Saved {
            sources: texts.iter().map(Text::saved).collect(),
            applied_at: self.now,
            changed: None,
            ..self.saved.clone()
        };
        let loaded = input::lower_saved(&changed)?;
        if loaded.check_errors().is_err() {
            loaded.tell(Severity::Error);
        }
        let policy = loaded.policy()?;
        let counted = self.counted()?;
        let before = match counted.is_empty() {
            true => HashMap::new(),
            false => by_line(self.loaded.policy()?),
        };
        let mut was = vec![None; policy.rule_count as usize];
        for ((source, line), ids) in by_line(policy) {
            let text = texts.get(usize::from(source.0));
            let from = text.and_then(|text| text.lines.get(line as usize - 1)?.1);
            let Some((from, old)) = from.and_then(|f| Some((f, before.get(&f.line)?))) else {
                continue;
            };
            let (part, parts) = from.part;
            let mine = old.chunks(old.len().div_ceil(parts)).nth(part);
            for (id, old) in ids.iter().zip(mine.unwrap_or_default()) {
                was[*id] = Some(*old as u32);
            }
        }
        let compiled = loaded.compile()?;
        let how = How::going_on(was, counted);
        enforce::apply_locked(&mut self.kernel, &loaded, &compiled, &changed, &how)?;
        Ok(())
    }

    /// The texts of the rules as they are, for a change of sets.
    fn rule_texts(&self) -> anyhow::Result<Vec<Text>> {
        rule_texts(&self.loaded)
    }

    fn rules_name(&self, family: Family, otherwise: &str) -> String {
        rules_name(&self.loaded, family, otherwise)
    }

    /// The text of sets, none without any.
    fn set_text(&self, sets: &sets::Sets) -> Option<Text> {
        set_text(&self.loaded, sets)
    }
}

/// The sets of a policy that has been in force for so many seconds.
pub fn sets_of(loaded: &Loaded, elapsed: u64) -> anyhow::Result<sets::Sets> {
    let files = loaded.parsed.iter().filter_map(|(_, one)| match one {
        Parsed::Sets(file) => Some(file),
        Parsed::Rules(_) => None,
    });
    sets::Sets::of(files, elapsed)
}

/// The name of the first text of a kind.
fn name_of(loaded: &Loaded, is_wanted: impl Fn(&Parsed) -> bool, otherwise: &str) -> String {
    let mut all = loaded.parsed.iter();
    let first = all.find(|(_, parsed)| is_wanted(parsed));
    first.map_or_else(|| otherwise.to_owned(), |(id, _)| loaded.name(*id))
}

/// The name of the text of a family's rules, where nothing gave it one.
pub fn otherwise(family: Family) -> &'static str {
    match family {
        Family::V4 => "<iptables>",
        Family::V6 => "<ip6tables>",
    }
}

/// The name of the text of a family's rules.
pub fn rules_name(loaded: &Loaded, family: Family, otherwise: &str) -> String {
    let is_own = |parsed: &Parsed| matches!(parsed, Parsed::Rules(f) if f.family == family);
    name_of(loaded, is_own, otherwise)
}

fn rule_texts(loaded: &Loaded) -> anyhow::Result<Vec<Text>> {
    tables::texts(loaded, |family, all| rules_name(loaded, family, all))
}

/// The rules of a chain, as `iptables-save` prints them.
pub fn rule_lines(
    saved: &Saved,
    family: Family,
    table: Table,
    chain: &str,
) -> anyhow::Result<Vec<String>> {
    let loaded = input::parse_saved(saved)?;
    let all = tables::tables(&loaded, family)?;
    let chains = all.iter().filter(|one| one.table == table);
    let own = chains
        .flat_map(|one| &one.list)
        .find(|one| *one.name == *chain);
    let own = own.ok_or_else(|| failure(Exit::Usage, format!("there is no chain {chain}")))?;
    let line = |kept: &tables::Kept| tables::rule_line(&own.name, &kept.rule);
    Ok(own.rules.iter().map(line).collect())
}

/// The text of sets, none without any.
pub fn set_text(loaded: &Loaded, sets: &sets::Sets) -> Option<Text> {
    let name = name_of(
        loaded,
        |parsed| matches!(parsed, Parsed::Sets(_)),
        "<ipset>",
    );
    let mut text = Text {
        name,
        ..Text::default()
    };
    sets.print().lines().for_each(|line| text.push(line));
    (!text.lines.is_empty()).then_some(text)
}
