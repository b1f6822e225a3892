//! Where each counter's rule is: family, table, chain, number, file and line.
//!
//! In: a policy. Out: one [`Place`] for each rule id. Chain policies have number 0. This is the one
//! spot that turns ids of the model into what people and scripts see.

use crate::describe::{family_name, table_name};
use serde::Serialize;
use weir_policy::dialect::ipfw::DEFAULT_RULE;
use weir_policy::model::{ChainId, Counters, Family, Origin, Policy, Rule, RuleId, Table};

/// Where a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its chain.
    pub chain: ChainId,
    /// Its number in the chain, from 1; 0 is the chain's policy.
    pub index: u32,
    /// Where it was written.
    pub origin: Origin,
    /// Counters that the file gave it.
    pub preset: Counters,
}

/// Places by rule id.
pub struct Places<'p> {
    policy: &'p Policy,
    by_id: Vec<Option<Place>>,
}

/// One line of `counters --rules --json`: the names and their order are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterLine {
    /// `ipv4`, `ipv6`, or `both` for a rule of a language that has one list.
    pub family: &'static str,
    /// Table.
    pub table: &'static str,
    /// Chain.
    pub chain: String,
    /// Number in the chain, 0 for its policy.
    pub index: u32,
    /// Line in its file.
    pub line: u32,
    /// Packets that matched.
    pub packets: u64,
    /// Their layer 3 bytes.
    pub bytes: u64,
    /// The file.
    pub file: String,
}

impl<'p> Places<'p> {
    /// Indexes a policy.
    pub fn of(policy: &'p Policy) -> Self {
        let mut by_id = vec![None; policy.rule_count as usize];
        for (number, chain) in policy.chains.iter().enumerate() {
            let id = ChainId(number as u32);
            for rule in chain.rules.iter().filter(|rule| rule.index != Rule::HIDDEN) {
                let place = &mut by_id[rule.id.0 as usize];
                // A rule of both families is listed once.
                *place = place.or(Some(Place {
                    chain: id,
                    index: rule.index,
                    origin: rule.origin,
                    preset: rule.preset,
                }));
            }
            if let Some(end) = chain.policy {
                by_id[end.id.0 as usize] = Some(Place {
                    chain: id,
                    index: 0,
                    origin: end.origin,
                    preset: end.preset,
                });
            }
        }
        Places { policy, by_id }
    }

    /// Where a rule is.
    pub fn get(&self, id: RuleId) -> Option<&Place> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    /// `file:line` of a rule.
    pub fn location(&self, id: RuleId) -> Option<String> {
        let place = self.get(id)?;
        Some(format!("{}:{}", self.file(place.origin), place.origin.line))
    }

    /// The chain of a rule, with its number: `INPUT 3`, `INPUT policy`.
    pub fn name(&self, id: RuleId) -> Option<String> {
        let place = self.get(id)?;
        let chain = &self.policy.chain(place.chain).name;
        Some(match place.index {
            0 => format!("{chain} policy"),
            index => format!("{chain} {index}"),
        })
    }

    /// The name of the file of an origin.
    pub fn file(&self, origin: Origin) -> &'p str {
        self.policy
            .sources
            .get(usize::from(origin.source.0))
            .map_or("?", String::as_str)
    }

    /// Counters in the order of the files: families, tables, chains as declared; in a chain the
    /// policy first, then the rules.
    pub fn counters(&self, counters: &[Counters]) -> Vec<CounterLine> {
        let mut out = Vec::with_capacity(self.by_id.len());
        let mut order: Vec<usize> = (0..self.policy.chains.len()).collect();
        let key = |number: &usize| -> (Family, Table) {
            let chain = &self.policy.chains[*number];
            (chain.family, chain.table)
        };
        order.sort_by_key(key);
        let mut families = vec![None; self.by_id.len()];
        for chain in &self.policy.chains {
            for rule in &chain.rules {
                let family: &mut Option<Option<Family>> = &mut families[rule.id.0 as usize];
                *family = Some(match *family {
                    None => Some(chain.family),
                    Some(known) => known.filter(|known| *known == chain.family),
                });
            }
        }
        let mut listed = vec![false; self.by_id.len()];
        for number in order {
            let chain = &self.policy.chains[number];
            let ids = chain.policy.map(|end| end.id);
            for id in ids
                .into_iter()
                .chain(chain.rules.iter().map(|rule| rule.id))
            {
                let (Some(place), Some(count)) = (self.get(id), counters.get(id.0 as usize)) else {
                    continue;
                };
                // One counter may stand in several places: a rule for both families, or one whose
                // answer depends on the protocol.
                if std::mem::replace(&mut listed[id.0 as usize], true) {
                    continue;
                }
                let both = families[id.0 as usize] == Some(None);
                out.push(CounterLine {
                    family: if both {
                        "both"
                    } else {
                        family_name(chain.family)
                    },
                    table: table_name(chain.table),
                    chain: chain.name.clone(),
                    index: place.index,
                    line: place.origin.line,
                    packets: count.packets,
                    bytes: count.bytes,
                    file: self.file(place.origin).to_owned(),
                });
            }
        }
        out
    }
}

impl CounterLine {
    /// Whether it is what a chain does with the rest: its policy, or ipfw's last rule.
    pub fn is_policy(&self) -> bool {
        self.index == 0 || self.chain == crate::ipfw::counters::CHAIN && self.index == DEFAULT_RULE
    }

    /// Family, table, chain and number in words.
    pub fn place(&self) -> String {
        let index = match self.index {
            0 => "policy".to_owned(),
            index => index.to_string(),
        };
        format!("{} {} {} {index}", self.family, self.table, self.chain)
    }
}
