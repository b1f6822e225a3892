//! The parser in C equals the parser in Rust, on random, mutated and cut packets, in the kernel.

use fastrand::Rng;
use weir_engine::packet;
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::model::{Family, Reading};

/// Bytes of a packet: plausible headers by hand, so that nothing of the engine's own builder is
/// taken for granted, then changed at random.
fn random_bytes(random: &mut Rng, family: Family) -> Vec<u8> {
    let mut bytes = Vec::new();
    let protocols = [
        1u8, 6, 6, 6, 17, 17, 33, 50, 51, 58, 132, 136, 0, 43, 44, 60, 59, 4, 255,
    ];
    let proto = *random.choice(&protocols).unwrap();
    network(random, family, proto, &mut bytes, 0);
    for _ in 0..random.usize(0..40) {
        bytes.push(random.u8(..));
    }
    if random.u8(0..3) == 0 {
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
    }
    let minimum = if family == Family::V4 { 20 } else { 40 };
    if random.u8(0..3) == 0 {
        bytes.truncate(random.usize(minimum..=bytes.len()));
    }
    bytes[0] = bytes[0] & 15 | if family == Family::V4 { 0x40 } else { 0x60 };
    bytes
}

fn network(random: &mut Rng, family: Family, proto: u8, bytes: &mut Vec<u8>, depth: u32) {
    let start = bytes.len();
    let offset = *random
        .choice(&[0u16, 0, 0, 0, 1, 2, 0x2000, 0x2001, 0x1fff])
        .unwrap();
    if family == Family::V4 {
        let words = if random.u8(0..8) == 0 {
            random.u8(5..16)
        } else {
            5
        };
        bytes.extend([0x40 | words, random.u8(..), 0, 0, 0, 1]);
        bytes.extend(offset.to_be_bytes());
        bytes.extend([random.u8(..), proto, 0, 0]);
        (0..8 + (words - 5) * 4).for_each(|_| bytes.push(random.u8(..)));
        transport(random, family, proto, bytes, depth);
        let total = (bytes.len() - start) as u16 + random.u16(0..24) * u16::from(random.bool());
        let total = if random.u8(0..16) == 0 { 0 } else { total };
        bytes[start + 2..start + 4].copy_from_slice(&total.to_be_bytes());
        return;
    }
    let extensions: Vec<u8> = (0..random.usize(0..4) * random.usize(0..4))
        .map(|_| *random.choice(&[0u8, 43, 44, 51, 60]).unwrap())
        .collect();
    let mut chain = extensions.clone();
    chain.push(proto);
    bytes.extend([
        0x60 | random.u8(0..16),
        random.u8(..),
        0,
        0,
        0,
        0,
        chain[0],
        random.u8(..),
    ]);
    (0..32).for_each(|_| bytes.push(random.u8(..)));
    for (i, kind) in extensions.iter().enumerate() {
        bytes.push(chain[i + 1]);
        let size = if *kind == 44 {
            8
        } else if *kind == 51 {
            12
        } else {
            8 * random.u8(1..3)
        };
        bytes.push(if *kind == 51 {
            size / 4 - 2
        } else {
            size / 8 - 1
        });
        let word = if *kind == 44 {
            offset.rotate_left(3)
        } else {
            random.u16(..)
        };
        bytes.extend(word.to_be_bytes());
        (4..size).for_each(|_| bytes.push(random.u8(..)));
    }
    transport(random, family, proto, bytes, depth);
    let rest = (bytes.len() - start - 40) as u16 + random.u16(0..24) * u16::from(random.bool());
    let rest = if random.u8(0..16) == 0 { 0 } else { rest };
    bytes[start + 4..start + 6].copy_from_slice(&rest.to_be_bytes());
}

fn transport(random: &mut Rng, family: Family, proto: u8, bytes: &mut Vec<u8>, depth: u32) {
    match proto {
        6 => {
            (0..12).for_each(|_| bytes.push(random.u8(..)));
            let words = if random.u8(0..4) == 0 {
                random.u8(..16)
            } else {
                5
            };
            bytes.extend([words << 4, random.u8(..)]);
            (0..6).for_each(|_| bytes.push(random.u8(..)));
            options(random, usize::from(words.max(5) - 5) * 4, bytes);
        }
        1 | 58 if depth == 0 => {
            let kind = *random
                .choice(&[0u8, 3, 4, 5, 8, 11, 12, 13, 17, 1, 2, 127, 128, 129, 135])
                .unwrap();
            bytes.extend([kind, random.u8(..)]);
            (0..6).for_each(|_| bytes.push(random.u8(..)));
            let inner = *random.choice(&[6u8, 17, 1, 58, 132, 51, 50, 99]).unwrap();
            let inner_family = if proto == 1 { Family::V4 } else { Family::V6 };
            network(random, inner_family, inner, bytes, 1);
        }
        _ => {
            let _ = family;
            (0..random.usize(0..24)).for_each(|_| bytes.push(random.u8(..)));
        }
    }
}

/// TCP options that mostly make sense.
fn options(random: &mut Rng, length: usize, bytes: &mut Vec<u8>) {
    let mut made: Vec<u8> = Vec::new();
    while made.len() < length {
        match random.u8(0..8) {
            0 => made.push(1),
            1 => made.extend([2, 4, random.u8(..), random.u8(..)]),
            2 => made.extend([3, 3, random.u8(0..20)]),
            3 => made.extend([4, 2]),
            4 => made.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]),
            5 => {
                let blocks = random.u8(1..5);
                made.extend([5, 2 + 8 * blocks]);
                (0..8 * blocks).for_each(|_| made.push(random.u8(..)));
            }
            6 => made.push(random.u8(..)),
            _ => made.push(0),
        }
    }
    made.truncate(length);
    bytes.extend(made);
}

#[test]
fn parsers_agree_on_a_quarter_million_packets() {
    let Some(_) = weir_plane::kernel_or_skip("parsers_agree_on_a_quarter_million_packets") else {
        return;
    };
    let capacity = Capacity::for_policy(0, 0, 0, 0).expect("nothing fits");
    let run = TestRun::new(capacity).unwrap_or_else(|e| panic!("{e}"));
    let mut random = Rng::with_seed(7);
    let mut seen = [0u32; 8];
    let mut inners = 0;
    for round in 0..250_000 {
        let family = if random.bool() {
            Family::V4
        } else {
            Family::V6
        };
        let bytes = random_bytes(&mut random, family);
        let (outer, inner) = run.parse(family, &bytes).expect("test run");
        let mut wanted = packet::parse(&bytes, bytes.len() as u32, Reading::Linux);
        if let Some(key) = &mut wanted {
            key.hook = 3;
        }
        assert_eq!(outer, wanted, "{round}: {bytes:02x?}");
        let wanted_inner =
            wanted.and_then(|key| packet::embedded(&bytes, bytes.len() as u32, &key));
        assert_eq!(inner, wanted_inner, "{round}: {bytes:02x?}");
        seen[wanted.map_or(0, |k| usize::from(k.transport))] += 1;
        inners += u32::from(inner.is_some());
    }
    assert!(
        seen.iter().all(|n| *n > 500),
        "every kind of packet was tried: {seen:?}"
    );
    assert!(inners > 5000, "{inners}");
    println!("by transport {seen:?}, embedded {inners}");
}
