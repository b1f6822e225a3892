//! What a policy means: an evaluator that goes through the rules one by one.
//!
//! Slow and plain on purpose. Every faster form (the compiled image in user space and in the
//! kernel) is tested against it, and `weir explain` prints what it did. In: a [`Policy`], packets
//! as fields, a clock. Out: a [`Judgement`] a hook, and counters.
//!
//! A packet's way through the host is a [`Passage`]: what one hook tells the next (mark, TOS,
//! connection state). Within a hook the tables are evaluated raw, mangle, filter; connection
//! tracking looks at the packet after raw at PREROUTING and OUTPUT, and at any other hook only if
//! it has not been looked at before. Frames of the link layer meet roots of their own, and nothing
//! else does ([`crate::model::Root::is_of_frames`]).

mod allocation;
mod aside;
pub(crate) mod candidates;
mod dynamic;
mod fields;
pub mod history;
pub mod ipf;
pub mod ipfw;
mod learned;
mod sets;
pub mod track;

pub use aside::{text_is_in, words_hold};
pub use dynamic::with_answer;
pub use fields::{Truth, address_in, pure_condition, tcp_option};
pub use learned::{Found, Learned, learned_verdict};
pub use sets::Sets;

use crate::model::{
    ChainId, Cond, Counters, CtState, Family, Flow, Hook, IcmpHeadTest, Op, Packet, Policy,
    RangeSet, Rule, RuleId, Table, Test, Transport, Verdict,
};
use history::Histories;
use track::{Seen, Tracker};

/// The addresses of this host, for address types.
#[derive(Clone, Debug, Default)]
pub struct Locals {
    /// IPv4 addresses of interfaces.
    pub local: RangeSet<u128>,
    /// IPv4 broadcast addresses of interfaces.
    pub broadcast: RangeSet<u128>,
    /// IPv4 addresses that routes call anycast.
    pub anycast: RangeSet<u128>,
    /// IPv6 addresses of interfaces.
    pub local6: RangeSet<u128>,
}

/// What a packet carries from hook to hook.
#[derive(Clone, Debug, Default)]
pub struct Passage {
    /// Packet mark.
    pub mark: u32,
    /// TOS byte as rewritten so far.
    pub tos: u8,
    /// Whether a rule asked that it stay untracked.
    pub untracked: bool,
    /// Connection state, once tracking has looked.
    pub state: Option<CtState>,
    /// What tracking found.
    pub seen: Option<Seen>,
    /// The packet as IPFilter sees it, which the caller gives for policies that learn. Where it
    /// is missing, the packet belongs to no state and none is made for it.
    pub facts: Option<Box<ipf::IpfPacket>>,
}

impl Passage {
    /// The beginning of a packet's way.
    pub fn of(packet: &Packet) -> Self {
        Passage {
            mark: packet.mark,
            tos: packet.tos,
            ..Passage::default()
        }
    }
}

/// What became of one rule for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All tests held.
    Matched,
    /// This test (from 0) failed.
    Failed(usize),
    /// This test (from 0) could not read a transport header that is cut short.
    HotDrop(usize),
}

/// One rule that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Table in which it was tried.
    pub table: Table,
    /// Its chain.
    pub chain: ChainId,
    /// Position in [`crate::model::Chain::rules`]; `None` for the chain policy.
    pub rule: Option<usize>,
    /// What became of it.
    pub step: Step,
}

/// What one hook decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict. Without any root at the hook: accept.
    pub verdict: Verdict,
    /// The rule or chain policy that gave it; `None` without roots and for a hot drop.
    pub decided_by: Option<RuleId>,
    /// Whether it was a hot drop.
    pub hot_drop: bool,
    /// Rules (and chain policies) that matched and so counted, in order.
    pub matched: Vec<RuleId>,
    /// Operations carried out, with their rule, in order.
    pub ops: Vec<(RuleId, Op)>,
    /// Packet mark afterwards.
    pub mark: u32,
    /// TOS byte afterwards.
    pub tos: u8,
    /// Connection state as the last table saw it.
    pub state: CtState,
    /// Every rule tried, when asked for.
    pub tried: Vec<Tried>,
}

/// The evaluator: a policy and everything that remembers.
#[derive(Clone, Debug)]
pub struct Evaluator<'p> {
    policy: &'p Policy,
    /// Connection tracking.
    pub tracker: Tracker,
    /// Limits, lists and counts.
    pub histories: Histories,
    /// States that rules made.
    pub learned: Learned,
    /// Named sets.
    pub sets: Sets,
    /// Addresses of the host.
    pub locals: Locals,
    /// Counters by [`RuleId`].
    pub counters: Vec<Counters>,
    /// Whether [`Judgement::tried`] is filled.
    pub trace: bool,
}

/// How deep chains may call each other; lowering refuses cycles, so this is only a backstop.
const DEPTH_MAX: usize = 1024;

enum Walked {
    Verdict(Verdict, RuleId),
    HotDrop,
    Returned,
}

/// A verdict that stands until another rule proposes one.
type Proposal = Option<(Verdict, RuleId)>;

impl<'p> Evaluator<'p> {
    /// A fresh evaluator: no flows, full token buckets, zero counters.
    pub fn new(policy: &'p Policy, now_ms: u64) -> Self {
        Evaluator {
            policy,
            tracker: Tracker::default(),
            histories: Histories::new(policy),
            learned: Learned::default(),
            sets: Sets::new(&policy.sets, now_ms),
            locals: Locals::default(),
            counters: vec![Counters::default(); policy.rule_count as usize],
            trace: false,
        }
    }

    /// Judges a packet at its hook, with the state that earlier hooks left in `passage`.
    pub fn judge(&mut self, packet: &Packet, passage: &mut Passage, now_ms: u64) -> Judgement {
        let mut out = Judgement {
            verdict: Verdict::Accept,
            decided_by: None,
            hot_drop: false,
            matched: Vec::new(),
            ops: Vec::new(),
            mark: passage.mark,
            tos: passage.tos,
            state: CtState::Invalid,
            tried: Vec::new(),
        };
        for table in [Table::Raw, Table::Mangle, Table::Filter] {
            if table != Table::Raw && passage.state.is_none() {
                self.look(packet, passage, now_ms);
            }
            let Some(root) = self.policy.root(packet.family, packet.hook, table) else {
                continue;
            };
            if root.is_of_frames() != packet.aside.frame.is_some() {
                continue;
            }
            let mut standing = None;
            self.learned.begin();
            let place = (root.chain, table, 0);
            match self.chain(place, packet, passage, now_ms, &mut out, &mut standing) {
                Walked::Verdict(verdict, rule) => {
                    out.verdict = verdict;
                    out.decided_by = Some(rule);
                }
                Walked::HotDrop => {
                    out.verdict = Verdict::Drop;
                    out.decided_by = None;
                    out.hot_drop = true;
                }
                Walked::Returned => unreachable!("a root chain has a policy"),
            }
            if out.verdict != Verdict::Accept {
                break;
            }
        }
        out.mark = passage.mark;
        out.tos = passage.tos;
        out.state = passage.state.unwrap_or(CtState::Invalid);
        let last = matches!(packet.hook, Hook::Input | Hook::Forward | Hook::Output);
        if out.verdict == Verdict::Accept
            && last
            && let Some(seen) = &passage.seen
        {
            self.tracker.confirm(packet, seen, now_ms);
        }
        out
    }

    fn look(&mut self, packet: &Packet, passage: &mut Passage, now_ms: u64) {
        if passage.untracked {
            passage.state = Some(CtState::Untracked);
            return;
        }
        let seen = self.tracker.look(packet, now_ms);
        passage.state = Some(seen.state);
        passage.seen = Some(seen);
    }

    /// Walks a chain of a table, `depth` calls deep.
    fn chain(
        &mut self,
        (id, table, depth): (ChainId, Table, usize),
        packet: &Packet,
        passage: &mut Passage,
        now_ms: u64,
        out: &mut Judgement,
        standing: &mut Proposal,
    ) -> Walked {
        assert!(depth < DEPTH_MAX, "chains call each other without end");
        let chain = self.policy.chain(id);
        let mut at = 0;
        while let Some(rule) = chain.rules.get(at) {
            let step = self.rule(rule, packet, passage, now_ms, standing);
            if self.trace {
                out.tried.push(Tried {
                    table,
                    chain: id,
                    rule: Some(at),
                    step,
                });
            }
            at += 1;
            match step {
                Step::HotDrop(_) => return Walked::HotDrop,
                Step::Failed(_) => continue,
                Step::Matched => {}
            }
            self.count(rule.id, packet, out);
            for op in &rule.ops {
                self.operate(op, packet, passage, now_ms);
                out.ops.push((rule.id, op.clone()));
            }
            let target = match rule.flow {
                Flow::Next => continue,
                Flow::Verdict(verdict) => return Walked::Verdict(verdict, rule.id),
                Flow::Return => break,
                Flow::Skip(to) => {
                    assert!(to as usize >= at, "evaluation only goes forward");
                    at = to as usize;
                    continue;
                }
                Flow::Propose(verdict) => {
                    *standing = Some((verdict, rule.id));
                    continue;
                }
                Flow::Head { verdict, group, .. } => {
                    *standing = Some((verdict, rule.id));
                    group
                }
                Flow::Jump(target) | Flow::Goto(target) => target,
                Flow::Refuse => {
                    standing.iter_mut().for_each(|s| s.0 = Verdict::Drop);
                    continue;
                }
                Flow::Withdraw => {
                    *standing = None;
                    continue;
                }
                Flow::AsLearned => return self.as_learned(packet, out),
            };
            let place = (target, table, depth + 1);
            match self.chain(place, packet, passage, now_ms, out, standing) {
                Walked::Returned => {}
                decided => return decided,
            }
            match (rule.flow, &*standing) {
                (Flow::Goto(_), _) => break,
                (Flow::Head { quick: true, .. }, &Some((verdict, by))) if by == rule.id => {
                    return Walked::Verdict(verdict, by);
                }
                _ => {}
            }
        }
        self.end_of_chain(id, table, packet, out, standing)
    }

    /// Does what the learner says whose state was found.
    fn as_learned(&mut self, packet: &Packet, out: &mut Judgement) -> Walked {
        let policy = self.policy;
        // No rule's: a fragment that overlaps the first one.
        let Some(found) = self.learned.found() else {
            return Walked::HotDrop;
        };
        let learner = &policy.learners[found.learner.0 as usize];
        if learner.counts {
            self.count(learner.rule, packet, out);
        }
        let log = learner.log.iter();
        out.ops
            .extend(log.map(|log| (learner.rule, Op::Log(log.clone()))));
        let verdict = self.learned.verdict(policy, packet);
        Walked::Verdict(verdict.unwrap_or(Verdict::Drop), learner.rule)
    }

    fn end_of_chain(
        &mut self,
        id: ChainId,
        table: Table,
        packet: &Packet,
        out: &mut Judgement,
        standing: &Proposal,
    ) -> Walked {
        let Some(policy) = &self.policy.chain(id).policy else {
            return Walked::Returned;
        };
        if let &Some((verdict, by)) = standing {
            return Walked::Verdict(verdict, by);
        }
        if self.trace {
            let step = Step::Matched;
            out.tried.push(Tried {
                table,
                chain: id,
                rule: None,
                step,
            });
        }
        self.count(policy.id, packet, out);
        Walked::Verdict(policy.verdict, policy.id)
    }

    fn count(&mut self, id: RuleId, packet: &Packet, out: &mut Judgement) {
        let counters = &mut self.counters[id.0 as usize];
        counters.packets += 1;
        counters.bytes += u64::from(packet.length);
        out.matched.push(id);
    }

    /// Runs the tests of a rule left to right.
    fn rule(
        &mut self,
        rule: &Rule,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
        standing: &Proposal,
    ) -> Step {
        for (at, test) in rule.tests.iter().enumerate() {
            let truth = match &test.cond {
                Cond::ProposedBy(rule) => standing.is_some_and(|(_, by)| by == *rule).into(),
                Cond::IcmpHead(IcmpHeadTest::Refused) => standing
                    .is_some_and(|(verdict, _)| verdict != Verdict::Accept)
                    .into(),
                _ => self.test(test, packet, passage, now_ms),
            };
            match truth {
                Truth::HotDrop => return Step::HotDrop(at),
                Truth::Absent => return Step::Failed(at),
                truth if (truth == Truth::Yes) == test.negate => return Step::Failed(at),
                _ => {}
            }
        }
        Step::Matched
    }

    fn test(&mut self, test: &Test, packet: &Packet, passage: &Passage, now_ms: u64) -> Truth {
        if let (Cond::Any(tests), true) = (&test.cond, self.policy.short_goes_on) {
            return self.any(tests, packet, passage, now_ms);
        }
        if let Some(truth) = pure_condition(&test.cond, packet, passage, &self.locals) {
            return match truth {
                // A malformed segment is dropped all the same.
                Truth::HotDrop
                    if self.policy.short_goes_on && packet.transport == Transport::Short =>
                {
                    Truth::Absent
                }
                truth => truth,
            };
        }
        let seen = passage.seen.as_ref();
        match &test.cond {
            Cond::Any(tests) => self.any(tests, packet, passage, now_ms),
            Cond::Set { set, fields } => self.sets.contains(*set, fields, packet, now_ms).into(),
            Cond::Connmark { value, mask } => match seen.and_then(|s| self.tracker.connmark(s)) {
                Some(mark) => (mark & mask == *value).into(),
                None => Truth::Absent,
            },
            Cond::Ct(field) => match seen {
                Some(seen) => self.tracker.field(field, seen, now_ms),
                None => Truth::Absent,
            },
            Cond::Learned => {
                let (learned, policy) = (&mut self.learned, self.policy);
                learned.look(policy, packet, passage, now_ms).into()
            }
            Cond::Learn(id) => {
                let (learned, policy) = (&mut self.learned, self.policy);
                learned.learn(policy, *id, packet, passage, now_ms).into()
            }
            Cond::Dynamic(test) => {
                let (learned, policy) = (&mut self.learned, self.policy);
                learned.asks(*test, policy, packet, now_ms).into()
            }
            Cond::IcmpHead(test) => {
                let (learned, policy) = (&mut self.learned, self.policy);
                let holds = learned.icmp_head(*test, policy, packet, passage, now_ms);
                holds.into()
            }
            Cond::IpfWith(with) => {
                match self.learned.with_holds(with, self.policy, packet, passage) {
                    Some(holds) => holds.into(),
                    None => Truth::Absent,
                }
            }
            Cond::OutOfWindow => self.learned.is_out_of_window().into(),
            Cond::History(id) => self
                .histories
                .test(*id, packet, &self.tracker, seen, now_ms)
                .into(),
            other => unreachable!("{other:?} is a pure condition"),
        }
    }

    /// Whether one of these holds.
    fn any(&mut self, tests: &[Test], packet: &Packet, passage: &Passage, now_ms: u64) -> Truth {
        for test in tests {
            match self.test(test, packet, passage, now_ms) {
                Truth::HotDrop => return Truth::HotDrop,
                Truth::Absent => {}
                truth if (truth == Truth::Yes) != test.negate => return Truth::Yes,
                _ => {}
            }
        }
        Truth::No
    }

    fn operate(&mut self, op: &Op, packet: &Packet, passage: &mut Passage, now_ms: u64) {
        let connmark = passage
            .seen
            .as_ref()
            .and_then(|seen| self.tracker.connmark(seen));
        match *op {
            Op::SetMark { value, mask } => passage.mark = (passage.mark & !mask) ^ value,
            Op::SetTos { value, mask } => passage.tos = (passage.tos & !mask) ^ value,
            Op::SetDscp(dscp) => passage.tos = dscp << 2 | passage.tos & 3,
            Op::Notrack => {
                if passage.state.is_none() {
                    passage.untracked = true;
                }
            }
            Op::RestoreConnmark {
                nf_mask,
                ct_mask,
                shift,
            } => {
                if let Some(ct) = connmark {
                    passage.mark = (passage.mark & !nf_mask) ^ shift.of(ct & ct_mask);
                }
            }
            Op::SetConnmark { value, mask, shift } => {
                if let (Some(ct), Some(seen)) = (connmark, &passage.seen) {
                    let mark = shift.of((ct & !mask) ^ value);
                    self.tracker.set_connmark(seen, mark);
                }
            }
            Op::SaveConnmark {
                nf_mask,
                ct_mask,
                shift,
            } => {
                if let (Some(ct), Some(seen)) = (connmark, &passage.seen) {
                    let mark = (ct & !ct_mask) ^ shift.of(passage.mark & nf_mask);
                    self.tracker.set_connmark(seen, mark);
                }
            }
            Op::SetAdd { .. } | Op::SetDelete { .. } => self.sets.apply(op, packet, now_ms),
            Op::Log(_) | Op::Nflog(_) | Op::Classify(_) | Op::TcpMss(_) | Op::Ttl(_) => {}
        }
    }

    /// The hooks that a packet passes, in order: received for this host, routed, or made here.
    pub fn hooks(path: Path) -> &'static [Hook] {
        match path {
            Path::Input => &[Hook::Prerouting, Hook::Input],
            Path::Forward => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
            Path::Output => &[Hook::Output, Hook::Postrouting],
        }
    }

    /// Takes a packet through all hooks of a path, until one does not accept. Interfaces that a
    /// hook does not know are blanked there.
    pub fn travel(&mut self, packet: &Packet, path: Path, now_ms: u64) -> Vec<(Hook, Judgement)> {
        let mut passage = Passage::of(packet);
        let mut out = Vec::new();
        for &hook in Self::hooks(path) {
            let judgement = self.judge(&packet.at(hook), &mut passage, now_ms);
            let accepted = judgement.verdict == Verdict::Accept;
            out.push((hook, judgement));
            if !accepted {
                break;
            }
        }
        out
    }

    /// The policy being evaluated.
    pub fn policy(&self) -> &'p Policy {
        self.policy
    }
}

/// A packet's way through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Received, for this host.
    Input,
    /// Received and routed on.
    Forward,
    /// Made here.
    Output,
}

impl Packet {
    /// The same packet as another hook sees it: no sending interface before routing, no receiving
    /// interface after a packet was made here.
    pub fn at(&self, hook: Hook) -> Packet {
        let mut packet = self.clone();
        packet.hook = hook;
        match hook {
            Hook::Prerouting | Hook::Input => packet.out_iface.clear(),
            Hook::Output => packet.in_iface.clear(),
            Hook::Postrouting => packet.in_iface.clear(),
            Hook::Forward => {}
        }
        packet
    }

    /// Whether it is of this family.
    pub fn is(&self, family: Family) -> bool {
        self.family == family
    }
}
