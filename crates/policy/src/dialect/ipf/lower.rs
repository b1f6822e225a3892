//! Rules to the rule model: IPFilter's lists as chains that propose verdicts.
//!
//! In: a loaded rule set and its tables. Out: a [`Policy`], or located errors. `in` rules are
//! judged at PREROUTING, `out` rules at FORWARD and OUTPUT, so that a forwarded packet meets both
//! lists, as on the original, with the interface that receives or sends it. A rule without `quick`
//! proposes its verdict, a `quick` one decides; a head proposes and leads into its group. What a
//! deciding rule logs is logged behind the list, if its proposal still stands there. Accounting
//! lists are chains of their own, in front of `in` and, for what passed, behind `out`.
//!
//! Where rules keep states, each list begins with a look at them (`keep`), and with what groups say
//! of ICMP errors about them (`errors`).
//! Refused by name: whatever sends packets elsewhere, and conditions that
//! [`crate::model::Packet`] has no field for. `eval::ipf` is the meaning; tests compare both.

mod answers;
mod around;
mod calls;
mod conditions;
mod errors;
mod interfaces;
mod keep;
mod limits;
mod nesting;
mod options;

pub use interfaces::{InterfaceNet, InterfaceNets};
pub use keep::STATES_MAX;
pub use options::{LowerOptions, MIN_TTL};

use super::ast::{Action, Direction, Name, Rule};
use super::load::{List, RuleSet, Unit, unit};
use crate::eval::ipf::Tables;
use crate::model::{
    Answers, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, HistoryId, Hook, LogOp, Op,
    Origin, Policy, Reading, RejectKind, Root, RuleId, SourceId, Table, Test, Verdict,
};
use crate::syntax::{Diagnostic, Sources};
use answers::{reset_or_drop, verdict};
use nesting::DEPTH_MAX;
use std::collections::BTreeMap;

/// Lowers a rule set. Every error is a rule that cannot be enforced; then there is no policy.
///
/// Rule number `n` of [`RuleSet::rules`] has the counter `n`.
#[must_use]
pub fn lower(
    set: &RuleSet,
    tables: &Tables,
    sources: &Sources,
    options: LowerOptions,
) -> (Option<Policy>, Vec<Diagnostic>) {
    let mut lowering = Lowering {
        set,
        tables,
        sources,
        policy: Policy {
            sources: sources.names(),
            rule_count: set.rules.len() as u32,
            short_goes_on: true,
            reading: Reading::Ipf,
            answers: Answers::Pass,
            states_max: options.states_max.min(STATES_MAX),
            lifetimes: options.lifetimes,
            icmp_heads: errors::names(set),
            ..Policy::default()
        },
        options,
        groups: BTreeMap::new(),
        judging: BTreeMap::new(),
        rates: BTreeMap::new(),
        ends: BTreeMap::new(),
        found: Vec::new(),
    };
    let mut known = nesting::Known::new();
    for rule in &set.rules {
        lowering.refuse(rule);
        let depth = rule
            .head
            .as_ref()
            .map(|head| nesting::of(set, unit(rule), head, &mut known));
        if depth.is_some_and(|depth| depth >= DEPTH_MAX) {
            let what = format!("a head above {DEPTH_MAX} groups, or leading back to itself,");
            let help = "the original never runs what is deeper: flatten it";
            lowering.cannot(rule, &what, help);
        }
    }
    if lowering.found.is_empty() {
        for family in [Family::V4, Family::V6] {
            lowering.roots(family);
        }
    }
    let Lowering {
        mut policy,
        found,
        options,
        ..
    } = lowering;
    let matters = !policy.learners.is_empty() || set.rules.iter().any(conditions::asks_for_source);
    policy.checks_source = options.checks_source && matters;
    policy
        .roots
        .sort_by_key(|root| (root.family, root.hook, root.table));
    (found.is_empty().then_some(policy), found)
}

struct Lowering<'a> {
    set: &'a RuleSet,
    tables: &'a Tables,
    sources: &'a Sources,
    options: LowerOptions,
    policy: Policy,
    /// Chains of groups, made when first led into.
    groups: BTreeMap<(Family, Unit, Name), ChainId>,
    /// Chains of groups that judge ICMP errors in a direction's lists.
    judging: BTreeMap<(Family, usize, Name), ChainId>,
    /// Memories of rules with `pps`.
    rates: BTreeMap<usize, HistoryId>,
    /// When rules with `rule-ttl` end.
    ends: BTreeMap<usize, HistoryId>,
    found: Vec<Diagnostic>,
}

impl Lowering<'_> {
    fn cannot(&mut self, rule: &Rule, what: &str, help: &str) {
        let message = format!("{what} is not enforced yet");
        let found = Diagnostic::unsupported(rule.at.0, message);
        self.found.push(found.help(help));
    }

    /// Says what of a rule cannot be enforced.
    fn refuse(&mut self, rule: &Rule) {
        const LATER: &str =
            "`weir ipftest` judges packets with it; leave it out to enforce the rest";
        let action = match &rule.action {
            Action::Auth => Some("`auth`"),
            Action::Preauth => Some("`preauth`"),
            Action::Call { now: false, .. } => Some("`call` without `now`"),
            Action::Call { .. } => calls::missing(rule),
            Action::Decapsulate(_) => Some("`decapsulate`"),
            _ => None,
        };
        let log = rule.log.unwrap_or_default();
        let keeps = rule.keep_state.is_some() || rule.keep_limit.is_some();
        let rate = rule.pps.is_some_and(|most| most > limits::RATE_MAX);
        let keep = rule.keep_state.as_ref();
        let unnumbered =
            keep.is_some_and(|keep| keep.icmp_head.is_some() && self.icmp_head(keep).is_none());
        let parts = [
            (unnumbered, "`icmp-head` with more than 255 groups"),
            (action.is_some(), action.unwrap_or_default()),
            (rate, "`pps` of a million and more"),
            (
                rule.keep_limit.is_some() && log.first,
                "`log first` with `keep limit`",
            ),
            (rule.to.is_some(), "`to`"),
            (rule.dup_to.is_some(), "`dup-to`"),
            (rule.reply_to.is_some(), "`reply-to`"),
            (rule.fastroute, "`fastroute`"),
            (rule.match_tag.nat.is_some(), "`match-tag`"),
            // Only states look at them.
            (
                keeps && rule.via.iter().any(Option::is_some),
                "an interface of the other side, of a rule that keeps state,",
            ),
            (
                keeps && rule.on[1].is_some(),
                "a second interface of a rule that keeps state",
            ),
        ];
        for (there, what) in parts {
            if there {
                self.cannot(rule, what, LATER);
            }
        }
        for what in keep::missing(rule) {
            self.cannot(rule, what, LATER);
        }
        if let Some(what) = conditions::missing(rule, self.tables) {
            self.cannot(rule, &what, LATER);
        }
        if self.options.min_ttl != MIN_TTL && keeps {
            self.cannot(rule, "`keep state` beside another `min_ttl`", LATER);
        }
    }

    fn roots(&mut self, family: Family) {
        let set = self.set;
        for (direction, hooks) in [
            (Direction::In, &[Hook::Prerouting][..]),
            (Direction::Out, &[Hook::Forward, Hook::Output]),
        ] {
            let filter = &set.filter[direction as usize];
            let account = &set.account[direction as usize];
            let (counted, table) = match direction {
                Direction::In => (hooks, Table::Mangle),
                // Only what passed the filter is counted on its way out.
                Direction::Out => (&[Hook::Postrouting][..], Table::Filter),
            };
            if !account.is_empty() {
                let of = (Unit::Account, table, Some(direction));
                let chain = self.list("account", family, account, of);
                self.enter(family, counted, table, chain);
            }
            // States see packets of both directions, whichever rules made them. Behind an
            // accounting list, what decides is the filter's.
            let counted = direction == Direction::In && !account.is_empty();
            if counted || !filter.is_empty() || self.options.default_block || self.learns() {
                let name = ["in", "out"][direction as usize];
                let of = (Unit::Filter, Table::Filter, Some(direction));
                let chain = self.list(name, family, filter, of);
                self.enter(family, hooks, Table::Filter, chain);
            }
        }
    }

    fn enter(&mut self, family: Family, hooks: &[Hook], table: Table, chain: ChainId) {
        for &hook in hooks {
            self.policy.roots.push(Root {
                family,
                hook,
                table,
                chain,
            });
        }
    }

    /// A counter that no rule of the text has.
    fn hidden(&mut self) -> RuleId {
        self.policy.rule_count += 1;
        RuleId(self.policy.rule_count - 1)
    }

    /// The chain of a list: of a direction, or of a group.
    fn list(
        &mut self,
        name: &str,
        family: Family,
        list: &List,
        (unit, table, root): (Unit, Table, Option<Direction>),
    ) -> ChainId {
        let is_root = root.is_some();
        let mut rules = Vec::with_capacity(list.len());
        if let (Some(direction), Unit::Filter, true) = (root, unit, self.learns()) {
            rules.push(self.look());
            self.errors(family, direction, &mut rules);
        }
        if is_root {
            rules.extend(self.before(family, unit));
        }
        let group = (!is_root).then_some(name);
        self.members(list, group, &mut rules, |this, number, position, rules| {
            this.rule((family, unit, table), number, position, rules);
        });
        if let (true, Unit::Filter, Some(first)) = (is_root, unit, list.first()) {
            let direction = self.set.rules[*first].direction;
            let proposing = self.proposing(family, direction, &rules);
            rules.extend(self.rates_at_the_end(&proposing));
            rules.extend(self.learn_at_the_end(&proposing));
            rules.extend(self.logs(proposing));
        }
        let blocks = self.options.default_block && unit == Unit::Filter;
        let policy = is_root.then(|| ChainPolicy {
            id: self.hidden(),
            origin: Origin {
                source: SourceId(0),
                line: 1,
                column: 1,
            },
            verdict: if blocks {
                Verdict::Drop
            } else {
                Verdict::Accept
            },
            preset: Counters::default(),
        });
        self.policy.chains.push(Chain {
            name: name.to_owned(),
            family,
            table,
            rules,
            policy,
        });
        ChainId(self.policy.chains.len() as u32 - 1)
    }

    /// Lowers the rules of a list, or of a group, by their numbers and positions; skips lead over
    /// what each became.
    fn members(
        &mut self,
        list: &[usize],
        group: Option<&str>,
        rules: &mut Vec<crate::model::Rule>,
        mut lower: impl FnMut(&mut Self, usize, usize, &mut Vec<crate::model::Rule>),
    ) {
        let mut starts = Vec::with_capacity(list.len() + 1);
        let mut skips = Vec::new();
        for (position, &number) in list.iter().enumerate() {
            starts.push(rules.len());
            let action = &self.set.rules[number].action;
            if let Action::Skip(count) = action {
                let to = (position + 1).saturating_add(*count as usize);
                skips.push((rules.len(), to.min(list.len())));
            }
            lower(self, number, position, rules);
            if let (Action::Log, Some(group)) = (action, group) {
                // Behind what a head leads into, the question is the same.
                self.end_of_quick(group, rules);
            }
        }
        starts.push(rules.len());
        for (at, to) in skips {
            rules[at].flow = Flow::Skip(starts[to] as u32);
        }
    }

    /// Behind a `log` rule of a group: the original looks at the result so far, and where that is
    /// still the one of a quick head, the group ends there.
    fn end_of_quick(&mut self, group: &str, rules: &mut Vec<crate::model::Rule>) {
        let set = self.set;
        let leads = |rule: &Rule| rule.quick && rule.head.as_deref() == Some(group);
        for head in (0..set.rules.len()).filter(|&number| leads(&set.rules[number])) {
            let Some(mut rule) = rules.last().cloned() else {
                return;
            };
            rule.tests
                .retain(|test| !matches!(test.cond, Cond::ProposedBy(_)));
            rule.tests.push(Test {
                negate: false,
                cond: Cond::ProposedBy(RuleId(head as u32)),
            });
            rule.ops.clear();
            rule.flow = Flow::Return;
            rule.id = self.hidden();
            rule.index = crate::model::Rule::HIDDEN;
            rules.push(rule);
        }
    }

    fn origin(&self, rule: &Rule) -> Origin {
        let position = self.sources.position(rule.at.0);
        Origin {
            source: rule.at.0.source,
            line: position.map_or(1, |position| position.line),
            column: position.map_or(1, |position| position.column),
        }
    }

    /// What a rule becomes. A reset answers only TCP, so such a rule is two, with one counter.
    fn rule(
        &mut self,
        (family, unit, table): (Family, Unit, Table),
        number: usize,
        position: usize,
        rules: &mut Vec<crate::model::Rule>,
    ) {
        let rule = &self.set.rules[number];
        let mut tests = conditions::tests(rule, family, self.tables, &self.options);
        tests.extend(self.while_it_lasts(number));
        // What a skip leads into is never read.
        let head = rule.head.as_ref();
        let head = head.filter(|_| !matches!(rule.action, Action::Skip(_)));
        let group = head.map(|head| self.group(family, unit, table, head));
        let group = self.rated((family, table), number, group);
        let learner = match rule.quick && unit == Unit::Filter {
            true => self.learner(number),
            false => None,
        };
        let log = Op::Log(log_of(rule));
        let (id, origin) = (RuleId(number as u32), self.origin(rule));
        let made = |tests: Vec<Test>, ops: Vec<Op>, flow: Flow| crate::model::Rule {
            id,
            origin,
            index: position as u32 + 1,
            tests,
            ops,
            flow,
            preset: Counters::default(),
        };
        let flow = match rule.action {
            Action::Log => {
                let ends = rule.quick && self.options.log_quick_ends;
                let flow = match (ends, group) {
                    (true, _) => Flow::Return,
                    (false, Some(group)) => Flow::Jump(group),
                    (false, None) => Flow::Next,
                };
                rules.push(made(tests, vec![log], flow));
                return;
            }
            Action::Count => {
                rules.push(made(tests, vec![], counting(rule, group)));
                return;
            }
            Action::Call { .. } => {
                for (tests, flow) in self.called((family, unit, table), number, tests) {
                    let called = made(tests, vec![], flow);
                    rules.push(called);
                }
                return;
            }
            // Where it leads is known when the list is whole.
            Action::Skip(_) => {
                rules.push(made(tests, vec![], Flow::Next));
                return;
            }
            _ => |verdict| match (group, rule.quick) {
                (Some(group), quick) => Flow::Head {
                    verdict,
                    group,
                    quick,
                },
                (None, true) => Flow::Verdict(verdict),
                (None, false) => Flow::Propose(verdict),
            },
        };
        let verdict = verdict(rule, family);
        // A rule that surely decides logs at once; another one when the list is over.
        let logs = log_counts(rule) && rule.log.is_some_and(|log| log.limit.is_none());
        let ops = match logs && rule.quick && rule.head.is_none() {
            true => vec![log],
            false => vec![],
        };
        if let (Some(_), Some(learner)) = (rule.keep_limit, learner) {
            let limited = made(tests, ops, Flow::Next);
            rules.extend(Self::limiting(limited, learner));
            return;
        }
        if verdict == Verdict::Reject(RejectKind::TcpReset) {
            let reset = made(tests, ops, flow(verdict));
            for made in reset_or_drop(&reset, flow(Verdict::Drop), rule.direction) {
                push(rules, made, learner);
            }
            return;
        }
        push(rules, made(tests, ops, flow(verdict)), learner);
    }

    /// The chain of a group.
    fn group(&mut self, family: Family, unit: Unit, table: Table, name: &Name) -> ChainId {
        let key = (family, unit, name.clone());
        if let Some(&chain) = self.groups.get(&key) {
            return chain;
        }
        let members = self.set.group(unit, name).cloned().unwrap_or_default();
        let chain = self.list(name, family, &members, (unit, table, None));
        self.groups.insert(key, chain);
        chain
    }

    /// The rules of a list and its groups that propose a verdict.
    fn proposing(
        &self,
        family: Family,
        direction: Direction,
        rules: &[crate::model::Rule],
    ) -> Vec<crate::model::Rule> {
        // Verdicts about ICMP errors are withdrawn before the list begins.
        let judges = |at: &usize| self.judging.values().any(|chain| chain.0 as usize == *at);
        let chains = self
            .policy
            .chains
            .iter()
            .enumerate()
            .filter(|(at, chain)| chain.family == family && !judges(at));
        let of_groups = chains.flat_map(|(_, chain)| &chain.rules);
        let of_text = self.set.rules.len();
        let proposes = |rule: &&crate::model::Rule| {
            let proposes = matches!(rule.flow, Flow::Propose(_) | Flow::Head { .. });
            proposes && (rule.id.0 as usize) < of_text
        };
        rules
            .iter()
            .chain(of_groups)
            .filter(proposes)
            // A `quick` rule that is no head decides at once, whatever it leads into.
            .filter(|rule| {
                let of = &self.set.rules[rule.id.0 as usize];
                !of.quick || of.head.is_some()
            })
            .filter(|rule| self.set.rules[rule.id.0 as usize].direction == direction)
            .cloned()
            .collect()
    }

    /// Behind a list: what its rules log when their proposal stands. Each asks its rule's own
    /// conditions too, so that a packet meets only those that matched it.
    fn logs(&mut self, mut proposing: Vec<crate::model::Rule>) -> Vec<crate::model::Rule> {
        proposing.retain(|rule| log_counts(&self.set.rules[rule.id.0 as usize]));
        for rule in &mut proposing {
            let log = log_of(&self.set.rules[rule.id.0 as usize]);
            rule.tests.push(Test {
                negate: false,
                cond: Cond::ProposedBy(rule.id),
            });
            rule.ops = vec![Op::Log(log)];
            rule.flow = Flow::Next;
            rule.id = self.hidden();
            rule.index = crate::model::Rule::HIDDEN;
        }
        proposing
    }
}

/// Whether what a rule decides is logged; what `nomatch` says is logged only by `ipf -l nomatch`.
fn log_counts(rule: &Rule) -> bool {
    rule.log.is_some() && rule.action != Action::Nomatch
}

/// Adds a rule, and where it makes a state, what is left of it when it can't.
fn push(
    rules: &mut Vec<crate::model::Rule>,
    rule: crate::model::Rule,
    learner: Option<crate::model::LearnerId>,
) {
    match learner {
        Some(learner) => rules.extend(Lowering::learning(rule, learner)),
        None => rules.push(rule),
    }
}

/// What a rule that logs writes.
fn log_of(rule: &Rule) -> LogOp {
    let log = rule.log.unwrap_or_default();
    LogOp {
        level: log.level.map_or(6, |level| level.1),
        or_block: log.or_block,
        of_verdict: rule.action != Action::Log,
        ..LogOp::default()
    }
}

/// Where an accounting rule leads. `quick` ends all lists: of a head where no member matched, of a
/// member also that of its head.
fn counting(rule: &Rule, group: Option<ChainId>) -> Flow {
    let verdict = Verdict::Accept;
    match (group, rule.quick, rule.group.is_some()) {
        (Some(group), quick, _) => Flow::Head {
            verdict,
            group,
            quick,
        },
        (None, true, true) => Flow::Verdict(verdict),
        (None, false, true) => Flow::Propose(verdict),
        (None, true, false) => Flow::Return,
        (None, false, false) => Flow::Next,
    }
}
