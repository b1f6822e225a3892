//! Which addresses are local or broadcast: read from the kernel, written for `locals.h`.
//!
//! In: `/proc/net/fib_trie` and `/proc/net/if_inet6` of the namespace (proc(5)). Out: a table of
//! disjoint ranges in the map `locals`, written to the slot that packets do not use. What the words
//! mean is [`Locals::kind`].

use std::fs;
use std::mem::offset_of;

use weir_policy::eval::Locals;
use weir_policy::model::RangeSet;
use zerocopy::IntoBytes;

use crate::abi::{Control, LOCALS_MAX, Local};
use crate::error::{Result, file};
use crate::load::Instance;

const LOCAL: u64 = 1;
const BROADCAST: u64 = 2;
const MULTICAST: u64 = 4;
const UNSPECIFIED: u64 = 16;
const ANYCAST: u64 = 32;

/// Read the addresses of the calling thread's namespace.
pub fn read() -> Result<Locals> {
    let path = std::path::Path::new("/proc/thread-self/net/fib_trie");
    let trie = fs::read_to_string(path).map_err(file("reading", path))?;
    // Without IPv6 the file is not there.
    let inet6 = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    Ok(Locals {
        local: RangeSet::from_ranges(leaves(&trie, "LOCAL")),
        broadcast: RangeSet::from_ranges(leaves(&trie, "BROADCAST")),
        anycast: RangeSet::from_ranges(leaves(&trie, "ANYCAST")),
        local6: RangeSet::from_ranges(
            inet6
                .lines()
                .filter_map(|line| u128::from_str_radix(line.get(..32)?, 16).ok())
                .map(|address| (address, address)),
        ),
    })
}

/// Prefixes of one type: a line `|-- ADDRESS`, then lines `/LENGTH SCOPE TYPE`.
fn leaves(trie: &str, kind: &str) -> Vec<(u128, u128)> {
    let mut address = None;
    let mut out = Vec::new();
    for line in trie.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("|-- ") {
            address = text.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
        } else if let (Some(rest), Some(first)) = (line.strip_prefix('/'), address) {
            let mut words = rest.split_whitespace();
            let length = words.next().and_then(|w| w.parse::<u32>().ok());
            if let (Some(length @ 0..=32), Some(true)) = (length, words.nth(1).map(|w| w == kind)) {
                let rest = u32::MAX.checked_shr(length).unwrap_or(0);
                out.push((u128::from(first), u128::from(first | rest)));
            }
        }
    }
    out
}

/// Ranges of each type, disjoint and sorted, IPv4 then IPv6. What does not fit is left out from
/// the end of each family; a host with more than a thousand local ranges is none we know of.
fn table(locals: &Locals) -> (Vec<Local>, Vec<Local>) {
    let range = |first: u128, last: u128| RangeSet::range(first, last);
    let local = locals.local.union(&range(0x7f00_0000, 0x7fff_ffff));
    let broadcast = locals
        .broadcast
        .union(&range(0, 0x00ff_ffff))
        .union(&range(0xffff_ffff, 0xffff_ffff));
    let multicast = range(0xe000_0000, 0xefff_ffff);
    let v4 = disjoint(
        &[
            (local, LOCAL),
            (broadcast, BROADCAST),
            (multicast, MULTICAST),
            (locals.anycast.clone(), ANYCAST),
        ],
        0xffff_ffff,
    );
    let multicast6 = range(0xff << 120, u128::MAX);
    let local6 = locals.local6.union(&range(1, 1));
    let neither = range(0, 0).union(&range(0xffff_0000_0000, 0xffff_ffff_ffff));
    let v6 = disjoint(
        &[
            (multicast6, MULTICAST),
            (local6, LOCAL),
            (neither, UNSPECIFIED),
        ],
        u128::MAX,
    );
    (v4, v6)
}

/// Earlier sets take precedence over later ones.
fn disjoint(sets: &[(RangeSet<u128>, u64)], top: u128) -> Vec<Local> {
    let mut taken = RangeSet::default();
    let mut out = Vec::new();
    for (set, types) in sets {
        for (first, last) in set.intersect(&taken.complement(top)).ranges() {
            let halves = |a: u128| [(a >> 64) as u64, a as u64];
            out.push(Local {
                first: halves(*first),
                last: halves(*last),
                types: *types,
            });
        }
        taken = taken.union(set);
    }
    out.sort_by_key(|l| l.first);
    out
}

/// Put addresses in force.
pub fn write(instance: &Instance, locals: &Locals) {
    let (mut v4, mut v6) = table(locals);
    v6.truncate(LOCALS_MAX / 2);
    v4.truncate(LOCALS_MAX - v6.len());
    let mut bytes = Vec::with_capacity(8 + (v4.len() + v6.len()) * size_of::<Local>());
    bytes.extend((v4.len() as u32).to_ne_bytes());
    bytes.extend((v6.len() as u32).to_ne_bytes());
    v4.iter()
        .chain(&v6)
        .for_each(|entry| bytes.extend(entry.as_bytes()));
    let active = offset_of!(Control, locals_active);
    let spare = 1 - (instance.control().load32(active) & 1);
    let map = instance.map("locals");
    map.memory().write(spare as usize * map.entry, &bytes);
    instance.control().store32(active, spare);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.9.0.0\n        /24 link UNICAST\n\
        Local:\n     |-- 10.9.0.1\n        /32 host LOCAL\n     |-- 10.9.0.255\n        /32 link BROADCAST\n\
        |-- 127.0.0.0\n        /32 link BROADCAST\n        /8 host LOCAL\n";

    #[test]
    fn local_and_broadcast_leaves_are_found() {
        assert_eq!(
            leaves(TRIE, "LOCAL"),
            [(0x0a09_0001, 0x0a09_0001), (0x7f00_0000, 0x7fff_ffff)]
        );
        assert_eq!(
            leaves(TRIE, "BROADCAST"),
            [(0x0a09_00ff, 0x0a09_00ff), (0x7f00_0000, 0x7f00_0000)]
        );
    }

    #[test]
    fn ranges_are_disjoint_and_mean_what_the_evaluator_means() {
        let locals = Locals {
            local: RangeSet::from_ranges(leaves(TRIE, "LOCAL")),
            broadcast: RangeSet::from_ranges(leaves(TRIE, "BROADCAST")),
            anycast: RangeSet::one(0x0a09_0009),
            local6: RangeSet::one(0xfe80 << 112 | 5),
        };
        use weir_policy::model::{AddrType, Family};
        let (v4, v6) = table(&locals);
        for (family, entries) in [(Family::V4, &v4), (Family::V6, &v6)] {
            assert!(entries.windows(2).all(|w| w[0].last < w[1].first));
            for entry in entries {
                for half in [entry.first, entry.last] {
                    let address = u128::from(half[0]) << 64 | u128::from(half[1]);
                    let wanted = match locals.kind(family, address) {
                        AddrType::Local => LOCAL,
                        AddrType::Broadcast => BROADCAST,
                        AddrType::Multicast => MULTICAST,
                        AddrType::Unicast => 8,
                        AddrType::Unspecified => UNSPECIFIED,
                        AddrType::Anycast => ANYCAST,
                    };
                    assert_eq!(entry.types, wanted, "{address:x}");
                }
            }
        }
    }
}
