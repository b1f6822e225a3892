//! Canonical text: rules as `ipfw list` prints them, tables, sets, pipes.
//!
//! In: rules and rule sets. Out: text that reads back to the same thing. Where the original
//! prints what it can't read itself (`ext6hdr`, an `or` that nothing follows, several limit
//! fields, a protocol or an address that would be read otherwise where it moves to), the readable
//! spelling is printed.

mod back;
pub mod dummynet;
pub mod listing;
mod pattern;
mod rule;
pub mod table;

pub use rule::{Form, rule};

use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 address.
#[must_use]
pub fn ipv4(address: u32) -> String {
    Ipv4Addr::from(address).to_string()
}

/// An IPv6 address.
#[must_use]
pub fn ipv6(address: u128) -> String {
    Ipv6Addr::from(address).to_string()
}
