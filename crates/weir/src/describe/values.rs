//! Sets of values as people write them: prefixes where ranges are prefixes, lists, open numbers.
//!
//! In: range sets and masks. Out: text. Long sets are cut after a few members with the number of
//! the rest, because they stand in one line of an explanation.

pub use crate::spec::address as ip;
use std::fmt::Display;
use weir_policy::model::{AddrMatch, Family, RangeSet};

/// Members of a set that are written out.
const SHOWN_MAX: usize = 6;

/// Numbers as `5,7-9`.
pub fn numbers<T: Copy + PartialEq + Display>(ranges: &[(T, T)]) -> String {
    list(ranges.len(), |i| match ranges[i] {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    })
}

/// Addresses as prefixes, ranges, or value and mask.
pub fn addresses(family: Family, values: &AddrMatch) -> String {
    match values {
        AddrMatch::Ranges(set) => address_ranges(family, set),
        AddrMatch::Masked { value, mask } => {
            format!("{}/{}", ip(family, *value), ip(family, *mask))
        }
    }
}

fn address_ranges(family: Family, set: &RangeSet<u128>) -> String {
    let ranges = set.ranges();
    list(ranges.len(), |i| {
        let (first, last) = ranges[i];
        let width = match family {
            Family::V4 => 32,
            Family::V6 => 128,
        };
        match prefix_length(first, last, width) {
            Some(length) if length == width => ip(family, first).to_string(),
            Some(length) => format!("{}/{length}", ip(family, first)),
            None => format!("{}-{}", ip(family, first), ip(family, last)),
        }
    })
}

/// The prefix length of a range that is one prefix.
fn prefix_length(first: u128, last: u128, width: u32) -> Option<u32> {
    let differing = 128 - (first ^ last).leading_zeros();
    let ones = match differing {
        128 => u128::MAX,
        bits => (1 << bits) - 1,
    };
    (first & ones == 0 && last & ones == ones).then(|| width - differing)
}

fn list(count: usize, member: impl Fn(usize) -> String) -> String {
    if count == 0 {
        return "nothing".to_owned();
    }
    let mut words: Vec<String> = (0..count.min(SHOWN_MAX)).map(member).collect();
    if count > SHOWN_MAX {
        words.push(format!("and {} more", count - SHOWN_MAX));
    }
    words.join(",")
}

/// A mark with its mask, as iptables writes it.
pub fn masked(value: u32, mask: u32) -> String {
    match mask {
        u32::MAX => format!("{value:#x}"),
        mask => format!("{value:#x}/{mask:#x}"),
    }
}

/// A hardware address.
pub fn mac(address: [u8; 6]) -> String {
    let bytes: Vec<String> = address.iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}
