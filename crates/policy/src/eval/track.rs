//! Connection tracking, the reference: a map of flows, looked at before the rules.
//!
//! In: packets and the clock. Out: what the rules may ask ([`Seen`], flow fields, flow marks).
//! Two steps: [`Tracker::look`] before the rules, and [`Tracker::confirm`] after the packet was
//! accepted, so that a first packet that is dropped leaves no flow. For a flow that exists, `look`
//! changes it whatever the rules decide later, as Linux does. No limit on flows, no translation of
//! addresses, no protocol helpers: RELATED is only for ICMP errors. The meaning of the states is
//! that of iptables-extensions(8); timeouts and TCP as Linux has them by default.

pub mod connection;
pub mod tcp;
pub mod timeouts;
pub mod tuple;
pub mod window;

use std::collections::{BTreeMap, HashMap};

use super::{Truth, address_in};
use crate::model::{AddrMatch, CtField, CtState, Direction, Hook, Packet, RangeSet, Transport};
use connection::Known;
use tcp::{Outcome, Segment, Tcp};
use timeouts::{Timeout, Timeouts};
use tuple::{ICMP, ICMP6, TCP, Tuple, UDP, UDP_LITE};

/// What tracking found out about a packet before the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// State as rules see it.
    pub state: CtState,
    /// Number of the flow, when there is one (a new packet's flow exists only after `confirm`,
    /// but has its number and mark already).
    pub flow: Option<u64>,
    /// Direction within it.
    pub direction: Direction,
}

/// How long a UDP conversation goes on before it counts as a stream.
const UDP_STREAM_AFTER_MS: u64 = 2000;

/// Packets between `look` and `confirm` at the same time; older ones were dropped.
const PENDING_MAX: usize = 64;

/// Status bits of a flow, as `--ctstatus` numbers them.
pub mod status {
    /// An answer was seen.
    pub const SEEN_REPLY: u8 = 2;
    /// Established in both directions.
    pub const ASSURED: u8 = 4;
    /// The first packet was accepted.
    pub const CONFIRMED: u8 = 8;
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Tuple of the first packet.
    pub original: Tuple,
    /// Tuple of the answers.
    pub reply: Tuple,
    /// Bits of [`status`].
    pub status: u8,
    /// Flow mark.
    pub mark: u32,
    /// When it ends; before `confirm`, how long it shall live from then on.
    pub expires_ms: u64,
    /// TCP memory.
    pub tcp: Tcp,
    /// UDP: from when on it is a stream.
    pub stream_from_ms: u64,
}

/// The table of flows.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// Timeouts.
    pub timeouts: Timeouts,
    flows: HashMap<u64, Flow>,
    numbers: HashMap<Tuple, u64>,
    pending: BTreeMap<u64, Flow>,
    next_number: u64,
}

fn seen(state: CtState, flow: Option<u64>, direction: Direction) -> Seen {
    Seen {
        state,
        flow,
        direction,
    }
}

fn invalid() -> Seen {
    seen(CtState::Invalid, None, Direction::Original)
}

/// The segment of a TCP packet, or `None` when it is none or malformed.
pub fn segment_of(packet: &Packet) -> Option<Segment> {
    let Transport::Tcp {
        flags,
        sequence,
        acknowledgement,
        window,
        ref options,
        payload,
        malformed: false,
        ..
    } = packet.transport
    else {
        return None;
    };
    let known = tcp::options(options, acknowledgement);
    Some(Segment {
        flags,
        sequence,
        acknowledgement,
        window,
        payload,
        options: !options.is_empty(),
        scale: known.scale,
        sack_permitted: known.sack_permitted,
        sack: known.sack,
    })
}

impl Tracker {
    /// Looks at a packet before the rules.
    pub fn look(&mut self, packet: &Packet, now_ms: u64) -> Seen {
        if let Transport::Icmp {
            kind, ref about, ..
        } = packet.transport
        {
            if packet.proto == ICMP6 && matches!(kind, 130..=136 | 143) {
                return seen(CtState::Untracked, None, Direction::Original);
            }
            if is_error(packet.proto, kind) {
                return match about {
                    Some(about) => {
                        let found = self.related(packet, about, now_ms);
                        // What this host itself says about a packet that it could not deliver is
                        // RELATED although no flow was confirmed: the kernel's icmp_send hands
                        // the connection of the packet on.
                        if found.state == CtState::Invalid && packet.hook == Hook::Output {
                            return seen(CtState::Related, None, Direction::Reply);
                        }
                        found
                    }
                    None => invalid(),
                };
            }
        }
        let Some(tuple) = Tuple::of(packet) else {
            return invalid();
        };
        if tuple.proto == TCP && !segment_of(packet).is_some_and(|s| s.flags_possible()) {
            return invalid();
        }
        match self.find(&tuple, now_ms) {
            Some((number, direction)) => match self.known(packet, number, direction, now_ms) {
                Some(seen) => seen,
                // The old connection is over and the ports are used again.
                None => {
                    self.forget(number);
                    self.begin(packet, tuple)
                }
            },
            None => self.begin(packet, tuple),
        }
    }

    fn find(&mut self, tuple: &Tuple, now_ms: u64) -> Option<(u64, Direction)> {
        let number = *self.numbers.get(tuple)?;
        let flow = &self.flows[&number];
        if flow.expires_ms <= now_ms {
            self.forget(number);
            return None;
        }
        let direction = if flow.original == *tuple {
            Direction::Original
        } else {
            Direction::Reply
        };
        Some((number, direction))
    }

    fn forget(&mut self, number: u64) {
        if let Some(flow) = self.flows.remove(&number) {
            self.numbers.remove(&flow.original);
            self.numbers.remove(&flow.reply);
        }
    }

    /// An ICMP error belongs to the flow of the packet that it speaks of, if it goes to the sender
    /// of that packet. The flow does not live longer for it.
    fn related(&mut self, packet: &Packet, about: &Packet, now_ms: u64) -> Seen {
        let Some(tuple) = Tuple::of(about) else {
            return invalid();
        };
        if packet.dst != about.src {
            return invalid();
        }
        match self.find(&tuple, now_ms) {
            Some((number, Direction::Original)) => {
                seen(CtState::Related, Some(number), Direction::Reply)
            }
            Some((number, Direction::Reply)) => {
                seen(CtState::Related, Some(number), Direction::Original)
            }
            None => invalid(),
        }
    }

    /// A packet of a flow that exists. `None`: it begins a new flow in its place.
    fn known(
        &mut self,
        packet: &Packet,
        number: u64,
        direction: Direction,
        now_ms: u64,
    ) -> Option<Seen> {
        let flow = self.flows.get_mut(&number)?;
        let answered = flow.status & status::SEEN_REPLY != 0;
        let state = if answered || direction == Direction::Reply {
            CtState::Established
        } else {
            CtState::New
        };
        match touch(flow, packet, direction, &self.timeouts, now_ms) {
            Outcome::Accept(timeout) => {
                flow.expires_ms = now_ms + u64::from(self.timeouts.get(timeout));
            }
            Outcome::Ignore => {}
            Outcome::Invalid { shrink } => {
                if shrink {
                    let limit = self.timeouts.get(Timeout::TcpUnacknowledged);
                    flow.expires_ms = now_ms + u64::from(limit);
                }
                return Some(invalid());
            }
            Outcome::Reopen => return None,
            // The rules may still ask about the flow; the next packet finds it no more.
            Outcome::Gone => flow.expires_ms = now_ms,
        }
        if direction == Direction::Reply {
            flow.status |= status::SEEN_REPLY;
        }
        Some(seen(state, Some(number), direction))
    }

    /// A packet without a flow.
    fn begin(&mut self, packet: &Packet, tuple: Tuple) -> Seen {
        let mut flow = Flow {
            original: tuple,
            reply: tuple.inverse(),
            status: 0,
            mark: 0,
            expires_ms: 0,
            tcp: Tcp::default(),
            stream_from_ms: 0,
        };
        if let Transport::Icmp { kind, .. } = packet.transport
            && !tuple::is_request(packet.proto, kind)
        {
            return invalid();
        }
        let timeout = if tuple.proto == TCP {
            let begun = segment_of(packet).and_then(|s| connection::open(&s, &self.timeouts));
            let Some((tcp, timeout)) = begun else {
                return invalid();
            };
            flow.tcp = tcp;
            timeout
        } else {
            protocol_timeout(tuple.proto)
        };
        flow.expires_ms = u64::from(self.timeouts.get(timeout));
        let number = self.next_number;
        self.next_number += 1;
        self.pending.insert(number, flow);
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
        }
        seen(CtState::New, Some(number), Direction::Original)
    }

    /// The packet was accepted: a flow that it begins exists from now on, unless another packet
    /// has begun it meanwhile.
    pub fn confirm(&mut self, _packet: &Packet, seen: &Seen, now_ms: u64) {
        let Some(number) = seen.flow else { return };
        let Some(mut flow) = self.pending.remove(&number) else {
            return;
        };
        let original = flow.original;
        if self.find(&original, now_ms).is_some()
            || self.find(&flow.reply.clone(), now_ms).is_some()
        {
            return;
        }
        flow.status |= status::CONFIRMED;
        flow.expires_ms += now_ms;
        flow.stream_from_ms = now_ms + UDP_STREAM_AFTER_MS;
        self.numbers.insert(flow.original, number);
        self.numbers.insert(flow.reply, number);
        self.flows.insert(number, flow);
    }

    /// The flow of a packet, confirmed or not.
    pub fn flow(&self, seen: &Seen) -> Option<&Flow> {
        let number = seen.flow?;
        self.flows
            .get(&number)
            .or_else(|| self.pending.get(&number))
    }

    /// The flow of a tuple of either direction, if it lives.
    pub fn flow_of(&self, tuple: &Tuple, now_ms: u64) -> Option<&Flow> {
        let flow = self.flows.get(self.numbers.get(tuple)?)?;
        (flow.expires_ms > now_ms).then_some(flow)
    }

    /// The flow's mark; `None` without a flow.
    pub fn connmark(&self, seen: &Seen) -> Option<u32> {
        self.flow(seen).map(|flow| flow.mark)
    }

    /// Sets the flow's mark (of a flow not yet confirmed, too).
    pub fn set_connmark(&mut self, seen: &Seen, mark: u32) {
        let Some(number) = seen.flow else { return };
        let flow = match self.flows.get_mut(&number) {
            Some(flow) => Some(flow),
            None => self.pending.get_mut(&number),
        };
        if let Some(flow) = flow {
            flow.mark = mark;
        }
    }

    /// A condition on the flow.
    pub fn field(&self, field: &CtField, seen: &Seen, now_ms: u64) -> Truth {
        let Some(flow) = self.flow(seen) else {
            return Truth::Absent;
        };
        let address = |values: &AddrMatch, value| address_in(values, value).into();
        let port = |values: &RangeSet<u16>, value| values.contains(value).into();
        match field {
            CtField::Proto(proto) => (flow.original.proto == *proto).into(),
            CtField::OrigSrc(values) => address(values, flow.original.src),
            CtField::OrigDst(values) => address(values, flow.original.dst),
            CtField::ReplSrc(values) => address(values, flow.reply.src),
            CtField::ReplDst(values) => address(values, flow.reply.dst),
            CtField::OrigSrcPort(values) => port(values, flow.original.src_port),
            CtField::OrigDstPort(values) => port(values, flow.original.dst_port),
            CtField::ReplSrcPort(values) => port(values, flow.reply.src_port),
            CtField::ReplDstPort(values) => port(values, flow.reply.dst_port),
            CtField::Status(bits) => (flow.status & bits != 0).into(),
            CtField::Expire(first, last) => {
                let confirmed = flow.status & status::CONFIRMED != 0;
                let left_ms = if confirmed {
                    flow.expires_ms.saturating_sub(now_ms)
                } else {
                    0
                };
                (u64::from(*first)..=u64::from(*last))
                    .contains(&(left_ms / 1000))
                    .into()
            }
            CtField::Original(original) => {
                ((seen.direction == Direction::Original) == *original).into()
            }
        }
    }
}

/// Whether an ICMP type reports about another packet.
pub fn is_error(proto: u8, kind: u8) -> bool {
    match proto {
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => kind < 128,
    }
}

/// What a packet does to its flow.
fn touch(
    flow: &mut Flow,
    packet: &Packet,
    direction: Direction,
    timeouts: &Timeouts,
    now_ms: u64,
) -> Outcome {
    let answered = flow.status & status::SEEN_REPLY != 0;
    match flow.original.proto {
        TCP => {
            let Some(segment) = segment_of(packet) else {
                return Outcome::Invalid { shrink: false };
            };
            let left_ms = flow.expires_ms.saturating_sub(now_ms);
            let known = Known {
                answered,
                assured: flow.status & status::ASSURED != 0,
                left_ms: u32::try_from(left_ms).unwrap_or(u32::MAX),
            };
            let (outcome, assure) =
                connection::segment(&mut flow.tcp, direction, &segment, known, timeouts);
            if assure {
                flow.status |= status::ASSURED;
            }
            outcome
        }
        UDP | UDP_LITE if answered && now_ms > flow.stream_from_ms => {
            flow.status |= status::ASSURED;
            Outcome::Accept(Timeout::UdpStream)
        }
        proto => Outcome::Accept(protocol_timeout(proto)),
    }
}

/// The timeout of flows that are not TCP, or not yet UDP streams.
fn protocol_timeout(proto: u8) -> Timeout {
    match proto {
        UDP | UDP_LITE => Timeout::Udp,
        ICMP => Timeout::Icmp,
        ICMP6 => Timeout::Icmp6,
        _ => Timeout::Generic,
    }
}
