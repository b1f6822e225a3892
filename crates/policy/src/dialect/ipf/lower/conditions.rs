//! What a packet must be, as conditions of the model.
//!
//! In: a rule. Out: its tests for packets of one family, or the name of what the model's packets
//! have no field for.

use super::LowerOptions;
use crate::dialect::ipf::ast::{
    Address, Direction, Ends, Fields, Matching, Name, Proto, Rule, Side, Term, TermTest, With,
    net_match, ones,
};
use crate::dialect::ipf::words::attribute;
use crate::eval::ipf::{Tables, members};

use crate::model::{AddrMatch, Cmp, Cond, Family, IfPattern, IpfWith, RangeSet, Test};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bits of [`Cond::Fragments`].
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const LATER: u8 = 4;

/// Whether a rule asks for packets whose source is bad.
pub(super) fn asks_for_source(rule: &Rule) -> bool {
    let with = rule.fields().map(|fields| fields.with);
    with.is_some_and(|with| with.attributes & attribute::BAD_SRC != 0)
}

/// What of a rule's conditions the model has no field for.
pub(super) fn missing(rule: &Rule, tables: &Tables) -> Option<String> {
    let fields = match &rule.matching {
        Matching::All => return None,
        Matching::Fields(fields) => fields,
        Matching::Bpf(..) => return Some("a packet filter program".to_owned()),
        Matching::Expression(_) => return None,
    };
    if fields.with.doi.is_some() {
        return Some("`with opt cipso doi`".to_owned());
    }
    [&fields.source, &fields.destination]
        .into_iter()
        .find_map(|side| match &side.address {
            Address::Table(kind, name) if !tables.has(*kind, name) => {
                Some(format!("the table `{name}`, which no pool file defines,"))
            }
            _ => None,
        })
}

/// The tests of a rule for packets of a family.
pub(super) fn tests(
    rule: &Rule,
    family: Family,
    tables: &Tables,
    options: &LowerOptions,
) -> Vec<Test> {
    let mut made = Made {
        family,
        tables,
        options,
        tests: Vec::new(),
    };
    if rule.family.is_some_and(|only| only != family) {
        made.push(false, Cond::Never);
        return made.tests;
    }
    if let Some(name) = rule.on[0]
        .as_ref()
        .filter(|name| !["-", "*"].contains(&&***name))
    {
        made.push(false, interface(rule.direction, name));
    }
    match &rule.matching {
        Matching::Fields(fields) => made.fields(fields, rule.direction),
        Matching::Expression(terms) => terms.iter().for_each(|term| made.term(term)),
        _ => {}
    }
    made.tests
}

fn interface(direction: Direction, name: &Name) -> Cond {
    let pattern = IfPattern {
        name: name.to_string(),
        prefix: false,
    };
    match direction {
        Direction::In => Cond::InIface(pattern),
        Direction::Out => Cond::OutIface(pattern),
    }
}

struct Made<'t> {
    family: Family,
    tables: &'t Tables,
    options: &'t LowerOptions,
    tests: Vec<Test>,
}

impl Made<'_> {
    fn push(&mut self, negate: bool, cond: Cond) {
        self.tests.push(Test { negate, cond });
    }

    fn fields(&mut self, fields: &Fields, direction: Direction) {
        if let Some(value) = fields.tos {
            // The original sees no type of service in IPv6.
            match self.family {
                Family::V4 => self.push(false, Cond::Tos { value, mask: 0xff }),
                Family::V6 if value != 0 => self.push(false, Cond::Never),
                Family::V6 => {}
            }
        }
        if let Some(ttl) = fields.ttl {
            self.push(false, Cond::Ttl(Cmp::Eq(ttl)));
        }
        match fields.proto {
            None => {}
            Some(Proto::TcpUdp) => self.push(false, tcp_or_udp()),
            Some(Proto::Number(number)) => self.push(false, Cond::Proto(RangeSet::one(number))),
        }
        self.side(&fields.source, Cond::Src, Cond::SrcPort);
        self.side(&fields.destination, Cond::Dst, Cond::DstPort);
        if let Some((value, mask)) = fields.flags.filter(|flags| *flags != (0, 0)) {
            self.push(false, Cond::TcpFlags { mask, value });
        }
        if let Some((kind, code)) = fields.icmp {
            let codes = code.map_or((0, 255), |code| (code, code));
            let kind = Some(kind);
            self.push(false, Cond::Icmp { kind, codes });
        }
        self.fragments(fields.with);
        self.of_state(fields.with);
        self.few_hops(fields.with, direction);
        self.source(fields.with, direction);
        self.headers(fields.with, direction);
    }

    /// `lowttl` is said of received packets only.
    fn few_hops(&mut self, with: With, direction: Direction) {
        if with.attributes & attribute::LOWTTL == 0 {
            return;
        }
        let low = with.attributes_set & attribute::LOWTTL != 0;
        match (direction, self.options.min_ttl) {
            (Direction::In, least @ 1..) => self.push(!low, Cond::Ttl(Cmp::Lt(least))),
            _ if low => self.push(false, Cond::Never),
            _ => {}
        }
    }

    /// Whether sources of packets of a list are checked.
    fn checks_source(&self, direction: Direction) -> bool {
        self.options.checks_source && direction == Direction::In
    }

    /// Without a check no source is bad.
    fn source(&mut self, with: With, direction: Direction) {
        let asked = with.attributes & with.attributes_set & attribute::BAD_SRC != 0;
        if asked && !self.checks_source(direction) {
            self.push(false, Cond::Never);
        }
    }

    /// A term of an expression. Where the packet has no such field it doesn't hold, nor does its
    /// negation.
    fn term(&mut self, term: &Term) {
        match &term.test {
            TermTest::StateOnly => self.push(false, Cond::Never),
            TermTest::Address(family, ..) if *family != self.family => {
                self.push(false, Cond::Never);
            }
            TermTest::Address(_, ends, nets) => {
                let last = |(value, mask): &(u128, u128)| value | !mask & ones(self.family);
                let ranges = nets.iter().map(|net| (net.0, last(net)));
                let set = || AddrMatch::Ranges(RangeSet::from_ranges(ranges.clone()));
                let either = [Cond::Src(set()), Cond::Dst(set())];
                self.ends(*ends, term.negate, either);
            }
            TermTest::Protocol(set) => self.push(term.negate, Cond::Proto(set.clone())),
            TermTest::Port(proto, ends, set) => {
                self.push(false, Cond::Proto(RangeSet::one(*proto)));
                let set = match term.negate {
                    true => set.complement(u16::MAX),
                    false => set.clone(),
                };
                match (ends, term.negate) {
                    (Ends::Source, _) => self.push(false, Cond::SrcPort(set)),
                    (Ends::Destination, _) => self.push(false, Cond::DstPort(set)),
                    (Ends::Either, false) => self.push(false, Cond::AnyPort(set)),
                    (Ends::Either, true) => {
                        self.push(false, Cond::SrcPort(set.clone()));
                        self.push(false, Cond::DstPort(set));
                    }
                }
            }
            TermTest::Flags(sets) => {
                self.push(false, Cond::Proto(RangeSet::one(TCP)));
                let flags = |&(value, mask): &(u8, u8)| Cond::TcpFlags { mask, value };
                self.any(term.negate, sets.iter().map(flags).collect());
            }
        }
    }

    fn ends(&mut self, ends: Ends, negate: bool, [source, destination]: [Cond; 2]) {
        match ends {
            Ends::Source => self.push(negate, source),
            Ends::Destination => self.push(negate, destination),
            Ends::Either => self.any(negate, vec![source, destination]),
        }
    }

    /// One of these holds, or none.
    fn any(&mut self, negate: bool, mut conditions: Vec<Cond>) {
        match (negate, conditions.len()) {
            (true, _) => conditions
                .into_iter()
                .for_each(|cond| self.push(true, cond)),
            (false, 1) => conditions.drain(..).for_each(|cond| self.push(false, cond)),
            (false, _) => {
                let negate = false;
                let tests = conditions.into_iter().map(|cond| Test { negate, cond });
                self.push(false, Cond::Any(tests.collect()));
            }
        }
    }

    /// What belongs to a state never comes as far as the rules; what only misses its window does.
    fn of_state(&mut self, with: With) {
        let asks = |bit| (with.attributes & bit != 0).then_some(with.attributes_set & bit != 0);
        if asks(attribute::STATE) == Some(true) {
            self.push(false, Cond::Never);
        }
        if let Some(outside) = asks(attribute::OOW) {
            self.push(!outside, Cond::OutOfWindow);
        }
    }

    /// All else that headers say.
    fn headers(&mut self, with: With, direction: Direction) {
        let source = match self.checks_source(direction) {
            true => 0,
            false => attribute::BAD_SRC,
        };
        let elsewhere = source
            | attribute::FRAG
            | attribute::FRAG_BODY
            | attribute::OOW
            | attribute::STATE
            | attribute::LOWTTL;
        let found = IpfWith {
            attributes: (
                with.attributes & !elsewhere,
                with.attributes_set & !elsewhere,
            ),
            options: (with.options, with.options_set),
            classes: (with.classes, with.classes_set),
            headers: with.headers,
            no_headers: match self.options.exact_headers && with.headers != 0 {
                true => with.no_headers | !with.headers,
                false => with.no_headers,
            },
        };
        if found != IpfWith::default() {
            self.push(false, Cond::IpfWith(found));
        }
    }

    fn side(
        &mut self,
        side: &Side,
        address: fn(AddrMatch) -> Cond,
        port: fn(RangeSet<u16>) -> Cond,
    ) {
        let of_family = |sets: [RangeSet<u128>; 2]| {
            let [v4, v6] = sets;
            match self.family {
                Family::V4 => v4,
                Family::V6 => v6,
            }
        };
        let addresses = match &side.address {
            Address::Any if side.negate => return self.push(false, Cond::Never),
            Address::Any => None,
            Address::Net {
                family,
                value,
                mask,
            } => Some(net_match(*family, *value, *mask)),
            Address::Range(_, first, last) => {
                Some(AddrMatch::Ranges(RangeSet::range(*first, *last)))
            }
            Address::Inline(_, entries) => Some(AddrMatch::Ranges(of_family(members(entries)))),
            Address::Table(kind, name) => {
                let sets = self.tables.sets(*kind, name).unwrap_or_default();
                Some(AddrMatch::Ranges(of_family(sets)))
            }
            Address::Interface(name, which) => {
                let nets = &self.options.interfaces;
                Some(AddrMatch::Ranges(nets.ranges(name, *which, self.family)))
            }
            Address::Unresolved(_) => {
                return self.push(false, Cond::Never);
            }
        };
        if let Some(addresses) = addresses {
            self.push(side.negate, address(addresses));
        }
        if let Some(ports) = side.port {
            // Ports are those of TCP and UDP, whatever else has some.
            self.push(false, tcp_or_udp());
            self.push(false, port(ports.ports()));
        }
    }

    fn fragments(&mut self, with: With) {
        let mut allowed = WHOLE | FIRST | LATER;
        for (bit, kinds) in [
            (attribute::FRAG, FIRST | LATER),
            (attribute::FRAG_BODY, LATER),
        ] {
            if with.attributes & bit != 0 {
                allowed &= match with.attributes_set & bit != 0 {
                    true => kinds,
                    false => !kinds,
                };
            }
        }
        if allowed != WHOLE | FIRST | LATER {
            self.push(false, Cond::Fragments(allowed));
        }
    }
}

fn tcp_or_udp() -> Cond {
    Cond::Proto(RangeSet::from_ranges([(TCP, TCP), (UDP, UDP)]))
}
