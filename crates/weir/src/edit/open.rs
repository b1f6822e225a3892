//! The policy in force as it is changed: image, texts, journal.
//!
//! In: a request. Out: what became of it. The steps of a change: find the rule in the texts, read
//! and lower the new one alone, write the journal, change the image, note it in the texts.

use super::document::Document;
use super::home::{Home, Locks, Place};
use super::lowered::{Command, SetNames, family, lowered, read};
use super::wire::Request;
use crate::exit::{Exit, OrExit};
use crate::input;
use crate::kernel::{Kernel, plane_error};
use crate::live::ipset::not_done;
use crate::live::sets::{Set, Sets};
use crate::live::tables::{Fault, rule_line};
use crate::live::{self, sets_of};
use crate::state::{ChainName, Journal, Step, Store};
use std::time::{Duration, Instant};
use weir_engine::compile::Options;
use weir_engine::history;
use weir_engine::update::{Change, Kept, Live};
use weir_plane::hooks;
use weir_plane::needs::Needs;
use weir_policy::dialect::ipset::ast::Member;
use weir_policy::dialect::iptables::ast::Placement;
use weir_policy::dialect::iptables::{Input, LowerOptions, lower};
use weir_policy::model::{NamedSet, Policy, Rule, RuleId, SetId};

/// Changes after which texts are written anew, also while more come.
const LINES_MAX: usize = 4096;
/// The same when nobody asks for a change.
const QUIET: Duration = Duration::from_secs(1);
/// Counters for new rules.
const COUNTERS: u32 = 4096;

/// A policy in force that has been taken up.
pub struct Open {
    kernel: Kernel,
    generation: u32,
    /// Hooks that are attached.
    hooks: u32,
    needs: Needs,
    kept: Kept<Home>,
    document: Document,
    journal: Journal,
    /// What a file of the sets is called, and the sets.
    sets: Sets,
    set_text: Option<String>,
    names: SetNames,
    /// The sets as rules know them.
    model: Vec<NamedSet>,
    last: Instant,
    /// The last change before which an image was built for established flows.
    renewed: Option<Instant>,
}

/// Why a policy isn't taken up, or a change not made.
pub type Why = String;

/// What became of a change.
pub enum Done {
    /// Made; why it took a new image.
    Made(Option<&'static str>),
    /// There is nothing to change: what the tool says.
    Fault(String),
    /// It can't be made here. Nothing was begun.
    Unable(Why),
    /// It can't be made, and something was begun.
    Failed(Why),
}

fn unable(why: impl Into<String>) -> anyhow::Result<Done> {
    Ok(Done::Unable(why.into()))
}

/// Counters of a policy that no rule has.
fn unused(policy: &Policy) -> Vec<RuleId> {
    let mut used = vec![false; policy.rule_count as usize];
    for chain in &policy.chains {
        let rules = chain.rules.iter().map(|rule| rule.id);
        for id in rules.chain(chain.policy.map(|end| end.id)) {
            used[id.0 as usize] = true;
        }
    }
    let free = (0..policy.rule_count).rev().map(RuleId);
    free.filter(|id| !used[id.0 as usize]).collect()
}

impl Open {
    /// Takes up the policy in force; the caller holds the lock.
    pub fn new(store: &Store, locks: &Locks) -> anyhow::Result<Result<Self, Why>> {
        let mut kernel = Kernel::open(None)?;
        let (Some(generation), Some(saved)) = (kernel.generation(), kernel.active_texts()?) else {
            return Ok(Err("no policy is enforced".to_owned()));
        };
        let dialect = saved.dialect.as_deref();
        if crate::ipf::are_meant(&saved.sources, dialect)
            || crate::ipfw::are_meant(&saved.sources, dialect)
        {
            return Ok(Err("the policy is not of iptables".to_owned()));
        }
        let hooks = kernel.plane.hooks().map_err(plane_error)?;
        if hooks::early(hooks).is_some() {
            return Ok(Err("the policy drops early".to_owned()));
        }
        let loaded = input::load_saved(&saved)?;
        let policy = loaded.policy()?;
        let Some(document) = Document::of(&loaded, policy)? else {
            return Ok(Err(
                "rules were left out or made beside those of the text".to_owned()
            ));
        };
        let sets = sets_of(&loaded, 0)?;
        let options = Options::default();
        let live = match Live::with_counters(policy, &options, unused(policy), COUNTERS) {
            Ok(live) => live,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let memory = history::layout(policy, 0).map_or(0, |memory| memory.bytes);
        let journal = Journal::open(store, generation, &document.numbers())?;
        let exchanged = kernel
            .plane
            .exchange_image(live.image(), live.counters(), memory);
        let (slots, store) = match exchanged {
            Ok(exchanged) => exchanged,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let home = Home {
            slots,
            locks: locks.clone(),
            generation,
            instance: kernel.plane.instance_number(),
        };
        let place = Place { store, lock: None };
        Ok(Ok(Open {
            hooks,
            generation,
            needs: Needs::of(policy),
            kept: Kept::adopt(live, place, &options, home),
            document,
            journal,
            names: SetNames::of(&loaded, &sets.creates()),
            set_text: live::set_text(&loaded, &sets).map(|text| text.name),
            sets,
            model: policy.sets.clone(),
            last: Instant::now(),
            renewed: None,
            kernel,
        }))
    }

    /// Whether it is still the policy in force.
    pub fn is_in_force(&self) -> bool {
        self.kernel.generation() == Some(self.generation)
            && self.kernel.plane.is_outdated().is_ok_and(|is| !is)
    }

    /// Makes a change.
    pub fn carry_out(&mut self, request: &Request) -> anyhow::Result<Done> {
        self.last = Instant::now();
        match request {
            Request::Rule(family, table, line) => self.rule(*family, table, line),
            Request::Add(line, exist) => self.member(true, line, *exist),
            Request::Del(line, exist) => self.member(false, line, *exist),
        }
    }

    /// A command on one rule.
    fn rule(&mut self, number: u8, table: &str, line: &str) -> anyhow::Result<Done> {
        let chain = line.split(' ').nth(1).unwrap_or_default();
        let name = ChainName {
            family: number,
            table: table.to_owned(),
            chain: chain.to_owned(),
        };
        let Some(at) = self.document.find(&name) else {
            return unable("there is no such table or chain");
        };
        // A chain of the user's has to be declared before it has rules.
        let declared = self.document.declared(at);
        let Some(command) = read(number, table, line, &declared) else {
            return unable("not a command on one rule");
        };
        let count = self.document.chains[at].order.len();
        let within = |number: u32, most: usize, what| match number as usize {
            0 => Err(Fault::Index(what)),
            number if number > most => Err(Fault::Index(what)),
            number => Ok(number - 1),
        };
        let place = match &command.command {
            Command::DeleteNumber(number) => within(*number, count, "deletion"),
            Command::Rule(line) => match line.placement {
                Placement::Append => Ok(count),
                Placement::Insert(number) => within(number, count + 1, "insertion"),
                Placement::Replace(number) => within(number, count, "replacement"),
                Placement::Delete => {
                    let words = rule_line(&line.chain, &line.rule);
                    let found = self.document.chains[at].position(&words);
                    found.ok_or(Fault::NoRule)
                }
            },
        };
        let place = match place {
            Ok(place) => place,
            Err(fault) => return Ok(Done::Fault(fault.words())),
        };
        let id = self.document.chains[at].id;
        let shown = place as u32 + 1;
        let (step, change) = match &command.command {
            Command::Rule(line) if line.placement != Placement::Delete => {
                let rule = match lowered(&command, &name, &self.names, &self.model) {
                    Ok(rule) => rule,
                    Err(why) => return unable(why),
                };
                if let Err(why) = self.suits(number, at, &rule) {
                    return unable(why);
                }
                self.kept
                    .take_up()
                    .or_exit(Exit::Kernel, "the image is wrong")?;
                let counter = self.kept.next_counter().0;
                let words = rule_line(&line.chain, &line.rule);
                match line.placement {
                    Placement::Replace(_) => (
                        Step::Replace(name, shown, counter, words),
                        Change::Replace(id, place, rule),
                    ),
                    _ => (
                        Step::Insert(name, shown, counter, words),
                        Change::Insert(id, place, rule),
                    ),
                }
            }
            _ => (Step::Delete(name, shown), Change::Delete(id, place)),
        };
        self.make(at, place, &step, &change)
    }

    /// A member that comes or goes; `exist`: also where it is there, or is not.
    fn member(&mut self, comes: bool, line: &str, exist: bool) -> anyhow::Result<Done> {
        let creates = self.sets.creates();
        let Some(add) = live::parse_add(&creates, line) else {
            return unable("not a member of a set");
        };
        let Some(at) = self
            .sets
            .list
            .iter()
            .position(|set| set.create.name == add.name)
        else {
            return unable("there is no such set");
        };
        let mut set = self.sets.list[at].clone();
        let plain = add.options.is_empty() && !set.has_timeouts() && !set.create.set_type.kept;
        if !plain || !matches!(add.member, Member::Parts(_)) || self.names.change {
            return unable("members with options or lifetimes, or of a set that rules change");
        }
        // A set that stands for this one's `nomatch` entries, or for those of a list, is beside it.
        if self.model.iter().any(|one| one.name.contains(' ')) {
            return unable("rules ask for `nomatch` entries");
        }
        let done = match comes {
            true => set.add(&add, exist)?,
            false => set.delete(&add.member, exist)?,
        };
        if !done {
            return Ok(Done::Fault(not_done(comes).to_owned()));
        }
        let Some((id, named)) = self.lowered_set(at, &set) else {
            return unable("the set can't be had alone");
        };
        let step = match comes {
            true => Step::Add(line.to_owned()),
            false => Step::Del(line.to_owned()),
        };
        self.kept
            .take_up()
            .or_exit(Exit::Kernel, "the image is wrong")?;
        let written = self.journal.write(&step)?;
        match self.kept.change(&Change::Members(id, named.clone())) {
            Ok(done) => {
                self.sets.list[at] = set;
                self.model[id.0 as usize] = named;
                Ok(Done::Made(done.rebuilt.map(|why| why.0)))
            }
            Err(failure) => {
                self.journal.take_back(written)?;
                Ok(Done::Failed(failure.to_string()))
            }
        }
    }

    /// A set as rules know it, and its number.
    fn lowered_set(&self, at: usize, set: &Set) -> Option<(SetId, NamedSet)> {
        let file = self.sets.with_members_of(at, set);
        let input = Input::Sets {
            name: "",
            file: &file,
        };
        let (policy, _) = lower(&[input], &LowerOptions::default());
        let mut sets = policy?.sets;
        let is_own = |one: &NamedSet| *one.name == *set.create.name;
        let number = sets.iter().position(is_own)?;
        let same = self.model.get(number).is_some_and(is_own);
        same.then(|| (SetId(number as u32), sets.swap_remove(number)))
    }

    /// Whether what is attached and kept is enough for a rule.
    fn suits(&self, number: u8, chain: usize, rule: &Rule) -> Result<(), &'static str> {
        let id = self.document.chains[chain].id;
        let bits = self
            .needs
            .with(&Policy::default(), family(number), id, rule);
        match bits & !self.hooks {
            0 => Ok(()),
            _ => Err("the rule needs other hooks"),
        }
    }

    /// Makes a change of a rule.
    fn make(
        &mut self,
        chain: usize,
        place: usize,
        step: &Step,
        change: &Change,
    ) -> anyhow::Result<Done> {
        let counter = match step {
            Step::Insert(_, _, id, _) | Step::Replace(_, _, id, _) => Some(RuleId(*id)),
            _ => None,
        };
        let written = self.journal.write(step)?;
        let done = match self.kept.change_as(change, counter) {
            Ok(done) => done,
            Err(failure) => {
                self.journal.take_back(written)?;
                return Ok(Done::Failed(failure.to_string()));
            }
        };
        match step {
            Step::Insert(_, _, id, words) => self.document.insert(chain, place, *id, words),
            Step::Replace(_, _, id, words) => {
                self.document.delete(chain, place);
                self.document.insert(chain, place, *id, words);
            }
            Step::Delete(..) => self.document.delete(chain, place),
            Step::Add(_) | Step::Del(_) => {}
        }
        Ok(Done::Made(done.rebuilt.map(|why| why.0)))
    }

    /// Whether there is something that has time: texts to be written anew, an image to be taken up
    /// or to be built, rules that are off to be unlinked.
    pub fn is_due(&self) -> bool {
        let is_quiet = self.last.elapsed() > QUIET;
        let lines = self.journal.lines();
        let texts = lines > LINES_MAX || lines > 0 && is_quiet;
        let untidy = self.kept.live().is_untidy();
        texts || self.kept.has_built() || is_quiet && (untidy || self.wants_lists())
    }

    /// Whether an image is to be built, so that established flows have lists of their own again.
    fn wants_lists(&self) -> bool {
        self.kept.live().is_whole() && self.renewed != Some(self.last)
    }

    /// Does it.
    pub fn rest(&mut self) -> anyhow::Result<()> {
        self.kept
            .take_up()
            .or_exit(Exit::Kernel, "the image is wrong")?;
        if self.last.elapsed() > QUIET {
            self.kept.tidy();
            if self.wants_lists() {
                self.renewed = Some(self.last);
                self.kept.renew();
            }
        }
        if self.journal.lines() > 0 {
            let mut texts = Vec::new();
            if let Some(name) = &self.set_text {
                let mut text = live::Text {
                    name: name.clone(),
                    ..live::Text::default()
                };
                self.sets.print().lines().for_each(|line| text.push(line));
                texts.push(text.saved());
            }
            texts.extend(self.document.texts().iter().map(live::Text::saved));
            self.journal.renew(&texts, &self.document.numbers())?;
        }
        Ok(())
    }
}
