//! What rules ask about the host: its addresses, interfaces and routes.
//!
//! In: facts given by the caller. Out: answers for `me`, `via ADDRESS`, `verrevpath`,
//! `versrcreach` and `antispoof`. Nothing is looked up on the machine that weir runs on.

use crate::model::Family;

/// An address of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Its interface; empty when nobody said.
    pub interface: String,
    /// Family.
    pub family: Family,
    /// Address; IPv4 in the low 32 bits.
    pub address: u128,
    /// Length of its network's prefix.
    pub length: u8,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Family.
    pub family: Family,
    /// Prefix.
    pub prefix: u128,
    /// Its length; 0 is the default route.
    pub length: u8,
    /// Interface by which packets leave.
    pub interface: String,
    /// A reject or blackhole route.
    pub refused: bool,
}

/// Facts about the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Addresses. Those of the loopback are known without being listed.
    pub addresses: Vec<HostAddress>,
    /// Routes beyond those to the networks of the addresses.
    pub routes: Vec<Route>,
}

fn width(family: Family) -> u32 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

fn inside(family: Family, address: u128, prefix: u128, length: u8) -> bool {
    let mask = crate::dialect::ipfw::numbers::prefix_mask(u32::from(length), width(family));
    address & mask == prefix & mask
}

/// The networks of the loopback interface, and whether an interface has that name.
const LOOPBACK: [(Family, u128, u8); 2] = [(Family::V4, 0x7f00_0001, 8), (Family::V6, 1, 128)];

fn is_loopback(interface: &str) -> bool {
    matches!(interface, "lo" | "lo0")
}

/// IPv6 addresses that are known on their link alone (RFC 4291 section 2.5.6): the way back to
/// them is the one that they came by.
fn is_of_link(family: Family, address: u128) -> bool {
    family == Family::V6 && address >> 118 == 0xfe80 >> 6
}

impl Host {
    /// Whether an address is one of the host's own.
    #[must_use]
    pub fn is_me(&self, family: Family, address: u128) -> bool {
        let loopback = match family {
            Family::V4 => 0x7f00_0001,
            Family::V6 => 1,
        };
        address == loopback
            || self
                .addresses
                .iter()
                .any(|own| own.family == family && own.address == address)
    }

    /// Whether an interface has an IPv4 address.
    #[must_use]
    pub fn owns(&self, interface: &str, address: u32) -> bool {
        self.addresses.iter().any(|own| {
            own.family == Family::V4
                && own.address == u128::from(address)
                && own.interface == interface
        }) || (address == 0x7f00_0001 && is_loopback(interface))
    }

    /// The connected networks that an address is on: interface, length of the prefix.
    fn connected(&self, family: Family, address: u128) -> impl Iterator<Item = (&str, u8)> {
        let loopback = LOOPBACK
            .into_iter()
            .map(|(family, own, length)| (family, own, length, "lo"));
        let others = self
            .addresses
            .iter()
            .map(|own| (own.family, own.address, own.length, own.interface.as_str()));
        loopback
            .chain(others)
            .filter(move |(of, own, length, interface)| {
                *of == family && !interface.is_empty() && inside(family, address, *own, *length)
            })
            .map(|(_, _, length, interface)| (interface, length))
    }

    /// The best route to an address: its interface, whether it is the default route, and whether
    /// it refuses.
    fn route(&self, family: Family, address: u128) -> Option<(&str, bool, bool)> {
        let connected = self
            .connected(family, address)
            .map(|(interface, length)| (length, interface, length == 0, false));
        let others = self
            .routes
            .iter()
            .filter(|route| route.family == family)
            .filter(|route| inside(family, address, route.prefix, route.length))
            .map(|r| (r.length, r.interface.as_str(), r.length == 0, r.refused));
        let best = connected.chain(others).max_by_key(|(length, ..)| *length);
        best.map(|(_, interface, default, refused)| (interface, default, refused))
    }

    /// Whether packets to an address leave by an interface.
    #[must_use]
    pub fn leaves_by(&self, family: Family, address: u128, interface: &str) -> bool {
        let route = self.route(family, address);
        is_of_link(family, address)
            || route.is_some_and(|(by, ..)| {
                by == interface || is_loopback(by) && is_loopback(interface)
            })
    }

    /// Whether there is a route to an address other than the default route, and no refusing one.
    #[must_use]
    pub fn reaches(&self, family: Family, address: u128) -> bool {
        let found = self.route(family, address);
        is_of_link(family, address)
            || found.is_some_and(|(_, default, refused)| !default && !refused)
    }

    /// Whether an address is on a directly connected network.
    #[must_use]
    pub fn is_connected(&self, family: Family, address: u128) -> bool {
        self.connected(family, address).next().is_some()
    }
}
