//! Tables of histories: hash limits, address lists, connection limits. A place is at least eight
//! words; word by word the same as in `bpf/history_tables.h`:
//! * 0, 1: address (source); hash limit 2, 3: destination.
//! * 4: ports, and above them [`USED`], [`V6`]; lists: TTL in the low byte instead of ports.
//! * hash limit 5: what is missing from the bucket, or the packets counted and [`EXCEEDED`]; 6:
//!   since when; 7: when the key is forgotten.
//! * lists 5: number of stamps; 6: where the next goes; 7: the last stamp.
//! * connection limits 5: number of members; 7: last touched.
//! * lists and connection limits from 8 on: stamps, or members of two words.

use super::record::{HASH_BUCKET, LIST_BUCKET, Record, flag};
use crate::flow::entry::control;
use crate::flow::table::lives;
use crate::flow::tcp::state;
use crate::flow::{FlowRef, FlowTable, Found, Name, Seed, proto};
use crate::packet::Key;
use crate::packet::key::transport;

/// Bit of word 4: the place is in use.
pub(super) const USED: u64 = 1 << 32;
/// Bit of word 4: IPv6.
pub(super) const V6: u64 = 1 << 33;

/// Bit of word 5 of a hash limit that counts: the time before this one had too many packets.
const EXCEEDED: u64 = 1 << 63;
/// Milliseconds that are told apart, so that products with a rate fit.
const PASSED_MAX: u64 = 1 << 43;

/// An address with all bits after its first `prefix` cleared.
pub(super) fn masked(address: [u64; 2], v6: bool, prefix: u8) -> [u64; 2] {
    let keep = u32::from(prefix) + if v6 { 0 } else { 96 };
    let ones = |bits: u32| {
        if bits == 0 {
            0
        } else {
            u64::MAX << (64 - bits.min(64))
        }
    };
    [
        address[0] & ones(keep.min(64)),
        address[1] & ones(keep.saturating_sub(64)),
    ]
}

/// Index of the first word of a bucket.
pub(super) fn bucket(seed: &Seed, record: &Record, key: [u64; 5], places: u32) -> usize {
    let hash = seed.hash(
        seed.fold_addresses([key[0], key[1]], [key[2], key[3]]),
        key[4],
    );
    let index = (hash >> 32) as u32 & record.bucket_mask;
    (record.memory as usize + index as usize * (places * record.stride) as usize) / 8
}

/// Counts a packet against the rate of its key.
pub fn hash_limit(words: &mut [u64], seed: &Seed, record: &Record, p: &Key, now_ms: u64) -> bool {
    let has = |bit| record.flags & bit != 0;
    let v6 = p.family == 6;
    let ports = match p.transport {
        transport::TCP..=transport::SCTP => (p.src_port, p.dst_port),
        // Where ports would be, AH and ESP have the halves of the SPI.
        transport::SPI => ((p.sequence >> 16) as u16, p.sequence as u16),
        _ => (0, 0),
    };
    let src = if has(flag::SRC) {
        masked(p.src, v6, record.prefixes[0])
    } else {
        [0; 2]
    };
    let dst = if has(flag::DST) {
        masked(p.dst, v6, record.prefixes[1])
    } else {
        [0; 2]
    };
    let src_port = if has(flag::SRC_PORT) {
        u64::from(ports.0)
    } else {
        0
    };
    let dst_port = if has(flag::DST_PORT) {
        u64::from(ports.1)
    } else {
        0
    };
    let tag = src_port | dst_port << 16 | USED | if v6 { V6 } else { 0 };
    let key = [src[0], src[1], dst[0], dst[1], tag];
    let first = bucket(seed, record, key, HASH_BUCKET);
    let mut free = None;
    let mut mine = None;
    for at in (first..).step_by(8).take(HASH_BUCKET as usize) {
        let over = words[at + 7] <= now_ms;
        if words[at..at + 5] == key {
            mine = Some((at, over));
        } else if words[at + 4] == 0 || over {
            free = free.or(Some(at));
        }
    }
    let at = match (mine, free) {
        (Some((at, false)), _) => at,
        (Some((at, true)), _) | (None, Some(at)) => {
            words[at..at + 5].copy_from_slice(&key);
            words[at + 5] = 0;
            words[at + 6] = now_ms;
            at
        }
        (None, None) => return has(flag::ABOVE),
    };
    if has(flag::SAMPLED) {
        let kept = sample(&mut words[at + 5..at + 7], record, now_ms);
        words[at + 7] = now_ms + u64::from(record.span);
        return kept != has(flag::ABOVE);
    }
    let (per_ms, cost, full) = if has(flag::BYTES) {
        (
            record.a,
            u64::from(p.length) * 1000,
            record.b.saturating_mul(1000),
        )
    } else {
        (1000, record.a, record.a.saturating_mul(record.b))
    };
    let waited = now_ms.saturating_sub(words[at + 6]);
    let mut missing = words[at + 5];
    if waited.checked_mul(per_ms).is_none_or(|back| back > missing) {
        missing = 0;
    } else {
        missing -= waited * per_ms;
    }
    let enough = full.saturating_sub(missing) >= cost;
    words[at + 5] = missing + if enough { cost } else { 0 };
    words[at + 6] = now_ms;
    words[at + 7] = now_ms + u64::from(record.span);
    enough != has(flag::ABOVE)
}

/// Counts a packet in words 5 and 6; whether the rate is kept.
fn sample(words: &mut [u64], record: &Record, now_ms: u64) -> bool {
    let passed = now_ms.saturating_sub(words[1]);
    if passed >= record.c {
        let allowed = passed.min(PASSED_MAX).wrapping_mul(record.a) / record.c.max(1);
        let exceeded = words[0] & !EXCEEDED > allowed;
        words[0] = if exceeded { EXCEEDED } else { 0 };
        words[1] = now_ms;
    }
    words[0] += 1;
    words[0] <= record.b
}

/// Tests an address list.
pub fn recent(words: &mut [u64], seed: &Seed, record: &Record, p: &Key, now_ms: u64) -> bool {
    let has = |bit| record.flags & bit != 0;
    let address = if has(flag::DESTINATION) { p.dst } else { p.src };
    let address = [address[0] & record.c, address[1] & record.d];
    let family = if p.family == 6 { V6 } else { 0 };
    let ttl = u64::from(p.ttl.wrapping_add(u8::from(p.hook == 2)));
    let key = [address[0], address[1], 0, 0, family];
    let first = bucket(seed, record, key, LIST_BUCKET);
    let stride = record.stride as usize / 8;
    let (mut mine, mut oldest) = (None, first);
    for at in (first..).step_by(stride).take(LIST_BUCKET as usize) {
        let tag = words[at + 4];
        if tag & (USED | V6) == USED | family && words[at..at + 2] == address {
            mine = Some(at);
        }
        if words[at + 7] < words[oldest + 7] {
            oldest = at;
        }
    }
    let seen_ttl = |at: usize| words[at + 4] & 0xff;
    let found =
        mine.filter(|at| !has(flag::TTL) || seen_ttl(*at) == ttl || ttl == 0 || seen_ttl(*at) == 0);
    let mut hits = 0;
    if let Some(at) = found {
        for i in 0..(words[at + 5] as usize).min(record.room as usize) {
            let stamp = words[at + 8 + i];
            hits += u64::from(record.a == 0 || now_ms.saturating_sub(stamp) <= record.a);
        }
        let checks = !has(flag::SET) && !has(flag::REMOVE);
        if checks && has(flag::REAP) && record.a != 0 && hits == 0 {
            words[at + 4..at + 8].fill(0);
        }
    }
    let holds = match () {
        () if has(flag::SET) => true,
        () if has(flag::REMOVE) => found.is_some(),
        () => found.is_some() && hits >= record.b,
    };
    if has(flag::REMOVE) {
        if let Some(at) = found {
            words[at + 4..at + 8].fill(0);
        }
    } else if has(flag::SET)
        || (has(flag::UPDATE) && found.is_some() && holds != has(flag::NEGATED))
    {
        let at = mine.unwrap_or(oldest);
        stamp(
            &mut words[at..at + stride],
            record,
            address,
            family | ttl,
            now_ms,
        );
    }
    holds
}

/// Notes a time at a place.
fn stamp(place: &mut [u64], record: &Record, address: [u64; 2], tag: u64, now_ms: u64) {
    if place[4] & USED == 0 || place[..2] != address || (place[4] ^ tag) & V6 != 0 {
        place[5] = 0;
        place[6] = 0;
    }
    place[..2].copy_from_slice(&address);
    place[4] = USED | tag;
    let next = place[6] as usize & (record.room as usize - 1);
    place[8 + next] = now_ms;
    place[6] = next as u64 + 1;
    place[5] = place[5].max(place[6]);
    // Never 0, which a free place has.
    place[7] = now_ms + 1;
}

/// Whether the flow of that name counts as a connection.
fn counts(flows: &FlowTable, pair: u64, rest: u64, now_ms: u64) -> bool {
    let name = Name {
        pair,
        ports: rest as u32,
        meta: (rest >> 32) as u16,
        ..Name::default()
    };
    let Some(entry) = flows.entries.get(flows.find(&name) as usize) else {
        return false;
    };
    let over = matches!(
        entry.control & control::STATE,
        state::TIME_WAIT | state::CLOSE
    );
    lives(entry, now_ms as u32) && !(over && entry.meta & 0xff == u16::from(proto::TCP))
}

/// Counts the connections of the packet's group, its own included.
pub fn connections(
    words: &mut [u64],
    seed: &Seed,
    record: &Record,
    p: &Key,
    (flows, found): (&FlowTable, &FlowRef),
    now_ms: u64,
) -> bool {
    let above = record.flags & flag::ABOVE != 0;
    let v6 = p.family == 6;
    let address = if record.flags & flag::DESTINATION != 0 {
        p.dst
    } else {
        p.src
    };
    let address = masked(address, v6, record.prefixes[0]);
    let family = if v6 { V6 } else { 0 };
    let first = bucket(
        seed,
        record,
        [address[0], address[1], 0, 0, family],
        LIST_BUCKET,
    );
    let stride = record.stride as usize / 8;
    let (mut mine, mut oldest) = (None, first);
    for at in (first..).step_by(stride).take(LIST_BUCKET as usize) {
        if words[at + 4] == USED | family && words[at..at + 2] == address {
            mine = Some(at);
        }
        if words[at + 7] < words[oldest + 7] {
            oldest = at;
        }
    }
    let own = match found.found {
        Found::None => (0, u64::MAX),
        _ => (
            found.name.pair,
            u64::from(found.name.ports) | u64::from(found.name.meta) << 32,
        ),
    };
    let at = mine.unwrap_or(oldest);
    let place = &mut words[at..at + stride];
    // Members that still count, without the packet's own, move to the front.
    let mut live = 0;
    for i in 0..(place[5] as usize).min(record.room as usize) {
        let member = (place[8 + 2 * i], place[9 + 2 * i]);
        if member != own && counts(flows, member.0, member.1, now_ms) {
            (place[8 + 2 * live], place[9 + 2 * live]) = member;
            live += 1;
        }
    }
    place[5] = live as u64;
    if mine.is_none() {
        // The group seen least recently gives up its place only if it has no connections left.
        if live != 0 {
            return above;
        }
        place[..2].copy_from_slice(&address);
        place[4] = USED | family;
    }
    place[7] = now_ms + 1;
    if found.found != Found::None && live < record.room as usize {
        (place[8 + 2 * live], place[9 + 2 * live]) = own;
        place[5] += 1;
    }
    (live as u64 + 1 > record.a) == above
}
