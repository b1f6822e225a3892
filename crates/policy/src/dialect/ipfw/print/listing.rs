//! Listings: rules with counters, times and sets, states, which sets are on; and a whole rule set
//! as commands.
//!
//! In: a rule set. Out: text as ipfw prints it.

use super::super::ast::Rule;
use super::super::command::{NumberRanges, Switches, TimeForm};
use super::super::fault::{ExitClass, Fault};
use super::super::names::protocols;
use super::super::ruleset::{Answer, DEFAULT_RULE, DEFAULT_SET, LoadedRule, Ruleset};
use super::super::settings::Settings;
use super::{dummynet, ipv4, ipv6, rule, table};
use crate::model::Family;
use crate::syntax::Span;
use std::fmt::Write;

/// Columns of a date.
const DATE_COLUMNS: usize = 24;

/// A state, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLine {
    /// Number of its rule.
    pub rule: u32,
    /// Set of its rule.
    pub set: u8,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds left.
    pub seconds: u64,
    /// `STATE`, `LIMIT` or `PARENT n`.
    pub kind: String,
    /// Protocol.
    pub proto: u8,
    /// Family.
    pub family: Family,
    /// Source address and port.
    pub src: (u128, u16),
    /// Destination address and port.
    pub dst: (u128, u16),
    /// Name of the flow.
    pub flow: String,
}

/// Widths of the counters of a listing.
type Widths = (usize, usize);

/// One rule with its number, and what the switches ask for.
#[must_use]
pub fn line(
    rule: &Rule,
    loaded: Option<&LoadedRule>,
    ruleset: &Ruleset,
    switches: Switches,
    widths: Option<Widths>,
) -> String {
    let mut out = String::new();
    if switches.sets && loaded.is_some() && !ruleset.is_enabled(rule.set) {
        out += "# DISABLED ";
    }
    let _ = write!(out, "{:05} ", rule.number);
    if let (Some(loaded), Some((packets, bytes))) = (loaded, widths) {
        let count = loaded.counters;
        let _ = write!(out, "{:packets$} {:bytes$} ", count.packets, count.bytes);
    }
    if let Some(form) = switches.time {
        let time = loaded.and_then(|loaded| loaded.last_match);
        out += &match (form, time) {
            (TimeForm::Seconds, time) => format!("{:10} ", time.unwrap_or(0)),
            (TimeForm::Date, Some(time)) => format!("{} ", date(time)),
            (TimeForm::Date, None) => " ".repeat(DATE_COLUMNS),
        };
    }
    if switches.sets {
        let _ = write!(out, "set {} ", rule.set);
    }
    let form = rule::Form {
        compact: switches.compact,
        brief: switches.brief,
        names: switches.names,
        log_default: ruleset.settings.verbose_limit,
    };
    out + &rule::rule(rule, form)
}

/// A time as ctime(3) writes it, in UTC.
#[must_use]
pub fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Civil date of a day number: eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

fn widths(ruleset: &Ruleset, set: Option<u8>, states: &[StateLine]) -> Widths {
    let digits = |number: u64| number.to_string().len();
    let rules = ruleset
        .rules
        .iter()
        .filter(|one| set.is_none_or(|s| one.rule.set == s));
    let of_rules = rules.map(|one| (one.counters.packets, one.counters.bytes));
    let of_states = states.iter().map(|state| (state.packets, state.bytes));
    of_rules
        .chain(of_states)
        .fold((1, 1), |(p, b), (packets, bytes)| {
            (p.max(digits(packets)), b.max(digits(bytes)))
        })
}

/// What `list` and `show` print.
///
/// # Errors
/// Never; a range without rules is said in the answer.
pub fn list(
    ruleset: &Ruleset,
    ranges: &NumberRanges,
    counters: bool,
    set: Option<u8>,
    switches: Switches,
    states: &[StateLine],
    span: Span,
) -> Result<Answer, Fault> {
    let mut answer = Answer::default();
    let shown_states: &[StateLine] = if switches.dynamic { states } else { &[] };
    let wide = counters.then(|| widths(ruleset, set, shown_states));
    let all = vec![(0, DEFAULT_RULE)];
    for &(first, last) in if ranges.is_empty() { &all } else { ranges } {
        let mut seen = 0;
        if switches.only_dynamic {
            continue;
        }
        for one in &ruleset.rules {
            let inside = (first..=last).contains(&one.rule.number);
            if !inside || set.is_some_and(|set| one.rule.set != set) {
                continue;
            }
            seen += 1;
            if switches.sets || ruleset.is_enabled(one.rule.set) {
                answer.out += &line(&one.rule, Some(one), ruleset, switches, wide);
                answer.out.push('\n');
            }
        }
        if seen == 0 && !ranges.is_empty() {
            let message = match first == last {
                true => format!("rule {first} does not exist"),
                false => format!("no rules in range {first}-{last}"),
            };
            answer.fault = Some(
                Fault::new(ExitClass::Unavailable, "no-rule", span, message).help("see ipfw list"),
            );
        }
    }
    if !shown_states.is_empty() {
        // The size is that of the original's records, which nothing can be read from.
        let _ = writeln!(
            answer.out,
            "## Dynamic rules ({} {}):",
            shown_states.len(),
            shown_states.len() * 144
        );
        for state in shown_states {
            let inside = ranges.is_empty()
                || ranges
                    .iter()
                    .any(|(first, last)| (first..=last).contains(&&state.rule));
            if inside && set.is_none_or(|set| set == state.set) {
                answer.out += &state_line(state, wide);
                answer.out.push('\n');
            }
        }
    }
    Ok(answer)
}

/// One state.
#[must_use]
pub fn state_line(state: &StateLine, widths: Option<Widths>) -> String {
    let mut out = format!("{:05}", state.rule);
    if let Some((packets, bytes)) = widths {
        let _ = write!(
            out,
            " {:packets$} {:bytes$} ({}s)",
            state.packets, state.bytes, state.seconds
        );
    }
    let _ = write!(out, " {}", state.kind);
    match protocols::name(state.proto) {
        Some(name) => {
            let _ = write!(out, " {name}");
        }
        None => {
            let _ = write!(out, " proto {}", state.proto);
        }
    }
    let address = |value: u128| match state.family {
        Family::V4 => ipv4(value as u32),
        Family::V6 => ipv6(value),
    };
    let (src, dst) = (state.src, state.dst);
    let _ = write!(
        out,
        " {} {} <-> {} {} :{}",
        address(src.0),
        src.1,
        address(dst.0),
        dst.1,
        state.flow
    );
    out
}

/// What `set show` prints.
#[must_use]
pub fn sets(disabled: u32) -> String {
    let list = |on: bool| -> String {
        (0..DEFAULT_SET)
            .filter(|set| (disabled & 1 << set == 0) == on)
            .map(|set| format!(" {set}"))
            .collect()
    };
    let (off, on) = (list(false), list(true));
    let mut parts = Vec::new();
    if !off.is_empty() {
        parts.push(format!("disable{off}"));
    }
    if !on.is_empty() {
        parts.push(format!("enable{on}"));
    }
    parts.join(" ") + "\n"
}

/// The whole rule set as commands that make it again, rules last and in order.
#[must_use]
pub fn commands(ruleset: &Ruleset) -> String {
    let mut out = String::new();
    if ruleset.settings.one_pass != Settings::default().one_pass {
        out += "disable one_pass\n";
    }
    if !ruleset.settings.enable {
        out += "disable firewall\n";
    }
    for one in &ruleset.tables {
        out += &table::commands(one);
    }
    for config in ruleset.dummynet.values() {
        out += &dummynet::command(config);
    }
    for (number, words) in &ruleset.nats {
        let _ = writeln!(out, "nat {number} config {}", words.join(" "));
    }
    let off: Vec<String> = (0..DEFAULT_SET)
        .filter(|set| !ruleset.is_enabled(*set))
        .map(|set| set.to_string())
        .collect();
    if !off.is_empty() {
        let _ = writeln!(out, "set disable {}", off.join(" "));
    }
    let form = rule::Form {
        log_default: ruleset.settings.verbose_limit,
        ..rule::Form::default()
    };
    for one in ruleset
        .rules
        .iter()
        .filter(|one| one.rule.number != DEFAULT_RULE)
    {
        let set = match one.rule.set {
            0 => String::new(),
            set => format!("set {set} "),
        };
        let text = rule::rule(&one.rule, form);
        let _ = writeln!(out, "add {:05} {set}{text}", one.rule.number);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_ctimes() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(1_700_000_000), "Tue Nov 14 22:13:20 2023");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    }

    #[test]
    fn sets_are_listed_in_halves() {
        let all: String = (0..31).map(|set| format!(" {set}")).collect();
        assert_eq!(sets(0), format!("enable{all}\n"));
        assert!(sets(0b110).starts_with("disable 1 2 enable 0 3 "));
    }
}
