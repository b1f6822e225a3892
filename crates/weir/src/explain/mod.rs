//! What happens to one packet, rule by rule: the evaluator's walk made visible.
//!
//! In: an evaluator, a packet, its way through the host. Out: an [`Explanation`], printed as text
//! or as JSON by `print`. Nothing is decided here: every verdict, mark and failed test is what
//! `weir_policy::eval` did.

mod print;
mod report;

pub use print::{Shown, print};
pub use report::{Explanation, HookReport, RuleReport};

use crate::describe::{self, Moment};
use crate::rules::Places;
use crate::spec::Spec;
use weir_policy::eval::{Evaluator, Judgement, Passage, Path, Step, Tried};
use weir_policy::model::{CtState, Hook, Packet, Policy, RuleId, Verdict};

/// The texts of rules, for showing them.
pub trait Texts {
    /// The line of a rule as it was written.
    fn text(&self, id: RuleId) -> Option<String>;
}

/// The hooks that a packet passes when it ends at, or is asked about at, `hook`.
pub fn way(hook: Hook) -> &'static [Hook] {
    match hook {
        Hook::Input => Evaluator::hooks(Path::Input),
        Hook::Forward => Evaluator::hooks(Path::Forward),
        Hook::Output => Evaluator::hooks(Path::Output),
        Hook::Prerouting => &[Hook::Prerouting],
        Hook::Postrouting => &[Hook::Postrouting],
    }
}

/// Whether a rule before connection tracking takes the packet out of it: then no state that the
/// user assumed can hold. Tried on a copy, so that nothing counts twice.
fn stays_untracked(evaluator: &Evaluator<'_>, spec: &Spec, now_ms: u64) -> bool {
    let first = way(spec.packet.hook)[0];
    if !matches!(first, Hook::Prerouting | Hook::Output) {
        return false;
    }
    let mut probe = evaluator.clone();
    let mut passage = Passage::of(&spec.packet);
    probe.judge(&spec.packet.at(first), &mut passage, now_ms);
    passage.untracked
}

/// Follows a packet through its hooks. `state` is assumed where it is given, else tracked.
pub fn explain(
    evaluator: &mut Evaluator<'_>,
    spec: &Spec,
    places: &Places<'_>,
    texts: &dyn Texts,
    now_ms: u64,
) -> Explanation {
    evaluator.trace = true;
    let mut passage = Passage::of(&spec.packet);
    passage.state = spec
        .state
        .filter(|_| !stays_untracked(evaluator, spec, now_ms));
    if let Some(mark) = spec.connmark {
        let seen = evaluator.tracker.look(&spec.packet, now_ms);
        evaluator.tracker.set_connmark(&seen, mark);
        passage.seen = Some(seen);
    }
    let mut out = Explanation::new(spec);
    for &hook in way(spec.packet.hook) {
        let packet = spec.packet.at(hook);
        let judged = evaluator.judge(&packet, &mut passage, now_ms);
        let accepted = judged.verdict == Verdict::Accept;
        out.take(&judged, places);
        let report = hook_report(evaluator, hook, &packet, &judged, places, texts);
        // A hook without rules has nothing to tell.
        if !report.tried.is_empty() {
            out.hooks.push(report);
        }
        if !accepted {
            break;
        }
    }
    out
}

fn hook_report(
    evaluator: &Evaluator<'_>,
    hook: Hook,
    packet: &Packet,
    judged: &Judgement,
    places: &Places<'_>,
    texts: &dyn Texts,
) -> HookReport {
    let policy = evaluator.policy();
    let tried = judged
        .tried
        .iter()
        .map(|tried| rule_report(evaluator, tried, packet, judged.state, places, texts))
        .collect();
    HookReport {
        hook: crate::spec::hook_name(hook),
        state: crate::spec::state_name(judged.state),
        verdict: describe::verdict_name(judged.verdict),
        mark: judged.mark,
        tos: judged.tos,
        tried,
        operations: judged
            .ops
            .iter()
            .map(|(_, op)| describe::op(policy, op))
            .collect(),
    }
}

fn rule_report(
    evaluator: &Evaluator<'_>,
    tried: &Tried,
    packet: &Packet,
    state: CtState,
    places: &Places<'_>,
    texts: &dyn Texts,
) -> RuleReport {
    let policy = evaluator.policy();
    let chain = policy.chain(tried.chain);
    let rule = tried.rule.map(|at| &chain.rules[at]);
    let id = match (rule, chain.policy) {
        (Some(rule), _) => rule.id,
        (None, Some(end)) => end.id,
        (None, None) => unreachable!("only chains with a policy end without a rule"),
    };
    let (result, at) = match tried.step {
        Step::Matched => ("matched", None),
        Step::Failed(at) => ("failed", Some(at)),
        Step::HotDrop(at) => ("cut_short", Some(at)),
    };
    let test = rule.zip(at).map(|(rule, at)| &rule.tests[at]);
    let moment = Moment { state: Some(state) };
    let because = |test: &weir_policy::model::Test| {
        describe::observed(&test.cond, packet, moment, &evaluator.locals)
    };
    RuleReport {
        table: describe::table_name(tried.table),
        chain: chain.name.clone(),
        index: places.get(id).map_or(0, |place| place.index),
        rule: places.location(id),
        text: texts.text(id),
        result,
        test: test.map(|test| describe::test(policy, chain.family, test)),
        because: test.and_then(because),
        then: leads_to(policy, tried),
    }
}

/// Where a rule that matched leads.
fn leads_to(policy: &Policy, tried: &Tried) -> Option<String> {
    if tried.step != Step::Matched {
        return None;
    }
    let chain = policy.chain(tried.chain);
    Some(match (tried.rule, chain.policy) {
        (Some(at), _) => describe::flow(policy, chain.rules[at].flow),
        (None, Some(end)) => describe::verdict(end.verdict),
        (None, None) => "returns".to_owned(),
    })
}

#[cfg(test)]
mod tests;
