//! Keeping: state entries, fragment entries, HP-UX limits.
//!
//! In: packets that a rule wants to remember, and packets that may be remembered already. Out:
//! entries, and results. A *quick* rule that cannot keep its state counts as not matched; a pass
//! rule without `quick` blocks then; HP-UX limits let the packet through.

use super::limit::{Limit, LimitType};
use super::scan::{Pass, Walk};
use super::state::NewState;
use super::{Command, Evaluator, Flags, Reason};
use crate::dialect::ipf::ast::{Direction, Return, Rule};
use crate::dialect::ipf::words::{attribute, begins_state};
use crate::model::Family;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Evaluator<'_> {
    /// What the state table says of a packet.
    pub(super) fn known_state(&mut self, walk: &mut Walk<'_>) -> Option<Pass> {
        let packet = walk.packet;
        if !packet.is_trackable() || self.states.entries().is_empty() {
            return None;
        }
        let settings = self.settings.clone();
        let mut attributes = walk.attributes;
        let mut hit = self
            .states
            .find(packet, &mut attributes, walk.now_ms, &settings);
        walk.attributes = attributes;
        if hit.is_none() && packet.icmp.as_ref().is_some_and(|icmp| icmp.error) {
            hit = self.error_of_state(walk);
        }
        let hit = hit?;
        let state = self.states.get(hit.at);
        let (rule, number, mut flags) = (state.rule, state.rule_number, state.flags);
        walk.state = Some(state.number);
        walk.reverse = hit.reverse;
        if packet.is(attribute::FRAG) && flags.command == Command::Pass && flags.keep_frags {
            self.keep_fragments(walk, rule, number);
        }
        walk.attributes |= attribute::STATE;
        if flags.log_first {
            (flags.log, flags.log_first) = (false, false);
        }
        Some(Pass::of(rule, number, flags))
    }

    /// The entry that an ICMP error belongs to.
    fn error_of_state(&mut self, walk: &mut Walk<'_>) -> Option<super::state::Hit> {
        for hit in self.states.of_error(walk.packet) {
            let rules = self.rules;
            let keep = rules.rules[self.states.get(hit.at).rule]
                .keep_state
                .as_ref();
            if let Some(group) = keep.and_then(|keep| keep.icmp_head.as_ref())
                && self.group_blocks(walk, group)
            {
                continue;
            }
            let banned = keep.is_some_and(|keep| keep.no_icmp_errors);
            if !banned && self.states.allow_error(hit, walk.packet) {
                return Some(hit);
            }
        }
        None
    }

    /// A rule without `quick` makes its state behind the whole list.
    pub(super) fn keep_state_at_the_end(&mut self, walk: &mut Walk<'_>, mut pass: Pass) -> Pass {
        let Some(rule) = pass.rule else { return pass };
        if !pass.flags.keep_state || walk.has_state() {
            return pass;
        }
        if !self.add_state(walk, rule, pass.number, None) && pass.flags.command == Command::Pass {
            pass.flags.command = Command::Block;
            walk.reason = Some(Reason::StateAddFail);
        }
        pass
    }

    /// Remembers a datagram's other fragments.
    pub(super) fn keep_fragments(&mut self, walk: &Walk<'_>, rule: usize, number: u32) {
        let strict = self.rules.rules[rule].keep_frags == Some(true);
        let life = self.settings.lifetimes.fragment;
        let made = self
            .fragments
            .add(walk.packet, (rule, number), strict, walk.now_ms, life);
        let counts = &mut self.statistics[walk.out()].fragments;
        match made {
            true => counts.0 += 1,
            false => counts.1 += 1,
        }
    }

    /// Makes a state entry; whether that was possible.
    pub(super) fn add_state(
        &mut self,
        walk: &mut Walk<'_>,
        rule: usize,
        number: u32,
        limit: Option<usize>,
    ) -> bool {
        let made = self.may_add(walk, rule);
        let counts = &mut self.statistics[walk.out()].states;
        if !made {
            counts.1 += 1;
            return false;
        }
        counts.0 += 1;
        let of = &self.rules.rules[rule];
        let keep = of.keep_state.clone().unwrap_or_default();
        let age = of
            .age
            .map(|(forward, reverse)| (u64::from(forward) * 1000, u64::from(reverse) * 1000));
        let new = NewState {
            rule,
            rule_number: number,
            flags: state_flags(self.flags[rule], limit.is_some()),
            interfaces: slots(of, &walk.packet.interface),
            strict: keep.strict,
            loose: keep.loose,
            age_ms: age,
            tag: of.set_tag.log,
            limit,
            now_ms: walk.now_ms,
            lifetimes: self.settings.lifetimes,
        };
        let at = self.states.add(walk.packet, walk.attributes, new);
        walk.state = Some(self.states.get(at).number);
        walk.attributes |= attribute::STATE;
        if walk.packet.is(attribute::FRAG) {
            self.keep_fragments(walk, rule, number);
        }
        true
    }

    fn may_add(&self, walk: &Walk<'_>, rule: usize) -> bool {
        may_be_kept(walk.packet, walk.attributes) && self.room_for(walk.packet, rule)
    }

    /// The limits of the table and of the rule.
    fn room_for(&self, packet: &super::IpfPacket, rule: usize) -> bool {
        let keep = self.rules.rules[rule].keep_state.as_ref();
        let own = || {
            self.states
                .entries()
                .iter()
                .filter(|entry| entry.rule == rule)
        };
        // A rule's own limit is a guaranteed share: it does not look at the table's.
        match keep.and_then(|keep| keep.limit) {
            Some(limit) if own().count() >= limit as usize => return false,
            None if self.states.entries().len() >= self.settings.state_max as usize => {
                return false;
            }
            _ => {}
        }
        let sources = own().map(|entry| (entry.family, entry.source));
        keep.is_none_or(|keep| {
            let limits = (keep.max_sources, keep.max_per_source);
            sources_fit(limits, (packet.family, packet.source), sources)
        })
    }

    /// What a limit entry says of a new connection.
    pub(super) fn known_limit(&mut self, walk: &mut Walk<'_>) -> Option<Pass> {
        let packet = walk.packet;
        let begins = packet.tcp.is_some_and(|tcp| tcp.flags & (SYN | ACK) == SYN);
        if !self.settings.limits_on || packet.out || !begins || !packet.is_trackable() {
            return None;
        }
        let to = (packet.destination, packet.ports?.1);
        let at = self.limits.find(packet.family, packet.source, to)?;
        let rule = self.limits.get(at)?.rule;
        Some(self.through_limit(walk, at, rule, 0))
    }

    /// A rule with a limit matched.
    pub(super) fn limit_of_rule(
        &mut self,
        walk: &mut Walk<'_>,
        rule: usize,
        number: u32,
    ) -> Option<Pass> {
        let of = &self.rules.rules[rule];
        let keep = of.keep_limit.filter(|_| self.settings.limits_on)?;
        let packet = walk.packet;
        let (destination, port) = (packet.destination, packet.ports?.1);
        let kind = LimitType::of(of);
        let known = match kind {
            LimitType::Cumulative => self.limits.of_rule(rule),
            _ => self
                .limits
                .find(packet.family, packet.source, (destination, port)),
        };
        let at = match known {
            Some(at) => at,
            None => {
                let group = of.group.as_deref().unwrap_or("0");
                self.limits.add(Limit {
                    rule,
                    place: format!("@{group}:{}", number + 1),
                    kind,
                    family: packet.family,
                    source: (kind != LimitType::Cumulative).then_some(packet.source),
                    destination,
                    port,
                    configured: keep.limit,
                    current: 0,
                    exceeded: 0,
                    resets: 0,
                    first_ms: walk.now_ms,
                    every: of
                        .log
                        .and_then(|log| log.limit)
                        .map(|freq| freq.unwrap_or(1)),
                })
            }
        };
        Some(self.through_limit(walk, at, rule, number))
    }

    fn through_limit(&mut self, walk: &mut Walk<'_>, at: usize, rule: usize, number: u32) -> Pass {
        let mut flags = self.flags[rule];
        flags.quick = true;
        if !self.limits.admit(at) {
            self.limits.alert(at, walk.packet, walk.now_ms);
            flags.command = Command::Block;
            if self.rules.rules[rule].answer == Some(Return::Rst) {
                flags.answer = Some(Return::Rst);
                self.limits.reset(at);
            }
            return Pass::of(rule, number, flags);
        }
        self.limits.begin(at);
        if !self.add_state(walk, rule, number, Some(at)) {
            self.limits.end(at, walk.now_ms);
            if self.settings.limit_fails_closed {
                flags.command = Command::Block;
                walk.reason = Some(Reason::StateAddFail);
            }
        }
        Pass::of(rule, number, flags)
    }
}

/// Whether a state can begin with this packet.
pub(in crate::eval) fn may_be_kept(packet: &super::IpfPacket, attributes: u32) -> bool {
    if !packet.is_trackable() {
        return false;
    }
    let flags = packet.tcp.map_or(0, |tcp| tcp.flags);
    if attributes & attribute::OOW != 0 && flags & SYN == 0 {
        return false;
    }
    match packet.proto {
        TCP => packet.tcp.is_some() && flags & RST == 0,
        ICMP | ICMPV6 => {
            let icmp = packet.icmp.as_ref();
            icmp.is_some_and(|icmp| begins_state(packet.family, icmp.kind))
        }
        _ => true,
    }
}

/// The flag word that a state keeps.
fn state_flags(mut flags: Flags, limited: bool) -> Flags {
    flags.keep_state |= limited;
    if flags.log_first {
        (flags.log, flags.log_first) = (false, false);
    }
    flags
}

/// Whether one more entry of a source is allowed beside those that there are: hosts at once, and
/// entries of hosts that have so many first bits in common.
pub(in crate::eval) fn sources_fit(
    (max_sources, max_per_source): (Option<u32>, Option<(u32, Option<u8>)>),
    source: (Family, u128),
    sources: impl Iterator<Item = (Family, u128)>,
) -> bool {
    if max_sources.is_none() && max_per_source.is_none() {
        return true;
    }
    let part = |(family, address): (Family, u128)| {
        let width = if family == Family::V4 { 32 } else { 128 };
        let length = max_per_source.and_then(|(_, length)| length);
        let free = u32::from(width - length.unwrap_or(width).min(width));
        (family, address.checked_shr(free).unwrap_or(0))
    };
    let mut known: Vec<(Family, u128)> = sources.map(part).collect();
    let own = part(source);
    let of_own = known.iter().filter(|source| **source == own).count();
    known.sort_unstable();
    known.dedup();
    if of_own == 0 {
        return max_sources.is_none_or(|most| known.len() < most as usize);
    }
    max_per_source.is_none_or(|(most, _)| of_own < most as usize)
}

/// The interface slots of a new entry: in forward, in reverse, out forward, out reverse.
fn slots(rule: &Rule, interface: &str) -> [Option<String>; 4] {
    let text =
        |name: &Option<crate::dialect::ipf::ast::Name>| name.as_ref().map(|name| name.to_string());
    let own = match rule.on[0].as_deref() {
        Some("-") => Some("-".to_owned()),
        _ => Some(interface.to_owned()),
    };
    let near = [own, text(&rule.on[1])];
    let far = [text(&rule.via[0]), text(&rule.via[1])];
    let [a, b] = near;
    let [c, d] = far;
    match rule.direction {
        Direction::In => [a, b, c, d],
        Direction::Out => [c, d, a, b],
    }
}
