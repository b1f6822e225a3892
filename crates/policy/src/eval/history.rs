//! Memory of packets, the reference: token buckets, address lists, connection counts, samples.
//!
//! In: a packet for which every earlier test of its rule held, and the clock. Out: whether the
//! test holds (before negation), and changed memory. Meanings are those of iptables-extensions(8).
//! No limit on keys or addresses here; the engines have them and say what they do when full.

mod bucket;
mod connlimit;
mod meter;
mod recent;
mod sample;
mod time;

pub use bucket::{Bucket, Price, Sample};
pub use meter::{MeterFlow, Queues, flow_of};
pub use sample::random_31;
pub use time::in_window;

use std::collections::HashMap;

use super::track::{Seen, Tracker};
use crate::model::{Cond, HashKey, HistoryId, HistoryKind, Packet, Policy, Statistic, Transport};

/// The state of all histories of a policy.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    /// Seed of random sampling: the engines draw the same numbers from the same seed.
    pub seed: u64,
    objects: Vec<Object>,
    recents: HashMap<usize, recent::List>,
    hash_limits: HashMap<usize, HashMap<Key, (Bucket, Sample, u64)>>,
    meters: HashMap<usize, Queues>,
}

#[derive(Clone, Debug)]
struct Object {
    kind: HistoryKind,
    /// Index of the first object with the same name and kind of memory; itself without a name.
    shared_with: usize,
    /// Whether the rule negates the test.
    negated: bool,
    bucket: Bucket,
    count: u64,
    since_ms: u64,
    connections: connlimit::Groups,
}

/// The key of a hash limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    v6: bool,
    src: u128,
    dst: u128,
    src_port: u16,
    dst_port: u16,
}

/// An address with all bits after its first `prefix` cleared.
pub fn masked(packet: &Packet, address: u128, prefix: u8) -> u128 {
    let bits = match packet.family {
        crate::model::Family::V4 => 32u32,
        crate::model::Family::V6 => 128,
    };
    let cleared = bits.saturating_sub(u32::from(prefix));
    address
        .checked_shr(cleared)
        .unwrap_or(0)
        .checked_shl(cleared)
        .unwrap_or(0)
}

/// The ports of a key. The kernel takes what stands where ports would: the halves of an ESP or AH
/// packet's SPI.
fn keyed_ports(packet: &Packet) -> (u16, u16) {
    match packet.transport {
        Transport::Spi(spi) => ((spi >> 16) as u16, spi as u16),
        _ => packet.ports().unwrap_or((0, 0)),
    }
}

fn key_of(packet: &Packet, key: &HashKey) -> Key {
    let (src_port, dst_port) = keyed_ports(packet);
    let address = |used, address, prefix| {
        if used {
            masked(packet, address, prefix)
        } else {
            0
        }
    };
    Key {
        v6: packet.family == crate::model::Family::V6,
        src: address(key.src, packet.src, key.src_prefix),
        dst: address(key.dst, packet.dst, key.dst_prefix),
        src_port: if key.src_port { src_port } else { 0 },
        dst_port: if key.dst_port { dst_port } else { 0 },
    }
}

/// Which histories are negated where they are tested: an `--update` notes the time only when its
/// test held after negation.
pub fn negated(policy: &Policy) -> Vec<bool> {
    let mut negated = vec![false; policy.histories.len()];
    let tests = policy
        .chains
        .iter()
        .flat_map(|c| &c.rules)
        .flat_map(|r| &r.tests);
    for test in tests {
        if let Cond::History(id) = test.cond {
            negated[id.0 as usize] |= test.negate;
        }
    }
    negated
}

/// For each history, the first one that it shares memory with.
pub fn shared(policy: &Policy) -> Vec<usize> {
    let mut first = HashMap::new();
    let one = |(at, object): (usize, &crate::model::HistoryObject)| match &object.shared {
        None => at,
        Some(name) => {
            // Packets that are counted are no tokens that are missing.
            let counts =
                matches!(&object.kind, HistoryKind::HashLimit(one) if one.sampled.is_some());
            let key = (name.clone(), std::mem::discriminant(&object.kind), counts);
            *first.entry(key).or_insert(at)
        }
    };
    policy.histories.iter().enumerate().map(one).collect()
}

impl Histories {
    /// Fresh state: buckets full, lists empty.
    pub fn new(policy: &Policy) -> Self {
        let negated = negated(policy);
        let shared = shared(policy);
        let objects = policy
            .histories
            .iter()
            .enumerate()
            .map(|(at, object)| Object {
                kind: object.kind.clone(),
                shared_with: shared[at],
                negated: negated[at],
                bucket: Bucket::default(),
                count: 0,
                since_ms: 0,
                connections: connlimit::Groups::default(),
            });
        Histories {
            seed: 0,
            objects: objects.collect(),
            recents: HashMap::new(),
            hash_limits: HashMap::new(),
            meters: HashMap::new(),
        }
    }

    /// Tests, and so touches, a history.
    pub fn test(
        &mut self,
        id: HistoryId,
        packet: &Packet,
        tracker: &Tracker,
        seen: Option<&Seen>,
        now_ms: u64,
    ) -> bool {
        let at = id.0 as usize;
        let object = &mut self.objects[at];
        match &object.kind {
            HistoryKind::Limit(limit) => object.bucket.take(Price::limit(limit), now_ms),
            HistoryKind::HashLimit(limit) => {
                let table = self.hash_limits.entry(object.shared_with).or_default();
                let key = key_of(packet, &limit.key);
                let (bucket, sample, expires_ms) = table.entry(key).or_default();
                if *expires_ms <= now_ms {
                    (*bucket, *sample) = (Bucket::default(), Sample::default());
                }
                *expires_ms = now_ms + u64::from(limit.expire_ms);
                let kept = match limit.sampled {
                    Some(seconds) => sample.count(limit, seconds, now_ms),
                    None => bucket.take(Price::hash_limit(limit, packet.length), now_ms),
                };
                kept != limit.above
            }
            HistoryKind::Recent(recent) => {
                let list = self.recents.entry(object.shared_with).or_default();
                list.test(recent, object.negated, packet, now_ms)
            }
            HistoryKind::ConnLimit(limit) => object
                .connections
                .test(limit, packet, tracker, seen, now_ms),
            HistoryKind::Statistic(statistic) => {
                let count = object.count;
                object.count += 1;
                match *statistic {
                    Statistic::Random(p) => random_31(self.seed, id.0, count) < p,
                    Statistic::Nth { every, packet } => {
                        count % u64::from(every.max(1)) == u64::from(packet)
                    }
                }
            }
            HistoryKind::Quota(bytes) => {
                let left = bytes - object.count;
                let length = u64::from(packet.length);
                object.count += length.min(left);
                length <= left
            }
            HistoryKind::Time(window) => in_window(window, now_ms / 1000),
            HistoryKind::PerSecond(most) => {
                if object.count == 0 || now_ms.saturating_sub(object.since_ms) >= 1000 {
                    (object.since_ms, object.count) = (now_ms, 0);
                }
                object.count += 1;
                object.count <= u64::from(*most)
            }
            HistoryKind::Meter(meter) => {
                let queues = self.meters.entry(object.shared_with).or_default();
                let flow = meter::flow_of_packet(meter, packet);
                queues.take(meter, flow, packet.length, now_ms)
            }
        }
    }
}
