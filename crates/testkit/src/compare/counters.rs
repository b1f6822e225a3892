//! Per-rule counters of both engines in one form.
//!
//! In: the text of `iptables-legacy-save -c`, or the JSON list of `weir counters --rules --json`.
//! Out: [`Counters`], keyed by family, table, chain and position (0 is the chain's policy, rules
//! count from 1), with the rule's text where the source has one.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::case::Family;

/// Which rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Address family.
    pub family: Family,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// Position from 1; 0 for the policy.
    pub index: usize,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes, from the network header on.
    pub bytes: u64,
    /// The rule as its engine prints it: text, or the source line.
    pub rule: String,
}

/// All counters of a policy.
pub type Counters = BTreeMap<Key, Count>;

/// What one rule counted, without its text.
pub fn numbers(count: Option<&Count>) -> Option<(u64, u64)> {
    count.map(|count| (count.packets, count.bytes))
}

/// Whether the same rules counted the same.
pub fn equal(left: &Counters, right: &Counters) -> bool {
    let all = |counters: &Counters, other: &Counters| {
        let mut keys = counters.keys();
        keys.all(|key| numbers(counters.get(key)) == numbers(other.get(key)))
    };
    all(left, right) && all(right, left)
}

/// Reads the text of `iptables-legacy-save -c`. User chains have no policy and no entry 0.
pub fn from_save(text: &str, family: Family) -> Result<Counters> {
    let mut counters = Counters::new();
    let mut table = String::new();
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.to_owned();
            lengths.clear();
        } else if let Some(declaration) = line.strip_prefix(':') {
            let mut words = declaration.split_whitespace();
            let (chain, policy) = (words.next(), words.next());
            let (Some(chain), Some(policy)) = (chain, policy) else {
                continue;
            };
            if policy != "-" {
                let counts = words.next().context("chain without counters")?;
                let key = Key {
                    family,
                    table: table.clone(),
                    chain: chain.to_owned(),
                    index: 0,
                };
                counters.insert(key, count(counts, &format!(":{chain} {policy}"))?);
            }
        } else if line.starts_with('[') {
            let (counts, rule) = line.split_once(' ').context("rule without text")?;
            let chain = rule
                .split_whitespace()
                .nth(1)
                .context("rule without chain")?
                .to_owned();
            let index = lengths.entry(chain.clone()).or_default();
            *index += 1;
            let key = Key {
                family,
                table: table.clone(),
                chain,
                index: *index,
            };
            counters.insert(key, count(counts, rule)?);
        }
    }
    ensure!(!counters.is_empty(), "no counters in the save text");
    Ok(counters)
}

fn count(brackets: &str, rule: &str) -> Result<Count> {
    let inner = brackets.trim_start_matches('[').trim_end_matches(']');
    let (packets, bytes) = inner
        .split_once(':')
        .context("counters are [packets:bytes]")?;
    Ok(Count {
        packets: packets.parse()?,
        bytes: bytes.parse()?,
        rule: rule.to_owned(),
    })
}

/// One element of weir's list.
#[derive(Deserialize)]
struct Row {
    family: String,
    table: String,
    chain: String,
    index: usize,
    line: Option<u64>,
    packets: u64,
    bytes: u64,
}

/// Reads weir's JSON: the bare list, or an object that holds it under `rules`.
pub fn from_json(text: &str) -> Result<Counters> {
    let value: serde_json::Value = serde_json::from_str(text).context("weir counters --json")?;
    let list = if value.is_array() {
        value
    } else {
        value["rules"].clone()
    };
    let rows: Vec<Row> = serde_json::from_value(list).context("weir counters --json")?;
    let mut counters = Counters::new();
    for row in rows {
        let family = match row.family.as_str() {
            "ipv4" | "inet" | "ip" | "v4" => Family::V4,
            _ => Family::V6,
        };
        let rule = row
            .line
            .map_or_else(String::new, |line| format!("source line {line}"));
        let count = Count {
            packets: row.packets,
            bytes: row.bytes,
            rule,
        };
        let key = Key {
            family,
            table: row.table,
            chain: row.chain,
            index: row.index,
        };
        ensure!(
            counters.insert(key.clone(), count).is_none(),
            "{key:?} is listed twice"
        );
    }
    Ok(counters)
}
