//! Rules that don't do what they seem to: warnings about a whole rule set.
//!
//! In: a rule set. Out: located warnings and notes. What concerns one word is told while it is
//! read; here is what takes the rest of the rule, or other rules, to see.

use super::ast::{Action, Address, Argument, Pattern, Reject, Side};
use super::command::DummynetKind;
use super::ruleset::{LoadedRule, Ruleset};
use crate::syntax::Diagnostic;

/// Looks for traps.
#[must_use]
pub fn lint(ruleset: &Ruleset) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for one in &ruleset.rules {
        interfaces(one, &mut out);
        open_alternative(one, &mut out);
        if !ruleset.settings.established_strict {
            established(one, &mut out);
        }
        targets(one, ruleset, &mut out);
        unanswered(one, &mut out);
    }
    out
}

fn interfaces(one: &LoadedRule, out: &mut Vec<Diagnostic>) {
    let body = &one.rule.body;
    let plain = |at: usize| !body[at].or_next && (at == 0 || !body[at - 1].or_next);
    let direction = (0..body.len())
        .filter(|at| body[*at].pattern == Pattern::In && plain(*at))
        .map(|at| !body[at].negate)
        .next();
    for (at, test) in body.iter().enumerate() {
        if !matches!(test.pattern, Pattern::Interface(Side::Xmit, _)) || test.negate || !plain(at) {
            continue;
        }
        let (code, message) = match direction {
            Some(true) => ("never-matches", "`in` and `xmit` together never match"),
            None => (
                "xmit-without-out",
                "`xmit` without `out` matches only outgoing packets",
            ),
            Some(false) => continue,
        };
        out.push(
            Diagnostic::warning(code, test.place.0, message)
                .help("write `out xmit`, or `recv` for incoming packets"),
        );
    }
}

fn open_alternative(one: &LoadedRule, out: &mut Vec<Diagnostic>) {
    let Some(last) = one.rule.body.last().filter(|last| last.or_next) else {
        return;
    };
    out.push(
        Diagnostic::warning(
            "or-any",
            last.place.0,
            "the alternative after this one tests nothing: packets that match this one pass \
             over what follows, perhaps the action, and all others match",
        )
        .help("ipfw reads it so; drop the block if every value is meant"),
    );
}

fn established(one: &LoadedRule, out: &mut Vec<Diagnostic>) {
    let tests = one.rule.body.iter();
    for test in tests.filter(|test| test.pattern == Pattern::Established) {
        out.push(
            Diagnostic::note(
                "established",
                test.place.0,
                "`established` matches every TCP packet but a bare SYN, also ones without flags",
            )
            .help(
                "the manual says RST or ACK, which `--sysctl weir.established_strict=1` asks for; \
                 write keep-state to know connections",
            ),
        );
    }
}

/// Answers that only IPv6 packets get, where only IPv4 packets come.
fn unanswered(one: &LoadedRule, out: &mut Vec<Diagnostic>) {
    let (word, instead) = match one.rule.action {
        Action::Reject(Reject::Unreach6(_)) => ("unreach6", "unreach"),
        Action::Reject(Reject::Reset6) => ("reset6", "reset"),
        _ => return,
    };
    let body = &one.rule.body;
    let plain =
        |at: usize| !body[at].negate && !body[at].or_next && (at == 0 || !body[at - 1].or_next);
    let is_four = |pattern: &Pattern| {
        matches!(
            pattern,
            Pattern::Ip4
                | Pattern::IpVersion(4)
                | Pattern::Src(Address::V4(_) | Address::Octets { .. })
                | Pattern::Dst(Address::V4(_) | Address::Octets { .. })
                | Pattern::IcmpTypes(_)
        )
    };
    if let Some(four) = (0..body.len()).find(|at| plain(*at) && is_four(&body[*at].pattern)) {
        out.push(
            Diagnostic::warning(
                "no-answer",
                body[four].place.0,
                format!("`{word}` answers IPv6 packets; this rule drops IPv4 ones without a word"),
            )
            .help(format!("write `{instead}` to answer IPv4 packets")),
        );
    }
}

fn targets(one: &LoadedRule, ruleset: &Ruleset, out: &mut Vec<Diagnostic>) {
    let place = one.rule.action_place.0;
    match one.rule.action {
        Action::Skipto(Argument::Number(target)) if target <= one.rule.number => out.push(
            Diagnostic::warning(
                "skipto-back",
                place,
                format!(
                    "skipto {target} from rule {} goes to the next rule",
                    one.rule.number
                ),
            )
            .help("jumps go forward only; write a larger number"),
        ),
        Action::Pipe(Argument::Number(number)) => {
            missing_object(ruleset, DummynetKind::Pipe, number, one, out);
        }
        Action::Queue(Argument::Number(number)) => {
            missing_object(ruleset, DummynetKind::Queue, number, one, out);
        }
        _ => {}
    }
}

fn missing_object(
    ruleset: &Ruleset,
    kind: DummynetKind,
    number: u32,
    one: &LoadedRule,
    out: &mut Vec<Diagnostic>,
) {
    if ruleset.dummynet.contains_key(&(kind, number)) {
        return;
    }
    let name = kind.name();
    out.push(
        Diagnostic::warning(
            "no-pipe",
            one.rule.action_place.0,
            format!("{name} {number} is not configured: packets sent there are dropped"),
        )
        .help(format!("write `{name} {number} config ...`")),
    );
}
