//! Commands carried out on a rule set.
//!
//! In: a [`CommandLine`]. Out: what ipfw would print, and how it would end. A command either has
//! its whole effect or, when it ends in a fault before, none.

use super::super::ast::Rule;
use super::super::command::{
    Command, CommandLine, DummynetCommand, NatCommand, NumberRanges, PlacedRange, SetCommand,
    Setting, Switches, Zeroed,
};
use super::super::fault::{ExitClass, Fault};
use super::super::parse::Names;
use super::super::print;
use super::{DEFAULT_RULE, DEFAULT_SET, LoadedRule, Ruleset};
use crate::model::{Counters, RuleId};
use crate::syntax::Span;

/// What a command said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// On standard output.
    pub out: String,
    /// On standard error, one line each.
    pub err: Vec<String>,
    /// It had an effect, or said something, and ends with an error all the same.
    pub fault: Option<Fault>,
}

impl Answer {
    fn say(text: impl Into<String>) -> Self {
        Self {
            out: text.into(),
            ..Self::default()
        }
    }
}

impl Ruleset {
    /// Carries a command out.
    ///
    /// # Errors
    /// The fault with which ipfw would end; then nothing has changed.
    pub fn apply(&mut self, line: &CommandLine, names: &dyn Names) -> Result<Answer, Fault> {
        if line.switches.test && !matches!(line.command, Command::Add(_)) {
            return Ok(Answer::default());
        }
        let quiet = line.switches.quiet;
        match &line.command {
            Command::Nothing | Command::Internal(_) | Command::Module(_) => Ok(Answer::default()),
            Command::Add(rule) => self.add(rule, line.switches),
            Command::List {
                ranges,
                counters,
                set,
            } => {
                let counters = *counters || line.switches.counters;
                print::listing::list(
                    self,
                    ranges,
                    counters,
                    *set,
                    line.switches,
                    &self.states,
                    line.span,
                )
            }
            Command::Delete { sets, ranges, set } => {
                Ok(self.delete(*sets, ranges, *set, line.switches))
            }
            Command::Flush { set } => {
                match set {
                    None => self.remove(|rule| rule.set != DEFAULT_SET),
                    Some(set) => self.remove(|rule| rule.set == *set),
                };
                Ok(match quiet {
                    true => Answer::default(),
                    false => Answer::say("Flushed all rules.\n"),
                })
            }
            Command::Zero { which, log } => Ok(match which {
                Zeroed::Rules { numbers, set } => self.zero(numbers, *log, *set, quiet),
                Zeroed::Sets(sets) => {
                    let mut answer = Answer::default();
                    for set in sets {
                        answer = self.zero(&[], *log, Some(*set), quiet);
                    }
                    answer
                }
            }),
            Command::Sets(command) => Ok(self.sets(command)),
            Command::Table { name, command, .. } => {
                self.table_command(name.as_deref(), command, line.switches, line.span, names)
            }
            Command::Dummynet(command) => self.shape(command, line.span),
            Command::Nat(command) => self.translate(command, line.span),
            Command::Switch { setting, on } => {
                self.switch(*setting, *on);
                Ok(Answer::default())
            }
        }
    }

    fn add(&mut self, rule: &Rule, switches: Switches) -> Result<Answer, Fault> {
        let mut rule = rule.clone();
        let before = match rule.number {
            0 => DEFAULT_RULE,
            number => number + 1,
        };
        let at = self.position(before);
        if rule.number == 0 {
            let last = if at > 0 {
                self.rules[at - 1].rule.number
            } else {
                0
            };
            let step = self.settings.autoinc_step;
            rule.number = if last < DEFAULT_RULE - step {
                last + step
            } else {
                last
            };
        }
        let echo = match switches.quiet {
            true => String::new(),
            false => print::listing::line(&rule, None, self, switches, None) + "\n",
        };
        if switches.test {
            return Ok(Answer::say(echo));
        }
        self.make_tables_of(&rule)?;
        let id = RuleId(self.next_id);
        self.next_id += 1;
        self.rules.insert(
            at,
            LoadedRule {
                rule,
                id,
                counters: Counters::default(),
                last_match: None,
                logged: 0,
            },
        );
        Ok(Answer::say(echo))
    }

    /// Removes rules, never the default; how many went.
    fn remove(&mut self, which: impl Fn(&Rule) -> bool) -> usize {
        let before = self.rules.len();
        self.rules
            .retain(|one| one.rule.number == DEFAULT_RULE || !which(&one.rule));
        before - self.rules.len()
    }

    fn delete(
        &mut self,
        sets: bool,
        ranges: &NumberRanges,
        set: Option<u8>,
        switches: Switches,
    ) -> Answer {
        let mut answer = Answer::default();
        for &(first, last) in ranges {
            if sets {
                let wanted = (first & 31) as u8;
                self.remove(|rule| rule.set == wanted);
                continue;
            }
            let removed = self.remove(|rule| {
                (first..=last).contains(&rule.number) && set.is_none_or(|set| rule.set == set)
            });
            if removed == 0 && !switches.quiet {
                // Exit status 0 all the same: without a terminal ipfw counts as forced.
                answer.err.push(match first == last {
                    true => format!("rule {first} not found"),
                    false => format!("no rules in {first}-{last} range"),
                });
            }
        }
        answer
    }

    fn zero(&mut self, numbers: &[PlacedRange], log: bool, set: Option<u8>, quiet: bool) -> Answer {
        let mut answer = Answer::default();
        let clear = |one: &mut LoadedRule| {
            if !log {
                (one.counters, one.last_match) = (Counters::default(), None);
            }
            one.logged = 0;
        };
        let in_set = |rule: &Rule| set.is_none_or(|set| rule.set == set);
        if numbers.is_empty() {
            let all = self.rules.iter_mut();
            all.filter(|one| one.rule.number != DEFAULT_RULE && in_set(&one.rule))
                .for_each(clear);
            if !quiet {
                answer.out += match log {
                    true => "Logging counts reset.\n",
                    false => "Accounting cleared.\n",
                };
            }
            return answer;
        }
        for ((first, last), span) in numbers {
            let mut found = Vec::new();
            for one in &mut self.rules {
                if (*first..=*last).contains(&one.rule.number) && in_set(&one.rule) {
                    clear(one);
                    found.push(one.rule.number);
                }
            }
            if found.is_empty() {
                let message = match first == last {
                    true => format!("Entry {first} not found"),
                    false => format!("no rules in {first}-{last} range"),
                };
                answer.out += &format!("{message}\n");
                let fault = Fault::new(ExitClass::Unavailable, "no-rule", *span, message);
                answer.fault = Some(fault.help("see ipfw list"));
            }
            found.dedup();
            for number in found.iter().filter(|_| !quiet) {
                answer.out += &match log {
                    true => format!("Entry {number} logging count reset.\n"),
                    false => format!("Entry {number} cleared.\n"),
                };
            }
        }
        answer
    }

    fn sets(&mut self, command: &SetCommand) -> Answer {
        match command {
            SetCommand::Show => return Answer::say(print::listing::sets(self.disabled)),
            SetCommand::Switch { disable, enable } => {
                self.disabled = (self.disabled | disable) & !enable & !(1 << DEFAULT_SET);
            }
            SetCommand::Swap(a, b) => {
                for one in self
                    .rules
                    .iter_mut()
                    .filter(|o| o.rule.number != DEFAULT_RULE)
                {
                    if one.rule.set == *a {
                        one.rule.set = *b;
                    } else if one.rule.set == *b {
                        one.rule.set = *a;
                    }
                }
            }
            SetCommand::Move(from, to) => {
                for one in self
                    .rules
                    .iter_mut()
                    .filter(|o| o.rule.number != DEFAULT_RULE)
                {
                    if one.rule.set == *from {
                        one.rule.set = *to;
                    }
                }
            }
            SetCommand::MoveRule(number, to) => {
                for one in self.rules.iter_mut().filter(|o| o.rule.number == *number) {
                    one.rule.set = *to;
                }
            }
        }
        Answer::default()
    }

    fn shape(&mut self, command: &DummynetCommand, span: Span) -> Result<Answer, Fault> {
        match command {
            DummynetCommand::Config(config) => {
                let key = (config.kind, config.number);
                let merged = match self.dummynet.get(&key) {
                    Some(old) => print::dummynet::merged(old, config),
                    None => (**config).clone(),
                };
                self.dummynet.insert(key, merged);
                Ok(Answer::default())
            }
            DummynetCommand::List(kind, ranges) => {
                Ok(Answer::say(print::dummynet::list(self, *kind, ranges)))
            }
            DummynetCommand::Delete(kind, numbers) => {
                for number in numbers {
                    if self.dummynet.remove(&(*kind, *number)).is_none() {
                        let message = format!("{} {number} does not exist", kind.name());
                        let fault = Fault::new(ExitClass::Unavailable, "no-pipe", span, message);
                        return Err(fault.help("see ipfw pipe list"));
                    }
                }
                Ok(Answer::default())
            }
            DummynetCommand::Flush(_) => {
                self.dummynet.clear();
                Ok(Answer::default())
            }
        }
    }

    fn translate(&mut self, command: &NatCommand, span: Span) -> Result<Answer, Fault> {
        let line = |number: u32, words: &[String]| {
            let words: String = words.iter().map(|word| format!(" {word}")).collect();
            format!("ipfw nat {number} config{words}\n")
        };
        match command {
            NatCommand::Config(number, words) => {
                self.nats.insert(*number, words.clone());
                Ok(Answer::say(line(*number, words)))
            }
            NatCommand::Show(wanted) => {
                let all = self.nats.iter();
                let shown = all.filter(|(number, _)| wanted.is_none_or(|w| w == **number));
                Ok(Answer::say(
                    shown.map(|(n, w)| line(*n, w)).collect::<String>(),
                ))
            }
            NatCommand::ShowLog => Ok(Answer::default()),
            NatCommand::Delete(numbers) => {
                for number in numbers {
                    if self.nats.remove(number).is_none() {
                        let message = format!("nat {number} not available");
                        let fault = Fault::new(ExitClass::Unavailable, "no-nat", span, message);
                        return Err(fault.help("see ipfw nat show config"));
                    }
                }
                Ok(Answer::default())
            }
        }
    }

    fn switch(&mut self, setting: Setting, on: bool) {
        match setting {
            Setting::Firewall => self.settings.enable = on,
            Setting::OnePass => self.settings.one_pass = on,
            Setting::Verbose => self.settings.verbose = on,
            Setting::DynKeepalive => self.settings.dyn_keepalive = on,
            Setting::Altq | Setting::Debug | Setting::SkiptoCache => {}
        }
    }
}
