//! What `ipfstat` without options counts of the packets of a capture: lines of 5.x, or of 4.x.
//!
//! In: an evaluator that judged the capture. Out: text. What can't happen in a test (translation,
//! pull-ups, a result cache, answers that are sent) is 0; what isn't counted (wrong checksums of
//! TCP, packets that `keep frags` found to be no fragments) has no line or word.

use crate::exit::Exit;
use crate::output::Output;
use weir_policy::dialect::ipf::Form;
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

/// Prints.
pub fn print(
    evaluator: &Evaluator<'_>,
    blocked: &Blocked,
    form: Form,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    // A capture is inbound.
    let logged = evaluator.log.len();
    let lines = match form {
        Form::V5 => new(&evaluator.statistics, blocked, logged),
        Form::V4 => old(&evaluator.statistics, logged),
    };
    for line in lines {
        out.line(line)?;
    }
    Ok(Exit::Done)
}

/// `value<TAB>label`
fn new(statistics: &[Statistics; 2], blocked: &Blocked, logged: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for ((side, counts), reasons) in ["input", "output"].iter().zip(statistics).zip(&blocked.0) {
        for (value, label) in [
            (counts.bad, "bad packets"),
            (counts.ipv6, "IPv6 packets"),
            (counts.blocked, "packets blocked"),
            (counts.passed, "packets passed"),
            (counts.nomatch, "packets not matched"),
            (counts.counted, "packets counted"),
            (counts.short, "packets short"),
            (counts.logged_blocked, "packets logged and blocked"),
            (counts.logged_passed, "packets logged and passed"),
            (counts.fragments.0, "fragment state kept"),
            (counts.fragments.1, "fragment state lost"),
            (counts.states.0, "packet state kept"),
            (counts.states.1, "packet state lost"),
            (0, "invalid source"),
            (0, "cache hits"),
            (0, "cache misses"),
            (0, "bad coalesces"),
            (0, "pullups succeeded"),
            (0, "pullups failed"),
        ] {
            lines.push(format!("{value}\t{side} {label}"));
        }
        let reason = |((word, _), count): (&(&str, u8), &u64)| {
            format!("{count}\t{side} block reason {word}")
        };
        lines.extend(REASONS.iter().zip(reasons).map(reason));
    }
    lines.push(format!("{logged}\tpackets logged"));
    for label in [
        "log failures",
        "red-black no memory",
        "red-black node maximum",
        "ICMP replies sent",
        "TCP RSTs sent",
        "fastroute successes",
        "fastroute failures",
        "IPF Ticks",
    ] {
        lines.push(format!("0\t{label}"));
    }
    lines.extend(["Packet log flags set:", "\tnone"].map(str::to_owned));
    lines
}

/// `label:<TABs>word N word N`
fn old([input, output]: &[Statistics; 2], logged: usize) -> Vec<String> {
    let packets = |counts: &Statistics| {
        format!(
            "blocked {} passed {} nomatch {} counted {} short {}",
            counts.blocked, counts.passed, counts.nomatch, counts.counted, counts.short
        )
    };
    let marked = |counts: &Statistics| {
        let (blocked, passed) = (counts.logged_blocked, counts.logged_passed);
        format!("blocked {blocked} passed {passed}")
    };
    let kept = |(kept, lost): (u64, u64)| format!("kept {kept}\tlost {lost}");
    vec![
        format!("bad packets:\t\tin {}\tout {}", input.bad, output.bad),
        format!(" IPv6 packets:\t\tin {} out {}", input.ipv6, output.ipv6),
        format!(" input packets:\t\t{}", packets(input)),
        format!("output packets:\t\t{}", packets(output)),
        format!(" input packets logged:\t{}", marked(input)),
        format!("output packets logged:\t{}", marked(output)),
        format!(" packets logged:\tinput {logged} output 0"),
        " log failures:\t\tinput 0 output 0".to_owned(),
        format!("fragment state(in):\t{}", kept(input.fragments)),
        format!("fragment state(out):\t{}", kept(output.fragments)),
        format!("packet state(in):\t{}", kept(input.states)),
        format!("packet state(out):\t{}", kept(output.states)),
        "ICMP replies:\t0\tTCP RSTs sent:\t0".to_owned(),
        "Invalid source(in):\t0".to_owned(),
        "Result cache hits(in):\t0".to_owned(),
        "Result cache hits(out):\t0".to_owned(),
        "IN Pullups succeeded:\t0\tfailed:\t0".to_owned(),
        "OUT Pullups succeeded:\t0\tfailed:\t0".to_owned(),
        "Fastroute successes:\t0\tfailures:\t0".to_owned(),
        "IPF Ticks:\t0".to_owned(),
        "Packet log flags set: (0)".to_owned(),
        "\tnone".to_owned(),
    ]
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
