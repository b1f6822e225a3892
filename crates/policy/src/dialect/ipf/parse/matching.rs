//! What a packet must be: family, tos, ttl, protocol, ends, flags, ICMP; or a program.

use super::super::ast::{Fields, Matching, Name, Proto, Rule, Side};
use super::super::lex::Kind;
use super::super::words;
use super::address::HPUX_FAMILIES;
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::dialect::iptables::names::protocols;
use crate::model::Family;
use crate::syntax::{Diagnostic, Span};

/// The field tests of a rule, made when first asked for.
pub(super) fn fields(rule: &mut Rule) -> &mut Fields {
    if !matches!(rule.matching, Matching::Fields(_)) {
        rule.matching = Matching::Fields(Box::default());
    }
    match &mut rule.matching {
        Matching::Fields(fields) => fields,
        _ => unreachable!("it was just made"),
    }
}

/// One of the two sides of a rule.
pub(super) fn side(rule: &mut Rule, source: bool) -> &mut Side {
    let fields = fields(rule);
    match source {
        true => &mut fields.source,
        false => &mut fields.destination,
    }
}

impl Parser<'_, '_, '_> {
    pub(super) fn matching(&mut self, product: &mut Product) -> Parsed<()> {
        self.family(product)?;
        for (word, family) in [("bpf-v4", Family::V4), ("bpf-v6", Family::V6)] {
            let other = |rule: &Rule| rule.family.is_some_and(|known| known != family);
            if self.is(word) && product.iter().any(other) {
                let message = "a program for the other family";
                let found = Diagnostic::error("family", self.here(), message);
                return Err(Box::new(found.help("leave the family out")));
            }
            if self.take_word(word) {
                let (text, _) = self.program()?;
                each(product, |rule| {
                    rule.family = Some(family);
                    rule.matching = Matching::Bpf(family, text.clone());
                });
                return Ok(());
            }
        }
        if self.is("exp") && self.is_sign_at(1, "{") {
            self.take();
            let (text, at) = self.program()?;
            return self.expression(product, &text, at);
        }
        self.small(product, "tos", |fields, value| fields.tos = Some(value))?;
        self.small(product, "ttl", |fields, value| fields.ttl = Some(value))?;
        self.protocol(product)?;
        self.ends(product)?;
        self.flags(product)?;
        self.icmp(product)
    }

    /// `{ "text" }`
    fn program(&mut self) -> Parsed<(Name, Span)> {
        self.expect_sign("{", "before the program")?;
        let at = self.here();
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Quoted) else {
            return Err(self.expected("a program in quotes"));
        };
        self.take();
        self.expect_sign("}", "after the program")?;
        Ok((Name::from(&*token.text), at))
    }

    fn family(&mut self, product: &mut Product) -> Parsed<()> {
        let start = self.here();
        let word = self.take_word("family");
        let family = match self.take_one_of(&["inet", "inet6"]) {
            Some("inet") => Family::V4,
            Some(_) => Family::V6,
            None if word => return Err(self.expected("`inet` or `inet6`")),
            None => return Ok(()),
        };
        if self.hpux() {
            let message = "HP-UX has no such word: its families are in two files";
            let found = Diagnostic::error("family", self.since(start), message);
            return Err(Box::new(found.help(HPUX_FAMILIES)));
        }
        if self.family.is_some_and(|given| given != family) {
            let message = "this file is read as the other family's";
            let found = Diagnostic::error("family", self.since(start), message);
            return Err(Box::new(
                found.help("leave the family out, or leave out -6"),
            ));
        }
        let at = self.since(start);
        each(product, |rule| rule.family = Some(family));
        let more = ["tos", "ttl", "proto", "from", "to"];
        if word && !more.iter().any(|next| self.is(next)) {
            let message = "5.1 forgets the family of a rule that asks for nothing else".to_owned();
            self.warn("differs", at, message, "weir keeps it, as the manual says");
        }
        Ok(())
    }

    /// `tos` and `ttl`: a number or a list.
    fn small(
        &mut self,
        product: &mut Product,
        word: &'static str,
        set: impl Fn(&mut Fields, u8),
    ) -> Parsed<()> {
        if !self.take_word(word) {
            return Ok(());
        }
        let values = self.list_of("a number up to 255", |parser| {
            parser.number_or_hex("a number up to 255", 255)
        })?;
        self.multiply(product, &values, |rule, value| {
            set(fields(rule), u8::try_from(*value).unwrap_or(u8::MAX));
        })
    }

    /// One value, or a list of them in either brackets, commas optional.
    pub(super) fn list_of<T>(
        &mut self,
        what: &str,
        mut read: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let start = self.here();
        let Some(close) = self.list_start() else {
            return Ok(vec![read(self)?]);
        };
        let mut values = Vec::new();
        loop {
            if self.take_sign(close) {
                if values.is_empty() {
                    let found = Diagnostic::error("empty-list", self.since(start), "empty list");
                    return Err(Box::new(found.help(format!("put {what} into it"))));
                }
                return Ok(values);
            }
            values.push(read(self)?);
            if self.take_sign(",") && self.is_sign(close) {
                return Err(self.expected(what));
            }
        }
    }

    fn protocol(&mut self, product: &mut Product) -> Parsed<()> {
        if !self.take_word("proto") {
            return Ok(());
        }
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            let mut found = *self.expected("a protocol");
            if self.is_sign("{") || self.is_sign("(") {
                found = found.help("write one rule for each protocol, or `tcp/udp`");
            }
            return Err(Box::new(found));
        };
        let proto = if self.is("tcp") && self.is_sign_at(1, "/") && self.is_at(2, "udp") {
            self.next += 3;
            Proto::TcpUdp
        } else if self.take_word("tcp-udp") {
            Proto::TcpUdp
        } else if token.text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = self.number("a protocol number", 255)?;
            Proto::Number(u8::try_from(number).unwrap_or(u8::MAX))
        } else {
            self.take();
            match protocols::number(&token.text) {
                Some(number) => Proto::Number(number),
                None => {
                    let message = format!("unknown protocol `{}`", token.text);
                    let found = Diagnostic::error("unknown-protocol", token.at, message)
                        .help("use its number")
                        .did_you_mean(&token.text, protocols::names());
                    return Err(Box::new(found));
                }
            }
        };
        if self.is_sign("/") {
            let found = Diagnostic::error("syntax", self.here(), "only `tcp/udp` has a slash");
            return Err(Box::new(found.help("write one rule for each protocol")));
        }
        each(product, |rule| fields(rule).proto = Some(proto));
        Ok(())
    }

    fn ends(&mut self, product: &mut Product) -> Parsed<()> {
        if self.take_word("all") {
            return Ok(());
        }
        if self.take_word("from") {
            self.object(product, true)?;
        } else if !self.is("to") {
            return Ok(());
        }
        if self.take_word("to") {
            self.object(product, false)?;
        }
        Ok(())
    }

    fn flags(&mut self, product: &mut Product) -> Parsed<()> {
        let start = self.here();
        if !self.take_word("flags") {
            return Ok(());
        }
        let tcp = product.iter_mut().all(|rule| {
            rule.fields()
                .is_some_and(|fields| fields.proto == Some(Proto::Number(protocols::TCP)))
        });
        if !tcp {
            let found = Diagnostic::error("flags", start, "only TCP has flags");
            return Err(Box::new(
                found.help("write `proto tcp` in front of the addresses"),
            ));
        }
        let value = match self.is_sign("/") {
            true => None,
            false => Some(self.flag_set()?),
        };
        let mask = match self.take_sign("/") {
            true => self.flag_set()?,
            false => words::FLAGS_DEFAULT_MASK,
        };
        let value = value.unwrap_or(0);
        if value & !mask != 0 {
            let at = self.since(start);
            let message = "flags outside the mask can never match".to_owned();
            self.warn("never-matches", at, message, "put them into the mask too");
        }
        each(product, |rule| fields(rule).flags = Some((value, mask)));
        Ok(())
    }

    fn flag_set(&mut self) -> Parsed<u8> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("TCP flags"));
        };
        if token.text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number_or_hex("TCP flags as a number", 255)?;
            return Ok(u8::try_from(number).unwrap_or(u8::MAX));
        }
        let mut set = 0;
        for (at, letter) in token.text.char_indices() {
            match words::FLAG_LETTERS.find(letter) {
                Some(bit) => set |= 1 << bit,
                None => {
                    let place = token.at.part(at, at + letter.len_utf8());
                    let message = format!("`{letter}` is no TCP flag");
                    let found = Diagnostic::error("bad-flags", place, message);
                    let help = "the flags are F S R P A U E C, in capital letters";
                    return Err(Box::new(found.help(help)));
                }
            }
        }
        self.take();
        Ok(set)
    }

    fn icmp(&mut self, product: &mut Product) -> Parsed<()> {
        let start = self.here();
        let six = self.is("icmpv6-type");
        if !self.take_word("icmp-type") && !self.take_word("icmpv6-type") {
            return Ok(());
        }
        if six && !self.hpux() {
            let found = Diagnostic::error("hpux-only", start, "`icmpv6-type` is HP-UX's word");
            let help = "write `proto ipv6-icmp` and `icmp-type`, or use --dialect hpux";
            return Err(Box::new(found.help(help)));
        }
        let family = self.icmp_family(product, start, six)?;
        let kinds = self.list_of("an ICMP type", |parser| parser.icmp_type(family))?;
        let codes = match self.take_word("code") {
            true => self.list_of("an ICMP code", |parser| parser.icmp_code().map(Some))?,
            false => vec![None],
        };
        self.multiply(product, &kinds, |rule, kind| {
            rule.family = Some(family);
            fields(rule).icmp = Some((*kind, None));
        })?;
        self.multiply(product, &codes, |rule, code| {
            if let Some((_, slot)) = &mut fields(rule).icmp {
                *slot = *code;
            }
        })
    }

    /// The family of an ICMP rule is that of its protocol.
    fn icmp_family(&self, product: &Product, at: Span, six: bool) -> Parsed<Family> {
        let fault = |message: &str, help: &str| {
            let found = Diagnostic::error("icmp-type", at, message);
            Err(Box::new(found.help(help)))
        };
        let proto = product.first().and_then(|rule| rule.fields()?.proto);
        let family = match proto {
            Some(Proto::Number(protocols::ICMP)) if !six => Family::V4,
            Some(Proto::Number(protocols::ICMPV6)) => Family::V6,
            _ if six => return fault("this needs `proto ipv6-icmp`", "add it before `from`"),
            _ => return fault("`icmp-type` needs `proto icmp`", "add it before `from`"),
        };
        let other = |rule: &Rule| rule.family.is_some_and(|known| known != family);
        if product.iter().any(other) {
            let message = "the addresses and the protocol are of different families";
            let help = match self.hpux() {
                true => HPUX_FAMILIES,
                false => "use `proto icmp` with IPv4 and `proto ipv6-icmp` with IPv6",
            };
            return fault(message, help);
        }
        Ok(family)
    }

    fn icmp_type(&mut self, family: Family) -> Parsed<u8> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("an ICMP type"));
        };
        if token.text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number("an ICMP type", 255)?;
            return Ok(u8::try_from(number).unwrap_or(u8::MAX));
        }
        self.take();
        words::icmp_type(family, &token.text).ok_or_else(|| {
            let message = format!("unknown ICMP type `{}`", token.text);
            let names = words::icmp_types(family).iter().map(|row| row.1);
            let found = Diagnostic::error("unknown-icmp-type", token.at, message)
                .help("use its number")
                .did_you_mean(&token.text, names);
            Box::new(found)
        })
    }

    pub(super) fn icmp_code(&mut self) -> Parsed<u8> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("an ICMP code"));
        };
        if token.text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number("an ICMP code", 255)?;
            return Ok(u8::try_from(number).unwrap_or(u8::MAX));
        }
        self.take();
        words::icmp_code(&token.text).ok_or_else(|| {
            let message = format!("unknown ICMP code `{}`", token.text);
            let found = Diagnostic::error("unknown-icmp-code", token.at, message)
                .help("use its number")
                .did_you_mean(&token.text, words::ICMP_CODES);
            Box::new(found)
        })
    }
}
