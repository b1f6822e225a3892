//! Walkers: the ways in which an image can be asked, behind one small interface.
//!
//! In: numbers of packets. Out: the position that each packet's lookup gives, and what it cost. A
//! position names an entry of the root; [`Asked::rule`] says whose. New walkers of the engine are
//! one file here and one line in [`all`].

mod kernel;
pub mod scalar;

use super::filter::{FilterSet, Packet};
use super::linear::NONE;
use super::policy;
use weir_engine::image::Image;
use weir_engine::image::layout::{Root, root_number};
use weir_engine::lookup::Key;

/// Lookups of a sample.
pub const SAMPLE: usize = 1024;

/// What all walkers are asked about.
pub struct Asked<'a> {
    /// The image.
    pub image: &'a Image<'a>,
    /// Offset of the root that all packets meet.
    pub root_at: u32,
    /// The packets.
    pub keys: Vec<Key>,
    /// 4 or 6.
    pub family: u8,
    /// The number of filters.
    pub filters: usize,
    entries: Vec<u32>,
}

impl<'a> Asked<'a> {
    /// The packets and the root of the filters' chain.
    pub fn new(image: &'a Image<'a>, set: &FilterSet, packets: &[Packet]) -> Option<Self> {
        let number = root_number(policy::family(set.version), policy::HOOK, policy::TABLE)?;
        let root_at = image.header().roots[number];
        let root: Root = image.read(root_at);
        let rule = |at: u32| image.entry(&root, at).rule;
        Some(Asked {
            image,
            root_at,
            keys: packets.iter().map(policy::key).collect(),
            family: root.family as u8,
            filters: set.filters.len(),
            entries: (0..root.entries).map(rule).collect(),
        })
    }

    /// The filter of a position, [`NONE`] for the end of the chain.
    pub fn rule(&self, position: u32) -> u32 {
        match self.entries.get(position as usize) {
            Some(rule) if (*rule as usize) < self.filters => *rule,
            _ => NONE,
        }
    }
}

/// One way to look up.
pub trait Walker {
    /// Its name in tables and records.
    fn name(&self) -> &'static str;
    /// How many lookups one sample has: the clock costs some 20 ns, so they are at least
    /// [`SAMPLE`].
    fn sample(&self) -> usize {
        SAMPLE
    }
    /// Looks up the packets from `first` on, one for each place in `out`, and says how many
    /// nanoseconds all of them took together.
    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64>;
}

/// A walker that can't be used here, and why.
pub struct Absent {
    /// Its name.
    pub name: &'static str,
    /// Why.
    pub why: String,
}

/// Walkers that can be used here.
pub type Walkers<'a> = Vec<Box<dyn Walker + 'a>>;

/// How they are used.
#[derive(Clone, Copy, Debug)]
pub struct With {
    /// Packets handed to a batch walker at once.
    pub batch: usize,
    /// Threads that look up at the same time.
    pub threads: usize,
}

/// All walkers that weir knows: those that can be used here, and the others.
pub fn all<'a>(asked: &'a Asked<'a>, with: With) -> (Walkers<'a>, Vec<Absent>) {
    let mut missing = vec![];
    let mut walkers: Walkers<'a> = vec![Box::new(scalar::Scalar::new(asked))];
    match scalar::Vector::new(asked) {
        Some(vector) => walkers.push(Box::new(vector)),
        None => missing.push(Absent {
            name: "vector",
            why: "this CPU has no AVX-512, or the image is of a form without it".to_owned(),
        }),
    }
    walkers.push(Box::new(scalar::Batch::new(asked, with.batch)));
    walkers.push(Box::new(scalar::Ordered::new(asked)));
    let kernel = match with.threads {
        1 => kernel::Kernel::new(asked),
        _ => Err("runs in one thread only".to_owned()),
    };
    match kernel {
        Ok(kernel) => walkers.push(Box::new(kernel)),
        Err(why) => missing.push(Absent { name: "ebpf", why }),
    }
    (walkers, missing)
}
