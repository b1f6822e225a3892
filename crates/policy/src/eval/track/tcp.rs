//! TCP as a filter in the middle sees it: states, and which segments can belong to a connection.
//!
//! In: a segment and its direction. Out: what to think of it ([`Outcome`]), and changed memory.
//! The states and the four window conditions are those of G. van Rooij, "Real stateful TCP packet
//! filtering in IP Filter" (2000), with window scaling (RFC 7323), selective acknowledgements
//! (RFC 2018) and the answers of RFC 5961, as Linux has them with its default settings. It does
//! not follow the sequence numbers of data, and it changes no packet.

use super::timeouts::Timeout;
use crate::model::Direction;

/// Retransmissions after which a connection gets the shorter timeout.
pub const RETRANSMISSIONS_MAX: u8 = 3;

/// The states; the numbers are those of Linux and of `weir flows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "named as in RFC 9293, seen from the middle")]
pub enum State {
    #[default]
    None = 0,
    SynSent = 1,
    SynRecv = 2,
    Established = 3,
    FinWait = 4,
    CloseWait = 5,
    LastAck = 6,
    TimeWait = 7,
    Close = 8,
    /// Both sides sent a SYN (simultaneous open).
    SynSent2 = 9,
}

/// What counts about the flags of a segment; the first that applies of RST, SYN, FIN, ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "named after the flags")]
pub enum Kind {
    Syn = 0,
    SynAck = 1,
    Fin = 2,
    Ack = 3,
    Rst = 4,
    #[default]
    None = 5,
}

/// What the state table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go to a state.
    To(State),
    /// Let it pass and remember it: the table may be out of step with the two ends.
    Ignore,
    /// It can't be part of the connection.
    Invalid,
}

/// What to think of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Part of the connection, which now lives that long from now.
    Accept(Timeout),
    /// Let it pass; the connection does not live longer for it.
    Ignore,
    /// Not part of the connection. With `shrink`, it shall live no longer than an unacknowledged
    /// one.
    Invalid {
        /// Both ends tried to end it out of the window: don't keep it for days.
        shrink: bool,
    },
    /// A new connection with the ports of one that is over: forget the old one, look again.
    Reopen,
    /// The only answer is a reset: forget the connection, let the segment pass.
    Gone,
}

/// A segment as far as tracking asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Flags.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Window field.
    pub window: u16,
    /// Payload bytes.
    pub payload: u32,
    /// Whether there are any options.
    pub options: bool,
    /// Window scale option, at most 14 (RFC 7323 section 2.3).
    pub scale: Option<u8>,
    /// SACK-permitted option.
    pub sack_permitted: bool,
    /// Highest of the acknowledgement number and the right edges of SACK blocks.
    pub sack: u32,
}

/// What is remembered of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Highest sequence number sent, plus one.
    pub end: u32,
    /// Highest sequence number that the other side allowed, plus one.
    pub max_end: u32,
    /// Largest window advertised; 0 before the first segment.
    pub max_window: u32,
    /// Highest acknowledgement sent.
    pub max_ack: u32,
    /// Whether `max_ack` is set.
    pub max_ack_set: bool,
    /// Shift of its window field.
    pub scale: u8,
    /// Sent a window scale option.
    pub scales: bool,
    /// May send SACK blocks.
    pub sack: bool,
    /// Windows are not judged (picked up in the middle, scale unknown).
    pub liberal: bool,
    /// Has sent the first FIN.
    pub close_init: bool,
    /// Has data that is not acknowledged.
    pub unacknowledged: bool,
}

/// What is remembered of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// State.
    pub state: State,
    /// The sides: original, reply.
    pub side: [Side; 2],
    /// Kind of the last segment that counted.
    pub last_kind: Kind,
    /// Whether it went in the reply direction.
    pub last_reply: bool,
    /// Acknowledgement number of the last acknowledgement.
    pub last_ack: u32,
    /// End of the last acknowledgement or ignored segment.
    pub last_end: u32,
    /// Window field of it.
    pub last_window: u16,
    /// The last acknowledgement: direction, sequence, acknowledgement, end, window.
    pub repeat: Option<(Direction, u32, u32, u32, u16)>,
    /// Identical acknowledgements seen in a row.
    pub retransmissions: u8,
    /// Options of the last ignored SYN: scale, SACK permitted.
    pub last_scale: Option<u8>,
    /// See `last_scale`.
    pub last_sack: bool,
    /// An acknowledgement that comes next answers an ignored SYN (RFC 5961 section 4), not a FIN.
    pub challenge: bool,
    /// Both sides sent a SYN.
    pub simultaneous: bool,
}

/// What tracking asks of the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Window scale, at most 14.
    pub scale: Option<u8>,
    /// SACK-permitted.
    pub sack_permitted: bool,
    /// Highest of the acknowledgement number and the right edges of SACK blocks.
    pub sack: u32,
}

/// Reads options (RFC 9293 section 3.1): up to the end-of-options byte or the first one that does
/// not fit. An option with another length than its own is skipped.
pub fn options(bytes: &[u8], acknowledgement: u32) -> Options {
    let mut out = Options {
        scale: None,
        sack_permitted: false,
        sack: acknowledgement,
    };
    let mut rest = bytes;
    while let [kind, tail @ ..] = rest {
        match kind {
            0 => break,
            1 => {
                rest = tail;
                continue;
            }
            _ => {}
        }
        let Some(&length) = tail.first() else { break };
        let length = usize::from(length);
        if length < 2 || length > rest.len() {
            break;
        }
        let body = &rest[2..length];
        match (kind, body.len()) {
            (3, 1) => out.scale = Some(body[0].min(14)),
            (4, 0) => out.sack_permitted = true,
            (5, 8 | 16 | 24 | 32) => {
                for block in body.chunks_exact(8) {
                    let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
                    if after(right, out.sack) {
                        out.sack = right;
                    }
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    out
}

/// `a` is before `b` in sequence space.
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// `a` is after `b` in sequence space.
pub fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

impl Segment {
    /// What counts about the flags.
    pub fn kind(&self) -> Kind {
        let has = |bit| self.flags & bit != 0;
        match () {
            () if has(4) => Kind::Rst,
            () if has(2) && has(16) => Kind::SynAck,
            () if has(2) => Kind::Syn,
            () if has(1) => Kind::Fin,
            () if has(16) => Kind::Ack,
            () => Kind::None,
        }
    }

    /// The sequence number after the segment: SYN and FIN take one each (RFC 9293 section 3.4).
    pub fn end(&self) -> u32 {
        let controls = u32::from(self.flags & 2 != 0) + u32::from(self.flags & 1 != 0);
        self.sequence
            .wrapping_add(self.payload)
            .wrapping_add(controls)
    }

    /// Whether the flags can occur together, PSH, ECE and CWR aside.
    pub fn flags_possible(&self) -> bool {
        const SYN: u8 = 2;
        const RST: u8 = 4;
        const ACK: u8 = 16;
        const URG: u8 = 32;
        const FIN: u8 = 1;
        matches!(
            self.flags & (FIN | SYN | RST | ACK | URG),
            SYN | 0x22 | 0x12 | RST | 0x14 | 0x11 | 0x31 | ACK | 0x30
        )
    }
}

/// The state table: what a segment of that kind does in that direction.
pub fn next(direction: Direction, kind: Kind, state: State) -> Next {
    use Next::{Ignore, Invalid, To};
    use State::*;
    let reply = direction == Direction::Reply;
    match (kind, state) {
        (Kind::None, _) => Invalid,
        (Kind::Rst, None) => Invalid,
        (Kind::Rst, _) => To(Close),

        (Kind::Syn, None | SynSent) if !reply => To(SynSent),
        (Kind::Syn, TimeWait) => To(SynSent),
        (Kind::Syn, Close) if !reply => To(SynSent),
        (Kind::Syn, SynSent2) => To(SynSent2),
        (Kind::Syn, SynSent) => To(SynSent2),
        (Kind::Syn, _) if !reply => Ignore,
        (Kind::Syn, _) => Invalid,

        (Kind::SynAck, None) => Invalid,
        (Kind::SynAck, SynSent2) => To(SynRecv),
        (Kind::SynAck, SynRecv) if !reply => To(SynRecv),
        (Kind::SynAck, SynSent) if reply => To(SynRecv),
        (Kind::SynAck, _) if reply => Ignore,
        (Kind::SynAck, _) => Invalid,

        (Kind::Fin, None | SynSent | SynSent2) => Invalid,
        (Kind::Fin, SynRecv | Established) => To(FinWait),
        (Kind::Fin, FinWait | CloseWait | LastAck) => To(LastAck),
        (Kind::Fin, TimeWait) => To(TimeWait),
        (Kind::Fin, Close) => To(Close),

        (Kind::Ack, None) if !reply => To(Established),
        (Kind::Ack, None) => Invalid,
        (Kind::Ack, SynSent | SynSent2) if reply => Ignore,
        (Kind::Ack, SynSent | SynSent2) => Invalid,
        (Kind::Ack, SynRecv) if reply => To(SynRecv),
        (Kind::Ack, SynRecv | Established) => To(Established),
        (Kind::Ack, FinWait | CloseWait) => To(CloseWait),
        (Kind::Ack, LastAck | TimeWait) => To(TimeWait),
        (Kind::Ack, Close) => To(Close),
    }
}
