//! [`Live`] by the reference tracker and histories of `policy::eval`: for replaying captures, and
//! for tests in which only the classifier differs from the evaluator.

use super::{Flow, Live};
use weir_policy::eval::history::Histories;
use weir_policy::eval::track::{Seen, Tracker};
use weir_policy::eval::{Learned, Locals, Passage};
use weir_policy::model::{
    AddrType, CtState, DynamicTest, Family, HistoryId, IcmpHeadTest, IpfWith, LearnerId, Packet,
    Policy,
};

/// The reference memory of one policy.
#[derive(Debug)]
pub struct Reference {
    /// Connection tracking.
    pub tracker: Tracker,
    /// Limits, lists and counts.
    pub histories: Histories,
    /// Addresses of the host.
    pub locals: Locals,
    /// States that rules made.
    pub learned: Learned,
    policy: Policy,
    seen: Option<Seen>,
}

impl Reference {
    /// Fresh memory.
    pub fn new(policy: &Policy) -> Self {
        Reference {
            tracker: Tracker::default(),
            histories: Histories::new(policy),
            locals: Locals::default(),
            learned: Learned::default(),
            policy: Policy {
                learners: policy.learners.clone(),
                states_max: policy.states_max,
                lifetimes: policy.lifetimes,
                checks_source: policy.checks_source,
                dynamic: policy.dynamic.clone(),
                ..Policy::default()
            },
            seen: None,
        }
    }

    /// Forgets the packet last looked at: a new one begins its way.
    pub fn begin(&mut self) {
        self.seen = None;
        self.learned.begin();
    }
}

impl Live for Reference {
    fn look(&mut self, packet: &Packet, now_ms: u64) -> CtState {
        let seen = self.tracker.look(packet, now_ms);
        let state = seen.state;
        self.seen = Some(seen);
        state
    }

    fn confirm(&mut self, packet: &Packet, now_ms: u64) {
        if let Some(seen) = &self.seen {
            self.tracker.confirm(packet, seen, now_ms);
        }
    }

    fn flow(&self, now_ms: u64) -> Option<Flow> {
        let seen = self.seen.as_ref()?;
        let flow = self.tracker.flow(seen)?;
        let confirmed = flow.status & weir_policy::eval::track::status::CONFIRMED != 0;
        let left_ms = if confirmed {
            flow.expires_ms.saturating_sub(now_ms)
        } else {
            0
        };
        Some(Flow {
            proto: flow.original.proto,
            address: [&flow.original, &flow.reply].map(|tuple| [tuple.src, tuple.dst]),
            port: [&flow.original, &flow.reply].map(|tuple| [tuple.src_port, tuple.dst_port]),
            status: flow.status,
            expires: u32::try_from(left_ms / 1000).unwrap_or(u32::MAX),
            direction: seen.direction,
            mark: flow.mark,
        })
    }

    fn set_connmark(&mut self, mark: u32) {
        if let Some(seen) = &self.seen {
            self.tracker.set_connmark(seen, mark);
        }
    }

    fn history(&mut self, id: u32, packet: &Packet, now_ms: u64) -> bool {
        self.histories.test(
            HistoryId(id),
            packet,
            &self.tracker,
            self.seen.as_ref(),
            now_ms,
        )
    }

    fn learned(&mut self, packet: &Packet, passage: &Passage, now_ms: u64) -> bool {
        self.learned.look(&self.policy, packet, passage, now_ms)
    }

    fn ipf_with(&self, with: &IpfWith, packet: &Packet, passage: &Passage) -> Option<bool> {
        self.learned.with_holds(with, &self.policy, packet, passage)
    }

    fn icmp_head(
        &mut self,
        test: IcmpHeadTest,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
    ) -> bool {
        let (learned, policy) = (&mut self.learned, &self.policy);
        learned.icmp_head(test, policy, packet, passage, now_ms)
    }

    fn is_out_of_window(&self) -> bool {
        self.learned.is_out_of_window()
    }

    fn learn(&mut self, id: u32, packet: &Packet, passage: &Passage, now_ms: u64) -> bool {
        let (policy, id) = (&self.policy, LearnerId(id));
        self.learned.learn(policy, id, packet, passage, now_ms)
    }

    fn dynamic(&mut self, test: DynamicTest, packet: &Packet, now_ms: u64) -> bool {
        self.learned.asks(test, &self.policy, packet, now_ms)
    }

    fn as_learned(&self, packet: &Packet) -> Option<super::Learned> {
        let learner = &self.policy.learners[self.learned.found()?.learner.0 as usize];
        Some(super::Learned {
            rule: learner.rule,
            verdict: self.learned.verdict(&self.policy, packet)?,
            counts: learner.counts,
            logs: learner.log.is_some(),
        })
    }

    fn address_type(&self, family: Family, address: u128) -> u32 {
        match self.locals.kind(family, address) {
            AddrType::Local => 1,
            AddrType::Broadcast => 2,
            AddrType::Multicast => 4,
            AddrType::Unicast => 8,
            AddrType::Unspecified => 16,
            AddrType::Anycast => 32,
        }
    }
}
