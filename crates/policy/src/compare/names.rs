//! What a policy has that outlasts or changes a packet, by names that two policies share.
//!
//! In: a policy. Out: for each condition that is no function of the packet the text by which it is
//! the same condition in another policy, which rules are asked for as proposers, and which fields
//! rules change. Two things that remember are the same if their parameters, the tests in front of
//! them in their rule, and their number among such rules of the policy are the same; named ones
//! (recent, hashlimit) share memory by name. States that rules make are the same if how they are
//! kept and what becomes of their packets are.

use super::makers::{self, Makers};
use super::walk::nested;
use crate::model::{
    Cond, DynamicTest, Flow, HistoryId, HistoryKind, IcmpHeadTest, IpfKeeper, Keeper, LearnerId,
    Op, Policy, Rule, RuleId, SetField, SetId, Test,
};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

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
    /// By rule, number of the test within it, nested ones counted, and what it asks: a rule may
    /// stand in several chains, with other tests in front.
    tests: HashMap<(RuleId, usize, u64), Named>,
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
    /// Rules of ipfw that note flows.
    pub makers: Makers,
}

impl Names {
    /// Of a policy.
    pub fn of(policy: &Policy, logs: bool) -> Self {
        let mut names = Names {
            logs,
            makers: Makers::of(&[policy], logs).pop().unwrap_or_default(),
            ..Names::default()
        };
        let mut counts: HashMap<String, u32> = HashMap::new();
        for chain in &policy.chains {
            for rule in &chain.rules {
                names.rule(rule);
                names.conditions((policy, &chain.name), rule, &mut counts);
            }
        }
        names
    }

    /// The name of a condition, if it is no function of the packet.
    pub fn get(&self, rule: RuleId, number: usize, cond: &Cond) -> Option<&Named> {
        match may_be_unknown(cond) {
            true => self.tests.get(&(rule, number, mark_of(cond))),
            false => None,
        }
    }

    /// What is asked of states that rules make, and what holds of a packet that begins something.
    pub fn of_states(&self) -> Vec<(&str, bool)> {
        let texts = self.tests.values().map(|named| named.text.as_str());
        let mut out: Vec<(&str, bool)> = texts
            .filter_map(|text| {
                let of_states = [OF_A_STATE, BESIDE_A_WINDOW, OF_AN_ERROR];
                let asks = of_states.iter().any(|begin| text.starts_with(begin));
                let makes = text.contains(MAKES_A_STATE);
                (asks || makes).then_some((text, !asks))
            })
            .collect();
        out.sort_unstable();
        out
    }

    /// Whether every condition is a function of the packet.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
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

    fn conditions(
        &mut self,
        (policy, chain): (&Policy, &str),
        rule: &Rule,
        counts: &mut HashMap<String, u32>,
    ) {
        let (mut before, mut at) = (String::new(), 0);
        for test in &rule.tests {
            nested(test, &mut |test| {
                let key = (rule.id, at, mark_of(&test.cond));
                // A rule of a list that stands for both families has the same things in both.
                if !self.tests.contains_key(&key)
                    && let Some((text, remembers)) = unknown((policy, chain), test, &before)
                {
                    let count = counts.entry(text.clone()).or_default();
                    *count += 1;
                    let text = match (remembers && !learns(&test.cond), *count) {
                        (true, count) if count > 1 => format!("{text} #{count}"),
                        _ => text,
                    };
                    let named = Named {
                        text,
                        remembers,
                        rule: rule.id,
                    };
                    self.tests.insert(key, named);
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
                    Cond::ProposedBy(_) | Cond::IcmpHead(_) => false,
                    Cond::Dynamic(_) | Cond::Learn(_) => false,
                    Cond::Mark { .. } => !self.marks,
                    Cond::Connmark { .. } => !self.connmarks && !self.untracks,
                    Cond::Tos { .. } | Cond::Dscp(_) | Cond::EcnIp(_) => !self.tos,
                    Cond::State(_) | Cond::Ct(_) => !self.untracks,
                    _ => true,
                };
                let named = self.get(rule.id, at, &test.cond);
                plain &= named.is_none_or(|named| !named.remembers);
                at += 1;
            });
        }
        plain
    }
}

/// Whether a condition may be no function of the packet.
fn may_be_unknown(cond: &Cond) -> bool {
    matches!(
        cond,
        Cond::History(_)
            | Cond::Ct(_)
            | Cond::RouteBack { .. }
            | Cond::ReversePath(_)
            | Cond::Aside(_)
            | Cond::SctpChunks { .. }
            | Cond::Set { .. }
            | Cond::Learned
            | Cond::Learn(_)
            | Cond::OutOfWindow
            | Cond::IcmpHead(_)
            | Cond::IpfWith(_)
    )
}

/// Equal for equal conditions of one policy.
fn mark_of(cond: &Cond) -> u64 {
    if !may_be_unknown(cond) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    format!("{cond:?}").hash(&mut hasher);
    hasher.finish()
}

/// The text of a condition that may be no function of the packet, and whether it remembers.
fn unknown((policy, chain): (&Policy, &str), test: &Test, before: &str) -> Option<(String, bool)> {
    match &test.cond {
        Cond::Learned => Some((format!("{OF_A_STATE} ({chain})"), false)),
        // Each state that asks is another one.
        Cond::IcmpHead(test) => error_of_state(policy, *test).map(|text| (text, true)),
        Cond::OutOfWindow => Some((format!("{BESIDE_A_WINDOW} ({chain})"), false)),
        Cond::Learn(id) => {
            let limited = match policy.learners[id.0 as usize].keeper {
                Keeper::Ipf(keeper) => keeper.limit.is_some(),
                // See `makers`.
                Keeper::Ipfw(_) => return None,
            };
            // A limit counts the states of its rule alone.
            let context = if limited { before } else { "" };
            Some((format!("{context}{}", learner(policy, *id)), true))
        }
        Cond::IpfWith(with) => Some((format!("headers {with:?}"), false)),
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
        Cond::RouteBack { .. } | Cond::ReversePath(_) | Cond::Aside(_) => {
            Some((format!("{:?}", test.cond), false))
        }
        Cond::SctpChunks { flags, .. } if !flags.is_empty() => {
            Some((format!("{:?}", test.cond), false))
        }
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

/// The text of a packet's belonging to a state that a rule made.
const OF_A_STATE: &str = "state of a packet";
/// The text of its belonging to one but for the window.
const BESIDE_A_WINDOW: &str = "state missed by its window";
/// The begin of the texts of what is asked about ICMP errors.
const OF_AN_ERROR: &str = "ICMP error";
/// The begin of the text of a state's making.
const MAKES_A_STATE: &str = "state kept:";

/// What is asked about an ICMP error that a group judges, but for the verdict that stands.
fn error_of_state(policy: &Policy, test: IcmpHeadTest) -> Option<String> {
    let group = |number| group_of(policy, number);
    Some(match test {
        IcmpHeadTest::Waits => format!("{OF_AN_ERROR} that a group judges"),
        IcmpHeadTest::WaitsFor(number) => format!("{OF_AN_ERROR} that {} judges", group(number)),
        IcmpHeadTest::Refused => return None,
        IcmpHeadTest::Passes => format!("{OF_AN_ERROR} that a state takes"),
        IcmpHeadTest::Blocked => format!("{OF_AN_ERROR} that an older state takes"),
    })
}

/// The name of a group that judges ICMP errors.
fn group_of(policy: &Policy, number: u8) -> &str {
    let at = usize::from(number).wrapping_sub(1);
    policy.icmp_heads.get(at).map_or("?", String::as_str)
}

fn learns(cond: &Cond) -> bool {
    matches!(cond, Cond::Learned | Cond::Learn(_) | Cond::OutOfWindow)
}

/// All that matters of what a rule keeps: how, and what becomes of the packets.
fn learner(policy: &Policy, id: LearnerId) -> String {
    let learner = &policy.learners[id.0 as usize];
    let mut text = match learner.keeper {
        Keeper::Ipf(keeper) => ipf_state(policy, &keeper),
        Keeper::Ipfw(keeper) => {
            let name = makers::name_of(policy, keeper.name);
            format!("{MAKES_A_STATE} {}", makers::in_words(&keeper, name))
        }
    };
    let [four, six] = learner.verdicts.map(super::verdict_word);
    let _ = write!(text, "; its packets: {four}");
    if four != six {
        let _ = write!(text, ", {six} of IPv6");
    }
    if learner.counts {
        text += ", counted";
    }
    if let Some(log) = &learner.log {
        let _ = write!(text, ", logged as {log:?}");
    }
    text
}

/// Every field of what IPFilter keeps, in its own words.
fn ipf_state(policy: &Policy, keeper: &IpfKeeper) -> String {
    let mut text = MAKES_A_STATE.to_owned();
    let mut add = |there: bool, word: &str| {
        if there {
            text.push(' ');
            text.push_str(word);
        }
    };
    add(keeper.state, "state");
    add(keeper.fragments.is_some(), "frags");
    add(keeper.fragments == Some(true), "(frags strict)");
    add(keeper.fragments_anyway, "(frags anyway)");
    add(keeper.strict, "strict");
    add(keeper.loose, "loose");
    add(keeper.no_icmp_errors, "no-icmp-err");
    add(keeper.any_interface, "any interface");
    add(policy.checks_source, "sources checked");
    if let Some(limit) = keeper.limit {
        let _ = write!(text, " limit {limit}");
    }
    if let Some(group) = keeper.icmp_head {
        let _ = write!(text, " icmp-head {}", group_of(policy, group));
    }
    if let Some((forward, reverse)) = keeper.age {
        let _ = write!(text, " age {forward}/{reverse}");
    }
    text
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
        Cond::Learn(id) => learner(policy, *id),
        Cond::Dynamic(DynamicTest::Of(_)) => "of the rule's states".to_owned(),
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
