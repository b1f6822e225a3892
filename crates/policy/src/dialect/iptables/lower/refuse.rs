//! Rules that cannot be honoured: refused, or left out where that cannot make the policy more
//! open.
//!
//! A rule may be left out when all it could do is accept (in the filter table, so that the packet
//! goes on to the rules that follow) or note. A rule that could drop, reject, return, go
//! elsewhere or change the packet, its flow or a memory is refused: without it, a later rule
//! could accept what this one would have kept out.

use super::super::ast::{BuiltIn, Instance, Target};
use super::tables::{Entry, TableState};
use super::{Affected, Lowering, Treatment};
use crate::model::Table;
use crate::syntax::{Diagnostic, Severity};

/// Targets that leave packet, flow and verdict alone.
const NOTES: &[&str] = &[
    "LOG",
    "NFLOG",
    "ULOG",
    "AUDIT",
    "TRACE",
    "LED",
    "IDLETIMER",
    "TEE",
];

/// Matches that change a memory which other rules read.
const SHARED_MEMORY: &[&str] = &[
    "recent",
    "hashlimit",
    "connlabel",
    "quota",
    "nfacct",
    "rateest",
];

const ELSEWHERE: &str = "take the rule out, or leave it to iptables beside weir";

/// What to do instead of a match that is refused.
pub(super) fn advice_for_match(name: &str) -> &'static str {
    match name {
        "helper" => "protocol helpers (FTP, SIP ...) are not provided",
        "bpf" => "write it as `-m u32` or `-m string`, or leave it to iptables beside weir",
        "connbytes" | "rateest" => "bytes of connections are not counted: shape with `tc` instead",
        "cluster" => "spread packets by `-m statistic --mode nth`, or leave it to iptables",
        "socket" => "proxies of this kind need `-j TPROXY`, which is left to iptables",
        "dst" | "hbh" | "frag" | "srh" | "mh" | "eui64" => {
            "of IPv6 headers `-m ipv6header` and `-m rt` are known: leave it to ip6tables beside weir"
        }
        _ => ELSEWHERE,
    }
}

/// What to do instead of a target that is refused.
pub(super) fn advice_for_target(name: &str) -> &'static str {
    match name {
        "SYNPROXY" => {
            "sysctl net.ipv4.tcp_syncookies=2 answers for this host's own services; for others \
             leave the rule to iptables beside weir"
        }
        "TPROXY" => "leave it to iptables beside weir: only it hands packets to other sockets",
        "NFQUEUE" | "QUEUE" => "leave it to iptables beside weir, which has queues to programs",
        "TEE" => "mirror with `tc` (action mirred), or leave it to iptables beside weir",
        "AUDIT" => "use `-j NFLOG`, and read it with `weir log`",
        "IDLETIMER" | "LED" => "use `-j NFLOG`, and let a program of `weir log` do it",
        "ECN" | "TCPOPTSTRIP" => {
            "headers of TCP are changed by -j TCPMSS only: leave it to iptables"
        }
        "HMARK" => "mark by `-m statistic --mode nth`, or leave it to iptables beside weir",
        "SECMARK" | "CONNSECMARK" => "labels are SELinux's: leave the rule to iptables beside weir",
        "DNPT" | "SNPT" | "CLUSTERIP" | "MIRROR" => {
            "weir translates no addresses: leave it to iptables"
        }
        "ULOG" => "use `-j NFLOG`",
        "RATEEST" => "rates are not estimated: use `-m hashlimit`, or `tc`",
        _ => ELSEWHERE,
    }
}

/// Whether leaving the rule out can only make the policy stricter.
pub(super) fn only_opens(table: &TableState<'_>, entry: &Entry<'_>) -> bool {
    let own = match &entry.rule.target {
        Some(Target::Verdict(BuiltIn::Return, _) | Target::Goto(..)) => false,
        _ => rule_only_opens(table, entry),
    };
    own && entry
        .jump
        .is_none_or(|chain| chain_only_opens(table, chain))
}

/// Whether all that a rule itself can do is to accept, to note, or to lead elsewhere.
fn rule_only_opens(table: &TableState<'_>, entry: &Entry<'_>) -> bool {
    let shared = |instance: &Instance| SHARED_MEMORY.contains(&instance.spec.name);
    if entry.rule.matches.iter().any(shared) {
        return false;
    }
    match &entry.rule.target {
        None => true,
        Some(Target::Verdict(BuiltIn::Accept, _)) => table.table == Table::Filter,
        Some(Target::Verdict(BuiltIn::Drop, _)) => false,
        Some(Target::Verdict(BuiltIn::Return, _)) => true,
        Some(Target::Module(instance)) => NOTES.contains(&instance.spec.name),
        Some(Target::Jump(..) | Target::Goto(..)) => entry.jump.is_some(),
    }
}

/// Whether everything that a called chain can do is to accept or to note. RETURN in it leads back
/// to the rule after the call, as does leaving the call out.
fn chain_only_opens(table: &TableState<'_>, chain: usize) -> bool {
    let mut seen = vec![false; table.chains.len()];
    let mut open = vec![chain];
    while let Some(chain) = open.pop() {
        if std::mem::replace(&mut seen[chain], true) {
            continue;
        }
        for entry in table.chains[chain]
            .rules
            .iter()
            .map(|index| &table.entries[index])
        {
            if !rule_only_opens(table, entry) {
                return false;
            }
            open.extend(entry.jump);
        }
    }
    true
}

impl Lowering<'_> {
    /// Deals with a rule for which `reasons` were found.
    pub(super) fn refuse(
        &mut self,
        table: &TableState<'_>,
        entry: &Entry<'_>,
        reasons: Vec<Diagnostic>,
    ) {
        let reason = reasons
            .iter()
            .map(|found| found.message.as_str())
            .collect::<Vec<_>>()
            .join("; ");
        let leave_out = self.options.allow_unsupported
            && reasons.iter().all(Diagnostic::is_unsupported)
            && only_opens(table, entry);
        let treatment = if leave_out {
            Treatment::LeftOut
        } else {
            Treatment::Refused
        };
        if reasons.iter().any(Diagnostic::is_unsupported) {
            self.report.affected.push(Affected {
                at: entry.at,
                reason,
                treatment,
            });
        }
        for mut found in reasons {
            if leave_out {
                found.severity = Severity::Warning;
                found.help = Some("the rule is left out: it never matches".to_owned());
            } else if self.options.allow_unsupported && found.is_unsupported() {
                found.help = Some(
                    "without this rule the policy could be more open, so it is refused".to_owned(),
                );
            }
            self.report.diagnostics.push(found);
        }
    }
}
