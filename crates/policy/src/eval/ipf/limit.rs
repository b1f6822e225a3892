//! HP-UX Dynamic Connection Allocation: how many connections a source may have at once.
//!
//! In: new connections and ended ones. Out: whether one is above its limit, and the records for the
//! log. An entry is kept for each source, destination and port, and later connections meet the
//! entry, not the rules; a cumulative limit has one entry for its rule, and every connection goes
//! through the rules. Source: HP-UX IPFilter administrator's guide, chapter on DCA.

use super::log::{clock, date};
use crate::dialect::ipf::ast::{Address, Port, Rule, Side};
use crate::dialect::ipf::side_text;
use crate::model::Family;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What kind of source a limit is for, with HP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitType {
    /// One address.
    Single = 2,
    /// All of a subnet or range together.
    Cumulative = 4,
    /// Each address of a subnet or range.
    Subnet = 6,
    /// Each address that no other limit knows.
    Any = 8,
}

impl LimitType {
    /// The type of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        let cumulative = rule.keep_limit.is_some_and(|limit| limit.cumulative);
        let source = rule.fields().map(|fields| &fields.source.address);
        match source {
            _ if cumulative => Self::Cumulative,
            None | Some(Address::Any) => Self::Any,
            Some(Address::Net { family, mask, .. })
                if *mask == crate::dialect::ipf::ast::ones(*family) =>
            {
                Self::Single
            }
            Some(_) => Self::Subnet,
        }
    }

    /// The letter of listings.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Single => 'I',
            Self::Subnet => 'S',
            Self::Cumulative => 'C',
            Self::Any => 'U',
        }
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The rule.
    pub rule: usize,
    /// Where the rule is: group and number, as the log prints them.
    pub place: String,
    /// Kind of source.
    pub kind: LimitType,
    /// Family.
    pub family: Family,
    /// The source; `None` for a cumulative entry.
    pub source: Option<u128>,
    /// The destination.
    pub destination: u128,
    /// The port.
    pub port: u16,
    /// How many connections are allowed.
    pub configured: u32,
    /// How many there are.
    pub current: u32,
    /// How many were above the limit.
    pub exceeded: u64,
    /// Resets sent.
    pub resets: u64,
    /// When the first connection came.
    pub first_ms: u64,
    /// Log alerts: after how many, when at all.
    pub every: Option<u32>,
}

/// All entries.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    entries: Vec<Option<Limit>>,
    /// Records, in order.
    pub records: Vec<String>,
    /// How many entries were ever made.
    pub added: u64,
}

/// An address as logs print it.
#[must_use]
pub fn host(family: Family, value: u128) -> String {
    match family {
        Family::V4 => {
            let low = u32::try_from(value & u128::from(u32::MAX)).unwrap_or_default();
            Ipv4Addr::from_bits(low).to_string()
        }
        Family::V6 => Ipv6Addr::from_bits(value).to_string(),
    }
}

/// Between whom a cumulative limit is: source, destination and its port as the rule has them, with
/// 0.0.0.0 (or `::`) for every address and `*` for every port.
#[must_use]
pub fn ends_of(rule: &Rule) -> (String, String, String) {
    let Some(fields) = rule.fields() else {
        return ("0.0.0.0".to_owned(), "0.0.0.0".to_owned(), "*".to_owned());
    };
    let any = match rule.family {
        Some(Family::V6) => "::",
        _ => "0.0.0.0",
    };
    let address = |of: &Side| match &of.address {
        Address::Any => any.to_owned(),
        Address::Net {
            family,
            value,
            mask,
        } if *mask == crate::dialect::ipf::ast::ones(*family) => host(*family, *value),
        address => side_text(&Side {
            address: address.clone(),
            negate: of.negate,
            port: None,
        }),
    };
    let port = match fields.destination.port {
        Some(Port::Equal(port)) => port.to_string(),
        Some(Port::Span(first, last)) => format!("{first}:{last}"),
        _ => "*".to_owned(),
    };
    (address(&fields.source), address(&fields.destination), port)
}

impl Limits {
    /// The entries that are in use.
    pub fn entries(&self) -> impl Iterator<Item = &Limit> {
        self.entries.iter().flatten()
    }

    /// The entry of a source, destination and port.
    #[must_use]
    pub fn find(&self, family: Family, source: u128, to: (u128, u16)) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry.as_ref().is_some_and(|entry| {
                entry.source == Some(source)
                    && (entry.family, entry.destination, entry.port) == (family, to.0, to.1)
            })
        })
    }

    /// The entry of a cumulative rule.
    #[must_use]
    pub fn of_rule(&self, rule: usize) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry
                .as_ref()
                .is_some_and(|entry| entry.rule == rule && entry.source.is_none())
        })
    }

    /// The entry at an index.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&Limit> {
        self.entries.get(at)?.as_ref()
    }

    /// Adds an entry.
    pub fn add(&mut self, limit: Limit) -> usize {
        self.added += 1;
        match self.entries.iter().position(Option::is_none) {
            Some(free) => {
                self.entries[free] = Some(limit);
                free
            }
            None => {
                self.entries.push(Some(limit));
                self.entries.len() - 1
            }
        }
    }

    /// Whether one more connection fits; if it does not, that is counted.
    pub fn admit(&mut self, at: usize) -> bool {
        let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) else {
            return true;
        };
        if entry.current < entry.configured {
            return true;
        }
        entry.exceeded += 1;
        false
    }

    /// A connection was made.
    pub fn begin(&mut self, at: usize) {
        if let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) {
            entry.current += 1;
        }
    }

    /// A reset was sent.
    pub fn reset(&mut self, at: usize) {
        if let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) {
            entry.resets += 1;
        }
    }

    /// A connection ended. Behind the last one of an entry the summary is written; cumulative
    /// entries stay until somebody asks for theirs.
    pub fn end(&mut self, at: usize, now_ms: u64) {
        let Some(slot) = self.entries.get_mut(at) else {
            return;
        };
        let Some(entry) = slot else { return };
        entry.current = entry.current.saturating_sub(1);
        if entry.current > 0 || entry.kind == LimitType::Cumulative {
            return;
        }
        // Rules without `log limit` write nothing.
        if let Some(gone) = slot.take().filter(|gone| gone.every.is_some()) {
            self.records.push(summary(&gone, now_ms));
        }
    }

    /// Writes an alert, when this excess is one to report: the first, then every Nth.
    pub fn alert(&mut self, at: usize, packet: &super::packet::IpfPacket, now_ms: u64) {
        let Some(entry) = self.entries.get(at).and_then(Option::as_ref) else {
            return;
        };
        let Some(every) = entry.every else { return };
        if !(entry.exceeded - 1).is_multiple_of(u64::from(every.max(1))) {
            return;
        }
        let (source, destination) = packet.ports.unwrap_or_default();
        let flags = packet.tcp.map_or(0, |tcp| tcp.flags);
        let line = format!(
            "{} {} {},{source} -> {},{destination} PR tcp {} keep limit Type {} Configured {} \
             Current {} Exceeded {} Freq {every} {}",
            date(now_ms),
            packet.interface,
            host(packet.family, packet.source),
            host(packet.family, packet.destination),
            super::log::flags(flags),
            entry.kind as u8,
            entry.configured,
            entry.current,
            entry.exceeded,
            if packet.out { "OUT" } else { "IN" },
        );
        self.records.push(line);
    }
}

/// The record behind the last connection of an entry.
fn summary(limit: &Limit, now_ms: u64) -> String {
    let source = host(limit.family, limit.source.unwrap_or_default());
    format!(
        "{} LIMIT LOG {source},* -> {},{} PR tcp Type {} Configured {} Current {} Exceeded {} {} \
         First Time {}",
        date(now_ms),
        host(limit.family, limit.destination),
        limit.port,
        limit.kind as u8,
        limit.configured,
        limit.current,
        limit.exceeded,
        limit.place,
        clock(limit.first_ms),
    )
}
