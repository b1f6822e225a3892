//! Which rules of a policy a packet matches, for whoever judges by other means.
//!
//! In: a policy whose rules test headers alone, packets. Out: the rules that hold, in order, up to
//! one that ends the walk. Nothing is remembered from packet to packet.

use super::{Reference, Runner};
use crate::compile::{Options, compile};
use weir_policy::eval::Passage;
use weir_policy::model::{Packet, Policy, RuleId};

/// A policy, compiled to find rules.
#[derive(Debug)]
pub struct Matching {
    image: Vec<u8>,
    policy: Policy,
}

/// Finds rules.
#[derive(Debug)]
pub struct Matcher<'m> {
    runner: Runner<'m>,
    live: Reference,
}

/// What holds for a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// The rules, in order.
    pub rules: Vec<RuleId>,
    /// The rule or chain policy that ended the walk.
    pub ended: Option<RuleId>,
}

impl Matching {
    /// Compiles a policy; `None` when it doesn't fit into an image.
    #[must_use]
    pub fn of(policy: Policy) -> Option<Self> {
        let image = compile(&policy, &Options::default()).ok()?.image;
        Some(Matching { image, policy })
    }

    /// Something to look packets up with.
    #[must_use]
    pub fn matcher(&self) -> Option<Matcher<'_>> {
        Some(Matcher {
            runner: Runner::new(&self.image, 0).ok()?,
            live: Reference::new(&self.policy),
        })
    }
}

impl Matcher<'_> {
    /// The rules that hold for a packet; `None` for one that is cut short.
    pub fn matched(&mut self, packet: &Packet) -> Option<Matched> {
        let mut passage = Passage::of(packet);
        // No rule asks for connections, so none need be tracked.
        passage.untracked = true;
        self.live.begin();
        let outcome = self.runner.judge(packet, &mut passage, &mut self.live, 0);
        (!outcome.hot_drop).then_some(Matched {
            rules: outcome.matched,
            ended: outcome.decided_by,
        })
    }
}
