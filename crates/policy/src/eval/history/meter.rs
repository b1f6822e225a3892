//! Meters, the reference: what would have found room in a queue.
//!
//! In: packets, the clock. Out: whether each finds room; then the link is busy for longer. A key
//! that nobody has seen has an idle link.

use std::collections::{HashMap, VecDeque};

use crate::model::{Family, Meter, MeterRoom, Packet};

const NS_A_MS: u64 = 1_000_000;

/// What is kept apart: family, addresses, ports, protocol; all zero without a key.
pub type MeterFlow = (bool, [u128; 2], [u16; 2], u8);

/// One queue and its link.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// When the link has sent everything.
    free_ns: u64,
    /// When the latest packets begin to be sent; as many as may wait.
    starts: VecDeque<u64>,
}

impl Queue {
    fn take(&mut self, meter: &Meter, length: u32, now_ms: u64) -> bool {
        if meter.rate == 0 {
            return true;
        }
        let now = now_ms * NS_A_MS;
        let start = self.free_ns.max(now.saturating_sub(meter.burst_ns()));
        let fits = match meter.room {
            MeterRoom::Packets(slots) => {
                let waiting = self.starts.iter().filter(|start| **start > now).count();
                waiting < slots.max(1) as usize
            }
            MeterRoom::Bytes(_) => self.free_ns.saturating_sub(now) <= meter.room_ns(),
        };
        if fits {
            self.free_ns = start + meter.cost_ns(length);
            self.starts.push_back(start);
            let most = match meter.room {
                MeterRoom::Packets(slots) => slots.max(1) as usize,
                MeterRoom::Bytes(_) => 0,
            };
            while self.starts.len() > most {
                self.starts.pop_front();
            }
        }
        fits
    }
}

/// The queues of one meter.
#[derive(Clone, Debug, Default)]
pub struct Queues(HashMap<MeterFlow, Queue>);

impl Queues {
    /// Whether a packet finds room; if so, it takes it.
    pub fn take(&mut self, meter: &Meter, flow: MeterFlow, length: u32, now_ms: u64) -> bool {
        let queue = self.0.entry(flow).or_default();
        queue.take(meter, length, now_ms)
    }
}

/// What a meter keeps apart of addresses, ports and protocol.
#[must_use]
pub fn flow_of(
    meter: &Meter,
    family: Family,
    addresses: [u128; 2],
    ports: [u16; 2],
    proto: u8,
) -> MeterFlow {
    let Some(key) = &meter.key else {
        return MeterFlow::default();
    };
    let leading = |address: u128, bits: u8| {
        let cleared = 128 - u32::from(bits.min(128));
        address
            .checked_shr(cleared)
            .and_then(|kept| kept.checked_shl(cleared))
            .unwrap_or(0)
    };
    let [src, dst] = addresses;
    let addresses = match family {
        Family::V4 => [src & u128::from(key.src), dst & u128::from(key.dst)],
        Family::V6 => [leading(src, key.src6), leading(dst, key.dst6)],
    };
    let ports = [ports[0] & key.src_port, ports[1] & key.dst_port];
    (family == Family::V6, addresses, ports, proto & key.proto)
}

/// The same of a packet.
pub(super) fn flow_of_packet(meter: &Meter, packet: &Packet) -> MeterFlow {
    let (src, dst) = packet.ports().unwrap_or((0, 0));
    flow_of(
        meter,
        packet.family,
        [packet.src, packet.dst],
        [src, dst],
        packet.proto,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(meter: &Meter, packets: &[(u64, u32)]) -> Vec<bool> {
        let mut queues = Queues::default();
        let take =
            |(now, length): &(u64, u32)| queues.take(meter, MeterFlow::default(), *length, *now);
        packets.iter().map(take).collect()
    }

    const METER: Meter = Meter {
        rate: 1_000_000,
        room: MeterRoom::Packets(2),
        burst: 0,
        key: None,
    };

    #[test]
    fn one_is_sent_while_two_wait() {
        // 1000 bytes are 8 ms; the fourth finds two waiting behind the one on the link.
        let held = leaves(
            &METER,
            &[
                (0, 1000),
                (0, 1000),
                (0, 1000),
                (0, 1000),
                (7, 1000),
                (8, 1000),
                (9, 1000),
            ],
        );
        assert_eq!(held, [true, true, true, false, false, true, false]);
    }

    #[test]
    fn a_queue_of_bytes_counts_what_is_still_to_be_sent() {
        let meter = Meter {
            room: MeterRoom::Bytes(1500),
            ..METER
        };
        let held = leaves(&meter, &[(0, 1000), (0, 1000), (0, 1000), (3, 1), (4, 1)]);
        assert_eq!(held, [true, true, false, false, true]);
    }

    #[test]
    fn a_burst_leaves_ahead_of_the_rate() {
        let meter = Meter {
            burst: 3000,
            room: MeterRoom::Packets(1),
            ..METER
        };
        let at = [(1000, 1000); 7];
        let held = leaves(&meter, &at);
        assert_eq!(held, [true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_link_without_a_rate_takes_all() {
        let meter = Meter { rate: 0, ..METER };
        assert!(leaves(&meter, &[(0, 60_000); 300]).iter().all(|held| *held));
    }
}
