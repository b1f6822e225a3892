//! Tests of what the kernel knows of a packet beside its headers, of bytes anywhere in it and of
//! fields of headers that few ask for, as the image has them. Twin of `plane/bpf/aside.h`: same
//! names, order and numbers.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A socket sends the packet.
pub const ASIDE_SOCKET: u16 = 1;
/// A group of the socket's owner is in `a..=b`.
pub const ASIDE_GROUPS: u16 = 2;
/// The socket's class is `a`; absent without a socket.
pub const ASIDE_CLASS: u16 = 3;
/// The socket's control group, `count` below the root, is `b << 32 | a`; absent without a socket.
pub const ASIDE_CONTROL_GROUP: u16 = 4;
/// The CPU is `a`.
pub const ASIDE_CPU: u16 = 5;
/// The receiving interface's group `& b == a`.
pub const ASIDE_GROUP_IN: u16 = 6;
/// The sending interface's.
pub const ASIDE_GROUP_OUT: u16 = 7;
/// The route's realm `& b == a`.
pub const ASIDE_REALM: u16 = 8;
/// The bridge port by which it came: a [`PortName`] at `at`, or any with `at` 0.
pub const ASIDE_PORT_IN: u16 = 9;
/// By which it leaves.
pub const ASIDE_PORT_OUT: u16 = 10;
/// `count` [`WordOp`] at `at`.
pub const ASIDE_WORDS: u16 = 11;
/// A [`TextTable`] at `at`, behind it 256 bytes of classes and its rows.
pub const ASIDE_TEXT: u16 = 12;
/// As [`ASIDE_WORDS`], of the first [`HEADER_BYTES`] alone, which are readable in every packet.
pub const ASIDE_HEADER: u16 = 13;
/// Number `a` of the TCP header, one of `TCP_*`, in one of `count` (u32, u32) pairs at `at`; absent
/// without such a header.
pub const ASIDE_TCP: u16 = 14;
/// IPv4 options: bits `& b == a`; see [`weir_policy::model::Facts::ip_options`].
pub const ASIDE_IP_OPTIONS: u16 = 15;
/// One of the IPv6 extension headers `a`; see [`weir_policy::model::Facts::extensions`].
pub const ASIDE_EXTENSIONS: u16 = 16;
/// The receiving interface has a name that matches the [`Glob`] at `at`.
pub const ASIDE_NAME_IN: u16 = 17;
/// The sending interface has.
pub const ASIDE_NAME_OUT: u16 = 18;
/// The frame holds no IP packet; this and what follows is absent without a frame.
pub const ASIDE_ETHERNET_BARE: u16 = 19;
/// Its type is in one of `count` (u32, u32) pairs at `at`.
pub const ASIDE_ETHERNET_TYPE: u16 = 20;
/// Its destination (`a` 0) or source (1) is, under the second u64 at `at`, the first.
pub const ASIDE_ETHERNET_MASKED: u16 = 21;
/// Its destination or source is in one of `count` (u64, u64) pairs at `at`.
pub const ASIDE_ETHERNET_AMONG: u16 = 22;
/// IPv6 headers: bits `& b == a`; see [`weir_policy::model::Facts::headers`]. Absent where they
/// can't be followed.
pub const ASIDE_HEADERS: u16 = 23;
/// The highest of them.
pub const ASIDE_LAST: u16 = ASIDE_HEADERS;

/// Bytes of the shortest network header.
pub const HEADER_BYTES: u32 = 20;

/// Sequence number.
pub const TCP_SEQUENCE: u32 = 1;
/// Acknowledgement number.
pub const TCP_ACKNOWLEDGEMENT: u32 = 2;
/// Window.
pub const TCP_WINDOW: u32 = 3;
/// Bytes behind the header, see [`weir_policy::model::Facts::tcp_data`].
pub const TCP_DATA: u32 = 4;

/// A name with a mask over its bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PortName {
    /// The bytes.
    pub value: [u8; 16],
    /// Which of them count.
    pub mask: [u8; 16],
}

/// A pattern of names, see [`weir_policy::eval::ipfw::glob::Automaton`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Glob {
    /// Places in front of which a star stands.
    pub stars: u16,
    /// Elements; at most 15.
    pub length: u16,
    /// Zero.
    pub padding: u32,
    /// For each byte, the elements that it matches.
    pub masks: [u16; 256],
}

/// Read the word at `a`; places add up from here.
pub const WORD_READ: u32 = 1;
/// `& a`.
pub const WORD_AND: u32 = 2;
/// `<< a`.
pub const WORD_LEFT: u32 = 3;
/// `>> a`.
pub const WORD_RIGHT: u32 = 4;
/// Read the word `a` behind the place that the value says.
pub const WORD_AT: u32 = 5;
/// Notes whether the value is in `a..=b`.
pub const WORD_IN: u32 = 6;
/// As [`WORD_IN`], the last range of a test: fails where none held.
pub const WORD_IN_LAST: u32 = 7;
/// Operations of a test: 11 words of 11 steps and 11 ranges at most, as xt_u32 has them.
pub const WORD_OPS_MAX: usize = 11 * 22;

/// An operation on words.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WordOp {
    /// `WORD_*`.
    pub kind: u32,
    /// First argument.
    pub a: u32,
    /// Second argument.
    pub b: u32,
    /// Zero.
    pub padding: u32,
}

/// An automaton that finds bytes: state `s` (bytes of the pattern that stand before) and class `c`
/// of the next byte lead to the state at `rows[s * classes + c]`; state `length` is the end.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TextTable {
    /// The pattern stands at or behind this offset,
    pub from: u32,
    /// and ends before this one.
    pub to: u32,
    /// Bytes of the pattern.
    pub length: u32,
    /// Classes of bytes.
    pub classes: u32,
}

/// Bytes of a pattern.
pub const TEXT_MAX: usize = 128;
/// Where the rows begin, from the table on.
pub const TEXT_ROWS: u32 = 16 + 256;
