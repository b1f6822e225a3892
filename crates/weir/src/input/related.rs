//! Where a policy leans on RELATED for more than weir's tracking gives.
//!
//! In: a policy. Out: a note at the first rule that asks for RELATED, naming the protocols with a
//! helper in the kernel whose ports the rules mention. RELATED means ICMP errors here; connections
//! that FTP, SIP and the like announce inside their own traffic are NEW.

use weir_policy::model::{Cond, CtState, Flow, Origin, Policy, Rule, Verdict};
use weir_policy::syntax::{Diagnostic, Sources, Span};

/// Ports of the protocols that the kernel has helpers for (`nf_conntrack_*` modules).
const HELPED: [(u16, &str); 9] = [
    (21, "FTP"),
    (69, "TFTP"),
    (137, "NetBIOS"),
    (1720, "H.323"),
    (1723, "PPTP"),
    (5060, "SIP"),
    (6566, "SANE"),
    (6667, "IRC"),
    (10080, "Amanda"),
];
/// A set of more ports than this does not mean any single one of them.
const PORTS_MEANT_MAX: u32 = 16;

/// The note, where there is something to say.
pub fn note(policy: &Policy, sources: &Sources) -> Option<Diagnostic> {
    let rules = || policy.chains.iter().flat_map(|chain| &chain.rules);
    let first = rules().find(|rule| asks_for_related(rule))?;
    let mut helped: Vec<(&str, Origin)> = Vec::new();
    for rule in rules() {
        let refuses = matches!(rule.flow, Flow::Verdict(Verdict::Drop | Verdict::Reject(_)));
        // Who refuses a protocol does not lean on its helper.
        for name in helped_by(rule).into_iter().filter(|_| !refuses) {
            if !helped.iter().any(|(known, _)| *known == name) {
                helped.push((name, rule.origin));
            }
        }
    }
    let span = span(first.origin, sources)?;
    let names: Vec<String> = helped
        .iter()
        .map(|(name, origin)| format!("{name} (line {})", origin.line))
        .collect();
    let message = match names.is_empty() {
        true => "RELATED means ICMP errors about known connections".to_owned(),
        false => format!(
            "RELATED means ICMP errors here; data connections of {} are NEW",
            names.join(", ")
        ),
    };
    let note = Diagnostic::note("related", span, message);
    Some(note.help("connections announced inside FTP, SIP and the like need rules of their own"))
}

fn asks_for_related(rule: &Rule) -> bool {
    rule.tests.iter().any(|test| match test.cond {
        Cond::State(mask) => !test.negate && mask.0 & CtState::Related as u8 != 0,
        _ => false,
    })
}

/// Protocols whose port a rule names.
fn helped_by(rule: &Rule) -> Vec<&'static str> {
    let mut names = Vec::new();
    for test in rule.tests.iter().filter(|test| !test.negate) {
        let (Cond::DstPort(ports) | Cond::AnyPort(ports)) = &test.cond else {
            continue;
        };
        let meant: u32 = ports
            .ranges()
            .iter()
            .map(|r| u32::from(r.1 - r.0) + 1)
            .sum();
        if meant <= PORTS_MEANT_MAX {
            let named = HELPED.iter().filter(|(port, _)| ports.contains(*port));
            names.extend(named.map(|(_, name)| *name));
        }
    }
    names
}

/// The whole line of a rule.
pub(super) fn span(origin: Origin, sources: &Sources) -> Option<Span> {
    let source = sources.get(origin.source)?;
    let start = source.line_start(origin.line);
    let end = start + source.line_text(origin.line).len();
    Some(Span::new(origin.source, start, end))
}
