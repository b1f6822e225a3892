//! Which rows of a chunk a term is in, as far as the classes of its fields tell.
//!
//! In: a chunk as it is in the image. Out: for a term, in which rows of each field its bit is set.
//! Where a class has values of the term and others, a row comes for the former. Bits may be set and
//! cleared in rows as one likes: which values share a row does not change by that.

use super::refold::{Refold, refold};
use crate::compile::service::Services;
use crate::compile::span::{Field, Span};
use crate::compile::term::{Term, address_last};
use crate::image::layout::{AddressMap, Chunk, FOLD_LINKS, FOLD_PORTS, Fold, Map};
use crate::lookup::class::{u16_at, u32_at, u64_at};
use std::collections::HashMap;
use weir_policy::model::Family;

/// Intervals of a field: first value, class.
pub type Bounds<T> = Vec<(T, u32)>;

/// Rows of a field that a term is in.
pub struct Rows {
    /// For each row, whether the bit is set.
    pub set: Vec<bool>,
    /// Rows that come behind those that there are: of which ones they are copies but for the bit.
    pub copies: Vec<u32>,
}

/// The same, and the intervals with classes for the rows that come, if any.
pub struct Own<T> {
    pub rows: Rows,
    bounds: Bounds<T>,
}

/// The intervals, cut or as they were.
pub fn firsts_of<T: Field>(own: Own<T>, bounds: &Bounds<T>) -> Bounds<T> {
    match own.bounds.is_empty() {
        true => bounds.clone(),
        false => own.bounds,
    }
}

/// Where the bit of a term is set in a chunk.
pub struct Place {
    /// For each of [`fields`].
    pub rows: Vec<Rows>,
    /// Intervals of source and destination, where rows come.
    pub bounds: [Bounds<u128>; 2],
    /// Of ports, where rows of their own come.
    pub ports: [Bounds<u16>; 2],
    /// The fold, where rows come.
    pub refold: Option<Refold>,
}

/// Protocol, kind, flags, classes of interfaces.
type Small = [u16; 5];

/// The classes of a chunk's fields.
pub struct Shape {
    family: Family,
    addresses: [Bounds<u128>; 2],
    /// Of ports, in the fold or with rows of their own.
    ports: [Bounds<u16>; 2],
    /// For each class of small fields, a packet of it.
    smalls: Vec<Option<Small>>,
}

/// Offset of the rows of each field, and how many there are: source, destination, everything else,
/// and where they have rows of their own, source and destination port.
pub fn fields(chunk: &Chunk) -> Vec<(u32, u32)> {
    let [source, destination] = &chunk.addresses;
    let mut out = vec![
        (source.rows_at, source.rows),
        (destination.rows_at, destination.rows),
        (chunk.fold.rows_at, chunk.fold.rows),
    ];
    if chunk.rows > 3 {
        out.extend(chunk.ports.iter().map(|map| (map.rows_at, map.rows)));
    }
    out
}

/// Adds the intervals that a block of a tree of bytes leads to.
fn walk(
    image: &[u8],
    map: &AddressMap,
    block: u32,
    first: u128,
    shift: u32,
    out: &mut Bounds<u128>,
) {
    for part in 0..256u32 {
        let cell = u32_at(image, map.tree_at + (block + part) * 4);
        let low = first + (u128::from(part) << shift);
        if cell & 255 != 0 && shift > 0 {
            walk(image, map, cell >> 8, low, shift - 8, out);
        } else if out.last().is_none_or(|last| last.1 != cell >> 8) {
            out.push((low, cell >> 8));
        }
    }
}

fn addresses(image: &[u8], map: &AddressMap, family: Family) -> Bounds<u128> {
    let mut out = Bounds::new();
    if map.tree > 0 {
        walk(image, map, map.rows, 0, 24, &mut out);
        return out;
    }
    let each = (0..map.bounds).map(|number| match family {
        Family::V4 => {
            let at = map.bounds_at + number * 8;
            (u32_at(image, at).into(), u32_at(image, at + 4))
        }
        Family::V6 => {
            let at = map.bounds_at + number * 16;
            let (high, low) = (u64_at(image, at), u64_at(image, at + 8));
            let first = u128::from(high) << 64 | u128::from(low);
            (first, u32_at(image, map.classes_at + number * 4))
        }
    });
    each.collect()
}

fn ports(image: &[u8], map: &Map) -> Bounds<u16> {
    let mut out = Bounds::new();
    let block = |number: u32| {
        let mut own = Bounds::<u16>::new();
        for low in 0..256u32 {
            let class = u16_at(image, map.table_at + 512 + (number * 256 + low) * 2);
            if own.last().is_none_or(|last| last.1 != class) {
                own.push((low as u16, class));
            }
        }
        own
    };
    let blocks: Vec<Bounds<u16>> = (0..map.blocks).map(block).collect();
    for high in 0..256u32 {
        let number = u16_at(image, map.table_at + high * 2) as usize;
        for (low, class) in blocks.get(number).into_iter().flatten() {
            if out.last().is_none_or(|last| last.1 != *class) {
                out.push(((high << 8) as u16 | low, *class));
            }
        }
    }
    out
}

/// A value of each class of a field with few values.
fn values(image: &[u8], at: u32, count: u32) -> Vec<(u32, u16)> {
    let mut out: Vec<(u32, u16)> = Vec::new();
    for value in 0..count {
        let class = u16_at(image, at + value * 2);
        if out.iter().all(|known| known.0 != class) {
            out.push((class, value as u16));
        }
    }
    out
}

/// A value of each class of the small fields. `interfaces`: classes of them.
fn smalls(image: &[u8], fold: &Fold, interfaces: u32) -> HashMap<u32, Small> {
    let field = |number: usize| {
        let count = if number < 3 { 256 } else { interfaces };
        values(image, fold.small_at[number], count)
    };
    let (protos, kinds, flags) = (field(0), field(1), field(2));
    let mut forms: HashMap<u32, Small> = HashMap::new();
    for (one, proto) in &protos {
        for (two, kind) in &kinds {
            for (three, flags) in &flags {
                let form = u16_at(image, fold.forms_at + (one + two + three) * 2);
                let sample = [*proto, *kind, *flags, 0, 0];
                forms.entry(form).or_insert(sample);
            }
        }
    }
    if fold.used & FOLD_LINKS == 0 {
        return forms;
    }
    let (inputs, outputs) = (field(3), field(4));
    let mut out = HashMap::new();
    for (one, input) in &inputs {
        for (two, output) in &outputs {
            let link = u16_at(image, fold.links_at + (one + two) * 2);
            for (form, [proto, kind, flags, ..]) in &forms {
                let at = fold.smalls_at + (form * fold.link_classes + link) * 2;
                let sample = [*proto, *kind, *flags, *input, *output];
                out.entry(u16_at(image, at)).or_insert(sample);
            }
        }
    }
    out
}

/// Rows of a field that a span is in. Where a class has values of it and others, those of it get a
/// class of their own.
pub fn within<T: Field>(bounds: &[(T, u32)], rows: u32, span: &Span<T>, top: T) -> Own<T> {
    let mut ranges = Vec::new();
    span.each(top, |first, last| ranges.push((first, last)));
    // First value, class, whether the span has it.
    let mut pieces: Vec<(T, u32, bool)> = Vec::with_capacity(bounds.len() + 2 * ranges.len());
    let mut next = 0;
    for (number, (first, class)) in bounds.iter().enumerate() {
        let end = bounds.get(number + 1).map(|next| next.0);
        let mut from = Some(*first);
        while let Some(value) = from.filter(|value| end.is_none_or(|end| *value < end)) {
            while ranges.get(next).is_some_and(|range| range.1 < value) {
                next += 1;
            }
            let range = ranges.get(next);
            let is_in = range.is_some_and(|range| range.0 <= value);
            pieces.push((value, *class, is_in));
            from = match (range, is_in) {
                (Some((_, last)), true) if *last < top => last.next(),
                (Some((low, _)), false) => Some(*low),
                _ => None,
            };
        }
    }
    let mut met = vec![[false; 2]; rows as usize];
    for (_, class, is_in) in &pieces {
        met[*class as usize][usize::from(*is_in)] = true;
    }
    let mut set: Vec<bool> = met.iter().map(|met| *met == [false, true]).collect();
    let mut copies = Vec::new();
    let mut own = vec![0; rows as usize];
    for (class, _) in met.iter().enumerate().filter(|(_, met)| **met == [true; 2]) {
        own[class] = set.len() as u32;
        set.push(true);
        copies.push(class as u32);
    }
    let mut cut = Bounds::new();
    if !copies.is_empty() {
        for (first, class, is_in) in pieces {
            let class = match is_in && met[class as usize] == [true; 2] {
                true => own[class as usize],
                false => class,
            };
            if cut.last().is_none_or(|last| last.1 != class) {
                cut.push((first, class));
            }
        }
    }
    Own {
        rows: Rows { set, copies },
        bounds: cut,
    }
}

impl Shape {
    /// Of a chunk. `interfaces`: classes of them.
    pub fn of(image: &[u8], chunk: &Chunk, family: Family, interfaces: u32) -> Self {
        let own = |side: usize| match (chunk.rows, chunk.fold.used & FOLD_PORTS) {
            (3, 0) => vec![(0, 0)],
            (3, _) => ports(image, &chunk.fold.ports[side]),
            _ => ports(image, &chunk.ports[side]),
        };
        let mut known = vec![None; chunk.fold.small_classes as usize];
        for (class, small) in smalls(image, &chunk.fold, interfaces) {
            if let Some(place) = known.get_mut(class as usize) {
                *place = Some(small);
            }
        }
        Shape {
            family,
            addresses: [0, 1].map(|side| addresses(image, &chunk.addresses[side], family)),
            ports: [own(0), own(1)],
            smalls: known,
        }
    }

    /// Takes up the intervals of rows that came.
    pub fn take_up(&mut self, place: Place) {
        for (own, new) in self.addresses.iter_mut().zip(place.bounds) {
            if !new.is_empty() {
                *own = new;
            }
        }
        for (own, new) in self.ports.iter_mut().zip(place.ports) {
            if !new.is_empty() {
                *own = new;
            }
        }
    }

    /// The rows that a term is in whose service is one of those that the fold was made of. `None`
    /// where the fold would become too large.
    pub fn place(
        &self,
        image: &[u8],
        chunk: &Chunk,
        term: &Term,
        services: &Services,
    ) -> Option<Place> {
        let top = address_last(self.family);
        let address = |side: usize| {
            let rows = chunk.addresses[side].rows;
            within(&self.addresses[side], rows, &term.address[side], top)
        };
        let service = services.get(term.service);
        let link = |set: &Option<Vec<u64>>, class: u16| {
            let has = |bits: &Vec<u64>| bits[usize::from(class) / 64] >> (class % 64) & 1 != 0;
            set.as_ref().is_none_or(has)
        };
        let holds = |[proto, kind, flags, input, output]: &Small| {
            service.proto.has(*proto as u8)
                && service.kind.has(*kind as u8)
                && service.flags.has(*flags as u8)
                && link(&service.input, *input)
                && link(&service.output, *output)
        };
        let smalls = self.smalls.iter();
        let smalls: Vec<bool> = smalls.map(|s| s.as_ref().is_some_and(holds)).collect();
        let apart = chunk.rows > 3;
        let open = [vec![(0, 0)], vec![(0, 0)]];
        let any = Term::ANY;
        let (bounds, own) = match apart {
            true => (&open, &any),
            false => (&self.ports, term),
        };
        let (fold, refold) = refold(image, &chunk.fold, bounds, &smalls, own)?;
        let [source, destination] = [address(0), address(1)];
        let mut rows = vec![source.rows, destination.rows, fold];
        let mut ports = [Bounds::new(), Bounds::new()];
        for side in (0..2).filter(|_| apart) {
            let count = chunk.ports[side].rows;
            let own = within(&self.ports[side], count, &term.port[side], u16::MAX);
            rows.push(own.rows);
            ports[side] = own.bounds;
        }
        Some(Place {
            rows,
            bounds: [source.bounds, destination.bounds],
            ports,
            refold,
        })
    }
}
