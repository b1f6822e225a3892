//! States of ipfw in a walk: looks, what is found, and flows that are noted.
//!
//! In: the questions of the model, and the packets that come to them. Out: for which they hold, and
//! the packets with what is known of their states. Which states a packet's flow has when it comes
//! is one bit for each name and class, the same on both sides; what the walk itself makes of them
//! is followed as `eval` does it. A look that finds nothing leaves no trace; one that does
//! refreshes the state, which is compared, as are flows that are noted, and places taken of limits.
//! What ICMP errors quote has bits of its own, where a setting asks for its states.

use super::diagram::{NO, Node, TooLarge, YES};
use super::field::Field;
use super::makers::keeper;
use super::noting::{are_few, reversed};
use super::space::{Space, Unknown};
use super::state::{Change, Effect, Flows, Who};
use super::walk::{Matched, Walk};
use crate::model::{Cond, DynamicTest, Family, LearnerId, Rule, RuleId, Verdict};

/// The name that stands for all.
const ANY: u32 = 0;

/// The text of a packet's belonging to a state of a class.
pub fn of_class(text: &str, age: u32) -> String {
    aged(format!("{OF_A_CLASS} {text}"), age)
}

/// The text of there being a state of a class of the packet that an ICMP error quotes.
pub fn of_quoted(text: &str, pass: u32) -> String {
    aged(format!("{OF_A_CLASS} {QUOTED} {text}"), pass)
}

/// The text of a state's being newer than those of other names.
pub fn newest(name: usize, age: u32) -> String {
    aged(format!("{NEWEST} the packet has name {name}"), age)
}

/// The same of what an ICMP error quotes.
pub fn newest_quoted(name: usize, pass: u32) -> String {
    aged(format!("{NEWEST} {QUOTED} has name {name}"), pass)
}

/// The text of there being room for one more state, after some were made.
pub fn room(made: u32) -> String {
    match made {
        0 => ROOM.to_owned(),
        made => format!("{ROOM} and {made} others"),
    }
}

/// The text of a limit's letting one more flow be noted, after some were.
pub fn place(text: &str, taken: usize, age: u32) -> String {
    let more = match taken {
        0 => String::new(),
        taken => format!(" and {taken} others"),
    };
    aged(format!("{PLACE} {text}{more}"), age)
}

fn aged(text: String, age: u32) -> String {
    match age {
        0 => text,
        age => format!("{text} ({age} later)"),
    }
}

/// The begin of the texts of what states of ipfw a packet has.
pub const OF_A_CLASS: &str = "state of ipfw:";
/// In front of the class in the texts of what an ICMP error quotes.
pub const QUOTED: &str = "what the error quotes";
/// The begin of the texts of the order of states.
pub const NEWEST: &str = "newest state of";
/// The begin of the text of there being room in the table.
pub const ROOM: &str = "room for the state";
/// The begin of the texts of limits.
pub const PLACE: &str = "room in the limit:";

/// A class, and the packets that have such a state; those of a list are apart from each other.
type Present = Vec<(usize, Node)>;

impl Walk<'_, '_> {
    /// What is known of the states of packets that are still on their way, each once, with those
    /// packets.
    fn flows(&mut self, live: Node) -> Result<Vec<(Flows, Node)>, TooLarge> {
        let leaves = self.space.diagram.leaves(live);
        let states = leaves.iter().filter_map(|leaf| self.states.get(*leaf));
        let mut all: Vec<Flows> = Vec::new();
        for state in states.filter(|state| state.verdict.is_none()) {
            if !all.contains(&state.flows) {
                all.push(state.flows.clone());
            }
        }
        let mut out = Vec::with_capacity(all.len());
        for one in all {
            let here =
                self.where_state(live, |state| state.verdict.is_none() && state.flows == one)?;
            out.push((one, here));
        }
        Ok(out)
    }

    /// A pass begins. States of IPv6 link-local addresses are those of one interface.
    pub(super) fn begin_pass(&mut self, first: bool, live: Node) -> Result<Node, TooLarge> {
        if self.policy.dynamic.is_none() {
            return Ok(live);
        }
        let live = self.change(YES, live, &Change::BeginPass)?;
        if first {
            return Ok(live);
        }
        let mut live = live;
        if self.asks_quoted() {
            let errors = self.space.icmp_errors(Family::V6)?;
            live = self.change(errors, live, &Change::OtherInterface)?;
        }
        if self.space.family == Family::V4 {
            return Ok(live);
        }
        let local = [(0xfe80 << 112, (0xfec0 << 112) - 1)];
        let src = self.space.diagram.among(Field::Src, &local)?;
        let dst = self.space.diagram.among(Field::Dst, &local)?;
        let either = self.space.diagram.or(src, dst)?;
        self.change(either, live, &Change::Unknow)
    }

    /// A question about the packet's states.
    pub(super) fn asks(
        &mut self,
        test: DynamicTest,
        by: (RuleId, usize),
        out: &mut Matched,
    ) -> Result<Node, TooLarge> {
        match test {
            DynamicTest::Look(name) => self.look(name, by, out),
            DynamicTest::Of(rule) => {
                let classes = self.names.makers.stood_for(self.policy, rule);
                self.where_state(out.live, |state| {
                    state.flows.found.is_some_and(|one| classes.contains(&one))
                })
            }
            DynamicTest::Forget => {
                let forget = Change::BeginPass;
                out.live = self.change(out.yes, out.live, &forget)?;
                Ok(YES)
            }
        }
    }

    fn look(
        &mut self,
        name: u32,
        by: (RuleId, usize),
        out: &mut Matched,
    ) -> Result<Node, TooLarge> {
        let mut yes = NO;
        for (flows, here) in self.flows(out.live)? {
            if flows.looked == Some(ANY) || flows.looked == Some(name) {
                continue;
            }
            let come = self.space.diagram.and(here, out.yes)?;
            let mut left = come;
            let mut none = here;
            for (class, set) in self.present(name, &flows, by)? {
                let found = self.space.diagram.and(here, set)?;
                yes = self.space.diagram.or(yes, found)?;
                none = self.space.diagram.without(none, set)?;
                let found = self.space.diagram.and(come, set)?;
                left = self.space.diagram.without(left, found)?;
                let looked = Change::Looked(name, Some(class));
                out.live = self.change(found, out.live, &looked)?;
                out.live = self.refreshed(class, found, out.live)?;
            }
            // An error that has no state of its own is found by that of the packet it quotes,
            // which lives no longer for it.
            for (class, set) in self.present_of_quoted(name, &flows, by)? {
                let found = self.space.diagram.and(none, set)?;
                yes = self.space.diagram.or(yes, found)?;
                let found = self.space.diagram.and(left, set)?;
                left = self.space.diagram.without(left, found)?;
                let looked = Change::Looked(name, Some(class));
                out.live = self.change(found, out.live, &looked)?;
            }
            out.live = self.change(left, out.live, &Change::Looked(name, None))?;
        }
        Ok(yes)
    }

    fn refreshed(&mut self, class: usize, of: Node, live: Node) -> Result<Node, TooLarge> {
        let text = self.names.makers.classes[class].text.clone();
        self.change(of, live, &Change::Does(Effect::Refreshed(text)))
    }

    /// The states that packets have under a name.
    fn present(
        &mut self,
        name: u32,
        flows: &Flows,
        by: (RuleId, usize),
    ) -> Result<Present, TooLarge> {
        // What was made on this way is newer than all others.
        if let (ANY, Some((_, class))) = (name, flows.known.first()) {
            return Ok(vec![(*class, YES)]);
        }
        let own = |walk: &mut Self, name| match flows.known.iter().find(|known| known.0 == name) {
            Some((_, class)) => Ok(vec![(*class, YES)]),
            None => {
                let text = |class: &str| of_class(class, flows.age);
                walk.states_of(name, by, text, Self::possible)
            }
        };
        self.newest_of(name, by, own, |name| newest(name, flows.age))
    }

    /// The states that what ICMP errors quote has under a name, where they are found by these.
    fn present_of_quoted(
        &mut self,
        name: u32,
        flows: &Flows,
        by: (RuleId, usize),
    ) -> Result<Present, TooLarge> {
        if !self.asks_quoted() {
            return Ok(Vec::new());
        }
        let text = |class: &str| of_quoted(class, flows.pass);
        let own = |walk: &mut Self, name| walk.states_of(name, by, text, Self::possibly_quoting);
        self.newest_of(name, by, own, |name| newest_quoted(name, flows.pass))
    }

    /// Of the states that packets have under each name that a look means the newest one.
    fn newest_of(
        &mut self,
        look: u32,
        by: (RuleId, usize),
        own: impl Fn(&mut Self, usize) -> Result<Present, TooLarge>,
        newest: impl Fn(usize) -> String,
    ) -> Result<Present, TooLarge> {
        let makers = &self.names.makers;
        let names: Vec<usize> = match look {
            ANY => (0..makers.names).collect(),
            name => makers.named.get(&name).copied().into_iter().collect(),
        };
        let mut each = Vec::with_capacity(names.len());
        for name in names {
            each.push((name, own(self, name)?));
        }
        let mut out = Vec::new();
        let mut taken = NO;
        for (at, (name, present)) in each.iter().enumerate() {
            let mut later = NO;
            for (_, set) in each[at + 1..].iter().flat_map(|(_, present)| present) {
                later = self.space.diagram.or(later, *set)?;
            }
            let mut first = self.space.diagram.not(later)?;
            if later != NO {
                let newest = self.bit(newest(*name), by)?;
                first = self.space.diagram.or(first, newest)?;
            }
            let first = self.space.diagram.without(first, taken)?;
            for (class, set) in present {
                let here = self.space.diagram.and(*set, first)?;
                taken = self.space.diagram.or(taken, here)?;
                out.push((*class, here));
            }
        }
        Ok(out)
    }

    /// The states under one name: a bit for each class, named by the class's text, for packets that
    /// can have such a state.
    fn states_of(
        &mut self,
        name: usize,
        by: (RuleId, usize),
        text: impl Fn(&str) -> String,
        possible: fn(&mut Self, usize) -> Result<Node, TooLarge>,
    ) -> Result<Present, TooLarge> {
        let (mut out, mut left) = (Vec::new(), YES);
        for class in self.names.makers.visible_of(name) {
            let bit = self.bit(text(&self.names.makers.classes[class].text), by)?;
            let possible = possible(self, class)?;
            let set = self.space.diagram.and(bit, possible)?;
            let set = self.space.diagram.and(set, left)?;
            left = self.space.diagram.without(left, set)?;
            // One that this policy doesn't make is none to it.
            if self.names.makers.stands[class].is_some() {
                out.push((class, set));
            }
        }
        Ok(out)
    }

    /// Whether ICMP errors are found by the states of what they quote.
    fn asks_quoted(&self) -> bool {
        let own = self.policy.dynamic.as_ref();
        own.is_some_and(|own| own.icmp_errors)
    }

    /// Errors that can quote a packet of a state of a class. Nothing of what is quoted is in the
    /// packet's own fields, so any error can, if the class has rules of that family.
    fn possibly_quoting(&mut self, class: usize) -> Result<Node, TooLarge> {
        let mut errors = NO;
        for family in [Family::V4, Family::V6] {
            if self.names.makers.classes[class].is_of(family) {
                let such = self.space.icmp_errors(family)?;
                errors = self.space.diagram.or(errors, such)?;
            }
        }
        Ok(errors)
    }

    /// Packets that can have a state of a class: one of its rules noted a packet of the flow, which
    /// went either way.
    fn possible(&mut self, class: usize) -> Result<Node, TooLarge> {
        let own = &self.names.makers.classes[class];
        if let Some(known) = self.space.possible.get(&own.text) {
            return Ok(*known);
        }
        // Nothing is noted of a packet whose header is cut short.
        let short = self.space.short()?;
        let mut all = self.space.diagram.not(short)?;
        for sides in &own.flows {
            let rules = &sides[self.space.family as usize];
            if sides.iter().all(Vec::is_empty) {
                continue;
            }
            let mut any = NO;
            for conds in rules {
                for turned in [false, true] {
                    let one = self.space.of_flow(conds, turned, are_few(rules))?;
                    any = self.space.diagram.or(any, one)?;
                }
            }
            all = self.space.diagram.and(all, any)?;
        }
        self.space.possible.insert(own.text.clone(), all);
        Ok(all)
    }

    /// Notes the packets' flows.
    pub(super) fn note(
        &mut self,
        id: LearnerId,
        by: (RuleId, usize),
        out: &mut Matched,
    ) -> Result<Node, TooLarge> {
        let (makers, mut yes) = (&self.names.makers, NO);
        let class = makers.class_of[&id];
        let own = makers.classes[class].clone();
        let name = keeper(self.policy, id).map_or(ANY, |keeper| keeper.name);
        let (lasts, first_packets) = (makers.lasting, makers.first_packets);
        let short = self.space.short()?;
        for (flows, here) in self.flows(out.live)? {
            let here = self.space.diagram.without(here, short)?;
            let come = self.space.diagram.and(here, out.yes)?;
            if come == NO {
                continue;
            }
            let mut placed = here;
            if let (Some(counter), false) = (own.counter, first_packets) {
                let taken = flows.taken.iter().filter(|one| **one == counter).count();
                let text = place(&own.text, taken, flows.age);
                let number = self.numbered(text, by);
                let asked = Change::Does(Effect::Asked(number));
                out.live = self.change(come, out.live, &asked)?;
                let mut bit = self.space.holds(number)?;
                for lower in self.names.makers.below(class) {
                    let text = place(&self.names.makers.classes[lower].text, taken, flows.age);
                    let rules = [None; 2];
                    let other = self.space.unknown(Unknown { text, rules });
                    let other = self.space.holds(other)?;
                    bit = self.space.diagram.or(bit, other)?;
                }
                placed = self.space.diagram.and(here, bit)?;
            }
            let mut left = placed;
            if flows.looked != Some(name) || flows.noted {
                for (class, set) in self.present(name, &flows, by)? {
                    let there = self.space.diagram.and(placed, set)?;
                    left = self.space.diagram.without(left, there)?;
                    yes = self.space.diagram.or(yes, there)?;
                    let there = self.space.diagram.and(there, come)?;
                    out.live = self.change(there, out.live, &Change::Noted)?;
                    out.live = self.refreshed(class, there, out.live)?;
                }
            }
            if !first_packets {
                let bit = self.bit(room(flows.made), by)?;
                left = self.space.diagram.and(left, bit)?;
            }
            yes = self.space.diagram.or(yes, left)?;
            let made = self.space.diagram.and(left, come)?;
            if made != NO {
                self.made.insert(class);
            }
            let noted = Change::Does(Effect::Noted(own.text.clone()));
            out.live = self.change(made, out.live, &noted)?;
            let change = Change::Made {
                name: own.name,
                class,
                counter: own.counter,
                lasts,
            };
            out.live = self.change(made, out.live, &change)?;
        }
        Ok(yes)
    }

    /// What the rules of the states say that were found.
    pub(super) fn as_noted(&mut self, rule: &Rule, of: Node, live: Node) -> Result<Node, TooLarge> {
        let mut live = live;
        for (flows, here) in self.flows(live)? {
            let learner = flows
                .found
                .and_then(|class| self.names.makers.stands[class]);
            let here = self.space.diagram.and(here, of)?;
            let Some(learner) = learner else {
                let change = Change::Decide(Verdict::Drop, self.who(rule.id));
                live = self.change(here, live, &change)?;
                continue;
            };
            let learner = &self.policy.learners[learner.0 as usize];
            let verdict = learner.verdict(self.space.family);
            let who: Who = self.who(learner.rule);
            live = self.change(here, live, &Change::Decide(verdict, who))?;
        }
        Ok(live)
    }

    fn bit(&mut self, text: String, by: (RuleId, usize)) -> Result<Node, TooLarge> {
        let number = self.numbered(text, by);
        self.space.holds(number)
    }

    fn numbered(&mut self, text: String, by: (RuleId, usize)) -> u32 {
        let number = self.space.unknown(Unknown {
            text,
            rules: [None; 2],
        });
        let told = &mut self.space.unknowns[number as usize].rules[usize::from(self.side)];
        told.get_or_insert(by);
        number
    }
}

impl Space {
    /// Packets of which conditions on their flow hold, or of whose answers they do.
    fn of_flow(&mut self, conds: &[Cond], turned: bool, exact: bool) -> Result<Node, TooLarge> {
        let mut all = YES;
        for cond in conds {
            if !exact && !matches!(cond, Cond::Proto(_)) {
                continue;
            }
            let cond = match turned {
                true => reversed(cond),
                false => cond.clone(),
            };
            if let Some(truth) = self.pure(&cond)? {
                all = self.diagram.and(all, truth.yes)?;
            }
        }
        Ok(all)
    }
}
