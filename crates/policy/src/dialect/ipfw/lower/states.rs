//! Rules that note flows: who they are, how their states are kept, and where packets are asked for
//! a state.
//!
//! In: a [`Ruleset`]. Out: learners, one for each enabled rule with a state; refusals. The first
//! look under a name asks for the packet's state, and most lists have one name: behind it, nobody
//! needs to ask again, which [`reach`] sees.

use super::Lowering;
use super::action::{Acting, To, position};
use super::body::{At, limits};
use super::frames::Layer;
use super::literal::Refused;
use super::reach::{self, Reach, Ways};
use super::tags::table_of;
use crate::dialect::ipfw::ast::{Action, Argument, Rule, StateKind};
use crate::dialect::ipfw::print;
use crate::dialect::ipfw::{LoadedRule, Ruleset};
use crate::eval::ipfw::Pass;
use crate::model::{
    Dynamic, Family, IpfwKeeper, Keeper, Learner, LearnerId, RejectKind, RuleId, Verdict,
};
use crate::syntax::{Diagnostic, Span};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// States that the kernel's table has room for.
const STATES_MAX: u32 = 1 << 16;
/// Counters of limits that it has room for.
const PARENTS_MAX: u32 = 1 << 13;
/// Rules with states whose action is more than a verdict.
const SPELLED_MAX: usize = 256;

/// What is known about rules with states.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The learner of a rule.
    learners: HashMap<RuleId, LearnerId>,
    /// Those of a rule whose limit is `tablearg`, by limit.
    limited: HashMap<(RuleId, u32), LearnerId>,
    /// Positions of rules whose states do more than decide.
    pub spelled: Vec<usize>,
    /// The ways of packets that nobody called; missing where no rule asks for states or notes any.
    pub ways: Option<Rc<Ways>>,
}

/// The number of a name; 0 is no name's.
pub(super) fn number_of_name(name: &str) -> u32 {
    // FNV-1a.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// What tells a rule from all others in every policy that has it: its number, its text, and which
/// of those that are alike it is.
fn identities(set: &Ruleset) -> HashMap<RuleId, u64> {
    let mut alike: HashMap<u64, u64> = HashMap::new();
    let stateful = set.rules.iter().filter(|one| one.rule.state.is_some());
    stateful
        .map(|one| {
            let text = print::rule(&one.rule, print::Form::default());
            let number = one.rule.number.to_le_bytes();
            let bytes = number.into_iter().chain(text.bytes());
            let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            let before = alike.entry(hash).or_insert(0);
            let own = hash ^ before.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *before += 1;
            (one.id, own)
        })
        .collect()
}

/// The rules of a set that note flows, by the identity that their states carry.
#[must_use]
pub fn state_rules(set: &Ruleset) -> BTreeMap<u64, RuleId> {
    let pairs = identities(set);
    pairs.into_iter().map(|(id, own)| (own, id)).collect()
}

/// The names of flows by their numbers.
#[must_use]
pub fn state_names(set: &Ruleset) -> BTreeMap<u32, String> {
    let names = set.rules.iter().filter_map(|one| one.rule.state.as_ref());
    names
        .map(|state| (number_of_name(&state.name), state.name.clone()))
        .collect()
}

/// The name that a rule looks for when it is reached; `Some(None)` is any.
pub(super) fn look_of(rule: &Rule) -> Option<Option<&str>> {
    match (&rule.action, &rule.state) {
        (Action::CheckState(name), _) => Some(name.as_deref()),
        (_, Some(state)) if state.probe => Some(Some(&state.name)),
        _ => None,
    }
}

/// Whether what a rule does makes a packet one that nobody has looked for.
pub(super) fn forgets(action: &Action) -> bool {
    matches!(
        action,
        Action::TcpSetMss(_) | Action::Pipe(_) | Action::Queue(_)
    )
}

impl States {
    /// The learner of a rule.
    pub fn learner(&self, rule: RuleId) -> Option<LearnerId> {
        self.learners.get(&rule).copied()
    }

    /// The learner of a rule for one of the limits that a table gives.
    pub fn limited(&self, rule: RuleId, limit: u32) -> Option<LearnerId> {
        self.limited.get(&(rule, limit)).copied()
    }

    /// Whether rules note flows, or ask for states.
    pub fn any(&self) -> bool {
        self.ways.is_some()
    }
}

impl Lowering<'_> {
    /// Finds the rules with states, and gives the policy their learners.
    pub(super) fn find_states(&mut self) {
        let set = self.set;
        let asked = |one: &LoadedRule| one.rule.state.is_some() || look_of(&one.rule).is_some();
        if !set.rules.iter().any(asked) {
            return;
        }
        self.state_settings();
        let identities = identities(set);
        for (at, one) in set.rules.iter().enumerate() {
            let Some(state) = &one.rule.state else {
                continue;
            };
            let identity = identities[&one.id];
            if !set.is_enabled(one.rule.set) {
                let dynamic = self.policy.dynamic.get_or_insert_default();
                dynamic.off.push(identity);
                continue;
            }
            let limits = match state_limits(set, one) {
                Ok(limits) => limits,
                Err(At(span, why)) => {
                    self.refuse(span, &why);
                    continue;
                }
            };
            let plain = self.plain_verdicts(one);
            if plain.is_none() {
                self.states.spelled.push(at);
            }
            let by_table = one.rule.is_limited_by_table();
            for limit in limits {
                let learner = LearnerId(self.policy.learners.len() as u32);
                self.states.learners.entry(one.id).or_insert(learner);
                if let (true, Some((_, most))) = (by_table, limit) {
                    self.states.limited.insert((one.id, most), learner);
                }
                self.policy.learners.push(Learner {
                    rule: one.id,
                    verdicts: plain.unwrap_or([Verdict::Drop; 2]),
                    counts: true,
                    log: None,
                    keeper: Keeper::Ipfw(IpfwKeeper {
                        identity,
                        name: number_of_name(&state.name),
                        limit,
                    }),
                });
            }
        }
        self.refuse_values();
        if let Some(at) = self.states.spelled.get(SPELLED_MAX) {
            let why = Refused {
                what: format!("more than {SPELLED_MAX} rules with states that do more than decide"),
                help: "leave `log`, `tag`, `count`, `skipto` and `call` out of some",
            };
            self.refuse(set.rules[*at].rule.place.0, &why);
        }
        self.reach = Reach::new(set, self.states.spelled.clone());
        self.states.ways = Some(Rc::new(self.reach.uncalled()));
    }

    /// On the original `tablearg` is what was looked up last, and a jump keeps it for the rule that
    /// it leads to: where that one finds a state, the state's rule would do with it what it says.
    fn refuse_values(&mut self) {
        let set = self.set;
        let enabled = |one: &&LoadedRule| set.is_enabled(one.rule.set);
        let mut noting = set.rules.iter().filter(enabled);
        let Some(by_table) = noting.find(|o| o.rule.state.is_some() && acts_by_table(&o.rule))
        else {
            return;
        };
        let looks = |number: u32| {
            let to = &set.rules[position(set, number)];
            set.is_enabled(to.rule.set) && look_of(&to.rule).is_some()
        };
        let keeps = |one: &&LoadedRule| {
            let rule = &one.rule;
            rule.body
                .iter()
                .any(|part| table_of(&part.pattern).is_some())
                && match rule.action {
                    Action::Skipto(argument) => reach::numbers(set, rule, argument)
                        .into_iter()
                        .any(|number| looks(number.max(rule.number + 1))),
                    Action::Call(argument) => {
                        let numbers = reach::numbers(set, rule, argument);
                        numbers.into_iter().any(looks)
                    }
                    Action::Return => true,
                    _ => false,
                }
        };
        if set.rules.iter().filter(enabled).any(|one| keeps(&one)) {
            let why = Refused {
                what: "`tablearg` of a rule that notes flows, beside jumps with a table,"
                    .to_owned(),
                help: "let these jumps lead to a `count` rule in front of the look for states",
            };
            self.refuse(by_table.rule.action_place.0, &why);
        }
    }

    fn state_settings(&mut self) {
        let settings = &self.set.settings;
        self.policy.states_max = settings.dyn_max;
        let dynamic = self.policy.dynamic.get_or_insert_default();
        *dynamic = Dynamic {
            tcp: [
                settings.dyn_ack_lifetime,
                settings.dyn_syn_lifetime,
                settings.dyn_fin_lifetime,
                settings.dyn_rst_lifetime,
            ],
            udp: settings.dyn_udp_lifetime,
            short: settings.dyn_short_lifetime,
            parents_max: settings.dyn_parent_max,
            keep_alive: settings.dyn_keepalive,
            icmp_errors: settings.dyn_icmp_errors,
            off: Vec::new(),
            names: state_names(self.set),
        };
        let too_many = [
            ("dyn_max", settings.dyn_max, STATES_MAX),
            ("dyn_parent_max", settings.dyn_parent_max, PARENTS_MAX),
        ];
        let keep = settings.dyn_keep_states;
        let span = Span::default();
        for (name, value, most) in too_many.into_iter().filter(|one| one.1 > one.2) {
            let message = format!("net.inet.ip.fw.{name}={value}: there is room for {most}");
            let help = format!("set it to at most {most}");
            self.tell(span, Diagnostic::unsupported(span, message).help(help));
        }
        if keep {
            let message = "net.inet.ip.fw.dyn_keep_states: states go with their rules";
            let found = Diagnostic::unsupported(span, message);
            self.tell(span, found.help("leave it at 0"));
        }
    }

    /// The verdicts about IPv4 and IPv6 packets of a rule's states, where that is all it does.
    fn plain_verdicts(&self, one: &LoadedRule) -> Option<[Verdict; 2]> {
        let shapes = matches!(one.rule.action, Action::Pipe(_) | Action::Queue(_));
        if one.rule.log.is_some() || one.rule.tag.is_some() || shapes {
            return None;
        }
        let [v4, v6] = [Family::V4, Family::V6].map(|family| {
            let tails = self.acting(one, family).tails(&one.rule.action).ok()?;
            let verdict = |to| match to {
                To::Verdict(verdict) => Some(verdict),
                _ => None,
            };
            match tails.as_slice() {
                [one] => verdict(one.to),
                // A reset, and a drop for what can't be reset: what a learner does of itself.
                [first, _] if first.to == To::Verdict(Verdict::Reject(RejectKind::TcpReset)) => {
                    verdict(first.to)
                }
                _ => None,
            }
        });
        Some([v4?, v6?])
    }

    /// A rule's action, for a packet that a state brought here, on either pass.
    fn acting<'r>(&'r self, one: &'r LoadedRule, family: Family) -> Acting<'r> {
        Acting {
            set: self.set,
            rule: &one.rule,
            piped: None,
            family,
            pass: Pass::In,
            value: 0,
            called: false,
            options: self.options,
            layer: Layer::Network,
        }
    }
}

/// Whether what a rule with a state does depends on a table.
fn acts_by_table(rule: &Rule) -> bool {
    let by_action = match rule.action {
        Action::Skipto(argument)
        | Action::Call(argument)
        | Action::SetDscp(argument)
        | Action::SetMark(argument)
        | Action::Pipe(argument)
        | Action::Queue(argument) => argument == Argument::TableArg,
        _ => false,
    };
    by_action || rule.tag.is_some_and(|tag| tag.tag == Argument::TableArg)
}

/// How many flows a rule may note: one number, or all that its table gives. Where that gives none,
/// the states that it gave are still there, and are the rule's.
fn state_limits(set: &Ruleset, one: &LoadedRule) -> Result<Vec<Option<(u8, u32)>>, At> {
    let Some(state) = &one.rule.state else {
        return Ok(vec![None]);
    };
    Ok(match state.kind {
        StateKind::Keep => vec![None],
        StateKind::Limit {
            mask,
            count: Argument::Number(count),
        } => vec![Some((mask, count))],
        StateKind::Limit { mask, .. } => {
            let mut found: BTreeSet<u32> = limits(set, &one.rule)?.into_iter().collect();
            if found.is_empty() {
                found.insert(0);
            }
            found.into_iter().map(|most| Some((mask, most))).collect()
        }
    })
}
