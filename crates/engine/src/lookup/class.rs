//! From the values of fields to rows: address trees and searches, port blocks, folds.
//!
//! All functions take the bytes of a checked image; what lies outside reads as zero.

use super::Key;
use crate::image::layout::{AddressMap, Chunk, FOLD_LINKS, FOLD_PORTS, Fold, Map, ROWS_MAX};

/// A number at an offset.
#[inline(always)]
pub fn u16_at(bytes: &[u8], at: u32) -> u32 {
    let at = at as usize;
    let found = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    found.map_or(0, |b| u16::from_le_bytes(b).into())
}

/// A number at an offset.
#[inline(always)]
pub fn u32_at(bytes: &[u8], at: u32) -> u32 {
    let at = at as usize;
    let found = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    found.map_or(0, u32::from_le_bytes)
}

/// A number at an offset.
#[inline(always)]
pub fn u64_at(bytes: &[u8], at: u32) -> u64 {
    let at = at as usize;
    let found = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    found.map_or(0, u64::from_le_bytes)
}

/// The class of an IPv4 address in a tree of bytes.
#[inline(always)]
pub fn tree_class(bytes: &[u8], map: &AddressMap, address: u32) -> u32 {
    let cell = |number: u32| u32_at(bytes, map.tree_at + number * 4);
    let mut at = cell(map.rows + (address >> 24));
    at = cell((at >> 8) + (address >> 16 & at & 255));
    at = cell((at >> 8) + (address >> 8 & at & 255));
    at = cell((at >> 8) + (address & at & 255));
    at >> 8
}

/// The class of an IPv4 address among intervals.
pub fn search_v4(bytes: &[u8], map: &AddressMap, address: u32) -> u32 {
    let cell = address.saturating_sub(map.base[1] as u32) >> map.shift;
    let cell = cell.min(map.cell_last);
    let mut low = u32_at(bytes, map.index_at + cell * 4);
    let mut count = u32_at(bytes, map.index_at + cell * 4 + 4) - low + 1;
    for _ in 0..map.steps {
        let half = count >> 1;
        if u32_at(bytes, map.bounds_at + (low + half) * 8) <= address {
            low += half;
        }
        count -= half;
    }
    u32_at(bytes, map.bounds_at + low * 8 + 4)
}

/// The class of an IPv6 address among intervals.
pub fn search_v6(bytes: &[u8], map: &AddressMap, address: u128) -> u32 {
    let base = u128::from(map.base[0]) << 64 | u128::from(map.base[1]);
    let cell = address.saturating_sub(base) >> map.shift;
    let cell = cell.min(u128::from(map.cell_last)) as u32;
    let mut low = u32_at(bytes, map.index_at + cell * 4);
    let mut count = u32_at(bytes, map.index_at + cell * 4 + 4) - low + 1;
    for _ in 0..map.steps {
        let half = count >> 1;
        let at = map.bounds_at + (low + half) * 16;
        let bound = u128::from(u64_at(bytes, at)) << 64 | u128::from(u64_at(bytes, at + 8));
        if bound <= address {
            low += half;
        }
        count -= half;
    }
    u32_at(bytes, map.classes_at + low * 4)
}

/// The class of an address.
#[inline(always)]
fn address_class(bytes: &[u8], map: &AddressMap, v6: bool, address: u128) -> u32 {
    if map.tree > 0 {
        tree_class(bytes, map, address as u32)
    } else if v6 {
        search_v6(bytes, map, address)
    } else {
        search_v4(bytes, map, address as u32)
    }
}

/// The class of a port.
#[inline(always)]
pub fn port_class(bytes: &[u8], map: &Map, port: u16) -> u32 {
    let block = u16_at(bytes, map.table_at + u32::from(port >> 8) * 2);
    u16_at(
        bytes,
        map.table_at + 512 + block * 512 + u32::from(port & 255) * 2,
    )
}

/// The number of the row that all fields but the addresses lead to.
#[inline(always)]
pub fn fold_class(bytes: &[u8], fold: &Fold, key: &Key) -> u32 {
    let by = |at: usize, value: u32| u16_at(bytes, fold.small_at[at] + value * 2);
    let form = by(0, key.proto.into()) + by(1, key.kind.into()) + by(2, key.flags.into());
    let mut small = u16_at(bytes, fold.forms_at + form * 2);
    if fold.used & FOLD_LINKS != 0 {
        let link = by(3, key.class[0].into()) + by(4, key.class[1].into());
        let link = u16_at(bytes, fold.links_at + link * 2);
        small = u16_at(
            bytes,
            fold.smalls_at + (small * fold.link_classes + link) * 2,
        );
    }
    let mut cell = small;
    if fold.used & FOLD_PORTS != 0 {
        let source = port_class(bytes, &fold.ports[0], key.port[0]);
        let destination = port_class(bytes, &fold.ports[1], key.port[1]);
        let pair = source * fold.ports[1].rows + destination;
        cell += u16_at(bytes, fold.pairs_at + pair * 2) * fold.small_classes;
    }
    u16_at(bytes, fold.cells_at + cell * 2)
}

/// Where the rows are whose AND says which services of tables hold for a packet.
#[inline(always)]
pub fn service_rows(bytes: &[u8], fold: &Fold, key: &Key) -> [u32; 3] {
    let row = fold.rows_at + fold_class(bytes, fold, key) * fold.stride;
    let port = |side: usize| {
        let map = &fold.ports[side];
        map.rows_at + port_class(bytes, map, key.port[side]) * fold.stride
    };
    [row, port(0), port(1)]
}

/// The rows of a chunk that a packet's fields lead to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows {
    /// Where they are.
    pub at: [u32; ROWS_MAX],
    /// How many of them.
    pub count: usize,
    /// Words that may hold bits by the summaries of all.
    pub summary: u64,
}

impl Rows {
    /// The AND of all rows in one word.
    #[inline(always)]
    pub fn and(&self, bytes: &[u8], word: u32) -> u64 {
        let and = |all, row: &u32| all & u64_at(bytes, row + word * 8);
        self.at[..self.count].iter().fold(u64::MAX, and)
    }
}

/// The rows of a chunk for a packet.
#[inline(always)]
pub fn chunk_rows(bytes: &[u8], chunk: &Chunk, v6: bool, key: &Key) -> Rows {
    let mut rows = Rows {
        at: [0; ROWS_MAX],
        count: chunk.rows as usize,
        summary: u64::MAX,
    };
    let mut row = |at: usize, rows_at: u32, class: u32| {
        rows.at[at] = rows_at + class * chunk.stride;
        rows.summary &= match chunk.words {
            1 => 1,
            _ => u64_at(bytes, rows_at - (class + 1) * 8),
        };
    };
    for (at, map) in chunk.addresses.iter().enumerate() {
        let class = address_class(bytes, map, v6, key.address[at]);
        row(at, map.rows_at, class);
    }
    row(2, chunk.fold.rows_at, fold_class(bytes, &chunk.fold, key));
    if chunk.rows > 3 {
        for (at, map) in chunk.ports.iter().enumerate() {
            row(3 + at, map.rows_at, port_class(bytes, map, key.port[at]));
        }
    }
    rows
}
