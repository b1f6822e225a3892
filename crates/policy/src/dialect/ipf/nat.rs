//! `ipnat.conf`: translation rules, read and printed.
//!
//! In: text. Out: rules that print back. weir translates no addresses, so nothing else is made of
//! them; who wants to apply them is told so. Source: `ipnat(5)`.

use super::ast::{Name, PoolEntry, Side};
use super::lex::lex;
use super::parse::{ParseOptions, parser};
use super::print::{host_text, pool_entry, side_text, word};
use crate::model::{Family, SourceId};
use crate::syntax::{Diagnostic, Place, Span};

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Outbound sources.
    Map,
    /// Outbound sources, in blocks.
    MapBlock,
    /// Inbound destinations.
    Rdr,
    /// One to one, both ways.
    Bimap,
    /// Both ends at once.
    Rewrite,
    /// Into UDP.
    Divert,
}

impl Verb {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::MapBlock => "map-block",
            Self::Rdr => "rdr",
            Self::Bimap => "bimap",
            Self::Rewrite => "rewrite",
            Self::Divert => "divert",
        }
    }
}

/// What to say where a rule would have to translate.
#[must_use]
pub fn refusal(rule: &NatRule) -> Diagnostic {
    Diagnostic::unsupported(rule.at.0, "weir translates no addresses")
        .help("keep the kernel's nat table for this: iptables -t nat or nft")
}

/// Which packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Packets {
    /// By one address, in `rdr` with ports.
    Address(PoolEntry, Option<(u16, u16)>),
    /// By both ends.
    Ends(Box<(Side, Side)>),
}

/// Into what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address or network; `0/32` is the interface's address.
    Net(PoolEntry),
    /// First to last.
    Range(Family, u128, u128),
    /// Two hosts in turn.
    Two(Family, u128, u128),
    /// A list.
    List(Name),
}

/// Words at the end of a rule, in the order in which they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extra {
    /// `portmap PROTO A:B|auto [sequential]`
    Portmap(Name, Option<(u16, u16)>, bool),
    /// `icmpidmap icmp A:B`
    IcmpIdMap(u32, u32),
    /// `proxy port PORT NAME/PROTO`
    ProxyPort(u16, Name, Name, Option<Name>),
    /// `proxy NAME`
    Proxy(Name),
    /// `ports N|auto`
    Ports(Option<u32>),
    /// A protocol.
    Protocol(Name),
    /// `age A[/B]`
    Age(u32, Option<u32>),
    /// `mssclamp N`
    Mssclamp(u32),
    /// `tag NAME`
    Tag(Name),
    /// round-robin, sticky, frag, purge.
    Word(&'static str),
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct NatRule {
    /// Where it is.
    pub at: Place,
    /// What it does.
    pub verb: Verb,
    /// `no`: it excepts packets.
    pub no: bool,
    /// `in` or `out`, of `rewrite` and `divert`.
    pub out: Option<bool>,
    /// Interfaces.
    pub interfaces: Vec<Name>,
    /// Family, when written.
    pub family: Option<Family>,
    /// `proto`, of `rewrite` and `divert`.
    pub proto: Option<Name>,
    /// Which packets.
    pub packets: Packets,
    /// Into what: source and destination for `rewrite` and `divert`, else the first only.
    pub targets: Vec<(Target, Option<(u16, u16)>)>,
    /// The rest.
    pub extras: Vec<Extra>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Rules, in order.
    pub rules: Vec<NatRule>,
}

/// Reads a file.
#[must_use]
pub fn parse(text: &str, source: SourceId) -> (File, Vec<Diagnostic>) {
    let (tokens, diagnostics) = lex(text, source);
    let options = ParseOptions::default();
    let end = Span::new(source, text.len(), text.len());
    let mut parser = parser(&tokens, end, &options, diagnostics);
    let mut file = File::default();
    while parser.peek().is_some() {
        if parser.take_sign(";") || parser.take_assignment() {
            continue;
        }
        match parser.nat_rule() {
            Ok(rule) => file.rules.push(rule),
            Err(found) => {
                parser.diagnostics.push(*found);
                let verbs = [
                    "map",
                    "map-block",
                    "rdr",
                    "bimap",
                    "no",
                    "rewrite",
                    "divert",
                ];
                parser.skip_to(&verbs);
            }
        }
    }
    (file, parser.diagnostics)
}

/// Prints a file.
#[must_use]
pub fn print(file: &File) -> String {
    let lines = file.rules.iter().map(|rule| print_rule(rule) + "\n");
    lines.collect()
}

/// Prints a rule.
#[must_use]
pub fn print_rule(rule: &NatRule) -> String {
    let mut out = String::new();
    if rule.no {
        out += "no ";
    }
    out += rule.verb.word();
    match rule.out {
        Some(true) => out += " out on",
        Some(false) => out += " in on",
        None => {}
    }
    let interfaces: Vec<String> = rule.interfaces.iter().map(|name| word(name)).collect();
    out += &format!(" {}", interfaces.join(","));
    match rule.family {
        Some(Family::V4) => out += " inet",
        Some(Family::V6) => out += " inet6",
        None => {}
    }
    if let Some(proto) = &rule.proto {
        out += &format!(" proto {proto}");
    }
    match &rule.packets {
        Packets::Address(entry, ports) => {
            out += &format!(" {}", pool_entry(entry));
            if let Some(ports) = ports {
                out += &format!(" port {}", range(*ports));
            }
        }
        Packets::Ends(ends) => {
            let (from, to) = (&ends.0, &ends.1);
            let sign = |side: &Side| if side.negate { "! " } else { "" };
            out += &format!(" {}from {}", sign(from), plain(from));
            out += &format!(" {}to {}", sign(to), plain(to));
        }
    }
    let words = ["src", "dst"];
    let both = matches!(rule.verb, Verb::Rewrite | Verb::Divert);
    for (at, (target, ports)) in rule.targets.iter().enumerate() {
        if at == 0 {
            out += " ->";
        }
        if both {
            out += &format!(" {}", words[at.min(1)]);
        }
        out += &format!(" {}", target_text(target));
        if let Some(ports) = ports {
            out += &match both {
                true => format!(",{}", range(*ports)),
                false => format!(" port {}", range(*ports)),
            };
        }
    }
    if rule.verb == Verb::Divert {
        out += " udp";
    }
    for extra in &rule.extras {
        out += &format!(" {}", extra_text(extra));
    }
    if rule.no || both {
        out += ";";
    }
    out
}

/// A side without its `!`, which stands elsewhere here.
fn plain(side: &Side) -> String {
    let mut side = side.clone();
    side.negate = false;
    side_text(&side)
}

fn range((first, last): (u16, u16)) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}

fn target_text(target: &Target) -> String {
    match target {
        Target::Net(entry) => pool_entry(entry),
        Target::Range(family, first, last) => {
            format!(
                "{}-{}",
                host_text(*family, *first),
                host_text(*family, *last)
            )
        }
        Target::Two(family, one, two) => {
            format!("{},{}", host_text(*family, *one), host_text(*family, *two))
        }
        Target::List(name) => format!("dstlist/{}", word(name)),
    }
}

fn extra_text(extra: &Extra) -> String {
    match extra {
        Extra::Portmap(proto, ports, sequential) => {
            let ports = match ports {
                Some((first, last)) => format!("{first}:{last}"),
                None => "auto".to_owned(),
            };
            let sequential = if *sequential { " sequential" } else { "" };
            format!("portmap {proto} {ports}{sequential}")
        }
        Extra::IcmpIdMap(first, last) => format!("icmpidmap icmp {first}:{last}"),
        Extra::ProxyPort(port, name, proto, config) => {
            let config = config
                .as_ref()
                .map(|c| format!(" config {}", word(c)))
                .unwrap_or_default();
            format!("proxy port {port} {}/{proto}{config}", word(name))
        }
        Extra::Proxy(name) => format!("proxy {}", word(name)),
        Extra::Ports(Some(number)) => format!("ports {number}"),
        Extra::Ports(None) => "ports auto".to_owned(),
        Extra::Protocol(name) => name.to_string(),
        Extra::Age(forward, None) => format!("age {forward}"),
        Extra::Age(forward, Some(reverse)) => format!("age {forward}/{reverse}"),
        Extra::Mssclamp(size) => format!("mssclamp {size}"),
        Extra::Tag(name) => format!("tag {}", word(name)),
        Extra::Word(word) => (*word).to_owned(),
    }
}
