//! An explanation as text.
//!
//! In: an [`Explanation`]. Out: one block of lines for each hook: the rules in the order tried, a
//! sign for what became of each, and the verdict with its rule.

use super::{Explanation, RuleReport};
use crate::output::{Output, Paint};

/// Which rules are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Every rule tried.
    All,
    /// Only rules that matched.
    Matched,
}

/// Prints an explanation.
pub fn print(out: &mut Output, explanation: &Explanation, shown: Shown) -> anyhow::Result<()> {
    let number = explanation
        .number
        .map_or(String::new(), |n| format!("#{n} "));
    out.line(format!("packet {number}{}", explanation.packet))?;
    for hook in &explanation.hooks {
        out.line("")?;
        let heading = format!("{} (state {})", hook.hook, hook.state);
        let heading = out.paint(Paint::Strong, &heading);
        out.line(heading)?;
        let mut chain = String::new();
        let rules = hook.tried.iter();
        for rule in rules.filter(|r| shown == Shown::All || r.result == "matched") {
            let place = format!("{} {}", rule.table, rule.chain);
            if place != chain {
                out.line(format!("  {place}"))?;
                chain = place;
            }
            print_rule(out, rule)?;
        }
        for operation in &hook.operations {
            out.line(format!("  done: {operation}"))?;
        }
    }
    out.line("")?;
    verdict(out, explanation)
}

fn print_rule(out: &mut Output, rule: &RuleReport) -> anyhow::Result<()> {
    let place = rule.rule.as_deref().unwrap_or("?");
    let text = match (rule.index, &rule.text) {
        (0, _) => "chain policy".to_owned(),
        (_, Some(text)) => text.trim().to_owned(),
        (index, None) => format!("rule {index}"),
    };
    let (sign, paint) = match rule.result {
        "matched" => ("+", Paint::Good),
        "failed" => ("-", Paint::Faint),
        _ => ("!", Paint::Bad),
    };
    let line = format!("    {sign} {place}  {text}");
    let line = out.paint(paint, &line);
    out.line(line)?;
    let why = match (&rule.test, &rule.because, &rule.then) {
        (Some(test), Some(because), _) => format!("no: {test}; {because}"),
        (Some(test), None, _) => format!("no: {test}"),
        (None, _, Some(then)) => format!("matched: {then}"),
        (None, _, None) => return Ok(()),
    };
    out.line(format!("        {why}"))
}

fn verdict(out: &mut Output, explanation: &Explanation) -> anyhow::Result<()> {
    let paint = match explanation.verdict {
        "accept" => Paint::Good,
        _ => Paint::Bad,
    };
    let word = out.paint(paint, &explanation.answer);
    let by = match (&explanation.rule, &explanation.chain, explanation.cut_short) {
        (Some(rule), Some(chain), _) => format!("decided by {rule} ({chain})"),
        (_, _, true) => "its transport header is cut short".to_owned(),
        _ => "no rule says anything about it".to_owned(),
    };
    let mark = match explanation.mark {
        0 => String::new(),
        mark => format!(", mark {mark:#x}"),
    };
    out.line(format!("verdict {word}: {by}{mark}"))
}
