//! The bytes of a flow. Twin of `bpf/flow_abi.h`: names, order, bits.
//!
//! A conversation has one [`Entry`] of one cache line, all that an IPv4 packet of an established
//! flow touches, and one [`Cold`] line: IPv6 addresses, the flow mark, what few packets ask.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What is remembered of one side of a TCP connection.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Side {
    /// Highest sequence number sent, plus one. UDP, original side: when the stream begins.
    pub end: u32,
    /// Highest sequence number that the other side allowed, plus one.
    pub max_end: u32,
    /// Largest window advertised; 0 before the first segment.
    pub max_window: u32,
    /// Highest acknowledgement sent.
    pub max_ack: u32,
}

/// The line that every packet of the flow touches.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Entry {
    /// IPv4: lower end's address, higher end's above it. IPv6: a hash of both.
    pub pair: u64,
    /// Lower end's port, higher end's above it.
    pub ports: u32,
    /// Protocol, [`meta`].
    pub meta: u16,
    /// Window scales: original side in the low half.
    pub scales: u8,
    /// Unused.
    pub pad: u8,
    /// [`control`]: what few packets change.
    pub control: u32,
    /// [`recent`]: about the last packet.
    pub recent: u32,
    /// When it ends, in milliseconds, modulo 2^32.
    pub expires: u32,
    /// End of the last acknowledgement or ignored segment.
    pub last_end: u32,
    /// Original, reply.
    pub side: [Side; 2],
}

/// The line that few packets touch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Cold {
    /// IPv6 address of the lower end.
    pub low: [u64; 2],
    /// IPv6 address of the higher end.
    pub high: [u64; 2],
    /// Packets by direction, when they are counted.
    pub packets: [u64; 2],
    /// Flow mark.
    pub mark: u32,
    /// Acknowledgement number of the last acknowledgement that was ignored before an answer.
    pub last_ack: u32,
    /// Window field of the last ignored segment.
    pub last_window: u16,
    /// Window scale of the last ignored SYN.
    pub last_scale: u8,
    /// Unused.
    pub pad: u8,
    /// Unused.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Cold>() == 64);

/// Bits of [`Entry::meta`] above the protocol.
pub mod meta {
    /// IPv6.
    pub const V6: u16 = 0x100;
    /// ICMP query whose requester is the higher end.
    pub const REQUESTER_HIGH: u16 = 0x200;
}

/// Bits of [`Entry::control`].
pub mod control {
    /// TCP state.
    pub const STATE: u32 = 0xf;
    /// The entry is in use.
    pub const USED: u32 = 1 << 4;
    /// Original packets come from the higher end.
    pub const ORIGINAL_HIGH: u32 = 1 << 5;
    /// An answer was seen.
    pub const SEEN_REPLY: u32 = 1 << 6;
    /// Established in both directions.
    pub const ASSURED: u32 = 1 << 7;
    /// Of the original side; the reply side's bits are 8 higher: `max_ack` is set.
    pub const MAX_ACK_SET: u32 = 1 << 8;
    /// Sent a window scale option.
    pub const SCALES: u32 = 1 << 9;
    /// May send SACK blocks.
    pub const SACK: u32 = 1 << 10;
    /// Windows are not judged.
    pub const LIBERAL: u32 = 1 << 11;
    /// Has sent the first FIN.
    pub const CLOSE_INIT: u32 = 1 << 12;
    /// All bits of a side.
    pub const SIDE: u32 = 0xff00;
    /// Both sides sent a SYN.
    pub const SIMULTANEOUS: u32 = 1 << 24;
    /// The next acknowledgement answers an ignored SYN.
    pub const CHALLENGE: u32 = 1 << 25;
    /// The last ignored SYN had a window scale.
    pub const LAST_SCALES: u32 = 1 << 26;
    /// The last ignored SYN permitted SACK.
    pub const LAST_SACK: u32 = 1 << 27;
}

/// Bits of [`Entry::recent`].
pub mod recent {
    /// Kind of the last segment that counted.
    pub const KIND: u32 = 7;
    /// It went in the reply direction.
    pub const REPLY: u32 = 1 << 3;
    /// Identical acknowledgements in a row, at most 3.
    pub const RETRANSMISSIONS: u32 = 3 << 4;
    /// One of those.
    pub const RETRANSMISSION: u32 = 1 << 4;
    /// The original side has unacknowledged data; reply side: one bit higher.
    pub const UNACKNOWLEDGED: u32 = 1 << 6;
    /// The last window was 0.
    pub const WINDOW_ZERO: u32 = 1 << 8;
    /// The fingerprint is set.
    pub const REPEAT: u32 = 1 << 9;
    /// From here on a fingerprint of the last acknowledgement.
    pub const FINGERPRINT_SHIFT: u32 = 10;
}

/// Names of the statistics of a table; indexes of `weir_control.flow_statistics`.
pub mod statistic {
    /// Flows begun.
    pub const INSERTED: usize = 0;
    /// Flows that were over when their place was taken or swept.
    pub const EXPIRED: usize = 1;
    /// Unanswered flows whose place was taken.
    pub const EVICTED: usize = 2;
    /// Flows that found no place: their packets passed, but are not remembered.
    pub const FULL: usize = 3;
    /// Flows that were begun by another packet at the same time.
    pub const EXISTS: usize = 4;
    /// Flows not begun because the line was locked for too long.
    pub const BUSY: usize = 5;
    /// Next slot to sweep.
    pub const CURSOR: usize = 15;
    /// How many there are.
    pub const COUNT: usize = 16;
}
