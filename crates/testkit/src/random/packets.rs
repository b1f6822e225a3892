//! Random packets, biased to the boundaries of the policy that they will meet.
//!
//! Every packet can be written as bytes: lengths fit headers, ports go with protocols that have
//! them, interfaces with hooks.

use fastrand::Rng;
use weir_policy::model::{
    AddrMatch, Cond, Family, Fragment, Hook, Packet, PacketType, Policy, RangeSet, SctpChunk,
    SetPart, Test, Transport,
};

use super::policies::{INTERFACES, ports, prefix};
use super::{chance, pick};

/// A stream of packets for one policy.
#[derive(Clone, Debug)]
pub struct PacketSource {
    rng: Rng,
    /// Interesting addresses, by family.
    addresses: [Vec<u128>; 2],
    ports: Vec<u16>,
    icmp: Vec<(u8, u8)>,
    flags: Vec<u8>,
    lengths: Vec<u16>,
    /// The tests of every rule, by family: packets are aimed at one of them.
    targets: [Vec<Vec<Test>>; 2],
    /// The last packets, for answers and repetitions.
    recent: Vec<Packet>,
}

/// How many packets are remembered for answers.
const RECENT_MAX: usize = 24;

impl PacketSource {
    /// Packets for `policy`, reproducible from `seed`.
    pub fn new(policy: &Policy, seed: u64) -> Self {
        let mut source = PacketSource {
            rng: Rng::with_seed(seed),
            addresses: [vec![0x0a00_0001], vec![0x2001_0db8 << 96 | 1]],
            ports: vec![0, 1, 80, 65535],
            icmp: vec![(8, 0), (0, 0), (3, 1), (128, 0), (129, 0), (1, 4)],
            flags: vec![0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x00, 0x3f, 0x29],
            lengths: vec![],
            targets: [vec![], vec![]],
            recent: vec![],
        };
        for chain in &policy.chains {
            let family = chain.family as usize;
            let tests = chain.rules.iter().map(|rule| rule.tests.clone());
            source.targets[family].extend(tests.filter(|t| !t.is_empty()));
            for test in chain.rules.iter().flat_map(|rule| &rule.tests) {
                source.learn(&test.cond, family);
            }
        }
        for part in policy
            .sets
            .iter()
            .flat_map(|s| &s.entries)
            .flat_map(|e| &e.parts)
        {
            source.learn_part(part);
        }
        source.addresses.iter_mut().for_each(|a| {
            a.sort_unstable();
            a.dedup();
        });
        source.ports.sort_unstable();
        source.ports.dedup();
        source
    }

    fn learn(&mut self, cond: &Cond, family: usize) {
        match cond {
            Cond::Src(values) | Cond::Dst(values) => match values {
                AddrMatch::Ranges(set) => {
                    let top = if family == 0 { 0xffff_ffff } else { u128::MAX };
                    set.ranges()
                        .iter()
                        .for_each(|r| self.edges(family, r.0, r.1, top));
                }
                AddrMatch::Masked { value, mask } => {
                    self.addresses[family].extend([*value, *value ^ (mask & mask.wrapping_neg())]);
                }
            },
            Cond::SrcPort(set) | Cond::DstPort(set) | Cond::AnyPort(set) => self.port_edges(set),
            Cond::Icmp { kind, codes } => {
                let kind = kind.unwrap_or(8);
                self.icmp
                    .extend([(kind, codes.0), (kind, codes.1), (kind ^ 1, codes.0)]);
            }
            Cond::TcpFlags { mask, value } => self.flags.extend([*value, value ^ mask, *mask]),
            Cond::Length(set) => {
                for (first, last) in set.ranges() {
                    self.lengths.extend([*first, *last, last.saturating_add(1)]);
                }
            }
            _ => {}
        }
    }

    fn learn_part(&mut self, part: &SetPart) {
        match *part {
            SetPart::Addresses(first, last) => {
                let family = usize::from(last > 0xffff_ffff);
                let top = if family == 0 { 0xffff_ffff } else { u128::MAX };
                self.edges(family, first, last, top);
            }
            SetPart::ProtoPorts(_, first, last) | SetPart::Ports(first, last) => {
                self.ports.extend([first, last, last.wrapping_add(1)]);
            }
        }
    }

    fn edges(&mut self, family: usize, first: u128, last: u128, top: u128) {
        let all = [
            first,
            first.wrapping_sub(1) & top,
            last,
            last.wrapping_add(1) & top,
        ];
        self.addresses[family].extend(all);
        self.addresses[family].push(first + (last - first) / 2);
    }

    fn port_edges(&mut self, set: &RangeSet<u16>) {
        for &(first, last) in set.ranges() {
            self.ports
                .extend([first, first.wrapping_sub(1), last, last.wrapping_add(1)]);
        }
    }

    fn address(&mut self, family: Family) -> u128 {
        let rng = &mut self.rng;
        match rng.u8(..10) {
            0 => {
                let (first, last) = prefix(rng, family);
                if chance(rng, 50) { first } else { last }
            }
            1 if family == Family::V4 => u128::from(rng.u32(..)),
            1 => rng.u128(..),
            _ => *pick(rng, &self.addresses[family as usize]),
        }
    }

    fn port(&mut self) -> u16 {
        let rng = &mut self.rng;
        match rng.u8(..10) {
            0 => ports(rng).1,
            1 => rng.u16(..),
            _ => *pick(rng, &self.ports),
        }
    }

    /// The next packet of a mixture of conversations: a fresh packet, one seen before, or an answer
    /// to one, with TCP numbers that fit it more often than not.
    pub fn conversation(&mut self, family: Family, hook: Hook) -> Packet {
        let old = self
            .recent
            .iter()
            .filter(|p| p.family == family)
            .collect::<Vec<_>>();
        let packet = if old.is_empty() || chance(&mut self.rng, 40) {
            self.packet(family, hook)
        } else {
            let earlier = (*pick(&mut self.rng, &old)).clone();
            let fresh = self.packet(family, hook);
            if chance(&mut self.rng, 8) {
                self.complain(earlier, fresh)
            } else {
                self.follow(earlier, fresh)
            }
        };
        if self.recent.len() == RECENT_MAX {
            let at = self.rng.usize(..RECENT_MAX);
            self.recent.swap_remove(at);
        }
        self.recent.push(packet.clone());
        packet
    }

    /// An ICMP error about `earlier`, from anywhere, at the hook and interfaces of `fresh`.
    fn complain(&mut self, earlier: Packet, fresh: Packet) -> Packet {
        let (proto, kind) = match earlier.family {
            Family::V4 => (1, *pick(&mut self.rng, &[3, 4, 11, 12])),
            Family::V6 => (58, *pick(&mut self.rng, &[1, 2, 3, 4])),
        };
        let (dst, about) = (earlier.src, Some(Box::new(earlier)));
        let transport = Transport::Icmp {
            kind,
            code: self.rng.u8(..4),
            id: 0,
            about,
        };
        Packet {
            dst,
            proto,
            transport,
            fragment: Fragment::Whole,
            routing: None,
            ..fresh
        }
    }

    /// A packet of the same conversation as `earlier`, at the hook and interfaces of `fresh`.
    fn follow(&mut self, earlier: Packet, fresh: Packet) -> Packet {
        let rng = &mut self.rng;
        let answer = chance(rng, 70);
        let mut packet = Packet {
            hook: fresh.hook,
            in_iface: fresh.in_iface,
            out_iface: fresh.out_iface,
            packet_type: fresh.packet_type,
            mark: fresh.mark,
            ..earlier
        };
        if answer {
            std::mem::swap(&mut packet.src, &mut packet.dst);
        }
        match &mut packet.transport {
            Transport::Tcp {
                src_port,
                dst_port,
                flags,
                sequence,
                acknowledgement,
                payload,
                ..
            } => {
                let next = sequence.wrapping_add(*payload + u32::from(*flags & 3 != 0));
                if answer {
                    std::mem::swap(src_port, dst_port);
                    (*sequence, *acknowledgement) = (*acknowledgement, next);
                    *flags = *pick(rng, &[0x12, 0x10, 0x10, 0x18, 0x11, 0x14]);
                } else {
                    *sequence = next;
                    *flags = *pick(rng, &[0x10, 0x18, 0x11, 0x04, 0x02]);
                }
                if chance(rng, 15) {
                    *sequence = sequence.wrapping_add(*pick(rng, &[1, 70_000, u32::MAX, 1 << 31]));
                }
            }
            Transport::Udp { src_port, dst_port }
            | Transport::Sctp {
                src_port, dst_port, ..
            } if answer => {
                std::mem::swap(src_port, dst_port);
            }
            Transport::Icmp { kind, .. } if answer => {
                *kind = match *kind {
                    8 => 0,
                    128 => 129,
                    other => other,
                };
            }
            _ => {}
        }
        packet
    }

    /// The next packet at this hook, of no conversation.
    pub fn packet(&mut self, family: Family, hook: Hook) -> Packet {
        let header: u32 = if family == Family::V4 { 20 } else { 40 };
        let icmp = if family == Family::V4 { 1 } else { 58 };
        let aim = self.aim(family);
        let proto = match aim.iter().find(|t| matches!(t.cond, Cond::Proto(_))) {
            Some(Test {
                cond: Cond::Proto(values),
                negate: false,
            }) => values.ranges()[0].0,
            _ => *pick(
                &mut self.rng,
                &[6, 6, 6, 6, 17, 17, 17, icmp, icmp, 132, 47, 50, 0x88],
            ),
        };
        let (src, dst) = (self.address(family), self.address(family));
        let (mut transport, transport_bytes) = self.transport(proto, icmp);
        let mut payload = *pick(&mut self.rng, &[0u32, 0, 4, 100, 1300]);
        if !self.lengths.is_empty() && chance(&mut self.rng, 40) {
            let wanted = u32::from(*pick(&mut self.rng, &self.lengths)).min(1500);
            payload = wanted.saturating_sub(header + transport_bytes);
        }
        let mut fragment = Fragment::Whole;
        let mut length = header + transport_bytes + payload;
        match self.rng.u8(..40) {
            0 if transport_bytes > 0 => {
                // Cut short inside the transport header, at a place where even ports are missing.
                transport = Transport::Short;
                length = header + self.rng.u32(..4).min(transport_bytes - 1);
            }
            1 => {
                fragment = Fragment::Later(self.rng.u16(2..100));
                transport = Transport::None;
            }
            2 => fragment = Fragment::First,
            3 if proto == 6 => {
                fragment = Fragment::Later(1);
                transport = match family {
                    Family::V4 => Transport::Short,
                    Family::V6 => Transport::None,
                };
            }
            _ => {}
        }
        if let Transport::Tcp {
            payload: in_segment,
            ..
        } = &mut transport
        {
            *in_segment = length - header - transport_bytes;
        }
        let received = hook != Hook::Output && hook != Hook::Postrouting;
        let sent = !matches!(hook, Hook::Prerouting | Hook::Input);
        let (src, dst) = (
            hit(&aim, true, &mut self.rng, src),
            hit(&aim, false, &mut self.rng, dst),
        );
        hit_transport(&aim, &mut self.rng, &mut transport);
        let rng = &mut self.rng;
        let mut interface = |wanted: bool| if wanted { *pick(rng, &INTERFACES) } else { "" };
        let (in_iface, out_iface) = (interface(received).to_string(), interface(sent).to_string());
        let in_iface = hit_interface(&aim, received, in_iface, false);
        let out_iface = hit_interface(&aim, sent, out_iface, true);
        let rng = &mut self.rng;
        let owner = (sent && chance(rng, 40)).then(|| (rng.u32(..3), *pick(rng, &[0, 5, 100])));
        Packet {
            family,
            hook,
            in_iface,
            out_iface,
            src,
            dst,
            proto,
            length,
            ttl: *pick(rng, &[1, 63, 64, 65, 255]),
            tos: *pick(rng, &[0, 0, 0x10, 0x28, 0xb8, 0xff]),
            fragment,
            transport,
            routing: None,
            mark: *pick(rng, &[0, 0, 1, 2, 3, 0x100]),
            mac: None,
            packet_type: if received {
                PacketType::Unicast
            } else {
                PacketType::Outgoing
            },
            owner,
            handling: *pick(rng, &[0, 0, 0, 1, 2, 4, 8, 268, 32, 64, 96, 384, 144]),
            aside: super::aside::facts(rng, received, sent, owner.is_some()),
        }
    }

    /// The tests of some rule; sometimes none, sometimes all but a few.
    fn aim(&mut self, family: Family) -> Vec<Test> {
        let targets = &self.targets[family as usize];
        if targets.is_empty() || chance(&mut self.rng, 20) {
            return Vec::new();
        }
        let mut tests = pick(&mut self.rng, targets).clone();
        if chance(&mut self.rng, 25) {
            tests.swap_remove(self.rng.usize(..tests.len()));
        }
        tests
    }

    /// Some chunks of SCTP.
    fn chunks(&mut self) -> Vec<SctpChunk> {
        let count = self.rng.usize(..4);
        let mut chunk = || SctpChunk {
            kind: *pick(&mut self.rng, &[0, 1, 6, 14]),
            flags: self.rng.u8(..4),
        };
        (0..count).map(|_| chunk()).collect()
    }

    /// A transport header for the protocol, and its length in bytes.
    fn transport(&mut self, proto: u8, icmp: u8) -> (Transport, u32) {
        match proto {
            6 => {
                let options = if chance(&mut self.rng, 30) {
                    vec![2, 4, 5, 0xb4]
                } else {
                    vec![]
                };
                let bytes = 20 + options.len() as u32;
                let transport = Transport::Tcp {
                    src_port: self.port(),
                    dst_port: self.port(),
                    flags: *pick(&mut self.rng, &self.flags),
                    sequence: self.rng.u32(..),
                    acknowledgement: self.rng.u32(..),
                    window: self.rng.u16(..),
                    options,
                    payload: 0,
                    malformed: false,
                };
                (transport, bytes)
            }
            17 | 0x88 => (
                Transport::Udp {
                    src_port: self.port(),
                    dst_port: self.port(),
                },
                8,
            ),
            132 => {
                let (src_port, dst_port) = (self.port(), self.port());
                let chunks = self.chunks();
                (
                    Transport::Sctp {
                        src_port,
                        dst_port,
                        chunks,
                        broken: self.rng.u8(..6) == 0,
                    },
                    12,
                )
            }
            50 => (Transport::Spi(self.rng.u32(..)), 8),
            p if p == icmp => {
                let (kind, code) = *pick(&mut self.rng, &self.icmp);
                (
                    Transport::Icmp {
                        kind,
                        code,
                        id: 0,
                        about: None,
                    },
                    8,
                )
            }
            _ => (Transport::None, 0),
        }
    }
}

/// An address that the aimed rule wants, or `other`.
fn hit(aim: &[Test], source: bool, rng: &mut Rng, other: u128) -> u128 {
    for test in aim.iter().filter(|t| !t.negate) {
        match (&test.cond, source) {
            (Cond::Src(values), true) | (Cond::Dst(values), false) => match values {
                AddrMatch::Ranges(set) if !set.is_empty() => {
                    let (first, last) = *pick(rng, set.ranges());
                    return *pick(rng, &[first, last, first + (last - first) / 3]);
                }
                AddrMatch::Masked { value, mask } => return value | (other & !mask & 0xffff_ffff),
                AddrMatch::Ranges(_) => {}
            },
            _ => {}
        }
    }
    other
}

/// Moves ports, flags and ICMP types to where the aimed rule wants them.
fn hit_transport(aim: &[Test], rng: &mut Rng, transport: &mut Transport) {
    let mut port = |set: &RangeSet<u16>| {
        let (first, last) = *pick(rng, set.ranges());
        if first % 2 == 0 { first } else { last }
    };
    for test in aim.iter().filter(|t| !t.negate) {
        match (&test.cond, &mut *transport) {
            (
                Cond::SrcPort(set),
                Transport::Tcp { src_port: at, .. }
                | Transport::Udp { src_port: at, .. }
                | Transport::Sctp { src_port: at, .. },
            )
            | (
                Cond::DstPort(set) | Cond::AnyPort(set),
                Transport::Tcp { dst_port: at, .. }
                | Transport::Udp { dst_port: at, .. }
                | Transport::Sctp { dst_port: at, .. },
            ) => *at = port(set),
            (Cond::TcpFlags { mask, value }, Transport::Tcp { flags, .. }) => {
                *flags = (*flags & !mask) | value;
            }
            (
                Cond::Icmp {
                    kind: Some(wanted),
                    codes,
                },
                Transport::Icmp { kind, code, .. },
            ) => {
                (*kind, *code) = (*wanted, codes.0);
            }
            _ => {}
        }
    }
}

/// An interface that the aimed rule wants, or `other`.
fn hit_interface(aim: &[Test], present: bool, other: String, sending: bool) -> String {
    for test in aim.iter().filter(|t| present && !t.negate) {
        match (&test.cond, sending) {
            (Cond::InIface(pattern), false) | (Cond::OutIface(pattern), true) => {
                return INTERFACES
                    .iter()
                    .find(|n| pattern.matches(n))
                    .map_or(other, |n| n.to_string());
            }
            _ => {}
        }
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Shape, policy};
    use weir_policy::eval::{Evaluator, Passage};
    use weir_policy::model::Verdict;

    const HOOKS: [Hook; 3] = [Hook::Input, Hook::Forward, Hook::Output];

    #[test]
    fn the_same_seed_makes_the_same_policy_and_packets() {
        let (a, b) = (policy(7, Shape::default()), policy(7, Shape::default()));
        assert_eq!(a, b);
        let (mut s, mut t) = (PacketSource::new(&a, 1), PacketSource::new(&b, 1));
        for _ in 0..100 {
            let family = Family::V4;
            assert_eq!(
                s.conversation(family, Hook::Input),
                t.conversation(family, Hook::Input)
            );
        }
    }

    #[test]
    fn random_packets_reach_all_verdicts_and_most_rules() {
        let (mut accepted, mut dropped, mut rejected, mut rules, mut hit) = (0, 0, 0, 0, 0);
        for seed in 0..40 {
            let policy = policy(
                seed,
                Shape {
                    histories: true,
                    ..Shape::default()
                },
            );
            let mut evaluator = Evaluator::new(&policy, 0);
            let mut source = PacketSource::new(&policy, seed);
            for n in 0..4000 {
                let family = if n / 3 % 2 == 0 {
                    Family::V4
                } else {
                    Family::V6
                };
                let packet = source.conversation(family, HOOKS[n % 3]);
                match evaluator
                    .judge(&packet, &mut Passage::of(&packet), n as u64)
                    .verdict
                {
                    Verdict::Accept => accepted += 1,
                    Verdict::Drop => dropped += 1,
                    Verdict::Reject(_) => rejected += 1,
                }
            }
            rules += evaluator.counters.len();
            hit += evaluator.counters.iter().filter(|c| c.packets > 0).count();
        }
        assert!(
            accepted > 5_000 && dropped > 3_000 && rejected > 100,
            "{accepted} {dropped} {rejected}"
        );
        // The rest sits at hooks not tried here, behind verdicts, or in chains that nobody calls.
        assert!(hit * 5 > rules, "{hit} of {rules} rules were hit");
    }
}
