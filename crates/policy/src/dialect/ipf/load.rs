//! Rules to lists: the order in which packets meet them.
//!
//! In: rules as read. Out: the two filter lists, the two accounting lists and the groups, sorted by
//! collection, with `@n` rules at their positions. Nothing is judged here. Groups are shared by
//! name; the first rule that goes into one says for which direction it is. Group 0 is none.

use super::ast::{Action, Direction, File, Matching, Name, Rule};
use crate::syntax::Diagnostic;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A list of rules, as indices of [`RuleSet::rules`].
pub type List = Vec<usize>;

/// Whether a group is for filtering or for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Filter rules.
    Filter,
    /// `count` rules.
    Account,
}

/// All lists of a rule set.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The rules, in the order of the text.
    pub rules: Vec<Rule>,
    /// Filter lists: in, out.
    pub filter: [List; 2],
    /// Accounting lists: in, out.
    pub account: [List; 2],
    /// Groups.
    pub groups: BTreeMap<(Unit, Name), List>,
}

impl RuleSet {
    /// The lists of a file, and what will never be run.
    #[must_use]
    pub fn of(file: &File) -> (Self, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let rules = once(file, &mut found);
        let mut set = Self::default();
        let mut directions: BTreeMap<(Unit, Name), Direction> = BTreeMap::new();
        let heads: BTreeSet<(Unit, Name)> = rules
            .iter()
            .flat_map(|rule| {
                let icmp = rule
                    .keep_state
                    .as_ref()
                    .and_then(|keep| keep.icmp_head.clone());
                let icmp = icmp.map(|name| (Unit::Filter, name));
                let head = rule.head.clone().map(|name| (unit(rule), name));
                head.into_iter().chain(icmp)
            })
            .collect();
        let mapped = rules
            .iter()
            .any(|rule| matches!(rule.action, Action::Call { .. }));
        for (index, rule) in rules.iter().enumerate() {
            let direction = rule.direction as usize;
            let Some(group) = &rule.group else {
                let lists = match unit(rule) {
                    Unit::Filter => &mut set.filter,
                    Unit::Account => &mut set.account,
                };
                insert(&mut lists[direction], &rules, index);
                continue;
            };
            let key = (unit(rule), group.clone());
            if !heads.contains(&key) && !mapped {
                let message = format!("no rule leads into group `{group}`: this is never run");
                let warning = Diagnostic::warning("no-head", rule.at.0, message);
                found.push(warning.help(format!("add `head {group}` to a rule")));
            }
            if *directions.entry(key.clone()).or_insert(rule.direction) != rule.direction {
                let message = format!("group `{group}` is for the other direction");
                let error = Diagnostic::error("group-direction", rule.at.0, message);
                found.push(error.help("use two groups"));
                continue;
            }
            insert(set.groups.entry(key).or_default(), &rules, index);
        }
        set.rules = rules;
        (set, found)
    }

    /// The members of a group.
    #[must_use]
    pub fn group(&self, unit: Unit, name: &Name) -> Option<&List> {
        self.groups.get(&(unit, name.clone()))
    }
}

/// The list that a rule is for.
#[must_use]
pub fn unit(rule: &Rule) -> Unit {
    match rule.action {
        Action::Count => Unit::Account,
        _ => Unit::Filter,
    }
}

/// Puts a rule into its list: behind its collection, or at its position in it.
fn insert(list: &mut List, rules: &[Rule], index: usize) {
    let rule = &rules[index];
    // Appending to the end is the common case; nothing is searched then.
    let after = match list.last() {
        Some(last) if rules[*last].collection <= rule.collection => list.len(),
        None => 0,
        Some(_) => list.partition_point(|at| rules[*at].collection <= rule.collection),
    };
    let at = match rule.insert {
        None => after,
        Some(position) => {
            let first = list.partition_point(|at| rules[*at].collection < rule.collection);
            let wanted = usize::try_from(position).unwrap_or(usize::MAX).max(1) - 1;
            first.saturating_add(wanted).min(after)
        }
    };
    list.insert(at, index);
}

/// The rules, each once: what an earlier rule of the same list says already is left out, as both
/// versions of the original leave it out.
fn once(file: &File, found: &mut Vec<Diagnostic>) -> Vec<Rule> {
    let mut seen: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut kept: Vec<Rule> = Vec::with_capacity(file.items.len());
    for rule in file.rules() {
        let rule = &of_main_list(rule);
        let earlier = seen.entry(print_of(rule)).or_default();
        match earlier.iter().find(|at| kept[**at].repeats(rule)) {
            Some(first) => {
                let message = "this rule is there already; it is loaded once";
                let warning = Diagnostic::warning("duplicate", rule.at.0, message)
                    .related(kept[*first].at.0, "the first one")
                    .help("take one of them out");
                found.push(warning);
            }
            None => {
                earlier.push(kept.len());
                kept.push(rule.clone());
            }
        }
    }
    kept
}

/// Group 0 is the list itself, and no group can be led into by that name.
fn of_main_list(rule: &Rule) -> Rule {
    let mut rule = rule.clone();
    for group in [&mut rule.group, &mut rule.head] {
        if group.as_deref() == Some("0") {
            *group = None;
        }
    }
    rule
}

/// Equal for rules that repeat each other, and seldom for others.
fn print_of(rule: &Rule) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        rule.direction,
        rule.quick,
        &rule.group,
        &rule.head,
        &rule.on,
    )
        .hash(&mut hasher);
    match &rule.matching {
        Matching::Fields(fields) => {
            format!("{:?}{:?}", fields.source, fields.destination).hash(&mut hasher);
            (fields.tos, fields.ttl, fields.icmp, fields.flags).hash(&mut hasher);
        }
        Matching::Bpf(_, text) => text.hash(&mut hasher),
        Matching::All | Matching::Expression(_) => {}
    }
    hasher.finish()
}
