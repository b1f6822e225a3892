//! The options that every rule has: addresses, interfaces, protocol, modules, target.

use super::super::ast::{Basic, BuiltIn, Instance, Target};
use super::super::grammar::{self, Role};
use super::super::names::protocols;
use super::super::value::{Address, Addresses};
use super::Parser;
use super::address::{self, Fault};
use super::numbers::number_up_to;
use super::rule::{RuleState, push_match, skip_values};
use crate::model::{Counters, Family};
use crate::syntax::{Cursor, Diagnostic, Place, Span};
use std::borrow::Cow;

impl Parser {
    /// The value of a basic option, with the negation in its old place.
    fn basic_value<'w>(
        &mut self,
        state: &mut RuleState,
        inline: Option<&'w str>,
        option: &str,
        option_at: Span,
        cursor: &mut Cursor<'w, '_>,
    ) -> Option<(Cow<'w, str>, Span)> {
        if let Some(value) = inline {
            return Some((Cow::Borrowed(value), option_at));
        }
        self.old_negation(state, cursor);
        match cursor.peek() {
            Some(word) if word.quoted || !word.text.starts_with('-') => {
                cursor.take();
                Some((Cow::Borrowed(&*word.text), cursor.span(word)))
            }
            _ => {
                let message = format!("`{option}` needs a value");
                let found = Diagnostic::error("missing-value", option_at, message);
                self.fail(state, found.help("write it after the option"));
                None
            }
        }
    }

    /// `-s ! address`: the old place of the negation.
    pub(super) fn old_negation(&mut self, state: &mut RuleState, cursor: &mut Cursor<'_, '_>) {
        if let Some(word) = cursor.take_if("!") {
            let at = cursor.span(word);
            let message = "`!` after the option is the old way to write it";
            let found = Diagnostic::warning("old-negation", at, message);
            self.report(found.help("write it before the option; newer tools refuse this one"));
            if state.negation.replace(at).is_some() {
                let found =
                    Diagnostic::error("stray-negation", at, "`!` before and after the option");
                self.fail(state, found.help("write it once, before the option"));
            }
        }
    }

    /// One of the options that every rule has.
    pub(super) fn basic<'w>(
        &mut self,
        state: &mut RuleState,
        short: &str,
        inline: Option<&'w str>,
        at: Span,
        cursor: &mut Cursor<'w, '_>,
    ) {
        if let Some(not_at) = state.negation
            && matches!(short, "-j" | "-g" | "-m" | "-c" | "-4" | "-6" | "-t")
        {
            state.negation = None;
            let message = format!("`!` cannot stand before `{short}`");
            self.fail(
                state,
                Diagnostic::error("stray-negation", not_at, message).help("take it out"),
            );
        }
        match short {
            "-4" => self.only(state, Family::V4, at),
            "-6" => self.only(state, Family::V6, at),
            "-f" => self.fragment(state, at),
            "-c" => self.set_counters(state, at, cursor),
            "-t" => {
                let found = Diagnostic::error(
                    "table-option",
                    at,
                    "the table cannot be chosen inside a rule",
                );
                self.fail(
                    state,
                    found.help("put the rule into the block that starts with `*table`"),
                );
                skip_values(cursor);
            }
            _ => {
                let value = self.basic_value(state, inline, short, at, cursor);
                let negated = state.take_negation();
                let Some((text, value_at)) = value else {
                    return;
                };
                self.basic_with_value(state, short, negated, &text, at, value_at);
            }
        }
    }

    fn basic_with_value(
        &mut self,
        state: &mut RuleState,
        short: &str,
        negated: bool,
        text: &str,
        at: Span,
        value_at: Span,
    ) {
        let given = match short {
            "-s" => state.rule.source.is_some(),
            "-d" => state.rule.destination.is_some(),
            "-i" => state.rule.in_interface.is_some(),
            "-o" => state.rule.out_interface.is_some(),
            "-p" => state.rule.protocol.is_some(),
            "-j" | "-g" => state.target_at.is_some(),
            _ => false,
        };
        if given {
            let message = match short {
                "-j" | "-g" => "a rule has one target".to_owned(),
                _ => format!("`{short}` is given twice"),
            };
            let found = Diagnostic::error("given-twice", at.to(value_at), message);
            return self.fail(
                state,
                found.help("write two rules, or a list where one is allowed"),
            );
        }
        match short {
            "-s" | "-d" => self.addresses(state, short, negated, text, at, value_at),
            "-i" | "-o" => match address::interface(text) {
                Ok(name) if name.prefix && name.name.is_empty() && !negated => {}
                Ok(value) => {
                    let basic = Some(Basic {
                        negated,
                        value,
                        at: Place(at.to(value_at)),
                    });
                    match short {
                        "-i" => state.rule.in_interface = basic,
                        _ => state.rule.out_interface = basic,
                    }
                }
                Err(fault) => self.fail_with(state, "bad-interface", value_at, fault),
            },
            "-p" => self.protocol(state, negated, text, at, value_at),
            "-m" => self.load_match(state, text, value_at),
            "-j" => self.jump(state, text, value_at),
            _ => self.goto(state, text, value_at),
        }
    }

    pub(super) fn fail_with(
        &mut self,
        state: &mut RuleState,
        code: &'static str,
        at: Span,
        fault: Fault,
    ) {
        let mut found = Diagnostic::error(code, at, fault.message);
        found.help = fault.help;
        self.fail(state, found);
    }

    fn only(&mut self, state: &mut RuleState, family: Family, at: Span) {
        if state.rule.only.is_some_and(|only| only != family) {
            let found = Diagnostic::error(
                "given-twice",
                at,
                "a rule is for -4 or for -6, not for both",
            );
            return self.fail(state, found.help("take one of them out"));
        }
        state.rule.only = Some(family);
    }

    fn fragment(&mut self, state: &mut RuleState, at: Span) {
        let negated = state.take_negation();
        if self.family == Family::V6 {
            let found = Diagnostic::error("wrong-family", at, "`-f` exists only for IPv4");
            return self.fail(state, found.help("for IPv6 use `-m frag`"));
        }
        if state
            .rule
            .fragment
            .replace(Basic {
                negated,
                value: (),
                at: Place(at),
            })
            .is_some()
        {
            let found = Diagnostic::error("given-twice", at, "`-f` is given twice");
            self.fail(state, found.help("take one of them out"));
        }
    }

    fn set_counters(&mut self, state: &mut RuleState, at: Span, cursor: &mut Cursor<'_, '_>) {
        let mut values = [0; 2];
        let both = cursor.peek().and_then(|word| {
            let (packets, bytes) = word.text.split_once(',')?;
            let number = |text: &str| number_up_to(text, u64::MAX);
            Some((number(packets)?, number(bytes)?))
        });
        if let Some((packets, bytes)) = both {
            cursor.take();
            state.counters = Some(Counters { packets, bytes });
            return;
        }
        for value in &mut values {
            let word = cursor.peek().filter(|word| !word.text.starts_with('-'));
            let parsed = word.and_then(|word| number_up_to(&word.text, u64::MAX));
            let place = if word.is_some() { cursor.here() } else { at };
            match parsed {
                Some(number) => *value = number,
                None => {
                    let found =
                        Diagnostic::error("bad-counters", place, "`-c` needs packets and bytes");
                    self.fail(state, found.help("write two numbers, such as `-c 0 0`"));
                    return skip_values(cursor);
                }
            }
            cursor.take();
        }
        state.counters = Some(Counters {
            packets: values[0],
            bytes: values[1],
        });
    }

    fn addresses(
        &mut self,
        state: &mut RuleState,
        short: &str,
        negated: bool,
        text: &str,
        at: Span,
        value_at: Span,
    ) {
        let mut list = Vec::new();
        let mut offset = usize::from(value_at.end as usize - value_at.start as usize != text.len());
        for part in text.split(',') {
            // An IPv4 file may hold lines that are only for IPv6, and the other way round.
            let family = state.rule.only.unwrap_or(self.family);
            match address::address(part, family, true) {
                Ok(address) => list.push(address),
                Err(fault) => {
                    let place = value_at.part(offset, offset + part.len());
                    self.fail_with(state, "bad-address", place, fault);
                }
            }
            offset += part.len() + 1;
        }
        if list.is_empty() || state.faulty {
            return;
        }
        if negated && list.len() > 1 {
            let message = "`!` cannot stand before a list of addresses";
            let found = Diagnostic::error("stray-negation", at.to(value_at), message);
            return self.fail(
                state,
                found.help("use `-m iprange` or `-m set`, or write several rules"),
            );
        }
        if list.len() == 1 && !negated && is_everything(&list[0]) {
            return;
        }
        let first = list.remove(0);
        let addresses = Some(Addresses {
            negated,
            first,
            more: list,
            at: Place(at.to(value_at)),
        });
        match short {
            "-s" => state.rule.source = addresses,
            _ => state.rule.destination = addresses,
        }
    }

    fn protocol(
        &mut self,
        state: &mut RuleState,
        negated: bool,
        text: &str,
        at: Span,
        value_at: Span,
    ) {
        let number = protocols::number(text)
            .or_else(|| number_up_to(text, 255).and_then(|number| u8::try_from(number).ok()));
        let Some(value) = number else {
            let message = format!("unknown protocol `{text}`");
            let found = Diagnostic::error("unknown-protocol", value_at, message)
                .help("write a name such as tcp, or a number from 0 to 255")
                .did_you_mean(text, protocols::names());
            return self.fail(state, found);
        };
        if value == 0 && negated {
            let found = Diagnostic::error("never-matches", value_at, "no packet is outside `all`");
            return self.fail(state, found.help("take the rule out"));
        }
        if value != 0 {
            state.rule.protocol = Some(Basic {
                negated,
                value,
                at: Place(at.to(value_at)),
            });
        }
    }

    fn load_match(&mut self, state: &mut RuleState, text: &str, at: Span) {
        let name = match text {
            "icmpv6" | "ipv6-icmp" => "icmp6",
            "ipv6-mh" | "mobility-header" => "mh",
            name => name,
        };
        match grammar::find(Role::Match, name, self.family) {
            Some(spec) => {
                push_match(
                    state,
                    Instance {
                        spec,
                        options: Vec::new(),
                        at: Place(at),
                    },
                );
            }
            None => {
                let found = self.unknown_module(Role::Match, text, at);
                state.unknown_module = true;
                self.fail(state, found);
            }
        }
    }

    fn unknown_module(&self, role: Role, text: &str, at: Span) -> Diagnostic {
        let (word, option) = match role {
            Role::Match => ("match", "-m"),
            Role::Target => ("target", "-j"),
        };
        let other = match self.family {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        };
        if grammar::find(role, text, other).is_some() {
            let (this, that) = match self.family {
                Family::V4 => ("IPv4", "IPv6"),
                Family::V6 => ("IPv6", "IPv4"),
            };
            let message = format!("`{option} {text}` exists only for {that}");
            return Diagnostic::error("wrong-family", at, message)
                .help(format!("this file holds {this} rules"));
        }
        Diagnostic::error("unknown-module", at, format!("unknown {word} `{text}`"))
            .help("see iptables-extensions(8) for the names")
            .did_you_mean(text, grammar::names(role, self.family))
    }

    fn jump(&mut self, state: &mut RuleState, text: &str, at: Span) {
        state.target_at = Some(at);
        state.matches_before_target = state.rule.matches.len();
        let built_in = match text {
            "ACCEPT" => Some(BuiltIn::Accept),
            "DROP" => Some(BuiltIn::Drop),
            "RETURN" => Some(BuiltIn::Return),
            _ => None,
        };
        state.rule.target = match built_in {
            Some(verdict) => Some(Target::Verdict(verdict, Place(at))),
            None => match grammar::find(Role::Target, text, self.family) {
                Some(spec) => Some(Target::Module(Instance {
                    spec,
                    options: Vec::new(),
                    at: Place(at),
                })),
                None => match self.chain_name(text, at) {
                    Some(name) => Some(Target::Jump(name, Place(at))),
                    None => {
                        state.faulty = true;
                        None
                    }
                },
            },
        };
    }

    fn goto(&mut self, state: &mut RuleState, text: &str, at: Span) {
        state.target_at = Some(at);
        state.matches_before_target = state.rule.matches.len();
        let is_target = ["ACCEPT", "DROP", "RETURN"].contains(&text)
            || grammar::find(Role::Target, text, self.family).is_some();
        if is_target {
            let message = format!("`-g` goes to a user chain, and `{text}` is a target");
            let found = Diagnostic::error("bad-goto", at, message);
            return self.fail(state, found.help(format!("write `-j {text}`")));
        }
        match self.chain_name(text, at) {
            Some(name) => state.rule.target = Some(Target::Goto(name, Place(at))),
            None => state.faulty = true,
        }
    }
}

/// Whether an address is no condition at all.
fn is_everything(address: &Address) -> bool {
    match address {
        Address::V4(_, mask) => mask.to_bits() == 0,
        Address::V6(_, mask) => mask.to_bits() == 0,
        Address::Name(_) => false,
    }
}
