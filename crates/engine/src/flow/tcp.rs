//! TCP of a flow, on the packed entry. Twin of `bpf/flow_tcp.h`, line by line; the meaning is
//! weir-policy's `eval::track::{tcp, window, connection}`, which has the sources.

use weir_policy::eval::track::timeouts::{Timeout, Timeouts};

use super::entry::{Cold, Entry, control as c, recent as r};
use crate::packet::Key;

/// TCP states.
pub mod state {
    #![allow(missing_docs, reason = "named as in eval::track::tcp::State")]
    pub const NONE: u32 = 0;
    pub const SYN_SENT: u32 = 1;
    pub const SYN_RECV: u32 = 2;
    pub const ESTABLISHED: u32 = 3;
    pub const FIN_WAIT: u32 = 4;
    pub const CLOSE_WAIT: u32 = 5;
    pub const LAST_ACK: u32 = 6;
    pub const TIME_WAIT: u32 = 7;
    pub const CLOSE: u32 = 8;
    pub const SYN_SENT2: u32 = 9;
    /// Not a state: let it pass and remember it.
    pub const IGNORE: u32 = 10;
    /// Not a state: can't be.
    pub const INVALID: u32 = 11;
}

/// Kinds of segments.
pub mod kind {
    #![allow(missing_docs, reason = "named as in eval::track::tcp::Kind")]
    pub const SYN: u32 = 0;
    pub const SYN_ACK: u32 = 1;
    pub const FIN: u32 = 2;
    pub const ACK: u32 = 3;
    pub const RST: u32 = 4;
    pub const NONE: u32 = 5;
}

/// What to think of a segment: a timeout below 16 (accept), or one of these.
pub mod outcome {
    /// Passes, does not prolong.
    pub const IGNORE: u32 = 32;
    /// Not of the connection.
    pub const INVALID: u32 = 33;
    /// The same, and the flow shall not live for days.
    pub const SHRINK: u32 = 34;
    /// The flow is over, the ports are used again.
    pub const REOPEN: u32 = 35;
    /// Passes, ends the flow.
    pub const GONE: u32 = 36;
}

/// State table: by direction and kind, one half byte for each old state, state 0 lowest.
pub const NEXT: [u64; 12] = [
    0x91_1aaa_aa11,
    0x2b_bbbb_b2bb,
    0xb8_7666_44bb,
    0xb8_7755_33b3,
    0x88_8888_888b,
    0xbb_bbbb_bbbb,
    0x9b_1bbb_bb9b,
    0x2a_aaaa_aa2b,
    0xb8_7666_44bb,
    0xa8_7755_32ab,
    0x88_8888_888b,
    0xbb_bbbb_bbbb,
];

const ACK_AGE_MIN: u32 = 66_000;

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// The kind of a segment with these flags.
pub fn kind_of(flags: u8) -> u32 {
    if flags & 4 != 0 {
        kind::RST
    } else if flags & 2 != 0 {
        if flags & 16 != 0 {
            kind::SYN_ACK
        } else {
            kind::SYN
        }
    } else if flags & 1 != 0 {
        kind::FIN
    } else if flags & 16 != 0 {
        kind::ACK
    } else {
        kind::NONE
    }
}

/// Bit `flags & 0x37`: whether these flags can occur together.
pub const FLAGS_POSSIBLE: u64 = 1 << 0x02
    | 1 << 0x22
    | 1 << 0x12
    | 1 << 0x04
    | 1 << 0x14
    | 1 << 0x11
    | 1 << 0x31
    | 1 << 0x10
    | 1 << 0x30;

fn segment_end(p: &Key) -> u32 {
    let controls = u32::from(p.tcp_flags >> 1 & 1) + u32::from(p.tcp_flags & 1);
    p.sequence.wrapping_add(p.payload).wrapping_add(controls)
}

/// A flow's memory while a segment is judged.
struct Work<'a> {
    e: &'a mut Entry,
    cold: &'a mut Cold,
    control: u32,
    recent: u32,
    /// 0 original, 1 reply: index of the sender.
    me: usize,
}

impl Work<'_> {
    fn has(&self, side: usize, bit: u32) -> bool {
        self.control >> (8 * side) & bit != 0
    }

    fn scale(&self, side: usize) -> u32 {
        u32::from(self.e.scales >> (4 * side) & 15)
    }

    fn set_scale(&mut self, side: usize, scale: u8) {
        self.e.scales = self.e.scales & (0xf0 >> (4 * side)) | scale << (4 * side);
    }

    fn unacknowledged(&mut self, side: usize, yes: bool) {
        let bit = r::UNACKNOWLEDGED << side;
        self.recent = if yes {
            self.recent | bit
        } else {
            self.recent & !bit
        };
    }

    fn take_options(&mut self, p: &Key) {
        if p.tcp_options == 0 {
            return;
        }
        let me = self.me;
        let keep = c::LIBERAL << (8 * me) | !(c::SIDE << (8 * me));
        self.control &= keep;
        if p.tcp_scale != 0 {
            self.control |= c::SCALES << (8 * me);
        }
        if p.tcp_sack_permitted != 0 {
            self.control |= c::SACK << (8 * me);
        }
        self.set_scale(me, p.tcp_scale.saturating_sub(1));
        self.unacknowledged(me, false);
    }

    fn begin(&mut self, p: &Key, end: u32) {
        let side = &mut self.e.side[self.me];
        side.end = end;
        side.max_end = end;
        side.max_window = u32::from(p.window).max(1);
        self.take_options(p);
        if self.me == 1 && !(self.has(0, c::SCALES) && self.has(1, c::SCALES)) {
            self.e.scales = 0;
        }
    }

    fn pick_up(&mut self, p: &Key, end: u32, sack: u32) {
        let window = (u32::from(p.window) << self.scale(self.me)).max(1);
        let side = &mut self.e.side[self.me];
        side.end = end;
        side.max_window = window;
        side.max_end = end.wrapping_add(window);
        let receiver = &mut self.e.side[1 - self.me];
        if receiver.max_window == 0 {
            receiver.end = sack;
            receiver.max_end = sack;
        } else if sack == receiver.end.wrapping_add(1) {
            receiver.end = sack;
        }
    }

    /// `Ok` when the segment fits, or the outcome.
    fn judge(&mut self, kind: u32, p: &Key) -> Result<(), u32> {
        let (me, other) = (self.me, 1 - self.me);
        let syn = p.tcp_flags & 2 != 0;
        let has_ack = p.tcp_flags & 16 != 0;
        let rst = p.tcp_flags & 4 != 0;
        let (mut sequence, mut end) = (p.sequence, segment_end(p));
        let mut ack = p.acknowledgement;
        let mut sack = if self.has(other, c::SACK) {
            p.sack
        } else {
            ack
        };
        let old = self.control & c::STATE;

        if self.e.side[me].max_window == 0 {
            if syn {
                self.begin(p, end);
                if !has_ack {
                    return Ok(());
                }
            } else {
                self.pick_up(p, end, sack);
            }
        } else if syn
            && (old == state::SYN_SENT || old == state::SYN_RECV)
            && after(end, self.e.side[me].end)
        {
            self.begin(p, end);
            if me == 1 && !has_ack {
                return Ok(());
            }
        }
        if !has_ack || (rst && ack == 0) {
            ack = self.e.side[other].end;
            sack = ack;
        }
        if rst && sequence == 0 && old == state::SYN_SENT {
            sequence = self.e.side[me].end;
            end = sequence;
        }
        if let Err(outcome) = self.conditions(sequence, end, sack) {
            return if self.has(me, c::LIBERAL) {
                Ok(())
            } else {
                Err(outcome)
            };
        }
        self.note(p, end, ack, sack);
        if kind == kind::ACK {
            self.note_retransmission(p, sequence, end, ack);
        }
        Ok(())
    }

    fn conditions(&mut self, sequence: u32, end: u32, sack: u32) -> Result<(), u32> {
        let receiver = self.e.side[1 - self.me];
        let sender = &mut self.e.side[self.me];
        let oldest_ack = receiver
            .end
            .wrapping_sub(sender.max_window.max(ACK_AGE_MIN))
            .wrapping_sub(1);
        let oldest_end = sender.end.wrapping_sub(receiver.max_window).wrapping_sub(1);
        if !before(sequence, sender.max_end.wrapping_add(1)) {
            let excess = end.wrapping_sub(sender.max_end).wrapping_add(1);
            if receiver.max_window != 0
                && after(end, oldest_end)
                && after(sack, oldest_ack)
                && excess <= receiver.max_window
                && before(sack, receiver.end.wrapping_add(1))
            {
                sender.end = end;
                self.unacknowledged(self.me, true);
            }
            return Err(outcome::INVALID);
        }
        if !before(sack, receiver.end.wrapping_add(1)) {
            return Err(outcome::INVALID);
        }
        if receiver.max_window != 0 && !after(end, oldest_end) {
            return Err(outcome::IGNORE);
        }
        if !after(sack, oldest_ack) {
            return Err(outcome::IGNORE);
        }
        Ok(())
    }

    fn note(&mut self, p: &Key, end: u32, ack: u32, sack: u32) {
        let me = self.me;
        let shift = if p.tcp_flags & 2 != 0 {
            0
        } else {
            self.scale(me)
        };
        let window = u32::from(p.window) << shift;
        let sender = &mut self.e.side[me];
        sender.max_window = sender
            .max_window
            .max(window.wrapping_add(sack.wrapping_sub(ack)));
        if after(end, sender.end) {
            sender.end = end;
            self.recent |= r::UNACKNOWLEDGED << me;
        }
        let known = self.control >> (8 * me) & c::MAX_ACK_SET != 0;
        if p.tcp_flags & 16 != 0 && (!known || after(ack, sender.max_ack)) {
            sender.max_ack = ack;
            self.control |= c::MAX_ACK_SET << (8 * me);
        }
        let sender_max_end = sender.max_end;
        let receiver = &mut self.e.side[1 - me];
        if receiver.max_window != 0 && after(end, sender_max_end) {
            receiver.max_window = receiver
                .max_window
                .wrapping_add(end.wrapping_sub(sender_max_end));
        }
        let allowed = sack.wrapping_add(window);
        if after(allowed, receiver.max_end.wrapping_sub(1)) {
            receiver.max_end = allowed.wrapping_add(u32::from(window == 0));
        }
        if ack == receiver.end {
            self.unacknowledged(1 - me, false);
        }
    }

    fn note_retransmission(&mut self, p: &Key, sequence: u32, end: u32, ack: u32) {
        let mixed = (u64::from(sequence) << 32 | u64::from(ack))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(end) << 32 | u64::from(p.window) << 1 | self.me as u64)
                .wrapping_mul(0xd6e8_feb8_6659_fd93);
        let print = r::REPEAT | ((mixed >> 42) as u32) << r::FINGERPRINT_SHIFT;
        let mask = r::REPEAT | !0 << r::FINGERPRINT_SHIFT;
        self.e.last_end = end;
        self.recent &= !r::WINDOW_ZERO;
        if p.window == 0 {
            self.recent |= r::WINDOW_ZERO;
        }
        if self.recent & mask == print {
            if self.recent & r::RETRANSMISSIONS != r::RETRANSMISSIONS {
                self.recent += r::RETRANSMISSION;
            }
        } else {
            self.recent = self.recent & !mask & !r::RETRANSMISSIONS | print;
        }
    }

    fn last_kind(&self) -> u32 {
        self.recent & r::KIND
    }

    fn last_is_mine(&self) -> bool {
        (self.recent & r::REPLY != 0) == (self.me == 1)
    }

    fn set_last(&mut self, kind: u32) {
        self.recent = self.recent & !(r::KIND | r::REPLY) | kind | (self.me as u32) << 3;
    }

    /// Before the windows: `Err` when that decides, else old state, new state, whether to judge.
    fn states(&mut self, kind: u32, p: &Key) -> Result<(u32, u32, bool), u32> {
        let old = self.control & c::STATE;
        let new = (NEXT[self.me * 6 + kind as usize] >> (4 * old)) as u32 & 15;
        match new {
            state::INVALID => return Err(outcome::INVALID),
            state::IGNORE => return self.ignore(kind, p),
            state::SYN_SENT if old == state::TIME_WAIT || old == state::CLOSE => {
                let closed = self.has(0, c::CLOSE_INIT) || self.has(1, c::CLOSE_INIT);
                if closed || (self.last_is_mine() && self.last_kind() == kind::RST) {
                    return Err(outcome::REOPEN);
                }
                return self.ignore(kind, p);
            }
            state::TIME_WAIT
                if old == state::LAST_ACK
                    && kind == kind::ACK
                    && !self.last_is_mine()
                    && self.last_kind() == kind::SYN
                    && self.control & c::CHALLENGE != 0 =>
            {
                self.control &= !c::CHALLENGE;
                return Err(outcome::IGNORE);
            }
            state::SYN_SENT2 => self.control |= c::SIMULTANEOUS,
            state::SYN_RECV
                if self.me == 1 && kind == kind::ACK && self.control & c::SIMULTANEOUS != 0 =>
            {
                return Ok((old, state::ESTABLISHED, true));
            }
            state::CLOSE if kind == kind::RST => return self.reset(p),
            _ => {}
        }
        Ok((old, new, true))
    }

    fn ignore(&mut self, kind: u32, p: &Key) -> Result<(u32, u32, bool), u32> {
        let old = self.control & c::STATE;
        if kind == kind::SYN_ACK
            && self.last_kind() == kind::SYN
            && !self.last_is_mine()
            && p.acknowledgement == self.e.last_end
        {
            let opener = 1 - self.me;
            self.e.side[opener].end = self.e.last_end;
            self.e.side[opener].max_end = self.e.last_end;
            self.e.side[opener].max_window = u32::from(self.cold.last_window).max(1);
            self.e.side[self.me] = Default::default();
            let mut bits = 0;
            if self.control & c::LAST_SCALES != 0 {
                bits |= c::SCALES;
            }
            if self.control & c::LAST_SACK != 0 {
                bits |= c::SACK;
            }
            self.control &= !(c::SIDE | c::SIDE << 8 | c::CHALLENGE);
            self.control |= bits << (8 * opener);
            self.e.scales = 0;
            self.set_scale(opener, self.cold.last_scale);
            self.recent &= !(r::UNACKNOWLEDGED | r::UNACKNOWLEDGED << 1);
            return Ok((state::SYN_SENT, state::SYN_RECV, true));
        }
        self.set_last(kind);
        self.e.last_end = segment_end(p);
        self.cold.last_window = p.window;
        self.recent &= !r::WINDOW_ZERO;
        if p.window == 0 {
            self.recent |= r::WINDOW_ZERO;
        }
        if kind == kind::SYN && self.me == 0 {
            let clear = c::LAST_SCALES | c::LAST_SACK | c::CHALLENGE | c::SIMULTANEOUS;
            self.control &= !clear;
            if p.tcp_scale != 0 {
                self.control |= c::LAST_SCALES;
            }
            if p.tcp_sack_permitted != 0 {
                self.control |= c::LAST_SACK;
            }
            if old == state::LAST_ACK {
                self.control |= c::CHALLENGE;
            }
            self.cold.last_scale = p.tcp_scale.saturating_sub(1);
        }
        if old == state::SYN_SENT && kind == kind::ACK && self.me == 1 {
            self.cold.last_ack = p.acknowledgement;
        }
        Err(outcome::IGNORE)
    }

    fn reset(&self, p: &Key) -> Result<(u32, u32, bool), u32> {
        let old = self.control & c::STATE;
        let mut new = state::CLOSE;
        if (state::FIN_WAIT..=state::CLOSE).contains(&old) || old == state::NONE {
            return Ok((old, new, false));
        }
        let assured = self.control & c::ASSURED != 0;
        let answered = self.control & c::SEEN_REPLY != 0;
        let established = old == state::ESTABLISHED && assured;
        let other = 1 - self.me;
        if self.has(other, c::MAX_ACK_SET) && self.last_kind() != kind::SYN {
            let max_ack = self.e.side[other].max_ack;
            if p.sequence == 0 && !established {
                return Ok((old, new, true));
            }
            if before(p.sequence, max_ack) {
                return Err(outcome::INVALID);
            }
            let follows = self.last_kind() == kind::ACK
                && self.last_is_mine()
                && p.sequence == self.e.last_end;
            if !established || p.sequence == max_ack || follows {
                return Ok((old, new, true));
            }
            new = old;
        }
        let answers_ignored = (answered && self.last_kind() == kind::SYN)
            || (!assured && self.last_kind() == kind::ACK);
        let answers_challenge = old == state::SYN_SENT
            && self.last_kind() == kind::ACK
            && self.recent & r::REPLY != 0
            && self.cold.last_ack == p.sequence;
        let within = (answers_ignored && p.acknowledgement == self.e.last_end) || answers_challenge;
        Ok((old, new, !within))
    }

    fn refused(&mut self, kind: u32, left: u32, timeouts: &Timeouts) -> u32 {
        if self.control & c::ASSURED == 0 || (kind != kind::RST && kind != kind::FIN) {
            return outcome::INVALID;
        }
        let last = self.last_kind();
        if self.last_is_mine() || (last != kind::RST && last != kind::FIN) {
            self.set_last(kind);
            return outcome::INVALID;
        }
        if left >= 120_000 && left > timeouts.get(Timeout::TcpUnacknowledged) {
            return outcome::SHRINK;
        }
        outcome::INVALID
    }

    fn timeout(&self, kind: u32, new: u32, timeouts: &Timeouts) -> u32 {
        let of_state = timeouts.0[new as usize];
        let shorter = |which: Timeout| of_state > timeouts.get(which);
        if self.recent & r::RETRANSMISSIONS == r::RETRANSMISSIONS
            && shorter(Timeout::TcpRetransmission)
        {
            return Timeout::TcpRetransmission as u32;
        }
        if kind == kind::RST {
            return Timeout::TcpClose as u32;
        }
        let waiting = r::UNACKNOWLEDGED | r::UNACKNOWLEDGED << 1;
        if self.recent & waiting != 0 && shorter(Timeout::TcpUnacknowledged) {
            return Timeout::TcpUnacknowledged as u32;
        }
        if self.recent & r::WINDOW_ZERO != 0 && shorter(Timeout::TcpRetransmission) {
            return Timeout::TcpRetransmission as u32;
        }
        new
    }

    fn segment(&mut self, p: &Key, left: u32, timeouts: &Timeouts) -> u32 {
        let kind = kind_of(p.tcp_flags);
        let (old, new, judged) = match self.states(kind, p) {
            Ok(next) => next,
            Err(outcome) => return outcome,
        };
        if judged {
            match self.judge(kind, p) {
                Ok(()) => {}
                Err(outcome::IGNORE) => return outcome::IGNORE,
                Err(_) => return self.refused(kind, left, timeouts),
            }
        }
        self.set_last(kind);
        self.control = self.control & !c::STATE | new;
        if old != new && new == state::FIN_WAIT {
            self.control |= c::CLOSE_INIT << (8 * self.me);
        }
        let timeout = self.timeout(kind, new, timeouts);
        if self.control & c::SEEN_REPLY == 0 {
            if kind == kind::RST {
                return outcome::GONE;
            }
            if kind == kind::SYN && old == state::SYN_SENT {
                return outcome::IGNORE;
            }
            let limit = timeouts.get(Timeout::TcpUnacknowledged);
            if new == state::ESTABLISHED && timeouts.0[timeout as usize] > limit {
                return Timeout::TcpUnacknowledged as u32;
            }
            return timeout;
        }
        if new == state::ESTABLISHED && (old == state::SYN_RECV || old == state::ESTABLISHED) {
            self.control |= c::ASSURED;
        }
        timeout
    }
}

/// Judges a segment of a flow; `reply`: its direction. A timeout below 16, or an [`outcome`].
pub fn segment(
    e: &mut Entry,
    cold: &mut Cold,
    p: &Key,
    reply: bool,
    now: u32,
    timeouts: &Timeouts,
) -> u32 {
    let left = e.expires.wrapping_sub(now);
    let (control, recent) = (e.control, e.recent);
    let mut work = Work {
        e,
        cold,
        control,
        recent,
        me: usize::from(reply),
    };
    let outcome = work.segment(p, left, timeouts);
    let (control, recent) = (work.control, work.recent);
    e.control = control;
    e.recent = recent;
    outcome
}

/// The memory of a connection that begins with this segment (a SYN or an acknowledgement), and
/// its timeout.
pub fn open(e: &mut Entry, cold: &mut Cold, p: &Key, timeouts: &Timeouts) -> u32 {
    let end = segment_end(p);
    let window = u32::from(p.window).max(1);
    e.side[0].end = end;
    e.side[0].max_window = window;
    if p.tcp_flags & 2 != 0 {
        e.side[0].max_end = end;
        e.side[1].max_end = window;
        let (control, recent) = (e.control, kind::SYN | r::WINDOW_ZERO);
        let mut work = Work {
            e,
            cold,
            control,
            recent,
            me: 0,
        };
        work.take_options(p);
        let (control, recent) = (work.control, work.recent);
        e.control = control | state::SYN_SENT;
        e.recent = recent;
        return Timeout::TcpSynSent as u32;
    }
    e.side[0].max_end = end.wrapping_add(window);
    e.recent = kind::ACK | r::WINDOW_ZERO;
    let bits = c::SACK | c::LIBERAL;
    e.control |= bits | bits << 8 | state::ESTABLISHED;
    if timeouts.get(Timeout::TcpEstablished) > timeouts.get(Timeout::TcpUnacknowledged) {
        return Timeout::TcpUnacknowledged as u32;
    }
    Timeout::TcpEstablished as u32
}
