//! Things that remember packets: token buckets, address lists, connection counts.
//!
//! A test [`super::Cond::History`] names one of these. Testing it changes it, so it is touched only
//! when everything before it in the rule held. Time is the packet clock in milliseconds.

use super::Meter;

/// Index in [`super::Policy::histories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryId(pub u32);

/// One thing that remembers. Two rules share memory only through a name (recent, hashlimit).
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryObject {
    /// Objects with the same key share state: the name of a recent list or hashlimit table.
    pub shared: Option<String>,
    /// What it is.
    pub kind: HistoryKind,
}

/// The kinds of memory.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryKind {
    /// Token bucket of the rule.
    Limit(Limit),
    /// Token bucket per key.
    HashLimit(HashLimit),
    /// Address list with times.
    Recent(Recent),
    /// Concurrent connections per address group.
    ConnLimit(ConnLimit),
    /// Random or every n-th packet.
    Statistic(Statistic),
    /// Bytes that may still pass.
    Quota(u64),
    /// Wall-clock window.
    Time(TimeWindow),
    /// So many packets in a second; the next second begins with the first packet behind it.
    PerSecond(u32),
    /// Queue in front of a link.
    Meter(Meter),
}

/// A token bucket that starts full: holds while it has a token, and takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Time for one token, in units of 100 microseconds (iptables' scale: 1/10000 s).
    pub cost: u32,
    /// Tokens it can hold.
    pub burst: u32,
}

/// What a hash limit keeps apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKey {
    /// Source address.
    pub src: bool,
    /// Source port.
    pub src_port: bool,
    /// Destination address.
    pub dst: bool,
    /// Destination port.
    pub dst_port: bool,
    /// Prefix length of the source address in the key.
    pub src_prefix: u8,
    /// Prefix length of the destination address in the key.
    pub dst_prefix: u8,
}

/// A token bucket per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLimit {
    /// The key.
    pub key: HashKey,
    /// `true`: holds while the rate is exceeded (`above`); `false`: while it is not (`upto`).
    pub above: bool,
    /// Packets: microseconds for one token. Bytes: bytes per second.
    pub rate: u64,
    /// Tokens (packets) or bytes it can hold.
    pub burst: u64,
    /// Whether bytes are counted instead of packets.
    pub bytes: bool,
    /// Milliseconds after which an unused key is forgotten.
    pub expire_ms: u32,
    /// Largest number of keys; 0 means the default.
    pub max: u32,
    /// Instead of taking tokens, packets are counted over so many seconds: the rate is exceeded
    /// where the last such time had more than it allows, or this one has more than a second's
    /// packets and `burst`. The count begins anew with the first packet behind that time.
    pub sampled: Option<u32>,
}

impl HashLimit {
    /// Packets of a second, where they are counted and not limited.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        1_000_000 / self.rate.max(1)
    }
}

/// What a recent test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecentAction {
    /// Put the address in with the present time; holds.
    Set,
    /// Holds when the address is in and the conditions hold.
    Check,
    /// As `Check`, and when it held, note the present time.
    Update,
    /// Holds when the address was in, and takes it out.
    Remove,
}

/// An address list with the times of the last packets of each address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// What to do.
    pub action: RecentAction,
    /// Only hits of the last so many seconds count; 0: all.
    pub seconds: u32,
    /// So many hits are needed; 0: one.
    pub hitcount: u32,
    /// Also forget hits older than `seconds`.
    pub reap: bool,
    /// The TTL must be that of the entry's last packet.
    pub ttl: bool,
    /// The destination address instead of the source.
    pub destination: bool,
    /// Mask on the address (IPv4 in the low 32 bits).
    pub mask: u128,
}

/// Connections of the same address group, as seen by the flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnLimit {
    /// The destination address instead of the source.
    pub destination: bool,
    /// Prefix length of the group.
    pub prefix: u8,
    /// `true`: holds when there are more than `count`; `false`: at most `count`.
    pub above: bool,
    /// Connections, the present one included.
    pub count: u32,
}

/// Sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Holds with probability `p / 2^31`.
    Random(u32),
    /// Holds for packet `packet`, `packet + every`, ... (packets from 0).
    Nth {
        /// Period.
        every: u32,
        /// Which packet of a period.
        packet: u32,
    },
}

/// A window of wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// First second since the epoch (0: no start).
    pub date_start: u64,
    /// Last second since the epoch (`u64::MAX`: no end).
    pub date_stop: u64,
    /// First second of the day.
    pub day_start: u32,
    /// Last second of the day; before `day_start` the window goes over midnight.
    pub day_stop: u32,
    /// Bit n: day n of the month (1 to 31).
    pub month_days: u32,
    /// Bit n: day n of the week (1 Monday to 7 Sunday).
    pub week_days: u8,
    /// Seconds east of UTC of the times above.
    pub offset: i32,
    /// A window over midnight belongs to the day on which it began.
    pub contiguous: bool,
}
