//! Rules with states, and `check-state`, in a chain that is being made.
//!
//! In: a rule, its branches. Out: rules of the model. Where a packet must be asked for its state, a
//! look stands in front; what a found state does is its rule's action, spelled out where that is
//! more than a verdict. A packet for which the patterns hold notes its flow last; where that can't
//! be, it is dropped and counts, as on the original.

use super::action::To;
use super::body::{At, Branch, branches};
use super::emit::{Called, Listing, Made};
use super::formula::{is, is_not};
use super::reach::{behind_both, is_found_by};
use super::states::{look_of, number_of_name};
use super::{Lowering, Remembers};
use crate::dialect::ipfw::ast::Action;
use crate::model::{
    Cond, DynamicTest, Flow, HistoryKind, LearnerId, Rule, Statistic, Test, Verdict,
};

impl Lowering<'_> {
    /// The rules for a rule with a state, or a `check-state`.
    pub(super) fn stateful(
        &mut self,
        position: usize,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        // Rules that go on behind this rule of the original.
        let mut ends = Vec::new();
        if let Some(units) = loaded.rule.probability {
            let kind = HistoryKind::Statistic(Statistic::Random(units));
            let chance = Cond::History(self.history(loaded.id, Remembers::Probability, kind));
            ends.push(rules.len());
            rules.push(self.hidden_rule(vec![is_not(chance)], Flow::Next));
        }
        if matches!(loaded.rule.action, Action::CheckState(_)) {
            self.marks(position, listing, rules)?;
        }
        if let Some(name) = look_of(&loaded.rule)
            && listing.must_look(position)
        {
            self.look(position, name, listing, rules)?;
        }
        let learner = self.states.learner(loaded.id);
        if let (false, Some(learner)) =
            (matches!(loaded.rule.action, Action::CheckState(_)), learner)
        {
            self.noting((position, learner), listing, &mut ends, rules)?;
        }
        let end = rules.len();
        for at in ends.into_iter().filter(|at| at + 1 < end) {
            rules[at].flow = Flow::Skip(end as u32);
        }
        Ok(())
    }

    /// The logging and the tag of a `check-state`: of every packet, before the look is made.
    fn marks(
        &mut self,
        position: usize,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let rule = &self.set.rules[position].rule;
        if rule.log.is_none() && rule.tag.is_none() {
            return Ok(());
        }
        let mut made = Vec::new();
        for branch in branches(&self.scope(listing.scope.0, listing.scope.1), rule)? {
            self.branch(position, listing, &branch, &mut made)?;
        }
        for one in made {
            // All of them go on to the look.
            self.alternative(position, listing, one, &mut Vec::new(), rules)?;
        }
        Ok(())
    }

    /// Asks for the packet's state, and does what its rule says.
    fn look(
        &mut self,
        position: usize,
        name: Option<&str>,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let number = name.map_or(0, number_of_name);
        let look = Cond::Dynamic(DynamicTest::Look(number));
        let set = self.set;
        // Who refuses the look tells its place.
        let origin = self.origin(set.rules[position].rule.place);
        let found = |at: &usize| is_found_by(&set.rules[*at].rule, name);
        let parents: Vec<usize> = self.states.spelled.iter().copied().filter(found).collect();
        if parents.is_empty() {
            rules.push(Rule {
                origin,
                ..self.hidden_rule(vec![is(look)], Flow::AsLearned)
            });
            return Ok(());
        }
        let door = rules.len();
        rules.push(Rule {
            origin,
            ..self.hidden_rule(vec![is_not(look)], Flow::Next)
        });
        let known = self.reach.of_look(name);
        for parent in parents {
            self.as_parent((position, known), parent, listing, rules)?;
        }
        rules.push(self.hidden_rule(Vec::new(), Flow::AsLearned));
        rules[door].flow = Flow::Skip(rules.len() as u32);
        Ok(())
    }

    /// What the rule at `parent` does with packets of its states that were found at `position`,
    /// with what is known of looks then.
    fn as_parent(
        &mut self,
        (position, known): (usize, u64),
        parent: usize,
        listing: &mut Listing,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[parent];
        let of = is(Cond::Dynamic(DynamicTest::Of(loaded.id)));
        // Both the rule that noted the flow and the place of the look are behind.
        let behind = position.max(parent) + 1;
        let mut ends = Vec::new();
        for mut one in self.acts(parent, listing, &whole(&[]))? {
            one.tests.insert(0, of.clone());
            if let To::Position(to) = one.to {
                one.to = To::Position(to.max(behind));
            }
            one.call = Called {
                known,
                back: behind_both(set, parent, position),
                alone: false,
            };
            self.alternative(parent, listing, one, &mut ends, rules)?;
        }
        listing
            .skips
            .extend(ends.into_iter().map(|at| (at, behind)));
        Ok(())
    }

    /// What a rule does where its patterns hold.
    fn acts(
        &mut self,
        position: usize,
        listing: &Listing,
        branch: &Branch,
    ) -> Result<Vec<Made>, At> {
        let mut made = Vec::new();
        let branch = Branch {
            formula: vec![Vec::new()],
            ..branch.clone()
        };
        self.branch(position, listing, &branch, &mut made)?;
        Ok(made)
    }

    /// Patterns, the note, the action.
    fn noting(
        &mut self,
        (position, learner): (usize, LearnerId),
        listing: &mut Listing,
        ends: &mut Vec<usize>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), At> {
        let set = self.set;
        let loaded = &set.rules[position];
        let rule = &loaded.rule;
        let falls = rule.state.as_ref().is_some_and(|state| state.negate);
        let all = branches(&self.scope(listing.scope.0, listing.scope.1), rule)?;
        // Alternatives whose action stands apart, behind them all.
        let mut doors: Vec<(usize, usize)> = Vec::new();
        for (number, branch) in all.iter().enumerate() {
            let acts = match branch.notes && falls {
                true => Vec::new(),
                false => self.acts(position, listing, branch)?,
            };
            let apart = acts.len() > 1 || acts.iter().any(|one| one.logs_apart);
            for tests in &branch.formula {
                let mut all = tests.clone();
                if branch.notes {
                    let limited = self.states.limited(loaded.id, branch.limit as u32);
                    all.push(is(Cond::Learn(limited.unwrap_or(learner))));
                }
                if apart {
                    doors.push((rules.len(), number));
                    rules.push(self.hidden_rule(all, Flow::Next));
                } else if let Some(one) = acts.first() {
                    // Who is not meant, or can't be noted, has been asked for all the same.
                    let tests = one.tests.iter().cloned();
                    let (last, first): (Vec<Test>, Vec<Test>) = tests.partition(is_forget);
                    let one = Made {
                        tests: [first, all, last].concat(),
                        ..one.clone()
                    };
                    self.alternative(position, listing, one, ends, rules)?;
                } else {
                    ends.push(rules.len());
                    rules.push(self.hidden_rule(all, Flow::Next));
                }
                if branch.notes {
                    rules.push(self.denial(position, tests.clone()));
                }
            }
        }
        if doors.is_empty() {
            return Ok(());
        }
        ends.push(rules.len());
        rules.push(self.hidden_rule(Vec::new(), Flow::Next));
        for (number, branch) in all.iter().enumerate() {
            let own: Vec<usize> = doors
                .iter()
                .filter(|d| d.1 == number)
                .map(|d| d.0)
                .collect();
            if own.is_empty() {
                continue;
            }
            for door in own {
                rules[door].flow = Flow::Skip(rules.len() as u32);
            }
            for one in self.acts(position, listing, branch)? {
                self.alternative(position, listing, one, ends, rules)?;
            }
            ends.push(rules.len());
            rules.push(self.hidden_rule(Vec::new(), Flow::Next));
        }
        Ok(())
    }

    /// A flow that can't be noted is refused, and counts.
    fn denial(&self, position: usize, tests: Vec<Test>) -> Rule {
        let loaded = &self.set.rules[position];
        Rule {
            id: loaded.id,
            origin: self.origin(loaded.rule.place),
            index: loaded.rule.number,
            tests,
            ops: Vec::new(),
            flow: Flow::Verdict(Verdict::Drop),
            preset: loaded.counters,
        }
    }
}

/// A branch in which everything is done. Who comes by a state has looked nothing up, so `tablearg`
/// is 0.
fn whole(formula: &[Vec<Test>]) -> Branch {
    Branch {
        formula: formula.to_vec(),
        value: 0,
        tag_value: 0,
        limit: 0,
        notes: true,
        defers: false,
        logs: true,
        tags: true,
        acts: true,
    }
}

fn is_forget(test: &Test) -> bool {
    matches!(test.cond, Cond::Dynamic(DynamicTest::Forget))
}
