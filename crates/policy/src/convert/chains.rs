//! First-match chains as chains of iptables.
//!
//! In: a chain of the model. Out: user chains with their rules. A jump stays a jump and a goto a
//! goto; where rules are skipped, the chain is cut at the place they lead to, and they go to that
//! part (`-g`), which goes back to where the whole chain would. What `accept` becomes is given:
//! the end, back to the caller, or on into another chain.

use super::clause::{Scope, alternatives};
use super::culprit::{Culprit, of_answer, of_condition, of_operation};
use super::first::Trouble;
use super::flat::Forms;
use super::remarks::Remarks;
use super::words_iptables::Iptables;
use crate::dialect::iptables::names::small;
use crate::model::{Chain, ChainId, Cond, Family, Flow, LogOp, Op, RejectKind, Rule, Verdict};
use std::collections::HashMap;

/// The longest name of a chain (XT_FUNCTION_MAXNAMELEN, as iptables checks it).
const NAME_MAX: usize = 28;
const RULES_MAX: usize = 200_000;

/// What an accepted packet meets next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Accept {
    /// Nothing.
    Final,
    /// The rule behind the call of the list.
    Back,
    /// Another chain.
    Into(String),
}

/// What becomes of packets at the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// They go back to the caller, or meet the policy.
    Back,
    /// This.
    Verdict(Verdict),
}

/// Why a list wasn't made.
pub enum Stop {
    /// A rule can't be said.
    Trouble(Trouble),
    /// Something is accepted where going back leads elsewhere.
    NeedsCopy,
}

/// A chain with its rules, without `-A`.
pub struct Made {
    /// Name.
    pub name: String,
    /// Comments begin with `#`.
    pub lines: Vec<String>,
}

enum Act {
    Words(String),
    Goto(usize),
}

enum Item {
    Comment(String),
    Line(String, Act),
    Label(usize, String),
}

/// Where a chain stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    end: End,
    /// Calls that it comes back from.
    called: bool,
}

/// Chains that are being made.
pub struct Chains<'a, 'p> {
    /// The words.
    pub words: Iptables<'a>,
    /// All chains of the model.
    pub chains: &'p [Chain],
    /// Comments.
    pub remarks: &'a mut Remarks<'p>,
    /// What has come of it.
    pub made: Vec<Made>,
    names: Vec<String>,
    known: HashMap<(ChainId, Place, Accept, bool, bool), String>,
    labels: usize,
    rules: usize,
}

struct List<'p> {
    scope: Scope<'p>,
    accept: Accept,
    place: Place,
    items: Vec<Item>,
}

impl<'a, 'p> Chains<'a, 'p> {
    /// Nothing yet.
    pub fn new(words: Iptables<'a>, chains: &'p [Chain], remarks: &'a mut Remarks<'p>) -> Self {
        Chains {
            words,
            chains,
            remarks,
            made: Vec::new(),
            names: ["INPUT", "FORWARD", "OUTPUT"].map(str::to_owned).to_vec(),
            known: HashMap::new(),
            labels: 0,
            rules: 0,
        }
    }

    /// A name that no chain has.
    pub fn free_name(&mut self, wanted: &str) -> String {
        let usual = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        };
        let mut base: String = wanted.chars().map(usual).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base.insert_str(0, "group-");
        }
        base.truncate(NAME_MAX - 5);
        let targets = ["ACCEPT", "DROP", "RETURN", "QUEUE", "REJECT", "LOG"];
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let free = |name: &String| !self.names.contains(name) && !targets.contains(&name.as_str());
        let name = names.find(free).unwrap_or(base.clone());
        self.names.push(name.clone());
        name
    }

    /// A list as the rules of a built-in chain, whose policy is its own.
    pub fn built_in(
        &mut self,
        hook: &str,
        id: ChainId,
        scope: Scope<'p>,
        accept: Accept,
    ) -> Result<(), Stop> {
        let place = Place {
            end: End::Back,
            called: false,
        };
        self.write(hook.to_owned(), id, scope, accept, place)
    }

    /// A list as a user chain; its name.
    pub fn user(
        &mut self,
        name: &str,
        id: ChainId,
        scope: Scope<'p>,
        accept: Accept,
        end: End,
    ) -> Result<String, Stop> {
        let name = self.free_name(name);
        let place = Place { end, called: false };
        self.write(name.clone(), id, scope, accept, place)?;
        Ok(name)
    }

    /// A chain that a rule leads to.
    fn target(&mut self, id: ChainId, list: &List<'p>, place: Place) -> Result<String, Stop> {
        let key = (
            id,
            place,
            list.accept.clone(),
            list.scope.received,
            list.scope.leaving,
        );
        if let Some(name) = self.known.get(&key) {
            return Ok(name.clone());
        }
        let name = self.free_name(&self.chains[id.0 as usize].name.clone());
        self.known.insert(key, name.clone());
        self.write(name.clone(), id, list.scope, list.accept.clone(), place)?;
        Ok(name)
    }

    fn write(
        &mut self,
        name: String,
        id: ChainId,
        scope: Scope<'p>,
        accept: Accept,
        place: Place,
    ) -> Result<(), Stop> {
        let chain = &self.chains[id.0 as usize];
        let mut list = List {
            scope,
            accept,
            place,
            items: Vec::new(),
        };
        let mut labels: Vec<Option<usize>> = vec![None; chain.rules.len() + 1];
        for rule in &chain.rules {
            if let Flow::Skip(to) = rule.flow {
                let to = (to as usize).min(chain.rules.len());
                if to < chain.rules.len() && labels[to].is_none() {
                    labels[to] = Some(self.label());
                }
            }
        }
        // Its own place in the file is in front of the chains that it leads to.
        let at = self.made.len();
        self.made.push(Made {
            name: name.clone(),
            lines: Vec::new(),
        });
        for (rule, label) in chain.rules.iter().zip(&labels) {
            if let Some(label) = label {
                list.items.push(Item::Label(*label, rule.index.to_string()));
            }
            let skip = match rule.flow {
                Flow::Skip(to) => labels[(to as usize).min(chain.rules.len())],
                _ => None,
            };
            self.rule(rule, skip, &mut list).map_err(|why| match why {
                Why::Here(culprit) => Stop::Trouble(Box::new((rule.clone(), culprit))),
                Why::There(stop) => stop,
            })?;
        }
        if let End::Verdict(verdict) = place.end {
            let words = self.verdict(verdict, &list).map_err(|why| match why {
                Why::Here(_) => Stop::NeedsCopy,
                Why::There(stop) => stop,
            })?;
            list.items
                .push(Item::Line(String::new(), Act::Words(words)));
        }
        self.cut(at, &name, list.items);
        Ok(())
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    /// Cuts a list at its labels; parts go into chains of their own.
    fn cut(&mut self, at: usize, name: &str, items: Vec<Item>) {
        let used: Vec<usize> = items
            .iter()
            .filter_map(|item| match item {
                Item::Line(_, Act::Goto(label)) => Some(*label),
                _ => None,
            })
            .collect();
        let mut parts: HashMap<usize, String> = HashMap::new();
        for item in &items {
            if let Item::Label(label, hint) = item
                && used.contains(label)
            {
                let part = self.free_name(&format!("{name}-{hint}"));
                parts.insert(*label, part);
            }
        }
        let mut current = at;
        let mut comments: Vec<String> = Vec::new();
        let mut ended = false;
        for item in items {
            match item {
                Item::Comment(text) => comments.push(format!("# {text}")),
                Item::Label(label, _) => {
                    let Some(part) = parts.get(&label) else {
                        continue;
                    };
                    if !ended {
                        self.made[current].lines.push(format!("-g {part}"));
                    }
                    self.made.push(Made {
                        name: part.clone(),
                        lines: Vec::new(),
                    });
                    (current, ended) = (self.made.len() - 1, false);
                }
                // Nothing comes behind a decision about every packet.
                Item::Line(..) if ended => comments.clear(),
                Item::Line(matches, act) => {
                    let act = match act {
                        Act::Words(words) => words,
                        Act::Goto(label) => match parts.get(&label) {
                            Some(part) => format!("-g {part}"),
                            None => "-j RETURN".to_owned(),
                        },
                    };
                    let returns = ["-g", "-j ACCEPT", "-j DROP", "-j REJECT", "-j RETURN"];
                    ended = matches.is_empty() && returns.iter().any(|word| act.starts_with(word));
                    let lines = &mut self.made[current].lines;
                    lines.append(&mut comments);
                    lines.push([matches, act].join(" ").trim().to_owned());
                }
            }
        }
        self.rules += self.made[current].lines.len();
    }

    fn verdict(&self, verdict: Verdict, list: &List<'_>) -> Result<String, Why> {
        Ok(match verdict {
            Verdict::Drop => "-j DROP".to_owned(),
            Verdict::Reject(kind) => format!(
                "-j REJECT --reject-with {}",
                answer(kind, list.scope.family)?
            ),
            Verdict::Accept => match &list.accept {
                Accept::Final => "-j ACCEPT".to_owned(),
                Accept::Into(chain) => format!("-g {chain}"),
                Accept::Back if list.place.called => return Err(Why::There(Stop::NeedsCopy)),
                Accept::Back => "-j RETURN".to_owned(),
            },
        })
    }

    fn end(&self, list: &List<'_>) -> Result<String, Why> {
        match list.place.end {
            End::Back => Ok("-j RETURN".to_owned()),
            End::Verdict(verdict) => self.verdict(verdict, list),
        }
    }

    fn rule(&mut self, rule: &Rule, skip: Option<usize>, list: &mut List<'p>) -> Result<(), Why> {
        let found = alternatives(&rule.tests, &list.scope)?;
        if found.clauses.is_empty() {
            return Ok(());
        }
        let mut logs = Vec::new();
        for op in &rule.ops {
            match op {
                Op::Log(record) => logs.push(log(record)?),
                other => return Err(of_operation(other).into()),
            }
        }
        let called = Place {
            end: End::Back,
            called: true,
        };
        let (act, stays) = match rule.flow {
            Flow::Verdict(verdict) => (Act::Words(self.verdict(verdict, list)?), false),
            Flow::Return => (Act::Words(self.end(list)?), false),
            Flow::Skip(_) => match skip {
                Some(label) => (Act::Goto(label), false),
                None => (Act::Words(self.end(list)?), false),
            },
            Flow::Jump(target) => {
                let name = self.target(target, list, called).map_err(Why::There)?;
                (Act::Words(format!("-j {name}")), true)
            }
            Flow::Goto(target) => {
                let name = self.target(target, list, list.place).map_err(Why::There)?;
                (Act::Words(format!("-g {name}")), false)
            }
            Flow::Next => (Act::Words(logs.pop().unwrap_or_default()), true),
            Flow::AsLearned => return Err(of_condition(&Cond::Learned).into()),
            _ => return Err(Culprit::of_the_list().into()),
        };
        let mut forms = Forms::default();
        for clause in &found.clauses {
            let made = self.words.forms(clause)?;
            if !made.guards.is_empty() && found.clauses.len() > 1 {
                return Err(Culprit::new(
                    &["{", "not"],
                    "alternatives with such negations",
                    "split the rule",
                )
                .into());
            }
            forms.guards.extend(made.guards);
            forms.lines.extend(made.lines);
        }
        if rule.index != Rule::HIDDEN {
            let remarks = self.remarks.of(rule.origin);
            list.items.extend(remarks.into_iter().map(Item::Comment));
        }
        let apart = stays && !found.disjoint || !logs.is_empty() && forms.lines.len() > 1;
        self.said(rule, forms, (logs, act), apart, list);
        match self.rules < RULES_MAX {
            true => Ok(()),
            false => Err(Culprit::new(&[], "so long a list", "put addresses into sets").into()),
        }
    }

    /// The lines of a rule. `apart`: what it does stands once, in a part that its lines go to.
    fn said(
        &mut self,
        rule: &Rule,
        forms: Forms,
        (logs, act): (Vec<String>, Act),
        apart: bool,
        list: &mut List<'p>,
    ) {
        let (body, rest) = (self.label(), self.label());
        let items = &mut list.items;
        for guard in forms.guards {
            items.push(Item::Line(guard, Act::Goto(rest)));
        }
        if apart {
            for line in forms.lines {
                items.push(Item::Line(line, Act::Goto(body)));
            }
            items.push(Item::Line(String::new(), Act::Goto(rest)));
            items.push(Item::Label(body, format!("{}-does", rule.index)));
            items.extend(
                logs.into_iter()
                    .map(|log| Item::Line(String::new(), Act::Words(log))),
            );
            items.push(Item::Line(String::new(), act));
        } else {
            for line in forms.lines {
                for log in &logs {
                    items.push(Item::Line(line.clone(), Act::Words(log.clone())));
                }
                let act = match &act {
                    Act::Words(words) => Act::Words(words.clone()),
                    Act::Goto(label) => Act::Goto(*label),
                };
                items.push(Item::Line(line, act));
            }
        }
        items.push(Item::Label(rest, format!("{}-on", rule.index)));
    }
}

enum Why {
    Here(Culprit),
    There(Stop),
}

impl From<Culprit> for Why {
    fn from(culprit: Culprit) -> Self {
        Why::Here(culprit)
    }
}

fn answer(kind: RejectKind, family: Family) -> Result<&'static str, Culprit> {
    let table = match family {
        Family::V4 => small::REJECT_V4,
        Family::V6 => small::REJECT_V6,
    };
    let code = match kind {
        RejectKind::TcpReset => None,
        RejectKind::Icmp(code) | RejectKind::Icmp6(code) => Some(code),
        RejectKind::IcmpAsDestination(_)
        | RejectKind::Icmp6AsDestination(_)
        | RejectKind::FragmentationNeeded(_) => {
            return Err(of_answer(kind));
        }
    };
    let row = table.iter().find(|row| row.2 == code);
    row.map(|row| row.0).ok_or_else(|| of_answer(kind))
}

fn log(record: &LogOp) -> Result<String, Culprit> {
    let mut out = "-j LOG".to_owned();
    if !record.prefix.is_empty() {
        let prefix = &record.prefix;
        if prefix.len() > 29 || prefix.contains(['"', '\\']) {
            return Err(of_operation(&Op::Log(record.clone())));
        }
        out += &format!(" --log-prefix \"{prefix}\"");
    }
    if record.level != 4 {
        out += &format!(" --log-level {}", record.level);
    }
    for (there, word) in [
        (record.tcp_sequence, "--log-tcp-sequence"),
        (record.tcp_options, "--log-tcp-options"),
        (record.ip_options, "--log-ip-options"),
        (record.uid, "--log-uid"),
    ] {
        if there {
            out += &format!(" {word}");
        }
    }
    Ok(out)
}
