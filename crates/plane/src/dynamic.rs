//! ipfw's states in the table of learned states: listed, and forgotten with their rules. Mirror of
//! `struct dynamic_state` in `bpf/learned_abi.h`.
//!
//! In: the map. Out: states and counters of limits that live, read while packets go on changing
//! them.

use std::mem::offset_of;

use weir_policy::model::Family;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::clock;
use crate::error::Result;
use crate::learned::{ENTRIES_AT, Entry, Header, SLOTS, address, tag};
use crate::load::{Instance, Learning, Map};
use crate::plane::Plane;

/// `struct dynamic_state`, in the place of an entry's TCP machine.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Dynamic {
    identity: u64,
    /// Number of the limit's counter; a counter's own time.
    parent: u64,
    /// Acknowledged by who began, and by the other.
    pub ack: [u32; 2],
    /// Slot of the limit's counter; in a counter, how many it counts.
    slot: u32,
    /// SYN, FIN and RST seen of each.
    pub flags: [u8; 2],
    /// A bit for each that has acknowledged since the state was last refreshed.
    pub acked: u8,
    limited: u8,
    padding: [u8; 8],
}

impl Dynamic {
    /// What stands in the place of an entry's TCP machine.
    pub fn of(entry: &Entry) -> Self {
        Self::read_from_bytes(entry.machine.as_bytes()).expect("one is as large as the other")
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A flow that was noted.
    State,
    /// One that a limit counts.
    Limited,
    /// What a limit counts with: so many flows.
    Counter(u32),
}

/// A state or a counter of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicState {
    /// Its number, never used twice while the table lives.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
    /// The rule that noted it, as policies carry it (`policy::model::IpfwKeeper`).
    pub identity: u64,
    /// Name of the flow, likewise.
    pub name: u32,
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Address and port of who began.
    pub source: (u128, u16),
    /// With whom.
    pub destination: (u128, u16),
    /// Packets and bytes of both directions.
    pub counts: (u64, u64),
    /// Milliseconds that it has left.
    pub left_ms: u64,
}

/// Entries, each with what stands in the place of its TCP machine.
fn entries(learned: &Map) -> impl Iterator<Item = (usize, Entry, Dynamic)> {
    let taken = (0..SLOTS).filter(|slot| tag(learned, *slot) != 0);
    taken.map(|slot| {
        let at = ENTRIES_AT + slot * size_of::<Entry>();
        let mut entry = Entry::new_zeroed();
        learned.memory().read(at, entry.as_mut_bytes());
        let own = Dynamic::of(&entry);
        (at, entry, own)
    })
}

fn state(entry: &Entry, own: &Dynamic, now_ms: u64) -> Option<DynamicState> {
    let (kind, until) = match (entry.used, own.limited) {
        (1, 0) => (Kind::State, entry.expires_ms),
        (1, _) => (Kind::Limited, entry.expires_ms),
        (2, _) => (Kind::Counter(own.slot), own.parent),
        _ => return None,
    };
    let lives = until > now_ms || matches!(kind, Kind::Counter(count) if count > 0);
    let [forward, _, reverse, _] = entry.counts;
    lives.then(|| DynamicState {
        number: entry.number,
        kind,
        identity: own.identity,
        name: entry.options[0],
        family: match entry.family {
            4 => Family::V4,
            _ => Family::V6,
        },
        proto: entry.proto,
        source: (address(entry.src), entry.src_port),
        destination: (address(entry.dst), entry.dst_port),
        counts: (forward[0] + reverse[0], forward[1] + reverse[1]),
        left_ms: until.saturating_sub(now_ms),
    })
}

/// The table, where it is ipfw's.
pub(crate) fn table(instance: &Instance) -> Option<&Map> {
    let own = Learning::of(instance.settings.features) == Learning::Ipfw;
    instance.learned.as_ref().filter(|_| own)
}

fn states(instance: &Instance, now_ms: u64) -> Vec<DynamicState> {
    let Some(learned) = table(instance) else {
        return Vec::new();
    };
    let all = entries(learned);
    let mut out: Vec<DynamicState> = all
        .filter_map(|(_, entry, own)| state(&entry, &own, now_ms))
        .collect();
    out.sort_by_key(|state| state.number);
    out
}

/// Ends the states of rules that are not kept; the next sweep takes them away.
fn forget(instance: &Instance, keep: &dyn Fn(u64) -> bool) {
    let Some(learned) = table(instance) else {
        return;
    };
    let mut some = false;
    for (at, entry, own) in entries(learned) {
        if entry.used == 1 && !keep(own.identity) {
            let expires = at + offset_of!(Entry, expires_ms);
            learned.memory().store64(expires, 1);
            some = true;
        }
    }
    if some {
        let next = offset_of!(Header, next_expiry);
        learned.memory().store64(next, 0);
    }
}

impl Plane {
    /// The states of ipfw's rules that live, oldest first.
    pub fn dynamic_states(&self) -> Result<Vec<DynamicState>> {
        let instance = self.instance()?;
        Ok(states(instance, clock::now_ms(instance)?))
    }

    /// Forgets the states of ipfw's rules but for those of the rules that `keep` names.
    pub fn forget_states(&self, keep: &dyn Fn(u64) -> bool) -> Result<()> {
        forget(self.instance()?, keep);
        Ok(())
    }
}

impl crate::testrun::TestRun {
    /// The states of ipfw's rules that live at a time.
    pub fn dynamic_states(&self, now_ms: u64) -> Vec<DynamicState> {
        states(self.instance(), now_ms)
    }

    /// Forgets states as [`Plane::forget_states`] does.
    pub fn forget_states_but(&self, keep: &dyn Fn(u64) -> bool) {
        forget(self.instance(), keep);
    }
}
