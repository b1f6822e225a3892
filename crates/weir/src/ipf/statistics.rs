//! What `ipfstat` without options counts: of the packets of a capture, or of those that met the
//! enforced lists. Lines of 5.x, or of 4.x.
//!
//! In: an evaluator that judged the capture, or what the kernel's side counted. Out: text. What
//! can't happen (translation, pull-ups, a result cache) is 0; what isn't counted (wrong checksums
//! of TCP, packets that `keep frags` found to be no fragments) has no line or word. What can't be
//! told of the enforced lists has no line in 5.x's form, and `-` for a number in that of 4.x.

use super::live::Live;
use crate::exit::Exit;
use crate::kernel::plane_error;
use crate::output::Output;
use weir_plane::tally::Counts;
use weir_policy::dialect::ipf::Form;
use weir_policy::dialect::ipf::ast::Action;
use weir_policy::eval::ipf::log::Reason;
use weir_policy::eval::ipf::{Evaluator, Statistics};

/// Why a packet was blocked, in the original's order: each with its number.
const REASONS: [(&str, u8); 19] = [
    ("filter-rule", 0),
    ("log-or-block_1", 1),
    ("pps-rate", 2),
    ("jumbogram", 3),
    ("makefrip-fail", 4),
    ("state_add-fail", 5),
    ("updateipid-fail", 6),
    ("log-or-block_2", 7),
    ("decap-fail", 8),
    ("auth_new-fail", 9),
    ("auth_captured", 10),
    ("coalesce-fail", 11),
    ("pullup-fail", 12),
    ("auth-feedback", 13),
    ("bad-frag", 14),
    ("natv4_out-fail", 15),
    ("natv4_in-fail", 16),
    ("natv6_out-fail", 17),
    ("natv6_in-fail", 18),
];

/// Blocked packets by reason, inbound and outbound.
#[derive(Default)]
pub struct Blocked([[u64; REASONS.len()]; 2]);

impl Blocked {
    /// Counts a packet.
    pub fn count(&mut self, out: bool, reason: Reason) {
        if let Some(count) = self.0[usize::from(out)].get_mut(usize::from(reason.number())) {
            *count += 1;
        }
    }
}

/// What is known of one direction's packets.
struct Side {
    bad: Option<u64>,
    ipv6: Option<u64>,
    blocked: Option<u64>,
    passed: Option<u64>,
    nomatch: Option<u64>,
    counted: Option<u64>,
    short: Option<u64>,
    invalid_source: Option<u64>,
    wrong_tcp_sums: Option<u64>,
    /// Blocked, passed.
    logged: (u64, u64),
    /// Log records: written, lost.
    records: (u64, u64),
    /// Kept, lost.
    fragments: (u64, u64),
    states: (u64, u64),
    reasons: [Option<u64>; REASONS.len()],
}

/// What is known of both, and what answers were sent.
struct Summary {
    sides: [Side; 2],
    /// Resets, ICMP.
    answers: (u64, u64),
    ticks: Option<u64>,
}

impl Side {
    fn of_test(counts: &Statistics, blocked: &[u64; REASONS.len()], records: usize) -> Self {
        Side {
            bad: Some(counts.bad),
            ipv6: Some(counts.ipv6),
            blocked: Some(counts.blocked),
            passed: Some(counts.passed),
            nomatch: Some(counts.nomatch),
            counted: Some(counts.counted),
            short: Some(counts.short),
            invalid_source: Some(0),
            wrong_tcp_sums: Some(counts.wrong_tcp_sums),
            logged: (counts.logged_blocked, counts.logged_passed),
            records: (records as u64, 0),
            fragments: counts.fragments,
            states: counts.states,
            reasons: blocked.map(Some),
        }
    }

    /// What the kernel's side knows; `None` where no list is asked, so that nothing is blocked.
    fn enforced(live: &Live, out: bool, counts: Option<&Counts>) -> Self {
        let set = &live.rules.set;
        let own = |action: Action| {
            let mut rules = set.rules.iter();
            rules.any(|rule| rule.action == action && (rule.direction as usize == 1) == out)
        };
        let count = counts.cloned().unwrap_or_default();
        let known = |value: u64| counts.map(|_| value);
        let mut reasons = [Some(0); REASONS.len()];
        let others = count.bad + count.rate + count.stateless + count.overlaps + count.unlogged;
        for (number, value) in [
            (0, Some(count.blocked.saturating_sub(others))),
            // Which of the two it was isn't told.
            (1, (count.unlogged == 0).then_some(0)),
            (2, Some(count.rate)),
            (4, Some(count.bad)),
            (5, Some(count.stateless)),
            (7, (count.unlogged == 0).then_some(0)),
            (14, Some(count.overlaps)),
        ] {
            reasons[number] = value;
        }
        let asks = live.settings().iter().any(|(name, value)| {
            *value != 0 && ["chksrc", "fr_chksrc"].contains(&&*name.to_ascii_lowercase())
        });
        Side {
            bad: known(count.bad),
            ipv6: count.ipv6,
            blocked: Some(count.blocked),
            passed: count.passed,
            nomatch: known(count.nomatch).filter(|_| !own(Action::Nomatch)),
            counted: counted(live, out),
            short: count.short,
            invalid_source: (out || !asks).then_some(0),
            wrong_tcp_sums: count.wrong_tcp_sums,
            logged: (count.logged.1, count.logged.0),
            records: count.records,
            fragments: count.fragments,
            states: count.states,
            reasons,
        }
    }
}

/// Packets that an accounting list counted, where its rules' hits tell.
fn counted(live: &Live, out: bool) -> Option<u64> {
    let set = &live.rules.set;
    match &set.account[usize::from(out)][..] {
        [] => Some(0),
        [only] if set.rules[*only].head.is_none() => {
            live.counters.get(*only).map(|hits| hits.packets)
        }
        // A packet may match several.
        _ => None,
    }
}

/// Prints what a capture came to.
pub fn print(
    evaluator: &Evaluator<'_>,
    blocked: &Blocked,
    form: Form,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let [input, output] = &evaluator.statistics;
    // A capture is inbound.
    let sides = [
        Side::of_test(input, &blocked.0[0], evaluator.log.len()),
        Side::of_test(output, &blocked.0[1], 0),
    ];
    let summary = Summary {
        sides,
        answers: (0, 0),
        ticks: Some(0),
    };
    lines(&summary, form, out)
}

/// Prints what became of packets since the enforced lists were put in force.
pub fn enforced(live: &Live, out: &mut Output) -> anyhow::Result<Exit> {
    let tally = match live.kernel.generation() {
        Some(_) => live.kernel.plane.tally().map_err(plane_error)?,
        None => None,
    };
    let [input, output] = tally.unwrap_or_default();
    let answers = [&input, &output].map(|side| side.as_ref().map_or((0, 0), |side| side.answers));
    let summary = Summary {
        sides: [
            Side::enforced(live, false, input.as_ref()),
            Side::enforced(live, true, output.as_ref()),
        ],
        answers: (answers[0].0 + answers[1].0, answers[0].1 + answers[1].1),
        ticks: None,
    };
    lines(&summary, live.form(), out)
}

fn lines(summary: &Summary, form: Form, out: &mut Output) -> anyhow::Result<Exit> {
    let lines = match form {
        Form::V5 => new(summary),
        Form::V4 => old(summary),
    };
    for line in lines {
        out.line(line)?;
    }
    Ok(Exit::Done)
}

/// `value<TAB>label`
fn new(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let mut put = |value: Option<u64>, label: String| {
        lines.extend(value.map(|value| format!("{value}\t{label}")));
    };
    for (side, counts) in ["input", "output"].iter().zip(&summary.sides) {
        for (value, label) in [
            (counts.bad, "bad packets"),
            (counts.ipv6, "IPv6 packets"),
            (counts.blocked, "packets blocked"),
            (counts.passed, "packets passed"),
            (counts.nomatch, "packets not matched"),
            (counts.counted, "packets counted"),
            (counts.short, "packets short"),
            (Some(counts.logged.0), "packets logged and blocked"),
            (Some(counts.logged.1), "packets logged and passed"),
            (Some(counts.fragments.0), "fragment state kept"),
            (Some(counts.fragments.1), "fragment state lost"),
            (Some(counts.states.0), "packet state kept"),
            (Some(counts.states.1), "packet state lost"),
            (counts.invalid_source, "invalid source"),
            (Some(0), "cache hits"),
            (Some(0), "cache misses"),
            (Some(0), "bad coalesces"),
            (Some(0), "pullups succeeded"),
            (Some(0), "pullups failed"),
            (counts.wrong_tcp_sums, "TCP checksum failures"),
        ] {
            put(value, format!("{side} {label}"));
        }
        for ((word, _), value) in REASONS.iter().zip(counts.reasons) {
            put(value, format!("{side} block reason {word}"));
        }
    }
    let [input, output] = &summary.sides;
    for (value, label) in [
        (Some(input.records.0 + output.records.0), "packets logged"),
        (Some(input.records.1 + output.records.1), "log failures"),
        (Some(0), "red-black no memory"),
        (Some(0), "red-black node maximum"),
        (Some(summary.answers.1), "ICMP replies sent"),
        (Some(summary.answers.0), "TCP RSTs sent"),
        (Some(0), "fastroute successes"),
        (Some(0), "fastroute failures"),
        (summary.ticks, "IPF Ticks"),
    ] {
        put(value, label.to_owned());
    }
    lines.extend(["Packet log flags set:", "\tnone"].map(str::to_owned));
    lines
}

/// A number, or that it isn't known.
pub(super) fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `label:<TABs>word N word N`
fn old(summary: &Summary) -> Vec<String> {
    let [input, output] = &summary.sides;
    let packets = |side: &Side| {
        let words = [
            ("blocked", side.blocked),
            ("passed", side.passed),
            ("nomatch", side.nomatch),
            ("counted", side.counted),
            ("short", side.short),
        ];
        let words = words.map(|(word, value)| format!("{word} {}", number(value)));
        words.join(" ")
    };
    let marked = |side: &Side| format!("blocked {} passed {}", side.logged.0, side.logged.1);
    let kept = |(kept, lost): (u64, u64)| format!("kept {kept}\tlost {lost}");
    let (bad, ipv6) = (
        [input.bad, output.bad].map(number),
        [input.ipv6, output.ipv6].map(number),
    );
    let (resets, replies) = summary.answers;
    let mut lines = vec![
        format!("bad packets:\t\tin {}\tout {}", bad[0], bad[1]),
        format!(" IPv6 packets:\t\tin {} out {}", ipv6[0], ipv6[1]),
        format!(" input packets:\t\t{}", packets(input)),
        format!("output packets:\t\t{}", packets(output)),
        format!(" input packets logged:\t{}", marked(input)),
        format!("output packets logged:\t{}", marked(output)),
    ];
    let both = |of: fn(&Side) -> u64| format!("input {} output {}", of(input), of(output));
    lines.extend([
        format!(" packets logged:\t{}", both(|side| side.records.0)),
        format!(" log failures:\t\t{}", both(|side| side.records.1)),
        format!("fragment state(in):\t{}", kept(input.fragments)),
        format!("fragment state(out):\t{}", kept(output.fragments)),
        format!("packet state(in):\t{}", kept(input.states)),
        format!("packet state(out):\t{}", kept(output.states)),
        format!("ICMP replies:\t{replies}\tTCP RSTs sent:\t{resets}"),
        format!("Invalid source(in):\t{}", number(input.invalid_source)),
        "Result cache hits(in):\t0".to_owned(),
        "Result cache hits(out):\t0".to_owned(),
        "IN Pullups succeeded:\t0\tfailed:\t0".to_owned(),
        "OUT Pullups succeeded:\t0\tfailed:\t0".to_owned(),
        "Fastroute successes:\t0\tfailures:\t0".to_owned(),
        format!("TCP cksum fails(in):\t{}", number(input.wrong_tcp_sums)),
        format!("TCP cksum fails(out):\t{}", number(output.wrong_tcp_sums)),
        format!("IPF Ticks:\t{}", number(summary.ticks)),
        "Packet log flags set: (0)".to_owned(),
        "\tnone".to_owned(),
    ]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_numbers_and_words_of_the_log() {
        for (at, (word, number)) in REASONS.iter().enumerate() {
            assert_eq!(at, usize::from(*number));
            if let Some(reason) = Reason::of_number(*number) {
                assert_eq!(reason.word(), *word);
            }
        }
    }
}
