//! Whether states can be left to another's connection tracking.
//!
//! In: a policy of a language that tracks connections or whose rules keep states. Out: nothing, or
//! which rules stand against it. The other's tracking lets all packets go on of a conversation
//! whose first packet passed. For iptables that is proved: every ESTABLISHED or RELATED packet must
//! pass. For rules that keep states, a rule that passes without keeping one must have answers that
//! the other list passes anyway, since they will pass now.

use super::{Language, Options, Source, prove};
use crate::compare::{Compared, Options as Exact, compare};
use crate::model::{
    Cond, CtState, DynamicTest, Flow, Hook, Keeper, Policy, Rule, RuleId, Table, Test, Verdict,
};
use crate::syntax::Diagnostic;

/// Says what stands against it.
pub fn check(source: Source<'_>, options: &Options) -> Result<(), Vec<Diagnostic>> {
    let found = match source.language {
        Language::Iptables => established(source, options),
        Language::Ipf => stateless_passes(source),
        Language::Ipfw => {
            let found = other_than_keep_state(source);
            match found.is_empty() {
                true => [behind_others(source, options), stateless_passes(source)].concat(),
                false => found,
            }
        }
    };
    match found.is_empty() {
        true => Ok(()),
        false => Err(found),
    }
}

fn established(source: Source<'_>, options: &Options) -> Vec<Diagnostic> {
    let exact = Exact {
        families: options.families.clone(),
        paths: prove::paths(options),
        whole_headers: true,
        states: Some(vec![CtState::Established, CtState::Related]),
        compared: VERDICTS,
        ..Exact::default()
    };
    let message = "this refuses packets of established connections too, which the result's \
                   tracking would let pass";
    let help = "accept ESTABLISHED,RELATED in front of it, in every chain";
    refused_by(source, &Policy::default(), &exact, message, help)
}

/// Verdicts alone.
const VERDICTS: Compared = Compared {
    answers: false,
    changes: false,
    logs: false,
    memory: false,
};

/// The rules by which packets get something else than by another policy.
fn refused_by(
    source: Source<'_>,
    other: &Policy,
    exact: &Exact,
    message: &str,
    help: &str,
) -> Vec<Diagnostic> {
    let found = match compare(source.policy, other, exact) {
        Ok(found) => found,
        Err(error) => return vec![prove::too_large(&error)],
    };
    let differences = found.journeys.iter().flat_map(|one| &one.differences);
    let mut out: Vec<Diagnostic> = Vec::new();
    for one in differences.take(8) {
        let origin = prove::origin_of(source.policy, one.old.by);
        let span = origin.map_or_else(Default::default, |origin| {
            super::span_of(origin, &[], source.sources)
        });
        if out.iter().any(|known| known.span == span) {
            continue;
        }
        let told = Diagnostic::unsupported(span, message);
        out.push(told.help(help));
    }
    out
}

/// Rules of ipfw that do something else with flows than to let them pass.
fn other_than_keep_state(source: Source<'_>) -> Vec<Diagnostic> {
    const WORDS: [&str; 5] = [
        "keep-state",
        "record-state",
        "set-limit",
        "limit",
        "defer-action",
    ];
    let policy = source.policy;
    let mut out: Vec<Diagnostic> = Vec::new();
    let mut refuse = |rule: RuleId, message: &str| {
        let origin = prove::origin_of(policy, Some(rule));
        let span = origin.map_or_else(Default::default, |origin| {
            super::span_of(origin, &WORDS, source.sources)
        });
        if out.iter().all(|known| known.span != span) {
            let help = "only `allow ... keep-state` has a counterpart there";
            out.push(Diagnostic::unsupported(span, message).help(help));
        }
    };
    for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
        for test in &rule.tests {
            match test.cond {
                Cond::Dynamic(DynamicTest::Of(id)) => {
                    refuse(
                        id,
                        "what this does with later packets can't be left to tracking",
                    );
                }
                Cond::Learn(id) => {
                    let learner = &policy.learners[id.0 as usize];
                    let limited =
                        matches!(&learner.keeper, Keeper::Ipfw(own) if own.limit.is_some());
                    if limited {
                        refuse(learner.rule, "a limit of states has no counterpart");
                    } else if rule.flow != Flow::Verdict(Verdict::Accept) {
                        let message = "a flow that is noted without its packet passing has no \
                                       counterpart";
                        refuse(learner.rule, message);
                    }
                }
                _ => {}
            }
        }
    }
    out
}

/// Rules of ipfw in front of the look for states that judge packets which have one.
fn behind_others(source: Source<'_>, options: &Options) -> Vec<Diagnostic> {
    let mut front = source.policy.clone();
    let id = RuleId(front.rule_count.saturating_sub(1));
    for at in 0..front.chains.len() {
        if !front.roots.iter().any(|root| root.chain.0 as usize == at) {
            continue;
        }
        let rules = &mut front.chains[at].rules;
        let Some(first) = rules.first().cloned() else {
            continue;
        };
        // What can't be read is dropped in any case.
        let unreadable =
            |rule: &&Rule| rule.index == Rule::HIDDEN && rule.flow == Flow::Verdict(Verdict::Drop);
        let place = rules.iter().take_while(unreadable).count();
        for rule in rules.iter_mut() {
            if let Flow::Skip(to) = &mut rule.flow {
                *to += 1;
            }
        }
        let look = Rule {
            id,
            index: Rule::HIDDEN,
            tests: vec![Test {
                negate: false,
                cond: Cond::Dynamic(DynamicTest::Look(0)),
            }],
            ops: Vec::new(),
            flow: Flow::AsLearned,
            ..first
        };
        rules.insert(place, look);
    }
    let exact = Exact {
        families: options.families.clone(),
        paths: prove::paths(options),
        whole_headers: true,
        compared: VERDICTS,
        ..Exact::default()
    };
    let message = "this judges packets of flows that were noted, which the result's tracking \
                   would let pass";
    refused_by(
        source,
        &front,
        &exact,
        message,
        "put `check-state` in front of it",
    )
}

/// The interface of a rule that asks for nothing else.
fn only_interface(rule: &Rule) -> Option<&str> {
    match rule.tests.as_slice() {
        [one] if !one.negate => match &one.cond {
            Cond::InIface(pattern) | Cond::OutIface(pattern) => Some(&pattern.name),
            _ => None,
        },
        _ => None,
    }
}

fn stateless_passes(source: Source<'_>) -> Vec<Diagnostic> {
    let policy = source.policy;
    let keeps: Vec<RuleId> = policy.learners.iter().map(|learner| learner.rule).collect();
    let mut out: Vec<Diagnostic> = Vec::new();
    for learner in &policy.learners {
        let (_, accepts) = (learner.rule, learner.verdicts == [Verdict::Accept; 2]);
        if !accepts && let Some(origin) = prove::origin_of(policy, Some(learner.rule)) {
            let span = super::span_of(origin, &["keep state", "keep-state"], source.sources);
            let message = "states of a rule that doesn't pass have no counterpart";
            out.push(Diagnostic::unsupported(span, message).help("take `keep state` out here"));
        }
    }
    let reached = |hook| -> Vec<&Rule> {
        let roots = policy.roots.iter();
        let roots = roots.filter(|root| root.hook == hook && root.table == Table::Filter);
        roots
            .flat_map(|root| all_rules(policy, root.chain))
            .collect()
    };
    // What no rule of ipfw speaks about is dropped by the last one.
    let ends = policy
        .roots
        .iter()
        .map(|root| policy.chain(root.chain).policy);
    let refuses_the_rest = source.language == Language::Ipfw
        && ends.flatten().any(|end| end.verdict != Verdict::Accept);
    let (input, output) = (reached(Hook::Prerouting), reached(Hook::Output));
    for (own, others) in [(&input, &output), (&output, &input)] {
        let refuses = refuses_the_rest || others.iter().any(|rule| !accepts(rule) && decides(rule));
        if !refuses {
            continue;
        }
        for rule in own
            .iter()
            .filter(|rule| accepts(rule) && !keeps.contains(&rule.id))
        {
            let there = only_interface(rule);
            let answered = others.iter().any(|other| {
                accepts(other)
                    && (other.tests.is_empty() || only_interface(other) == there && there.is_some())
            });
            if answered || rule.index == Rule::HIDDEN {
                continue;
            }
            let span = super::span_of(rule.origin, &[], source.sources);
            if out.iter().all(|known| known.span != span) {
                let message = "this passes without keeping a state: the answers, which other rules \
                               judge here, would pass in the result";
                let told = Diagnostic::unsupported(span, message);
                out.push(told.help(match source.language {
                    Language::Ipfw => "give it `keep-state` too",
                    _ => "give it `keep state` too, or convert without states",
                }));
            }
        }
    }
    out
}

fn accepts(rule: &Rule) -> bool {
    matches!(
        rule.flow,
        Flow::Verdict(Verdict::Accept)
            | Flow::Propose(Verdict::Accept)
            | Flow::Head {
                verdict: Verdict::Accept,
                ..
            }
    )
}

fn decides(rule: &Rule) -> bool {
    matches!(
        rule.flow,
        Flow::Verdict(_) | Flow::Propose(_) | Flow::Head { .. }
    ) && rule.index != Rule::HIDDEN
}

/// The rules that a chain leads to.
fn all_rules(policy: &Policy, root: crate::model::ChainId) -> Vec<&Rule> {
    let (mut todo, mut seen, mut out) = (vec![root], Vec::new(), Vec::new());
    while let Some(id) = todo.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        for rule in &policy.chain(id).rules {
            out.push(rule);
            if let Flow::Jump(next) | Flow::Goto(next) | Flow::Head { group: next, .. } = rule.flow
            {
                todo.push(next);
            }
        }
    }
    out
}
