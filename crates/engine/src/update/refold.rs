//! A fold that tells one more unit apart, made from one that does not.
//!
//! In: a chunk's fold, a term whose small fields it tells apart and whose ports it may not. Out:
//! classes of ports, of pairs of them and rows, cut where the term cuts them; the maps from small
//! fields stay. Without cuts the fold serves as it is.

use super::shape::{Bounds, Rows, firsts_of, within};
use crate::compile::maps;
use crate::compile::term::Term;
use crate::image::layout::{CELLS_MAX, FOLD_PORTS, Fold};
use crate::image::write::Writer;
use crate::lookup::class::u16_at;
use zerocopy::IntoBytes;

/// The maps of a fold that come.
pub struct Refold {
    bounds: [Bounds<u16>; 2],
    classes: [u32; 2],
    pairs: Vec<u16>,
    cells: Vec<u16>,
}

/// Numbers by whether they are met inside of the term, outside, or both; what is both gets another
/// number inside.
struct Cut {
    met: Vec<[bool; 2]>,
    own: Vec<u32>,
    rows: Rows,
}

impl Cut {
    fn of(count: usize, each: impl Iterator<Item = (usize, bool)>) -> Self {
        let mut met = vec![[false; 2]; count];
        each.for_each(|(number, is_in)| met[number][usize::from(is_in)] = true);
        let mut set: Vec<bool> = met.iter().map(|met| *met == [false, true]).collect();
        let (mut copies, mut own) = (Vec::new(), vec![0; count]);
        for number in (0..count).filter(|number| met[*number] == [true; 2]) {
            own[number] = set.len() as u32;
            set.push(true);
            copies.push(number as u32);
        }
        Cut {
            met,
            own,
            rows: Rows { set, copies },
        }
    }

    fn number(&self, old: usize, is_in: bool) -> u16 {
        match is_in && self.met[old] == [true; 2] {
            true => self.own[old] as u16,
            false => old as u16,
        }
    }
}

impl Rows {
    /// Which one a number is a copy of, if it is.
    fn origin(&self, number: usize) -> usize {
        let old = self.set.len() - self.copies.len();
        match number.checked_sub(old) {
            None => number,
            Some(copy) => self.copies[copy] as usize,
        }
    }
}

/// Cuts a fold for a term. `ports`: its intervals of both ports; `smalls`: for each class of small
/// fields whether the term has it. `None`: it would become too large.
pub fn refold(
    image: &[u8],
    fold: &Fold,
    ports: &[Bounds<u16>; 2],
    smalls: &[bool],
    term: &Term,
) -> Option<(Rows, Option<Refold>)> {
    let has_ports = fold.used & FOLD_PORTS != 0;
    let columns = if has_ports { fold.ports[1].rows } else { 1 };
    let side = |side: usize| {
        let classes = if has_ports { fold.ports[side].rows } else { 1 };
        within(&ports[side], classes, &term.port[side], u16::MAX)
    };
    let [source, destination] = [side(0), side(1)];
    let old_pair = |number: usize| match has_ports {
        true => u16_at(image, fold.pairs_at + number as u32 * 2) as usize,
        false => 0,
    };
    // The pairs of classes, by what they were.
    let mut all = Vec::with_capacity(source.rows.set.len() * destination.rows.set.len());
    for (one, in_source) in source.rows.set.iter().enumerate() {
        let from = source.rows.origin(one) * columns as usize;
        for (two, in_destination) in destination.rows.set.iter().enumerate() {
            let old = old_pair(from + destination.rows.origin(two));
            all.push((old, *in_source && *in_destination));
        }
    }
    let count = all.iter().map(|pair| pair.0).max()? + 1;
    let pairs = Cut::of(count, all.iter().copied());
    let small_classes = fold.small_classes as usize;
    let fits = pairs.rows.set.len() <= 1 << 16
        && pairs.rows.set.len() * small_classes <= CELLS_MAX
        && all.len() <= CELLS_MAX / 4;
    if !fits {
        return None;
    }
    // The rows of pairs and small classes, by what they were.
    let mut cells = Vec::with_capacity(pairs.rows.set.len() * small_classes);
    for (pair, in_pair) in pairs.rows.set.iter().enumerate() {
        let from = pairs.rows.origin(pair) * small_classes;
        for (small, in_small) in smalls.iter().enumerate() {
            let old = u16_at(image, fold.cells_at + (from + small) as u32 * 2);
            cells.push((old as usize, *in_pair && *in_small));
        }
    }
    let rows = Cut::of(fold.rows as usize, cells.iter().copied());
    if rows.rows.set.len() > 1 << 16 {
        return None;
    }
    let is_cut = [&source.rows, &destination.rows, &pairs.rows, &rows.rows]
        .iter()
        .any(|rows| !rows.copies.is_empty());
    let made = is_cut.then(|| Refold {
        classes: [&source, &destination].map(|own| own.rows.set.len() as u32),
        pairs: all
            .iter()
            .map(|(old, is_in)| pairs.number(*old, *is_in))
            .collect(),
        cells: cells
            .iter()
            .map(|(old, is_in)| rows.number(*old, *is_in))
            .collect(),
        bounds: [
            firsts_of(source, &ports[0]),
            firsts_of(destination, &ports[1]),
        ],
    });
    Some((rows.rows, made))
}

impl Refold {
    /// Bytes that the maps take at most, in place of those of a fold.
    pub fn bytes(&self, fold: &Fold) -> usize {
        let blocks = (fold.ports[0].blocks + fold.ports[1].blocks) as usize + 12;
        let cuts: usize = self.bounds.iter().map(Vec::len).sum();
        (blocks + cuts.min(512)) * 512 + (self.pairs.len() + self.cells.len()) * 2 + 512
    }

    /// Writes the maps; the fold then leads to them.
    pub fn write(&self, fold: &mut Fold, writer: &mut Writer) {
        for side in 0..2 {
            fold.ports[side] = maps::ports(&self.bounds[side], self.classes[side], writer);
        }
        fold.pairs_at = writer.section(self.pairs.as_bytes());
        fold.pairs = self.pairs.len() as u32;
        fold.cells_at = writer.section(self.cells.as_bytes());
        fold.cells = self.cells.len() as u32;
        fold.used |= FOLD_PORTS;
    }
}
