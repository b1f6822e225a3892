//! Which hooks of the kernel a policy needs.
//!
//! In: a policy. Out: the bits of `weir_plane::hooks`. A hook is needed for every root, because
//! chain policies count too; and where any rule of a family asks about connections, for all three
//! hooks that packets end at, because a flow is seen in both directions or not at all.

use weir_plane::hooks;
use weir_policy::model::{
    ChainId, Cond, Family, Flow, HistoryKind, Hook, Op, Policy, Root, Rule, Table,
};

/// The hooks and services that a policy needs.
pub fn needed(policy: &Policy) -> u32 {
    let mut bits = 0;
    for root in &policy.roots {
        bits |= at_root(policy, root);
    }
    for family in [Family::V4, Family::V6] {
        let tracks = policy
            .chains
            .iter()
            .filter(|chain| chain.family == family)
            .flat_map(|chain| &chain.rules)
            .any(|rule| asks_about_flows(policy, rule));
        if tracks {
            bits |= hooks::TRACK | hooks::DEFRAGMENT;
            for hook in [Hook::Input, Hook::Forward, Hook::Output] {
                bits |= hooks::bit(family, hook, false);
            }
        }
    }
    let reads_transport = |rule: &Rule| rule.tests.iter().any(|test| test.cond.needs_transport());
    if policy
        .chains
        .iter()
        .flat_map(|chain| &chain.rules)
        .any(reads_transport)
    {
        bits |= hooks::DEFRAGMENT;
    }
    bits
}

fn at_root(policy: &Policy, root: &Root) -> u32 {
    let rules = reachable(policy, root.chain);
    let early = match (root.hook, root.table) {
        (Hook::Prerouting | Hook::Postrouting, _) => true,
        // Raw, and mangle before routing; without rules they only count, which the later hook can.
        (Hook::Output, Table::Raw | Table::Mangle) => !rules.is_empty(),
        _ => false,
    };
    let mut bits = hooks::bit(root.family, root.hook, early);
    if early && rules.iter().any(|rule| asks_about_flows(policy, rule)) {
        bits |= hooks::EARLY_STATE | hooks::TRACK;
    }
    for op in rules.iter().flat_map(|rule| &rule.ops) {
        bits |= match op {
            Op::SetMark { .. } | Op::RestoreConnmark { .. } | Op::Notrack => hooks::HANDOFF,
            Op::SetDscp(_) | Op::SetTos { .. } | Op::Classify(_) | Op::TcpMss(_) => {
                hooks::HANDOFF | hooks::EGRESS
            }
            Op::SetConnmark { .. } | Op::SaveConnmark { .. } => hooks::TRACK,
            Op::Log(_) | Op::Nflog(_) | Op::SetAdd { .. } | Op::SetDelete { .. } => 0,
        };
    }
    bits
}

/// The rules of a chain and of all chains that it leads to.
fn reachable(policy: &Policy, from: ChainId) -> Vec<&Rule> {
    let mut seen = vec![false; policy.chains.len()];
    let (mut open, mut rules) = (vec![from], Vec::new());
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        for rule in &policy.chain(id).rules {
            if let Flow::Jump(to) | Flow::Goto(to) = rule.flow {
                open.push(to);
            }
            rules.push(rule);
        }
    }
    rules
}

fn asks_about_flows(policy: &Policy, rule: &Rule) -> bool {
    let test = |cond: &Cond| match cond {
        Cond::State(_) | Cond::Ct(_) | Cond::Connmark { .. } => true,
        Cond::History(id) => {
            let kind = &policy.histories[id.0 as usize].kind;
            matches!(kind, HistoryKind::ConnLimit(_))
        }
        _ => false,
    };
    let op = |op: &Op| {
        matches!(
            op,
            Op::SetConnmark { .. } | Op::SaveConnmark { .. } | Op::RestoreConnmark { .. }
        )
    };
    rule.tests.iter().any(|t| test(&t.cond)) || rule.ops.iter().any(op)
}
