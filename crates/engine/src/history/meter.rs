//! Meters in flat words. Twin of `plane/bpf/meter.h`; the meaning is weir-policy's
//! `eval::history::Queues`.
//!
//! Places are in buckets, as those of hash limits are. Word by word:
//! * 0 to 3: addresses of the key, source first; 4: its ports, protocol and bits of the table.
//! * 5: when the link has sent everything, in nanoseconds.
//! * 6: packets that found room; 7: their bytes. 8: packets that found none; 9: their bytes.
//! * 16 and on: when the last packets begin to be sent, a ring.
//!
//! A place whose link is idle can be given to another key; its counts go then.

use super::record::{HASH_BUCKET, Record, flag, kind};
use super::tables::{USED, V6, bucket, masked};
use crate::flow::Seed;
use crate::packet::Key;
use crate::packet::key::transport;
use weir_policy::model::{Meter, MeterRoom};

/// Slots that a queue can have.
pub const SLOTS_MAX: u32 = 4096;
/// Keys of a meter that keeps flows apart.
pub const KEYS: u32 = 1024;
/// Word at which the ring begins.
const RING: usize = 16;
/// Bit of word 4 at which the protocol begins.
const PROTO_SHIFT: u32 = 40;
const NS_A_MS: u64 = 1_000_000;
/// Longest time of one packet, as in `model::Meter`.
const LONGEST_NS: u64 = 1 << 50;
const BITS_NS: u64 = 8_000_000_000;
/// Lengths up to here are counted in full: a product with [`BITS_NS`] that fits.
const LENGTH_MAX: u64 = (1 << 30) - 1;

/// A meter's parameters; its memory isn't placed yet.
pub(super) fn parameters(meter: &Meter) -> Record {
    let key = meter.key.unwrap_or_default();
    let (bytes, b, room) = match meter.room {
        MeterRoom::Packets(slots) => {
            let slots = slots.max(1);
            (0, u64::from(slots), slots.next_power_of_two())
        }
        MeterRoom::Bytes(_) => (flag::BYTES, meter.room_ns(), 1),
    };
    let (keyed, buckets) = match meter.key {
        Some(_) => (flag::KEYED, KEYS / HASH_BUCKET),
        None => (0, 1),
    };
    Record {
        kind: kind::METER,
        flags: bytes | keyed,
        bucket_mask: buckets - 1,
        stride: ((RING as u32 + room) * 8).next_multiple_of(64),
        room,
        prefixes: [key.src6, key.dst6],
        proto: key.proto.into(),
        span: u32::from(key.src_port) | u32::from(key.dst_port) << 16,
        a: meter.rate,
        b,
        c: u64::from(key.src) | u64::from(key.dst) << 32,
        d: meter.burst_ns(),
        ..Record::default()
    }
}

/// The words of a packet's key.
fn key_of(record: &Record, p: &Key) -> [u64; 5] {
    if record.flags & flag::KEYED == 0 {
        return [0, 0, 0, 0, USED];
    }
    let (src, dst, family) = if p.family == 6 {
        (
            masked(p.src, true, record.prefixes[0]),
            masked(p.dst, true, record.prefixes[1]),
            V6,
        )
    } else {
        let (src, dst) = (record.c & 0xffff_ffff, record.c >> 32);
        ([0, p.src[1] & src], [0, p.dst[1] & dst], 0)
    };
    let ports = match p.transport {
        transport::TCP..=transport::SCTP => u64::from(p.src_port) | u64::from(p.dst_port) << 16,
        _ => 0,
    };
    let ports = ports & u64::from(record.span);
    let proto = (u64::from(p.proto) & u64::from(record.proto)) << PROTO_SHIFT;
    [
        src[0],
        src[1],
        dst[0],
        dst[1],
        USED | family | ports | proto,
    ]
}

/// Whether a packet finds room; if so, it takes it.
pub fn take(words: &mut [u64], seed: &Seed, record: &Record, p: &Key, now_ms: u64) -> bool {
    let now = now_ms * NS_A_MS;
    let key = key_of(record, p);
    let first = bucket(seed, record, key, HASH_BUCKET);
    let stride = record.stride as usize / 8;
    let (mut mine, mut free) = (None, None);
    for at in (first..).step_by(stride).take(HASH_BUCKET as usize) {
        let idle = words[at + 5].saturating_add(record.d) <= now;
        if words[at..at + 5] == key {
            mine = Some(at);
        } else if words[at + 4] == 0 || idle {
            free = free.or(Some(at));
        }
    }
    let at = match (mine, free) {
        (Some(at), _) => at,
        (None, Some(at)) => {
            words[at..at + 5].copy_from_slice(&key);
            words[at + 5..at + 10].fill(0);
            at
        }
        (None, None) => return false,
    };
    let length = u64::from(p.length);
    // A link without a rate takes no time.
    let cost = (length.min(LENGTH_MAX) * BITS_NS + record.a / 2).checked_div(record.a);
    if let Some(cost) = cost {
        let (busy, count) = (words[at + 5], words[at + 6]);
        let ring = |number: u64| at + RING + (number & u64::from(record.room - 1)) as usize;
        let full = if record.flags & flag::BYTES != 0 {
            busy.saturating_sub(now) > record.b
        } else {
            count >= record.b && words[ring(count - record.b)] > now
        };
        if full {
            words[at + 8] += 1;
            words[at + 9] += length;
            return false;
        }
        let start = busy.max(now.saturating_sub(record.d));
        words[ring(count)] = start;
        words[at + 5] = start + cost.min(LONGEST_NS);
    }
    words[at + 6] += 1;
    words[at + 7] += length;
    true
}

/// One queue, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterQueue {
    /// What tells its flow apart, where flows are.
    pub v6: bool,
    /// Source address as far as it is in the key.
    pub src: u128,
    /// Destination address as far as it is in the key.
    pub dst: u128,
    /// Source and destination port as far as they are.
    pub ports: (u16, u16),
    /// Protocol as far as it is.
    pub proto: u8,
    /// Packets and bytes that found room.
    pub passed: (u64, u64),
    /// Packets and bytes that found none.
    pub dropped: (u64, u64),
    /// Packets that wait (0 where only bytes are counted), and bytes that are still to be sent.
    pub waiting: (u64, u64),
}

/// The queues of a meter in its memory, from the start of all histories, at a time.
#[must_use]
pub fn queues(words: &[u64], record: &Record, now: u64) -> Vec<MeterQueue> {
    let first = record.memory as usize / 8;
    let stride = record.stride as usize / 8;
    let places = (record.bucket_mask as usize + 1) * HASH_BUCKET as usize;
    let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
    let place = |number| {
        let place = words.get(first + number * stride..)?.get(..stride)?;
        let tag = place[4];
        let starts = place[RING..].iter().take(record.room as usize);
        let packets = match record.flags & flag::BYTES {
            0 => starts.filter(|start| **start > now).count() as u64,
            _ => 0,
        };
        let busy = u128::from(place[5].saturating_sub(now));
        let bytes = (busy * u128::from(record.a) / u128::from(BITS_NS)) as u64;
        (tag & USED != 0).then(|| MeterQueue {
            v6: tag & V6 != 0,
            src: wide(place[0], place[1]),
            dst: wide(place[2], place[3]),
            ports: (tag as u16, (tag >> 16) as u16),
            proto: (tag >> PROTO_SHIFT) as u8,
            passed: (place[6], place[7]),
            dropped: (place[8], place[9]),
            waiting: (packets, bytes),
        })
    };
    (0..places).filter_map(place).collect()
}
