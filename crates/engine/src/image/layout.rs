//! Structures of the image, little-endian; offsets are bytes from its start. Twin:
//! `plane/bpf/image.h`, same names, order and numbers.

pub use super::dynamic::*;
pub use super::feature::*;
pub use super::learner::*;
pub use super::record::*;
pub use super::reject::*;
pub use super::rows::*;
pub use super::slot::*;
use weir_policy::model::{Family, Hook, Table};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of every image: "weir".
pub const MAGIC: u32 = 0x7269_6577;
/// Raised with every change of the layout.
pub const VERSION: u32 = 11;
/// Byte offset of [`Header::checksum`].
pub const CHECKSUM_AT: usize = 16;
/// Sections begin at multiples of this.
pub const ALIGN: usize = 64;
/// Largest image: the verifier allows variable offsets below 2^29.
pub const LENGTH_MAX: usize = 1 << 28;
/// Entries that one packet may meet in one root; the verifier's 8,192 branches bound them.
pub const STEPS_MAX: u32 = 1024;
/// Terms of one bit-vector chunk: a summary word over at most 64 words of 64 bits.
pub const CHUNK_TERMS_MAX: usize = 4096;
/// Tests of one entry.
pub const TESTS_MAX: usize = 8;
/// Operations of one entry.
pub const OPS_MAX: usize = 8;
/// Rules that count with one entry.
pub const RULES_MAX: usize = 64;
/// Bit-vector chunks that one packet can meet in one root.
pub const CHUNKS_MAX: usize = 128;
/// Terms that rows of one chunk with bounds may let through in vain.
pub const VAIN_MAX: u32 = 512;
/// Steps of the search in an address map.
pub const SEARCH_STEPS_MAX: u32 = 20;
/// Roots: family (4, 6), hook, table (raw, mangle, filter).
pub const ROOTS: usize = 30;
/// Hashed tables of one root.
pub const TABLES_MAX: usize = 16;
/// Records of one group of a hashed table.
pub const GROUP_MAX: usize = 8;
/// Distinct services that hashed tables of one root can name.
pub const SERVICES_MAX: usize = 4096;
/// Depth of the split tree in front of the bit vectors.
pub const SPLITS_MAX: usize = 8;

/// Numbers of fields, where a structure names one: source address.
pub const DIM_SRC: usize = 0;
/// Destination address.
pub const DIM_DST: usize = 1;
/// Source port, or ICMP type and code.
pub const DIM_SRC_PORT: usize = 2;
/// Destination port.
pub const DIM_DST_PORT: usize = 3;
/// Protocol.
pub const DIM_PROTO: usize = 4;

/// Bits of [`Fold::used`]: ports distinguish terms.
pub const FOLD_PORTS: u32 = 1;
/// Interfaces distinguish terms.
pub const FOLD_LINKS: u32 = 2;
/// Ports have rows of their own: in the services of tables. Without [`FOLD_PORTS`].
pub const FOLD_APART: u32 = 4;
/// Cells of the products of small fields; their numbers fit 16 bits.
pub const SMALL_CELLS_MAX: usize = 1 << 16;
/// Cells of the other products of classes.
pub const CELLS_MAX: usize = 1 << 20;
/// Rows that a chunk's bits are the AND of: source, destination, service, and where ports cannot be
/// folded into the service, source port and destination port.
pub const ROWS_MAX: usize = 5;

/// Number of a root in [`Header::roots`]; `None` for tables that are never roots.
pub fn root_number(family: Family, hook: Hook, table: Table) -> Option<usize> {
    let table = match table {
        Table::Raw => 0,
        Table::Mangle => 1,
        Table::Filter => 2,
        Table::Nat | Table::Security => return None,
    };
    Some((family as usize * 5 + hook as usize) * 3 + table)
}

/// The kind byte of a packet: transport (3 bits), fragment (2 bits), index of the state bit.
pub fn kind_of(transport: u8, fragment: u8, state_index: u8) -> u8 {
    (transport & 7) | (fragment & 3) << 3 | (state_index & 7) << 5
}

/// First bytes of the image.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of the whole image, a multiple of [`ALIGN`].
    pub length: u32,
    /// Rule counters that entries name: ids are below this.
    pub rule_count: u32,
    /// See [`super::checksum`].
    pub checksum: u64,
    /// Bytes that the compiler was allowed.
    pub budget: u64,
    /// Histories that tests name: ids are below this.
    pub history_count: u32,
    /// Interface patterns, longest first: [`Pattern`] each.
    pub patterns_at: u32,
    /// How many.
    pub patterns: u32,
    /// Loads that the dearest packet can cause in one root before its entries run.
    pub worst_loads: u32,
    /// Entries that the dearest packet can meet in one root.
    pub worst_steps: u32,
    /// Bits: `FEATURE_*`.
    pub features: u32,
    /// Packet clock (ms) when the image came into its slot, by the loader; not in the checksum.
    pub loaded_ms: u64,
    /// Root of each (family, hook, table), 0 without.
    pub roots: [u32; ROOTS],
    /// The same for packets whose transport header is cut short.
    pub shorts: [u32; ROOTS],
    /// The same for TCP and UDP packets of established flows; 0: the root itself.
    pub established: [u32; ROOTS],
}

/// Byte offset of [`Header::loaded_ms`].
pub const LOADED_AT: usize = std::mem::offset_of!(Header, loaded_ms);

/// An interface pattern: a name belongs to it when `name & mask == name of the pattern`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Pattern {
    /// Name, zero-padded.
    pub name: [u8; 16],
    /// Bytes compared.
    pub mask: [u8; 16],
}

/// One root.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Root {
    /// [`Entry`] each, of those that are written out; the last of all matches every packet.
    pub entries_at: u32,
    /// How many, at least one.
    pub entries: u32,
    /// 4 or 6.
    pub family: u32,
    /// Hashed tables.
    pub tables: u32,
    /// [`HashTable`] each.
    pub tables_at: u32,
    /// Which services hold, as bits of rows of whole lines: a [`Fold`], 0 without tables.
    pub services_at: u32,
    /// Bit-vector chunks when there is no split tree.
    pub chunks: u32,
    /// [`Chunk`] each.
    pub chunks_at: u32,
    /// Depth of the split tree, 0 without.
    pub splits: u32,
    /// [`Split`] each, the first is the tree's root.
    pub splits_at: u32,
    /// How many.
    pub split_nodes: u32,
    /// [`Leaf`] each, for split trees.
    pub leaves_at: u32,
    /// How many.
    pub leaves: u32,
    /// Services that records of tables can name.
    pub services: u32,
    /// 1: all tables have records of prefixes, and behind each group stand three of the same table
    /// or without position: four are always true. Not where rules may be changed in place.
    pub packed: u32,
    /// A word for each entry, see [`super::brief`]; 0: all are written out, in order.
    pub brief_at: u32,
}

/// A node of the split tree: packets whose value is below the bound go left.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Split {
    /// Dimension: [`DIM_SRC_PORT`], [`DIM_DST_PORT`], [`DIM_PROTO`]; IPv4 also [`DIM_SRC`] and
    /// [`DIM_DST`].
    pub dim: u32,
    /// Bound.
    pub bound: u32,
    /// Left and right: a node's number, or with the highest bit a leaf's.
    pub next: [u32; 2],
}

/// Chunks of a leaf of the split tree.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Leaf {
    /// [`Chunk`] each.
    pub chunks_at: u32,
    /// How many.
    pub chunks: u32,
}

/// A hashed table: slots of groups of records.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HashTable {
    /// Masks of the address bits in the key: source high and low, destination high and low.
    pub masks: [u64; 4],
    /// Mask of `protocol << 32 | src_port << 16 | dst_port`.
    pub ports: u64,
    /// 64 less the number of bits of a slot number.
    pub shift: u32,
    /// Slots: u32 each, see [`slot`].
    pub slots_at: u32,
    /// Bytes of a record: 16 for IPv4 prefixes, 32 for IPv4 ranges, 64 for IPv6.
    pub record: u32,
    /// Where groups begin.
    pub groups_at: u32,
    /// Filters of all slots beside one another, four bits each, see [`super::slot`]; 0 without.
    pub filters_at: u32,
    /// Positions of one rank, see [`slot_least`].
    pub step: u32,
}

/// A map from a port to a row of bits.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Map {
    /// u16 block by high byte, blocks of 256 u16 classes follow.
    pub table_at: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Rows of this field; 0 where a [`Fold`] goes on from the class.
    pub rows_at: u32,
    /// Number of classes, and of rows where there are any.
    pub rows: u32,
}

/// A map from an address to a row of bits. IPv4, as far as it does not take too much room: a tree
/// of bytes. Else an index over equal cells, then a search.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AddressMap {
    /// Start of the first cell, high and low.
    pub base: [u64; 2],
    /// Cells of `2^shift` addresses.
    pub shift: u32,
    /// Number of cells less one.
    pub cell_last: u32,
    /// u32 number of the interval at each cell's start, one more than cells.
    pub index_at: u32,
    /// IPv4: (u32 first, u32 class) each. IPv6: (u64 high, u64 low) of the first address each.
    pub bounds_at: u32,
    /// Number of intervals.
    pub bounds: u32,
    /// IPv6: u32 class of each interval.
    pub classes_at: u32,
    /// Steps of the search.
    pub steps: u32,
    /// Rows of this field.
    pub rows_at: u32,
    /// Number of rows.
    pub rows: u32,
    /// The tree: u32 each, `next << 8 | mask`; four times, from the root's block at number `rows`
    /// on: the cell at `next + (byte & mask)`. Cell `c < rows` leads to itself: class `c`.
    pub tree_at: u32,
    /// How many cells; 0: the search.
    pub tree: u32,
    /// 65,536 u32: the cells to which the first two steps of the tree lead; 0 without.
    pub wide_at: u32,
}

/// Maps from all fields but the addresses to one row of bits: classes of values, then classes of
/// pairs of classes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Fold {
    /// `FOLD_*`.
    pub used: u32,
    /// u16 class of `source * classes of destination + destination`, with [`FOLD_PORTS`].
    pub pairs_at: u32,
    /// How many.
    pub pairs: u32,
    /// u16 class of the sum of what protocol, kind and flags give.
    pub forms_at: u32,
    /// How many.
    pub forms: u32,
    /// u16 class of the sum of what the two interfaces give, with [`FOLD_LINKS`].
    pub links_at: u32,
    /// How many.
    pub links: u32,
    /// Classes of interfaces; 1 without [`FOLD_LINKS`].
    pub link_classes: u32,
    /// u16 class of `form * link_classes + link`, with [`FOLD_LINKS`].
    pub smalls_at: u32,
    /// How many.
    pub smalls: u32,
    /// Classes of all fields but addresses and ports.
    pub small_classes: u32,
    /// u16 row of `pair * small_classes + small`.
    pub cells_at: u32,
    /// How many.
    pub cells: u32,
    /// Rows.
    pub rows_at: u32,
    /// How many.
    pub rows: u32,
    /// Bytes of a row.
    pub stride: u32,
    /// u16 each, by value: protocol, kind, flags, receiving and sending interface.
    pub small_at: [u32; 5],
    /// With [`FOLD_PORTS`], 65,536 u16 each: the classes to which `ports` lead; 0 without.
    pub direct_at: [u32; 2],
    /// Zero.
    pub padding: u32,
    /// Source and destination port, with [`FOLD_PORTS`] or [`FOLD_APART`].
    pub ports: [Map; 2],
}

/// Bit vectors over at most [`CHUNK_TERMS_MAX`] terms in evaluation order; see [`row_words`].
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Chunk {
    /// Rows to AND: 3 when ports are folded into services, else 5.
    pub rows: u32,
    /// Words of 64 terms.
    pub words: u32,
    /// Terms.
    pub terms: u32,
    /// u32 position of each term's entry, not decreasing; then all ones, up to and with number
    /// `64 * row_words(words)`.
    pub positions_at: u32,
    /// Bytes of a row: `8 * row_words(words)`.
    pub stride: u32,
    /// 1: of five rows the last three are by the classes of the root's services.
    pub shared: u32,
    /// 0: rows say which terms hold. Else they say which may, of five rows those of addresses and
    /// ports, and here is what each term says of these: [`Record4`], or [`Bounds6`] for IPv6.
    pub bounds_at: u32,
    /// With bounds: of the terms that a packet's rows let through, at most so many don't hold.
    pub vain_max: u32,
    /// Source and destination.
    pub addresses: [AddressMap; 2],
    /// Source and destination port, with five rows.
    pub ports: [Map; 2],
    /// All other fields.
    pub fold: Fold,
}

/// One step of a trail.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Entry {
    /// 0 go on, else `enum weir_verdict`, or [`VERDICT_HOT_DROP`].
    pub verdict: u8,
    /// `FLAG_*`.
    pub flags: u8,
    /// Answer of a reject: `WEIR_REJECT_*`.
    pub reject: u16,
    /// Rule that counts, or with several the offset of their u32 ids.
    pub rule: u32,
    /// Rules that count, at most [`RULES_MAX`].
    pub rules: u32,
    /// [`Test`] each.
    pub tests_at: u32,
    /// [`Op`] each.
    pub ops_at: u32,
    /// How many tests.
    pub tests: u16,
    /// How many operations.
    pub ops: u16,
    /// Position to go on with after a match, greater than this entry's.
    pub next_match: u32,
    /// Position to go on with when a test fails, greater than this entry's.
    pub next_fail: u32,
}

/// With no verdict of its own: the verdict in the lowest two bits stands from here on (0: none).
pub const FLAG_PROPOSE: u8 = 0x80;
/// If a proposal stands it decides, and the entry neither counts nor has a say.
pub const FLAG_STANDING: u8 = 0x40;
/// With any verdict of its own: the state just found gives verdict and deciding rule.
pub const FLAG_AS_LEARNED: u8 = 0x20;
/// Who passes it looks anew: rules came for packets of this one, now off ([`crate::update`]).
pub const FLAG_AGAIN: u8 = 0x08;
/// With no verdict of its own: the verdict that stands becomes a drop.
pub const FLAG_REFUSE: u8 = 0x10;
/// The verdict of a proposal.
pub const FLAG_VERDICT: u8 = 3;
/// Dropped because the transport header is cut short: nothing counts, no rule decides.
pub const VERDICT_HOT_DROP: u8 = 4;

/// A test that is run when its entry is met.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Test {
    /// `TEST_*`.
    pub kind: u8,
    /// 1 when the test is negated.
    pub negate: u8,
    /// Small argument.
    pub small: u16,
    /// First argument.
    pub a: u32,
    /// Second argument.
    pub b: u32,
    /// Offset of data, 0 without.
    pub at: u32,
    /// Number of things there.
    pub count: u32,
    /// Zero.
    pub padding: [u32; 3],
}

/// `mark & b == a`.
pub const TEST_MARK: u8 = 1;
/// Flow mark `& b == a`; absent without a flow.
pub const TEST_CONNMARK: u8 = 2;
/// Source address in `at`: value (2 u64), mask (2 u64), high word first.
pub const TEST_SRC_MASKED: u8 = 3;
/// Destination address, the same.
pub const TEST_DST_MASKED: u8 = 4;
/// Source Ethernet address: `small << 32 | a`, first byte highest; absent without one.
pub const TEST_MAC: u8 = 5;
/// Link-layer packet type `a` (numbers of the kernel's PACKET_*).
pub const TEST_PACKET_TYPE: u8 = 6;
/// Owner: `small` 1 user, 2 group in `a..=b`.
pub const TEST_OWNER: u8 = 7;
/// Layer 3 length in one of `count` (u32 first, u32 last) pairs.
pub const TEST_LENGTH: u8 = 8;
/// TTL: `small` 0 equal, 1 less, 2 greater than `a`.
pub const TEST_TTL: u8 = 9;
/// TOS byte `& b == a` (DSCP, TOS and ECN tests).
pub const TEST_TOS: u8 = 10;
/// TCP option of kind `a` present; absent for other protocols.
pub const TEST_TCP_OPTION: u8 = 11;
/// MSS option in one of `count` (u32, u32) pairs; false without the option.
pub const TEST_TCP_MSS: u8 = 12;
/// SPI in one of `count` pairs; absent for other protocols.
pub const TEST_SPI: u8 = 13;
/// SCTP chunks: `small` 0 all, 1 any, 2 only; types as 4 u64 at `at`, behind them
/// [`CHUNK_FLAGS_MAX`] u32 of which `count` are used: type, mask and value of flags from the lowest
/// byte on.
pub const TEST_SCTP: u8 = 14;
/// Types of chunks whose flags a test may ask for: those that have some (IPT_NUM_CHUNK_FLAGS).
pub const CHUNK_FLAGS_MAX: usize = 4;
/// IPv6 routing header: type `small` (256: any), segments left in `a..=b`; absent without.
pub const TEST_ROUTING: u8 = 15;
/// Flow field `small` (see `CT_*`); absent without a flow.
pub const TEST_CT: u8 = 16;
/// Routing type of the source in the bits `a` (1 local, 2 broadcast, 4 multicast, 8 unicast).
pub const TEST_SRC_TYPE: u8 = 17;
/// Of the destination address.
pub const TEST_DST_TYPE: u8 = 21;
/// State, with those of the kernel's NAT, in the mask `a`.
pub const TEST_STATE: u8 = 22;
/// What the kernel does with the packet has a bit of `a`.
pub const TEST_HANDLING: u8 = 23;
/// The proposal that stands is of rule `a`.
pub const TEST_PROPOSED: u8 = 24;
/// The highest of them.
pub const TEST_LAST: u8 = TEST_ICMP_HEAD;
/// What the kernel knows beside headers, or bytes: `small` is one of `ASIDE_*`, see [`aside`].
pub const TEST_ASIDE: u8 = 33;
/// History object `a`; its parameters at `at`.
pub const TEST_HISTORY: u8 = 18;
/// Time since the image was loaded is below `a` seconds.
pub const TEST_UNTIL: u8 = 19;
/// Packet's transport header must be readable: a malformed TCP header drops the packet.
pub const TEST_MALFORMED: u8 = 20;

/// Protocol of the flow in `a..=b`.
pub const CT_PROTO: u16 = 1;
/// Address of a direction in one of `count` pairs of (u64 high, low first; u64 high, low last).
pub const CT_ORIG_SRC: u16 = 2;
/// As above.
pub const CT_ORIG_DST: u16 = 3;
/// As above.
pub const CT_REPL_SRC: u16 = 4;
/// As above.
pub const CT_REPL_DST: u16 = 5;
/// Port in one of `count` (u32, u32) pairs.
pub const CT_ORIG_SRC_PORT: u16 = 6;
/// As above.
pub const CT_ORIG_DST_PORT: u16 = 7;
/// As above.
pub const CT_REPL_SRC_PORT: u16 = 8;
/// As above.
pub const CT_REPL_DST_PORT: u16 = 9;
/// Any status bit of `a`; 0: none set.
pub const CT_STATUS: u16 = 10;
/// Seconds to expiry in `a..=b`.
pub const CT_EXPIRE: u16 = 11;
/// Direction: `a` 1 original, 0 reply.
pub const CT_DIRECTION: u16 = 12;

/// An operation of a matched entry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Op {
    /// `OP_*`.
    pub kind: u8,
    /// Small argument.
    pub small: u8,
    /// Number of the operation within its rule.
    pub index: u16,
    /// Rule.
    pub rule: u32,
    /// First argument.
    pub a: u32,
    /// Second argument.
    pub b: u32,
}

/// Kernel-style log record.
pub const OP_LOG: u8 = 1;
/// Netlink-style log record; `a` group, `b` bytes.
pub const OP_NFLOG: u8 = 2;
/// `mark = (mark & !b) ^ a`.
pub const OP_MARK: u8 = 3;
/// Flow mark, the same; the result shifted by `small`: bits, [`SHIFT_RIGHT`].
pub const OP_CONNMARK: u8 = 4;
/// Flow mark `= (ct & !b) ^ (mark & a)`, `mark & a` shifted by `small`.
pub const OP_SAVE_MARK: u8 = 5;
/// `mark = (mark & !a) ^ (ct & b)`, `ct & b` shifted by `small`.
pub const OP_RESTORE_MARK: u8 = 6;
/// A mark is shifted to the right, not to the left.
pub const SHIFT_RIGHT: u8 = 0x80;
/// No tracking.
pub const OP_NOTRACK: u8 = 7;
/// `tos = (tos & !b) ^ a` (DSCP too).
pub const OP_TOS: u8 = 8;
/// Priority `a`.
pub const OP_CLASSIFY: u8 = 9;
/// MSS at most `a`; 0: clamp to the path MTU.
pub const OP_MSS: u8 = 10;
/// Add to a set.
pub const OP_SET_ADD: u8 = 11;
/// Delete from a set.
pub const OP_SET_DELETE: u8 = 12;
/// TTL or hop limit: `a`; with `small` 1, changed by `a`, which may be negative.
pub const OP_TTL: u8 = 13;
