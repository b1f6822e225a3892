//! The expression language: `exp { "ip.src = 10.0.0.0/8; tcp.dport != 22,23;" }`.

use super::super::ast::{Ends, Matching, Name, Rule, Term, TermTest, bits, ones};
use super::address::prefix;
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::dialect::ipf::words;
use crate::dialect::iptables::names::protocols;
use crate::model::{Family, RangeSet};
use crate::syntax::{Diagnostic, Span};
use std::net::IpAddr;

/// The fields, as written.
static FIELDS: [&str; 16] = [
    "ip.src",
    "ip.dst",
    "ip.addr",
    "ip.p",
    "ip6.src",
    "ip6.dst",
    "ip6.addr",
    "ip6.p",
    "tcp.port",
    "tcp.sport",
    "tcp.dport",
    "tcp.flags",
    "tcp.state",
    "udp.port",
    "udp.sport",
    "udp.dport",
];

impl Parser<'_, '_, '_> {
    pub(super) fn expression(
        &mut self,
        product: &mut Product,
        text: &Name,
        at: Span,
    ) -> Parsed<()> {
        let mut terms = Vec::new();
        for part in text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            terms.push(term(part).map_err(|message| {
                let found = Diagnostic::error("expression", at, message);
                Box::new(found.help("write `field = value, value;`, for example tcp.dport = 22;"))
            })?);
        }
        if terms.is_empty() {
            let found = Diagnostic::error("expression", at, "an expression without terms");
            return Err(Box::new(found.help("write `field = value;`")));
        }
        let mut families = terms.iter().filter_map(|term| match term.test {
            TermTest::Address(family, ..) => Some(family),
            _ => None,
        });
        let family = families.next();
        let fixed = product.iter().filter_map(|rule| rule.family);
        if let Some(family) = family
            && families.chain(fixed).any(|other| other != family)
        {
            let message = "fields of one family in a rule of the other";
            let found = Diagnostic::error("family", at, message);
            return Err(Box::new(
                found.help("write one rule for IPv4 and one for IPv6"),
            ));
        }
        each(product, |rule: &mut Rule| {
            rule.family = family.or(rule.family);
            rule.matching = Matching::Expression(terms.clone());
        });
        Ok(())
    }
}

fn term(text: &str) -> Result<Term, String> {
    let Some((left, right)) = text.split_once('=') else {
        return Err(format!("`{text}` has no `=`"));
    };
    let (left, negate) = match left.trim_end().strip_suffix('!') {
        Some(left) => (left, true),
        None => (left, false),
    };
    let left = left.trim();
    if left.eq_ignore_ascii_case("idle-gt") {
        return Err("`idle-gt` is for listings of states only".to_owned());
    }
    let field = FIELDS
        .into_iter()
        .find(|field| field.eq_ignore_ascii_case(left))
        .ok_or_else(|| format!("unknown field `{left}`"))?;
    let values: Vec<Name> = right.split(',').map(|v| Name::from(v.trim())).collect();
    let test = test(field, &values)?;
    Ok(Term {
        field,
        negate,
        values,
        test,
    })
}

fn test(field: &str, values: &[Name]) -> Result<TermTest, String> {
    let (layer, what) = field.split_once('.').unwrap_or((field, ""));
    let ends = match what {
        "src" | "sport" => Ends::Source,
        "dst" | "dport" => Ends::Destination,
        _ => Ends::Either,
    };
    match (layer, what) {
        (_, "p") => {
            let numbers = values.iter().map(|value| protocol(value));
            let numbers = numbers.collect::<Result<Vec<u8>, String>>()?;
            let ranges = numbers.into_iter().map(|number| (number, number));
            Ok(TermTest::Protocol(RangeSet::from_ranges(ranges)))
        }
        ("ip" | "ip6", _) => {
            let family = if layer == "ip" {
                Family::V4
            } else {
                Family::V6
            };
            let nets = values.iter().map(|value| net(family, value));
            Ok(TermTest::Address(
                family,
                ends,
                nets.collect::<Result<_, String>>()?,
            ))
        }
        (_, "flags") => {
            let flags = values.iter().map(|value| flags(value));
            Ok(TermTest::Flags(flags.collect::<Result<_, String>>()?))
        }
        (_, "state") => match values
            .iter()
            .all(|v| v.parse::<u8>().is_ok_and(|n| n <= 11))
        {
            true => Ok(TermTest::StateOnly),
            false => Err("`tcp.state` is a number from 0 to 11".to_owned()),
        },
        _ => {
            let ports = values.iter().map(|value| {
                let port = value.parse::<u16>();
                port.map(|port| (port, port))
                    .map_err(|_| format!("`{value}` is no port"))
            });
            let ports = ports.collect::<Result<Vec<_>, String>>()?;
            let number = if layer == "tcp" {
                protocols::TCP
            } else {
                protocols::UDP
            };
            Ok(TermTest::Port(number, ends, RangeSet::from_ranges(ports)))
        }
    }
}

fn protocol(value: &str) -> Result<u8, String> {
    let number = value.parse().ok().or_else(|| protocols::number(value));
    number.ok_or_else(|| format!("unknown protocol `{value}`"))
}

fn net(family: Family, value: &str) -> Result<(u128, u128), String> {
    let fault = || format!("`{value}` is no address of this family");
    let (address, length) = value
        .split_once('/')
        .map_or((value, None), |(a, l)| (a, Some(l)));
    let (found, address) = address.parse::<IpAddr>().map(bits).map_err(|_| fault())?;
    let mask = match length {
        None => ones(family),
        Some(length) => {
            let most = if family == Family::V4 { 32 } else { 128 };
            let length = length.parse::<u32>().ok().filter(|l| *l <= most);
            prefix(family, length.ok_or_else(fault)?)
        }
    };
    match found == family {
        true => Ok((address & mask, mask)),
        false => Err(fault()),
    }
}

fn flags(value: &str) -> Result<(u8, u8), String> {
    let set = |text: &str| {
        text.chars().try_fold(0u8, |set, letter| {
            let bit = words::FLAG_LETTERS.find(letter);
            bit.map(|bit| set | 1 << bit)
                .ok_or_else(|| format!("`{letter}` is no TCP flag"))
        })
    };
    match value.split_once('/') {
        Some((flags, mask)) => Ok((set(flags)?, set(mask)?)),
        None => Ok((set(value)?, words::FLAGS_DEFAULT_MASK)),
    }
}
