//! A chunk made ready for one lookup after the other: its tables as slices, so that a lookup reads
//! no structures and adds up no offsets.
//!
//! In: a chunk of a checked image. Out: the position of the first term that holds for a packet.
//! Nothing here depends on instructions of the CPU; `vector` reads the same slices by vectors. What
//! lies outside of a slice reads as zero, which a checked image never needs.

use super::class::{search_v4, search_v6, u64_at};
use super::hashed::is_within;
use super::{Key, NONE};
use crate::image::layout::{
    AddressMap, Chunk, FOLD_APART, FOLD_LINKS, FOLD_PORTS, Fold, Map, ROWS_MAX, row_words,
};

/// A table of numbers of two bytes.
pub type Numbers<'b> = &'b [[u8; 2]];
/// A table of numbers of four bytes.
pub type Cells<'b> = &'b [[u8; 4]];

/// A table for ports that say nothing: each has class 0.
static NO_PORTS: [[u8; 2]; 512] = [[0; 2]; 512];

/// A part of an image; empty where it is not inside.
fn part(bytes: &[u8], at: u32, length: usize) -> &[u8] {
    let at = at as usize;
    bytes.get(at..at + length).unwrap_or_default()
}

/// So many numbers of two bytes.
fn numbers(bytes: &[u8], at: u32, count: u32) -> Numbers<'_> {
    part(bytes, at, count as usize * 2).as_chunks().0
}

/// So many numbers of four bytes.
fn cells(bytes: &[u8], at: u32, count: u32) -> Cells<'_> {
    part(bytes, at, count as usize * 4).as_chunks().0
}

/// The number at a place.
#[inline(always)]
fn number(table: Numbers<'_>, at: u32) -> u32 {
    let found = table.get(at as usize);
    found.map_or(0, |bytes| u16::from_le_bytes(*bytes).into())
}

/// The number at a place.
#[inline(always)]
fn cell(table: Cells<'_>, at: u32) -> u32 {
    let found = table.get(at as usize);
    found.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The map of an address.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'b> {
    /// Cells of the tree from its root's block on; empty: a search.
    pub top: Cells<'b>,
    /// Cells of the tree.
    pub tree: Cells<'b>,
    /// The cells that two steps from the top lead to; may be empty.
    pub wide: Cells<'b>,
    /// For the search.
    pub map: AddressMap,
}

/// The map of everything but addresses.
#[derive(Clone, Copy, Debug)]
pub struct Folded<'b> {
    /// Protocol, kind, flags, interfaces.
    pub small: [Numbers<'b>; 5],
    /// By the sum of the first three.
    pub forms: Numbers<'b>,
    /// By the sum of interfaces.
    pub links: Numbers<'b>,
    /// By form and link.
    pub smalls: Numbers<'b>,
    /// By both ports, see [`Self::ports`].
    pub pairs: Numbers<'b>,
    /// By pair and small class: the number of the row.
    pub cells: Numbers<'b>,
    /// Source and destination port: blocks by the high byte, then their classes; without ports a
    /// table for nothing.
    pub ports: [Numbers<'b>; 2],
    /// Classes by port, which may be empty.
    pub direct: [Numbers<'b>; 2],
    /// Whether interfaces are looked at.
    pub has_links: bool,
    /// Classes of interfaces.
    pub link_classes: u32,
    /// Classes of the destination port.
    pub columns: u32,
    /// Classes of small fields.
    pub small_classes: u32,
}

/// A chunk.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'b> {
    /// Source and destination.
    pub addresses: [Addresses<'b>; 2],
    /// Everything else.
    pub folded: Folded<'b>,
    /// Ports with rows of their own, where there are five rows.
    pub ports: [Numbers<'b>; 2],
    /// Rows of source, destination, everything else, source port, destination port.
    pub rows: [&'b [u8]; ROWS_MAX],
    /// 3 or 5.
    pub row_count: u32,
    /// Whether the last three rows are of the classes that services have.
    pub shared: bool,
    /// Words of a row that have terms.
    pub words: u32,
    /// Bytes of a row.
    pub stride: u32,
    /// By number of the term; [`NONE`] behind the last.
    pub positions: Cells<'b>,
    /// What terms say of addresses and ports, where rows only say that they may hold.
    pub bounds: &'b [u8],
    /// The position of the first term.
    pub least: u32,
    /// Whether addresses are of IPv6.
    pub v6: bool,
}

fn port_map<'b>(bytes: &'b [u8], map: &Map) -> Numbers<'b> {
    numbers(bytes, map.table_at, 256 + 256 * map.blocks)
}

impl<'b> Folded<'b> {
    /// Of a fold. `classes`: places for interfaces.
    pub fn new(bytes: &'b [u8], fold: &Fold, classes: u32) -> Self {
        let of = |at: usize| numbers(bytes, fold.small_at[at], if at < 3 { 256 } else { classes });
        let folded = fold.used & FOLD_PORTS != 0;
        let maps = fold.used & (FOLD_PORTS | FOLD_APART) != 0;
        let port = |side: usize| match maps {
            true => port_map(bytes, &fold.ports[side]),
            false => &NO_PORTS,
        };
        let pairs = match folded {
            true => numbers(bytes, fold.pairs_at, fold.pairs),
            false => &NO_PORTS[..1],
        };
        let direct = |side: usize| match fold.direct_at[side] {
            0 => &[],
            at => numbers(bytes, at, 1 << 16),
        };
        let has_links = fold.used & FOLD_LINKS != 0;
        let link = |at| if has_links { of(at) } else { &[] };
        Folded {
            small: [of(0), of(1), of(2), link(3), link(4)],
            forms: numbers(bytes, fold.forms_at, fold.forms),
            links: numbers(bytes, fold.links_at, fold.links),
            smalls: numbers(bytes, fold.smalls_at, fold.smalls),
            pairs,
            cells: numbers(bytes, fold.cells_at, fold.cells),
            ports: [port(0), port(1)],
            direct: [direct(0), direct(1)],
            has_links,
            link_classes: fold.link_classes,
            columns: if folded { fold.ports[1].rows } else { 0 },
            small_classes: fold.small_classes,
        }
    }

    /// The number of the row.
    #[inline(always)]
    fn class(&self, key: &Key) -> u32 {
        let form = number(self.small[0], key.proto.into())
            + number(self.small[1], key.kind.into())
            + number(self.small[2], key.flags.into());
        let mut small = number(self.forms, form);
        if self.has_links {
            let link = number(self.small[3], key.class[0].into())
                + number(self.small[4], key.class[1].into());
            let link = number(self.links, link);
            small = number(self.smalls, small * self.link_classes + link);
        }
        let pair = match self.columns {
            0 => 0,
            columns => {
                let class = |side: usize| match self.direct[side].get(key.port[side] as usize) {
                    Some(bytes) => u16::from_le_bytes(*bytes).into(),
                    None => port_class(self.ports[side], key.port[side]),
                };
                number(self.pairs, class(0) * columns + class(1))
            }
        };
        number(self.cells, pair * self.small_classes + small)
    }
}

/// Which services of tables hold: small fields, source port and destination port have rows each.
#[derive(Clone, Copy, Debug)]
pub struct Services<'b> {
    /// The maps.
    pub folded: Folded<'b>,
    /// Where the rows begin.
    pub rows_at: [u32; 3],
    /// Bytes of a row.
    pub stride: u32,
}

impl<'b> Services<'b> {
    /// Of a fold with [`FOLD_APART`]. `classes`: places for interfaces.
    pub fn new(bytes: &'b [u8], fold: &Fold, classes: u32) -> Self {
        let [source, destination] = &fold.ports;
        Services {
            folded: Folded::new(bytes, fold, classes),
            rows_at: [fold.rows_at, source.rows_at, destination.rows_at],
            stride: fold.stride,
        }
    }

    /// Vectors of a row.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn vectors(&self) -> u32 {
        self.stride / 64
    }

    /// The classes of a packet: by small fields, by source port and by destination port.
    #[inline(always)]
    pub fn classes(&self, key: &Key) -> [u32; 3] {
        let port = |side: usize| port_class(self.folded.ports[side], key.port[side]);
        [self.folded.class(key), port(0), port(1)]
    }

    /// Where the rows are whose AND says which services hold for a packet of these classes.
    #[inline(always)]
    pub fn rows(&self, classes: [u32; 3]) -> [u32; 3] {
        let row = |at: usize| self.rows_at[at] + classes[at] * self.stride;
        [row(0), row(1), row(2)]
    }
}

/// The class of a port.
#[inline(always)]
fn port_class(table: Numbers<'_>, port: u16) -> u32 {
    let block = number(table, u32::from(port >> 8));
    number(table, 256 + block * 256 + u32::from(port & 255))
}

/// One word of the AND of all rows.
#[inline(always)]
fn word_of<const ROWS: usize>(rows: &[&[u8]; ROWS], at: u32) -> u64 {
    let own = |row: &&[u8]| u64_at(row, at * 8);
    rows.iter().fold(u64::MAX, |all, row| all & own(row))
}

impl<'b> Ready<'b> {
    /// Of a chunk. `classes`: places for interfaces.
    pub fn new(bytes: &'b [u8], chunk: &Chunk, v6: bool, classes: u32) -> Self {
        let side = |at: usize| {
            let map = chunk.addresses[at];
            let tree = cells(bytes, map.tree_at, map.tree);
            let top = tree.get(map.rows as usize..).unwrap_or_default();
            let wide = if map.wide_at > 0 { 1 << 16 } else { 0 };
            let wide = cells(bytes, map.wide_at, wide);
            Addresses {
                top,
                tree,
                wide,
                map,
            }
        };
        let rows = |at: u32, count: u32| part(bytes, at, (count * chunk.stride) as usize);
        let [source, destination] = &chunk.addresses;
        let (fold, ports) = (&chunk.fold, &chunk.ports);
        let five = chunk.rows > 3;
        let port_rows = |side: usize| match five {
            true => rows(ports[side].rows_at, ports[side].rows),
            false => &[],
        };
        let port = |side: usize| match five {
            true => port_map(bytes, &ports[side]),
            false => &NO_PORTS,
        };
        let count = row_words(chunk.words) * 64 + 1;
        let positions = cells(bytes, chunk.positions_at, count);
        Ready {
            addresses: [side(0), side(1)],
            folded: Folded::new(bytes, fold, classes),
            ports: [port(0), port(1)],
            rows: [
                rows(source.rows_at, source.rows),
                rows(destination.rows_at, destination.rows),
                rows(fold.rows_at, fold.rows),
                port_rows(0),
                port_rows(1),
            ],
            row_count: chunk.rows,
            shared: chunk.shared != 0,
            words: chunk.words,
            stride: chunk.stride,
            positions,
            bounds: match chunk.bounds_at {
                0 => &[],
                at => bytes.get(at as usize..).unwrap_or_default(),
            },
            least: cell(positions, 0),
            v6,
        }
    }

    #[inline(always)]
    fn address_class(&self, bytes: &[u8], side: usize, address: u128) -> u32 {
        let map = &self.addresses[side];
        if map.top.is_empty() {
            return match self.v6 {
                true => search_v6(bytes, &map.map, address),
                false => search_v4(bytes, &map.map, address as u32),
            };
        }
        let address = address as u32;
        let mut at = match map.wide.get(address as usize >> 16) {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => {
                let at = cell(map.top, address >> 24);
                cell(map.tree, (at >> 8) + (address >> 16 & at & 255))
            }
        };
        at = cell(map.tree, (at >> 8) + (address >> 8 & at & 255));
        at = cell(map.tree, (at >> 8) + (address & at & 255));
        at >> 8
    }

    /// Whether addresses are found in three steps.
    pub fn is_wide(&self) -> bool {
        self.addresses.iter().all(|map| !map.wide.is_empty())
    }

    /// Whether classes of ports are found in one step.
    pub fn is_direct(&self) -> bool {
        self.folded.direct.iter().all(|table| !table.is_empty())
    }

    /// The row of a field.
    #[inline(always)]
    fn row(&self, field: usize, class: u32) -> &'b [u8] {
        let at = (class * self.stride) as usize;
        let row = self.rows[field].get(at..at + self.stride as usize);
        row.unwrap_or_default()
    }

    /// The position of the first term that holds; [`NONE`] without. `services`: the packet's
    /// classes, see [`Services::classes`], where there are tables.
    #[inline(always)]
    pub fn first(&self, bytes: &[u8], key: &Key, services: [u32; 3]) -> u32 {
        let source = self.row(0, self.address_class(bytes, 0, key.address[0]));
        let destination = self.row(1, self.address_class(bytes, 1, key.address[1]));
        if self.shared {
            let row = |at: usize| self.row(2 + at, services[at]);
            return self.first_in([source, destination, row(0), row(1), row(2)]);
        }
        let rest = self.row(2, self.folded.class(key));
        if self.row_count == 3 {
            return self.first_in([source, destination, rest]);
        }
        let port = |side: usize| self.row(3 + side, port_class(self.ports[side], key.port[side]));
        let rows = [source, destination, rest, port(0), port(1)];
        if !self.bounds.is_empty() {
            return self.first_within(rows, key);
        }
        self.first_in(rows)
    }

    /// The position of the first term that holds by its bounds too.
    fn first_within(&self, rows: [&[u8]; ROWS_MAX], key: &Key) -> u32 {
        for at in 0..self.words {
            if let Some(term) = self.within(at, word_of(&rows, at), key) {
                return cell(self.positions, term);
            }
        }
        NONE
    }

    /// The first term of a word of bits that holds by its bounds.
    #[inline(always)]
    pub fn within(&self, at: u32, mut word: u64, key: &Key) -> Option<u32> {
        while word != 0 {
            let term = at * 64 + word.trailing_zeros();
            if is_within(self.bounds, term, self.v6, key) {
                return Some(term);
            }
            word &= word - 1;
        }
        None
    }

    /// The position of the first bit that is set in all rows. Nobody could foretell which word it
    /// is in: many are looked at without branches.
    #[inline(always)]
    fn first_in<const ROWS: usize>(&self, rows: [&[u8]; ROWS]) -> u32 {
        match self.stride {
            ..64 => self.first_in_few(rows),
            128 => self.first_in_words::<ROWS, 16>(rows),
            _ => self.first_in_words::<ROWS, 8>(rows),
        }
    }

    /// So many words at a time.
    #[inline(always)]
    fn first_in_words<const ROWS: usize, const WORDS: usize>(&self, rows: [&[u8]; ROWS]) -> u32 {
        let rows = rows.map(|row| row.as_chunks::<8>().0.as_chunks::<WORDS>().0);
        for at in 0..rows[0].len() {
            let parts = rows.map(|row| row.get(at).unwrap_or(&[[0; 8]; WORDS]));
            let word = |number: usize| {
                let own = |part: &[[u8; 8]; WORDS]| u64::from_le_bytes(part[number]);
                parts.iter().fold(u64::MAX, |all, part| all & own(part))
            };
            let bits = |set, number| set | u32::from(word(number) != 0) << number;
            let set = (0..WORDS).fold(0, bits);
            if set != 0 || WORDS == 16 {
                // Without any, the last word, in which there is none either.
                let number = set.trailing_zeros().min(WORDS as u32 - 1);
                let bit = word(number as usize).trailing_zeros();
                return cell(self.positions, (at * WORDS) as u32 * 64 + number * 64 + bit);
            }
        }
        NONE
    }

    /// In rows of one, two or four words.
    #[inline(always)]
    fn first_in_few<const ROWS: usize>(&self, rows: [&[u8]; ROWS]) -> u32 {
        for at in 0..self.words {
            let word = word_of(&rows, at);
            if word != 0 {
                return cell(self.positions, at * 64 + word.trailing_zeros());
            }
        }
        NONE
    }
}
