//! TCP inside a state entry: the window, the two ends' states, the lifetimes.
//!
//! In: segments. Out: whether one fits. Each end has a state as far as its packets tell; the entry
//! lives as long as the state of the end that moved last. Source: behaviour of 5.1.2; the window
//! check is van Rooij's ("Real Stateful TCP Packet Filtering in IP Filter", 2001).

use super::packet::Tcp;

/// Nothing seen.
pub const LISTEN: u8 = 0;
/// SYN sent.
pub const SYN_SENT: u8 = 1;
/// SYN received and answered.
pub const SYN_RECEIVED: u8 = 2;
/// One end seen in mid connection.
pub const HALF_ESTABLISHED: u8 = 3;
/// Open.
pub const ESTABLISHED: u8 = 4;
/// The other end closed.
pub const CLOSE_WAIT: u8 = 5;
/// Closed, not yet acknowledged.
pub const FIN_WAIT_1: u8 = 6;
/// Both closed at once.
pub const CLOSING: u8 = 7;
/// Closed after the other end.
pub const LAST_ACK: u8 = 8;
/// Waiting for stragglers (9, FIN_WAIT_2, is never entered: only senders are seen).
pub const TIME_WAIT: u8 = 10;
/// Over.
pub const CLOSED: u8 = 11;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PUSH: u8 = 8;
const ACK: u8 = 16;
const ECN: u8 = 0xc0;

/// How far an acknowledgement may be off.
const ACK_WINDOW: i64 = 66_000;

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// One past the last byte sent.
    pub end: u32,
    /// One past the last byte it may send.
    pub max_end: u32,
    /// The largest window it announced.
    pub max_window: u32,
    /// Its window scale.
    pub scale: u8,
    scale_seen: bool,
    scale_first: bool,
    sack: bool,
}

/// Whether a segment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Yes.
    Inside,
    /// Not inside the window.
    Outside,
    /// The states do not allow it.
    Wrong,
}

/// TCP's part of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Who began, and the other.
    pub ends: [End; 2],
    /// State of each end.
    pub states: [u8; 2],
    /// The state that decides how long the entry lives.
    pub queue: u8,
    /// The entry began with a SYN.
    pub from_syn: bool,
    /// In order only.
    pub strict: bool,
    /// No window check.
    pub loose: bool,
    /// The last segment did not prolong the entry.
    pub kept_time: bool,
    deleted: bool,
}

/// `a - b` on the circle of sequence numbers.
fn ahead(a: u32, b: u32) -> i64 {
    i64::from(a.wrapping_sub(b).cast_signed())
}

fn payload(tcp: &Tcp, data: u32) -> u32 {
    data.saturating_sub(tcp.header)
}

/// Payload, with SYN and FIN counting one each.
fn size(tcp: &Tcp, data: u32) -> u32 {
    payload(tcp, data) + u32::from(tcp.flags & SYN != 0) + u32::from(tcp.flags & FIN != 0)
}

impl Machine {
    /// An entry begins.
    #[must_use]
    pub fn begin(tcp: &Tcp, data: u32) -> Self {
        let mut machine = Self::default();
        let end = tcp.sequence.wrapping_add(size(tcp, data));
        let window = u32::from(tcp.window).max(1);
        machine.ends[0] = End {
            end,
            max_end: end,
            max_window: window,
            ..End::default()
        };
        machine.ends[1].max_window = 1;
        if tcp.flags & !(FIN | ACK | ECN) == SYN {
            machine.ends[0].learn(tcp);
        }
        if tcp.flags & (SYN | ACK) == SYN {
            machine.from_syn = true;
        } else {
            machine.ends[1].max_window = window * 4;
            machine.ends[1].end = tcp.acknowledgement;
            machine.ends[1].max_end = tcp.acknowledgement;
        }
        machine
    }

    /// Takes in a segment, if it fits.
    pub fn step(&mut self, tcp: &Tcp, data: u32, reverse: bool) -> Fit {
        if self.deleted {
            return Fit::Wrong;
        }
        let from = usize::from(reverse);
        let new_syn = tcp.flags & (SYN | ACK) == SYN;
        if new_syn && self.states.iter().all(|state| *state > ESTABLISHED) {
            // The ports are used again: this entry is over, the rules decide about a new one.
            self.states[1 - from] = CLOSED;
            self.deleted = true;
            return Fit::Wrong;
        }
        if !self.loose && !self.in_window(tcp, data, from) {
            return Fit::Outside;
        }
        if !self.age(tcp, data, reverse) {
            return Fit::Wrong;
        }
        let flags = tcp.flags & !(FIN | ECN);
        if flags == SYN || flags == SYN | ACK {
            self.ends[from].learn(tcp);
        }
        Fit::Inside
    }

    fn in_window(&mut self, tcp: &Tcp, data: u32, from: usize) -> bool {
        let syn = tcp.flags & SYN != 0;
        let both = [from, 1 - from].map(|at| self.ends[at]);
        let [mut sender, mut receiver] = both;
        let scale = if syn { 0 } else { sender.scale };
        let window = (u32::from(tcp.window) << scale).max(1);
        if !syn && sender.scale_first {
            sender.scale_first = false;
            sender.max_window = window;
        }
        let end = tcp.sequence.wrapping_add(size(tcp, data));
        let opening = tcp.flags & (SYN | ACK) == SYN | ACK;
        if sender.end == 0 && (!self.from_syn || opening) {
            sender.end = end.wrapping_sub(1);
            sender.max_window = 1;
            sender.max_end = end.wrapping_add(window);
        }
        let reset = tcp.flags & (ACK | RST) == ACK | RST;
        let pretended = tcp.flags & ACK == 0 || reset && tcp.acknowledgement == 0;
        let acknowledged = if pretended {
            receiver.end
        } else {
            tcp.acknowledgement
        };
        let skew = ahead(receiver.end, acknowledged);
        let fits = self.fits(tcp, &sender, &receiver, end, skew);
        if fits {
            if skew < 0 {
                receiver.end = acknowledged;
            }
            sender.max_window = sender.max_window.max(window);
            if ahead(end, sender.end) > 0 {
                sender.end = end;
            }
            let limit = acknowledged.wrapping_add(window);
            if ahead(limit, receiver.max_end) >= 0 {
                receiver.max_end = limit;
            }
        }
        self.ends[from] = sender;
        self.ends[1 - from] = receiver;
        fits
    }

    fn fits(&self, tcp: &Tcp, sender: &End, receiver: &End, end: u32, skew: i64) -> bool {
        let sequence = tcp.sequence;
        if self.strict && sequence != sender.end {
            return false;
        }
        let back = receiver.max_window;
        let low = sender.end.wrapping_sub(back);
        if ahead(sender.max_end, end) >= 0
            && ahead(sequence, low) >= 0
            && -skew <= ACK_WINDOW
            && skew <= ACK_WINDOW << sender.scale
        {
            return true;
        }
        // With SACK some senders go on to the right of the window.
        if sequence == sender.max_end && skew == 0 && sender.sack && receiver.sack {
            return true;
        }
        if sequence == 0 && tcp.flags == RST | ACK && (-1..=1).contains(&skew) {
            return true;
        }
        // A connection met in the middle, whose scale nobody knows.
        if !self.from_syn && !sender.scale_seen && !sender.scale_first {
            return sequence == sender.max_end && skew == 0
                || ahead(sequence.wrapping_add(back), low) >= 0;
        }
        false
    }

    /// Moves the sender's state; false when its state does not allow the segment.
    pub fn age(&mut self, tcp: &Tcp, data: u32, reverse: bool) -> bool {
        let from = usize::from(reverse);
        let other = self.states[1 - from];
        let mut next = self.states[from];
        let flags = tcp.flags;
        let moved = if flags & RST != 0 {
            next = match flags & PUSH == 0 && payload(tcp, data) == 0 {
                true => CLOSED,
                false => CLOSE_WAIT,
            };
            if other <= ESTABLISHED {
                self.states[1 - from] = CLOSE_WAIT;
            }
            Moved::On
        } else {
            moved(&mut next, other, flags, self.from_syn)
        };
        self.kept_time = moved != Moved::On;
        if moved == Moved::On {
            self.states[from] = next;
            self.queue = next;
        }
        moved != Moved::Wrong
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// Fits, and prolongs.
    On,
    /// Fits, and does not prolong.
    Not,
    /// Does not fit.
    Wrong,
}

/// The next state of an end that sent these flags.
fn moved(next: &mut u8, other: u8, flags: u8, from_syn: bool) -> Moved {
    let opening = flags & (SYN | ACK);
    let acknowledges = flags & (SYN | FIN | ACK) == ACK;
    let plain = flags & (FIN | SYN | RST | ACK) == ACK;
    let finishes = flags & FIN != 0;
    let to = match *next {
        LISTEN => match () {
            () if plain && !from_syn => match other {
                LISTEN | SYN_RECEIVED => HALF_ESTABLISHED,
                HALF_ESTABLISHED | ESTABLISHED => ESTABLISHED,
                _ => return Moved::Wrong,
            },
            () if opening == SYN | ACK => SYN_RECEIVED,
            () if opening == SYN => SYN_SENT,
            () => return Moved::Wrong,
        },
        SYN_SENT => match () {
            () if flags & !ECN == SYN => return Moved::Not,
            () if acknowledges => ESTABLISHED,
            () if finishes => FIN_WAIT_1,
            () if opening == SYN | ACK => SYN_RECEIVED,
            () => return Moved::Wrong,
        },
        SYN_RECEIVED => match () {
            () if acknowledges => ESTABLISHED,
            () if flags & !ECN == SYN | ACK => return Moved::Not,
            () if finishes => FIN_WAIT_1,
            () => return Moved::Wrong,
        },
        HALF_ESTABLISHED => match () {
            () if finishes => FIN_WAIT_1,
            () if plain => match other {
                LISTEN | SYN_SENT | SYN_RECEIVED => HALF_ESTABLISHED,
                HALF_ESTABLISHED | ESTABLISHED => ESTABLISHED,
                _ => return Moved::Wrong,
            },
            () => return Moved::Wrong,
        },
        ESTABLISHED => match () {
            () if finishes && other == FIN_WAIT_1 => CLOSING,
            () if finishes => FIN_WAIT_1,
            () if flags & ACK != 0 && other == FIN_WAIT_1 => CLOSE_WAIT,
            () => ESTABLISHED,
        },
        CLOSE_WAIT if finishes => LAST_ACK,
        CLOSE_WAIT => CLOSE_WAIT,
        FIN_WAIT_1 if flags & ACK != 0 && other > CLOSE_WAIT => LAST_ACK,
        FIN_WAIT_1 => FIN_WAIT_1,
        CLOSING if flags & (FIN | ACK) == ACK => TIME_WAIT,
        CLOSING => CLOSING,
        LAST_ACK if flags & ACK != 0 => LAST_ACK,
        TIME_WAIT if other == LAST_ACK => CLOSED,
        TIME_WAIT | CLOSED => return Moved::Not,
        _ => return Moved::Wrong,
    };
    *next = to;
    Moved::On
}

impl End {
    /// Options of a SYN.
    fn learn(&mut self, tcp: &Tcp) {
        if let Some(scale) = tcp.scale {
            self.scale = scale;
            (self.scale_seen, self.scale_first) = (true, true);
        }
        self.sack |= tcp.sack;
    }
}
