//! The linear search: the first filter that holds, which every walker's answer is compared with.
//!
//! In: a filter set, packets. Out: the number of the first filter that holds for each, or
//! [`NONE`]. A column-wise scan over the leading address bits of blocks of filters, in order and up
//! to the first that holds; what passes the columns is judged by [`Filter::holds`]. Nothing here is
//! shared with the compiler, and nothing is left out.

use super::filter::{Filter, FilterSet, Flags, Packet, Version};
use std::ops::{BitAnd, BitOr, BitXor};

/// No filter holds.
pub const NONE: u32 = u32::MAX;

/// Filters of one block: the compiler makes vector instructions of loops over it.
const BLOCK: usize = 64;

/// The first bits of addresses: `(address ^ value) & mask` is 0 where they agree.
struct Columns<W> {
    src: Vec<[W; BLOCK]>,
    src_mask: Vec<[W; BLOCK]>,
    dst: Vec<[W; BLOCK]>,
    dst_mask: Vec<[W; BLOCK]>,
}

/// A word of leading address bits.
trait Word: Copy + Default + PartialEq + BitAnd<Output = Self> + BitOr<Output = Self>
where
    Self: BitXor<Output = Self>,
{
    /// Ones everywhere, which agrees with nothing when it is left over after an AND.
    const ONES: Self;
    /// Leading bits of an address.
    fn of(address: u128) -> Self;
    /// A mask of this many leading bits.
    fn mask(length: u8) -> Self;
}

impl Word for u32 {
    const ONES: u32 = u32::MAX;
    fn of(address: u128) -> u32 {
        address as u32
    }
    fn mask(length: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }
}

impl Word for u64 {
    const ONES: u64 = u64::MAX;
    fn of(address: u128) -> u64 {
        (address >> 64) as u64
    }
    fn mask(length: u8) -> u64 {
        u64::MAX
            .checked_shl(64 - u32::from(length.min(64)))
            .unwrap_or(0)
    }
}

impl<W: Word> Columns<W> {
    fn new(filters: &[Filter]) -> Self {
        let blocks = filters.len().div_ceil(BLOCK);
        let mut columns = Columns {
            src: vec![[W::ONES; BLOCK]; blocks],
            src_mask: vec![[W::default(); BLOCK]; blocks],
            dst: vec![[W::ONES; BLOCK]; blocks],
            dst_mask: vec![[W::default(); BLOCK]; blocks],
        };
        for (at, filter) in filters.iter().enumerate() {
            let (block, lane) = (at / BLOCK, at % BLOCK);
            columns.src[block][lane] = W::of(filter.src.first);
            columns.src_mask[block][lane] = W::mask(filter.src.length);
            columns.dst[block][lane] = W::of(filter.dst.first);
            columns.dst_mask[block][lane] = W::mask(filter.dst.length);
        }
        columns
    }

    /// The first filter whose columns agree and that `holds`.
    fn first(&self, packet: &Packet, count: usize, holds: impl Fn(usize) -> bool) -> u32 {
        let (src, dst) = (W::of(packet.src), W::of(packet.dst));
        for block in 0..self.src.len() {
            let mut differ = [W::default(); BLOCK];
            for (lane, out) in differ.iter_mut().enumerate() {
                *out = (src ^ self.src[block][lane]) & self.src_mask[block][lane]
                    | (dst ^ self.dst[block][lane]) & self.dst_mask[block][lane];
            }
            let agree = differ
                .iter()
                .fold(0u32, |n, bits| n + u32::from(*bits == W::default()));
            if agree == 0 {
                continue;
            }
            let lanes = BLOCK.min(count - block * BLOCK);
            let found = (0..lanes)
                .find(|lane| differ[*lane] == W::default() && holds(block * BLOCK + lane));
            if let Some(lane) = found {
                return (block * BLOCK + lane) as u32;
            }
        }
        NONE
    }
}

/// The filter that decides each packet, on all processors.
pub fn search(set: &FilterSet, packets: &[Packet], flags: Flags) -> Vec<u32> {
    match set.version {
        Version::V4 => search_in(&Columns::<u32>::new(&set.filters), set, packets, flags),
        Version::V6 => search_in(&Columns::<u64>::new(&set.filters), set, packets, flags),
    }
}

fn search_in<W: Word + Sync>(
    columns: &Columns<W>,
    set: &FilterSet,
    packets: &[Packet],
    flags: Flags,
) -> Vec<u32> {
    let mut out = vec![NONE; packets.len()];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = packets.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (packets, out) in packets.chunks(part).zip(out.chunks_mut(part)) {
            scope.spawn(move || {
                for (packet, out) in packets.iter().zip(out) {
                    let holds = |at: usize| set.filters[at].holds(packet, set.version, flags);
                    *out = columns.first(packet, set.filters.len(), holds);
                }
            });
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::generate::{Family, Options, generate, trace};

    fn plain(set: &FilterSet, packet: &Packet, flags: Flags) -> u32 {
        let holds = |filter: &Filter| filter.holds(packet, set.version, flags);
        let found = set.filters.iter().position(holds);
        found.map_or(NONE, |at| at as u32)
    }

    #[test]
    fn columns_find_what_a_plain_search_finds() {
        for version in [Version::V4, Version::V6] {
            for family in Family::all() {
                let options = Options {
                    version,
                    ..Options::new(family, 300, 5)
                };
                let set = generate(&options).unwrap();
                for kind in trace::Kind::ALL {
                    let trace = trace::make(&set, 500, kind, 9);
                    let found = search(&set, &trace.packets, Flags::Ignored);
                    for (packet, found) in trace.packets.iter().zip(found) {
                        assert_eq!(found, plain(&set, packet, Flags::Ignored), "{family}");
                    }
                }
            }
        }
    }
}
