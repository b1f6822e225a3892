//! Changes in place of the policy in force: stores through the mapping of the maps that packets
//! read.
//!
//! In: what [`weir_engine::update`] stores. Out: the same bytes where programs read them. The image
//! in force must be the one whose changes these are.

use weir_engine::update::Store;
use weir_policy::model::RuleId;

use crate::counters;
use crate::load::Instance;
use crate::swap;
use crate::sys::memory::grace_period;

/// The slot that packets use.
#[derive(Debug)]
pub struct InForce<'i> {
    instance: &'i Instance,
    slot: u32,
}

impl<'i> InForce<'i> {
    /// The policy in force in an instance.
    pub fn of(instance: &'i Instance) -> Self {
        InForce {
            instance,
            slot: swap::active(instance),
        }
    }

    fn place(&self, at: u32) -> usize {
        self.slot as usize * self.instance.map("images").entry + at as usize
    }
}

impl Store for InForce<'_> {
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
        counters::zero(self.instance, self.slot, rule.0);
    }

    fn wait(&mut self) {
        // Where the kernel can't tell, a time that no program takes: they are bounded.
        if grace_period().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}
