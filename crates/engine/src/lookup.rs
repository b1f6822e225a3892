//! Which entries of a root hold for a packet: an ordered stream of positions.
//!
//! In: an image, a root, a [`Key`]. Out: positions of entries whose box holds, in increasing order,
//! with skipping; what entries do is [`crate::run`]'s. Twin: `plane/bpf/classify.h`.

use crate::image::Image;
use crate::image::layout::{
    self, AddressMap, Chunk, DIM_DST, DIM_DST_PORT, DIM_FLAGS, DIM_IN, DIM_KIND, DIM_OUT,
    DIM_PROTO, DIM_SRC, DIM_SRC_PORT, DIMS, HashTable, Leaf, Map, Record4, Record6, Root, Split,
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

/// The hash of masked key fields. The C twin leaves out the high halves for IPv4.
pub fn table_hash(address: [u128; 2], ports: u32) -> u64 {
    let half = |word: u64, factor: u64| word.wrapping_mul(factor);
    let mut hash = half(address[0] as u64, 0x9e37_79b9_7f4a_7c15)
        .wrapping_add(half(address[1] as u64, 0xbf58_476d_1ce4_e5b9))
        .wrapping_add(half(u64::from(ports), 0x94d0_49bb_1331_11eb))
        .wrapping_add(half((address[0] >> 64) as u64, 0xd6e8_feb8_6659_fd93))
        .wrapping_add(half((address[1] >> 64) as u64, 0xa076_1d64_78bd_642f));
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xe703_7ed1_a0b4_28db);
    hash
}

/// No position: larger than any.
const NONE: u32 = u32::MAX;

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
    /// Which services hold, for records of tables.
    services: u64,
}

/// Where the walk over a chunk stands.
#[derive(Clone, Copy, Debug, Default)]
struct Vectors {
    rows: [u32; DIMS],
    used: u32,
    positions_at: u32,
    terms: u32,
    /// Words that may hold bits, of those not begun.
    summary: u64,
    /// Bits of the present word not yet given.
    word: u64,
    word_at: u32,
}

impl<'i, 'b> Lookup<'i, 'b> {
    /// Begins a lookup in the root at this offset.
    pub fn new(image: &'i Image<'b>, root_at: u32, key: Key) -> Self {
        let root: Root = image.read(root_at);
        let size = size_of::<Chunk>() as u32;
        let mut lookup = Lookup {
            image,
            root,
            key,
            chunks: root.chunks_at..root.chunks_at + root.chunks * size,
            vectors: Vectors::default(),
            head: 0,
            services: 0,
        };
        if root.splits > 0 {
            let leaf: Leaf = image.read(lookup.leaf());
            lookup.chunks = leaf.chunks_at..leaf.chunks_at + leaf.chunks * size;
        }
        if root.tables > 0 {
            let chunk: Chunk = image.read(root.services_at);
            lookup.enter(&chunk);
            lookup.services = std::mem::take(&mut lookup.vectors).word;
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
        let probe = |at: u32| self.probe(&self.image.read(self.root.tables_at + at * size), from);
        let hashed = (0..self.root.tables).map(probe).min().unwrap_or(NONE);
        self.head.min(hashed).min(self.root.entries - 1)
    }

    /// Offset of the leaf of the split tree that the packet belongs to.
    fn leaf(&self) -> u32 {
        let mut next = 0;
        for _ in 0..self.root.splits {
            if next >> 31 != 0 {
                break;
            }
            let node: Split = self
                .image
                .read(self.root.splits_at + next * size_of::<Split>() as u32);
            let value = match node.dim as usize {
                DIM_SRC_PORT => u32::from(self.key.port[0]),
                DIM_DST_PORT => u32::from(self.key.port[1]),
                _ => u32::from(self.key.proto),
            };
            next = node.next[usize::from(value >= node.bound)];
        }
        self.root.leaves_at + (next & (u32::MAX >> 1)) * size_of::<Leaf>() as u32
    }

    /// The first position from `from` on in one table.
    fn probe(&self, table: &HashTable, from: u32) -> u32 {
        let masks = table.masks.map(u128::from);
        let address = [
            self.key.address[0] & (masks[0] << 64 | masks[1]),
            self.key.address[1] & (masks[2] << 64 | masks[3]),
        ];
        let ports = u32::from(self.key.port[0]) << 16 | u32::from(self.key.port[1]);
        let slot = table_hash(address, ports & table.ports) >> table.shift;
        let group: u32 = self.image.read(table.slots_at + slot as u32 * 4);
        for number in 0..group & 31 {
            let at = table.groups_at + (group & !31) + number * table.record;
            let position = match self.root.family {
                4 => self.record4(&self.image.read(at)),
                _ => self.record6(&self.image.read(at)),
            };
            if position != NONE && position >= from {
                return position;
            }
        }
        NONE
    }

    fn record4(&self, record: &Record4) -> u32 {
        let address = |at: usize, range: [u32; 2]| {
            (self.key.address[at] as u32).wrapping_sub(range[0]) <= range[1]
        };
        let holds = address(0, record.src)
            && address(1, record.dst)
            && self.ports_and_service(record.src_port, record.dst_port, record.service);
        if holds { record.position } else { NONE }
    }

    fn record6(&self, record: &Record6) -> u32 {
        let address = |at: usize, words: [u64; 2], shifts: [u8; 2]| {
            let differs =
                self.key.address[at] ^ (u128::from(words[0]) << 64 | u128::from(words[1]));
            let shift = |half: u64, by: u8| half.checked_shr(u32::from(by)).unwrap_or(0);
            shift((differs >> 64) as u64, shifts[0]) | shift(differs as u64, shifts[1]) == 0
        };
        let [a, b, c, d] = record.shifts;
        let holds = address(0, record.src, [a, b])
            && address(1, record.dst, [c, d])
            && self.ports_and_service(record.src_port, record.dst_port, record.service);
        if holds { record.position } else { NONE }
    }

    fn ports_and_service(&self, src: [u16; 2], dst: [u16; 2], service: u32) -> bool {
        let port =
            |at: usize, range: [u16; 2]| self.key.port[at].wrapping_sub(range[0]) <= range[1];
        port(0, src) && port(1, dst) && self.services >> (service & 63) & 1 != 0
    }

    /// The next position of the vectors.
    fn advance(&mut self) -> u32 {
        loop {
            if self.vectors.word != 0 {
                let bit = self.vectors.word.trailing_zeros();
                self.vectors.word &= self.vectors.word - 1;
                let term = self.vectors.word_at * 64 + bit;
                return self.image.read(self.vectors.positions_at + term * 4);
            }
            if self.vectors.summary != 0 {
                let at = self.vectors.summary.trailing_zeros();
                self.vectors.summary &= self.vectors.summary - 1;
                self.vectors.word_at = at;
                self.vectors.word = self.rows_and(8 + at * 8);
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

    /// Looks up the rows of a chunk and ANDs what they begin with.
    fn enter(&mut self, chunk: &Chunk) {
        let v = &mut self.vectors;
        v.used = chunk.used;
        v.positions_at = chunk.positions_at;
        v.terms = chunk.terms;
        let used = |dim: usize| chunk.used >> dim & 1 != 0;
        for (at, map) in chunk.addresses.iter().enumerate() {
            if used(DIM_SRC + at) {
                let class = match self.root.family {
                    4 => address_class_v4(self.image, map, self.key.address[at] as u32),
                    _ => address_class_v6(self.image, map, self.key.address[at]),
                };
                v.rows[DIM_SRC + at] = map.rows_at + class * chunk.stride;
            }
        }
        for (at, map) in chunk.ports.iter().enumerate() {
            if used(DIM_SRC_PORT + at) {
                let class = port_class(self.image, map, self.key.port[at]);
                v.rows[DIM_SRC_PORT + at] = map.rows_at + class * chunk.stride;
            }
        }
        let values = [
            u32::from(self.key.proto),
            u32::from(self.key.kind),
            u32::from(self.key.flags),
            u32::from(self.key.class[0]),
            u32::from(self.key.class[1]),
        ];
        for (at, map) in chunk.small.iter().enumerate() {
            if used(DIM_PROTO + at) {
                let class = u32::from(self.image.read::<u16>(map.table_at + values[at] * 2));
                v.rows[DIM_PROTO + at] = map.rows_at + class * chunk.stride;
            }
        }
        let first = self.rows_and(0);
        let last = chunk.terms - 1;
        if chunk.words == 1 {
            // Without any used dimension every term holds.
            self.vectors.word = first & (u64::MAX >> (63 - last % 64));
            self.vectors.word_at = 0;
        } else {
            self.vectors.summary = first & (u64::MAX >> (63 - last / 64));
        }
    }

    /// The AND of all rows at an offset within them.
    fn rows_and(&self, at: u32) -> u64 {
        let v = &self.vectors;
        let mut word = u64::MAX;
        for dim in 0..DIMS {
            if v.used >> dim & 1 != 0 {
                word &= self.image.read::<u64>(v.rows[dim] + at);
            }
        }
        if v.used == 0 && at > 0 && (at - 8) / 8 == (v.terms - 1) / 64 {
            word &= u64::MAX >> (63 - (v.terms - 1) % 64);
        }
        word
    }
}

/// The class of an IPv4 address.
fn address_class_v4(image: &Image, map: &AddressMap, address: u32) -> u32 {
    let cell = address.saturating_sub(map.base[1] as u32) >> map.shift;
    let cell = cell.min(map.cell_last);
    let mut low: u32 = image.read(map.index_at + cell * 4);
    let high: u32 = image.read(map.index_at + cell * 4 + 4);
    let mut count = high - low + 1;
    for _ in 0..map.steps {
        let half = count >> 1;
        let bound: u32 = image.read(map.bounds_at + (low + half) * 8);
        if bound <= address {
            low += half;
        }
        count -= half;
    }
    image.read(map.bounds_at + low * 8 + 4)
}

/// The class of an IPv6 address.
fn address_class_v6(image: &Image, map: &AddressMap, address: u128) -> u32 {
    let base = u128::from(map.base[0]) << 64 | u128::from(map.base[1]);
    let cell = address.saturating_sub(base) >> map.shift;
    let cell = cell.min(u128::from(map.cell_last)) as u32;
    let mut low: u32 = image.read(map.index_at + cell * 4);
    let high: u32 = image.read(map.index_at + cell * 4 + 4);
    let mut count = high - low + 1;
    for _ in 0..map.steps {
        let half = count >> 1;
        let [first, second]: [u64; 2] = image.read(map.bounds_at + (low + half) * 16);
        if (u128::from(first) << 64 | u128::from(second)) <= address {
            low += half;
        }
        count -= half;
    }
    image.read(map.classes_at + low * 4)
}

/// The class of a port.
fn port_class(image: &Image, map: &Map, port: u16) -> u32 {
    let block: u16 = image.read(map.table_at + u32::from(port >> 8) * 2);
    let at = 512 + u32::from(block) * 512 + u32::from(port & 255) * 2;
    u32::from(image.read::<u16>(map.table_at + at))
}

const _: () = assert!(
    DIM_DST == DIM_SRC + 1
        && DIM_DST_PORT == DIM_SRC_PORT + 1
        && DIM_KIND == DIM_PROTO + 1
        && DIM_FLAGS == DIM_PROTO + 2
        && DIM_IN == DIM_PROTO + 3
        && DIM_OUT == DIM_PROTO + 4
);
