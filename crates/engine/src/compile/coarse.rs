//! Bit vectors whose rows say which terms *may* hold: values of a field that lie side by side share
//! a row although a few terms tell them apart, and what every term says is written down beside.
//!
//! Where terms are ranges that begin and end anywhere, each has two classes of its own in every
//! field, and rows for all of them take room by the square of the terms (nf-HiPAC's worst case).
//! Here the number of rows is chosen. A walker looks at each term that its rows leave, in order,
//! until one holds; those that don't are bounded: each has a bound inside the cell of one of the
//! packet's four values, and no cell has more than [`Coarse::most`] of them.

use super::sets::{Sets, events, hash_of, push};
use super::span::{Field, Span};
use super::term::{Term, address_last};
use super::vectors::Bit;
use crate::image::layout::{Bounds6, CHUNK_TERMS_MAX, Record4, VAIN_MAX};
use crate::image::write::Writer;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Rows of a field, at most: beyond, hardly a term is met in vain.
const ROWS_MAX: usize = 1024;

/// How coarse rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarse {
    /// Rows of a field, about.
    pub rows: usize,
}

impl Coarse {
    /// About so many rows of a field, as far as bounds allow it.
    pub fn of(rows: usize) -> Self {
        let least = 8 * CHUNK_TERMS_MAX / VAIN_MAX as usize;
        Coarse {
            rows: rows.clamp(least, ROWS_MAX),
        }
    }

    /// Bounds of so many terms that may lie inside a cell.
    pub fn most(self, terms: usize) -> usize {
        (2 * terms).div_ceil(self.rows).max(1)
    }
}

/// Whether a record can say what a term says: one range of each field.
pub fn is_plain(term: &Term) -> bool {
    let address = |span: &Span<u128>| !matches!(span, Span::Many(_));
    let port = |span: &Span<u16>| !matches!(span, Span::Many(_));
    term.address.iter().all(address) && term.port.iter().all(port)
}

/// As [`super::sets::sweep`], but with at most `most` bounds inside of a cell: the set of a cell
/// has all spans that allow any value of it. Besides, the most bounds that are inside of one.
pub fn sweep<'t, T: Field + 't>(
    spans: impl Iterator<Item = (usize, &'t Span<T>)>,
    top: T,
    most: usize,
    sets: &mut Sets,
) -> (Vec<(T, u32)>, usize) {
    // Spans that allow the value looked at, and any value of the cell up to it.
    let (mut now, events) = events(spans, top, sets.words());
    let mut cell = now.clone();
    let mut out: Vec<(T, u32)> = Vec::new();
    let (mut begins, mut inside, mut met) = (T::MIN, 0, 0);
    for group in events.chunk_by(|a, b| a.0 == b.0) {
        let value = group[0].0;
        if value != begins && inside + group.len() > most {
            push(&mut out, begins, sets.number(&cell, hash_of(&cell)));
            (begins, inside) = (value, 0);
        }
        for (_, bit) in group {
            now[*bit as usize / 64] ^= 1 << (bit % 64);
        }
        if value == begins {
            cell.copy_from_slice(&now);
        } else {
            inside += group.len();
            met = met.max(inside);
            cell.iter_mut().zip(&now).for_each(|(all, own)| *all |= own);
        }
    }
    push(&mut out, begins, sets.number(&cell, hash_of(&cell)));
    (out, met)
}

/// Writes what every term says of addresses and ports.
pub fn bounds(terms: &[Bit], family: Family, writer: &mut Writer) -> u32 {
    let top = address_last(family);
    let range = |span: &Span<u128>| match span {
        Span::One(first, last) => (*first, *last),
        _ => (0, top),
    };
    let port = |span: &Span<u16>| match span {
        Span::One(first, last) => [*first, last - first],
        _ => [0, u16::MAX],
    };
    let terms = terms.iter().filter_map(|bit| bit.0);
    match family {
        Family::V4 => {
            let address = |span: &Span<u128>| {
                let (first, last) = range(span);
                [first as u32, (last - first) as u32]
            };
            let record = |term: &Term| Record4 {
                src: address(&term.address[0]),
                dst: address(&term.address[1]),
                src_port: port(&term.port[0]),
                dst_port: port(&term.port[1]),
                ..Record4::default()
            };
            let records: Vec<Record4> = terms.map(record).collect();
            writer.section(records.as_bytes())
        }
        Family::V6 => {
            let words = |value: u128| [(value >> 64) as u64, value as u64];
            let address = |span: &Span<u128>| {
                let (first, last) = range(span);
                [words(first), words(last)]
            };
            let record = |term: &Term| Bounds6 {
                src: address(&term.address[0]),
                dst: address(&term.address[1]),
                src_port: port(&term.port[0]),
                dst_port: port(&term.port[1]),
                padding: 0,
            };
            let records: Vec<Bounds6> = terms.map(record).collect();
            writer.section(records.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value is in a cell whose row has all spans that allow it, and of the others only those
    /// that begin or end inside, which are as few as they are said to be.
    #[test]
    fn a_cell_has_all_spans_that_may_hold_and_few_that_do_not() {
        let mut random = fastrand::Rng::with_seed(7);
        for most in [1, 2, 5, 40] {
            let spans: Vec<Span<u16>> = (0..90)
                .map(|_| match random.u8(..8) {
                    0 => Span::Any,
                    1 => Span::One(40, random.u16(40..60)),
                    _ => {
                        let (a, b) = (random.u16(..300), random.u16(..300));
                        Span::One(a.min(b), a.max(b))
                    }
                })
                .collect();
            let mut sets = Sets::new(2);
            let numbered = spans.iter().enumerate();
            let (cells, inside) = sweep(numbered, u16::MAX, most, &mut sets);
            assert!(inside <= most, "{inside} of {most}");
            assert_eq!(cells[0].0, 0, "cells cover the field");
            let mut met = 0;
            for (at, (first, row)) in cells.iter().enumerate() {
                let last = cells.get(at + 1).map_or(u16::MAX, |next| next.0 - 1);
                let row = sets.get(*row as usize);
                let mut vain = 0;
                for (bit, span) in spans.iter().enumerate() {
                    let (low, high) = match span {
                        Span::One(low, high) => (*low, *high),
                        _ => (0, u16::MAX),
                    };
                    let has = row[bit / 64] >> (bit % 64) & 1 != 0;
                    let shares = low <= last && high >= *first;
                    assert_eq!(has, shares, "{span:?} from {first} to {last}");
                    vain += usize::from(shares && (low > *first || high < last));
                }
                met = met.max(vain);
            }
            assert!(met <= inside, "{met} terms in vain, {inside} bounds");
            assert!(most > 5 || cells.len() > 20, "{} cells", cells.len());
        }
    }
}
