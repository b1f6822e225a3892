//! What can be said of a whole rule: conditions of HP-UX limits, words that cannot act.

use super::super::ast::{Action, Direction, Proto, Return, Rule};
use super::super::words;
use super::{Parsed, Parser};
use crate::dialect::iptables::names::protocols;
use crate::model::Family;
use crate::syntax::{Diagnostic, Span};

/// Bytes of an option that the original doesn't look at.
const SHORT_OPTION: u8 = 4;
/// `port-unr` of ICMP (RFC 792).
const PORT_UNREACHABLE: u8 = 3;

impl Parser<'_, '_, '_> {
    pub(super) fn check_rule(&mut self, product: &[Rule], at: Span) -> Parsed<()> {
        let Some(rule) = product.first() else {
            return Ok(());
        };
        self.check_limit(rule, at)?;
        self.check_answer(rule, at);
        self.check_ports(rule, at);
        self.check_versions(rule, at);
        self.check_kept(product, at);
        if rule.action == Action::Count && rule.keep_state.is_some() {
            let message = "a count rule makes no state".to_owned();
            self.warn(
                "no-effect",
                at,
                message,
                "take `keep state` out, or use `pass`",
            );
        }
        Ok(())
    }

    fn check_answer(&mut self, rule: &Rule, at: Span) {
        if rule.keep_limit.is_some() || rule.answer.is_none() {
            return;
        }
        if rule.direction == Direction::Out && rule.answer != Some(Return::Rst) {
            let message = "an outbound packet is not answered, only dropped".to_owned();
            self.warn(
                "no-answer",
                at,
                message,
                "a program that sends UDP gets an error, one that connects waits: `return-rst` \
                 tells that one; block what comes in to answer others",
            );
        } else if rule.answer == Some(Return::Rst)
            && rule.fields().and_then(|fields| fields.proto) != Some(Proto::Number(protocols::TCP))
        {
            let message = "only TCP packets are answered with a reset".to_owned();
            self.warn("no-answer", at, message, "write `proto tcp`");
        }
        let code = match rule.answer {
            Some(Return::Icmp(code) | Return::IcmpAsDest(code)) => code,
            _ => 0,
        };
        // To ask for the code that IPv6 packets get anyhow is no mistake.
        let differs = code != 0 && code != PORT_UNREACHABLE;
        if differs && rule.family != Some(Family::V4) && rule.direction == Direction::In {
            let message = "the codes are IPv4's: to IPv6 packets the answer is port unreachable";
            let help = match rule.family {
                Some(_) => "leave the code out, or write `port-unr`",
                None => "say it in a rule of its own for IPv4, with `family inet`",
            };
            self.warn("no-answer", at, message.to_owned(), help);
        }
    }

    /// What other versions take otherwise.
    fn check_versions(&mut self, rule: &Rule, at: Span) {
        if rule.action == Action::Log && rule.quick {
            let message = "4.1 ends the evaluation here; 5.1 goes on behind it, and so does weir";
            let help = "take `quick` out, or say `set log_quick_ends 1;`";
            self.warn("differs", at, message.to_owned(), help);
        }
        let asked = rule.fields().map_or(0, |fields| fields.with.options);
        let is_short =
            |(at, row): (usize, &words::IpOption)| asked >> at & 1 != 0 && row.size <= SHORT_OPTION;
        // `ipopts` and the like name none, and most rules don't ask.
        if asked != 0 && words::IP_OPTIONS.iter().enumerate().any(is_short) {
            let message = "neither 4.1 nor 5.1 sees options of four bytes or less; weir does";
            let help = "`weir ipftest -T short_options_unseen=1` judges as they do";
            self.warn("differs", at, message.to_owned(), help);
        }
    }

    /// What becomes of ICMP messages that no state can begin with.
    fn check_kept(&mut self, product: &[Rule], at: Span) {
        let kept = |rule: &&Rule| rule.keep_state.is_some() && rule.action != Action::Count;
        let lost = product.iter().filter(kept).find_map(|rule| {
            let fields = rule.fields()?;
            let (kind, _) = fields.icmp?;
            let family = match fields.proto {
                Some(Proto::Number(protocols::ICMPV6)) => Family::V6,
                _ => Family::V4,
            };
            (!words::begins_state(family, kind)).then_some((rule, kind))
        });
        let Some((rule, kind)) = lost else { return };
        let outcome = match (rule.quick, &rule.action) {
            (true, _) => "the rule counts as not matched",
            (false, Action::Pass) => "they are blocked",
            (false, _) => return,
        };
        let message = format!("no state begins with ICMP messages of type {kind}: {outcome}");
        let help = "take `keep state` out; errors of a tracked flow pass by its state";
        self.warn("no-state", at, message, help);
    }

    fn check_ports(&mut self, rule: &Rule, at: Span) {
        let Some(fields) = rule.fields() else { return };
        let ports = fields.source.port.is_some() || fields.destination.port.is_some();
        let other = match fields.proto {
            Some(Proto::Number(number)) => ![protocols::TCP, protocols::UDP].contains(&number),
            _ => false,
        };
        if ports && other {
            let message = "only TCP and UDP have ports: this matches nothing".to_owned();
            self.warn("never-matches", at, message, "take the ports out");
        }
        for port in [fields.source.port, fields.destination.port]
            .into_iter()
            .flatten()
        {
            if port.ports().is_empty() {
                let message = "no port fulfils this condition".to_owned();
                self.warn("never-matches", at, message, "`a >< b` excludes both ends");
            }
        }
    }

    /// The conditions of HP-UX's connection limits.
    fn check_limit(&mut self, rule: &Rule, at: Span) -> Parsed<()> {
        let fault = |message: &str, help: &str| {
            Err(Box::new(
                Diagnostic::error("keep-limit", at, message).help(help),
            ))
        };
        let log_limit = rule.log.is_some_and(|log| log.limit.is_some());
        if rule.keep_limit.is_none() {
            if log_limit {
                return fault("`log limit` needs `keep limit`", "use plain `log`");
            }
            let pass_rst = rule.action == Action::Pass && rule.answer.is_some();
            if pass_rst {
                let message = "`pass return-rst` needs `keep limit`";
                return fault(message, "take `return-rst` out, or use `block`");
            }
            return Ok(());
        }
        let fields = rule.fields();
        let tcp = fields.and_then(|f| f.proto) == Some(Proto::Number(protocols::TCP));
        match () {
            () if rule.action != Action::Pass => fault("a limit is for `pass`", "write `pass`"),
            () if rule.direction == Direction::Out => {
                fault("a limit is for inbound rules", "write `in`")
            }
            () if !rule.quick => fault("a limit needs `quick`", "write `quick` behind `in`"),
            () if !tcp => fault("a limit is for TCP only", "write `proto tcp`"),
            () if rule.keep_state.is_some() => {
                fault("`keep limit` keeps state itself", "take `keep state` out")
            }
            () if fields.is_some_and(|f| f.source.port.is_some()) => {
                fault("a limit can't look at the source port", "take it out")
            }
            () => Ok(()),
        }
    }
}
