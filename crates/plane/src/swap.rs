//! Putting a policy in force: write the spare slot, then one store that packets see or do not see.
//!
//! A packet reads `control.active` once, so it is judged by the old policy or by the new one as a
//! whole. Before a slot is written again, a grace period lets every program end that still reads
//! it. A process killed anywhere leaves the active slot as it was.

use std::mem::offset_of;

use weir_engine::compile::Compiled;
use weir_engine::history;
use weir_engine::image::layout;
use weir_policy::model;
use zerocopy::IntoBytes;

use crate::abi::{Control, REASONS};
use crate::error::{PlaneError, Result, system};
use crate::hooks::ANSWERS_PASS;
use crate::load::Instance;
use crate::sys::memory::grace_period;

/// A compiled policy, as the maps take it.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The image (`weir_engine::image`).
    pub image: &'a [u8],
    /// Number of rules: counters are `0..rules`.
    pub rules: u32,
    /// Bytes of history that its rules need.
    pub history: usize,
    /// Hooks that it needs, bits of [`crate::hooks`].
    pub hooks: u32,
}

impl<'a> Policy<'a> {
    /// A policy and what the compiler made of it.
    pub fn of(policy: &model::Policy, compiled: &'a Compiled) -> Policy<'a> {
        Policy {
            image: &compiled.image,
            rules: policy.rule_count,
            // The compiler has refused what can't be laid out.
            history: history::layout(policy, 0).map_or(0, |memory| memory.bytes),
            hooks: crate::needs::of(policy),
        }
    }
}

/// Features of images that these programs have.
const FEATURES: u32 = layout::FEATURE_CHANGES
    | layout::FEATURE_LIFETIMES
    | layout::FEATURE_FLOW_FIELDS
    | layout::FEATURE_LEARNED
    | layout::FEATURE_DYNAMIC
    | layout::FEATURE_TABLES
    | layout::FEATURE_RARE
    | layout::FEATURE_HISTORY
    | layout::FEATURE_METER
    | layout::FEATURE_ASIDE
    | layout::FEATURE_PAYLOAD
    | layout::FEATURE_ICMP_HEAD
    | layout::FEATURE_KEEP_ALIVE
    | layout::FEATURE_ROUTES
    | layout::FEATURE_CHUNKS
    | layout::FEATURE_TIMES
    | layout::FEATURE_BAD_SRC
    | layout::FEATURE_BOUNDS;

/// Features that an image asks for; 0 for one that is no image, which the programs do not walk.
pub fn features(image: &[u8]) -> u32 {
    let at = std::mem::offset_of!(layout::Header, features);
    let bytes = image.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// Whether the programs have everything that an image asks for.
pub fn is_supported(image: &[u8]) -> bool {
    features(image) & !FEATURES == 0
}

/// The slot that packets use.
pub fn active(instance: &Instance) -> u32 {
    instance.control().load32(offset_of!(Control, active)) & 1
}

/// Number of the policy in a slot; 0: none.
pub fn generation(instance: &Instance, slot: u32) -> u32 {
    instance
        .control()
        .load32(offset_of!(Control, slot_generation) + slot as usize * 4)
}

/// Whether the policy in force wants TCP states to be kept alive.
pub fn keeps_alive(instance: &Instance) -> bool {
    let images = instance.map("images");
    let at = active(instance) as usize * images.entry + offset_of!(layout::Header, features);
    generation(instance, active(instance)) != 0
        && images.memory().load32(at) & layout::FEATURE_KEEP_ALIVE != 0
}

/// Whether answers of rejects pass the rules of the policy in force.
pub fn answers_pass(instance: &Instance) -> bool {
    hooks(instance, active(instance)) & ANSWERS_PASS != 0
}

/// Hooks that the policy in a slot needs.
pub fn hooks(instance: &Instance, slot: u32) -> u32 {
    instance
        .control()
        .load32(offset_of!(Control, slot_hooks) + slot as usize * 4)
}

/// Write a policy into the slot that packets do not use. Returns the slot.
pub fn write_spare(instance: &Instance, policy: &Policy<'_>, number: u32) -> Result<u32> {
    let capacity = instance.capacity();
    let too_large = |what, needed: usize, limit: u32| {
        Err(PlaneError::Budget {
            what,
            needed: needed as u64,
            limit: u64::from(limit),
        })
    };
    if policy.image.len() > capacity.image as usize {
        return too_large("image", policy.image.len(), capacity.image);
    }
    if policy.rules > capacity.rules {
        return too_large("counters", policy.rules as usize * 16, capacity.rules * 16);
    }
    if policy.history > capacity.history as usize {
        return too_large("history", policy.history, capacity.history);
    }
    let unable = features(policy.image) & !instance.settings.features != 0
        || !crate::load::Learning::of(features(policy.image)).is_done_by(instance);
    if unable || !is_supported(policy.image) {
        return Err(PlaneError::Unsupported);
    }
    let spare = 1 - active(instance);
    let slot = spare as usize;
    let control = instance.control();
    // From here on the slot holds no policy that one could return to.
    control.store32(offset_of!(Control, slot_generation) + slot * 4, 0);
    grace_period().map_err(system("waiting for running programs to end"))?;
    let images = instance.map("images");
    images.memory().write(slot * images.entry, policy.image);
    if policy.image.len() >= layout::LOADED_AT + 8 {
        let now = crate::clock::now_ms(instance)?;
        images
            .memory()
            .store64(slot * images.entry + layout::LOADED_AT, now);
        set_wall_clock(instance, now);
    }
    // What was dropped there stays in the sum of all policies.
    let drops_at = offset_of!(Control, short_drops) + slot * 8;
    let drops = control.load64(drops_at);
    control.add64(offset_of!(Control, reasons), drops);
    control.store64(drops_at, 0);
    for name in ["counters", "histories"] {
        let map = instance.map(name);
        map.memory().zero(slot * map.entry, map.entry);
    }
    if let Some(learned) = &instance.learned {
        crate::learned::begin(learned, spare);
    }
    control.store32(offset_of!(Control, slot_hooks) + slot * 4, policy.hooks);
    let lanes = crate::lanes::of(policy.image, policy.hooks);
    let lanes_at = offset_of!(Control, lanes) + slot * size_of_val(&lanes);
    control.write(lanes_at, lanes.as_bytes());
    control.store32(offset_of!(Control, slot_generation) + slot * 4, number);
    Ok(spare)
}

/// Index in the settings of the wall clock less the packet clock, in two words (`flow_abi.h`).
const WALL_OFFSET: usize = 18;

/// Tell the programs the time of day. In test runs the packet clock is the wall clock.
pub fn set_wall_clock(instance: &Instance, packet_ms: u64) {
    if instance.settings.testing != 0 {
        return;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let wall_ms = since.map_or(0, |d| d.as_millis() as u64);
    let offset = wall_ms.wrapping_sub(packet_ms);
    let at = offset_of!(Control, settings) + 4 * WALL_OFFSET;
    instance.control().store32(at, offset as u32);
    instance.control().store32(at + 4, (offset >> 32) as u32);
}

/// Let packets use the other slot.
pub fn flip(instance: &Instance) {
    let next = 1 - active(instance);
    instance
        .control()
        .store32(offset_of!(Control, active), next);
}

/// Copy the settings that belong to the namespace, not to the policy, into a new instance.
pub fn carry_over(old: &Instance, new: &Instance) {
    let copy = |offset: usize, length: usize| {
        let mut bytes = vec![0; length];
        old.control().read(offset, &mut bytes);
        new.control().write(offset, &bytes);
    };
    copy(offset_of!(Control, locals_active), 4);
    copy(offset_of!(Control, answering), 4);
    copy(offset_of!(Control, answer_cookie), 32);
    copy(offset_of!(Control, settings), 128);
    copy(offset_of!(Control, own_mark), 4);
    copy(offset_of!(Control, event_limit), 4);
    copy(offset_of!(Control, forwarding), 4);
    copy(offset_of!(Control, reasons), 128);
    for slot in 0..2 {
        let drops = old
            .control()
            .load64(offset_of!(Control, short_drops) + slot * 8);
        new.control().add64(offset_of!(Control, reasons), drops);
    }
    copy(offset_of!(Control, flow_statistics), 128);
}

/// Copy the policy in force in `old` into the empty spare slot of `new`, so that one can return to
/// it. Does nothing when that slot holds one already, or there is none.
pub fn keep_previous(old: &Instance, new: &Instance) -> Result<()> {
    let (from, to) = (active(old), 1 - active(new));
    let number = generation(old, from);
    let room = new
        .capacity()
        .holds(old.capacity().image as usize, old.capacity().rules, 0);
    if number == 0 || generation(new, to) != 0 || !room {
        return Ok(());
    }
    let images = (old.map("images"), new.map("images"));
    let mut image = vec![0; old.capacity().image as usize];
    images
        .0
        .memory()
        .read(from as usize * images.0.entry, &mut image);
    if !crate::load::Learning::of(features(&image)).is_done_by(new) {
        // It keeps states as another language does.
        return Ok(());
    }
    let policy = Policy {
        image: &image,
        rules: 0,
        history: 0,
        hooks: hooks(old, from),
    };
    write_spare(new, &policy, number)?;
    let rules = old.capacity().rules;
    crate::counters::preset(new, to, &crate::counters::read(old, from, rules));
    crate::counters::preset_times(new, to, &crate::counters::times(old, from, rules));
    Ok(())
}

/// Packets by `enum weir_reason`, of all policies.
pub fn reasons(instance: &Instance) -> [u64; REASONS] {
    let control = instance.control();
    let words = |offset: usize, at: usize| control.load64(offset + at * 8);
    let mut out = std::array::from_fn(|i| words(offset_of!(Control, reasons), i));
    // The first are drops by a rule.
    out[0] += words(offset_of!(Control, short_drops), 0);
    out[0] += words(offset_of!(Control, short_drops), 1);
    out
}
