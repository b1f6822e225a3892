//! Probing a hashed table.

use super::class::{u32_at, u64_at};
use super::{Key, NONE, slot_filter, table_hash};
use crate::image::layout::{HashTable, SLOT_FILTER};

/// Bits of a slot that are the offset of its group.
const SLOT_OFFSET: u32 = (1 << SLOT_FILTER) - 16;

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

/// What is in a slot for a packet: offset of the group and number of records; no records when the
/// filter says that none can hold.
#[inline(always)]
pub fn group_of(slot: u32, filter: u32) -> (u32, u32) {
    let passes = u32::from(slot >> SLOT_FILTER & filter != 0);
    (slot & SLOT_OFFSET, slot & 15 & passes.wrapping_neg())
}

/// The first position from `from` on in one table; [`NONE`] without. `services` is where the rows
/// are that say which services hold.
#[inline(always)]
pub fn probe(bytes: &[u8], table: &HashTable, key: &Key, services: &[u32; 3], from: u32) -> u32 {
    let hash = hash_of(table, key);
    let slot = u32_at(bytes, table.slots_at + (hash >> table.shift) as u32 * 4);
    let (offset, count) = group_of(slot, slot_filter(hash, table.shift));
    let (at, count) = ((table.groups_at + offset) as usize, count as usize);
    let size = table.record as usize;
    let records = bytes.get(at..at + count * size).unwrap_or_default();
    let served = |service: u32| {
        let word = |row: u32| u64_at(bytes, row + (service >> 6) * 8);
        let [small, source, destination] = services.map(word);
        (small & source & destination) >> (service & 63) & 1 != 0
    };
    let later = |position: u32| (position >= from).then_some(position);
    let found = match size {
        16 => records
            .as_chunks::<16>()
            .0
            .iter()
            .find_map(|record| packed(record, key, served).and_then(later)),
        32 => records
            .as_chunks::<32>()
            .0
            .iter()
            .find_map(|record| ranges(record, key, served).and_then(later)),
        _ => records
            .as_chunks::<64>()
            .0
            .iter()
            .find_map(|record| wide(record, key, served).and_then(later)),
    };
    found.unwrap_or(NONE)
}

/// `layout::Prefixes4`.
#[inline(always)]
fn packed(record: &[u8; 16], key: &Key, served: impl Fn(u32) -> bool) -> Option<u32> {
    let address = |at: usize, shift: u8| {
        let own = u32_at(record, at as u32 * 4);
        u64::from(key.address[at] as u32 ^ own) >> (shift & 63)
    };
    let service = u32::from(u16::from_le_bytes([record[12], record[13]]));
    let holds = address(0, record[14]) | address(1, record[15]) == 0 && served(service);
    holds.then(|| u32_at(record, 8))
}

/// `layout::Record4`.
#[inline(always)]
fn ranges(record: &[u8; 32], key: &Key, served: impl Fn(u32) -> bool) -> Option<u32> {
    let address = |at: usize| {
        let (first, span) = (
            u32_at(record, at as u32 * 8),
            u32_at(record, at as u32 * 8 + 4),
        );
        (key.address[at] as u32).wrapping_sub(first) <= span
    };
    let holds = address(0) && address(1) && ports(&record[16..24], key);
    (holds && served(u32_at(record, 28))).then(|| u32_at(record, 24))
}

/// `layout::Record6`.
#[inline(always)]
fn wide(record: &[u8; 64], key: &Key, served: impl Fn(u32) -> bool) -> Option<u32> {
    let differs = |at: usize| {
        let shift = |half: u64, by: u8| half.checked_shr(u32::from(by)).unwrap_or(0);
        let word = |number: usize| u64_at(record, (at * 2 + number) as u32 * 8);
        let high = (key.address[at] >> 64) as u64 ^ word(0);
        let low = key.address[at] as u64 ^ word(1);
        shift(high, record[48 + at * 2]) | shift(low, record[49 + at * 2])
    };
    let holds = differs(0) | differs(1) == 0 && ports(&record[32..40], key);
    (holds && served(u32_at(record, 44))).then(|| u32_at(record, 40))
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
