//! Writes a rule set as an `iptables-save` (or `ip6tables-save`) file with everything in INPUT.
//!
//! In: a [`RuleSet`]. Out: the text that iptables-restore, iptables-nft-restore and weir read.
//! Every rule set can be written here. Options stand in the order in which iptables-save prints
//! them; see iptables(8) and iptables-extensions(8).

use std::fmt::Write;

use super::{Addresses, Last, Rule, RuleSet};
use crate::space::Family;

/// The whole file.
pub fn text(set: &RuleSet) -> String {
    let mut out = String::with_capacity(96 * (set.rules.len() + 10));
    let tool = if set.family == Family::V6 {
        "ip6tables-save"
    } else {
        "iptables-save"
    };
    let count = set.rules.len();
    let _ = writeln!(
        out,
        "# {tool} file by weir-lab: {}, {count} rules, seed {}\n*filter\n:INPUT ACCEPT [0:0]\n\
         :FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]",
        set.shape, set.seed
    );
    if set.stateful {
        out.push_str("-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
    }
    for rule in &set.rules {
        write_rule(&mut out, rule, set);
    }
    out.push_str(match set.last {
        Last::Accept => "-A INPUT -j ACCEPT\nCOMMIT\n",
        Last::Drop => "-A INPUT -j DROP\nCOMMIT\n",
    });
    out
}

fn write_rule(out: &mut String, rule: &Rule, set: &RuleSet) {
    let family = set.family;
    out.push_str("-A INPUT");
    for (option, addresses) in [("-s", rule.source), ("-d", rule.destination)] {
        if let Addresses::Prefix(prefix) = addresses {
            // A prefix of no bits is every address, which iptables-save does not print.
            if prefix.length > 0 {
                let _ = write!(out, " {option} {}", prefix.text(family));
            }
        }
    }
    if let Some(protocol) = rule.protocol {
        let _ = write!(out, " -p {}", protocol.name());
    }
    let ranges = [
        ("--src-range", rule.source),
        ("--dst-range", rule.destination),
    ];
    if ranges
        .iter()
        .any(|(_, addresses)| matches!(addresses, Addresses::Range(..)))
    {
        out.push_str(" -m iprange");
    }
    for (option, addresses) in ranges {
        if let Addresses::Range(first, last) = addresses {
            let _ = write!(
                out,
                " {option} {}-{}",
                family.text(first),
                family.text(last)
            );
        }
    }
    if let Some(protocol) = rule.protocol {
        let ports = [
            ("--sport", rule.source_ports),
            ("--dport", rule.destination_ports),
        ];
        if rule.syn || ports.iter().any(|(_, ports)| ports.is_some()) {
            let _ = write!(out, " -m {}", protocol.name());
        }
        for (option, ports) in ports {
            if let Some(ports) = ports {
                let _ = write!(out, " {option} {}", ports.text(':'));
            }
        }
        if rule.syn {
            out.push_str(" --tcp-flags FIN,SYN,RST,ACK SYN");
        }
    }
    if set.stateful {
        out.push_str(" -m conntrack --ctstate NEW");
    }
    out.push_str(" -j DROP\n");
}
