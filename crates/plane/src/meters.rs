//! Meters of the policy in force: their queues, and their memory for whoever replaces the policy.
//!
//! In: the rule model of the policy in force. Out: what the kernel remembers of its meters, by the
//! names under which rules share them. Packets go on meanwhile, so numbers of one queue can be of
//! slightly different times.

use std::collections::BTreeMap;

use weir_engine::history::meter::{MeterQueue, queues};
use weir_engine::history::{Record, kind, layout};
use weir_policy::model::Policy;

use crate::error::Result;
use crate::load::Instance;
use crate::plane::Plane;
use crate::swap;
use crate::sys::clock;

/// Byte of a place that has the lock of its bucket, and the lock's bit.
const LOCK_AT: usize = if cfg!(target_endian = "little") {
    39
} else {
    32
};
const LOCK: u8 = 0x80;

/// The memory of one meter.
#[derive(Clone, Debug)]
pub struct MeterMemory {
    record: Record,
    bytes: Vec<u8>,
}

fn length(record: &Record) -> usize {
    (record.bucket_mask as usize + 1) * 8 * record.stride as usize
}

/// The meters of a policy by name.
fn meters(policy: &Policy) -> BTreeMap<&str, Record> {
    let records = layout(policy, 0).map_or_else(|_| Vec::new(), |layout| layout.records);
    let named = policy
        .histories
        .iter()
        .zip(records)
        .filter_map(|(object, record)| {
            let name = object.shared.as_deref()?;
            (record.kind == kind::METER).then_some((name, record))
        });
    named.collect()
}

/// Writes memory of meters into a slot that packets don't use.
pub(crate) fn preset(instance: &Instance, slot: u32, memory: &[(usize, Vec<u8>)]) {
    let map = instance.map("histories");
    for (at, bytes) in memory {
        map.memory().write(slot as usize * map.entry + at, bytes);
    }
}

impl Plane {
    /// What is remembered by the meters of the policy in force, which is `policy`.
    pub fn meter_memory(&self, policy: &Policy) -> Result<BTreeMap<String, MeterMemory>> {
        let instance = self.instance()?;
        let map = instance.map("histories");
        let start = swap::active(instance) as usize * map.entry;
        let read = |(name, record): (&str, Record)| {
            let mut bytes = vec![0; length(&record)];
            map.memory()
                .read(start + record.memory as usize, &mut bytes);
            (name.to_owned(), MeterMemory { record, bytes })
        };
        Ok(meters(policy).into_iter().map(read).collect())
    }

    /// The queues of the meters of the policy in force, which is `policy`.
    pub fn meter_queues(&self, policy: &Policy) -> Result<BTreeMap<String, Vec<MeterQueue>>> {
        let now = clock::monotonic_ns().map_err(crate::error::system("asking for the time"))?;
        let of = |(name, memory): (String, MeterMemory)| {
            let words = memory.bytes.chunks_exact(8);
            let words: Vec<u64> = words
                .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
                .collect();
            let record = Record {
                memory: 0,
                ..memory.record
            };
            (name, queues(&words, &record, now))
        };
        Ok(self.meter_memory(policy)?.into_iter().map(of).collect())
    }
}

/// Where in the memory of a policy that comes what meters of the one before remember: those of the
/// same name that keep the same flows apart.
#[must_use]
pub fn carried(before: &BTreeMap<String, MeterMemory>, policy: &Policy) -> Vec<(usize, Vec<u8>)> {
    let place = |(name, record): (&str, Record)| {
        let old = before.get(name)?;
        let shape = |r: &Record| {
            (
                r.flags,
                r.bucket_mask,
                r.stride,
                r.prefixes,
                r.proto,
                r.span,
                r.c,
            )
        };
        let mut bytes = old.bytes.clone();
        // Nobody holds a lock of memory that nobody uses yet.
        for place in bytes.chunks_exact_mut(record.stride.max(64) as usize) {
            place[LOCK_AT] &= !LOCK;
        }
        (shape(&old.record) == shape(&record)).then_some((record.memory as usize, bytes))
    };
    meters(policy).into_iter().filter_map(place).collect()
}
