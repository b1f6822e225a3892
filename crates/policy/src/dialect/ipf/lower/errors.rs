//! `icmp-head`: groups that judge ICMP errors about packets of states.
//!
//! In: the groups that rules with `keep state` name. Out: rules between the look at states and the
//! list, in rounds: an error that waits for a group's answer goes through that group; where the
//! verdict that stands then isn't to block, the state that asked takes it, else an older one may,
//! or asks the next round. What the group proposed is withdrawn in each case, so the list begins
//! without a verdict.
//!
//! A group judges otherwise than behind a head: it never decides about the packet, what its rules
//! log when they decide isn't logged, rates aren't counted, and no error begins a state, so that a
//! `quick` rule which keeps one counts as not matched. A `quick` rule ends all groups by a return
//! from each. Interfaces are those of the packet's direction, whichever the group's rules are for.

use super::Lowering;
use super::keep::holds;
use crate::dialect::ipf::ast::{Action, Direction, KeepState, Name};
use crate::dialect::ipf::load::{RuleSet, Unit};
use crate::model::{
    Chain, ChainId, Cond, Counters, Family, Flow, IcmpHeadTest, Op, RangeSet, Rule, RuleId, Table,
    Test, Verdict,
};
use std::collections::BTreeSet;

/// States that one error asks, as many as the kernel tries of one conversation.
const ROUNDS: usize = 8;

/// The groups that judge ICMP errors, in the order of their numbers.
pub(super) fn names(set: &RuleSet) -> Vec<String> {
    let mut out = Vec::new();
    let keeps = set.rules.iter().filter_map(|rule| rule.keep_state.as_ref());
    for name in keeps.filter_map(|keep| keep.icmp_head.as_ref()) {
        let name = name.to_string();
        if !out.contains(&name) {
            out.push(name);
        }
    }
    out
}

impl Lowering<'_> {
    /// The number of the group that judges errors about packets of a state.
    pub(super) fn icmp_head(&self, keep: &KeepState) -> Option<u8> {
        let name = keep.icmp_head.as_ref()?.to_string();
        let all = &self.policy.icmp_heads;
        let at = all.iter().position(|known| *known == name)?;
        u8::try_from(at + 1).ok()
    }

    /// What stands between the look at states and a list.
    pub(super) fn errors(&mut self, family: Family, direction: Direction, rules: &mut Vec<Rule>) {
        let set = self.set;
        let named = set.rules.iter().filter_map(|rule| rule.keep_state.as_ref());
        let mut groups: Vec<(u8, ChainId)> = Vec::new();
        for keep in named {
            let (Some(name), Some(number)) = (&keep.icmp_head, self.icmp_head(keep)) else {
                continue;
            };
            if groups.iter().all(|known| known.0 != number) {
                groups.push((number, self.judging(family, direction, name)));
            }
        }
        if groups.is_empty() {
            return;
        }
        let asks = |test| holds(Cond::IcmpHead(test));
        let mut ends = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            ends.push(rules.len());
            let nobody = Test {
                negate: true,
                cond: Cond::IcmpHead(IcmpHeadTest::Waits),
            };
            rules.push(self.about_errors(family, Some(nobody), Flow::Next));
            if self.options.default_block {
                rules.push(self.about_errors(family, None, Flow::Propose(Verdict::Drop)));
            }
            for &(number, chain) in &groups {
                let test = asks(IcmpHeadTest::WaitsFor(number));
                rules.push(self.about_errors(family, Some(test), Flow::Jump(chain)));
            }
            // Behind it: passes, over to the end of the round, blocked, the end of the round.
            let at = rules.len() as u32;
            let blocked = [
                (Some(asks(IcmpHeadTest::Refused)), Flow::Skip(at + 3)),
                (Some(asks(IcmpHeadTest::Passes)), Flow::AsLearned),
                (None, Flow::Skip(at + 4)),
                (Some(asks(IcmpHeadTest::Blocked)), Flow::AsLearned),
                (None, Flow::Withdraw),
            ];
            for (test, flow) in blocked {
                rules.push(self.about_errors(family, test, flow));
            }
        }
        for at in ends {
            rules[at].flow = Flow::Skip(rules.len() as u32);
        }
    }

    /// A rule of a round; other packets don't meet it.
    fn about_errors(&mut self, family: Family, test: Option<Test>, flow: Flow) -> Rule {
        let proto = match family {
            Family::V4 => 1,
            Family::V6 => 58,
        };
        let mut rule = self.look();
        rule.tests = vec![holds(Cond::Proto(RangeSet::one(proto)))];
        rule.tests.extend(test);
        rule.flow = flow;
        rule
    }

    /// The chain of a group that judges errors in a direction's lists.
    fn judging(&mut self, family: Family, direction: Direction, name: &Name) -> ChainId {
        let key = (family, direction as usize, name.clone());
        if let Some(&chain) = self.judging.get(&key) {
            return chain;
        }
        let set = self.set;
        let none = Vec::new();
        let members = set.group(Unit::Filter, name).unwrap_or(&none);
        let mut rules = Vec::with_capacity(members.len());
        self.members(
            members,
            Some(name),
            &mut rules,
            |this, number, position, rules| {
                this.member((family, direction), number, position, rules);
            },
        );
        self.policy.chains.push(Chain {
            name: format!("{name} of ICMP errors"),
            family,
            table: Table::Filter,
            rules,
            policy: None,
        });
        let chain = ChainId(self.policy.chains.len() as u32 - 1);
        self.judging.insert(key, chain);
        chain
    }

    /// What a member of such a group becomes.
    fn member(
        &mut self,
        (family, direction): (Family, Direction),
        number: usize,
        position: usize,
        rules: &mut Vec<Rule>,
    ) {
        let set = self.set;
        let rule = &set.rules[number];
        let mut met = rule.clone();
        met.direction = direction;
        let mut tests = super::conditions::tests(&met, family, self.tables, &self.options);
        tests.extend(self.while_it_lasts(number));
        let leads = !matches!(rule.action, Action::Skip(_));
        let head = rule.head.as_ref().filter(|_| leads);
        let group = head.map(|head| self.judging(family, direction, head));
        let origin = self.origin(rule);
        let made = |ops: Vec<Op>, flow: Flow| Rule {
            id: RuleId(number as u32),
            origin,
            index: position as u32 + 1,
            tests: tests.clone(),
            ops,
            flow,
            preset: Counters::default(),
        };
        let verdict = match rule.action {
            Action::Block => Some(Verdict::Drop),
            Action::Pass | Action::Nomatch => Some(Verdict::Accept),
            _ => None,
        };
        let keeps = rule.quick && rule.keep_state.is_some();
        let propose = |verdict| match group {
            Some(group) => Flow::Head {
                verdict,
                group,
                quick: false,
            },
            None => Flow::Propose(verdict),
        };
        rules.push(match (verdict, &rule.action) {
            (Some(_), _) if keeps => made(Vec::new(), Flow::Next),
            (Some(verdict), _) => made(Vec::new(), propose(verdict)),
            (None, Action::Log) => {
                let ends = rule.quick && self.options.log_quick_ends;
                let flow = match (ends, group) {
                    (true, _) => Flow::Return,
                    (false, Some(group)) => Flow::Jump(group),
                    (false, None) => Flow::Next,
                };
                made(vec![Op::Log(super::log_of(rule))], flow)
            }
            (None, _) => made(Vec::new(), Flow::Next),
        });
        // A quick rule whose verdict stands on coming back ends this group, too.
        let mut quick = BTreeSet::new();
        if verdict.is_some() && rule.quick && !keeps {
            quick.insert(number);
        }
        if let Some(head) = head {
            quick_rules(set, head, &mut quick);
        }
        for by in quick {
            let mut rule = self.look();
            rule.tests.clone_from(&tests);
            rule.tests.push(holds(Cond::ProposedBy(RuleId(by as u32))));
            rule.flow = Flow::Return;
            rules.push(rule);
        }
    }
}

/// The rules of a group, and of those that it leads into, that end it. (Circles were refused.)
fn quick_rules(set: &RuleSet, group: &Name, out: &mut BTreeSet<usize>) {
    for &number in set.group(Unit::Filter, group).into_iter().flatten() {
        let rule = &set.rules[number];
        let decides = matches!(rule.action, Action::Pass | Action::Block | Action::Nomatch);
        if rule.quick && decides && rule.keep_state.is_none() {
            out.insert(number);
        }
        if let Some(head) = &rule.head {
            quick_rules(set, head, out);
        }
    }
}
