//! Addresses of interfaces, for rules that name an interface where an address stands.
//!
//! In: what the host says of its interfaces. Out: the ranges that `e0/32`, `(e0)`, `e0/network` and
//! the like stand for. An interface that nobody knows stands for no address.

use crate::dialect::ipf::ast::{InterfaceAddress, ones};
use crate::model::{Family, RangeSet};
use std::collections::BTreeMap;

/// One address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceNet {
    /// Its family.
    pub family: Family,
    /// The address.
    pub address: u128,
    /// Length of its network's prefix.
    pub prefix: u8,
    /// The broadcast address, where there is one.
    pub broadcast: Option<u128>,
    /// The other end, where there is one.
    pub peer: Option<u128>,
}

/// The addresses of all interfaces, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceNets(pub BTreeMap<String, Vec<InterfaceNet>>);

impl InterfaceNets {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The addresses that one of an interface's stands for.
    pub(super) fn ranges(
        &self,
        name: &str,
        which: InterfaceAddress,
        family: Family,
    ) -> RangeSet<u128> {
        let nets = self.0.get(name).map_or(&[][..], Vec::as_slice);
        let own = nets.iter().filter(|net| net.family == family);
        let ranges = own.filter_map(|net| net.range(which));
        RangeSet::from_ranges(ranges.collect::<Vec<_>>())
    }
}

impl InterfaceNet {
    fn range(&self, which: InterfaceAddress) -> Option<(u128, u128)> {
        let all = ones(self.family);
        let net = |length: u8| {
            let width = if self.family == Family::V4 { 32 } else { 128 };
            let free = match u32::from(length) {
                length if length < width => all >> length,
                _ => 0,
            };
            (self.address & !free, self.address & !free | free)
        };
        match which {
            InterfaceAddress::Masked(length) => Some(net(length)),
            InterfaceAddress::Network | InterfaceAddress::Netmasked => Some(net(self.prefix)),
            InterfaceAddress::Broadcast => self.broadcast.map(|address| (address, address)),
            InterfaceAddress::Peer => self.peer.map(|address| (address, address)),
        }
    }
}
