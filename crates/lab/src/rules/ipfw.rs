//! Writes a rule set as a file of ipfw commands, numbered, with everything judged on input.
//!
//! In: a [`RuleSet`]. Out: the text that weir reads as ipfw's, or why ipfw cannot say it. Its lists
//! have no direction of their own: like those of the cost note they are met on every pass.

use std::fmt::Write;

use super::{Addresses, Last, Rule, RuleSet};

/// The number of the last rule of the text.
const LAST_NUMBER: usize = 65_000;

/// The whole file.
///
/// # Errors
/// What ipfw cannot say.
pub fn text(set: &RuleSet) -> Result<String, &'static str> {
    if set.stateful {
        return Err("ipfw's states are not those of this family");
    }
    let count = set.rules.len();
    let mut out = String::with_capacity(64 * (count + 2));
    let _ = writeln!(
        out,
        "# ipfw file by weir-lab: {}, {count} rules, seed {}",
        set.shape, set.seed
    );
    for (at, rule) in set.rules.iter().enumerate() {
        // Longer lists than there are numbers share them, in order.
        let number = 1 + at * (LAST_NUMBER - 1) / count.max(LAST_NUMBER - 1);
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
        let _ = match addresses {
            Addresses::Prefix(prefix) if prefix.length > 0 => {
                write!(out, " {word} {}", prefix.text(set.family))
            }
            Addresses::Range(..) => return Err("ipfw has no ranges of addresses"),
            _ => write!(out, " {word} any"),
        };
        if let Some(ports) = ports {
            let _ = write!(out, " {}", ports.text('-'));
        }
    }
    out.push_str(if rule.syn { " setup\n" } else { "\n" });
    Ok(())
}
