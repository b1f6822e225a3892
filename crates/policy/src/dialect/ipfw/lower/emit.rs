//! One rule of ipfw as rules of the model, in a chain that is being made.
//!
//! In: branches and tails. Out: rules with the identity of the original, each alternative one; who
//! matched one of them and goes on, goes on behind the last. Random choices and lines that are
//! counted are asked once a packet, in hidden rules of their own where that takes it.

use super::action::{Acting, Tail, To};
use super::body::{At, Branch, branches};
use super::formula::{Conjunction, is, is_not, simplified};
use super::frames::Layer;
use super::literal::Refused;
use super::reach::{UNASKED, Ways};
use super::states::{forgets, look_of};
use super::{Lowering, RULES_MAX, Remembers};
use crate::dialect::ipfw::LoadedRule;
use crate::dialect::ipfw::ast::{Action, Argument, InterfaceName, Pattern};
use crate::dialect::ipfw::log;
use crate::eval::ipfw::Pass;
use crate::model::{
    ChainId, Cond, DynamicTest, Family, Flow, HistoryKind, Limit, LogOp, Op, Rule, RuleId,
    Statistic, Test,
};
use crate::syntax::Diagnostic;
use std::rc::Rc;

/// Informational, as the original's lines are.
const LOG_LEVEL: u8 = 6;

/// What one rule comes to, in order.
#[derive(Clone)]
pub(super) struct Made {
    pub tests: Conjunction,
    pub ops: Vec<Op>,
    pub to: To,
    /// The line that is logged.
    pub line: Option<Op>,
    /// Lines are counted, so the line is a rule of its own.
    pub logs_apart: bool,
    /// Passes the rule over without counting.
    pub hidden: bool,
    /// Of a call.
    pub call: Called,
}

/// What a call is made with.
#[derive(Clone, Copy)]
pub(super) struct Called {
    /// What is known of looks for states, see [`reach`](super::reach).
    pub known: u64,
    /// The position to come back to.
    pub back: usize,
    /// Nothing of the rule stands behind it, and the next rule is where it comes back to.
    pub alone: bool,
}

/// A chain on its way.
pub(super) struct Listing {
    pub scope: (Family, Pass),
    /// Depth of calls, in a called range.
    pub depth: Option<usize>,
    /// Which positions packets come to, and what they have looked up there; missing where no rule
    /// asks for states, in the list that nobody calls.
    pub ways: Option<Rc<Ways>>,
    /// Where each rule of the original begins.
    pub starts: Vec<usize>,
    /// Rules that skip to a position of the original.
    pub skips: Vec<(usize, usize)>,
}

impl Listing {
    /// Whether a look for a state can find something.
    pub fn must_look(&self, position: usize) -> bool {
        self.ways.as_ref().is_none_or(|ways| ways.look_at(position))
    }

    /// What is known of looks where a rule acts.
    fn known(&self, position: usize) -> u64 {
        let ways = self.ways.as_ref();
        ways.map_or(UNASKED, |ways| ways.known(position))
    }

    /// Whether packets come to a position of a called range. The list that nobody calls is made
    /// whole, so that its rules are where the original's are.
    fn has(&self, position: usize) -> bool {
        let ways = self.ways.as_ref().filter(|_| self.depth.is_some());
        ways.is_none_or(|ways| ways.come_to(position))
    }
}

impl Lowering<'_> {
    /// Rules of a chain: those at positions that packets come to, all but the default rule.
    pub(super) fn list(
        &mut self,
        scope: (Family, Pass),
        depth: Option<usize>,
        ways: Option<Rc<Ways>>,
        rules: &mut Vec<Rule>,
    ) {
        let set = self.set;
        let count = set.rules.len() - 1;
        let mut listing = Listing {
            scope,
            depth,
            ways,
            starts: Vec::with_capacity(count + 1),
            skips: Vec::new(),
        };
        for position in 0..count {
            listing.starts.push(rules.len());
            let loaded = &set.rules[position];
            if !listing.has(position) || !set.is_enabled(loaded.rule.set) {
                continue;
            }
            if let Err(At(span, why)) = self.rule(position, &mut listing, rules) {
                self.refuse(span, &why);
            }
        }
        listing.starts.push(rules.len());
        for (at, to) in listing.skips {
            rules[at].flow = Flow::Skip(listing.starts[to] as u32);
        }
    }

    fn rule(
        &mut self,
        position: usize,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        self.refuse_rule(loaded)?;
        if self.layer != Layer::Network && self.is_passed_over(position, listing.scope)? {
            return Ok(());
        }
        if loaded.rule.state.is_some() || look_of(&loaded.rule).is_some() {
            return self.stateful(position, listing, rules);
        }
        let all = branches(&self.scope(listing.scope.0, listing.scope.1), &loaded.rule)?;
        let mut made = Vec::new();
        for branch in &all {
            self.branch(position, listing, branch, &mut made)?;
        }
        // What passes the rule over matters only in front of other alternatives.
        while made
            .last()
            .is_some_and(|one| one.hidden && one.line.is_none() && one.ops.is_empty())
        {
            made.pop();
        }
        if made.is_empty() {
            return Ok(());
        }
        if rules.len() + made.len() > RULES_MAX {
            let why = Refused {
                what: format!("a rule set of more than {RULES_MAX} alternatives"),
                help: "use tables",
            };
            return Err(At(loaded.rule.place.0, why));
        }
        self.emit(position, listing, made, rules)
    }

    /// What can't be enforced of a rule, whatever its packets.
    fn refuse_rule(&mut self, loaded: &LoadedRule) -> Result<(), At> {
        let rule = &loaded.rule;
        let refused = |span, what: &str, help| {
            let what = what.to_owned();
            Err(At(span, Refused { what, help }))
        };
        if let (Some(trouble), true) = (self.tags.trouble, rule.tag.is_some()) {
            let help = "tags take bits of the packet mark: use fewer, or marks only";
            return refused(rule.modifier_place.0, trouble, help);
        }
        let owners = self.set.owners.iter();
        let owned = |address: u32| owners.clone().flatten().any(|(_, own)| *own == address);
        for one in &rule.body {
            if let Pattern::Interface(_, InterfaceName::Address(address)) = one.pattern
                && self.set.owners.is_some()
                && !owned(address)
            {
                let message = "no interface has this address here";
                let found = Diagnostic::warning("no-address", one.place.0, message);
                let help = "it matches no interface until one has it";
                self.tell(one.place.0, found.help(help));
            }
        }
        if rule
            .log
            .as_ref()
            .is_some_and(|log| log.destinations & !1 != 0)
        {
            let span = rule.modifier_place.0;
            let message = "`logdst`: lines go to `weir log` alone";
            let found = Diagnostic::warning("logdst", span, message);
            self.tell(span, found.help("see weir log --help"));
        }
        Ok(())
    }

    pub(super) fn branch(
        &mut self,
        position: usize,
        listing: &Listing,
        branch: &Branch,
        made: &mut Vec<Made>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        let rule = &loaded.rule;
        let call = Called {
            known: listing.known(position),
            back: set.position(rule.number + 1),
            alone: false,
        };
        if !branch.acts || branch.defers {
            made.extend(branch.formula.iter().map(|tests| Made {
                tests: tests.clone(),
                ops: Vec::new(),
                to: To::Next,
                line: None,
                logs_apart: false,
                hidden: true,
                call,
            }));
            return Ok(());
        }
        let piped = match rule.action {
            Action::Pipe(Argument::Number(number)) => self.piped(number),
            Action::Pipe(Argument::TableArg) => self.piped(branch.value as u32),
            _ => None,
        };
        let acting = Acting {
            set: self.set,
            rule,
            piped,
            family: listing.scope.0,
            pass: listing.scope.1,
            value: branch.value,
            called: listing.depth.is_some(),
            options: self.options,
            layer: self.layer,
        };
        let tails = acting
            .tails(&rule.action)
            .map_err(|why| At(rule.action_place.0, why))?;
        let log = rule.log.as_ref().filter(|_| branch.logs);
        let amount = log.map_or(0, |log| {
            log.amount.unwrap_or(self.set.settings.verbose_limit)
        });
        let tag = rule.tag.filter(|_| branch.tags).and_then(|tag| {
            let number = match tag.tag {
                Argument::Number(number) => number,
                Argument::TableArg => branch.tag_value as u32,
            };
            self.tags.change(number, tag.remove)
        });
        for tests in &branch.formula {
            for (number, tail) in tails.iter().enumerate() {
                let Tail {
                    tests: more,
                    ops: own,
                    to,
                } = tail;
                let Some(mut tests) = simplified(tests.iter().chain(more).cloned()) else {
                    continue;
                };
                let asked = self.states.any() && self.layer == Layer::Network;
                if asked && forgets(&rule.action) && *to != To::Nothing {
                    tests.push(is(Cond::Dynamic(DynamicTest::Forget)));
                }
                // What a pipe makes of a packet is not asked twice: its one line comes before.
                let logs = amount == 0 || piped.is_none() || number == 0;
                let line = log.filter(|_| logs).map(|_| self.line(loaded, branch));
                let mut ops: Vec<Op> = line.iter().filter(|_| amount == 0).cloned().collect();
                ops.extend(tag.clone());
                ops.extend(own.iter().cloned());
                made.push(Made {
                    tests,
                    ops,
                    to: *to,
                    line,
                    logs_apart: amount != 0 && logs,
                    hidden: *to == To::Nothing,
                    call,
                });
            }
        }
        Ok(())
    }

    fn line(&self, loaded: &LoadedRule, branch: &Branch) -> Op {
        let rule = &loaded.rule;
        let word = log::word(&rule.action, branch.value as u32);
        logged(format!("ipfw: {} {word} ", rule.number))
    }

    /// Puts what a rule came to into the chain.
    fn emit(
        &mut self,
        position: usize,
        listing: &mut Listing,
        mut made: Vec<Made>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        // Rules that go on behind this rule of the original.
        let mut ends = Vec::new();
        let apart = made.len() > 1 || made.iter().any(|one| one.logs_apart);
        if let Some(units) = loaded.rule.probability {
            let kind = HistoryKind::Statistic(Statistic::Random(units));
            let chance = Cond::History(self.history(loaded.id, Remembers::Probability, kind));
            if apart {
                ends.push(rules.len());
                rules.push(self.hidden_rule(vec![is_not(chance)], Flow::Next));
            } else {
                made[0].tests.push(is(chance));
            }
        }
        if let [one] = made.as_mut_slice() {
            one.call.alone = one.call.back == position + 1;
        }
        for one in made {
            self.alternative(position, listing, one, &mut ends, rules)?;
        }
        let end = rules.len();
        for at in ends.into_iter().filter(|at| at + 1 < end) {
            rules[at].flow = Flow::Skip(end as u32);
        }
        Ok(())
    }

    /// One alternative that leads on from where it stands.
    pub(super) fn alternative(
        &mut self,
        position: usize,
        listing: &mut Listing,
        one: Made,
        ends: &mut Vec<usize>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        if one.logs_apart {
            self.counted_line(loaded, &one, rules);
        }
        let at = rules.len();
        let flow = match one.to {
            To::Verdict(verdict) => Flow::Verdict(verdict),
            To::Return => Flow::Return,
            To::Next | To::Nothing => {
                ends.push(at);
                Flow::Next
            }
            To::Position(to) => {
                listing.skips.push((at, to));
                Flow::Next
            }
            To::Call(to) => {
                let depth = listing.depth.unwrap_or(0) + 1;
                let chain = self
                    .called(listing.scope, (to, one.call.known), depth)
                    .map_err(|why| At(loaded.rule.action_place.0, why))?;
                self.call(loaded, chain, one, listing, rules);
                return Ok(());
            }
        };
        rules.push(match one.hidden {
            true => Rule {
                ops: one.ops,
                ..self.hidden_rule(one.tests, flow)
            },
            false => self.visible(loaded, one, flow),
        });
        Ok(())
    }

    /// A rule of the original's, in the model.
    fn visible(&self, loaded: &LoadedRule, one: Made, flow: Flow) -> Rule {
        Rule {
            id: loaded.id,
            origin: self.origin(loaded.rule.place),
            index: loaded.rule.number,
            tests: one.tests,
            ops: one.ops,
            flow,
            preset: loaded.counters,
        }
    }

    /// A call: those who come back pass over what stands behind it, which is for those who were not
    /// called.
    fn call(
        &self,
        loaded: &LoadedRule,
        chain: ChainId,
        mut one: Made,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) {
        let (call, flow) = (one.call, Flow::Jump(chain));
        if call.alone {
            rules.push(self.visible(loaded, one, flow));
            return;
        }
        let tests = std::mem::take(&mut one.tests);
        let at = rules.len();
        rules.push(self.hidden_rule(tests, Flow::Skip(at as u32 + 2)));
        rules.push(self.hidden_rule(Vec::new(), Flow::Skip(at as u32 + 4)));
        rules.push(self.visible(loaded, one, flow));
        listing.skips.push((rules.len(), call.back));
        rules.push(self.hidden_rule(Vec::new(), Flow::Next));
    }

    /// The line of a rule whose lines are counted, in front of it; and behind the last one that
    /// there was the last one.
    fn counted_line(&mut self, loaded: &LoadedRule, one: &Made, rules: &mut Vec<Rule>) {
        let default = self.set.settings.verbose_limit;
        let log = loaded.rule.log.as_ref();
        let amount = log.and_then(|log| log.amount).unwrap_or(default);
        let mut tests = one.tests.clone();
        tests.retain(|test| !self.is_of_pipe(test));
        let line = one.line.iter().cloned().collect();
        let lines = [(Remembers::LogAmount, times(amount))];
        rules.push(self.line_of(loaded.id, &tests, &lines, line));
        let packets = HistoryKind::Statistic(Statistic::Nth {
            every: amount,
            packet: amount - 1,
        });
        let end = [
            (Remembers::LogPackets, packets),
            (Remembers::LogEnd, times(1)),
        ];
        let line = log::limit_line(loaded.rule.number, amount);
        rules.push(self.line_of(loaded.id, &tests, &end, vec![logged(line)]));
    }

    /// A line for packets that tests hold for, as often as histories of the rule say.
    fn line_of(
        &mut self,
        id: RuleId,
        tests: &[Test],
        histories: &[(Remembers, HistoryKind)],
        ops: Vec<Op>,
    ) -> Rule {
        let mut tests = tests.to_vec();
        for (what, kind) in histories {
            let history = self.history(id, *what, kind.clone());
            tests.push(is(Cond::History(history)));
        }
        let mut rule = self.hidden_rule(tests, Flow::Next);
        // A number of its own, so that a record tells whose line it is.
        rule.id = RuleId(self.policy.rule_count);
        self.policy.rule_count += 1;
        rule.ops = ops;
        rule
    }
}

fn logged(prefix: String) -> Op {
    Op::Log(LogOp {
        level: LOG_LEVEL,
        prefix,
        ..LogOp::default()
    })
}

/// So many times, and no more.
fn times(amount: u32) -> HistoryKind {
    HistoryKind::Limit(Limit {
        // A token comes back after five days: as good as never.
        cost: u32::MAX,
        burst: amount,
    })
}
