//! Whether a segment fits into what both sides have sent, acknowledged and allowed.
//!
//! In: the memory of a connection and a segment. Out: [`Fit`], and changed memory when it fits.
//! The four conditions: (I) the segment begins no later than the receiver's window ends, (II) it
//! ends no earlier than one window before what was sent, (III) it acknowledges nothing that was
//! not sent, (IV) it acknowledges nothing very old. See [`super::tcp`] for sources.

use super::tcp::{Kind, RETRANSMISSIONS_MAX, Segment, Side, State, Tcp, after, before};
use crate::model::Direction;

/// The judgement of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It fits.
    Yes,
    /// It is old: harmless, changes nothing.
    Old,
    /// It does not fit.
    No,
}

/// How old an acknowledgement may be, at least (the largest window without scaling, and some).
const ACK_AGE_MIN: u32 = 66_000;

/// Takes the options of a SYN. A SYN without any leaves what was known.
pub fn take_options(side: &mut Side, segment: &Segment) {
    if !segment.options {
        return;
    }
    *side = Side {
        scale: segment.scale.unwrap_or(0),
        scales: segment.scale.is_some(),
        sack: segment.sack_permitted,
        max_ack_set: false,
        close_init: false,
        unacknowledged: false,
        ..*side
    };
}

/// The first SYN of a side, or a newer one.
fn begin(tcp: &mut Tcp, direction: Direction, segment: &Segment) {
    let (me, other) = (direction as usize, 1 - direction as usize);
    let side = &mut tcp.side[me];
    side.end = segment.end();
    side.max_end = side.end;
    side.max_window = u32::from(segment.window).max(1);
    take_options(side, segment);
    let both_scale = side.scales && tcp.side[other].scales;
    if direction == Direction::Reply && !both_scale {
        tcp.side[me].scale = 0;
        tcp.side[other].scale = 0;
    }
}

/// A side whose beginning was not seen.
fn pick_up(tcp: &mut Tcp, direction: Direction, segment: &Segment, sack: u32) {
    let (me, other) = (direction as usize, 1 - direction as usize);
    let side = &mut tcp.side[me];
    side.end = segment.end();
    side.max_window = (u32::from(segment.window) << side.scale).max(1);
    side.max_end = side.end.wrapping_add(side.max_window);
    let receiver = &mut tcp.side[other];
    if receiver.max_window == 0 {
        receiver.end = sack;
        receiver.max_end = sack;
    } else if sack == receiver.end.wrapping_add(1) {
        receiver.end = sack;
    }
}

/// Judges a segment, and takes note of it when it fits.
pub fn judge(tcp: &mut Tcp, direction: Direction, kind: Kind, segment: &Segment) -> Fit {
    let (me, other) = (direction as usize, 1 - direction as usize);
    let syn = segment.flags & 2 != 0;
    let has_ack = segment.flags & 16 != 0;
    let rst = segment.flags & 4 != 0;
    let (mut sequence, mut end) = (segment.sequence, segment.end());
    let mut ack = segment.acknowledgement;
    let mut sack = if tcp.side[other].sack {
        segment.sack
    } else {
        ack
    };

    let opening = matches!(tcp.state, State::SynSent | State::SynRecv);
    if tcp.side[me].max_window == 0 {
        if syn {
            begin(tcp, direction, segment);
            if !has_ack {
                return Fit::Yes;
            }
        } else {
            pick_up(tcp, direction, segment, sack);
        }
    } else if syn && opening && after(end, tcp.side[me].end) {
        begin(tcp, direction, segment);
        if direction == Direction::Reply && !has_ack {
            return Fit::Yes;
        }
    }
    // Without an acknowledgement, and in the resets of stacks that set ACK and acknowledge 0,
    // there is nothing to judge about it.
    if !has_ack || (rst && ack == 0) {
        ack = tcp.side[other].end;
        sack = ack;
    }
    // The answer to a SYN at a closed port has no sequence number of its own.
    if rst && sequence == 0 && tcp.state == State::SynSent {
        sequence = tcp.side[me].end;
        end = sequence;
    }
    let fit = conditions(tcp, me, sequence, end, sack);
    if fit != Fit::Yes {
        let liberal = tcp.side[me].liberal;
        return if liberal { Fit::Yes } else { fit };
    }
    note(tcp, me, segment, (end, ack, sack));
    if kind == Kind::Ack {
        note_retransmission(tcp, direction, segment, (sequence, end, ack));
    }
    Fit::Yes
}

/// Conditions I to IV.
fn conditions(tcp: &mut Tcp, me: usize, sequence: u32, end: u32, sack: u32) -> Fit {
    let receiver = tcp.side[1 - me];
    let sender = &mut tcp.side[me];
    let oldest_ack = receiver
        .end
        .wrapping_sub(sender.max_window.max(ACK_AGE_MIN))
        .wrapping_sub(1);
    let oldest_end = sender.end.wrapping_sub(receiver.max_window).wrapping_sub(1);
    if !before(sequence, sender.max_end.wrapping_add(1)) {
        // Only a little more than allowed: the segment is refused, but what it carries may be
        // acknowledged, if the rules let it pass.
        let excess = end.wrapping_sub(sender.max_end).wrapping_add(1);
        if receiver.max_window != 0
            && after(end, oldest_end)
            && after(sack, oldest_ack)
            && excess <= receiver.max_window
            && before(sack, receiver.end.wrapping_add(1))
        {
            sender.end = end;
            sender.unacknowledged = true;
        }
        return Fit::No;
    }
    if !before(sack, receiver.end.wrapping_add(1)) {
        return Fit::No;
    }
    if receiver.max_window != 0 && !after(end, oldest_end) {
        return Fit::Old;
    }
    if !after(sack, oldest_ack) {
        return Fit::Old;
    }
    Fit::Yes
}

/// Takes note of a segment that fits.
fn note(tcp: &mut Tcp, me: usize, segment: &Segment, (end, ack, sack): (u32, u32, u32)) {
    let syn = segment.flags & 2 != 0;
    let sender = &mut tcp.side[me];
    let shift = if syn { 0 } else { sender.scale };
    let window = u32::from(segment.window) << shift;
    sender.max_window = sender
        .max_window
        .max(window.wrapping_add(sack.wrapping_sub(ack)));
    if after(end, sender.end) {
        sender.end = end;
        sender.unacknowledged = true;
    }
    if segment.flags & 16 != 0 && (!sender.max_ack_set || after(ack, sender.max_ack)) {
        sender.max_ack = ack;
        sender.max_ack_set = true;
    }
    let sender_max_end = sender.max_end;
    let receiver = &mut tcp.side[1 - me];
    if receiver.max_window != 0 && after(end, sender_max_end) {
        receiver.max_window = receiver
            .max_window
            .wrapping_add(end.wrapping_sub(sender_max_end));
    }
    let allowed = sack.wrapping_add(window);
    if after(allowed, receiver.max_end.wrapping_sub(1)) {
        // A closed window still lets one byte probe it.
        receiver.max_end = allowed.wrapping_add(u32::from(window == 0));
    }
    if ack == receiver.end {
        receiver.unacknowledged = false;
    }
}

/// Counts identical acknowledgements in a row.
fn note_retransmission(
    tcp: &mut Tcp,
    direction: Direction,
    segment: &Segment,
    (sequence, end, ack): (u32, u32, u32),
) {
    tcp.last_end = end;
    tcp.last_ack = ack;
    tcp.last_window = segment.window;
    let repeat = Some((direction, sequence, ack, end, segment.window));
    if tcp.repeat == repeat {
        tcp.retransmissions = (tcp.retransmissions + 1).min(RETRANSMISSIONS_MAX);
    } else {
        tcp.repeat = repeat;
        tcp.retransmissions = 0;
    }
}
