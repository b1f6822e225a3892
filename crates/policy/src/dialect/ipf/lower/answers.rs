//! What becomes of a packet that a rule decides, and how it is answered.
//!
//! In: a rule that passes or blocks. Out: its verdict in a family, as one rule or, where only TCP
//! can be answered, as two.

use crate::dialect::ipf::ast::{self, Action, Direction, Return};
use crate::model::{Cond, Family, Flow, RangeSet, RejectKind, Rule, Test, Verdict};

const TCP: u8 = 6;

/// The verdict of a rule that passes or blocks. Outbound packets can't be answered.
pub(super) fn verdict(rule: &ast::Rule, family: Family) -> Verdict {
    if rule.action == Action::Pass {
        return Verdict::Accept;
    }
    match (rule.answer, rule.direction, family) {
        (None, _, _) | (_, Direction::Out, _) => Verdict::Drop,
        (Some(Return::Rst), ..) => Verdict::Reject(RejectKind::TcpReset),
        (Some(Return::Icmp6(code)), _, Family::V6) => Verdict::Reject(RejectKind::Icmp6(code)),
        (Some(Return::Icmp6AsDest(code)), _, Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6AsDestination(code))
        }
        (Some(Return::Icmp(code)), _, Family::V4) => Verdict::Reject(RejectKind::Icmp(code)),
        (Some(Return::IcmpAsDest(code)), _, Family::V4) => {
            Verdict::Reject(RejectKind::IcmpAsDestination(code))
        }
        (Some(Return::Icmp(_)), _, Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6(PORT_UNREACHABLE_6))
        }
        (Some(Return::IcmpAsDest(_)), _, Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6AsDestination(PORT_UNREACHABLE_6))
        }
        (Some(Return::Icmp6(_) | Return::Icmp6AsDest(_)), _, Family::V4) => Verdict::Drop,
    }
}

/// RFC 4443 section 3.1; the original's codes are those of IPv4.
const PORT_UNREACHABLE_6: u8 = 4;

/// A rule that answers with a reset: TCP gets one, all else is dropped.
pub(super) fn reset_or_drop(reset: Rule, drop: Flow) -> [Rule; 2] {
    let tcp = |negate| Test {
        negate,
        cond: Cond::Proto(RangeSet::one(TCP)),
    };
    let (mut reset, mut dropped) = (reset.clone(), reset);
    dropped.flow = drop;
    reset.tests.push(tcp(false));
    dropped.tests.push(tcp(true));
    [reset, dropped]
}
