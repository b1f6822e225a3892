//! The `with` clause.

use super::super::ast::With;
use super::super::lex::Kind;
use super::super::words;
use super::matching::fields;
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::syntax::Diagnostic;

impl Parser<'_, '_, '_> {
    pub(super) fn with_clause(&mut self, product: &mut Product) -> Parsed<()> {
        let mut with = With::default();
        let mut found = false;
        while self.take_word("with") || self.take_word("and") {
            found = true;
            self.condition(&mut with)?;
            loop {
                let comma = self.take_sign(",");
                if !comma && !self.begins_condition() {
                    break;
                }
                self.condition(&mut with)?;
            }
        }
        if found {
            each(product, |rule| fields(rule).with = with);
        }
        Ok(())
    }

    fn begins_condition(&self) -> bool {
        let Some(token) = self.peek().filter(|t| t.kind == Kind::Word && !t.plain) else {
            return false;
        };
        ["not", "no", "opt", "v6hdr"]
            .iter()
            .any(|word| self.is(word))
            || words::attribute(&token.text).is_some()
    }

    fn condition(&mut self, with: &mut With) -> Parsed<()> {
        let start = self.here();
        let negate = self.take_one_of(&["not", "no"]).is_some();
        if self.take_word("opt") {
            return self.ip_options(with, negate);
        }
        let lists = self.is("v6hdr") || self.is("v6hdrs") && self.header_at(1).is_some();
        if lists {
            self.take();
            return self.headers(with, negate);
        }
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("a condition"));
        };
        let Some(bit) = words::attribute(&token.text) else {
            let message = format!("unknown condition `{}`", token.text);
            let names = words::ATTRIBUTES.iter().map(|row| row.0);
            let found = Diagnostic::error("unknown-condition", token.at, message)
                .help("conditions are ipopts, short, frag, opt NAME, v6hdr NAME ...")
                .did_you_mean(&token.text, names);
            return Err(Box::new(found));
        };
        self.take();
        if with.attributes & bit != 0 && (with.attributes_set & bit == 0) != negate {
            let message = format!("`{}` and not `{0}` at once", token.text);
            let found = Diagnostic::error("contradiction", self.since(start), message);
            return Err(Box::new(found.help("leave one of them out")));
        }
        with.attributes |= bit;
        if !negate {
            with.attributes_set |= bit;
        }
        Ok(())
    }

    fn ip_options(&mut self, with: &mut With, negate: bool) -> Parsed<()> {
        loop {
            let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
                return Err(self.expected("the name of an IP option"));
            };
            if self.take_word("sec-class") {
                self.classes(with, negate)?;
            } else if let Some(bit) = words::ip_option(&token.text) {
                self.take();
                with.options |= bit;
                if !negate {
                    with.options_set |= bit;
                }
                if bit == words::OPTION_CIPSO && self.take_word("doi") {
                    with.doi = Some(self.number_or_hex("a domain of interpretation", u32::MAX)?);
                }
            } else {
                let message = format!("unknown IP option `{}`", token.text);
                let names = words::IP_OPTIONS.iter().map(|row| row.name);
                let found = Diagnostic::error("unknown-option", token.at, message)
                    .help("options are nop, rr, ts, sec, lsrr, ssrr, satid, rtralrt ...")
                    .did_you_mean(&token.text, names);
                return Err(Box::new(found));
            }
            // A comma may also lead to the next condition: `with opt nop, short`.
            let next = self.look(1).map(|token| &*token.text);
            let option = |name: &str| {
                words::ip_option(name).is_some() || name.eq_ignore_ascii_case("sec-class")
            };
            let more = self.is_sign(",")
                && !next.is_some_and(|name| words::attribute(name).is_some() && !option(name))
                && !["opt", "not", "no", "v6hdr"]
                    .iter()
                    .any(|word| self.is_at(1, word));
            if !more {
                return Ok(());
            }
            self.take();
        }
    }

    fn classes(&mut self, with: &mut With, negate: bool) -> Parsed<()> {
        loop {
            let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
                return Err(self.expected("a security class"));
            };
            let Some(bit) = words::class(&token.text) else {
                let message = format!("unknown security class `{}`", token.text);
                let names = words::CLASSES.iter().map(|row| row.0);
                let found = Diagnostic::error("unknown-class", token.at, message)
                    .help("classes are unclass, confid, secret, topsecret, reserv-1 to reserv-4")
                    .did_you_mean(&token.text, names);
                return Err(Box::new(found));
            };
            self.take();
            with.classes |= bit;
            if !negate {
                with.classes_set |= bit;
            }
            let more = self
                .look(1)
                .is_some_and(|t| words::class(&t.text).is_some());
            if !self.is_sign(",") || !more {
                return Ok(());
            }
            self.take();
        }
    }

    fn header_at(&self, ahead: usize) -> Option<u16> {
        let token = self.look(ahead).filter(|t| t.kind == Kind::Word)?;
        match token.text.eq_ignore_ascii_case("frags") {
            true => words::header("frag"),
            false => words::header(&token.text),
        }
    }

    fn headers(&mut self, with: &mut With, negate: bool) -> Parsed<()> {
        loop {
            let Some(bit) = self.header_at(0) else {
                let mut found = *self.expected("the name of an IPv6 header");
                found = found.help(
                    "headers are ah, dstopts, esp, frag, hopopts, ipv6, mobility, none, routing",
                );
                return Err(Box::new(found));
            };
            self.take();
            match negate {
                true => with.no_headers |= bit,
                false => with.headers |= bit,
            }
            if !self.is_sign(",") || self.header_at(1).is_none() {
                return Ok(());
            }
            self.take();
        }
    }
}
