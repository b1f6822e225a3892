//! Chains as one list that packets go through forward, for languages without chains.
//!
//! In: first-match chains, and how the language words a clause. Out: comments, rules and labels in
//! order; a chain stands where it is called from, and who doesn't go into it skips it. Short chains
//! get the conditions of their call in each rule instead, which reads better.

use super::clause::{Clause, Scope, alternatives};
use super::culprit::{Culprit, of_condition, of_operation};
use super::first::Trouble;
use super::remarks::Remarks;
use crate::model::{Chain, ChainId, Cond, Flow, LogOp, Op, Rule, Test, Verdict};

/// Rules that a list may come to.
const RULES_MAX: usize = 60_000;
/// Rules of a chain that get the conditions of their call.
const SHORT: usize = 4;

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Does {
    /// Decides, perhaps with a record.
    Decide(Verdict, Option<LogOp>),
    /// Makes a record.
    Log(LogOp),
    /// Counts.
    Count,
    /// Goes to a label.
    Skip(usize),
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Said of what follows.
    Comment(String),
    /// A rule: its conditions in the words of the language.
    Rule(String, Does),
    /// A place that rules go to.
    Label(usize),
}

/// How a clause is said: no guard may match, and one of the lines must.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forms {
    /// What takes packets out.
    pub guards: Vec<String>,
    /// What matches; no packet matches two of them.
    pub lines: Vec<String>,
}

/// A language's words.
pub trait Words {
    /// A clause.
    fn forms(&mut self, clause: &Clause) -> Result<Forms, Culprit>;
    /// Whether a verdict can be said.
    fn can_decide(&self, verdict: Verdict) -> Result<(), Culprit>;
}

/// A list that is being made.
pub struct Flat<'a, 'p, W> {
    /// The words.
    pub words: &'a mut W,
    /// All chains.
    pub chains: &'p [Chain],
    /// Where it is asked.
    pub scope: Scope<'p>,
    /// Comments.
    pub remarks: &'a mut Remarks<'p>,
    /// What has come of it.
    pub items: Vec<Item>,
    /// Labels in use.
    pub labels: usize,
}

/// Where a chain ends.
#[derive(Clone, Copy)]
struct Ends {
    /// Where packets go on that go back to the caller.
    back: usize,
}

impl<W: Words> Flat<'_, '_, W> {
    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    /// The list of a root, with its policy as the last rule.
    pub fn root(&mut self, id: ChainId) -> Result<(), Trouble> {
        let back = self.label();
        self.chain(id, &[], Ends { back })?;
        self.items.push(Item::Label(back));
        Ok(())
    }

    fn chain(&mut self, id: ChainId, prefix: &[Test], ends: Ends) -> Result<(), Trouble> {
        let chains = self.chains;
        let rules = &chains[id.0 as usize].rules;
        let mut labels = vec![None; rules.len() + 1];
        for rule in rules {
            if let Flow::Skip(to) = rule.flow {
                let to = (to as usize).min(rules.len());
                if labels[to].is_none() {
                    labels[to] = Some(self.label());
                }
            }
        }
        for (rule, label) in rules.iter().zip(&labels) {
            self.items.extend(label.map(Item::Label));
            let to = match rule.flow {
                Flow::Skip(to) => labels[(to as usize).min(rules.len())].unwrap_or(ends.back),
                _ => ends.back,
            };
            self.rule(rule, prefix, to, ends).map_err(|why| match why {
                Stop::Here(culprit) => Box::new((rule.clone(), culprit)),
                Stop::There(trouble) => trouble,
            })?;
            if self.items.len() > RULES_MAX {
                let help = "call each chain from one place, or put conditions into sets";
                let culprit =
                    Culprit::new(&[], format!("a list of more than {RULES_MAX} rules"), help);
                return Err(Box::new((rule.clone(), culprit)));
            }
        }
        self.items.extend(labels[rules.len()].map(Item::Label));
        Ok(())
    }

    fn rule(&mut self, rule: &Rule, prefix: &[Test], to: usize, ends: Ends) -> Result<(), Stop> {
        let tests: Vec<Test> = prefix.iter().chain(&rule.tests).cloned().collect();
        let mut log = None;
        for op in &rule.ops {
            match op {
                Op::Log(record) => log = Some(record.clone()),
                other => return Err(Stop::Here(of_operation(other))),
            }
        }
        let calls = matches!(rule.flow, Flow::Jump(_) | Flow::Goto(_));
        if let (true, Some(log)) = (calls || matches!(rule.flow, Flow::Skip(_)), log.clone()) {
            self.says(rule, &tests, Does::Log(log))?;
        }
        let does = match rule.flow {
            Flow::Verdict(verdict) => {
                self.words.can_decide(verdict)?;
                Does::Decide(verdict, log)
            }
            Flow::Skip(_) | Flow::Return => Does::Skip(to),
            Flow::Next => match log {
                Some(log) => Does::Log(log),
                None => Does::Count,
            },
            Flow::Jump(target) => return self.call(rule, &tests, target, None),
            Flow::Goto(target) => return self.call(rule, &tests, target, Some(ends.back)),
            Flow::AsLearned => return Err(Stop::Here(of_condition(&Cond::Learned))),
            Flow::Propose(_) | Flow::Head { .. } | Flow::Refuse | Flow::Withdraw => {
                return Err(Stop::Here(Culprit::of_the_list()));
            }
        };
        self.says(rule, &tests, does)
    }

    /// A chain in the place of its call. Who comes back goes on behind it, or at `back`.
    fn call(
        &mut self,
        rule: &Rule,
        tests: &[Test],
        target: ChainId,
        back: Option<usize>,
    ) -> Result<(), Stop> {
        let found = alternatives(tests, &self.scope)?;
        if found.clauses.is_empty() {
            return Ok(());
        }
        self.remark(rule);
        let members = &self.chains[target.0 as usize].rules;
        let after = self.label();
        let ends = Ends {
            back: back.unwrap_or(after),
        };
        let short = members.len() <= SHORT && found.clauses.len() == 1;
        if found.clauses == [Clause::every()] || short && back.is_none() {
            self.chain(target, tests, ends)?;
        } else {
            let body = self.label();
            self.says(rule, tests, Does::Skip(body))?;
            self.always(Does::Skip(after))?;
            self.items.push(Item::Label(body));
            self.chain(target, &[], ends)?;
        }
        if let Some(back) = back {
            // Who is through goes back; only who didn't come goes on.
            match found.clauses == [Clause::every()] {
                true => self.always(Does::Skip(back))?,
                false => {
                    self.always(Does::Skip(back))?;
                }
            }
        }
        self.items.push(Item::Label(after));
        Ok(())
    }

    fn always(&mut self, does: Does) -> Result<(), Stop> {
        let forms = self.words.forms(&Clause::every())?;
        let lines = forms.lines.into_iter();
        self.items
            .extend(lines.map(|line| Item::Rule(line, does.clone())));
        Ok(())
    }

    fn remark(&mut self, rule: &Rule) {
        if rule.index != Rule::HIDDEN {
            let lines = self.remarks.of(rule.origin);
            self.items.extend(lines.into_iter().map(Item::Comment));
        }
    }

    /// A rule that does something without a chain.
    fn says(&mut self, rule: &Rule, tests: &[Test], does: Does) -> Result<(), Stop> {
        let found = alternatives(tests, &self.scope)?;
        if found.clauses.is_empty() {
            return Ok(());
        }
        self.remark(rule);
        let goes_on = matches!(does, Does::Log(_) | Does::Count);
        if goes_on && !found.disjoint {
            // Each packet once: alternatives lead to one rule.
            let (body, after) = (self.label(), self.label());
            for clause in &found.clauses {
                self.clause(clause, &Does::Skip(body))?;
            }
            self.always(Does::Skip(after))?;
            self.items.push(Item::Label(body));
            self.always(does)?;
            self.items.push(Item::Label(after));
            return Ok(());
        }
        for clause in &found.clauses {
            self.clause(clause, &does)?;
        }
        Ok(())
    }

    fn clause(&mut self, clause: &Clause, does: &Does) -> Result<(), Stop> {
        let forms = self.words.forms(clause)?;
        let after = (!forms.guards.is_empty()).then(|| self.label());
        if let Some(after) = after {
            let guards = forms.guards.into_iter();
            let skip = |guard| Item::Rule(guard, Does::Skip(after));
            self.items.extend(guards.map(skip));
        }
        let lines = forms.lines.into_iter();
        self.items
            .extend(lines.map(|line| Item::Rule(line, does.clone())));
        self.items.extend(after.map(Item::Label));
        Ok(())
    }
}

/// Why a rule wasn't said.
enum Stop {
    Here(Culprit),
    There(Trouble),
}

impl From<Culprit> for Stop {
    fn from(culprit: Culprit) -> Self {
        Stop::Here(culprit)
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Stop::There(trouble)
    }
}

/// Takes out labels that nothing goes to, skips to where one comes anyway, and what stands behind
/// a decision about every packet (`every` is how that is said).
pub fn tidied(mut items: Vec<Item>, every: &str) -> Vec<Item> {
    loop {
        let before = items.len();
        let used: Vec<usize> = items
            .iter()
            .filter_map(|item| match item {
                Item::Rule(_, Does::Skip(label)) => Some(*label),
                _ => None,
            })
            .collect();
        items.retain(|item| !matches!(item, Item::Label(label) if !used.contains(label)));
        let mut kept: Vec<Item> = Vec::with_capacity(items.len());
        let mut dead = false;
        for (at, item) in items.iter().enumerate() {
            if matches!(item, Item::Label(_)) {
                dead = false;
            }
            let useless = match item {
                Item::Rule(_, Does::Skip(label)) => leads_there(&items[at + 1..], *label),
                _ => false,
            };
            if dead && !matches!(item, Item::Label(_)) || useless {
                continue;
            }
            if let Item::Rule(line, Does::Decide(..) | Does::Skip(_)) = item {
                dead |= line == every;
            }
            kept.push(item.clone());
        }
        items = kept;
        if items.len() == before {
            return items;
        }
    }
}

/// Whether a label comes next.
fn leads_there(rest: &[Item], label: usize) -> bool {
    rest.iter()
        .take_while(|item| !matches!(item, Item::Rule(..)))
        .any(|item| *item == Item::Label(label))
}
