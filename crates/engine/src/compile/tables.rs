//! Hashed tables: a few hash tables over chosen bits of addresses, ports and protocol, for large
//! sets.
//!
//! A table is a choice of leading bits of each field. A term enters a slot for each cell of the
//! table that it overlaps (few, or it stays out), and a slot holds a bounded group of records with
//! the whole box inline, so that a lookup is one probe for each table and a few comparisons. What a
//! record says about all other fields, and ports where those can be folded, is one bit of the
//! packet's row of services. The idea is tuple-space search with merged tuples, as Srinivasan, Suri
//! and Varghese (SIGCOMM 1999) and TupleMerge (2018) have it.

use super::choose::{self, Chooser, Cut, SAMPLE, width};
use super::density;
use super::fold::{self, Folded, Unit};
use super::hash::QuickMap;
use super::layers::{self, Layers};
use super::sampled;
use super::span::Span;
use super::term::{Term, address_last};
use super::vectors::PortRows;
use crate::image::layout::{
    GROUP_MAX, HashTable, Prefixes4, RANK_LAST, Record4, Record6, SERVICES_MAX, SLOT_FILTER,
    SLOT_REACH, TABLES_MAX, rank, slot,
};
use crate::image::write::Writer;
use crate::lookup::slot_filter;
use weir_policy::model::Family;
use zerocopy::IntoBytes;

/// Ranges of ports of one term that become items of their own.
const PORTS_MAX: usize = 16;
/// Bytes of the rows of services.
const ROWS_MAX: usize = 4 << 20;
/// What one more table costs with what packets read there, in nanoseconds.
pub const TABLE_COST: f64 = 30.0;
/// The same where it makes a chunk smaller that is looked through whole: what packets read there
/// is in near caches.
const TABLE_COST_NEAR: f64 = 11.0;
/// Terms that are too many for bit vectors as long as a table takes some of them.
const REST_MANY: usize = 4096;
/// What one more word of bit vectors costs.
pub const WORD_COST: f64 = 4.0;
/// Tables that every root may have; more where [`REST_MANY`] terms are left.
const TABLES_USUAL: usize = 12;
/// What bit vectors cost before they have any words.
pub const REST_COST: f64 = 20.0;
/// What each word of a chunk costs that all packets go through.
const SCAN_COST: f64 = 1.5;
/// What one more chunk costs.
const CHUNK_COST: f64 = 30.0;

/// Tables whose filters stand beside one another: with more, the kernel asks for the next slot
/// while it waits for one.
const FILTERED_TABLES_MAX: usize = 3;
/// The fewest slots for which they do: those of 32 KiB.
const FILTERED_SLOTS_MIN: usize = 8192;

/// Terms with the position of their entry.
pub type Placed<'t> = (&'t Term, u32);

/// A box: one range for each field, and what else must hold.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// First and last address.
    pub address: [(u128, u128); 2],
    /// First and last port that can hold.
    pub port: [(u16, u16); 2],
    /// The only protocol that can hold.
    pub proto: Option<u8>,
    /// Whether ports are all told by the service.
    folded: bool,
    service: u32,
    /// Number of the term.
    term: u32,
}

/// What went into tables, and what did not.
pub struct Hashed<'t> {
    /// Tables, with their sections written.
    pub tables: Vec<HashTable>,
    /// Bytes of all their records.
    pub record_bytes: u64,
    /// How services are told.
    pub folded: Folded,
    /// What of them ports tell.
    pub ports: [PortRows; 2],
    /// How many services there are.
    pub services: u32,
    /// Terms left, in evaluation order.
    pub rest: Vec<Placed<'t>>,
    /// The number of each service.
    pub units: QuickMap<Unit, u32>,
    /// Whether they tell ports.
    pub with_ports: bool,
}

/// What bit vectors over terms cost, in nanoseconds, and whether they are one chunk. All these
/// figures are of the machine on which they were tried, see docs/classifier.md; only what they are
/// to each other matters.
fn rest_cost<'t>(
    rest: &[u32],
    open: &[Item],
    terms: &[Placed<'t>],
    layers: &Layers,
) -> (f64, bool) {
    let mut all: Vec<u32> = rest.to_vec();
    all.extend(open.iter().map(|item| item.term));
    // Two sorted runs.
    all.sort();
    all.dedup();
    let placed: Vec<Placed<'t>> = all.iter().map(|at| terms[*at as usize]).collect();
    let chunks = placed.len().div_ceil(1024) as f64;
    match placed.len() {
        0 => (0.0, true),
        few if layers::fit_one_chunk(&placed) => {
            (REST_COST + SCAN_COST * few.div_ceil(64) as f64, true)
        }
        _ => {
            let words = density::words(&placed, layers.services);
            (REST_COST + CHUNK_COST * chunks + WORD_COST * words, false)
        }
    }
}

/// The services that records can name, and the number of each term's, if it has one.
struct Units {
    folded: Folded,
    ports: [PortRows; 2],
    count: usize,
    numbers: Vec<Option<u32>>,
    with_ports: bool,
    known: QuickMap<Unit, u32>,
}

/// Numbers what terms say about all fields but addresses, with ports or without; `None` when there
/// is no folding that.
fn units(terms: &[Placed], with_ports: bool, layers: &Layers) -> Option<Units> {
    let mut known: QuickMap<Unit, u32> = QuickMap::default();
    let mut all = Vec::new();
    let mut numbers = Vec::with_capacity(terms.len());
    for (term, _) in terms {
        let unit = Unit::of(term, with_ports);
        let number = match known.get(&unit) {
            Some(number) => Some(*number),
            None if all.len() < SERVICES_MAX => {
                known.insert(unit.clone(), all.len() as u32);
                all.push(unit);
                Some(all.len() as u32 - 1)
            }
            None if with_ports => return None,
            None => None,
        };
        numbers.push(number);
    }
    // Without ports, a few services at least can be told.
    let mut count = all.len();
    while count > 0 {
        let all = &all[..count];
        let folded = fold::fold(all, false, layers.services, layers.interfaces);
        let ports = [PortRows::of(all, 0), PortRows::of(all, 1)];
        let port_rows = ports[0].count() + ports[1].count();
        if let Some(folded) = folded
            && (folded.classes.count() + port_rows) * folded.classes.words() * 8 <= ROWS_MAX
        {
            known.retain(|_, number| (*number as usize) < count);
            return Some(Units {
                folded,
                ports,
                count,
                numbers,
                with_ports,
                known,
            });
        }
        if with_ports {
            return None;
        }
        count /= 2;
    }
    None
}

/// The boxes of a term.
pub fn items(
    term: &Term,
    number: u32,
    service: u32,
    with_ports: bool,
    layers: &Layers,
) -> Vec<Item> {
    let mut out = Vec::new();
    each_item(term, (number, service), with_ports, layers, |item| {
        out.push(item);
    });
    out
}

/// Calls `f` with each box of a term: none where records can't say what it says.
fn each_item(
    term: &Term,
    (number, service): (u32, u32),
    with_ports: bool,
    layers: &Layers,
    mut f: impl FnMut(Item),
) {
    let top = address_last(layers.family);
    let one = |span: &Span<u128>| match span {
        Span::Any => Some((0, top)),
        Span::One(first, last) => {
            // IPv6 records hold prefixes.
            let fits = layers.family == Family::V4 || is_prefix((*first, *last));
            fits.then_some((*first, *last))
        }
        Span::Many(_) => None,
    };
    let (Some(source), Some(destination)) = (one(&term.address[0]), one(&term.address[1])) else {
        return;
    };
    let mut item = Item {
        address: [source, destination],
        port: [(0, u16::MAX); 2],
        proto: layers.services.get(term.service).proto.only(),
        folded: with_ports,
        service,
        term: number,
    };
    if with_ports {
        item.port = [0, 1].map(|side| hull(&term.port[side]));
        return f(item);
    }
    let ranges = |span: &Span<u16>| {
        let mut out = Vec::new();
        span.each(u16::MAX, |first, last| out.push((first, last)));
        out
    };
    let ports = [ranges(&term.port[0]), ranges(&term.port[1])];
    if ports[0].len() * ports[1].len() > PORTS_MAX {
        return;
    }
    for low in &ports[0] {
        for high in &ports[1] {
            f(Item {
                port: [*low, *high],
                ..item
            });
        }
    }
}

/// First and last port of a span.
fn hull(span: &Span<u16>) -> (u16, u16) {
    match span {
        Span::Any => (0, u16::MAX),
        Span::One(first, last) => (*first, *last),
        Span::Many(set) => {
            let ranges = set.ranges();
            (ranges[0].0, ranges[ranges.len() - 1].1)
        }
    }
}

pub fn is_prefix((first, last): (u128, u128)) -> bool {
    let span = last - first;
    span & span.wrapping_add(1) == 0 && first & span == 0
}

/// Puts terms into tables, as far as that serves.
pub fn build<'t>(terms: &[Placed<'t>], layers: &Layers, writer: &mut Writer) -> Option<Hashed<'t>> {
    let units = units(terms, true, layers).or_else(|| units(terms, false, layers))?;
    let mut rest: Vec<u32> = Vec::new();
    let mut open: Vec<Item> = Vec::with_capacity(terms.len());
    for (at, (term, _)) in terms.iter().enumerate() {
        let service = units.numbers[at].filter(|number| (*number as usize) < units.count);
        let before = open.len();
        if let Some(service) = service {
            each_item(
                term,
                (at as u32, service),
                units.with_ports,
                layers,
                |item| open.push(item),
            );
        }
        if open.len() == before {
            rest.push(at as u32);
        }
    }
    if open.is_empty() {
        return None;
    }
    let (mut tables, mut filters) = (Vec::new(), Vec::new());
    let mut record_bytes = 0;
    let replicas_max = choose::replicas_max(terms.len(), layers.lean);
    let (mut cost, _) = rest_cost(&rest, &open, terms, layers);
    let packets = sampled::packets(terms, layers.services, layers.family, choose::PACKETS);
    let most = |left: usize| match left {
        ..=REST_MANY => TABLES_USUAL,
        _ => TABLES_MAX,
    };
    while tables.len() < most(rest.len() + open.len()) && !open.is_empty() {
        let step = open.len().div_ceil(SAMPLE);
        // A stride that is not a multiple of a family's own period.
        let sample: Vec<Item> = (0..open.len().min(SAMPLE))
            .map(|at| open[(at * step + at % step.max(1)) % open.len()])
            .collect();
        let scale = open.len() as f64 / sample.len() as f64;
        let mut chooser = Chooser::new(&sample, &packets, scale, replicas_max, layers);
        let (cut, _) = chooser.choose();
        let filled = fill(&cut, &open, terms, (replicas_max, &packets), layers);
        let (less, one_chunk) = rest_cost(&rest, &filled.left, terms, layers);
        let table = if one_chunk {
            TABLE_COST_NEAR
        } else {
            TABLE_COST
        };
        let taken = open.len() - filled.left.len();
        let many = rest.len() + open.len() > REST_MANY && taken * 16 > open.len();
        if !many && cost - less <= table {
            break;
        }
        cost = less;
        tables.push(filled.write(writer));
        record_bytes += filled.records.len() as u64;
        filters.push(filled.filters());
        open = filled.left;
    }
    if tables.is_empty() {
        return None;
    }
    if tables.len() <= FILTERED_TABLES_MAX {
        for (table, filters) in tables.iter_mut().zip(&filters) {
            if filters.len() * 2 >= FILTERED_SLOTS_MIN {
                table.filters_at = writer.section(filters);
            }
        }
    }
    rest.extend(open.iter().map(|item| item.term));
    rest.sort_unstable();
    rest.dedup();
    Some(Hashed {
        tables,
        record_bytes,
        folded: units.folded,
        ports: units.ports,
        services: units.count as u32,
        rest: rest.into_iter().map(|at| terms[at as usize]).collect(),
        units: units.known,
        with_ports: units.with_ports,
    })
}

/// A table that is not written yet.
struct Filled {
    table: HashTable,
    words: Vec<u32>,
    records: Vec<u8>,
    left: Vec<Item>,
}

/// Fills one table; the items that found no room are left.
fn fill(
    cut: &Cut,
    open: &[Item],
    terms: &[Placed],
    (replicas_max, packets): (u128, &[sampled::Packet]),
    layers: &Layers,
) -> Filled {
    let family = layers.family;
    let mut left = Vec::new();
    let (mut hashes, mut ends): (Vec<u64>, Vec<u32>) = (Vec::new(), Vec::new());
    for item in open {
        if cut.replicas(item, family) <= replicas_max {
            cut.each(item, family, |hash| hashes.push(hash));
        }
        ends.push(hashes.len() as u32);
    }
    // Where little room matters, as many slots as a power of two gives for as many records.
    let slots = match layers.lean {
        true => hashes.len().max(32).next_power_of_two() / 2,
        false => (hashes.len() + hashes.len() / 3).next_power_of_two(),
    };
    let shift = 64 - slots.trailing_zeros().clamp(4, 26);
    // As many as offsets reach, whatever their form.
    let records_max = SLOT_REACH as usize / if family == Family::V4 { 32 } else { 64 };
    let step = terms.last().map_or(0, |last| last.1 / (RANK_LAST + 1)) + 1;
    let mut counts = vec![0u8; 1 << (64 - shift)];
    let mut filters = vec![0u8; 1 << (64 - shift)];
    let slots = cut.hashes(packets, family).map(|hash| hash >> shift);
    for slot in choose::crowded(&mut slots.collect::<Vec<_>>()) {
        counts[slot as usize] = GROUP_MAX as u8;
    }
    // (slot, item): sorted, groups are together and in evaluation order.
    let mut taken: Vec<(u32, u32)> = Vec::with_capacity(hashes.len());
    let mut own: Vec<u32> = Vec::new();
    let mut from = 0;
    for (number, item) in open.iter().enumerate() {
        own.clear();
        let hashes = &hashes[from..ends[number] as usize];
        own.extend(hashes.iter().map(|h| (h >> shift) as u32));
        from = ends[number] as usize;
        own.sort_unstable();
        own.dedup();
        let full = |slot: &u32| usize::from(counts[*slot as usize]) >= GROUP_MAX;
        if own.is_empty() || own.iter().any(full) || taken.len() + own.len() > records_max {
            left.push(*item);
            continue;
        }
        own.iter().for_each(|slot| counts[*slot as usize] += 1);
        for hash in hashes {
            filters[(hash >> shift) as usize] |= slot_filter(*hash, shift) as u8;
        }
        taken.extend(own.iter().map(|slot| (*slot, number as u32)));
    }
    taken.sort_unstable();
    let packed = taken
        .iter()
        .all(|t| open[t.1 as usize].is_of_prefixes(family));
    let size = match family {
        Family::V4 if packed => 16,
        Family::V4 => 32,
        Family::V6 => 64,
    };
    let (mut records, mut words) = (Vec::new(), vec![0u32; 1 << (64 - shift)]);
    for (at, (number_of, number)) in taken.iter().enumerate() {
        if at == 0 || taken[at - 1].0 != *number_of {
            let count = u32::from(counts[*number_of as usize]);
            let filter = u32::from(filters[*number_of as usize]);
            let first = rank(terms[open[*number as usize].term as usize].1, step);
            words[*number_of as usize] = slot(filter, first, records.len() as u32, count);
        }
        let item = &open[*number as usize];
        item.record(size, terms[item.term as usize].1, &mut records);
    }
    Filled {
        table: HashTable {
            shift,
            record: size,
            step,
            ..masked(cut, family)
        },
        words,
        records,
        left,
    }
}

/// The masks of a table.
fn masked(cut: &Cut, family: Family) -> HashTable {
    let ([source, destination], ports) = cut.masks(family);
    let words_of = |mask: u128| [(mask >> 64) as u64, mask as u64];
    let ([a, b], [c, d]) = (words_of(source), words_of(destination));
    HashTable {
        masks: [a, b, c, d],
        ports,
        ..HashTable::default()
    }
}

impl Filled {
    /// The filters of all slots, two in a byte.
    fn filters(&self) -> Vec<u8> {
        let (pairs, _) = self.words.as_chunks::<2>();
        let two = |[low, high]: &[u32; 2]| low >> SLOT_FILTER | high >> SLOT_FILTER << 4;
        pairs.iter().map(|pair| two(pair) as u8).collect()
    }

    fn write(&self, writer: &mut Writer) -> HashTable {
        HashTable {
            slots_at: writer.section(self.words.as_bytes()),
            groups_at: self.write_groups(writer),
            ..self.table
        }
    }

    /// Groups, and behind them what `layout::Root::packed` promises.
    fn write_groups(&self, writer: &mut Writer) -> u32 {
        let at = writer.section(&self.records);
        writer.piece(&[u8::MAX; 3 * size_of::<Prefixes4>()]);
        at
    }
}

impl Item {
    /// Whether its record may be one of prefixes.
    pub fn is_of_prefixes(&self, family: Family) -> bool {
        family == Family::V4 && self.folded && self.address.iter().all(|a| is_prefix(*a))
    }

    /// Adds its record of so many bytes.
    pub fn record(&self, size: u32, position: u32, out: &mut Vec<u8>) {
        match size {
            16 => out.extend_from_slice(self.packed(position).as_bytes()),
            32 => out.extend_from_slice(self.record4(position).as_bytes()),
            _ => out.extend_from_slice(self.record6(position).as_bytes()),
        }
    }

    /// Ports as records have them: everything when the service tells them.
    fn port_words(&self) -> [[u16; 2]; 2] {
        if self.folded {
            return [[0, u16::MAX]; 2];
        }
        self.port.map(|port| [port.0, port.1 - port.0])
    }

    fn packed(&self, position: u32) -> Prefixes4 {
        let shift = |(first, last): (u128, u128)| (width(Family::V4) - lead(first, last)) as u8;
        Prefixes4 {
            src: self.address[0].0 as u32,
            dst: self.address[1].0 as u32,
            service: self.service as u16,
            shifts: self.address.map(shift),
            position,
        }
    }

    fn record4(&self, position: u32) -> Record4 {
        let address = self.address.map(|a| [a.0 as u32, (a.1 - a.0) as u32]);
        let [src_port, dst_port] = self.port_words();
        Record4 {
            src: address[0],
            dst: address[1],
            src_port,
            dst_port,
            position,
            service: self.service,
        }
    }

    fn record6(&self, position: u32) -> Record6 {
        let [src_port, dst_port] = self.port_words();
        let mut record = Record6 {
            src_port,
            dst_port,
            position,
            service: self.service,
            ..Record6::default()
        };
        let words = |a: u128| [(a >> 64) as u64, a as u64];
        (record.src, record.dst) = (words(self.address[0].0), words(self.address[1].0));
        for (side, (first, last)) in self.address.into_iter().enumerate() {
            // Bits that do not count, low and high half.
            let free = 128 - (first ^ last).leading_zeros();
            record.shifts[side * 2] = free.saturating_sub(64) as u8;
            record.shifts[side * 2 + 1] = free.min(64) as u8;
        }
        record
    }
}

/// Leading bits of an IPv4 prefix.
fn lead(first: u128, last: u128) -> u32 {
    (first ^ last).leading_zeros() - (128 - width(Family::V4))
}
