//! Packets that end inside their headers, as bytes.
//!
//! In: a source of random numbers. Out: an IPv4 or IPv6 packet with options or extension headers,
//! of a protocol that some language reads or that none does, which ends somewhere from its network
//! header to behind its transport header. Lengths are right, so that only the cut is wrong, and
//! mostly the checksums, too; a part of the packets are fragments.

use fastrand::Rng;
use weir_engine::packet::checksum::{finish, pseudo, sum};
use weir_policy::model::Family;

const HOPOPTS: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AH: u8 = 51;
const NONE: u8 = 59;
/// Of an authentication header without a check value.
const AH_LENGTH: usize = 12;
const DSTOPTS: u8 = 60;

/// Protocols of upper layers: read by someone, or known by name, or unknown.
const UPPER: [u8; 22] = [
    1, 6, 6, 6, 17, 17, 58, 132, 136, 33, 47, 50, 51, 4, 41, 59, 89, 103, 112, 112, 135, 253,
];

/// A packet.
pub fn packet(rng: &mut Rng, family: Family) -> Vec<u8> {
    let proto = UPPER[rng.usize(..UPPER.len())];
    let (mut bytes, fragment) = match family {
        Family::V4 => v4(rng, proto),
        Family::V6 => v6(rng, proto),
    };
    let (at, proto) = (
        bytes.len(),
        if family == Family::V4 {
            bytes[9]
        } else {
            proto
        },
    );
    let upper = upper(rng, proto);
    let there = rng.usize(..=upper.len());
    bytes.extend(&upper[..there]);
    if family == Family::V6 && rng.u8(..4) == 0 {
        // The end of the chain itself.
        bytes.truncate(rng.usize(40..=at));
    }
    let length = bytes.len() as u16;
    match family {
        Family::V4 => {
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            let header = usize::from(bytes[0] & 15) * 4;
            let found = finish(sum(&bytes[..header], 0));
            bytes[10..12].copy_from_slice(&found.to_be_bytes());
        }
        Family::V6 => bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes()),
    }
    if !fragment {
        fix_checksum(&mut bytes, at, family, proto);
        // At times one bit of the packet's end isn't as it was sent.
        if bytes.len() > at && rng.u8(..6) == 0 {
            *bytes.last_mut().expect("there are some") ^= 1;
        }
    }
    bytes
}

/// Fills in what the checksum of the transport header should be, where one is read.
fn fix_checksum(bytes: &mut [u8], at: usize, family: Family, proto: u8) {
    if proto == AH && bytes.len() > at + AH_LENGTH {
        let next = bytes[at];
        return fix_checksum(bytes, at + AH_LENGTH, family, next);
    }
    let place = at
        + match proto {
            6 => 16,
            17 => 6,
            1 | 58 => 2,
            _ => return,
        };
    if bytes.len() < place + 2 {
        return;
    }
    bytes[place..place + 2].fill(0);
    let length = (bytes.len() - at) as u32;
    let start = match (family, proto) {
        (_, 1) => 0,
        (Family::V4, _) => pseudo(&bytes[12..16], &bytes[16..20], proto, length),
        (Family::V6, _) => pseudo(&bytes[8..24], &bytes[24..40], proto, length),
    };
    let found = finish(sum(&bytes[at..], start));
    bytes[place..place + 2].copy_from_slice(&found.to_be_bytes());
}

fn v4(rng: &mut Rng, proto: u8) -> (Vec<u8>, bool) {
    let words = [0, 0, 1, 2, 10][rng.usize(..5)];
    let place: u16 = [0, 0, 0, 0, 0x2000, 0x2001, 1, 2][rng.usize(..8)];
    let mut bytes = vec![0x45 + words as u8, 0, 0, 0, 0, 7];
    bytes.extend(place.to_be_bytes());
    bytes.extend([
        64,
        proto,
        0,
        0,
        10,
        1,
        2,
        rng.u8(..8),
        192,
        168,
        0,
        rng.u8(..8),
    ]);
    // Options: no operation.
    bytes.extend(std::iter::repeat_n(1, words * 4));
    (bytes, place != 0)
}

fn v6(rng: &mut Rng, proto: u8) -> (Vec<u8>, bool) {
    let mut chain = Vec::new();
    if rng.bool() {
        for _ in 0..rng.usize(..3) {
            chain.push([HOPOPTS, DSTOPTS, ROUTING, FRAGMENT, AH][rng.usize(..5)]);
        }
    }
    let mut bytes = vec![
        0x60,
        0,
        0,
        0,
        0,
        0,
        chain.first().copied().unwrap_or(proto),
        64,
    ];
    for last in [rng.u8(..8), rng.u8(..8)] {
        bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    let mut fragment = false;
    for (number, kind) in chain.iter().enumerate() {
        let next = chain.get(number + 1).copied().unwrap_or(proto);
        match *kind {
            FRAGMENT => {
                let place: u16 = [0, 1, 1, 8, 9][rng.usize(..5)];
                bytes.extend([next, 0]);
                bytes.extend(place.to_be_bytes());
                bytes.extend([0, 0, 0, 9]);
                fragment = true;
            }
            AH => bytes.extend([next, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1]),
            ROUTING => bytes.extend([next, 0, [0, 2, 3][rng.usize(..3)], 0, 0, 0, 0, 0]),
            // Padding (PadN of four bytes).
            _ => bytes.extend([next, 0, 1, 4, 0, 0, 0, 0]),
        }
    }
    (bytes, fragment)
}

/// What a whole header of the protocol would be, and something behind it.
fn upper(rng: &mut Rng, proto: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..64).map(|_| rng.u8(..)).collect();
    let ports = [[0, 80], [0, 53], [0, 22], [156, 64]];
    let kinds = [0, 3, 8, 11, 13, 15, 128, 135, 1];
    match proto {
        6 | 17 | 33 | 132 | 136 => {
            bytes[..2].copy_from_slice(&ports[rng.usize(..4)]);
            bytes[2..4].copy_from_slice(&ports[rng.usize(..4)]);
        }
        1 | 58 => bytes[..2].copy_from_slice(&[kinds[rng.usize(..9)], rng.u8(..2)]),
        50 | 51 => bytes[..4].fill(0),
        112 => bytes[0] = [0x21, 0x21, 0x31, 0x22][rng.usize(..4)],
        _ => {}
    }
    match proto {
        6 => {
            let words = [0, 4, 5, 5, 6, 8, 15][rng.usize(..7)];
            bytes[12] = words << 4;
            bytes[13] = [2, 2, 16, 16, 18, 4, 0, 3, 41, 48][rng.usize(..10)];
            // Options: no operation.
            bytes[20..60].fill(1);
        }
        // A length that says what a datagram of these bytes would have.
        17 => bytes[4..6].copy_from_slice(&[0, 16]),
        // No next-hop MTU, so that none is wrong.
        1 => bytes[4..8].copy_from_slice(&[0, 1, 5, 220]),
        AH => {
            let next = [NONE, 1, 6, 6, 17, 47, 50, 58][rng.usize(..8)];
            bytes[..2].copy_from_slice(&[next, 1]);
            bytes.truncate(AH_LENGTH);
            bytes.extend(upper(rng, next));
        }
        _ => {}
    }
    bytes
}
