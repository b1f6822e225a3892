//! What one policy's rules of ipfw say that note flows.
//!
//! In: a policy. Out: for each of its rules with learners how states are kept, what it does with
//! packets of its states, and which flows it can note; all in words, so that rules of two policies
//! can be laid side by side.

use super::makers::keeper;
use super::names::canonical;
use super::state::verdict_word;
use crate::model::{
    Cond, DynamicTest, Family, Flow, IpfwKeeper, LearnerId, Op, Policy, RangeSet, Rule, RuleId,
    Test, Verdict,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// Rules of one class whose flows are told apart; beyond, only protocols are.
const FLOWS_MAX: usize = 64;
/// Protocols whose ports are part of a flow.
const WITH_PORTS: [u8; 4] = [6, 17, 132, 136];

/// Conjunctions of conditions on flows, by family.
pub type Flows = [Vec<Vec<Cond>>; 2];

/// One rule that notes flows.
pub struct Maker<'p> {
    /// Its learners, one for each limit that it can have.
    pub learners: Vec<(LearnerId, IpfwKeeper)>,
    /// Its policy.
    pub policy: &'p Policy,
    /// What it does with packets of its states; `None` where they go on.
    pub decides: Option<String>,
    /// What it says, for finding its partner.
    pub tests: String,
    /// What it does with packets of its states.
    pub acts: String,
    /// Which flows it can note: one of these holds of its packets.
    pub flows: Flows,
}

impl Maker<'_> {
    /// What it says, whatever its limits are.
    pub fn tests_but_limits(&self) -> String {
        format!("{:?}", self.flows)
    }
}

/// The rules of a policy that note flows, in its order.
pub fn makers(policy: &Policy, logs: bool) -> Vec<Maker<'_>> {
    let mut out: Vec<Maker<'_>> = Vec::new();
    let mut known: HashMap<u64, usize> = HashMap::new();
    for at in 0..policy.learners.len() {
        let id = LearnerId(at as u32);
        let Some(keeper) = keeper(policy, id).copied() else {
            continue;
        };
        let place = *known.entry(keeper.identity).or_insert_with(|| {
            out.push(Maker {
                learners: Vec::new(),
                policy,
                decides: None,
                tests: String::new(),
                acts: String::new(),
                flows: Default::default(),
            });
            out.len() - 1
        });
        out[place].learners.push((id, keeper));
    }
    let runs = runs(policy, logs);
    let mut said: HashMap<LearnerId, (String, Flows)> = HashMap::new();
    for chain in &policy.chains {
        for rule in &chain.rules {
            let learns = rule.tests.iter().find_map(|test| match test.cond {
                Cond::Learn(id) => Some(id),
                _ => None,
            });
            if let Some(id) = learns {
                let own = said.entry(id).or_default();
                let tests: Vec<String> = rule.tests.iter().map(|t| canonical(policy, t)).collect();
                let _ = write!(own.0, "{:?} {tests:?};", chain.family);
                own.1[chain.family as usize].push(flow_tests(rule));
            }
        }
    }
    for maker in &mut out {
        let learner = &policy.learners[maker.learners[0].0.0 as usize];
        (maker.decides, maker.acts) = match runs.get(&learner.rule) {
            Some((decides, acts)) => (decides.clone(), acts.clone()),
            None => {
                let text = both(learner.verdicts);
                (Some(text.clone()), text)
            }
        };
        for (id, _) in &maker.learners {
            let Some((tests, flows)) = said.remove(id) else {
                continue;
            };
            maker.tests += &tests;
            for (all, own) in maker.flows.iter_mut().zip(flows) {
                all.extend(own);
            }
        }
    }
    out
}

pub fn both([four, six]: [Verdict; 2]) -> String {
    match (verdict_word(four), verdict_word(six)) {
        (four, six) if four == six => four,
        (four, six) => format!("{four}, {six} of IPv6"),
    }
}

/// Rules of the model by the looks that they stand behind: family, chain, number of the look.
type Places<'p> = BTreeMap<(Family, &'p str, usize), Vec<&'p Rule>>;

/// What rules do with packets of their states that is more than a verdict: whether that decides,
/// and what it is, by the rule. It is spelled out behind each look.
fn runs(policy: &Policy, logs: bool) -> HashMap<RuleId, (Option<String>, String)> {
    let mut all: BTreeMap<RuleId, Places<'_>> = BTreeMap::new();
    for chain in &policy.chains {
        let mut looks = 0;
        for rule in &chain.rules {
            for test in &rule.tests {
                match test.cond {
                    Cond::Dynamic(DynamicTest::Look(_)) => looks += 1,
                    Cond::Dynamic(DynamicTest::Of(id)) => {
                        let key = (chain.family, chain.name.as_str(), looks);
                        all.entry(id)
                            .or_default()
                            .entry(key)
                            .or_default()
                            .push(rule);
                    }
                    _ => {}
                }
            }
        }
    }
    let mut out = HashMap::new();
    for (id, places) in all {
        let mut texts: BTreeMap<(Family, &str), BTreeSet<String>> = BTreeMap::new();
        let mut verdicts: [BTreeSet<String>; 2] = Default::default();
        let (mut plain, mut decides) = (true, true);
        for ((family, chain, _), rules) in places {
            let run = run(policy, rules, logs);
            plain &= run.plain;
            decides &= run.decides;
            verdicts[family as usize].extend(run.verdicts);
            texts.entry((family, chain)).or_default().insert(run.text);
        }
        decides &= texts.values().all(|each| each.len() == 1);
        let acts = match (&verdicts, plain && decides) {
            ([four, six], true) if four.len() == 1 && four == six => {
                four.first().cloned().unwrap_or_default()
            }
            _ => format!("{texts:?}"),
        };
        out.insert(id, (decides.then(|| acts.clone()), acts));
    }
    out
}

/// What is done behind one look.
struct Run {
    text: String,
    verdicts: Vec<String>,
    /// Nobody goes on.
    decides: bool,
    /// It is a verdict and nothing else.
    plain: bool,
}

fn run(policy: &Policy, rules: Vec<&Rule>, logs: bool) -> Run {
    let mut out = Run {
        text: String::new(),
        verdicts: Vec::new(),
        decides: true,
        plain: true,
    };
    let matters = |op: &&Op| logs || !matches!(op, Op::Log(_) | Op::Nflog(_));
    let all = rules
        .into_iter()
        .filter(|rule| !is_counted_line(rule, logs));
    for (at, rule) in all.enumerate() {
        let tests = rule.tests.iter();
        let tests: Vec<String> = tests
            .filter(|test| !matches!(test.cond, Cond::Dynamic(DynamicTest::Of(_))))
            .map(|test| canonical(policy, test))
            .collect();
        let ops = rule.ops.iter().filter(matters);
        let ops: Vec<String> = ops.map(|op| format!("{op:?}")).collect();
        out.plain &= at == 0 && tests.is_empty() && ops.is_empty();
        let end = match rule.flow {
            Flow::Verdict(verdict) => {
                out.verdicts.push(verdict_word(verdict));
                verdict_word(verdict)
            }
            Flow::Next => String::new(),
            _ => {
                out.decides = false;
                "go on".to_owned()
            }
        };
        let parts = [tests, ops, vec![end]].concat().join(" ");
        let between = if at == 0 { "" } else { ", or " };
        let _ = write!(out.text, "{between}{parts}");
    }
    out
}

/// Whether a rule is a line of a log that nobody compares, and remembers nothing but how many there
/// were.
pub fn is_counted_line(rule: &Rule, logs: bool) -> bool {
    !logs
        && rule.index == Rule::HIDDEN
        && rule.flow == Flow::Next
        && !rule.ops.is_empty()
        && rule.ops.iter().all(|op| matches!(op, Op::Log(_)))
        && rule.tests.iter().all(|test| match test.cond {
            Cond::Dynamic(asked) => matches!(asked, DynamicTest::Of(_)),
            Cond::Learn(_) => false,
            _ => true,
        })
}

/// What a rule asks of addresses, ports and protocols.
fn flow_tests(rule: &Rule) -> Vec<Cond> {
    let sure = rule.tests.iter().filter(|test| !test.negate);
    let sure: Vec<&Cond> = sure.map(|test: &Test| &test.cond).collect();
    let has_ports = sure.iter().any(|cond| match cond {
        Cond::Proto(set) => {
            let named = RangeSet::from_ranges(WITH_PORTS.map(|number| (number, number)));
            set.intersect(&named) == *set
        }
        _ => false,
    });
    // Without ports a flow has the ports 0.
    let named = |set: &RangeSet<u16>| has_ports && !set.contains(0);
    let of_flow = |cond: &&Cond| match cond {
        Cond::Proto(_) | Cond::Src(_) | Cond::Dst(_) => true,
        Cond::SrcPort(set) | Cond::DstPort(set) | Cond::AnyPort(set) => named(set),
        _ => false,
    };
    sure.into_iter().filter(of_flow).cloned().collect()
}

/// The same of a packet that goes the other way.
pub fn reversed(cond: &Cond) -> Cond {
    match cond.clone() {
        Cond::Src(values) => Cond::Dst(values),
        Cond::Dst(values) => Cond::Src(values),
        Cond::SrcPort(set) => Cond::DstPort(set),
        Cond::DstPort(set) => Cond::SrcPort(set),
        other => other,
    }
}

/// Whether so many rules are told apart by the flows that they note.
pub fn are_few(flows: &[Vec<Cond>]) -> bool {
    flows.len() <= FLOWS_MAX
}
