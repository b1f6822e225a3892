//! Does a packet match a rule? Field tests in the model's own conditions, and what only IPFilter
//! asks beside them.
//!
//! In: a rule of the tree. Out: a [`Condition`], made once, that packets are held against. A field
//! that the packet does not have (the ports of a later fragment) never matches. Source: `ipf(5)`
//! and the behaviour of 5.1.2 and 4.1.34.

use super::Settings;
use super::packet::IpfPacket;
use super::tables::Tables;
use crate::dialect::ipf::ast::{
    Address, Ends, Fields, InterfaceAddress, Matching, Name, Proto, Rule, Side, TableKind, Term,
    TermTest, With, net_match, ones,
};
use crate::dialect::ipf::words;
use crate::dialect::iptables::names::protocols;
use crate::model::{AddrMatch, Cmp, Cond, Family, RangeSet, Test};
use std::collections::HashMap;

/// The addresses of interfaces, as far as they are known.
pub type Interfaces = HashMap<String, Vec<(Family, u128)>>;

/// Addresses that a plain condition cannot hold.
#[derive(Clone, Debug, PartialEq)]
enum Lookup {
    /// A table of the rule set.
    Table(TableKind, Name),
    /// A table written in the rule: IPv4, IPv6.
    Inline([RangeSet<u128>; 2]),
    /// The addresses of an interface.
    Interface(Name, InterfaceAddress),
}

/// What a packet must be to match a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// Family.
    pub family: Option<Family>,
    /// Interface; `None` for any.
    pub interface: Option<Name>,
    /// Field tests; all must hold.
    pub tests: Vec<Test>,
    /// `with`.
    pub with: With,
    lookups: Vec<(Ends, bool, Lookup)>,
    terms: Vec<Term>,
    icmp: Option<(u8, Option<u8>)>,
    flags: Option<(u8, u8)>,
    never: bool,
}

impl Condition {
    /// The condition of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        let named = rule.on[0].clone();
        let mut condition = Self {
            family: rule.family,
            interface: named.filter(|name| !["-", "*"].contains(&&**name)),
            ..Self::default()
        };
        match &rule.matching {
            Matching::All => {}
            Matching::Fields(fields) => condition.fields(fields),
            Matching::Expression(terms) => condition.terms = terms.clone(),
            // Refused before evaluation; no packet matches what nobody can run.
            Matching::Bpf(..) => condition.never = true,
        }
        // Tags of translations, which never happen here.
        condition.never |= rule.match_tag.nat.is_some();
        condition
    }

    fn push(&mut self, negate: bool, cond: Cond) {
        self.tests.push(Test { negate, cond });
    }

    fn fields(&mut self, fields: &Fields) {
        if let Some(value) = fields.tos {
            self.push(false, Cond::Tos { value, mask: 0xff });
        }
        if let Some(ttl) = fields.ttl {
            self.push(false, Cond::Ttl(Cmp::Eq(ttl)));
        }
        match fields.proto {
            None => {}
            Some(Proto::TcpUdp) => {
                let both = [
                    (protocols::TCP, protocols::TCP),
                    (protocols::UDP, protocols::UDP),
                ];
                self.push(false, Cond::Proto(RangeSet::from_ranges(both)));
            }
            Some(Proto::Number(number)) => self.push(false, Cond::Proto(RangeSet::one(number))),
        }
        self.side(&fields.source, Ends::Source);
        self.side(&fields.destination, Ends::Destination);
        self.flags = fields.flags;
        self.icmp = fields.icmp;
        self.with = fields.with;
    }

    fn side(&mut self, side: &Side, ends: Ends) {
        let source = ends == Ends::Source;
        let at = |set: AddrMatch| {
            if source {
                Cond::Src(set)
            } else {
                Cond::Dst(set)
            }
        };
        match &side.address {
            Address::Any if side.negate => self.never = true,
            Address::Any => {}
            Address::Net {
                family,
                value,
                mask,
            } => self.push(side.negate, at(net_match(*family, *value, *mask))),
            Address::Range(_, first, last) => {
                let set = AddrMatch::Ranges(RangeSet::range(*first, *last));
                self.push(side.negate, at(set));
            }
            Address::Interface(name, which) => {
                let lookup = Lookup::Interface(name.clone(), *which);
                self.lookups.push((ends, side.negate, lookup));
            }
            Address::Table(kind, name) => {
                let lookup = Lookup::Table(*kind, name.clone());
                self.lookups.push((ends, side.negate, lookup));
            }
            Address::Inline(_, entries) => {
                let lookup = Lookup::Inline(super::tables::members(entries));
                self.lookups.push((ends, side.negate, lookup));
            }
            Address::Unresolved(_) => self.never = true,
        }
        if let Some(port) = side.port {
            let ports = port.ports();
            self.push(
                false,
                if source {
                    Cond::SrcPort(ports)
                } else {
                    Cond::DstPort(ports)
                },
            );
        }
    }

    /// Whether a packet, with the attributes it has by now, matches.
    #[must_use]
    pub fn holds(
        &self,
        packet: &IpfPacket,
        attributes: u32,
        tables: &Tables,
        interfaces: &Interfaces,
        settings: &Settings,
    ) -> bool {
        let here = self
            .interface
            .as_deref()
            .is_none_or(|name| name == packet.interface);
        if self.never || !here || self.family.is_some_and(|family| family != packet.family) {
            return false;
        }
        self.tests.iter().all(|test| field_holds(test, packet))
            && self.transport_holds(packet, attributes)
            && self.with_holds(packet, attributes, settings)
            && self.lookups.iter().all(|(ends, negate, lookup)| {
                let address = match ends {
                    Ends::Source => packet.source,
                    _ => packet.destination,
                };
                let inside = match lookup {
                    Lookup::Table(kind, name) => {
                        tables.contains(*kind, name, packet.family, address)
                    }
                    Lookup::Inline(sets) => {
                        sets[usize::from(packet.family == Family::V6)].contains(address)
                    }
                    Lookup::Interface(name, which) => {
                        interface_has(interfaces, name, *which, packet.family, address)
                    }
                };
                inside != *negate
            })
            && self
                .terms
                .iter()
                .all(|term| term_holds(term, packet, attributes))
    }

    /// The tests for addresses in tables, which nobody changes while packets are judged.
    pub(super) fn in_tables<'c>(
        &'c self,
        tables: &'c Tables,
        family: Family,
    ) -> impl Iterator<Item = Test> + 'c {
        self.lookups
            .iter()
            .filter_map(move |(ends, negate, lookup)| {
                let [v4, v6] = match lookup {
                    Lookup::Table(kind, name) => tables.sets(*kind, name)?,
                    Lookup::Inline(sets) => sets.clone(),
                    Lookup::Interface(..) => return None,
                };
                let set = AddrMatch::Ranges(match family {
                    Family::V4 => v4,
                    Family::V6 => v6,
                });
                Some(Test {
                    negate: *negate,
                    cond: match ends {
                        Ends::Source => Cond::Src(set),
                        _ => Cond::Dst(set),
                    },
                })
            })
    }

    fn transport_holds(&self, packet: &IpfPacket, attributes: u32) -> bool {
        if let Some((value, mask)) = self.flags.filter(|flags| *flags != (0, 0)) {
            match flags_of(packet, attributes) {
                Some(flags) if flags & mask == value => {}
                _ => return false,
            }
        }
        match (self.icmp, &packet.icmp) {
            (None, _) => true,
            (Some((kind, code)), Some(icmp)) => {
                kind == icmp.kind && code.is_none_or(|code| code == icmp.code)
            }
            (Some(_), None) => false,
        }
    }

    fn with_holds(&self, packet: &IpfPacket, attributes: u32, settings: &Settings) -> bool {
        let with = &self.with;
        let options = match settings.short_options_unseen {
            true => packet.long_options,
            false => packet.options,
        };
        attributes & with.attributes == with.attributes_set
            && options & with.options == with.options_set
            && packet.classes & with.classes == with.classes_set
            && packet.headers & with.no_headers == 0
            && with.doi.is_none_or(|doi| packet.doi == Some(doi))
            && match settings.exact_headers && with.headers != 0 {
                true => packet.headers == with.headers,
                false => packet.headers & with.headers == with.headers,
            }
    }
}

/// The model's conditions that rules of this language use, on its packets.
fn field_holds(test: &Test, packet: &IpfPacket) -> bool {
    let inside = |set: &AddrMatch, address: u128| match set {
        AddrMatch::Ranges(set) => set.contains(address),
        AddrMatch::Masked { value, mask } => address & mask == *value,
    };
    let holds = match &test.cond {
        Cond::Src(set) => inside(set, packet.source),
        Cond::Dst(set) => inside(set, packet.destination),
        Cond::Proto(set) => set.contains(packet.proto),
        Cond::Tos { value, mask } => packet.tos & mask == *value,
        Cond::Ttl(compare) => compare.holds(packet.ttl),
        Cond::SrcPort(set) => return packet.ports.is_some_and(|ports| set.contains(ports.0)),
        Cond::DstPort(set) => return packet.ports.is_some_and(|ports| set.contains(ports.1)),
        other => unreachable!("{other:?} is not made of a rule of this language"),
    };
    holds != test.negate
}

/// TCP flags; a header too short to read has none.
fn flags_of(packet: &IpfPacket, attributes: u32) -> Option<u8> {
    let short = attributes & words::attribute::SHORT != 0;
    let tcp = packet.tcp.filter(|_| !short && packet.ports.is_some())?;
    Some(tcp.flags)
}

fn interface_has(
    interfaces: &Interfaces,
    name: &str,
    which: InterfaceAddress,
    family: Family,
    address: u128,
) -> bool {
    let Some(known) = interfaces.get(name) else {
        return false;
    };
    let width = if family == Family::V4 { 32 } else { 128 };
    let mask = match which {
        InterfaceAddress::Masked(length) if u32::from(length) < width => {
            ones(family) & !(ones(family) >> length)
        }
        // Nobody says the mask of an interface of a test: it is the whole address.
        _ => ones(family),
    };
    known
        .iter()
        .any(|(of, own)| *of == family && own & mask == address & mask)
}

fn term_holds(term: &Term, packet: &IpfPacket, attributes: u32) -> bool {
    let either = |ends: Ends, source: bool, destination: bool| match ends {
        Ends::Source => source,
        Ends::Destination => destination,
        Ends::Either => source || destination,
    };
    let holds = match &term.test {
        TermTest::Address(family, ends, nets) => {
            if packet.family != *family {
                return false;
            }
            let inside = |address: u128| nets.iter().any(|net| address & net.1 == net.0);
            either(*ends, inside(packet.source), inside(packet.destination))
        }
        TermTest::Protocol(set) => set.contains(packet.proto),
        TermTest::Port(proto, ends, set) => match packet.ports {
            Some((source, destination)) if packet.proto == *proto => {
                either(*ends, set.contains(source), set.contains(destination))
            }
            _ => return false,
        },
        TermTest::Flags(sets) => match flags_of(packet, attributes) {
            Some(flags) => sets.iter().any(|(value, mask)| flags & mask == *value),
            None => return false,
        },
        TermTest::StateOnly => return false,
    };
    holds != term.negate
}
