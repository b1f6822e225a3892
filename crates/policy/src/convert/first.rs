//! Last match to first match: a list of proposals as a list whose first match decides.
//!
//! In: a root chain of a policy. Out: the same with `Next`, `Verdict`, `Jump`, `Goto`, `Return` and
//! `Skip` alone. A `quick` match decides whatever was proposed before, and of proposals the last
//! one wins: so the quick rules stand first, in their order, then the proposals from the last to
//! the first, then the policy. A head leads into its group in both parts. A quick head decides if
//! nothing in its group proposed otherwise, so its group goes back where something would.
//!
//! Refused: skips over proposals that lead into each other, and skips within groups that propose.

use super::culprit::Culprit;
use crate::model::{
    Chain, ChainId, Cond, Flow, IcmpHeadTest, Op, Policy, Rule, RuleId, Test, Verdict,
};
use std::collections::{BTreeMap, HashMap};

/// A rule that keeps another from being converted, and why.
pub type Trouble = Box<(Rule, Culprit)>;

/// Makes first-match chains.
pub struct FirstMatch<'p> {
    policy: &'p Policy,
    /// Chains as they were, then the new ones.
    pub chains: Vec<Chain>,
    /// What rules log when their proposal stands.
    logs: HashMap<RuleId, Vec<Op>>,
    /// Chains made, by the old one and by which part.
    made: BTreeMap<(ChainId, u8), ChainId>,
}

fn crossing() -> Culprit {
    Culprit::new(
        &["skip"],
        "a `skip` among rules without `quick`",
        "give the rules `quick`, or put them in another order",
    )
}

impl<'p> FirstMatch<'p> {
    /// For a policy.
    pub fn new(policy: &'p Policy) -> Self {
        let mut logs: HashMap<RuleId, Vec<Op>> = HashMap::new();
        for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
            let by = rule.tests.iter().find_map(|test| match test.cond {
                Cond::ProposedBy(id) => Some(id),
                _ => None,
            });
            if let (Some(by), Flow::Next, [op @ Op::Log(_)]) = (by, rule.flow, &*rule.ops) {
                logs.insert(by, vec![op.clone()]);
            }
        }
        FirstMatch {
            policy,
            chains: policy.chains.clone(),
            logs,
            made: BTreeMap::new(),
        }
    }

    fn proposes(&self, id: ChainId) -> bool {
        let rules = &self.policy.chain(id).rules;
        rules
            .iter()
            .any(|rule| matches!(rule.flow, Flow::Propose(_) | Flow::Head { .. }))
    }

    /// A root chain, or one that comes to the same. The chain keeps its number.
    pub fn root(&mut self, id: ChainId) -> Result<ChainId, Trouble> {
        if !self.proposes(id) {
            return Ok(id);
        }
        let rules = &self.policy.chain(id).rules;
        let mut out = self.quick(rules)?;
        let mut last = self.last(rules, (0, rules.len()))?;
        // What stands behind a proposal about every packet never decides.
        if let Some(end) = last
            .iter()
            .position(|rule| rule.tests.is_empty() && matches!(rule.flow, Flow::Verdict(_)))
        {
            last.truncate(end + 1);
        }
        append(&mut out, last);
        let chain = Chain {
            rules: out,
            ..self.policy.chain(id).clone()
        };
        Ok(self.keep((id, 0), chain))
    }

    fn keep(&mut self, key: (ChainId, u8), chain: Chain) -> ChainId {
        self.chains.push(chain);
        let id = ChainId(self.chains.len() as u32 - 1);
        self.made.insert(key, id);
        id
    }

    fn decided(&self, rule: &Rule, verdict: Verdict) -> Rule {
        let mut rule = rule.clone();
        rule.flow = Flow::Verdict(verdict);
        rule.ops = self.logs.get(&rule.id).cloned().unwrap_or_default();
        rule
    }

    /// The rules that decide at once or only note, in their order.
    fn quick(&mut self, rules: &[Rule]) -> Result<Vec<Rule>, Trouble> {
        let mut out: Vec<Rule> = Vec::new();
        let mut starts = Vec::with_capacity(rules.len() + 1);
        for rule in rules {
            starts.push(out.len());
            let asks = rule
                .tests
                .iter()
                .any(|t| matches!(t.cond, Cond::ProposedBy(_)));
            match rule.flow {
                // What is logged when a proposal stands goes with the proposal.
                Flow::Next if asks => {}
                _ if asks => return Err(Box::new((rule.clone(), log_in_group()))),
                Flow::Propose(_) => {}
                Flow::Head {
                    verdict,
                    group,
                    quick,
                } => {
                    let head = self.head(rule, verdict, group, quick)?;
                    out.extend(head);
                }
                _ => out.push(rule.clone()),
            }
        }
        starts.push(out.len());
        for rule in &mut out {
            if let Flow::Skip(to) = &mut rule.flow {
                *to = starts[*to as usize] as u32;
            }
        }
        Ok(out)
    }

    /// What a head is among the rules that decide at once.
    fn head(
        &mut self,
        rule: &Rule,
        verdict: Verdict,
        group: ChainId,
        quick: bool,
    ) -> Result<Option<Rule>, Trouble> {
        let chain = self.policy.chain(group).clone();
        let proposes = self.proposes(group);
        let skips = chain
            .rules
            .iter()
            .find(|rule| matches!(rule.flow, Flow::Skip(_)));
        if let (true, Some(skip)) = (proposes, skips) {
            return Err(Box::new((skip.clone(), crossing())));
        }
        let key = (group, if quick { 2 } else { 1 });
        let mut members = self.quick(&chain.rules)?;
        if quick {
            for other in &chain.rules {
                if matches!(other.flow, Flow::Propose(_) | Flow::Head { .. }) {
                    members.push(Rule {
                        flow: Flow::Return,
                        ops: Vec::new(),
                        ..other.clone()
                    });
                }
            }
            if members.is_empty() {
                return Ok(Some(self.decided(rule, verdict)));
            }
            members.push(Rule {
                tests: Vec::new(),
                ..self.decided(rule, verdict)
            });
        }
        if members.is_empty() {
            return Ok(None);
        }
        let made = match self.made.get(&key) {
            // The end of a quick head's group is the head's own.
            Some(made) if !quick => *made,
            _ => self.keep(
                key,
                Chain {
                    rules: members,
                    ..chain
                },
            ),
        };
        Ok(Some(Rule {
            flow: match quick && !proposes {
                true => Flow::Goto(made),
                false => Flow::Jump(made),
            },
            ops: Vec::new(),
            ..rule.clone()
        }))
    }

    /// The proposals of part of a list, from the last one on, as rules that decide.
    fn last(
        &mut self,
        rules: &[Rule],
        (from, until): (usize, usize),
    ) -> Result<Vec<Rule>, Trouble> {
        let mut items: Vec<Vec<Rule>> = Vec::new();
        let mut at = from;
        while at < until {
            let rule = &rules[at];
            match rule.flow {
                Flow::Propose(verdict) => items.push(vec![self.decided(rule, verdict)]),
                Flow::Head {
                    verdict,
                    group,
                    quick,
                } => {
                    let mut item = Vec::new();
                    if let Some(made) = self.last_of_group(group)? {
                        item.push(Rule {
                            flow: Flow::Jump(made),
                            ops: Vec::new(),
                            ..rule.clone()
                        });
                    }
                    if !quick {
                        item.push(self.decided(rule, verdict));
                    }
                    items.push(item);
                }
                Flow::Skip(to) => {
                    let to = to as usize;
                    let over = self.last_skipped(rules, (at, to), until)?;
                    items.push(over);
                    at = to;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        let mut out = Vec::new();
        for item in items.into_iter().rev() {
            append(&mut out, item);
        }
        Ok(out)
    }

    /// Proposals that a rule skips over: a block that is skipped as a whole.
    fn last_skipped(
        &mut self,
        rules: &[Rule],
        (at, to): (usize, usize),
        until: usize,
    ) -> Result<Vec<Rule>, Trouble> {
        if to > until {
            return Err(Box::new((rules[at].clone(), crossing())));
        }
        let block = self.last(rules, (at + 1, to))?;
        if block.is_empty() {
            return Ok(block);
        }
        let mut out = vec![Rule {
            flow: Flow::Skip(block.len() as u32 + 1),
            ops: Vec::new(),
            ..rules[at].clone()
        }];
        append(&mut out, block);
        Ok(out)
    }

    fn last_of_group(&mut self, group: ChainId) -> Result<Option<ChainId>, Trouble> {
        if let Some(made) = self.made.get(&(group, 3)) {
            return Ok(Some(*made));
        }
        let chain = self.policy.chain(group).clone();
        let rules = self.last(&chain.rules, (0, chain.rules.len()))?;
        if rules.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.keep((group, 3), Chain { rules, ..chain })))
    }
}

fn log_in_group() -> Culprit {
    Culprit::new(
        &["log"],
        "a `log` rule in the group of a quick head",
        "put the `log` word into the rules that decide",
    )
}

/// Rules behind others; where they skip to moves along.
fn append(out: &mut Vec<Rule>, rules: Vec<Rule>) {
    let shift = out.len() as u32;
    out.extend(rules.into_iter().map(|mut rule| {
        if let Flow::Skip(to) = &mut rule.flow {
            *to += shift;
        }
        rule
    }));
}

/// Takes out of a policy what keeps states, leaving first packets as they are.
pub fn without_states(policy: &Policy) -> Policy {
    let mut out = policy.clone();
    let learns = |test: &Test| matches!(test.cond, Cond::Learn(_));
    let waits = |test: &Test| test.cond == Cond::IcmpHead(IcmpHeadTest::Waits);
    for chain in &mut out.chains {
        let makers: Vec<RuleId> = chain
            .rules
            .iter()
            .filter(|rule| rule.tests.iter().any(learns))
            .map(|rule| rule.id)
            .collect();
        let mut kept = Vec::with_capacity(chain.rules.len());
        let mut starts = Vec::with_capacity(chain.rules.len() + 1);
        let mut asked = 0;
        for (at, rule) in std::mem::take(&mut chain.rules).into_iter().enumerate() {
            starts.push(kept.len() as u32);
            // No state asks a group about an ICMP error: what is skipped then is never met.
            if let (Flow::Skip(to), true) = (rule.flow, rule.tests.iter().any(waits)) {
                asked = asked.max(to as usize);
            }
            if at < asked {
                continue;
            }
            let looks = rule
                .tests
                .iter()
                .any(|test| matches!(test.cond, Cond::Learned | Cond::Dynamic(_)));
            let at_the_end = rule.index == Rule::HIDDEN && rule.tests.iter().any(learns);
            // What is left of a rule that could make no state.
            let failed = matches!(rule.flow, Flow::Next | Flow::Verdict(Verdict::Drop))
                && makers.contains(&rule.id)
                && !rule.tests.iter().any(learns);
            if looks || at_the_end || failed {
                continue;
            }
            let mut rule = rule;
            rule.tests.retain(|test| !learns(test));
            kept.push(rule);
        }
        starts.push(kept.len() as u32);
        for rule in &mut kept {
            if let Flow::Skip(to) = &mut rule.flow {
                *to = starts[*to as usize];
            }
        }
        chain.rules = kept;
    }
    out.learners.clear();
    out.dynamic = None;
    out
}
