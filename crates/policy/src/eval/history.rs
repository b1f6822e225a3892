//! Memory of packets, the reference (interface; the flow engineer's branch replaces the bodies).

use super::track::{Seen, Tracker};
use crate::model::{HistoryId, Packet, Policy};

/// The state of all histories of a policy.
#[derive(Clone, Debug, Default)]
pub struct Histories {}

impl Histories {
    /// Fresh state: buckets full, lists empty.
    pub fn new(_policy: &Policy) -> Self {
        Histories {}
    }

    /// Tests, and so touches, a history.
    pub fn test(
        &mut self,
        _id: HistoryId,
        _packet: &Packet,
        _tracker: &Tracker,
        _seen: Option<&Seen>,
        _now_ms: u64,
    ) -> bool {
        false
    }
}
