//! A policy as the lists that packets meet where they are received and where they are sent, and
//! these as files.
//!
//! In: a policy. Out: the files of the other language, without a head. IPFilter and ipfw judge at
//! the interfaces: what iptables has for the host's own packets (INPUT, OUTPUT) becomes the list of
//! a direction, and FORWARD has to come to the same as both; the proof says whether it does.

use super::address::{Named, network, networks};
use super::clause::{Clause, Scope};
use super::culprit::Culprit;
use super::file_flat::{Spelled, both, other};
use super::file_iptables::Table as Filter;
use super::first::{FirstMatch, Trouble};
use super::flat::{Does, Flat, Forms, Item, Words, tidied};
use super::remarks::Remarks;
use super::words_ipf::Ipf;
use super::words_ipfw::Ipfw;
use super::{Kind, Language, Lists, Options, Source, Written, file_ipf, file_ipfw};
use crate::model::{Chain, Family, Flow, Hook, Policy, Rule, Table, Verdict};
use crate::syntax::Diagnostic;
use std::fmt::Write;

/// The files of a policy.
pub fn files(
    work: &Policy,
    source: Source<'_>,
    to: Language,
    options: &Options,
) -> Result<Vec<Written>, Trouble> {
    let mut first = FirstMatch::new(work);
    let mut lists = Vec::new();
    for &family in &options.families {
        lists.push((
            family,
            of_family(work, source.language, family, &mut first)?,
        ));
    }
    let mut chains = std::mem::take(&mut first.chains);
    if source.language == Language::Ipfw {
        chains.iter_mut().for_each(readable_only);
    }
    let making = Making {
        chains: &chains,
        work,
        from: source.language,
        options,
    };
    let mut remarks = Remarks::new(source.sources);
    Ok(match to {
        Language::Iptables => making.iptables(&lists, &mut remarks)?,
        Language::Ipfw => making.ipfw(&lists, &mut remarks)?,
        Language::Ipf => making.ipf(&lists, &mut remarks)?,
    })
}

/// Leaves out what ipfw does before its rules with what it can't read: those packets are left out
/// of the comparison.
fn readable_only(chain: &mut Chain) {
    let mut removed = 0u32;
    while chain
        .rules
        .first()
        .is_some_and(|rule| rule.index == Rule::HIDDEN && rule.flow == Flow::Verdict(Verdict::Drop))
    {
        chain.rules.remove(0);
        removed += 1;
    }
    for rule in &mut chain.rules {
        if let Flow::Skip(to) = &mut rule.flow {
            *to = to.saturating_sub(removed);
        }
    }
}

fn of_family(
    policy: &Policy,
    language: Language,
    family: Family,
    first: &mut FirstMatch<'_>,
) -> Result<Lists, Trouble> {
    let root = |hook, table| policy.root(family, hook, table).map(|root| root.chain);
    let (input, output) = match language {
        Language::Iptables => {
            for one in policy.roots.iter().filter(|root| root.family == family) {
                let rules = &policy.chain(one.chain).rules;
                if let (true, Some(rule)) = (one.table != Table::Filter, rules.first()) {
                    let what = format!("a rule of the table {:?}", one.table).to_lowercase();
                    let help = "only the filter table has a counterpart: take the others out";
                    return Err(Box::new((rule.clone(), Culprit::new(&[], what, help))));
                }
            }
            (
                root(Hook::Input, Table::Filter),
                root(Hook::Output, Table::Filter),
            )
        }
        _ => (
            root(Hook::Prerouting, Table::Filter),
            root(Hook::Output, Table::Filter),
        ),
    };
    let mut made = |id: Option<_>| id.map(|id| first.root(id)).transpose();
    let input = made(input)?;
    let output = made(output)?;
    let open = |id: &crate::model::ChainId| {
        let chain = first.chains.get(id.0 as usize);
        chain.is_some_and(|chain| {
            chain.rules.is_empty()
                && chain
                    .policy
                    .is_some_and(|end| end.verdict == Verdict::Accept)
        })
    };
    Ok(Lists {
        input: input.filter(|id| !open(id)),
        output: output.filter(|id| !open(id)),
    })
}

/// What is told of rules that are left out because nothing depends on them.
pub fn remarks(source: Source<'_>, _options: &Options) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let accounts = |root: &&crate::model::Root| {
        source.language == Language::Ipf
            && (root.table == Table::Mangle || root.hook == Hook::Postrouting)
    };
    let mut told = Vec::new();
    for root in source.policy.roots.iter().filter(accounts) {
        for rule in &source.policy.chain(root.chain).rules {
            if told.contains(&rule.id) || rule.index == Rule::HIDDEN {
                continue;
            }
            told.push(rule.id);
            let span = super::span_of(rule.origin, &["count"], source.sources);
            let message = "a rule that only counts is left out: it decides nothing";
            let warning = Diagnostic::warning("count", span, message);
            out.push(warning.help("every rule of the result has a counter of its own"));
        }
    }
    out
}

struct Making<'p> {
    chains: &'p [Chain],
    work: &'p Policy,
    from: Language,
    options: &'p Options,
}

impl<'p> Making<'p> {
    fn scope(&self, family: Family, received: bool, leaving: bool) -> Scope<'p> {
        Scope {
            family,
            received,
            leaving,
            sets: &self.work.sets,
            first: self.options.tracked && self.from == Language::Iptables,
        }
    }

    /// Whether the source has rules for a family.
    fn speaks(&self, family: Family) -> bool {
        self.work.roots.iter().any(|root| root.family == family)
    }

    fn iptables(
        &self,
        lists: &[(Family, Lists)],
        remarks: &mut Remarks<'p>,
    ) -> Result<Vec<Written>, Trouble> {
        let mut sets = Named::default();
        let mut out = Vec::new();
        for (family, lists) in lists {
            let table = Filter {
                chains: self.chains,
                sets: &self.work.sets,
                lists: *lists,
                family: *family,
            };
            let text = table.text(&mut sets, remarks, self.options)?;
            out.push(Written {
                kind: Kind::Rules(Some(*family)),
                text,
            });
        }
        if !sets.sets.is_empty() {
            out.push(Written {
                kind: Kind::Sets,
                text: ipset(&sets),
            });
        }
        Ok(out)
    }

    /// A list in the words of a language, with its policy; labels are counted on.
    fn items(
        &self,
        words: &mut impl Words,
        scope: Scope<'p>,
        list: Option<crate::model::ChainId>,
        remarks: &mut Remarks<'p>,
        labels: &mut usize,
    ) -> Result<Vec<Item>, Trouble> {
        let nobody = |culprit| Box::new((nobodys_rule(), culprit));
        let Forms { lines, .. } = words.forms(&Clause::every()).map_err(nobody)?;
        let every = lines.into_iter().next().unwrap_or_default();
        let policy = list.and_then(|id| self.chains[id.0 as usize].policy);
        let verdict = policy.map_or(Verdict::Accept, |end| end.verdict);
        let mut flat = Flat {
            words,
            chains: self.chains,
            scope,
            remarks,
            items: Vec::new(),
            labels: *labels,
        };
        if let Some(list) = list {
            flat.root(list)?;
        }
        let mut items = flat.items;
        *labels = flat.labels;
        items.push(Item::Rule(every.clone(), Does::Decide(verdict, None)));
        Ok(tidied(items, &every))
    }

    fn ipfw(
        &self,
        lists: &[(Family, Lists)],
        remarks: &mut Remarks<'p>,
    ) -> Result<Vec<Written>, Trouble> {
        let mut tables = Named::default();
        let mut labels = 0;
        // One list for both passes where the source has one.
        let one = lists.iter().all(|(_, lists)| lists.input == lists.output);
        let passes: &[Option<bool>] = if one {
            &[None]
        } else {
            &[Some(true), Some(false)]
        };
        let mut items = Vec::new();
        if let [(family, _)] = lists {
            let left = other(*family);
            items.extend(left_out(left, self.speaks(left), |six| {
                let word = if six { "ip6" } else { "ip4" };
                format!("{word} from any to any")
            }));
        }
        for &pass in passes {
            let mut spelled = Vec::new();
            for (family, lists) in lists {
                let (list, scope) = self.pass(*family, lists, pass);
                let mut made = [Vec::new(), Vec::new()];
                for (told, items) in made.iter_mut().enumerate() {
                    remarks.again();
                    let mut words = Ipfw {
                        tables: &mut tables,
                        family: *family,
                        pass,
                        family_word: told == 1,
                    };
                    *items = self.items(&mut words, scope, list, remarks, &mut labels)?;
                }
                let [plain, told] = made;
                spelled.push(Spelled { plain, told });
            }
            let word = match pass {
                None => "",
                Some(true) => " in",
                Some(false) => " out",
            };
            labels += 1;
            items.extend(joined(
                &spelled,
                &format!("ip6 from any to any{word}"),
                labels,
            ));
        }
        let text = file_ipfw::text(&items, &tables, self.options.tracked)
            .map_err(|culprit| Box::new((nobodys_rule(), culprit)))?;
        Ok(vec![Written {
            kind: Kind::Rules(None),
            text,
        }])
    }

    /// The list of a pass, and what is known there.
    fn pass(
        &self,
        family: Family,
        lists: &Lists,
        pass: Option<bool>,
    ) -> (Option<crate::model::ChainId>, Scope<'p>) {
        match pass {
            Some(false) => {
                // A packet that is sent by the host was received nowhere.
                let received = self.from != Language::Iptables;
                (lists.output, self.scope(family, received, true))
            }
            _ => (lists.input, self.scope(family, true, pass.is_none())),
        }
    }

    fn ipf(
        &self,
        lists: &[(Family, Lists)],
        remarks: &mut Remarks<'p>,
    ) -> Result<Vec<Written>, Trouble> {
        let mut pools = Named::default();
        let (mut labels, mut text) = (0, String::new());
        for is_in in [true, false] {
            let mut items = Vec::new();
            if let [(family, _)] = lists {
                let left = other(*family);
                items.extend(left_out(left, self.speaks(left), |six| {
                    let word = if six { "inet6" } else { "inet" };
                    format!("family {word} from any to any")
                }));
            }
            let mut spelled = Vec::new();
            for (family, lists) in lists {
                let (list, scope) = self.pass(*family, lists, Some(is_in));
                let mut made = [Vec::new(), Vec::new()];
                for (told, items) in made.iter_mut().enumerate() {
                    remarks.again();
                    let mut words = Ipf {
                        pools: &mut pools,
                        family: *family,
                        is_in,
                        family_word: told == 1,
                    };
                    *items = self.items(&mut words, scope, list, remarks, &mut labels)?;
                }
                let [plain, told] = made;
                spelled.push(Spelled { plain, told });
            }
            labels += 1;
            items.extend(joined(&spelled, "family inet6 from any to any", labels));
            text += &file_ipf::text(&items, is_in, self.options.tracked);
        }
        let mut out = vec![Written {
            kind: Kind::Rules(None),
            text,
        }];
        if !pools.sets.is_empty() {
            out.push(Written {
                kind: Kind::Pools,
                text: file_ipf::pools(&pools),
            });
        }
        Ok(out)
    }
}

/// The lists of one or two families as one.
fn joined(spelled: &[Spelled], every_six: &str, label: usize) -> Vec<Item> {
    match spelled {
        [four, six] => both(four, six, every_six, label),
        [one] => one.plain.clone(),
        _ => Vec::new(),
    }
}

/// What a family meets that is not converted.
fn left_out(family: Family, speaks: bool, words: impl Fn(bool) -> String) -> Vec<Item> {
    let name = if family == Family::V6 { "IPv6" } else { "IPv4" };
    let (comment, verdict) = match speaks {
        false => (
            "the source has no rules for it, so it passes as before",
            Verdict::Accept,
        ),
        true => (
            "left out by --family; it is refused until its rules are here",
            Verdict::Drop,
        ),
    };
    vec![
        Item::Comment(format!("{name}: {comment}")),
        Item::Rule(words(family == Family::V6), Does::Decide(verdict, None)),
    ]
}

/// What belongs to no rule of the text.
fn nobodys_rule() -> Rule {
    Rule {
        id: crate::model::RuleId(u32::MAX),
        origin: crate::model::Origin {
            source: crate::model::SourceId(0),
            line: 1,
            column: 1,
        },
        index: Rule::HIDDEN,
        tests: Vec::new(),
        ops: Vec::new(),
        flow: Flow::Next,
        preset: crate::model::Counters::default(),
    }
}

/// Sets as `ipset save` prints them.
fn ipset(sets: &Named) -> String {
    let mut out = String::new();
    for (name, family, set) in &sets.sets {
        let word = if *family == Family::V4 {
            "inet"
        } else {
            "inet6"
        };
        let mut list = networks(*family, set);
        // A network of length 0 is none to hash:net.
        if list == [(0, 0)] {
            let width = super::address::width(*family);
            list = vec![(0, 1), (1u128 << (width - 1), 1)];
        }
        let most = list.len().next_power_of_two().max(65_536);
        let _ = writeln!(
            out,
            "create {name} hash:net family {word} hashsize 1024 maxelem {most}"
        );
        for one in list {
            let _ = writeln!(out, "add {name} {}", network(*family, one));
        }
    }
    out
}
