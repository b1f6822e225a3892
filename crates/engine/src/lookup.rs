//! Which entries of a root hold for a packet: an ordered stream of positions.
//!
//! In: an image, a root, a [`Key`]. Out: positions of entries whose box holds, in increasing order,
//! with skipping; what entries do is [`crate::run`]'s. [`Searcher`] is the fast way to the first
//! position only. Twin: `plane/bpf/classify.h`.

pub(crate) mod class;
mod first;
mod hashed;
mod ready;
#[cfg(target_arch = "x86_64")]
mod vector;

pub use first::Searcher;

use crate::image::Image;
use crate::image::layout::{
    self, Chunk, DIM_DST, DIM_DST_PORT, DIM_SRC, DIM_SRC_PORT, FEATURE_BOUNDS, Fold, HashTable,
    Leaf, Root, Split,
};
use weir_policy::model::{CtState, Fragment, Packet, Transport};

/// The classified fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Source and destination address.
    pub address: [u128; 2],
    /// Source and destination port; ICMP: type and code in place of the source port.
    pub port: [u16; 2],
    /// Protocol.
    pub proto: u8,
    /// See [`layout::kind_of`].
    pub kind: u8,
    /// TCP flags.
    pub flags: u8,
    /// Classes of the receiving and the sending interface.
    pub class: [u16; 2],
}

impl Key {
    /// What tables hash beside addresses.
    #[inline(always)]
    fn ports(&self) -> u64 {
        u64::from(self.proto) << 32 | u64::from(self.port[0]) << 16 | u64::from(self.port[1])
    }

    /// The key of a parsed packet whose state and classes are set.
    pub fn parsed(packet: &crate::packet::Key) -> Self {
        let wide = |words: [u64; 2]| u128::from(words[0]) << 64 | u128::from(words[1]);
        let state = packet.state.trailing_zeros() as u8;
        Key {
            address: [wide(packet.src), wide(packet.dst)],
            port: [packet.src_port, packet.dst_port],
            proto: packet.proto,
            kind: layout::kind_of(packet.transport, packet.fragment, state),
            flags: packet.tcp_flags,
            class: [packet.in_class, packet.out_class],
        }
    }

    /// The key of a packet. `class` says the class of an interface name.
    pub fn of(packet: &Packet, state: CtState, class: impl Fn(&str) -> u16) -> Self {
        let (transport, port, flags) = match &packet.transport {
            Transport::None => (1, [0, 0], 0),
            Transport::Short => (2, [0, 0], 0),
            Transport::Tcp {
                src_port,
                dst_port,
                flags,
                ..
            } => (3, [*src_port, *dst_port], *flags),
            Transport::Udp { src_port, dst_port } => (4, [*src_port, *dst_port], 0),
            Transport::Sctp {
                src_port, dst_port, ..
            } => (5, [*src_port, *dst_port], 0),
            Transport::Icmp { kind, code, id, .. } => {
                (6, [u16::from(*kind) << 8 | u16::from(*code), *id], 0)
            }
            Transport::Spi(_) => (7, [0, 0], 0),
        };
        let fragment = match packet.fragment {
            Fragment::Whole => 1,
            Fragment::First => 2,
            Fragment::Later(_) => 3,
        };
        Key {
            address: [packet.src, packet.dst],
            port,
            proto: packet.proto,
            kind: layout::kind_of(transport, fragment, (state as u8).trailing_zeros() as u8),
            flags,
            class: [class(&packet.in_iface), class(&packet.out_iface)],
        }
    }
}

impl Key {
    /// The field of a split: `DIM_*`. Addresses as far as 32 bits say them: IPv4.
    #[inline(always)]
    pub(crate) fn value(&self, dim: usize) -> u32 {
        match dim {
            DIM_SRC => self.address[0] as u32,
            DIM_DST => self.address[1] as u32,
            DIM_SRC_PORT => self.port[0].into(),
            DIM_DST_PORT => self.port[1].into(),
            _ => self.proto.into(),
        }
    }
}

/// What the low halves of addresses, the ports and the sum of all are multiplied with.
pub(crate) const FACTORS: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xe703_7ed1_a0b4_28db,
];

/// The hash of masked key fields. The C twin leaves out the high halves for IPv4.
pub fn table_hash(address: [u128; 2], ports: u64) -> u64 {
    let half = |word: u64, factor: u64| word.wrapping_mul(factor);
    let mut hash = half(address[0] as u64, FACTORS[0])
        .wrapping_add(half(address[1] as u64, FACTORS[1]))
        .wrapping_add(half(ports, FACTORS[2]))
        .wrapping_add(half((address[0] >> 64) as u64, 0xd6e8_feb8_6659_fd93))
        .wrapping_add(half((address[1] >> 64) as u64, 0xa076_1d64_78bd_642f));
    hash ^= hash >> 29;
    hash.wrapping_mul(FACTORS[3])
}

/// The bit of a hash in the filter of its slot.
#[inline(always)]
pub fn slot_filter(hash: u64, shift: u32) -> u32 {
    1 << (hash >> (shift - 2) & 3)
}

/// No position: larger than any.
pub const NONE: u32 = u32::MAX;

/// One lookup under way.
#[derive(Debug)]
pub struct Lookup<'i, 'b> {
    image: &'i Image<'b>,
    root: Root,
    key: Key,
    /// Chunks not yet begun.
    chunks: std::ops::Range<u32>,
    vectors: Vectors,
    /// The next position that the vectors give, [`NONE`] at their end.
    head: u32,
    /// Where the rows are that say which services hold, for records of tables.
    services: [u32; 3],
}

/// Where the walk over a chunk stands.
#[derive(Clone, Copy, Debug, Default)]
struct Vectors {
    /// With the words that may hold bits, of those not begun.
    rows: class::Rows,
    positions_at: u32,
    /// Where the terms' bounds are, which have to be looked at; 0: rows say all.
    bounds_at: u32,
    /// The term whose position was given last.
    term: u32,
    /// Bits of the present word not yet given.
    word: u64,
    word_at: u32,
}

impl<'i, 'b> Lookup<'i, 'b> {
    /// Begins a lookup in the root at this offset.
    pub fn new(image: &'i Image<'b>, root_at: u32, key: Key) -> Self {
        let root: Root = image.read(root_at);
        let (chunks_at, chunks) = leaf(image, &root, &key);
        let mut lookup = Lookup {
            image,
            root,
            key,
            chunks: chunks_at..chunks_at + chunks * size_of::<Chunk>() as u32,
            vectors: Vectors::default(),
            head: 0,
            services: [0; 3],
        };
        if root.tables > 0 {
            let fold: Fold = image.read(root.services_at);
            lookup.services = class::service_rows(image.bytes(), &fold, &key);
        }
        lookup.head = lookup.advance();
        lookup
    }

    /// The root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The first position from `from` on whose entry holds. The last entry, the chain policy, holds
    /// for every packet.
    pub fn next(&mut self, from: u32) -> u32 {
        while self.head < from {
            self.head = self.advance();
        }
        let size = size_of::<HashTable>() as u32;
        let mut best = self.head.min(self.root.entries - 1);
        for number in 0..self.root.tables {
            let table: HashTable = self.image.read(self.root.tables_at + number * size);
            let services = &self.services;
            let found = hashed::probe(self.image.bytes(), &table, &self.key, services, from, best);
            best = best.min(found);
        }
        best
    }

    /// The next position of the vectors.
    fn advance(&mut self) -> u32 {
        match self.image.header().features & FEATURE_BOUNDS {
            0 => self.advance_by_rows(),
            _ => self.advance_within(),
        }
    }

    /// The next position of a term that holds by its bounds too.
    #[cold]
    fn advance_within(&mut self) -> u32 {
        loop {
            let position = self.advance_by_rows();
            let Vectors {
                bounds_at, term, ..
            } = self.vectors;
            if position == NONE || bounds_at == 0 {
                return position;
            }
            let bounds = self.image.bytes().get(bounds_at as usize..);
            let v6 = self.root.family == 6;
            if hashed::is_within(bounds.unwrap_or_default(), term, v6, &self.key) {
                return position;
            }
        }
    }

    /// The next position of a term that rows let through.
    #[inline(always)]
    fn advance_by_rows(&mut self) -> u32 {
        loop {
            if self.vectors.word != 0 {
                let bit = self.vectors.word.trailing_zeros();
                self.vectors.word &= self.vectors.word - 1;
                let term = self.vectors.word_at * 64 + bit;
                self.vectors.term = term;
                return self.image.read(self.vectors.positions_at + term * 4);
            }
            let rows = &mut self.vectors.rows;
            if rows.summary != 0 {
                let at = rows.summary.trailing_zeros();
                rows.summary &= rows.summary - 1;
                self.vectors.word_at = at;
                self.vectors.word = rows.and(self.image.bytes(), at);
                continue;
            }
            if self.chunks.is_empty() {
                return NONE;
            }
            let chunk: Chunk = self.image.read(self.chunks.start);
            self.chunks.start += size_of::<Chunk>() as u32;
            self.enter(&chunk);
        }
    }

    /// Looks up the rows of a chunk.
    fn enter(&mut self, chunk: &Chunk) {
        let v6 = self.root.family == 6;
        self.vectors.rows = class::chunk_rows(self.image.bytes(), chunk, v6, &self.key);
        self.vectors.positions_at = chunk.positions_at;
        self.vectors.bounds_at = chunk.bounds_at;
    }
}

/// The chunks that a packet can meet: all of the root, or those of its leaf of the split tree.
fn leaf(image: &Image, root: &Root, key: &Key) -> (u32, u32) {
    if root.splits == 0 {
        return (root.chunks_at, root.chunks);
    }
    let mut next = 0;
    for _ in 0..root.splits {
        if next >> 31 != 0 {
            break;
        }
        let node: Split = image.read(root.splits_at + next * size_of::<Split>() as u32);
        let value = key.value(node.dim as usize);
        next = node.next[usize::from(value >= node.bound)];
    }
    let at = root.leaves_at + (next & (u32::MAX >> 1)) * size_of::<Leaf>() as u32;
    let leaf: Leaf = image.read(at);
    (leaf.chunks_at, leaf.chunks)
}
