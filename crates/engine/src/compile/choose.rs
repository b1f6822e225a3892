//! Which leading bits of which fields a hashed table is keyed by.
//!
//! In: a sample of the terms that are to be stored. Out: the cut that serves most of them with
//! small groups and few copies. First over pairs of address lengths and over pairs of port lengths
//! alone, then from the best of these by turns, each field's alternatives with the others held.

use super::layers::Layers;
use super::sampled::Packet;
use super::tables::Item;
use crate::image::layout::GROUP_MAX;
use crate::lookup::table_hash;
use weir_policy::model::Family;

/// Terms looked at when choosing.
pub const SAMPLE: usize = 2048;
/// Slots that one term may enter in one table; where there are many terms, and where little room
/// matters.
const REPLICAS_MAX: [u128; 3] = [16, 8, 4];
/// So many are many: what is in tables no longer fits the near caches.
const MANY: usize = 1 << 15;

/// Slots that one of so many terms may enter.
pub fn replicas_max(terms: usize, lean: bool) -> u128 {
    match lean {
        true => REPLICAS_MAX[2],
        false => REPLICAS_MAX[usize::from(terms > MANY)],
    }
}

/// What looking into a table costs, in nanoseconds: when the slot is empty, for the first line of a
/// group, for each record. Only what they are to each other matters.
const PROBE_COST: f64 = 12.0;
/// The first where records are of prefixes, of which four are in a line, and are compared at once.
const PROBE_COST_PREFIXES: f64 = 20.0;
const GROUP_COST: f64 = 15.0;
const RECORD_COST: f64 = 5.0;
/// What a copy of a record takes from the worth of serving it.
const COPY_COST: f64 = 0.05;
/// The same where little room matters.
const COPY_COST_LEAN: f64 = 1.0;
/// Packets that cuts are tried with.
pub const PACKETS: usize = 128;
/// Bits of the slot numbers in which the sample is counted.
const SLOT_BITS: u32 = 14;

/// Leading bits of source and destination address, of source and destination port, and of the
/// protocol (0 or 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Of addresses.
    pub address: [u32; 2],
    /// Of ports.
    pub port: [u32; 2],
    /// Of the protocol: all or none.
    pub proto: u32,
}

/// Nothing enters so many cells.
const CELLS_MANY: u64 = 1 << 20;

/// Bits of an address.
pub fn width(family: Family) -> u32 {
    if family == Family::V4 { 32 } else { 128 }
}

/// First and last cell of a range when only `bits` leading bits count.
fn cells(range: (u128, u128), bits: u32, width: u32) -> (u128, u128) {
    if bits == 0 {
        return (0, 0);
    }
    (range.0 >> (width - bits), range.1 >> (width - bits))
}

fn port_cells(range: (u16, u16), bits: u32) -> (u32, u32) {
    let cell = |port: u16| (u32::from(port) << bits) >> 16;
    (cell(range.0), cell(range.1))
}

impl Cut {
    /// How many cells of a table with this cut an item overlaps; none when its protocol is open
    /// and counts.
    pub fn replicas(&self, item: &Item, family: Family) -> u128 {
        if self.proto > 0 && item.proto.is_none() {
            return u128::MAX;
        }
        if family == Family::V4 {
            return self.replicas4(item);
        }
        let width = width(family);
        let mut count = 1u128;
        for side in 0..2 {
            let (first, last) = cells(item.address[side], self.address[side], width);
            count = count.saturating_mul((last - first).saturating_add(1));
            let (first, last) = port_cells(item.port[side], self.port[side]);
            count = count.saturating_mul(u128::from(last - first + 1));
        }
        count
    }

    /// The same of an IPv4 item, in shorter numbers.
    fn replicas4(&self, item: &Item) -> u128 {
        let mut count = 1u64;
        for side in 0..2 {
            let (first, last) = item.address[side];
            let cell = |address: u128| address as u64 & 0xffff_ffff;
            let shift = 32 - self.address[side];
            count *= (cell(last) >> shift) - (cell(first) >> shift) + 1;
            if count > CELLS_MANY {
                return u128::MAX;
            }
            let (first, last) = port_cells(item.port[side], self.port[side]);
            count *= u64::from(last - first + 1);
            if count > CELLS_MANY {
                return u128::MAX;
            }
        }
        count.into()
    }

    /// Calls `f` with the hash of each cell that an item overlaps.
    pub fn each(&self, item: &Item, family: Family, mut f: impl FnMut(u64)) {
        let width = width(family);
        let place = |cell: u128, bits: u32| if bits == 0 { 0 } else { cell << (width - bits) };
        let [sources, destinations] =
            [0, 1].map(|side| cells(item.address[side], self.address[side], width));
        let [low, high] = [0, 1].map(|side| port_cells(item.port[side], self.port[side]));
        let proto = match item.proto {
            Some(proto) if self.proto > 0 => u64::from(proto) << 32,
            _ => 0,
        };
        for a in sources.0..=sources.1 {
            for b in destinations.0..=destinations.1 {
                let address = [place(a, self.address[0]), place(b, self.address[1])];
                for c in low.0..=low.1 {
                    for d in high.0..=high.1 {
                        let ports = u64::from(c << (16 - self.port[0])) << 16
                            | u64::from(d << (16 - self.port[1]));
                        f(table_hash(address, proto | ports));
                    }
                }
            }
        }
    }

    /// The hashes of packets' keys.
    pub fn hashes<'p>(
        &self,
        packets: &'p [Packet],
        family: Family,
    ) -> impl Iterator<Item = u64> + use<'p> {
        let (address, ports) = self.masks(family);
        packets.iter().map(move |packet| {
            let own = [0, 1].map(|side| packet.address[side] & address[side]);
            table_hash(own, words(packet) & ports)
        })
    }

    /// The masks of the key: source and destination address, ports and protocol.
    pub fn masks(&self, family: Family) -> ([u128; 2], u64) {
        let leading = |bits: u32, width: u32| {
            let all = u128::MAX >> (128 - width);
            all & !all.checked_shr(bits).unwrap_or(0)
        };
        let port = |at: usize| leading(self.port[at], 16) as u64;
        let proto = if self.proto > 0 { 0xff << 32 } else { 0 };
        let address = self.address.map(|bits| leading(bits, width(family)));
        (address, proto | port(0) << 16 | port(1))
    }
}

/// A slot is crowded if one of so many packets leads to it.
const CROWDED: usize = 16;

/// Of the slots of all packets, those that so many lead to that their groups would be read for
/// nearly all of them. As bits of a chunk, the same terms cost nobody anything. Sorts the slots.
pub fn crowded<T: Copy + Ord>(slots: &mut [T]) -> Vec<T> {
    slots.sort_unstable();
    let alike = slots.chunk_by(|a, b| a == b);
    let many = alike.filter(|alike| alike.len() * CROWDED >= slots.len());
    many.map(|alike| alike[0]).collect()
}

/// Distinct leading-bit counts that the ranges of a field suggest.
fn suggestions(ranges: impl Iterator<Item = (u128, u128)>, width: u32) -> Vec<u32> {
    let mut lengths: Vec<u32> = ranges
        .filter(|r| !(r.0 == 0 && r.1 == u128::MAX >> (128 - width)))
        .map(|r| (r.0 ^ r.1).leading_zeros() - (128 - width))
        .collect();
    lengths.sort_unstable();
    let mut out = vec![0];
    if let Some(last) = lengths.len().checked_sub(1) {
        out.extend((0..=6).map(|part| lengths[last * part / 6]));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// `protocol << 32 | source port << 16 | destination port`.
fn words(packet: &Packet) -> u64 {
    let [low, high] = packet.port.map(u64::from);
    u64::from(packet.proto) << 32 | low << 16 | high
}

/// Chooses a cut on a sample.
pub struct Chooser<'s> {
    sample: &'s [Item],
    packets: &'s [Packet],
    /// Terms for each one of the sample.
    scale: f64,
    family: Family,
    /// What a copy of a record takes from the worth of serving it.
    copy_cost: f64,
    /// What looking into a table costs when the slot is empty.
    probe_cost: f64,
    replicas_max: u128,
    /// Scores are found by so many threads. What they are does not depend on it.
    scorers: Vec<Scorer>,
}

/// What scoring needs room for.
struct Scorer {
    counts: Vec<u8>,
    /// Hashes of the cut being scored, and where each item's end.
    hashes: Vec<u16>,
    ends: Vec<u32>,
    /// Hashes of the packets.
    packets: Vec<u16>,
}

impl<'s> Chooser<'s> {
    /// A chooser over a sample of terms of which there are `scale` times as many.
    pub fn new(
        sample: &'s [Item],
        packets: &'s [Packet],
        scale: f64,
        replicas_max: u128,
        layers: &Layers,
    ) -> Self {
        let scorer = || Scorer {
            counts: vec![0; 1 << SLOT_BITS],
            hashes: Vec::new(),
            ends: Vec::new(),
            packets: Vec::new(),
        };
        Chooser {
            sample,
            packets,
            scale,
            family: layers.family,
            replicas_max,
            copy_cost: match layers.lean {
                true => COPY_COST_LEAN,
                false => COPY_COST,
            },
            probe_cost: match sample.iter().all(|item| item.is_of_prefixes(layers.family)) {
                true => PROBE_COST_PREFIXES,
                false => PROBE_COST,
            },
            scorers: (0..layers.threads.max(1)).map(|_| scorer()).collect(),
        }
    }

    /// The scores of some cuts.
    fn scores(&mut self, cuts: &[Cut]) -> Vec<f64> {
        let mut scorers = std::mem::take(&mut self.scorers);
        let mut out = vec![0.0; cuts.len()];
        let part = cuts.len().div_ceil(scorers.len()).max(1);
        let this = &*self;
        let score = |scorer: &mut Scorer, cuts: &[Cut], out: &mut [f64]| {
            for (cut, out) in cuts.iter().zip(out) {
                *out = this.score(scorer, cut);
            }
        };
        std::thread::scope(|scope| {
            let mut parts = cuts
                .chunks(part)
                .zip(out.chunks_mut(part))
                .zip(&mut scorers);
            let own = parts.next();
            for ((cuts, out), scorer) in parts {
                scope.spawn(move || score(scorer, cuts, out));
            }
            if let Some(((cuts, out), scorer)) = own {
                score(scorer, cuts, out);
            }
        });
        self.scorers = scorers;
        out
    }

    /// The cut that serves the sample best, and how well.
    pub fn choose(&mut self) -> (Cut, f64) {
        let addresses = [0, 1].map(|side| {
            let ranges = self.sample.iter().map(|item| item.address[side]);
            suggestions(ranges, width(self.family))
        });
        let ports = [0, 1].map(|side| self.port_lengths(side));
        let protos: &[u32] = if self.sample.iter().any(|item| item.proto.is_some()) {
            &[0, 8]
        } else {
            &[0]
        };
        let mut cuts = Vec::new();
        for &a in &addresses[0] {
            for &b in &addresses[1] {
                cuts.push(Cut {
                    address: [a, b],
                    ..Cut::default()
                });
            }
        }
        for &c in &ports[0] {
            for &d in &ports[1] {
                cuts.push(Cut {
                    port: [c, d],
                    ..Cut::default()
                });
            }
        }
        let scores = self.scores(&cuts);
        let mut scored: Vec<(Cut, f64)> = cuts.into_iter().zip(scores).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1));
        scored.truncate(3);
        let mut best = scored[0];
        for start in scored {
            let found = self.climb(start, &addresses, &ports, protos);
            if found.1 > best.1 {
                best = found;
            }
        }
        best
    }

    fn port_lengths(&self, side: usize) -> Vec<u32> {
        let open = |item: &Item| item.port[side] == (0, u16::MAX);
        if self.sample.iter().all(open) {
            return vec![0];
        }
        let exact = |item: &Item| item.port[side].0 == item.port[side].1;
        if self.sample.iter().all(|item| open(item) || exact(item)) {
            return vec![0, 16];
        }
        vec![0, 4, 8, 12, 16]
    }

    /// Betters a cut field by field.
    fn climb(
        &mut self,
        start: (Cut, f64),
        addresses: &[Vec<u32>; 2],
        ports: &[Vec<u32>; 2],
        protos: &[u32],
    ) -> (Cut, f64) {
        let mut best = start;
        for _ in 0..2 {
            let before = best.1;
            let mut tries: Vec<Cut> = Vec::new();
            for field in 0..5 {
                tries.clear();
                let with = |change: &dyn Fn(&mut Cut)| {
                    let mut cut = best.0;
                    change(&mut cut);
                    cut
                };
                match field {
                    0 | 1 => {
                        let own = ports[field].iter();
                        tries.extend(own.map(|bits| with(&|cut| cut.port[field] = *bits)));
                    }
                    2 => tries.extend(protos.iter().map(|bits| with(&|cut| cut.proto = *bits))),
                    _ => {
                        let own = addresses[field - 3].iter();
                        tries.extend(own.map(|bits| with(&|cut| cut.address[field - 3] = *bits)));
                    }
                }
                tries.retain(|cut| *cut != best.0);
                for (cut, score) in tries.iter().zip(self.scores(&tries)) {
                    if score > best.1 {
                        best = (*cut, score);
                    }
                }
            }
            if best.1 <= before * 1.01 {
                break;
            }
        }
        best
    }

    /// How many terms of the sample a cut serves, for what it costs packets: the share of a full
    /// group that finds room, less for copies, by a probe and the records that packets meet.
    fn score(&self, scorer: &mut Scorer, cut: &Cut) -> f64 {
        let Scorer {
            counts,
            hashes,
            ends,
            packets,
        } = scorer;
        counts.fill(0);
        hashes.clear();
        ends.clear();
        for item in self.sample {
            if cut.replicas(item, self.family) <= self.replicas_max {
                cut.each(item, self.family, |hash| {
                    let slot = (hash >> (64 - SLOT_BITS)) as u16;
                    hashes.push(slot);
                    let count = &mut counts[usize::from(slot)];
                    *count = count.saturating_add(1);
                });
            }
            ends.push(hashes.len() as u32);
        }
        // What the counting itself makes collide.
        let chance = hashes.len() as f64 / f64::from(1u32 << SLOT_BITS);
        let met = |slot: u16| (f64::from(counts[usize::from(slot)]) - chance).max(0.0);
        packets.clear();
        let met_by = cut.hashes(self.packets, self.family);
        packets.extend(met_by.map(|hash| (hash >> (64 - SLOT_BITS)) as u16));
        let crowded = crowded(packets);
        let (mut from, mut served) = (0, 0.0);
        for end in ends.iter() {
            let slots = &hashes[from..*end as usize];
            from = *end as usize;
            if slots.is_empty() || slots.iter().any(|slot| crowded.contains(slot)) {
                continue;
            }
            let others: f64 = slots.iter().map(|slot| (met(*slot) - 1.0).max(0.0)).sum();
            let group = 1.0 + others / slots.len() as f64 * self.scale;
            let kept = 1.0f64.min(GROUP_MAX as f64 / group);
            served += kept / (1.0 + self.copy_cost * slots.len() as f64);
        }
        let mut compared = 0.0;
        for slot in packets.iter().filter(|slot| !crowded.contains(slot)) {
            let records = (met(*slot) * self.scale).min(GROUP_MAX as f64);
            compared += RECORD_COST * records + GROUP_COST * records.min(1.0);
        }
        served / (self.probe_cost + compared / self.packets.len() as f64)
    }
}
