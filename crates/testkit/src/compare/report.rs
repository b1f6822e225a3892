//! What differs between two runs of one case, in words.
//!
//! In: two runs, perhaps with counters after every step. Out: lines for a human: the step and the
//! packets that arrived in one run only, the rule with both counters, and the first step after
//! which the counters of that rule differ. An empty list means: same packets, same counters.

use super::case::Case;
use super::counters::{Count, Counters, Key, numbers};
use super::engine::Run;

/// Everything that differs; `names` are the engines of `left` and `right`.
#[must_use]
pub fn differences(case: &Case, left: &Run, right: &Run, names: (&str, &str)) -> Vec<String> {
    let mut lines = packets(case, left, right, names);
    lines.extend(rules(case, left, right, names));
    lines
}

fn packets(case: &Case, left: &Run, right: &Run, names: (&str, &str)) -> Vec<String> {
    let mut lines = Vec::new();
    if left.records.len() != right.records.len() {
        lines.push(format!("{}: not the same number of steps", case.name));
    }
    for (a, b) in left.records.iter().zip(&right.records) {
        if a == b {
            continue;
        }
        lines.push(format!("{}.traffic:{}: {}", case.name, a.line, a.text));
        if a.outcome != b.outcome {
            lines.push(format!("  {:>9}: {:?}", names.0, a.outcome));
            lines.push(format!("  {:>9}: {:?}", names.1, b.outcome));
        }
        let only = |name: &str, these: &[String], those: &[String]| -> Vec<String> {
            let mut others = those.to_vec();
            let extra = these.iter().filter(|text| {
                let found = others.iter().position(|other| other == *text);
                found.map(|index| others.swap_remove(index)).is_none()
            });
            extra.map(|text| format!("  only {name}: {text}")).collect()
        };
        let before = lines.len();
        lines.extend(only(names.0, &a.arrived, &b.arrived));
        lines.extend(only(names.1, &b.arrived, &a.arrived));
        // Answers from user space may come later than what was forwarded meanwhile.
        if before == lines.len() && a.outcome == b.outcome {
            lines.pop();
        }
    }
    lines
}

fn rules(case: &Case, left: &Run, right: &Run, names: (&str, &str)) -> Vec<String> {
    let mut lines = Vec::new();
    let mut keys: Vec<&Key> = left.counters.keys().chain(right.counters.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (left.counters.get(key), right.counters.get(key));
        if numbers(a) == numbers(b) {
            continue;
        }
        lines.push(format!(
            "{} {} {} {} rule {}: {}",
            case.name,
            key.family.name(),
            key.table,
            key.chain,
            key.index,
            a.map_or("(not in the original)", |count| &count.rule),
        ));
        let show = |name: &str, count: Option<&Count>| match count {
            Some(Count {
                packets,
                bytes,
                rule,
            }) => {
                let source = if rule.starts_with("source") { rule } else { "" };
                format!("  {name:>9}: {packets} packets, {bytes} bytes {source}")
            }
            None => format!("  {name:>9}: no such rule"),
        };
        lines.push(show(names.0, a));
        lines.push(show(names.1, b));
        lines.extend(blame(case, left, right, key));
    }
    lines
}

/// The steps in which this rule counted differently (at most three are named).
fn blame(case: &Case, left: &Run, right: &Run, key: &Key) -> Vec<String> {
    let moved = |steps: &[Counters], index: usize| {
        let at = |index: usize| {
            let count = steps.get(index).and_then(|counters| counters.get(key));
            count.map_or((0, 0), |count| (count.packets as i64, count.bytes as i64))
        };
        let (now, before) = (at(index), if index == 0 { (0, 0) } else { at(index - 1) });
        (now.0 - before.0, now.1 - before.1)
    };
    let steps = left.after_steps.len().min(right.after_steps.len());
    (0..steps)
        .filter_map(|index| {
            let (a, b) = (
                moved(&left.after_steps, index),
                moved(&right.after_steps, index),
            );
            let step = case.steps.get(index)?;
            (a != b).then(|| {
                format!(
                    "    {:+}:{:+} against {:+}:{:+} at {}.traffic:{}: {}",
                    a.0, a.1, b.0, b.1, case.name, step.line, step.text
                )
            })
        })
        .take(3)
        .collect()
}
