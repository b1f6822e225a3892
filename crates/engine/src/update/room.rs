//! Free room of an image: bytes behind everything, in blocks that are used again.
//!
//! In: how many bytes. Out: where they may stand. Small blocks have sizes of whole units, large
//! ones four sizes between two powers of two, and each size has a list of those that came back.
//! What packets under way may still read comes back only with [`Room::settle`].

/// Small blocks are of so many bytes, times 1 to [`SMALL_UNITS`].
const UNIT: u32 = 16;
const SMALL_UNITS: u32 = 64;
const SMALL_BYTES: u32 = UNIT * SMALL_UNITS;
/// Small sizes, then four for each power of two up to 2^31.
const CLASSES: usize = SMALL_UNITS as usize + 1 + 4 * 22;

/// The room of one image.
pub struct Room {
    begins: u32,
    next: u32,
    end: u32,
    /// Blocks by class.
    free: Vec<Vec<u32>>,
    /// Blocks that packets under way may still read.
    leaving: Vec<(u32, usize)>,
    leaving_bytes: u32,
    /// Bytes of large blocks that came back.
    free_bytes: u32,
    /// Bytes of small blocks that were ever taken.
    small_bytes: u64,
}

/// Bytes of the blocks of a large class.
fn size_of_class(class: usize) -> u32 {
    let number = (class - SMALL_UNITS as usize - 1) as u32;
    (number % 4 + 5) << (number / 4 + SMALL_BYTES.ilog2() - 2)
}

/// Class and bytes of a block for so many bytes.
fn class(bytes: u32) -> (usize, u32) {
    let units = bytes.div_ceil(UNIT).max(1);
    if units <= SMALL_UNITS {
        return (units as usize, units * UNIT);
    }
    // Above 2^log, at most twice that: five to eight quarters of it.
    let log = (bytes - 1).ilog2();
    let quarters = bytes.div_ceil(1 << (log - 2));
    let number = 4 * (log - SMALL_BYTES.ilog2()) + quarters - 5;
    (
        SMALL_UNITS as usize + 1 + number as usize,
        quarters << (log - 2),
    )
}

impl Room {
    /// Room from an offset on.
    pub fn new(at: u32, bytes: u32) -> Self {
        Room {
            begins: at,
            next: at,
            end: at + bytes,
            free: vec![Vec::new(); CLASSES],
            leaving: Vec::new(),
            leaving_bytes: 0,
            free_bytes: 0,
            small_bytes: 0,
        }
    }

    /// A block, and how many bytes it has.
    pub fn take(&mut self, bytes: u32) -> Option<(u32, u32)> {
        let (class, size) = class(bytes);
        if class <= SMALL_UNITS as usize {
            self.small_bytes += u64::from(size);
        }
        if let Some(known) = self.free[class].pop() {
            if class > SMALL_UNITS as usize {
                self.free_bytes -= size;
            }
            return Some((known, size));
        }
        // Vectors read records by whole lines.
        let at = self
            .next
            .next_multiple_of(if size >= 64 { 64 } else { UNIT });
        if at.checked_add(size).is_some_and(|end| end <= self.end) {
            self.next = at + size;
            return Some((at, size));
        }
        // A large block may be up to twice as large as it has to be; small ones are cut from one.
        let is_small = class <= SMALL_UNITS as usize;
        let last = if is_small { CLASSES } else { class + 5 };
        let from = class.max(SMALL_UNITS as usize) + 1;
        let known = (from..last.min(CLASSES)).find(|class| !self.free[*class].is_empty())?;
        let (at, whole) = (self.free[known].pop()?, size_of_class(known));
        self.free_bytes -= whole;
        if !is_small {
            return Some((at, whole));
        }
        // From their multiples on blocks of lines begin at lines.
        let step = size.next_multiple_of(if size >= 64 { 64 } else { UNIT });
        let rest = (1..whole / step).map(|number| at + number * step);
        self.free[class].extend(rest);
        Some((at, size))
    }

    /// Gives back a block that nobody was led to.
    pub fn give_back(&mut self, at: u32, bytes: u32) {
        self.put_free(at, class(bytes).0);
    }

    fn put_free(&mut self, at: u32, class: usize) {
        self.free[class].push(at);
        if class > SMALL_UNITS as usize {
            self.free_bytes += size_of_class(class);
        }
    }

    /// Gives back a block that packets under way may still read. What was built with the image
    /// stays.
    pub fn leave(&mut self, at: u32, bytes: u32) {
        if at >= self.begins && bytes > 0 {
            let (class, size) = class(bytes);
            self.leaving.push((at, class));
            self.leaving_bytes += size;
        }
    }

    /// Blocks that are waited for.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Whether those are most of what there is.
    pub fn is_pressed(&self) -> bool {
        self.leaving_bytes > (self.end - self.begins) / 2
    }

    /// Whether what is waited for would serve someone who found no room.
    pub fn has_much_leaving(&self) -> bool {
        self.leaving_bytes > (self.end - self.begins) / 16
    }

    /// Bytes of small blocks, which groups of tables are, that were ever taken.
    pub fn small_bytes(&self) -> u64 {
        self.small_bytes
    }

    /// The share that was never used yet, or is free for whoever comes, or will be.
    pub fn unused(&self) -> f64 {
        let unused = f64::from(self.end - self.next) + f64::from(self.free_bytes);
        let total = f64::from((self.end - self.begins).max(1));
        (unused + f64::from(self.leaving_bytes)) / total
    }

    /// Lets what left be used again.
    pub fn settle(&mut self) {
        for (at, class) in std::mem::take(&mut self.leaving) {
            self.put_free(at, class);
        }
        self.leaving_bytes = 0;
    }
}
