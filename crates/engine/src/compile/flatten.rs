//! Chains to one list of entries per root, in evaluation order.
//!
//! A jump's chain follows the jump, with the jump's static terms ANDed into every term of it, so
//! that a packet meets only entries of chains that it enters. Positions only go forward: RETURN
//! goes to the end of the inlined chain, a jump with tests that are run skips the chain when one
//! fails, GOTO is a chain whose end is the caller's end. The last entry is the chain policy. For
//! packets whose transport header is cut short there is another list, in which a rule that reads
//! that header drops (ip_tables' "hot drop").

use super::Error;
use super::residual::{self, Blob};
use super::statics::Context;
use super::term::{Term, address_last};
use crate::image::layout::{self, Op, Test};
use weir_policy::model::{
    ChainId, Cond, Flow, Op as ModelOp, Policy, RejectKind, Root, Rule, RuleId, SetField, SetId,
    Test as ModelTest, Verdict,
};

/// Depth of chains calling chains.
const DEPTH_MAX: usize = 512;
/// A jump's set test of more terms than this gets entries of its own, so that its terms do not
/// multiply with those of the chain.
const JUMP_TERMS_MAX: usize = 16;

/// One step of the trail.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// `enum weir_verdict`, 0 to go on.
    pub verdict: u8,
    /// Proposals, see [`layout::Entry::flags`].
    pub flags: u8,
    /// Kind of reject.
    pub reject: u16,
    /// Rules that count here.
    pub rules: Vec<RuleId>,
    /// Its terms in [`Flat::terms`]: from here to the next entry's.
    pub terms_from: usize,
    /// Tests that are run.
    pub tests: Vec<Test>,
    /// Operations.
    pub ops: Vec<Op>,
    /// Where a match goes on.
    pub next_match: u32,
    /// Where a failed test goes on.
    pub next_fail: u32,
}

/// A flattened root.
#[derive(Debug, Default)]
pub struct Flat {
    /// Entries; the last one matches every packet.
    pub entries: Vec<Entry>,
    /// Terms of all entries, in order of entries. The chain policy has none.
    pub terms: Vec<Term>,
    /// Whether a rule reads the transport header, so that short packets need a list of their own.
    pub reads_transport: bool,
    /// Of the root's own chain: the first entry of each rule, and of what comes behind the last.
    /// Empty once entries were left out.
    pub starts: Vec<u32>,
    /// Entries that leave the root's own chain: they go on with the chain policy.
    pub leaves: Vec<usize>,
}

impl Flat {
    /// The terms of an entry.
    pub fn terms_of(&self, at: usize) -> &[Term] {
        let until = self
            .entries
            .get(at + 1)
            .map_or(self.terms.len(), |e| e.terms_from);
        &self.terms[self.entries[at].terms_from..until]
    }
}

/// Limits of flattening.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries of one root.
    pub entries: usize,
    /// Terms of one rule, with those of the jumps to it.
    pub terms: usize,
}

/// Flattens one rule of a root's own chain, as if it were the only one.
pub fn flatten_rule<'p>(
    policy: &'p Policy,
    rule: &Rule,
    context: &mut Context<'p>,
    blob: &mut Blob,
    short: bool,
) -> Result<Flat, Error> {
    let limits = Limits {
        entries: 16,
        terms: 1 << 10,
    };
    let mut flattener = Flattener::new(policy, context, blob, limits, short);
    flattener.rule(rule, &[Term::ANY], 0)?;
    Ok(flattener.flat)
}

struct Flattener<'a, 'p> {
    policy: &'p Policy,
    context: &'a mut Context<'p>,
    blob: &'a mut Blob,
    limits: Limits,
    short: bool,
    flat: Flat,
    /// Entries that go on at the end of the chain being inlined, once that is known.
    returns: Vec<usize>,
}

impl<'a, 'p> Flattener<'a, 'p> {
    fn new(
        policy: &'p Policy,
        context: &'a mut Context<'p>,
        blob: &'a mut Blob,
        limits: Limits,
        short: bool,
    ) -> Self {
        Flattener {
            policy,
            context,
            blob,
            limits,
            short,
            flat: Flat::default(),
            returns: Vec::new(),
        }
    }
}

/// Flattens one root.
pub fn flatten<'p>(
    policy: &'p Policy,
    root: &Root,
    context: &mut Context<'p>,
    blob: &mut Blob,
    limits: Limits,
    short: bool,
) -> Result<Flat, Error> {
    let chain = policy.chain(root.chain);
    let mut flattener = Flattener::new(policy, context, blob, limits, short);
    flattener.chain(root.chain, &[Term::ANY], 0)?;
    flattener.flat.leaves = flattener.returns.clone();
    flattener.patch_returns(0);
    let mut flat = flattener.flat;
    let mut last = Entry {
        terms_from: flat.terms.len(),
        ..Entry::default()
    };
    let verdict = match &chain.policy {
        Some(policy) => {
            last.rules.push(policy.id);
            policy.verdict
        }
        None => Verdict::Accept,
    };
    (last.verdict, last.reject) = verdict_numbers(verdict);
    if flat
        .entries
        .iter()
        .any(|entry| entry.flags & layout::FLAG_PROPOSE != 0)
    {
        last.flags = layout::FLAG_STANDING;
    }
    flat.entries.push(last);
    Ok(flat)
}

fn propose(entry: &mut Entry, verdict: Verdict) {
    let (number, reject) = verdict_numbers(verdict);
    entry.flags = layout::FLAG_PROPOSE | number;
    entry.reject = reject;
}

/// Number and kind of reject of a verdict.
pub fn verdict_numbers(verdict: Verdict) -> (u8, u16) {
    match verdict {
        Verdict::Accept => (1, 0),
        Verdict::Drop => (2, 0),
        Verdict::Reject(RejectKind::TcpReset) => (3, 0),
        Verdict::Reject(RejectKind::Icmp(code)) => (3, 0x100 | u16::from(code)),
        Verdict::Reject(RejectKind::Icmp6(code)) => (3, 0x200 | u16::from(code)),
        Verdict::Reject(RejectKind::IcmpAsDestination(code)) => (3, 0x300 | u16::from(code)),
        Verdict::Reject(RejectKind::Icmp6AsDestination(code)) => (3, 0x400 | u16::from(code)),
        Verdict::Reject(RejectKind::FragmentationNeeded(mtu)) => {
            (3, layout::REJECT_MTU | mtu.min(RejectKind::MTU_MAX))
        }
    }
}

impl Flattener<'_, '_> {
    /// Entries of a chain for packets of `scope`. RETURN entries are left in `returns`.
    fn chain(&mut self, id: ChainId, scope: &[Term], depth: usize) -> Result<(), Error> {
        let policy = self.policy;
        let rules = &policy.chain(id).rules;
        let (mut starts, mut skips) = (Vec::with_capacity(rules.len()), Vec::new());
        for rule in rules {
            starts.push(self.flat.entries.len() as u32);
            if depth >= DEPTH_MAX {
                return Err(Error::Depth {
                    limit: DEPTH_MAX,
                    rule: rule.id,
                });
            }
            if let (Some(at), Flow::Skip(to)) = (self.rule(rule, scope, depth)?, rule.flow) {
                skips.push((at, to));
            }
        }
        starts.push(self.flat.entries.len() as u32);
        for (at, to) in skips {
            self.flat.entries[at].next_match = starts[to as usize];
        }
        if depth == 0 {
            self.flat.starts = starts;
        }
        Ok(())
    }

    /// Makes the returns from number `from` on go to the next position.
    fn patch_returns(&mut self, from: usize) {
        let end = self.flat.entries.len() as u32;
        for at in self.returns.drain(from..) {
            self.flat.entries[at].next_match = end;
        }
    }

    /// Entries of a rule; the last of its own, unless no packet can match.
    fn rule(&mut self, rule: &Rule, scope: &[Term], depth: usize) -> Result<Option<usize>, Error> {
        let mut draft = Draft {
            terms: scope.to_vec(),
            ..Draft::default()
        };
        let end = self.conditions(rule, &mut draft)?;
        if end == End::Never {
            self.patch_failures(&draft.failures);
            return Ok(None);
        }
        let tests = std::mem::take(&mut draft.tests);
        let at = self.push(rule.id, tests, &draft.terms)?;
        if end == End::HotDrop {
            self.flat.entries[at].verdict = layout::VERDICT_HOT_DROP;
            self.patch_failures(&draft.failures);
            return Ok(None);
        }
        draft.failures.push((at, Edge::Fail));
        let entry = &mut self.flat.entries[at];
        entry.rules.push(rule.id);
        let ops = rule.ops.iter().enumerate();
        entry.ops = ops
            .map(|(index, op)| residual::operation(op, rule.id, index))
            .collect();
        let changes_set =
            |op: &ModelOp| matches!(op, ModelOp::SetAdd { .. } | ModelOp::SetDelete { .. });
        if rule.ops.iter().any(changes_set) {
            return Err(Error::Unsupported {
                what: "adding to or deleting from a set",
                rule: rule.id,
            });
        }
        if entry.ops.len() > layout::OPS_MAX {
            return Err(Error::Rule {
                limit: layout::OPS_MAX,
                rule: rule.id,
            });
        }
        self.follow(rule, at, &draft.terms, depth)?;
        self.patch_failures(&draft.failures);
        Ok(Some(at))
    }

    /// What comes after a match of the rule whose entry is at `at`.
    fn follow(
        &mut self,
        rule: &Rule,
        at: usize,
        terms: &[Term],
        depth: usize,
    ) -> Result<(), Error> {
        let entry = &mut self.flat.entries[at];
        match rule.flow {
            // The chain knows where a skip leads.
            Flow::Next | Flow::Skip(_) => {}
            Flow::Propose(verdict) => propose(entry, verdict),
            Flow::Head {
                verdict,
                group,
                quick,
            } => {
                propose(entry, verdict);
                let before = self.returns.len();
                self.chain(group, terms, depth + 1)?;
                self.patch_returns(before);
                if quick {
                    let test = Test {
                        kind: layout::TEST_PROPOSED,
                        a: rule.id.0,
                        ..Test::default()
                    };
                    let end = self.push(rule.id, vec![test], terms)?;
                    let entry = &mut self.flat.entries[end];
                    (entry.verdict, entry.reject) = verdict_numbers(verdict);
                    entry.flags = layout::FLAG_STANDING;
                }
            }
            Flow::Refuse => entry.flags = layout::FLAG_REFUSE,
            // Whatever is proposed then, it is no verdict.
            Flow::Withdraw => entry.flags = layout::FLAG_PROPOSE,
            Flow::AsLearned => {
                // The number only says that the walk ends here.
                (entry.verdict, entry.flags) = (2, layout::FLAG_AS_LEARNED);
            }
            Flow::Verdict(verdict) => (entry.verdict, entry.reject) = verdict_numbers(verdict),
            Flow::Return => self.returns.push(at),
            Flow::Jump(target) => {
                let before = self.returns.len();
                self.chain(target, terms, depth + 1)?;
                self.patch_returns(before);
            }
            Flow::Goto(target) => {
                self.chain(target, terms, depth + 1)?;
                // What runs off the end of the chain returns too, as its own returns do.
                let end = self.push(rule.id, Vec::new(), terms)?;
                self.returns.push(end);
            }
        }
        Ok(())
    }

    /// Makes what fails a rule go on behind it.
    fn patch_failures(&mut self, failures: &[(usize, Edge)]) {
        let end = self.flat.entries.len() as u32;
        for &(at, edge) in failures {
            let entry = &mut self.flat.entries[at];
            match edge {
                Edge::Match => entry.next_match = end,
                Edge::Fail => entry.next_fail = end,
            }
        }
    }

    fn push(&mut self, rule: RuleId, tests: Vec<Test>, terms: &[Term]) -> Result<usize, Error> {
        let at = self.flat.entries.len();
        if at >= self.limits.entries {
            return Err(Error::Entries {
                limit: self.limits.entries,
                rule,
            });
        }
        assert!(
            tests.len() <= layout::TESTS_MAX,
            "conditions() flushes before"
        );
        self.flat.entries.push(Entry {
            terms_from: self.flat.terms.len(),
            tests,
            next_match: at as u32 + 1,
            next_fail: at as u32 + 1,
            ..Entry::default()
        });
        self.flat.terms.extend_from_slice(terms);
        Ok(at)
    }

    /// Goes through the tests of a rule: static ones narrow the draft's terms, others become tests
    /// to run. What can be neither becomes entries of its own in front of the rule's.
    fn conditions(&mut self, rule: &Rule, draft: &mut Draft) -> Result<End, Error> {
        let jumps = matches!(rule.flow, Flow::Jump(_) | Flow::Goto(_) | Flow::Head { .. });
        for test in &rule.tests {
            if test.cond.needs_transport() {
                self.flat.reads_transport = true;
                if self.short {
                    return Ok(End::HotDrop);
                }
            }
            if let Some(own) = self.context.terms(test)
                && !(jumps && own.len() > JUMP_TERMS_MAX && matches!(test.cond, Cond::Set { .. }))
            {
                if draft.remembering && own != [Term::ANY] {
                    self.flush(rule.id, draft)?;
                }
                draft.terms = self.product(&draft.terms, &own, rule.id)?;
                if draft.terms.is_empty() {
                    return Ok(End::Never);
                }
                continue;
            }
            if let Cond::Any(tests) = &test.cond {
                // What remembers is met only by packets for which all before it holds.
                let is_late = test.cond.remembers() && !draft.tests.is_empty();
                if draft.remembering || is_late {
                    self.flush(rule.id, draft)?;
                }
                self.any_guards(rule, tests, test.negate, draft)?;
                continue;
            }
            if let Cond::Set { set, fields } = &test.cond {
                if draft.remembering {
                    self.flush(rule.id, draft)?;
                }
                self.set_guards(rule.id, *set, fields, test.negate, draft)?;
                continue;
            }
            let tests = residual::tests(test, rule.id, self.blob)?;
            if draft.tests.len() + tests.len() > layout::TESTS_MAX {
                self.flush(rule.id, draft)?;
            }
            draft.tests.extend(tests);
            // A packet that this one drops mustn't be kept from it by what stands behind.
            draft.remembering |= test.cond.may_drop() || test.cond.remembers();
        }
        Ok(End::Final)
    }

    /// An entry for the tests so far: what comes after is met only by packets that passed.
    fn flush(&mut self, rule: RuleId, draft: &mut Draft) -> Result<(), Error> {
        let tests = std::mem::take(&mut draft.tests);
        let at = self.push(rule, tests, &draft.terms)?;
        draft.failures.push((at, Edge::Fail));
        draft.remembering = false;
        Ok(())
    }

    /// Entries for a set test that is not a few terms: the set's entries, most specific first, each
    /// deciding whether the packet is in the set (or, in a list of sets, in this member); behind
    /// them, a packet that met none is not.
    fn set_guards(
        &mut self,
        rule: RuleId,
        set: SetId,
        fields: &[SetField],
        negate: bool,
        draft: &mut Draft,
    ) -> Result<(), Error> {
        let mut insides = Vec::new();
        self.set_entries(rule, (set, fields), negate, draft, &mut insides)?;
        if !negate {
            let at = self.push(rule, Vec::new(), &draft.terms)?;
            draft.failures.push((at, Edge::Match));
        }
        self.go_on_here(&mut insides);
        Ok(())
    }

    /// The entries of a set. Those that put a packet in are left in `insides`, or fail where the
    /// test is negated; behind them are the packets that are not in.
    fn set_entries(
        &mut self,
        rule: RuleId,
        (set, fields): (SetId, &[SetField]),
        negate: bool,
        draft: &mut Draft,
        insides: &mut Vec<usize>,
    ) -> Result<(), Error> {
        let (mut outsides, mut member) = (Vec::new(), 0);
        let groups = self
            .context
            .set_groups(set, fields)
            .map_err(|what| Error::Unsupported { what, rule })?;
        for group in groups {
            if group.member != member {
                self.go_on_here(&mut outsides);
                member = group.member;
            }
            let terms = self.product(&draft.terms, &group.terms, rule)?;
            if terms.is_empty() {
                continue;
            }
            let until = group.seconds.map(|a| Test {
                kind: layout::TEST_UNTIL,
                a,
                ..Test::default()
            });
            let at = self.push(rule, until.into_iter().collect(), &terms)?;
            match group.inside {
                true if negate => draft.failures.push((at, Edge::Match)),
                true => insides.push(at),
                false => outsides.push(at),
            }
        }
        self.go_on_here(&mut outsides);
        Ok(())
    }

    /// Entries for alternatives that are not all static: each decides that one holds; behind them,
    /// for a packet that met none, none does.
    fn any_guards(
        &mut self,
        rule: &Rule,
        tests: &[ModelTest],
        negate: bool,
        draft: &mut Draft,
    ) -> Result<(), Error> {
        let mut insides = Vec::new();
        for test in tests {
            if let (false, Cond::Set { set, fields }) = (test.negate, &test.cond)
                && self.context.terms(test).is_none()
            {
                self.set_entries(rule.id, (*set, fields), negate, draft, &mut insides)?;
                continue;
            }
            if matches!(
                test.cond,
                Cond::Any(_) | Cond::Set { .. } | Cond::ProposedBy(_)
            ) && self.context.terms(test).is_none()
            {
                let what = "this condition among alternatives";
                return Err(Error::Unsupported {
                    what,
                    rule: rule.id,
                });
            }
            let (terms, run) = match self.context.terms(test) {
                Some(own) => (self.product(&draft.terms, &own, rule.id)?, Vec::new()),
                None => (
                    draft.terms.clone(),
                    residual::tests(test, rule.id, self.blob)?,
                ),
            };
            if terms.is_empty() {
                continue;
            }
            let at = self.push(rule.id, run, &terms)?;
            match negate {
                true => draft.failures.push((at, Edge::Match)),
                false => insides.push(at),
            }
        }
        if !negate {
            let at = self.push(rule.id, Vec::new(), &draft.terms)?;
            draft.failures.push((at, Edge::Match));
        }
        self.go_on_here(&mut insides);
        Ok(())
    }

    /// Lets these entries go on, after a match, with the entry that comes next.
    fn go_on_here(&mut self, entries: &mut Vec<usize>) {
        let here = self.flat.entries.len() as u32;
        for at in entries.drain(..) {
            self.flat.entries[at].next_match = here;
        }
    }

    fn product(&mut self, a: &[Term], b: &[Term], rule: RuleId) -> Result<Vec<Term>, Error> {
        if let [only] = a
            && *only == Term::ANY
        {
            return Ok(b.to_vec());
        }
        let given = a.len() * b.len();
        if given > self.limits.terms {
            return Err(Error::Boxes {
                given,
                limit: self.limits.terms,
                rule,
            });
        }
        let top = address_last(self.context.family);
        let mut out = Vec::with_capacity(given);
        for left in a {
            for right in b {
                out.extend(left.and(right, top, &mut self.context.services));
            }
        }
        Ok(out)
    }
}

/// A rule on its way to entries.
#[derive(Default)]
struct Draft {
    /// Packets that can still match.
    terms: Vec<Term>,
    /// Tests for the next entry.
    tests: Vec<Test>,
    /// Whether one of those remembers.
    remembering: bool,
    /// Edges that leave the rule without a match.
    failures: Vec<(usize, Edge)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Match,
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// All tests are in.
    Final,
    /// No packet can match.
    Never,
    /// Packets that come here are dropped.
    HotDrop,
}
