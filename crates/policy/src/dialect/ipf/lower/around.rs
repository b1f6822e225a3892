//! What is decided around the rules: packets that meet none of them, and rules whose time is up.

use super::Lowering;
use crate::dialect::ipf::load::Unit;
use crate::dialect::iptables::names::protocols;
use crate::eval::ipf::DISCOVERY;
use crate::model::{
    Cond, Family, Flow, HistoryId, HistoryKind, HistoryObject, RangeSet, Test, TimeWindow, Verdict,
};

impl Lowering<'_> {
    /// In front of the rules of a list.
    pub(super) fn before(&mut self, family: Family, unit: Unit) -> Vec<crate::model::Rule> {
        let mut rules = vec![self.unreadable()];
        if family == Family::V6 && self.options.discovery_bypasses {
            rules.extend(self.discovery(unit));
        }
        rules
    }

    /// In front of a list, what IPFilter drops before it reads any (`bad-packet`): a header that
    /// isn't whole in its packet or first fragment ([`Reading::Ipf`](crate::model::Reading)). A
    /// rule with ports or flags can't match such a one, so tiny fragments (RFC 1858) would else
    /// carry a SYN past the rule that blocks it. No state takes one either, so this stands behind
    /// the look at the states, where it costs packets of states nothing.
    fn unreadable(&mut self) -> crate::model::Rule {
        let mut rule = self.look();
        rule.tests = vec![Test {
            negate: false,
            cond: Cond::CutShort,
        }];
        rule.flow = Flow::Verdict(Verdict::Drop);
        rule
    }

    /// HP-UX: in front of an IPv6 list, what router and neighbour discovery passes by.
    fn discovery(&mut self, unit: Unit) -> Vec<crate::model::Rule> {
        let of = |kind| {
            let mut rule = self.look();
            // IPv4's ICMP inside IPv6 has the same numbers, and other meanings.
            let conds = [
                Cond::Proto(RangeSet::one(protocols::ICMPV6)),
                Cond::Icmp {
                    kind: Some(kind),
                    codes: (0, 255),
                },
            ];
            let test = |cond| Test {
                negate: false,
                cond,
            };
            rule.tests = conds.map(test).to_vec();
            rule.flow = match unit {
                Unit::Filter => Flow::Verdict(Verdict::Accept),
                Unit::Account => Flow::Return,
            };
            rule
        };
        DISCOVERY.map(of).collect()
    }

    /// `rule-ttl`: the rule holds as long as it lives, from now on; the same for both families.
    pub(super) fn while_it_lasts(&mut self, number: usize) -> Option<Test> {
        let seconds = u64::from(self.set.rules[number].rule_ttl?);
        let known = self.ends.get(&number).copied();
        let id = known.unwrap_or_else(|| {
            self.policy.histories.push(HistoryObject {
                shared: None,
                kind: HistoryKind::Time(TimeWindow {
                    date_start: 0,
                    // The last second in which it holds.
                    date_stop: (self.options.now + seconds).saturating_sub(1),
                    day_start: 0,
                    day_stop: 86_399,
                    month_days: u32::MAX << 1,
                    week_days: u8::MAX << 1,
                    offset: 0,
                    contiguous: false,
                }),
            });
            HistoryId(self.policy.histories.len() as u32 - 1)
        });
        self.ends.insert(number, id);
        Some(Test {
            negate: false,
            cond: Cond::History(id),
        })
    }
}
