//! A reported packet put to the evaluator, which defines what rules mean.
//!
//! In: a policy and a valuation. Out: what `eval` says of that packet. Conditions that are no
//! functions of the packet are set to what the valuation says of them; everything else is the
//! evaluator's own.

use super::example::Valuation;
use super::field::Field;
use super::given::{Asked, quote};
use super::names::Names;
use super::space::Space;
use super::walk::nested;
use crate::eval::{Evaluator, Passage, Path, with_answer};
use crate::model::{
    Cond, CtState, Flow, Fragment, Hook, Op, Policy, RuleId, Table, Test, Transport, Verdict,
    handling,
};
use std::borrow::Cow;
use std::collections::HashMap;

const UDP: u8 = 17;

/// What the evaluator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict at the end of the way.
    pub verdict: Verdict,
    /// The hook where it was given: the last one that the packet came to.
    pub hook: Hook,
    /// The rule or chain policy that gave it.
    pub by: Option<RuleId>,
    /// Packet mark.
    pub mark: u32,
    /// TOS byte.
    pub tos: u8,
    /// Rules that matched.
    pub matched: Vec<RuleId>,
}

/// Judges the packet of a valuation.
pub fn judge(
    policy: &Policy,
    names: &Names,
    space: &Space,
    path: Path,
    valuation: &Valuation,
) -> Judged {
    let mut packet = valuation.packet(space, path, policy.reading);
    if policy.dynamic.as_ref().is_some_and(|own| own.icmp_errors) {
        quote(&mut packet);
    }
    let fixed = fixed(policy, names, space, valuation);
    let asked = Asked {
        policy,
        makers: &names.makers,
        space,
        valuation,
    };
    let fixed = asked.limited(fixed, &packet);
    let state = valuation.state();
    let begin = |evaluator: &mut Evaluator<'_>| {
        let mut passage = Passage::of(&packet);
        passage.state = Some(state);
        if let Some(mark) = valuation.connmark() {
            // Any packet that makes a flow will do to have one with this mark.
            let mut sound = packet.clone();
            (sound.fragment, sound.proto) = (Fragment::Whole, UDP);
            sound.transport = Transport::Udp {
                src_port: 1,
                dst_port: 1,
            };
            let seen = evaluator.tracker.look(&sound, 0);
            evaluator.tracker.set_connmark(&seen, mark);
            passage.seen = Some(seen);
        }
        passage
    };
    let mut evaluator = Evaluator::new(&fixed, 0);
    evaluator.locals = valuation.locals(space.family);
    asked.give(&mut evaluator, &packet, path);
    let mut passage = begin(&mut evaluator);
    if names.untracks {
        // Whether a rule in front of tracking takes the packet out of it is the evaluator's answer.
        let mut probe = evaluator.clone();
        let mut fresh = Passage::of(&packet);
        probe.judge(&packet.at(Evaluator::hooks(path)[0]), &mut fresh, 0);
        if fresh.untracked {
            passage = Passage::of(&packet);
        }
    }
    let mut out = Judged {
        verdict: Verdict::Accept,
        hook: Evaluator::hooks(path)[0],
        by: None,
        mark: packet.mark,
        tos: packet.tos,
        matched: Vec::new(),
    };
    for &hook in Evaluator::hooks(path) {
        let judged = evaluator.judge(&packet.at(hook), &mut passage, 0);
        (out.mark, out.tos) = (judged.mark, judged.tos);
        out.matched.extend(judged.matched);
        if judged.decided_by.is_some() || judged.hot_drop {
            (out.hook, out.by) = (hook, judged.decided_by);
        }
        out.verdict = with_answer(judged.verdict, &packet);
        if judged.verdict != Verdict::Accept {
            break;
        }
    }
    out
}

/// The policy with every condition replaced that is no function of the packet.
fn fixed<'p>(
    policy: &'p Policy,
    names: &Names,
    space: &Space,
    valuation: &Valuation,
) -> Cow<'p, Policy> {
    let raw_states = policy.chains.iter().any(|chain| {
        let mut asks = false;
        let tests = chain.rules.iter().flat_map(|rule| &rule.tests);
        tests.for_each(|test| {
            nested(test, &mut |test| {
                asks |= matches!(
                    test.cond,
                    Cond::State(_) | Cond::Connmark { .. } | Cond::Ct(_)
                );
            });
        });
        let mut ops = chain.rules.iter().flat_map(|rule| &rule.ops);
        (asks || ops.any(is_of_flow)) && chain.table == Table::Raw
    });
    if names.is_empty() && !raw_states {
        return Cow::Borrowed(policy);
    }
    let texts: HashMap<&str, bool> = space
        .unknowns
        .iter()
        .enumerate()
        .map(|(at, one)| (one.text.as_str(), valuation.holds.contains(&(at as u32))))
        .collect();
    let mut out = policy.clone();
    for chain in &mut out.chains {
        for rule in &mut chain.rules {
            if rule.flow == Flow::AsLearned && policy.dynamic.is_none() {
                rule.flow = Flow::Verdict(Verdict::Accept);
            }
            let mut at = 0;
            let raw = chain.table == Table::Raw;
            // Nobody has looked for the packet's flow yet, which the evaluator is given.
            rule.ops.retain(|op| !raw || !is_of_flow(op));
            for test in &mut rule.tests {
                fix(test, (rule.id, &mut at), raw, names, &texts, valuation);
            }
        }
    }
    Cow::Owned(out)
}

/// Whether an operation is done to the packet's flow, or by its mark.
fn is_of_flow(op: &Op) -> bool {
    matches!(
        op,
        Op::SetConnmark { .. } | Op::SaveConnmark { .. } | Op::RestoreConnmark { .. }
    )
}

fn fix(
    test: &mut Test,
    (rule, at): (RuleId, &mut usize),
    raw: bool,
    names: &Names,
    texts: &HashMap<&str, bool>,
    valuation: &Valuation,
) {
    let number = *at;
    *at += 1;
    let always = |holds: bool| match holds {
        // Whatever protocol it has.
        true => Cond::Proto(crate::model::RangeSet::range(0, 255)),
        false => Cond::Proto(crate::model::RangeSet::default()),
    };
    match &mut test.cond {
        Cond::Any(tests) => {
            for test in tests {
                fix(test, (rule, at), raw, names, texts, valuation);
            }
        }
        Cond::Ct(_) if raw || valuation.get(Field::HasFlow) == 0 => test.cond = Cond::Never,
        Cond::Connmark { .. } if raw => test.cond = Cond::Never,
        Cond::State(mask) if raw => {
            let translated =
                valuation.get(Field::Translated) as u8 * handling::SOURCE_TRANSLATED as u8;
            let holds = mask.0 & (CtState::Invalid as u8 | translated) != 0;
            test.cond = always(holds);
        }
        cond => {
            if let Some(named) = names.get(rule, number, cond) {
                let holds = texts.get(named.text.as_str()).copied().unwrap_or(false);
                *cond = match cond {
                    Cond::SctpChunks { kind, .. } => chunks(*kind, holds),
                    _ => always(holds),
                };
            }
        }
    }
}

/// A test without flags that says of chunks of SCTP what one of this kind is taken to say; where
/// they end before their packet does, it drops the packet where that one would.
fn chunks(kind: u8, holds: bool) -> Cond {
    let (kind, types) = match (kind, holds) {
        // Said by some chunk, before the end is met.
        (1, true) => (1, u64::MAX),
        (2, false) => (2, 0),
        // All of none are there, and none is one of none.
        (_, true) => (0, 0),
        (_, false) => (1, 0),
    };
    Cond::SctpChunks {
        kind,
        types: [types; 4],
        flags: Vec::new(),
    }
}
