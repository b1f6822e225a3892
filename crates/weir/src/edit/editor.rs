//! Who changes the policy of a namespace: takes it up when a change is asked for, lets it go when
//! another one is put in force.
//!
//! In: a request. Out: what became of it. A step that can't be done leaves everything as it was.

use super::home::Locks;
use super::open::{Done, Open, Why};
use super::wire::{Answer, Request, Way};
use crate::kernel::Kernel;
use crate::state::Store;
use std::time::Instant;

/// The editor of a namespace.
pub struct Editor {
    store: Store,
    locks: Locks,
    open: Option<Open>,
}

impl Editor {
    /// Of a namespace.
    pub fn of(store: &Store) -> Self {
        Editor {
            store: store.clone(),
            locks: Locks::of(store),
            open: None,
        }
    }

    /// Makes a change.
    pub fn carry_out(&mut self, request: &Request) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let _lock = self.locks.take()?;
        if self.store.pending()?.is_some() {
            return Ok(Answer::Unable("the policy is on trial".to_owned()));
        }
        if self.open.as_ref().is_some_and(|open| !open.is_in_force()) {
            self.open = None;
        }
        let was_open = self.open.is_some();
        let open = match self.take_up()? {
            Ok(open) => open,
            Err(why) => return Ok(Answer::Unable(why)),
        };
        let answer = open.carry_out(request)?;
        Ok(match answer {
            Done::Made(rebuilt) => {
                let why = match was_open {
                    true => rebuilt.map(str::to_owned),
                    false => Some("the first change of this policy".to_owned()),
                };
                Answer::Done {
                    way: match why {
                        None => Way::InPlace,
                        Some(_) => Way::Rebuilt,
                    },
                    why,
                    microseconds: began.elapsed().as_nanos() as f64 / 1000.0,
                }
            }
            Done::Fault(words) => Answer::Fault(words),
            Done::Unable(why) => Answer::Unable(why),
            Done::Failed(why) => {
                // Whatever was begun in the image is undone by one that is made of the texts.
                self.open = None;
                let _ = self.take_up()?;
                Answer::Unable(why)
            }
        })
    }

    /// Takes up the policy in force, unless that was done; the caller holds the lock.
    fn take_up(&mut self) -> anyhow::Result<Result<&mut Open, Why>> {
        if self.open.is_none() {
            match Open::new(&self.store, &self.locks)? {
                Ok(open) => self.open = Some(open),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(self.open.as_mut().ok_or_else(String::new))
    }

    /// Finishes what an editor before this one may have begun: a change that is in the journal is
    /// put in force.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        let _lock = self.locks.take()?;
        let Some(generation) = Kernel::open(None)?.generation() else {
            return Ok(());
        };
        if self
            .store
            .stamp(generation)
            .is_some_and(|stamp| stamp.1 > 0)
        {
            let _ = self.take_up()?;
        }
        Ok(())
    }

    /// Does what has time: texts with the changes of late, an image that was built beside them.
    pub fn rest(&mut self) -> anyhow::Result<()> {
        if !self.open.as_ref().is_some_and(Open::is_due) {
            return Ok(());
        }
        let _lock = self.locks.take()?;
        match self.open.as_mut() {
            Some(open) if open.is_in_force() => open.rest(),
            _ => {
                self.open = None;
                Ok(())
            }
        }
    }

    /// Lets the policy go; it is taken up anew when there is a change.
    pub fn let_go(&mut self) {
        self.open = None;
    }
}
