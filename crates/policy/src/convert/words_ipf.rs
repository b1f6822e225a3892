//! A clause in IPFilter's words.
//!
//! In: a clause. Out: what stands between the action and the end of a rule, perhaps several times;
//! what IPFilter can't negate is a rule that skips. Source: ipf(5), 5.1.

use super::address::{Named, network, networks, text};
use super::clause::{Clause, TCP};
use super::culprit::{Culprit, of_answer};
use super::flat::{Forms, Words};
use crate::dialect::ipf::words::FLAG_LETTERS;
use crate::model::{AddrMatch, Family, RangeSet, RejectKind, Verdict};

const UDP: u8 = 17;
/// Networks that are a rule each; more become a table.
const RULES_OF_ADDRESSES: usize = 8;
/// Rules that one clause may come to.
const LINES_MAX: usize = 512;

/// IPFilter's words for one family and direction.
pub struct Ipf<'n> {
    /// Tables.
    pub pools: &'n mut Named,
    /// Family of the packets.
    pub family: Family,
    /// The `in` list.
    pub is_in: bool,
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

/// The parts of a rule, each with its alternatives.
#[derive(Clone)]
struct Parts {
    on: String,
    tos: Vec<String>,
    ttl: Vec<String>,
    proto: Vec<String>,
    sides: [Vec<String>; 2],
    ports: [Vec<String>; 2],
    flags: String,
    icmp: Vec<String>,
    with: String,
}

impl Parts {
    fn every() -> Self {
        let one = || vec![String::new()];
        let any = || vec!["any".to_owned()];
        Parts {
            on: String::new(),
            tos: one(),
            ttl: one(),
            proto: one(),
            sides: [any(), any()],
            ports: [one(), one()],
            flags: String::new(),
            icmp: one(),
            with: String::new(),
        }
    }

    /// All rules, each once.
    fn lines(&self, family: &str) -> Result<Vec<String>, Culprit> {
        let fixed = |word: &str| vec![word.to_owned()];
        let [sources, destinations] = &self.sides;
        let [source_ports, destination_ports] = &self.ports;
        let from: Vec<String> = sources.iter().map(|one| format!("from {one}")).collect();
        let to: Vec<String> = destinations.iter().map(|one| format!("to {one}")).collect();
        let all = [
            fixed(&self.on),
            fixed(family),
            self.tos.clone(),
            self.ttl.clone(),
            self.proto.clone(),
            from,
            source_ports.clone(),
            to,
            destination_ports.clone(),
            fixed(&self.flags),
            self.icmp.clone(),
            fixed(&self.with),
        ];
        product(&all, LINES_MAX)
    }
}

/// One word of each list, in all ways.
pub fn product(parts: &[Vec<String>], most: usize) -> Result<Vec<String>, Culprit> {
    let mut out = vec![String::new()];
    for part in parts {
        let mut next = Vec::with_capacity(out.len() * part.len());
        for begun in &out {
            for word in part {
                let blank = if begun.is_empty() || word.is_empty() {
                    ""
                } else {
                    " "
                };
                next.push(format!("{begun}{blank}{word}"));
            }
        }
        if next.len() > most {
            let what = format!("a rule that would be more than {most}");
            return Err(Culprit::new(&[], what, "put its addresses into a set"));
        }
        out = next;
    }
    Ok(out)
}

/// Either port as two clauses that no packet meets both of.
pub fn either_port(
    clause: &Clause,
    mut forms: impl FnMut(&Clause) -> Result<Forms, Culprit>,
) -> Result<Forms, Culprit> {
    let mut first = clause.clone();
    let Some(set) = first.any_ports.take() else {
        return forms(clause);
    };
    let narrow = |known: &Option<RangeSet<u16>>, set: &RangeSet<u16>| match known {
        Some(known) => known.intersect(set),
        None => set.clone(),
    };
    let mut second = first.clone();
    first.source_ports = Some(narrow(&first.source_ports, &set));
    second.source_ports = Some(narrow(&second.source_ports, &set.complement(u16::MAX)));
    second.destination_ports = Some(narrow(&second.destination_ports, &set));
    let mut out = Forms::default();
    for one in [first, second] {
        let sets = [&one.source_ports, &one.destination_ports];
        if sets
            .iter()
            .any(|set| set.as_ref().is_some_and(RangeSet::is_empty))
        {
            continue;
        }
        let made = forms(&one)?;
        for guard in made.guards {
            if !out.guards.contains(&guard) {
                out.guards.push(guard);
            }
        }
        out.lines.extend(made.lines);
    }
    Ok(out)
}

fn ports(set: &Option<RangeSet<u16>>) -> Vec<String> {
    let Some(set) = set else {
        return vec![String::new()];
    };
    if let [(one, last)] = set.complement(u16::MAX).ranges()
        && one == last
    {
        return vec![format!("port != {one}")];
    }
    let one = |(first, last): &(u16, u16)| match first == last {
        true => format!("port = {first}"),
        false => format!("port {first}:{last}"),
    };
    set.ranges().iter().map(one).collect()
}

fn letters(flags: u8) -> String {
    let of = |(bit, letter): (usize, char)| (flags >> bit & 1 != 0).then_some(letter);
    FLAG_LETTERS.chars().enumerate().filter_map(of).collect()
}

fn protocol(number: u8) -> String {
    match number {
        1 => "proto icmp".to_owned(),
        6 => "proto tcp".to_owned(),
        17 => "proto udp".to_owned(),
        58 => "proto ipv6-icmp".to_owned(),
        other => format!("proto {other}"),
    }
}

impl Ipf<'_> {
    fn word(&self, told: bool) -> &'static str {
        match (self.family_word && !told, self.family) {
            (false, _) => "",
            (true, Family::V4) => "family inet",
            (true, Family::V6) => "family inet6",
        }
    }

    /// A rule for what must not hold.
    fn guard(&self, change: impl FnOnce(&mut Parts)) -> Result<Vec<String>, Culprit> {
        let mut parts = Parts::every();
        change(&mut parts);
        parts.lines(self.word(false))
    }

    fn interfaces(
        &self,
        clause: &Clause,
        parts: &mut Parts,
        guards: &mut Vec<String>,
    ) -> Result<(), Culprit> {
        let (own, other) = match self.is_in {
            true => (&clause.received, &clause.sent),
            false => (&clause.sent, &clause.received),
        };
        if !other.is_empty() {
            let words = &["-i", "recv", "via"];
            return Err(cannot(words, "the interface of the other side"));
        }
        for (negate, pattern) in own {
            if pattern.prefix {
                let words = &["-i", "-o", "recv", "xmit", "via"];
                return Err(cannot(words, "all interfaces whose names begin alike"));
            }
            let on = format!("on {}", pattern.name);
            match negate {
                false => parts.on = on,
                true => guards.extend(self.guard(|parts| parts.on = on)?),
            }
        }
        Ok(())
    }

    fn addresses(
        &mut self,
        clause: &Clause,
        parts: &mut Parts,
        guards: &mut Vec<String>,
    ) -> Result<(), Culprit> {
        for (side, values) in [&clause.source, &clause.destination]
            .into_iter()
            .enumerate()
        {
            let Some((negate, values)) = values else {
                continue;
            };
            let not = if *negate { "!" } else { "" };
            parts.sides[side] = match values {
                AddrMatch::Masked { value, mask } => {
                    let (value, mask) = (text(self.family, *value), text(self.family, *mask));
                    vec![format!("{not}{value}/{mask}")]
                }
                AddrMatch::Ranges(set) => {
                    let list = networks(self.family, set);
                    let hint = clause.names[side].as_deref();
                    if list.len() > RULES_OF_ADDRESSES || hint.is_some() && list.len() > 1 {
                        let name = self.pools.name(self.family, set, hint);
                        parts.sides[side] = vec![format!("{not}pool/{name}")];
                        continue;
                    }
                    let all: Vec<String> =
                        list.iter().map(|one| network(self.family, *one)).collect();
                    if *negate && all.len() > 1 {
                        for one in all {
                            guards.extend(self.guard(|parts| parts.sides[side] = vec![one])?);
                        }
                        continue;
                    }
                    all.iter().map(|one| format!("{not}{one}")).collect()
                }
            };
        }
        Ok(())
    }

    fn protocols(
        &self,
        clause: &Clause,
        parts: &mut Parts,
        guards: &mut Vec<String>,
    ) -> Result<(), Culprit> {
        let both = RangeSet::from_ranges([(TCP, TCP), (UDP, UDP)]);
        let with_ports = clause.source_ports.is_some() || clause.destination_ports.is_some();
        if with_ports && clause.protocols.intersect(&both) != clause.protocols {
            let words = &["port", "--dport", "--sport", "--dports", "--sports"];
            return Err(cannot(
                words,
                "ports of a protocol that is neither TCP nor UDP",
            ));
        }
        if clause.protocols == both {
            parts.proto = vec!["proto tcp/udp".to_owned()];
        } else if clause.protocols == RangeSet::range(0, u8::MAX) {
        } else if let Some(few) = clause.few_protocols() {
            parts.proto = few.into_iter().map(protocol).collect();
        } else if let Some(others) = clause.but_protocols() {
            for number in others {
                guards.extend(self.guard(|parts| parts.proto = vec![protocol(number)])?);
            }
        } else {
            return Err(cannot(&["proto"], "this list of protocols"));
        }
        Ok(())
    }

    fn transport(
        &self,
        clause: &Clause,
        parts: &mut Parts,
        guards: &mut Vec<String>,
    ) -> Result<(), Culprit> {
        let mut together = (0u8, 0u8);
        for (negate, mask, value) in &clause.flags {
            let asked = format!("flags {}/{}", letters(*value), letters(*mask));
            match negate {
                false => together = (together.0 | mask, together.1 | value),
                true => guards.extend(self.guard(|parts| {
                    parts.proto = vec!["proto tcp".to_owned()];
                    parts.flags = asked;
                })?),
            }
        }
        if let (mask, value) = together
            && mask != 0
        {
            parts.flags = format!("flags {}/{}", letters(value), letters(mask));
        }
        for (negate, kind, codes) in &clause.icmp {
            let words = match (kind, codes) {
                (None, (0, 255)) => vec![String::new()],
                (Some(kind), (0, 255)) => vec![format!("icmp-type {kind}")],
                (Some(kind), (first, last)) if last - first < 16 => (*first..=*last)
                    .map(|code| format!("icmp-type {kind} code {code}"))
                    .collect(),
                _ => return Err(cannot(&["--icmp-type"], "a range of ICMP codes")),
            };
            let proto = parts.proto.clone();
            match negate {
                false if parts.icmp == [""] => parts.icmp = words,
                true => guards.extend(self.guard(|parts| {
                    parts.proto = proto;
                    parts.icmp = words;
                })?),
                false => return Err(cannot(&["icmp-type"], "two ICMP types at once")),
            }
        }
        if !clause.options.is_empty() {
            return Err(cannot(&["--tcp-option", "tcpoptions"], "a TCP option"));
        }
        Ok(())
    }

    fn header(
        &self,
        clause: &Clause,
        parts: &mut Parts,
        guards: &mut Vec<String>,
    ) -> Result<(), Culprit> {
        // What guards lead around is denied, and so holds for later fragments.
        let excluded = clause.source_ports.is_some()
            || clause.destination_ports.is_some()
            || clause.flags.iter().any(|(negate, ..)| !negate)
            || clause.icmp.iter().any(|(negate, ..)| !negate);
        parts.with = match clause.fragments_beside(excluded) {
            7 => "",
            4 => "with frag-body",
            3 => "with not frag-body",
            6 => "with frag",
            1 => "with not frag",
            2 => "with frag and not frag-body",
            _ => return Err(cannot(&["frag"], "whole packets and later fragments")),
        }
        .to_owned();
        for (negate, mask, value) in &clause.tos {
            if self.family == Family::V6 || mask.count_ones() < 4 {
                let words = &["--tos", "--dscp", "dscp", "iptos", "ipprecedence"];
                return Err(cannot(words, "this part of the TOS byte or traffic class"));
            }
            let values = (0..=u8::MAX).filter(|tos| tos & mask == *value);
            let words: Vec<String> = values.map(|tos| format!("tos {tos:#04x}")).collect();
            match negate {
                true => guards.extend(self.guard(|parts| parts.tos = words)?),
                false if parts.tos == [""] => parts.tos = words,
                false => return Err(cannot(&["tos"], "the TOS byte twice")),
            }
        }
        if clause.ttl != RangeSet::range(0, u8::MAX) {
            let each = |set: &RangeSet<u8>| -> Vec<String> {
                let values = set.ranges().iter().flat_map(|range| range.0..=range.1);
                values.map(|ttl| format!("ttl {ttl}")).collect()
            };
            let (is, is_not) = (each(&clause.ttl), each(&clause.ttl.complement(u8::MAX)));
            match is.len() <= is_not.len() {
                true => parts.ttl = is,
                false => guards.extend(self.guard(|parts| parts.ttl = is_not)?),
            }
        }
        match clause.lengths == RangeSet::range(0, u16::MAX) {
            true => Ok(()),
            false => Err(cannot(&["--length", "iplen"], "the length of a packet")),
        }
    }
}

impl Words for Ipf<'_> {
    fn forms(&mut self, clause: &Clause) -> Result<Forms, Culprit> {
        if clause.any_ports.is_some() {
            return either_port(clause, |clause| self.forms(clause));
        }
        let (mut parts, mut guards) = (Parts::every(), Vec::new());
        self.interfaces(clause, &mut parts, &mut guards)?;
        self.addresses(clause, &mut parts, &mut guards)?;
        self.protocols(clause, &mut parts, &mut guards)?;
        self.transport(clause, &mut parts, &mut guards)?;
        self.header(clause, &mut parts, &mut guards)?;
        parts.ports = [
            ports(&clause.source_ports),
            ports(&clause.destination_ports),
        ];
        let by_address = [&clause.source, &clause.destination]
            .into_iter()
            .zip(&parts.sides);
        let told = by_address
            .into_iter()
            .any(|(side, words)| side.is_some() && !words[0].contains("pool") && words[0] != "any");
        let lines = parts.lines(self.word(told))?;
        Ok(Forms { guards, lines })
    }

    fn can_decide(&self, verdict: Verdict) -> Result<(), Culprit> {
        match (verdict, self.is_in, self.family) {
            (Verdict::Accept | Verdict::Drop, ..) => Ok(()),
            (Verdict::Reject(RejectKind::TcpReset), true, _)
            | (Verdict::Reject(RejectKind::Icmp(_)), true, Family::V4)
            | (Verdict::Reject(RejectKind::Icmp6(4)), true, Family::V6) => Ok(()),
            (Verdict::Reject(kind), ..) => Err(of_answer(kind)),
        }
    }
}
