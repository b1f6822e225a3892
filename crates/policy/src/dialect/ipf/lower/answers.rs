//! What becomes of a packet that a rule decides, and how it is answered.
//!
//! In: a rule that passes or blocks. Out: its verdict in a family, as one rule or, where only some
//! packets can be answered, as several.

use crate::dialect::ipf::ast::{self, Action, Direction, Return};
use crate::model::{Cond, Family, Flow, IfPattern, RangeSet, RejectKind, Rule, Test, Verdict};

const TCP: u8 = 6;

/// The verdict of a rule that passes or blocks, about packets of its own direction. On the way out
/// only this host's connections are answered: the original returns an error to the caller.
pub(super) fn verdict(rule: &ast::Rule, family: Family) -> Verdict {
    match said(rule, family) {
        Verdict::Reject(kind)
            if rule.direction == Direction::Out && kind != RejectKind::TcpReset =>
        {
            Verdict::Drop
        }
        verdict => verdict,
    }
}

/// The verdict that states of a rule keep, who see packets of both directions.
pub(super) fn said(rule: &ast::Rule, family: Family) -> Verdict {
    if rule.action == Action::Pass {
        return Verdict::Accept;
    }
    match (rule.answer, family) {
        (None, _) | (Some(Return::Icmp6(_) | Return::Icmp6AsDest(_)), Family::V4) => Verdict::Drop,
        (Some(Return::Rst), _) => Verdict::Reject(RejectKind::TcpReset),
        (Some(Return::Icmp6(code)), Family::V6) => Verdict::Reject(RejectKind::Icmp6(code)),
        (Some(Return::Icmp6AsDest(code)), Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6AsDestination(code))
        }
        (Some(Return::Icmp(code)), Family::V4) => Verdict::Reject(RejectKind::Icmp(code)),
        (Some(Return::IcmpAsDest(code)), Family::V4) => {
            Verdict::Reject(RejectKind::IcmpAsDestination(code))
        }
        (Some(Return::Icmp(_)), Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6(PORT_UNREACHABLE_6))
        }
        (Some(Return::IcmpAsDest(_)), Family::V6) => {
            Verdict::Reject(RejectKind::Icmp6AsDestination(PORT_UNREACHABLE_6))
        }
    }
}

/// RFC 4443 section 3.1; the original's codes are those of IPv4.
const PORT_UNREACHABLE_6: u8 = 4;

/// A rule that answers with a reset: TCP gets one, on the way out that of this host; all else is
/// dropped.
pub(super) fn reset_or_drop(reset: &Rule, drop: Flow, direction: Direction) -> Vec<Rule> {
    let test = |cond, negate| Test { negate, cond };
    let tcp = |negate| test(Cond::Proto(RangeSet::one(TCP)), negate);
    let begins_here = |negate| test(Cond::InIface(IfPattern::none()), negate);
    let with = |tests: &[Test], flow: Flow| {
        let mut rule = reset.clone();
        rule.tests.extend_from_slice(tests);
        rule.flow = flow;
        rule
    };
    match direction {
        Direction::In => vec![with(&[tcp(false)], reset.flow), with(&[tcp(true)], drop)],
        Direction::Out => vec![
            with(&[tcp(false), begins_here(false)], reset.flow),
            with(&[tcp(false), begins_here(true)], drop),
            with(&[tcp(true)], drop),
        ],
    }
}
