//! Records of terms in hashed tables: a group is written anew into free room, then its slot.

use super::hand::Hand;
use super::{Place, Rebuild, Store};
use crate::compile::choose::Cut;
use crate::compile::fold::Unit;
use crate::compile::interfaces::Interfaces;
use crate::compile::layers::Layers;
use crate::compile::span::Span;
use crate::compile::tables::{Item, is_prefix, items};
use crate::compile::term::Term;
use crate::image::layout::{
    GROUP_MAX, HashTable, SLOT_FILTER, SLOT_REACH, filter_place, rank, slot, slot_offset,
    slot_records,
};
use crate::lookup::slot_filter;
use weir_policy::model::Family;

/// Slots that one box may enter in one table: as many as any table of the compiler's has.
const REPLICAS_MAX: u128 = 16;
/// Boxes of one term that are put into tables one by one.
const PIECES_MAX: usize = 64;
/// What comparing with one more record costs, as the compiler's figures have it.
const RECORD_COST: f64 = 5.0;

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

/// Of how many packets one meets a slot of a table: there are no more keys than its bits tell.
fn share(table: &HashTable) -> f64 {
    let cut = cut_of(table);
    let bits = cut.address[0] + cut.address[1] + cut.port[0] + cut.port[1] + cut.proto;
    0.5f64.powi(bits.min(64 - table.shift) as i32)
}

impl Place {
    fn items(&self, piece: &Term, interfaces: &Interfaces) -> Vec<Item> {
        let spare = &self.root.spare;
        let unit = Unit::of(piece, spare.with_ports);
        let Some(service) = spare.units.get(&unit) else {
            return Vec::new();
        };
        let layers = Layers {
            family: self.root.family,
            interfaces,
            services: &self.root.services,
            tables: true,
            threads: 1,
            lean: false,
            limit: 0,
            room: true,
            row_bytes: 0,
        };
        items(piece, 0, *service, spare.with_ports, &layers)
    }

    /// Leads packets of these terms to a position: through tables, else through bit vectors. On an
    /// error some of it may be there.
    pub(super) fn link(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        terms: &[Term],
        position: u32,
    ) -> Result<(), Rebuild> {
        let mut wide = Vec::new();
        for term in terms {
            if !self.put_in_tables(hand, term, position)? {
                wide.push(term.clone());
            }
        }
        self.put_in_leaves(hand, &wide, position)
    }

    /// Puts a term into tables, if they take all of it.
    fn put_in_tables(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        term: &Term,
        position: u32,
    ) -> Result<bool, Rebuild> {
        let all = pieces(term, self.root.family);
        let mut chosen = Vec::with_capacity(all.len());
        for piece in &all {
            let own = self.items(piece, hand.interfaces);
            let fits = |number: &usize| own.iter().all(|item| self.fits(hand.image, *number, item));
            let tables = 0..if own.is_empty() {
                0
            } else {
                self.root.spare.tables.len()
            };
            match { tables }.find(fits) {
                Some(number) => chosen.push((number, own)),
                None => return Ok(false),
            }
        }
        for (number, own) in &chosen {
            for item in own {
                if !self.add(hand, *number, item, position)? {
                    // Pieces of one term filled the group: what is there goes again.
                    self.take_out_of_tables(hand, std::slice::from_ref(term), position);
                    return Ok(false);
                }
            }
        }
        Ok(!chosen.is_empty())
    }

    fn fits(&self, image: &[u8], number: usize, item: &Item) -> bool {
        let table = &self.root.spare.tables[number];
        let (cut, family) = (cut_of(table), self.root.family);
        let prefixes = item.address.iter().all(|range| is_prefix(*range));
        if table.record == 16 && !prefixes || cut.replicas(item, family) > REPLICAS_MAX {
            return false;
        }
        let has_room = |slot: &(u32, u32)| {
            slot_records(word(image, table.slots_at + slot.0 * 4)) < GROUP_MAX as u32
        };
        slots(table, &cut, item, family).iter().all(has_room)
    }

    /// Adds the records of an item. False: a group is full.
    fn add(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        number: usize,
        item: &Item,
        position: u32,
    ) -> Result<bool, Rebuild> {
        let table = self.root.spare.tables[number];
        let mut record = Vec::with_capacity(64);
        item.record(table.record, position, &mut record);
        let size = table.record as usize;
        for (slot, filter) in slots(&table, &cut_of(&table), item, self.root.family) {
            let old = word(hand.image, table.slots_at + slot * 4);
            let mut group = group(hand.image, &table, old);
            if group.len() / size >= GROUP_MAX {
                return Ok(false);
            }
            let before = group
                .chunks_exact(size)
                .take_while(|one| place_of(one) <= position);
            let at = before.count() * size;
            group.splice(at..at, record.iter().copied());
            exchange(hand, (&table, slot), &group, old >> SLOT_FILTER | filter)?;
            self.pays += RECORD_COST * share(&table);
        }
        Ok(true)
    }

    /// Takes what leads packets of terms to a position away. False: some had to stay, so that the
    /// position can't be used again.
    pub(super) fn unlink(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        terms: &[Term],
        position: u32,
    ) -> bool {
        self.clear(hand, terms, position);
        self.take_out_of_tables(hand, terms, position)
    }

    fn take_out_of_tables(
        &mut self,
        hand: &mut Hand<'_, impl Store>,
        terms: &[Term],
        position: u32,
    ) -> bool {
        let mut gone = true;
        let family = self.root.family;
        for piece in terms.iter().flat_map(|term| pieces(term, family)) {
            for item in self.items(&piece, hand.interfaces) {
                for table in &self.root.spare.tables {
                    let cut = cut_of(table);
                    let prefixes = item.address.iter().all(|range| is_prefix(*range));
                    if table.record == 16 && !prefixes || cut.replicas(&item, family) > REPLICAS_MAX
                    {
                        continue;
                    }
                    let mut record = Vec::with_capacity(64);
                    item.record(table.record, position, &mut record);
                    for (slot, _) in slots(table, &cut, &item, family) {
                        match take_out(hand, (table, slot), &record) {
                            Some(true) => self.pays -= RECORD_COST * share(table),
                            Some(false) => {}
                            None => gone = false,
                        }
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
        16 => 12,
        32 => 24,
        _ => 40,
    };
    word(record, at)
}

/// The records of a slot.
fn group(image: &[u8], table: &HashTable, slot: u32) -> Vec<u8> {
    let at = (table.groups_at + slot_offset(slot)) as usize;
    image[at..at + (slot_records(slot) * table.record) as usize].to_vec()
}

/// Lets a slot have these records. Without room nothing changes.
fn exchange(
    hand: &mut Hand<'_, impl Store>,
    (table, number): (&HashTable, u32),
    group: &[u8],
    filter: u32,
) -> Result<(), Rebuild> {
    let slot_at = table.slots_at + number * 4;
    let old = word(hand.image, slot_at);
    let count = group.len() as u32 / table.record;
    let mut new = 0;
    if count > 0 {
        let at = hand.put(group).ok_or(Rebuild("no room is left"))?;
        let offset = at - table.groups_at;
        if offset >= SLOT_REACH {
            hand.room.give_back(at, group.len() as u32);
            return Err(Rebuild("no room is left that a slot reaches"));
        }
        new = slot(
            filter,
            rank(place_of(&group[..table.record as usize]), table.step),
            offset,
            count,
        );
    }
    hand.store32(slot_at, new);
    if table.filters_at != 0 {
        let (at, shift) = filter_place(table.filters_at, number);
        let others = word(hand.image, at) & !(15 << shift);
        hand.store32(at, others | (new >> SLOT_FILTER) << shift);
    }
    let old_at = table.groups_at + slot_offset(old);
    hand.room.leave(old_at, slot_records(old) * table.record);
    Ok(())
}

/// Takes one record out of a slot: whether it was there; `None`: there is no room for what is left.
fn take_out(
    hand: &mut Hand<'_, impl Store>,
    (table, slot): (&HashTable, u32),
    record: &[u8],
) -> Option<bool> {
    let old = word(hand.image, table.slots_at + slot * 4);
    let mut all = group(hand.image, table, old);
    let mut each = all.chunks_exact(record.len());
    let Some(found) = each.position(|one| one == record) else {
        return Some(false);
    };
    let at = found * record.len();
    all.drain(at..at + record.len());
    let done = exchange(hand, (table, slot), &all, old >> SLOT_FILTER);
    done.ok().map(|()| true)
}
