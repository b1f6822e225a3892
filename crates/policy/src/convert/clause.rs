//! The tests of a rule as clauses: each field once, alternatives apart.
//!
//! In: tests of the model, and which interfaces the packets have where they are asked. Out: a list
//! of [`Clause`]s of which one must hold, with contradictions taken out; or what of the tests no
//! clause can say. Packets whose transport header is cut short are not meant: each language has its
//! own way with them.

use super::culprit::{Culprit, of_condition};
use crate::model::{AddrMatch, Cond, CtState, Family, IfPattern, NamedSet, RangeSet, Test};

/// Protocols with ports.
pub const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];
pub const TCP: u8 = 6;
/// Bits of [`Cond::Fragments`].
pub const LATER: u8 = 4;
const EVERY: u8 = 7;
/// Alternatives of one rule.
const ALTERNATIVES_MAX: usize = 512;

/// Where tests are asked.
#[derive(Clone, Copy)]
pub struct Scope<'p> {
    /// Family of the packets.
    pub family: Family,
    /// They have been received on an interface.
    pub received: bool,
    /// It is known where they leave.
    pub leaving: bool,
    /// Named sets.
    pub sets: &'p [NamedSet],
    /// Only first packets are meant: states of connections are decided.
    pub first: bool,
}

/// Conditions on each field; all must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// Receiving interface, each possibly negated.
    pub received: Vec<(bool, IfPattern)>,
    /// Sending interface.
    pub sent: Vec<(bool, IfPattern)>,
    /// Protocols.
    pub protocols: RangeSet<u8>,
    /// Source address, possibly negated.
    pub source: Option<(bool, AddrMatch)>,
    /// Destination address.
    pub destination: Option<(bool, AddrMatch)>,
    /// Names of the sets that these came from.
    pub names: [Option<String>; 2],
    /// Source port.
    pub source_ports: Option<RangeSet<u16>>,
    /// Destination port.
    pub destination_ports: Option<RangeSet<u16>>,
    /// Either port.
    pub any_ports: Option<RangeSet<u16>>,
    /// TCP flags: negated, mask, value.
    pub flags: Vec<(bool, u8, u8)>,
    /// ICMP types and codes.
    pub icmp: Vec<(bool, Option<u8>, (u8, u8))>,
    /// Bits of [`Cond::Fragments`].
    pub fragments: u8,
    /// TOS: negated, mask, value.
    pub tos: Vec<(bool, u8, u8)>,
    /// TTL or hop limit.
    pub ttl: RangeSet<u8>,
    /// Length.
    pub lengths: RangeSet<u16>,
    /// TCP options, possibly negated.
    pub options: Vec<(bool, u8)>,
}

fn all<T: crate::model::Value>() -> RangeSet<T> {
    RangeSet::range(T::MIN, T::MAX)
}

fn among(numbers: &[u8]) -> RangeSet<u8> {
    RangeSet::from_ranges(numbers.iter().map(|number| (*number, *number)))
}

impl Clause {
    /// Every packet.
    pub fn every() -> Self {
        Clause {
            received: Vec::new(),
            sent: Vec::new(),
            protocols: all(),
            source: None,
            destination: None,
            names: [None, None],
            source_ports: None,
            destination_ports: None,
            any_ports: None,
            flags: Vec::new(),
            icmp: Vec::new(),
            fragments: EVERY,
            tos: Vec::new(),
            ttl: all(),
            lengths: all(),
            options: Vec::new(),
        }
    }

    /// Whether it asks for part of the transport header, which later fragments don't have.
    pub fn reads_transport(&self) -> bool {
        let ports = [&self.source_ports, &self.destination_ports, &self.any_ports];
        ports.iter().any(|ports| ports.is_some())
            || !self.flags.is_empty()
            || !self.icmp.is_empty()
            || !self.options.is_empty()
    }

    /// What it says of fragments beside what follows from the rest.
    pub fn fragments_asked(&self) -> u8 {
        match self.reads_transport() {
            true => self.fragments | LATER,
            false => self.fragments,
        }
    }

    /// The same where a denied test holds for packets without the field. `excluded`: another test
    /// keeps later fragments away.
    pub fn fragments_beside(&self, excluded: bool) -> u8 {
        match self.reads_transport() && !excluded {
            true => self.fragments & !LATER,
            false => self.fragments_asked(),
        }
    }

    /// The one protocol it is about.
    pub fn protocol(&self) -> Option<u8> {
        match self.protocols.ranges() {
            [(first, last)] if first == last => Some(*first),
            _ => None,
        }
    }

    /// The protocols, where they are few.
    pub fn few_protocols(&self) -> Option<Vec<u8>> {
        let numbers = self.protocols.ranges().iter().flat_map(|r| r.0..=r.1);
        let numbers: Vec<u8> = numbers.take(17).collect();
        (numbers.len() <= 16).then_some(numbers)
    }

    /// The protocols it is not about, where those are few.
    pub fn but_protocols(&self) -> Option<Vec<u8>> {
        let others = Clause {
            protocols: self.protocols.complement(u8::MAX),
            ..Clause::every()
        };
        others.few_protocols()
    }

    /// Whether no packet is meant.
    fn is_never(&self) -> bool {
        let ports = [&self.source_ports, &self.destination_ports, &self.any_ports];
        let nowhere = |side: &Option<(bool, AddrMatch)>| match side {
            Some((false, AddrMatch::Ranges(set))) => set.is_empty(),
            _ => false,
        };
        self.protocols.is_empty()
            || self.fragments == 0
            || self.reads_transport() && self.fragments == LATER
            || self.ttl.is_empty()
            || self.lengths.is_empty()
            || ports
                .iter()
                .any(|set| set.as_ref().is_some_and(RangeSet::is_empty))
            || nowhere(&self.source)
            || nowhere(&self.destination)
            || self
                .flags
                .iter()
                .any(|(negate, mask, value)| !negate && value & !mask != 0)
    }
}

/// One of these must hold.
pub struct Alternatives {
    /// The clauses.
    pub clauses: Vec<Clause>,
    /// No packet meets two of them.
    pub disjoint: bool,
}

/// The clauses of some tests.
pub fn alternatives(tests: &[Test], scope: &Scope<'_>) -> Result<Alternatives, Culprit> {
    let mut out = Alternatives {
        clauses: vec![Clause::every()],
        disjoint: true,
    };
    for test in tests {
        out.clauses = with_all(out.clauses, test, scope, &mut out.disjoint)?;
    }
    out.clauses.retain(|clause| !clause.is_never());
    out.disjoint |= out.clauses.len() < 2;
    Ok(out)
}

/// Each clause with one more test.
fn with_all(
    clauses: Vec<Clause>,
    test: &Test,
    scope: &Scope<'_>,
    disjoint: &mut bool,
) -> Result<Vec<Clause>, Culprit> {
    let Cond::Any(tests) = &test.cond else {
        let mut out = Vec::with_capacity(clauses.len());
        for clause in clauses {
            out.extend(with(clause, test, scope)?);
        }
        return Ok(out);
    };
    if test.negate {
        let mut out = clauses;
        for one in tests {
            out = without(out, one, scope, disjoint)?;
        }
        return Ok(out);
    }
    *disjoint &= tests.len() < 2 || apart(tests);
    let mut out = Vec::new();
    for one in tests {
        out.extend(with_all(clauses.clone(), one, scope, disjoint)?);
        limited(&out)?;
    }
    Ok(out)
}

fn limited(clauses: &[Clause]) -> Result<(), Culprit> {
    match clauses.len() <= ALTERNATIVES_MAX {
        true => Ok(()),
        false => Err(Culprit::new(
            &["{", "not"],
            format!("a rule of more than {ALTERNATIVES_MAX} alternatives"),
            "split it, or use a table",
        )),
    }
}

/// Whether two of some alternatives never hold together.
fn apart(tests: &[Test]) -> bool {
    let mut kinds = Vec::new();
    for test in tests {
        match &test.cond {
            Cond::Icmp {
                kind: Some(kind), ..
            } if !test.negate => kinds.push(u32::from(*kind)),
            Cond::Dscp(value) if !test.negate => kinds.push(0x100 | u32::from(*value)),
            _ => return false,
        }
    }
    let number = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() == number && (kinds.iter().all(|k| *k < 0x100) || kinds.iter().all(|k| *k > 0xff))
}

/// Each clause where a test doesn't hold, also for want of its field.
fn without(
    clauses: Vec<Clause>,
    test: &Test,
    scope: &Scope<'_>,
    disjoint: &mut bool,
) -> Result<Vec<Clause>, Culprit> {
    let opposite = Test {
        negate: !test.negate,
        cond: test.cond.clone(),
    };
    let protocols: &[u8] = match &test.cond {
        Cond::SrcPort(_) | Cond::DstPort(_) | Cond::AnyPort(_) => &WITH_PORTS,
        Cond::TcpFlags { .. } | Cond::TcpOption(_) => &[TCP],
        Cond::Icmp { .. } => &ICMP,
        _ => return with_all(clauses, &opposite, scope, disjoint),
    };
    let has = among(protocols);
    let mut out = Vec::new();
    for clause in clauses {
        let mut others = clause.clone();
        others.protocols = others.protocols.intersect(&has.complement(u8::MAX));
        let mut later = clause.clone();
        later.protocols = later.protocols.intersect(&has);
        later.fragments &= LATER;
        out.extend([others, later]);
        out.extend(with(clause, &opposite, scope)?);
        out.retain(|clause| !clause.is_never());
        limited(&out)?;
    }
    Ok(out)
}

fn narrowed<T: crate::model::Value>(
    field: &mut Option<RangeSet<T>>,
    set: &RangeSet<T>,
    negate: bool,
) {
    let set = match negate {
        true => set.complement(T::MAX),
        false => set.clone(),
    };
    *field = Some(match field {
        Some(known) => known.intersect(&set),
        None => set,
    });
}

/// A clause with one more test; `None`: never.
fn with(mut clause: Clause, test: &Test, scope: &Scope<'_>) -> Result<Option<Clause>, Culprit> {
    let negate = test.negate;
    match &test.cond {
        Cond::Never if negate => {}
        Cond::Never => return Ok(None),
        Cond::CutShort => return Ok(negate.then_some(clause)),
        Cond::Proto(set) => {
            let set = if negate {
                set.complement(u8::MAX)
            } else {
                set.clone()
            };
            clause.protocols = clause.protocols.intersect(&set);
        }
        Cond::LaterFragment => clause.fragments &= if negate { !LATER } else { LATER },
        Cond::Fragments(bits) => clause.fragments &= if negate { !bits } else { *bits },
        Cond::InIface(pattern) if !scope.received => {
            return Ok((pattern.matches("") != negate).then_some(clause));
        }
        Cond::OutIface(pattern) if !scope.leaving => {
            return Ok((pattern.matches("") != negate).then_some(clause));
        }
        Cond::InIface(pattern) => return Ok(interface(clause, pattern, negate, true)),
        Cond::OutIface(pattern) => return Ok(interface(clause, pattern, negate, false)),
        Cond::State(mask) => {
            if !scope.first {
                return Err(of_condition(&test.cond));
            }
            let holds = mask.0 & CtState::New as u8 != 0;
            return Ok((holds != negate).then_some(clause));
        }
        cond => {
            if !address(&mut clause, cond, negate, scope)?
                && !transport(&mut clause, cond, negate)
                && !header(&mut clause, cond, negate)
            {
                return Err(of_condition(cond));
            }
        }
    }
    Ok((!clause.is_never()).then_some(clause))
}

/// A condition on an interface that is there.
fn interface(
    mut clause: Clause,
    pattern: &IfPattern,
    negate: bool,
    received: bool,
) -> Option<Clause> {
    if pattern.prefix && pattern.name.is_empty() {
        return (!negate).then_some(clause);
    }
    if !pattern.prefix && pattern.name.is_empty() {
        return negate.then_some(clause);
    }
    let known = if received {
        &mut clause.received
    } else {
        &mut clause.sent
    };
    for (not, other) in known.iter() {
        // One name decides what all patterns say.
        if !not && !other.prefix {
            return (pattern.matches(&other.name) != negate).then_some(clause);
        }
    }
    if !negate && !pattern.prefix {
        if known
            .iter()
            .any(|(not, other)| other.matches(&pattern.name) == *not)
        {
            return None;
        }
        known.clear();
    }
    if !known.contains(&(negate, pattern.clone())) {
        known.push((negate, pattern.clone()));
    }
    Some(clause)
}

fn address(
    clause: &mut Clause,
    cond: &Cond,
    negate: bool,
    scope: &Scope<'_>,
) -> Result<bool, Culprit> {
    let (values, side, name) = match cond {
        Cond::Src(values) => (values.clone(), 0, None),
        Cond::Dst(values) => (values.clone(), 1, None),
        Cond::Set { set, fields } => {
            let set = &scope.sets[set.0 as usize];
            let timed = set
                .entries
                .iter()
                .any(|entry| entry.timeout.is_some_and(|t| t > 0));
            let ([field], false, Some(addresses)) = (fields.as_slice(), timed, set.addresses())
            else {
                return Err(of_condition(cond));
            };
            let addresses = match set.family == Some(scope.family) {
                true => addresses,
                false => RangeSet::default(),
            };
            let side = usize::from(*field == crate::model::SetField::Dst);
            // What `nomatch` entries take out has a name that no file could have.
            let name = (!set.name.contains(' ')).then(|| set.name.clone());
            (AddrMatch::Ranges(addresses), side, name)
        }
        _ => return Ok(false),
    };
    let top = top_of(scope.family);
    if let AddrMatch::Ranges(set) = &values
        && set.is_empty()
    {
        if !negate {
            clause.protocols = RangeSet::default();
        }
        return Ok(true);
    }
    let known = match side {
        0 => &mut clause.source,
        _ => &mut clause.destination,
    };
    let both = match known.take() {
        None => {
            clause.names[side] = name;
            (negate, values)
        }
        Some(other) if other == (negate, values.clone()) => other,
        Some((not, AddrMatch::Ranges(other))) => {
            let AddrMatch::Ranges(set) = values else {
                return Err(twice());
            };
            let turn = |set: RangeSet<u128>, not| if not { set.complement(top) } else { set };
            clause.names[side] = None;
            (
                false,
                AddrMatch::Ranges(turn(other, not).intersect(&turn(set, negate))),
            )
        }
        Some(_) => return Err(twice()),
    };
    *known = Some(both);
    Ok(true)
}

/// The highest address.
pub fn top_of(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}

fn twice() -> Culprit {
    Culprit::new(
        &["from", "-s", "-d"],
        "an address that is asked twice, by a mask with holes,".to_owned(),
        "write one of the two as a rule of its own",
    )
}

fn transport(clause: &mut Clause, cond: &Cond, negate: bool) -> bool {
    let protocols: &[u8] = match cond {
        Cond::SrcPort(set) => {
            narrowed(&mut clause.source_ports, set, negate);
            &WITH_PORTS
        }
        Cond::DstPort(set) => {
            narrowed(&mut clause.destination_ports, set, negate);
            &WITH_PORTS
        }
        Cond::AnyPort(set) if !negate && clause.any_ports.is_none() => {
            clause.any_ports = Some(set.clone());
            &WITH_PORTS
        }
        // Neither port: a condition on both.
        Cond::AnyPort(set) if negate => {
            narrowed(&mut clause.source_ports, set, true);
            narrowed(&mut clause.destination_ports, set, true);
            &WITH_PORTS
        }
        Cond::TcpFlags { mask, value } => {
            clause.flags.push((negate, *mask, *value));
            &[TCP]
        }
        Cond::TcpOption(kind) => {
            clause.options.push((negate, *kind));
            &[TCP]
        }
        Cond::Icmp { kind, codes } => {
            clause.icmp.push((negate, *kind, *codes));
            &ICMP
        }
        _ => return false,
    };
    clause.protocols = clause.protocols.intersect(&among(protocols));
    clause.fragments &= !LATER;
    true
}

fn header(clause: &mut Clause, cond: &Cond, negate: bool) -> bool {
    use crate::model::Cmp;
    match cond {
        Cond::Tos { value, mask } => clause.tos.push((negate, *mask, *value)),
        Cond::Dscp(code) => clause.tos.push((negate, 0xfc, code << 2)),
        Cond::EcnIp(bits) => clause.tos.push((negate, 3, *bits)),
        Cond::Ttl(compared) => {
            let set = match compared {
                Cmp::Eq(value) => RangeSet::one(*value),
                Cmp::Lt(value) => match value.checked_sub(1) {
                    Some(last) => RangeSet::range(0, last),
                    None => RangeSet::default(),
                },
                Cmp::Gt(value) => match value.checked_add(1) {
                    Some(first) => RangeSet::range(first, u8::MAX),
                    None => RangeSet::default(),
                },
            };
            let set = if negate { set.complement(u8::MAX) } else { set };
            clause.ttl = clause.ttl.intersect(&set);
        }
        Cond::Length(set) => {
            let set = if negate {
                set.complement(u16::MAX)
            } else {
                set.clone()
            };
            clause.lengths = clause.lengths.intersect(&set);
        }
        _ => return false,
    }
    true
}
