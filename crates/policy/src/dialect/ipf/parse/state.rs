//! `keep state`, `keep frags`, HP-UX `keep limit`, and lifetimes.

use super::super::ast::{KeepLimit, KeepState, Proto};
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::dialect::iptables::names::protocols;
use crate::model::Family;
use crate::syntax::{Diagnostic, Span};

/// The words inside `keep state ( )`.
const STATE_WORDS: [&str; 14] = [
    "limit",
    "age",
    "strict",
    "loose",
    "newisn",
    "no-icmp-err",
    "noicmperr",
    "sync",
    "nolog",
    "icmp-head",
    "max-srcs",
    "max-nodes",
    "max-per-src",
    "rpc",
];

impl Parser<'_, '_, '_> {
    pub(super) fn keeps(&mut self, product: &mut Product) -> Parsed<()> {
        while self.take_word("keep") {
            let at = self.here();
            match self.take_one_of(&["state", "frags", "frag", "limit"]) {
                Some("state") => self.keep_state(product)?,
                Some("limit") => self.keep_limit(product, at)?,
                Some(_) => self.keep_frags(product)?,
                None => return Err(self.expected("`state` or `frags`")),
            }
        }
        Ok(())
    }

    fn keep_frags(&mut self, product: &mut Product) -> Parsed<()> {
        let mut strict = false;
        if self.take_sign("(") {
            if !self.take_word("strict") {
                return Err(self.expected("`strict`"));
            }
            strict = true;
            self.expect_sign(")", "after `strict`")?;
        }
        each(product, |rule| rule.keep_frags = Some(strict));
        Ok(())
    }

    fn keep_limit(&mut self, product: &mut Product, at: Span) -> Parsed<()> {
        if !self.hpux() {
            let found = Diagnostic::error("hpux-only", at, "`keep limit` is HP-UX's");
            return Err(Box::new(
                found.help("use `keep state (limit N)`, or --dialect hpux"),
            ));
        }
        let place = self.here();
        let limit = self.number("a number of connections", u32::MAX)?;
        if limit == 0 {
            let found = Diagnostic::error("out-of-range", place, "`keep limit 0` lets nobody in");
            return Err(Box::new(found.help("use 1 or more, or `block`")));
        }
        let cumulative = self.take_word("cumulative");
        each(product, |rule| {
            rule.keep_limit = Some(KeepLimit { limit, cumulative });
        });
        Ok(())
    }

    fn keep_state(&mut self, product: &mut Product) -> Parsed<()> {
        let mut keep = KeepState::default();
        let mut age = None;
        if self.take_sign("(") {
            loop {
                self.state_option(&mut keep, &mut age, product)?;
                self.take_sign(",");
                if self.take_sign(")") {
                    break;
                }
            }
        }
        each(product, |rule| {
            let width = if rule.family == Some(Family::V6) {
                128
            } else {
                32
            };
            let mut keep = keep.clone();
            if let Some((_, length)) = &mut keep.max_per_source {
                length.get_or_insert(width);
            }
            rule.keep_state = Some(keep);
            rule.age = age.or(rule.age);
        });
        Ok(())
    }

    fn state_option(
        &mut self,
        keep: &mut KeepState,
        age: &mut Option<(u32, u32)>,
        product: &Product,
    ) -> Parsed<()> {
        let at = self.here();
        let Some(word) = self.take_one_of(&STATE_WORDS) else {
            let mut found = *self.expected("an option of `keep state`");
            if let Some(token) = self.peek() {
                found = found.did_you_mean(&token.text, STATE_WORDS);
            }
            return Err(Box::new(found));
        };
        match word {
            "limit" => keep.limit = Some(self.positive("a number of entries")?),
            "age" => *age = Some(self.lifetime()?),
            "strict" | "newisn" | "loose" => {
                let tcp = Some(Proto::Number(protocols::TCP));
                let all = |rule: &super::super::ast::Rule| {
                    rule.fields().is_some_and(|fields| fields.proto == tcp)
                };
                if word != "loose" && !product.iter().all(all) {
                    let message = format!("`{word}` is for TCP only");
                    let found = Diagnostic::error("state-option", at, message);
                    return Err(Box::new(found.help("write `proto tcp` in front")));
                }
                match word {
                    "strict" => keep.strict = true,
                    "newisn" => keep.newisn = true,
                    _ => keep.loose = true,
                }
            }
            "no-icmp-err" | "noicmperr" => keep.no_icmp_errors = true,
            "sync" => keep.sync = true,
            "nolog" => keep.nolog = true,
            "icmp-head" => keep.icmp_head = Some(self.name("the name of a group")?),
            "max-srcs" | "max-nodes" => {
                keep.max_sources = Some(self.positive("a number of sources")?);
            }
            "max-per-src" => {
                let number = self.positive("a number of entries")?;
                let mut length = None;
                if self.take_sign("/") {
                    let bits = self.number("the length of a prefix", 128)?;
                    length = u8::try_from(bits).ok();
                }
                keep.max_per_source = Some((number, length));
            }
            _ => {
                let program = match self.take_word("in") {
                    true => Some(self.name("the name of a program")?),
                    false => None,
                };
                keep.rpc = Some(program);
            }
        }
        Ok(())
    }

    fn positive(&mut self, what: &str) -> Parsed<u32> {
        let at = self.here();
        match self.number(what, u32::MAX)? {
            0 => {
                let found = Diagnostic::error("out-of-range", at, "0 is no limit");
                Err(Box::new(found.help("use 1 or more")))
            }
            number => Ok(number),
        }
    }

    /// `age`: forward and reverse; one number is both.
    pub(super) fn lifetime(&mut self) -> Parsed<(u32, u32)> {
        let forward = self.number("a lifetime in seconds", u32::MAX / 1000)?;
        match self.take_sign("/") {
            true => {
                let reverse = self.number("the lifetime after a reply", u32::MAX / 1000)?;
                Ok((forward, reverse))
            }
            false => Ok((forward, forward)),
        }
    }
}
