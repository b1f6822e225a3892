//! Lists as a file of IPFilter, and the tables as another.
//!
//! In: the items of the in and the out list. Out: text. Every rule that decides is `quick`.

use super::address::{Named, network, networks};
use super::flat::{Does, Item};
use crate::model::{RejectKind, Verdict};
use std::collections::HashMap;
use std::fmt::Write;

/// A rule that is there already is loaded once. Where no rule skips it would never be met;
/// otherwise the first of two goes to where the second one stands.
fn each_once(items: &[Item]) -> Vec<Item> {
    let skips = items.iter().any(|item| matches!(item, Item::Label(_)));
    let labels = items.iter().map(|item| match item {
        Item::Label(label) | Item::Rule(_, Does::Skip(label)) => *label,
        _ => 0,
    });
    let mut next = labels.max().unwrap_or(0);
    let mut last: HashMap<&Item, usize> = HashMap::new();
    let mut instead: Vec<Vec<Item>> = items.iter().map(|item| vec![item.clone()]).collect();
    for (at, item) in items.iter().enumerate() {
        let Item::Rule(line, Does::Decide(..)) = item else {
            continue;
        };
        match last.get(item).copied() {
            Some(_) if !skips => instead[at].clear(),
            Some(before) => {
                next += 1;
                let skip = Item::Rule(line.clone(), Does::Skip(next));
                // The label of the one before it, if there is one, stays in front.
                instead[before].pop();
                instead[before].push(skip);
                instead[at].insert(0, Item::Label(next));
                last.insert(item, at);
            }
            None => drop(last.insert(item, at)),
        }
    }
    instead.into_iter().flatten().collect()
}

/// The text of one list.
pub fn text(items: &[Item], is_in: bool, tracked: bool) -> String {
    let items = &each_once(items);
    let direction = if is_in { "in" } else { "out" };
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let (line, does) = match item {
            Item::Comment(text) => {
                let _ = writeln!(out, "# {text}");
                continue;
            }
            Item::Label(_) => continue,
            Item::Rule(line, does) => (line, does),
        };
        let line = match line.strip_suffix("from any to any") {
            Some(front) => format!("{front}all"),
            None => line.clone(),
        };
        let rule = match does {
            Does::Count => format!("count {direction} {line}"),
            Does::Log(_) => format!("log {direction} {line}"),
            Does::Skip(label) => {
                let rules = items[at + 1..]
                    .iter()
                    .take_while(|item| **item != Item::Label(*label))
                    .filter(|item| matches!(item, Item::Rule(..)));
                format!("skip {} {direction} {line}", rules.count())
            }
            Does::Decide(verdict, log) => {
                let action = action(*verdict);
                let log = if log.is_some() { " log" } else { "" };
                let keeps = tracked && *verdict == Verdict::Accept;
                let state = if keeps { " keep state" } else { "" };
                format!("{action} {direction}{log} quick {line}{state}")
            }
        };
        let _ = writeln!(out, "{rule}");
    }
    out
}

fn action(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accept => "pass".to_owned(),
        Verdict::Drop => "block".to_owned(),
        Verdict::Reject(RejectKind::TcpReset) => "block return-rst".to_owned(),
        Verdict::Reject(RejectKind::Icmp(code)) => format!("block return-icmp({code})"),
        // The MTU is for the proof to refuse.
        Verdict::Reject(RejectKind::FragmentationNeeded(_)) => {
            "block return-icmp(needfrag)".to_owned()
        }
        Verdict::Reject(RejectKind::Icmp6(_)) => "block return-icmp(port-unr)".to_owned(),
        Verdict::Reject(RejectKind::IcmpAsDestination(code)) => {
            format!("block return-icmp-as-dest({code})")
        }
        Verdict::Reject(RejectKind::Icmp6AsDestination(_)) => {
            "block return-icmp-as-dest(port-unr)".to_owned()
        }
    }
}

/// The text of the tables, for ippool.
pub fn pools(pools: &Named) -> String {
    let mut out = String::new();
    for (name, family, set) in &pools.sets {
        let _ = writeln!(out, "table role = ipf type = tree name = {name}\n{{");
        for one in networks(*family, set) {
            let _ = writeln!(out, "\t{};", network(*family, one));
        }
        out += "};\n";
    }
    out
}
