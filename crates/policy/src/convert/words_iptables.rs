//! A clause in iptables' words.
//!
//! In: a clause. Out: the matches of one rule or of several; what can't be negated in a rule is a
//! rule that goes back. Source: iptables(8), iptables-extensions(8).

use super::address::{Named, network, networks, port_lists, port_words, text};
use super::clause::Clause;
use super::culprit::Culprit;
use super::flat::Forms;
use super::words_ipf::product;
use crate::model::{AddrMatch, Family, IfPattern, RangeSet};

/// Networks that are a rule each; more become a set.
const RULES_OF_ADDRESSES: usize = 6;
const LINES_MAX: usize = 512;
/// Ports in one `-m multiport` (XT_MULTI_PORTS).
const MULTIPORT: usize = 15;

/// iptables' words for one family.
pub struct Iptables<'n> {
    /// Sets.
    pub sets: &'n mut Named,
    /// Family of the packets.
    pub family: Family,
}

fn cannot(words: &'static [&'static str], what: &str) -> Culprit {
    Culprit::new(
        words,
        what,
        "write the rule by hand, and compare with `weir diff`",
    )
}

fn not(negate: bool) -> &'static str {
    if negate { "! " } else { "" }
}

/// The name of a protocol.
fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "ipv6-icmp".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

/// The module of a protocol with ports.
fn module(number: u8) -> Option<&'static str> {
    Some(match number {
        6 => "tcp",
        17 => "udp",
        132 => "sctp",
        136 => "udplite",
        33 => "dccp",
        _ => return None,
    })
}

fn interface(sign: &str, asked: &[(bool, IfPattern)], guards: &mut Vec<String>) -> String {
    let words = |negate: bool, pattern: &IfPattern| {
        let more = if pattern.prefix { "+" } else { "" };
        format!("{}{sign} {}{more}", not(negate), pattern.name)
    };
    let positive = asked.iter().position(|one| !one.0);
    let kept = positive.unwrap_or(0);
    for (at, (_, pattern)) in asked.iter().enumerate() {
        if at != kept {
            guards.push(words(false, pattern));
        }
    }
    asked
        .get(kept)
        .map_or_else(String::new, |(negate, pattern)| words(*negate, pattern))
}

impl Iptables<'_> {
    fn side(
        &mut self,
        side: &Option<(bool, AddrMatch)>,
        hint: Option<&str>,
        source: bool,
    ) -> Vec<String> {
        let Some((negate, values)) = side else {
            return vec![String::new()];
        };
        let (sign, field, range) = match source {
            true => ("-s", "src", "--src-range"),
            false => ("-d", "dst", "--dst-range"),
        };
        let (not, family) = (not(*negate), self.family);
        let set = match values {
            AddrMatch::Masked { value, mask } => {
                return vec![format!(
                    "{not}{sign} {}/{}",
                    text(family, *value),
                    text(family, *mask)
                )];
            }
            AddrMatch::Ranges(set) => set,
        };
        let list = networks(family, set);
        let one = |net: &(u128, u32)| format!("{sign} {}", network(family, *net));
        if hint.is_none() && list.len() == 1 {
            return vec![format!("{not}{}", one(&list[0]))];
        }
        if let ([(first, last)], None) = (set.ranges(), hint) {
            let (first, last) = (text(family, *first), text(family, *last));
            return vec![format!("-m iprange {not}{range} {first}-{last}")];
        }
        if *negate || hint.is_some() || list.len() > RULES_OF_ADDRESSES {
            let name = self.sets.name(family, set, hint);
            return vec![format!("-m set {not}--match-set {name} {field}")];
        }
        list.iter().map(one).collect()
    }

    /// Ways to say the protocol; with ports it is one each time.
    fn protocols(
        &self,
        clause: &Clause,
        guards: &mut Vec<String>,
    ) -> Result<Vec<(Option<u8>, String)>, Culprit> {
        if clause.protocols == RangeSet::range(0, u8::MAX) {
            return Ok(vec![(None, String::new())]);
        }
        if let Some(few) = clause.few_protocols() {
            let one = |number: u8| (Some(number), format!("-p {}", protocol(number)));
            // Number 0 is all protocols to iptables.
            return match few.contains(&0) {
                true => Err(cannot(&["proto"], "protocol 0")),
                false => Ok(few.into_iter().map(one).collect()),
            };
        }
        let Some(others) = clause.but_protocols().filter(|all| !all.contains(&0)) else {
            return Err(cannot(&["proto"], "this list of protocols"));
        };
        if let [one] = *others {
            return Ok(vec![(None, format!("! -p {}", protocol(one)))]);
        }
        guards.extend(
            others
                .into_iter()
                .map(|one| format!("-p {}", protocol(one))),
        );
        Ok(vec![(None, String::new())])
    }

    /// What is asked of the transport header of one protocol.
    fn transport(
        &self,
        clause: &Clause,
        number: Option<u8>,
        guards: &mut Vec<String>,
    ) -> Result<Vec<String>, Culprit> {
        let mut parts: Vec<Vec<String>> = Vec::new();
        let sides = [
            (&clause.source_ports, "--sport", "--sports"),
            (&clause.destination_ports, "--dport", "--dports"),
            (&clause.any_ports, "", "--ports"),
        ];
        for (set, one, many) in sides {
            let Some(set) = set else { continue };
            let Some(module) = number.and_then(module) else {
                return Err(cannot(&["port"], "ports of so many protocols"));
            };
            parts.push(ports(set, module, one, many));
        }
        if clause.reads_transport() && number.is_none() {
            return Err(cannot(
                &["port"],
                "part of a transport header of so many protocols",
            ));
        }
        let mut words = Vec::new();
        let mut together: Option<(u8, u8)> = None;
        for (negate, mask, value) in &clause.flags {
            if mask & 0xc0 != 0 {
                return Err(cannot(&["flags", "tcpflags"], "ECE or CWR among TCP flags"));
            }
            match negate {
                false => {
                    let (m, v) = together.unwrap_or_default();
                    together = Some((m | mask, v | value));
                }
                true if words.is_empty() => {
                    words.push(format!("-m tcp ! {}", flags(*mask, *value)))
                }
                true => guards.push(format!("-p tcp -m tcp {}", flags(*mask, *value))),
            }
        }
        if let Some((mask, value)) = together {
            match words.is_empty() {
                true => words.push(format!("-m tcp {}", flags(mask, value))),
                false => {
                    return Err(cannot(
                        &["flags", "tcpflags"],
                        "two conditions on TCP flags",
                    ));
                }
            }
        }
        for (negate, kind) in &clause.options {
            words.push(format!("-m tcp {}--tcp-option {kind}", not(*negate)));
        }
        for (negate, kind, codes) in &clause.icmp {
            words.extend(self.icmp(*negate, *kind, *codes)?);
        }
        parts.push(vec![words.join(" ")]);
        product(&parts, LINES_MAX)
    }

    fn icmp(
        &self,
        negate: bool,
        kind: Option<u8>,
        codes: (u8, u8),
    ) -> Result<Option<String>, Culprit> {
        let (module, option) = match self.family {
            Family::V4 => ("icmp", "--icmp-type"),
            Family::V6 => ("icmp6", "--icmpv6-type"),
        };
        let what = match (kind, codes) {
            (None, (0, 255)) if !negate => return Ok(None),
            (Some(kind), (0, 255)) => kind.to_string(),
            (Some(kind), (code, last)) if code == last => format!("{kind}/{code}"),
            _ => return Err(cannot(&["code"], "a range of ICMP codes")),
        };
        Ok(Some(format!("-m {module} {}{option} {what}", not(negate))))
    }

    fn header(&self, clause: &Clause) -> Result<Vec<Vec<String>>, Culprit> {
        let mut parts = Vec::new();
        let v4 = self.family == Family::V4;
        let fragments = match clause.fragments_asked() {
            7 => "",
            4 if v4 => "-f",
            3 if v4 => "! -f",
            _ => {
                return Err(cannot(
                    &["frag-body", "frag"],
                    "first fragments, or those of IPv6",
                ));
            }
        };
        parts.push(vec![fragments.to_owned()]);
        for (negate, mask, value) in &clause.tos {
            parts.push(vec![match mask {
                0xfc => format!("-m dscp {}--dscp {:#04x}", not(*negate), value >> 2),
                _ => format!("-m tos {}--tos {value:#04x}/{mask:#04x}", not(*negate)),
            }]);
        }
        if clause.ttl != RangeSet::range(0, u8::MAX) {
            let name = if v4 { "ttl" } else { "hl" };
            parts.push(hops(&clause.ttl, name));
        }
        if clause.lengths != RangeSet::range(0, u16::MAX) {
            let one =
                |range: &(u16, u16)| format!("-m length --length {}", port_words(&[*range], ":"));
            parts.push(clause.lengths.ranges().iter().map(one).collect());
        }
        Ok(parts)
    }

    /// The matches of a clause.
    pub fn forms(&mut self, clause: &Clause) -> Result<Forms, Culprit> {
        let mut guards = Vec::new();
        let [from, to] = clause.names.clone();
        let addresses = [
            self.side(&clause.source, from.as_deref(), true),
            self.side(&clause.destination, to.as_deref(), false),
        ];
        let interfaces = [
            vec![interface("-i", &clause.received, &mut guards)],
            vec![interface("-o", &clause.sent, &mut guards)],
        ];
        let header = self.header(clause)?;
        let mut lines = Vec::new();
        for (number, words) in self.protocols(clause, &mut guards)? {
            let mut parts = addresses.to_vec();
            parts.extend(interfaces.iter().cloned());
            parts.push(vec![words]);
            parts.extend(header.iter().cloned());
            parts.push(self.transport(clause, number, &mut guards)?);
            lines.extend(product(&parts, LINES_MAX)?);
        }
        guards.dedup();
        Ok(Forms { guards, lines })
    }
}

fn ports(set: &RangeSet<u16>, module: &str, one: &str, many: &str) -> Vec<String> {
    let others = set.complement(u16::MAX);
    let (sign, list) = match others.ranges() {
        [_] if set.ranges().len() > 1 && !one.is_empty() => ("! ", &others),
        _ => ("", set),
    };
    if let ([range], false) = (list.ranges(), one.is_empty() || module == "dccp") {
        let words = port_words(&[*range], ":");
        return vec![format!("-m {module} {sign}{one} {words}")];
    }
    let lists = port_lists(list, MULTIPORT, 2);
    lists
        .iter()
        .map(|list| format!("-m multiport {sign}{many} {}", port_words(list, ":")))
        .collect()
}

fn flags(mask: u8, value: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let names = |bits: u8| -> String {
        let of = |bit: usize| (bits >> bit & 1 != 0).then_some(NAMES[bit]);
        let all: Vec<&str> = (0..8).filter_map(of).collect();
        if all.is_empty() {
            "NONE".to_owned()
        } else {
            all.join(",")
        }
    };
    format!("--tcp-flags {} {}", names(mask), names(value))
}

fn hops(set: &RangeSet<u8>, name: &str) -> Vec<String> {
    let one = |(first, last): &(u8, u8)| match (first, last) {
        (first, last) if first == last => format!("-m {name} --{name}-eq {first}"),
        (0, last) => format!("-m {name} --{name}-lt {}", u16::from(*last) + 1),
        (first, 255) => format!("-m {name} --{name}-gt {}", first - 1),
        (first, last) => format!(
            "-m {name} --{name}-gt {} -m {name} --{name}-lt {}",
            first - 1,
            last + 1
        ),
    };
    set.ranges().iter().map(one).collect()
}
