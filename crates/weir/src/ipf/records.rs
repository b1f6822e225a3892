//! Log records of IPFilter rules: from the kernel's events, and from files of saved ones.
//!
//! In: an event and the enforced rules, or a line of a file. Out: the record that
//! `weir_policy::eval::ipf::log` writes as `ipmon` does. A saved record is one line of JSON: the
//! packet's bytes in hexadecimal digits, and what the rules said of it.

use super::live::Live;
use serde::{Deserialize, Serialize};
use weir_engine::packet::ipf::{LinkClass, Summed, ipf_packet_summed};
use weir_plane::events::Event;
use weir_policy::dialect::ipf::ast::{Action, Rule};
use weir_policy::dialect::ipf::load::{RuleSet, unit};
use weir_policy::dialect::ipf::words::attribute;
use weir_policy::eval::ipf::log::{Act, Reason, Record};
use weir_policy::model::{Cond, Policy, RuleId};

/// A record before it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    /// Milliseconds since the epoch.
    pub time_ms: u64,
    /// The interface.
    pub interface: String,
    /// Outbound.
    pub out: bool,
    /// The group of the rule.
    pub group: Option<String>,
    /// The position of the rule in its list, from 0.
    pub rule: Option<u32>,
    /// The letter of `ipmon`: `p`, `b`, `L`, `P`, `B`, `n`.
    pub act: char,
    /// The rule keeps state.
    pub keep_state: bool,
    /// The rule keeps fragments.
    pub keep_frags: bool,
    /// The rule logs the body.
    pub body: bool,
    /// The rule's tag.
    pub tag: Option<u32>,
    /// Facility and priority that the rule says.
    pub level: Option<(u8, u8)>,
    /// To whom the frame was addressed: `m` many, `b` all, `-` this host.
    pub link: char,
    /// The packet from its network header on, as far as it was captured.
    pub bytes: String,
    /// The checksum of its transport header is wrong; else it is right, or wasn't there yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrong_sum: bool,
    /// Attributes, where the one who judged the packet knew them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<u32>,
    /// Why it was blocked without a rule saying so: the original's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<u8>,
}

/// The rule of the text that a rule of the policy stands for. What a list logs at its end is done
/// by a rule of its own, which asks whose proposal stands.
pub fn rule_of(policy: &Policy, id: u32, rules: usize) -> Option<usize> {
    if (id as usize) < rules {
        return Some(id as usize);
    }
    let mut all = policy.chains.iter().flat_map(|chain| &chain.rules);
    let rule = all.find(|rule| rule.id == RuleId(id))?;
    let by = rule.tests.iter().rev().find_map(|test| match test.cond {
        Cond::ProposedBy(by) => Some(by.0 as usize),
        _ => None,
    });
    by.filter(|&number| number < rules)
}

/// Where a rule is, as the log prints it: `@GROUP:NUMBER`.
pub fn place(set: &RuleSet, number: usize) -> String {
    let group = set.rules[number].group.as_deref().unwrap_or("0");
    match position(set, number) {
        Some(at) => format!("@{group}:{}", at + 1),
        None => format!("@{group}:?"),
    }
}

/// The position of a rule in its list.
fn position(set: &RuleSet, number: usize) -> Option<u32> {
    let rule = &set.rules[number];
    let list = match &rule.group {
        Some(group) => set.group(unit(rule), group)?,
        None => &set.filter[rule.direction as usize],
    };
    let at = list.iter().position(|&member| member == number)?;
    u32::try_from(at).ok()
}

fn act(rule: Option<&Rule>) -> char {
    match rule.map(|rule| &rule.action) {
        Some(Action::Pass) => 'p',
        Some(Action::Block) => 'b',
        Some(Action::Log) => 'L',
        _ => '?',
    }
}

impl Saved {
    /// An event of the kernel.
    pub fn of(event: &Event, live: &Live, policy: &Policy, time_ms: u64) -> Self {
        let set = &live.rules.set;
        let number = rule_of(policy, event.rule, set.rules.len());
        let rule = number.map(|number| &set.rules[number]);
        let out = !event.out_iface.is_empty();
        let interface = if out {
            &event.out_iface
        } else {
            &event.in_iface
        };
        Saved {
            time_ms,
            interface: interface.clone(),
            out,
            group: rule.and_then(|rule| rule.group.as_ref().map(ToString::to_string)),
            rule: number.and_then(|number| position(set, number)),
            act: act(rule),
            keep_state: rule.is_some_and(|rule| rule.keep_state.is_some()),
            keep_frags: rule.is_some_and(|rule| rule.keep_frags.is_some()),
            body: rule.is_some_and(|rule| rule.log.is_some_and(|log| log.body)),
            tag: rule.and_then(|rule| rule.set_tag.log),
            level: rule.and_then(|rule| rule.log?.level),
            link: match event.key.packet_type {
                1 => 'b',
                2 => 'm',
                _ => '-',
            },
            bytes: digits(&event.bytes),
            wrong_sum: event.wrong_sum,
            attributes: None,
            reason: None,
        }
    }

    /// A record of a test. `body`: its rule logs it.
    pub fn of_test(record: &Record, bytes: &[u8], body: bool) -> Self {
        let has = |bit| record.attributes & bit != 0;
        Saved {
            time_ms: record.time_ms,
            interface: record.packet.interface.clone(),
            out: record.packet.out,
            group: record.group.clone(),
            rule: record.rule,
            act: record.act.letter(),
            keep_state: record.keep_state,
            keep_frags: record.keep_frags,
            body,
            tag: record.tag,
            level: record.level,
            link: match (has(attribute::MCAST), has(attribute::BCAST)) {
                (true, _) => 'm',
                (false, true) => 'b',
                (false, false) => '-',
            },
            bytes: digits(bytes),
            wrong_sum: record.packet.wrong_sum,
            attributes: Some(record.attributes),
            reason: record.reason.map(Reason::number),
        }
    }

    /// The packet's bytes.
    pub fn packet(&self) -> Vec<u8> {
        let digits: Vec<u8> = self.bytes.bytes().collect();
        let pairs = digits.chunks_exact(2);
        pairs
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect()
    }

    /// The record.
    pub fn record(&self) -> Record {
        let link = LinkClass {
            multicast: self.link == 'm',
            broadcast: self.link == 'b',
            many: false,
        };
        let summed = match self.wrong_sum {
            true => Summed::Wrong,
            false => Summed::Right,
        };
        let packet = ipf_packet_summed(&self.packet(), self.out, &self.interface, link, summed);
        Record {
            time_ms: self.time_ms,
            attributes: self.attributes.unwrap_or(packet.attributes),
            packet,
            group: self.group.clone(),
            rule: self.rule,
            act: match self.act {
                'p' => Act::Pass,
                'b' => Act::Block,
                'L' => Act::Log,
                'P' => Act::AllPass,
                'B' => Act::AllBlock,
                'n' => Act::Nomatch,
                _ => Act::Other,
            },
            keep_state: self.keep_state,
            keep_frags: self.keep_frags,
            tag: self.tag,
            level: self.level,
            reason: self.reason.and_then(Reason::of_number),
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
