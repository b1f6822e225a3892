//! States of ipfw for a reported packet, so that the evaluator can be asked.
//!
//! In: a policy and a valuation, which says what states the packet has, whether there is room for
//! more, and what limits allow. Out: a table with these states, and the policy with as much room
//! and such limits. Everything else is the evaluator's own.

use super::dynamic::{newest, newest_quoted, of_class, of_quoted, place, room};
use super::example::Valuation;
use super::makers::{Class, Makers};
use super::space::Space;
use crate::eval::{Evaluator, Learned, Passage, Path};
use crate::model::{Family, Fragment, Keeper, LearnerId, Packet, Policy, Transport};
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
        let has = |class: &Class| {
            let possible = self.space.possible.get(&class.text);
            self.said(&of_class(&class.text, age)) == Some(true)
                && possible
                    .is_none_or(|set| self.space.diagram.number_at(*set, self.valuation) != 0)
        };
        self.in_order(has, |name| newest(name, age))
    }

    /// The states that what the packet quotes has, the newest last.
    fn states_quoted(&self, about: &Packet, pass: u32) -> Vec<LearnerId> {
        let has = |class: &Class| {
            class.is_of(about.family) && self.said(&of_quoted(&class.text, pass)) == Some(true)
        };
        self.in_order(has, |name| newest_quoted(name, pass))
    }

    fn in_order(
        &self,
        has: impl Fn(&Class) -> bool,
        newest: impl Fn(usize) -> String,
    ) -> Vec<LearnerId> {
        let mut names: Vec<(usize, usize)> = Vec::new();
        for name in 0..self.makers.names {
            let classes = self.makers.visible_of(name).into_iter();
            let found = classes
                .into_iter()
                .find(|at| has(&self.makers.classes[*at]));
            names.extend(found.map(|class| (name, class)));
        }
        // The first one that is newer than those behind it is the newest of all.
        let last = names.len().wrapping_sub(1);
        let is_newest = |at: usize| at == last || self.said(&newest(names[at].0)) == Some(true);
        if let Some(at) = (0..names.len()).find(|at| is_newest(*at)) {
            let one = names.remove(at);
            names.push(one);
        }
        let stands = names.iter().map(|(_, class)| self.makers.stands[*class]);
        stands.flatten().collect()
    }

    /// The policy with such limits and as much room.
    pub fn limited<'p>(&self, policy: Cow<'p, Policy>, packet: &Packet) -> Cow<'p, Policy> {
        if self.policy.dynamic.is_none() {
            return policy;
        }
        let mut out = policy.into_owned();
        // The first one that is refused.
        let first = |refused: &dyn Fn(u32) -> bool| {
            let mut numbers = 0..=self.makers.classes.len() as u32 * 2;
            numbers.find(|number| refused(*number)).unwrap_or(PLENTY)
        };
        let quoted = |pass| {
            let about = quoted(packet);
            about.map_or(0, |about| self.states_quoted(&about, pass).len())
        };
        let own = self.states(0).len() + self.states(1).len();
        let there = own + quoted(0) + quoted(1);
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
            // Of IPv6 that flow is another one on each pass, by its addresses.
            let Some(about) = quoted(packet) else {
                continue;
            };
            if age > 0 && about.family == Family::V4 {
                continue;
            }
            for learner in self.states_quoted(&about, age) {
                learned.begin();
                learned.learn(&open, learner, &about.at(*hook), &passage, 0);
            }
        }
    }
}

const ICMP: u8 = 1;
const UDP: u8 = 17;

/// Makes an ICMP error quote a packet of a flow that no other can be taken for: of IPv6 by
/// link-local addresses, which are those of one interface.
pub fn quote(packet: &mut Packet) {
    let family = match packet.proto {
        ICMP => Family::V4,
        _ => Family::V6,
    };
    let base = match family {
        Family::V4 => 0xc633_6400,
        Family::V6 => 0xfe80 << 112,
    };
    let mut inner = Packet {
        family,
        src: base + 1,
        dst: base + 2,
        proto: UDP,
        fragment: Fragment::Whole,
        transport: Transport::Udp {
            src_port: 1,
            dst_port: 2,
        },
        routing: None,
        ..packet.clone()
    };
    inner.length = 48;
    if let Transport::Icmp { about, kind, .. } = &mut packet.transport {
        let is_error = match family {
            Family::V4 => matches!(kind, 3..=5 | 11 | 12),
            Family::V6 => *kind < 128,
        };
        *about = is_error.then(|| Box::new(inner));
    }
}

/// What an error quotes, with the interfaces of the error.
fn quoted(packet: &Packet) -> Option<Packet> {
    match &packet.transport {
        Transport::Icmp {
            about: Some(about), ..
        } => Some((**about).clone()),
        _ => None,
    }
}
