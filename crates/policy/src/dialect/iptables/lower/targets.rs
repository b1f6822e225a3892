//! The target of a rule as operations and control flow.

use super::super::ast::{BuiltIn, Instance, Target};
use super::super::grammar::Tier;
use super::super::names::small;
use super::super::value::Value;
use super::matches::Tests;
use super::tables::Entry;
use crate::model::{
    ChainId, Family, Flow, LogOp, MarkShift, MssOp, NflogOp, Op, RejectKind, TtlOp, Verdict,
};
use crate::syntax::Diagnostic;

/// Operations and where evaluation goes.
pub(super) type Action = (Vec<Op>, Flow);

fn number(instance: &Instance, name: &str) -> Option<u32> {
    match instance.option(name)?.value {
        Value::Number(number) => u32::try_from(number).ok(),
        _ => None,
    }
}

fn text(instance: &Instance, name: &str) -> String {
    match instance.option(name).map(|option| &option.value) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn has(instance: &Instance, name: &str) -> bool {
    instance.option(name).is_some()
}

impl Tests<'_, '_> {
    /// The action of a rule; `chain` is the chain that it jumps to.
    pub(super) fn action(&mut self, entry: &Entry<'_>, chain: Option<ChainId>) -> Action {
        let flow = match (&entry.rule.target, chain) {
            (None, _) => Flow::Next,
            (Some(Target::Verdict(BuiltIn::Accept, _)), _) => Flow::Verdict(Verdict::Accept),
            (Some(Target::Verdict(BuiltIn::Drop, _)), _) => Flow::Verdict(Verdict::Drop),
            (Some(Target::Verdict(BuiltIn::Return, _)), _) => Flow::Return,
            (Some(Target::Jump(..)), Some(chain)) => Flow::Jump(chain),
            (Some(Target::Goto(..)), Some(chain)) => Flow::Goto(chain),
            // An unresolved chain was reported, so that there will be no policy.
            (Some(Target::Jump(..) | Target::Goto(..)), None) => Flow::Verdict(Verdict::Drop),
            (Some(Target::Module(instance)), _) => return self.module(instance),
        };
        (Vec::new(), flow)
    }

    fn module(&mut self, instance: &Instance) -> Action {
        let name = instance.spec.name;
        if name == "FLOWOFFLOAD" {
            let message = "connections are not handed to the network card";
            self.note(
                instance,
                message,
                "the rule matches and counts, and packets go on",
            );
            return (Vec::new(), Flow::Next);
        }
        if instance.spec.tier == Tier::Known || name == "SYNPROXY" {
            let help = super::refuse::advice_for_target(name);
            self.unsupported(instance.at.0, &format!("`-j {name}`"), help);
            return (Vec::new(), Flow::Next);
        }
        if name == "REJECT" {
            return (
                Vec::new(),
                Flow::Verdict(Verdict::Reject(self.reject(instance))),
            );
        }
        let ops = match name {
            "LOG" => vec![self.log(instance)],
            "NFLOG" => vec![nflog(instance)],
            "MARK" => masked(instance, "set-xmark")
                .map(|(value, mask)| Op::SetMark { value, mask })
                .into_iter()
                .collect(),
            "CONNMARK" => connmark(instance).into_iter().collect(),
            "CT" => self.ct(instance),
            "NOTRACK" => vec![Op::Notrack],
            "DSCP" => number(instance, "set-dscp")
                .map(|v| Op::SetDscp(v as u8))
                .into_iter()
                .collect(),
            "TOS" => masked(instance, "set-tos")
                .map(|(value, mask)| Op::SetTos {
                    value: value as u8,
                    mask: mask as u8,
                })
                .into_iter()
                .collect(),
            "CLASSIFY" => number(instance, "set-class")
                .map(Op::Classify)
                .into_iter()
                .collect(),
            "TCPMSS" => vec![Op::TcpMss(match number(instance, "set-mss") {
                Some(mss) => MssOp::Set(mss as u16),
                None => MssOp::ClampToPmtu,
            })],
            "TTL" | "HL" => self.ttl(instance),
            "SET" => {
                self.set_target(instance);
                Vec::new()
            }
            "CHECKSUM" => {
                self.note(
                    instance,
                    "checksums are left alone",
                    "a work-around for old DHCP clients",
                );
                Vec::new()
            }
            "TRACE" => {
                self.note(
                    instance,
                    "TRACE does nothing here",
                    "use `weir explain` with the packet",
                );
                Vec::new()
            }
            _ => {
                let help = "take the rule out, or leave it to iptables beside weir";
                self.unsupported(instance.at.0, &format!("`-j {name}`"), help);
                Vec::new()
            }
        };
        (ops, Flow::Next)
    }

    fn ttl(&mut self, instance: &Instance) -> Vec<Op> {
        let amount = |suffix: &str| {
            let name = match instance.spec.name {
                "TTL" => format!("ttl-{suffix}"),
                _ => format!("hl-{suffix}"),
            };
            number(instance, &name).map(|number| number as u8)
        };
        let op = amount("set")
            .map(TtlOp::Set)
            .or(amount("inc").map(TtlOp::Raise))
            .or(amount("dec").map(TtlOp::Lower));
        op.map(Op::Ttl).into_iter().collect()
    }

    fn note(&mut self, instance: &Instance, message: &str, help: &str) {
        let found = Diagnostic::note("no-effect", instance.at.0, message).help(help);
        self.lowering.report.diagnostics.push(found);
    }

    fn reject(&mut self, instance: &Instance) -> RejectKind {
        let kind = text(instance, "reject-with");
        let table = match self.family {
            Family::V4 => small::REJECT_V4,
            Family::V6 => small::REJECT_V6,
        };
        match (
            table.iter().find(|row| row.0 == kind).and_then(|row| row.2),
            self.family,
        ) {
            (Some(code), Family::V4) => RejectKind::Icmp(code),
            (Some(code), Family::V6) => RejectKind::Icmp6(code),
            (None, _) => RejectKind::TcpReset,
        }
    }

    fn log(&mut self, instance: &Instance) -> Op {
        if let Some(option) = instance.option("log-macdecode") {
            let message = "`--log-macdecode` is left out: Ethernet addresses are not taken apart";
            let found = Diagnostic::warning("no-effect", option.at.0, message);
            self.lowering
                .report
                .diagnostics
                .push(found.help("the rest of the record is complete"));
        }
        Op::Log(LogOp {
            level: number(instance, "log-level").unwrap_or(4) as u8,
            prefix: text(instance, "log-prefix"),
            tcp_sequence: has(instance, "log-tcp-sequence"),
            tcp_options: has(instance, "log-tcp-options"),
            ip_options: has(instance, "log-ip-options"),
            uid: has(instance, "log-uid"),
            or_block: false,
            of_verdict: false,
        })
    }

    fn ct(&mut self, instance: &Instance) -> Vec<Op> {
        let mut ops = Vec::new();
        for option in &instance.options {
            match option.spec.name {
                "notrack" => ops.push(Op::Notrack),
                "helper" => {
                    let message = "protocol helpers (FTP, SIP ...) are not provided";
                    let found = Diagnostic::warning("helper", option.at.0, message).help(
                        "connections that only a helper would call RELATED need rules of their own",
                    );
                    self.lowering.report.diagnostics.push(found);
                }
                "ctevents" | "expevents" => {
                    let message = format!("`--{}` does nothing here", option.spec.name);
                    let found = Diagnostic::note("no-effect", option.at.0, message);
                    self.lowering
                        .report
                        .diagnostics
                        .push(found.help("weir sends no such events"));
                }
                name => {
                    let what = format!("`--{name}` of `-j CT`");
                    self.unsupported(option.at.0, &what, "take the option or the rule out");
                }
            }
        }
        ops
    }
}

fn masked(instance: &Instance, name: &str) -> Option<(u32, u32)> {
    match instance.option(name)?.value {
        Value::Masked(value, mask) => Some((value, mask)),
        _ => None,
    }
}

fn connmark(instance: &Instance) -> Option<Op> {
    let right = has(instance, "right-shift-mark");
    let bits = number(instance, "left-shift-mark").or(number(instance, "right-shift-mark"));
    let shift = MarkShift {
        right,
        bits: bits.unwrap_or(0) as u8,
    };
    if let Some((value, mask)) = masked(instance, "set-xmark") {
        return Some(Op::SetConnmark { value, mask, shift });
    }
    let nf_mask = number(instance, "nfmask")?;
    let ct_mask = number(instance, "ctmask")?;
    Some(match has(instance, "save-mark") {
        true => Op::SaveConnmark {
            nf_mask,
            ct_mask,
            shift,
        },
        false => Op::RestoreConnmark {
            nf_mask,
            ct_mask,
            shift,
        },
    })
}

fn nflog(instance: &Instance) -> Op {
    Op::Nflog(NflogOp {
        group: number(instance, "nflog-group").unwrap_or(0) as u16,
        prefix: text(instance, "nflog-prefix"),
        size: number(instance, "nflog-size").unwrap_or(0),
        threshold: number(instance, "nflog-threshold").unwrap_or(1) as u16,
    })
}
