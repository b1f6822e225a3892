//! Rules of ipfw that note flows, as two policies have them in common.
//!
//! In: one policy, or two. Out: a class for each learner of ipfw. Two rules are of one class if it
//! makes no difference to later packets, and to how many states there can be, which of them made a
//! state. Rules that just decide, and count nothing, are of one class if they decide alike. Any
//! other rule is of its own class, and has at most one partner in the other policy: one that keeps
//! states alike, if there is one that says the same. Whether a partner does with packets of its
//! states what this one does is not asked here: both walks go on from there.

use super::noting::{Flows, Maker, both, makers};
use crate::model::{Dynamic, Family, IpfwKeeper, Keeper, LearnerId, Policy, RuleId};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// States between which later packets see no difference.
#[derive(Clone, Debug)]
pub struct Class {
    /// What they are; no two classes have the same text.
    pub text: String,
    /// Number of their name.
    pub name: usize,
    /// What counts them, where they are limited.
    pub counter: Option<usize>,
    /// Which flows they can have, in each policy that has the class: one of these conjunctions
    /// holds of a packet that made one, by family.
    pub flows: Vec<Flows>,
    /// Which policies have it.
    there: [bool; 2],
    /// Whether a packet can be found to belong to one.
    pub visible: bool,
    /// How many flows are counted together, and what the rule says beside.
    limit: Option<(u8, u32, String)>,
}

/// The rules of one policy that note flows.
#[derive(Clone, Debug, Default)]
pub struct Makers {
    /// All classes, the same of both policies.
    pub classes: Vec<Class>,
    /// How many names there are.
    pub names: usize,
    /// The number of each name that flows of this policy have.
    pub named: BTreeMap<u32, usize>,
    /// The class of each learner.
    pub class_of: BTreeMap<LearnerId, usize>,
    /// The learner that stands for a class.
    pub stands: Vec<Option<LearnerId>>,
    /// What packets of its states get, by class, where that is one verdict.
    verdicts: Vec<String>,
    /// States live for at least a second, so that one is there as long as its packet is.
    pub lasting: bool,
    /// Only packets without states, which can get one.
    pub first_packets: bool,
}

impl Class {
    /// Whether its rules can note packets of a family.
    pub fn is_of(&self, family: Family) -> bool {
        let mut made = self
            .flows
            .iter()
            .filter(|sides| !sides.iter().all(Vec::is_empty));
        made.all(|sides| !sides[family as usize].is_empty())
    }
}

impl Makers {
    /// Of one policy, or of two that are compared.
    pub fn of(policies: &[&Policy], logs: bool) -> Vec<Makers> {
        let makers: Vec<Vec<Maker<'_>>> =
            policies.iter().map(|policy| makers(policy, logs)).collect();
        let mut out: Vec<Makers> = policies
            .iter()
            .map(|policy| Makers {
                lasting: is_lasting(policy),
                ..Makers::default()
            })
            .collect();
        let words = name_all(&makers, &mut out);
        let kept = settings(policies);
        let mut join = Join {
            classes: Vec::new(),
            numbers: HashMap::new(),
            counters: 0,
            words,
            kept,
        };
        for (side, list) in makers.iter().enumerate() {
            for maker in list {
                if let (Some(decides), [(id, keeper)]) = (&maker.decides, &*maker.learners)
                    && keeper.limit.is_none()
                {
                    let text = join.text(maker, (side, &out[side]), keeper, decides);
                    let class = join.class(text, out[side].named[&keeper.name], None);
                    join.enter(class, side, maker);
                    out[side].class_of.insert(*id, class);
                }
            }
        }
        join.alone(&makers, &mut out);
        let mut classes = join.classes;
        for class in &mut classes {
            let (there, name) = (class.there, class.name);
            // Where the other policy notes no flow of this name at all, packets of these states
            // are told about; otherwise a state of a class that only one has was made by a packet
            // that is told about.
            let alone = |one: &Makers| !one.named.values().any(|other| *other == name);
            class.visible = there
                .iter()
                .zip(&out)
                .all(|(there, one)| *there || alone(one));
        }
        for one in &mut out {
            one.classes.clone_from(&classes);
            one.names = one
                .classes
                .iter()
                .map(|class| class.name + 1)
                .max()
                .unwrap_or(0);
            one.stands = vec![None; classes.len()];
            for (learner, class) in &one.class_of {
                one.stands[*class].get_or_insert(*learner);
            }
        }
        for (one, policy) in out.iter_mut().zip(policies) {
            let verdict = |id: &Option<LearnerId>| {
                id.map_or_else(String::new, |id| {
                    both(policy.learners[id.0 as usize].verdicts)
                })
            };
            one.verdicts = one.stands.iter().map(verdict).collect();
        }
        out
    }

    /// What a look can find here, as text.
    pub fn fingerprint(&self) -> String {
        let visible = self.classes.iter().zip(&self.verdicts);
        let texts: Vec<String> = visible
            .filter(|(class, _)| class.visible)
            .map(|(class, verdict)| format!("{}: {verdict}", class.text))
            .collect();
        texts.join("; ")
    }

    /// The classes of a name that packets can be found to belong to.
    pub fn visible_of(&self, name: usize) -> Vec<usize> {
        let found = |class: &Class| !self.first_packets && class.visible && class.name == name;
        let all = 0..self.classes.len();
        all.filter(|at| found(&self.classes[*at])).collect()
    }

    /// The class, and those of the other policy whose limit is lower but otherwise the same: where
    /// they allow one more flow, this one does.
    pub fn below(&self, class: usize) -> Vec<usize> {
        let own = &self.classes[class];
        let Some((mask, most, tests)) = &own.limit else {
            return vec![class];
        };
        let apart = |one: &Class| (0..2).all(|side| !(own.there[side] && one.there[side]));
        let is_below = |one: &Class| {
            let limit = one
                .limit
                .as_ref()
                .filter(|_| apart(one) && one.name == own.name);
            limit.is_some_and(|limit| (limit.0, &limit.2) == (*mask, tests) && limit.1 < *most)
        };
        let all = 0..self.classes.len();
        all.filter(|at| *at == class || is_below(&self.classes[*at]))
            .collect()
    }

    /// Whether two rules make states of one class.
    pub fn are_one_class(&self, policy: &Policy, rules: [Option<RuleId>; 2]) -> bool {
        let [one, other] = rules.map(|rule| {
            let of = |id: &LearnerId| Some(policy.learners[id.0 as usize].rule) == rule;
            let own = self.class_of.iter().find(|(id, _)| of(id));
            own.map(|(_, class)| *class)
        });
        one.is_some() && one == other
    }

    /// The classes for which a rule stands.
    pub fn stood_for(&self, policy: &Policy, rule: RuleId) -> Vec<usize> {
        let is = |id: &Option<LearnerId>| {
            id.is_some_and(|id| policy.learners[id.0 as usize].rule == rule)
        };
        let stands = self.stands.iter().enumerate();
        stands.filter(|(_, id)| is(id)).map(|one| one.0).collect()
    }
}

/// How learners of ipfw keep their states.
pub fn keeper(policy: &Policy, id: LearnerId) -> Option<&IpfwKeeper> {
    match &policy.learners[id.0 as usize].keeper {
        Keeper::Ipfw(keeper) => Some(keeper),
        Keeper::Ipf(_) => None,
    }
}

/// How a learner of ipfw keeps its states, in the words of the language.
pub fn in_words(keeper: &IpfwKeeper, name: &str) -> String {
    let Some((mask, most)) = keeper.limit else {
        return format!("keep-state :{name}");
    };
    let words = ["src-addr", "src-port", "dst-addr", "dst-port"]
        .iter()
        .enumerate();
    let words: Vec<&str> = words
        .filter(|(bit, _)| mask >> bit & 1 != 0)
        .map(|(_, word)| *word)
        .collect();
    format!("limit {} {most} :{name}", words.join(","))
}

/// The name of a flow, as it was written.
pub fn name_of(policy: &Policy, number: u32) -> &str {
    let names = policy.dynamic.as_ref().map(|dynamic| &dynamic.names);
    let name = names.and_then(|names| names.get(&number));
    name.map_or("default", String::as_str)
}

/// Whether every state lives for a second or longer.
fn is_lasting(policy: &Policy) -> bool {
    let usual = Dynamic::default();
    let own = policy.dynamic.as_ref().unwrap_or(&usual);
    let [ack, syn, fin, rst] = own.tcp;
    [ack, syn, fin, rst, own.udp, own.short]
        .iter()
        .all(|seconds| *seconds > 0)
}

/// What settings say of states, where policies differ in it.
fn settings(policies: &[&Policy]) -> Vec<String> {
    let words = |policy: &Policy| {
        let usual = Dynamic::default();
        let own = policy.dynamic.as_ref().unwrap_or(&usual);
        let [ack, syn, fin, rst] = own.tcp;
        vec![
            ("dyn_ack_lifetime", ack),
            ("dyn_syn_lifetime", syn),
            ("dyn_fin_lifetime", fin),
            ("dyn_rst_lifetime", rst),
            ("dyn_udp_lifetime", own.udp),
            ("dyn_short_lifetime", own.short),
            ("dyn_max", policy.states_max),
            ("dyn_parent_max", own.parents_max),
            ("dyn_keepalive", u32::from(own.keep_alive)),
        ]
    };
    let all: Vec<_> = policies
        .iter()
        .filter(|policy| policy.dynamic.is_some())
        .map(|policy| words(policy))
        .collect();
    let text = |policy: &&Policy| {
        let mut text = String::new();
        for (at, (name, value)) in words(policy).into_iter().enumerate() {
            if all.iter().any(|other| other[at].1 != value) {
                let _ = write!(text, ", {name}={value}");
            }
        }
        text
    };
    policies.iter().map(text).collect()
}

/// Gives names numbers that both policies share, and says what they are called. Equal names are the
/// same; of those that are left, one on each side are.
fn name_all(makers: &[Vec<Maker<'_>>], out: &mut [Makers]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut own: Vec<Vec<(u32, String)>> = Vec::new();
    for list in makers {
        let mut names: Vec<(u32, String)> = Vec::new();
        for maker in list {
            let number = maker.learners[0].1.name;
            if names.iter().all(|known| known.0 != number) {
                names.push((number, name_of(maker.policy, number).to_owned()));
            }
        }
        own.push(names);
    }
    let is_in = |side: usize, number: u32| own[side].iter().any(|known| known.0 == number);
    let left = |side: usize| -> Vec<u32> {
        let names = own[side].iter().map(|name| name.0);
        names.filter(|number| !is_in(1 - side, *number)).collect()
    };
    let renamed = match own.len() {
        2 => match (&*left(0), &*left(1)) {
            ([old], [new]) => Some((*old, *new)),
            _ => None,
        },
        _ => None,
    };
    for (side, names) in own.iter().enumerate() {
        for (number, word) in names {
            let partner = match renamed {
                Some((old, new)) if side == 1 && *number == new => old,
                _ => *number,
            };
            let known = if side == 1 {
                out[0].named.get(&partner).copied()
            } else {
                None
            };
            let shared = known.unwrap_or_else(|| {
                words.push(word.clone());
                words.len() - 1
            });
            out[side].named.insert(*number, shared);
        }
    }
    words
}

/// Classes on their way.
struct Join {
    classes: Vec<Class>,
    numbers: HashMap<String, usize>,
    counters: usize,
    /// Names.
    words: Vec<String>,
    /// Settings that differ, in words, of each policy.
    kept: Vec<String>,
}

impl Join {
    fn text(
        &self,
        maker: &Maker<'_>,
        (side, own): (usize, &Makers),
        keeper: &IpfwKeeper,
        acts: &str,
    ) -> String {
        let name = own.named.get(&maker.learners[0].1.name);
        let name = name.map_or("", |name| self.words[*name].as_str());
        format!(
            "{}{}; its packets: {acts}",
            in_words(keeper, name),
            self.kept[side]
        )
    }

    fn class(&mut self, text: String, name: usize, counter: Option<usize>) -> usize {
        if let Some(known) = self.numbers.get(&text) {
            return *known;
        }
        self.numbers.insert(text.clone(), self.classes.len());
        self.classes.push(Class {
            text,
            name,
            counter,
            flows: vec![Default::default(), Default::default()],
            there: [false; 2],
            visible: false,
            limit: None,
        });
        self.classes.len() - 1
    }

    /// Adds a rule's flows to its class.
    fn enter(&mut self, class: usize, side: usize, maker: &Maker<'_>) {
        self.classes[class].there[side] = true;
        let flows = &mut self.classes[class].flows[side];
        for (all, own) in flows.iter_mut().zip(&maker.flows) {
            all.extend(own.iter().cloned());
        }
    }

    /// Classes of rules that each have their own.
    fn alone(&mut self, makers: &[Vec<Maker<'_>>], out: &mut [Makers]) {
        let mut left: Vec<Vec<usize>> = Vec::new();
        for (list, own) in makers.iter().zip(&*out) {
            let is_left = |at: &usize| !own.class_of.contains_key(&list[*at].learners[0].0);
            left.push((0..list.len()).filter(is_left).collect());
        }
        let kept = self.kept.clone();
        let how = |side: usize, at: usize, own: &[Makers]| {
            let maker = &makers[side][at];
            let limits: Vec<_> = maker.learners.iter().map(|one| one.1.limit).collect();
            let name = own[side].named.get(&maker.learners[0].1.name).copied();
            (limits, name, kept[side].clone())
        };
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        if makers.len() == 2 {
            for (by_tests, by_acts) in [(true, true), (true, false), (false, true), (false, false)]
            {
                for &old in &left[0] {
                    let a = &makers[0][old];
                    let fits = |new: &&usize| {
                        let b = &makers[1][**new];
                        pairs.iter().all(|pair| pair.1 != **new)
                            && how(0, old, out) == how(1, **new, out)
                            && (!by_tests || a.tests == b.tests)
                            && (!by_acts || a.acts == b.acts)
                    };
                    let free = pairs.iter().all(|pair| pair.0 != old);
                    if let (true, Some(new)) = (free, left[1].iter().find(fits)) {
                        pairs.push((old, *new));
                    }
                }
            }
        }
        for (side, list) in left.iter().enumerate() {
            for &at in list {
                let partner = pairs.iter().find(|pair| pair.1 == at && side == 1);
                let partner = partner.map(|pair| &makers[0][pair.0]);
                self.own_class((side, &makers[side][at]), partner, out);
            }
        }
    }

    fn own_class(
        &mut self,
        (side, maker): (usize, &Maker<'_>),
        partner: Option<&Maker<'_>>,
        out: &mut [Makers],
    ) {
        if let Some(partner) = partner {
            for (own, other) in maker.learners.iter().zip(&partner.learners) {
                let class = out[0].class_of[&other.0];
                self.enter(class, side, maker);
                out[side].class_of.insert(own.0, class);
            }
            return;
        }
        let limited = maker.learners.iter().any(|one| one.1.limit.is_some());
        let counter = limited.then_some(self.counters);
        self.counters += 1;
        for (id, keeper) in &maker.learners {
            let acts = maker
                .decides
                .as_deref()
                .unwrap_or("go on behind their rule");
            let mut text = self.text(maker, (side, &out[side]), keeper, acts);
            let (plain, mut number) = (text.clone(), 1);
            while self.numbers.contains_key(&text) {
                number += 1;
                text = format!("{plain} #{number}");
            }
            let class = self.class(text, out[side].named[&keeper.name], counter);
            let limit = keeper
                .limit
                .map(|(mask, most)| (mask, most, maker.tests_but_limits()));
            self.classes[class].limit = limit;
            self.enter(class, side, maker);
            out[side].class_of.insert(*id, class);
        }
    }
}
