//! Where packets wait on their way out: classes of a queueing discipline on interfaces.
//!
//! A packet's class is its priority, which [`super::Op::Classify`] sets: [`HANDLE`] above, the
//! number of the class below. Packets of other priorities don't wait.

use super::MeterRoom;
use std::collections::BTreeSet;

/// Major number of the classes, and so of the discipline that has them.
pub const HANDLE: u16 = 0x7e1f;

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its number, not 0.
    pub number: u16,
    /// The class above it; 0: none.
    pub parent: u16,
    /// Bits a second that it has, from the network header on.
    pub rate: u64,
    /// Bits a second that it may have where others of its parent leave some.
    pub most: u64,
    /// Share of what others leave.
    pub weight: u32,
    /// Bytes that leave at once after it was idle.
    pub burst: u64,
    /// Size of its queue, in a class without others below it.
    pub queue: Option<MeterRoom>,
}

/// The classes that packets wait in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The classes, those above before those below.
    pub classes: Vec<Class>,
    /// Interfaces that have them; `None`: all but loopback.
    pub interfaces: Option<BTreeSet<String>>,
}
