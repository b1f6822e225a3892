//! Rows of bits by vectors: from a packet's fields to its rows, and the first bit of their AND.
//!
//! In: [`Ready`], the tables of a chunk. Read without bounds checks: `image::check` has followed
//! every table to its end, so that classes are below the number of rows whatever the packet.

use super::Vector;
use crate::image::layout::{AddressMap, ROWS_MAX};
use crate::lookup::class::search_v4;
use crate::lookup::ready::{Addresses, Cells, Folded, Numbers, Ready, Services};
use crate::lookup::{Key, NONE};
use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_mask_cmple_epu32_mask,
    _mm512_maskz_loadu_epi64, _mm512_set1_epi32, _mm512_test_epi64_mask,
};

/// The number at a place.
#[inline(always)]
fn number(table: Numbers<'_>, at: u32) -> u32 {
    debug_assert!((at as usize) < table.len());
    // SAFETY: see the module's head; places are classes and sums of classes that were checked.
    u16::from_le_bytes(unsafe { *table.get_unchecked(at as usize) }).into()
}

/// The number at a place.
#[inline(always)]
fn cell(table: Cells<'_>, at: u32) -> u32 {
    debug_assert!((at as usize) < table.len());
    // SAFETY: as above.
    u32::from_le_bytes(unsafe { *table.get_unchecked(at as usize) })
}

#[inline(always)]
fn port_class(table: Numbers<'_>, port: u16) -> u32 {
    let block = number(table, u32::from(port >> 8));
    number(table, 256 + block * 256 + u32::from(port & 255))
}

#[inline(never)]
fn search(bytes: &[u8], map: &Addresses<'_>, address: u32) -> u32 {
    search_v4(bytes, &map.map, address)
}

/// Of pairs of numbers, the first ones.
const FIRSTS: u16 = 0x5555;

/// The class of an address in a map no cell of which has more than eight intervals: they are
/// compared at once.
#[inline(always)]
unsafe fn search_8(bytes: &[u8], map: &AddressMap, address: u32) -> u32 {
    let cell = address.saturating_sub(map.base[1] as u32) >> map.shift;
    let cell = cell.min(map.cell_last);
    let number = |at: u32| Vector { bytes }.at::<u32>(at);
    let low = number(map.index_at + cell * 4);
    let first_at = map.bounds_at + low * 8;
    let beyond = 8 - (map.bounds - low).min(8);
    // SAFETY: of intervals, pairs of where one begins and its class, only those that there are.
    let begun = unsafe {
        let intervals =
            _mm512_maskz_loadu_epi64(0xff >> beyond, bytes.as_ptr().add(first_at as usize).cast());
        let address = _mm512_set1_epi32(address as i32);
        _mm512_mask_cmple_epu32_mask(FIRSTS >> (2 * beyond), intervals, address)
    };
    // A cell's first interval begins before its addresses do.
    number(first_at + ((begun | 1).count_ones() - 1) * 8 + 4)
}

/// `WIDE`: the map has cells for the first two steps.
#[inline(always)]
fn address_class<const WIDE: bool>(bytes: &[u8], map: &Addresses<'_>, address: u32) -> u32 {
    if WIDE {
        let mut at = cell(map.wide, address >> 16);
        at = cell(map.tree, (at >> 8) + (address >> 8 & at & 255));
        at = cell(map.tree, (at >> 8) + (address & at & 255));
        return at >> 8;
    }
    if map.top.is_empty() {
        return match map.map.steps {
            // SAFETY: the CPU has the instructions.
            ..=3 => unsafe { search_8(bytes, &map.map, address) },
            _ => search(bytes, map, address),
        };
    }
    let mut at = cell(map.top, address >> 24);
    at = cell(map.tree, (at >> 8) + (address >> 16 & at & 255));
    at = cell(map.tree, (at >> 8) + (address >> 8 & at & 255));
    at = cell(map.tree, (at >> 8) + (address & at & 255));
    at >> 8
}

/// The class of all fields but addresses and ports.
#[inline(always)]
fn small_class(folded: &Folded<'_>, key: &Key) -> u32 {
    let form = number(folded.small[0], key.proto.into())
        + number(folded.small[1], key.kind.into())
        + number(folded.small[2], key.flags.into());
    let form = number(folded.forms, form);
    if !folded.has_links {
        return form;
    }
    let link =
        number(folded.small[3], key.class[0].into()) + number(folded.small[4], key.class[1].into());
    let link = number(folded.links, link);
    number(folded.smalls, form * folded.link_classes + link)
}

/// The number of the row that all fields but the addresses lead to. `DIRECT`: there are classes by
/// port.
#[inline(always)]
fn folded_class<const DIRECT: bool>(folded: &Folded<'_>, key: &Key) -> u32 {
    let small = small_class(folded, key);
    // Without ports, a table for nothing: no branch.
    let port = |side: usize| match DIRECT {
        true => number(folded.direct[side], key.port[side].into()),
        false => port_class(folded.ports[side], key.port[side]),
    };
    let (source, destination) = (port(0), port(1));
    let pair = number(folded.pairs, source * folded.columns + destination);
    number(folded.cells, pair * folded.small_classes + small)
}

/// Where the row of a field's class begins.
#[inline(always)]
fn row_at(chunk: &Ready<'_>, field: usize, class: u32) -> *const u8 {
    let from = chunk.rows[field].as_ptr();
    from.wrapping_add(class as usize * chunk.stride as usize)
}

/// Where rows begin.
pub type Rows<const ROWS: usize> = [*const u8; ROWS];

impl Vector<'_> {
    /// The classes of a packet, as [`Services::classes`] says them.
    #[inline(always)]
    pub(super) fn service_classes(self, services: &Services<'_>, key: &Key) -> [u32; 3] {
        let folded = &services.folded;
        let small = number(folded.cells, small_class(folded, key));
        let port = |side: usize| port_class(folded.ports[side], key.port[side]);
        [small, port(0), port(1)]
    }

    /// The rows of a chunk that a packet's fields lead to; of three rows the last stands for those
    /// that are missing. `classes`: of the packet's services.
    #[inline(always)]
    pub(super) fn rows_ahead(
        self,
        chunk: &Ready<'_>,
        key: &Key,
        classes: &[u32; 3],
    ) -> Rows<ROWS_MAX> {
        if chunk.shared {
            let [source, destination] = self.address_rows::<false>(chunk, key);
            let row = |at: usize| row_at(chunk, 2 + at, classes[at]);
            return [source, destination, row(0), row(1), row(2)];
        }
        if chunk.row_count == 3 {
            let [a, b, c] = self.rows::<3>(chunk, key);
            return [a, b, c, c, c];
        }
        self.rows(chunk, key)
    }

    /// The first position of a chunk in the rows that [`Self::rows_ahead`] found.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    pub(super) unsafe fn first_ahead(self, chunk: &Ready<'_>, rows: &Rows<ROWS_MAX>) -> u32 {
        // SAFETY: as the caller says.
        unsafe {
            match (chunk.row_count, rows) {
                (3, &[a, b, c, ..]) => self.first_in_rows(chunk, &[a, b, c]),
                _ => self.first_in_rows(chunk, rows),
            }
        }
    }

    /// The rows that both addresses lead to.
    #[inline(always)]
    fn address_rows<const WIDE: bool>(self, chunk: &Ready<'_>, key: &Key) -> Rows<2> {
        let class = |side: usize| {
            let address = key.address[side] as u32;
            address_class::<WIDE>(self.bytes, &chunk.addresses[side], address)
        };
        [row_at(chunk, 0, class(0)), row_at(chunk, 1, class(1))]
    }

    /// The rows of a chunk that a packet's fields lead to. `ROWS` is the chunk's `row_count`.
    #[inline(always)]
    pub(super) fn rows<const ROWS: usize>(self, chunk: &Ready<'_>, key: &Key) -> Rows<ROWS> {
        self.rows_of::<ROWS, false, false>(chunk, key)
    }

    /// The same; `WIDE` and `DIRECT` as [`Ready::is_wide`] and [`Ready::is_direct`] say, or not.
    #[inline(always)]
    pub(super) fn rows_of<const ROWS: usize, const WIDE: bool, const DIRECT: bool>(
        self,
        chunk: &Ready<'_>,
        key: &Key,
    ) -> Rows<ROWS> {
        let mut rows = [std::ptr::null(); ROWS];
        [rows[0], rows[1]] = self.address_rows::<WIDE>(chunk, key);
        rows[2] = row_at(chunk, 2, folded_class::<DIRECT>(&chunk.folded, key));
        for side in 0..ROWS - 3 {
            let class = port_class(chunk.ports[side], key.port[side]);
            rows[3 + side] = row_at(chunk, 3 + side, class);
        }
        rows
    }

    /// The position of the first term of a chunk that holds; [`NONE`] without.
    ///
    /// # Safety
    /// The CPU has the instructions, here and below.
    #[inline(always)]
    pub(super) unsafe fn first_of_chunk(self, chunk: &Ready<'_>, key: &Key) -> u32 {
        // SAFETY: as the caller says.
        unsafe {
            match chunk.row_count {
                3 => self.first_in_rows(chunk, &self.rows::<3>(chunk, key)),
                _ if chunk.bounds.is_empty() => {
                    self.first_in_rows(chunk, &self.rows::<5>(chunk, key))
                }
                _ => self.first_within(chunk, &self.rows::<5>(chunk, key), key),
            }
        }
    }

    /// The position of the first term that holds by rows and by its bounds; [`NONE`] without.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline(never)]
    fn first_within(self, chunk: &Ready<'_>, rows: &Rows<5>, key: &Key) -> u32 {
        let wide = chunk.stride / 8;
        let mut from = 0;
        while from < wide {
            // SAFETY: the CPU has the instructions.
            let mut set = unsafe {
                match wide - from {
                    left @ ..=8 => u32::from(nonzero(rows, from, ((1u32 << left) - 1) as u8)),
                    _ => nonzero16(rows, from),
                }
            };
            while set != 0 {
                let at = from + set.trailing_zeros();
                if let Some(term) = chunk.within(at, all_of(rows, at), key) {
                    return cell(chunk.positions, term);
                }
                set &= set - 1;
            }
            from += 16;
        }
        NONE
    }

    /// The position of the first term that holds by all rows; [`NONE`] without.
    #[inline(always)]
    pub(super) unsafe fn first_in_rows<const ROWS: usize>(
        self,
        chunk: &Ready<'_>,
        rows: &Rows<ROWS>,
    ) -> u32 {
        // SAFETY: as the caller says.
        unsafe {
            match chunk.stride / 8 {
                16 => self.first_of_16(chunk, rows),
                8 => {
                    let set = u32::from(nonzero(rows, 0, 0xff));
                    term(chunk, rows, (set | 1 << 7).trailing_zeros())
                }
                wide @ ..8 => {
                    let set = u32::from(nonzero(rows, 0, ((1u32 << wide) - 1) as u8));
                    // Without any, the last word is looked at, in which there is none either.
                    term(chunk, rows, (set | 1 << (wide - 1)).trailing_zeros())
                }
                _ => self.first_in_long_rows(chunk, rows),
            }
        }
    }

    /// The same for rows of sixteen words.
    #[inline(always)]
    pub(super) unsafe fn first_of_16<const ROWS: usize>(
        self,
        chunk: &Ready<'_>,
        rows: &Rows<ROWS>,
    ) -> u32 {
        // SAFETY: as the caller says.
        let set = unsafe { nonzero16(rows, 0) };
        term(chunk, rows, (set | 1 << 15).trailing_zeros())
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn first_in_long_rows<const ROWS: usize>(self, chunk: &Ready<'_>, rows: &Rows<ROWS>) -> u32 {
        let wide = chunk.stride / 8;
        let mut from = 0;
        while from < wide {
            // SAFETY: the CPU has the instructions.
            let set = unsafe {
                match wide - from {
                    8 => u32::from(nonzero(rows, from, 0xff)),
                    _ => nonzero16(rows, from),
                }
            };
            if set != 0 {
                return term(chunk, rows, from + set.trailing_zeros());
            }
            from += 16;
        }
        NONE
    }
}

/// Which of the sixteen words from word `from` on are not zero in the AND of all rows.
#[inline(always)]
unsafe fn nonzero16<const ROWS: usize>(rows: &Rows<ROWS>, from: u32) -> u32 {
    // SAFETY: as the caller says.
    unsafe {
        let low = u32::from(nonzero(rows, from, 0xff));
        low | u32::from(nonzero(rows, from + 8, 0xff)) << 8
    }
}

/// The position of the first bit of one word of the AND of all rows; without, the number behind all
/// terms says so.
#[inline(always)]
fn term<const ROWS: usize>(chunk: &Ready<'_>, rows: &Rows<ROWS>, word: u32) -> u32 {
    let all = all_of(rows, word);
    let bit = all.trailing_zeros();
    // Zero has 64: in the last word of the row that is the number behind all terms.
    debug_assert!(all != 0 || word + 1 == chunk.stride / 8);
    cell(chunk.positions, word * 64 + bit)
}

/// One word of the AND of all rows.
#[inline(always)]
fn all_of<const ROWS: usize>(rows: &Rows<ROWS>, word: u32) -> u64 {
    let own = |row: &*const u8| {
        let from = row.wrapping_add(word as usize * 8).cast::<u64>();
        // SAFETY: rows are inside the image with all their words, see the module's head.
        unsafe { from.read_unaligned() }
    };
    rows.iter().fold(u64::MAX, |all, row| all & own(row))
}

/// Which of eight words from word `from` on, of those in `lanes`, are not zero in the AND of rows.
#[inline(always)]
unsafe fn nonzero<const ROWS: usize>(rows: &Rows<ROWS>, from: u32, lanes: u8) -> u8 {
    // SAFETY: the CPU has the instructions, as the caller says; rows have these words, and of
    // shorter rows only `lanes` are read.
    unsafe {
        let load = |row: *const u8| -> __m512i {
            let from = row.wrapping_add(from as usize * 8);
            match lanes {
                0xff => _mm512_loadu_si512(from.cast()),
                _ => _mm512_maskz_loadu_epi64(lanes, from.cast()),
            }
        };
        let mut all = load(rows[0]);
        for row in &rows[1..] {
            all = _mm512_and_si512(all, load(*row));
        }
        _mm512_test_epi64_mask(all, all)
    }
}
