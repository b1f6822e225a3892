//! Bit vectors: the row of the source address, of the destination address and of everything else,
//! with one bit per term.
//!
//! The AND of the rows that a packet's fields lead to is the set of terms that hold, in evaluation
//! order. Two values share a row exactly when the same terms allow them. For rows of more than one
//! word there is a summary word that has a bit for each word that is not zero. The idea is that of
//! Lakshman and Stiliadis (SIGCOMM 1998) with the aggregation of Baboescu and Varghese (2001).

use super::Error;
use super::coarse::{self, Coarse};
use super::fold::{self, Folded, Unit};
use super::hash::QuickMap;
use super::interfaces::Interfaces;
use super::maps::{self, AddressRoom};
use super::service::Services;
use super::sets::{Sets, hash_of, sweep};
use super::span::Span;
use super::term::{Term, address_last};
use crate::image::layout::{
    ALIGN, AddressMap, CHUNK_TERMS_MAX, Chunk, FOLD_APART, FOLD_LINKS, FOLD_PORTS, Fold, Map,
    row_words,
};
use crate::image::write::Writer;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Bytes that rows of a chunk may take for classes of services, of which its terms tell fewer.
const SHARED_BYTES: usize = 256 << 10;

/// What a bit stands for, and the position of its entry: `None` where a term may come.
pub type Bit<'t> = (Option<&'t Term>, u32);

/// Words of a row up to which ports are folded where rules are to be changed.
const FOLD_WORDS: usize = 16;

/// What building chunks needs to know.
pub struct Builder<'a> {
    /// Family of the root.
    pub family: Family,
    /// Interface classes.
    pub interfaces: &'a Interfaces,
    /// Services that terms name.
    pub services: &'a Services,
    /// What maps from addresses may take.
    pub room: AddressRoom,
    /// Whether the chunk is all that packets of the root are looked up in, and may take room to
    /// be quick.
    pub alone: bool,
    /// Classes that a chunk may share, where it is the only one beside tables.
    pub shared: Option<Shared<'a>>,
    /// Whether rules are to be changed one by one: chunks of many words have rows of each port,
    /// since those are fewer to write.
    pub changes: bool,
    /// How coarse rows are, where exact ones take too much room.
    pub coarse: Option<Coarse>,
}

/// Classes of small fields and ports that packets are in already: those of the services of tables.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    /// The maps, as they were written.
    pub fold: &'a Fold,
    /// Units of each class of small fields.
    pub folded: &'a Folded,
    /// Units of each class of ports.
    pub ports: &'a [PortRows; 2],
    /// The number of each unit.
    pub units: &'a QuickMap<Unit, u32>,
}

/// Writes rows of so many words, with their summary words in front; where the first row is.
pub fn write_rows(rows: &[u64], words: usize, writer: &mut Writer) -> u32 {
    if words == 1 {
        return writer.section(rows.as_bytes());
    }
    let count = rows.len() / words;
    let (head, wide) = (count.next_multiple_of(8), row_bytes(words) / 8);
    let mut out = vec![0u64; head + count * wide];
    for (number, row) in rows.chunks_exact(words).enumerate() {
        let words = row.iter().enumerate();
        out[head - 1 - number] = words.fold(0, |all, (at, w)| all | u64::from(*w != 0) << at);
        out[head + number * wide..][..row.len()].copy_from_slice(row);
    }
    writer.section(out.as_bytes()) + head as u32 * 8
}

/// Bytes of a row.
fn row_bytes(words: usize) -> usize {
    row_words(words as u32) as usize * 8
}

impl Builder<'_> {
    /// Builds a chunk over bits in evaluation order; sections go to `writer`. `None` when the
    /// fields of so many terms have too many classes: cut the chunk.
    fn chunk(&self, terms: &[Bit], writer: &mut Writer) -> Result<Option<Chunk>, Error> {
        assert!(
            !terms.is_empty() && terms.len() <= CHUNK_TERMS_MAX,
            "the caller cuts chunks"
        );
        let words = terms.len().div_ceil(64);
        // Where exact rows of these terms are no more, they are quicker.
        if let Some(coarse) = self.coarse.filter(|coarse| coarse.rows < 2 * terms.len()) {
            return self.coarse_chunk(coarse, terms, writer);
        }
        if let Some(shared) = &self.shared
            && let Some(bits) = shared.terms(terms)
        {
            return self.beside_services(shared, terms, &bits, writer).map(Some);
        }
        let (units, bits) = units(terms, true);
        // Where hardly two terms say the same of ports, rows of each port take less room. To rows
        // of one or two words they are also the shorter way.
        let few = |folded: &Folded| folded.classes.count() <= 512 + 4 * terms.len();
        let mut folded = (words > 2 && !(self.changes && words > FOLD_WORDS))
            .then(|| fold::fold(&units, true, self.services, self.interfaces))
            .flatten()
            .filter(few)
            .map(|folded| (folded, bits, 3));
        if folded.is_none() {
            let (units, bits) = self::units(terms, false);
            folded = fold::fold(&units, false, self.services, self.interfaces)
                .map(|folded| (folded, bits, 5));
        }
        let Some((folded, bits, rows)) = folded else {
            return Ok(None);
        };
        let mut chunk = Chunk {
            rows,
            fold: fold_rows(&folded, &bits, words, writer),
            ..numbered(terms, writer)
        };
        for side in 0..2 {
            chunk.addresses[side] = self.addresses(terms, side, words, writer)?;
            if rows > 3 {
                chunk.ports[side] = ports(terms, side, words, writer);
            }
        }
        // What one packet after the other goes through, and small enough to stay in caches.
        if self.alone && rows == 3 && chunk.stride == 128 {
            maps::widen(&mut chunk, writer);
        }
        Ok(Some(chunk))
    }

    /// A chunk of coarse rows of addresses and ports.
    fn coarse_chunk(
        &self,
        coarse: Coarse,
        terms: &[Bit],
        writer: &mut Writer,
    ) -> Result<Option<Chunk>, Error> {
        let words = terms.len().div_ceil(64);
        let most = coarse.most(terms.len());
        let (units, bits) = units(terms, false);
        let Some(folded) = fold::fold(&units, false, self.services, self.interfaces) else {
            return Ok(None);
        };
        let mut chunk = Chunk {
            rows: 5,
            fold: fold_rows(&folded, &bits, words, writer),
            bounds_at: coarse::bounds(terms, self.family, writer),
            ..numbered(terms, writer)
        };
        let top = address_last(self.family);
        for side in 0..2 {
            let mut sets = Sets::new(words);
            let spans = spans(terms, |t| &t.address[side]);
            let (bounds, inside) = coarse::sweep(spans, top, most, &mut sets);
            chunk.vain_max += inside as u32;
            chunk.addresses[side] = self.address_rows(&bounds, &sets, writer)?;
            let mut sets = Sets::new(words);
            let spans = self::spans(terms, |t| &t.port[side]);
            let (bounds, inside) = coarse::sweep(spans, u16::MAX, most, &mut sets);
            chunk.vain_max += inside as u32;
            chunk.ports[side] = port_rows(&bounds, &sets, writer);
        }
        Ok(Some(chunk))
    }

    /// A chunk whose small fields and ports have the classes of services. `bits`: of the terms of
    /// each unit.
    fn beside_services(
        &self,
        shared: &Shared,
        terms: &[Bit],
        bits: &[Vec<u64>],
        writer: &mut Writer,
    ) -> Result<Chunk, Error> {
        let words = terms.len().div_ceil(64);
        let fold = shared.fold;
        let small = rows_of_classes(&shared.folded.classes, bits, words);
        let mut chunk = Chunk {
            rows: 5,
            shared: 1,
            fold: Fold {
                used: fold.used & FOLD_LINKS,
                rows_at: write_rows(&small, words, writer),
                stride: row_bytes(words) as u32,
                ports: [Map::default(); 2],
                ..*fold
            },
            ..numbered(terms, writer)
        };
        for side in 0..2 {
            chunk.addresses[side] = self.addresses(terms, side, words, writer)?;
            let rows = rows_of_classes(&shared.ports[side].sets, bits, words);
            chunk.ports[side] = Map {
                rows_at: write_rows(&rows, words, writer),
                ..fold.ports[side]
            };
        }
        Ok(chunk)
    }

    /// Chunks of parts of all bits, each cut into as many as its fields have classes for.
    pub fn chunks<'b, 't: 'b>(
        &self,
        parts: impl DoubleEndedIterator<Item = &'b [Bit<'t>]>,
        limit: usize,
        writer: &mut Writer,
    ) -> Result<Vec<Chunk>, Error> {
        let mut chunks = Vec::new();
        let mut open: Vec<&[Bit]> = parts.rev().collect();
        while let Some(part) = open.pop() {
            let Some(chunk) = self.chunk(part, writer)? else {
                let (low, high) = part.split_at(part.len() / 2);
                open.extend([high, low]);
                continue;
            };
            chunks.push(chunk);
            let given = writer.length();
            if given > limit {
                return Err(Error::Budget { given, limit });
            }
        }
        Ok(chunks)
    }

    fn addresses(
        &self,
        terms: &[Bit],
        side: usize,
        words: usize,
        writer: &mut Writer,
    ) -> Result<AddressMap, Error> {
        let mut sets = Sets::new(words);
        let top = address_last(self.family);
        let bounds = sweep(spans(terms, |t| &t.address[side]), top, &mut sets);
        self.address_rows(&bounds, &sets, writer)
    }

    fn address_rows(
        &self,
        bounds: &[(u128, u32)],
        sets: &Sets,
        writer: &mut Writer,
    ) -> Result<AddressMap, Error> {
        let count = sets.count() as u32;
        let mut map = maps::addresses(bounds, count, self.family, self.room, writer)?;
        map.rows_at = write_rows(sets.all(), sets.words(), writer);
        Ok(map)
    }
}

impl Shared<'_> {
    /// The terms of each unit as bits, where rows for all classes of units don't take much room.
    fn terms(&self, terms: &[Bit]) -> Option<Vec<Vec<u64>>> {
        let words = terms.len().div_ceil(64);
        let rows = self.folded.classes.count() + self.ports[0].count() + self.ports[1].count();
        if rows * row_bytes(words) > SHARED_BYTES {
            return None;
        }
        let mut bits = vec![Vec::new(); self.folded.classes.words() * 64];
        for (bit, (term, _)) in terms.iter().enumerate() {
            let own = &mut bits[*self.units.get(&Unit::of((*term)?, true))? as usize];
            own.resize(words, 0);
            own[bit / 64] |= 1 << (bit % 64);
        }
        Some(bits)
    }
}

/// A chunk's numbers and positions.
fn numbered(terms: &[Bit], writer: &mut Writer) -> Chunk {
    let words = terms.len().div_ceil(64);
    let mut positions: Vec<u32> = terms.iter().map(|t| t.1).collect();
    positions.resize(row_bytes(words) * 8 + 1, u32::MAX);
    Chunk {
        words: words as u32,
        terms: terms.len() as u32,
        positions_at: writer.section(positions.as_bytes()),
        stride: row_bytes(words) as u32,
        ..Chunk::default()
    }
}

/// For each class, by its units, the row of their terms.
fn rows_of_classes(classes: &Sets, bits: &[Vec<u64>], words: usize) -> Vec<u64> {
    let mut rows = vec![0u64; classes.count() * words];
    for (class, row) in classes.each().zip(rows.chunks_exact_mut(words)) {
        terms_of(class, bits, row);
    }
    rows
}

/// Adds the terms of the units of a class.
fn terms_of(class: &[u64], bits: &[Vec<u64>], row: &mut [u64]) {
    for (at, word) in class.iter().enumerate() {
        let mut left = *word;
        while left != 0 {
            let own = &bits[at * 64 + left.trailing_zeros() as usize];
            row.iter_mut().zip(own).for_each(|(all, bits)| *all |= bits);
            left &= left - 1;
        }
    }
}

/// What the terms of bits say about a field.
fn spans<'b, T: 'b>(
    terms: &'b [Bit],
    field: impl Fn(&'b Term) -> &'b Span<T>,
) -> impl Iterator<Item = (usize, &'b Span<T>)> {
    let bits = terms.iter().enumerate();
    bits.filter_map(move |(bit, (term, _))| Some((bit, field((*term)?))))
}

/// The distinct units of terms, and the terms of each as bits.
fn units(terms: &[Bit], with_ports: bool) -> (Vec<Unit>, Vec<Vec<u64>>) {
    let words = terms.len().div_ceil(64);
    let mut numbers: QuickMap<Unit, usize> = QuickMap::default();
    let (mut units, mut bits) = (Vec::new(), Vec::new());
    for (bit, (term, _)) in terms.iter().enumerate() {
        let Some(term) = term else {
            continue;
        };
        let unit = Unit::of(term, with_ports);
        let at = *numbers.entry(unit).or_insert_with_key(|unit| {
            units.push(unit.clone());
            bits.push(vec![0u64; words]);
            units.len() - 1
        });
        bits[at][bit / 64] |= 1 << (bit % 64);
    }
    (units, bits)
}

/// Writes the fold with a row of terms for each class.
fn fold_rows(folded: &Folded, bits: &[Vec<u64>], words: usize, writer: &mut Writer) -> Fold {
    let mut sets = Sets::new(words);
    let mut row = vec![0u64; words];
    let numbers: Vec<u32> = folded
        .classes
        .each()
        .map(|class| {
            row.fill(0);
            terms_of(class, bits, &mut row);
            sets.number(&row, hash_of(&row))
        })
        .collect();
    let mut fold = folded.write(&numbers, writer);
    fold.rows = sets.count() as u32;
    fold.stride = row_bytes(words) as u32;
    fold.rows_at = write_rows(sets.all(), words, writer);
    fold
}

/// Which units allow a port: intervals with a class each, and the units of each class.
pub struct PortRows {
    bounds: Vec<(u16, u32)>,
    sets: Sets,
}

impl PortRows {
    /// Of the source or destination port of units.
    pub fn of(units: &[Unit], side: usize) -> Self {
        let mut sets = Sets::new(units.len().div_ceil(64));
        let bounds = sweep(
            units.iter().map(|u| &u.port[side]).enumerate(),
            u16::MAX,
            &mut sets,
        );
        PortRows { bounds, sets }
    }

    /// How many rows.
    pub fn count(&self) -> usize {
        self.sets.count()
    }

    fn write(&self, writer: &mut Writer) -> Map {
        let mut map = maps::ports(&self.bounds, self.sets.count() as u32, writer);
        map.rows_at = writer.section(whole_lines(&self.sets).as_bytes());
        map
    }
}

/// Rows of bits, each filled up to whole lines, so that vectors read them without asking how long
/// they are.
fn whole_lines(rows: &Sets) -> Vec<u64> {
    let words = rows.words().next_multiple_of(ALIGN / 8);
    let mut out = Vec::with_capacity(rows.count() * words);
    for row in rows.each() {
        out.extend_from_slice(row);
        out.resize(out.len().next_multiple_of(words), 0);
    }
    out
}

/// Writes the fold of units themselves: a row has a bit for each unit, and no summary. What is
/// folded are the small fields; ports have rows of their own.
pub fn unit_rows(folded: &Folded, ports: &[PortRows; 2], writer: &mut Writer) -> Fold {
    let numbers: Vec<u32> = (0..folded.classes.count() as u32).collect();
    let mut fold = folded.write(&numbers, writer);
    fold.rows = folded.classes.count() as u32;
    fold.stride = (folded.classes.words() * 8).next_multiple_of(ALIGN) as u32;
    fold.rows_at = writer.section(whole_lines(&folded.classes).as_bytes());
    fold.used |= FOLD_APART;
    fold.ports = [ports[0].write(writer), ports[1].write(writer)];
    fold
}

fn ports(terms: &[Bit], side: usize, words: usize, writer: &mut Writer) -> Map {
    let mut sets = Sets::new(words);
    let bounds = sweep(spans(terms, |t| &t.port[side]), u16::MAX, &mut sets);
    port_rows(&bounds, &sets, writer)
}

fn port_rows(bounds: &[(u16, u32)], sets: &Sets, writer: &mut Writer) -> Map {
    let mut map = maps::ports(bounds, sets.count() as u32, writer);
    map.rows_at = write_rows(sets.all(), sets.words(), writer);
    map
}

/// Loads of one packet in a fold, up to the offset of its row.
pub fn fold_loads(fold: &Fold) -> u32 {
    let ports = if fold.used & FOLD_PORTS != 0 { 5 } else { 0 };
    let ports = if fold.used & FOLD_APART != 0 {
        4
    } else {
        ports
    };
    let links = if fold.used & FOLD_LINKS != 0 { 4 } else { 0 };
    5 + ports + links
}

/// Number of loads of one packet in a chunk, without the entries.
pub fn worst_loads(chunk: &Chunk) -> u32 {
    let address = |map: &AddressMap| if map.tree > 0 { 4 } else { 3 + map.steps };
    let maps: u32 = chunk.addresses.iter().map(address).sum();
    let ports = if chunk.rows > 3 { 4 } else { 0 };
    let vain = 6 * chunk.vain_max;
    maps + ports + vain + fold_loads(&chunk.fold) + chunk.rows * (1 + chunk.words) + 1
}
