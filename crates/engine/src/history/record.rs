//! Parameters and places of histories. Twin of `struct history_record` in `bpf/history_abi.h`.

use super::meter;
use weir_policy::eval::history::{negated, shared};
use weir_policy::model::{
    HistoryKind, HistoryObject, MeterRoom, Policy, Recent, RecentAction, Statistic,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of histories.
pub mod kind {
    #![allow(missing_docs, reason = "named as in model::HistoryKind")]
    pub const LIMIT: u32 = 1;
    pub const HASH_LIMIT: u32 = 2;
    pub const RECENT: u32 = 3;
    pub const CONN_LIMIT: u32 = 4;
    pub const RANDOM: u32 = 5;
    pub const NTH: u32 = 6;
    pub const QUOTA: u32 = 7;
    pub const TIME: u32 = 8;
    pub const PER_SECOND: u32 = 9;
    pub const METER: u32 = 10;
}

/// Bits of [`Record::flags`].
pub mod flag {
    /// Never holds.
    pub const NEVER: u32 = 1;
    /// Holds above the rate or count.
    pub const ABOVE: u32 = 1 << 1;
    /// The rule negates the test.
    pub const NEGATED: u32 = 1 << 2;
    /// Hash limit: bytes, not packets.
    pub const BYTES: u32 = 1 << 3;
    /// Hash limit: the key has the source address.
    pub const SRC: u32 = 1 << 4;
    /// The source port.
    pub const SRC_PORT: u32 = 1 << 5;
    /// The destination address.
    pub const DST: u32 = 1 << 6;
    /// The destination port.
    pub const DST_PORT: u32 = 1 << 7;
    /// Recent, connection limit: the destination address instead of the source.
    pub const DESTINATION: u32 = 1 << 8;
    /// Recent: forget old times.
    pub const REAP: u32 = 1 << 9;
    /// Recent: the TTL must be the same.
    pub const TTL: u32 = 1 << 10;
    /// Time: a window over midnight belongs to the day on which it began.
    pub const CONTIGUOUS: u32 = 1 << 11;
    /// Recent: put in.
    pub const SET: u32 = 1 << 12;
    /// Recent: note the time when it held.
    pub const UPDATE: u32 = 1 << 13;
    /// Recent: take out.
    pub const REMOVE: u32 = 1 << 14;
    /// Meter: flows have queues of their own.
    pub const KEYED: u32 = 1 << 15;
    /// Hash limit: packets are counted over `c` milliseconds, `a` of them allowed in a second.
    pub const SAMPLED: u32 = 1 << 16;
}

/// One history's parameters.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Record {
    /// [`kind`].
    pub kind: u32,
    /// [`flag`].
    pub flags: u32,
    /// Offset of its memory in bytes, a multiple of 64.
    pub memory: u32,
    /// Tables: buckets less one, a power of two less one.
    pub bucket_mask: u32,
    /// Tables: bytes of a place, a multiple of 64.
    pub stride: u32,
    /// Tables: stamps or members of a place, a power of two for stamps and for times of a meter.
    pub room: u32,
    /// Prefix lengths of source and destination (hash limit; meter: IPv6), of the group (connection
    /// limit).
    pub prefixes: [u8; 2],
    /// Meter: mask on the protocol.
    pub proto: u16,
    /// Milliseconds after which a key is forgotten (hash limit); seconds east of UTC (time); masks
    /// on the ports, the source's in the low half (meter).
    pub span: u32,
    /// Limit: cost. Hash limit: rate. Recent: span in milliseconds, 0 for all. Connection limit:
    /// count. Random: threshold. Nth: period. Quota: bytes. Time: first second. Per
    /// second: packets. Meter: bits a second.
    pub a: u64,
    /// Limit: cost of all tokens but one. Hash limit: burst. Recent: hits. Random: seed. Nth:
    /// packet. Time: last second. Meter: slots, or nanoseconds of the bytes that may wait.
    pub b: u64,
    /// Recent: mask, high half. Time: first second of the day. Meter: mask on the IPv4 source,
    /// above that on the destination.
    pub c: u64,
    /// Recent: mask, low half. Time: last second of the day, `week_days << 32`. Meter: nanoseconds
    /// of the burst.
    pub d: u64,
}

const _: () = assert!(size_of::<Record>() == 64);

/// Records and the size of the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// In the order of [`Policy::histories`].
    pub records: Vec<Record>,
    /// Bytes of the memory.
    pub bytes: usize,
}

/// Places of a bucket of a hash limit.
pub const HASH_BUCKET: u32 = 8;
/// Places of a bucket of an address list or connection limit.
pub const LIST_BUCKET: u32 = 4;
/// Keys of a hash limit that says no number.
const HASH_KEYS: u32 = 8192;
/// Keys of a hash limit at most.
const HASH_KEYS_MAX: u32 = 1 << 16;
/// Addresses of a list.
const LIST_ADDRESSES: u32 = 4096;
/// Addresses of a list that is a set which rules change: its name begins with this word.
const SET_ADDRESSES: u32 = 1 << 16;
const SET: &str = "set/";
/// Hits that a list can be asked for.
pub const HITS_MAX: u32 = 256;
/// Connections that a connection limit can be asked for.
pub const CONNECTIONS_MAX: u32 = 500;
/// Packets in a second that are counted: the count is the low 20 bits of a word.
pub const PER_SECOND_MAX: u32 = (1 << 20) - 2;
/// Bytes that the groups of a connection limit aim at.
const GROUP_BYTES: u32 = 4 << 20;
/// Members that a group has room for above its count. Connections beyond that count as too many
/// at their own packets, and are not remembered for those of others.
const MEMBERS_SPARE: u32 = 32;

/// Why a policy's histories can't be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("history {index}: {what} {given} is above {limit}")]
pub struct LayoutError {
    /// Index in [`Policy::histories`].
    pub index: usize,
    /// What is too large.
    pub what: &'static str,
    /// Its value.
    pub given: u64,
    /// The limit.
    pub limit: u64,
}

/// Lays out a policy's histories; `seed`: of random samples.
pub fn layout(policy: &Policy, seed: u64) -> Result<Layout, LayoutError> {
    let negated = negated(policy);
    let shared = shared(policy);
    // All rules of one address list need room for the hits that any of them asks for.
    let mut hits = vec![0; policy.histories.len()];
    for (at, object) in policy.histories.iter().enumerate() {
        if let HistoryKind::Recent(recent) = &object.kind {
            hits[shared[at]] = recent.hitcount.max(hits[shared[at]]);
        }
    }
    let mut out = Layout::default();
    for (at, object) in policy.histories.iter().enumerate() {
        let mut record = parameters(object, at, seed, hits[shared[at]])?;
        if negated[at] {
            record.flags |= flag::NEGATED;
        }
        if shared[at] == at {
            record.memory = out.bytes as u32;
            out.bytes += memory_bytes(&record);
        } else {
            let first: Record = out.records[shared[at]];
            record.memory = first.memory;
            (record.bucket_mask, record.stride) = (first.bucket_mask, first.stride);
        }
        out.records.push(record);
    }
    Ok(out)
}

/// Bytes of the memory of one history.
fn memory_bytes(record: &Record) -> usize {
    let places = match record.kind {
        kind::HASH_LIMIT | kind::METER => HASH_BUCKET,
        kind::RECENT | kind::CONN_LIMIT => LIST_BUCKET,
        kind::TIME => return 0,
        _ => return 64,
    };
    (record.bucket_mask as usize + 1) * places as usize * record.stride as usize
}

fn above(index: usize, what: &'static str, given: u32, limit: u32) -> Result<(), LayoutError> {
    if given <= limit {
        return Ok(());
    }
    Err(LayoutError {
        index,
        what,
        given: given.into(),
        limit: limit.into(),
    })
}

/// A bit of [`Record::flags`] if `yes`.
fn bit(yes: bool, flag: u32) -> u32 {
    if yes { flag } else { 0 }
}

fn address_list(recent: &Recent, object: &HistoryObject, hits: u32, r: &mut Record) {
    r.kind = kind::RECENT;
    r.flags = match recent.action {
        RecentAction::Set => flag::SET,
        RecentAction::Check => 0,
        RecentAction::Update => flag::UPDATE,
        RecentAction::Remove => flag::REMOVE,
    } | bit(recent.reap, flag::REAP)
        | bit(recent.ttl, flag::TTL)
        | bit(recent.destination, flag::DESTINATION);
    r.a = u64::from(recent.seconds) * 1000;
    r.b = recent.hitcount.max(1).into();
    (r.c, r.d) = ((recent.mask >> 64) as u64, recent.mask as u64);
    r.room = hits.max(1).next_power_of_two();
    r.stride = (64 + r.room * 8).next_multiple_of(64);
    let name = object.shared.as_deref().unwrap_or_default();
    let addresses = match name.starts_with(SET) {
        true => SET_ADDRESSES,
        false => LIST_ADDRESSES,
    };
    r.bucket_mask = addresses / LIST_BUCKET - 1;
}

fn parameters(
    object: &HistoryObject,
    at: usize,
    seed: u64,
    hits: u32,
) -> Result<Record, LayoutError> {
    let mut r = Record::default();
    match &object.kind {
        HistoryKind::Limit(limit) => {
            r.kind = kind::LIMIT;
            r.flags = bit(limit.burst == 0 && limit.cost != 0, flag::NEVER);
            r.a = limit.cost.into();
            r.b = u64::from(limit.cost) * u64::from(limit.burst.saturating_sub(1));
        }
        HistoryKind::HashLimit(limit) => {
            r.kind = kind::HASH_LIMIT;
            r.flags = bit(limit.above, flag::ABOVE)
                | bit(limit.bytes, flag::BYTES)
                | bit(limit.key.src, flag::SRC)
                | bit(limit.key.src_port, flag::SRC_PORT)
                | bit(limit.key.dst, flag::DST)
                | bit(limit.key.dst_port, flag::DST_PORT);
            r.prefixes = [limit.key.src_prefix, limit.key.dst_prefix];
            r.span = limit.expire_ms;
            (r.a, r.b) = (limit.rate, limit.burst);
            if let Some(seconds) = limit.sampled {
                r.flags |= flag::SAMPLED;
                (r.a, r.b) = (limit.per_second(), limit.burst + limit.per_second());
                r.c = u64::from(seconds) * 1000;
            }
            r.stride = 64;
            let keys = if limit.max == 0 {
                HASH_KEYS
            } else {
                limit.max.min(HASH_KEYS_MAX)
            };
            r.bucket_mask = (keys * 2 / HASH_BUCKET).max(1).next_power_of_two() - 1;
        }
        HistoryKind::Recent(recent) => {
            above(at, "hitcount", hits, HITS_MAX)?;
            address_list(recent, object, hits, &mut r);
        }
        HistoryKind::ConnLimit(limit) => {
            above(at, "connection count", limit.count, CONNECTIONS_MAX)?;
            r.kind = kind::CONN_LIMIT;
            r.flags = bit(limit.above, flag::ABOVE) | bit(limit.destination, flag::DESTINATION);
            r.prefixes = [limit.prefix; 2];
            r.a = limit.count.into();
            r.room = limit.count + MEMBERS_SPARE;
            r.stride = (64 + r.room * 16).next_multiple_of(64);
            let groups = (GROUP_BYTES / r.stride).clamp(64, 4096);
            r.bucket_mask = (groups.next_power_of_two() / LIST_BUCKET) - 1;
        }
        HistoryKind::Statistic(Statistic::Random(p)) => {
            r.kind = kind::RANDOM;
            (r.a, r.b) = (
                u64::from(*p),
                seed ^ (at as u64).wrapping_mul(0xd134_2543_de82_ef95),
            );
        }
        HistoryKind::Statistic(Statistic::Nth { every, packet }) => {
            r.kind = kind::NTH;
            (r.a, r.b) = (u64::from((*every).max(1)), u64::from(*packet));
        }
        HistoryKind::Quota(bytes) => {
            r.kind = kind::QUOTA;
            r.a = *bytes;
        }
        HistoryKind::PerSecond(most) => {
            above(at, "packets in a second", *most, PER_SECOND_MAX)?;
            r.kind = kind::PER_SECOND;
            r.a = u64::from(*most);
        }
        HistoryKind::Meter(of) => {
            if let MeterRoom::Packets(slots) = of.room {
                above(at, "slots of a queue", slots, meter::SLOTS_MAX)?;
            }
            r = meter::parameters(of);
        }
        HistoryKind::Time(window) => {
            r.kind = kind::TIME;
            r.flags = bit(window.contiguous, flag::CONTIGUOUS);
            r.span = window.offset as u32;
            (r.a, r.b) = (window.date_start, window.date_stop);
            r.c = u64::from(window.day_start) | u64::from(window.month_days) << 32;
            r.d = u64::from(window.day_stop) | u64::from(window.week_days) << 32;
        }
    }
    Ok(r)
}
