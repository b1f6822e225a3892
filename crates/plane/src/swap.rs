//! Putting a policy in force: write the spare slot, then one store that packets see or do not see.
//!
//! A packet reads `control.active` once, so it is judged by the old policy or by the new one as a
//! whole. Before a slot is written again, a grace period lets every program end that still reads
//! it. A process killed anywhere leaves the active slot as it was.

use std::mem::offset_of;

use crate::abi::Control;
use crate::error::{PlaneError, Result, system};
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
    let spare = 1 - active(instance);
    let slot = spare as usize;
    let control = instance.control();
    // From here on the slot holds no policy that one could return to.
    control.store32(offset_of!(Control, slot_generation) + slot * 4, 0);
    grace_period().map_err(system("waiting for running programs to end"))?;
    let images = instance.map("images");
    images.memory().write(slot * images.entry, policy.image);
    for name in ["counters", "histories"] {
        let map = instance.map(name);
        map.memory().zero(slot * map.entry, map.entry);
    }
    control.store32(offset_of!(Control, slot_hooks) + slot * 4, policy.hooks);
    control.store32(offset_of!(Control, slot_generation) + slot * 4, number);
    Ok(spare)
}

/// Let packets use the other slot.
pub fn flip(instance: &Instance) {
    let next = 1 - active(instance);
    instance
        .control()
        .store32(offset_of!(Control, active), next);
}
