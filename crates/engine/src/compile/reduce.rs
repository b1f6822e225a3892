//! Entries that cannot matter, left out; entries that only count together, joined.
//!
//! An entry that no packet can reach because an earlier one, met by every packet that would reach
//! it, ends the walk for all its packets, can neither decide nor count: its counters stay zero as
//! they would if it were there. Found by looking up equal terms and terms with fields left open;
//! what takes more work to see stays in. Drops of packets that are cut short follow each other in
//! long rows and say nothing of rules: each row is one entry. What the last rule proposes, it
//! decides.

use super::flatten::{Entry, Flat};
use super::hash::{self, Quick, QuickMap};
use super::span::Span;
use super::term::Term;
use crate::image::layout::{FLAG_PROPOSE, FLAG_STANDING, RULES_MAX, VERDICT_HOT_DROP};
use std::hash::{Hash, Hasher};

/// What was left out or joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Entries that no packet can reach.
    pub shadowed: usize,
    /// Entries joined to one before them.
    pub joined: usize,
}

/// Lets the last rule of a root decide what it proposes: nothing behind it could propose anything
/// else. Lists in which the last match wins often end with a rule for all packets.
fn decide_at_end(flat: &mut Flat) {
    let Some(end) = flat.entries.len().checked_sub(1) else {
        return;
    };
    let Some(entry) = end.checked_sub(1).map(|at| &mut flat.entries[at]) else {
        return;
    };
    let verdict = entry.flags & !FLAG_PROPOSE;
    let proposes = entry.flags & FLAG_PROPOSE != 0 && (1..=3).contains(&verdict);
    if !proposes || entry.verdict != 0 || ![0, end as u32].contains(&entry.next_match) {
        return;
    }
    (entry.verdict, entry.flags) = (verdict, 0);
    if flat
        .entries
        .iter()
        .all(|entry| entry.flags & FLAG_PROPOSE == 0)
    {
        flat.entries[end].flags &= !FLAG_STANDING;
    }
}

/// Reduces a flattened root.
pub fn reduce(mut flat: Flat) -> (Flat, Reduced) {
    decide_at_end(&mut flat);
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
struct Shadows {
    /// Of the terms' hashes, see [`hashes`]: where in the log. Of two terms with one hash there is
    /// only the first, which leaves in what could be left out.
    terms: QuickMap<u64, u32>,
    /// A bit for some bits of each hash; what was taken back stays.
    seen: Vec<u64>,
    /// In order of position, to take back what a jump skips.
    log: Vec<(u32, u64, Term)>,
    /// Which fields the terms leave open, as bits: a count for each shape.
    shapes: [u32; 32],
    /// The largest of them, with position and size.
    large: Vec<(u32, Term, f64)>,
}

/// Words of [`Shadows::seen`].
const SEEN_WORDS: usize = 1 << 14;

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

/// What each field gives to a term's hash: when it is open, and as it is.
fn hashes(term: &Term) -> [[u64; 2]; 5] {
    let number = |at: u64, field: &dyn Fn(&mut Quick)| {
        let mut state = Quick::default();
        state.write_u64(at);
        field(&mut state);
        // High bits to low ones, so that sums differ everywhere.
        let word = state.finish();
        word ^ word.rotate_left(31)
    };
    let both = |at: u64, open: bool, field: &dyn Fn(&mut Quick)| {
        let any = number(at, &|_| {});
        [any, if open { any } else { number(at, field) }]
    };
    let address = |side: usize| {
        let span = &term.address[side];
        both(side as u64, *span == Span::Any, &|state| span.hash(state))
    };
    let port = |side: usize| {
        let span = &term.port[side];
        both(2 + side as u64, *span == Span::Any, &|state| {
            span.hash(state);
        })
    };
    let service = both(4, term.service == 0, &|state| state.write_u32(term.service));
    [address(0), address(1), port(0), port(1), service]
}

/// The hash of a term with the fields of a shape open.
fn hash_of(fields: &[[u64; 2]; 5], open: usize) -> u64 {
    let field = |(at, field): (usize, &[u64; 2])| field[usize::from(open >> at & 1 == 0)];
    let sum = fields.iter().enumerate().map(field);
    sum.fold(0, hash::mix)
}

/// Whether a term with the fields of a shape open is another.
fn equals(term: &Term, open: usize, other: &Term) -> bool {
    let is_open = |at: usize| open >> at & 1 != 0;
    let address = |side: usize| match is_open(side) {
        true => other.address[side] == Span::Any,
        false => other.address[side] == term.address[side],
    };
    let port = |side: usize| match is_open(2 + side) {
        true => other.port[side] == Span::Any,
        false => other.port[side] == term.port[side],
    };
    let service = if is_open(4) { 0 } else { term.service };
    address(0) && address(1) && port(0) && port(1) && other.service == service
}

impl Default for Shadows {
    fn default() -> Self {
        Shadows {
            terms: QuickMap::default(),
            seen: vec![0; SEEN_WORDS],
            log: Vec::new(),
            shapes: [0; 32],
            large: Vec::new(),
        }
    }
}

impl Shadows {
    fn add(&mut self, term: &Term, at: u32) {
        let open = shape(term);
        let hash = hash_of(&hashes(term), open);
        if self.terms.contains_key(&hash) {
            return;
        }
        self.terms.insert(hash, self.log.len() as u32);
        let (word, bit) = place(hash);
        self.seen[word] |= bit;
        self.log.push((at, hash, term.clone()));
        self.shapes[open] += 1;
        let size = size(term);
        let full = self.large.len() == LARGE_MAX;
        if !full || self.large.last().is_some_and(|least| least.2 < size) {
            let place = self.large.partition_point(|other| other.2 >= size);
            self.large.insert(place, (at, term.clone(), size));
            self.large.truncate(LARGE_MAX);
        }
    }

    /// Takes back what entries after `at` added.
    fn forget_after(&mut self, at: u32) {
        while let Some((_, hash, term)) = self.log.pop_if(|(from, ..)| *from > at) {
            self.shapes[shape(&term)] -= 1;
            self.terms.remove(&hash);
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
        let fields = hashes(term);
        (0..32).find_map(|open| {
            if self.shapes[open] == 0 || open & own != own {
                return None;
            }
            let hash = hash_of(&fields, open);
            let (word, bit) = place(hash);
            if self.seen[word] & bit == 0 {
                return None;
            }
            let (at, _, known) = &self.log[*self.terms.get(&hash)? as usize];
            equals(term, open, known).then_some(*at)
        })
    }
}

/// Word and bit of a hash in [`Shadows::seen`].
fn place(hash: u64) -> (usize, u64) {
    let at = (hash >> 44) as usize;
    (at / 64 % SEEN_WORDS, 1 << (at % 64))
}
