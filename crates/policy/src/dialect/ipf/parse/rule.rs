//! A rule from its first word to its options: place, action, answer, direction, log, quick,
//! interfaces, destinations; then what follows, and what one rule with lists becomes.

use super::super::ast::{Action, Destination, Direction, Item, Log, Name, Return, Rule};
use super::super::lex::Kind;
use super::super::words;
use super::{ACTIONS, BODIES_MAX, PRODUCT_MAX, Parsed, Parser};
use crate::syntax::diag::nearest;
use crate::syntax::{Diagnostic, Place, Span};
use std::net::IpAddr;

/// The rules that one rule with lists becomes, while it is read.
pub(super) type Product = Vec<Rule>;

impl Parser<'_, '_, '_> {
    /// Reads a rule and everything that it leads into.
    pub(super) fn rule(&mut self, body: Option<&Name>) -> Parsed<Vec<Item>> {
        let start = self.here();
        let mut rule = Rule::default();
        if self.take_sign("@") {
            self.bounded = self.hpux();
            rule.insert = Some(self.number("the position of the rule", u32::MAX)?);
        }
        if self
            .peek()
            .is_some_and(|t| t.text.starts_with(|c: char| c.is_ascii_digit()))
        {
            rule.collection = self.number("a collection number", u32::MAX)?;
        }
        self.action(&mut rule)?;
        self.direction(&mut rule)?;
        rule.family = self.family;
        let mut product = vec![rule];
        self.options_of_rule(&mut product)?;
        self.matching(&mut product)?;
        self.with_clause(&mut product)?;
        self.keeps(&mut product)?;
        self.tail(&mut product, body)?;
        let at = self.since(start);
        let mut nested = Vec::new();
        if self.is_sign("{") {
            nested = self.body(&mut product)?;
        }
        self.after_body(&mut product)?;
        self.end_of_rule()?;
        for rule in &mut product {
            rule.at = Place(at);
        }
        self.check_rule(&product, at)?;
        let rules = product.into_iter().map(|rule| Item::Rule(Box::new(rule)));
        Ok(rules.chain(nested).collect())
    }

    /// A rule ends with `;`, with the line, or where another statement begins.
    fn end_of_rule(&mut self) -> Parsed<()> {
        if self.take_sign(";") || self.is_sign("}") {
            return Ok(());
        }
        let Some(token) = self.peek() else {
            return Ok(());
        };
        if token.first || self.begins_statement() {
            return Ok(());
        }
        let message = format!("`{}` can't stand here", token.text);
        let found = Diagnostic::error("syntax", token.at, message);
        let text = token.text.to_ascii_lowercase();
        let help = place_of(&text).map(str::to_owned).unwrap_or_else(|| {
            let alike = |word: &&str| word.get(..1) == text.get(..1);
            let meant = nearest(&text, LATER_WORDS.into_iter().filter(alike));
            meant.map_or_else(
                || "take it out, or end the rule before it with `;`".to_owned(),
                |meant| format!("did you mean `{meant}`?"),
            )
        });
        Err(Box::new(found.help(help)))
    }

    /// `{ rules }` behind a head.
    fn body(&mut self, product: &mut Product) -> Parsed<Vec<Item>> {
        let at = self.here();
        self.take();
        if self.depth == BODIES_MAX {
            let found = Diagnostic::error("too-deep", at, "bodies nest at most 16 deep");
            return Err(Box::new(found.help("use groups with names")));
        }
        self.bodies += 1;
        let name = match product.first().and_then(|rule| rule.head.clone()) {
            Some(name) => name,
            None => Name::from(format!("body-{}", self.bodies)),
        };
        for rule in product.iter_mut() {
            rule.head = Some(name.clone());
        }
        self.depth += 1;
        let items = self.statements(Some(&name));
        self.depth -= 1;
        self.bounded = false;
        self.expect_sign("}", "at the end of the body")?;
        Ok(items)
    }

    fn action(&mut self, rule: &mut Rule) -> Parsed<()> {
        let Some(word) = self.take_one_of(&ACTIONS) else {
            let mut found = *self.expected("an action");
            if let Some(token) = self.peek() {
                found = found
                    .help("a rule begins with pass, block, log, count, skip, auth, call ...")
                    .did_you_mean(&token.text, ACTIONS);
            }
            return Err(Box::new(found));
        };
        self.bounded = self.hpux();
        rule.action = match word {
            "pass" => Action::Pass,
            "block" => Action::Block,
            "log" => {
                rule.log = Some(self.log_words()?);
                Action::Log
            }
            "count" => Action::Count,
            "nomatch" => Action::Nomatch,
            "skip" => Action::Skip(self.number("how many rules to skip", u32::MAX)?),
            "auth" => Action::Auth,
            "preauth" => Action::Preauth,
            "call" => self.call()?,
            _ => self.decapsulate()?,
        };
        let takes_answer = matches!(rule.action, Action::Block | Action::Auth);
        let hp_pass = self.hpux() && rule.action == Action::Pass && self.is("return-rst");
        if takes_answer || hp_pass {
            rule.answer = self.answer()?;
        }
        Ok(())
    }

    fn call(&mut self) -> Parsed<Action> {
        let now = self.take_word("now");
        let at = self.here();
        let function = self.name("the name of a function")?;
        self.expect_sign("/", "and a number after the function")?;
        let argument = self.number("the function's argument", u32::MAX)?;
        if !["srcgrpmap", "dstgrpmap"].contains(&&*function) {
            let message = format!("there is no function `{function}`");
            let found = Diagnostic::error("unknown-function", at, message);
            return Err(Box::new(found.help("use `srcgrpmap` or `dstgrpmap`")));
        }
        Ok(Action::Call {
            now,
            function,
            argument,
        })
    }

    fn decapsulate(&mut self) -> Parsed<Action> {
        if !self.take_word("l5-as") {
            return Ok(Action::Decapsulate(None));
        }
        self.expect_sign("(", "and a name after `l5-as`")?;
        let name = self.name("a protocol")?;
        self.expect_sign(")", "after the name")?;
        Ok(Action::Decapsulate(Some(name)))
    }

    fn answer(&mut self) -> Parsed<Option<Return>> {
        const WORDS: [&str; 5] = [
            "return-rst",
            "return-icmp",
            "return-icmp-as-dest",
            "return-icmpv6",
            "return-icmpv6-as-dest",
        ];
        let at = self.here();
        let Some(word) = self.take_one_of(&WORDS) else {
            return Ok(None);
        };
        if word.starts_with("return-icmpv6") && !self.hpux() {
            let message = format!("`{word}` is HP-UX's word");
            let found = Diagnostic::error("hpux-only", at, message);
            return Err(Box::new(found.help("use `return-icmp`, or --dialect hpux")));
        }
        if word == "return-rst" {
            return Ok(Some(Return::Rst));
        }
        let mut code = 0;
        if self.take_sign("(") {
            code = self.icmp_code()?;
            self.expect_sign(")", "after the code")?;
        }
        Ok(Some(match word {
            "return-icmp" => Return::Icmp(code),
            "return-icmp-as-dest" => Return::IcmpAsDest(code),
            "return-icmpv6" => Return::Icmp6(code),
            _ => Return::Icmp6AsDest(code),
        }))
    }

    fn direction(&mut self, rule: &mut Rule) -> Parsed<()> {
        match self.take_one_of(&["in", "out"]) {
            Some("in") => rule.direction = Direction::In,
            Some(_) => rule.direction = Direction::Out,
            None => {
                let mut found = *self.expected("`in` or `out`");
                if let Some(token) = self.peek().filter(|t| t.text.starts_with("return")) {
                    let message = format!("`{}` can't follow this action", token.text);
                    found = Diagnostic::error("syntax", token.at, message)
                        .help("only `block` and `auth` answer");
                }
                return Err(Box::new(found));
            }
        }
        Ok(())
    }

    /// The words after `log`.
    pub(super) fn log_words(&mut self) -> Parsed<Log> {
        let mut log = Log::default();
        loop {
            let at = self.here();
            match self.take_one_of(&["body", "first", "or-block", "level", "limit"]) {
                Some("body") => log.body = true,
                Some("first") => log.first = true,
                Some("or-block") => log.or_block = true,
                Some("level") => log.level = Some(self.level()?),
                Some("limit") => log.limit = Some(self.log_limit(at)?),
                _ => return Ok(log),
            }
        }
    }

    fn log_limit(&mut self, at: Span) -> Parsed<Option<u32>> {
        if !self.hpux() {
            let found = Diagnostic::error("hpux-only", at, "`log limit` is HP-UX's");
            return Err(Box::new(found.help("use --dialect hpux")));
        }
        if !self.take_word("freq") {
            return Ok(None);
        }
        let at = self.here();
        match self.number("after how many connections to log again", u32::MAX)? {
            0 => {
                let found = Diagnostic::error("out-of-range", at, "`freq 0` never comes");
                Err(Box::new(found.help("use 1 or more")))
            }
            every => Ok(Some(every)),
        }
    }

    fn level(&mut self) -> Parsed<(u8, u8)> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("a priority, or a facility and a priority"));
        };
        let (facility, priority) = match token.text.split_once('.') {
            Some((facility, priority)) => (
                words::position(&words::FACILITIES, facility),
                words::position(&words::PRIORITIES, priority),
            ),
            None => (
                Some(words::FACILITY_DEFAULT),
                words::position(&words::PRIORITIES, &token.text),
            ),
        };
        self.next += 1;
        match (facility, priority) {
            (Some(facility), Some(priority)) => Ok((facility, priority)),
            (facility, _) => {
                let what = if facility.is_none() {
                    "facility"
                } else {
                    "priority"
                };
                let message = format!("unknown {what} in `{}`", token.text);
                let help = "write `auth.info`, `local0.notice` or only a priority: emerg, alert, \
                            crit, err, warn, notice, info, debug";
                let found = Diagnostic::error("unknown-level", token.at, message);
                Err(Box::new(found.help(help)))
            }
        }
    }

    /// `log`, `quick`, `on`, `dup-to`, `to`, `reply-to`, `fastroute`.
    fn options_of_rule(&mut self, product: &mut Product) -> Parsed<()> {
        // HP-UX wants them in this order: log, quick, on, the others.
        let mut last = 0;
        loop {
            let at = self.here();
            let rank = match () {
                () if self.is("log") => 1,
                () if self.is("quick") => 2,
                () if self.is("on") => 3,
                () => 4,
            };
            let Some(word) = self.option_word() else {
                return Ok(());
            };
            if self.hpux() && rank < last {
                let message = format!("`{word}` stands too late for HP-UX");
                let found = Diagnostic::error("order", at, message);
                return Err(Box::new(found.help("the order is: log, quick, on")));
            }
            last = rank;
            self.option(word, at, product)?;
        }
    }

    /// The next option's word, taken. `to` is an option only before an interface: before an
    /// address it begins the destination of the packet.
    fn option_word(&mut self) -> Option<&'static str> {
        if self.is("to") && !self.leads_to_interface() {
            return None;
        }
        self.take_one_of(&[
            "log",
            "quick",
            "on",
            "dup-to",
            "to",
            "route-to",
            "reply-to",
            "fastroute",
            "in-via",
            "out-via",
        ])
    }

    fn leads_to_interface(&self) -> bool {
        let Some(next) = self.look(1) else {
            return false;
        };
        let address = next.text.starts_with(|c: char| c.is_ascii_digit())
            || ["any", "pool", "hash", "port"]
                .iter()
                .any(|word| self.is_at(1, word))
            || self.is_sign_at(2, ":") && self.is_sign_at(3, ":");
        // `dstlist/name` is a destination; every other name before a `/` is an address.
        let slash = self.is_sign_at(2, "/") && !self.is_at(1, "dstlist");
        next.kind == Kind::Quoted || next.kind == Kind::Word && !address && !slash
    }

    fn option(&mut self, word: &str, at: Span, product: &mut Product) -> Parsed<()> {
        match word {
            "log" => {
                let log = self.log_words()?;
                each(product, |rule| match rule.action {
                    // The words of a log rule may stand in both places.
                    Action::Log => {}
                    _ => rule.log = Some(log),
                });
                if product
                    .first()
                    .is_some_and(|rule| rule.action == Action::Log)
                {
                    let found = Diagnostic::error("syntax", at, "`log` twice in one rule");
                    return Err(Box::new(found.help("leave this one out")));
                }
            }
            "quick" => each(product, |rule| rule.quick = true),
            "on" => self.on(product)?,
            "in-via" | "out-via" => self.via(at, product)?,
            "fastroute" => {
                if product
                    .first()
                    .is_some_and(|rule| rule.direction == Direction::Out)
                {
                    let message = "`fastroute` is for inbound rules only";
                    let found = Diagnostic::error("syntax", at, message);
                    return Err(Box::new(found.help("take it out, or use `to`")));
                }
                each(product, |rule| rule.fastroute = true);
            }
            _ => {
                let destination = self.destination()?;
                each(product, |rule| {
                    let slot = match word {
                        "dup-to" => &mut rule.dup_to,
                        "reply-to" => &mut rule.reply_to,
                        _ => &mut rule.to,
                    };
                    *slot = Some(destination.clone());
                });
            }
        }
        Ok(())
    }

    fn on(&mut self, product: &mut Product) -> Parsed<()> {
        if product.iter().any(|rule| rule.on[0].is_some()) {
            let at = self.last().unwrap_or_else(|| self.here());
            let found = Diagnostic::error("syntax", at, "`on` twice in one rule");
            let help = "write one rule for each interface, or `on { e0 e1 }`";
            return Err(Box::new(found.help(help)));
        }
        let start = self.here();
        if let Some(close) = self.list_start() {
            let mut names = Vec::new();
            loop {
                names.push(self.interface()?);
                self.take_sign(",");
                if self.take_sign(close) {
                    break;
                }
            }
            if names.len() > 1 && !self.hpux() {
                let message = "5.1 reads such a list as the pair `on a,b`, or loses its first \
                    interface; weir takes each of them";
                let help = "write one rule for each interface";
                self.warn("differs", self.since(start), message.to_owned(), help);
            }
            return self.multiply(product, &names, |rule, name| {
                rule.on = [Some(name.clone()), None];
            });
        }
        let on = self.interface_pair()?;
        each(product, |rule| rule.on = on.clone());
        Ok(())
    }

    /// The other side's interfaces: behind `on`, or where printing puts them, behind destinations.
    fn via(&mut self, at: Span, product: &mut Product) -> Parsed<()> {
        if product.iter().any(|rule| rule.on[0].is_none()) {
            let found = Diagnostic::error("syntax", at, "this needs an interface of this side");
            return Err(Box::new(found.help("write `on NAME` in front")));
        }
        let via = self.interface_pair()?;
        each(product, |rule| rule.via = via.clone());
        Ok(())
    }

    fn interface_pair(&mut self) -> Parsed<[Option<Name>; 2]> {
        let first = self.interface()?;
        let second = match self.take_sign(",") {
            true => Some(self.interface()?),
            false => None,
        };
        Ok([Some(first), second])
    }

    /// A name, perhaps with `(!)` behind it, which printing puts after unknown interfaces.
    fn interface(&mut self) -> Parsed<Name> {
        let name = self.name("the name of an interface")?;
        if self.is_sign("(") && self.is_sign_at(1, "!") && self.is_sign_at(2, ")") {
            self.next += 3;
        }
        if self.is_sign(":") && self.look(1).is_some_and(|t| t.glued) {
            let start = self.here();
            self.take();
            self.number("the number of a logical interface", u32::MAX)?;
            let at = self.since(start);
            let message = format!("logical interfaces are not told apart: `{name}` is meant");
            self.warn(
                "logical-interface",
                at,
                message,
                "write the physical interface",
            );
        }
        Ok(name)
    }

    fn destination(&mut self) -> Parsed<Destination> {
        if self.is("dstlist") && self.is_sign_at(1, "/") {
            self.next += 2;
            return Ok(Destination::List(self.name("the name of a list")?));
        }
        let name = self.name("the name of an interface")?;
        if self.is_sign("(") && self.is_sign_at(1, "!") && self.is_sign_at(2, ")") {
            self.next += 3;
        }
        if !self.take_sign(":") {
            return Ok(Destination::Interface(name, None));
        }
        let start = self.here();
        let text = self.glued_address();
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Destination::Interface(name, Some(address))),
            Err(_) => {
                let message = format!("`{text}` is no address of a next hop");
                let found = Diagnostic::error("bad-address", self.since(start), message);
                Err(Box::new(found.help("write a full IPv4 or IPv6 address")))
            }
        }
    }

    /// The bracket that closes a list, if one begins here (then its opening bracket is taken).
    pub(super) fn list_start(&mut self) -> Option<&'static str> {
        match () {
            () if self.take_sign("{") => Some("}"),
            () if self.take_sign("(") => Some(")"),
            () => None,
        }
    }

    /// Every rule so far once for each value; the values are the outer loop.
    pub(super) fn multiply<T>(
        &self,
        product: &mut Product,
        values: &[T],
        set: impl Fn(&mut Rule, &T),
    ) -> Parsed<()> {
        if product.len().saturating_mul(values.len()) > PRODUCT_MAX {
            let message = format!("the lists of this rule make more than {PRODUCT_MAX} rules");
            let found = Diagnostic::error("too-many-rules", self.here(), message);
            return Err(Box::new(found.help("use a pool")));
        }
        let before = std::mem::take(product);
        for value in values {
            for rule in &before {
                let mut rule = rule.clone();
                set(&mut rule, value);
                product.push(rule);
            }
        }
        Ok(())
    }
}

/// Changes every rule of a product.
pub(super) fn each(product: &mut Product, change: impl Fn(&mut Rule)) {
    product.iter_mut().for_each(change);
}

/// Words behind the addresses of a rule.
const LATER_WORDS: [&str; 9] = [
    "port",
    "flags",
    "icmp-type",
    "with",
    "keep",
    "head",
    "group",
    "set-tag",
    "match-tag",
];

/// What to do about a word of the language in the wrong place.
fn place_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "log" | "quick" | "on" | "dup-to" | "reply-to" | "fastroute" | "in-via" | "out-via" => {
            "options stand right behind `in` or `out`"
        }
        "tos" | "ttl" | "proto" => "the order is: tos, ttl, proto, from, to, flags, icmp-type",
        "with" | "and" => "there is one `with` clause, behind the addresses and before `keep`",
        "from" | "to" | "all" | "flags" | "icmp-type" | "port" => {
            "the order is: proto, from, to, flags, icmp-type, with, keep"
        }
        "keep" => "`keep` stands behind `with` and before `head` and `group`",
        "head" => "`head` stands before `group`",
        "group" | "set-tag" | "match-tag" | "pps" | "age" => {
            "the order at the end is: head, group, set-tag, match-tag, pps, age"
        }
        "code" => "`code` stands right behind `icmp-type`",
        "body" | "first" | "or-block" | "level" => {
            "the words of `log` stand right behind it: `log first in`, `block in log first`"
        }
        _ => return None,
    })
}
