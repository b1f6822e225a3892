//! One pattern of ipfw, or its negation, as conditions of the model.
//!
//! In: a pattern and for which packets (family, pass) it is asked. Out: a [`Formula`] that holds
//! exactly where the pattern does, or what about it can't be asked in the kernel. The meaning is
//! `eval::ipfw::patterns`; tests compare the two.

use super::formula::{Formula, LATER, any, constant, is, is_not, of_transport, or, strict};
use super::frames::Layer;
use super::header;
use super::names::expand;
use super::tables::{View, view};
use super::tags::Tags;
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{
    Address, Argument, Flags, InterfaceName, NumberField, Pattern, Ranges, Side,
};
use crate::eval::ipfw::{Pass, glob, proto};
use crate::model::{
    AddrMatch, AddrType, Aside, Cmp, Cond, Family, IfPattern, Owner, OwnerRange, RangeSet,
    ReversePath, TcpNumber,
};

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Protocols whose ports ipfw reads.
pub(super) const WITH_PORTS: [u8; 4] = [proto::TCP, proto::UDP, proto::SCTP, proto::UDPLITE];
/// Protocols whose packets belong to a user.
const WITH_OWNER: [u8; 3] = [proto::TCP, proto::UDP, proto::UDPLITE];

/// What can't be asked, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// With backquotes around words of the language.
    pub what: String,
    /// What to do.
    pub help: &'static str,
}

pub(super) fn refused<T>(what: impl Into<String>, help: &'static str) -> Result<T, Refused> {
    let what = what.into();
    Err(Refused { what, help })
}

/// Which packets are meant.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    /// The rule set, for its tables.
    pub set: &'s Ruleset,
    /// Tags as bits of the mark.
    pub tags: &'s Tags,
    /// Family of the packets.
    pub family: Family,
    /// Their pass.
    pub pass: Pass,
    /// Of which layer the pass is.
    pub layer: Layer,
}

/// A pattern as it stands in a rule.
#[derive(Clone, Copy)]
pub(super) struct Asked<'p> {
    /// The pattern.
    pub pattern: &'p Pattern,
    /// `not`.
    pub negate: bool,
    /// What its table holds, where that isn't all of it.
    pub view: Option<&'p View>,
    /// Number of the rule.
    pub rule: u32,
}

fn ranges(list: &Ranges) -> RangeSet<u16> {
    RangeSet::from_ranges(list.iter().copied())
}

fn wide(list: &Ranges) -> RangeSet<u32> {
    let range = |range: &(u16, u16)| (u32::from(range.0), u32::from(range.1));
    RangeSet::from_ranges(list.iter().map(range))
}

fn bytes(list: &Ranges) -> RangeSet<u8> {
    let inside = list.iter().filter(|range| range.0 <= 255);
    RangeSet::from_ranges(inside.map(|range| (range.0 as u8, range.1.min(255) as u8)))
}

/// Ports as a formula.
pub(super) fn ports(source: bool, set: RangeSet<u16>, negate: bool) -> Formula {
    let cond = match source {
        true => Cond::SrcPort(set),
        false => Cond::DstPort(set),
    };
    let no = vec![vec![is_not(cond.clone())]];
    of_transport(&WITH_PORTS, negate, vec![is(cond)], no)
}

impl Scope<'_> {
    fn of_family(&self, wanted: Family, negate: bool, formula: Formula) -> Formula {
        match self.family == wanted {
            true => formula,
            false => constant(negate),
        }
    }

    /// What a pattern says.
    pub fn literal(&self, asked: &Asked<'_>) -> Result<Formula, Refused> {
        let Asked {
            pattern,
            negate,
            rule,
            ..
        } = *asked;
        if self.layer == Layer::Bare
            && let Some(formula) = self.bare(asked)
        {
            return Ok(formula);
        }
        Ok(match pattern {
            Pattern::Comment(_) => constant(!negate),
            Pattern::Proto(number) => match u8::try_from(*number) {
                Ok(number) => strict(Cond::Proto(RangeSet::one(number)), negate),
                Err(_) => constant(negate),
            },
            Pattern::Ip4 => constant((self.family == Family::V4) != negate),
            Pattern::Ip6 => constant((self.family == Family::V6) != negate),
            Pattern::IpVersion(version) => {
                let own = if self.family == Family::V4 { 4 } else { 6 };
                constant((*version == own) != negate)
            }
            Pattern::Src(address) => self.address(address, true, asked),
            Pattern::Dst(address) => self.address(address, false, asked),
            Pattern::SrcPort(list) => ports(true, ranges(list), negate),
            Pattern::DstPort(list) => ports(false, ranges(list), negate),
            Pattern::In => constant((self.pass == Pass::In) != negate),
            Pattern::Interface(side, name) => self.interface(*side, name, asked)?,
            Pattern::Layer2
            | Pattern::Mac(..)
            | Pattern::MacType(_)
            | Pattern::SrcMac(..)
            | Pattern::DstMac(..) => self.link(asked),
            // Refused where they are read; with leave to go on they never hold.
            Pattern::Diverted(_) | Pattern::Jail(_) | Pattern::SockArg | Pattern::Ipsec => {
                constant(negate)
            }
            Pattern::Fib(fib) => constant((*fib == 0) != negate),
            Pattern::Uid(id, _) => self.owner(Owner::Uid(one_id(*id)), negate)?,
            Pattern::Gid(id, _) => self.owner(Owner::Gid(one_id(*id)), negate)?,
            Pattern::VerRevPath | Pattern::VerSrcReach | Pattern::AntiSpoof => {
                self.route(pattern, negate)
            }
            Pattern::Tagged(list) => self.tags.tagged(list, negate),
            Pattern::TaggedTableArg => {
                return refused("`tagged tablearg`", "write one rule for each tag");
            }
            Pattern::Mark {
                value: Argument::Number(value),
                mask,
            } => strict(
                Cond::Mark {
                    value: *value,
                    mask: *mask,
                },
                negate,
            ),
            Pattern::Mark { .. } => {
                return refused("`mark tablearg`", "write one rule for each mark");
            }
            Pattern::Lookup { .. } => self.lookup(asked, rule)?,
            Pattern::Flow { .. } => self.flow(asked)?,
            _ => return self.field(pattern, negate),
        })
    }

    /// Patterns on fields of the headers.
    fn field(&self, pattern: &Pattern, negate: bool) -> Result<Formula, Refused> {
        const OTHERWISE: &str = "`weir explain` and `replay` judge by it; leave the rule out here";
        let four = |formula| self.of_family(Family::V4, negate, formula);
        Ok(match pattern {
            Pattern::IpTos(flags) if flags.set & flags.clear != 0 => constant(negate),
            Pattern::IpTos(flags) => four(strict(
                Cond::Tos {
                    value: flags.set,
                    mask: flags.set | flags.clear,
                },
                negate,
            )),
            Pattern::IpPrecedence(value) => four(strict(
                Cond::Tos {
                    value: value << 5,
                    mask: 0xe0,
                },
                negate,
            )),
            Pattern::Dscp(set) => code_points(*set, negate),
            Pattern::Frag(flags) => header::fragment(self.family, *flags, negate),
            Pattern::Established => {
                let (mask, value) = match self.set.settings.established_strict {
                    true => (RST | ACK, 0),
                    false => (RST | ACK | SYN, SYN),
                };
                let other = Cond::TcpFlags { mask, value };
                let no = vec![vec![is(other.clone())]];
                of_transport(&[proto::TCP], negate, vec![is_not(other)], no)
            }
            Pattern::TcpFlags(flags) => match flags.set & flags.clear {
                0 => {
                    let cond = Cond::TcpFlags {
                        mask: flags.set | flags.clear,
                        value: flags.set,
                    };
                    let no = vec![vec![is_not(cond.clone())]];
                    of_transport(&[proto::TCP], negate, vec![is(cond)], no)
                }
                _ => constant(negate),
            },
            Pattern::TcpOptions(flags) => tcp_options(*flags, negate),
            Pattern::Number(NumberField::IpLen, list) => strict(Cond::Length(ranges(list)), negate),
            Pattern::Number(NumberField::IpTtl, list) => four(ttl(&bytes(list), negate)),
            Pattern::Number(NumberField::TcpMss, list) => segment_size(ranges(list), negate),
            Pattern::IcmpTypes(set) => {
                let types = (0..32).filter(|kind| set & 1 << kind != 0).collect();
                four(icmp(proto::ICMP, types, negate))
            }
            Pattern::Icmp6Types(set) => {
                let has = |kind: &u8| set[usize::from(kind / 32)] & 1 << (kind % 32) != 0;
                let types = (0..=255).filter(has).collect();
                self.of_family(Family::V6, negate, icmp(proto::ICMPV6, types, negate))
            }
            Pattern::Number(NumberField::IpId, list) => four(header::identification(list, negate)),
            Pattern::Number(NumberField::TcpWin, list) => {
                header::tcp(TcpNumber::Window, wide(list), negate)
            }
            Pattern::Number(NumberField::TcpDataLen, list) => {
                header::tcp(TcpNumber::Data, wide(list), negate)
            }
            Pattern::TcpSeq(number) => {
                header::tcp(TcpNumber::Sequence, RangeSet::one(*number), negate)
            }
            Pattern::TcpAck(number) => {
                header::tcp(TcpNumber::Acknowledgement, RangeSet::one(*number), negate)
            }
            Pattern::FlowId(labels) => {
                self.of_family(Family::V6, negate, header::flow_label(labels, negate))
            }
            Pattern::IpOptions(flags) => four(header::ip_options(*flags, negate)),
            Pattern::Ext6Hdr(bits) => {
                let there = strict(Cond::Aside(Aside::Extensions(*bits)), negate);
                self.of_family(Family::V6, negate, there)
            }
            _ => return refused("this option", OTHERWISE),
        })
    }

    fn address(&self, address: &Address, source: bool, asked: &Asked<'_>) -> Formula {
        let negate = asked.negate;
        let cond = |values| match source {
            true => Cond::Src(values),
            false => Cond::Dst(values),
        };
        let of_ranges = |set: RangeSet<u128>| match set.is_empty() {
            true => constant(negate),
            false => strict(cond(AddrMatch::Ranges(set)), negate),
        };
        match (address, self.family) {
            (Address::V4(list), Family::V4) => {
                let list = list
                    .iter()
                    .map(|(base, mask)| (u128::from(*base), u128::from(*mask)));
                masked(list, 32, negate, &cond)
            }
            (Address::V6(list), Family::V6) => masked(list.iter().copied(), 128, negate, &cond),
            (Address::Octets { base, size, bits }, Family::V4) => {
                let there = |offset: &u32| bits[*offset as usize / 32] & 1 << (offset % 32) != 0;
                let members = (0..u32::from(*size)).filter(there);
                of_ranges(RangeSet::from_ranges(members.map(|offset| {
                    let address = u128::from(base.wrapping_add(offset));
                    (address, address)
                })))
            }
            (Address::Me, _) | (Address::Me6, Family::V6) => self.me(source, negate),
            (Address::Table { name, value }, family) => {
                let own;
                let held = match asked.view {
                    Some(view) => view,
                    None => {
                        own = view(self.set.table(name), value.as_ref());
                        &own
                    }
                };
                of_ranges(match family {
                    Family::V4 => held.v4.clone(),
                    Family::V6 => held.v6.clone(),
                })
            }
            _ => constant(negate),
        }
    }

    /// The host's own addresses. Linux takes all of 127/8 for its own, ipfw only 127.0.0.1.
    fn me(&self, source: bool, negate: bool) -> Formula {
        let local = vec![AddrType::Local];
        let kind = match source {
            true => Cond::SrcType(local),
            false => Cond::DstType(local),
        };
        if self.family == Family::V6 {
            return strict(kind, negate);
        }
        let others = AddrMatch::Ranges(RangeSet::from_ranges([
            (0x7f00_0000, 0x7f00_0000),
            (0x7f00_0002, 0x7fff_ffff),
        ]));
        let others = match source {
            true => Cond::Src(others),
            false => Cond::Dst(others),
        };
        match negate {
            false => vec![vec![is_not(others), is(kind)]],
            true => vec![vec![is_not(kind)], vec![is(others)]],
        }
    }

    /// An interface. That of the pass is there; a packet made here was received by none.
    fn interface(
        &self,
        side: Side,
        name: &InterfaceName,
        asked: &Asked<'_>,
    ) -> Result<Formula, Refused> {
        let negate = asked.negate;
        if side == Side::Xmit && self.pass == Pass::In {
            return Ok(constant(negate));
        }
        let received = side == Side::Recv || side == Side::Via && self.pass == Pass::In;
        let may_be_none = side == Side::Recv && self.pass == Pass::Out;
        let patterns = match name {
            InterfaceName::Name(name) => vec![IfPattern {
                name: name.clone(),
                prefix: false,
            }],
            InterfaceName::Glob(pattern) => match expand(pattern) {
                Some(all) => all,
                None => return Ok(by_pattern(pattern, !received, negate)),
            },
            InterfaceName::Address(address) => {
                let Some(owners) = &self.set.owners else {
                    let help = "write the interface's name: its addresses may change";
                    return refused("an interface by its address", help);
                };
                let own = owners.iter().filter(|(_, own)| own == address);
                let names: Vec<IfPattern> = own
                    .map(|(name, _)| IfPattern {
                        name: name.clone(),
                        prefix: false,
                    })
                    .collect();
                if names.is_empty() {
                    // The rule stays what it is, for when the address is there again.
                    return Ok(match negate {
                        false => strict(Cond::Never, false),
                        true => constant(true),
                    });
                }
                names
            }
            InterfaceName::Table(table) => {
                let own;
                let held = match asked.view {
                    Some(view) => view,
                    None => {
                        own = view(self.set.table(table), None);
                        &own
                    }
                };
                let exact = held.names.iter().map(|name| IfPattern {
                    name: name.clone(),
                    prefix: false,
                });
                exact.collect()
            }
        };
        if patterns.iter().any(|one| one.name.is_empty()) {
            let none = Cond::InIface(IfPattern::none());
            // Any interface at all.
            return Ok(match may_be_none {
                true => strict(none, !negate),
                false => constant(!negate),
            });
        }
        let cond = |pattern| match received {
            true => Cond::InIface(pattern),
            false => Cond::OutIface(pattern),
        };
        let tests: Vec<_> = patterns.into_iter().map(cond).collect();
        Ok(match (tests.is_empty(), negate) {
            (true, _) => constant(negate),
            (false, false) => vec![any(tests.into_iter().map(is).collect())],
            (false, true) => vec![tests.into_iter().map(is_not).collect()],
        })
    }

    /// The user of the socket. Who will receive a packet is not known when it comes in.
    fn owner(&self, owner: Owner, negate: bool) -> Result<Formula, Refused> {
        if self.pass == Pass::In {
            let help = "the receiving socket isn't known yet: add `out` to the rule";
            return refused("the owner of received packets", help);
        }
        let no = vec![vec![is_not(Cond::Owner(owner))]];
        let mut formula = of_transport(&WITH_OWNER, negate, vec![is(Cond::Owner(owner))], no);
        if !negate {
            formula[0].insert(1, is_not(Cond::Fragments(LATER)));
        }
        Ok(formula)
    }

    /// Only received packets are asked about their way back.
    fn route(&self, pattern: &Pattern, negate: bool) -> Formula {
        if self.pass == Pass::Out {
            return constant(!negate);
        }
        let asked = match pattern {
            Pattern::VerRevPath => ReversePath::Verified,
            Pattern::AntiSpoof => ReversePath::NotSpoofed,
            _ => ReversePath::Reached,
        };
        strict(Cond::ReversePath(asked), negate)
    }
}

/// A pattern of names that is asked of each name.
fn by_pattern(pattern: &str, out: bool, negate: bool) -> Formula {
    match glob::automaton(pattern) {
        Some(_) => {
            let pattern = pattern.to_owned();
            strict(Cond::Aside(Aside::Name { out, pattern }), negate)
        }
        // It asks for more letters than a name has.
        None => constant(negate),
    }
}

fn one_id(id: u32) -> OwnerRange {
    OwnerRange {
        first: id,
        last: id,
    }
}

/// Addresses with masks: prefixes as one set, masks with holes one by one.
fn masked(
    list: impl Iterator<Item = (u128, u128)>,
    width: u32,
    negate: bool,
    cond: &dyn Fn(AddrMatch) -> Cond,
) -> Formula {
    let all = u128::MAX >> (128 - width);
    let (mut prefixes, mut tests) = (Vec::new(), Vec::new());
    for (base, mask) in list {
        let free = !mask & all;
        match free & free.wrapping_add(1) {
            0 => prefixes.push((base, base | free)),
            _ => tests.push(cond(AddrMatch::Masked { value: base, mask })),
        }
    }
    if !prefixes.is_empty() {
        tests.insert(0, cond(AddrMatch::Ranges(RangeSet::from_ranges(prefixes))));
    }
    match negate {
        false => or(tests.into_iter().map(|test| vec![vec![is(test)]]).collect()),
        true => vec![tests.into_iter().map(is_not).collect()],
    }
}

fn code_points(set: u64, negate: bool) -> Formula {
    if set == 0 {
        return constant(negate);
    }
    let codes = (0..64u8)
        .filter(|code| set & 1 << code != 0)
        .map(Cond::Dscp);
    match negate {
        false => vec![any(codes.map(is).collect())],
        true => vec![codes.map(is_not).collect()],
    }
}

fn ttl(set: &RangeSet<u8>, negate: bool) -> Formula {
    let set = if negate {
        set.complement(u8::MAX)
    } else {
        set.clone()
    };
    let range = |&(first, last): &(u8, u8)| {
        if first == last {
            return vec![is(Cond::Ttl(Cmp::Eq(first)))];
        }
        let low = first
            .checked_sub(1)
            .map(|bound| is(Cond::Ttl(Cmp::Gt(bound))));
        let high = last
            .checked_add(1)
            .map(|bound| is(Cond::Ttl(Cmp::Lt(bound))));
        low.into_iter().chain(high).collect()
    };
    or(vec![set.ranges().iter().map(range).collect()])
}

fn icmp(number: u8, types: Vec<u8>, negate: bool) -> Formula {
    let conds: Vec<Cond> = types
        .into_iter()
        .map(|kind| Cond::Icmp {
            kind: Some(kind),
            codes: (0, 255),
        })
        .collect();
    if conds.is_empty() {
        return constant(negate);
    }
    let no = vec![conds.iter().cloned().map(is_not).collect()];
    of_transport(
        &[number],
        negate,
        any(conds.into_iter().map(is).collect()),
        no,
    )
}

/// TCP options: MSS 1, window 2, SACK 4, timestamp 8.
fn tcp_options(flags: Flags, negate: bool) -> Formula {
    if flags.set & flags.clear != 0 {
        return constant(negate);
    }
    let kinds: [(u8, &[u8]); 4] = [(1, &[2]), (2, &[3]), (4, &[4, 5]), (8, &[8])];
    let (mut yes, mut no) = (Vec::new(), Vec::new());
    for (bit, numbers) in kinds {
        let there = || {
            any(numbers
                .iter()
                .map(|kind| is(Cond::TcpOption(*kind)))
                .collect())
        };
        let missing = || {
            numbers
                .iter()
                .map(|kind| is_not(Cond::TcpOption(*kind)))
                .collect()
        };
        if flags.set & bit != 0 {
            yes.extend(there());
            no.push(missing());
        }
        if flags.clear & bit != 0 {
            yes.extend::<Vec<_>>(missing());
            no.push(there());
        }
    }
    of_transport(&[proto::TCP], negate, yes, no)
}

/// The maximum segment size, of segments with SYN.
fn segment_size(set: RangeSet<u16>, negate: bool) -> Formula {
    let syn = |value| Cond::TcpFlags { mask: SYN, value };
    let size = Cond::TcpMss(set);
    let no = vec![vec![is(syn(0))], vec![is(syn(SYN)), is_not(size.clone())]];
    of_transport(&[proto::TCP], negate, vec![is(syn(SYN)), is(size)], no)
}
