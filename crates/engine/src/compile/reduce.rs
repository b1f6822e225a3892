//! Entries that cannot matter, left out; entries that only count together, joined.
//!
//! An entry that no packet can reach because an earlier one, met by every packet that would reach
//! it, ends the walk for all its packets, can neither decide nor count: its counters stay zero as
//! they would if it were there. Found by looking up equal terms and terms with fields left open;
//! what takes more work to see stays in. Drops of packets that are cut short follow each other in
//! long rows and say nothing of rules: each row is one entry.

use super::flatten::{Entry, Flat};
use super::hash::QuickMap;
use super::span::Span;
use super::term::Term;
use crate::image::layout::{RULES_MAX, VERDICT_HOT_DROP};

/// What was left out or joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Entries that no packet can reach.
    pub shadowed: usize,
    /// Entries joined to one before them.
    pub joined: usize,
}

/// Reduces a flattened root.
pub fn reduce(flat: Flat) -> (Flat, Reduced) {
    let count = flat.entries.len();
    let jumped_from = jumps(&flat);
    let mut reduced = Reduced::default();
    let mut shadows = Shadows::default();
    let mut keep = vec![Keep::Whole; count];
    let (mut group, mut joined) = (0, 1);
    // The drop that further ones may become part of.
    let mut drops = None;
    for at in 0..count - 1 {
        let entry = &flat.entries[at];
        let landing = (jumped_from[at] as usize) < at;
        if landing {
            shadows.forget_after(jumped_from[at]);
            drops = None;
        }
        let terms = flat.terms_of(at);
        if let [term] = terms
            && shadows.cover(term).is_some()
        {
            keep[at] = Keep::Shadowed;
            reduced.shadowed += 1;
            continue;
        }
        if entry.verdict != 0 && entry.tests.is_empty() {
            terms.iter().for_each(|term| shadows.add(term, at as u32));
        }
        if at > 0
            && !landing
            && counts_only(entry, at)
            && keep[group] == Keep::Whole
            && counts_only(&flat.entries[group], group)
            && flat.terms_of(group) == terms
            && joined < RULES_MAX
        {
            joined += 1;
            keep[at] = Keep::Joined(group as u32);
            reduced.joined += 1;
            continue;
        }
        (group, joined) = (at, 1);
        drops = match drops {
            Some(first) if drops_only(entry) => {
                keep[at] = Keep::Merged;
                Some(first)
            }
            _ => drops_only(entry).then_some(at),
        };
    }
    (rebuild(flat, &keep), reduced)
}

/// For each position the first entry from which an edge jumps there over others.
fn jumps(flat: &Flat) -> Vec<u32> {
    let mut jumped_from: Vec<u32> = (0..flat.entries.len() as u32).collect();
    for (at, entry) in flat.entries.iter().enumerate() {
        let mut edge = |to: u32| {
            let from = &mut jumped_from[to as usize];
            *from = (*from).min(at as u32);
        };
        if entry.verdict == 0 && entry.next_match as usize > at + 1 {
            edge(entry.next_match);
        }
        if !entry.tests.is_empty() && entry.next_fail as usize > at + 1 {
            edge(entry.next_fail);
        }
    }
    jumped_from
}

/// For each entry the earlier one that ends the walk for all its packets, where one is known. Each
/// such entry is not shadowed itself.
pub fn shadowed(flat: &Flat) -> Vec<Option<u32>> {
    let jumped_from = jumps(flat);
    let mut shadows = Shadows::default();
    let mut out = vec![None; flat.entries.len()];
    for at in 0..flat.entries.len() - 1 {
        if (jumped_from[at] as usize) < at {
            shadows.forget_after(jumped_from[at]);
        }
        let (entry, terms) = (&flat.entries[at], flat.terms_of(at));
        if let [term] = terms {
            out[at] = shadows.cover(term);
        }
        if out[at].is_none() && entry.verdict != 0 && entry.tests.is_empty() {
            terms.iter().for_each(|term| shadows.add(term, at as u32));
        }
    }
    out
}

/// Whether a matched entry does nothing but count and go on.
fn counts_only(entry: &Entry, at: usize) -> bool {
    entry.verdict == 0
        && entry.flags == 0
        && entry.tests.is_empty()
        && entry.ops.is_empty()
        && entry.next_match as usize == at + 1
}

/// Whether all that a matched entry does is to drop what is cut short.
fn drops_only(entry: &Entry) -> bool {
    entry.verdict == VERDICT_HOT_DROP
        && entry.flags == 0
        && entry.rules.is_empty()
        && entry.tests.is_empty()
        && entry.ops.is_empty()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Whole,
    Shadowed,
    Joined(u32),
    /// Its terms are more terms of the entry that is kept before it: both say the same.
    Merged,
}

fn rebuild(flat: Flat, keep: &[Keep]) -> Flat {
    let mut numbers = Vec::with_capacity(keep.len());
    let mut next = 0u32;
    for state in keep {
        // Nobody goes on at what is part of the entry before.
        numbers.push(next - u32::from(*state == Keep::Merged));
        next += u32::from(*state == Keep::Whole);
    }
    let mut out = Flat {
        reads_transport: flat.reads_transport,
        ..Flat::default()
    };
    let ends: Vec<usize> = flat.entries.iter().skip(1).map(|e| e.terms_from).collect();
    let mut terms = flat.terms.into_iter();
    for (at, mut entry) in flat.entries.into_iter().enumerate() {
        let until = ends.get(at).copied().unwrap_or(usize::MAX);
        let own = terms.by_ref().take(until.saturating_sub(entry.terms_from));
        match keep[at] {
            Keep::Whole => {
                entry.terms_from = out.terms.len();
                out.terms.extend(own);
                entry.next_match = numbers.get(entry.next_match as usize).copied().unwrap_or(0);
                entry.next_fail = numbers.get(entry.next_fail as usize).copied().unwrap_or(0);
                out.entries.push(entry);
            }
            Keep::Shadowed => own.for_each(drop),
            Keep::Merged => out.terms.extend(own),
            Keep::Joined(group) => {
                own.for_each(drop);
                let group = numbers[group as usize] as usize;
                out.entries[group].rules.append(&mut entry.rules);
            }
        }
    }
    out
}

/// Terms that end the walk for whoever comes by.
#[derive(Default)]
struct Shadows {
    /// Position of the first entry with a term.
    terms: QuickMap<Term, u32>,
    /// In order of position, to take back what a jump skips.
    log: Vec<(u32, Term)>,
    /// Which fields the terms leave open, as bits: a count for each shape.
    shapes: [u32; 32],
    /// The largest of them, with position and size.
    large: Vec<(u32, Term, f64)>,
}

/// Large terms that every later one is compared with.
const LARGE_MAX: usize = 64;

/// The share of all packets in a term (logarithm), services aside.
fn size(term: &Term) -> f64 {
    let ports = |span: &Span<u16>| match span {
        Span::Any => 0.0,
        Span::One(first, last) => ((f64::from(last - first) + 1.0) / 65_536.0).log2(),
        Span::Many(_) => -16.0,
    };
    // IPv4 and IPv6 are never in one root, so that widths need not be comparable.
    let address = |span: &Span<u128>| match span {
        Span::Any => 0.0,
        Span::One(first, last) if last >> 32 == 0 => ((last - first + 1) as f64).log2() - 32.0,
        Span::One(first, last) => ((last - first) as f64 + 1.0).log2() - 128.0,
        Span::Many(_) => -32.0,
    };
    ports(&term.port[0])
        + ports(&term.port[1])
        + address(&term.address[0])
        + address(&term.address[1])
}

fn covers(wide: &Term, term: &Term) -> bool {
    (wide.service == 0 || wide.service == term.service)
        && wide.port[0].covers(&term.port[0], u16::MAX)
        && wide.port[1].covers(&term.port[1], u16::MAX)
        && wide.address[0].covers(&term.address[0], u128::MAX)
        && wide.address[1].covers(&term.address[1], u128::MAX)
}

/// Fields that a term leaves open: bit 0 and 1 addresses, 2 and 3 ports, 4 service.
fn shape(term: &Term) -> usize {
    let open = |at: usize, is: bool| usize::from(is) << at;
    open(0, term.address[0] == Span::Any)
        | open(1, term.address[1] == Span::Any)
        | open(2, term.port[0] == Span::Any)
        | open(3, term.port[1] == Span::Any)
        | open(4, term.service == 0)
}

impl Shadows {
    fn add(&mut self, term: &Term, at: u32) {
        if !self.terms.contains_key(term) {
            self.terms.insert(term.clone(), at);
            self.log.push((at, term.clone()));
            self.shapes[shape(term)] += 1;
            let size = size(term);
            let full = self.large.len() == LARGE_MAX;
            if !full || self.large.last().is_some_and(|least| least.2 < size) {
                let place = self.large.partition_point(|other| other.2 >= size);
                self.large.insert(place, (at, term.clone(), size));
                self.large.truncate(LARGE_MAX);
            }
        }
    }

    /// Takes back what entries after `at` added.
    fn forget_after(&mut self, at: u32) {
        while let Some((_, term)) = self.log.pop_if(|(from, _)| *from > at) {
            self.shapes[shape(&term)] -= 1;
            self.terms.remove(&term);
        }
        self.large.retain(|large| large.0 <= at);
    }

    /// The entry with the same term as this one, or with one that is the same with some fields
    /// open.
    fn cover(&self, term: &Term) -> Option<u32> {
        let own = shape(term);
        let mut large = self.large.iter();
        if let Some((at, ..)) = large.find(|(_, wide, _)| covers(wide, term)) {
            return Some(*at);
        }
        (0..32).find_map(|open| {
            if self.shapes[open] == 0 || open & own != own {
                return None;
            }
            let mut wider = term.clone();
            for side in 0..2 {
                if open >> side & 1 != 0 {
                    wider.address[side] = Span::Any;
                }
                if open >> (2 + side) & 1 != 0 {
                    wider.port[side] = Span::Any;
                }
            }
            if open >> 4 & 1 != 0 {
                wider.service = 0;
            }
            self.terms.get(&wider).copied()
        })
    }
}
