//! Changes in place of the policy in force: stores through the mapping of the maps that packets
//! read, and a new image in the other slot when it is time for one.
//!
//! In: what [`weir_engine::update`] stores. Out: the same bytes where programs read them. The image
//! in force must be the one whose changes these are. The switch is the one store of
//! [`crate::swap`]; counters go on, and histories too, as the rules that remember are the same.

use std::mem::offset_of;
use std::sync::Arc;

use weir_engine::update::{Home, Store};
use weir_policy::model::RuleId;

use crate::abi::Control;
use crate::counters;
use crate::load::Instance;
use crate::swap::{self, Policy};
use crate::sys::memory::grace_period;

/// An image in a slot.
#[derive(Clone, Debug)]
pub struct InForce {
    instance: Arc<Instance>,
    slot: u32,
}

impl InForce {
    /// The policy in force in an instance.
    pub fn of(instance: &Arc<Instance>) -> Self {
        InForce {
            slot: swap::active(instance),
            instance: Arc::clone(instance),
        }
    }

    fn place(&self, at: u32) -> usize {
        self.slot as usize * self.instance.map("images").entry + at as usize
    }
}

impl Store for InForce {
    fn write(&mut self, at: u32, bytes: &[u8]) {
        let images = self.instance.map("images");
        images.memory().write(self.place(at), bytes);
    }

    fn store32(&mut self, at: u32, value: u32) {
        let images = self.instance.map("images");
        images.memory().store32(self.place(at), value);
    }

    fn store64(&mut self, at: u32, value: u64) {
        let images = self.instance.map("images");
        images.memory().store64(self.place(at), value);
    }

    fn zero(&mut self, rule: RuleId) {
        counters::zero(&self.instance, self.slot, rule.0);
    }

    fn wait(&mut self) {
        // No packet goes to the other slot.
        if swap::active(&self.instance) != self.slot {
            return;
        }
        // Where the kernel can't tell, a time that no program takes: they are bounded.
        if grace_period().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// The slots of an instance, for a policy whose rules change one by one.
#[derive(Clone, Debug)]
pub struct Slots {
    instance: Arc<Instance>,
    /// Number of the policy.
    number: u32,
    hooks: u32,
    history: usize,
}

impl Slots {
    /// For a policy under this number, with hooks and bytes of history as [`Policy`] has them.
    pub fn of(instance: &Arc<Instance>, number: u32, hooks: u32, history: usize) -> Self {
        Slots {
            instance: Arc::clone(instance),
            number,
            hooks,
            history,
        }
    }

    fn copy_histories(&self, from: u32, to: u32) {
        let map = self.instance.map("histories");
        let mut bytes = vec![0; self.history.next_multiple_of(8)];
        map.memory().read(from as usize * map.entry, &mut bytes);
        map.memory().write(to as usize * map.entry, &bytes);
    }
}

impl Home for Slots {
    type Store = InForce;

    fn prepare(&self, image: &[u8], counters: u32) -> Result<InForce, String> {
        let policy = Policy {
            image,
            rules: counters,
            history: self.history,
            hooks: self.hooks,
        };
        let slot = swap::write_spare(&self.instance, &policy, self.number);
        Ok(InForce {
            slot: slot.map_err(|error| error.to_string())?,
            instance: Arc::clone(&self.instance),
        })
    }

    fn switch(&self, to: &mut InForce) -> Result<(), String> {
        let instance = &self.instance;
        let old = swap::active(instance);
        if old == to.slot {
            return Err("another policy was put in force".to_owned());
        }
        let rules = instance.capacity().rules;
        let had_policy = swap::generation(instance, old) == self.number;
        let before = counters::read(instance, old, rules);
        if had_policy {
            counters::preset(instance, to.slot, &before);
            if self.history > 0 {
                self.copy_histories(old, to.slot);
            }
        }
        swap::flip(instance);
        if had_policy {
            grace_period().map_err(|error| error.to_string())?;
            let after = counters::read(instance, old, rules);
            counters::add(instance, to.slot, &before, &after);
            // The same policy is not one to return to.
            let at = offset_of!(Control, slot_generation) + old as usize * 4;
            instance.control().store32(at, 0);
        }
        Ok(())
    }
}
