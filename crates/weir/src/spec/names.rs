//! Names in packet specifications: protocols, hooks, states, TCP flags, ICMP types.
//!
//! In: a word. Out: its value, or the nearest known word for the error's help. ICMP names are those
//! that iptables prints (`iptables -p icmp -h`), numbers from the IANA ICMP registries.

use weir_policy::model::{CtState, Hook, handling};

/// Protocol words and numbers. The first name of a number is the one that is printed.
pub const PROTOCOLS: &[(&str, u8)] = &[
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("sctp", 132),
    ("dccp", 33),
    ("icmp", 1),
    ("icmpv6", 58),
    ("icmp6", 58),
    ("ipv6-icmp", 58),
    ("ah", 51),
    ("esp", 50),
    ("gre", 47),
    ("igmp", 2),
    ("ospf", 89),
];

/// Hook words.
pub const HOOKS: &[(&str, Hook)] = &[
    ("PREROUTING", Hook::Prerouting),
    ("INPUT", Hook::Input),
    ("FORWARD", Hook::Forward),
    ("OUTPUT", Hook::Output),
    ("POSTROUTING", Hook::Postrouting),
];

/// State words.
pub const STATES: &[(&str, CtState)] = &[
    ("NEW", CtState::New),
    ("ESTABLISHED", CtState::Established),
    ("RELATED", CtState::Related),
    ("INVALID", CtState::Invalid),
    ("UNTRACKED", CtState::Untracked),
];

/// TCP flag words and bits.
pub const FLAGS: &[(&str, u8)] = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// Words for what the kernel does with a packet beside the filter.
pub const HANDLING: &[(&str, u16)] = &[
    ("ipsec-in", handling::IPSEC_IN),
    ("ipsec-out", handling::IPSEC_OUT),
    (
        "route-back",
        handling::ROUTE_BACK | handling::ROUTE_BACK_LOOSE,
    ),
    ("route-elsewhere", handling::ROUTE_BACK_LOOSE),
    ("verrevpath", handling::REVERSE_PATH | handling::NOT_SPOOFED),
    ("antispoof", handling::NOT_SPOOFED),
    ("versrcreach", handling::SOURCE_REACHED),
    ("snat", handling::SOURCE_TRANSLATED),
    ("dnat", handling::DESTINATION_TRANSLATED),
];

/// ICMP names with type and code.
pub const ICMP: &[(&str, u8, u8)] = &[
    ("echo-reply", 0, 0),
    ("network-unreachable", 3, 0),
    ("host-unreachable", 3, 1),
    ("protocol-unreachable", 3, 2),
    ("port-unreachable", 3, 3),
    ("fragmentation-needed", 3, 4),
    ("host-prohibited", 3, 10),
    ("communication-prohibited", 3, 13),
    ("source-quench", 4, 0),
    ("redirect", 5, 0),
    ("echo-request", 8, 0),
    ("router-advertisement", 9, 0),
    ("router-solicitation", 10, 0),
    ("ttl-exceeded", 11, 0),
    ("time-exceeded", 11, 0),
    ("parameter-problem", 12, 0),
    ("timestamp-request", 13, 0),
    ("timestamp-reply", 14, 0),
];

/// ICMPv6 names with type and code.
pub const ICMP6: &[(&str, u8, u8)] = &[
    ("no-route", 1, 0),
    ("communication-prohibited", 1, 1),
    ("address-unreachable", 1, 3),
    ("port-unreachable", 1, 4),
    ("packet-too-big", 2, 0),
    ("ttl-exceeded", 3, 0),
    ("time-exceeded", 3, 0),
    ("parameter-problem", 4, 0),
    ("echo-request", 128, 0),
    ("echo-reply", 129, 0),
    ("router-solicitation", 133, 0),
    ("router-advertisement", 134, 0),
    ("neighbour-solicitation", 135, 0),
    ("neighbor-solicitation", 135, 0),
    ("neighbour-advertisement", 136, 0),
    ("neighbor-advertisement", 136, 0),
    ("redirect", 137, 0),
];

/// The value of a word in a table, whatever its case.
pub fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, value)| *value)
}

/// The hook with this name.
pub fn hook_of(word: &str) -> Option<Hook> {
    find(HOOKS, word)
}

/// The protocol with this name.
pub fn protocol_of(word: &str) -> Option<u8> {
    find(PROTOCOLS, word)
}

/// The name of a hook.
pub fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "PREROUTING",
        Hook::Input => "INPUT",
        Hook::Forward => "FORWARD",
        Hook::Output => "OUTPUT",
        Hook::Postrouting => "POSTROUTING",
    }
}

/// The name of a state.
pub fn state_name(state: CtState) -> &'static str {
    match state {
        CtState::New => "NEW",
        CtState::Established => "ESTABLISHED",
        CtState::Related => "RELATED",
        CtState::Invalid => "INVALID",
        CtState::Untracked => "UNTRACKED",
    }
}

/// The TCP flags in a word such as `syn`, `syn,ack` or `fin+psh`; `none` has no flags.
pub fn flags_of(word: &str) -> Option<u8> {
    if word.eq_ignore_ascii_case("none") {
        return Some(0);
    }
    word.split([',', '+', '|'])
        .map(|part| find(FLAGS, part))
        .try_fold(0, |bits, flag| flag.map(|flag| bits | flag))
}

/// The bits in `dnat,ipsec-in`.
pub fn handling_of(word: &str) -> Option<u16> {
    word.split([',', '+', '|'])
        .map(|part| find(HANDLING, part))
        .try_fold(0, |bits, bit| bit.map(|bit| bits | bit))
}

/// The type and code in `8`, `3/1` or `echo-request`.
pub fn icmp_of(word: &str, ipv6: bool) -> Option<(u8, u8)> {
    let table = if ipv6 { ICMP6 } else { ICMP };
    if let Some(&(_, kind, code)) = table.iter().find(|t| t.0.eq_ignore_ascii_case(word)) {
        return Some((kind, code));
    }
    match word.split_once('/') {
        Some((kind, code)) => Some((kind.parse().ok()?, code.parse().ok()?)),
        None => Some((word.parse().ok()?, 0)),
    }
}

/// The known word that is nearest to a mistyped one, within two edits.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (edits(&word.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_icmp_types_are_read_in_every_spelling() {
        assert_eq!(flags_of("SYN,ack"), Some(18));
        assert_eq!(flags_of("fin+psh+urg"), Some(41));
        assert_eq!(flags_of("none"), Some(0));
        assert_eq!(flags_of("synack"), None);
        assert_eq!(icmp_of("3/1", false), Some((3, 1)));
        assert_eq!(icmp_of("echo-request", true), Some((128, 0)));
        assert_eq!(icmp_of("256", false), None);
    }

    #[test]
    fn near_misses_are_named() {
        let hooks = || HOOKS.iter().map(|h| h.0);
        assert_eq!(nearest("FORWRAD", hooks()), Some("FORWARD"));
        assert_eq!(nearest("input", hooks()), Some("INPUT"));
        assert_eq!(nearest("elsewhere", hooks()), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
