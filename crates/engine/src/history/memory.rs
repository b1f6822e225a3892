//! The memory in user space, and the test of one packet.

use super::record::{Layout, Record, flag, kind};
use super::{limit, meter, tables};
use crate::flow::{FlowRef, FlowTable, Seed};
use crate::packet::Key;

/// The memory of all histories of a policy.
#[derive(Clone, Debug)]
pub struct Histories {
    /// Parameters.
    pub records: Vec<Record>,
    /// Memory, in words.
    pub words: Vec<u64>,
    /// Secret of the hash; the flow table's.
    pub seed: Seed,
    /// Wall clock less packet clock, in milliseconds.
    pub wall_offset_ms: i64,
}

impl Histories {
    /// Fresh memory.
    pub fn new(layout: Layout, seed: Seed) -> Self {
        Histories {
            records: layout.records,
            words: vec![0; layout.bytes / 8],
            seed,
            wall_offset_ms: 0,
        }
    }

    /// Tests, and so touches, a history; the answer is before negation.
    pub fn test(
        &mut self,
        index: u32,
        p: &Key,
        flows: &FlowTable,
        found: &FlowRef,
        now_ms: u64,
    ) -> bool {
        let record = self.records[index as usize];
        let at = record.memory as usize / 8;
        let length = u64::from(p.length);
        match record.kind {
            kind::LIMIT => limit(&mut self.words[at], &record, now_ms),
            kind::HASH_LIMIT => tables::hash_limit(&mut self.words, &self.seed, &record, p, now_ms),
            kind::RECENT => tables::recent(&mut self.words, &self.seed, &record, p, now_ms),
            kind::CONN_LIMIT => {
                let seed = self.seed;
                tables::connections(&mut self.words, &seed, &record, p, (flows, found), now_ms)
            }
            kind::RANDOM | kind::NTH => {
                let count = self.words[at];
                self.words[at] = count.wrapping_add(1);
                if record.kind == kind::NTH {
                    return count % record.a == record.b;
                }
                u64::from(random(record.b, count)) < record.a
            }
            kind::QUOTA => {
                let left = record.a - self.words[at];
                self.words[at] += length.min(left);
                length <= left
            }
            kind::PER_SECOND => per_second(&mut self.words[at], &record, now_ms),
            kind::METER => meter::take(&mut self.words, &self.seed, &record, p, now_ms),
            kind::TIME => in_window(&record, now_ms.saturating_add_signed(self.wall_offset_ms)),
            _ => false,
        }
    }
}

/// Packets of a second: since when in milliseconds, and 20 bits of a count.
fn per_second(word: &mut u64, record: &Record, now_ms: u64) -> bool {
    const COUNT: u64 = (1 << 20) - 1;
    let (mut since, mut count) = (*word >> 20, *word & COUNT);
    if count == 0 || now_ms.saturating_sub(since) >= 1000 {
        (since, count) = (now_ms, 0);
    }
    count = (count + 1).min(COUNT);
    *word = since << 20 | count;
    count <= record.a
}

/// 31 random bits for packet `count`: see `eval::history::random_31`.
fn random(start: u64, count: u64) -> u32 {
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let mut x = start.wrapping_add(count.wrapping_add(1).wrapping_mul(step));
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 33) as u32
}

/// Whether a time is in a window: see `eval::history::in_window`.
fn in_window(record: &Record, now_ms: u64) -> bool {
    const DAY: u64 = 86_400;
    let second = (now_ms / 1000).saturating_add_signed(i64::from(record.span as i32));
    let (start, stop) = (record.c & 0xffff_ffff, record.d & 0xffff_ffff);
    if second < record.a || second > record.b {
        return false;
    }
    let (mut day, of_day) = (second / DAY, second % DAY);
    if start < stop {
        if of_day < start || of_day > stop {
            return false;
        }
    } else {
        if of_day < start && of_day > stop {
            return false;
        }
        if record.flags & flag::CONTIGUOUS != 0 && of_day <= stop {
            day = day.saturating_sub(1);
        }
    }
    let shifted = day + 719_468;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let month_day = of_year - (153 * month + 2) / 5 + 1;
    let week_day = (day + 3) % 7 + 1;
    record.d >> 32 >> week_day & 1 != 0 && record.c >> 32 >> month_day & 1 != 0
}
