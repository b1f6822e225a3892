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

/// The bits of places of IPv4.
pub const PLACES_V4: u32 = 0x1f;
/// The bits of places of IPv6.
pub const PLACES_V6: u32 = 0x1f00;
/// Frames have roots of their own ([`weir_policy::model::Root::is_of_frames`]).
pub const FRAMES: u32 = 1 << 5;
/// Answers of rejects leave past the rules.
pub const ANSWERS_PASS: u32 = 1 << 6;
/// Of those the resets do.
pub const RESETS_PASS: u32 = 1 << 7;
/// Headers are read as IPFilter reads them ([`weir_policy::model::Reading`]).
pub const READS_IPF: u32 = 1 << 13;
/// As ipfw does.
pub const READS_IPFW: u32 = 1 << 14;
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
/// PREROUTING is judged at tcx ingress: its rules set marks, which routing reads, or its drops are
/// to be early.
pub const INGRESS: u32 = 1 << 24;
/// What PREROUTING drops is dropped at XDP where that can be told there.
pub const XDP: u32 = 1 << 25;

/// Rules ask for the way back to a packet's source, which a program at tcx ingress looks up.
pub const ROUTE_BACK: u32 = 1 << 26;
/// The way back of packets with the packet's mark.
pub const ROUTE_BACK_MARKED: u32 = 1 << 27;
/// ipfw's rules ask for the reverse path of every source.
pub const REVERSE_PATH: u32 = 1 << 30;
/// They ask whether a source is on a connected network, too.
pub const NOT_SPOOFED: u32 = 1 << 31;
/// Any question of the program that asks routing.
pub const WAY_BACK: u32 = ROUTE_BACK | REVERSE_PATH;

/// Where drops of PREROUTING are made ahead of netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// At tcx ingress: all of them, but for fragments.
    Tcx,
    /// At XDP: those of TCP and UDP packets that rules without memory and marks decide.
    Xdp,
}

/// Early drop at tcx was asked for, and at XDP: kept for the changes that follow.
const ASKED_TCX: u32 = 1 << 28;
const ASKED_XDP: u32 = 1 << 29;

/// Where early drop was asked for with a policy.
pub fn early(bits: u32) -> Option<Early> {
    match bits {
        _ if bits & ASKED_XDP != 0 => Some(Early::Xdp),
        _ if bits & ASKED_TCX != 0 => Some(Early::Tcx),
        _ => None,
    }
}

/// The bits of a policy with early drop. Without rules of PREROUTING nothing can be dropped early,
/// but a change may bring such rules.
pub fn with_early(bits: u32, early: Early) -> u32 {
    let prerouting = bit(Family::V4, Hook::Prerouting) | bit(Family::V6, Hook::Prerouting);
    let bits = bits
        | match early {
            Early::Tcx => ASKED_TCX,
            Early::Xdp => ASKED_XDP,
        };
    if bits & prerouting == 0 {
        return bits;
    }
    bits | match early {
        Early::Tcx => INGRESS,
        Early::Xdp => XDP,
    }
}

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
    /// Whether it comes behind the kernel's own connection tracking, which knows what is translated
    /// (`bpf/translated.h`): at PREROUTING, when rules ask about flows there.
    fn is_tracked(self, bits: u32) -> bool {
        self.hook == Hook::Prerouting && bits & EARLY_STATE != 0
    }

    /// Name of the pinned link, and how it is attached (no dots: the BPF file system forbids them).
    pub fn pin_name(self, bits: u32) -> String {
        let defragment = if is_defragmented(bits, self.family) {
            "_defrag"
        } else {
            ""
        };
        let tracked = if self.is_tracked(bits) {
            "_tracked"
        } else {
            ""
        };
        format!("{}{defragment}{tracked}", self.stem())
    }

    /// How the names of its links begin, however they are attached.
    fn stem(self) -> String {
        let family = if self.family == Family::V4 {
            "v4"
        } else {
            "v6"
        };
        let name = PLACES.iter().find(|p| p.0 == self.hook).map_or("", |p| p.2);
        format!("link_{family}_{name}")
    }

    /// Whether a pinned link is of this place, but attached otherwise than a policy needs it.
    pub fn is_otherwise(self, bits: u32, name: &str) -> bool {
        let stem = self.stem();
        let rest = name.strip_prefix(&stem);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
            && name != self.pin_name(bits)
    }

    /// Priority at the hook. Two instances differ by one, because BPF programs may not share one.
    pub fn priority(self, bits: u32, instance: u32) -> i32 {
        let base = match self.hook {
            // Where iptables has mangle: before the translation of destinations at -100.
            Hook::Prerouting if self.is_tracked(bits) => -150,
            Hook::Prerouting => -300,
            _ => 0,
        };
        base + (instance % 2) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_attached_otherwise_is_told_by_its_name() {
        let place = Place {
            family: Family::V4,
            hook: Hook::Prerouting,
        };
        assert_eq!(place.pin_name(0), "link_v4_prerouting");
        let bits = DEFRAGMENT_V4 | EARLY_STATE;
        assert_eq!(place.pin_name(bits), "link_v4_prerouting_defrag_tracked");
        assert!(place.is_otherwise(0, "link_v4_prerouting_tracked"));
        assert!(place.is_otherwise(bits, "link_v4_prerouting"));
        assert!(!place.is_otherwise(bits, "link_v4_prerouting_defrag_tracked"));
        assert!(!place.is_otherwise(bits, "link_v6_prerouting"));
        assert_eq!(
            (place.priority(0, 1), place.priority(bits, 2)),
            (-299, -150)
        );
    }

    #[test]
    fn early_drop_is_remembered_beside_the_policy() {
        for place in [Early::Tcx, Early::Xdp] {
            assert_eq!(early(with_early(0, place)), Some(place));
            let prerouting = bit(Family::V4, Hook::Prerouting);
            assert_eq!(early(with_early(prerouting, place)), Some(place));
        }
        assert_eq!(early(INGRESS | bit(Family::V4, Hook::Prerouting)), None);
    }

    #[test]
    fn every_place_has_a_bit_of_its_own() {
        let all = PLACES_V4 | PLACES_V6;
        assert_eq!(all & FRAMES, 0);
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
                | INGRESS
                | XDP
                | ROUTE_BACK
                | ROUTE_BACK_MARKED
                | REVERSE_PATH
                | NOT_SPOOFED
                | ASKED_TCX
                | ASKED_XDP),
            0
        );
    }
}
