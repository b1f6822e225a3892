//! States that rules of a policy made: the reference for [`Cond::Learned`] and [`Cond::Learn`].
//!
//! In: learners, packets as IPFilter sees them. Out: the learner whose state a packet belongs to.
//! The table is that of [`super::ipf::state`], with learners in the place of rules.
//!
//! [`Cond::Learned`]: crate::model::Cond::Learned
//! [`Cond::Learn`]: crate::model::Cond::Learn

use super::Passage;
use super::dynamic::DynamicStates;
use super::ipf::frag::{Fragments, Known};
use super::ipf::limit::Limits;
use super::ipf::state::{self, Hit, NewState};
use super::ipf::{Flags, IpfPacket, Settings, may_be_kept, sources_fit};
use crate::dialect::ipf::words::attribute;
use crate::model::{
    Hook, IcmpHeadTest, IpfKeeper, IpfWith, Keeper, Learner, LearnerId, Packet, Policy, RejectKind,
    ReversePath, Verdict,
};

/// The state that a packet was found to belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its learner.
    pub learner: LearnerId,
    /// The packet goes the other way.
    pub reverse: bool,
    /// The verdict, where it isn't the learner's: above a limit of connections.
    pub refused: Option<Verdict>,
}

/// All states, and what is known of the packet being judged.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The states; their rules are learners.
    pub states: state::Table,
    /// Lifetimes and the like.
    pub settings: Settings,
    /// Limits of connections.
    pub limits: Limits,
    /// States of ipfw.
    pub(super) dynamic: DynamicStates,
    fragments: Fragments,
    pub(super) found: Option<Found>,
    out_of_window: bool,
    /// States that an ICMP error may be of, oldest first: the last one waits for its group.
    waiting: Vec<Hit>,
}

/// What a learner says of a packet.
#[must_use]
pub fn learned_verdict(learner: &Learner, packet: &Packet) -> Verdict {
    const TCP: u8 = 6;
    if let Keeper::Ipfw(_) = learner.keeper {
        return super::dynamic::verdict(learner, packet);
    }
    match learner.verdict(packet.family) {
        Verdict::Reject(kind) => match (kind, packet.hook) {
            (RejectKind::TcpReset, _) if packet.proto != TCP => Verdict::Drop,
            (_, Hook::Prerouting) | (RejectKind::TcpReset, Hook::Output) => Verdict::Reject(kind),
            _ => Verdict::Drop,
        },
        verdict => verdict,
    }
}

/// How a learner of IPFilter keeps states; `None` for those of other languages.
pub(super) fn keeper(learner: &Learner) -> Option<&IpfKeeper> {
    match &learner.keeper {
        Keeper::Ipf(keeper) => Some(keeper),
        Keeper::Ipfw(_) => None,
    }
}

impl Learned {
    /// A new packet comes.
    pub fn begin(&mut self) {
        (self.found, self.out_of_window) = (None, false);
        self.waiting.clear();
        self.dynamic.begin();
    }

    /// The state that the last look found.
    #[must_use]
    pub fn found(&self) -> Option<Found> {
        self.found
    }

    /// What the state that was found says of the packet.
    #[must_use]
    pub fn verdict(&self, policy: &Policy, packet: &Packet) -> Option<Verdict> {
        let found = self.found?;
        let learner = &policy.learners[found.learner.0 as usize];
        let own = || learned_verdict(learner, packet);
        Some(found.refused.unwrap_or_else(own))
    }

    /// Whether the last look found a state but for its window.
    #[must_use]
    pub fn is_out_of_window(&self) -> bool {
        self.out_of_window
    }

    /// Whether a packet has what `with` asks for; `None` where nobody has given its facts.
    #[must_use]
    pub fn with_holds(
        &self,
        with: &IpfWith,
        policy: &Policy,
        packet: &Packet,
        passage: &Passage,
    ) -> Option<bool> {
        let facts = self.facts(policy, packet, passage)?;
        Some(
            facts.attributes & with.attributes.0 == with.attributes.1
                && facts.options & with.options.0 == with.options.1
                && facts.classes & with.classes.0 == with.classes.1
                && facts.headers & with.no_headers == 0
                && facts.headers & with.headers == with.headers,
        )
    }

    /// The packet as IPFilter sees it at this hook.
    fn facts(&self, policy: &Policy, packet: &Packet, passage: &Passage) -> Option<IpfPacket> {
        let mut facts = (**passage.facts.as_ref()?).clone();
        facts.out = packet.hook != Hook::Prerouting;
        facts.interface = match facts.out {
            true => packet.out_iface.clone(),
            false => packet.in_iface.clone(),
        };
        if !facts.out && facts.ttl < self.settings.min_ttl {
            facts.attributes |= attribute::LOWTTL;
        }
        let verified = packet.handling & ReversePath::Verified.bit() != 0;
        if !facts.out && policy.checks_source && !verified {
            facts.attributes |= attribute::BAD_SRC;
        }
        Some(facts)
    }

    /// Whether the packet belongs to a state, which notes it.
    pub fn look(
        &mut self,
        policy: &Policy,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
    ) -> bool {
        let learners = &policy.learners;
        self.begin();
        self.settings.lifetimes = policy.lifetimes;
        self.states.expire(now_ms);
        self.settle(now_ms);
        self.fragments.expire(now_ms);
        let Some(facts) = self.facts(policy, packet, passage) else {
            return false;
        };
        if facts.is(attribute::FRAG) {
            match self.fragments.find(&facts) {
                None => {}
                Some(Known::Overlap) => return true,
                Some(Known::Rule(learner, _)) => {
                    self.found = Some(Found {
                        learner: LearnerId(learner as u32),
                        reverse: false,
                        refused: None,
                    });
                    return true;
                }
            }
        }
        if !facts.is_trackable() {
            return false;
        }
        let mut attributes = facts.attributes;
        let mut hit = self
            .states
            .find(&facts, &mut attributes, now_ms, &self.settings);
        self.out_of_window = attributes & attribute::OOW != 0;
        if hit.is_none() && facts.icmp.as_ref().is_some_and(|icmp| icmp.error) {
            self.waiting = self.states.of_error(&facts);
            self.waiting.reverse();
            hit = self.of_error(learners, &facts);
        }
        self.is_of(hit, learners, &facts, now_ms) || self.known_limit(policy, &facts, now_ms)
    }

    /// The packet is of a state, which is noted, or of none.
    fn is_of(
        &mut self,
        hit: Option<Hit>,
        learners: &[Learner],
        facts: &IpfPacket,
        now_ms: u64,
    ) -> bool {
        self.found = hit.map(|hit| Found {
            learner: LearnerId(self.states.get(hit.at).rule as u32),
            reverse: hit.reverse,
            refused: None,
        });
        if let Some(found) = self.found {
            let learner = &learners[found.learner.0 as usize];
            let passes = learner.verdict(facts.family) == Verdict::Accept;
            if passes && keeper(learner).is_some_and(|keeper| keeper.fragments.is_some()) {
                self.keep_fragments(learner, found.learner, facts, now_ms);
            }
        }
        hit.is_some()
    }

    /// Remembers the datagram of a fragment that made a state.
    pub(super) fn keep_fragments_of(
        &mut self,
        policy: &Policy,
        id: LearnerId,
        facts: &IpfPacket,
        now_ms: u64,
    ) {
        if facts.is(attribute::FRAG) {
            self.keep_fragments(&policy.learners[id.0 as usize], id, facts, now_ms);
        }
    }

    /// Remembers a fragment's datagram.
    fn keep_fragments(&mut self, learner: &Learner, id: LearnerId, facts: &IpfPacket, now_ms: u64) {
        let strict = keeper(learner).is_some_and(|keeper| keeper.fragments == Some(true));
        let (rule, life) = ((id.0 as usize, 0), self.settings.lifetimes.fragment);
        self.fragments.add(facts, rule, strict, now_ms, life);
    }

    /// The state that an ICMP error belongs to, of those that are waiting; none as soon as one asks
    /// a group.
    fn of_error(&mut self, learners: &[Learner], facts: &IpfPacket) -> Option<Hit> {
        while let Some(&hit) = self.waiting.last() {
            let asks = self.keeper_of(learners, hit);
            if asks.is_some_and(|keeper| keeper.icmp_head.is_some()) {
                return None;
            }
            self.waiting.pop();
            if self.takes(learners, hit, facts) {
                return Some(hit);
            }
        }
        None
    }

    fn keeper_of<'l>(&self, learners: &'l [Learner], hit: Hit) -> Option<&'l IpfKeeper> {
        keeper(&learners[self.states.get(hit.at).rule])
    }

    /// Whether an ICMP error belongs to a state.
    fn takes(&mut self, learners: &[Learner], hit: Hit, facts: &IpfPacket) -> bool {
        let keeper = self.keeper_of(learners, hit);
        keeper.is_some_and(|keeper| !keeper.no_icmp_errors) && self.states.allow_error(hit, facts)
    }

    /// Answers a question about an ICMP error that a group judges; that about the verdict which
    /// stands is the evaluator's.
    pub fn icmp_head(
        &mut self,
        test: IcmpHeadTest,
        policy: &Policy,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
    ) -> bool {
        let learners = &policy.learners;
        // A state that was found leaves those behind it without a question.
        if self.found.is_some() {
            return false;
        }
        let Some(&hit) = self.waiting.last() else {
            return false;
        };
        let passes = match test {
            IcmpHeadTest::Waits => return true,
            IcmpHeadTest::WaitsFor(group) => {
                let keeper = self.keeper_of(learners, hit);
                return keeper.is_some_and(|keeper| keeper.icmp_head == Some(group));
            }
            IcmpHeadTest::Refused => return false,
            IcmpHeadTest::Passes => true,
            IcmpHeadTest::Blocked => false,
        };
        let Some(facts) = self.facts(policy, packet, passage) else {
            return false;
        };
        self.waiting.pop();
        let hit = match passes && self.takes(learners, hit, &facts) {
            true => Some(hit),
            false => self.of_error(learners, &facts),
        };
        self.is_of(hit, learners, &facts, now_ms)
    }

    /// Makes a state, and remembers a fragment's datagram, as the learner says; false where a
    /// state can't be made.
    pub fn learn(
        &mut self,
        policy: &Policy,
        id: LearnerId,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
    ) -> bool {
        let learner = &policy.learners[id.0 as usize];
        let Some(keeper) = keeper(learner) else {
            return self.note(policy, id, packet, now_ms);
        };
        let Some(facts) = self.facts(policy, packet, passage) else {
            return false;
        };
        if keeper.allocation.is_some() {
            return self.allocate(policy, id, &facts, now_ms);
        }
        let made = !keeper.state || self.make(policy, (id, keeper), &facts, None, now_ms);
        let fragments = match made {
            true => keeper.state || keeper.fragments.is_some(),
            false => keeper.fragments.is_some() && keeper.fragments_anyway,
        };
        if fragments && facts.is(attribute::FRAG) {
            self.keep_fragments(learner, id, &facts, now_ms);
        }
        made
    }

    /// Makes a state, where that is possible.
    pub(super) fn make(
        &mut self,
        policy: &Policy,
        (id, keeper): (LearnerId, &IpfKeeper),
        facts: &IpfPacket,
        limit: Option<usize>,
        now_ms: u64,
    ) -> bool {
        let number = id.0 as usize;
        let states = self.states.entries();
        let room = match keeper.limit {
            // A rule's own limit is a guaranteed share: it does not look at the table's.
            Some(limit) => {
                states.iter().filter(|state| state.rule == number).count() < limit as usize
            }
            None => states.len() < policy.states_max as usize,
        };
        let own = states.iter().filter(|state| state.rule == number);
        let sources = own.map(|state| (state.family, state.source));
        let limits = (keeper.max_sources, keeper.max_per_source);
        let room = room && sources_fit(limits, (facts.family, facts.source), sources);
        let oow = if self.out_of_window {
            attribute::OOW
        } else {
            0
        };
        if !room || !may_be_kept(facts, facts.attributes | oow) {
            return false;
        }
        let own = match keeper.any_interface {
            true => "-".to_owned(),
            false => facts.interface.clone(),
        };
        let seconds =
            |(forward, reverse): (u32, u32)| (u64::from(forward) * 1000, u64::from(reverse) * 1000);
        let new = NewState {
            rule: number,
            rule_number: 0,
            flags: Flags::default(),
            interfaces: match facts.out {
                false => [Some(own), None, None, None],
                true => [None, None, Some(own), None],
            },
            strict: keeper.strict,
            loose: keeper.loose,
            age_ms: keeper.age.map(seconds),
            tag: None,
            limit,
            now_ms,
            lifetimes: self.settings.lifetimes,
        };
        self.states.add(facts, facts.attributes, new);
        true
    }
}
