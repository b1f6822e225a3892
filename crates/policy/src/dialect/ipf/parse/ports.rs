//! `port`: comparisons, ranges and lists.

use super::super::ast::{Port, Proto, Rule};
use super::super::lex::Kind;
use super::super::words;
use super::matching::side;
use super::rule::Product;
use super::{Parsed, Parser};
use crate::dialect::iptables::names::{Transport, protocols};
use crate::syntax::Diagnostic;

impl Parser<'_, '_, '_> {
    /// Ports of a side, if they come next.
    pub(super) fn ports(&mut self, product: &mut Product, source: bool) -> Parsed<()> {
        if !self.take_word("port") {
            return Ok(());
        }
        let proto = product.first().and_then(|rule| rule.fields()?.proto);
        if let Some(comparison) = self.comparison() {
            let list = self.is_sign("{") || self.is_sign("(");
            if comparison != "=" || !list {
                let value = self.port_number(proto)?;
                let port = compared(comparison, value);
                return self.set_ports(product, source, &[port]);
            }
            let ports = self.list_of("a port", |parser| parser.port_of_list(proto))?;
            return self.set_ports(product, source, &ports);
        }
        let first = self.port_number(proto)?;
        let port = match self.port_range(first, proto)? {
            Some(port) => port,
            None => {
                let mut found = self.expected("`<>`, `><` or `:` after the first port");
                found.help = Some(format!("one port alone is `port = {first}`"));
                return Err(found);
            }
        };
        self.set_ports(product, source, &[port])
    }

    fn set_ports(&self, product: &mut Product, source: bool, ports: &[Port]) -> Parsed<()> {
        self.multiply(product, ports, |rule: &mut Rule, port| {
            side(rule, source).port = Some(*port);
        })
    }

    fn comparison(&mut self) -> Option<&'static str> {
        for sign in ["=", "!=", "<=", ">=", "<", ">"] {
            if self.take_sign(sign) {
                return Some(sign);
            }
        }
        let word = self.take_one_of(&["eq", "ne", "lt", "gt", "le", "ge"])?;
        Some(match word {
            "eq" => "=",
            "ne" => "!=",
            "lt" => "<",
            "gt" => ">",
            "le" => "<=",
            _ => ">=",
        })
    }

    /// The second half of a range, if one comes.
    fn port_range(&mut self, first: u16, proto: Option<Proto>) -> Parsed<Option<Port>> {
        for sign in ["><", "<>", ":"] {
            if self.take_sign(sign) {
                let last = self.port_number(proto)?;
                return Ok(Some(match sign {
                    "><" => Port::Between(first, last),
                    "<>" => Port::Outside(first, last),
                    _ => Port::Span(first, last),
                }));
            }
        }
        Ok(None)
    }

    fn port_of_list(&mut self, proto: Option<Proto>) -> Parsed<Port> {
        let first = self.port_number(proto)?;
        if self.is_sign("<>") {
            let found = Diagnostic::error("syntax", self.here(), "no `<>` inside a list");
            return Err(Box::new(
                found.help("use `:` or `><`, or a rule of its own"),
            ));
        }
        Ok(self.port_range(first, proto)?.unwrap_or(Port::Equal(first)))
    }

    fn port_number(&mut self, proto: Option<Proto>) -> Parsed<u16> {
        let Some(token) = self.peek().filter(|token| token.kind != Kind::Sign) else {
            return Err(self.expected("a port"));
        };
        if token.text.bytes().all(|byte| byte.is_ascii_digit()) && !token.text.is_empty() {
            let number = self.number("a port", 65535)?;
            return Ok(u16::try_from(number).unwrap_or(u16::MAX));
        }
        self.take();
        let fault = |message: String, help: &str| {
            let found = Diagnostic::error("unknown-service", token.at, message);
            Err(Box::new(found.help(help)))
        };
        let of = |transport| words::service(&token.text, Some(transport));
        let found = match proto {
            Some(Proto::Number(protocols::TCP)) => of(Transport::Tcp),
            Some(Proto::Number(protocols::UDP)) => of(Transport::Udp),
            _ => match (of(Transport::Tcp), of(Transport::Udp)) {
                (Some(tcp), Some(udp)) if tcp != udp => {
                    let message = format!("`{}` is another port for TCP than for UDP", token.text);
                    return fault(message, "write the number");
                }
                (tcp, udp) => tcp.or(udp),
            },
        };
        match found {
            Some(port) => Ok(port),
            None if token.text.contains('-')
                && token
                    .text
                    .split('-')
                    .all(|part| part.parse::<u16>().is_ok()) =>
            {
                fault(
                    format!("`{}` is no range of ports", token.text),
                    "write the first and the last port with a colon between: 80:90",
                )
            }
            None => fault(
                format!("unknown service `{}`", token.text),
                "write its number",
            ),
        }
    }
}

fn compared(comparison: &str, port: u16) -> Port {
    match comparison {
        "=" => Port::Equal(port),
        "!=" => Port::NotEqual(port),
        "<" => Port::Less(port),
        ">" => Port::Greater(port),
        "<=" => Port::LessEqual(port),
        _ => Port::GreaterEqual(port),
    }
}
