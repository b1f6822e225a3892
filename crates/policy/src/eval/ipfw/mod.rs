//! What an ipfw rule set means: the linear evaluator of that language.
//!
//! In: a [`Ruleset`], facts about the host, packets in the order of time. Out: for each pass a
//! [`Judgement`]: what becomes of the packet, the rule that decided, every rule that acted, and
//! what was logged. Counters, states and the lines left to log are kept between packets.
//!
//! A rule is a list of steps that is walked as the original walks it: probability, the look at the
//! states, patterns left to right, noting the flow, modifiers, action. When a pattern with `or`
//! behind it holds, the steps up to the end of the alternatives are passed over, whatever they
//! are; this is why the list is flat.
//!
//! Where this differs on purpose: a packet that found a state goes on behind both its rule and the
//! place where it looked, so that no packet walks in circles. So does one that comes back from the
//! call of a state's rule: behind the numbers of both.
//!
//! Source: ipfw(8), and the behaviour of FreeBSD 13's kernel.

mod act;
mod among;
pub mod glob;
mod host;
mod judgement;
mod packet;
mod patterns;
pub(crate) mod states;

pub use act::log_packet;
pub use among::{Among, Positions};
pub use host::{Host, HostAddress, Route};
pub use judgement::{Acted, Effect, Judgement, Outcome, Tested, Unjudged};
pub use packet::{Ip, Packet, Pass, Tcp, Upper, proto};
pub use patterns::tcp_options;
pub use states::{FlowKey, States, Way};

use crate::dialect::ipfw::ast::{
    Action, Argument, Instruction, StateKind, StateOption, TableValue, ValueType,
};
use crate::dialect::ipfw::{LoadedRule, Ruleset, Value};
use crate::eval::history::Queues;
use crate::model::{Counters, RuleId};
use patterns::{Context, Truth, holds};
use states::{Owner, Touch};
use std::collections::{BTreeMap, BTreeSet};

/// Calls that a packet can be in.
pub const CALLS_MAX: usize = 16;
/// Rules that one pass may visit; calls that go back could otherwise visit them very often.
pub const VISITS_MAX: u32 = 1 << 20;

/// What a packet carries along between rules and from its input to its output pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Tags.
    pub tags: BTreeSet<u32>,
    /// Mark.
    pub mark: u32,
    /// Type of service as rules left it.
    pub tos: u8,
    /// Routing table.
    pub fib: u32,
    /// Numbers of rules behind which calls come back.
    pub calls: Vec<u32>,
    /// Maximum segment size as rules left it, when they lowered it.
    pub mss: Option<u16>,
}

impl Carried {
    /// That of a fresh packet.
    #[must_use]
    pub fn of(packet: &Packet) -> Self {
        Self {
            tos: packet.ip.as_ref().map_or(0, |ip| ip.tos),
            ..Self::default()
        }
    }
}

/// What the last lookup in a table gave: `tablearg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    value: Option<Value>,
}

impl Found {
    fn take(&mut self, value: Option<&Value>) -> bool {
        match value {
            None => false,
            Some(value) => {
                self.value = Some(value.clone());
                true
            }
        }
    }

    fn take_if(&mut self, value: Option<&Value>, wanted: Option<&TableValue>) -> bool {
        let is = |value: &&Value| match wanted {
            None => true,
            Some(wanted) => {
                let kind = wanted.kind.unwrap_or(ValueType::Tag);
                value.get(kind) == u128::from(wanted.value)
            }
        };
        self.take(value.filter(is))
    }

    fn get(&self, kind: ValueType) -> u128 {
        self.value.as_ref().map_or(0, |value| value.get(kind))
    }

    /// What was found last, as an action takes it for its `tablearg`.
    fn of_action(&self, action: &Action) -> u32 {
        let kind = action.argument().map_or(ValueType::Tag, |(_, kind)| kind);
        self.get(kind) as u32
    }

    fn argument(&self, argument: Argument, kind: ValueType) -> u32 {
        match argument {
            Argument::Number(number) => number,
            Argument::TableArg => self.get(kind) as u32,
        }
    }
}

/// One step of a rule.
#[derive(Clone, Copy, Debug)]
enum Step<'r> {
    Probability(u32),
    Probe(&'r str),
    Test(&'r Instruction),
    Note(&'r StateOption),
    Defer,
    Log,
    Altq,
    Tag,
    Act,
}

/// The steps of a rule, and where its action part begins.
fn steps(loaded: &LoadedRule) -> (Vec<Step<'_>>, usize) {
    let rule = &loaded.rule;
    let mut out = Vec::with_capacity(rule.body.len() + 4);
    out.extend(rule.probability.map(Step::Probability));
    if let Some(state) = rule.state.as_ref().filter(|state| state.probe) {
        out.push(Step::Probe(&state.name));
    }
    out.extend(rule.body.iter().map(Step::Test));
    out.extend(rule.state.as_ref().map(Step::Note));
    if rule.defer {
        out.push(Step::Defer);
    }
    let action = out.len();
    if rule.log.is_some() {
        out.push(Step::Log);
    }
    if rule.altq.is_some() {
        out.push(Step::Altq);
    }
    if rule.tag.is_some() {
        out.push(Step::Tag);
    }
    out.push(Step::Act);
    (out, action)
}

/// What is known about the packet's states.
#[derive(Clone, Debug, Default)]
struct Looked {
    /// Whether anybody looked, and under which name (`None` inside: any).
    name: Option<Option<String>>,
    /// A state was noted since.
    noted: bool,
}

impl Looked {
    fn needed(&self, name: Option<&str>) -> bool {
        match &self.name {
            None => true,
            // A look at all names answers for each.
            Some(None) => false,
            Some(Some(before)) => name != Some(before.as_str()),
        }
    }
}

/// Where a rule leads.
enum Next {
    Rule,
    Jump(usize),
    State(usize),
    Done(Outcome),
}

/// Judges packets.
#[derive(Clone, Debug)]
pub struct Evaluator<'r> {
    ruleset: &'r Ruleset,
    /// Facts about the host.
    pub host: Host,
    /// States.
    pub states: States,
    /// Packets and bytes of each rule, by its identity.
    pub counters: Vec<Counters>,
    /// Seconds of the last match of each rule.
    pub last_match: Vec<Option<u64>>,
    /// Whether judgements remember every test.
    pub wants_tests: bool,
    logged: Vec<u32>,
    random: u64,
    /// Queues of pipes, by number.
    pipes: BTreeMap<u32, Queues>,
}

/// One pass of one packet.
struct Walk<'w> {
    packet: &'w Packet,
    carried: &'w mut Carried,
    now: u64,
    now_ms: u64,
    found: Found,
    looked: Looked,
    /// The number of the rule at which the state was found whose rule acts now.
    looked_at: u32,
    judgement: Judgement,
}

impl<'r> Evaluator<'r> {
    /// An evaluator without states; counters begin with those of the rule set.
    #[must_use]
    pub fn new(ruleset: &'r Ruleset) -> Self {
        let count = ruleset.rule_count() as usize;
        let mut counters = vec![Counters::default(); count];
        for one in &ruleset.rules {
            counters[one.id.0 as usize] = one.counters;
        }
        Self {
            ruleset,
            host: Host::default(),
            states: States::default(),
            counters,
            last_match: vec![None; count],
            wants_tests: false,
            logged: vec![0; count],
            random: 0x9e37_79b9_7f4a_7c15,
            pipes: BTreeMap::new(),
        }
    }

    /// The rule set.
    #[must_use]
    pub fn ruleset(&self) -> &'r Ruleset {
        self.ruleset
    }

    /// Judges one pass of a packet.
    pub fn judge(&mut self, packet: &Packet, carried: &mut Carried, now_ms: u64) -> Judgement {
        self.judge_among(packet, carried, now_ms, &Among::default())
    }

    /// The same, where it is known which rules can do something with the packet.
    pub fn judge_among(
        &mut self,
        packet: &Packet,
        carried: &mut Carried,
        now_ms: u64,
        among: &Among,
    ) -> Judgement {
        let now = now_ms / 1000;
        self.states.expire(now);
        if !self.ruleset.settings.enable {
            return Judgement::disabled();
        }
        let mut walk = Walk {
            packet,
            carried,
            now,
            now_ms,
            found: Found::default(),
            looked: Looked::default(),
            looked_at: 0,
            judgement: Judgement {
                wants_tests: self.wants_tests,
                ..Judgement::default()
            },
        };
        let outcome = self.walk(&mut walk, among);
        walk.judgement.outcome = outcome;
        walk.judgement
    }

    fn is_on(&self, position: usize) -> bool {
        self.ruleset
            .is_enabled(self.ruleset.rules[position].rule.set)
    }

    fn walk(&mut self, walk: &mut Walk<'_>, among: &Among) -> Outcome {
        let ruleset = self.ruleset;
        let last = ruleset.rules.len() - 1;
        let mut position = 0;
        for _ in 0..VISITS_MAX {
            let next = among.next(position);
            if next > position {
                // What rules that don't match looked up is forgotten.
                walk.found = Found::default();
                position = next;
            }
            // The last rule is in a set that can't be turned off.
            if position > last {
                break;
            }
            if !self.is_on(position) {
                position += 1;
                walk.found = Found::default();
                continue;
            }
            let loaded = &ruleset.rules[position];
            let (list, action) = steps(loaded);
            let mut next = self.run(walk, position, &list);
            if let Next::State(parent) = next {
                let (list, action) = match parent == position {
                    true => (list, action),
                    false => steps(&ruleset.rules[parent]),
                };
                walk.looked_at = ruleset.rules[position].rule.number;
                next = self.run(walk, parent, &list[action..]);
                walk.looked_at = 0;
                // Both the rule that noted the flow and the place of the look are behind us.
                position = position.max(parent);
                if let Next::Jump(target) = next
                    && !matches!(
                        ruleset.rules[parent].rule.action,
                        Action::Call(_) | Action::Return
                    )
                {
                    next = Next::Jump(target.max(position + 1));
                }
            }
            match next {
                Next::Rule | Next::State(_) => {
                    position += 1;
                    walk.found = Found::default();
                }
                Next::Jump(target) => position = target,
                Next::Done(outcome) => return outcome,
            }
        }
        walk.judgement.unjudged = Some(Unjudged::TooManyVisits);
        Outcome::Deny
    }

    /// Runs steps of the rule at a position.
    fn run(&mut self, walk: &mut Walk<'_>, position: usize, list: &[Step<'_>]) -> Next {
        let ruleset = self.ruleset;
        let loaded = &ruleset.rules[position];
        let mut skip = false;
        for step in list {
            let or_next = matches!(step, Step::Test(one) if one.or_next);
            if skip {
                skip = or_next;
                continue;
            }
            let matched = match step {
                Step::Probability(units) => (self.next_random() & 0x7fff_ffff) < u64::from(*units),
                Step::Probe(name) => {
                    if let Some(parent) = self.look(walk, Some(name)) {
                        return Next::State(parent);
                    }
                    true
                }
                Step::Test(one) => match self.test(walk, loaded, one) {
                    Truth::Yes => !one.negate,
                    Truth::No => one.negate,
                    Truth::CutShort => {
                        walk.judgement.unjudged = Some(Unjudged::CutShort);
                        return Next::Done(Outcome::Deny);
                    }
                },
                Step::Note(state) => {
                    if !self.note(walk, loaded, state) {
                        self.count(walk, loaded, Effect::StateRefused);
                        walk.judgement.rule = Some(loaded.id);
                        return Next::Done(Outcome::Deny);
                    }
                    !state.negate
                }
                Step::Defer => return Next::Rule,
                Step::Log => {
                    self.log(walk, loaded);
                    true
                }
                Step::Altq => true,
                Step::Tag => {
                    act::tag(walk.carried, loaded, &walk.found);
                    true
                }
                Step::Act => return self.act(walk, position),
            };
            if matched && or_next {
                skip = true;
            } else if !matched && !or_next {
                return Next::Rule;
            }
        }
        // An open alternative took the packet past the action.
        Next::Rule
    }

    fn test(&self, walk: &mut Walk<'_>, loaded: &LoadedRule, one: &Instruction) -> Truth {
        let context = Context {
            ruleset: self.ruleset,
            host: &self.host,
            packet: walk.packet,
            carried: walk.carried,
            rule: loaded.rule.number,
        };
        let truth = holds(&one.pattern, &context, &mut walk.found);
        if walk.judgement.wants_tests {
            walk.judgement.tested(loaded.id, one, truth == Truth::Yes);
        }
        truth
    }

    /// Looks for a state, if that is still to be done; the position of the rule that noted it.
    fn look(&mut self, walk: &mut Walk<'_>, name: Option<&str>) -> Option<usize> {
        if !walk.looked.needed(name) {
            return None;
        }
        walk.looked = Looked {
            name: Some(name.map(str::to_owned)),
            noted: false,
        };
        let ruleset = self.ruleset;
        let position = |id: RuleId| ruleset.rules.iter().position(|one| one.id == id);
        let usable = |id: RuleId| {
            position(id).is_some_and(|at| ruleset.is_enabled(ruleset.rules[at].rule.set))
        };
        let touch = Touch {
            packet: walk.packet,
            now: walk.now,
        };
        let hit = self.states.look(name, &touch, &ruleset.settings, usable)?;
        walk.judgement.state = Some(hit.way);
        position(hit.rule)
    }

    fn note(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, state: &StateOption) -> bool {
        let limit = match state.kind {
            StateKind::Keep => None,
            StateKind::Limit { mask, count } => {
                Some((mask, walk.found.argument(count, ValueType::Limit)))
            }
        };
        let same_name = walk.looked.name == Some(Some(state.name.clone()));
        let owner = Owner {
            rule: loaded.id,
            number: loaded.rule.number,
            set: loaded.rule.set,
            name: &state.name,
        };
        let touch = Touch {
            packet: walk.packet,
            now: walk.now,
        };
        let look_first = !same_name || walk.looked.noted;
        let settings = &self.ruleset.settings;
        let noted = self
            .states
            .note(&owner, limit, look_first, &touch, settings);
        walk.looked.noted |= noted;
        noted
    }

    fn count(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, effect: Effect) {
        let at = loaded.id.0 as usize;
        self.counters[at].packets += 1;
        self.counters[at].bytes += u64::from(walk.packet.bytes);
        self.last_match[at] = Some(walk.now);
        walk.judgement.trail.push(Acted {
            rule: loaded.id,
            number: loaded.rule.number,
            effect,
            tablearg: walk.found.of_action(&loaded.rule.action),
            after: walk.judgement.tests.len(),
        });
    }

    fn next_random(&mut self) -> u64 {
        // xorshift64*; what it yields is nobody's secret.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// Lets `prob` begin somewhere else.
    pub fn seed(&mut self, seed: u64) {
        self.random = seed | 1;
    }
}
