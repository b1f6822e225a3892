//! Tests to terms: which conditions are classified, and as which sets of values.
//!
//! In: one test. Out: terms whose union is exactly the packets that pass it, or `None` for a test
//! that has to be run. Meaning: `policy::eval`; in particular a test on a field that the packet
//! does not have fails, negated or not.

use super::interfaces::Interfaces;
use super::service::{Bits, Service, Services};
use super::span::Span;
use super::term::{Term, address_last};
use crate::packet::key::{fragment, transport};
use std::sync::LazyLock;
use weir_policy::model::{
    AddrMatch, Cond, Family, NamedSet, RangeSet, SetDimension, SetEntry, SetField, SetId, SetPart,
    Test, handling,
};

/// Kinds of packets that have ports.
static WITH_PORTS: LazyLock<Bits> =
    LazyLock::new(|| Bits::of(|v| (transport::TCP..=transport::SCTP).contains(&(v & 7))));

/// What turning tests into terms needs to know.
pub struct Context<'p> {
    /// Named sets of the policy.
    pub sets: &'p [NamedSet],
    /// Interface classes.
    pub interfaces: &'p Interfaces,
    /// Family of the root.
    pub family: Family,
    /// Most terms that one test may become.
    pub terms_max: usize,
    /// Services so far.
    pub services: Services,
}

/// Whether an entry ends some time after loading.
fn is_timed(entry: &SetEntry) -> bool {
    entry.timeout.is_some_and(|seconds| seconds > 0)
}

/// Entries of a set that say the same.
pub struct SetGroup {
    /// Member of a list of sets; 0 for a set that is none. A `nomatch` of one member does not keep
    /// a packet out of another.
    pub member: usize,
    /// Whether they put a packet in the set (`nomatch` entries keep it out).
    pub inside: bool,
    /// Seconds that they live.
    pub seconds: Option<u32>,
    /// The entries.
    pub terms: Vec<Term>,
}

impl Context<'_> {
    /// The terms of a test; empty when it never holds, `None` when it has to be run.
    pub fn terms(&mut self, test: &Test) -> Option<Vec<Term>> {
        let negate = test.negate;
        Some(match &test.cond {
            Cond::Never => vec![],
            Cond::Src(AddrMatch::Ranges(set)) => self.address(0, set, negate),
            Cond::Dst(AddrMatch::Ranges(set)) => self.address(1, set, negate),
            Cond::InIface(pattern) => {
                let classes = self.classes(&self.interfaces.matching(pattern), negate);
                self.service(Service {
                    input: Some(classes),
                    ..Service::ANY
                })
            }
            Cond::OutIface(pattern) => {
                let classes = self.classes(&self.interfaces.matching(pattern), negate);
                self.service(Service {
                    output: Some(classes),
                    ..Service::ANY
                })
            }
            Cond::Proto(set) => {
                let mut proto = Bits::ranges(set.ranges());
                if negate {
                    proto = proto.complement();
                }
                self.service(Service {
                    proto,
                    ..Service::ANY
                })
            }
            Cond::LaterFragment => {
                let kind = Bits::of(|v| (v >> 3 & 3 == fragment::LATER) != negate);
                self.service(Service {
                    kind,
                    ..Service::ANY
                })
            }
            Cond::CutShort => {
                let kind = Bits::of(|v| (v & 7 == transport::SHORT) != negate);
                self.service(Service {
                    kind,
                    ..Service::ANY
                })
            }
            Cond::Fragments(bits) => {
                // 1 whole, 2 first, 3 later in the kind.
                let has =
                    |v: u8| (1..4).contains(&(v >> 3 & 3)) && bits >> ((v >> 3 & 3) - 1) & 1 != 0;
                let kind = Bits::of(|v| has(v) != negate);
                self.service(Service {
                    kind,
                    ..Service::ANY
                })
            }
            // With the states of the kernel's NAT it is run, see `residual`.
            Cond::State(mask) if u16::from(mask.0) & handling::TRANSLATED == 0 => {
                let kind = Bits::of(|v| (u32::from(mask.0) >> (v >> 5) & 1 != 0) != negate);
                self.service(Service {
                    kind,
                    ..Service::ANY
                })
            }
            Cond::SrcPort(set) => self.ports(Some(set), None, negate),
            Cond::DstPort(set) => self.ports(None, Some(set), negate),
            Cond::AnyPort(set) if negate => self.ports(Some(set), Some(set), true),
            Cond::AnyPort(set) => {
                let mut terms = self.ports(Some(set), None, false);
                terms.extend(self.ports(None, Some(set), false));
                terms
            }
            Cond::TcpFlags { mask, value } => self.flags(|v| (v & mask == *value) != negate),
            Cond::EcnTcp(bits) => self.flags(|v| (v & bits == *bits) != negate),
            Cond::Icmp { kind, codes } => self.icmp(*kind, *codes, negate),
            Cond::Any(tests) if !negate => {
                let mut all = Vec::new();
                for test in tests {
                    all.extend(self.terms(test)?);
                }
                all
            }
            Cond::Set { set, fields } => {
                return self.set(&self.sets[set.0 as usize], fields, negate);
            }
            _ => return None,
        })
    }

    fn address(&self, side: usize, set: &RangeSet<u128>, negate: bool) -> Vec<Term> {
        let top = address_last(self.family);
        let set = if negate {
            set.complement(top)
        } else {
            set.clone()
        };
        let mut term = Term::ANY;
        match Span::of(set.intersect(&RangeSet::range(0, top)), top) {
            Some(span) => term.address[side] = span,
            None => return vec![],
        }
        vec![term]
    }

    fn classes(&self, classes: &[u64], negate: bool) -> Vec<u64> {
        let count = self.interfaces.classes();
        let valid = |word: usize| match count - word * 64 {
            0..64 => (1u64 << (count - word * 64)) - 1,
            _ => u64::MAX,
        };
        let flip = |(at, bits): (usize, &u64)| if negate { !bits & valid(at) } else { *bits };
        classes.iter().enumerate().map(flip).collect()
    }

    /// A term that says nothing but this service; none when the service is empty.
    fn service(&mut self, service: Service) -> Vec<Term> {
        match service.and(&Service::ANY) {
            Some(service) => vec![Term {
                service: self.services.number(service),
                ..Term::ANY
            }],
            None => vec![],
        }
    }

    fn ports(
        &mut self,
        src: Option<&RangeSet<u16>>,
        dst: Option<&RangeSet<u16>>,
        negate: bool,
    ) -> Vec<Term> {
        let kind = *WITH_PORTS;
        let mut terms = self.service(Service {
            kind,
            ..Service::ANY
        });
        for (side, set) in [src, dst].into_iter().enumerate() {
            let Some(set) = set else { continue };
            let set = if negate {
                set.complement(u16::MAX)
            } else {
                set.clone()
            };
            match Span::of(set, u16::MAX) {
                Some(span) => terms[0].port[side] = span,
                None => return vec![],
            }
        }
        terms
    }

    fn flags(&mut self, f: impl Fn(u8) -> bool) -> Vec<Term> {
        let kind = Bits::of(|v| v & 7 == transport::TCP);
        let flags = Bits::of(f);
        self.service(Service {
            kind,
            flags,
            ..Service::ANY
        })
    }

    fn icmp(&mut self, kind: Option<u8>, codes: (u8, u8), negate: bool) -> Vec<Term> {
        let transport = Bits::of(|v| v & 7 == transport::ICMP);
        let mut terms = self.service(Service {
            kind: transport,
            ..Service::ANY
        });
        let set = match kind {
            None => RangeSet::range(0, u16::MAX),
            Some(kind) => {
                let value = |code: u8| u16::from(kind) << 8 | u16::from(code);
                RangeSet::range(value(codes.0), value(codes.1))
            }
        };
        let set = if negate {
            set.complement(u16::MAX)
        } else {
            set
        };
        match Span::of(set, u16::MAX) {
            Some(span) => terms[0].port[0] = span,
            None => return vec![],
        }
        terms
    }

    /// A set that does not change: its entries as terms. Timeouts have to be run, so have `nomatch`
    /// entries of several dimensions, and so has "not in the set" of anything but plain addresses.
    fn set(&mut self, set: &NamedSet, fields: &[SetField], negate: bool) -> Option<Vec<Term>> {
        if set.dimensions.is_empty() {
            return self.list(set, fields, negate);
        }
        if set.changes || set.entries.iter().any(is_timed) {
            return None;
        }
        let foreign = set.dimensions.contains(&SetDimension::Address)
            && set.family.is_some_and(|f| f != self.family);
        if foreign || fields.len() < set.dimensions.len() {
            return Some(if negate { vec![Term::ANY] } else { vec![] });
        }
        let side = |at: usize| usize::from(fields[at] == SetField::Dst);
        if let Some(addresses) = set.addresses() {
            return Some(self.address(side(0), &addresses, negate));
        }
        let nomatch = set.entries.iter().any(|entry| entry.nomatch);
        if negate || nomatch || set.entries.len() > self.terms_max {
            return None;
        }
        let mut terms = Vec::with_capacity(set.entries.len());
        for entry in &set.entries {
            terms.extend(self.set_entry(entry, &side)?);
        }
        Some(terms)
    }

    fn list(&mut self, set: &NamedSet, fields: &[SetField], negate: bool) -> Option<Vec<Term>> {
        let mut terms = vec![];
        for member in &set.members {
            let member = &self.sets[member.0 as usize];
            if member.dimensions.len() <= fields.len() {
                terms.extend(self.set(member, fields, false)?);
            }
        }
        if !negate {
            return Some(terms);
        }
        // Not in any: only where each member is a set of one address.
        let mut product = Term::ANY;
        for term in terms {
            let top = address_last(self.family);
            let [src, dst] = &term.address;
            let (at, span) = if *src == Span::Any {
                (1, dst)
            } else {
                (0, src)
            };
            let mut alone = Term::ANY;
            alone.address[at] = span.clone();
            if alone != term {
                return None;
            }
            let outside = Span::of(span.to_set(top).complement(top), top);
            let Some(both) = outside.and_then(|span| span.and(&product.address[at], top)) else {
                return Some(vec![]);
            };
            product.address[at] = both;
        }
        Some(vec![product])
    }

    /// The entries of a set in the order in which they decide, most specific first, neighbours that
    /// say the same joined.
    pub fn set_groups(
        &mut self,
        id: SetId,
        fields: &[SetField],
    ) -> Result<Vec<SetGroup>, &'static str> {
        let set = &self.sets[id.0 as usize];
        if set.changes {
            return Err("a set that rules change");
        }
        let mut groups: Vec<SetGroup> = Vec::new();
        if set.dimensions.is_empty() {
            for (number, member) in set.members.iter().enumerate() {
                if self.sets[member.0 as usize].dimensions.len() <= fields.len() {
                    let own = self.set_groups(*member, fields)?;
                    groups.extend(own.into_iter().map(|g| SetGroup {
                        member: number,
                        ..g
                    }));
                }
            }
            return Ok(groups);
        }
        let foreign = set.dimensions.contains(&SetDimension::Address)
            && set.family.is_some_and(|f| f != self.family);
        if foreign || fields.len() < set.dimensions.len() {
            return Ok(groups);
        }
        if !set.entries.iter().any(is_timed)
            && let Some(addresses) = set.addresses()
        {
            let side = usize::from(fields[0] == SetField::Dst);
            let terms = self.address(side, &addresses, false);
            groups.push(SetGroup {
                member: 0,
                inside: true,
                seconds: None,
                terms,
            });
            return Ok(groups);
        }
        let size = |e: &SetEntry| {
            let size = |part: &SetPart| match part {
                SetPart::Addresses(first, last) => last - first,
                _ => 0,
            };
            e.parts.iter().map(size).max().unwrap_or(0)
        };
        let mut entries: Vec<&SetEntry> = set.entries.iter().collect();
        let exact_order = entries.iter().any(|e| e.nomatch);
        if exact_order {
            entries.sort_by_key(|e| size(e));
        } else {
            entries.sort_by_key(|e| e.timeout);
        }
        let side = |at: usize| usize::from(fields[at] == SetField::Dst);
        for entry in entries {
            let terms = self.set_entry(entry, &side).ok_or("an entry of a set")?;
            let seconds = entry.timeout.filter(|t| *t > 0);
            match groups.last_mut() {
                Some(last) if last.inside != entry.nomatch && last.seconds == seconds => {
                    last.terms.extend(terms);
                }
                _ => groups.push(SetGroup {
                    member: 0,
                    inside: !entry.nomatch,
                    seconds,
                    terms,
                }),
            }
        }
        Ok(groups)
    }

    /// One entry of a set of several dimensions; `None` when a dimension is met twice.
    fn set_entry(&mut self, entry: &SetEntry, side: &impl Fn(usize) -> usize) -> Option<Vec<Term>> {
        let top = address_last(self.family);
        let mut terms = vec![Term::ANY];
        for (at, part) in entry.parts.iter().enumerate() {
            let parts = match part {
                SetPart::Addresses(first, last) => {
                    let mut term = Term::ANY;
                    term.address[side(at)] = Span::of(RangeSet::range(*first, *last), top)?;
                    vec![term]
                }
                SetPart::ProtoPorts(proto, first, last) => {
                    self.set_ports(Some(*proto), *first, *last, side(at))
                }
                SetPart::Ports(first, last) => self.set_ports(None, *first, *last, side(at)),
            };
            let mut next = Vec::new();
            for term in &terms {
                for part in &parts {
                    next.extend(term.and(part, top, &mut self.services));
                }
            }
            terms = next;
        }
        Some(terms)
    }

    /// What ipset takes for a port: see `policy::eval::sets`.
    fn set_ports(&mut self, proto: Option<u8>, first: u16, last: u16, side: usize) -> Vec<Term> {
        let icmp = if self.family == Family::V4 { 1 } else { 58 };
        let ports = |v: u8| (transport::TCP..=transport::SCTP).contains(&(v & 7));
        let readable = |v: u8| v >> 3 & 3 != fragment::LATER;
        let all = RangeSet::range(u16::MIN, u16::MAX);
        let (proto, kind, range, side) = match proto {
            None => (
                Bits::of(|p| p == 6 || p == 17),
                Bits::of(|v| ports(v) && readable(v)),
                RangeSet::range(first, last),
                side,
            ),
            Some(p) if p == icmp => (
                Bits::of(|v| v == p),
                Bits::of(|v| v & 7 == transport::ICMP && readable(v)),
                RangeSet::range(first, last),
                0,
            ),
            Some(p) if matches!(p, 6 | 17 | 132 | 136) => (
                Bits::of(|v| v == p),
                Bits::of(|v| ports(v) && readable(v)),
                RangeSet::range(first, last),
                side,
            ),
            Some(_) if first > 0 => return vec![],
            Some(p) => (Bits::of(|v| v == p), Bits::ALL, all, side),
        };
        let mut terms = self.service(Service {
            proto,
            kind,
            ..Service::ANY
        });
        match Span::of(range, u16::MAX) {
            Some(span) if !terms.is_empty() => terms[0].port[side] = span,
            Some(_) => {}
            None => return vec![],
        }
        terms
    }
}
