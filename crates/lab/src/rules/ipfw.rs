//! Writes a rule set as a file of ipfw commands, numbered.
//!
//! In: a [`RuleSet`]. Out: the text that weir reads as ipfw's, or why ipfw cannot say it. Its lists
//! have no direction of their own: like those of the cost note they are met on every pass. With
//! states, `check-state` stands in front, rules are for received packets, and what is sent from
//! here makes a state.

use std::fmt::Write;

use super::{Last, Rule, RuleSet};

/// The number of the last rule of the text.
const LAST_NUMBER: usize = 65_000;
/// States that outlive a measurement, as many as there is room for.
const STATES: &str = "\
# --sysctl net.inet.ip.fw.dyn_udp_lifetime=3600
# --sysctl net.inet.ip.fw.dyn_max=65536
add 1 check-state
add 1 allow udp from any to any out keep-state
";

/// The whole file.
///
/// # Errors
/// What ipfw cannot say.
pub fn text(set: &RuleSet) -> Result<String, &'static str> {
    let count = set.rules.len();
    let mut out = String::with_capacity(64 * (count + 2));
    let _ = writeln!(
        out,
        "# ipfw file by weir-lab: {}, {count} rules, seed {}",
        set.shape, set.seed
    );
    if set.stateful {
        out.push_str(STATES);
    }
    for (at, rule) in set.rules.iter().enumerate() {
        // Longer lists than there are numbers share them, in order.
        let number = 2 + at * (LAST_NUMBER - 2) / count.max(LAST_NUMBER - 2);
        let _ = write!(out, "add {number} deny ");
        write_rule(&mut out, rule, set)?;
    }
    let last = match set.last {
        Last::Accept => "allow",
        Last::Drop => "deny",
    };
    let _ = writeln!(out, "add {LAST_NUMBER} {last} ip from any to any");
    Ok(out)
}

fn write_rule(out: &mut String, rule: &Rule, set: &RuleSet) -> Result<(), &'static str> {
    out.push_str(rule.protocol.map_or("ip", |protocol| protocol.name()));
    let sides = [
        ("from", rule.source, rule.source_ports),
        ("to", rule.destination, rule.destination_ports),
    ];
    for (word, addresses, ports) in sides {
        let addresses = addresses
            .prefix_or_any(set.family)
            .ok_or("ipfw has no ranges of addresses")?;
        let _ = write!(out, " {word} {addresses}");
        if let Some(ports) = ports {
            let _ = write!(out, " {}", ports.text('-'));
        }
    }
    out.push_str(if set.stateful { " in" } else { "" });
    out.push_str(if rule.syn { " setup\n" } else { "\n" });
    Ok(())
}
