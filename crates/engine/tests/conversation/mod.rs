//! Random traffic for tests of connection tracking: conversations that go on properly most of the
//! time, and every kind of disturbance: repeated, delayed, out-of-window and forged packets,
//! resets, errors about other packets, long silences.

use fastrand::Rng;
use weir_engine::packet::{Key, key_of};
use weir_policy::model::{Facts, Family, Fragment, Hook, Packet, PacketType, SctpChunk, Transport};

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

#[derive(Clone, Debug)]
struct End {
    address: u128,
    port: u16,
    next: u32,
    acknowledged: u32,
    window: u16,
}

#[derive(Clone, Debug)]
struct Conversation {
    family: Family,
    ends: [End; 2],
    step: u32,
}

/// The key of the packet that an ICMP error is about.
pub fn about(packet: &Packet) -> Option<Key> {
    match &packet.transport {
        Transport::Icmp {
            about: Some(about), ..
        } => Some(key_of(about)),
        _ => None,
    }
}

/// A source of packets.
pub struct Traffic {
    rng: Rng,
    conversations: Vec<Conversation>,
    recent: Vec<Packet>,
    /// The clock.
    pub now_ms: u64,
    /// Ports in use: a smaller number makes more packets meet in one flow.
    pub ports: u16,
}

fn blank(family: Family) -> Packet {
    Packet {
        family,
        hook: Hook::Input,
        in_iface: "eth0".into(),
        out_iface: String::new(),
        src: 0,
        dst: 0,
        proto: 17,
        length: 100,
        ttl: 64,
        tos: 0,
        fragment: Fragment::Whole,
        transport: Transport::None,
        routing: None,
        mark: 0,
        mac: None,
        packet_type: PacketType::Unicast,
        owner: None,
        handling: 0,
        aside: Facts::default(),
    }
}

impl Traffic {
    /// Traffic from a seed.
    pub fn new(seed: u64) -> Self {
        Traffic {
            rng: Rng::with_seed(seed),
            conversations: Vec::new(),
            recent: Vec::new(),
            now_ms: 1_000_000,
            ports: 4,
        }
    }

    fn address(&mut self, family: Family) -> u128 {
        let host = u128::from(self.rng.u8(1..4));
        match family {
            Family::V4 => 0x0a00_0000 + host,
            Family::V6 => 0x2001_0db8_0000_0000_0000_0000_0000_0000 + (host << 64) + host,
        }
    }

    fn family(&mut self) -> Family {
        if self.rng.u8(..3) == 0 {
            Family::V6
        } else {
            Family::V4
        }
    }

    /// The next packet; the clock has moved on.
    pub fn next(&mut self) -> Packet {
        self.now_ms += match self.rng.u32(..400) {
            0 => 432_000_000,
            1 => 300_000,
            2..=4 => self.rng.u64(..130_000),
            5..=12 => self.rng.u64(..35_000),
            13..=60 => self.rng.u64(..2_500),
            _ => self.rng.u64(..40),
        };
        let packet = match self.rng.u32(..100) {
            0..=59 => self.tcp(),
            60..=64 => self.repeat(),
            65..=79 => self.ports_packet(),
            80..=88 => self.icmp(),
            89..=95 => self.error(),
            _ => self.odd(),
        };
        self.recent.push(packet.clone());
        if self.recent.len() > 24 {
            self.recent.remove(0);
        }
        packet
    }

    fn tcp(&mut self) -> Packet {
        if self.conversations.len() < 6 || self.rng.u32(..60) == 0 {
            let family = self.family();
            let ports = self.ports;
            let mut end = |port| End {
                address: self.address(family),
                port,
                next: match self.rng.u8(..4) {
                    0 => 0xffff_ff00,
                    1 => 0,
                    _ => self.rng.u32(..),
                },
                acknowledged: 0,
                window: self.rng.choice([0, 1, 512, 5840, 65535]).unwrap(),
            };
            let ends = [end(1000), end(80)];
            let mut new = Conversation {
                family,
                ends,
                step: 0,
            };
            new.ends[0].port = 1000 + self.rng.u16(..ports);
            if self.conversations.len() >= 6 {
                let at = self.rng.usize(..6);
                self.conversations[at] = new;
            } else {
                self.conversations.push(new);
            }
        }
        let at = self.rng.usize(..self.conversations.len());
        let mut conversation = self.conversations[at].clone();
        let mut packet = self.segment(&mut conversation);
        self.conversations[at] = conversation;
        if self.rng.u32(..8) == 0 {
            self.disturb(&mut packet);
        }
        packet
    }

    /// The next segment of a conversation.
    fn segment(&mut self, conversation: &mut Conversation) -> Packet {
        let step = conversation.step;
        let mut from = self.rng.usize(..2);
        let (mut flags, mut payload) = (ACK, 0u32);
        match step {
            0 => (from, flags) = (0, SYN),
            1 => (from, flags) = (1, SYN | ACK),
            2 => from = 0,
            _ => match self.rng.u32(..24) {
                0 => flags = FIN | ACK,
                1 => flags = RST,
                2 => flags = RST | ACK,
                3..=12 => payload = self.rng.u32(1..1500),
                _ => {}
            },
        }
        // Sometimes out of turn: both ends open, or a step is skipped.
        if self.rng.u32(..12) == 0 {
            from = self.rng.usize(..2);
        }
        if self.rng.u32(..5) != 0 {
            conversation.step += 1;
        }
        if flags & (RST | FIN) != 0 && self.rng.u32(..3) == 0 {
            conversation.step = 0;
        }
        let other_next = conversation.ends[1 - from].next;
        let me = &mut conversation.ends[from];
        if flags & ACK != 0 && self.rng.u32(..4) != 0 {
            me.acknowledged = other_next;
        }
        let mut options = Vec::new();
        if flags & SYN != 0 {
            if self.rng.bool() {
                options.extend([2, 4, 5, 0xb4, 4, 2]);
            }
            if self.rng.bool() {
                options.extend([1, 3, 3, self.rng.u8(..16)]);
            }
        } else if self.rng.u32(..3) == 0 {
            options.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else if self.rng.u32(..6) == 0 {
            let left = me.acknowledged.wrapping_add(self.rng.u32(..3000));
            options.extend([1, 1, 5, 10]);
            options.extend(left.to_be_bytes());
            options.extend(left.wrapping_add(self.rng.u32(..1500)).to_be_bytes());
        }
        let transport = Transport::Tcp {
            src_port: me.port,
            dst_port: 0,
            flags: flags | if self.rng.u32(..4) == 0 { 8 } else { 0 },
            sequence: if flags & RST != 0 && self.rng.u32(..4) == 0 {
                0
            } else {
                me.next
            },
            acknowledgement: if flags & ACK != 0 { me.acknowledged } else { 0 },
            window: me.window,
            options,
            payload,
            malformed: false,
        };
        if self.rng.u32(..10) != 0 {
            let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
            me.next = me.next.wrapping_add(payload + controls);
        }
        let mut packet = blank(conversation.family);
        packet.proto = 6;
        packet.src = conversation.ends[from].address;
        packet.dst = conversation.ends[1 - from].address;
        packet.transport = transport;
        if let Transport::Tcp { dst_port, .. } = &mut packet.transport {
            *dst_port = conversation.ends[1 - from].port;
        }
        packet
    }

    /// Makes a segment wrong, or strange.
    fn disturb(&mut self, packet: &mut Packet) {
        let shift = match self.rng.u8(..5) {
            0 => self.rng.u32(..3).wrapping_sub(1),
            1 => self.rng.u32(..3000),
            2 => self.rng.u32(..3000).wrapping_neg(),
            3 => self.rng.u32(..200_000).wrapping_sub(100_000),
            _ => self.rng.u32(..),
        };
        let chosen = self.rng.u8(..8);
        let strange = self.rng.u8(..);
        let wide = self.rng.u16(..);
        let Transport::Tcp {
            flags,
            sequence,
            acknowledgement,
            window,
            malformed,
            ..
        } = &mut packet.transport
        else {
            return;
        };
        match chosen {
            0..=1 => *sequence = sequence.wrapping_add(shift),
            2..=3 => *acknowledgement = acknowledgement.wrapping_add(shift),
            4 => *flags = strange,
            5 => *window = wide,
            6 => *flags = [SYN, SYN | ACK, RST, RST | ACK, FIN | ACK, ACK][strange as usize % 6],
            _ => *malformed = strange < 16,
        }
    }

    fn repeat(&mut self) -> Packet {
        if self.recent.is_empty() {
            return self.tcp();
        }
        let at = self.rng.usize(..self.recent.len());
        self.recent[at].clone()
    }

    fn ports_packet(&mut self) -> Packet {
        let family = self.family();
        let mut packet = blank(family);
        packet.src = self.address(family);
        packet.dst = self.address(family);
        let src_port = self.rng.u16(..3);
        let dst_port = self.rng.u16(..3);
        packet.proto = self.rng.choice([17, 17, 17, 136, 132, 33]).unwrap();
        packet.transport = if packet.proto == 132 {
            Transport::Sctp {
                src_port,
                dst_port,
                chunks: vec![SctpChunk { kind: 0, flags: 0 }],
                broken: false,
            }
        } else {
            Transport::Udp { src_port, dst_port }
        };
        packet
    }

    fn icmp(&mut self) -> Packet {
        let family = self.family();
        let mut packet = blank(family);
        packet.src = self.address(family);
        packet.dst = self.address(family);
        let kind = if family == Family::V4 {
            packet.proto = 1;
            self.rng
                .choice([8, 8, 8, 0, 0, 0, 13, 14, 17, 18, 9, 30])
                .unwrap()
        } else {
            packet.proto = 58;
            self.rng
                .choice([128, 128, 129, 129, 133, 135, 136, 143, 137, 139, 140, 200])
                .unwrap()
        };
        // The identifier that equals a type and code tries to confuse the two.
        let id = self.rng.choice([1, 2, 0x0800, 0x8000]).unwrap();
        packet.transport = Transport::Icmp {
            kind,
            code: u8::from(self.rng.u8(..10) == 0),
            id,
            about: None,
        };
        packet
    }

    fn error(&mut self) -> Packet {
        let about = self.repeat();
        let mut packet = blank(about.family);
        let v4 = about.family == Family::V4;
        packet.proto = if v4 { 1 } else { 58 };
        packet.src = self.address(about.family);
        packet.dst = if self.rng.u8(..6) == 0 {
            self.address(about.family)
        } else {
            about.src
        };
        let kinds: [u8; 4] = if v4 { [3, 11, 12, 5] } else { [1, 2, 3, 4] };
        packet.transport = Transport::Icmp {
            kind: self.rng.choice(kinds).unwrap(),
            code: 1,
            id: 0,
            about: (self.rng.u8(..12) != 0).then(|| Box::new(about)),
        };
        packet
    }

    fn odd(&mut self) -> Packet {
        let mut packet = self.ports_packet();
        match self.rng.u8(..4) {
            0 => {
                packet.proto = self.rng.choice([47, 2, 89]).unwrap();
                packet.transport = Transport::None;
            }
            1 => {
                packet.fragment = Fragment::Later(7);
                packet.transport = Transport::None;
            }
            2 => packet.transport = Transport::Short,
            _ => {
                packet.proto = 50;
                packet.transport = Transport::Spi(self.rng.u32(..3));
            }
        }
        packet
    }
}
