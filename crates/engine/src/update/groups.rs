//! Records of terms in hashed tables: a group is written anew into free room, then its slot.

use super::{Place, Rebuild, Store};
use crate::compile::choose::Cut;
use crate::compile::fold::Unit;
use crate::compile::interfaces::Interfaces;
use crate::compile::layers::Layers;
use crate::compile::service::Services;
use crate::compile::span::Span;
use crate::compile::tables::{Item, is_prefix, items};
use crate::compile::term::Term;
use crate::image::layout::{GROUP_MAX, HashTable, Root, SLOT_FILTER};
use crate::lookup::slot_filter;
use std::mem::offset_of;
use weir_policy::model::Family;

/// Slots that one box may enter in one table: as many as any table of the compiler's has.
const REPLICAS_MAX: u128 = 16;
/// Boxes of one term that are put into tables one by one.
const PIECES_MAX: usize = 64;
/// Blocks of room are of so many bytes, times 1 to 64.
const UNIT: u32 = 16;

/// Free room of the image.
pub struct Room {
    next: u32,
    end: u32,
    /// Blocks by size in units.
    free: Vec<Vec<u32>>,
    /// Blocks that packets under way may still read.
    leaving: Vec<(u32, u32)>,
    begins: u32,
}

impl Room {
    pub fn new(at: u32, bytes: u32) -> Self {
        Room {
            next: at,
            end: at + bytes,
            free: vec![Vec::new(); 65],
            leaving: Vec::new(),
            begins: at,
        }
    }

    fn take(&mut self, bytes: u32) -> Option<u32> {
        let units = bytes.div_ceil(UNIT);
        if let Some(known) = self.free.get_mut(units as usize).and_then(Vec::pop) {
            return Some(known);
        }
        // Vectors read records by whole lines.
        let at = self
            .next
            .next_multiple_of(if units >= 4 { 64 } else { UNIT });
        if at + units * UNIT > self.end {
            return None;
        }
        self.next = at + units * UNIT;
        Some(at)
    }

    /// Writes bytes that stay. `None`: no room.
    pub fn put(
        &mut self,
        image: &mut Vec<u8>,
        store: &mut impl Store,
        bytes: &[u8],
    ) -> Option<u32> {
        let at = self.take(bytes.len() as u32)?;
        store.write(at, bytes);
        image.write(at, bytes);
        Some(at)
    }

    fn leave(&mut self, at: u32, bytes: u32) {
        // What was built with the image is not ours.
        let units = bytes.div_ceil(UNIT);
        if at >= self.begins && units > 0 && units <= 64 {
            self.leaving.push((at, units));
        }
    }

    /// Blocks that are waited for.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Lets them be used again.
    pub fn settle(&mut self) {
        for (at, units) in self.leaving.drain(..) {
            self.free[units as usize].push(at);
        }
    }
}

fn cut_of(table: &HashTable) -> Cut {
    let [a, b, c, d] = table.masks.map(u64::count_ones);
    let port = |shift: u32| (table.ports >> shift & 0xffff).count_ones();
    Cut {
        address: [a + b, c + d],
        port: [port(16), port(0)],
        proto: (table.ports >> 32).count_ones(),
    }
}

/// Boxes whose addresses are one range, of IPv6 one prefix, together the term.
fn pieces(term: &Term, family: Family) -> Vec<Term> {
    let each = |span: &Span<u128>| -> Vec<Span<u128>> {
        if *span == Span::Any {
            return vec![Span::Any];
        }
        let mut out = Vec::new();
        span.each(u128::MAX, |mut first, last| {
            while out.len() <= PIECES_MAX {
                let mut end = last;
                if family == Family::V6 {
                    let mut open = first.trailing_zeros().min(127);
                    while open > 0 && (last - first) >> open == 0 {
                        open -= 1;
                    }
                    end = first + ((1u128 << open) - 1);
                    if is_prefix((first, last)) {
                        end = last;
                    }
                }
                out.push(Span::One(first, end));
                match end == last {
                    true => break,
                    false => first = end + 1,
                }
            }
        });
        out
    };
    let (sources, destinations) = (each(&term.address[0]), each(&term.address[1]));
    if sources.len() * destinations.len() > PIECES_MAX {
        return Vec::new();
    }
    let mut out = Vec::new();
    for source in &sources {
        for destination in &destinations {
            out.push(Term {
                address: [source.clone(), destination.clone()],
                ..term.clone()
            });
        }
    }
    out
}

fn word(image: &[u8], at: u32) -> u32 {
    let at = at as usize;
    let bytes = image
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// Slots that an item is in, each with its bits of the filter.
fn slots(table: &HashTable, cut: &Cut, item: &Item, family: Family) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    cut.each(item, family, |hash| {
        let (slot, filter) = ((hash >> table.shift) as u32, slot_filter(hash, table.shift));
        match out.iter_mut().find(|known| known.0 == slot) {
            Some(known) => known.1 |= filter,
            None => out.push((slot, filter)),
        }
    });
    out
}

impl Place {
    fn items(
        &self,
        number: usize,
        piece: &Term,
        interfaces: &Interfaces,
        services: &Services,
    ) -> Vec<Item> {
        let spare = &self.root.spare;
        let with_ports = spare.with_ports && number < spare.first;
        let unit = Unit {
            service: piece.service,
            port: match with_ports {
                true => piece.port.clone(),
                false => [Span::Any, Span::Any],
            },
        };
        let Some(service) = spare.units.get(&unit) else {
            return Vec::new();
        };
        let layers = Layers {
            family: self.root.family,
            interfaces,
            services,
            tables: true,
            threads: 1,
            lean: false,
            limit: 0,
            room: true,
        };
        items(piece, 0, *service, with_ports, &layers)
    }

    /// Puts a term into tables. On an error some of it may be there.
    pub(super) fn link(
        &mut self,
        image: &mut Vec<u8>,
        store: &mut impl Store,
        room: &mut Room,
        interfaces: &Interfaces,
        term: &Term,
        position: u32,
    ) -> Result<(), Rebuild> {
        let all = pieces(term, self.root.family);
        if all.is_empty() {
            return Err(Rebuild("the rule is too many boxes"));
        }
        for piece in &all {
            let count = self.root.spare.tables.len();
            let tables = 0..count;
            let mut open: Option<Vec<Item>> = None;
            for number in tables {
                // What one table has of a piece, it has of all of it.
                let own = self.items(number, piece, interfaces, &self.root.services);
                if own.is_empty() {
                    continue;
                }
                if own.iter().all(|item| self.fits(image, number, item)) {
                    for item in &own {
                        self.add(image, store, room, number, item, position)?;
                    }
                    self.open(image, store, number);
                    open = Some(own);
                    break;
                }
            }
            open.ok_or(Rebuild("the tables have no room for it"))?;
        }
        Ok(())
    }

    /// Lets packets ask tables up to this one.
    fn open(&mut self, image: &mut Vec<u8>, store: &mut impl Store, number: usize) {
        let spare = &mut self.root.spare;
        if number >= spare.used {
            spare.used = number + 1;
            let at = self.root.at + offset_of!(Root, tables) as u32;
            store.store32(at, spare.used as u32);
            image.store32(at, spare.used as u32);
        }
    }

    fn fits(&self, image: &[u8], number: usize, item: &Item) -> bool {
        let table = &self.root.spare.tables[number];
        let (cut, family) = (cut_of(table), self.root.family);
        let prefixes = item.address.iter().all(|range| is_prefix(*range));
        if table.record == 16 && !prefixes || cut.replicas(item, family) > REPLICAS_MAX {
            return false;
        }
        let has_room =
            |slot: &(u32, u32)| (word(image, table.slots_at + slot.0 * 4) & 15) < GROUP_MAX as u32;
        slots(table, &cut, item, family).iter().all(has_room)
    }

    fn add(
        &mut self,
        image: &mut Vec<u8>,
        store: &mut impl Store,
        room: &mut Room,
        number: usize,
        item: &Item,
        position: u32,
    ) -> Result<(), Rebuild> {
        let table = self.root.spare.tables[number];
        let mut record = Vec::with_capacity(64);
        item.record(table.record, position, &mut record);
        let size = table.record as usize;
        for (slot, filter) in slots(&table, &cut_of(&table), item, self.root.family) {
            let old = word(image, table.slots_at + slot * 4);
            let mut group = group(image, &table, old);
            if group.len() / size >= GROUP_MAX {
                return Err(Rebuild("the tables have no room for it"));
            }
            let before = group
                .chunks_exact(size)
                .take_while(|one| place_of(one) <= position);
            let at = before.count() * size;
            group.splice(at..at, record.iter().copied());
            exchange(
                image,
                store,
                room,
                (&table, slot),
                &group,
                old >> SLOT_FILTER | filter,
            )?;
        }
        Ok(())
    }

    /// Takes the records of terms out of all tables. False: some had to stay, so that the position
    /// can't be used again.
    pub(super) fn unlink(
        &mut self,
        image: &mut Vec<u8>,
        store: &mut impl Store,
        room: &mut Room,
        interfaces: &Interfaces,
        terms: &[Term],
        position: u32,
    ) -> bool {
        let mut gone = true;
        let family = self.root.family;
        for piece in terms.iter().flat_map(|term| pieces(term, family)) {
            for number in 0..self.root.spare.used {
                let table = self.root.spare.tables[number];
                let cut = cut_of(&table);
                for item in self.items(number, &piece, interfaces, &self.root.services) {
                    let prefixes = item.address.iter().all(|range| is_prefix(*range));
                    if table.record == 16 && !prefixes || cut.replicas(&item, family) > REPLICAS_MAX
                    {
                        continue;
                    }
                    let mut record = Vec::with_capacity(64);
                    item.record(table.record, position, &mut record);
                    for (slot, _) in slots(&table, &cut, &item, family) {
                        gone &= take_out(image, store, room, (&table, slot), &record);
                    }
                }
            }
        }
        gone
    }
}

/// The position in a record.
fn place_of(record: &[u8]) -> u32 {
    let at = match record.len() {
        16 => 8,
        32 => 24,
        _ => 40,
    };
    word(record, at)
}

/// The records of a slot.
fn group(image: &[u8], table: &HashTable, slot: u32) -> Vec<u8> {
    let at = (table.groups_at + (slot & 0x0fff_fff0)) as usize;
    image[at..at + ((slot & 15) * table.record) as usize].to_vec()
}

/// Lets a slot have these records. Without room nothing changes.
fn exchange(
    image: &mut Vec<u8>,
    store: &mut impl Store,
    room: &mut Room,
    (table, slot): (&HashTable, u32),
    group: &[u8],
    filter: u32,
) -> Result<(), Rebuild> {
    let slot_at = table.slots_at + slot * 4;
    let old = word(image, slot_at);
    let count = group.len() as u32 / table.record;
    let mut new = 0;
    if count > 0 {
        let at = room
            .put(image, store, group)
            .ok_or(Rebuild("no room is left"))?;
        new = filter << SLOT_FILTER | (at - table.groups_at) | count;
    }
    store.store32(slot_at, new);
    image.store32(slot_at, new);
    let old_at = table.groups_at + (old & 0x0fff_fff0);
    room.leave(old_at, (old & 15) * table.record);
    Ok(())
}

/// Takes one record out of a slot, if it is there. False: there is no room for what is left.
fn take_out(
    image: &mut Vec<u8>,
    store: &mut impl Store,
    room: &mut Room,
    (table, slot): (&HashTable, u32),
    record: &[u8],
) -> bool {
    let old = word(image, table.slots_at + slot * 4);
    let mut all = group(image, table, old);
    let mut each = all.chunks_exact(record.len());
    let Some(found) = each.position(|one| one == record) else {
        return true;
    };
    let at = found * record.len();
    all.drain(at..at + record.len());
    exchange(image, store, room, (table, slot), &all, old >> SLOT_FILTER).is_ok()
}
