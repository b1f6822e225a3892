//! States of ipfw for a reported packet, so that the evaluator can be asked.
//!
//! In: a policy and a valuation, which says what states the packet has, whether there is room for
//! more, and what limits allow. Out: a table with these states, and the policy with as much room
//! and such limits. Everything else is the evaluator's own.

use super::dynamic::{newest, of_class, place, room};
use super::example::Valuation;
use super::makers::Makers;
use super::space::Space;
use crate::eval::{Evaluator, Learned, Passage, Path};
use crate::model::{Keeper, LearnerId, Packet, Policy};
use std::borrow::Cow;

/// More than one packet can make or take.
const PLENTY: u32 = 1 << 20;

/// What a valuation says of states.
pub struct Asked<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Its rules that note flows.
    pub makers: &'a Makers,
    /// Where conditions have numbers.
    pub space: &'a Space,
    /// The packet.
    pub valuation: &'a Valuation,
}

impl Asked<'_> {
    /// What a condition is said to be; `None` where nobody asked.
    fn said(&self, text: &str) -> Option<bool> {
        let mut all = self.space.unknowns.iter();
        let number = all.position(|unknown| unknown.text == text)?;
        Some(self.valuation.holds.contains(&(number as u32)))
    }

    /// The states that the packet has, the newest last.
    fn states(&self, age: u32) -> Vec<LearnerId> {
        let mut names: Vec<(usize, usize)> = Vec::new();
        for name in 0..self.makers.names {
            let of_name = |class: &usize| self.makers.classes[*class].name == name;
            let classes = (0..self.makers.classes.len()).filter(of_name);
            let found = classes.into_iter().find(|class| {
                let class = &self.makers.classes[*class];
                let possible = self.space.possible.get(&class.text);
                class.visible
                    && self.said(&of_class(&class.text, age)) == Some(true)
                    && possible
                        .is_none_or(|set| self.space.diagram.number_at(*set, self.valuation) != 0)
            });
            names.extend(found.map(|class| (name, class)));
        }
        // The first one that is newer than those behind it is the newest of all.
        let last = names.len().wrapping_sub(1);
        let is_newest =
            |at: usize| at == last || self.said(&newest(names[at].0, age)) == Some(true);
        if let Some(at) = (0..names.len()).find(|at| is_newest(*at)) {
            let one = names.remove(at);
            names.push(one);
        }
        let stands = names.iter().map(|(_, class)| self.makers.stands[*class]);
        stands.flatten().collect()
    }

    /// The policy with such limits and as much room.
    pub fn limited<'p>(&self, policy: Cow<'p, Policy>) -> Cow<'p, Policy> {
        if self.policy.dynamic.is_none() {
            return policy;
        }
        let mut out = policy.into_owned();
        // The first one that is refused.
        let first = |refused: &dyn Fn(u32) -> bool| {
            let mut numbers = 0..=self.makers.classes.len() as u32 * 2;
            numbers.find(|number| refused(*number)).unwrap_or(PLENTY)
        };
        let there = self.states(0).len() + self.states(1).len();
        let full = |made: u32| self.said(&room(made)) == Some(false);
        out.states_max = there as u32 + first(&full);
        if let Some(dynamic) = &mut out.dynamic {
            dynamic.parents_max = PLENTY;
        }
        for (at, learner) in out.learners.iter_mut().enumerate() {
            let class = self.makers.class_of.get(&LearnerId(at as u32));
            if let (Keeper::Ipfw(keeper), Some(class)) = (&mut learner.keeper, class)
                && let Some((_, most)) = &mut keeper.limit
            {
                let below = self.makers.below(*class);
                *most = first(&|taken| {
                    let texts = below.iter().map(|class| &self.makers.classes[*class].text);
                    let said: Vec<_> = texts
                        .map(|text| self.said(&place(text, taken as usize, 0)))
                        .collect();
                    said.contains(&Some(false)) && !said.contains(&Some(true))
                });
            }
        }
        Cow::Owned(out)
    }

    /// Gives the evaluator the packet's states.
    pub fn give(&self, evaluator: &mut Evaluator<'_>, packet: &Packet, path: Path) {
        let mut open = self.policy.clone();
        if open.dynamic.is_none() {
            return;
        }
        open.states_max = PLENTY;
        for learner in &mut open.learners {
            if let Keeper::Ipfw(keeper) = &mut learner.keeper {
                keeper.limit = None;
            }
        }
        let hooks = Evaluator::hooks(path);
        let learned: &mut Learned = &mut evaluator.learned;
        for (age, hook) in (0..).zip(&hooks[..hooks.len().min(2)]) {
            let passage = Passage::of(packet);
            for learner in self.states(age) {
                learned.begin();
                learned.learn(&open, learner, &packet.at(*hook), &passage, 0);
            }
        }
    }
}
