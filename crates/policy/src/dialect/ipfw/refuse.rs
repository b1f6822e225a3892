//! What ipfw has and weir can't honour: said by name, with what to use instead.
//!
//! In: a command that was read. Out: located messages of the kind "unsupported". Everything is
//! parsed and printed first, so that a file can be looked at and converted by hand.

use super::ast::{Action, Instruction, LookupKey, Pattern, Rule};
use super::command::{Command, CommandLine, NatCommand};
use crate::syntax::{Diagnostic, Span};

fn refuse(span: Span, what: &str, instead: &str) -> Diagnostic {
    Diagnostic::unsupported(span, format!("{what} can't be honoured here")).help(instead)
}

/// What of a command can't be honoured.
#[must_use]
pub fn refusals(line: &CommandLine) -> Vec<Diagnostic> {
    match &line.command {
        Command::Add(rule) => of_rule(rule),
        Command::Nat(NatCommand::Config(..)) => vec![refuse(
            line.span,
            "`nat ... config`: weir translates no addresses and",
            "translate with nftables or iptables -t nat, and leave the nat rules out",
        )],
        Command::Module(name) => vec![refuse(
            line.span,
            &format!("`{name}`"),
            "use Jool or tayga for IPv6 translation, nftables for prefixes",
        )],
        Command::Internal(_) => vec![refuse(
            line.span,
            "`internal`",
            "it shows the inside of FreeBSD's kernel; see weir status",
        )],
        _ => Vec::new(),
    }
}

fn of_rule(rule: &Rule) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let action = of_action(&rule.action);
    if let Some((what, instead)) = action {
        out.push(refuse(rule.action_place.0, what, instead));
    }
    if rule.altq.is_some() {
        out.push(refuse(
            rule.modifier_place.0,
            "`altq`",
            "use a pipe or queue, or tc's own classes",
        ));
    }
    for one in &rule.body {
        out.extend(of_pattern(one));
    }
    if rule.action == Action::Reass {
        out.push(
            Diagnostic::note(
                "reass",
                rule.action_place.0,
                "`reass` does nothing here: fragments are put together before they are judged",
            )
            .help("it may stay"),
        );
    }
    out
}

fn of_action(action: &Action) -> Option<(&'static str, &'static str)> {
    Some(match action {
        Action::Divert(_) => (
            "`divert`",
            "for natd use nftables nat; for other programs an NFQUEUE rule of nftables",
        ),
        Action::Tee(_) => ("`tee`", "use an NFLOG rule of nftables, or tcpdump"),
        Action::Forward { .. } => (
            "`fwd`",
            "for a local proxy use TPROXY of nftables, for another next hop `ip rule` and a table",
        ),
        Action::Netgraph(_) | Action::Ngtee(_) => {
            ("`netgraph`", "use tc or a program on a tap interface")
        }
        Action::Nat(_) => (
            "`nat`",
            "translate with nftables or iptables -t nat, which work beside weir",
        ),
        Action::SetFib(_) => ("`setfib`", "use `ip rule` with marks (setmark), or a VRF"),
        Action::External(name, _) => match name.as_str() {
            "nptv6" => ("`nptv6`", "use nftables' prefix translation"),
            "nat64lsn" | "nat64stl" | "nat64clat" => ("`nat64`", "use Jool or tayga"),
            _ => ("`eaction`", "there are no action modules here"),
        },
        _ => return None,
    })
}

fn of_pattern(one: &Instruction) -> Option<Diagnostic> {
    let (what, instead) = match &one.pattern {
        Pattern::Diverted(_) => ("`diverted`", "nothing is diverted here; leave the rule out"),
        Pattern::Jail(_) => ("`jail`", "use network namespaces, each with its own policy"),
        Pattern::SockArg => ("`sockarg`", "mark the socket (SO_MARK) and test mark"),
        Pattern::Ipsec => ("`ipsec`", "use an nftables rule with `meta ipsec exists`"),
        Pattern::Fib(_) => (
            "`fib`",
            "use `ip rule` with marks, or a VRF and its interface",
        ),
        Pattern::Lookup {
            key: LookupKey::Jail,
            ..
        } => ("`lookup jail`", "use network namespaces"),
        _ => return None,
    };
    Some(refuse(one.place.0, what, instead))
}
