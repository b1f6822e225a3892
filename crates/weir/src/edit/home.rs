//! Where images of the policy in force are put while it is changed, and who may put them there.
//!
//! Slots belong to whoever holds the store's lock: another process may be about to put another
//! policy into the spare one. So the lock is held from when an image is put there until packets go
//! to it, and by each change. The threads of the agent share it: they work on one policy.

use crate::kernel::Kernel;
use crate::state::{Lock, Store};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use weir_engine::update;
use weir_plane::update::{InForce, Slots};
use weir_policy::model::RuleId;

/// The store's lock for all threads of this process.
#[derive(Clone)]
pub struct Locks {
    store: Store,
    held: Arc<Mutex<Weak<Lock>>>,
}

impl Locks {
    /// Of a store.
    pub fn of(store: &Store) -> Self {
        Locks {
            store: store.clone(),
            held: Arc::default(),
        }
    }

    /// Holds it, with the others of this process.
    pub fn take(&self) -> anyhow::Result<Arc<Lock>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = held.upgrade() {
            return Ok(lock);
        }
        let lock = Arc::new(self.store.lock()?);
        *held = Arc::downgrade(&lock);
        Ok(lock)
    }
}

/// The slots of the instance in force.
#[derive(Clone)]
pub struct Home {
    /// The slots.
    pub slots: Slots,
    /// Who may use them.
    pub locks: Locks,
    /// Number of the policy.
    pub generation: u32,
    /// Number of the instance.
    pub instance: Option<u32>,
}

/// An image in a slot.
pub struct Place {
    /// The image.
    pub store: InForce,
    /// As long as packets don't go there.
    pub lock: Option<Arc<Lock>>,
}

impl update::Store for Place {
    fn write(&mut self, at: u32, bytes: &[u8]) {
        self.store.write(at, bytes);
    }

    fn store32(&mut self, at: u32, value: u32) {
        self.store.store32(at, value);
    }

    fn store64(&mut self, at: u32, value: u64) {
        self.store.store64(at, value);
    }

    fn zero(&mut self, rule: RuleId) {
        self.store.zero(rule);
    }

    fn waiter(&self) -> Option<update::Waiter> {
        self.store.waiter()
    }

    fn whole(&mut self) {
        self.store.whole();
    }
}

impl update::Home for Home {
    type Store = Place;

    fn prepare(&self, image: &[u8], counters: u32) -> Result<Place, String> {
        let lock = self.locks.take().map_err(|error| error.to_string())?;
        let kernel = Kernel::open(None).map_err(|error| error.to_string())?;
        let same = kernel.generation() == Some(self.generation)
            && kernel.plane.instance_number() == self.instance;
        if !same {
            return Err("another policy was put in force".to_owned());
        }
        Ok(Place {
            store: self.slots.prepare(image, counters)?,
            lock: Some(lock),
        })
    }

    fn switch(&self, to: &mut Place) -> Result<(), String> {
        self.slots.switch(&mut to.store)?;
        to.lock = None;
        Ok(())
    }

    fn give_way(&self) {
        self.slots.give_way();
    }
}
