//! Reading a list: every match overwrites the result, `quick` stops, heads lead into groups.
//!
//! In: a list and the result so far. Out: the result behind it. As in the original a head's own
//! `quick` is lost when a member of its group matches without one.

use super::log::Act;
use super::packet::IpfPacket;
use super::{Evaluator, Flags, Judgement, Outcome, Reason};
use crate::dialect::ipf::ast::Action;
use crate::dialect::ipf::load::Unit;
use crate::dialect::ipf::words::attribute;

/// Nesting of groups.
const DEPTH_MAX: usize = 16;
/// Lists up to this long are read rule by rule.
const SHORT: usize = 16;

/// A result: a flag word and the rule that it is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) flags: Flags,
    pub(super) rule: Option<usize>,
    /// The number of the rule in its list, from 0.
    pub(super) number: u32,
}

impl Pass {
    /// Of no rule.
    pub(super) fn bare(flags: Flags) -> Self {
        Self {
            flags,
            rule: None,
            number: 0,
        }
    }

    /// Of a rule.
    pub(super) fn of(rule: usize, number: u32, flags: Flags) -> Self {
        Self {
            flags,
            rule: Some(rule),
            number,
        }
    }
}

/// One packet on its way.
pub(super) struct Walk<'p> {
    pub(super) packet: &'p IpfPacket,
    pub(super) now_ms: u64,
    pub(super) attributes: u32,
    pub(super) matched: Vec<usize>,
    pub(super) reason: Option<Reason>,
    pub(super) state: Option<u64>,
    pub(super) by_fragment: bool,
    /// The packet goes against the direction of its state entry.
    pub(super) reverse: bool,
    /// The only rules that can match, where that is known; in increasing order.
    pub(super) among: Option<&'p [usize]>,
    depth: usize,
    /// Whether any rule of the list just read matched.
    any: bool,
}

impl<'p> Walk<'p> {
    pub(super) fn new(packet: &'p IpfPacket, now_ms: u64) -> Self {
        Self {
            packet,
            now_ms,
            attributes: packet.attributes,
            matched: Vec::new(),
            reason: None,
            state: None,
            by_fragment: false,
            reverse: false,
            among: None,
            depth: 0,
            any: false,
        }
    }

    /// The place in a list, from one on, of the next rule that is worth a test. With rules that are
    /// known to be the only ones, lists are in increasing order too.
    fn next(&self, list: &[usize], at: usize) -> Option<usize> {
        let from = *list.get(at)?;
        let among = match self.among {
            Some(among) if list.len() > SHORT => among,
            _ => return Some(at),
        };
        let behind = among.partition_point(|rule| *rule < from);
        let mut known = among[behind..].iter();
        known.find_map(|rule| list.binary_search(rule).ok())
    }

    pub(super) fn out(&self) -> usize {
        usize::from(self.packet.out)
    }

    pub(super) fn has_state(&self) -> bool {
        self.attributes & attribute::STATE != 0
    }

    pub(super) fn end(self, outcome: Outcome, passes: bool, rule: Option<usize>) -> Judgement {
        Judgement {
            outcome,
            passes,
            rule,
            matched: self.matched,
            attributes: self.attributes,
            state: self.state,
            by_fragment: self.by_fragment,
            reason: self.reason,
            routed: [None, None],
        }
    }
}

impl Evaluator<'_> {
    /// Reads a list.
    pub(super) fn scan(
        &mut self,
        walk: &mut Walk<'_>,
        list: &[usize],
        unit: Unit,
        start: Pass,
    ) -> Pass {
        walk.any = false;
        if walk.depth >= DEPTH_MAX {
            return start;
        }
        walk.depth += 1;
        let mut any = false;
        let mut pass = start;
        let mut at = 0;
        while let Some(number) = walk.next(list, at) {
            at = number + 1;
            let rule = list[number];
            if !self.matches(walk, rule) {
                continue;
            }
            any = true;
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let before = pass;
            self.count(walk, rule);
            let rules = self.rules;
            match &rules.rules[rule].action {
                Action::Skip(count) => {
                    at = at.saturating_add(*count as usize);
                    continue;
                }
                Action::Log => {
                    self.record(walk, Act::Log, Some((rule, number)));
                    // 4.1 stops here; 5.1 looks at the result's quick, which isn't this rule's.
                    if self.settings.log_quick_ends && rules.rules[rule].quick {
                        break;
                    }
                }
                Action::Call { now: true, .. } => match self.call(walk, rule, unit, pass) {
                    Some(called) => pass = called,
                    None => continue,
                },
                Action::Decapsulate(_) => {}
                _ => pass = Pass::of(rule, number, self.flags[rule]),
            }
            if let Some(limited) = self.limit_of_rule(walk, rule, number) {
                pass = limited;
                break;
            }
            if let Some(head) = &rules.rules[rule].head {
                let members = rules.group(unit, head).map_or(&[][..], Vec::as_slice);
                pass = self.scan(walk, members, unit, pass);
            }
            if pass.flags.quick {
                if pass.flags.keep_state
                    && unit == Unit::Filter
                    && !walk.has_state()
                    && !self.add_state(walk, pass.rule.unwrap_or(rule), pass.number, None)
                {
                    // A rule that cannot keep its state counts as not matched.
                    pass = before;
                    continue;
                }
                break;
            }
        }
        walk.depth -= 1;
        walk.any = any;
        pass
    }

    fn matches(&self, walk: &Walk<'_>, rule: usize) -> bool {
        self.conditions[rule].holds(
            walk.packet,
            walk.attributes,
            &self.tables,
            &self.interfaces,
            &self.settings,
        )
    }

    pub(super) fn count(&mut self, walk: &mut Walk<'_>, rule: usize) {
        let counters = &mut self.counters[rule];
        counters.packets += 1;
        counters.bytes += u64::from(walk.packet.length);
        walk.matched.push(rule);
    }

    /// `call now srcgrpmap/N`: the group that a map gives the address.
    fn call(&mut self, walk: &mut Walk<'_>, rule: usize, unit: Unit, pass: Pass) -> Option<Pass> {
        let rules = self.rules;
        let Action::Call {
            function, argument, ..
        } = &rules.rules[rule].action
        else {
            return None;
        };
        let packet = walk.packet;
        let address = match &**function {
            "srcgrpmap" => packet.source,
            _ => packet.destination,
        };
        let tables = &self.tables;
        let group = tables
            .group(packet.out, *argument, packet.family, address)?
            .clone();
        let members = rules.group(unit, &group)?;
        let result = self.scan(walk, members, unit, pass);
        walk.any.then_some(result)
    }

    /// A group that judges ICMP errors; whether it blocks.
    pub(super) fn group_blocks(
        &mut self,
        walk: &mut Walk<'_>,
        group: &crate::dialect::ipf::ast::Name,
    ) -> bool {
        let rules = self.rules;
        let members = rules
            .group(Unit::Filter, group)
            .map_or(&[][..], Vec::as_slice);
        let start = self.default_pass();
        let pass = self.scan(walk, members, Unit::Filter, start);
        pass.flags.command == super::Command::Block
    }
}
