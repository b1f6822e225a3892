//! Which programs a policy needs, and of two for the same work which.
//!
//! In: features of images and bits of hooks. Out: bits of
//! [`Settings::features`](crate::abi::Settings) above those of images, and what is loaded for them.

use crate::hooks;

/// Bit of [`Settings::features`](crate::abi::Settings), above those of images: a hook of IPv4 is
/// needed.
pub const FAMILY_V4: u32 = 1 << 30;
/// The same for IPv6.
pub const FAMILY_V6: u32 = 1 << 31;

/// The same: PREROUTING is judged at tcx ingress.
pub const INGRESS: u32 = 1 << 29;

/// The same: headers, marks or priorities are changed on the way out.
pub const EGRESS: u32 = 1 << 28;

/// The same: early drop at XDP.
pub const XDP: u32 = 1 << 27;

/// The same: the way back to a source is looked up on the way in.
pub const ROUTE_BACK: u32 = 1 << 26;

/// The same: for rules of ipfw, every source's.
pub const REVERSE_PATH: u32 = 1 << 24;

/// The same: flows are kept. Twin of `WEIR_FEATURE_TRACKS`.
pub const TRACKS: u32 = 1 << 25;

/// The same: frames are judged.
pub const FRAMES: u32 = 1 << 23;

/// What the hooks of a policy ask for: families, flows, and the programs on interfaces.
pub fn families(hooks: u32) -> u32 {
    let bit = |hooks, bit| if hooks != 0 { bit } else { 0 };
    bit(hooks & hooks::PLACES_V4, FAMILY_V4)
        | bit(hooks & hooks::PLACES_V6, FAMILY_V6)
        | bit(hooks & hooks::FRAMES, FRAMES)
        | bit(hooks & hooks::INGRESS, INGRESS)
        | bit(hooks & hooks::XDP, XDP)
        | bit(hooks & hooks::WAY_BACK, ROUTE_BACK)
        | bit(hooks & hooks::REVERSE_PATH, REVERSE_PATH)
        | bit(hooks & hooks::EGRESS, EGRESS)
        | bit(hooks & hooks::TRACK, TRACKS)
}

/// Whether programs with these features keep flows.
pub fn tracks(features: u32) -> bool {
    features & TRACKS != 0
}

/// The program of the object that does the work of one of [`PROGRAMS`](crate::load::PROGRAMS):
/// policies that keep no flows have a shorter one.
pub fn variant(program: &str, features: u32) -> &str {
    match program {
        "weir_judge" if !tracks(features) => "weir_plain",
        "weir_judge6" if !tracks(features) => "weir_plain6",
        _ => program,
    }
}

/// Whether a program is of use with these features.
pub fn is_needed(program: &str, features: u32) -> bool {
    match program {
        "weir_plain" => features & FAMILY_V4 != 0 && !tracks(features),
        "weir_plain6" => features & FAMILY_V6 != 0 && !tracks(features),
        "weir_ingress" => features & INGRESS != 0,
        "weir_early" => features & XDP != 0,
        "weir_route" => features & ROUTE_BACK != 0,
        "weir_frames_in" | "weir_frames_out" => features & FRAMES != 0,
        "weir_egress" => features & EGRESS != 0,
        "weir_judge" => features & FAMILY_V4 != 0,
        "weir_judge6" => features & FAMILY_V6 != 0,
        _ => true,
    }
}
