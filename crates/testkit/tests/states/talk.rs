//! Random conversations that state tables take an interest in: handshakes, data, replies, ends,
//! ports used again, segments outside the window, queries and their answers, errors about them.
//!
//! In: a seed. Out: packets as they arrive at hooks, with the time.

use fastrand::Rng;
use weir_policy::model::{Facts, Family, Fragment, Hook, Packet, PacketType, Transport, handling};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What talks: two ends.
#[derive(Clone)]
struct Talk {
    family: Family,
    proto: u8,
    ends: [(u128, u16); 2],
    /// Next sequence number of each end.
    next: [u32; 2],
    /// How far its opening has come.
    step: u32,
    /// Hook and interfaces of either direction.
    hooks: [(Hook, &'static str, &'static str); 2],
    icmp: (u8, u8),
    last: Option<Packet>,
}

/// When conversations begin.
pub const BEGIN_MS: u64 = 1_000_000;

/// A packet on its way.
pub struct Sent {
    pub packet: Packet,
    /// Its IP options.
    pub options: &'static [u8],
    /// Whether a bit at its end isn't as it was when its checksum was made.
    pub spoiled: bool,
    /// When.
    pub now_ms: u64,
}

/// Random packets of a few conversations.
pub struct Talks {
    rng: Rng,
    talks: Vec<Talk>,
    now_ms: u64,
}

fn address(rng: &mut Rng, family: Family) -> u128 {
    match family {
        Family::V4 => {
            let all: [u32; 5] = [
                0x0a01_0203,
                0x0a01_0204,
                0xc0a8_0001,
                0x0a01_0303,
                0xe000_0005,
            ];
            let many = usize::from(rng.u8(..8) == 0);
            u128::from(all[rng.usize(..4 + many)])
        }
        Family::V6 => {
            let base = 0x2001_0db8_u128 << 96;
            [base | 1, base | 2, base | 1 << 64, 0xff02 << 112 | 1][rng.usize(..4)]
        }
    }
}

fn hooks(rng: &mut Rng) -> [(Hook, &'static str, &'static str); 2] {
    let (a, b) = (
        ["eth0", "eth1"][rng.usize(..2)],
        ["eth0", "eth1"][rng.usize(..2)],
    );
    let received = |name| (Hook::Prerouting, name, "");
    let sent = |name| (Hook::Output, "", name);
    match rng.u8(..4) {
        0 => [received(a), sent(a)],
        1 => [sent(a), received(b)],
        2 => [received(a), received(b)],
        _ => [(Hook::Forward, a, b), (Hook::Forward, b, a)],
    }
}

fn talk(rng: &mut Rng) -> Talk {
    let family = [Family::V4, Family::V4, Family::V6][rng.usize(..3)];
    let icmp = if family == Family::V4 { 1 } else { 58 };
    let proto = [6, 6, 6, 6, 17, 17, icmp, 47][rng.usize(..8)];
    let queries: &[(u8, u8)] = match family {
        Family::V4 => &[(8, 0), (8, 0), (13, 14), (15, 16), (17, 18), (9, 10)],
        Family::V6 => &[
            (128, 129),
            (128, 129),
            (130, 131),
            (133, 134),
            (135, 136),
            (139, 140),
        ],
    };
    let port = |rng: &mut Rng| [22, 80, 1024, 53][rng.usize(..4)];
    Talk {
        family,
        proto,
        ends: [0, 1].map(|_| (address(rng, family), port(rng))),
        next: [rng.u32(..), rng.u32(..)],
        step: 0,
        hooks: hooks(rng),
        icmp: queries[rng.usize(..queries.len())],
        last: None,
    }
}

impl Talks {
    /// Conversations of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(3..9);
        let talks = (0..count).map(|_| talk(&mut rng)).collect();
        Self {
            rng,
            talks,
            now_ms: BEGIN_MS,
        }
    }

    /// The next packet.
    pub fn packet(&mut self) -> Sent {
        let rng = &mut self.rng;
        self.now_ms += match rng.u8(..40) {
            0 => rng.u64(..300_000),
            1..=4 => rng.u64(..20_000),
            5..=19 => rng.u64(..1_000),
            _ => 1,
        };
        let at = rng.usize(..self.talks.len());
        if rng.u8(..60) == 0 {
            self.talks[at] = talk(rng);
        }
        let talk = &mut self.talks[at];
        let packet = match talk.last.clone() {
            Some(about) if rng.u8(..10) == 0 => error(rng, talk, &about),
            _ => talk.speak(rng),
        };
        talk.last = Some(packet.clone());
        let options = match rng.u8(..12) {
            0 => OPTIONS[rng.usize(..OPTIONS.len())],
            _ => &[],
        };
        Sent {
            packet: fragmented(rng, packet),
            options,
            spoiled: rng.u8(..10) == 0,
            now_ms: self.now_ms,
        }
    }
}

/// IP options (RFC 791): no operation, record route, loose source route, security, alert.
const OPTIONS: &[&[u8]] = &[
    &[1, 1, 1, 0],
    &[7, 7, 4, 0, 0, 0, 0, 0],
    &[131, 7, 4, 10, 0, 0, 1, 0],
    &[130, 11, 0x5a, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[148, 4, 0, 0],
];

impl Sent {
    /// Puts into the bytes of its packet what else there is.
    pub fn put_into(&self, bytes: &mut Vec<u8>) {
        put_options(bytes, self.options);
        if self.spoiled {
            *bytes.last_mut().expect("it has a header") ^= 1;
        }
    }
}

/// Puts options into an IPv4 packet.
fn put_options(bytes: &mut Vec<u8>, options: &[u8]) {
    if bytes[0] != 0x45 || options.is_empty() {
        return;
    }
    bytes[0] += (options.len() / 4) as u8;
    let length = u16::from_be_bytes([bytes[2], bytes[3]]) + options.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes.splice(20..20, options.iter().copied());
}

/// Sometimes a fragment: a first one, or one of those behind it.
fn fragmented(rng: &mut Rng, mut packet: Packet) -> Packet {
    packet.fragment = match rng.u8(..24) {
        0 | 1 => Fragment::First,
        2..=4 => Fragment::Later([1, 2, 4, 5, 6, 7, 8, 10][rng.usize(..8)]),
        _ => return packet,
    };
    if let (Fragment::Later(_), true) = (packet.fragment, rng.u8(..4) > 0) {
        // Whole units of eight bytes, as all but the last have.
        packet.length = if packet.family == Family::V4 { 20 } else { 48 } + 8 * rng.u32(1..9);
    }
    packet
}

/// A connection that is over on both sides, and its ports used again every two seconds; at last,
/// errors about it.
pub fn used_again(times: u64) -> Vec<Sent> {
    let mut rng = Rng::with_seed(1);
    let talk = Talk {
        family: Family::V4,
        proto: 6,
        ends: [(0x0a01_0203, 1024), (0x0a01_0303, 80)],
        next: [1, 1],
        step: 0,
        hooks: [
            (Hook::Forward, "eth0", "eth1"),
            (Hook::Forward, "eth1", "eth0"),
        ],
        icmp: (8, 0),
        last: None,
    };
    let mut out = Vec::new();
    let mut send = |packet: Packet, now_ms| {
        out.push(Sent {
            packet,
            options: &[],
            spoiled: false,
            now_ms,
        });
    };
    let first = talk.plain(0, SYN, 1, 0);
    send(first.clone(), BEGIN_MS);
    send(talk.plain(1, RST | ACK, 0, 2), BEGIN_MS + 1);
    for time in 1..times {
        let now_ms = BEGIN_MS + 2_000 * time;
        send(talk.plain(0, SYN, 1 + 1_000_000 * time as u32, 0), now_ms);
        if time + 9 > times {
            send(error(&mut rng, &talk, &first), now_ms + 1_500);
        }
    }
    out
}

/// One connection that goes on, or one of UDP: most segments that would end it are lost.
pub fn steady(seed: u64, packets: usize) -> Vec<Sent> {
    let mut rng = Rng::with_seed(seed);
    let mut talk = talk(&mut rng);
    talk.proto = [6, 6, 6, 17][rng.usize(..4)];
    let (mut out, mut now_ms) = (Vec::new(), BEGIN_MS);
    while out.len() < packets {
        let packet = talk.speak(&mut rng);
        let ends = match packet.transport {
            Transport::Tcp { flags, .. } => flags & (FIN | SYN | RST) != 0,
            _ => false,
        };
        if out.len() > 2 && ends && rng.u8(..100) > 0 {
            continue;
        }
        now_ms += rng.u64(..200);
        out.push(Sent {
            packet,
            options: &[],
            spoiled: false,
            now_ms,
        });
    }
    out
}

/// An ICMP error about a packet that was sent.
fn error(rng: &mut Rng, talk: &Talk, about: &Packet) -> Packet {
    let from = usize::from(about.src == talk.ends[0].0);
    let v4 = talk.family == Family::V4;
    let mut out = talk.blank(from, rng);
    if rng.u8(..3) == 0 {
        out.src = address(rng, talk.family);
    }
    out.dst = about.src;
    out.proto = if v4 { 1 } else { 58 };
    let mut quoted = about.clone();
    quoted.fragment = Fragment::Whole;
    if rng.u8(..6) == 0 {
        quoted.dst = address(rng, talk.family);
    }
    out.transport = Transport::Icmp {
        kind: if v4 {
            [3, 11, 4][rng.usize(..3)]
        } else {
            [1, 3][rng.usize(..2)]
        },
        code: rng.u8(..4),
        id: 0,
        about: Some(Box::new(quoted)),
    };
    out.length = if v4 { 20 + 8 + 20 + 8 } else { 40 + 8 + 40 + 8 } + rng.u32(..60);
    out
}

impl Talk {
    /// A segment without options and data.
    fn plain(&self, from: usize, flags: u8, sequence: u32, acknowledgement: u32) -> Packet {
        let mut out = self.blank(from, &mut Rng::with_seed(0));
        out.length = 40;
        out.transport = Transport::Tcp {
            src_port: self.ends[from].1,
            dst_port: self.ends[1 - from].1,
            flags,
            sequence,
            acknowledgement,
            window: 8192,
            options: Vec::new(),
            payload: 0,
            malformed: false,
        };
        out
    }

    fn blank(&self, from: usize, rng: &mut Rng) -> Packet {
        let (hook, mut in_iface, mut out_iface) = self.hooks[from];
        if rng.u8(..20) == 0 {
            let other = ["eth0", "eth1", "eth2"][rng.usize(..3)];
            if !in_iface.is_empty() {
                in_iface = other;
            }
            if !out_iface.is_empty() {
                out_iface = other;
            }
        }
        Packet {
            family: self.family,
            hook,
            in_iface: in_iface.to_owned(),
            out_iface: out_iface.to_owned(),
            src: self.ends[from].0,
            dst: self.ends[1 - from].0,
            proto: self.proto,
            length: 0,
            ttl: if rng.u8(..30) == 0 { 2 } else { 64 },
            tos: 0,
            fragment: Fragment::Whole,
            transport: Transport::None,
            routing: None,
            mark: 0,
            mac: None,
            packet_type: match hook {
                Hook::Output => PacketType::Outgoing,
                _ => PacketType::Unicast,
            },
            owner: None,
            handling: match rng.u8(..12) {
                0 => 0,
                _ => handling::REVERSE_PATH,
            },
            aside: Facts::default(),
        }
    }

    fn speak(&mut self, rng: &mut Rng) -> Packet {
        let from = match self.proto {
            6 if self.step < 3 => [0, 1, 0][self.step as usize],
            _ => rng.usize(..2),
        };
        let mut out = self.blank(from, rng);
        let header = if self.family == Family::V4 { 20 } else { 40 };
        let (src_port, dst_port) = (self.ends[from].1, self.ends[1 - from].1);
        match self.proto {
            6 => {
                self.segment(from, rng, &mut out);
                return out;
            }
            17 => out.transport = Transport::Udp { src_port, dst_port },
            1 | 58 => {
                let kind = if from == 0 { self.icmp.0 } else { self.icmp.1 };
                let id = if rng.u8(..12) == 0 {
                    9
                } else {
                    src_port ^ dst_port
                };
                out.transport = Transport::Icmp {
                    kind,
                    code: 0,
                    id,
                    about: None,
                };
            }
            _ => {}
        }
        out.length = header + 20 + rng.u32(..50);
        out
    }

    fn segment(&mut self, from: usize, rng: &mut Rng, out: &mut Packet) {
        let mut flags = match self.step {
            0 => SYN,
            1 => SYN | ACK,
            2 => ACK,
            _ => [ACK, ACK, ACK, ACK | 8, ACK | FIN, ACK | FIN][rng.usize(..6)],
        };
        match rng.u8(..40) {
            0 => flags = RST | ACK,
            1 => flags = RST,
            2 => flags = SYN,
            3 => flags = rng.u8(..),
            _ => {}
        }
        let payload = match flags & SYN {
            0 => [0, 1, 40, 1400][rng.usize(..4)],
            _ => 0,
        };
        let mut sequence = self.next[from];
        let mut acknowledgement = self.next[1 - from];
        match rng.u8(..25) {
            0 => sequence = sequence.wrapping_add(rng.u32(..200_000)),
            1 => sequence = sequence.wrapping_sub(rng.u32(..100_000)),
            2 => acknowledgement = acknowledgement.wrapping_add(rng.u32(..150_000)),
            3 => acknowledgement = acknowledgement.wrapping_sub(rng.u32(..150_000)),
            4 => (sequence, acknowledgement) = (0, rng.u32(..)),
            _ => {
                let size = payload + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
                self.next[from] = sequence.wrapping_add(size);
                self.step += 1;
            }
        }
        if flags == SYN {
            acknowledgement = 0;
            self.step = 1;
        }
        if flags & RST != 0 {
            self.step = 0;
        }
        let options: &[&[u8]] = &[
            &[],
            &[],
            &[2, 4, 5, 180, 1, 3, 3, 7],
            &[2, 4, 5, 180, 4, 2, 3, 3, 14, 0, 0, 0],
            &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0],
        ];
        let options = options[rng.usize(..5)].to_vec();
        let header = if self.family == Family::V4 { 20 } else { 40 };
        out.length = header + 20 + options.len() as u32 + payload;
        out.transport = Transport::Tcp {
            src_port: self.ends[from].1,
            dst_port: self.ends[1 - from].1,
            flags,
            sequence,
            acknowledgement,
            window: [0, 1, 500, 8192, 65535][rng.usize(..5)],
            options,
            payload,
            malformed: false,
        };
    }
}
