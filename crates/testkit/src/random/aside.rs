//! Random conditions on what the kernel knows beside headers and on bytes, and packets for them.

use fastrand::Rng;
use weir_policy::model::{
    Aside, ChunkFlags, Cond, Facts, IfPattern, MarkShift, OwnerRange, RangeSet, TcpNumber,
    TextSearch, WordStep, WordTest,
};

use super::{chance, pick};

const GROUPS: [u32; 5] = [0, 5, 6, 100, u32::MAX];
const CLASSES: [u32; 3] = [0, 0x10001, 0x10002];
const CONTROL_GROUPS: [u64; 3] = [1, 0x1_0000_0007, 99];
const PORTS: [&str; 4] = ["tap0", "tap1", "vnet10", ""];

/// A condition.
pub fn condition(rng: &mut Rng) -> Aside {
    let (a, b) = (*pick(rng, &GROUPS), *pick(rng, &GROUPS));
    let out = rng.bool();
    let value = rng.u32(..4);
    match rng.u8(..15) {
        0 => Aside::Socket,
        1 => Aside::Groups(OwnerRange {
            first: a.min(b),
            last: a.max(b),
        }),
        2 => Aside::Class(*pick(rng, &CLASSES)),
        3 => Aside::Group {
            id: *pick(rng, &CONTROL_GROUPS),
            level: rng.u32(..4),
        },
        4 => Aside::Cpu(rng.u32(..3)),
        5 => Aside::DeviceGroup {
            out,
            value,
            mask: 3,
        },
        6 => Aside::Realm { value, mask: 7 },
        7 => Aside::Port { out, name: None },
        8 => Aside::Port {
            out,
            name: Some(IfPattern {
                name: (*pick(rng, &["tap0", "tap", "vnet1", "vnet10"])).to_owned(),
                prefix: rng.bool(),
            }),
        },
        9 | 12 | 13 => header(rng),
        10 | 11 => Aside::Words((0..rng.usize(1..3)).map(|_| word(rng)).collect()),
        _ => text(rng),
    }
}

/// Fields of headers that few ask for.
fn header(rng: &mut Rng) -> Aside {
    const NUMBERS: [TcpNumber; 4] = [
        TcpNumber::Sequence,
        TcpNumber::Acknowledgement,
        TcpNumber::Window,
        TcpNumber::Data,
    ];
    match rng.u8(..8) {
        0 => {
            let value = *pick(rng, &[0, 4, 5]);
            Aside::IpOptions {
                value,
                mask: value | rng.u8(..16),
            }
        }
        1 if rng.bool() => {
            let mask = *pick(rng, &[0xff, 0x0c, 0x84, 0x88]);
            let value = *pick(rng, &[0x80, 0x84, 0x88, 0x8c, 0x20, 0x40, 4, 8]) & mask;
            Aside::Headers { value, mask }
        }
        1 => Aside::Extensions(*pick(rng, &[1, 2, 4, 0x45, 0x10, 0x80])),
        _ => {
            let first = *pick(rng, &[0, 1, 100, 5000, 1 << 31]);
            let last = *pick(rng, &[0, 4, 100, 1300, 65_535, u32::MAX]);
            let range = (first.min(last), first.max(last));
            Aside::Tcp(*pick(rng, &NUMBERS), RangeSet::from_ranges([range, (7, 9)]))
        }
    }
}

fn word(rng: &mut Rng) -> WordTest {
    let steps = match rng.u8(..5) {
        // The ports, behind a header of whatever length.
        0 => vec![
            WordStep::Right(22),
            WordStep::And(0x3c),
            WordStep::At(0),
            WordStep::And(0xffff),
        ],
        1 => vec![
            WordStep::Right(*pick(rng, &[0, 8, 16, 31, 32])),
            WordStep::And(0xff),
        ],
        2 => vec![WordStep::Left(rng.u32(..40))],
        3 => vec![WordStep::At(rng.u32(..3)), WordStep::At(1)],
        _ => vec![],
    };
    let first = *pick(rng, &[0, 6, 17, 22, 80, 0x4500_0000]);
    let last = *pick(rng, &[22, 1024, 0x45ff_ffff, u32::MAX]);
    let mut ranges = vec![(first, last)];
    if rng.bool() {
        ranges.push((1, 5));
    }
    WordTest {
        start: *pick(rng, &[0, 0, 4, 8, 16, 37, 60, 1000]),
        steps,
        ranges,
    }
}

/// Bytes that headers and payloads of zeros have often.
fn text(rng: &mut Rng) -> Aside {
    const TEXTS: [&[u8]; 8] = [
        &[0, 0],
        &[0; 30],
        &[0, 0, 1],
        &[64],
        &[6, 0],
        &[10, 0, 0],
        &[64, 6],
        &[0, 80],
    ];
    let from = *pick(rng, &[0, 0, 1, 9, 20, 40, 200]);
    Aside::Text(TextSearch {
        pattern: pick(rng, &TEXTS).to_vec(),
        ignore_case: rng.bool(),
        from,
        to: *pick(rng, &[from, from + 3, from + 30, 2000]),
    })
}

/// What is known of a packet that is received, sent, or both.
pub fn facts(rng: &mut Rng, received: bool, sent: bool, owned: bool) -> Facts {
    let socket = owned || sent && chance(rng, 30);
    let group = |rng: &mut Rng, there: bool| if there { rng.u32(..5) } else { 0 };
    let mut control_groups = Vec::new();
    if socket && rng.bool() {
        control_groups = CONTROL_GROUPS[..rng.usize(1..3)].to_vec();
    }
    Facts {
        socket,
        groups: match owned {
            true => {
                let mut groups: Vec<u32> =
                    (0..rng.usize(..4)).map(|_| *pick(rng, &GROUPS)).collect();
                // As the kernel keeps them.
                groups.sort_unstable();
                groups
            }
            false => Vec::new(),
        },
        class: (socket && rng.bool()).then(|| *pick(rng, &CLASSES)),
        control_groups,
        cpu: rng.u32(..3),
        device_groups: [group(rng, received), group(rng, sent)],
        realm: rng.u32(..9),
        ports: chance(rng, 25).then(|| [0, 1].map(|_| (*pick(rng, &PORTS)).to_owned())),
        ..Facts::default()
    }
}

/// How a mark moves.
pub fn mark_shift(rng: &mut Rng) -> MarkShift {
    MarkShift {
        right: rng.bool(),
        bits: *pick(rng, &[0, 0, 0, 1, 2, 31]),
    }
}

/// A condition on chunks of SCTP.
pub fn chunks(rng: &mut Rng) -> Cond {
    let kinds = [0u8, 1, 6, 14];
    let types = kinds.iter().filter(|_| rng.bool());
    let types = types.fold(0, |all, kind| all | 1u64 << kind);
    let mut flags: Vec<ChunkFlags> = kinds[..rng.usize(..=4)]
        .iter()
        .map(|&kind| {
            let mask = rng.u8(1..4);
            let value = rng.u8(..4) & mask;
            ChunkFlags { kind, mask, value }
        })
        .collect();
    flags.retain(|row| types >> row.kind & 1 == 1);
    Cond::SctpChunks {
        kind: rng.u8(..3),
        types: [types, 0, 0, 0],
        flags,
    }
}
