//! The table of learned states: emptied, counted, listed. Mirror of `bpf/learned_abi.h`.
//!
//! In: the map. Out: the states that live, read while packets go on changing them.

use std::collections::HashMap;
use std::mem::offset_of;

use weir_engine::image::layout::FEATURE_DYNAMIC;
use weir_policy::model::Family;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::clock;
use crate::error::Result;
use crate::load::{Instance, Map};
use crate::plane::{GoingOn, Plane};

/// Places for entries.
pub(crate) const SLOTS: usize = LINES * 16;
/// Lines of the table, of 16 entries each.
const LINES: usize = 8192;
const TAGS_AT: usize = 0x9000;
pub(crate) const ENTRIES_AT: usize = TAGS_AT + SLOTS * 4;
/// Learners whose entries are counted.
pub const LEARNERS: usize = 4096;

/// `struct learned_header`, without the counts of learners behind it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    next_number: u64,
    pub next_expiry: u64,
    count: u32,
    open: u32,
    sweeping: u32,
    fragments: u32,
    statistics: [u64; 24],
}

/// `struct learned_end`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct End {
    end: u32,
    max_end: u32,
    max_window: u32,
    scale: u8,
    scale_seen: u8,
    scale_first: u8,
    sack: u8,
}

/// `struct learned_machine`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Machine {
    ends: [End; 2],
    states: [u8; 2],
    queue: u8,
    from_syn: u8,
    strict: u8,
    loose: u8,
    kept_time: u8,
    deleted: u8,
}

/// `struct learned_entry`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Entry {
    pub src: [u64; 2],
    pub dst: [u64; 2],
    pub src_port: u16,
    pub dst_port: u16,
    pub family: u8,
    pub proto: u8,
    pub used: u8,
    open: u8,
    lock: u32,
    rule: u32,
    generation: u32,
    learner: u32,
    pub number: u64,
    pub expires_ms: u64,
    pub machine: Machine,
    reject: u16,
    verdict: u8,
    classes: u8,
    flags: u16,
    reply_options: u8,
    icmp_head: u8,
    age: [u32; 2],
    pub interfaces: [u32; 4],
    pub options: [u32; 2],
    headers: [u16; 2],
    made_s: u32,
    seen: [[u32; 2]; 2],
    icmp_packets: [u32; 4],
    pub counts: [[u64; 2]; 4],
}

const _: () = assert!(
    size_of::<Entry>() == 256
        && offset_of!(Entry, expires_ms) == 64
        && offset_of!(Entry, interfaces) == 128
        && offset_of!(Entry, counts) == 192
        && size_of::<Header>() + 2 * 4 * LEARNERS <= TAGS_AT
);

/// A state as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its number, never used twice while the table lives.
    pub number: u64,
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Who began.
    pub source: u128,
    /// With whom.
    pub destination: u128,
    /// Ports; of ICMP the type and the identifier of the query.
    pub ports: (u16, u16),
    /// The rule that made it, while its policy is in force.
    pub rule: Option<u32>,
    /// Its packets pass.
    pub passes: bool,
    /// What each end of a TCP connection has come to (`eval::ipf::tcp`).
    pub tcp: [u8; 2],
    /// Of each end of a TCP connection: where what it sent ends, its largest window before it is
    /// scaled, by how many bits it is.
    pub windows: [(u32, u32, u8); 2],
    /// Milliseconds that it has left.
    pub left_ms: u64,
    /// Seconds since it was made.
    pub age_s: u64,
    /// Packets and bytes: in forward, out forward, in reverse, out reverse.
    pub counts: [(u64, u64); 4],
    /// Numbers of interfaces: in forward, in reverse, out forward, out reverse; 0: not seen yet.
    pub interfaces: [u32; 4],
}

/// What happened to states since the programs were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Entries that are there; some may be over.
    pub entries: u32,
    /// Made.
    pub made: u64,
    /// Gone because their time was up.
    pub expired: u64,
    /// Not made because of a limit.
    pub no_room: u64,
    /// Not made because the places of their name were taken.
    pub full: u64,
    /// Of `no_room`: a limit of the rule; one of hosts.
    pub of_limits: (u64, u64),
    /// Of `expired`: TCP connections that both ends had ended.
    pub ended: u64,
    /// Of `made`: TCP, UDP, ICMP, ICMPv6.
    pub protocols: [u64; 4],
    /// Packets that could begin none: short or bad; outside the window of one; TCP with RST; TCP
    /// without a whole header; ICMP that asks nothing.
    pub unfit: [u64; 5],
    /// Packets outside the window of a state.
    pub out_of_window: u64,
    /// ICMP errors about packets of states: taken, not wanted by the rule, blocked by its group,
    /// more than packets.
    pub icmp_errors: [u64; 4],
}

/// How the entries lie in the table's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines there are.
    pub all: usize,
    /// Lines with an entry.
    pub used: usize,
    /// Entries.
    pub entries: usize,
    /// Fewest and most entries of a used line.
    pub lengths: (usize, usize),
}

/// Begins the counts of a policy that is put into a slot.
pub(crate) fn begin(learned: &Map, slot: u32) {
    let at = size_of::<Header>() + slot as usize * 4 * LEARNERS;
    learned.memory().zero(at, 4 * LEARNERS);
}

/// Lets states of the policy before be those of the rules that go on in the policy in force:
/// packets are logged there, and its limits count them. No packet may be judged by the policy
/// before. A state that ends in the same moment may count until the next policy comes.
pub(crate) fn go_on(instance: &Instance, before: u32, going_on: GoingOn<'_>) {
    let dynamic = instance.settings.features & FEATURE_DYNAMIC != 0;
    let Some(learned) = instance.learned.as_ref().filter(|_| !dynamic) else {
        return;
    };
    let numbers = going_on.learners.iter().enumerate();
    let learners: HashMap<u32, u32> = numbers.map(|(at, rule)| (*rule, at as u32)).collect();
    let rules = going_on.was.iter().enumerate();
    let now: HashMap<u32, (u32, u32)> = rules
        .filter_map(|(rule, was)| {
            let rule = rule as u32;
            Some(((*was)?, (rule, *learners.get(&rule)?)))
        })
        .collect();
    if now.is_empty() {
        return;
    }
    let active = crate::swap::active(instance);
    let number = crate::swap::generation(instance, active);
    let counts = size_of::<Header>() + active as usize * 4 * LEARNERS;
    let memory = learned.memory();
    for slot in (0..SLOTS).filter(|slot| tag(learned, *slot) != 0) {
        let mut entry = Entry::new_zeroed();
        let at = ENTRIES_AT + slot * size_of::<Entry>();
        memory.read(at, entry.as_mut_bytes());
        let own = entry.used == 1 && entry.generation == before;
        let Some((rule, learner)) = now.get(&entry.rule).filter(|_| own) else {
            continue;
        };
        memory.store32(at + offset_of!(Entry, rule), *rule);
        memory.store32(at + offset_of!(Entry, learner), *learner);
        if (*learner as usize) < LEARNERS {
            memory.add32(counts + *learner as usize * 4, 1);
        }
        // The last: whoever takes the state away looks here whose count is to be lowered.
        memory.store32(at + offset_of!(Entry, generation), number);
    }
}

pub(crate) fn tag(learned: &Map, slot: usize) -> u32 {
    learned.memory().load32(TAGS_AT + slot * 4)
}

/// Forgets all states. Only while no packet is judged.
pub(crate) fn clear(learned: &Map) {
    for slot in (0..SLOTS).filter(|slot| tag(learned, *slot) != 0) {
        let entry = size_of::<Entry>();
        learned.memory().zero(ENTRIES_AT + slot * entry, entry);
        learned.memory().store32(TAGS_AT + slot * 4, 0);
    }
    learned.memory().zero(0, TAGS_AT);
}

pub(crate) fn address(words: [u64; 2]) -> u128 {
    u128::from(words[0]) << 64 | u128::from(words[1])
}

impl Entry {
    fn state(&self, now_ms: u64, generation: u32) -> State {
        State {
            number: self.number,
            family: if self.family == 4 {
                Family::V4
            } else {
                Family::V6
            },
            proto: self.proto,
            source: address(self.src),
            destination: address(self.dst),
            ports: (self.src_port, self.dst_port),
            rule: (self.generation == generation).then_some(self.rule),
            passes: self.verdict == 1,
            tcp: self.machine.states,
            windows: self
                .machine
                .ends
                .map(|end| (end.end, end.max_window, end.scale)),
            left_ms: self.expires_ms.saturating_sub(now_ms),
            age_s: (now_ms / 1000).saturating_sub(u64::from(self.made_s)),
            counts: self.counts.map(|[packets, bytes]| (packets, bytes)),
            interfaces: self.interfaces,
        }
    }
}

/// The states that live, oldest first.
fn states(instance: &Instance, now_ms: u64) -> Vec<State> {
    let Some(learned) = &instance.learned else {
        return Vec::new();
    };
    let generation = crate::swap::generation(instance, crate::swap::active(instance));
    let mut out = Vec::new();
    for slot in (0..SLOTS).filter(|slot| tag(learned, *slot) != 0) {
        let mut entry = Entry::new_zeroed();
        let at = ENTRIES_AT + slot * size_of::<Entry>();
        learned.memory().read(at, entry.as_mut_bytes());
        if entry.used == 1 && entry.expires_ms > now_ms {
            out.push(entry.state(now_ms, generation));
        }
    }
    out.sort_by_key(|state| state.number);
    out
}

impl Plane {
    /// The learned states that live, oldest first.
    pub fn states(&self) -> Result<Vec<State>> {
        let instance = self.instance()?;
        Ok(states(instance, clock::now_ms(instance)?))
    }

    /// What happened to states; `None` where no policy has made any.
    pub fn state_statistics(&self) -> Result<Option<Statistics>> {
        Ok(self.instance()?.learned.as_ref().map(statistics))
    }

    /// How states lie in their table; `None` where no policy has made any.
    pub fn state_lines(&self) -> Result<Option<Lines>> {
        Ok(self.instance()?.learned.as_ref().map(lines))
    }

    /// Whether somebody reads records about states.
    pub fn records_are_read(&self) -> Result<bool> {
        Ok(crate::shares::is_listened(self.instance()?))
    }
}

fn statistics(learned: &Map) -> Statistics {
    let mut header = Header::new_zeroed();
    learned.memory().read(0, header.as_mut_bytes());
    let [made, expired, no_room, full, ..] = header.statistics;
    let of = |at: usize| header.statistics[at];
    Statistics {
        entries: header.count,
        made,
        expired,
        no_room,
        full,
        of_limits: (of(6), of(7)),
        ended: of(8),
        protocols: [9, 10, 11, 12].map(of),
        unfit: [13, 14, 15, 16, 17].map(of),
        out_of_window: of(18),
        icmp_errors: [19, 20, 21, 22].map(of),
    }
}

fn lines(learned: &Map) -> Lines {
    let slots: Vec<usize> = (0..SLOTS).collect();
    let length = |line: &[usize]| {
        let taken = line.iter().filter(|&&slot| tag(learned, slot) != 0);
        taken.count()
    };
    let lengths = slots.chunks(SLOTS / LINES).map(length);
    let used: Vec<usize> = lengths.filter(|length| *length > 0).collect();
    let least = used.iter().copied().min().unwrap_or(0);
    Lines {
        all: LINES,
        used: used.len(),
        entries: used.iter().sum(),
        lengths: (least, used.iter().copied().max().unwrap_or(0)),
    }
}

impl crate::testrun::TestRun {
    /// The learned states that live at a time.
    pub fn states(&self, now_ms: u64) -> Vec<State> {
        states(self.instance(), now_ms)
    }

    /// Forgets all learned states.
    pub fn forget_states(&self) {
        if let Some(learned) = &self.instance().learned {
            clear(learned);
        }
    }

    /// What happened to learned states; `None` for programs that make none.
    pub fn state_statistics(&self) -> Option<Statistics> {
        self.instance().learned.as_ref().map(statistics)
    }
}
