//! Rules to the rule model: a list of numbered rules as chains that packets go through forward.
//!
//! In: a [`Ruleset`]. Out: a [`Policy`], or located errors. The input pass is judged at PREROUTING,
//! the output pass at FORWARD and OUTPUT, so a forwarded packet meets the list twice and a packet
//! to or from the host once, each time counted, as on the original. For each pass and family
//! there is one chain; `skipto` goes to a later position of it, a `call` into a chain of what
//! can be reached from its target. A rule keeps its identity as counter number, also where it comes
//! to several rules of the model; what lowering adds counts under one hidden number.
//!
//! Refused by name: routes to the source, and what [`crate::model::Packet`] has no
//! field for. `eval::ipfw` is the meaning; tests compare both.

mod action;
mod body;
mod candidates;
mod emit;
mod formula;
mod frames;
mod header;
mod literal;
mod lookup;
mod names;
mod reach;
mod stack;
mod stateful;
mod states;
mod tables;
mod tags;

pub use candidates::candidates;
pub use states::{state_names, state_rules};

use super::ast::Action;
use super::command::DummynetKind;
use super::shaping;
use super::{LoadedRule, Ruleset};
use crate::eval::ipfw::{CALLS_MAX, Pass};
use crate::model::{
    Answers, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, HistoryId, HistoryKind,
    HistoryObject, Hook, Origin, Policy, RangeSet, Reading, Root, Rule, RuleId, SourceId,
    Statistic, Test, Verdict,
};
use crate::syntax::{Diagnostic, Place, Sources, Span};
use formula::{FIRST, WHOLE, is, is_not};
use frames::Layer;
use literal::{Refused, Scope};
use reach::Reach;
use states::States;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tags::Tags;

/// How to lower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What was refused where it was read is taken as the reference evaluator takes it.
    pub allow_unsupported: bool,
    /// Frames of the link layer get roots of their own where `net.link.ether.ipfw` asks for them,
    /// see [`Root::is_of_frames`]; otherwise that setting is refused.
    pub frames: bool,
}

/// Rules of the model that all chains together may have.
const RULES_MAX: usize = 4_000_000;

/// Lowers a rule set. Every error is a rule that can't be enforced; then there is no policy.
///
/// A rule's counter is its identity, [`LoadedRule::id`].
#[must_use]
pub fn lower(
    set: &Ruleset,
    sources: &Sources,
    options: Options,
) -> (Option<Policy>, Vec<Diagnostic>) {
    let hidden = set.rule_count();
    let mut lowering = Lowering {
        set,
        sources,
        options,
        tags: Tags::of(set),
        policy: Policy {
            sources: sources.names(),
            rule_count: hidden + 1,
            short_goes_on: true,
            reading: Reading::Ipfw,
            answers: Answers::ResetsPass,
            keeps_times: true,
            ..Policy::default()
        },
        hidden: RuleId(hidden),
        remembered: BTreeMap::new(),
        piped: BTreeMap::new(),
        called: BTreeMap::new(),
        found: Vec::new(),
        told: BTreeSet::new(),
        states: States::default(),
        reach: Reach::new(set, Vec::new()),
        layer: Layer::Network,
        met: Vec::new(),
    };
    lowering.settings();
    lowering.find_states();
    lowering.stack();
    let one_pass = !set.rules.iter().any(|one| asks_for_the_pass(&one.rule));
    for family in [Family::V4, Family::V6] {
        if one_pass {
            // What both passes have in common is compiled once.
            let hooks = [Hook::Prerouting, Hook::Forward, Hook::Output];
            lowering.root("both", (family, Pass::In), &hooks);
        } else {
            lowering.root("in", (family, Pass::In), &[Hook::Prerouting]);
            lowering.root("out", (family, Pass::Out), &[Hook::Forward, Hook::Output]);
        }
    }
    if set.settings.ether_ipfw && options.frames {
        lowering.frames(one_pass);
    }
    let Lowering {
        mut policy, found, ..
    } = lowering;
    policy
        .roots
        .sort_by_key(|root| (root.family, root.hook, root.table));
    let sound = !found.iter().any(Diagnostic::is_error);
    (sound.then_some(policy), found)
}

/// What of a rule remembers packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Remembers {
    Probability,
    LogAmount,
    /// The packets of the rule, to tell which one's line is the last.
    LogPackets,
    /// That the last line was told.
    LogEnd,
}

/// What of a pipe remembers packets.
#[derive(Clone, Copy)]
pub(super) struct Piped {
    /// The random loss.
    loss: Option<HistoryId>,
    /// The queue.
    queue: HistoryId,
}

struct Lowering<'a> {
    set: &'a Ruleset,
    sources: &'a Sources,
    options: Options,
    tags: Tags,
    policy: Policy,
    hidden: RuleId,
    /// Histories of rules: one for all chains that a rule is in.
    remembered: BTreeMap<(RuleId, Remembers), HistoryId>,
    /// Those of pipes, by number.
    piped: BTreeMap<u32, Piped>,
    /// Chains of called ranges by family, pass, position, and what is known there of looks for
    /// states; `None` while one is made.
    called: BTreeMap<(Family, bool, usize, u64), Option<ChainId>>,
    found: Vec<Diagnostic>,
    /// Rules that note flows.
    states: States,
    /// Where packets can come to.
    reach: Reach<'a>,
    /// Of which layer the packets are that a chain is made for.
    layer: Layer,
    /// Of frames: the rules that they can come to.
    met: Vec<bool>,
    /// Places that something was said about.
    told: BTreeSet<(SourceId, u32, u32, String)>,
}

impl<'a> Lowering<'a> {
    fn tell(&mut self, span: Span, found: Diagnostic) {
        let key = (span.source, span.start, span.end, found.message.clone());
        if self.told.insert(key) {
            self.found.push(found);
        }
    }

    fn refuse(&mut self, span: Span, why: &Refused) {
        let message = format!("{} is not enforced", why.what);
        let found = Diagnostic::unsupported(span, message).help(why.help);
        self.tell(span, found);
    }

    /// What settings ask that isn't done.
    fn settings(&mut self) {
        let settings = &self.set.settings;
        let asked = [
            (
                settings.ether_ipfw && !self.options.frames,
                "net.link.ether.ipfw: frames of the link layer are not judged",
                "leave it at 0",
            ),
            (
                !settings.permit_single_frag6,
                "net.inet6.ip6.fw.permit_single_frag6=0: fragments that are whole packets pass",
                "leave it at 1",
            ),
        ];
        for (_, message, help) in asked.into_iter().filter(|one| one.0) {
            let span = Span::default();
            self.tell(span, Diagnostic::unsupported(span, message).help(help));
        }
    }

    fn origin(&self, place: Place) -> Origin {
        let position = self.sources.position(place.0);
        Origin {
            source: place.0.source,
            line: position.map_or(1, |position| position.line),
            column: position.map_or(1, |position| position.column),
        }
    }

    fn root(&mut self, name: &str, (family, pass): (Family, Pass), hooks: &[Hook]) {
        let set = self.set;
        let Some(last) = set.rules.last() else {
            return;
        };
        let policy = match set.settings.enable {
            true => self.default_rule(last),
            // A filter that is off accepts and counts nothing.
            false => ChainPolicy {
                id: self.hidden,
                verdict: Verdict::Accept,
                ..self.default_rule(last)
            },
        };
        let mut rules = Vec::new();
        if set.settings.enable {
            self.without_packet((family, pass), &mut rules);
            self.unreadable(family, &mut rules);
            let ways = self.states.ways.clone();
            self.list((family, pass), None, ways, &mut rules);
        }
        let chain = self.keep(name.to_owned(), family, rules, Some(policy));
        let table = self.layer.table();
        self.policy.roots.extend(hooks.iter().map(|&hook| Root {
            family,
            hook,
            table,
            chain,
        }));
    }

    fn default_rule(&self, last: &LoadedRule) -> ChainPolicy {
        let verdict = match last.rule.action {
            Action::Allow => Verdict::Accept,
            _ => Verdict::Drop,
        };
        ChainPolicy {
            id: last.id,
            origin: self.origin(last.rule.place),
            verdict,
            preset: last.counters,
        }
    }

    fn keep(
        &mut self,
        name: String,
        family: Family,
        rules: Vec<Rule>,
        policy: Option<ChainPolicy>,
    ) -> ChainId {
        self.policy.chains.push(Chain {
            name,
            family,
            table: self.layer.table(),
            rules,
            policy,
        });
        ChainId(self.policy.chains.len() as u32 - 1)
    }

    /// A rule of the model that nobody wrote.
    fn hidden_rule(&self, tests: Vec<Test>, flow: Flow) -> Rule {
        Rule {
            id: self.hidden,
            origin: Origin {
                source: SourceId(0),
                line: 1,
                column: 1,
            },
            index: Rule::HIDDEN,
            tests,
            ops: Vec::new(),
            flow,
            preset: Counters::default(),
        }
    }

    /// Packets that are dropped before the first rule: cut short inside a header that ipfw wants to
    /// be whole ([`Reading::Ipfw`]), and IPv6 packets with headers that it doesn't know. They count
    /// nowhere.
    fn unreadable(&self, family: Family, rules: &mut Vec<Rule>) {
        let drop = Flow::Verdict(Verdict::Drop);
        rules.push(self.hidden_rule(vec![is(Cond::CutShort)], drop));
        if family == Family::V4 {
            return;
        }
        if !self.set.settings.deny_unknown_exthdrs {
            return;
        }
        let known = [4, 6, 17, 41, 47, 50, 51, 58, 59, 89, 103, 112, 132, 136];
        let known = RangeSet::from_ranges(known.map(|number| (number, number)));
        let tests = vec![
            is_not(Cond::Proto(known)),
            is(Cond::Fragments(WHOLE | FIRST)),
        ];
        rules.push(self.hidden_rule(tests, drop));
        let routing = |kind| Cond::RoutingHeader {
            kind,
            segments: (0, u32::MAX),
        };
        let tests = vec![
            is(routing(None)),
            is_not(routing(Some(0))),
            is_not(routing(Some(2))),
        ];
        rules.push(self.hidden_rule(tests, drop));
    }

    /// The chain of a called range, for packets of which that is known when they are called.
    fn called(
        &mut self,
        (family, pass): (Family, Pass),
        (from, known): (usize, u64),
        depth: usize,
    ) -> Result<ChainId, Refused> {
        let key = (family, pass == Pass::In, from, known);
        match self.called.get(&key) {
            Some(Some(chain)) => return Ok(*chain),
            Some(None) => {
                let help = "end the called range with an unconditional `return`";
                return literal::refused("a `call` that can lead to itself", help);
            }
            None => {}
        }
        if depth > CALLS_MAX {
            let what = format!("a `call` inside {CALLS_MAX} others");
            return literal::refused(what, "call less deep");
        }
        self.called.insert(key, None);
        let set = self.set;
        let ways = Rc::new(self.reach.called(from, known));
        let mut rules = Vec::new();
        let last = set.rules.len() - 1;
        self.list((family, pass), Some(depth), Some(ways.clone()), &mut rules);
        if ways.come_to(last) {
            rules.push(self.last_rule());
        }
        let number = set.rules[from].rule.number;
        let chain = self.keep(format!("call {number}"), family, rules, None);
        self.called.insert(key, Some(chain));
        Ok(chain)
    }

    /// The default rule, at the end of a chain that is no root's own.
    fn last_rule(&self) -> Rule {
        let end = self.default_rule(&self.set.rules[self.set.rules.len() - 1]);
        Rule {
            id: end.id,
            origin: end.origin,
            index: super::DEFAULT_RULE,
            tests: Vec::new(),
            ops: Vec::new(),
            flow: Flow::Verdict(end.verdict),
            preset: end.preset,
        }
    }

    fn history(&mut self, rule: RuleId, what: Remembers, kind: HistoryKind) -> HistoryId {
        let histories = &mut self.policy.histories;
        *self.remembered.entry((rule, what)).or_insert_with(|| {
            histories.push(HistoryObject { shared: None, kind });
            HistoryId(histories.len() as u32 - 1)
        })
    }

    /// What remembers packets of a pipe, if it is there.
    fn piped(&mut self, number: u32) -> Option<Piped> {
        let config = self.set.dummynet.get(&(DummynetKind::Pipe, number))?;
        if let Some(known) = self.piped.get(&number) {
            return Some(*known);
        }
        let histories = &mut self.policy.histories;
        let mut add = |shared, kind| {
            histories.push(HistoryObject { shared, kind });
            HistoryId(histories.len() as u32 - 1)
        };
        let chance = |units| HistoryKind::Statistic(Statistic::Random(units));
        let piped = Piped {
            loss: shaping::loss(config).map(|units| add(None, chance(units))),
            queue: add(
                Some(shaping::meter_name(number)),
                HistoryKind::Meter(shaping::meter(config)),
            ),
        };
        self.piped.insert(number, piped);
        Some(piped)
    }

    fn is_of_pipe(&self, test: &Test) -> bool {
        let of = |piped: &Piped, id| piped.queue == id || piped.loss == Some(id);
        match test.cond {
            Cond::History(id) => self.piped.values().any(|piped| of(piped, id)),
            _ => false,
        }
    }

    fn scope(&self, family: Family, pass: Pass) -> Scope<'_> {
        Scope {
            set: self.set,
            tags: &self.tags,
            family,
            pass,
            layer: self.layer,
        }
    }
}

/// Whether a rule can differ between the passes.
fn asks_for_the_pass(rule: &super::ast::Rule) -> bool {
    use super::ast::{LookupKey, Pattern};
    // Packets wait on their way out.
    matches!(rule.action, Action::Pipe(_) | Action::Queue(_))
        || rule.body.iter().any(|one| {
            let by_owner = matches!(
                one.pattern,
                Pattern::Lookup {
                    key: LookupKey::Uid,
                    ..
                }
            );
            by_owner
                || matches!(
                    one.pattern,
                    Pattern::In
                        | Pattern::Interface(..)
                        | Pattern::Uid(..)
                        | Pattern::Gid(..)
                        | Pattern::VerRevPath
                        | Pattern::VerSrcReach
                        | Pattern::AntiSpoof
                )
        })
}

/// The tags that a packet mark stands for, for whoever compares the two.
#[must_use]
pub fn tags_in_mark(set: &Ruleset, mark: u32) -> Vec<u32> {
    Tags::of(set).in_mark(mark)
}
