//! What a walk has done to a packet so far: the leaves of the diagrams of a walk.
//!
//! In: the states, and changes to them as rules make them. Out: new states, each stored once, so
//! that the same state is the same leaf in the diagrams of both policies. Marks are kept as
//! functions of the marks that the packet came with, so that nothing depends on their values.

use super::diagram::{Quick, QuickMap};
use super::mix::Mix;
use crate::model::{MarkShift, MssOp, RejectKind, TtlOp, Verdict};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Which rule it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// Nobody, or nobody asks.
    Nobody,
    /// A rule, or a chain's policy, of the first (0) or the second (1) policy.
    Rule(u8, u32),
    /// A rule of a policy that reads a transport header which isn't there.
    CutShort(u8, u32),
}

/// Something that a walk did and that lasts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// A condition that remembers was asked; its number.
    Asked(u32),
    /// A record was made.
    Logged(String),
    /// A set was changed.
    Set(String),
    /// The maximum segment size is lowered.
    Mss(Option<u16>),
    /// Its state decided, which a rule made for a packet before.
    AsItsState,
    /// A rule of ipfw noted its flow; how.
    Noted(String),
    /// A state of ipfw was found, and lives on; whose.
    Refreshed(String),
    /// The TTL or hop limit changes.
    Ttl(TtlOp),
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The verdict, once there is one.
    pub verdict: Option<Verdict>,
    /// Who gave it; of an accepted packet, who accepted it last.
    pub by: Who,
    /// The verdict that stands, and whose it is where that is asked for.
    pub standing: Option<(Verdict, Who)>,
    /// Packet mark.
    pub mark: Mix,
    /// Flow mark.
    pub connmark: Mix,
    /// TOS: bits kept, bits turned over.
    pub tos: (u8, u8),
    /// Queueing priority.
    pub class: Option<u32>,
    /// Whether tracking was told to leave it alone.
    pub untracked: bool,
    /// What is known of its states of ipfw.
    pub flows: Flows,
    /// What lasts, in order.
    pub effects: Vec<Effect>,
}

/// What is known of the states of ipfw that a packet's flow has. Classes are those of
/// [`super::makers::Makers`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flows {
    /// The name of the last look (0: all names).
    pub looked: Option<u32>,
    /// A state was noted since.
    pub noted: bool,
    /// The class of the state that the last look found.
    pub found: Option<usize>,
    /// Names and classes of states made on this way, the newest first.
    pub known: Vec<(usize, usize)>,
    /// How many were made on this way.
    pub made: u32,
    /// Counters of limits that they took places of.
    pub taken: Vec<usize>,
    /// How often what was known of the flow was forgotten.
    pub age: u32,
    /// On which pass it is, where that may make another flow of what it quotes.
    pub pass: u32,
}

/// A change of a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// This verdict ends the walk.
    Decide(Verdict, Who),
    /// This verdict stands.
    Propose(Verdict, Who),
    /// If a verdict of this rule stands, it ends the walk.
    DecideProposedBy(Who),
    /// A pass that stands becomes a drop.
    Refuse,
    /// No verdict stands any more.
    Withdraw,
    /// The end of a root.
    End(Verdict, Who),
    /// The next list of rules begins for what was accepted.
    GoOn,
    /// A reset that nobody sends is a drop.
    Unanswered,
    /// `(mark & !mask) ^ value`.
    Mark(u32, u32),
    /// The same of the flow's mark, then moved.
    Connmark(u32, u32, MarkShift),
    /// Packet mark to flow: bits used, which are moved, bits cleared.
    Save(u32, u32, MarkShift),
    /// Flow mark to packet: bits cleared, bits used, which are moved.
    Restore(u32, u32, MarkShift),
    /// `(tos & !mask) ^ value`.
    Tos(u8, u8),
    /// Queueing priority.
    Class(u32),
    /// No tracking.
    Untrack,
    /// Something that lasts.
    Does(Effect),
    /// A pass begins: nobody has looked for states.
    BeginPass,
    /// What was found out of the flow's states holds no more.
    Unknow,
    /// What an error quotes may be of other flows on this pass.
    OtherInterface,
    /// States of a name were looked for; the class of the one that was found.
    Looked(u32, Option<usize>),
    /// A flow is taken as noted.
    Noted,
    /// A state of this name and class is made, which may take a place of a counter.
    Made {
        /// Name.
        name: usize,
        /// Class.
        class: usize,
        /// Counter.
        counter: Option<usize>,
        /// Whether it is surely there as long as the packet is.
        lasts: bool,
    },
}

impl State {
    /// A packet as it comes.
    pub fn start() -> State {
        State {
            verdict: None,
            by: Who::Nobody,
            standing: None,
            mark: Mix::own(),
            connmark: Mix::flow(),
            tos: (0xff, 0),
            class: None,
            untracked: false,
            flows: Flows::default(),
            effects: Vec::new(),
        }
    }

    fn after(&self, change: &Change) -> State {
        let mut next = self.clone();
        match change {
            Change::GoOn => {
                if next.verdict == Some(Verdict::Accept) {
                    next.verdict = None;
                    next.standing = None;
                }
                return next;
            }
            Change::Unanswered => {
                if next.verdict == Some(Verdict::Reject(RejectKind::TcpReset)) {
                    next.verdict = Some(Verdict::Drop);
                }
                return next;
            }
            _ if self.verdict.is_some() => return next,
            Change::Decide(verdict, who) => (next.verdict, next.by) = (Some(*verdict), *who),
            Change::Propose(verdict, who) => next.standing = Some((*verdict, *who)),
            Change::DecideProposedBy(who) => match next.standing {
                Some((verdict, by)) if by == *who => {
                    (next.verdict, next.by) = (Some(verdict), by);
                }
                _ => {}
            },
            Change::Refuse => {
                next.standing = next.standing.map(|(_, by)| (Verdict::Drop, by));
            }
            Change::Withdraw => next.standing = None,
            Change::End(verdict, who) => {
                let (verdict, by) = next.standing.unwrap_or((*verdict, *who));
                (next.verdict, next.by) = (Some(verdict), by);
            }
            Change::Mark(value, mask) => next.mark = next.mark.set(*value, *mask),
            Change::Connmark(..) | Change::Save(..) | Change::Restore(..) if next.untracked => {}
            Change::Connmark(value, mask, shift) => {
                next.connmark = next.connmark.set(*value, *mask).shifted(*shift);
            }
            Change::Save(used, cleared, shift) => {
                let moved = next.mark.masked(*used).shifted(*shift);
                next.connmark = next.connmark.masked(!cleared).with(&moved);
            }
            Change::Restore(cleared, used, shift) => {
                let moved = next.connmark.masked(*used).shifted(*shift);
                next.mark = next.mark.masked(!cleared).with(&moved);
            }
            Change::Tos(value, mask) => {
                next.tos = (next.tos.0 & !mask, (next.tos.1 & !mask) ^ value);
            }
            Change::Class(class) => next.class = Some(*class),
            Change::Untrack => next.untracked = true,
            Change::Does(effect) => next.effects.push(effect.clone()),
            of_flows => next.flows.apply(of_flows),
        }
        next
    }
}

impl Flows {
    fn apply(&mut self, change: &Change) {
        match *change {
            Change::BeginPass => (self.looked, self.noted, self.found) = (None, false, None),
            Change::Unknow => {
                self.known.clear();
                self.taken.clear();
                self.age += 1;
            }
            Change::OtherInterface => self.pass += 1,
            Change::Looked(name, found) => {
                (self.looked, self.noted, self.found) = (Some(name), false, found);
            }
            Change::Noted => self.noted = true,
            Change::Made {
                name,
                class,
                counter,
                lasts,
            } => {
                self.noted = true;
                self.made += 1;
                match lasts {
                    true => {
                        self.known.insert(0, (name, class));
                        self.taken.extend(counter);
                    }
                    false => self.apply(&Change::Unknow),
                }
            }
            _ => {}
        }
    }
}

/// What of two outcomes is compared. A verdict always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// How a rejected packet is answered; otherwise a reject is a drop.
    pub answers: bool,
    /// Marks, TOS, priority, maximum segment size of what is accepted, and marks of flows.
    pub changes: bool,
    /// Records in the log.
    pub logs: bool,
    /// Whether things that remember are asked by the same packets, so that they will remember the
    /// same.
    pub memory: bool,
}

impl Default for Compared {
    fn default() -> Self {
        Compared {
            answers: true,
            changes: true,
            logs: false,
            memory: true,
        }
    }
}

/// All states met so far. Leaf 0 is [`super::diagram::NO`]: not here.
#[derive(Debug, Default)]
pub struct States {
    all: Vec<State>,
    numbers: HashMap<State, u32, BuildHasherDefault<Quick>>,
    /// Numbers of changes, and what they make of which leaf.
    changes: HashMap<Change, u32, BuildHasherDefault<Quick>>,
    results: QuickMap<(u32, u32), u32>,
}

/// Leaves 0 and 1 are those of sets.
const FIRST: u32 = 2;

impl States {
    /// The leaf of a state.
    pub fn number(&mut self, state: State) -> u32 {
        if let Some(number) = self.numbers.get(&state) {
            return *number;
        }
        let number = self.all.len() as u32 + FIRST;
        self.all.push(state.clone());
        self.numbers.insert(state, number);
        number
    }

    /// The state of a leaf; `None` for "not here".
    pub fn get(&self, leaf: u32) -> Option<&State> {
        self.all.get((leaf as usize).checked_sub(FIRST as usize)?)
    }

    /// The number of a change; `fresh` gives one to a new change.
    pub fn change(&mut self, change: &Change, fresh: impl FnOnce() -> u32) -> u32 {
        if let Some(number) = self.changes.get(change) {
            return *number;
        }
        let number = fresh();
        self.changes.insert(change.clone(), number);
        number
    }

    /// The leaf after a change.
    pub fn after(&mut self, leaf: u32, change: &Change, number: u32) -> u32 {
        if let Some(known) = self.results.get(&(number, leaf)) {
            return *known;
        }
        let next = match self.get(leaf) {
            Some(state) => {
                let next = state.after(change);
                self.number(next)
            }
            None => leaf,
        };
        self.results.insert((number, leaf), next);
        next
    }

    /// The leaf with all that isn't compared made equal.
    pub fn outcome(&mut self, leaf: u32, compared: Compared) -> u32 {
        let Some(state) = self.get(leaf) else {
            return leaf;
        };
        let mut out = state.clone();
        let accepted = matches!(out.verdict, None | Some(Verdict::Accept));
        // Where there are no rules everything passes.
        let verdict = out.verdict.unwrap_or(Verdict::Accept);
        out.verdict = Some(match verdict {
            Verdict::Reject(_) if !compared.answers => Verdict::Drop,
            other => other,
        });
        out.standing = None;
        out.flows = Flows::default();
        if !accepted || !compared.changes {
            (out.mark, out.tos, out.class) = (Mix::own(), (0xff, 0), None);
        }
        if !compared.changes {
            out.connmark = Mix::flow();
        }
        out.untracked &= compared.memory;
        out.effects.retain(|effect| match effect {
            Effect::Asked(_) | Effect::Set(_) => compared.memory,
            Effect::Noted(_) | Effect::Refreshed(_) => compared.memory,
            Effect::Logged(_) => compared.logs,
            Effect::Mss(_) | Effect::Ttl(_) => accepted && compared.changes,
            Effect::AsItsState => true,
        });
        self.number(out)
    }
}

/// The words for what becomes of a packet.
pub fn verdict_word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject(RejectKind::TcpReset) => "reject (TCP reset)".to_owned(),
        Verdict::Reject(RejectKind::Icmp(code)) => format!("reject (ICMP 3/{code})"),
        Verdict::Reject(RejectKind::Icmp6(code)) => format!("reject (ICMPv6 1/{code})"),
        Verdict::Reject(RejectKind::IcmpAsDestination(code)) => {
            format!("reject (ICMP 3/{code} as its destination)")
        }
        Verdict::Reject(RejectKind::Icmp6AsDestination(code)) => {
            format!("reject (ICMPv6 1/{code} as its destination)")
        }
        Verdict::Reject(RejectKind::FragmentationNeeded(mtu)) => {
            format!("reject (ICMP 3/4, MTU {mtu})")
        }
    }
}

/// An MSS operation as an effect.
pub fn mss(op: MssOp) -> Effect {
    match op {
        MssOp::Set(value) => Effect::Mss(Some(value)),
        MssOp::ClampToPmtu => Effect::Mss(None),
    }
}
