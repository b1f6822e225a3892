//! The tests of a rule: basic matches first, then modules left to right, as the kernel runs them.
//!
//! Every option of a module must be taken up by [`Tests::option`] or by its module's own function;
//! one that is not is refused by name, so that nothing can be read and then forgotten.

use super::super::ast::{Basic, Instance, Opt, Rule};
use super::super::grammar::Tier;
use super::super::names::{protocols, small};
use super::super::value::{Addresses, InterfaceName, Value};
use super::Lowering;
use super::hosts::{Host, bits, host};
use super::tables::Entry;
use crate::model::{
    AddrMatch, AddrType, ChunkFlags, Cmp, Cond, CtField, Family, HistoryId, HistoryKind,
    HistoryObject, IfPattern, PacketType, RangeSet, SetField, SetId, StateMask, Test,
};
use crate::syntax::{Diagnostic, Span};

/// The tests of one rule while they are gathered.
pub(super) struct Tests<'l, 'a> {
    pub(super) lowering: &'l mut Lowering<'a>,
    pub(super) family: Family,
    pub(super) tests: Vec<Test>,
    /// Why the rule cannot be honoured.
    pub(super) refused: Vec<Diagnostic>,
}

impl Tests<'_, '_> {
    pub(super) fn push(&mut self, negate: bool, cond: Cond) {
        self.tests.push(Test { negate, cond });
    }

    pub(super) fn unsupported(&mut self, at: Span, what: &str, help: &str) {
        let message = format!("{what} is not supported");
        self.refused
            .push(Diagnostic::unsupported(at, message).help(help));
    }

    /// All tests of a rule.
    pub(super) fn rule(&mut self, entry: &Entry<'_>) {
        let rule = entry.rule;
        self.address(entry.source, rule.source.as_ref(), Cond::Src);
        self.address(entry.destination, rule.destination.as_ref(), Cond::Dst);
        self.interface(rule.in_interface.as_ref(), Cond::InIface);
        self.interface(rule.out_interface.as_ref(), Cond::OutIface);
        if let Some(basic) = &rule.protocol {
            self.push(basic.negated, Cond::Proto(RangeSet::one(basic.value)));
        }
        if let Some(basic) = &rule.fragment {
            self.push(basic.negated, Cond::LaterFragment);
        }
        for instance in &rule.matches {
            self.instance(instance, rule);
        }
    }

    fn address(
        &mut self,
        host: Option<Host>,
        addresses: Option<&Addresses>,
        cond: fn(AddrMatch) -> Cond,
    ) {
        let Some(host) = host else { return };
        let negated = addresses.is_some_and(|addresses| addresses.negated);
        if host.mask == 0 && !negated {
            return;
        }
        let values = host.to_match(self.family);
        self.push(negated, cond(values));
    }

    fn interface(&mut self, interface: Option<&Basic<InterfaceName>>, cond: fn(IfPattern) -> Cond) {
        let Some(basic) = interface else { return };
        let pattern = IfPattern {
            name: basic.value.name.to_string(),
            prefix: basic.value.prefix,
        };
        self.push(basic.negated, cond(pattern));
    }

    /// One module.
    fn instance(&mut self, instance: &Instance, rule: &Rule) {
        let spec = instance.spec;
        if spec.name == "nfacct" {
            let message = "the accounting object is not counted up";
            let found = Diagnostic::warning("no-effect", instance.at.0, message)
                .help("the rule counts the same; it is taken for one without a quota");
            return self.lowering.report.diagnostics.push(found);
        }
        if spec.tier == Tier::Known {
            let help = super::refuse::advice_for_match(spec.name);
            return self.unsupported(instance.at.0, &format!("`-m {}`", spec.name), help);
        }
        if self.is_aside(instance) {
            return;
        }
        match spec.name {
            "comment" => {}
            "policy" => self.ipsec(instance),
            "ah" if self.family == Family::V6 && !asks_for_ah(rule) => self.unsupported(
                instance.at.0,
                "`-m ah` of IPv6",
                "take the rule out, or leave it to ip6tables beside weir",
            ),
            "rpfilter" => self.route_back(instance),
            "quota" => self.quota(instance),
            "tcp" | "udp" | "udplite" | "sctp" | "dccp" | "esp" | "ah"
                if instance.options.is_empty() =>
            {
                self.push(false, bare(spec.name));
            }
            "limit" => self.limit(instance),
            "hashlimit" => self.hashlimit(instance),
            "recent" => self.recent(instance),
            "connlimit" => self.connlimit(instance),
            "statistic" => self.statistic(instance),
            "time" => self.time(instance),
            "set" => {
                let taken_out = instance.option("return-nomatch").is_some();
                for option in &instance.options {
                    self.set(option, taken_out);
                }
            }
            _ => {
                let before = self.tests.len();
                // These may drop a packet, and are tried where ports don't fail.
                let is_late =
                    |option: &&Opt| matches!(option.spec.name, "chunk-types" | "tcp-option");
                let (late, first): (Vec<&Opt>, _) = instance.options.iter().partition(is_late);
                for option in first.into_iter().chain(late) {
                    self.option(spec.name, option);
                }
                self.readable_transport(spec.name, rule, before);
            }
        }
    }

    /// A transport module whose tests do not read the transport header (AH of IPv6 aside, none)
    /// still needs one.
    fn readable_transport(&mut self, module: &str, rule: &Rule, before: usize) {
        let reads = self.tests[before..]
            .iter()
            .any(|test| test.cond.needs_transport());
        if matches!(module, "tcp" | "udp" | "udplite" | "sctp" | "dccp")
            && !reads
            && rule.protocol.is_some()
        {
            self.push(false, bare(module));
        }
    }

    /// One option of a module whose options are tests of their own.
    fn option(&mut self, module: &str, option: &Opt) {
        let not = option.negated;
        let cond = match (module, option.spec.name, &option.value) {
            (_, "sport", &Value::Range(a, b)) => Cond::SrcPort(ports(a, b)),
            (_, "dport", &Value::Range(a, b)) => Cond::DstPort(ports(a, b)),
            ("tcp", "tcp-flags", &Value::Masked(value, mask)) => Cond::TcpFlags {
                mask: mask as u8,
                value: value as u8,
            },
            ("tcp", "tcp-option", &Value::Number(kind)) => Cond::TcpOption(kind as u8),
            ("multiport", "sports", Value::Ports(list)) => Cond::SrcPort(port_set(list)),
            ("multiport", "dports", Value::Ports(list)) => Cond::DstPort(port_set(list)),
            ("multiport", "ports", Value::Ports(list)) => Cond::AnyPort(port_set(list)),
            ("icmp" | "icmp6", _, &Value::Icmp(kind, codes)) => Cond::Icmp { kind, codes },
            ("esp", "espspi", &Value::Range(a, b)) => Cond::EspSpi(RangeSet::range(a, b)),
            ("ah", "ahspi", &Value::Range(a, b)) => Cond::AhSpi(RangeSet::range(a, b)),
            ("iprange", "src-range", Value::Addresses(range)) => Cond::Src(address_range(range)),
            ("iprange", "dst-range", Value::Addresses(range)) => Cond::Dst(address_range(range)),
            ("mac", _, &Value::Mac(address)) => Cond::Mac(address),
            ("mark", _, &Value::Masked(value, mask)) => Cond::Mark { value, mask },
            ("connmark", _, &Value::Masked(value, mask)) => Cond::Connmark { value, mask },
            ("length", _, &Value::Range(a, b)) => Cond::Length(ports(a, b)),
            ("tcpmss", _, &Value::Range(a, b)) => Cond::TcpMss(ports(a, b)),
            ("ttl" | "hl", name, &Value::Number(value)) => Cond::Ttl(compare(name, value as u8)),
            ("tos", _, &Value::Masked(value, mask)) => Cond::Tos {
                value: value as u8,
                mask: mask as u8,
            },
            ("dscp", _, &Value::Number(value)) => Cond::Dscp(value as u8),
            ("ecn", "ecn-tcp-ece", _) => Cond::EcnTcp(64),
            ("ecn", "ecn-tcp-cwr", _) => Cond::EcnTcp(128),
            ("ecn", "ecn-ip-ect", &Value::Number(value)) => Cond::EcnIp(value as u8),
            ("pkttype", _, &Value::Number(kind)) => Cond::PacketType(match kind {
                0 => PacketType::Unicast,
                1 => PacketType::Broadcast,
                2 => PacketType::Multicast,
                _ => PacketType::OtherHost,
            }),
            ("rt", "rt-type", &Value::Number(kind)) if kind <= 255 => Cond::RoutingHeader {
                kind: Some(kind as u8),
                segments: (0, u32::MAX),
            },
            ("rt", "rt-segsleft", &Value::Range(a, b)) => Cond::RoutingHeader {
                kind: None,
                segments: (a, b),
            },
            _ => return self.special_option(module, option),
        };
        self.push(not, cond);
    }

    /// Options that can fail or need more than their value.
    fn special_option(&mut self, module: &str, option: &Opt) {
        match module {
            "state" | "conntrack" => self.conntrack(option),
            "addrtype" => self.address_type(option),
            "sctp" => self.chunks(option),
            _ => self.not_taken_up(module, option),
        }
    }

    pub(super) fn not_taken_up(&mut self, module: &str, option: &Opt) {
        let what = format!("`--{}` of `-m {module}`", option.spec.name);
        self.unsupported(option.at.0, &what, "take the option or the rule out");
    }

    fn conntrack(&mut self, option: &Opt) {
        let field = match (option.spec.name, &option.value) {
            ("state" | "ctstate", &Value::Number(bits)) => return self.states(option, bits),
            ("ctproto", &Value::Number(number)) => CtField::Proto(number as u8),
            ("ctorigsrc", Value::Address(address)) => match host(address) {
                Some(host) => CtField::OrigSrc(host.to_match(self.family)),
                None => return self.name_in_option(option),
            },
            ("ctorigdst", Value::Address(address)) => match host(address) {
                Some(host) => CtField::OrigDst(host.to_match(self.family)),
                None => return self.name_in_option(option),
            },
            ("ctreplsrc", Value::Address(address)) => match host(address) {
                Some(host) => CtField::ReplSrc(host.to_match(self.family)),
                None => return self.name_in_option(option),
            },
            ("ctrepldst", Value::Address(address)) => match host(address) {
                Some(host) => CtField::ReplDst(host.to_match(self.family)),
                None => return self.name_in_option(option),
            },
            ("ctorigsrcport", &Value::Range(a, b)) => CtField::OrigSrcPort(ports(a, b)),
            ("ctorigdstport", &Value::Range(a, b)) => CtField::OrigDstPort(ports(a, b)),
            ("ctreplsrcport", &Value::Range(a, b)) => CtField::ReplSrcPort(ports(a, b)),
            ("ctrepldstport", &Value::Range(a, b)) => CtField::ReplDstPort(ports(a, b)),
            ("ctstatus", &Value::Number(bits)) => CtField::Status((bits >> 1) as u8),
            ("ctexpire", &Value::Range(a, b)) => CtField::Expire(a, b),
            ("ctdir", &Value::Number(index)) => CtField::Original(index == 0),
            _ => return self.not_taken_up("conntrack", option),
        };
        self.push(option.negated, Cond::Ct(field));
    }

    fn name_in_option(&mut self, option: &Opt) {
        let message = format!("`--{}` needs an address, not a name", option.spec.name);
        let found = Diagnostic::error("host-name", option.at.0, message);
        self.refused.push(found.help("write the address instead"));
    }

    /// A list of states. SNAT and DNAT are the kernel's: weir asks its connection tracking.
    fn states(&mut self, option: &Opt, bits: u64) {
        // INVALID, NEW, RELATED, ESTABLISHED, UNTRACKED, SNAT, DNAT: the order of their names.
        const MODEL: [u8; 7] = [1, 2, 8, 4, 16, 32, 64];
        let mask = (0..7)
            .filter(|bit| bits >> bit & 1 == 1)
            .fold(0, |mask, bit| mask | MODEL[bit]);
        self.push(option.negated, Cond::State(StateMask(mask)));
    }

    /// Reverse path filter.
    fn route_back(&mut self, instance: &Instance) {
        let has = |name: &str| instance.option(name).is_some();
        let loose = has("loose");
        let back = Cond::RouteBack {
            loose,
            marked: has("validmark"),
        };
        let Some(option) = instance.option("accept-local") else {
            return self.push(has("invert"), back);
        };
        if !loose && self.family == Family::V4 {
            let what = "`--accept-local` without `--loose`";
            let help = "take packets from own addresses (`-m addrtype --src-type LOCAL`) before";
            return self.unsupported(option.at.0, what, help);
        }
        let plain = |cond| Test {
            negate: false,
            cond,
        };
        let own = Cond::SrcType(vec![AddrType::Local]);
        self.push(has("invert"), Cond::Any(vec![plain(back), plain(own)]));
    }

    /// IPsec, as far as there is one policy or none; of which kind it is, is not asked.
    fn ipsec(&mut self, instance: &Instance) {
        let choice = |name: &str| {
            let found = instance
                .options
                .iter()
                .find(|option| option.spec.name == name);
            found.and_then(|option| match option.value {
                Value::Number(index) => Some(index),
                _ => None,
            })
        };
        for option in &instance.options {
            if !matches!(option.spec.name, "dir" | "pol") {
                let what = format!("`--{}` of `-m policy`", option.spec.name);
                let help = "`--dir` and `--pol` are known";
                self.unsupported(option.at.0, &what, help);
            }
        }
        if let (Some(direction), Some(kind)) = (choice("dir"), choice("pol")) {
            self.push(
                kind == 0,
                Cond::Ipsec {
                    out: direction == 1,
                },
            );
        }
    }

    fn address_type(&mut self, option: &Opt) {
        let (&Value::Number(bits), "src-type" | "dst-type") = (&option.value, option.spec.name)
        else {
            return self.not_taken_up("addrtype", option);
        };
        let mut kinds = Vec::new();
        for (bit, name) in small::ADDRESS_TYPES
            .iter()
            .enumerate()
            .filter(|(bit, _)| bits >> bit & 1 == 1)
        {
            kinds.push(match bit {
                1 => AddrType::Unicast,
                2 => AddrType::Local,
                3 => AddrType::Broadcast,
                5 => AddrType::Multicast,
                4 if self.family == Family::V4 => AddrType::Anycast,
                _ => {
                    let what = format!("the address type {name}");
                    let help = "UNICAST, LOCAL, BROADCAST, MULTICAST and IPv4's ANYCAST are known";
                    return self.unsupported(option.at.0, &what, help);
                }
            });
        }
        if self.family == Family::V6 {
            if kinds.contains(&AddrType::Broadcast) {
                let what = "BROADCAST in a rule for IPv6";
                let help = "IPv6 has no broadcast, and ip6tables refuses the rule too";
                return self.unsupported(option.at.0, what, help);
            }
            kinds = kinds_of_ipv6(&kinds);
        }
        let cond = match option.spec.name {
            "src-type" => Cond::SrcType(kinds),
            _ => Cond::DstType(kinds),
        };
        self.push(option.negated, cond);
    }

    /// Membership; `taken_out`: in what `nomatch` entries take out of the set.
    fn set(&mut self, option: &Opt, taken_out: bool) {
        match (option.spec.name, &option.value) {
            ("match-set", Value::Set(used)) => {
                if let Some(set) = self.find_set(&used.name, used.fields.len(), option.at.0) {
                    let kept = self.lowering.created[set.0 as usize].kept;
                    if kept.is_some() && used.fields.first() == Some(&SetField::Dst) {
                        let what = "the destination's Ethernet address";
                        return self.unsupported(option.at.0, what, "test the source's: `src`");
                    }
                    let set = match taken_out {
                        true if self.lowering.changes(set) => {
                            let what = "`--return-nomatch` on a set that rules change";
                            return self.unsupported(option.at.0, what, "make it a set of its own");
                        }
                        true => self.lowering.taken_out(set),
                        false => set,
                    };
                    self.membership(option.negated, set, &used.fields);
                }
            }
            // Whether the kernel's counters of entries move is no concern of the verdict.
            ("update-counters" | "update-subcounters" | "return-nomatch", _) => {}
            _ => self.not_taken_up("set", option),
        }
    }

    /// The set of this name, with enough directions for its dimensions.
    pub(super) fn find_set(&mut self, name: &str, fields: usize, at: Span) -> Option<SetId> {
        let Some(&id) = self.lowering.set_ids.get(name) else {
            let message = format!("there is no set `{name}`");
            let found = Diagnostic::error("unknown-set", at, message)
                .help("give a file of `ipset save` that creates it")
                .did_you_mean(name, self.lowering.set_ids.keys().map(String::as_str));
            self.refused.push(found);
            return None;
        };
        if !self.can_test(name, id, at) {
            return None;
        }
        let set = &self.lowering.sets[id.0 as usize];
        if fields < set.dimensions.len() {
            let message = format!(
                "the set `{name}` has {} dimensions, and {fields} directions are given",
                set.dimensions.len()
            );
            let found = Diagnostic::error("too-few-directions", at, message);
            self.refused
                .push(found.help("write one of src and dst for each dimension"));
            return None;
        }
        if set.family.is_some_and(|family| family != self.family) {
            let message = format!("the set `{name}` holds addresses of the other family");
            let found = Diagnostic::warning("other-family", at, message);
            self.lowering
                .report
                .diagnostics
                .push(found.help("it matches no packet of this file"));
        }
        Some(id)
    }

    fn chunks(&mut self, option: &Opt) {
        match (option.spec.name, &option.value) {
            ("chunk-types", Value::Chunks(chunks)) => {
                let flags = chunks.flags.iter();
                let cond = Cond::SctpChunks {
                    kind: chunks.kind,
                    types: chunks.types,
                    flags: flags
                        .map(|&(kind, mask, value)| ChunkFlags { kind, mask, value })
                        .collect(),
                };
                self.push(option.negated, cond);
            }
            _ => self.not_taken_up("sctp", option),
        }
    }

    /// A test that remembers.
    pub(super) fn history(&mut self, negate: bool, shared: Option<String>, kind: HistoryKind) {
        let id = HistoryId(u32::try_from(self.lowering.histories.len()).unwrap_or(u32::MAX));
        self.lowering.histories.push(HistoryObject { shared, kind });
        self.push(negate, Cond::History(id));
    }
}

/// With `-p ah` no IPv6 packet matches, there as here: the header counts as an extension.
fn asks_for_ah(rule: &Rule) -> bool {
    rule.protocol
        .as_ref()
        .is_some_and(|basic| !basic.negated && basic.value == protocols::AH)
}

/// The test that a transport module without options makes: its header is there and readable.
fn bare(module: &str) -> Cond {
    match module {
        "esp" => Cond::EspSpi(RangeSet::range(0, u32::MAX)),
        "ah" => Cond::AhSpi(RangeSet::range(0, u32::MAX)),
        _ => Cond::SrcPort(RangeSet::range(0, u16::MAX)),
    }
}

fn ports(first: u32, last: u32) -> RangeSet<u16> {
    let port = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    RangeSet::range(port(first), port(last))
}

fn port_set(list: &[(u16, u16)]) -> RangeSet<u16> {
    RangeSet::from_ranges(list.iter().copied())
}

fn address_range(range: &(std::net::IpAddr, std::net::IpAddr)) -> AddrMatch {
    AddrMatch::Ranges(RangeSet::range(bits(range.0), bits(range.1)))
}

fn compare(name: &str, value: u8) -> Cmp {
    match name {
        "ttl-lt" | "hl-lt" => Cmp::Lt(value),
        "ttl-gt" | "hl-gt" => Cmp::Gt(value),
        _ => Cmp::Eq(value),
    }
}

/// What a list of address types means for IPv6. There the kernel looks at the address itself, and
/// asks for all of UNICAST and MULTICAST that are named; UNICAST includes the host's own addresses.
fn kinds_of_ipv6(named: &[AddrType]) -> Vec<AddrType> {
    let has = |kind| named.contains(&kind);
    let (local, multicast) = (has(AddrType::Local), has(AddrType::Multicast));
    match (has(AddrType::Unicast), multicast) {
        (true, true) => Vec::new(),
        (false, true) if local => Vec::new(),
        (false, true) => vec![AddrType::Multicast],
        (true, false) if !local => vec![AddrType::Unicast, AddrType::Local],
        _ => vec![AddrType::Local],
    }
}
