//! What was unlinked, until no packet can be under way with it.
//!
//! In: positions, counters, bits and blocks of room, in the order in which they left. Out: the
//! same, free for whoever comes next, a grace period later. A thread waits for that, so that
//! changes don't: only who finds no room waits too.

use super::{Live, Rebuild, Store};
use crate::compile::room::Slot;
use crate::compile::term::Term;
use std::thread::{Builder, JoinHandle};

/// Unlinked things for which a grace period begins.
const THINGS: usize = 256;
/// Blocks of room that count as one of them: many leave with a rule.
const BLOCKS_A_THING: usize = 8;
/// Things for which a change that finds no room waits, rather than for few each time.
const THINGS_LEAST: usize = 64;

/// Rules that are off for which a change takes away what leads to them, so that none takes long.
const UNLINKED_AT_ONCE: usize = 4;

/// What left so far, as the lengths of the lists that it is in.
struct Left {
    positions: usize,
    rules: usize,
    blocks: usize,
    off: usize,
    /// Of each place.
    bits: Vec<usize>,
}

impl Left {
    fn things(&self) -> usize {
        self.positions + self.rules + self.off + self.blocks / BLOCKS_A_THING
    }
}

/// A grace period that has begun.
pub(super) struct Grace {
    thread: JoinHandle<()>,
    left: Left,
}

impl Live {
    fn left(&self) -> Left {
        Left {
            positions: self.leaving_positions.len(),
            rules: self.leaving_rules.len(),
            blocks: self.room.leaving(),
            off: self.off.len(),
            bits: self
                .places
                .iter()
                .map(|place| place.leaving_bits())
                .collect(),
        }
    }

    /// Lets what nobody is under way with be used again, and begins to wait for what left since
    /// when that is much.
    pub(super) fn settle(&mut self, store: &mut impl Store) {
        let is_over = |grace: &Grace| grace.thread.is_finished();
        if self.grace.as_ref().is_some_and(is_over) {
            self.end_grace(store);
        }
        self.unlink_unneeded(store, UNLINKED_AT_ONCE);
        if self.grace.is_none() && (self.left().things() >= THINGS || self.room.has_much_leaving())
        {
            self.begin_grace(store);
        }
    }

    /// The same for a change that found no room, which waits. False: there is too little to come.
    fn settle_now(&mut self, store: &mut impl Store) -> bool {
        if self.end_grace(store) {
            self.unlink_unneeded(store, usize::MAX);
            return true;
        }
        let is_worth_it = self.left().things() >= THINGS_LEAST || self.room.has_much_leaving();
        if is_worth_it {
            self.begin_grace(store);
            self.end_grace(store);
        }
        is_worth_it
    }

    /// A change, and where it finds no room, the same again: once with what is waited for already,
    /// once with what left since.
    pub(super) fn with_room<S: Store, R>(
        &mut self,
        store: &mut S,
        mut change: impl FnMut(&mut Self, &mut S) -> Result<R, Rebuild>,
    ) -> Result<R, Rebuild> {
        let mut done = change(self, store);
        for _ in 0..2 {
            if done.is_err() && self.settle_now(store) {
                done = change(self, store);
            }
        }
        done
    }

    /// Lets all that was unlinked be used again, and waits for it.
    pub(super) fn reclaim(&mut self, store: &mut impl Store) {
        self.end_grace(store);
        self.begin_grace(store);
        self.end_grace(store);
    }

    /// Whether packets are still led to rules that are off, and take the long way because of it.
    pub fn is_untidy(&self) -> bool {
        !(self.off.is_empty() && self.unneeded.is_empty())
    }

    /// Lets no packet be led to rules that are off, and waits for those under way.
    pub(super) fn tidy(&mut self, store: &mut impl Store) {
        if self.is_untidy() {
            self.reclaim(store);
            self.unlink_unneeded(store, usize::MAX);
        }
    }

    /// Takes what leads to rules that are off away, of so many.
    fn unlink_unneeded(&mut self, store: &mut impl Store, most: usize) {
        let count = self.unneeded.len().min(most);
        let first: Vec<(usize, u32, Vec<Term>)> = self.unneeded.drain(..count).collect();
        for (number, position, terms) in first {
            self.unlink(store, (number, position), &terms);
        }
    }

    /// Takes what leads to a position of a place away, which is free a grace period later. False:
    /// some had to stay, and the position with it.
    pub(super) fn unlink(
        &mut self,
        store: &mut impl Store,
        (number, position): (usize, u32),
        terms: &[Term],
    ) -> bool {
        let (place, mut hand) = self.place(store, number);
        let gone = place.unlink(&mut hand, terms, position);
        if gone {
            self.leaving_positions.push((number, position));
        }
        gone
    }

    /// The same for a rule that could not be linked there, and that packets under way may have been
    /// led to.
    pub(super) fn take_back(
        &mut self,
        store: &mut impl Store,
        (number, position): (usize, u32),
        terms: &[Term],
    ) {
        self.unlink(store, (number, position), terms);
        let place = &mut self.places[number];
        place.root.slots[position as usize] = Slot::Leaving;
        place.taken += 1;
    }

    fn begin_grace(&mut self, store: &mut impl Store) {
        let left = self.left();
        let Some(waiter) = store.waiter() else {
            return self.free(store, left);
        };
        match Builder::new().spawn(waiter) {
            Ok(thread) => self.grace = Some(Grace { thread, left }),
            Err(_) => {
                store.wait();
                self.free(store, left);
            }
        }
    }

    /// Waits for the end of a grace period. False: none has begun.
    fn end_grace(&mut self, store: &mut impl Store) -> bool {
        let Some(Grace { thread, left }) = self.grace.take() else {
            return false;
        };
        if thread.join().is_err() {
            store.wait();
        }
        self.free(store, left);
        true
    }

    /// Lets what left first be used again.
    fn free(&mut self, store: &mut impl Store, left: Left) {
        for (place, position) in self.leaving_positions.drain(..left.positions) {
            self.places[place].root.slots[position as usize] = Slot::Free;
            self.places[place].taken -= 1;
        }
        for (number, bits) in left.bits.into_iter().enumerate() {
            let (place, mut hand) = self.place(store, number);
            place.free_cleared(&mut hand, bits);
        }
        self.unneeded.extend(self.off.drain(..left.off));
        self.free_rules
            .extend(self.leaving_rules.drain(..left.rules));
        self.room.settle(left.blocks);
    }
}
