//! Writes a rule set for ipset: one set and one iptables rule that looks it up.
//!
//! In: a [`RuleSet`]. Out: `ipset restore` text and the iptables-save file that uses the set. The
//! kernel's set types hold at most a network and a port here (net,port,net is not everywhere), so
//! a destination is left out where there is one: then the set does *less* than the rules say,
//! which [`Sets::lossy`] states and reports repeat. Shapes that would need more are refused.

use std::collections::HashSet;
use std::fmt::Write;

use super::{Addresses, Inexpressible, Last, Protocol, Rule, RuleSet};
use crate::space::Family;

const NAME: &str = "weir_lab";

/// The two texts of the ipset form.
#[derive(Debug, Clone)]
pub struct Sets {
    /// Input of `ipset restore`.
    pub sets: String,
    /// Input of iptables-restore or ip6tables-restore.
    pub rules: String,
    /// What the set does not check though the rules say so.
    pub lossy: Option<&'static str>,
}

/// The set and its one rule.
///
/// # Errors
/// When source network, protocol and destination port cannot tell the rules apart.
pub fn text(set: &RuleSet) -> Result<Sets, Inexpressible> {
    let Some(first) = set.rules.first() else {
        return Err(Inexpressible(
            "there is no rule to put into a set".to_owned(),
        ));
    };
    let all_same = set.rules.iter().all(|rule| rule == first);
    let ports_only =
        |rule: &Rule| rule.source == Addresses::Any && rule.destination == Addresses::Any;
    if all_same && ports_only(first) && first.protocol == Some(Protocol::Tcp) {
        return ports(set, first);
    }
    if all_same && first.protocol.is_none() {
        return networks(set, first);
    }
    networks_and_ports(set)
}

fn ports(set: &RuleSet, rule: &Rule) -> Result<Sets, Inexpressible> {
    let Some(ports) = rule.destination_ports else {
        return Err(Inexpressible(
            "a port set needs a destination port".to_owned(),
        ));
    };
    let sets = format!(
        "create {NAME} bitmap:port range 0-65535\nadd {NAME} {}\n",
        ports.text('-')
    );
    Ok(Sets {
        sets,
        rules: rules(set, "-p tcp", "dst"),
        lossy: None,
    })
}

fn networks(set: &RuleSet, rule: &Rule) -> Result<Sets, Inexpressible> {
    let Addresses::Prefix(prefix) = rule.source else {
        return Err(Inexpressible(
            "a network set needs a source network".to_owned(),
        ));
    };
    let sets = format!(
        "create {NAME} hash:net family {}\nadd {NAME} {}\n",
        family_name(set.family),
        prefix.text(set.family)
    );
    let lossy = (rule.destination != Addresses::Any).then_some("destination not checked");
    Ok(Sets {
        sets,
        rules: rules(set, "", "src"),
        lossy,
    })
}

fn networks_and_ports(set: &RuleSet) -> Result<Sets, Inexpressible> {
    let mut elements = String::with_capacity(48 * set.rules.len());
    let (mut count, mut lossy) = (0_usize, None);
    let mut seen = HashSet::with_capacity(set.rules.len());
    for rule in &set.rules {
        let (Addresses::Prefix(source), Some(ports), Some(protocol), None, false) = (
            rule.source,
            rule.destination_ports,
            rule.protocol,
            rule.source_ports,
            rule.syn,
        ) else {
            let why = "hash:net,port holds a source network, a protocol and destination ports only";
            return Err(Inexpressible(why.to_owned()));
        };
        if source.length == 0 || protocol == Protocol::Esp {
            return Err(Inexpressible(
                "hash:net,port needs a network and ports".to_owned(),
            ));
        }
        if set.shape == super::Shape::Mix || !seen.insert((source, ports, protocol)) {
            // Without its destination such a rule would drop other packets than it says.
            let why = "without destinations the set would drop packets that the rules let pass";
            return Err(Inexpressible(why.to_owned()));
        }
        if rule.destination != Addresses::Any {
            lossy = Some("destination not checked");
        }
        // ipset keeps one element per port of a range.
        count += usize::from(ports.last - ports.first) + 1;
        let _ = writeln!(
            elements,
            "add {NAME} {},{}:{}",
            source.text(set.family),
            protocol.name(),
            ports.text('-')
        );
    }
    let sets = format!(
        "create {NAME} hash:net,port family {} hashsize {} maxelem {}\n{elements}",
        family_name(set.family),
        (count / 2).next_power_of_two().max(64),
        count.max(64)
    );
    Ok(Sets {
        sets,
        rules: rules(set, "", "src,dst"),
        lossy,
    })
}

fn family_name(family: Family) -> &'static str {
    if family == Family::V6 {
        "inet6"
    } else {
        "inet"
    }
}

fn rules(set: &RuleSet, condition: &str, directions: &str) -> String {
    let state = if set.stateful {
        "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
    } else {
        ""
    };
    let last = if set.last == Last::Accept {
        "ACCEPT"
    } else {
        "DROP"
    };
    let space = if condition.is_empty() { "" } else { " " };
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{state}\
         -A INPUT{space}{condition} -m set --match-set {NAME} {directions} -j DROP\n\
         -A INPUT -j {last}\nCOMMIT\n"
    )
}
