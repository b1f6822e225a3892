//! Many packets by vectors: each table is asked for eight packets at once.
//!
//! In: packets, a root with hashed tables. Out: the first position of each. One packet alone fills
//! the lanes of a vector with the root's tables, of which there may be three; packets of a batch
//! fill them all. The groups that slots let through are one list for the whole batch, so that no
//! loop depends on a single packet's number of groups, and each line is asked for long before it is
//! read.

use super::groups::{Lanes, Places, every, pair};
use super::{Vector, lone_chunk};
use crate::image::layout::{ROWS_MAX, TABLES_MAX};
use crate::lookup::first::Parts;
use crate::lookup::ready::{Ready, Services};
use crate::lookup::{FACTORS, Key};
use std::arch::x86_64::{
    __m512i, _bzhi_u32, _mm256_add_epi32, _mm256_set_epi32, _mm256_set1_epi32, _mm512_add_epi64,
    _mm512_and_si512, _mm512_loadu_si512, _mm512_mullo_epi64,
};

/// Packets of one batch: two vectors.
pub const BATCH: usize = 16;

/// Groups in halves: of each packet and table two, and a whole vector behind them.
const WORK: usize = 2 * BATCH * TABLES_MAX + 8;

/// What tables hash, field by field.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    source: [u64; BATCH],
    destination: [u64; BATCH],
    ports: [u64; BATCH],
}

/// Groups to be read: where, and for which packet.
#[derive(Debug, Default)]
pub struct Work {
    fields: Fields,
    halves: [Places<WORK>; 2],
    ranges: [Places<WORK>; 2],
}

impl Vector<'_> {
    /// The first positions in the tables and chunks of a root, for at most [`BATCH`] packets.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    pub(super) fn batch<const VECTORS: usize>(
        self,
        (parts, services): (&Parts<'_>, &Services<'_>),
        last: u32,
        (keys, out): (&[Key], &mut [u32]),
        work: &mut Work,
    ) {
        self.collect(&parts.lanes, keys, work);
        for place in work.halves[0].all() {
            self.prefetch(*place);
        }
        for place in work.ranges[0].all() {
            // Two records in a line; most groups have four at most.
            self.prefetch(*place);
            self.prefetch(*place + 64);
        }
        let mut rows = [[std::ptr::null(); ROWS_MAX]; BATCH];
        // The chunk of each packet, where it is the only one it can meet.
        let mut ahead: [Option<&Ready<'_>>; BATCH] = [None; BATCH];
        let mut served = [[every(0); VECTORS]; BATCH];
        let mut service_rows = [[0; 3]; BATCH];
        let mut best = [last; BATCH];
        let mut pairs = [every(0); BATCH];
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            pairs[at] = pair(key);
            let classes = self.service_classes(services, key);
            ahead[at] = lone_chunk(parts, key);
            if let Some(chunk) = ahead[at] {
                rows[at] = self.rows_ahead(chunk, key, &classes);
            }
            service_rows[at] = services.rows(classes);
            let row = self.row_of::<VECTORS>(services, &service_rows[at]);
            served[at].copy_from_slice(&row[..VECTORS]);
        }
        let [places, packets] = &work.halves;
        for (place, packet) in places.all().iter().zip(packets.all()) {
            let packet = *packet as usize % BATCH;
            let (own, row) = (pairs[packet], &served[packet]);
            let found = self.first_of_half::<VECTORS>(*place, own, row, last);
            best[packet] = best[packet].min(found);
        }
        let [places, packets] = &work.ranges;
        for (place, packet) in places.all().iter().zip(packets.all()) {
            let packet = *packet as usize % BATCH;
            // No packet is missing. A remainder, which would say so too, takes a division.
            let Some(key) = keys.get(packet) else {
                continue;
            };
            let rows = &service_rows[packet];
            let found = self.group_of_ranges(place & !15, place & 15, key, rows);
            best[packet] = best[packet].min(found);
        }
        for (at, (key, out)) in keys.iter().zip(out).enumerate().take(BATCH) {
            *out = match ahead[at] {
                // SAFETY: the CPU has the instructions.
                Some(chunk) => best[at].min(unsafe { self.first_ahead(chunk, &rows[at]) }),
                None => self.first_of_chunks(parts, best[at], key),
            };
        }
    }

    /// Which groups of all tables may have a record for which packet.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt")]
    fn collect(self, lanes: &Lanes, keys: &[Key], work: &mut Work) {
        let fields = &mut work.fields;
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            fields.source[at] = key.address[0] as u64;
            fields.destination[at] = key.address[1] as u64;
            fields.ports[at] = key.ports();
        }
        let count = keys.len().min(BATCH);
        for list in work.halves.iter_mut().chain(&mut work.ranges) {
            list.clear();
        }
        for table in lanes.tables() {
            let [source, destination, ports] = table.masks.map(every);
            let (shift, slots_at) = (every(table.shift), every(table.slots_at));
            let groups_at = _mm256_set1_epi32(table.groups_at as i32);
            let mut first = 0;
            while first < count {
                // SAFETY: eight places from `first` on, which is a multiple of eight below BATCH.
                let load = |from: &[u64; BATCH]| unsafe {
                    _mm512_loadu_si512(from.as_ptr().add(first).cast())
                };
                let part = |own: __m512i, mask: __m512i, factor: u64| {
                    _mm512_mullo_epi64(_mm512_and_si512(own, mask), every(factor))
                };
                let source = part(load(&work.fields.source), source, FACTORS[0]);
                let destination = part(load(&work.fields.destination), destination, FACTORS[1]);
                let ports = part(load(&work.fields.ports), ports, FACTORS[2]);
                let sum = _mm512_add_epi64(_mm512_add_epi64(source, destination), ports);
                let asked = self.ask(sum, shift, slots_at, groups_at);
                let known = _bzhi_u32(0xff, (count - first) as u32) as u8;
                let packets = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
                let packets = _mm256_add_epi32(packets, _mm256_set1_epi32(first as i32));
                if table.has_ranges {
                    work.ranges[0].add(asked.live & known, asked.whole());
                    work.ranges[1].add(asked.live & known, packets);
                } else {
                    for (lanes, places) in asked.halves(asked.live & known) {
                        work.halves[0].add(lanes, places);
                        work.halves[1].add(lanes, packets);
                    }
                }
                first += 8;
            }
        }
    }
}
