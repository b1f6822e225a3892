//! A policy's walk for all packets at once.
//!
//! In: a policy, a way through the host, and the set of packets that take it. Out: a diagram from
//! packets to the [`super::state::State`] in which they end. It follows `eval` step by step: every
//! rule splits the packets that have come so far, and chains go only forward, so that each rule is
//! met once for each way that leads to it.
//!
//! Rules in a row that do the same are taken as one ([`super::rows`]).

use super::diagram::{NO, Node, TooLarge, YES, leaf};
use super::field::Field;
use super::mix::Mix;
use super::names::Names;
use super::noting::is_counted_line;
use super::space::Space;
use super::state::{Change, Effect, State, States, Who, mss};
use crate::eval::{Evaluator, Path};
use crate::model::{
    ChainId, Cond, Flow, Hook, LogOp, Op, Policy, RejectKind, Rule, Table, Test, Verdict,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Chains that call each other deeper than this are refused before, by every lowering.
const DEPTH_MAX: usize = 1024;

/// What a walk notes on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Which rule decided.
    pub deciders: bool,
    /// Which rules any packet matched.
    pub reached: bool,
}

/// The walk of one policy.
pub struct Walk<'a, 'p> {
    pub(super) space: &'a mut Space,
    pub(super) states: &'a mut States,
    pub(super) policy: &'p Policy,
    pub(super) names: &'a Names,
    /// 0 or 1: which of the two policies.
    pub(super) side: u8,
    pub(super) notes: Notes,
    /// Rules by id that some packet matched.
    pub(super) reached: Vec<bool>,
    pub(super) hook: Hook,
    /// Whether tracking has looked at the packet.
    pub(super) looked: bool,
    /// Classes of states of ipfw that some packet made.
    pub(super) made: BTreeSet<usize>,
    /// How often a chain was gone into on this way.
    visits: HashMap<ChainId, u32>,
}

/// What the tests of a rule say.
#[derive(Clone, Debug, Default)]
pub(super) struct Matched {
    /// It matches.
    pub yes: Node,
    /// It drops for want of a transport header.
    pub hot: Node,
    /// Things that remember, and who asks them.
    pub asked: Vec<(Node, u32)>,
    /// The packets, with what is known of their states.
    pub live: Node,
}

impl<'a, 'p> Walk<'a, 'p> {
    /// A walk of a policy.
    pub fn new(
        space: &'a mut Space,
        states: &'a mut States,
        policy: &'p Policy,
        names: &'a Names,
        side: u8,
        notes: Notes,
    ) -> Self {
        space.read_as(policy.reading);
        Walk {
            space,
            states,
            policy,
            names,
            side,
            notes,
            reached: vec![false; policy.rule_count as usize],
            hook: Hook::Prerouting,
            looked: false,
            made: BTreeSet::new(),
            visits: HashMap::new(),
        }
    }

    /// Takes the packets of a set through all hooks of a way.
    pub fn journey(&mut self, path: Path, packets: Node) -> Result<Node, TooLarge> {
        self.looked = false;
        self.visits.clear();
        let start = leaf(self.states.number(State::start()));
        let mut live = self.space.diagram.select(packets, start, NO)?;
        let mut first = true;
        for &hook in Evaluator::hooks(path) {
            self.hook = hook;
            for table in [Table::Raw, Table::Mangle, Table::Filter] {
                self.looked |= table != Table::Raw;
                let Some(root) = self.policy.root(self.space.family, hook, table) else {
                    continue;
                };
                live = self.begin_pass(std::mem::take(&mut first), live)?;
                live = self.chain(root.chain, live, 0)?;
                live = self.change(YES, live, &Change::GoOn)?;
            }
        }
        self.answered(live)
    }

    /// Packets whose verdict is a reset that they can't have are dropped.
    fn answered(&mut self, live: Node) -> Result<Node, TooLarge> {
        let reset = Some(Verdict::Reject(RejectKind::TcpReset));
        let rejected = self.where_state(live, |state| state.verdict == reset)?;
        if rejected == NO {
            return Ok(live);
        }
        let resettable = self.space.resettable()?;
        let silent = self.space.diagram.without(rejected, resettable)?;
        self.change(silent, live, &Change::Unanswered)
    }

    pub(super) fn change(
        &mut self,
        of: Node,
        live: Node,
        change: &Change,
    ) -> Result<Node, TooLarge> {
        let space = &mut *self.space;
        let number = self.states.change(change, || space.function());
        let states = &mut *self.states;
        let mut function = |leaf| states.after(leaf, change, number);
        self.space.diagram.update(of, live, number, &mut function)
    }

    /// Packets of `live` that are still without a verdict.
    pub(super) fn walking(&mut self, live: Node) -> Result<Node, TooLarge> {
        self.where_state(live, |state| state.verdict.is_none())
    }

    /// Packets whose state says so.
    pub(super) fn where_state(
        &mut self,
        live: Node,
        says: impl Fn(&State) -> bool,
    ) -> Result<Node, TooLarge> {
        let number = self.space.function();
        let states = &*self.states;
        let mut function = |number: u32| u32::from(states.get(number).is_some_and(&says));
        self.space.diagram.update(YES, live, number, &mut function)
    }

    pub(super) fn who(&self, id: crate::model::RuleId) -> Who {
        match self.notes.deciders {
            true => Who::Rule(self.side, id.0),
            false => Who::Nobody,
        }
    }

    /// Who proposes: told apart where a rule asks for it.
    fn proposer(&self, id: crate::model::RuleId) -> Who {
        match self.notes.deciders || self.names.proposers.contains(&id) {
            true => Who::Rule(self.side, id.0),
            false => Who::Nobody,
        }
    }

    /// Takes packets through a chain; those without a verdict come back from it.
    fn chain(&mut self, id: ChainId, live: Node, depth: usize) -> Result<Node, TooLarge> {
        assert!(depth < DEPTH_MAX, "chains call each other without end");
        *self.visits.entry(id).or_default() += 1;
        let chain = self.policy.chain(id);
        let end = chain.rules.len();
        let targets: BTreeSet<usize> = chain
            .rules
            .iter()
            .filter_map(|rule| match rule.flow {
                Flow::Skip(to) => Some(to as usize),
                _ => None,
            })
            .collect();
        let mut ahead: BTreeMap<usize, Node> = BTreeMap::new();
        let (mut live, mut at) = (live, 0);
        loop {
            if let Some(come) = ahead.remove(&at) {
                live = self.space.diagram.merge(live, come)?;
            }
            if at >= end {
                break;
            }
            if live == NO {
                at = ahead.keys().next().copied().unwrap_or(end);
                continue;
            }
            let until = self.run(&chain.rules, at, &targets);
            if until > at + 1 {
                live = self.rules(&chain.rules[at..until], id, live)?;
                at = until;
                continue;
            }
            live = self.rule((id, at, end), &chain.rules[at], live, depth, &mut ahead)?;
            at += 1;
        }
        if let Some(policy) = &chain.policy {
            live = self.change(YES, live, &Change::End(policy.verdict, self.who(policy.id)))?;
        }
        Ok(live)
    }

    /// One rule: what comes to the next one.
    fn rule(
        &mut self,
        (chain, at, end): (ChainId, usize, usize),
        rule: &Rule,
        live: Node,
        depth: usize,
        ahead: &mut BTreeMap<usize, Node>,
    ) -> Result<Node, TooLarge> {
        if !self.notes.reached && rule.flow == Flow::Next && self.does_nothing(rule) {
            return Ok(live);
        }
        let matched = self.matched(rule, chain, live)?;
        let mut live = matched.live;
        for (who, asked) in &matched.asked {
            live = self.change(*who, live, &Change::Does(Effect::Asked(*asked)))?;
        }
        if matched.hot != NO {
            let who = match self.who(rule.id) {
                Who::Rule(side, id) => Who::CutShort(side, id),
                other => other,
            };
            live = self.change(matched.hot, live, &Change::Decide(Verdict::Drop, who))?;
        }
        let yes = matched.yes;
        if self.notes.reached && !self.reached[rule.id.0 as usize] {
            let walking = self.walking(live)?;
            let come = self.space.diagram.and(walking, yes)?;
            self.reached[rule.id.0 as usize] = come != NO;
        }
        for op in &rule.ops {
            live = self.op(yes, live, op)?;
        }
        self.follow((at, end), rule, (yes, live), depth, ahead)
    }

    /// Where the packets go that matched a rule.
    fn follow(
        &mut self,
        (at, end): (usize, usize),
        rule: &Rule,
        (yes, live): (Node, Node),
        depth: usize,
        ahead: &mut BTreeMap<usize, Node>,
    ) -> Result<Node, TooLarge> {
        let (target, come_back) = match rule.flow {
            Flow::Next => return Ok(live),
            Flow::Verdict(verdict) => {
                let change = Change::Decide(verdict, self.who(rule.id));
                return self.change(yes, live, &change);
            }
            Flow::Propose(verdict) => {
                let change = Change::Propose(verdict, self.proposer(rule.id));
                return self.change(yes, live, &change);
            }
            Flow::Skip(to) => (None, to as usize),
            Flow::Return => (None, end),
            Flow::Jump(target) => (Some(target), at + 1),
            Flow::Goto(target) => (Some(target), end),
            Flow::Head { group, .. } => (Some(group), at + 1),
            Flow::AsLearned if self.policy.dynamic.is_some() => {
                return self.as_noted(rule, yes, live);
            }
            Flow::AsLearned => {
                let live = self.change(yes, live, &Change::Does(Effect::AsItsState))?;
                let change = Change::Decide(Verdict::Accept, self.who(rule.id));
                return self.change(yes, live, &change);
            }
            Flow::Refuse => return self.change(yes, live, &Change::Refuse),
            Flow::Withdraw => return self.change(yes, live, &Change::Withdraw),
        };
        let mut come = self.space.diagram.select(yes, live, NO)?;
        let stay = self.space.diagram.select(yes, NO, live)?;
        if let Flow::Head { verdict, .. } = rule.flow {
            let change = Change::Propose(verdict, self.proposer(rule.id));
            come = self.change(YES, come, &change)?;
        }
        if let Some(target) = target
            && come != NO
        {
            come = self.chain(target, come, depth + 1)?;
        }
        if let Flow::Head { quick: true, .. } = rule.flow {
            let change = Change::DecideProposedBy(self.proposer(rule.id));
            come = self.change(YES, come, &change)?;
        }
        let there = ahead.remove(&come_back).unwrap_or(NO);
        let both = self.space.diagram.merge(there, come)?;
        if both != NO {
            ahead.insert(come_back, both);
        }
        Ok(stay)
    }

    /// Whether a rule that goes on leaves no trace that anybody compares.
    fn does_nothing(&self, rule: &Rule) -> bool {
        let plain = rule.ops.iter().all(|op| !self.names.matters(op)) && self.names.is_plain(rule);
        (plain || is_counted_line(rule, self.names.logs)) && self.policy.short_goes_on
    }

    /// All tests of a rule.
    pub(super) fn matched(
        &mut self,
        rule: &Rule,
        chain: ChainId,
        live: Node,
    ) -> Result<Matched, TooLarge> {
        let mut out = Matched {
            yes: YES,
            hot: NO,
            asked: Vec::new(),
            live,
        };
        let visit = self.visits.get(&chain).copied().unwrap_or(1);
        let mut at = 0;
        for test in &rule.tests {
            let truth = self.test(test, (rule.id, visit), &mut at, live, &mut out)?;
            let hot = self.space.diagram.and(out.yes, truth.hot)?;
            out.hot = self.space.diagram.or(out.hot, hot)?;
            let pass = if test.negate { truth.no } else { truth.yes };
            out.yes = self.space.diagram.and(out.yes, pass)?;
            if out.yes == NO {
                break;
            }
        }
        Ok(out)
    }

    fn op(&mut self, of: Node, live: Node, op: &Op) -> Result<Node, TooLarge> {
        let change = match op {
            Op::Log(log) => Change::Does(Effect::Logged(record(log))),
            Op::Nflog(log) => Change::Does(Effect::Logged(format!("{log:?}"))),
            Op::SetMark { value, mask } => Change::Mark(*value, *mask),
            Op::SetConnmark { value, mask, shift } => Change::Connmark(*value, *mask, *shift),
            Op::SaveConnmark {
                nf_mask,
                ct_mask,
                shift,
            } => Change::Save(*nf_mask, *ct_mask, *shift),
            Op::RestoreConnmark {
                nf_mask,
                ct_mask,
                shift,
            } => Change::Restore(*nf_mask, *ct_mask, *shift),
            Op::Notrack if self.looked => return Ok(live),
            Op::Notrack => Change::Untrack,
            Op::SetDscp(dscp) => Change::Tos(dscp << 2, 0xfc),
            Op::SetTos { value, mask } => Change::Tos(*value, *mask),
            Op::Classify(class) => Change::Class(*class),
            Op::TcpMss(op) => Change::Does(mss(*op)),
            Op::Ttl(op) => Change::Does(Effect::Ttl(*op)),
            Op::SetAdd { .. } | Op::SetDelete { .. } => {
                Change::Does(Effect::Set(super::names::set_change(self.policy, op)))
            }
        };
        let of = match op {
            Op::SetConnmark { .. } | Op::SaveConnmark { .. } | Op::RestoreConnmark { .. } => {
                match self.looked {
                    true => {
                        let flow = self.space.diagram.is(Field::HasFlow, 1)?;
                        self.space.diagram.and(of, flow)?
                    }
                    false => NO,
                }
            }
            _ => of,
        };
        self.change(of, live, &change)
    }

    /// For each way in which a part of the state differs among the packets: what `f` says of it,
    /// put together.
    pub(super) fn by_state<K: Ord + Clone>(
        &mut self,
        live: Node,
        key: impl Fn(&State) -> K,
        mut f: impl FnMut(&mut Self, K) -> Result<Node, TooLarge>,
    ) -> Result<Node, TooLarge> {
        let leaves = self.space.diagram.leaves(live);
        let states = leaves.iter().filter_map(|leaf| self.states.get(*leaf));
        let keys: BTreeSet<K> = states
            .filter(|state| state.verdict.is_none())
            .map(&key)
            .collect();
        let mut out = NO;
        let alone = keys.len() == 1;
        for one in keys {
            let says = f(self, one.clone())?;
            let part = match alone {
                true => says,
                false => {
                    let here = self.where_state(live, |state| key(state) == one)?;
                    self.space.diagram.and(here, says)?
                }
            };
            out = self.space.diagram.or(out, part)?;
        }
        Ok(out)
    }
}

fn record(log: &LogOp) -> String {
    format!("{log:?}")
}

impl Space {
    /// Packets of which a mark, masked, has a value.
    pub fn mix_is(&mut self, mix: &Mix, value: u32, mask: u32) -> Result<Node, TooLarge> {
        if value & !mask != 0 {
            return Ok(NO);
        }
        let mut all = YES;
        for bit in (0..32).filter(|bit| mask >> bit & 1 != 0) {
            let one = self.mix_bit(mix, bit)?;
            let wanted = match value >> bit & 1 {
                1 => one,
                _ => self.diagram.not(one)?,
            };
            all = self.diagram.and(all, wanted)?;
        }
        Ok(all)
    }

    /// Packets of which a mark has a bit.
    pub fn mix_bit(&mut self, mix: &Mix, bit: u32) -> Result<Node, TooLarge> {
        let has = |mask: u32| mask >> bit & 1 != 0;
        let mut one = if has(mix.xor) { YES } else { NO };
        for part in mix.parts.iter().filter(|part| has(part.bits)) {
            let field = match part.flow {
                true => Field::Connmark,
                false => Field::Mark,
            };
            let from = bit.wrapping_add_signed(-i32::from(part.left));
            let set = self.diagram.make(field.bit(from), NO, YES)?;
            let other = self.diagram.not(one)?;
            one = self.diagram.select(set, other, one)?;
        }
        Ok(one)
    }
}

/// A test and those within it, in order.
pub(super) fn nested<'t>(test: &'t Test, visit: &mut impl FnMut(&'t Test)) {
    visit(test);
    if let Cond::Any(tests) = &test.cond {
        tests.iter().for_each(|test| nested(test, visit));
    }
}
