//! Writes a rule set as an IPFilter file, for received packets.
//!
//! In: a [`RuleSet`], whether the first match is to end the search. Out: the text that weir reads
//! as ipf's or HP-UX's, or why it cannot be said. Without `quick` the last match wins, so the rule
//! that accepts everything stands last all the same, and a linear filter compares every packet with
//! every rule, as in HP's measurements. With states, what is sent from here makes one.

use std::fmt::Write;

use super::{Last, Rule, RuleSet};

/// The whole file.
///
/// # Errors
/// What IPFilter cannot say.
pub fn text(set: &RuleSet, quick: bool) -> Result<String, &'static str> {
    let count = set.rules.len();
    let mut out = String::with_capacity(64 * (count + 4));
    let _ = writeln!(
        out,
        "# ipf file by weir-lab: {}, {count} rules, seed {}",
        set.shape, set.seed
    );
    if set.stateful {
        out.push_str("pass out quick proto udp from any to any keep state (age 3600)\n");
    }
    for rule in &set.rules {
        out.push_str(if quick { "block in quick" } else { "block in" });
        write_rule(&mut out, rule, set)?;
    }
    out.push_str(match set.last {
        Last::Accept => "pass in from any to any\n",
        Last::Drop => "block in from any to any\n",
    });
    Ok(out)
}

fn write_rule(out: &mut String, rule: &Rule, set: &RuleSet) -> Result<(), &'static str> {
    if let Some(protocol) = rule.protocol {
        let _ = write!(out, " proto {}", protocol.name());
    }
    let sides = [
        ("from", rule.source, rule.source_ports),
        ("to", rule.destination, rule.destination_ports),
    ];
    for (word, addresses, ports) in sides {
        let addresses = addresses
            .prefix_or_any(set.family)
            .ok_or("ranges of addresses are not written")?;
        let _ = write!(out, " {word} {addresses}");
        match ports {
            None => {}
            Some(ports) if ports.first == ports.last => {
                let _ = write!(out, " port = {}", ports.first);
            }
            // The ends of this form are outside, and ports end at 65535.
            Some(ports) if ports.last == u16::MAX => {
                let _ = write!(out, " port >= {}", ports.first);
            }
            Some(ports) => {
                let _ = write!(out, " port {} >< {}", ports.first - 1, ports.last + 1);
            }
        }
    }
    out.push_str(if rule.syn { " flags S/SA\n" } else { "\n" });
    Ok(())
}
