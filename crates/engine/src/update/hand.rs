//! What a change stores with: the image as it is known, and where it is in use.

use super::Store;
use super::room::Room;
use crate::compile::interfaces::Interfaces;

/// The image twice, its free room, and its interfaces.
pub struct Hand<'a, S: Store> {
    /// What is in use, byte for byte.
    pub image: &'a mut Vec<u8>,
    /// Where it is in use.
    pub store: &'a mut S,
    /// Free room in it.
    pub room: &'a mut Room,
    /// Classes of interfaces.
    pub interfaces: &'a Interfaces,
}

impl<S: Store> Hand<'_, S> {
    /// Writes bytes that nobody follows yet.
    pub fn write(&mut self, at: u32, bytes: &[u8]) {
        self.store.write(at, bytes);
        self.image.write(at, bytes);
    }

    /// Stores an aligned word.
    pub fn store32(&mut self, at: u32, value: u32) {
        self.store.store32(at, value);
        self.image.store32(at, value);
    }

    /// Stores an aligned double word.
    pub fn store64(&mut self, at: u32, value: u64) {
        self.store.store64(at, value);
        self.image.store64(at, value);
    }

    /// Writes bytes that stay. `None`: no room.
    pub fn put(&mut self, bytes: &[u8]) -> Option<u32> {
        let (at, _) = self.room.take(bytes.len() as u32)?;
        self.write(at, bytes);
        Some(at)
    }
}
