//! Changes in place of the policy in force: stores through the mapping of the maps that packets
//! read, and a new image in the other slot when it is time for one.
//!
//! In: what [`weir_engine::update`] stores. Out: the same bytes where programs read them. The image
//! in force must be the one whose changes these are. The switch is the one store of
//! [`crate::swap`]; counters go on, and histories too, as the rules that remember are the same.

use std::mem::offset_of;
use std::sync::Arc;

use weir_engine::image::layout;
use weir_engine::update::{Home, Store, Waiter};
use weir_policy::model::RuleId;

use crate::abi::{Control, Lane};
use crate::counters;
use crate::error::{PlaneError, Result, system};
use crate::load::{Instance, Learning, families};
use crate::plane::{ApplyOptions, GoingOn, Plane};
use crate::swap::{self, Policy};
use crate::sys::memory::grace_period;
use crate::sys::schedule;

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

    fn waiter(&self) -> Option<Waiter> {
        // No packet goes to the other slot.
        let is_used = swap::active(&self.instance) == self.slot;
        is_used.then(|| -> Waiter {
            Box::new(|| {
                // Where the kernel can't tell, a time that no program takes: they are bounded.
                if grace_period().is_err() {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            })
        })
    }

    fn whole(&mut self) {
        let control = self.instance.control();
        let size = size_of::<Lane>();
        let lanes = offset_of!(Control, lanes) + self.slot as usize * 8 * size;
        for at in (0..8).map(|number| lanes + number * size) {
            let decided = at + offset_of!(Lane, decided);
            // What is decided for all packets first, then where they are looked up.
            control.store32(decided + 4, control.load32(decided));
            let root = control.load32(at + offset_of!(Lane, root));
            control.store32(at + offset_of!(Lane, established), root);
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

    fn prepare(&self, image: &[u8], counters: u32) -> std::result::Result<InForce, String> {
        self.put(image, counters).map_err(|error| error.to_string())
    }

    fn switch(&self, to: &mut InForce) -> std::result::Result<(), String> {
        self.go(to).map_err(|error| error.to_string())
    }

    fn give_way(&self) {
        // Packets and changes go first where processors are busy.
        schedule::lower_thread();
    }
}

impl Slots {
    /// Writes an image into the spare slot.
    fn put(&self, image: &[u8], counters: u32) -> Result<InForce> {
        let policy = Policy {
            image,
            rules: counters,
            history: self.history,
            hooks: self.hooks,
        };
        Ok(InForce {
            slot: swap::write_spare(&self.instance, &policy, self.number)?,
            instance: Arc::clone(&self.instance),
        })
    }

    /// Lets packets go to an image.
    fn go(&self, to: &InForce) -> Result<()> {
        let instance = &self.instance;
        let old = swap::active(instance);
        if old == to.slot {
            let replaced = std::io::Error::other("another policy was put in force");
            return Err(system("exchanging an image")(replaced));
        }
        let rules = instance.capacity().rules;
        let had_policy = swap::generation(instance, old) == self.number;
        let before = counters::read(instance, old, rules);
        if had_policy {
            counters::preset(instance, to.slot, &before);
            let times = counters::times(instance, old, rules);
            counters::preset_times(instance, to.slot, &times);
            if self.history > 0 {
                self.copy_histories(old, to.slot);
            }
        }
        swap::flip(instance);
        if had_policy {
            grace_period().map_err(system("waiting for running programs to end"))?;
            let after = counters::read(instance, old, rules);
            counters::add(instance, to.slot, &counters::beyond(&before, &after));
            forget(instance, old);
        }
        Ok(())
    }
}

/// Lets a slot hold no policy that one could return to.
fn forget(instance: &Instance, slot: u32) {
    let at = offset_of!(Control, slot_generation) + slot as usize * 4;
    instance.control().store32(at, 0);
}

impl Plane {
    /// Hooks of the policy in force ([`crate::hooks`]).
    pub fn hooks(&self) -> Result<u32> {
        let instance = self.instance()?;
        Ok(swap::hooks(instance, swap::active(instance)))
    }

    /// Lets the policy in force go on by another image of it, which is to be changed in place, with
    /// so many counters. Rules keep what they have counted, and histories what they remember where
    /// the image has the same ones. Needs more room where the maps have none for it.
    pub fn exchange_image(
        &mut self,
        image: &[u8],
        counters: u32,
        history: usize,
    ) -> Result<(Slots, InForce)> {
        let instance = Arc::clone(&self.current.as_ref().ok_or(PlaneError::Nothing)?.instance);
        let (slot, rules) = (swap::active(&instance), instance.capacity().rules);
        let (number, hooks) = (
            swap::generation(&instance, slot),
            swap::hooks(&instance, slot),
        );
        let features = swap::features(image) | families(hooks);
        let remembers = same_histories(&instance, slot, image);
        let fits = instance.capacity().holds(image.len(), counters, history)
            && features & !instance.settings.features == 0
            && Learning::of(features).is_done_by(&instance);
        if fits {
            let kept = if remembers { history } else { 0 };
            let slots = Slots::of(&instance, number, hooks, kept);
            let store = slots.put(image, counters)?;
            slots.go(&store)?;
            return Ok((Slots { history, ..slots }, store));
        }
        let before = counters::read(&instance, slot, rules);
        let times = counters::times(&instance, slot, rules);
        let map = instance.map("histories");
        let mut memory = vec![0; if remembers { history } else { 0 }];
        map.memory().read(slot as usize * map.entry, &mut memory);
        let policy = Policy {
            image,
            rules: counters,
            history,
            hooks,
        };
        let options = ApplyOptions {
            number,
            presets: &before,
            times: &times,
            memory: &[(0, memory)],
            going_on: GoingOn {
                counted: &before,
                was: &(0..rules).map(Some).collect::<Vec<_>>(),
                learners: &[],
            },
            flows: 0,
        };
        self.apply(&policy, options)?;
        let grown = Arc::clone(&self.current.as_ref().ok_or(PlaneError::Nothing)?.instance);
        forget(&grown, 1 - swap::active(&grown));
        Ok((
            Slots::of(&grown, number, hooks, history),
            InForce::of(&grown),
        ))
    }
}

/// Whether the histories that an image names are those of the image in a slot: none came since, so
/// as many are the same ones.
fn same_histories(instance: &Instance, slot: u32, image: &[u8]) -> bool {
    let at = offset_of!(layout::Header, history_count);
    let map = instance.map("images");
    let own = map.memory().load32(slot as usize * map.entry + at);
    image.get(at..at + 4) == Some(&own.to_le_bytes()[..])
}
