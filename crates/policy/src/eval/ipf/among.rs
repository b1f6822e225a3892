//! Rules that a packet can match at all, so that the others of a long list need not be tested.
//!
//! In: a rule set and its tables. Out: a policy with a rule for each of them, which holds wherever
//! the original might match by its interface, addresses, protocol and ports; and the headers of a
//! packet in the form that such a policy is asked with. Flags, options, `with` and states are not
//! asked, so what is found is a superset, and the evaluator tests it again. No rule ends the walk,
//! as the last match wins here.

use super::condition::Condition;
use super::packet::IpfPacket;
use super::tables::Tables;
use crate::dialect::ipf::load::RuleSet;
use crate::eval::candidates::{self, Candidate};
use crate::model::{
    AddrMatch, Cond, Facts, Family, Fragment, Hook, IfPattern, Packet, PacketType, Policy, RuleId,
    Test, Transport,
};

/// Bytes of an interface's name.
const NAME_BYTES_MAX: usize = 15;
const TCP: u8 = 6;

/// The candidates of a rule set, numbered as its rules; `None` where leading numbers put rules into
/// another order than that of the text.
#[must_use]
pub fn candidates(rules: &RuleSet, tables: &Tables) -> Option<Policy> {
    let lists = rules.filter.iter().chain(&rules.account);
    if !lists
        .chain(rules.groups.values())
        .all(|list| list.is_sorted())
    {
        return None;
    }
    let count = u32::try_from(rules.rules.len()).ok()?;
    let conditions: Vec<Condition> = rules.rules.iter().map(Condition::of).collect();
    let mut policy = candidates::policy(count);
    for family in [Family::V4, Family::V6] {
        for hook in [Hook::Prerouting, Hook::Output] {
            let of_family = |one: &&Condition| one.family.is_none_or(|only| only == family);
            let wanted = conditions.iter().enumerate();
            let wanted = wanted.filter(|(_, one)| of_family(one));
            let rules = wanted.map(|(number, one)| Candidate {
                rule: RuleId(number as u32),
                tests: tests(one, tables, family, hook),
                ends: false,
            });
            candidates::add(&mut policy, family, &[hook], rules);
        }
    }
    Some(policy)
}

fn tests(condition: &Condition, tables: &Tables, family: Family, hook: Hook) -> Vec<Test> {
    let mut out = Vec::new();
    let name = condition.interface.as_deref();
    if let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX) {
        let pattern = IfPattern {
            name: name.to_string(),
            prefix: false,
        };
        out.push(Test {
            negate: false,
            cond: match hook {
                Hook::Prerouting => Cond::InIface(pattern),
                _ => Cond::OutIface(pattern),
            },
        });
    }
    let sets = condition.tests.iter().cloned();
    let sets = sets.chain(condition.in_tables(tables, family));
    out.extend(sets.filter(|test| is_asked(test, family)));
    out
}

/// Whether an image answers a test as the evaluator does.
fn is_asked(test: &Test, family: Family) -> bool {
    let width = match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    };
    match &test.cond {
        Cond::Src(AddrMatch::Ranges(set)) | Cond::Dst(AddrMatch::Ranges(set)) => {
            set.ranges().last().is_some_and(|last| last.1 <= width)
        }
        Cond::Src(AddrMatch::Masked { value, mask })
        | Cond::Dst(AddrMatch::Masked { value, mask }) => *value <= width && *mask <= width,
        Cond::Proto(set) => !set.is_empty(),
        Cond::SrcPort(set) | Cond::DstPort(set) => !set.is_empty() && !test.negate,
        _ => false,
    }
}

impl IpfPacket {
    /// The headers that [`candidates`] are asked with.
    #[must_use]
    pub fn headers(&self) -> Packet {
        let here = |is: bool| match is {
            true => self.interface.clone(),
            false => String::new(),
        };
        Packet {
            family: self.family,
            hook: match self.out {
                false => Hook::Prerouting,
                true => Hook::Output,
            },
            in_iface: here(!self.out),
            out_iface: here(self.out),
            src: self.source,
            dst: self.destination,
            proto: self.proto,
            length: self.length,
            ttl: self.ttl,
            tos: self.tos,
            // Later fragments have no ports, and nothing else is asked of fragments.
            fragment: Fragment::Whole,
            transport: match (self.ports, self.proto) {
                (None, _) => Transport::None,
                (Some((src_port, dst_port)), TCP) => Transport::Tcp {
                    src_port,
                    dst_port,
                    flags: 0,
                    sequence: 0,
                    acknowledgement: 0,
                    window: 0,
                    options: Vec::new(),
                    payload: 0,
                    malformed: false,
                },
                (Some((src_port, dst_port)), _) => Transport::Udp { src_port, dst_port },
            },
            routing: None,
            mark: 0,
            mac: None,
            packet_type: PacketType::Unicast,
            owner: None,
            handling: 0,
            aside: Facts::default(),
        }
    }
}
