//! A class of packets in words.
//!
//! In: the fields of a class. Out: phrases such as `destination port 22,80-90`, in the terms that
//! `explain` uses. What follows from another phrase is left out: a packet with a destination port
//! has a whole transport header.

use crate::describe::{addresses, mac, numbers};
use crate::rules::Places;
use crate::spec::{flag_names, protocol, state_name};
use weir_policy::compare::field::Field;
use weir_policy::compare::{Class, Journey, STATES, Values};
use weir_policy::model::{AddrMatch, Family, RangeSet};

/// The phrases of a class.
pub fn phrases(class: &Class, journey: &Journey, places: [&Places<'_>; 2]) -> Vec<String> {
    let header = class.fields.iter().any(|(field, _)| {
        let transport = [
            Field::DstPort,
            Field::SrcPort,
            Field::Flags,
            Field::IcmpType,
            Field::IcmpCode,
            Field::Spi,
        ];
        transport.contains(field)
    });
    let mut out: Vec<String> = Vec::new();
    for (field, values) in &class.fields {
        let implied = match (field, values) {
            (Field::Fragment, Values::Ranges(ranges)) => {
                matches!(ranges.as_slice(), [(0, 1)] | [(0, 1), (3, 3)])
            }
            (Field::Malformed, values) => has_only(values, 0),
            (Field::Short, Values::Ranges(ranges)) => {
                let values = ranges.iter().flat_map(|range| range.0..=range.1);
                journey.space.is_whole(&values.collect::<Vec<_>>())
            }
            _ => false,
        };
        if !(header && implied) {
            out.push(phrase(*field, values, journey));
        }
    }
    for (unknown, holds) in &class.unknowns {
        let unknown = &journey.unknowns[*unknown as usize];
        let sides = unknown.rules.iter().zip(places);
        let asked: Vec<String> = sides
            .filter_map(|(rule, places)| places.location((*rule)?.0))
            .collect();
        if let Some(phrase) = of_states(&unknown.text, *holds) {
            out.push(phrase);
            continue;
        }
        let holds = if *holds { "holds" } else { "does not hold" };
        out.push(format!(
            "while the {} of {} {holds}",
            kind(&unknown.text),
            asked.join(" and ")
        ));
    }
    if out.is_empty() {
        out.push("every packet".to_owned());
    }
    out
}

/// What is asked of states that rules make.
fn of_states(text: &str, holds: bool) -> Option<String> {
    if let Some(state) = text.strip_prefix("state of ipfw: what the error quotes ") {
        let of = if holds { "of a state" } else { "of no state" };
        return Some(format!("quoting a packet {of} ({state})"));
    }
    if let Some(state) = text.strip_prefix("state of ipfw: ") {
        let of = if holds { "of a state" } else { "of no state" };
        return Some(format!("{of} ({state})"));
    }
    if let Some(limit) = text.strip_prefix("room in the limit: ") {
        let words = if holds {
            "within the limit"
        } else {
            "above the limit"
        };
        return Some(format!("{words} ({limit})"));
    }
    let phrases = [
        (
            "state of a packet",
            ["of no state", "of a state that a rule made"],
        ),
        (
            "state missed",
            ["in no state's window", "outside the window of its state"],
        ),
        (
            "state kept:",
            ["no state can be made", "a state can be made"],
        ),
        (
            "room for the state",
            ["with no room for more states", "with room for its state"],
        ),
        (
            "newest state of",
            [
                "with a newer state of another name",
                "with no newer state of another name",
            ],
        ),
    ];
    let found = phrases.iter().find(|(begin, _)| text.contains(begin));
    found.map(|(_, words)| words[usize::from(holds)].to_owned())
}

/// What kind of condition it is, by its text.
fn kind(text: &str) -> &'static str {
    const KINDS: [(&str, &str); 10] = [
        ("headers IpfWith", "`with`"),
        ("HashLimit(", "hashlimit"),
        ("ConnLimit(", "connlimit"),
        ("Limit(", "limit"),
        ("Recent(", "recent list"),
        ("Statistic(", "statistic"),
        ("Quota(", "quota"),
        ("Meter(", "pipe"),
        ("Time(", "time"),
        ("set ", "set"),
    ];
    let found = KINDS.iter().find(|kind| text.contains(kind.0));
    found.map_or("condition", |kind| kind.1)
}

fn has_only(values: &Values, value: u128) -> bool {
    matches!(values, Values::Ranges(ranges) if ranges.as_slice() == [(value, value)])
}

fn phrase(field: Field, values: &Values, journey: &Journey) -> String {
    let ranges = match values {
        Values::Ranges(ranges) => ranges.as_slice(),
        Values::Masked { value, mask } => return masked(field, *value, *mask, journey.family),
    };
    let each = || ranges.iter().flat_map(|range| range.0..=range.1);
    let one_of = |words: &[&str]| {
        let words: Vec<&str> = each()
            .filter_map(|value| words.get(value as usize).copied())
            .collect();
        words.join(" or ")
    };
    let interfaces = || {
        let words: Vec<&str> = each()
            .filter_map(|class| journey.interfaces.get(class as usize))
            .map(String::as_str)
            .collect();
        words.join(",")
    };
    match field {
        Field::In => format!("received on {}", interfaces()),
        Field::Out => format!("sent on {}", interfaces()),
        Field::State => {
            let states = each().filter_map(|state| STATES.get(state as usize));
            let words: Vec<&str> = states.map(|state| state_name(*state)).collect();
            format!("state {}", words.join(","))
        }
        Field::Proto => {
            let few = each().take(9).count() <= 8;
            match few {
                true => {
                    let words: Vec<String> = each().map(|p| protocol(p as u8)).collect();
                    format!("protocol {}", words.join(","))
                }
                false => format!("protocol {}", numbers(ranges)),
            }
        }
        Field::Src | Field::Dst => {
            let side = if field == Field::Src {
                "source"
            } else {
                "destination"
            };
            let set = AddrMatch::Ranges(RangeSet::from_ranges(ranges.iter().copied()));
            format!("{side} {}", addresses(journey.family, &set))
        }
        Field::Flags => flags(ranges),
        Field::Fragment => one_of(&[
            "no fragment",
            "first fragment",
            "later fragment",
            "whole with a fragment header",
        ]),
        Field::Short => journey.space.cut_in_words(&each().collect::<Vec<_>>()),
        Field::Malformed => one_of(&["header in order", "header malformed", "header too short"]),
        Field::Translated => one_of(&["no NAT", "SNAT", "DNAT", "SNAT and DNAT"]),
        Field::Ipsec => one_of(&["no IPsec", "IPsec in", "IPsec out", "IPsec in and out"]),
        Field::PacketType => one_of(&[
            "unicast",
            "broadcast",
            "multicast",
            "to another host",
            "made here",
        ]),
        Field::HasMac => one_of(&["no source MAC", "with a source MAC"]),
        Field::HasOwner => one_of(&["no socket", "with a socket"]),
        Field::HasFlow => one_of(&["no flow", "with a flow"]),
        Field::HasMss => one_of(&["no MSS option", "with an MSS option"]),
        Field::HasRouting => one_of(&["no routing header", "with a routing header"]),
        Field::SrcOwn => format!("source {}", one_of(&OWN)),
        Field::DstOwn => format!("destination {}", one_of(&OWN)),
        Field::Mac if ranges.len() == 1 && ranges[0].0 == ranges[0].1 => {
            let bytes = ranges[0].0.to_be_bytes();
            let address = std::array::from_fn(|at| bytes[bytes.len() - 6 + at]);
            format!("source MAC {}", mac(address))
        }
        field => format!("{} {}", name(field), numbers(ranges)),
    }
}

const OWN: [&str; 3] = [
    "not of this host",
    "an address of this host",
    "a broadcast address of this host",
];

fn name(field: Field) -> &'static str {
    match field {
        Field::IcmpType => "ICMP type",
        Field::IcmpCode => "ICMP code",
        Field::SrcPort => "source port",
        Field::DstPort => "destination port",
        Field::Src => "source",
        Field::Dst => "destination",
        Field::Mac => "source MAC",
        Field::Uid => "owner uid",
        Field::Gid => "owner gid",
        Field::Length => "length",
        Field::Ttl => "TTL",
        Field::Tos => "TOS",
        Field::Mark => "mark",
        Field::Connmark => "flow mark",
        Field::Mss => "MSS",
        Field::Spi => "SPI",
        Field::RoutingType => "routing type",
        Field::Segments => "segments left",
        Field::OptionsLow => "TCP options (bits 0-127)",
        Field::OptionsHigh => "TCP options (bits 128-255)",
        Field::ChunksLow => "SCTP chunks (bits 0-127)",
        Field::ChunksHigh => "SCTP chunks (bits 128-255)",
        _ => "field",
    }
}

fn masked(field: Field, value: u128, mask: u128, family: Family) -> String {
    match field {
        Field::Src | Field::Dst => {
            let set = AddrMatch::Masked { value, mask };
            format!("{} {}", name(field), addresses(family, &set))
        }
        _ => format!("{} {value:#x}/{mask:#x}", name(field)),
    }
}

/// Values of the flags byte: as bits that are set among bits looked at, where they are that.
fn flags(ranges: &[(u128, u128)]) -> String {
    let values: Vec<u8> = ranges
        .iter()
        .flat_map(|range| range.0..=range.1)
        .map(|value| value as u8)
        .collect();
    let set = values.iter().fold(0xff, |all, value| all & value);
    let clear = values.iter().fold(0, |all, value| all | value);
    let mask = set | !clear;
    if values.len() == 1 << mask.count_zeros() {
        return format!("TCP flags {} of {}", flag_names(set), flag_names(mask));
    }
    let shown: Vec<String> = values.iter().take(4).map(|v| flag_names(*v)).collect();
    match values.len() {
        0..=4 => format!("TCP flags exactly {}", shown.join(" or ")),
        more => format!(
            "one of {more} combinations of TCP flags: {}, ...",
            shown.join(" or ")
        ),
    }
}
