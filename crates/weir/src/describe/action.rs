//! Verdicts, control flow and operations in words, and the names of tables and families.
//!
//! In: actions of the rule model. Out: words; verdict names in JSON are fixed: `accept`, `drop`,
//! `reject`.

use super::values::masked;
use weir_policy::model::{
    Family, Flow, MarkShift, MssOp, Op, Policy, RejectKind, Table, TtlOp, Verdict,
};

/// The name of a verdict in JSON.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Drop => "drop",
        Verdict::Reject(_) => "reject",
    }
}

/// A verdict for people.
pub fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accept => "ACCEPT".to_owned(),
        Verdict::Drop => "DROP".to_owned(),
        Verdict::Reject(RejectKind::TcpReset) => "REJECT (TCP reset)".to_owned(),
        Verdict::Reject(RejectKind::Icmp(code)) => format!("REJECT (ICMP 3/{code})"),
        Verdict::Reject(RejectKind::Icmp6(code)) => format!("REJECT (ICMPv6 1/{code})"),
        Verdict::Reject(RejectKind::IcmpAsDestination(code)) => {
            format!("REJECT (ICMP 3/{code} as its destination)")
        }
        Verdict::Reject(RejectKind::Icmp6AsDestination(code)) => {
            format!("REJECT (ICMPv6 1/{code} as its destination)")
        }
        Verdict::Reject(RejectKind::FragmentationNeeded(mtu)) => {
            format!("REJECT (ICMP 3/4, MTU {mtu})")
        }
    }
}

/// The name of a table.
pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Raw => "raw",
        Table::Mangle => "mangle",
        Table::Nat => "nat",
        Table::Filter => "filter",
        Table::Security => "security",
    }
}

/// The name of a family.
pub fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// Where a rule that matched leads.
pub fn flow(policy: &Policy, flow: Flow) -> String {
    match flow {
        Flow::Next => "goes on".to_owned(),
        Flow::Verdict(decided) => verdict(decided),
        Flow::Jump(chain) => format!("into {}", policy.chain(chain).name),
        Flow::Goto(chain) => format!("over to {}", policy.chain(chain).name),
        Flow::Return => "returns".to_owned(),
        Flow::Skip(_) => "skips rules".to_owned(),
        Flow::AsLearned => "what the rule said that made its state".to_owned(),
        Flow::Refuse => "drop in place of the verdict so far".to_owned(),
        Flow::Withdraw => "takes the verdict so far back".to_owned(),
        Flow::Propose(proposed) => format!("{} for now", verdict(proposed)),
        Flow::Head {
            verdict: proposed,
            group,
            ..
        } => {
            let group = &policy.chain(group).name;
            format!("{} for now, into {group}", verdict(proposed))
        }
    }
}

/// What an operation does.
pub fn op(policy: &Policy, op: &Op) -> String {
    match op {
        Op::Log(log) => format!("logs \"{}\"", log.prefix),
        Op::Nflog(log) => format!("logs to group {} \"{}\"", log.group, log.prefix),
        Op::SetMark { value, mask } => format!("mark {}", masked(*value, *mask)),
        Op::SetConnmark { value, mask, shift } => {
            format!("flow mark {}{}", masked(*value, *mask), shifted(*shift))
        }
        Op::SaveConnmark { shift, .. } => {
            format!("saves the mark to the flow{}", shifted(*shift))
        }
        Op::RestoreConnmark { shift, .. } => {
            format!("restores the mark from the flow{}", shifted(*shift))
        }
        Op::Notrack => "not tracked".to_owned(),
        Op::SetDscp(dscp) => format!("DSCP {dscp}"),
        Op::SetTos { value, mask } => format!("TOS {value:#x}/{mask:#x}"),
        Op::Classify(class) => format!("class {:x}:{:x}", class >> 16, class & 0xffff),
        Op::TcpMss(MssOp::Set(size)) => format!("MSS at most {size}"),
        Op::TcpMss(MssOp::ClampToPmtu) => "MSS by the path MTU".to_owned(),
        Op::Ttl(TtlOp::Set(value)) => format!("TTL {value}"),
        Op::Ttl(TtlOp::Raise(by)) => format!("TTL + {by}"),
        Op::Ttl(TtlOp::Lower(by)) => format!("TTL - {by}"),
        Op::SetAdd { set, .. } => format!("adds to set {}", policy.sets[set.0 as usize].name),
        Op::SetDelete { set, .. } => {
            format!("deletes from set {}", policy.sets[set.0 as usize].name)
        }
    }
}

/// Where a mark is moved.
fn shifted(shift: MarkShift) -> String {
    match (shift.bits, shift.right) {
        (0, _) => String::new(),
        (bits, true) => format!(", shifted right by {bits}"),
        (bits, false) => format!(", shifted left by {bits}"),
    }
}
