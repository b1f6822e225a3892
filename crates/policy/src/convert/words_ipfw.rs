//! A clause in ipfw's words.
//!
//! In: a clause. Out: what stands behind the action: protocol, addresses, ports, options. Source:
//! ipfw(8). Sets of addresses that are too long for a list become tables.

use super::address::{Named, network, networks, port_words, text};
use super::clause::{Clause, TCP};
use super::culprit::{Culprit, of_answer};
use super::flat::{Forms, Words};
use crate::model::{AddrMatch, Family, IfPattern, RangeSet, RejectKind, Verdict};

/// Protocols whose ports ipfw reads.
const WITH_PORTS: [u8; 4] = [TCP, 17, 132, 136];
/// Networks in one list, of each family.
const LIST_MAX: [usize; 2] = [15, 7];
/// Ranges of ports in one rule.
const PORTS_MAX: usize = 30;

/// ipfw's words for one family and pass.
pub struct Ipfw<'n> {
    /// Tables.
    pub tables: &'n mut Named,
    /// Family of the packets.
    pub family: Family,
    /// `in`, `out`, or nothing for both.
    pub pass: Option<bool>,
    /// A word for the family where no address tells it.
    pub family_word: bool,
}

fn cannot(words: &'static [&'static str], what: &str) -> Culprit {
    Culprit::new(
        words,
        what,
        "write the rule by hand, and compare with `weir diff`",
    )
}

/// The name of a protocol that ipfw knows everywhere.
pub fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "ipv6-icmp".to_owned(),
        other => other.to_string(),
    }
}

impl Ipfw<'_> {
    fn side(&mut self, side: &Option<(bool, AddrMatch)>, hint: Option<&str>) -> String {
        let Some((negate, values)) = side else {
            return "any".to_owned();
        };
        let not = if *negate { "not " } else { "" };
        let words = match values {
            AddrMatch::Masked { value, mask } => {
                let sign = if self.family == Family::V4 { ':' } else { '/' };
                format!(
                    "{}{sign}{}",
                    text(self.family, *value),
                    text(self.family, *mask)
                )
            }
            AddrMatch::Ranges(set) => {
                let list = networks(self.family, set);
                if list.len() > LIST_MAX[self.family as usize] || hint.is_some() {
                    let name = self.tables.name(self.family, set, hint);
                    return format!("{not}table({name})");
                }
                let all: Vec<String> = list.iter().map(|one| network(self.family, *one)).collect();
                all.join(",")
            }
        };
        format!("{not}{words}")
    }

    /// The protocol word, and options for those that are left out.
    fn protocols(&self, clause: &Clause, options: &mut Vec<String>) -> Result<String, Culprit> {
        let ports = [
            &clause.source_ports,
            &clause.destination_ports,
            &clause.any_ports,
        ];
        let with_ports = ports.iter().any(|ports| ports.is_some());
        let number = RangeSet::from_ranges(WITH_PORTS.map(|number| (number, number)));
        if with_ports && clause.protocols == number {
            return Ok("ip".to_owned());
        }
        if let Some(number) = clause.protocol() {
            if with_ports && !WITH_PORTS.contains(&number) {
                return Err(cannot(&["dccp", "33"], "ports of this protocol"));
            }
            return Ok(protocol(number));
        }
        if clause.protocols == RangeSet::range(0, u8::MAX) {
            return Ok("ip".to_owned());
        }
        if let Some(few) = clause.few_protocols() {
            if with_ports && few.iter().any(|number| !WITH_PORTS.contains(number)) {
                return Err(cannot(&["port"], "ports of DCCP"));
            }
            let all: Vec<String> = few.into_iter().map(protocol).collect();
            return Ok(format!("{{ {} }}", all.join(" or ")));
        }
        let Some(others) = clause.but_protocols() else {
            return Err(cannot(&["proto"], "this list of protocols"));
        };
        options.extend(others.iter().map(|number| format!("not proto {number}")));
        Ok("ip".to_owned())
    }

    fn transport(&self, clause: &Clause, options: &mut Vec<String>) -> Result<(), Culprit> {
        let mut together = (0u8, 0u8);
        for (negate, mask, value) in &clause.flags {
            match negate {
                false => together = (together.0 | mask, together.1 | value),
                true => options.push(not_flags(*mask, *value)?),
            }
        }
        match together {
            (0, _) => {}
            (0x12, 0x02) => options.push("setup".to_owned()),
            (mask, value) => options.push(format!("tcpflags {}", flags(mask, value)?)),
        }
        let mut types = Vec::new();
        for (negate, kind, codes) in &clause.icmp {
            let word = match self.family {
                Family::V4 => "icmptypes",
                Family::V6 => "icmp6types",
            };
            match (kind, codes, negate) {
                (None, (0, 255), false) => {}
                (Some(kind), (0, 255), _) if *kind < 32 || self.family == Family::V6 => {
                    let not = if *negate { "not " } else { "" };
                    types.push(format!("{not}{word} {kind}"));
                }
                _ => {
                    let words = &["--icmp-type", "--icmpv6-type", "code", "icmp-type"];
                    return Err(cannot(words, "an ICMP code, or a type above 31"));
                }
            }
        }
        options.extend(types);
        for (negate, kind) in &clause.options {
            let word = match kind {
                2 => "mss",
                3 => "window",
                8 => "ts",
                _ => return Err(cannot(&["--tcp-option"], "this TCP option")),
            };
            let sign = if *negate { "!" } else { "" };
            options.push(format!("tcpoptions {sign}{word}"));
        }
        Ok(())
    }

    fn header(&self, clause: &Clause, options: &mut Vec<String>) -> Result<(), Culprit> {
        let six = self.family == Family::V6;
        let fragments = match clause.fragments_beside(excludes_fragments(clause)) {
            7 => "",
            4 => "frag",
            3 => "not frag",
            _ if six => return Err(cannot(&["frag"], "first fragments of IPv6")),
            1 => "frag !mf,!offset",
            2 => "frag mf,!offset",
            6 => "not frag !mf,!offset",
            _ => "not frag mf,!offset",
        };
        options.extend((!fragments.is_empty()).then(|| fragments.to_owned()));
        for (negate, mask, value) in &clause.tos {
            let not = if *negate { "not " } else { "" };
            options.push(match mask {
                0xfc => format!("{not}dscp {}", value >> 2),
                0xe0 if !six => format!("{not}ipprecedence {}", value >> 5),
                _ => {
                    let words = &["--tos", "tos", "--ecn-ip-ect"];
                    return Err(cannot(words, "this part of the TOS byte"));
                }
            });
        }
        let ranges = |set: &[(u16, u16)]| port_words(set, "-");
        if clause.ttl != RangeSet::range(0, u8::MAX) {
            if six {
                return Err(cannot(&["hl", "ttl"], "the hop limit"));
            }
            let wide = clause.ttl.ranges().iter();
            let wide: Vec<(u16, u16)> = wide.map(|r| (r.0.into(), r.1.into())).collect();
            options.push(format!("ipttl {}", ranges(&wide)));
        }
        if clause.lengths != RangeSet::range(0, u16::MAX) {
            options.push(format!("iplen {}", ranges(clause.lengths.ranges())));
        }
        Ok(())
    }
}

fn ports(set: &Option<RangeSet<u16>>) -> Result<String, Culprit> {
    let Some(set) = set else {
        return Ok(String::new());
    };
    let others = set.complement(u16::MAX);
    let (not, list) = match are_denied(set) {
        true => ("not ", others.ranges()),
        false => ("", set.ranges()),
    };
    match list.len() <= PORTS_MAX {
        true => Ok(format!(" {not}{}", port_words(list, "-"))),
        false => Err(cannot(&["port"], "so many ports")),
    }
}

/// Whether the others are fewer words.
fn are_denied(set: &RangeSet<u16>) -> bool {
    let others = set.complement(u16::MAX);
    others.ranges().len() < set.ranges().len() && !others.is_empty()
}

/// Whether a test of the clause, as it is written, holds for no later fragment. A test behind `not`
/// holds for them all.
fn excludes_fragments(clause: &Clause) -> bool {
    let ports = [
        &clause.source_ports,
        &clause.destination_ports,
        &clause.any_ports,
    ];
    let flags = |negate: bool, mask: u8, value: u8| !negate || (mask, value) == (0x16, 0x02);
    ports.into_iter().flatten().any(|set| !are_denied(set))
        || clause
            .flags
            .iter()
            .any(|(n, mask, value)| flags(*n, *mask, *value))
        || clause.icmp.iter().any(|(n, kind, _)| !n && kind.is_some())
        || !clause.options.is_empty()
}

fn flags(mask: u8, value: u8) -> Result<String, Culprit> {
    const NAMES: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];
    if mask & 0xc0 != 0 {
        return Err(cannot(&["--tcp-flags", "flags"], "ECE or CWR"));
    }
    let of = |bit: usize| {
        let sign = if value >> bit & 1 == 0 { "!" } else { "" };
        (mask >> bit & 1 != 0).then(|| format!("{sign}{}", NAMES[bit]))
    };
    Ok((0..6).filter_map(of).collect::<Vec<_>>().join(","))
}

fn not_flags(mask: u8, value: u8) -> Result<String, Culprit> {
    match (mask, value) {
        (0x16, 0x02) => Ok("established".to_owned()),
        (0x12, 0x02) => Ok("not setup".to_owned()),
        _ => Ok(format!("not tcpflags {}", flags(mask, value)?)),
    }
}

fn interface(word: &str, (negate, pattern): &(bool, IfPattern)) -> String {
    let not = if *negate { "not " } else { "" };
    let more = if pattern.prefix { "*" } else { "" };
    format!("{not}{word} {}{more}", pattern.name)
}

impl Words for Ipfw<'_> {
    fn forms(&mut self, clause: &Clause) -> Result<Forms, Culprit> {
        if clause.any_ports.is_some() {
            return super::words_ipf::either_port(clause, |clause| self.forms(clause));
        }
        let mut options = Vec::new();
        options.extend(
            self.pass
                .map(|is_in| if is_in { "in" } else { "out" }.to_owned()),
        );
        options.extend(clause.received.iter().map(|one| interface("recv", one)));
        options.extend(clause.sent.iter().map(|one| interface("xmit", one)));
        let protocol = self.protocols(clause, &mut options)?;
        self.transport(clause, &mut options)?;
        self.header(clause, &mut options)?;
        // What isn't an address of one family is every one of the other.
        let positive = |side: &Option<(bool, AddrMatch)>| matches!(side, Some((false, _)));
        let told = positive(&clause.source)
            || positive(&clause.destination)
            || clause.icmp.iter().any(|one| !one.0 && one.1.is_some());
        let named = clause.names.iter().any(Option::is_some);
        if self.family_word && (!told || named) {
            let word = if self.family == Family::V4 {
                "ip4"
            } else {
                "ip6"
            };
            options.push(word.to_owned());
        }
        let [from, to] = clause.names.clone();
        let source = self.side(&clause.source, from.as_deref());
        let destination = self.side(&clause.destination, to.as_deref());
        let source_ports = ports(&clause.source_ports)?;
        let destination_ports = ports(&clause.destination_ports)?;
        let mut line =
            format!("{protocol} from {source}{source_ports} to {destination}{destination_ports}");
        for option in options {
            line.push(' ');
            line += &option;
        }
        Ok(Forms {
            guards: Vec::new(),
            lines: vec![line],
        })
    }

    fn can_decide(&self, verdict: Verdict) -> Result<(), Culprit> {
        match verdict {
            Verdict::Reject(kind @ RejectKind::Icmp(code)) if code > 15 => Err(of_answer(kind)),
            _ => Ok(()),
        }
    }
}
