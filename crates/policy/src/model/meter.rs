//! Meters: the queue in front of a link of some rate, as arithmetic.
//!
//! A meter holds for the packets that would have found room in the queue, and charges the link with
//! them. It moves no packet: who holds packets back until the link would have sent them (a queueing
//! discipline) is not its concern, and the rate is kept without. Times are nanoseconds, rounded to
//! the nearest one for each packet.
//!
//! Source: dummynet(4) and its queues of slots or bytes, which count what waits and not the packet
//! that is being sent.

/// Longest time that anything of a meter takes: thirteen days, so that sums stay in range.
const LONGEST_NS: u64 = 1 << 50;
const BITS_NS: u128 = 8_000_000_000;

/// A queue, and the link that it feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Bits a second, counted from the network header on; 0: all that comes.
    pub rate: u64,
    /// What may wait.
    pub room: MeterRoom,
    /// Bytes that leave at once after the link was idle for long enough.
    pub burst: u64,
    /// What has a queue and a link of its own; without it there is one for all packets.
    pub key: Option<MeterKey>,
}

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterRoom {
    /// Packets that wait.
    Packets(u32),
    /// A packet finds room while no more bytes than these are still to be sent.
    Bytes(u32),
}

/// Bits that tell flows apart; packets that have not the field have zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterKey {
    /// Of the IPv4 source.
    pub src: u32,
    /// Of the IPv4 destination.
    pub dst: u32,
    /// Leading bits of the IPv6 source.
    pub src6: u8,
    /// Leading bits of the IPv6 destination.
    pub dst6: u8,
    /// Of the source port of TCP, UDP and SCTP.
    pub src_port: u16,
    /// Of their destination port.
    pub dst_port: u16,
    /// Of the protocol.
    pub proto: u8,
}

impl Meter {
    fn time(&self, bytes: u64) -> u64 {
        let rate = u128::from(self.rate.max(1));
        let time = (u128::from(bytes) * BITS_NS + rate / 2) / rate;
        u64::try_from(time).unwrap_or(LONGEST_NS).min(LONGEST_NS)
    }

    /// How long the link sends a packet.
    #[must_use]
    pub fn cost_ns(&self, length: u32) -> u64 {
        self.time(u64::from(length))
    }

    /// How long it sends what may leave at once.
    #[must_use]
    pub fn burst_ns(&self) -> u64 {
        self.time(self.burst)
    }

    /// How long it sends a queue of bytes that is full.
    #[must_use]
    pub fn room_ns(&self) -> u64 {
        match self.room {
            MeterRoom::Bytes(bytes) => self.time(u64::from(bytes)),
            MeterRoom::Packets(_) => LONGEST_NS,
        }
    }
}
