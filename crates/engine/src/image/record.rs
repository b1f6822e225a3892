//! What one term says of addresses and ports, where walkers compare it: records of hashed tables,
//! and bounds of terms whose rows are coarse.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A record of prefixes of IPv4 addresses: what must hold, where it stands.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Prefixes4 {
    /// Source prefix.
    pub src: u32,
    /// Destination prefix.
    pub dst: u32,
    /// Bit in the packet's row of services.
    pub service: u16,
    /// Low bits that do not count of source and destination: 0 to 32.
    pub shifts: [u8; 2],
    /// Position of the entry, in the high half of 64 bits, whose least is taken.
    pub position: u32,
}

/// A record of an IPv4 table: a box, what else must hold, where it stands.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Record4 {
    /// First source address and last less first.
    pub src: [u32; 2],
    /// First destination address and last less first.
    pub dst: [u32; 2],
    /// First source port and last less first.
    pub src_port: [u16; 2],
    /// First destination port and last less first.
    pub dst_port: [u16; 2],
    /// Position of the entry.
    pub position: u32,
    /// Bit in the packet's row of services.
    pub service: u32,
}

/// A record of an IPv6 table: prefixes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Record6 {
    /// Source prefix, high and low.
    pub src: [u64; 2],
    /// Destination prefix, high and low.
    pub dst: [u64; 2],
    /// First source port and last less first.
    pub src_port: [u16; 2],
    /// First destination port and last less first.
    pub dst_port: [u16; 2],
    /// Position of the entry.
    pub position: u32,
    /// Bit in the packet's row of services.
    pub service: u32,
    /// Low bits that do not count of source high, low, destination high, low: 0 to 64.
    pub shifts: [u8; 4],
    /// Zero.
    pub padding: [u32; 3],
}

/// The box of a term of IPv6 where rows are coarse ([`super::layout::Chunk::bounds_at`]); of IPv4
/// that is a [`Record4`] whose last two numbers say nothing.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Bounds6 {
    /// First and last source address, each high and low.
    pub src: [[u64; 2]; 2],
    /// First and last destination address.
    pub dst: [[u64; 2]; 2],
    /// First source port and last less first.
    pub src_port: [u16; 2],
    /// First destination port and last less first.
    pub dst_port: [u16; 2],
    /// Zero.
    pub padding: u64,
}
