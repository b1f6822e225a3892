//! The life of a TCP connection, segment by segment: the state table, its exceptions, the windows.
//!
//! In: memory, a segment, its direction, and whether the flow has seen an answer and is assured.
//! Out: an [`Outcome`] and changed memory. See [`super::tcp`] for sources.

use super::tcp::{Kind, Next, Outcome, RETRANSMISSIONS_MAX, Segment, State, Tcp, before, next};
use super::timeouts::{Timeout, Timeouts};
use super::window::{self, Fit, take_options};
use crate::model::Direction;

/// What the flow knows besides the connection.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// An answer was seen before this segment.
    pub answered: bool,
    /// The connection was established in both directions.
    pub assured: bool,
    /// Milliseconds the flow has left.
    pub left_ms: u32,
}

/// A connection that begins with this segment and its timeout, or `None` when it can't begin one.
/// A connection may be picked up in the middle; then its windows are not judged, since the scale
/// is unknown, and it does not live long before it is answered.
pub fn open(segment: &Segment, timeouts: &Timeouts) -> Option<(Tcp, Timeout)> {
    let Next::To(state) = next(Direction::Original, segment.kind(), State::None) else {
        return None;
    };
    let mut tcp = Tcp {
        state,
        last_kind: segment.kind(),
        ..Tcp::default()
    };
    let [side, other] = &mut tcp.side;
    side.end = segment.end();
    side.max_window = u32::from(segment.window).max(1);
    if state == State::SynSent {
        side.max_end = side.end;
        other.max_end = side.max_window;
        take_options(side, segment);
        return Some((tcp, Timeout::TcpSynSent));
    }
    side.max_end = side.end.wrapping_add(side.max_window);
    for side in [side, other] {
        side.sack = true;
        side.liberal = true;
    }
    let unacknowledged = timeouts.get(Timeout::TcpUnacknowledged);
    let timeout = if timeouts.get(Timeout::TcpEstablished) > unacknowledged {
        Timeout::TcpUnacknowledged
    } else {
        Timeout::TcpEstablished
    };
    Some((tcp, timeout))
}

/// What comes before the windows are judged.
enum Before {
    Judge { old: State, new: State },
    Within { old: State, new: State },
    Decided(Outcome),
}

/// Judges a segment of a connection.
pub fn segment(
    tcp: &mut Tcp,
    direction: Direction,
    segment: &Segment,
    known: Known,
    timeouts: &Timeouts,
) -> (Outcome, bool) {
    let kind = segment.kind();
    let (old, new, judged) = match states(tcp, direction, kind, segment, known) {
        Before::Decided(outcome) => return (outcome, false),
        Before::Judge { old, new } => (old, new, true),
        Before::Within { old, new } => (old, new, false),
    };
    if judged {
        match window::judge(tcp, direction, kind, segment) {
            Fit::Yes => {}
            Fit::Old => return (Outcome::Ignore, false),
            Fit::No => return (refused(tcp, direction, kind, known, timeouts), false),
        }
    }
    tcp.last_kind = kind;
    tcp.last_reply = direction == Direction::Reply;
    tcp.state = new;
    if old != new && new == State::FinWait {
        tcp.side[direction as usize].close_init = true;
    }
    let mut timeout = timeout(tcp, kind, timeouts);
    if !known.answered {
        if kind == Kind::Rst {
            return (Outcome::Gone, false);
        }
        // Repeating a SYN must not keep a flow alive for ever.
        if kind == Kind::Syn && old == State::SynSent {
            return (Outcome::Ignore, false);
        }
        if new == State::Established
            && timeouts.get(timeout) > timeouts.get(Timeout::TcpUnacknowledged)
        {
            timeout = Timeout::TcpUnacknowledged;
        }
        return (Outcome::Accept(timeout), false);
    }
    let assure = matches!(old, State::SynRecv | State::Established) && new == State::Established;
    (Outcome::Accept(timeout), assure)
}

/// The state table and its exceptions.
fn states(
    tcp: &mut Tcp,
    direction: Direction,
    kind: Kind,
    segment: &Segment,
    known: Known,
) -> Before {
    let old = tcp.state;
    let reply = direction == Direction::Reply;
    let new = match next(direction, kind, old) {
        Next::Invalid => return Before::Decided(Outcome::Invalid { shrink: false }),
        Next::Ignore => return ignore(tcp, direction, kind, segment),
        Next::To(new) => new,
    };
    match new {
        State::SynSent if old >= State::TimeWait => {
            let closed = tcp.side.iter().any(|s| s.close_init);
            let reset_by_same = tcp.last_reply == reply && tcp.last_kind == Kind::Rst;
            if closed || reset_by_same {
                return Before::Decided(Outcome::Reopen);
            }
            return ignore(tcp, direction, kind, segment);
        }
        State::TimeWait
            if old == State::LastAck
                && kind == Kind::Ack
                && tcp.last_reply != reply
                && tcp.last_kind == Kind::Syn
                && tcp.challenge =>
        {
            tcp.challenge = false;
            return Before::Decided(Outcome::Ignore);
        }
        State::SynSent2 => tcp.simultaneous = true,
        State::SynRecv if reply && kind == Kind::Ack && tcp.simultaneous => {
            return Before::Judge {
                old,
                new: State::Established,
            };
        }
        State::Close if kind == Kind::Rst => return reset(tcp, direction, segment, known),
        _ => {}
    }
    Before::Judge { old, new }
}

/// A segment that passes because the table may be out of step with the ends.
fn ignore(tcp: &mut Tcp, direction: Direction, kind: Kind, segment: &Segment) -> Before {
    let old = tcp.state;
    let reply = direction == Direction::Reply;
    if kind == Kind::SynAck
        && tcp.last_kind == Kind::Syn
        && tcp.last_reply != reply
        && segment.acknowledgement == tcp.last_end
    {
        // It answers a SYN that was ignored: the ends agree, so follow them.
        let opener = &mut tcp.side[usize::from(tcp.last_reply)];
        *opener = super::tcp::Side {
            end: tcp.last_end,
            max_end: tcp.last_end,
            max_window: u32::from(tcp.last_window).max(1),
            max_ack: opener.max_ack,
            scale: tcp.last_scale.unwrap_or(0),
            scales: tcp.last_scale.is_some(),
            sack: tcp.last_sack,
            ..Default::default()
        };
        tcp.challenge = false;
        tcp.side[direction as usize] = super::tcp::Side::default();
        return Before::Judge {
            old: State::SynSent,
            new: State::SynRecv,
        };
    }
    tcp.last_kind = kind;
    tcp.last_reply = reply;
    tcp.last_end = segment.end();
    tcp.last_window = segment.window;
    if kind == Kind::Syn && !reply {
        tcp.last_scale = segment.scale;
        tcp.last_sack = segment.sack_permitted;
        tcp.challenge = old == State::LastAck;
        tcp.simultaneous = false;
    }
    if old == State::SynSent && kind == Kind::Ack && reply {
        tcp.last_ack = segment.acknowledgement;
    }
    Before::Decided(Outcome::Ignore)
}

/// A reset. It counts when it has exactly the sequence number that was acknowledged last, or
/// follows the data before it; otherwise the peer may still challenge it (RFC 5961 section 3).
fn reset(tcp: &Tcp, direction: Direction, segment: &Segment, known: Known) -> Before {
    let old = tcp.state;
    let reply = direction == Direction::Reply;
    let mut new = State::Close;
    // In a closing connection the ports may be in use again already.
    if !matches!(
        old,
        State::SynSent | State::SynRecv | State::SynSent2 | State::Established
    ) {
        return Before::Within { old, new };
    }
    let established = old == State::Established && known.assured;
    let receiver = &tcp.side[1 - direction as usize];
    if receiver.max_ack_set && tcp.last_kind != Kind::Syn {
        let sequence = segment.sequence;
        if sequence == 0 && !established {
            return Before::Judge { old, new };
        }
        if before(sequence, receiver.max_ack) {
            return Before::Decided(Outcome::Invalid { shrink: false });
        }
        let follows =
            tcp.last_kind == Kind::Ack && tcp.last_reply == reply && sequence == tcp.last_end;
        if !established || sequence == receiver.max_ack || follows {
            return Before::Judge { old, new };
        }
        new = old;
    }
    let answers_ignored = (known.answered && tcp.last_kind == Kind::Syn)
        || (!known.assured && tcp.last_kind == Kind::Ack);
    let answers_challenge = old == State::SynSent
        && tcp.last_kind == Kind::Ack
        && tcp.last_reply
        && tcp.last_ack == segment.sequence;
    if (answers_ignored && segment.acknowledgement == tcp.last_end) || answers_challenge {
        return Before::Within { old, new };
    }
    Before::Judge { old, new }
}

/// A segment out of the windows. Two attempts to end the connection, one from each side, mean
/// that it is probably over and that this memory is out of step.
fn refused(
    tcp: &mut Tcp,
    direction: Direction,
    kind: Kind,
    known: Known,
    timeouts: &Timeouts,
) -> Outcome {
    let reply = direction == Direction::Reply;
    let mut shrink = false;
    if known.assured && matches!(kind, Kind::Rst | Kind::Fin) {
        if tcp.last_reply != reply && matches!(tcp.last_kind, Kind::Rst | Kind::Fin) {
            let limit = timeouts.get(Timeout::TcpUnacknowledged);
            shrink = known.left_ms >= 120_000 && known.left_ms > limit;
        } else {
            tcp.last_kind = kind;
            tcp.last_reply = reply;
        }
    }
    Outcome::Invalid { shrink }
}

/// How long a connection in this state lives.
fn timeout(tcp: &Tcp, kind: Kind, timeouts: &Timeouts) -> Timeout {
    let of_state = match tcp.state {
        State::None => Timeout::Generic,
        State::SynSent => Timeout::TcpSynSent,
        State::SynRecv => Timeout::TcpSynRecv,
        State::Established => Timeout::TcpEstablished,
        State::FinWait => Timeout::TcpFinWait,
        State::CloseWait => Timeout::TcpCloseWait,
        State::LastAck => Timeout::TcpLastAck,
        State::TimeWait => Timeout::TcpTimeWait,
        State::Close => Timeout::TcpClose,
        State::SynSent2 => Timeout::TcpSynSent2,
    };
    let longer_than = |other| timeouts.get(of_state) > timeouts.get(other);
    if tcp.retransmissions >= RETRANSMISSIONS_MAX && longer_than(Timeout::TcpRetransmission) {
        return Timeout::TcpRetransmission;
    }
    if kind == Kind::Rst {
        return Timeout::TcpClose;
    }
    let waiting = tcp.side.iter().any(|s| s.unacknowledged);
    if waiting && longer_than(Timeout::TcpUnacknowledged) {
        return Timeout::TcpUnacknowledged;
    }
    if tcp.last_window == 0 && longer_than(Timeout::TcpRetransmission) {
        return Timeout::TcpRetransmission;
    }
    of_state
}
