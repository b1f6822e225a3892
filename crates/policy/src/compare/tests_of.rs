//! The tests of a rule in a walk: what the packet is asked, and what the walk did to it before.
//!
//! In: a test, and the packets that come to it. Out: for which it holds, for which not. What is a
//! function of the packet alone is in `truth`.

use super::diagram::{NO, Node, TooLarge, YES};
use super::field::Field;
use super::makers::keeper;
use super::mix::Mix;
use super::names::{Named, is_live};
use super::space::{Space, Unknown};
use super::state::{State, Who};
use super::truth::Truth;
use super::walk::{Matched, Walk};
use crate::model::{Cond, Hook, IcmpHeadTest, IfPattern, RuleId, Test, Verdict};

/// The bit of [`crate::model::CtState::Untracked`].
const UNTRACKED: u8 = 16;
/// The bit of [`crate::model::CtState::Invalid`], the state before tracking has looked.
const INVALID: u8 = 1;

impl Walk<'_, '_> {
    /// One test. `at` counts tests of the rule, nested ones too.
    pub(super) fn test(
        &mut self,
        test: &Test,
        rule: (RuleId, u32),
        at: &mut usize,
        live: Node,
        out: &mut Matched,
    ) -> Result<Truth, TooLarge> {
        let number = (*at, &test.cond);
        *at += 1;
        let mut truth = match &test.cond {
            Cond::Any(tests) => self.any(test, tests, rule, at, live, out)?,
            Cond::InIface(pattern) => self.space.interface(Field::In, pattern, self.hook)?,
            Cond::OutIface(pattern) => self.space.interface(Field::Out, pattern, self.hook)?,
            Cond::State(mask) => self.state(mask.0, live)?,
            Cond::Mark { value, mask } => {
                let yes = self.mark(live, |state| &state.mark, *value, *mask)?;
                self.space.either(yes)?
            }
            Cond::Connmark { value, mask } => {
                let has = self.flow(live)?;
                let yes = self.mark(live, |state| &state.connmark, *value, *mask)?;
                self.space.having(has, yes)?
            }
            Cond::Tos { value, mask } => self.tos(live, *value, *mask)?,
            Cond::Dscp(value) if *value > 63 => self.space.either(NO)?,
            Cond::Dscp(value) => self.tos(live, value << 2, 0xfc)?,
            Cond::EcnIp(value) => self.tos(live, *value, 3)?,
            Cond::ProposedBy(id) => {
                let who = Who::Rule(self.side, id.0);
                let yes = self.where_state(live, |state| {
                    state.standing.is_some_and(|(_, by)| by == who)
                })?;
                self.space.either(yes)?
            }
            Cond::IcmpHead(IcmpHeadTest::Refused) => {
                let yes = self.where_state(live, |state| {
                    state
                        .standing
                        .is_some_and(|(verdict, _)| verdict != Verdict::Accept)
                })?;
                self.space.either(yes)?
            }
            Cond::Ct(_) => {
                let has = self.flow(live)?;
                let yes = self.unknown(rule, number, out)?;
                self.space.having(has, yes)?
            }
            Cond::Dynamic(test) => {
                let yes = self.asks(*test, (rule.0, number.0), out)?;
                self.space.either(yes)?
            }
            Cond::Learn(id) if keeper(self.policy, *id).is_some() => {
                let yes = self.note(*id, (rule.0, number.0), out)?;
                self.space.either(yes)?
            }
            Cond::History(_)
            | Cond::Learned
            | Cond::Learn(_)
            | Cond::OutOfWindow
            | Cond::IcmpHead(_)
            | Cond::IpfWith(_)
            | Cond::RouteBack { .. }
            | Cond::ReversePath(_)
            | Cond::Aside(_) => {
                let yes = self.unknown(rule, number, out)?;
                self.space.either(yes)?
            }
            Cond::SctpChunks { kind, flags, .. } if !flags.is_empty() => {
                let unknown = self.unknown(rule, number, out)?;
                self.space.flagged_chunks(*kind, unknown)?
            }
            Cond::Set { set, fields } => {
                let yes = match is_live(self.policy, *set) {
                    true => self.unknown(rule, number, out)?,
                    false => self.space.member(self.policy, *set, fields)?.unwrap_or(NO),
                };
                self.space.either(yes)?
            }
            pure => self.space.pure(pure)?.unwrap_or(Truth::NEVER),
        };
        if self.policy.short_goes_on {
            truth.hot = NO;
        }
        Ok(truth)
    }

    /// Packets whose mark has a value.
    fn mark(
        &mut self,
        live: Node,
        of: fn(&State) -> &Mix,
        value: u32,
        mask: u32,
    ) -> Result<Node, TooLarge> {
        let is = |walk: &mut Self, mix: Mix| walk.space.mix_is(&mix, value, mask);
        self.by_state(live, |state| of(state).clone(), is)
    }

    /// Alternatives, tried in order.
    fn any(
        &mut self,
        test: &Test,
        tests: &[Test],
        rule: (RuleId, u32),
        at: &mut usize,
        live: Node,
        out: &mut Matched,
    ) -> Result<Truth, TooLarge> {
        let (mut yes, mut hot) = (NO, NO);
        if !self.policy.short_goes_on && test.cond.needs_transport() {
            hot = self.space.short()?;
        }
        let come = out.yes;
        let mut left = self.space.diagram.not(hot)?;
        for one in tests {
            // Only packets that no alternative before has met ask what remembers.
            out.yes = self.space.diagram.and(come, left)?;
            let truth = self.test(one, rule, at, live, out)?;
            let holds = if one.negate { truth.no } else { truth.yes };
            let d = &mut self.space.diagram;
            let (holds, dropped) = (d.and(left, holds)?, d.and(left, truth.hot)?);
            yes = d.or(yes, holds)?;
            hot = d.or(hot, dropped)?;
            let gone = d.or(holds, dropped)?;
            left = d.without(left, gone)?;
        }
        out.yes = come;
        Ok(Truth { yes, no: left, hot })
    }

    /// A condition that is no function of the packet; who asks is noted where it remembers.
    fn unknown(
        &mut self,
        (rule, visit): (RuleId, u32),
        (number, cond): (usize, &Cond),
        out: &mut Matched,
    ) -> Result<Node, TooLarge> {
        let Some(Named {
            text, remembers, ..
        }) = self.names.get(rule, number, cond)
        else {
            unreachable!("every such condition has a name")
        };
        let text = match (remembers, visit) {
            (true, visit) if visit > 1 => format!("{text}, visit {visit}"),
            _ => text.clone(),
        };
        let unknown = self.space.unknown(Unknown {
            text,
            rules: [None; 2],
        });
        let told = &mut self.space.unknowns[unknown as usize].rules[usize::from(self.side)];
        told.get_or_insert((rule, number));
        if *remembers && out.yes != NO {
            out.asked.push((out.yes, unknown));
        }
        self.space.holds(unknown)
    }

    /// Packets that have a flow with a mark.
    fn flow(&mut self, live: Node) -> Result<Node, TooLarge> {
        if !self.looked {
            return Ok(NO);
        }
        let flow = self.space.diagram.is(Field::HasFlow, 1)?;
        if !self.names.untracks {
            return Ok(flow);
        }
        let untracked = self.where_state(live, |state| state.untracked)?;
        self.space.diagram.without(flow, untracked)
    }

    fn state(&mut self, mask: u8, live: Node) -> Result<Truth, TooLarge> {
        let translated = self.space.translated(mask)?;
        let one = |bit: u8| if mask & bit != 0 { YES } else { translated };
        if !self.looked {
            return self.space.either(one(INVALID));
        }
        let mut yes = self.space.states(mask)?;
        if self.names.untracks {
            let untracked = self.where_state(live, |state| state.untracked)?;
            yes = self.space.diagram.select(untracked, one(UNTRACKED), yes)?;
        }
        self.space.either(yes)
    }

    fn tos(&mut self, live: Node, value: u8, mask: u8) -> Result<Truth, TooLarge> {
        let yes = self.by_state(
            live,
            |state| state.tos,
            |walk, tos| walk.space.tos_is(tos, value, mask),
        )?;
        self.space.either(yes)
    }
}

impl Space {
    /// Packets whose TOS byte, as rules left it, has a value under a mask.
    pub fn tos_is(&mut self, tos: (u8, u8), value: u8, mask: u8) -> Result<Node, TooLarge> {
        let (kept, xor) = tos;
        // Bits that were overwritten have to be right already.
        if value & !mask != 0 || (xor ^ value) & mask & !kept != 0 {
            return Ok(NO);
        }
        let asked = mask & kept;
        let wanted = (value ^ xor) & asked;
        self.diagram
            .masked(Field::Tos, u128::from(wanted), u128::from(asked))
    }

    /// Packets whose interface, the one they come from or go to, has such a name; where a hook
    /// doesn't know it, it is empty.
    pub fn interface(
        &mut self,
        field: Field,
        pattern: &IfPattern,
        hook: Hook,
    ) -> Result<Truth, TooLarge> {
        let known = match field {
            Field::In => matches!(hook, Hook::Prerouting | Hook::Input | Hook::Forward),
            _ => matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting),
        };
        if !known {
            let yes = if pattern.matches("") { YES } else { NO };
            return self.either(yes);
        }
        let classes = self.interfaces.iter().enumerate();
        let matching = classes.filter(|(_, name)| pattern.matches(name));
        let ranges: Vec<(u128, u128)> = matching
            .map(|(class, _)| (class as u128, class as u128))
            .collect();
        let yes = self.diagram.among(field, &ranges)?;
        self.either(yes)
    }
}
