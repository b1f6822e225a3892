//! What learned states count for: limits of connections (HP-UX `keep limit`), states of a host,
//! hosts of a rule. Mirror of `bpf/learned_share_abi.h`.
//!
//! In: the map `shares`. Out: the limits that count, read while packets go on changing them.

use std::mem::offset_of;
use std::time::Duration;

use weir_policy::model::Family;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::clock;
use crate::error::Result;
use crate::load::{Instance, Map};
use crate::plane::Plane;

const PLACES: usize = 4096 * 16;
const LINKS_AT: usize = 0x1000;
const PLACES_AT: usize = LINKS_AT + 8192 * 16 * 4;
/// Kinds below HP's numbers that are none of its limits.
const HOST: u8 = 1;
const HOSTS: u8 = 3;

/// `struct share_header`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    listening: u32,
    count: u32,
    swept_ms: u64,
    statistics: [u64; 8],
}

/// `struct learned_share`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Share {
    name: u64,
    src: [u64; 2],
    dst: [u64; 2],
    first_ms: u64,
    exceeded: u64,
    current: u32,
    configured: u32,
    resets: u32,
    alerts: u32,
    rule: u32,
    generation: u32,
    learner: u32,
    record_at: u32,
    of: u32,
    port: u16,
    family: u8,
    kind: u8,
    reserved: [u64; 4],
}

const _: () = assert!(size_of::<Share>() == 128 && size_of::<Header>() <= LINKS_AT);

/// A limit of connections that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// HP's number of the kind of source: 2 one, 4 cumulative, 6 of a subnet, 8 any.
    pub kind: u8,
    /// Family.
    pub family: Family,
    /// The source; of a cumulative limit nothing.
    pub source: u128,
    /// The destination.
    pub destination: u128,
    /// Its port.
    pub port: u16,
    /// The rule, while its policy is in force.
    pub rule: Option<u32>,
    /// Connections at once.
    pub configured: u32,
    /// How many there are.
    pub current: u32,
    /// How many came above the limit.
    pub exceeded: u64,
    /// Resets that were sent for these.
    pub resets: u32,
    /// When the first connection came, on the packet clock.
    pub first_ms: u64,
}

/// What happened to limits since the programs were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Limits that began to count.
    pub added: u64,
    /// That couldn't: no place.
    pub no_memory: u64,
    /// Records of limits that were handed to a reader.
    pub records: u64,
    /// Records that no reader had room for.
    pub records_lost: u64,
}

fn map(instance: &Instance) -> Option<&Map> {
    instance.beside.first()
}

/// Forgets all. Only while no packet is judged.
pub(crate) fn clear(instance: &Instance) {
    let Some(shares) = map(instance) else { return };
    shares.memory().zero(0, PLACES_AT);
    for at in (0..PLACES).map(|place| PLACES_AT + place * size_of::<Share>()) {
        if shares.memory().load64(at) != 0 {
            shares.memory().zero(at, size_of::<Share>());
        }
    }
}

/// Whether somebody reads records about states.
pub(crate) fn listen(instance: &Instance, yes: bool) {
    if let Some(shares) = map(instance) {
        let at = offset_of!(Header, listening);
        shares.memory().store32(at, u32::from(yes));
    }
}

/// Whether somebody does.
pub(crate) fn is_listened(instance: &Instance) -> bool {
    let at = offset_of!(Header, listening);
    map(instance).is_some_and(|shares| shares.memory().load32(at) != 0)
}

/// The limit in a place.
fn limit_at(instance: &Instance, shares: &Map, at: usize) -> Option<Limit> {
    if shares.memory().load64(at) == 0 {
        return None;
    }
    let mut share = Share::new_zeroed();
    shares.memory().read(at, share.as_mut_bytes());
    if share.configured == 0 || share.kind == HOST || share.kind == HOSTS {
        return None;
    }
    let generation = crate::swap::generation(instance, crate::swap::active(instance));
    let address = |words: [u64; 2]| u128::from(words[0]) << 64 | u128::from(words[1]);
    Some(Limit {
        kind: share.kind,
        family: if share.family == 4 {
            Family::V4
        } else {
            Family::V6
        },
        source: address(share.src),
        destination: address(share.dst),
        port: share.port,
        rule: (share.generation == generation).then_some(share.rule),
        configured: share.configured,
        current: share.current,
        exceeded: share.exceeded,
        resets: share.resets,
        first_ms: share.first_ms,
    })
}

fn limits(instance: &Instance) -> Vec<Limit> {
    let Some(shares) = map(instance) else {
        return Vec::new();
    };
    let places = (0..PLACES).map(|place| PLACES_AT + place * size_of::<Share>());
    let found = places.filter_map(|at| limit_at(instance, shares, at));
    let mut out: Vec<Limit> = found.collect();
    out.sort_by_key(|limit| (limit.first_ms, limit.source, limit.port));
    out
}

/// The limits that connections were above, which begin to count these anew.
fn report(instance: &Instance, now_ms: u64) -> Vec<Limit> {
    let mut out = Vec::new();
    let Some(shares) = map(instance) else {
        return out;
    };
    for at in (0..PLACES).map(|place| PLACES_AT + place * size_of::<Share>()) {
        if let Some(limit) = limit_at(instance, shares, at)
            && limit.exceeded > 0
        {
            out.push(limit);
            shares.memory().store64(at + offset_of!(Share, exceeded), 0);
            shares
                .memory()
                .store64(at + offset_of!(Share, first_ms), now_ms);
        }
    }
    out
}

fn statistics(instance: &Instance) -> Statistics {
    let Some(shares) = map(instance) else {
        return Statistics::default();
    };
    let mut header = Header::new_zeroed();
    shares.memory().read(0, header.as_mut_bytes());
    let [added, no_memory, records, records_lost, ..] = header.statistics;
    Statistics {
        added,
        no_memory,
        records,
        records_lost,
    }
}

impl Plane {
    /// The limits that count, oldest first.
    pub fn limits(&self) -> Result<Vec<Limit>> {
        Ok(limits(self.instance()?))
    }

    /// The limits that connections were above; what is above them begins at 0 again.
    pub fn report_limits(&self) -> Result<Vec<Limit>> {
        let instance = self.instance()?;
        Ok(report(instance, clock::now_ms(instance)?))
    }

    /// How long ago a time of the packet clock is.
    pub fn age(&self, time_ms: u64) -> Result<Duration> {
        let now_ms = clock::now_ms(self.instance()?)?;
        Ok(Duration::from_millis(now_ms.saturating_sub(time_ms)))
    }

    /// What happened to limits.
    pub fn limit_statistics(&self) -> Result<Statistics> {
        Ok(statistics(self.instance()?))
    }
}

impl crate::testrun::TestRun {
    /// The limits that count.
    pub fn limits(&self) -> Vec<Limit> {
        limits(self.instance())
    }
}
