//! Writes a rule set for nft: rule by rule, or in nft's own best form, one set of concatenations.
//!
//! In: a [`RuleSet`]. Out: text for `nft -f`. The best form uses only the fields that some rule
//! constrains, drops repeated rules (a set holds an element once), and leaves hashing or the
//! interval structure to nft. It refuses what an element cannot say (TCP flags). Overlapping
//! elements are written as they are: nft itself refuses them. See nft(8).

use std::collections::HashSet;
use std::fmt::Write;

use super::{Addresses, Inexpressible, Last, Ports, Rule, RuleSet};
use crate::space::{Address, Family};

const TABLE: &str = "weir_lab";

/// One nft rule per rule.
pub fn rules(set: &RuleSet) -> String {
    let mut out = String::with_capacity(96 * (set.rules.len() + 10));
    open(&mut out, set, "");
    for rule in &set.rules {
        out.push_str("    ");
        write_rule(&mut out, rule, set);
    }
    close(&mut out, set);
    out
}

/// One set (hash or intervals) that holds all rules.
///
/// # Errors
/// When a rule has a condition that no element can carry.
pub fn map(set: &RuleSet) -> Result<String, Inexpressible> {
    if set.rules.iter().any(|rule| rule.syn) {
        return Err(Inexpressible(
            "an nft set element cannot hold TCP flags".to_owned(),
        ));
    }
    let fields = Fields::used_by(&set.rules);
    let mut seen = HashSet::with_capacity(set.rules.len());
    let mut elements = String::with_capacity(64 * set.rules.len());
    for rule in &set.rules {
        if seen.insert(*rule) {
            let separator = if elements.is_empty() { "" } else { ",\n" };
            let _ = write!(
                elements,
                "{separator}      {}",
                fields.element(rule, set.family)
            );
        }
    }
    if elements.is_empty() || fields.is_empty() {
        return Err(Inexpressible("no rule constrains any field".to_owned()));
    }
    let flags = if fields.needs_intervals(&set.rules, set.family) {
        "    flags interval\n"
    } else {
        ""
    };
    let definition = format!(
        "  set deny {{\n    type {}\n{flags}    elements = {{\n{elements}\n    }}\n  }}\n",
        fields.types(set.family)
    );
    let mut out = String::with_capacity(definition.len() + 400);
    open(&mut out, set, &definition);
    let new = if set.stateful { "ct state new " } else { "" };
    let _ = writeln!(out, "    {new}{} @deny drop", fields.key(set.family));
    close(&mut out, set);
    Ok(out)
}

/// What has to come first in a text that replaces the rules which are there, in one transaction.
pub fn removal(set: &RuleSet) -> String {
    let layer = layer(set.family);
    format!("add table {layer} {TABLE}\ndelete table {layer} {TABLE}\n")
}

fn open(out: &mut String, set: &RuleSet, definitions: &str) {
    let layer = if set.family == Family::V6 {
        "ip6"
    } else {
        "ip"
    };
    let _ = write!(
        out,
        "table {layer} {TABLE} {{\n{definitions}  chain input {{\n    \
         type filter hook input priority filter; policy accept;\n"
    );
    if set.stateful {
        out.push_str("    ct state established,related accept\n");
    }
}

fn close(out: &mut String, set: &RuleSet) {
    let verdict = if set.last == Last::Accept {
        "accept"
    } else {
        "drop"
    };
    let _ = writeln!(out, "    {verdict}\n  }}\n}}");
}

fn layer(family: Family) -> &'static str {
    if family == Family::V6 { "ip6" } else { "ip" }
}

fn write_rule(out: &mut String, rule: &Rule, set: &RuleSet) {
    let family = set.family;
    for (direction, addresses) in [("saddr", rule.source), ("daddr", rule.destination)] {
        match addresses {
            Addresses::Prefix(prefix) if prefix.length > 0 => {
                let _ = write!(
                    out,
                    "{} {direction} {} ",
                    layer(family),
                    prefix.text(family)
                );
            }
            Addresses::Range(first, last) => {
                let (first, last) = (family.text(first), family.text(last));
                let _ = write!(out, "{} {direction} {first}-{last} ", layer(family));
            }
            _ => {}
        }
    }
    if let Some(protocol) = rule.protocol {
        let name = protocol.name();
        if rule.source_ports.is_none() && rule.destination_ports.is_none() {
            let _ = write!(out, "meta l4proto {name} ");
        }
        for (side, ports) in [
            ("sport", rule.source_ports),
            ("dport", rule.destination_ports),
        ] {
            if let Some(ports) = ports {
                let _ = write!(out, "{name} {side} {} ", ports.text('-'));
            }
        }
        if rule.syn {
            out.push_str("tcp flags & (fin | syn | rst | ack) == syn ");
        }
    }
    if set.stateful {
        out.push_str("ct state new ");
    }
    out.push_str("drop\n");
}

/// Which fields a concatenation has to hold.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    source: bool,
    destination: bool,
    protocol: bool,
    source_ports: bool,
    destination_ports: bool,
}

impl Fields {
    fn used_by(rules: &[Rule]) -> Fields {
        let any = |condition: &dyn Fn(&Rule) -> bool| rules.iter().any(condition);
        Fields {
            source: any(&|rule| rule.source != Addresses::Any),
            destination: any(&|rule| rule.destination != Addresses::Any),
            protocol: any(&|rule| rule.protocol.is_some()),
            source_ports: any(&|rule| rule.source_ports.is_some()),
            destination_ports: any(&|rule| rule.destination_ports.is_some()),
        }
    }

    fn is_empty(self) -> bool {
        let addresses = self.source || self.destination;
        let ports = self.source_ports || self.destination_ports;
        !addresses && !ports && !self.protocol
    }

    /// The parts of the fields in use, in key order.
    fn join(self, parts: [String; 5]) -> String {
        let used = [
            self.source,
            self.destination,
            self.protocol,
            self.source_ports,
            self.destination_ports,
        ];
        let chosen: Vec<_> = used
            .into_iter()
            .zip(parts)
            .filter_map(|(used, part)| used.then_some(part))
            .collect();
        chosen.join(" . ")
    }

    fn types(self, family: Family) -> String {
        let address = if family == Family::V6 {
            "ipv6_addr"
        } else {
            "ipv4_addr"
        };
        let parts = [
            address,
            address,
            "inet_proto",
            "inet_service",
            "inet_service",
        ];
        self.join(parts.map(str::to_owned))
    }

    fn key(self, family: Family) -> String {
        let layer = layer(family);
        self.join([
            format!("{layer} saddr"),
            format!("{layer} daddr"),
            "meta l4proto".to_owned(),
            "th sport".to_owned(),
            "th dport".to_owned(),
        ])
    }

    fn element(self, rule: &Rule, family: Family) -> String {
        let ports = |ports: Option<Ports>| {
            ports
                .unwrap_or(Ports {
                    first: 0,
                    last: u16::MAX,
                })
                .text('-')
        };
        self.join([
            address_element(rule.source, family),
            address_element(rule.destination, family),
            rule.protocol
                .map_or("0-255".to_owned(), |protocol| protocol.number().to_string()),
            ports(rule.source_ports),
            ports(rule.destination_ports),
        ])
    }

    /// Whether an element needs anything but single values.
    fn needs_intervals(self, rules: &[Rule], family: Family) -> bool {
        let wide = |addresses| match addresses {
            Addresses::Any => true,
            Addresses::Prefix(prefix) => prefix.length < family.width(),
            Addresses::Range(first, last) => first != last,
        };
        let many = |ports: Option<Ports>| ports.is_none_or(|ports| ports.first != ports.last);
        rules.iter().any(|rule| {
            self.source && wide(rule.source)
                || self.destination && wide(rule.destination)
                || self.protocol && rule.protocol.is_none()
                || self.source_ports && many(rule.source_ports)
                || self.destination_ports && many(rule.destination_ports)
        })
    }
}

fn address_element(addresses: Addresses, family: Family) -> String {
    let range = |first: Address, last: Address| {
        if first == last {
            family.text(first)
        } else {
            format!("{}-{}", family.text(first), family.text(last))
        }
    };
    match addresses {
        Addresses::Any => range(0, family.last()),
        // nft takes no prefix of zero bits inside a concatenation.
        Addresses::Prefix(prefix) if prefix.length == 0 => range(0, family.last()),
        Addresses::Prefix(prefix) if prefix.length == family.width() => family.text(prefix.base),
        Addresses::Prefix(prefix) => prefix.text(family),
        Addresses::Range(first, last) => range(first, last),
    }
}
