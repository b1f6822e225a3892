//! The table: lines of 64 slots; a conversation's hash says which line, and where in it to begin.
//!
//! A line has 64 tags of one byte (one cache line): 0 for a free slot, else 8 bits of the hash. A
//! packet reads the line of tags and, with 1/255 chance of error for each tag, only the entries
//! that are its own. A flow whose time is over is as good as absent; its place is taken when it is
//! needed, and each insertion sweeps two other slots.
//!
//! When a line has no free slot, a new flow takes, among the 16 slots nearest to where it begins,
//! that of a flow that is over, or else that of the unanswered flow with the least time left. An
//! answered flow is never pushed out. Where there is none of these either, the packet passes and
//! is not remembered ([`statistic::FULL`]): its answers will not be ESTABLISHED.

use weir_policy::eval::track::is_error;
use weir_policy::eval::track::timeouts::{Timeout, Timeouts};
use weir_policy::model::{CtState, Hook};

use super::entry::{Cold, Entry, control as c, meta, statistic};
use super::tcp::{self, kind, outcome};
use super::{Name, Seed, proto};
use crate::packet::Key;
use crate::packet::convert::hook_number;
use crate::packet::key::transport;

/// Slots of a line.
pub const LINE_SLOTS: u32 = 64;
/// Slots swept with each insertion.
const SWEEP: u32 = 2;
/// No slot.
pub const NO_SLOT: u32 = u32::MAX;
/// How long UDP goes on before it is a stream, in milliseconds.
const UDP_STREAM_AFTER: u32 = 2000;

/// Where the parts of a table are, in bytes. The same for the kernel's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Lines.
    pub lines: u32,
}

impl Layout {
    /// Room for so many flows: half as many slots again, so that a line is full by chance only
    /// once in 2,000 lines when all flows live.
    pub fn for_flows(flows: u32) -> Self {
        let lines = (u64::from(flows) * 3 / 2).div_ceil(u64::from(LINE_SLOTS));
        Layout {
            lines: u32::try_from(lines.clamp(1, 60_000)).expect("clamped"),
        }
    }

    /// Flows that it is made for.
    pub fn flows(&self) -> u32 {
        self.slots() / 3 * 2
    }

    /// Slots.
    pub fn slots(&self) -> u32 {
        self.lines * LINE_SLOTS
    }

    /// Offset of the locks, one word a line, after the tags.
    pub fn locks(&self) -> usize {
        self.slots() as usize
    }

    /// Offset of the entries.
    pub fn entries(&self) -> usize {
        (self.locks() + self.lines as usize * 4).next_multiple_of(4096)
    }

    /// Offset of the cold lines.
    pub fn cold(&self) -> usize {
        self.entries() + self.slots() as usize * 64
    }

    /// Bytes of the whole table.
    pub fn bytes(&self) -> usize {
        self.cold() + self.slots() as usize * 64
    }
}

/// Whether a packet has a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// No flow: invalid, untracked.
    #[default]
    None,
    /// A flow in the table.
    Known,
    /// A flow that begins when the packet is accepted.
    New,
}

/// The flow of a packet. Twin of `struct flow_ref`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRef {
    /// Whether there is one.
    pub found: Found,
    /// The packet goes in the reply direction.
    pub reply: bool,
    /// Slot of a known flow.
    pub slot: u32,
    /// Flow mark of a new flow.
    pub mark: u32,
    /// Name of the flow.
    pub name: Name,
}

/// A table in user space.
#[derive(Clone, Debug)]
pub struct FlowTable {
    /// Layout.
    pub layout: Layout,
    /// Secret of the hash.
    pub seed: Seed,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Whether packets are counted.
    pub accounting: bool,
    /// See [`statistic`].
    pub statistics: [u64; statistic::COUNT],
    /// Tags, eight slots a word.
    pub tags: Vec<u64>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// Cold lines.
    pub cold: Vec<Cold>,
}

/// The longest timeout, in milliseconds (6 days). The clock of an entry has 32 bits: one that is
/// over would come back to life 43 days later, so the whole table must be swept before that.
pub const TIMEOUT_MAX: u32 = 1 << 29;

/// Whether an entry lives.
pub fn lives(entry: &Entry, now: u32) -> bool {
    let left = entry.expires.wrapping_sub(now);
    entry.control & c::USED != 0 && left.wrapping_sub(1) < TIMEOUT_MAX
}

/// Slots of one word with the same tag, at most: so many are looked at.
const EQUAL_TAGS: u32 = 3;

/// Bytes of `word` that equal `tag`, as their highest bits.
fn matching(word: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    !(((x & LOW) + LOW) | x | LOW)
}

/// Whether a word has as many slots with this tag as are looked at.
fn crowded(word: u64, tag: u8) -> bool {
    matching(word, tag).count_ones() >= EQUAL_TAGS
}

impl FlowTable {
    /// An empty table.
    pub fn new(layout: Layout, seed: Seed) -> Self {
        let slots = layout.slots() as usize;
        FlowTable {
            layout,
            seed,
            timeouts: Timeouts::default(),
            accounting: false,
            statistics: [0; statistic::COUNT],
            tags: vec![0; slots / 8],
            entries: vec![Entry::default(); slots],
            cold: vec![Cold::default(); slots],
        }
    }

    /// Tag, first word, slot within the line at which to begin.
    fn place(&self, name: &Name) -> (u8, u32, u32) {
        let hash = name.hash(&self.seed);
        let line = ((u64::from(hash as u32) * u64::from(self.layout.lines)) >> 32) as u32;
        let tag = ((hash >> 32) as u8).max(1);
        let (word, within) = ((hash >> 40) as u32 & 7, (hash >> 43) as u32 & 7);
        (tag, line * 8, word * 8 + within)
    }

    /// The slot of a name, living or not, or [`NO_SLOT`].
    pub fn find(&self, name: &Name) -> u32 {
        let (tag, first, home) = self.place(name);
        for step in 0..8 {
            let word = first + ((home / 8) ^ step);
            let mut hits = matching(self.tags[word as usize], tag);
            for _ in 0..EQUAL_TAGS {
                if hits == 0 {
                    break;
                }
                let slot = word * 8 + hits.trailing_zeros() / 8;
                let entry = &self.entries[slot as usize];
                if (entry.pair, entry.ports, entry.meta) == (name.pair, name.ports, name.meta)
                    && entry.control & c::USED != 0
                {
                    return slot;
                }
                hits &= hits - 1;
            }
        }
        NO_SLOT
    }

    /// Whether the flow is between the packet's addresses. An IPv6 name has only a keyed 64-bit
    /// hash of them; should two pairs of addresses ever meet in one, the second is not tracked.
    fn between(&self, slot: u32, name: &Name) -> bool {
        let cold = &self.cold[slot as usize];
        name.meta & meta::V6 == 0 || (cold.low, cold.high) == (name.low, name.high)
    }

    /// Looks at a packet before the rules; `about`: the packet that an ICMP error speaks of. Sets
    /// `p.state`.
    pub fn lookup(&mut self, p: &mut Key, about: Option<&Key>, now_ms: u64) -> FlowRef {
        let now = now_ms as u32;
        let (state, found) = self.judge(p, about, now);
        p.state = state as u8;
        found
    }

    fn judge(&mut self, p: &Key, about: Option<&Key>, now: u32) -> (CtState, FlowRef) {
        let nothing = FlowRef::default();
        if p.transport == transport::ICMP {
            let kind = (p.src_port >> 8) as u8;
            if p.proto == proto::ICMP6 && matches!(kind, 130..=136 | 143) {
                return (CtState::Untracked, nothing);
            }
            if is_error(p.proto, kind) {
                return match about.and_then(|about| self.related(p, about, now)) {
                    Some(found) => (CtState::Related, found),
                    // What this host says about a packet that it could not deliver.
                    None if about.is_some() && p.hook == hook_number(Hook::Output) => {
                        (CtState::Related, nothing)
                    }
                    None => (CtState::Invalid, nothing),
                };
            }
        }
        let Some(name) = Name::of(p, &self.seed) else {
            return (CtState::Invalid, nothing);
        };
        if p.proto == proto::TCP && !tcp_possible(p) {
            return (CtState::Invalid, nothing);
        }
        let slot = self.find(&name);
        if slot != NO_SLOT
            && lives(&self.entries[slot as usize], now)
            && let Some(known) = self.known(p, name, slot, now)
        {
            return known;
        }
        if p.proto == proto::TCP && !matches!(tcp::kind_of(p.tcp_flags), kind::SYN | kind::ACK)
            || name.query == 2
        {
            return (CtState::Invalid, nothing);
        }
        let found = FlowRef {
            found: Found::New,
            name,
            slot: NO_SLOT,
            ..nothing
        };
        (CtState::New, found)
    }

    /// A packet of a flow that lives. `None`: it begins a new flow in its place.
    fn known(&mut self, p: &Key, name: Name, slot: u32, now: u32) -> Option<(CtState, FlowRef)> {
        if !self.between(slot, &name) {
            return Some((CtState::Invalid, FlowRef::default()));
        }
        let entry = &mut self.entries[slot as usize];
        let cold = &mut self.cold[slot as usize];
        let reply = direction(&name, entry.control);
        let answered = entry.control & c::SEEN_REPLY != 0;
        let outcome = touch(entry, cold, p, reply, now, &self.timeouts);
        match outcome {
            outcome::IGNORE => {}
            outcome::REOPEN => {
                entry.expires = now;
                return None;
            }
            outcome::GONE => entry.expires = now,
            outcome::SHRINK | outcome::INVALID => {
                if outcome == outcome::SHRINK {
                    entry.expires = now.wrapping_add(self.timeouts.get(Timeout::TcpUnacknowledged));
                }
                return Some((CtState::Invalid, FlowRef::default()));
            }
            timeout => entry.expires = now.wrapping_add(self.timeouts.0[timeout as usize & 15]),
        }
        if reply && !answered {
            entry.control |= c::SEEN_REPLY;
        }
        if self.accounting {
            cold.packets[usize::from(reply)] += 1;
        }
        let state = if answered || reply {
            CtState::Established
        } else {
            CtState::New
        };
        let found = FlowRef {
            found: Found::Known,
            reply,
            slot,
            mark: 0,
            name,
        };
        Some((state, found))
    }

    fn related(&self, p: &Key, about: &Key, now: u32) -> Option<FlowRef> {
        let name = Name::of(about, &self.seed)?;
        if p.dst != about.src || p.family != about.family {
            return None;
        }
        let slot = self.find(&name);
        if slot == NO_SLOT
            || !lives(&self.entries[slot as usize], now)
            || !self.between(slot, &name)
        {
            return None;
        }
        Some(FlowRef {
            found: Found::Known,
            reply: !direction(&name, self.entries[slot as usize].control),
            slot,
            mark: 0,
            name,
        })
    }

    /// The packet was accepted: a flow that it begins exists from now on, unless another packet
    /// has begun it meanwhile.
    pub fn confirm(&mut self, p: &Key, found: &FlowRef, now_ms: u64) {
        if found.found != Found::New {
            return;
        }
        let now = now_ms as u32;
        let old = self.find(&found.name);
        if old != NO_SLOT && lives(&self.entries[old as usize], now) {
            self.statistics[statistic::EXISTS] += 1;
            return;
        }
        let (tag, first, home) = self.place(&found.name);
        let slot = if old != NO_SLOT {
            self.statistics[statistic::EXPIRED] += 1;
            old
        } else {
            let free = self.free_slot(first, home, tag);
            if free != NO_SLOT {
                free
            } else {
                self.victim(first, home, tag, now)
            }
        };
        if slot == NO_SLOT {
            self.statistics[statistic::FULL] += 1;
            return;
        }
        self.fill(slot, p, found, now);
        self.set_tag(slot, tag);
        self.statistics[statistic::INSERTED] += 1;
        self.sweep(SWEEP, now_ms);
    }

    fn set_tag(&mut self, slot: u32, tag: u8) {
        let shift = (slot & 7) * 8;
        let word = &mut self.tags[slot as usize / 8];
        *word = *word & !(0xff << shift) | u64::from(tag) << shift;
    }

    /// A slot that is free: where the name begins, or beside it (there a packet looks without
    /// reading tags), or any in the nearest word that has one.
    fn free_slot(&self, first: u32, home: u32, tag: u8) -> u32 {
        let tags = self.tags[(first + home / 8) as usize];
        for slot in [home, home ^ 1] {
            if tags >> (slot % 8 * 8) & 0xff == 0 && !crowded(tags, tag) {
                return first * 8 + slot;
            }
        }
        for step in 0..8 {
            let word = first + ((home / 8) ^ step);
            let tags = self.tags[word as usize];
            let free = matching(tags, 0);
            if free != 0 && !crowded(tags, tag) {
                return word * 8 + free.trailing_zeros() / 8;
            }
        }
        NO_SLOT
    }

    /// A slot whose flow may be pushed out.
    fn victim(&mut self, first: u32, home: u32, tag: u8, now: u32) -> u32 {
        let (mut best, mut least) = (NO_SLOT, u32::MAX);
        for step in 0..16u32 {
            let word = first + ((home / 8) ^ (step >> 3));
            if crowded(self.tags[word as usize], tag) {
                continue;
            }
            let slot = word * 8 + (step & 7);
            let entry = &self.entries[slot as usize];
            if !lives(entry, now) {
                self.statistics[statistic::EXPIRED] += 1;
                return slot;
            }
            let left = entry.expires.wrapping_sub(now);
            if entry.control & c::SEEN_REPLY == 0 && left < least {
                (best, least) = (slot, left);
            }
        }
        if best != NO_SLOT {
            self.statistics[statistic::EVICTED] += 1;
        }
        best
    }

    /// Writes a new flow.
    fn fill(&mut self, slot: u32, p: &Key, found: &FlowRef, now: u32) {
        let name = &found.name;
        let mut entry = Entry {
            pair: name.pair,
            ports: name.ports,
            meta: name.meta,
            control: c::USED,
            ..Entry::default()
        };
        if name.from_high {
            entry.control |= c::ORIGINAL_HIGH;
        }
        let mut cold = Cold {
            mark: found.mark,
            ..Cold::default()
        };
        if name.meta & meta::V6 != 0 {
            (cold.low, cold.high) = (name.low, name.high);
        }
        if self.accounting {
            cold.packets[0] = 1;
        }
        let timeout = match p.proto {
            proto::TCP => tcp::open(&mut entry, &mut cold, p, &self.timeouts),
            other => protocol_timeout(other) as u32,
        };
        entry.expires = now.wrapping_add(self.timeouts.0[timeout as usize & 15]);
        if matches!(p.proto, proto::UDP | proto::UDP_LITE) {
            entry.side[0].end = now.wrapping_add(UDP_STREAM_AFTER);
        }
        self.entries[slot as usize] = entry;
        self.cold[slot as usize] = cold;
    }

    /// Frees the slots of flows that are over, among the next so many slots.
    pub fn sweep(&mut self, slots: u32, now_ms: u64) {
        let now = now_ms as u32;
        for _ in 0..slots {
            let cursor = self.statistics[statistic::CURSOR];
            self.statistics[statistic::CURSOR] = cursor.wrapping_add(1);
            let slot = (cursor % u64::from(self.layout.slots())) as u32;
            let entry = &mut self.entries[slot as usize];
            if entry.control & c::USED != 0 && !lives(entry, now) {
                entry.control = 0;
                self.set_tag(slot, 0);
                self.statistics[statistic::EXPIRED] += 1;
            }
        }
    }

    /// The flow's mark; `None` without a flow.
    pub fn mark(&self, found: &FlowRef) -> Option<u32> {
        match found.found {
            Found::None => None,
            Found::Known => Some(self.cold[found.slot as usize].mark),
            Found::New => Some(found.mark),
        }
    }

    /// Sets the flow's mark.
    pub fn set_mark(&mut self, found: &mut FlowRef, mark: u32) {
        match found.found {
            Found::None => {}
            Found::Known => self.cold[found.slot as usize].mark = mark,
            Found::New => found.mark = mark,
        }
    }
}

/// Whether the header is sound and its flags can occur together.
fn tcp_possible(p: &Key) -> bool {
    p.transport == transport::TCP
        && p.malformed == 0
        && tcp::FLAGS_POSSIBLE >> (p.tcp_flags & 0x37) & 1 != 0
}

/// Whether a packet of this name goes in the reply direction of a flow.
fn direction(name: &Name, control: u32) -> bool {
    if name.query != 0 {
        return name.query == 2;
    }
    name.from_high != (control & c::ORIGINAL_HIGH != 0)
}

/// The timeout of flows that are not TCP, or not yet UDP streams.
fn protocol_timeout(protocol: u8) -> Timeout {
    match protocol {
        proto::UDP | proto::UDP_LITE => Timeout::Udp,
        proto::ICMP => Timeout::Icmp,
        proto::ICMP6 => Timeout::Icmp6,
        _ => Timeout::Generic,
    }
}

/// What a packet does to its flow: a timeout below 16, or an [`outcome`].
fn touch(
    entry: &mut Entry,
    cold: &mut Cold,
    p: &Key,
    reply: bool,
    now: u32,
    timeouts: &Timeouts,
) -> u32 {
    if p.proto == proto::TCP {
        return tcp::segment(entry, cold, p, reply, now, timeouts);
    }
    let timeout = protocol_timeout(p.proto);
    let old = now.wrapping_sub(entry.side[0].end) as i32 > 0;
    if timeout == Timeout::Udp && entry.control & c::SEEN_REPLY != 0 && old {
        entry.control |= c::ASSURED;
        return Timeout::UdpStream as u32;
    }
    timeout as u32
}
