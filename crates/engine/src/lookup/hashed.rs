//! Probing a hashed table.

use super::class::{u32_at, u64_at};
use super::{Key, NONE, slot_filter, table_hash};
use crate::image::layout::{HashTable, SLOT_FILTER, slot_least, slot_offset, slot_records};

/// The hash of a packet's key in a table.
#[inline(always)]
pub fn hash_of(table: &HashTable, key: &Key) -> u64 {
    let masks = table.masks.map(u128::from);
    let address = [
        key.address[0] & (masks[0] << 64 | masks[1]),
        key.address[1] & (masks[2] << 64 | masks[3]),
    ];
    let ports = u64::from(key.proto) << 32 | u64::from(key.port[0]) << 16 | u64::from(key.port[1]);
    table_hash(address, ports & table.ports)
}

/// The first position from `from` on and before `best` in one table; [`NONE`] without. `services`
/// is where the rows are that say which services hold. Groups are in evaluation order, so that what
/// another table has found makes most of them short.
#[inline(always)]
pub fn probe(
    bytes: &[u8],
    table: &HashTable,
    key: &Key,
    services: &[u32; 3],
    from: u32,
    best: u32,
) -> u32 {
    let hash = hash_of(table, key);
    let slot = u32_at(bytes, table.slots_at + (hash >> table.shift) as u32 * 4);
    // One branch: most groups are of other keys, or stand behind what was found.
    let passes = slot >> SLOT_FILTER & slot_filter(hash, table.shift) != 0;
    if !(passes & (slot_least(slot, table.step) < best)) {
        return NONE;
    }
    let at = (table.groups_at + slot_offset(slot)) as usize;
    let count = slot_records(slot) as usize;
    let size = table.record as usize;
    let records = bytes.get(at..at + count * size).unwrap_or_default();
    let served = |service: u32| {
        let word = |row: u32| u64_at(bytes, row + (service >> 6) * 8);
        let [small, source, destination] = services.map(word);
        (small & source & destination) >> (service & 63) & 1 != 0
    };
    let place = match size {
        16 => 12,
        32 => 24,
        _ => 40,
    };
    for record in records.chunks_exact(size.max(1)) {
        let position = u32_at(record, place);
        if position >= best {
            break;
        }
        let holds = match size {
            16 => record
                .first_chunk()
                .is_some_and(|record| packed(record, key, served)),
            32 => record
                .first_chunk()
                .is_some_and(|record| ranges(record, key, served)),
            _ => record
                .first_chunk()
                .is_some_and(|record| wide(record, key, served)),
        };
        if holds && position >= from {
            return position;
        }
    }
    NONE
}

/// `layout::Prefixes4`.
#[inline(always)]
fn packed(record: &[u8; 16], key: &Key, served: impl Fn(u32) -> bool) -> bool {
    let address = |at: usize, shift: u8| {
        let own = u32_at(record, at as u32 * 4);
        u64::from(key.address[at] as u32 ^ own) >> (shift & 63)
    };
    let service = u32::from(u16::from_le_bytes([record[8], record[9]]));
    address(0, record[10]) | address(1, record[11]) == 0 && served(service)
}

/// `layout::Record4`.
#[inline(always)]
fn ranges(record: &[u8; 32], key: &Key, served: impl Fn(u32) -> bool) -> bool {
    let address = |at: usize| {
        let (first, span) = (
            u32_at(record, at as u32 * 8),
            u32_at(record, at as u32 * 8 + 4),
        );
        (key.address[at] as u32).wrapping_sub(first) <= span
    };
    address(0) && address(1) && ports(&record[16..24], key) && served(u32_at(record, 28))
}

/// Whether the term with this number holds by the bounds of a chunk: `layout::Record4`, or
/// `layout::Bounds6` for IPv6. What lies outside holds for nothing.
#[inline(always)]
pub fn is_within(bounds: &[u8], term: u32, v6: bool, key: &Key) -> bool {
    let at = |size: usize| bounds.get(term as usize * size..).unwrap_or_default();
    match v6 {
        false => at(32)
            .first_chunk()
            .is_some_and(|record| ranges(record, key, |_| true)),
        true => at(80)
            .first_chunk()
            .is_some_and(|record| between(record, key)),
    }
}

/// `layout::Bounds6`.
#[inline(always)]
fn between(record: &[u8; 80], key: &Key) -> bool {
    let wide = |at: u32| u128::from(u64_at(record, at)) << 64 | u128::from(u64_at(record, at + 8));
    let address = |side: usize| {
        let at = side as u32 * 32;
        (wide(at)..=wide(at + 16)).contains(&key.address[side])
    };
    address(0) && address(1) && ports(&record[64..72], key)
}

/// `layout::Record6`.
#[inline(always)]
fn wide(record: &[u8; 64], key: &Key, served: impl Fn(u32) -> bool) -> bool {
    let differs = |at: usize| {
        let shift = |half: u64, by: u8| half.checked_shr(u32::from(by)).unwrap_or(0);
        let word = |number: usize| u64_at(record, (at * 2 + number) as u32 * 8);
        let high = (key.address[at] >> 64) as u64 ^ word(0);
        let low = key.address[at] as u64 ^ word(1);
        shift(high, record[48 + at * 2]) | shift(low, record[49 + at * 2])
    };
    differs(0) | differs(1) == 0 && ports(&record[32..40], key) && served(u32_at(record, 44))
}

/// Two pairs of first port and last less first.
#[inline(always)]
fn ports(ranges: &[u8], key: &Key) -> bool {
    let port = |at: usize| {
        let half = |from: usize| u16::from_le_bytes([ranges[from], ranges[from + 1]]);
        key.port[at].wrapping_sub(half(at * 4)) <= half(at * 4 + 2)
    };
    port(0) && port(1)
}
