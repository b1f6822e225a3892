//! Does a packet satisfy a condition on what the kernel knows of it, or on its bytes?
//!
//! Source: what xt_owner, xt_cgroup, xt_physdev, xt_u32 and xt_string do, and ipfw(8).

use super::Truth;
use super::ipfw::glob;
use crate::model::{
    Aside, BROKEN_OPTIONS, Ethernet, Frame, Packet, TextSearch, WordStep, WordTest,
};

/// Evaluates such a condition.
pub fn aside_condition(aside: &Aside, packet: &Packet) -> Truth {
    let facts = &packet.aside;
    match aside {
        Aside::Socket => (facts.socket || packet.owner.is_some()).into(),
        Aside::Groups(range) => packet
            .owner
            .is_some_and(|(_, main)| {
                let within = |group: &u32| (range.first..=range.last).contains(group);
                within(&main) || facts.groups.iter().any(within)
            })
            .into(),
        Aside::Class(class) => match facts.class {
            Some(of_socket) => (of_socket == *class).into(),
            None => Truth::Absent,
        },
        Aside::Group { id, level } => match facts.control_groups.as_slice() {
            [] => Truth::Absent,
            groups => (groups.get(*level as usize) == Some(id)).into(),
        },
        Aside::Cpu(cpu) => (facts.cpu == *cpu).into(),
        Aside::DeviceGroup { out, value, mask } => {
            (facts.device_groups[usize::from(*out)] & mask == *value).into()
        }
        Aside::Realm { value, mask } => (facts.realm & mask == *value).into(),
        Aside::Port { out, name } => {
            let port = facts.ports.as_ref().map(|ports| &ports[usize::from(*out)]);
            let port = port.filter(|port| !port.is_empty());
            match (port, name) {
                (None, _) => Truth::No,
                (Some(_), None) => Truth::Yes,
                (Some(port), Some(pattern)) => pattern.matches(port).into(),
            }
        }
        Aside::Words(tests) => words_hold(tests, &facts.bytes).into(),
        Aside::Text(search) => text_is_in(search, &facts.bytes).into(),
        Aside::Tcp(number, ranges) => match packet.tcp_number(*number) {
            Some(value) => ranges.contains(value).into(),
            None => Truth::Absent,
        },
        Aside::IpOptions { value, mask } => {
            (facts.ip_options & (mask | BROKEN_OPTIONS) == *value).into()
        }
        Aside::Extensions(bits) => (facts.extensions & bits != 0).into(),
        Aside::Headers { value, mask } => match facts.headers {
            Some(headers) => (headers & mask == *value).into(),
            None => Truth::Absent,
        },
        Aside::Name { out, pattern } => {
            let name = match out {
                true => &packet.out_iface,
                false => &packet.in_iface,
            };
            (!name.is_empty() && glob::matches(pattern, name)).into()
        }
        Aside::Ethernet(asked) => match &facts.frame {
            Some(frame) => ethernet(asked, frame).into(),
            None => Truth::Absent,
        },
    }
}

fn ethernet(asked: &Ethernet, frame: &Frame) -> bool {
    match asked {
        Ethernet::Bare => frame.bare,
        Ethernet::Type(kinds) => kinds.contains(frame.kind),
        Ethernet::Masked {
            source,
            value,
            mask,
        } => frame.address(*source) & mask == *value,
        Ethernet::Among { source, addresses } => {
            addresses.contains(u128::from(frame.address(*source)))
        }
    }
}

/// Whether all words are in their ranges.
pub fn words_hold(tests: &[WordTest], bytes: &[u8]) -> bool {
    tests.iter().all(|test| {
        word(test, bytes)
            .is_some_and(|value| test.ranges.iter().any(|r| (r.0..=r.1).contains(&value)))
    })
}

/// The word that a test looks at; `None` where the packet ends before it.
fn word(test: &WordTest, bytes: &[u8]) -> Option<u32> {
    let at = |place: u32| {
        let four = bytes.get(place as usize..)?.first_chunk()?;
        Some(u32::from_be_bytes(*four))
    };
    let (mut value, mut place) = (at(test.start)?, 0u32);
    for step in &test.steps {
        value = match *step {
            WordStep::And(mask) => value & mask,
            WordStep::Left(by) => value.wrapping_shl(by),
            WordStep::Right(by) => value.wrapping_shr(by),
            WordStep::At(offset) => {
                place = place.checked_add(value)?;
                at(place.checked_add(offset)?)?
            }
        };
    }
    Some(value)
}

/// Whether the bytes stand somewhere between the two places.
pub fn text_is_in(search: &TextSearch, bytes: &[u8]) -> bool {
    let end = bytes.len().min(search.to as usize);
    let Some(part) = bytes.get(search.from as usize..end) else {
        return false;
    };
    part.windows(search.pattern.len())
        .any(|window| match search.ignore_case {
            true => window.eq_ignore_ascii_case(&search.pattern),
            false => window == search.pattern,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_steps_lead() {
        // 45 00 00 1c ...: the header's length leads to the ports.
        let mut bytes = vec![0u8; 28];
        (bytes[0], bytes[3]) = (0x45, 28);
        bytes[20..24].copy_from_slice(&[0x12, 0x34, 0, 22]);
        let port = WordTest {
            start: 0,
            steps: vec![
                WordStep::Right(22),
                WordStep::And(0x3c),
                WordStep::At(0),
                WordStep::And(0xffff),
            ],
            ranges: vec![(1, 2), (22, 22)],
        };
        assert!(words_hold(std::slice::from_ref(&port), &bytes));
        let beyond = WordTest { start: 25, ..port };
        assert!(!words_hold(&[beyond], &bytes));
    }

    #[test]
    fn texts_stand_between_their_bounds() {
        let search = |from, to, ignore_case| TextSearch {
            pattern: b"Host".to_vec(),
            ignore_case,
            from,
            to,
        };
        let bytes = b"GET /\r\nhost: a\r\nHost: b";
        assert!(text_is_in(&search(0, 65_535, false), bytes));
        assert!(!text_is_in(&search(0, 19, false), bytes));
        assert!(text_is_in(&search(0, 20, false), bytes));
        assert!(text_is_in(&search(16, 20, false), bytes));
        assert!(!text_is_in(&search(17, 65_535, false), bytes));
        assert!(!text_is_in(&search(0, 10, true), bytes));
        assert!(text_is_in(&search(0, 11, true), bytes));
        assert!(!text_is_in(&search(60, 65_535, true), bytes));
    }
}
