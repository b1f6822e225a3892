//! A rule as `ipfw list` prints it, without number, counters and set.
//!
//! In: a [`Rule`]. Out: its text. Protocols, addresses and ports that options named move into the
//! `from ... to ...` part when that part was written; alternatives move only as a whole. Where that
//! form of the original would be read as another rule, less moves ([`super::back`]).

use super::super::ast::{Action, Argument, Instruction, Pattern, Reject, Rule, StateKind};
use super::super::names::{self, DSCP, LIMIT_FIELDS, LOG_DESTINATIONS, UNREACH, UNREACH6};
use super::back::{self, Plan};
use super::pattern;
use crate::model::Family;
use std::fmt::Write;

/// How rules are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// `-c`: leave `from any to any` out.
    pub compact: bool,
    /// `-b`: action and comment only.
    pub brief: bool,
    /// `-N`: services by name.
    pub names: bool,
    /// Lines of a `log` without `logamount`.
    pub log_default: u32,
}

/// The text of a rule.
#[must_use]
pub fn rule(rule: &Rule, form: Form) -> String {
    let plan = match form.brief {
        true => Plan::Canonical,
        false => back::plan(rule, |plan| {
            let mut printer = Printer::new(rule, Form::default(), plan);
            printer.body();
            printer.out
        }),
    };
    let mut printer = Printer::new(rule, form, plan);
    printer.whole();
    printer.out
}

/// The part of a rule that a pattern can move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Proto,
    Src,
    Dst,
    SrcPort,
    DstPort,
    Other,
}

pub(super) fn class(pattern: &Pattern) -> Class {
    match pattern {
        Pattern::Proto(_) | Pattern::Ip4 | Pattern::Ip6 => Class::Proto,
        Pattern::Src(_) => Class::Src,
        Pattern::Dst(_) => Class::Dst,
        Pattern::SrcPort(_) => Class::SrcPort,
        Pattern::DstPort(_) => Class::DstPort,
        _ => Class::Other,
    }
}

struct Printer<'r> {
    rule: &'r Rule,
    form: Form,
    plan: Plan,
    out: String,
    printed: Vec<bool>,
    block: bool,
    have_proto: bool,
    have_src: bool,
    have_dst: bool,
    proto: u16,
}

impl<'r> Printer<'r> {
    fn new(rule: &'r Rule, form: Form, plan: Plan) -> Self {
        Self {
            rule,
            form,
            plan,
            out: String::new(),
            printed: vec![false; rule.body.len()],
            block: false,
            have_proto: false,
            have_src: false,
            have_dst: false,
            proto: 0,
        }
    }

    fn whole(&mut self) {
        let rule = self.rule;
        if let Some(units) = rule.probability {
            let value = f64::from(units) / f64::from(0x7fff_ffff_u32);
            let _ = write!(self.out, "prob {value:.6} ");
        }
        // A lone comment is printed as the counting rule that it is.
        self.out += &action(&rule.action);
        self.modifiers();
        if matches!(rule.action, Action::CheckState(_)) {
            self.comment();
            return;
        }
        if !self.form.brief {
            self.body();
        }
        self.comment();
        if rule.comment().is_none() {
            let is_bare = rule.just_options && rule.body.is_empty() && rule.state.is_none();
            match (self.form.brief, is_bare) {
                (true, _) => self.out += " // ...",
                // An action alone reads as a rule that breaks off; this was an empty comment.
                (false, true) => self.out += " //",
                (false, false) => {}
            }
        }
    }

    fn comment(&mut self) {
        for one in &self.rule.body {
            if let Pattern::Comment(text) = &one.pattern {
                // A `not` that found nothing else falls on the comment, which then never holds.
                let not = if one.negate { " not" } else { "" };
                let _ = write!(self.out, "{not} // {text}");
            }
        }
    }

    fn modifiers(&mut self) {
        if let Some(log) = &self.rule.log {
            self.out += " log";
            if let Some(amount) = log.amount.filter(|n| *n != self.form.log_default) {
                let _ = write!(self.out, " logamount {amount}");
            }
            if log.destinations != 0 {
                let list: Vec<&str> = LOG_DESTINATIONS
                    .iter()
                    .filter(|(_, bit)| u32::from(log.destinations) & bit != 0)
                    .map(|(name, _)| *name)
                    .collect();
                let _ = write!(self.out, " logdst {}", list.join(","));
            }
        }
        if let Some(queue) = &self.rule.altq {
            let _ = write!(self.out, " altq {queue}");
        }
        if let Some(tag) = &self.rule.tag {
            let word = if tag.remove { "untag" } else { "tag" };
            let _ = write!(self.out, " {word} {}", pattern::argument(tag.tag));
        }
    }

    fn body(&mut self) {
        if self.rule.just_options {
            (self.have_proto, self.have_src, self.have_dst) = (true, true, true);
        } else {
            self.protocols();
            if !(self.form.compact && self.rule.any_to_any) {
                self.out += " from";
                self.addresses(Class::Src, Class::SrcPort);
                self.have_src = true;
                self.out += " to";
                self.addresses(Class::Dst, Class::DstPort);
            }
        }
        (self.have_src, self.have_dst) = (true, true);
        self.rest();
    }

    /// Whether the alternatives that this pattern belongs to are all of one class.
    fn alone(&self, at: usize, wanted: Class) -> bool {
        let body = &self.rule.body;
        let mut first = at;
        while first > 0 && body[first - 1].or_next {
            first -= 1;
        }
        let mut last = at;
        while body[last].or_next && last + 1 < body.len() {
            last += 1;
        }
        // An open alternative before a comment leaves the comment out of it.
        let members = body[first..=last]
            .iter()
            .filter(|one| !matches!(one.pattern, Pattern::Comment(_)));
        members.clone().count() > 0 && members.into_iter().all(|one| class(&one.pattern) == wanted)
    }

    fn movable(&self, wanted: Class) -> Option<usize> {
        if self.plan == Plan::Nothing {
            return None;
        }
        (0..self.rule.body.len()).find(|at| {
            !self.printed[*at]
                && class(&self.rule.body[*at].pattern) == wanted
                && self.alone(*at, wanted)
        })
    }

    /// Prints a pattern and the alternatives that follow it.
    fn group(&mut self, first: usize, filler: &str) {
        let mut at = first;
        loop {
            self.instruction(at);
            let next = at + 1;
            let goes_on = self.rule.body[at].or_next
                && next < self.rule.body.len()
                && !matches!(self.rule.body[next].pattern, Pattern::Comment(_));
            if !goes_on {
                break;
            }
            at = next;
        }
        self.close(filler);
    }

    /// Closes a block whose last alternative tests nothing.
    fn close(&mut self, filler: &str) {
        if self.block {
            let _ = write!(self.out, " {filler} }}");
            self.block = false;
        }
    }

    /// The protocol word. A lone family is preferred to other protocols, which then follow as
    /// options, as the original has it.
    fn protocols(&mut self) {
        let body = &self.rule.body;
        let family = |at: &usize| matches!(body[*at].pattern, Pattern::Ip4 | Pattern::Ip6);
        let candidates: Vec<usize> = (0..body.len())
            .filter(|at| class(&body[*at].pattern) == Class::Proto && self.alone(*at, Class::Proto))
            .collect();
        let first_of_group = |at: usize| at == 0 || !body[at - 1].or_next;
        let starts: Vec<usize> = candidates
            .into_iter()
            .filter(|at| first_of_group(*at))
            .collect();
        let six = |at: &usize| matches!(body[*at].pattern, Pattern::Ip6);
        let chosen = match self.plan {
            Plan::Canonical => starts
                .iter()
                .find(|at| six(at))
                .or_else(|| starts.iter().find(|at| family(at)))
                .or(starts.first()),
            Plan::FirstProtocol => starts.first(),
            Plan::Addresses | Plan::Nothing => None,
        };
        match chosen.copied() {
            Some(at) => self.group(at, "ip"),
            None => self.out += " ip",
        }
        self.have_proto = true;
        let has_six = self.rule.body.iter().any(|one| one.pattern == Pattern::Ip6);
        if self.proto == 0 && has_six {
            self.proto = 41;
        }
    }

    fn addresses(&mut self, wanted: Class, port: Class) {
        match self.movable(wanted) {
            Some(at) => self.group(at, "any"),
            None => self.out += " any",
        }
        let ports: Vec<usize> = (0..self.rule.body.len())
            .filter(|at| class(&self.rule.body[*at].pattern) == port)
            .collect();
        // Several of them stay options.
        if let [only] = ports[..]
            && self.plan != Plan::Nothing
        {
            let in_block =
                self.rule.body[only].or_next || only > 0 && self.rule.body[only - 1].or_next;
            if !in_block {
                self.instruction(only);
            }
        }
    }

    fn rest(&mut self) {
        for at in 0..self.rule.body.len() {
            if !self.printed[at] && !matches!(self.rule.body[at].pattern, Pattern::Comment(_)) {
                self.instruction(at);
            }
        }
        self.close("via any");
        if let Some(state) = &self.rule.state {
            if state.negate {
                self.out += " not";
            }
            self.out += match (&state.kind, state.probe) {
                (StateKind::Keep, true) => " keep-state",
                (StateKind::Keep, false) => " record-state",
                (StateKind::Limit { .. }, true) => " limit",
                (StateKind::Limit { .. }, false) => " set-limit",
            };
            if let StateKind::Limit { mask, count } = &state.kind {
                let fields = limit_fields(*mask);
                let _ = write!(self.out, " {fields} {}", pattern::argument(*count));
            }
            self.out += &pattern::flow(&state.name);
        }
        if self.rule.defer {
            self.out += " defer-immediate-action";
        }
    }

    fn instruction(&mut self, at: usize) {
        let Instruction {
            pattern,
            negate,
            or_next,
            ..
        } = &self.rule.body[at];
        self.printed[at] = true;
        if *or_next && !self.block {
            self.out += " {";
            self.block = true;
        } else if !*or_next && self.block {
            self.text(pattern, *negate);
            self.out += " }";
            self.block = false;
            return;
        }
        self.text(pattern, *negate);
        if *or_next {
            self.out += " or";
        }
    }

    fn text(&mut self, pattern: &Pattern, negate: bool) {
        if *pattern == Pattern::In {
            self.out += if negate { " out" } else { " in" };
            return;
        }
        if negate {
            self.out += " not";
        }
        let text = match pattern {
            Pattern::Proto(number) => {
                self.proto = *number & 0xff;
                let word = protocol(*number);
                self.keyword(self.have_proto, "proto", &word)
            }
            Pattern::Ip4 => self.keyword(self.have_proto, "proto", "ip4"),
            Pattern::Ip6 => self.keyword(self.have_proto, "proto", "ip6"),
            Pattern::Src(address) => {
                let word = match pattern::family(address) {
                    Family::V4 => "src-ip",
                    Family::V6 => "src-ip6",
                };
                self.keyword(self.have_src, word, &pattern::address(address))
            }
            Pattern::Dst(address) => {
                let word = match pattern::family(address) {
                    Family::V4 => "dst-ip",
                    Family::V6 => "dst-ip6",
                };
                self.keyword(self.have_dst, word, &pattern::address(address))
            }
            Pattern::SrcPort(list) => {
                let ports = pattern::ports(list, self.proto, self.form.names);
                self.keyword(self.have_src && self.have_dst, "src-port", &ports)
            }
            Pattern::DstPort(list) => {
                let ports = pattern::ports(list, self.proto, self.form.names);
                self.keyword(self.have_src && self.have_dst, "dst-port", &ports)
            }
            other => pattern::option(other, self.form.names),
        };
        self.out += &text;
    }

    fn keyword(&self, needed: bool, word: &str, value: &str) -> String {
        match needed {
            true => format!(" {word} {value}"),
            false => format!(" {value}"),
        }
    }
}

/// A protocol by the name that reads back: `ip` and `ipv6` are versions where rules are read.
fn protocol(number: u16) -> String {
    let known = u8::try_from(number).ok().and_then(names::protocols::name);
    match (number, known) {
        // What 16 bits keep of it.
        (0, _) => "65536".to_owned(),
        (41, _) | (_, None) => number.to_string(),
        (_, Some(name)) => name.to_owned(),
    }
}

fn limit_fields(mask: u8) -> String {
    let mut left = u32::from(mask);
    let mut out: Vec<&str> = Vec::new();
    for (name, bits) in LIMIT_FIELDS {
        if left & bits == *bits {
            left &= !bits;
            out.push(name);
        }
        if left == 0 {
            break;
        }
    }
    out.join(",")
}

/// The text of an action.
#[must_use]
pub fn action(action: &Action) -> String {
    let with = |word: &str, argument: Argument| format!("{word} {}", pattern::argument(argument));
    match action {
        Action::Allow => "allow".to_owned(),
        Action::Deny => "deny".to_owned(),
        Action::Count => "count".to_owned(),
        Action::Return => "return".to_owned(),
        Action::Reass => "reass".to_owned(),
        Action::Reject(kind) => reject(*kind),
        Action::CheckState(name) => {
            let name = name.as_deref().unwrap_or("any");
            format!("check-state :{name}")
        }
        Action::Skipto(to) => with("skipto", *to),
        Action::Call(to) => with("call", *to),
        Action::Divert(port) => with("divert", *port),
        Action::Tee(port) => with("tee", *port),
        Action::Pipe(number) => with("pipe", *number),
        Action::Queue(number) => with("queue", *number),
        Action::Netgraph(cookie) => with("netgraph", *cookie),
        Action::Ngtee(cookie) => with("ngtee", *cookie),
        Action::Nat(None) => "nat global".to_owned(),
        Action::Nat(Some(number)) => with("nat", *number),
        Action::SetFib(fib) => with("setfib", *fib),
        Action::SetDscp(Argument::Number(code)) => {
            let word = names::word(DSCP, *code).map_or_else(|| code.to_string(), str::to_owned);
            format!("setdscp {word}")
        }
        Action::SetDscp(Argument::TableArg) => "setdscp tablearg".to_owned(),
        Action::SetMark(Argument::Number(mark)) => format!("setmark {mark:#x}"),
        Action::SetMark(Argument::TableArg) => "setmark tablearg".to_owned(),
        Action::TcpSetMss(mss) => format!("tcp-setmss {mss}"),
        Action::External(name, instance) => {
            let known = ["nat64lsn", "nat64stl", "nat64clat", "nptv6"];
            match known.contains(&name.as_str()) {
                true => format!("{name} {instance}"),
                false => format!("eaction {name} {instance}"),
            }
        }
        Action::Forward { address, port } => {
            let host = address.map_or_else(|| "tablearg".to_owned(), |a| a.to_string());
            match port {
                0 => format!("fwd {host}"),
                port => format!("fwd {host},{port}"),
            }
        }
    }
}

fn reject(kind: Reject) -> String {
    match kind {
        Reject::Reset => "reset".to_owned(),
        Reject::Reset6 => "reset6".to_owned(),
        Reject::Abort => "abort".to_owned(),
        Reject::Abort6 => "abort6".to_owned(),
        Reject::Unreach(1, _) => "reject".to_owned(),
        Reject::Unreach(code, mtu) => {
            let word = names::word(UNREACH, u32::from(code));
            let word = word.map_or_else(|| code.to_string(), str::to_owned);
            match mtu {
                Some(mtu) => format!("unreach {word} {mtu}"),
                None => format!("unreach {word}"),
            }
        }
        Reject::Unreach6(code) => {
            let word = names::word(UNREACH6, u32::from(code));
            let word = word.map_or_else(|| code.to_string(), str::to_owned);
            format!("unreach6 {word}")
        }
    }
}
