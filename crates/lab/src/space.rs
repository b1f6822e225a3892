//! The address and port space of the lab: where traffic lives, and where it never is.
//!
//! In: an address family and a random source. Out: addresses, prefixes and ports for traces and
//! rules. Traffic keeps to a pattern (address bits, even ports) that lets a generator write rules
//! which lie right between the packets and still match none of them: a rule set that never matches
//! must not be an easy one. Nothing here knows of rules or packets.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An address as a number; IPv4 addresses take the low 32 bits.
pub type Address = u128;

/// A prefix: its lowest address and the number of leading bits that are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The lowest address.
    pub base: Address,
    /// Number of fixed leading bits.
    pub length: u8,
}

/// Traffic addresses end in these low bits ...
pub const TRAFFIC_LOW_BITS: Address = 5;
/// ... of this many; a rule prefix inside the same block that leaves them out is a near miss.
pub const LOW_BITS: u8 = 3;
/// Source ports of traffic are even and not below this.
pub const TRAFFIC_SOURCE_PORT_MIN: u16 = 16_384;
/// Destination ports of traffic are even and not below this.
pub const TRAFFIC_DESTINATION_PORT_MIN: u16 = 32_768;

impl Family {
    /// Number of bits in an address.
    pub fn width(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The greatest address.
    pub fn last(self) -> Address {
        match self {
            Family::V4 => Address::from(u32::MAX),
            Family::V6 => Address::MAX,
        }
    }

    /// Where all traffic comes from.
    pub fn sources(self) -> Prefix {
        match self {
            Family::V4 => Prefix {
                base: 0x0a80_0000,
                length: 10,
            },
            Family::V6 => Prefix {
                base: 0x2001_0db8_8000_0000 << 64,
                length: 34,
            },
        }
    }

    /// Where all traffic goes to: addresses that the filtering namespace calls its own.
    pub fn destinations(self) -> Prefix {
        match self {
            Family::V4 => Prefix {
                base: 0x0a40_0000,
                length: 12,
            },
            Family::V6 => Prefix {
                base: 0x2001_0db8_4000_0000 << 64,
                length: 36,
            },
        }
    }

    /// An address as text.
    pub fn text(self, address: Address) -> String {
        match self {
            Family::V4 => Ipv4Addr::from(address as u32).to_string(),
            Family::V6 => Ipv6Addr::from(address).to_string(),
        }
    }

    /// The digit that people call the family by.
    pub fn digit(self) -> char {
        match self {
            Family::V4 => '4',
            Family::V6 => '6',
        }
    }

    /// A random traffic source.
    pub fn traffic_source(self, random: &mut fastrand::Rng) -> Address {
        traffic_address(self.sources(), self, random)
    }

    /// A random traffic destination.
    pub fn traffic_destination(self, random: &mut fastrand::Rng) -> Address {
        traffic_address(self.destinations(), self, random)
    }

    /// A random address that is neither traffic nor special, far from both.
    pub fn elsewhere(self, random: &mut fastrand::Rng) -> Address {
        match self {
            // 11.0.0.0 to 126.255.255.255.
            Family::V4 => Address::from(random.u32(0x0b00_0000..=0x7eff_ffff)),
            // 2400::/6, far from the documentation prefix.
            Family::V6 => {
                (0x2400 << 112) | (random.u128(..) & (Address::MAX >> 6) & !(0x0200 << 112))
            }
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv{}", self.digit())
    }
}

impl Prefix {
    /// The prefix of `length` bits around an address.
    pub fn around(address: Address, length: u8, family: Family) -> Prefix {
        Prefix {
            base: address & !host_mask(length, family),
            length,
        }
    }

    /// The highest address.
    pub fn last(self, family: Family) -> Address {
        self.base | host_mask(self.length, family)
    }

    /// Whether an address lies inside.
    pub fn contains(self, address: Address, family: Family) -> bool {
        address & !host_mask(self.length, family) == self.base
    }

    /// The prefix as text.
    pub fn text(self, family: Family) -> String {
        format!("{}/{}", family.text(self.base), self.length)
    }
}

fn host_mask(length: u8, family: Family) -> Address {
    match family.width() - length {
        0 => 0,
        bits => Address::MAX >> (128 - u32::from(bits)),
    }
}

fn traffic_address(inside: Prefix, family: Family, random: &mut fastrand::Rng) -> Address {
    let host = random.u128(..) & host_mask(inside.length, family);
    (inside.base | host) & !((1 << LOW_BITS) - 1) | TRAFFIC_LOW_BITS
}

/// A prefix in the same small block as a traffic address, but without any traffic address.
pub fn near_miss(traffic: Address, family: Family, random: &mut fastrand::Rng) -> Prefix {
    let block = traffic & !((1 << LOW_BITS) - 1);
    let width = family.width();
    // Below 5 lie a half and its parts, above 5 a pair and its parts.
    let choices = [
        (0, 2),
        (0, 1),
        (2, 1),
        (6, 1),
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (7, 0),
    ];
    let (offset, bits) = choices[random.usize(..choices.len())];
    Prefix {
        base: block | offset,
        length: width - bits,
    }
}

/// A random source port of traffic.
pub fn traffic_source_port(random: &mut fastrand::Rng) -> u16 {
    random.u16(TRAFFIC_SOURCE_PORT_MIN..) & !1
}

/// A random destination port of traffic.
pub fn traffic_destination_port(random: &mut fastrand::Rng) -> u16 {
    random.u16(TRAFFIC_DESTINATION_PORT_MIN..) & !1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_stays_in_its_space() {
        let mut random = fastrand::Rng::with_seed(1);
        for family in [Family::V4, Family::V6] {
            for _ in 0..10_000 {
                let source = family.traffic_source(&mut random);
                let destination = family.traffic_destination(&mut random);
                assert!(family.sources().contains(source, family));
                assert!(family.destinations().contains(destination, family));
                assert_eq!(source & 7, TRAFFIC_LOW_BITS);
                let far = family.elsewhere(&mut random);
                assert!(!family.sources().contains(far, family));
                assert!(!family.destinations().contains(far, family));
                assert!(far <= family.last());
            }
        }
    }

    #[test]
    fn near_misses_hold_no_traffic_address() {
        let mut random = fastrand::Rng::with_seed(2);
        for family in [Family::V4, Family::V6] {
            for _ in 0..10_000 {
                let traffic = family.traffic_source(&mut random);
                let miss = near_miss(traffic, family, &mut random);
                assert_eq!(miss, Prefix::around(miss.base, miss.length, family));
                assert!(!miss.contains(traffic, family), "{}", miss.text(family));
                assert!(family.sources().contains(miss.base, family));
            }
        }
    }

    #[test]
    fn prefixes_print_and_bound() {
        let prefix = Prefix::around(0x0a01_0203, 8, Family::V4);
        assert_eq!(prefix.text(Family::V4), "10.0.0.0/8");
        assert_eq!(prefix.last(Family::V4), 0x0aff_ffff);
        let all = Prefix::around(Address::MAX, 0, Family::V6);
        assert_eq!(all.text(Family::V6), "::/0");
        assert_eq!(all.last(Family::V6), Address::MAX);
        let one = Prefix::around(1, 128, Family::V6);
        assert_eq!(one.last(Family::V6), 1);
    }
}
