//! Members of sets compared and looked for, as ipset does: where a set has no networks, a range is
//! all its addresses; where it has, a range is networks.
//!
//! In: members. Out: the elements of one, and whether one is in another.

use std::net::IpAddr;
use weir_policy::dialect::ipset::ast::{Member, Part, SetType};

/// Elements that one member may stand for (ipset's own `hash:ip` refuses more).
pub const ELEMENTS_MAX: usize = 65_536;

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn address(value: u128, width: u32) -> IpAddr {
    match width {
        32 => IpAddr::V4((value as u32).into()),
        _ => IpAddr::V6(value.into()),
    }
}

/// First, last and width of a part that is addresses.
fn span(part: &Part) -> Option<(u128, u128, u32)> {
    match *part {
        Part::Network(first, length) => {
            let (value, width) = bits(first);
            let rest = match width - u32::from(length) {
                128 => u128::MAX,
                open => (1 << open) - 1,
            };
            Some((value, value | rest, width))
        }
        Part::Range(first, last) => {
            let (low, width) = bits(first);
            Some((low, bits(last).0, width))
        }
        Part::Ports(..) | Part::Icmp(..) => None,
    }
}

/// What one part stands for; `None`: too many.
fn each(part: &Part, networks: bool) -> Option<Vec<Part>> {
    if let Part::Ports(protocol, first, last) = *part {
        return Some(
            (first..=last)
                .map(|port| Part::Ports(protocol, port, port))
                .collect(),
        );
    }
    let Some((mut first, last, width)) = span(part) else {
        return Some(vec![*part]);
    };
    if networks && matches!(part, Part::Network(..)) {
        return Some(vec![*part]);
    }
    if !networks && last - first >= ELEMENTS_MAX as u128 {
        return None;
    }
    let mut out = Vec::new();
    loop {
        // The largest network that begins here and does not go past the end.
        let mut open = match networks {
            true => first.trailing_zeros().min(width),
            false => 0,
        };
        while open > 0 && (open == 128 || first + ((1 << open) - 1) > last) {
            open -= 1;
        }
        out.push(Part::Network(address(first, width), (width - open) as u8));
        let end = first + ((1 << open) - 1);
        if end >= last {
            return Some(out);
        }
        first = end + 1;
    }
}

/// The elements that a member stands for; `None`: too many.
pub fn elements(member: &Member, set_type: &SetType) -> Option<Vec<Member>> {
    let Member::Parts(parts) = member else {
        return Some(vec![member.clone()]);
    };
    let mut out: Vec<Vec<Part>> = vec![Vec::new()];
    for part in parts {
        let choices = each(part, set_type.networks)?;
        if out.len() * choices.len() > ELEMENTS_MAX {
            return None;
        }
        let with = |so_far: &Vec<Part>| -> Vec<Vec<Part>> {
            let one = |choice: &Part| so_far.iter().copied().chain([*choice]).collect();
            choices.iter().map(one).collect()
        };
        out = out.iter().flat_map(with).collect();
    }
    Some(out.into_iter().map(Member::Parts).collect())
}

/// Whether all of `inner` is in `outer`, and how wide that is.
pub fn holds(outer: &Member, inner: &Member) -> Option<u128> {
    match (outer, inner) {
        (Member::Set(a), Member::Set(b)) => (a == b).then_some(0),
        (Member::Kept(a), Member::Kept(b)) => a.eq_ignore_ascii_case(b).then_some(0),
        (Member::Parts(a), Member::Parts(b)) if a.len() == b.len() => {
            let mut wide = 0;
            for (a, b) in a.iter().zip(b) {
                wide += match (span(a), span(b)) {
                    (Some((low, high, one)), Some((first, last, other))) => {
                        let inside = one == other && low <= first && last <= high;
                        inside.then_some((high - low) >> 1)?
                    }
                    _ if a == b => 0,
                    _ => return None,
                };
            }
            Some(wide)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::dialect::ipset::ast::TYPES;

    fn of(name: &str) -> &'static SetType {
        TYPES.iter().find(|one| one.name == name).unwrap()
    }

    fn range(first: [u8; 4], last: [u8; 4]) -> Member {
        Member::Parts(vec![Part::Range(IpAddr::from(first), IpAddr::from(last))])
    }

    #[test]
    fn a_range_is_its_addresses_or_the_networks_that_fill_it() {
        let member = range([10, 0, 0, 1], [10, 0, 0, 6]);
        let single = elements(&member, of("hash:ip")).unwrap();
        assert_eq!(single.len(), 6);
        let networks = elements(&member, of("hash:net")).unwrap();
        let lengths: Vec<u8> = networks
            .iter()
            .map(|one| match one {
                Member::Parts(parts) => match parts[0] {
                    Part::Network(_, length) => length,
                    _ => 0,
                },
                Member::Set(_) | Member::Kept(_) => 0,
            })
            .collect();
        assert_eq!(lengths, [32, 31, 31, 32]);
        assert!(networks.iter().all(|one| holds(&member, one).is_some()));
        assert!(elements(&range([10, 0, 0, 0], [10, 255, 0, 0]), of("hash:ip")).is_none());
        let all = range([0, 0, 0, 0], [255, 255, 255, 255]);
        assert_eq!(elements(&all, of("hash:net")).unwrap().len(), 1);
    }
}
