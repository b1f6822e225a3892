//! The end of a rule: groups, tags, rates, lifetimes, remarks.

use super::super::ast::{Direction, Name, Tags};
use super::super::lex::Kind;
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::syntax::Diagnostic;

impl Parser<'_, '_, '_> {
    /// Everything up to the body.
    pub(super) fn tail(&mut self, product: &mut Product, body: Option<&Name>) -> Parsed<()> {
        if self.take_word("head") {
            let head = self.group_name()?;
            each(product, |rule| rule.head = Some(head.clone()));
        }
        let at = self.here();
        if self.take_word("group") {
            let group = self.group_name()?;
            if body.is_some_and(|body| *body != group) {
                let message = "a rule inside a body belongs to the group of the body";
                let found = Diagnostic::error("group", self.since(at), message);
                return Err(Box::new(found.help("leave the group out")));
            }
            each(product, |rule| rule.group = Some(group.clone()));
        } else if let Some(body) = body {
            each(product, |rule| rule.group = Some(body.clone()));
        }
        let out = product
            .first()
            .is_some_and(|rule| rule.direction == Direction::Out);
        if self.take_word("set-tag") {
            let tags = self.tags(out)?;
            each(product, |rule| rule.set_tag = tags.clone());
        }
        if self.take_word("match-tag") {
            let tags = self.tags(!out)?;
            each(product, |rule| rule.match_tag = tags.clone());
        }
        if self.take_word("pps") {
            let pps = self.number("packets per second", u32::MAX)?;
            each(product, |rule| rule.pps = Some(pps).filter(|pps| *pps > 0));
        }
        if self.take_word("age") || self.take_word("state-age") {
            let age = self.lifetime()?;
            each(product, |rule| rule.age = Some(age));
        }
        Ok(())
    }

    /// What may stand behind a body.
    pub(super) fn after_body(&mut self, product: &mut Product) -> Parsed<()> {
        if self.take_word("rule-ttl") {
            let seconds = self.number("seconds", u32::MAX)?;
            each(product, |rule| rule.rule_ttl = Some(seconds));
        }
        if self.take_word("comment") {
            let Some(token) = self.peek().filter(|token| token.kind != Kind::Sign) else {
                return Err(self.expected("a remark in quotes"));
            };
            self.take();
            let comment = Name::from(&*token.text);
            each(product, |rule| rule.comment = Some(comment.clone()));
        }
        Ok(())
    }

    fn group_name(&mut self) -> Parsed<Name> {
        // Keywords that could only be meant as the next part of the rule.
        let forgotten = ["group", "head", "keep", "with", "set-tag", "pps"];
        if forgotten.iter().any(|word| self.is(word)) {
            return Err(self.expected("the name or number of a group"));
        }
        self.name("the name or number of a group")
    }

    fn tags(&mut self, nat_allowed: bool) -> Parsed<Tags> {
        self.expect_sign("(", "before the tags")?;
        let mut tags = Tags::default();
        loop {
            let at = self.here();
            match self.take_one_of(&["log", "nat"]) {
                Some("log") => {
                    self.expect_sign("=", "after `log`")?;
                    tags.log = Some(self.number_or_hex("a tag", u32::MAX)?);
                }
                Some(_) => {
                    self.expect_sign("=", "after `nat`")?;
                    tags.nat = Some(self.name("a tag")?);
                    if !nat_allowed {
                        let message = "a NAT tag is matched inbound and set outbound";
                        let found = Diagnostic::error("nat-tag", self.since(at), message);
                        return Err(Box::new(found.help("use the other direction")));
                    }
                }
                None => return Err(self.expected("`log=` or `nat=`")),
            }
            if self.take_sign(")") {
                return Ok(tags);
            }
            self.expect_sign(",", "or `)` after the tag")?;
        }
    }
}
