//! Connection tracking, the reference (interface; the flow engineer's branch replaces the bodies).

use super::Truth;
use crate::model::{CtField, CtState, Direction, Packet};

/// What tracking found out about a packet before the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// State as rules see it.
    pub state: CtState,
    /// Number of the flow, when there is one (a new packet's flow exists only after `confirm`,
    /// but has its number and mark already).
    pub flow: Option<u64>,
    /// Direction within it.
    pub direction: Direction,
}

/// The table of flows.
#[derive(Clone, Debug, Default)]
pub struct Tracker {}

impl Tracker {
    /// Looks at a packet before the rules.
    pub fn look(&mut self, _packet: &Packet, _now_ms: u64) -> Seen {
        Seen {
            state: CtState::Invalid,
            flow: None,
            direction: Direction::Original,
        }
    }

    /// The packet was accepted.
    pub fn confirm(&mut self, _packet: &Packet, _seen: &Seen, _now_ms: u64) {}

    /// The flow's mark; `None` without a flow.
    pub fn connmark(&self, _seen: &Seen) -> Option<u32> {
        None
    }

    /// Sets the flow's mark (of a flow not yet confirmed, too).
    pub fn set_connmark(&mut self, _seen: &Seen, _mark: u32) {}

    /// A condition on the flow.
    pub fn field(&self, _field: &CtField, _seen: &Seen, _now_ms: u64) -> Truth {
        Truth::Absent
    }
}
