//! Which hooks a policy needs, as a set of bits that is kept beside the policy in the maps.

use weir_policy::model::{Family, Hook};

/// One place at which a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Family.
    pub family: Family,
    /// Hook.
    pub hook: Hook,
}

/// All places, each with its bit.
const PLACES: [(Hook, u32, &str); 5] = [
    (Hook::Input, 0, "input"),
    (Hook::Forward, 1, "forward"),
    (Hook::Output, 2, "output"),
    (Hook::Prerouting, 3, "prerouting"),
    (Hook::Postrouting, 4, "postrouting"),
];

/// Fragments of IPv4 are put together before the hooks.
pub const DEFRAGMENT_V4: u32 = 1 << 16;
/// Fragments of IPv6 are.
pub const DEFRAGMENT_V6: u32 = 1 << 17;
/// Rules change what later hooks or the wire must see.
pub const HANDOFF: u32 = 1 << 18;
/// Rules of PREROUTING or POSTROUTING ask about flows.
pub const EARLY_STATE: u32 = 1 << 19;
/// Some rule asks about flows, so flows are kept.
pub const TRACK: u32 = 1 << 20;
/// Headers, marks or priorities are changed on the way out (tcx egress).
pub const EGRESS: u32 = 1 << 21;

/// A packet may come to more than one of the hooks.
pub const SEVERAL: u32 = 1 << 22;
/// Fragments of IPv4 are put together where the namespace forwards them ([`crate::needs::settle`]).
pub const DEFRAGMENT_V4_FORWARDED: u32 = 1 << 23;
/// Rules of PREROUTING set marks, which routing reads: they are judged at tcx ingress.
pub const INGRESS: u32 = 1 << 24;

/// Whether packets at a place are put together first.
pub fn is_defragmented(bits: u32, family: Family) -> bool {
    bits & if family == Family::V4 {
        DEFRAGMENT_V4
    } else {
        DEFRAGMENT_V6
    } != 0
}

/// The bit of a place.
pub fn bit(family: Family, hook: Hook) -> u32 {
    let shift = if family == Family::V4 { 0 } else { 8 };
    let place = PLACES.iter().find(|p| p.0 == hook);
    place.map_or(0, |p| 1 << (p.1 + shift))
}

/// [`SEVERAL`], where a packet may come to more than one of the places in a set of bits.
pub fn several(bits: u32) -> u32 {
    let has = |hook| bits & (bit(Family::V4, hook) | bit(Family::V6, hook)) != 0;
    let behind = [Hook::Input, Hook::Forward, Hook::Postrouting].map(has);
    let received = has(Hook::Prerouting) && behind.contains(&true);
    let sent = has(Hook::Postrouting) && (has(Hook::Forward) || has(Hook::Output));
    if received || sent { SEVERAL } else { 0 }
}

/// The places in a set of bits.
pub fn places(bits: u32) -> Vec<Place> {
    let mut out = Vec::new();
    for family in [Family::V4, Family::V6] {
        for (hook, _, _) in PLACES {
            if bits & bit(family, hook) != 0 {
                out.push(Place { family, hook });
            }
        }
    }
    out
}

impl Place {
    /// Name of the pinned link (no dots: the BPF file system forbids them).
    pub fn pin_name(self, defragment: bool) -> String {
        let family = if self.family == Family::V4 {
            "v4"
        } else {
            "v6"
        };
        let name = PLACES.iter().find(|p| p.0 == self.hook).map_or("", |p| p.2);
        let end = if defragment { "_defrag" } else { "" };
        format!("link_{family}_{name}{end}")
    }

    /// Priority at the hook. Two instances differ by one, because BPF programs may not share one.
    pub fn priority(self, instance: u32) -> i32 {
        let base = if self.hook == Hook::Prerouting {
            -300
        } else {
            0
        };
        base + (instance % 2) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_bit_of_its_own() {
        let all = (1 << 16) - 1;
        let places = places(all);
        assert_eq!(places.len(), 10);
        let mut bits = 0;
        for place in places {
            let bit = bit(place.family, place.hook);
            assert_eq!(bit.count_ones(), 1);
            assert_eq!(bits & bit, 0);
            bits |= bit;
        }
        assert_eq!(
            bits & (DEFRAGMENT_V4
                | DEFRAGMENT_V6
                | HANDOFF
                | EARLY_STATE
                | TRACK
                | EGRESS
                | SEVERAL
                | INGRESS),
            0
        );
    }
}
