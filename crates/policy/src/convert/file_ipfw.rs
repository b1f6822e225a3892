//! Lists as a file of ipfw: tables, then numbered rules.
//!
//! In: the items of the in and out pass. Out: text. Rules are numbered from 100 on in equal steps;
//! who skips goes to the number of the next rule behind the label.

use super::address::{Named, network, networks};
use super::culprit::Culprit;
use super::flat::{Does, Item};
use crate::model::{RejectKind, Verdict};
use std::collections::HashMap;
use std::fmt::Write;

/// The last number that a rule can have (IPFW_DEFAULT_RULE less one).
const NUMBER_MAX: usize = 65_534;

/// The text of the rules.
pub fn text(items: &[Item], tables: &Named, tracked: bool) -> Result<String, Culprit> {
    let mut out = String::new();
    for (name, family, set) in &tables.sets {
        let _ = writeln!(out, "table {name} create type addr");
        for one in networks(*family, set) {
            let _ = writeln!(out, "table {name} add {}", network(*family, one));
        }
    }
    let rules = items
        .iter()
        .filter(|item| matches!(item, Item::Rule(..)))
        .count()
        + usize::from(tracked);
    let step = [100, 50, 10, 5, 2, 1]
        .into_iter()
        .find(|step| (rules + 1) * step <= NUMBER_MAX);
    let Some(step) = step else {
        let what = format!("a list of {rules} rules, more than ipfw has numbers for,");
        return Err(Culprit::new(&[], what, "put addresses into sets"));
    };
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut number = step * (1 + usize::from(tracked));
    for item in items {
        match item {
            Item::Label(label) => drop(numbers.insert(*label, number)),
            Item::Rule(..) => number += step,
            Item::Comment(_) => {}
        }
    }
    number = step;
    if tracked {
        let _ = writeln!(out, "add {number:05} check-state");
        number += step;
    }
    for item in items {
        match item {
            Item::Comment(text) => {
                let _ = writeln!(out, "# {text}");
            }
            Item::Label(_) => {}
            Item::Rule(line, does) => {
                let action = action(does, &numbers)?;
                let keeps = tracked && matches!(does, Does::Decide(Verdict::Accept, _));
                let state = if keeps { " keep-state" } else { "" };
                let _ = writeln!(out, "add {number:05} {action} {line}{state}");
                number += step;
            }
        }
    }
    Ok(out)
}

fn action(does: &Does, numbers: &HashMap<usize, usize>) -> Result<String, Culprit> {
    Ok(match does {
        Does::Count => "count".to_owned(),
        Does::Log(_) => "count log".to_owned(),
        Does::Skip(label) => format!(
            "skipto {}",
            numbers.get(label).copied().unwrap_or(NUMBER_MAX)
        ),
        Does::Decide(verdict, log) => {
            let word = match verdict {
                Verdict::Accept => "allow".to_owned(),
                Verdict::Drop => "deny".to_owned(),
                Verdict::Reject(RejectKind::TcpReset) => "reset".to_owned(),
                // In whose name the answer is, ipfw can't say: the proof behind refuses it.
                Verdict::Reject(RejectKind::Icmp(code) | RejectKind::IcmpAsDestination(code)) => {
                    format!("unreach {code}")
                }
                Verdict::Reject(RejectKind::FragmentationNeeded(mtu)) => {
                    format!("unreach needfrag {mtu}")
                }
                Verdict::Reject(RejectKind::Icmp6(code) | RejectKind::Icmp6AsDestination(code)) => {
                    format!("unreach6 {code}")
                }
            };
            match log {
                Some(_) => format!("{word} log"),
                None => word,
            }
        }
    })
}
