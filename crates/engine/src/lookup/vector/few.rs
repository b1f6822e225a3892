//! A packet in a root of few tables, without a branch on what is read.
//!
//! In: a packet, at most [`SINGLE`] tables of a packed root, in batches [`FEW`]. Out: the first
//! position that holds. Slots are asked one after the other in scalar code, which takes fewer
//! instructions for a handful of tables than a vector of them, and where each slot leads four
//! records are compared, be they of the packet's group or not: a record that holds is true wherever
//! it stands, how many groups there are cannot be foretold, and a branch on it would wait for the
//! slots.

use super::groups::{least, none_before, pair};
use super::{Vector, lone_chunk};
use crate::image::layout::{HashTable, SLOT_FILTER, slot_offset};
use crate::lookup::first::Parts;
use crate::lookup::ready::Services;
use crate::lookup::{FACTORS, Key};

/// Tables that are few.
pub(super) const FEW: usize = 8;

/// Tables that are few for a packet alone, which waits for what is read in vain.
pub(super) const SINGLE: usize = 4;

/// Images that near caches hold, in bytes. There it costs more to look at a filter than to read a
/// group in vain.
const NEAR_BYTES: usize = 2 << 20;

/// What is asked of one table, in one line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Table {
    /// Of source, destination, and protocol with ports.
    masks: [u64; 3],
    shift: u32,
    slots_at: u32,
    groups_at: u32,
}

/// The tables of a root, where they are few and have records of prefixes.
#[derive(Clone, Copy, Debug)]
pub struct Few {
    pub(super) count: usize,
    pub(super) tables: [Table; FEW],
}

impl Few {
    /// Whether a packet alone goes this way.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.count <= SINGLE
    }

    /// Of the tables of a packed root.
    pub fn of(tables: &[HashTable]) -> Option<Self> {
        if tables.len() > FEW {
            return None;
        }
        let lined = |table: &HashTable| Table {
            masks: [table.masks[1], table.masks[3], table.ports],
            shift: table.shift,
            slots_at: table.slots_at,
            groups_at: table.groups_at,
        };
        // One alone is asked twice.
        let mut few = Few {
            count: tables.len(),
            tables: [lined(tables.first()?); FEW],
        };
        for (own, table) in few.tables.iter_mut().zip(tables) {
            *own = lined(table);
        }
        Some(few)
    }
}

/// What a slot says, and which bit of its filter is a packet's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    slot: u32,
    bit: u32,
}

impl Slot {
    /// Of a number in a table, in the lowest two bits of which stands which bit of its filter is
    /// meant.
    #[inline(always)]
    pub(super) fn of(vector: Vector<'_>, table: &Table, number: u32) -> Self {
        Slot {
            slot: vector.alone(table.slots_at + (number & !3)),
            bit: number & 3,
        }
    }

    /// Where the group begins.
    #[inline(always)]
    pub(super) fn group(self, table: &Table) -> u32 {
        table.groups_at + slot_offset(self.slot)
    }

    /// The same, but where the filter lets nothing through the table's first group, which is near.
    #[inline(always)]
    fn near(self, table: &Table) -> u32 {
        let live = u32::from(self.is_live());
        table.groups_at + (slot_offset(self.slot) & live.wrapping_neg())
    }

    /// Whether the filter lets the packet through.
    #[inline(always)]
    fn is_live(self) -> bool {
        self.slot >> (SLOT_FILTER + self.bit) & 1 != 0
    }
}

impl Vector<'_> {
    /// The first position in a root of at most [`SINGLE`] tables; `last` when no term holds.
    #[inline(always)]
    pub(super) fn first_beside_few(
        self,
        few: &Few,
        (parts, services): (&Parts<'_>, &Services<'_>),
        last: u32,
        key: &Key,
    ) -> u32 {
        let of = (parts, services);
        // SAFETY: the CPU has the instructions, as `new` found.
        unsafe {
            match (few.count, self.bytes.len() > NEAR_BYTES) {
                (..=2, false) => self.beside::<2, false>(few, of, last, key),
                (..=2, true) => self.beside::<2, true>(few, of, last, key),
                (3, false) => self.beside::<3, false>(few, of, last, key),
                (3, true) => self.beside::<3, true>(few, of, last, key),
                (_, false) => self.beside::<SINGLE, false>(few, of, last, key),
                (_, true) => self.beside::<SINGLE, true>(few, of, last, key),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline]
    fn beside<const TABLES: usize, const FAR: bool>(
        self,
        few: &Few,
        of: (&Parts<'_>, &Services<'_>),
        last: u32,
        key: &Key,
    ) -> u32 {
        match of.1.vectors() {
            1 => self.beside_tables::<TABLES, 1, FAR>(few, of, last, key),
            2 => self.beside_tables::<TABLES, 2, FAR>(few, of, last, key),
            3 | 4 => self.beside_tables::<TABLES, 4, FAR>(few, of, last, key),
            _ => self.beside_tables::<TABLES, 8, FAR>(few, of, last, key),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    #[inline(never)]
    fn beside_tables<const TABLES: usize, const VECTORS: usize, const FAR: bool>(
        self,
        few: &Few,
        (parts, services): (&Parts<'_>, &Services<'_>),
        last: u32,
        key: &Key,
    ) -> u32 {
        let classes = self.service_classes(services, key);
        let own = services.rows(classes);
        let slots = self.slots_of::<TABLES>(few, key);
        let of = (services, &own);
        if parts.chunks.is_empty() {
            // SAFETY: the CPU has the instructions.
            return unsafe { self.in_slots::<TABLES, VECTORS, FAR>((few, &slots), key, of, last) };
        }
        // The way to the rows of a chunk stands before the groups, which are waited for.
        let ahead =
            lone_chunk(parts, key).map(|chunk| (chunk, self.rows_ahead(chunk, key, &classes)));
        // SAFETY: the CPU has the instructions.
        unsafe {
            let best = self.in_slots::<TABLES, VECTORS, FAR>((few, &slots), key, of, last);
            match ahead {
                Some((chunk, rows)) => best.min(self.first_ahead(chunk, &rows)),
                None => self.first_of_chunks(parts, best, key),
            }
        }
    }

    /// The slots of a packet.
    #[inline(always)]
    pub(super) fn slots_of<const TABLES: usize>(self, few: &Few, key: &Key) -> [Slot; TABLES] {
        let fields = [key.address[0] as u64, key.address[1] as u64, key.ports()];
        let mut slots = [Slot::default(); TABLES];
        for (slot, table) in slots.iter_mut().zip(&few.tables) {
            *slot = self.slot_of(table, fields);
        }
        slots
    }

    /// The first position in the groups of some slots. `rows`: of services. `FAR`: groups that the
    /// filter rules out are left where they are, since nobody has asked for their lines before.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    pub(super) unsafe fn in_slots<const TABLES: usize, const VECTORS: usize, const FAR: bool>(
        self,
        (few, slots): (&Few, &[Slot; TABLES]),
        key: &Key,
        (services, rows): (&Services<'_>, &[u32; 3]),
        last: u32,
    ) -> u32 {
        // SAFETY: as the caller says.
        unsafe {
            let row = self.row_of::<VECTORS>(services, rows);
            let own = pair(key);
            let mut best = none_before(last);
            let mut long = 0;
            for (slot, table) in slots.iter().zip(&few.tables) {
                // What stands there is true, whether it is of this packet's group or of another.
                let at = match FAR {
                    true => slot.near(table),
                    false => slot.group(table),
                };
                best = self.four::<VECTORS>(best, at, own, &row);
                long |= slot.slot & 4;
            }
            // Most groups have four records at most.
            if long != 0 {
                for (slot, table) in slots.iter().zip(&few.tables) {
                    if slot.slot & 4 != 0 && slot.is_live() {
                        let place = (slot.group(table) + 64) | ((slot.slot & 3) + 1);
                        best = self.half::<VECTORS>(best, place, own, &row);
                    }
                }
            }
            least(best)
        }
    }

    /// The slot of a packet.
    #[inline(always)]
    fn slot_of(self, table: &Table, fields: [u64; 3]) -> Slot {
        let source = (fields[0] & table.masks[0]).wrapping_mul(FACTORS[0]);
        let destination = (fields[1] & table.masks[1]).wrapping_mul(FACTORS[1]);
        let ports = (fields[2] & table.masks[2]).wrapping_mul(FACTORS[2]);
        let sum = source.wrapping_add(destination).wrapping_add(ports);
        let hash = (sum ^ sum >> 29).wrapping_mul(FACTORS[3]);
        Slot::of(self, table, (hash >> ((table.shift - 2) & 63)) as u32)
    }
}
