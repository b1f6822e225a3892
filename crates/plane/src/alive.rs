//! Keep-alives of ipfw's TCP states, as FreeBSD sends them (`net.inet.ip.fw.dyn_keepalive`): when a
//! state is about to end, the ends that have not acknowledged anything since it was last refreshed
//! are asked whether they are still there.
//!
//! In: the table of states, the clock. Out: segments to send, a stretch of the table at a time. A
//! segment comes in the name of the other end, has no data, and the number before the one that is
//! expected next, which a living end answers with an acknowledgement (RFC 9293 section 3.8.4) and
//! one that knows nothing of the connection with a reset. The answers meet the rules as all packets
//! do, and refresh or end the state; the segments themselves don't (`bpf/alive.h`). Sending is the
//! agent's part.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use weir_engine::packet::checksum::{finish, pseudo, sum};
use weir_engine::packet::parse::proto;
use weir_policy::model::Family;
use zerocopy::{FromZeros, IntoBytes};

use crate::clock;
use crate::dynamic::{Dynamic, table};
use crate::error::Result;
use crate::learned::{ENTRIES_AT, Entry, SLOTS, address, tag};
use crate::load::{Instance, Map};

/// Milliseconds before its end in which a state is asked about (FreeBSD: 20 s).
const INTERVAL_MS: u64 = 20_000;
/// How often it is (FreeBSD: 5 s).
const PERIOD: Duration = Duration::from_secs(5);
/// Slots that are looked through at once. All of them are within one period, as the agent comes
/// here several times a second.
const STRETCH: usize = SLOTS / 16;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const TTL: u8 = 64;

/// A segment to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From the network header on.
    pub bytes: Vec<u8>,
    /// Where it goes.
    pub to: IpAddr,
    /// Interface of a link-local address; 0: any.
    pub scope: u32,
}

/// What one end is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    family: Family,
    source: (u128, u16),
    destination: (u128, u16),
    sequence: u32,
    acknowledgement: u32,
    scope: u32,
}

/// What a state is asked at a time: who began first.
fn questions(entry: &Entry, own: &Dynamic, now_ms: u64) -> Vec<Question> {
    let [forward, reverse] = own.flags;
    let both = forward & reverse;
    let is_open = both & SYN != 0 && both & FIN == 0 && (forward | reverse) & RST == 0;
    let left_ms = entry.expires_ms.saturating_sub(now_ms);
    if entry.used != 1 || entry.proto != proto::TCP || !is_open {
        return Vec::new();
    }
    if left_ms == 0 || left_ms > INTERVAL_MS {
        return Vec::new();
    }
    let ends = [
        (address(entry.src), entry.src_port),
        (address(entry.dst), entry.dst_port),
    ];
    let asked = |end: usize| own.acked & 1 << end == 0 && own.ack[end] != 0;
    let question = |end: usize| Question {
        family: match entry.family {
            4 => Family::V4,
            _ => Family::V6,
        },
        source: ends[1 - end],
        destination: ends[end],
        sequence: own.ack[end].wrapping_sub(1),
        acknowledgement: own.ack[1 - end],
        scope: entry.interfaces[0],
    };
    [0, 1]
        .into_iter()
        .filter(|e| asked(*e))
        .map(question)
        .collect()
}

/// The packet. `mark`: what it carries to this host itself, otherwise 0.
fn segment(question: &Question, mark: u32) -> Segment {
    let (number, urgent) = ((mark >> 16) as u16, mark as u16);
    let mut tcp = Vec::with_capacity(20);
    tcp.extend(question.source.1.to_be_bytes());
    tcp.extend(question.destination.1.to_be_bytes());
    tcp.extend(question.sequence.to_be_bytes());
    tcp.extend(question.acknowledgement.to_be_bytes());
    tcp.extend([5 << 4, ACK, 0, 0, 0, 0]);
    tcp.extend(urgent.to_be_bytes());
    let (src, dst) = (question.source.0, question.destination.0);
    let mut bytes = Vec::with_capacity(60);
    let (start, to) = match question.family {
        Family::V4 => {
            let (src, dst) = ((src as u32).to_be_bytes(), (dst as u32).to_be_bytes());
            bytes.extend([0x45, 0, 0, 40]);
            bytes.extend(number.to_be_bytes());
            bytes.extend([0x40, 0, TTL, proto::TCP, 0, 0]);
            bytes.extend(src);
            bytes.extend(dst);
            let value = finish(sum(&bytes, 0)).to_be_bytes();
            bytes[10..12].copy_from_slice(&value);
            let start = pseudo(&src, &dst, proto::TCP, 20);
            (start, IpAddr::V4(Ipv4Addr::from(dst)))
        }
        Family::V6 => {
            bytes.extend([0x60, 0]);
            bytes.extend(number.to_be_bytes());
            bytes.extend([0, 20, proto::TCP, TTL]);
            bytes.extend(src.to_be_bytes());
            bytes.extend(dst.to_be_bytes());
            let start = pseudo(&src.to_be_bytes(), &dst.to_be_bytes(), proto::TCP, 20);
            (start, IpAddr::V6(Ipv6Addr::from(dst)))
        }
    };
    let value = finish(sum(&tcp, start)).to_be_bytes();
    tcp[16..18].copy_from_slice(&value);
    bytes.extend(tcp);
    Segment {
        bytes,
        to,
        scope: question.scope,
    }
}

/// The rounds through the table.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// When the round began.
    since: Instant,
    /// The next slot of this round.
    next: usize,
    /// What segments to this host carry.
    mark: u32,
}

impl Rounds {
    /// They begin now. `seed`: a number that nobody can guess.
    pub fn new(seed: u64) -> Self {
        let half = |shift: u32| ((seed >> shift) as u32 & 0xffff).max(1);
        Rounds {
            since: Instant::now(),
            next: 0,
            mark: half(32) << 16 | half(0),
        }
    }

    /// What segments to this host carry.
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// What is to be sent now: of the next stretch of the table, or nothing where all of it was
    /// looked through in this period. `is_local`: whether an address is this host's.
    pub fn due(
        &mut self,
        instance: &Instance,
        is_local: impl Fn(Family, u128) -> bool,
    ) -> Result<Vec<Segment>> {
        if self.next >= SLOTS {
            if self.since.elapsed() < PERIOD {
                return Ok(Vec::new());
            }
            (self.since, self.next) = (Instant::now(), 0);
        }
        let Some(learned) = table(instance) else {
            return Ok(Vec::new());
        };
        let now_ms = clock::now_ms(instance)?;
        let stretch = self.next..(self.next + STRETCH).min(SLOTS);
        self.next = stretch.end;
        let all = stretch.flat_map(|slot| asked(learned, slot, now_ms));
        let mark = |question: &Question| match is_local(question.family, question.destination.0) {
            true => self.mark,
            false => 0,
        };
        Ok(all.map(|one| segment(&one, mark(&one))).collect())
    }
}

/// What the state in a slot is asked.
fn asked(learned: &Map, slot: usize, now_ms: u64) -> Vec<Question> {
    if tag(learned, slot) == 0 {
        return Vec::new();
    }
    let mut entry = Entry::new_zeroed();
    let at = ENTRIES_AT + slot * size_of::<Entry>();
    learned.memory().read(at, entry.as_mut_bytes());
    questions(&entry, &Dynamic::of(&entry), now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(flags: [u8; 2], acked: u8, left_ms: u64) -> Vec<Question> {
        let mut entry = Entry::new_zeroed();
        (entry.used, entry.proto, entry.family) = (1, proto::TCP, 4);
        (entry.src, entry.dst) = ([0, 0x0a00_0001], [0, 0x0a00_0002]);
        (entry.src_port, entry.dst_port) = (1000, 22);
        entry.expires_ms = 1_000_000 + left_ms;
        let mut own = Dynamic::of(&entry);
        (own.flags, own.acked, own.ack) = (flags, acked, [500, 900]);
        questions(&entry, &own, 1_000_000)
    }

    #[test]
    fn ends_that_were_not_heard_of_are_asked_before_a_state_ends() {
        let open = [SYN, SYN];
        let asked = |acked| -> Vec<(u16, u32, u32)> {
            let all = state(open, acked, 20_000);
            let brief = |q: &Question| (q.destination.1, q.sequence, q.acknowledgement);
            all.iter().map(brief).collect()
        };
        assert_eq!(asked(0), [(1000, 499, 900), (22, 899, 500)]);
        assert_eq!(asked(1), [(22, 899, 500)]);
        assert_eq!(asked(2), [(1000, 499, 900)]);
        // Too early, too late, not open yet, closed, reset.
        for (flags, left_ms) in [
            (open, 20_001),
            (open, 0),
            ([SYN, 0], 5_000),
            ([SYN | FIN, SYN | FIN], 1_000),
            ([SYN, SYN | RST], 1_000),
        ] {
            assert_eq!(state(flags, 0, left_ms), [], "{flags:?} {left_ms}");
        }
        assert_eq!(state([SYN | FIN, SYN], 0, 5_000).len(), 2);
    }

    #[test]
    fn segments_are_right_to_the_last_bit() {
        for family in [Family::V4, Family::V6] {
            let question = Question {
                family,
                source: (0x0a00_0002, 22),
                destination: (0x0a00_0001, 1000),
                sequence: 0xffff_ffff,
                acknowledgement: 900,
                scope: 0,
            };
            let Segment { bytes, .. } = segment(&question, 0x1234_5678);
            let (at, half) = match family {
                Family::V4 => (20, 4),
                Family::V6 => (40, 2),
            };
            assert_eq!(bytes.len(), at + 20);
            assert_eq!(bytes[half..half + 2], [0x12, 0x34]);
            assert_eq!(bytes[at..at + 4], [0, 22, 3, 232]);
            assert_eq!(bytes[at + 4..at + 8], [255; 4]);
            assert_eq!(bytes[at + 12..at + 14], [0x50, ACK]);
            assert_eq!(bytes[at + 18..], [0x56, 0x78]);
            let addresses = &bytes[at - if at == 20 { 8 } else { 32 }..at];
            let (src, dst) = addresses.split_at(addresses.len() / 2);
            let start = pseudo(src, dst, proto::TCP, 20);
            assert_eq!(finish(sum(&bytes[at..], start)), 0);
            if at == 20 {
                assert_eq!(finish(sum(&bytes[..20], 0)), 0);
            }
        }
    }
}
