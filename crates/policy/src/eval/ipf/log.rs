//! Log records in `ipmon`'s text.
//!
//! In: what was logged. Out: the line that `ipmon` prints. Times are UTC, from milliseconds since
//! the epoch. Source: `ipmon(8)` and the behaviour of 5.1.2.

use super::limit::host;
use super::packet::IpfPacket;
use super::state::State;
use crate::dialect::ipf::words::attribute;
use crate::dialect::iptables::names::protocols;
use crate::model::Family;

/// Why a packet was blocked without a rule saying so, with `ipmon`'s words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule said so.
    FilterRule,
    /// It could not be logged.
    LogOrBlock,
    /// Too many packets per second.
    PpsRate,
    /// A header that must be there is not.
    MakefripFail,
    /// No state entry could be made.
    StateAddFail,
    /// It overlaps the first fragment.
    BadFrag,
    /// An IPv6 packet without a length.
    Jumbogram,
}

impl Reason {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::FilterRule => "filter-rule",
            Self::LogOrBlock => "log-or-block_1",
            Self::PpsRate => "pps-rate",
            Self::Jumbogram => "jumbogram",
            Self::MakefripFail => "makefrip-fail",
            Self::StateAddFail => "state_add-fail",
            Self::BadFrag => "bad-frag",
        }
    }

    /// The number that stands for it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::FilterRule => 0,
            Self::LogOrBlock => 1,
            Self::PpsRate => 2,
            Self::Jumbogram => 3,
            Self::MakefripFail => 4,
            Self::StateAddFail => 5,
            Self::BadFrag => 14,
        }
    }

    /// What a number stands for.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        let all = [
            Self::FilterRule,
            Self::LogOrBlock,
            Self::PpsRate,
            Self::Jumbogram,
            Self::MakefripFail,
            Self::StateAddFail,
            Self::BadFrag,
        ];
        all.into_iter().find(|reason| reason.number() == number)
    }
}

/// Why a packet is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A pass rule logs it.
    Pass,
    /// A block rule logs it.
    Block,
    /// A log rule.
    Log,
    /// Everything that passes is logged.
    AllPass,
    /// Everything that is blocked is logged.
    AllBlock,
    /// No rule matched.
    Nomatch,
    /// None of these.
    Other,
}

impl Act {
    /// The letter.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Pass => 'p',
            Self::Block => 'b',
            Self::Log => 'L',
            Self::AllPass => 'P',
            Self::AllBlock => 'B',
            Self::Nomatch => 'n',
            Self::Other => '?',
        }
    }
}

/// One logged packet.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub time_ms: u64,
    /// The packet.
    pub packet: IpfPacket,
    /// Its attributes, those of the state table included.
    pub attributes: u32,
    /// The group of the rule, when it has one.
    pub group: Option<String>,
    /// The number of the rule in its list, from 0; `None` without a rule.
    pub rule: Option<u32>,
    /// Why it is logged.
    pub act: Act,
    /// The rule keeps state.
    pub keep_state: bool,
    /// The rule keeps fragments.
    pub keep_frags: bool,
    /// The tag of the rule.
    pub tag: Option<u32>,
    /// Facility and priority that the rule says.
    pub level: Option<(u8, u8)>,
    /// Why it was blocked.
    pub reason: Option<Reason>,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// For syslog: without the date.
    pub syslog: bool,
    /// `-v`: sequence numbers and windows.
    pub verbose: bool,
}

/// Year, month and day of a day since the epoch (the civil calendar).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// The time of day.
#[must_use]
pub fn clock(ms: u64) -> String {
    let seconds = ms / 1000 % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{:06}",
        seconds % 60,
        ms % 1000 * 1000
    )
}

/// Date and time of day.
#[must_use]
pub fn date(ms: u64) -> String {
    let (year, month, day) = civil(ms / 86_400_000);
    format!("{day:02}/{month:02}/{year:04} {}", clock(ms))
}

/// TCP flags in the order of logs, after a hyphen.
#[must_use]
pub fn flags(set: u8) -> String {
    const ORDER: [(u8, char); 8] = [
        (16, 'A'),
        (4, 'R'),
        (2, 'S'),
        (1, 'F'),
        (32, 'U'),
        (8, 'P'),
        (64, 'E'),
        (128, 'C'),
    ];
    let letters = ORDER.iter().filter(|row| set & row.0 != 0).map(|row| row.1);
    std::iter::once('-').chain(letters).collect()
}

fn protocol(family: Family, proto: u8) -> String {
    match (family, protocols::name(proto)) {
        (_, Some("ipv6-icmp")) => "icmpv6".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (_, None) => proto.to_string(),
    }
}

fn end(packet: &IpfPacket, source: bool) -> String {
    let address = if source {
        packet.source
    } else {
        packet.destination
    };
    let address = host(packet.family, address);
    match packet.ports {
        Some((port, _)) if source => format!("{address},{port}"),
        Some((_, port)) => format!("{address},{port}"),
        None => address,
    }
}

impl Record {
    /// The line, without a line's end.
    #[must_use]
    pub fn line(&self, style: Style) -> String {
        let packet = &self.packet;
        let mut out = String::new();
        if !style.syslog {
            out += &date(self.time_ms);
            out.push(' ');
        }
        let place = match (&self.group, self.rule) {
            (_, None) => "@-1:-1".to_owned(),
            (Some(group), Some(rule)) => format!("@{group}:{}", rule + 1),
            (None, Some(rule)) => format!("@0:{}", rule + 1),
        };
        let short = if self.attributes & attribute::SHORT != 0 {
            "S"
        } else {
            ""
        };
        out += &format!("{} {place} {short}{} ", packet.interface, self.act.letter());
        out += &format!("{} -> {} ", end(packet, true), end(packet, false));
        let header = packet.length - packet.data.min(packet.length);
        out += &format!("PR {} len {header} ", protocol(packet.family, packet.proto));
        out += &self.tail(style);
        if self.keep_state {
            out += " K-S";
        }
        if self.keep_frags {
            out += " K-F";
        }
        out += if packet.out { " OUT" } else { " IN" };
        out += &self.extras();
        out
    }

    fn tail(&self, style: Style) -> String {
        let packet = &self.packet;
        let fragment = packet.is(attribute::FRAG);
        if fragment && packet.offset > 0 {
            let more = if packet.more { "+" } else { "" };
            return format!(
                "({}) (frag {}:{}@{}{more})",
                packet.length, packet.id, packet.data, packet.offset
            );
        }
        let mut out = match (&packet.tcp, &packet.icmp, packet.ports) {
            (Some(tcp), ..) => {
                let mut out = format!("{} {}", packet.length, flags(tcp.flags));
                if style.verbose {
                    let (seq, ack) = (tcp.sequence, tcp.acknowledgement);
                    out += &format!(" {seq} {ack} {}", tcp.window);
                }
                out
            }
            (None, Some(icmp), _) => {
                let mut out = format!("{} icmp {}/{}", packet.length, icmp.kind, icmp.code);
                let names = crate::dialect::ipf::words::icmp_type_name;
                if let Some(name) = names(packet.family, icmp.kind) {
                    out = format!("{} icmp {name}/{}", packet.length, icmp.code);
                }
                if let Some(about) = &icmp.about {
                    let (from, to) = (end(about, true), end(about, false));
                    let proto = protocol(about.family, about.proto);
                    let length = about.length - about.data.min(about.length);
                    out += &format!(
                        " for {from} - {to} PR {proto} len {length} {}",
                        about.length
                    );
                }
                out
            }
            (None, None, Some(_)) => packet.length.to_string(),
            (None, None, None) => format!("({})", packet.length),
        };
        if fragment {
            let more = if packet.more { "+" } else { "" };
            out += &format!(
                " (frag {}:{}@{}{more})",
                packet.id, packet.data, packet.offset
            );
        }
        out
    }

    fn extras(&self) -> String {
        let mut out = String::new();
        if let Some(tag) = self.tag {
            out += &format!(" log-tag {tag}");
        }
        let words = [
            (attribute::LOWTTL, " low-ttl"),
            (attribute::OOW, " OOW"),
            (attribute::BAD, " bad"),
            (attribute::NAT, " NAT"),
            (attribute::BAD_NAT, " bad-NAT"),
            (attribute::BAD_SRC, " bad-src"),
            (attribute::MCAST, " multicast"),
            (attribute::BCAST, " broadcast"),
            (attribute::MBCAST, " mbcast"),
        ];
        // "mbcast" stands alone only where neither of the two others does.
        let one = self.attributes & (attribute::MCAST | attribute::BCAST) != 0;
        for (bit, word) in words {
            if self.attributes & bit != 0 && !(bit == attribute::MBCAST && one) {
                out += word;
            }
        }
        if let Some(reason) = self.reason {
            out += " reason:";
            out += reason.word();
        }
        out
    }

    /// The syslog priority: the rule's, or by what happened.
    #[must_use]
    pub fn priority(&self) -> u8 {
        let (emerg, err, warning, notice, info) = (0, 3, 4, 5, 6);
        match (self.level, self.act) {
            (Some((_, priority)), _) => priority,
            _ if self.attributes & attribute::SHORT != 0 => err,
            (None, Act::Block | Act::AllBlock) => warning,
            (None, Act::Log) => info,
            (None, Act::Other) => emerg,
            (None, Act::Pass | Act::AllPass | Act::Nomatch) => notice,
        }
    }
}

/// A record of a state entry: `what` is NEW, CLOSE, EXPIRE ...
#[must_use]
pub fn state_line(state: &State, what: &str, time_ms: u64, style: Style) -> String {
    let mut out = String::new();
    if !style.syslog {
        out += &date(time_ms);
        out.push(' ');
    }
    let (from, to) = (
        host(state.family, state.source),
        host(state.family, state.destination),
    );
    out += &format!("STATE:{what} ");
    let proto = protocol(state.family, state.proto);
    match state.proto {
        6 | 17 => {
            out += &format!(
                "{from},{} -> {to},{} PR {proto}",
                state.ports.0, state.ports.1
            );
        }
        1 | 58 => out += &format!("{from} -> {to} PR {proto} {}", state.icmp.0),
        _ => out += &format!("{from} -> {to} PR {proto}"),
    }
    if let Some(tag) = state.tag {
        out += &format!(" tag {tag}");
    }
    if what != "NEW" {
        let side = |at: usize| {
            let ((pin, bin), (pout, bout)) = (state.counts[at], state.counts[at + 1]);
            format!("Pkts in {pin} Bytes in {bin} Pkts out {pout} Bytes out {bout}")
        };
        out += &format!(" Forward: {} Backward: {}", side(0), side(2));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(date(0), "01/01/1970 00:00:00.000000");
        assert_eq!(date(951_782_400_123), "29/02/2000 00:00:00.123000");
        assert_eq!(date(4_102_444_799_999), "31/12/2099 23:59:59.999000");
    }

    #[test]
    fn flags_have_the_order_of_logs() {
        assert_eq!(flags(0x12), "-AS");
        assert_eq!(flags(0xff), "-ARSFUPEC");
        assert_eq!(flags(0), "-");
    }
}
