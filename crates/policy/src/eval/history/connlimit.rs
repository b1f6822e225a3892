//! Concurrent connections per address group (iptables' `connlimit`).
//!
//! Counted are the connections whose packets reached this test and whose flows still live, the
//! packet's own included. A TCP connection that is over (TIME-WAIT, CLOSE) does not count.

use std::collections::HashMap;

use super::masked;
use crate::eval::track::tcp::State;
use crate::eval::track::tuple::{TCP, Tuple};
use crate::eval::track::{Flow, Seen, Tracker};
use crate::model::{ConnLimit, Packet};

/// Connections that reached the test, by group.
#[derive(Clone, Debug, Default)]
pub struct Groups(HashMap<(bool, u128), Vec<Tuple>>);

/// Whether a flow counts as a connection.
fn counts(flow: &Flow) -> bool {
    flow.original.proto != TCP || !matches!(flow.tcp.state, State::TimeWait | State::Close)
}

impl Groups {
    /// Counts the connections of the packet's group and compares. A packet that belongs to no
    /// connection (invalid, untracked) counts as one and is not remembered.
    pub fn test(
        &mut self,
        limit: &ConnLimit,
        packet: &Packet,
        tracker: &Tracker,
        seen: Option<&Seen>,
        now_ms: u64,
    ) -> bool {
        let address = if limit.destination {
            packet.dst
        } else {
            packet.src
        };
        let v6 = packet.family == crate::model::Family::V6;
        let group = (v6, masked(packet, address, limit.prefix));
        let own = seen
            .and_then(|seen| tracker.flow(seen))
            .map(|flow| flow.original);
        let members = self.0.entry(group).or_default();
        // Of two flows with the same ends, one after the other, only the present one counts.
        let same = |member: &Tuple| Some(*member) == own || Some(member.inverse()) == own;
        members
            .retain(|member| !same(member) && tracker.flow_of(member, now_ms).is_some_and(counts));
        let others = members.len() as u64;
        members.extend(own);
        (others + 1 > u64::from(limit.count)) == limit.above
    }
}
