//! Which packets there are: the domain that two policies are compared over.
//!
//! In: both policies and a family. Out: a [`Space`]: the diagram, one class of interface names for
//! each way in which patterns of either policy tell names apart, a bit for each condition that is
//! no function of the packet, and the set of packets that exist. A packet that no parser can give
//! (ports of a protocol without ports, a flow mark without a flow) is in no answer.

use super::diagram::{Diagram, NO, Node, QuickMap, TooLarge};
use super::field::{Field, OPAQUE};
use crate::eval::Path;
use crate::model::{Cond, Family, IfPattern, Policy, Reading, RuleId, Test};
use std::collections::{BTreeSet, HashMap};

pub(super) const TCP: u8 = 6;
const RST: u128 = 4;
pub(super) const SCTP: u8 = 132;
pub(super) const ICMP: [u8; 2] = [1, 58];
/// Longest name of an interface.
const NAME_MAX: usize = 15;

/// Whose transport header is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Any with ports.
    Ports,
    /// TCP.
    Tcp,
    /// SCTP.
    Sctp,
    /// ICMP or ICMPv6.
    Icmp,
    /// AH or ESP.
    Spi,
}

/// A condition whose outcome is not a function of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What it is, with all its parameters; equal text is the same condition.
    pub text: String,
    /// Where it is asked first, in the first and the second policy: rule and number of the test.
    pub rules: [Option<(RuleId, usize)>; 2],
}

/// Packets of one family, as both policies can tell them apart.
#[derive(Debug)]
pub struct Space {
    /// The diagram.
    pub diagram: Diagram,
    /// The family.
    pub family: Family,
    /// One interface name of each class.
    pub interfaces: Vec<String>,
    /// The same in words: the name, or what begins with it and has no class of its own.
    pub interface_words: Vec<String>,
    /// Conditions that are no functions of the packet, in the order of their bits.
    pub unknowns: Vec<Unknown>,
    /// Packets that can have a state of ipfw, by the text of its class.
    pub(super) possible: HashMap<String, Node>,
    /// As whose language packets are read at the moment, see [`Space::read_as`].
    pub(super) reading: Reading,
    /// The bits of [`Field::Short`] that matter.
    pub(super) cuts: u128,
    /// Whether one of the policies is IPFilter's, and another isn't.
    pub(super) ipf_and_another: bool,
    patterns: BTreeSet<IfPattern>,
    numbers: QuickMap<u64, Vec<u32>>,
    functions: u32,
}

impl Space {
    /// The space of packets of a family for some policies.
    pub fn new(policies: &[&Policy], family: Family, limit: usize) -> Self {
        let mut patterns = BTreeSet::new();
        let rules = policies
            .iter()
            .flat_map(|policy| &policy.chains)
            .flat_map(|chain| &chain.rules);
        for rule in rules {
            patterns_of(&rule.tests, &mut patterns);
        }
        let (interfaces, interface_words) = interfaces(&patterns);
        Space {
            diagram: Diagram::new(limit),
            family,
            reading: policies
                .first()
                .map_or(Reading::Linux, |policy| policy.reading),
            cuts: super::cut::bits(policies),
            ipf_and_another: {
                let is_ipf = |policy: &&&Policy| policy.reading == Reading::Ipf;
                let ipf = policies.iter().filter(is_ipf).count();
                ipf != 0 && ipf != policies.len()
            },
            interfaces,
            interface_words,
            patterns,
            unknowns: Vec::new(),
            possible: HashMap::new(),
            numbers: QuickMap::default(),
            functions: 0,
        }
    }

    /// The class of an interface name.
    pub fn class_of(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|one| {
            self.patterns
                .iter()
                .all(|pattern| pattern.matches(one) == pattern.matches(name))
        })
    }

    /// A number for a function of leaves, see [`Diagram::update`].
    pub fn function(&mut self) -> u32 {
        self.functions += 1;
        self.functions - 1
    }

    /// Bits of an address.
    pub fn address_width(&self) -> u32 {
        match self.family {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The bits of a field that are in use.
    pub fn width(&self, field: Field) -> u32 {
        match field {
            Field::Src | Field::Dst => self.address_width(),
            _ => field.width(),
        }
    }

    /// The number of a condition that is no function of the packet.
    pub fn unknown(&mut self, unknown: Unknown) -> u32 {
        use std::hash::{Hash, Hasher};
        let mut hasher = super::diagram::Quick::default();
        unknown.text.hash(&mut hasher);
        let known = self.numbers.entry(hasher.finish()).or_default();
        if let Some(number) = known
            .iter()
            .find(|number| self.unknowns[**number as usize].text == unknown.text)
        {
            return *number;
        }
        let number = self.unknowns.len() as u32;
        known.push(number);
        self.unknowns.push(unknown);
        number
    }

    /// Packets for which such a condition holds.
    pub fn holds(&mut self, unknown: u32) -> Result<Node, TooLarge> {
        self.diagram.make(OPAQUE + unknown, NO, super::diagram::YES)
    }

    pub(super) fn protocols(&mut self, protocols: &[u8]) -> Result<Node, TooLarge> {
        let mut ranges: Vec<(u128, u128)> = protocols
            .iter()
            .map(|p| (u128::from(*p), u128::from(*p)))
            .collect();
        ranges.sort_unstable();
        self.diagram.among(Field::Proto, &ranges)
    }

    /// ICMP errors: packets that quote one of a family. Of ICMPv6 those are all types below 128.
    pub fn icmp_errors(&mut self, quoted: Family) -> Result<Node, TooLarge> {
        const KINDS: [&[(u128, u128)]; 2] = [&[(3, 5), (11, 12)], &[(0, 127)]];
        let icmp = self.readable(Header::Icmp)?;
        let own = self.protocols(&[ICMP[quoted as usize]])?;
        let own = self.diagram.and(icmp, own)?;
        let kinds = self
            .diagram
            .among(Field::IcmpType, KINDS[quoted as usize])?;
        self.diagram.and(own, kinds)
    }

    /// Packets that a reset may answer.
    pub fn resettable(&mut self) -> Result<Node, TooLarge> {
        let tcp = self.readable(Header::Tcp)?;
        let plain = self.diagram.masked(Field::Flags, 0, RST)?;
        let plain = self.flags_read(plain, true)?;
        self.diagram.and(tcp, plain)
    }

    /// Packets but those of IPv6 with extension headers that ipfw drops before its rules.
    pub fn known_headers(&mut self) -> Result<Node, TooLarge> {
        const KNOWN: [u8; 14] = [4, 6, 17, 41, 47, 50, 51, 58, 59, 89, 103, 112, 132, 136];
        if self.family == Family::V4 {
            return Ok(super::diagram::YES);
        }
        let known = self.protocols(&KNOWN)?;
        let later = self.diagram.is(Field::Fragment, 2)?;
        let readable = self.diagram.or(known, later)?;
        let none = self.diagram.is(Field::HasRouting, 0)?;
        let kinds = self.diagram.among(Field::RoutingType, &[(0, 0), (2, 2)])?;
        let routing = self.diagram.or(none, kinds)?;
        self.diagram.and(readable, routing)
    }

    /// Packets that exist on a way through the host.
    pub fn domain(&mut self, path: Path) -> Result<Node, TooLarge> {
        let last = self.interfaces.len().saturating_sub(1) as u128;
        let (received, sent) = match path {
            Path::Input => (last, 0),
            Path::Forward => (last, last),
            Path::Output => (0, last),
        };
        let types = match path {
            Path::Output => (4, 4),
            Path::Input | Path::Forward => (0, 3),
        };
        let mut domain = self.diagram.among(Field::In, &[(0, received)])?;
        for (field, range) in [
            (Field::Out, (0, sent)),
            (Field::State, (0, 4)),
            (Field::Fragment, (0, self.places())),
            (Field::PacketType, types),
            (Field::Length, (0, 65_536)),
        ] {
            let part = self.diagram.among(field, &[range])?;
            domain = self.diagram.and(domain, part)?;
        }
        for part in [
            self.flows()?,
            self.short_or_whole()?,
            self.own_addresses()?,
            self.senders(path)?,
            self.options()?,
        ] {
            domain = self.diagram.and(domain, part)?;
        }
        Ok(domain)
    }

    /// INVALID and UNTRACKED packets have no flow, NEW and ESTABLISHED ones have one.
    fn flows(&mut self) -> Result<Node, TooLarge> {
        let d = &mut self.diagram;
        let (flow, none) = (d.is(Field::HasFlow, 1)?, d.is(Field::HasFlow, 0)?);
        let (with, without) = (
            d.among(Field::State, &[(1, 2)])?,
            d.among(Field::State, &[(0, 0), (4, 4)])?,
        );
        let other = d.select(without, none, super::diagram::YES)?;
        d.select(with, flow, other)
    }

    /// An address is local or broadcast or neither, and not what its bits already decide.
    fn own_addresses(&mut self) -> Result<Node, TooLarge> {
        let mut all = super::diagram::YES;
        for field in [Field::SrcOwn, Field::DstOwn] {
            let last = if self.family == Family::V4 { 2 } else { 1 };
            let part = self.diagram.among(field, &[(0, last)])?;
            all = self.diagram.and(all, part)?;
        }
        Ok(all)
    }

    /// Only packets made here have an owner, only received ones a sender on the link.
    fn senders(&mut self, path: Path) -> Result<Node, TooLarge> {
        let d = &mut self.diagram;
        match path {
            Path::Output => d.is(Field::HasMac, 0),
            Path::Input | Path::Forward => d.is(Field::HasOwner, 0),
        }
    }

    /// The MSS option is option 2, and an IPv4 packet has no routing header.
    fn options(&mut self) -> Result<Node, TooLarge> {
        let d = &mut self.diagram;
        let option = d.masked(Field::OptionsLow, 1 << 2, 1 << 2)?;
        let none = d.not(option)?;
        let (has, lacks) = (d.is(Field::HasMss, 1)?, d.is(Field::HasMss, 0)?);
        let (both, neither) = (d.and(option, has)?, d.and(none, lacks)?);
        let same = d.or(both, neither)?;
        match self.family {
            Family::V4 => {
                let no_routing = d.is(Field::HasRouting, 0)?;
                d.and(same, no_routing)
            }
            Family::V6 => Ok(same),
        }
    }
}

fn patterns_of(tests: &[Test], out: &mut BTreeSet<IfPattern>) {
    for test in tests {
        match &test.cond {
            Cond::InIface(pattern) | Cond::OutIface(pattern) => {
                out.insert(pattern.clone());
            }
            Cond::Any(tests) => patterns_of(tests, out),
            _ => {}
        }
    }
}

/// A name for each class of names that the patterns can tell apart, never the empty name; and the
/// same in words.
fn interfaces(patterns: &BTreeSet<IfPattern>) -> (Vec<String>, Vec<String>) {
    let kind = |name: &str| -> Vec<bool> { patterns.iter().map(|p| p.matches(name)).collect() };
    let mut seen = BTreeSet::new();
    let (mut names, mut words) = (Vec::new(), Vec::new());
    let mut offer = |name: String, word: String| {
        if !name.is_empty() && name.len() <= NAME_MAX && seen.insert(kind(&name)) {
            names.push(name);
            words.push(word);
        }
    };
    // Names before prefixes that are spelled alike.
    for pattern in patterns {
        let more = if pattern.prefix { "+" } else { "" };
        offer(pattern.name.clone(), format!("{}{more}", pattern.name));
    }
    // A name that goes on behind a prefix and meets nothing longer; the prefix of length 0 is for
    // names that meet nothing at all.
    let prefixes: Vec<&str> = patterns
        .iter()
        .filter(|pattern| pattern.prefix)
        .map(|pattern| pattern.name.as_str())
        .collect();
    for prefix in std::iter::once("").chain(prefixes.iter().copied()) {
        let longer = |name: &str| {
            prefixes
                .iter()
                .any(|other| other.len() > prefix.len() && name.starts_with(other))
        };
        let exact = |name: &str| patterns.iter().any(|p| !p.prefix && p.name == name);
        if let Some(name) = beyond(prefix, &longer, &exact) {
            let word = match prefix {
                "" => "any other".to_owned(),
                prefix => format!("{prefix}+"),
            };
            offer(name, word);
        }
    }
    (names, words)
}

/// A name behind a prefix that meets no longer pattern, if there is one.
fn beyond(
    prefix: &str,
    longer: &impl Fn(&str) -> bool,
    exact: &impl Fn(&str) -> bool,
) -> Option<String> {
    if prefix.len() >= NAME_MAX {
        return None;
    }
    let usual = ["eth0", "eth1", "eth9"].map(str::to_owned);
    let free = |name: &String| !longer(name) && !exact(name);
    if let Some(name) = usual
        .into_iter()
        .find(|name| prefix.is_empty() && free(name))
    {
        return Some(name);
    }
    let bytes = (b'0'..=b'9').chain(b'a'..=b'z').chain(b'!'..=b'~');
    let names = bytes
        .filter(|byte| *byte != b'/')
        .map(|byte| format!("{prefix}{}", char::from(byte)))
        .filter(|name| !longer(name));
    let names: Vec<String> = names.collect();
    let free = names.iter().find(|name| !exact(name)).cloned();
    // Every next letter makes a name that is meant itself: there are names behind those.
    free.or_else(|| names.iter().find_map(|name| beyond(name, longer, exact)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_names_are_told_apart() {
        let pattern = |name: &str, prefix| IfPattern {
            name: name.into(),
            prefix,
        };
        let named = |patterns: &[IfPattern]| {
            let test = |cond| Test {
                negate: false,
                cond,
            };
            let tests = patterns.iter().cloned().map(Cond::InIface).map(test);
            let mut policy = Policy::default();
            policy.chains.push(crate::model::Chain {
                name: "c".into(),
                family: Family::V4,
                table: crate::model::Table::Filter,
                rules: vec![crate::model::Rule {
                    id: crate::model::RuleId(0),
                    origin: crate::model::Origin {
                        source: crate::model::SourceId(0),
                        line: 1,
                        column: 1,
                    },
                    index: 1,
                    tests: tests.collect(),
                    ops: vec![],
                    flow: crate::model::Flow::Next,
                    preset: crate::model::Counters::default(),
                }],
                policy: None,
            });
            Space::new(&[&policy], Family::V4, 1000).interfaces
        };
        assert_eq!(named(&[]), ["eth0"]);
        let some = [
            pattern("eth0", false),
            pattern("eth", true),
            pattern("eth1", true),
            pattern("ppp", true),
        ];
        let names = named(&some);
        assert_eq!(names, ["eth", "eth0", "eth1", "ppp", "0"]);
        // Every name of one letter is meant: the class of other names is behind them.
        let letters: Vec<IfPattern> = (b'!'..=b'~')
            .map(|byte| pattern(&char::from(byte).to_string(), false))
            .collect();
        assert_eq!(named(&letters).last().map(String::as_str), Some("eth0"));
        let (longer, exact) = (|_: &str| false, |name: &str| name.len() <= 4);
        assert_eq!(beyond("", &longer, &exact).as_deref(), Some("00000"));
    }
}
