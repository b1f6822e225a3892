//! The compiled image beside the evaluator: which rules of a long list are worth a walk.
//!
//! In: a rule set, packets as ipfw sees them. Out: an [`Among`] for the evaluator, or nothing where
//! rules can't be told apart by headers (calls that go back, more rules that could match one packet
//! than an image takes); then every rule is walked. Verdicts, states, counters and lines are the
//! evaluator's alone.

use weir_engine::run::{Matcher, Matching};
use weir_policy::dialect::ipfw::Ruleset;
use weir_policy::dialect::ipfw::lower::candidates;
use weir_policy::eval::ipfw::{Among, Packet, Positions};

/// Lists up to this long are walked as fast as looked up.
const SHORT: usize = 64;

/// A compiled list of candidates.
pub struct Built {
    matching: Matching,
    positions: Positions,
}

/// Looks packets up.
pub struct Index<'b> {
    matcher: Matcher<'b>,
    positions: &'b Positions,
}

impl Built {
    /// Compiles the candidates of a rule set, where that is worth it.
    pub fn of(set: &Ruleset) -> Option<Self> {
        if set.rules.len() <= SHORT {
            return None;
        }
        Some(Built {
            matching: Matching::of(candidates(set)?)?,
            positions: Positions::of(set),
        })
    }

    /// Something to look packets up with.
    pub fn index(&self) -> Option<Index<'_>> {
        Some(Index {
            matcher: self.matching.matcher()?,
            positions: &self.positions,
        })
    }
}

impl Index<'_> {
    /// The rules worth a visit by a packet; all of them where its headers don't tell.
    pub fn among(&mut self, packet: &Packet) -> Among {
        let headers = packet.headers().filter(|_| !packet.layer2);
        let matched = headers.and_then(|headers| self.matcher.matched(&headers));
        matched.map_or_else(Among::default, |matched| {
            self.positions.among(&matched.rules, matched.ended)
        })
    }
}
