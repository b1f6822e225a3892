//! HP-UX's connection limits among the states of a policy: the reference.
//!
//! In: a packet that begins a connection, and the learner whose rule has `keep limit`. Out: what
//! becomes of it, as [`Learned::found`]: its learner, and the verdict where it isn't the learner's.
//! The counts are those of [`super::ipf::limit`], with learners in the place of rules.

use super::ipf::IpfPacket;
use super::ipf::limit::{Limit, LimitType};
use super::ipf::state::Event;
use super::learned::{Found, Learned, keeper};
use crate::model::{Allocation, LearnerId, Policy, RejectKind, Verdict};

const SYN: u8 = 2;
const ACK: u8 = 16;

impl Learned {
    /// What a limit that counts already says of a new connection.
    pub(super) fn known_limit(&mut self, policy: &Policy, facts: &IpfPacket, now_ms: u64) -> bool {
        let begins = facts.tcp.is_some_and(|tcp| tcp.flags & (SYN | ACK) == SYN);
        let (true, Some((_, port))) = (begins && !facts.out && facts.is_trackable(), facts.ports)
        else {
            return false;
        };
        let known = self
            .limits
            .find(facts.family, facts.source, (facts.destination, port));
        let Some((at, rule)) = known.and_then(|at| Some((at, self.limits.get(at)?.rule))) else {
            return false;
        };
        self.through(policy, (at, LearnerId(rule as u32)), facts, now_ms);
        true
    }

    /// A rule with a limit matched; false for what has no port.
    pub(super) fn allocate(
        &mut self,
        policy: &Policy,
        id: LearnerId,
        facts: &IpfPacket,
        now_ms: u64,
    ) -> bool {
        let learner = &policy.learners[id.0 as usize];
        let keeper = keeper(learner);
        let (Some(Some(allocation)), Some((_, port))) =
            (keeper.map(|keeper| keeper.allocation), facts.ports)
        else {
            return false;
        };
        let rule = id.0 as usize;
        let known = match allocation.cumulative {
            true => self.limits.of_rule(rule),
            false => self
                .limits
                .find(facts.family, facts.source, (facts.destination, port)),
        };
        let at = known.unwrap_or_else(|| {
            self.limits.add(Limit {
                rule,
                place: String::new(),
                kind: kind(&allocation),
                family: facts.family,
                source: (!allocation.cumulative).then_some(facts.source),
                destination: facts.destination,
                port,
                configured: allocation.limit,
                current: 0,
                exceeded: 0,
                resets: 0,
                first_ms: now_ms,
                every: allocation.alerts,
            })
        });
        self.through(policy, (at, id), facts, now_ms);
        true
    }

    /// Counts a connection, if it fits.
    fn through(
        &mut self,
        policy: &Policy,
        (at, id): (usize, LearnerId),
        facts: &IpfPacket,
        now_ms: u64,
    ) {
        let Some(keeper) = keeper(&policy.learners[id.0 as usize]) else {
            return;
        };
        let allocation = keeper.allocation;
        let mut refused = None;
        if !self.limits.admit(at) {
            self.limits.alert(at, facts, now_ms);
            let resets = allocation.is_some_and(|allocation| allocation.resets);
            refused = Some(match resets {
                true => Verdict::Reject(RejectKind::TcpReset),
                false => Verdict::Drop,
            });
            if resets {
                self.limits.reset(at);
            }
        } else {
            self.limits.begin(at);
            match self.make(policy, (id, keeper), facts, Some(at), now_ms) {
                true => self.keep_fragments_of(policy, id, facts, now_ms),
                false => {
                    self.limits.end(at, now_ms);
                    let closed = allocation.is_some_and(|allocation| allocation.fails_closed);
                    refused = closed.then_some(Verdict::Drop);
                }
            }
        }
        self.found = Some(Found {
            learner: id,
            reverse: false,
            refused,
        });
    }

    /// Limits lose the connections that ended.
    pub(super) fn settle(&mut self, now_ms: u64) {
        for event in std::mem::take(&mut self.states.events) {
            if let Event::Expire(state) = event
                && let Some(limit) = state.limit
            {
                self.limits.end(limit, now_ms);
            }
        }
    }
}

fn kind(allocation: &Allocation) -> LimitType {
    match allocation.kind {
        2 => LimitType::Single,
        4 => LimitType::Cumulative,
        6 => LimitType::Subnet,
        _ => LimitType::Any,
    }
}
