//! What can be said of a whole rule: conditions of HP-UX limits, words that cannot act.

use super::super::ast::{Action, Direction, Proto, Return, Rule};
use super::{Parsed, Parser};
use crate::dialect::iptables::names::protocols;
use crate::syntax::{Diagnostic, Span};

impl Parser<'_, '_, '_> {
    pub(super) fn check_rule(&mut self, product: &[Rule], at: Span) -> Parsed<()> {
        let Some(rule) = product.first() else {
            return Ok(());
        };
        self.check_limit(rule, at)?;
        self.check_answer(rule, at);
        self.check_ports(rule, at);
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
        if rule.direction == Direction::Out {
            let message = "an outbound packet is not answered, only dropped".to_owned();
            self.warn(
                "no-answer",
                at,
                message,
                "a program that sends UDP gets an error, one that connects waits; \
                 block what comes back, or where it comes from, to answer",
            );
        } else if rule.answer == Some(Return::Rst)
            && rule.fields().and_then(|fields| fields.proto) != Some(Proto::Number(protocols::TCP))
        {
            let message = "only TCP packets are answered with a reset".to_owned();
            self.warn("no-answer", at, message, "write `proto tcp`");
        }
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
