//! Folding: all fields but the addresses, and the ports where that is possible, to one class.
//!
//! In: units, each a set of values of those fields. Values of a field that the same units allow are
//! one class; so are pairs of classes, and pairs of these, up to one class for all fields. The way
//! from values to the class is a few loads that do not depend on the number of units. Products of
//! classes are the idea of recursive flow classification (Gupta and McKeown, SIGCOMM 1999), here
//! over the few fields with few classes only, and with a cap on every product.

use super::interfaces::Interfaces;
use super::maps;
use super::service::{Bits, Service, ServiceId, Services};
use super::sets::{Sets, hash_of, sweep};
use super::span::Span;
use super::term::Term;
use crate::image::layout::{CELLS_MAX, FOLD_LINKS, FOLD_PORTS, Fold, SMALL_CELLS_MAX};
use crate::image::write::Writer;
use std::collections::HashMap;
use std::hash::Hash;
use zerocopy::IntoBytes;

/// What terms say about all fields but the addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The small fields.
    pub service: ServiceId,
    /// Source and destination port.
    pub port: [Span<u16>; 2],
}

impl Unit {
    /// Of a term, with its ports or without.
    pub fn of(term: &Term, with_ports: bool) -> Self {
        let port = match with_ports {
            true => term.port.clone(),
            false => [Span::Any, Span::Any],
        };
        Unit {
            service: term.service,
            port,
        }
    }
}

/// Classes of ports: intervals, and the sets of units that allow each class.
struct Ports {
    bounds: [Vec<(u16, u32)>; 2],
    counts: [u32; 2],
    pairs: Vec<u16>,
}

/// A field with few values, or a product of such fields.
struct Small {
    /// By value: what is added up to the number of a cell.
    tables: Vec<Vec<u16>>,
    cells: Vec<u16>,
}

/// The result, before the rows of classes are written.
pub struct Folded {
    ports: Option<Ports>,
    /// Protocol, kind, flags.
    forms: Small,
    /// Interfaces, with the product of both.
    links: Option<(Small, Vec<u16>)>,
    link_classes: u32,
    small_classes: u32,
    cells: Vec<u16>,
    /// The units of each class.
    pub classes: Sets,
}

/// Classes of a field with few values.
fn classes<S: Clone + Eq + Hash>(
    sets: impl Iterator<Item = S>,
    values: usize,
    words: usize,
    has: impl Fn(&S, usize) -> bool,
) -> (Vec<u16>, Sets) {
    let mut distinct: Vec<(S, Vec<u64>)> = Vec::new();
    let mut numbers: HashMap<S, usize> = HashMap::new();
    for (bit, set) in sets.enumerate() {
        let at = *numbers.entry(set.clone()).or_insert_with(|| {
            distinct.push((set, vec![0; words]));
            distinct.len() - 1
        });
        distinct[at].1[bit / 64] |= 1 << (bit % 64);
    }
    let mut out = Sets::new(words);
    let mut table = Vec::with_capacity(values);
    let mut row = vec![0u64; words];
    for value in 0..values {
        row.fill(0);
        for (set, units) in &distinct {
            if has(set, value) {
                row.iter_mut().zip(units).for_each(|(all, own)| *all |= own);
            }
        }
        table.push(out.number(&row, hash_of(&row)) as u16);
    }
    (table, out)
}

impl Small {
    /// The product of fields, each with its classes by value.
    fn of(fields: Vec<(Vec<u16>, Sets)>) -> Option<(Small, Sets)> {
        let cells = fields.iter().map(|f| f.1.count()).product::<usize>();
        if cells > SMALL_CELLS_MAX {
            return None;
        }
        let mut tables = Vec::new();
        let mut product: Option<(Vec<u16>, Sets)> = None;
        let mut later = cells;
        for (table, sets) in fields {
            later /= sets.count();
            tables.push(table.iter().map(|class| class * later as u16).collect());
            product = Some(match product {
                None => ((0..sets.count() as u16).collect(), sets),
                Some((cells, before)) => {
                    let (pairs, both) = Sets::products(&before, &sets, SMALL_CELLS_MAX)?;
                    let count = sets.count();
                    let row = |class: &u16| {
                        let from = usize::from(*class) * count;
                        &pairs[from..from + count]
                    };
                    (cells.iter().flat_map(row).copied().collect(), both)
                }
            });
        }
        let (cells, sets) = product?;
        Some((Small { tables, cells }, sets))
    }
}

/// Folds units; `None` when a product has too many cells.
pub fn fold(
    units: &[Unit],
    with_ports: bool,
    services: &Services,
    interfaces: &Interfaces,
) -> Option<Folded> {
    let words = units.len().div_ceil(64).max(1);
    let service = |unit: &Unit| services.get(unit.service);
    let bytes = |field: fn(&Service) -> Bits| {
        let sets = units.iter().map(|unit| field(service(unit)));
        classes(sets, 256, words, |set, value| set.has(value as u8))
    };
    let fields = vec![bytes(|s| s.proto), bytes(|s| s.kind), bytes(|s| s.flags)];
    let (forms, mut smalls) = Small::of(fields)?;
    let (mut links, mut link_classes) = (None, 1);
    let open = |unit: &Unit| service(unit).input.is_none() && service(unit).output.is_none();
    if !units.iter().all(open) {
        let field = |of: fn(&Service) -> &Option<Vec<u64>>| {
            let sets = units.iter().map(|unit| of(service(unit)));
            let has = |set: &&Option<Vec<u64>>, value: usize| {
                set.as_ref()
                    .is_none_or(|bits| bits[value / 64] >> (value % 64) & 1 != 0)
            };
            classes(sets, interfaces.classes(), words, has)
        };
        let (small, sets) = Small::of(vec![field(|s| &s.input), field(|s| &s.output)])?;
        let (cells, both) = Sets::products(&smalls, &sets, CELLS_MAX)?;
        link_classes = sets.count() as u32;
        links = Some((small, cells));
        smalls = both;
    }
    let small_classes = smalls.count() as u32;
    let any = |unit: &Unit| unit.port == [Span::Any, Span::Any];
    if !with_ports || units.iter().all(any) {
        return Some(Folded {
            ports: None,
            forms,
            links,
            link_classes,
            small_classes,
            cells: (0..=u16::MAX).take(smalls.count()).collect(),
            classes: smalls,
        });
    }
    let (ports, pairs) = ports(units, words)?;
    let (cells, classes) = Sets::products(&pairs, &smalls, CELLS_MAX)?;
    Some(Folded {
        ports: Some(ports),
        forms,
        links,
        link_classes,
        small_classes,
        cells,
        classes,
    })
}

fn ports(units: &[Unit], words: usize) -> Option<(Ports, Sets)> {
    let mut sets = [Sets::new(words), Sets::new(words)];
    let mut bounds = [Vec::new(), Vec::new()];
    for side in 0..2 {
        let spans = units.iter().map(|unit| &unit.port[side]);
        bounds[side] = sweep(spans.enumerate(), u16::MAX, &mut sets[side]);
    }
    let [source, destination] = sets;
    let (pairs, both) = Sets::products(&source, &destination, CELLS_MAX / 4)?;
    let counts = [source.count() as u32, destination.count() as u32];
    let ports = Ports {
        bounds,
        counts,
        pairs,
    };
    Some((ports, both))
}

impl Folded {
    /// Writes the maps. `rows` has the number of the row of each class.
    pub fn write(&self, rows: &[u32], writer: &mut Writer) -> Fold {
        let mut fold = Fold {
            link_classes: self.link_classes,
            small_classes: self.small_classes,
            forms_at: writer.section(self.forms.cells.as_bytes()),
            forms: self.forms.cells.len() as u32,
            ..Fold::default()
        };
        for (at, table) in self.forms.tables.iter().enumerate() {
            fold.small_at[at] = writer.piece(table.as_bytes());
        }
        if let Some((links, smalls)) = &self.links {
            fold.used |= FOLD_LINKS;
            for (at, table) in links.tables.iter().enumerate() {
                fold.small_at[3 + at] = writer.piece(table.as_bytes());
            }
            (fold.links_at, fold.links) = section(&links.cells, writer);
            (fold.smalls_at, fold.smalls) = section(smalls, writer);
        }
        if let Some(ports) = &self.ports {
            fold.used |= FOLD_PORTS;
            for side in 0..2 {
                fold.ports[side] = maps::ports(&ports.bounds[side], ports.counts[side], writer);
            }
            (fold.pairs_at, fold.pairs) = section(&ports.pairs, writer);
        }
        let cells: Vec<u16> = self
            .cells
            .iter()
            .map(|class| rows[usize::from(*class)] as u16)
            .collect();
        (fold.cells_at, fold.cells) = section(&cells, writer);
        fold
    }
}

fn section(values: &[u16], writer: &mut Writer) -> (u32, u32) {
    (writer.section(values.as_bytes()), values.len() as u32)
}
