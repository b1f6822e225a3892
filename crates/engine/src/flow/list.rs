//! Flows of a table for people: `weir flows`, replay, tests.
//!
//! In: the bytes of a table as the kernel map has them, or a [`super::FlowTable`]. Out: one
//! [`Flow`] for each that lives. The kernel goes on changing its table meanwhile; an entry that is
//! half-written is possible and harmless to read.

use zerocopy::FromBytes;

use super::entry::{Cold, Entry, control as c, meta};
use super::table::{FlowTable, Layout, lives};
use super::tcp::state;

/// A flow. Original direction; the reply goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// 4 or 6.
    pub family: u8,
    /// Protocol.
    pub proto: u8,
    /// Source of the original direction; IPv4 in the low 32 bits.
    pub src: u128,
    /// Its destination.
    pub dst: u128,
    /// Its source port, or the identifier of an ICMP query.
    pub src_port: u16,
    /// Its destination port, or type and code of an ICMP query.
    pub dst_port: u16,
    /// TCP state; 0 for other protocols.
    pub state: u8,
    /// An answer was seen.
    pub answered: bool,
    /// Established in both directions.
    pub assured: bool,
    /// Milliseconds left.
    pub left_ms: u32,
    /// Flow mark.
    pub mark: u32,
    /// Packets by direction, zeros when they are not counted.
    pub packets: [u64; 2],
}

/// The name of a TCP state.
pub fn state_name(number: u8) -> &'static str {
    match u32::from(number) {
        state::SYN_SENT => "SYN_SENT",
        state::SYN_RECV => "SYN_RECV",
        state::ESTABLISHED => "ESTABLISHED",
        state::FIN_WAIT => "FIN_WAIT",
        state::CLOSE_WAIT => "CLOSE_WAIT",
        state::LAST_ACK => "LAST_ACK",
        state::TIME_WAIT => "TIME_WAIT",
        state::CLOSE => "CLOSE",
        state::SYN_SENT2 => "SYN_SENT2",
        _ => "NONE",
    }
}

fn address(halves: [u64; 2]) -> u128 {
    u128::from(halves[0]) << 64 | u128::from(halves[1])
}

/// An entry as a flow, if it lives.
pub fn flow(entry: &Entry, cold: &Cold, now_ms: u64) -> Option<Flow> {
    let now = now_ms as u32;
    if !lives(entry, now) {
        return None;
    }
    let v6 = entry.meta & meta::V6 != 0;
    let (low, high) = if v6 {
        (address(cold.low), address(cold.high))
    } else {
        (u128::from(entry.pair as u32), u128::from(entry.pair >> 32))
    };
    let (low_port, high_port) = (entry.ports as u16, (entry.ports >> 16) as u16);
    let reverse = entry.control & c::ORIGINAL_HIGH != 0;
    Some(Flow {
        family: if v6 { 6 } else { 4 },
        proto: entry.meta as u8,
        src: if reverse { high } else { low },
        dst: if reverse { low } else { high },
        src_port: if reverse { high_port } else { low_port },
        dst_port: if reverse { low_port } else { high_port },
        state: (entry.control & c::STATE) as u8,
        answered: entry.control & c::SEEN_REPLY != 0,
        assured: entry.control & c::ASSURED != 0,
        left_ms: entry.expires.wrapping_sub(now),
        mark: cold.mark,
        packets: cold.packets,
    })
}

/// All living flows in the bytes of a table.
pub fn flows(bytes: &[u8], layout: Layout, now_ms: u64) -> impl Iterator<Item = Flow> {
    (0..layout.slots() as usize).filter_map(move |slot| {
        let at = |offset| bytes.get(offset + slot * 64..);
        let (entry, _) = Entry::read_from_prefix(at(layout.entries())?).ok()?;
        let (cold, _) = Cold::read_from_prefix(at(layout.cold())?).ok()?;
        flow(&entry, &cold, now_ms)
    })
}

impl FlowTable {
    /// All living flows.
    pub fn flows(&self, now_ms: u64) -> impl Iterator<Item = Flow> {
        self.entries
            .iter()
            .zip(&self.cold)
            .filter_map(move |(entry, cold)| flow(entry, cold, now_ms))
    }

    /// The flow of a packet's reference: of the table, not of a packet that begins one.
    pub fn flow(&self, found: &super::FlowRef, now_ms: u64) -> Option<Flow> {
        let slot = found.slot as usize;
        flow(self.entries.get(slot)?, self.cold.get(slot)?, now_ms)
    }
}
