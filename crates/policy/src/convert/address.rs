//! Sets of addresses and ports as the words of rules.
//!
//! In: ranges. Out: networks in prefix form, texts of addresses and masks, names for sets that are
//! too long for a rule.

use crate::model::{Family, RangeSet};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits of an address.
pub fn width(family: Family) -> u32 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

/// The text of an address.
pub fn text(family: Family, address: u128) -> String {
    match family {
        Family::V4 => Ipv4Addr::from(address as u32).to_string(),
        Family::V6 => Ipv6Addr::from(address).to_string(),
    }
}

/// A network, without a length where it is one address.
pub fn network(family: Family, (address, length): (u128, u32)) -> String {
    match length == width(family) {
        true => text(family, address),
        false => format!("{}/{length}", text(family, address)),
    }
}

/// The fewest networks that make up a set.
pub fn networks(family: Family, set: &RangeSet<u128>) -> Vec<(u128, u32)> {
    let width = width(family);
    let mut out = Vec::new();
    for &(first, last) in set.ranges() {
        let mut from = first;
        loop {
            // The largest block that begins here and ends in the range.
            let aligned = from.trailing_zeros().min(width);
            let span = last - from;
            let fits = match span {
                u128::MAX => 128,
                span => (span + 1).ilog2(),
            };
            let bits = aligned.min(fits);
            out.push((from, width - bits));
            let size = if bits == 128 {
                u128::MAX
            } else {
                (1u128 << bits) - 1
            };
            if last - from == size {
                break;
            }
            from += size + 1;
        }
    }
    out
}

/// Sets with names, each once.
#[derive(Debug, Default)]
pub struct Named {
    known: HashMap<(Family, RangeSet<u128>), String>,
    /// Names with their members, in the order of their making.
    pub sets: Vec<(String, Family, RangeSet<u128>)>,
}

/// The longest name of a set (IPSET_MAXNAMELEN less its end).
const NAME_MAX: usize = 31;

impl Named {
    /// The name of a set; `hint` is how the source calls it.
    pub fn name(&mut self, family: Family, set: &RangeSet<u128>, hint: Option<&str>) -> String {
        let key = (family, set.clone());
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let wanted = hint.unwrap_or("addresses");
        let usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let mut wanted: String = wanted.chars().filter(|c| usual(*c)).collect();
        if !wanted.starts_with(|c: char| c.is_ascii_alphabetic()) {
            wanted.insert(0, 't');
        }
        wanted.truncate(NAME_MAX - 4);
        let taken = |name: &str| self.sets.iter().any(|one| one.0 == name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        let name = names.find(|name| !taken(name)).unwrap_or(wanted.clone());
        self.sets.push((name.clone(), family, set.clone()));
        self.known.insert(key, name.clone());
        name
    }
}

/// Ports as `first`, `last` pairs that take at most so many places in one rule; a range takes
/// `of_range` of them.
pub fn port_lists(set: &RangeSet<u16>, places: usize, of_range: usize) -> Vec<Vec<(u16, u16)>> {
    let mut out: Vec<Vec<(u16, u16)>> = Vec::new();
    let mut left = 0;
    for &(first, last) in set.ranges() {
        let takes = if first == last { 1 } else { of_range };
        match out.last_mut() {
            Some(list) if left >= takes => list.push((first, last)),
            _ => {
                out.push(vec![(first, last)]);
                left = places;
            }
        }
        left -= takes;
    }
    out
}

/// Ports of a list with a sign in ranges.
pub fn port_words(list: &[(u16, u16)], sign: &str) -> String {
    let one = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}{sign}{last}"),
    };
    list.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_make_up_the_set_exactly() {
        let set = RangeSet::from_ranges([
            (1u128, 6),
            (255, 255),
            (u128::from(u32::MAX), u128::from(u32::MAX)),
        ]);
        let found = networks(Family::V4, &set);
        assert_eq!(found[..4], [(1, 32), (2, 31), (4, 31), (6, 32)]);
        let back = found.iter().map(|(base, length)| {
            let size = (1u128 << (32 - length)) - 1;
            (*base, base + size)
        });
        assert_eq!(RangeSet::from_ranges(back), set);
        let all = RangeSet::range(0, u128::MAX);
        assert_eq!(networks(Family::V6, &all), [(0, 0)]);
        assert_eq!(
            networks(Family::V4, &RangeSet::range(0, u128::from(u32::MAX))),
            [(0, 0)]
        );
    }

    #[test]
    fn ports_fill_their_places() {
        let set = RangeSet::from_ranges([(1u16, 1), (3, 9), (20, 20), (30, 31)]);
        assert_eq!(
            port_lists(&set, 3, 2),
            [vec![(1, 1), (3, 9)], vec![(20, 20), (30, 31)]]
        );
        assert_eq!(port_words(&[(1, 1), (3, 9)], ":"), "1,3:9");
    }
}
