//! Marks that come too late to choose a route.
//!
//! In: a policy. Out: a note at the first rule that OUTPUT leads to and that sets the mark: Linux
//! routes such a packet anew, and no eBPF program can make it do so.

use super::related::span;
use weir_policy::model::{ChainId, Flow, Hook, Op, Policy, Rule, Table};
use weir_policy::syntax::{Diagnostic, Sources};

/// The note, where there is something to say.
pub fn note(policy: &Policy, sources: &Sources) -> Option<Diagnostic> {
    let roots = policy.roots.iter();
    let starts = roots.filter(|root| root.hook == Hook::Output && root.table == Table::Mangle);
    let rule = starts
        .filter_map(|root| first_mark(policy, root.chain))
        .min_by_key(|rule| (rule.origin.source.0, rule.origin.line))?;
    let message = "the mark is set, but the packet is not routed anew by it";
    let note = Diagnostic::note("routed-before", span(rule.origin, sources)?, message);
    Some(note.help("let `ip rule` ask itself: `ip rule add ipproto tcp dport 25 table 100`"))
}

/// The first rule that a chain leads to and that sets the mark.
fn first_mark(policy: &Policy, start: ChainId) -> Option<&Rule> {
    let mut seen = vec![false; policy.chains.len()];
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        for rule in &policy.chain(id).rules {
            if rule.ops.iter().any(sets_mark) {
                return Some(rule);
            }
            if let Flow::Jump(next) | Flow::Goto(next) = rule.flow {
                open.push(next);
            }
        }
    }
    None
}

fn sets_mark(op: &Op) -> bool {
    matches!(op, Op::SetMark { .. } | Op::RestoreConnmark { .. })
}
