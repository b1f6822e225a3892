//! One way through the host, compared; and what a comparison says.
//!
//! In: two policies. Out: a [`Journey`]. First both walks without noting who decides, and only if
//! they differ once more with that, for the packets that differ: so equal lists stay cheap, and
//! differences come with the rules that made them.

use super::confirm::{Judged, judge};
use super::diagram::{NO, Node, TooLarge, YES, leaf, leaf_of};
use super::example::Valuation;
use super::field::Field;
use super::mix::Mix;
use super::names::Names;
use super::space::{Space, Unknown};
use super::state::{Effect, State, States, Who};
use super::walk::{Notes, Walk};
use super::{Class, Options, changed};
use crate::eval::Path;
use crate::model::{CtState, Family, Packet, Policy, Reading, RuleId, Verdict};
use std::collections::HashMap;

/// What becomes of the packets of a class in one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule or chain policy that gave it; of an accepted packet the last one that accepted it.
    /// `None` where there are no rules.
    pub by: Option<RuleId>,
    /// Whether that rule dropped it for want of a transport header.
    pub cut_short: bool,
    /// Packet mark at the end.
    pub mark: Mix,
    /// Flow mark at the end.
    pub connmark: Mix,
    /// TOS byte at the end: bits kept, bits turned over.
    pub tos: (u8, u8),
    /// Queueing priority.
    pub class: Option<u32>,
    /// Whether tracking leaves it alone.
    pub untracked: bool,
    /// What else was done, as far as it is compared.
    pub effects: Vec<Effect>,
}

/// A class of packets that are treated differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The packets.
    pub class: Class,
    /// What the first policy does.
    pub old: Outcome,
    /// What the second policy does.
    pub new: Outcome,
    /// One of the packets.
    pub example: Valuation,
    /// The same as a packet, at the last hook of its way.
    pub packet: Packet,
    /// The state that tracking gives it.
    pub state: CtState,
    /// What `eval` says of it.
    pub judged: [Judged; 2],
    /// Whether that is what the class says.
    pub confirmed: bool,
}

/// One way of one family.
#[derive(Debug)]
pub struct Journey {
    /// Family.
    pub family: Family,
    /// The way.
    pub path: Path,
    /// Classes of packets that differ; none: every packet gets the same.
    pub differences: Vec<Difference>,
    /// Whether there are more classes than are listed.
    pub cut: bool,
    /// What the numbers in [`Field::In`] and [`Field::Out`] mean.
    pub interfaces: Vec<String>,
    /// Conditions that are no functions of the packet.
    pub unknowns: Vec<Unknown>,
    /// Nodes that the comparison took.
    pub nodes: usize,
    /// The packets, as both policies can tell them apart.
    pub space: Space,
    /// All packets that are treated differently, whether or not their classes are listed: leaf 0
    /// for what is the same. Right for packets of `domain`.
    pub differing: Node,
    /// Packets that exist on this way.
    pub domain: Node,
}

impl Journey {
    /// Whether a packet is treated differently; `None` for one that can't be on this way.
    pub fn differs(&self, packet: &Valuation) -> Option<bool> {
        let number = |node| self.space.diagram.number_at(node, packet);
        (number(self.domain) != 0).then(|| number(self.differing) != 0)
    }
}

/// All ways.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The ways on which one of the policies has rules.
    pub journeys: Vec<Journey>,
    /// Conditions that were taken to be the same on both sides for having the same text.
    pub assumed: Vec<String>,
}

impl Comparison {
    /// Whether every packet gets the same.
    pub fn same(&self) -> bool {
        self.journeys
            .iter()
            .all(|journey| journey.differences.is_empty() && !journey.cut)
    }

    pub(super) fn take(&mut self, journey: Journey) {
        for unknown in &journey.unknowns {
            let shared = unknown.rules.iter().all(Option::is_some);
            if shared && !self.assumed.contains(&unknown.text) {
                self.assumed.push(unknown.text.clone());
            }
        }
        self.journeys.push(journey);
    }
}

/// Compares one way.
pub(super) fn journey(
    policies: [&Policy; 2],
    names: &[Names; 2],
    family: Family,
    path: Path,
    options: &Options,
) -> Result<Journey, TooLarge> {
    let mut space = Space::new(&policies, family, options.nodes);
    let mut states = States::default();
    let region = match options.only_changed {
        true => changed::region(&mut space, policies, names, path)?,
        false => YES,
    };
    let mut pair = Pair {
        space: &mut space,
        states: &mut states,
        policies,
        names,
        path,
        options,
    };
    let mut domain = pair.space.domain(path)?;
    if options.whole_headers {
        let whole = pair.space.whole_headers()?;
        domain = pair.space.diagram.and(domain, whole)?;
    }
    if options.known_headers {
        let known = pair.space.known_headers()?;
        domain = pair.space.diagram.and(domain, known)?;
    }
    if let Some(states) = &options.states {
        domain = pair.only_states(domain, states)?;
    }
    // Walked are impossible packets too, so that classes say only what rules say; those that have
    // no other packets are left out.
    let mut found = Found::default();
    let mut differing = NO;
    if region != NO {
        (differing, _) = pair.differing(domain, region, Notes::default())?;
        if differing != NO {
            found = pair.differences(differing, domain)?;
        }
    }
    Ok(Journey {
        family,
        path,
        differences: found.differences,
        cut: found.cut,
        interfaces: space.interface_words.clone(),
        unknowns: space.unknowns.clone(),
        nodes: space.diagram.made(),
        space,
        differing,
        domain,
    })
}

/// Classes that differ, and whether there are more.
#[derive(Default)]
struct Found {
    differences: Vec<Difference>,
    cut: bool,
}

struct Pair<'a> {
    space: &'a mut Space,
    states: &'a mut States,
    policies: [&'a Policy; 2],
    names: &'a [Names; 2],
    path: Path,
    options: &'a Options,
}

/// Leaves of a diagram of pairs: 0 equal, then pairs from here on.
const FIRST: u32 = 2;

impl Pair<'_> {
    /// The packets of a set that have one of some states of connections and none that a rule made.
    fn only_states(&mut self, domain: Node, states: &[CtState]) -> Result<Node, TooLarge> {
        let mask = states.iter().fold(0, |mask, state| mask | *state as u8);
        let wanted = self.space.states(mask)?;
        let mut out = self.space.diagram.and(domain, wanted)?;
        for names in self.names {
            for (text, holds) in names.of_states() {
                let unknown = self.space.unknown(Unknown {
                    text: text.to_owned(),
                    rules: [None; 2],
                });
                let bit = self.space.holds(unknown)?;
                out = match holds {
                    true => self.space.diagram.and(out, bit)?,
                    false => self.space.diagram.without(out, bit)?,
                };
            }
        }
        Ok(out)
    }

    /// Packets of `packets` that are treated differently, as pairs of outcomes. The diagram is
    /// right for packets of `domain` only.
    fn differing(
        &mut self,
        domain: Node,
        packets: Node,
        notes: Notes,
    ) -> Result<(Node, Vec<(u32, u32)>), TooLarge> {
        let mut ends = [NO; 2];
        for (side, end) in ends.iter_mut().enumerate() {
            let mut walk = Walk::new(
                self.space,
                self.states,
                self.policies[side],
                &self.names[side],
                side as u8,
                notes,
            );
            let node = walk.journey(self.path, packets)?;
            let number = self.space.function();
            let (states, compared) = (&mut *self.states, self.options.compared);
            let mut outcome = |leaf: u32| states.outcome(leaf, compared);
            *end = self.space.diagram.update(YES, node, number, &mut outcome)?;
        }
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
        let states = &*self.states;
        let number = self.space.function();
        let mut combine = |a: u32, b: u32| {
            if a == b || same_but_for_who(states.get(a), states.get(b)) {
                return 0;
            }
            *numbers.entry((a, b)).or_insert_with(|| {
                pairs.push((a, b));
                pairs.len() as u32 - 1 + FIRST
            })
        };
        let [old, new] = ends;
        let mut node = self.space.diagram.combine(old, new, number, &mut combine)?;
        node = self.only_unequal_marks(node, &pairs)?;
        let node = match self.space.diagram.and_leaves(node, domain)? {
            NO => NO,
            _ => node,
        };
        Ok((node, pairs))
    }

    /// Leaves out packets whose marks come out the same although they were made differently.
    fn only_unequal_marks(
        &mut self,
        mut node: Node,
        pairs: &[(u32, u32)],
    ) -> Result<Node, TooLarge> {
        for (at, (a, b)) in pairs.iter().enumerate() {
            let (Some(a), Some(b)) = (self.states.get(*a), self.states.get(*b)) else {
                continue;
            };
            let (a, b) = (a.clone(), b.clone());
            if !equal_but_for_marks(&a, &b) {
                continue;
            }
            let unequal = self.space.marks_differ(&a, &b)?;
            let number = self.space.function();
            let this = at as u32 + FIRST;
            let mut is_this = |leaf: u32| u32::from(leaf == this);
            let here = self.space.diagram.update(YES, node, number, &mut is_this)?;
            let equal = self.space.diagram.without(here, unequal)?;
            node = self.space.diagram.select(equal, NO, node)?;
        }
        Ok(node)
    }

    fn differences(&mut self, differs: Node, domain: Node) -> Result<Found, TooLarge> {
        let number = self.space.function();
        let mut any = |leaf: u32| u32::from(leaf != 0);
        let region = self.space.diagram.update(YES, differs, number, &mut any)?;
        let notes = Notes {
            deciders: true,
            reached: false,
        };
        let (node, pairs) = self.differing(domain, region, notes)?;
        let classes = self.space.classes(node, domain, self.options.listed)?;
        let mut out = Found {
            differences: Vec::with_capacity(classes.classes.len()),
            cut: classes.cut,
        };
        for class in classes.classes {
            let members = self.space.members(&class)?;
            let members = self.space.diagram.and(members, domain)?;
            let Some(example) = self.space.example(members) else {
                continue;
            };
            let (old, new) = pairs[(class.leaf - FIRST) as usize];
            if let (Some(old), Some(new)) = (self.states.get(old), self.states.get(new)) {
                let both = [old.clone(), new.clone()];
                out.differences.push(self.difference(class, &both, example));
            }
        }
        Ok(out)
    }

    fn difference(&self, class: Class, states: &[State; 2], example: Valuation) -> Difference {
        let judged = [0, 1].map(|side: usize| {
            let (policy, names) = (self.policies[side], &self.names[side]);
            judge(policy, names, self.space, self.path, &example)
        });
        let [old, new] = [&states[0], &states[1]].map(outcome);
        let confirmed = [(&old, &judged[0]), (&new, &judged[1])]
            .into_iter()
            .enumerate()
            .all(|(side, (says, is))| self.agrees(side, says, is, &example));
        Difference {
            packet: example.packet(self.space, self.path, self.reading(&example)),
            state: example.state(),
            class,
            old,
            new,
            example,
            judged,
            confirmed,
        }
    }

    /// As whose language an example is shown: one that drops it for being cut short, if one does.
    fn reading(&self, example: &Valuation) -> Reading {
        let short = example.get(Field::Short);
        let drops = |policy: &&&Policy| short & super::cut::bit(policy.reading) != 0;
        let policy = self.policies.iter().find(drops);
        policy.unwrap_or(&self.policies[0]).reading
    }

    /// Whether the evaluator says of the example what its class says.
    fn agrees(&self, side: usize, says: &Outcome, is: &Judged, example: &Valuation) -> bool {
        let compared = self.options.compared;
        let dropped = |verdict: Verdict| match verdict {
            Verdict::Reject(_) if !compared.answers => Verdict::Drop,
            other => other,
        };
        let came = |field: Field| example.get(field) as u32;
        let mark = says.mark.of(came(Field::Mark), came(Field::Connmark));
        let tos = (example.get(Field::Tos) as u8 & says.tos.0) ^ says.tos.1;
        let changes = says.verdict != Verdict::Accept
            || !compared.changes
            || mark == is.mark && tos == is.tos;
        let by = says.by.filter(|_| !says.cut_short);
        // Any of the rules whose states get the same.
        let makers = &self.names[side].makers;
        let as_its_state = || makers.are_one_class(self.policies[side], [by, is.by]);
        dropped(is.verdict) == says.verdict && (is.by == by || as_its_state()) && changes
    }
}

fn outcome(state: &State) -> Outcome {
    let (by, cut_short) = match state.by {
        Who::Nobody => (None, false),
        Who::Rule(_, id) => (Some(RuleId(id)), false),
        Who::CutShort(_, id) => (Some(RuleId(id)), true),
    };
    Outcome {
        verdict: state.verdict.unwrap_or(Verdict::Accept),
        by,
        cut_short,
        mark: state.mark.clone(),
        connmark: state.connmark.clone(),
        tos: state.tos,
        class: state.class,
        untracked: state.untracked,
        effects: state.effects.clone(),
    }
}

fn same_but_for_who(a: Option<&State>, b: Option<&State>) -> bool {
    let plain = |state: &State| State {
        by: Who::Nobody,
        ..state.clone()
    };
    match (a, b) {
        (Some(a), Some(b)) => plain(a) == plain(b),
        _ => false,
    }
}

fn equal_but_for_marks(a: &State, b: &State) -> bool {
    let plain = |state: &State| State {
        by: Who::Nobody,
        mark: Mix::own(),
        connmark: Mix::flow(),
        tos: (0xff, 0),
        ..state.clone()
    };
    plain(a) == plain(b)
}

impl Space {
    /// Packets whose mark, flow mark or TOS byte comes out differently in two states.
    fn marks_differ(&mut self, a: &State, b: &State) -> Result<Node, TooLarge> {
        let mut any = NO;
        let flow = self.diagram.is(Field::HasFlow, 1)?;
        for (own, one, other) in [(YES, &a.mark, &b.mark), (flow, &a.connmark, &b.connmark)] {
            let difference = one.with(other);
            for bit in 0..32 {
                let bit = self.mix_bit(&difference, bit)?;
                let bit = self.diagram.and(own, bit)?;
                any = self.diagram.or(any, bit)?;
            }
        }
        let (kept, turned) = (a.tos.0 ^ b.tos.0, a.tos.1 ^ b.tos.1);
        for bit in 0..8 {
            let has = |mask: u8| mask >> bit & 1 != 0;
            let level = Field::Tos.bit(bit);
            let one = match (has(kept), has(turned)) {
                (false, false) => NO,
                (false, true) => YES,
                (true, false) => self.diagram.make(level, NO, YES)?,
                (true, true) => self.diagram.make(level, YES, NO)?,
            };
            any = self.diagram.or(any, one)?;
        }
        Ok(any)
    }
}

impl super::diagram::Diagram {
    /// The part of any diagram that is inside a set: other leaves become [`NO`].
    pub(super) fn and_leaves(&mut self, node: Node, set: Node) -> Result<Node, TooLarge> {
        self.select(set, node, NO)
    }

    /// The number of a leaf that a packet has.
    pub fn number_at(&self, node: Node, valuation: &Valuation) -> u32 {
        debug_assert!(leaf_of(leaf(0)).is_some());
        self.at(node, |level| valuation.bit(level))
    }
}
