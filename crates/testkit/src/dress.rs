//! Fields of headers that building a packet leaves at one value, and that ipfw's rules ask for.
//!
//! In: random numbers, the bytes of a packet as [`weir_engine::packet::build`] makes them. Out: the
//! same packet with an identification, flags and options of IPv4, a flow label of IPv6, numbers of
//! TCP that rules like to name. Checksums of transport headers stay as they were: nobody asks.

use fastrand::Rng;
use weir_engine::packet::checksum::{finish, sum};

use crate::random::{chance, pick};

/// What a packet gets.
#[derive(Clone, Debug, Default)]
pub struct Dress {
    /// Identification of IPv4.
    id: u16,
    /// Flags of IPv4, beside that of more fragments: 0x80 and 0x40.
    flags: u8,
    /// Options of IPv4, in whole words.
    options: Vec<u8>,
    /// Flow label of IPv6.
    label: u32,
    /// Sequence number, acknowledgement, window; those that are not there stay.
    tcp: [Option<u32>; 3],
    /// Options of TCP, where the header has one word of them.
    tcp_options: Option<[u8; 4]>,
}

/// Record route, timestamp, both source routes, nothing at all, and what nobody can tell apart.
const OPTIONS: [&[u8]; 7] = [
    &[7, 7, 4, 0, 0, 0, 0, 0],
    &[68, 8, 5, 0, 0, 0, 0, 0],
    &[131, 7, 4, 0, 0, 0, 0, 1],
    &[1, 137, 7, 4, 0, 0, 0, 0],
    &[1, 1, 1, 0],
    &[7, 4, 4, 0, 68, 4, 5, 0],
    &[7, 1, 0, 0],
];
/// Segment sizes, window scale, SACK, and what is none.
const TCP_OPTIONS: [[u8; 4]; 6] = [
    [2, 4, 0, 100],
    [2, 4, 0x05, 0xb4],
    [3, 3, 7, 0],
    [1, 1, 4, 2],
    [1, 1, 1, 1],
    [4, 1, 0, 0],
];
const PROTO_TCP: u8 = 6;

impl Dress {
    /// One out of random numbers.
    pub fn new(rng: &mut Rng) -> Self {
        let number = |rng: &mut Rng| {
            let often = *pick(rng, &[0, 1, 99, 100, 999, 1000, 5000, 65_535, u32::MAX]);
            chance(rng, 50).then_some(often)
        };
        Self {
            id: *pick(rng, &[0, 1, 5, 6, 100, 101, 0x8000, 0xffff]),
            flags: *pick(rng, &[0, 0, 0x40, 0x80, 0xc0]),
            options: match chance(rng, 25) {
                true => pick(rng, &OPTIONS).to_vec(),
                false => Vec::new(),
            },
            label: *pick(rng, &[0, 0, 5, 6, 0xf_ffff]),
            tcp: [number(rng), number(rng), number(rng)],
            tcp_options: chance(rng, 50).then(|| *pick(rng, &TCP_OPTIONS)),
        }
    }

    /// Puts it on, as far as the bytes are there.
    pub fn put_on(&self, bytes: &mut Vec<u8>) {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => self.ipv4(bytes),
            Some(6) => {
                let [_, b, c, d] = self.label.to_be_bytes();
                bytes[1] = bytes[1] & 0xf0 | b;
                bytes[2..4].copy_from_slice(&[c, d]);
                if bytes[6] == PROTO_TCP {
                    self.segment(&mut bytes[40..]);
                }
            }
            _ => {}
        }
    }

    fn ipv4(&self, bytes: &mut Vec<u8>) {
        let length = u16::from_be_bytes([bytes[2], bytes[3]]);
        let is_whole = bytes[6] & 0x3f == 0 && bytes[7] == 0;
        if bytes[9] == PROTO_TCP && is_whole {
            self.segment(&mut bytes[20..]);
        }
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[6] |= self.flags;
        if let Some(longer) = length.checked_add(self.options.len() as u16) {
            bytes[0] += (self.options.len() / 4) as u8;
            bytes[2..4].copy_from_slice(&longer.to_be_bytes());
            bytes.splice(20..20, self.options.iter().copied());
        }
        let header = usize::from(bytes[0] & 15) * 4;
        bytes[10..12].fill(0);
        let value = finish(sum(&bytes[..header], 0));
        bytes[10..12].copy_from_slice(&value.to_be_bytes());
    }

    fn segment(&self, bytes: &mut [u8]) {
        let [sequence, acknowledgement, window] = self.tcp;
        let window = window.map(|window| (window as u16).to_be_bytes());
        let all = [
            (4, sequence.map(u32::to_be_bytes)),
            (8, acknowledgement.map(u32::to_be_bytes)),
        ];
        for (at, number) in all {
            if let (Some(number), Some(place)) = (number, bytes.get_mut(at..at + 4)) {
                place.copy_from_slice(&number);
            }
        }
        if let (Some(window), Some(place)) = (window, bytes.get_mut(14..16)) {
            place.copy_from_slice(&window);
        }
        if let (Some(options), Some(24)) = (self.tcp_options, bytes.get(12).map(|b| b >> 4 << 2))
            && let Some(place) = bytes.get_mut(20..24)
        {
            place.copy_from_slice(&options);
        }
    }
}
