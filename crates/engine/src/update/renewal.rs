//! A new image for a policy in use, built beside the changes that go on.
//!
//! In: the policy at one moment, then every change made since. Out: an image with all of them. The
//! thread builds, puts the image where no packet goes yet, and makes there what was changed in the
//! meantime, until little is left; the owner of the policy makes the last of it and switches. While
//! the thread catches up, who changes is slowed down, so that it does.

use super::kept::{Change, Home};
use super::{Live, Shot};
use crate::compile::Options;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_policy::model::RuleId;

/// So few changes are left to the owner.
const LAST: usize = 32;
/// Behind by more, who changes is slowed down.
const BEHIND: usize = 256;

/// A change as it was made, and the counter of the rule that came.
pub struct Logged {
    pub change: Change,
    pub id: Option<RuleId>,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Vec<Logged>>,
    /// Changes taken from the log and not made yet.
    taken: AtomicUsize,
    /// The image is there, only changes are missing.
    catches_up: AtomicBool,
    /// Nobody wants it any more.
    stop: AtomicBool,
}

impl Shared {
    fn take(&self) -> Vec<Logged> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        self.taken.store(log.len(), Ordering::Relaxed);
        std::mem::take(&mut log)
    }
}

/// Why there is no image.
#[derive(Debug)]
pub enum Lost {
    /// A change that was made in the image in use can't be made in the new one.
    Change,
    /// It can't be built, or put where images are.
    Image,
    /// Nobody wants it any more.
    Unwanted,
}

type Built<H> = Result<(Live, <H as Home>::Store), Lost>;

/// An image on its way.
pub struct Renewal<H: Home> {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Built<H>>>,
}

impl<H: Home> Renewal<H> {
    /// Begins with the policy of this moment.
    pub fn begin(shot: Shot, free: Vec<RuleId>, options: Options, home: H) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        // The other processors are for packets and changes.
        let options = Options {
            threads: 1,
            ..options
        };
        let thread = std::thread::spawn(move || run::<H>(&theirs, &shot, free, &options, &home));
        Renewal {
            shared,
            thread: Some(thread),
        }
    }

    /// Notes a change that was made in the image in use.
    pub fn note(&self, change: Logged) {
        let mut log = self
            .shared
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        log.push(change);
        let behind = log.len() + self.shared.taken.load(Ordering::Relaxed);
        drop(log);
        if behind > BEHIND && self.shared.catches_up.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Whether only the last changes are missing, or it failed.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The image, with all changes.
    pub fn end(mut self) -> Built<H> {
        let thread = self.thread.take().ok_or(Lost::Unwanted)?;
        let built = thread.join().map_err(|_| Lost::Image)?;
        let (mut live, mut store) = built?;
        replay::<H>(&self.shared, &mut live, &mut store)?;
        Ok((live, store))
    }
}

impl<H: Home> Drop for Renewal<H> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It may be writing where the next image goes.
            let _ = thread.join();
        }
    }
}

fn run<H: Home>(
    shared: &Shared,
    shot: &Shot,
    free: Vec<RuleId>,
    options: &Options,
    home: &H,
) -> Built<H> {
    home.give_way();
    let mut live = shot.build(options, free).map_err(|_| Lost::Image)?;
    let prepared = home.prepare(live.image(), live.counters());
    let mut store = prepared.map_err(|_| Lost::Image)?;
    shared.catches_up.store(true, Ordering::Relaxed);
    while replay::<H>(shared, &mut live, &mut store)? > LAST {}
    Ok((live, store))
}

/// Makes the changes that were noted. How many there were.
fn replay<H: Home>(shared: &Shared, live: &mut Live, store: &mut H::Store) -> Result<usize, Lost> {
    let all = shared.take();
    for (at, Logged { change, id }) in all.iter().enumerate() {
        if shared.stop.load(Ordering::Relaxed) {
            return Err(Lost::Unwanted);
        }
        let made = change.make(live, store, *id);
        made.map_err(|_| Lost::Change)?;
        shared.taken.store(all.len() - at - 1, Ordering::Relaxed);
    }
    Ok(all.len())
}
