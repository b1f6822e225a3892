//! Address lists with the times of the last packets (iptables' `recent`).
//!
//! Differs from Linux in two ways that are wanted: a list does not forget its oldest address when
//! it has more than 100, and `--reap` forgets the old times of the tested address instead of the
//! least recently used address.

use std::collections::HashMap;

use crate::model::{Family, Hook, Packet, Recent, RecentAction};

#[derive(Clone, Debug, Default)]
struct Entry {
    ttl: u8,
    stamps_ms: Vec<u64>,
}

/// A list.
#[derive(Clone, Debug, Default)]
pub struct List(HashMap<(bool, u128), Entry>);

/// The TTL that a list remembers: as the packet arrived, before routing lowered it.
pub fn ttl_seen(packet: &Packet) -> u8 {
    packet
        .ttl
        .wrapping_add(u8::from(packet.hook == Hook::Forward))
}

impl List {
    /// Tests the packet's address.
    pub fn test(&mut self, recent: &Recent, negated: bool, packet: &Packet, now_ms: u64) -> bool {
        let address = if recent.destination {
            packet.dst
        } else {
            packet.src
        };
        let key = (packet.family == Family::V6, address & recent.mask);
        let ttl = ttl_seen(packet);
        let found = self
            .0
            .get(&key)
            .is_some_and(|e| !recent.ttl || ttl == e.ttl || ttl == 0 || e.ttl == 0);
        let holds = match recent.action {
            RecentAction::Set => true,
            RecentAction::Remove => found,
            RecentAction::Check | RecentAction::Update => {
                found && self.hits(recent, key, now_ms) >= u64::from(recent.hitcount.max(1))
            }
        };
        match recent.action {
            RecentAction::Set => self.stamp(key, ttl, now_ms),
            RecentAction::Remove if found => {
                self.0.remove(&key);
            }
            RecentAction::Update if found && holds != negated => self.stamp(key, ttl, now_ms),
            _ => {}
        }
        holds
    }

    /// Times of an address that count.
    fn hits(&mut self, recent: &Recent, key: (bool, u128), now_ms: u64) -> u64 {
        let span_ms = u64::from(recent.seconds) * 1000;
        let counts = |stamp: &u64| recent.seconds == 0 || now_ms.saturating_sub(*stamp) <= span_ms;
        let Some(entry) = self.0.get_mut(&key) else {
            return 0;
        };
        let hits = entry.stamps_ms.iter().filter(|s| counts(s)).count() as u64;
        if recent.reap && recent.seconds != 0 && hits == 0 {
            self.0.remove(&key);
        }
        hits
    }

    fn stamp(&mut self, key: (bool, u128), ttl: u8, now_ms: u64) {
        let entry = self.0.entry(key).or_default();
        entry.ttl = ttl;
        entry.stamps_ms.push(now_ms);
    }
}
