//! ipfw's states in a policy: the reference for [`DynamicTest`], and for learners of ipfw.
//!
//! In: learners, packets. Out: the learner whose state a packet belongs to, or whether one could be
//! noted. The table is that of [`super::ipfw::States`], with learners in the place of rules and
//! numbers in the place of names.

use super::ipfw::states::{Owner, Touch};
use super::ipfw::{Packet as Seen, Pass, States, Way};
use super::learned::{Found, Learned};
use crate::dialect::ipfw::Settings;
use crate::model::{
    Dynamic, DynamicTest, Hook, Keeper, Learner, LearnerId, Packet, Policy, RejectKind, RuleId,
    Transport, Verdict,
};

const RST: u8 = 4;

/// States of ipfw, and what is known of the packet being judged.
#[derive(Clone, Debug, Default)]
pub struct DynamicStates {
    /// The states; their rules are learners.
    pub states: States,
    /// The name of the last look.
    looked: Option<u32>,
    /// A state was noted since.
    noted: bool,
}

impl DynamicStates {
    pub(super) fn begin(&mut self) {
        (self.looked, self.noted) = (None, false);
    }
}

/// What a learner of ipfw says of a packet.
pub(super) fn verdict(learner: &Learner, packet: &Packet) -> Verdict {
    with_answer(learner.verdict(packet.family), packet)
}

/// A verdict as the sender meets it: a reset for what isn't TCP, or is a reset, is a drop.
#[must_use]
pub fn with_answer(verdict: Verdict, packet: &Packet) -> Verdict {
    let resettable = matches!(packet.transport, Transport::Tcp { flags, .. } if flags & RST == 0);
    match verdict {
        Verdict::Reject(RejectKind::TcpReset) if !resettable => Verdict::Drop,
        verdict => verdict,
    }
}

/// Settings as the table asks for them.
fn settings(policy: &Policy) -> Settings {
    let usual = Dynamic::default();
    let own = policy.dynamic.as_ref().unwrap_or(&usual);
    let [ack, syn, fin, rst] = own.tcp;
    Settings {
        dyn_ack_lifetime: ack,
        dyn_syn_lifetime: syn,
        dyn_fin_lifetime: fin,
        dyn_rst_lifetime: rst,
        dyn_udp_lifetime: own.udp,
        dyn_short_lifetime: own.short,
        dyn_max: policy.states_max,
        dyn_parent_max: own.parents_max,
        dyn_icmp_errors: own.icmp_errors,
        ..Settings::default()
    }
}

fn seen(packet: &Packet) -> Option<Seen> {
    let pass = match packet.hook {
        Hook::Prerouting => Pass::In,
        _ => Pass::Out,
    };
    Seen::of(packet, pass)
}

impl Learned {
    /// States of ipfw that live.
    #[must_use]
    pub fn dynamic_states(&self) -> u32 {
        self.dynamic.states.len()
    }

    /// Answers a question about ipfw's states.
    pub fn asks(
        &mut self,
        test: DynamicTest,
        policy: &Policy,
        packet: &Packet,
        now_ms: u64,
    ) -> bool {
        match test {
            DynamicTest::Look(name) => self.look_for(name, policy, packet, now_ms),
            DynamicTest::Of(rule) => self
                .found
                .is_some_and(|found| policy.learners[found.learner.0 as usize].rule == rule),
            DynamicTest::Forget => {
                self.dynamic.begin();
                true
            }
        }
    }

    fn look_for(&mut self, name: u32, policy: &Policy, packet: &Packet, now_ms: u64) -> bool {
        let own = &mut self.dynamic;
        if own.looked == Some(0) || own.looked == Some(name) {
            return false;
        }
        (own.looked, own.noted) = (Some(name), false);
        let now = now_ms / 1000;
        own.states.expire(now);
        let Some(packet) = seen(packet) else {
            return false;
        };
        let touch = Touch {
            packet: &packet,
            now,
        };
        let text = name.to_string();
        let name = (name != 0).then_some(text.as_str());
        let hit = own.states.look(name, &touch, &settings(policy), |_| true);
        self.found = hit.map(|hit| Found {
            learner: LearnerId(hit.rule.0),
            reverse: hit.way == Way::Reverse,
            refused: None,
        });
        hit.is_some()
    }

    /// Notes a packet's flow; false where that can't be.
    pub(super) fn note(
        &mut self,
        policy: &Policy,
        id: LearnerId,
        packet: &Packet,
        now_ms: u64,
    ) -> bool {
        let Keeper::Ipfw(keeper) = policy.learners[id.0 as usize].keeper else {
            return false;
        };
        let own = &mut self.dynamic;
        let now = now_ms / 1000;
        own.states.expire(now);
        let Some(packet) = seen(packet) else {
            return false;
        };
        let name = keeper.name.to_string();
        // A rule has a learner for each of its limits, and the flows of all count together.
        let is_of_rule = |one: &Learner| match &one.keeper {
            Keeper::Ipfw(other) => other.identity == keeper.identity,
            _ => false,
        };
        let first = policy.learners.iter().position(is_of_rule);
        let owner = Owner {
            rule: RuleId(first.map_or(id.0, |first| first as u32)),
            number: 0,
            set: 0,
            name: &name,
        };
        let touch = Touch {
            packet: &packet,
            now,
        };
        let look_first = own.looked != Some(keeper.name) || own.noted;
        let settings = settings(policy);
        let noted = own
            .states
            .note(&owner, keeper.limit, look_first, &touch, &settings);
        own.noted |= noted;
        noted
    }
}
