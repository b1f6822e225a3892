//! What a policy has that outlasts or changes a packet, by names that two policies share.
//!
//! In: a policy. Out: for each condition that is no function of the packet the text by which it is
//! the same condition in another policy, which rules are asked for as proposers, and which fields
//! rules change. Two things that remember are the same if their parameters, the tests in front of
//! them in their rule, and their number among such rules of the policy are the same; named ones
//! (recent, hashlimit) share memory by name.

use super::walk::nested;
use crate::model::{
    Cond, Flow, HistoryId, HistoryKind, Op, Policy, Rule, RuleId, SetField, SetId, Test,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// A condition that is no function of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Equal text, same condition.
    pub text: String,
    /// Whether asking it changes something.
    pub remembers: bool,
    /// The rule.
    pub rule: RuleId,
}

/// What outlasts or changes packets in one policy.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By rule and number of the test within it, nested ones counted.
    pub tests: BTreeMap<(RuleId, usize), Named>,
    /// Rules whose proposals are asked for.
    pub proposers: BTreeSet<RuleId>,
    /// Whether rules change the packet's mark.
    pub marks: bool,
    /// Whether rules change the flow's mark.
    pub connmarks: bool,
    /// Whether rules change the TOS byte.
    pub tos: bool,
    /// Whether rules keep packets out of tracking.
    pub untracks: bool,
    /// Whether logs are compared.
    pub logs: bool,
}

impl Names {
    /// Of a policy.
    pub fn of(policy: &Policy, logs: bool) -> Self {
        let mut names = Names {
            logs,
            ..Names::default()
        };
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut known: BTreeSet<RuleId> = BTreeSet::new();
        for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
            names.rule(rule);
            // A rule of a list that stands for both families has the same things in both.
            if known.insert(rule.id) {
                names.conditions(policy, rule, &mut counts);
            }
        }
        names
    }

    fn rule(&mut self, rule: &Rule) {
        if let Flow::Head { quick: true, .. } = rule.flow {
            self.proposers.insert(rule.id);
        }
        for test in &rule.tests {
            nested(test, &mut |test| {
                if let Cond::ProposedBy(id) = test.cond {
                    self.proposers.insert(id);
                }
            });
        }
        for op in &rule.ops {
            match op {
                Op::SetMark { .. } | Op::RestoreConnmark { .. } => self.marks = true,
                Op::SetConnmark { .. } | Op::SaveConnmark { .. } => self.connmarks = true,
                Op::SetDscp(_) | Op::SetTos { .. } => self.tos = true,
                Op::Notrack => self.untracks = true,
                _ => {}
            }
        }
    }

    fn conditions(&mut self, policy: &Policy, rule: &Rule, counts: &mut HashMap<String, u32>) {
        let (mut before, mut at) = (String::new(), 0);
        for test in &rule.tests {
            nested(test, &mut |test| {
                if let Some((text, remembers)) = unknown(policy, test, &before) {
                    let count = counts.entry(text.clone()).or_default();
                    *count += 1;
                    let text = match (remembers, *count) {
                        (true, count) if count > 1 => format!("{text} #{count}"),
                        _ => text,
                    };
                    let named = Named {
                        text,
                        remembers,
                        rule: rule.id,
                    };
                    self.tests.insert((rule.id, at), named);
                }
                at += 1;
            });
            let _ = write!(before, "{} ", canonical(policy, test));
        }
    }

    /// Whether an operation leaves a trace that is compared.
    pub fn matters(&self, op: &Op) -> bool {
        match op {
            Op::Log(_) | Op::Nflog(_) => self.logs,
            _ => true,
        }
    }

    /// Whether the tests of a rule remember nothing and ask nothing that a rule may have changed.
    pub fn is_plain(&self, rule: &Rule) -> bool {
        let (mut plain, mut at) = (true, 0);
        for test in &rule.tests {
            nested(test, &mut |test| {
                plain &= match test.cond {
                    Cond::ProposedBy(_) => false,
                    Cond::Mark { .. } => !self.marks,
                    Cond::Connmark { .. } => !self.connmarks && !self.untracks,
                    Cond::Tos { .. } | Cond::Dscp(_) | Cond::EcnIp(_) => !self.tos,
                    Cond::State(_) | Cond::Ct(_) => !self.untracks,
                    _ => true,
                };
                let named = self.tests.get(&(rule.id, at));
                plain &= named.is_none_or(|named| !named.remembers);
                at += 1;
            });
        }
        plain
    }
}

/// The text of a condition that may be no function of the packet, and whether it remembers.
fn unknown(policy: &Policy, test: &Test, before: &str) -> Option<(String, bool)> {
    match &test.cond {
        Cond::History(id) => {
            let object = &policy.histories[id.0 as usize];
            let context = match (&object.shared, &object.kind) {
                (_, HistoryKind::Time(_)) | (Some(_), _) => "",
                (None, _) => before,
            };
            let remembers = !matches!(object.kind, HistoryKind::Time(_));
            Some((format!("{context}{}", history(policy, *id)), remembers))
        }
        Cond::Ct(field) => Some((format!("flow {field:?}"), false)),
        Cond::Set { set, fields } if is_live(policy, *set) => {
            let changes = changes(policy, *set);
            Some((membership(policy, *set, fields), changes))
        }
        _ => None,
    }
}

fn history(policy: &Policy, id: HistoryId) -> String {
    let object = &policy.histories[id.0 as usize];
    match &object.shared {
        Some(name) => format!("{name}: {:?}", object.kind),
        None => format!("{:?}", object.kind),
    }
}

fn changes(policy: &Policy, id: SetId) -> bool {
    let set = &policy.sets[id.0 as usize];
    set.changes || set.members.iter().any(|member| changes(policy, *member))
}

/// Whether membership depends on the time or on other packets.
pub fn is_live(policy: &Policy, id: SetId) -> bool {
    let set = &policy.sets[id.0 as usize];
    let timed = |entry: &crate::model::SetEntry| entry.timeout.is_some_and(|t| t > 0);
    set.changes
        || set.entries.iter().any(timed)
        || set.members.iter().any(|member| is_live(policy, *member))
}

fn membership(policy: &Policy, id: SetId, fields: &[SetField]) -> String {
    let set = &policy.sets[id.0 as usize];
    let mut text = format!("set {} {fields:?} {:?}", set.name, set.entries);
    for member in &set.members {
        let _ = write!(text, " {}", membership(policy, *member, fields));
    }
    text
}

/// A test as text that is the same in every policy that says the same.
pub fn canonical(policy: &Policy, test: &Test) -> String {
    let not = if test.negate { "not " } else { "" };
    let text = match &test.cond {
        Cond::History(id) => history(policy, *id),
        Cond::Set { set, fields } => membership(policy, *set, fields),
        Cond::Any(tests) => {
            let all: Vec<String> = tests.iter().map(|test| canonical(policy, test)).collect();
            format!("any of ({})", all.join(", "))
        }
        other => format!("{other:?}"),
    };
    format!("{not}{text}")
}

/// A change of a set as text.
pub fn set_change(policy: &Policy, op: &Op) -> String {
    match op {
        Op::SetAdd {
            set,
            fields,
            timeout,
            exist,
        } => {
            let name = &policy.sets[set.0 as usize].name;
            format!("add {fields:?} to {name} for {timeout:?}, anew {exist}")
        }
        Op::SetDelete { set, fields } => {
            let name = &policy.sets[set.0 as usize].name;
            format!("delete {fields:?} from {name}")
        }
        other => format!("{other:?}"),
    }
}
