//! The tests of an entry that are run, one after the other.
//!
//! Twin: `weir_test` in `plane/bpf/walk.h`.

use super::{Flow, Live};
use crate::image::Image;
use crate::image::layout::{self, CHUNK_FLAGS_MAX, Entry, Test};
use weir_policy::eval::{Passage, tcp_option};
use weir_policy::model::{
    CtState, Direction, DynamicTest, IcmpHeadTest, IpfWith, Packet, PacketType, RuleId, SctpChunk,
    Transport, Verdict, handling,
};
use zerocopy::FromBytes;

/// What came of all tests of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All hold.
    Holds,
    /// One failed.
    Fails,
    /// One met a malformed header.
    HotDrop,
}

/// What tests look at.
pub struct Context<'c, 'b> {
    /// The image.
    pub image: &'c Image<'b>,
    /// The packet.
    pub packet: &'c Packet,
    /// What has become of it so far.
    pub passage: &'c Passage,
    /// The time.
    pub now_ms: u64,
    /// When the image was loaded.
    pub loaded_ms: u64,
    /// The verdict that stands, and whose it is.
    pub standing: Option<(Verdict, u32)>,
}

impl Context<'_, '_> {
    /// Runs the tests of an entry in order.
    pub fn all(&self, entry: &Entry, live: &mut impl Live) -> Answer {
        for at in 0..u32::from(entry.tests) {
            let test: Test = self
                .image
                .read(entry.tests_at + at * size_of::<Test>() as u32);
            if test.kind == layout::TEST_MALFORMED {
                if matches!(
                    self.packet.transport,
                    Transport::Tcp {
                        malformed: true,
                        ..
                    }
                ) {
                    return Answer::HotDrop;
                }
                continue;
            }
            if let (layout::TEST_SCTP, Transport::Sctp { chunks, broken, .. }) =
                (test.kind, &self.packet.transport)
            {
                match self.chunks(&test, chunks, *broken) {
                    None => return Answer::HotDrop,
                    Some(holds) if holds == (test.negate != 0) => return Answer::Fails,
                    Some(_) => continue,
                }
            }
            // A field that the packet does not have fails, negated or not.
            match self.one(&test, live) {
                Some(holds) if holds != (test.negate != 0) => {}
                _ => return Answer::Fails,
            }
        }
        Answer::Holds
    }

    fn one(&self, test: &Test, live: &mut impl Live) -> Option<bool> {
        let (packet, passage) = (self.packet, self.passage);
        Some(match test.kind {
            layout::TEST_MARK => passage.mark & test.b == test.a,
            layout::TEST_CONNMARK => {
                super::flow(passage, live, self.now_ms)?.mark & test.b == test.a
            }
            layout::TEST_SRC_MASKED => self.masked(test.at, packet.src),
            layout::TEST_DST_MASKED => self.masked(test.at, packet.dst),
            layout::TEST_MAC => {
                let [a, b, c, d, e, f] = packet.mac?;
                u16::from_be_bytes([a, b]) == test.small
                    && u32::from_be_bytes([c, d, e, f]) == test.a
            }
            layout::TEST_STATE => {
                let state = passage.state.unwrap_or(CtState::Invalid);
                let bits = state as u8 | (packet.handling & handling::TRANSLATED) as u8;
                u32::from(bits) & test.a != 0
            }
            layout::TEST_PROPOSED => self.standing.is_some_and(|(_, by)| by == test.a),
            layout::TEST_HANDLING => {
                let changed = test.b != 0 && passage.mark != packet.mark;
                u32::from(packet.handling) & test.a != 0 && !changed
            }
            layout::TEST_PACKET_TYPE => packet_type(packet.packet_type) == test.a,
            layout::TEST_OWNER => packet.owner.is_some_and(|(uid, gid)| match test.small {
                1 => (test.a..=test.b).contains(&uid),
                _ => (test.a..=test.b).contains(&gid),
            }),
            layout::TEST_LENGTH => self.in_pairs(test, packet.length),
            layout::TEST_TTL => match test.small {
                0 => u32::from(packet.ttl) == test.a,
                1 => u32::from(packet.ttl) < test.a,
                _ => u32::from(packet.ttl) > test.a,
            },
            layout::TEST_TOS => u32::from(passage.tos) & test.b == test.a,
            layout::TEST_SRC_TYPE => live.address_type(packet.family, packet.src) & test.a != 0,
            layout::TEST_DST_TYPE => live.address_type(packet.family, packet.dst) & test.a != 0,
            layout::TEST_LEARNED => live.learned(packet, passage, self.now_ms),
            layout::TEST_LEARN => live.learn(test.a, packet, passage, self.now_ms),
            layout::TEST_IPF_WITH => {
                let with: layout::IpfWith = self.image.read(test.at);
                let pair = |[mask, value]: [u32; 2]| (mask, value);
                let with = IpfWith {
                    attributes: pair(with.attributes),
                    options: pair(with.options),
                    classes: with.classes.into(),
                    headers: with.headers[0],
                    no_headers: with.headers[1],
                };
                live.ipf_with(&with, packet, passage)?
            }
            layout::TEST_DYNAMIC_LOOK..=layout::TEST_DYNAMIC_FORGET => {
                let asked = match test.kind {
                    layout::TEST_DYNAMIC_LOOK => DynamicTest::Look(test.a),
                    layout::TEST_DYNAMIC_OF => DynamicTest::Of(RuleId(test.a)),
                    layout::TEST_DYNAMIC_FORGET => DynamicTest::Forget,
                    _ => return Some(live.learn(test.b, packet, passage, self.now_ms)),
                };
                live.dynamic(asked, packet, self.now_ms)
            }
            layout::TEST_ICMP_HEAD => self.icmp_head(test, live),
            layout::TEST_OUT_OF_WINDOW => live.is_out_of_window(),
            layout::TEST_HISTORY => live.history(test.a, packet, self.now_ms),
            layout::TEST_UNTIL => self.now_ms < self.loaded_ms + u64::from(test.a) * 1000,
            layout::TEST_CT => self.flow_field(test, &super::flow(passage, live, self.now_ms)?),
            layout::TEST_ROUTING => {
                let (kind, left) = packet.routing?;
                (test.small > 255 || test.small == u16::from(kind))
                    && (test.a..=test.b).contains(&u32::from(left))
            }
            layout::TEST_ASIDE => return self.aside(test),
            _ => return self.transport(test),
        })
    }

    fn icmp_head(&self, test: &Test, live: &mut impl Live) -> bool {
        let asked = match (test.small, test.a as u8) {
            (layout::ICMP_HEAD_WAITS, 0) => IcmpHeadTest::Waits,
            (layout::ICMP_HEAD_WAITS, group) => IcmpHeadTest::WaitsFor(group),
            (layout::ICMP_HEAD_PASSES, _) => IcmpHeadTest::Passes,
            (layout::ICMP_HEAD_BLOCKED, _) => IcmpHeadTest::Blocked,
            _ => {
                let refuses = |(verdict, _)| verdict != Verdict::Accept;
                return self.standing.is_some_and(refuses);
            }
        };
        live.icmp_head(asked, self.packet, self.passage, self.now_ms)
    }

    fn transport(&self, test: &Test) -> Option<bool> {
        match (test.kind, &self.packet.transport) {
            (layout::TEST_TCP_OPTION, Transport::Tcp { options, .. }) => {
                Some(tcp_option(options, test.a as u8).is_some())
            }
            (layout::TEST_TCP_MSS, Transport::Tcp { options, .. }) => {
                match tcp_option(options, 2) {
                    Some(&[high, low]) => {
                        Some(self.in_pairs(test, u32::from(u16::from_be_bytes([high, low]))))
                    }
                    // As in xt_tcpmss: without the option it is in no range, so "not" holds.
                    _ => Some(false),
                }
            }
            (layout::TEST_SPI, Transport::Spi(spi)) => Some(self.in_pairs(test, *spi)),
            _ => None,
        }
    }

    /// Chunks through a test, in wire order; `None` where their end is met before the packet's.
    fn chunks(&self, test: &Test, chunks: &[SctpChunk], broken: bool) -> Option<bool> {
        let wanted: [u64; 4] = self.image.read(test.at);
        let flags: [u32; CHUNK_FLAGS_MAX] = self.image.read(test.at + 32);
        let mut missing = wanted;
        for chunk in chunks {
            let (word, bit) = (usize::from(chunk.kind >> 6), 1u64 << (chunk.kind & 63));
            let rows = &flags[..(test.count as usize).min(CHUNK_FLAGS_MAX)];
            let row = rows.iter().find(|row| **row as u8 == chunk.kind);
            let fits = row.is_none_or(|row| chunk.flags & (row >> 8) as u8 == (row >> 16) as u8);
            match (wanted[word] & bit != 0 && fits, test.small) {
                (true, 1) => return Some(true),
                (false, 2) => return Some(false),
                (true, _) => missing[word] &= !bit,
                (false, _) => {}
            }
        }
        (!broken).then_some(test.small == 2 || test.small == 0 && missing == [0; 4])
    }

    fn flow_field(&self, test: &Test, flow: &Flow) -> bool {
        let port = |direction: usize, side: usize| {
            self.in_pairs(test, u32::from(flow.port[direction][side]))
        };
        let address = |direction: usize, side: usize| {
            let address = flow.address[direction][side];
            if test.b != 0 {
                self.masked(test.at, address)
            } else {
                self.in_addresses(test, address)
            }
        };
        match test.small {
            layout::CT_PROTO => (test.a..=test.b).contains(&u32::from(flow.proto)),
            layout::CT_ORIG_SRC => address(0, 0),
            layout::CT_ORIG_DST => address(0, 1),
            layout::CT_REPL_SRC => address(1, 0),
            layout::CT_REPL_DST => address(1, 1),
            layout::CT_ORIG_SRC_PORT => port(0, 0),
            layout::CT_ORIG_DST_PORT => port(0, 1),
            layout::CT_REPL_SRC_PORT => port(1, 0),
            layout::CT_REPL_DST_PORT => port(1, 1),
            layout::CT_STATUS => u32::from(flow.status) & test.a != 0,
            layout::CT_EXPIRE => (test.a..=test.b).contains(&flow.expires),
            _ => (flow.direction == Direction::Original) == (test.a != 0),
        }
    }

    fn wide(&self, at: u32) -> u128 {
        let [high, low]: [u64; 2] = self.image.read(at);
        u128::from(high) << 64 | u128::from(low)
    }

    fn masked(&self, at: u32, address: u128) -> bool {
        address & self.wide(at + 16) == self.wide(at)
    }

    /// Whether a value is in one of the sorted ranges of a test.
    pub(super) fn in_pairs(&self, test: &Test, value: u32) -> bool {
        search(test.count, |at| {
            let [first, last]: [u32; 2] = self.pair(test.at + at * 8);
            (value.cmp(&first), value <= last)
        })
    }

    fn in_addresses(&self, test: &Test, value: u128) -> bool {
        search(test.count, |at| {
            let first = self.wide(test.at + at * 32);
            (
                value.cmp(&first),
                value <= self.wide(test.at + at * 32 + 16),
            )
        })
    }

    fn pair<T: FromBytes + Copy>(&self, at: u32) -> T {
        self.image.read(at)
    }
}

/// Finds the last range that begins at or before the value, and says whether it ends after it.
fn search(count: u32, at: impl Fn(u32) -> (std::cmp::Ordering, bool)) -> bool {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle).0.is_lt() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low > 0 && at(low - 1).1
}

fn packet_type(kind: PacketType) -> u32 {
    match kind {
        PacketType::Unicast => 0,
        PacketType::Broadcast => 1,
        PacketType::Multicast => 2,
        PacketType::OtherHost => 3,
        PacketType::Outgoing => 4,
    }
}
