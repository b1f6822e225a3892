//! What an IPFilter rule set means: an evaluator that goes through the lists rule by rule.
//!
//! In: the lists of [`crate::dialect::ipf::load`], tables, packets, a clock. Out: a [`Judgement`]
//! for each packet on an interface; hit counters of every rule that matched, deciding or not; a
//! state table, a fragment cache, records for the log. The order of a packet's way is the
//! original's: accounting inbound, fragment cache, state table, rules, new state, accounting
//! outbound, log. Translation is not here: weir translates no addresses.
//!
//! Source: `ipf(5)`, and the behaviour of 5.1.2 (4.1.34 where a setting says so).

mod among;
mod condition;
pub(in crate::eval) mod frag;
mod keep;
pub mod limit;
pub mod log;
mod packet;
mod scan;
pub mod state;
mod tables;
mod tcp;

pub use crate::model::Lifetimes;
pub use among::candidates;
pub use condition::{Condition, Interfaces};
pub(in crate::eval) use keep::{may_be_kept, sources_fit};
pub use log::Reason;
pub use packet::{Icmp, IpfPacket, Tcp};
pub use tables::{Tables, members};

use crate::dialect::ipf::Language;
use crate::dialect::ipf::ast::{Action, Destination, Name, Return, Rule};
use crate::dialect::ipf::load::{RuleSet, Unit};
use crate::dialect::ipf::words::attribute;
use crate::model::Counters;
use frag::{Fragments, Known};
use limit::Limits;
use log::{Act, Record};
use scan::{Pass, Walk};
use state::Event;

/// What stands beside the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What no rule matched is blocked.
    pub default_block: bool,
    /// Inbound packets with fewer hops left are `lowttl`.
    pub min_ttl: u8,
    /// Received packets whose source is not best reached by their interface are `bad-src`: where
    /// there are routes. `ipftest` has none, and takes every source for good, as the original does.
    pub checks_source: bool,
    /// Entries of the state table.
    pub state_max: u32,
    /// As the original: options of four bytes or less are never seen.
    pub short_options_unseen: bool,
    /// As HP-UX: `v6hdrs` is the exact set of headers.
    pub exact_headers: bool,
    /// As 4.1: a `log quick` rule ends the evaluation.
    pub log_quick_ends: bool,
    /// HP-UX limits block what no state entry can be made for.
    pub limit_fails_closed: bool,
    /// HP-UX limits are on.
    pub limits_on: bool,
    /// Log everything that passes.
    pub log_pass: bool,
    /// Log everything that is blocked.
    pub log_block: bool,
    /// Log everything that no rule matched.
    pub log_nomatch: bool,
    /// Lifetimes of states.
    pub lifetimes: Lifetimes,
    /// Tunables that are times count in so many milliseconds.
    pub tick_ms: u64,
    /// As HP-UX: router and neighbour discovery meet no rules.
    pub discovery_bypasses: bool,
}

/// ICMPv6 types of router and neighbour discovery (RFC 4861).
pub const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=136;

impl Settings {
    /// What a language begins with.
    #[must_use]
    pub fn of(language: Language) -> Self {
        let mut settings = Self::default();
        if language == Language::Hpux {
            settings.exact_headers = true;
            settings.discovery_bypasses = true;
            settings.tick_ms = 1000;
            settings.state_max = 800_000;
            // A day, and two minutes.
            (settings.lifetimes.tcp[4], settings.lifetimes.tcp[10]) = (86_400_000, 120_000);
        }
        settings
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_block: false,
            min_ttl: 4,
            checks_source: false,
            state_max: 4013,
            short_options_unseen: false,
            exact_headers: false,
            log_quick_ends: false,
            limit_fails_closed: false,
            limits_on: true,
            log_pass: false,
            log_block: false,
            log_nomatch: false,
            lifetimes: Lifetimes::default(),
            tick_ms: 500,
            discovery_bypasses: false,
        }
    }
}

/// What a flag word commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Let through.
    #[default]
    Pass,
    /// Discard.
    Block,
    /// Ask a program.
    Auth,
    /// Look at what programs said.
    Preauth,
    /// Only count.
    Account,
    /// Nothing (log, skip, call, nomatch).
    Nothing,
}

/// The flag word of a rule: what its match leaves behind, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// What happens.
    pub command: Command,
    /// No rule decided.
    pub nomatch: bool,
    /// The list ends here.
    pub quick: bool,
    /// A state entry is made.
    pub keep_state: bool,
    /// A fragment entry is made.
    pub keep_frags: bool,
    /// The packet is logged.
    pub log: bool,
    /// Only the first packet is logged.
    pub log_first: bool,
    /// The answer.
    pub answer: Option<Return>,
}

impl Flags {
    /// The flag word of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        let command = match rule.action {
            Action::Pass => Command::Pass,
            Action::Block => Command::Block,
            Action::Auth => Command::Auth,
            Action::Preauth => Command::Preauth,
            Action::Count => Command::Account,
            _ => Command::Nothing,
        };
        Self {
            command,
            nomatch: rule.action == Action::Nomatch,
            quick: rule.quick,
            keep_state: rule.keep_state.is_some(),
            keep_frags: rule.keep_frags.is_some(),
            log: rule.log.is_some_and(|log| log.limit.is_none()),
            log_first: rule.log.is_some_and(|log| log.first),
            answer: rule.answer.filter(|_| rule.keep_limit.is_none()),
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It goes on.
    Pass,
    /// It is discarded.
    Block,
    /// And answered with a TCP reset.
    BlockReturnRst,
    /// And answered with ICMP.
    BlockReturnIcmp,
    /// And answered with ICMP in the name of the destination.
    BlockReturnIcmpAsDest,
    /// No rule decided.
    Nomatch,
    /// It was dropped before any rule.
    BadPacket,
    /// A program is asked.
    Auth,
    /// The answers of programs were looked at.
    Preauth,
    /// It was only counted.
    Account,
}

impl Outcome {
    /// The words of the original's test program.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Block => "block",
            Self::BlockReturnRst => "block return-rst",
            Self::BlockReturnIcmp => "block return-icmp",
            Self::BlockReturnIcmpAsDest => "block return-icmp-as-dest",
            Self::Nomatch => "nomatch",
            Self::BadPacket => "bad-packet",
            Self::Auth => "auth",
            Self::Preauth => "preauth",
            Self::Account => "account",
        }
    }
}

/// The answer about one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of it.
    pub outcome: Outcome,
    /// Whether it goes on, also where no rule decided.
    pub passes: bool,
    /// The rule that decided, now or when the state was made.
    pub rule: Option<usize>,
    /// All rules that matched, in order.
    pub matched: Vec<usize>,
    /// Its attributes in the end.
    pub attributes: u32,
    /// The state entry that it belongs to, by number.
    pub state: Option<u64>,
    /// The fragment cache decided.
    pub by_fragment: bool,
    /// Why it is blocked, when no rule says so.
    pub reason: Option<Reason>,
    /// Where it or a copy goes instead: `dup-to`, then `to`.
    pub routed: [Option<Destination>; 2],
}

/// Packet counters of one direction, as `ipfstat` prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Unreadable ones.
    pub bad: u64,
    /// IPv6.
    pub ipv6: u64,
    /// Blocked.
    pub blocked: u64,
    /// Passed.
    pub passed: u64,
    /// Without a deciding rule.
    pub nomatch: u64,
    /// Counted by a rule.
    pub counted: u64,
    /// Short.
    pub short: u64,
    /// Of TCP, bad for their checksum alone.
    pub wrong_tcp_sums: u64,
    /// Logged and blocked.
    pub logged_blocked: u64,
    /// Logged and passed.
    pub logged_passed: u64,
    /// Fragment entries made, and not made.
    pub fragments: (u64, u64),
    /// State entries made, and not made.
    pub states: (u64, u64),
}

/// Whether a packet is router or neighbour discovery.
fn is_discovery(packet: &IpfPacket) -> bool {
    let kind = packet.icmp.as_ref().map(|icmp| icmp.kind);
    let proto = (packet.family, packet.proto);
    proto == (crate::model::Family::V6, 58) && kind.is_some_and(|kind| DISCOVERY.contains(&kind))
}

/// A rule set at work.
pub struct Evaluator<'r> {
    /// The lists.
    pub rules: &'r RuleSet,
    /// Pools, hashes, maps.
    pub tables: Tables,
    /// Addresses of interfaces.
    pub interfaces: Interfaces,
    /// Settings.
    pub settings: Settings,
    /// Hits of each rule.
    pub counters: Vec<Counters>,
    /// States.
    pub states: state::Table,
    /// HP-UX limits.
    pub limits: Limits,
    /// Logged packets.
    pub log: Vec<Record>,
    /// Counters: in, out.
    pub statistics: [Statistics; 2],
    fragments: Fragments,
    conditions: Vec<Condition>,
    flags: Vec<Flags>,
    /// When the second of a rule's rate began, and how many packets came in it.
    rates: Vec<(u64, u32)>,
}

impl<'r> Evaluator<'r> {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(rules: &'r RuleSet, tables: Tables, settings: Settings) -> Self {
        let count = rules.rules.len();
        Self {
            rules,
            tables,
            interfaces: Interfaces::new(),
            settings,
            counters: vec![Counters::default(); count],
            states: state::Table::default(),
            limits: Limits::default(),
            log: Vec::new(),
            statistics: [Statistics::default(); 2],
            fragments: Fragments::default(),
            conditions: rules.rules.iter().map(Condition::of).collect(),
            flags: rules.rules.iter().map(Flags::of).collect(),
            rates: vec![(0, 0); count],
        }
    }

    /// Judges a packet on its interface.
    pub fn judge(&mut self, packet: &IpfPacket, now_ms: u64) -> Judgement {
        self.judge_among(packet, now_ms, None)
    }

    /// The same, where it may be known which rules can match, in increasing order.
    pub fn judge_among(
        &mut self,
        packet: &IpfPacket,
        now_ms: u64,
        among: Option<&[usize]>,
    ) -> Judgement {
        self.expire(now_ms);
        let mut walk = Walk::new(packet, now_ms);
        walk.among = among;
        let stats = &mut self.statistics[walk.out()];
        stats.ipv6 += u64::from(packet.family == crate::model::Family::V6);
        stats.short += u64::from(packet.is(attribute::SHORT));
        stats.wrong_tcp_sums += u64::from(packet.wrong_sum && packet.proto == 6);
        if packet.unreadable {
            stats.bad += 1;
            stats.blocked += 1;
            walk.reason = Some(Reason::MakefripFail);
            return walk.end(Outcome::BadPacket, false, None);
        }
        if self.settings.discovery_bypasses && is_discovery(packet) {
            stats.passed += 1;
            return walk.end(Outcome::Pass, true, None);
        }
        if !packet.out && packet.ttl < self.settings.min_ttl {
            walk.attributes |= attribute::LOWTTL;
        }
        if packet.out || !self.settings.checks_source {
            walk.attributes &= !attribute::BAD_SRC;
        }
        if !packet.out {
            self.account(&mut walk);
        }
        let pass = match self.known(&mut walk) {
            Some(pass) if !pass.flags.nomatch => pass,
            _ => self.firewall(&mut walk),
        };
        let pass = self.keep_state_at_the_end(&mut walk, pass);
        if packet.out && pass.flags.command == Command::Pass {
            self.account(&mut walk);
        }
        self.log_verdict(&walk, &pass);
        self.finish(walk, pass)
    }

    /// What the fragment cache or the state table say.
    fn known(&mut self, walk: &mut Walk<'_>) -> Option<Pass> {
        if walk.packet.is(attribute::FRAG) {
            match self.fragments.find(walk.packet) {
                None => {}
                Some(Known::Overlap) => {
                    walk.attributes |= attribute::BAD;
                    walk.reason = Some(Reason::BadFrag);
                    let flags = Flags {
                        command: Command::Block,
                        ..Flags::default()
                    };
                    return Some(Pass::bare(flags));
                }
                Some(Known::Rule(rule, number)) => {
                    let mut flags = self.flags[rule];
                    if flags.keep_state {
                        walk.attributes |= attribute::STATE;
                        flags.keep_state = false;
                    }
                    if flags.log_first {
                        (flags.log, flags.log_first) = (false, false);
                    }
                    walk.by_fragment = true;
                    return Some(Pass::of(rule, number, flags));
                }
            }
        }
        self.known_state(walk)
    }

    /// The rules themselves.
    fn firewall(&mut self, walk: &mut Walk<'_>) -> Pass {
        if let Some(pass) = self.known_limit(walk) {
            return pass;
        }
        let rules = self.rules;
        let list = &rules.filter[walk.out()];
        let mut pass = self.scan(walk, list, Unit::Filter, self.default_pass());
        self.statistics[walk.out()].nomatch += u64::from(pass.flags.nomatch);
        if let Some(rule) = pass.rule {
            if !self.within_rate(rule, walk.now_ms) {
                pass.flags.command = Command::Block;
                (pass.flags.answer, pass.flags.nomatch) = (None, false);
                walk.reason = Some(Reason::PpsRate);
            }
            if pass.flags.keep_frags && walk.packet.is(attribute::FRAG) {
                self.keep_fragments(walk, rule, pass.number);
            }
        }
        pass
    }

    /// The result before any rule.
    fn default_pass(&self) -> Pass {
        let command = match self.settings.default_block {
            true => Command::Block,
            false => Command::Pass,
        };
        Pass::bare(Flags {
            command,
            nomatch: true,
            ..Flags::default()
        })
    }

    fn account(&mut self, walk: &mut Walk<'_>) {
        let rules = self.rules;
        let list = &rules.account[walk.out()];
        if list.is_empty() {
            return;
        }
        let nothing = Pass::bare(Flags {
            nomatch: true,
            ..Flags::default()
        });
        let pass = self.scan(walk, list, Unit::Account, nothing);
        let counted = pass.flags.command == Command::Account;
        self.statistics[walk.out()].counted += u64::from(counted);
    }

    /// Whether a rule's packets per second allow one more.
    fn within_rate(&mut self, rule: usize, now_ms: u64) -> bool {
        let Some(most) = self.rules.rules[rule].pps else {
            return true;
        };
        let (began, count) = &mut self.rates[rule];
        if *count == 0 || now_ms.saturating_sub(*began) >= 1000 {
            (*began, *count) = (now_ms, 0);
        }
        *count = count.saturating_add(1);
        *count <= most
    }

    fn log_verdict(&mut self, walk: &Walk<'_>, pass: &Pass) {
        let act = match (pass.flags.command, pass.flags.log) {
            _ if pass.flags.nomatch && self.settings.log_nomatch => Act::Nomatch,
            (Command::Pass, true) => Act::Pass,
            (Command::Block, true) => Act::Block,
            (Command::Pass, false) if self.settings.log_pass => Act::AllPass,
            (Command::Block, false) if self.settings.log_block => Act::AllBlock,
            _ => return,
        };
        let stats = &mut self.statistics[walk.out()];
        match act {
            Act::Pass | Act::AllPass => stats.logged_passed += 1,
            Act::Block | Act::AllBlock => stats.logged_blocked += 1,
            _ => {}
        }
        self.record(walk, act, pass.rule.map(|rule| (rule, pass.number)));
    }

    fn record(&mut self, walk: &Walk<'_>, act: Act, rule: Option<(usize, u32)>) {
        let of = rule.map(|(rule, _)| &self.rules.rules[rule]);
        let text = |name: Option<&Name>| name.map(|name| name.to_string());
        self.log.push(Record {
            time_ms: walk.now_ms,
            packet: walk.packet.clone(),
            attributes: walk.attributes,
            group: text(of.and_then(|rule| rule.group.as_ref())),
            rule: rule.map(|(_, number)| number),
            act,
            keep_state: of.is_some_and(|rule| rule.keep_state.is_some()),
            keep_frags: of.is_some_and(|rule| rule.keep_frags.is_some()),
            tag: of.and_then(|rule| rule.set_tag.log),
            level: of.and_then(|rule| rule.log?.level),
            reason: walk.reason,
        });
    }

    fn finish(&mut self, walk: Walk<'_>, pass: Pass) -> Judgement {
        let passes = pass.flags.command == Command::Pass;
        let stats = &mut self.statistics[walk.out()];
        match passes {
            true => stats.passed += 1,
            false => stats.blocked += 1,
        }
        let outcome = match (pass.flags.nomatch, pass.flags.answer, pass.flags.command) {
            (true, ..) => Outcome::Nomatch,
            (_, Some(Return::Rst), _) => Outcome::BlockReturnRst,
            (_, Some(Return::Icmp(_) | Return::Icmp6(_)), _) => Outcome::BlockReturnIcmp,
            (_, Some(Return::IcmpAsDest(_) | Return::Icmp6AsDest(_)), _) => {
                Outcome::BlockReturnIcmpAsDest
            }
            (_, None, Command::Pass) => Outcome::Pass,
            (_, None, Command::Block | Command::Nothing) => Outcome::Block,
            (_, None, Command::Auth) => Outcome::Auth,
            (_, None, Command::Preauth) => Outcome::Preauth,
            (_, None, Command::Account) => Outcome::Account,
        };
        let reverse = walk.reverse;
        let mut judgement = walk.end(outcome, passes, pass.rule);
        if let Some(rule) = pass.rule {
            let rule = &self.rules.rules[rule];
            let to = if reverse { &rule.reply_to } else { &rule.to };
            judgement.routed = [rule.dup_to.clone(), to.clone()];
        }
        judgement
    }

    /// Takes out entries whose time is up, and what hangs on them.
    pub fn expire(&mut self, now_ms: u64) {
        self.states.expire(now_ms);
        self.fragments.expire(now_ms);
        self.settle(now_ms);
    }

    /// What the original's test program does behind each packet.
    pub fn flush_closing(&mut self, now_ms: u64) {
        self.states.flush_closing();
        self.settle(now_ms);
    }

    /// Limits lose the connections that ended.
    fn settle(&mut self, now_ms: u64) {
        for event in &self.states.events {
            if let Event::Expire(state) = event
                && let Some(limit) = state.limit
            {
                self.limits.end(limit, now_ms);
            }
        }
        self.states.events.clear();
    }
}
