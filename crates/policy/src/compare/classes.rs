//! A diagram of differences taken apart: disjoint classes of packets, as values of fields.
//!
//! In: a diagram whose leaves say what differs. Out: classes, each a product of one set of values
//! per field, every packet of the diagram in exactly one. Classes that are equal but for one field
//! are put together, which keeps them disjoint.

use super::diagram::{NO, Node, QuickMap, TooLarge, YES, leaf_of};
use super::field::{FIELDS, Field, OPAQUE};
use super::space::Space;
use crate::model::RangeSet;
use std::collections::HashMap;

/// Ranges of addresses in one class; beyond, a class is cut up by bits.
const ADDRESS_RANGES_MAX: usize = 1 << 16;
/// Ranges of any other field.
const RANGES_MAX: usize = 128;
/// Classes before putting together, for each one that is to be listed.
const RAW_FOR_EACH: usize = 8;
/// Pieces of a field that is cut up by bits.
const CUBES_MAX: usize = 1 << 15;

/// Values of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Values {
    /// Sorted, disjoint ranges.
    Ranges(Vec<(u128, u128)>),
    /// `field & mask == value`.
    Masked {
        /// Value.
        value: u128,
        /// Mask.
        mask: u128,
    },
}

/// A class of packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The leaf.
    pub leaf: u32,
    /// Fields that are not free, in the order of [`FIELDS`].
    pub fields: Vec<(Field, Values)>,
    /// Conditions that are no functions of the packet: number, and whether it holds.
    pub unknowns: Vec<(u32, bool)>,
}

/// Classes, and whether they are all.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The classes.
    pub classes: Vec<Class>,
    /// Whether there were more than could be listed.
    pub cut: bool,
}

impl Space {
    /// The classes of a diagram that have packets of the domain; at most about `max` of them.
    pub fn classes(&mut self, node: Node, domain: Node, max: usize) -> Result<Classes, TooLarge> {
        let mut finder = Finder {
            space: self,
            class: Class {
                leaf: 0,
                fields: Vec::new(),
                unknowns: Vec::new(),
            },
            out: Classes::default(),
            raw_max: max.saturating_mul(RAW_FOR_EACH),
        };
        finder.go(node, domain)?;
        let mut out = finder.out;
        together(&mut out.classes);
        for class in &mut out.classes {
            class
                .fields
                .retain(|(field, values)| match (values, self.possible(*field)) {
                    (Values::Ranges(ranges), Some(all)) => *ranges != all,
                    _ => true,
                });
        }
        out.cut |= out.classes.len() > max;
        out.classes.truncate(max);
        Ok(out)
    }

    /// The packets of a class.
    pub fn members(&mut self, class: &Class) -> Result<Node, TooLarge> {
        let mut all = YES;
        for (field, values) in class.fields.iter().rev() {
            let part = self.values(*field, values)?;
            all = self.diagram.and(part, all)?;
        }
        for (unknown, holds) in &class.unknowns {
            let node = self.holds(*unknown)?;
            let part = match holds {
                true => node,
                false => self.diagram.not(node)?,
            };
            all = self.diagram.and(all, part)?;
        }
        Ok(all)
    }

    fn values(&mut self, field: Field, values: &Values) -> Result<Node, TooLarge> {
        match values {
            Values::Ranges(ranges) => {
                let width = self.width(field);
                self.diagram.among_low(field, width, ranges)
            }
            Values::Masked { value, mask } => self.diagram.masked(field, *value, *mask),
        }
    }
}

struct Finder<'s> {
    space: &'s mut Space,
    class: Class,
    out: Classes,
    raw_max: usize,
}

impl Finder<'_> {
    /// Classes of `node` among the packets of `domain`, which the values so far have narrowed.
    fn go(&mut self, node: Node, domain: Node) -> Result<(), TooLarge> {
        if node == NO || domain == NO || self.out.cut {
            return Ok(());
        }
        let level = self.space.diagram.level(node);
        if let Some(leaf) = leaf_of(node) {
            if self.out.classes.len() >= self.raw_max {
                self.out.cut = true;
                return Ok(());
            }
            self.class.leaf = leaf;
            self.out.classes.push(self.class.clone());
            return Ok(());
        }
        if level >= OPAQUE {
            let (low, high) = self.space.diagram.branches(node, level);
            for (next, holds) in [(low, false), (high, true)] {
                self.class.unknowns.push((level - OPAQUE, holds));
                self.go(next, domain)?;
                self.class.unknowns.pop();
            }
            return Ok(());
        }
        let field = field_at(level);
        for (values, next) in self.parts(node, field) {
            let inside = self.space.values(field, &values)?;
            let narrowed = self.space.diagram.and(domain, inside)?;
            self.class.fields.push((field, values));
            self.go(next, narrowed)?;
            self.class.fields.pop();
        }
        Ok(())
    }

    /// What a node says of the values of a field.
    fn parts(&self, node: Node, field: Field) -> Vec<(Values, Node)> {
        let width = self.space.width(field);
        let end = field.base() + field.width();
        let mut ranges = Ranges {
            diagram: &self.space.diagram,
            end,
            found: Vec::new(),
            order: QuickMap::default(),
            count: 0,
            max: match field {
                Field::Src | Field::Dst => ADDRESS_RANGES_MAX,
                _ => RANGES_MAX,
            },
        };
        if ranges.go(node, end - width, 0) {
            let possible = self.space.possible(field);
            let found = ranges.found.into_iter().filter(|part| part.0 != NO);
            let limited = found.map(|(next, ranges)| match &possible {
                Some(possible) => (among(&ranges, possible), next),
                None => (ranges, next),
            });
            let some = limited.filter(|(ranges, _)| !ranges.is_empty());
            return some.map(|(r, next)| (Values::Ranges(r), next)).collect();
        }
        let mut cubes = Vec::new();
        self.cubes(node, end, (0, 0), &mut cubes);
        cubes
    }

    fn cubes(
        &self,
        node: Node,
        end: u32,
        (value, mask): (u128, u128),
        out: &mut Vec<(Values, Node)>,
    ) {
        if out.len() > CUBES_MAX || node == NO {
            return;
        }
        let level = self.space.diagram.level(node);
        if level >= end {
            out.push((Values::Masked { value, mask }, node));
            return;
        }
        let bit = 1u128 << (end - 1 - level);
        let inner = self.space.diagram.inner(node);
        self.cubes(inner.low, end, (value, mask | bit), out);
        self.cubes(inner.high, end, (value | bit, mask | bit), out);
    }
}

/// The values of some ranges that are in others too.
fn among(ranges: &[(u128, u128)], others: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let common = ranges.iter().flat_map(|one| {
        let both = others
            .iter()
            .map(|other| (one.0.max(other.0), one.1.min(other.1)));
        both.filter(|(first, last)| first <= last)
    });
    RangeSet::from_ranges(common).ranges().to_vec()
}

/// The field that a level belongs to.
fn field_at(level: u32) -> Field {
    let mut end = 0;
    for (field, width) in FIELDS {
        end += width;
        if level < end {
            return field;
        }
    }
    unreachable!("the levels behind the fields were looked at before")
}

struct Ranges<'d> {
    diagram: &'d super::diagram::Diagram,
    end: u32,
    /// What follows, and the values that lead there, in the order in which they were met.
    found: Vec<(Node, Vec<(u128, u128)>)>,
    order: QuickMap<Node, usize>,
    count: usize,
    max: usize,
}

impl Ranges<'_> {
    /// Collects; `false` when there are too many.
    fn go(&mut self, node: Node, level: u32, first: u128) -> bool {
        if self.diagram.level(node) >= self.end {
            let below = match self.end - level {
                128 => u128::MAX,
                bits => (1u128 << bits) - 1,
            };
            let at = *self.order.entry(node).or_insert_with(|| {
                self.found.push((node, Vec::new()));
                self.found.len() - 1
            });
            let ranges = &mut self.found[at].1;
            match ranges.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(first) => last.1 = first | below,
                _ => {
                    ranges.push((first, first | below));
                    self.count += 1;
                }
            }
            return self.count <= self.max;
        }
        let (low, high) = self.diagram.branches(node, level);
        let bit = 1u128 << (self.end - 1 - level);
        self.go(low, level + 1, first) && self.go(high, level + 1, first | bit)
    }
}

/// Puts classes together that are equal but for one field.
fn together(classes: &mut Vec<Class>) {
    loop {
        let before = classes.len();
        for (field, _) in FIELDS {
            along(classes, field);
        }
        if classes.len() == before {
            return;
        }
    }
}

fn along(classes: &mut Vec<Class>, field: Field) {
    let mut known: HashMap<Class, usize> = HashMap::new();
    let mut out: Vec<Class> = Vec::with_capacity(classes.len());
    for mut class in classes.drain(..) {
        let at = class.fields.iter().position(|part| part.0 == field);
        let Some(at) = at.filter(|at| matches!(class.fields[*at].1, Values::Ranges(_))) else {
            out.push(class);
            continue;
        };
        let (_, values) = class.fields.remove(at);
        match known.get(&class) {
            Some(first) => {
                let there = out[*first].fields.iter_mut().find(|part| part.0 == field);
                if let (Some((_, Values::Ranges(all))), Values::Ranges(more)) = (there, values) {
                    let both = all.iter().copied().chain(more);
                    *all = RangeSet::from_ranges(both).ranges().to_vec();
                }
            }
            None => {
                known.insert(class.clone(), out.len());
                class.fields.insert(at, (field, values));
                out.push(class);
            }
        }
    }
    // A field all of whose values are meant is free.
    for class in &mut out {
        class.fields.retain(|(field, values)| match values {
            Values::Ranges(ranges) => ranges.as_slice() != [(0, field.top())],
            Values::Masked { .. } => true,
        });
    }
    *classes = out;
}
