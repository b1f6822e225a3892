//! One rule: basic matches, modules with their options, and the target.
//!
//! As in the original, an option belongs to the module loaded last that has it; an option that no
//! loaded module has loads the module of the rule's protocol (`-p tcp --dport 22`), at that place
//! in the order of tests.

use super::super::ast::{Instance, Name, Rule, Target};
use super::super::grammar::{self, ModuleSpec, Role};
use super::super::names::protocols;
use super::{Parser, finish};
use crate::model::{Counters, Family, Table};
use crate::syntax::{Cursor, Diagnostic, Place, Span, Word};

/// A rule while it is read.
#[derive(Default)]
pub(super) struct RuleState {
    pub(super) rule: Rule,
    /// Something in it was wrong; it will not become part of the tree.
    pub(super) faulty: bool,
    /// `!` was read and waits for its option.
    pub(super) negation: Option<Span>,
    pub(super) counters: Option<Counters>,
    pub(super) target_at: Option<Span>,
    /// How many match modules were loaded when the target was: later ones are searched first.
    pub(super) matches_before_target: usize,
    protocol_module_loaded: bool,
    /// A module of the rule is unknown, so that options which no module has may be its own.
    pub(super) unknown_module: bool,
}

impl RuleState {
    /// Takes the pending negation.
    pub(super) fn take_negation(&mut self) -> bool {
        self.negation.take().is_some()
    }

    /// The protocol that the rule demands (not one that it excludes).
    pub(super) fn protocol(&self) -> Option<u8> {
        self.rule
            .protocol
            .as_ref()
            .filter(|basic| !basic.negated)
            .map(|basic| basic.value)
    }
}

/// Options that every rule has: short and long name.
const BASICS: &[(&str, &str)] = &[
    ("-p", "protocol"),
    ("-s", "source"),
    ("-s", "src"),
    ("-d", "destination"),
    ("-d", "dst"),
    ("-i", "in-interface"),
    ("-o", "out-interface"),
    ("-f", "fragments"),
    ("-j", "jump"),
    ("-g", "goto"),
    ("-m", "match"),
    ("-c", "set-counters"),
    ("-4", "ipv4"),
    ("-6", "ipv6"),
    ("-t", "table"),
];

/// Where an option was found.
enum Found {
    Basic(&'static str),
    /// Index of the instance (`usize::MAX`: the target) and the option.
    Option(usize, &'static grammar::OptionSpec),
}

/// The target's index among the instances.
pub(super) const TARGET: usize = usize::MAX;

impl Parser {
    /// Reads the rest of a rule's line.
    pub(super) fn rule(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        chain: &Name,
        table: Option<Table>,
    ) -> Option<(Rule, Option<Counters>)> {
        let mut state = RuleState::default();
        let state_ref = &mut state;
        while let Some(word) = cursor.take() {
            self.item(state_ref, word, cursor);
        }
        if let Some(at) = state.negation {
            let found = Diagnostic::error("stray-negation", at, "`!` at the end of the rule");
            self.fail(
                &mut state,
                found.help("write it before the option that it negates"),
            );
        }
        finish::finish_rule(self, &mut state, chain, table);
        (!state.faulty).then_some((state.rule, state.counters))
    }

    /// Reports an error of this rule.
    pub(super) fn fail(&mut self, state: &mut RuleState, diagnostic: Diagnostic) {
        state.faulty = true;
        self.report(diagnostic);
    }

    /// One word that starts an item.
    fn item<'w>(&mut self, state: &mut RuleState, word: &'w Word<'_>, cursor: &mut Cursor<'w, '_>) {
        let at = cursor.span(word);
        let text = &*word.text;
        if text == "!" && !word.quoted {
            if state.negation.replace(at).is_some() {
                let found = Diagnostic::error("stray-negation", at, "two `!` in a row");
                self.fail(state, found.help("write one, or none"));
            }
            return;
        }
        if let Some(rest) = text.strip_prefix("--").filter(|rest| !rest.is_empty()) {
            let (name, inline) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (rest, None),
            };
            return self.long_option(state, name, inline, at, cursor);
        }
        let is_short = text.len() == 2 && text.starts_with('-') && text != "--";
        if is_short && BASICS.iter().any(|row| row.0 == text) {
            return self.basic(state, text, None, at, cursor);
        }
        self.not_an_item(state, word, at);
        skip_values(cursor);
    }

    fn not_an_item(&mut self, state: &mut RuleState, word: &Word<'_>, at: Span) {
        state.negation = None;
        let text = &*word.text;
        let glued = text
            .get(..2)
            .filter(|start| BASICS.iter().any(|row| row.0 == *start));
        let found = if let Some(name) = text.strip_prefix('-').filter(|name| is_long(name)) {
            let message = format!("unknown option `{text}`");
            let help = format!("write `--{name}`, with two hyphens");
            Diagnostic::error("unknown-option", at, message).help(help)
        } else if let Some(start) = glued {
            let message = format!("`{text}` is not an option");
            let help = format!("write a blank after `{start}`");
            Diagnostic::error("unknown-option", at, message).help(help)
        } else if text.starts_with('-') && text.len() > 1 {
            let message = format!("unknown option `{text}`");
            let names = BASICS.iter().map(|row| row.0);
            let found = Diagnostic::error("unknown-option", at, message);
            match text.len() {
                2 => {
                    found.help("options of one letter here are -s -d -p -i -o -f -m -j -g -c -4 -6")
                }
                _ => found
                    .help("a long option starts with two hyphens")
                    .did_you_mean(text, names),
            }
        } else {
            let message = format!("unexpected word `{text}`");
            let found = Diagnostic::error("unexpected-word", at, message);
            match text.starts_with('\'') || text.ends_with('\'') {
                true => found.help("only double quotes join words here"),
                false => {
                    found.help("take it out, or write the option that it belongs to before it")
                }
            }
        };
        self.fail(state, found);
    }

    fn long_option<'w>(
        &mut self,
        state: &mut RuleState,
        name: &str,
        inline: Option<&'w str>,
        at: Span,
        cursor: &mut Cursor<'w, '_>,
    ) {
        match self.find_option(state, name, at) {
            Ok(Found::Basic(short)) => self.basic(state, short, inline, at, cursor),
            Ok(Found::Option(index, spec)) => {
                self.module_option(state, index, spec, inline, at, cursor);
            }
            Err(found) => {
                state.negation = None;
                if !state.unknown_module {
                    self.fail(state, found);
                }
                skip_values(cursor);
            }
        }
    }

    /// Which option a long name means; may load the module of the protocol.
    fn find_option(
        &mut self,
        state: &mut RuleState,
        name: &str,
        at: Span,
    ) -> Result<Found, Diagnostic> {
        if let Some(row) = BASICS.iter().find(|row| row.1 == name) {
            return Ok(Found::Basic(row.0));
        }
        if let Some(found) = exact(state, name) {
            return Ok(found);
        }
        let mut beginnings = beginnings(state, name);
        match beginnings.len() {
            0 => {}
            1 => return Ok(beginnings.swap_remove(0).1),
            _ => {
                let names: Vec<_> = beginnings
                    .iter()
                    .map(|row| format!("--{}", row.0))
                    .collect();
                let message = format!("`--{name}` could be several options");
                return Err(Diagnostic::error("ambiguous-option", at, message)
                    .help(format!("write one of {}", names.join(", "))));
            }
        }
        if let Some(spec) = self.protocol_module(state)
            && (spec
                .options
                .iter()
                .any(|option| has_name(option, name, true))
                || spec
                    .options
                    .iter()
                    .filter(|option| has_name(option, name, false))
                    .count()
                    == 1)
        {
            state.protocol_module_loaded = true;
            push_match(
                state,
                Instance {
                    spec,
                    options: Vec::new(),
                    at: Place(at),
                },
            );
            return exact(state, name)
                .or_else(|| self::beginnings(state, name).pop().map(|row| row.1))
                .ok_or_else(|| self.unknown_option(state, name, at));
        }
        Err(self.unknown_option(state, name, at))
    }

    /// The module that the rule's protocol would load.
    fn protocol_module(&self, state: &RuleState) -> Option<&'static ModuleSpec> {
        if state.protocol_module_loaded {
            return None;
        }
        let name = match (state.protocol()?, self.family) {
            (protocols::TCP, _) => "tcp",
            (protocols::UDP, _) => "udp",
            (protocols::UDPLITE, _) => "udplite",
            (protocols::SCTP, _) => "sctp",
            (protocols::DCCP, _) => "dccp",
            (protocols::ESP, _) => "esp",
            (protocols::AH, _) => "ah",
            (protocols::IPCOMP, _) => "ipcomp",
            (protocols::ICMP, Family::V4) => "icmp",
            (protocols::ICMPV6, Family::V6) => "icmp6",
            (protocols::MOBILITY, Family::V6) => "mh",
            _ => return None,
        };
        let spec = grammar::find(Role::Match, name, self.family)?;
        let loaded = state
            .rule
            .matches
            .iter()
            .any(|instance| std::ptr::eq(instance.spec, spec));
        (!loaded).then_some(spec)
    }

    fn unknown_option(&self, state: &RuleState, name: &str, at: Span) -> Diagnostic {
        let found = Diagnostic::error("unknown-option", at, format!("unknown option `--{name}`"));
        let loaded = loaded(state).flat_map(|(_, instance)| instance.spec.options);
        let own = self
            .protocol_module(state)
            .into_iter()
            .flat_map(|spec| spec.options);
        let near = loaded.chain(own).flat_map(|option| {
            [option.name]
                .into_iter()
                .chain(option.aliases.iter().copied())
        });
        let near = near.chain(BASICS.iter().map(|row| row.1));
        if let Some(owner) = self.owner_of(name) {
            let help = match owner.protocols {
                [protocol] if owner.role == Role::Match => {
                    let protocol = protocols::name(*protocol).unwrap_or(owner.name);
                    format!("it belongs to `-p {protocol}`, which has to come before it")
                }
                _ if owner.role == Role::Match => {
                    format!(
                        "it belongs to `-m {}`, which has to come before it",
                        owner.name
                    )
                }
                _ => format!(
                    "it belongs to `-j {}`, which has to come before it",
                    owner.name
                ),
            };
            return found.help(help);
        }
        match crate::syntax::diag::nearest(name, near) {
            Some(near) => found.help(format!("did you mean `--{near}`?")),
            None => found.help("no loaded module has it; name its module with -m before it"),
        }
    }

    /// A module of the family that has this option, for advice.
    fn owner_of(&self, name: &str) -> Option<&'static ModuleSpec> {
        grammar::all()
            .filter(|spec| spec.families.contains(self.family))
            .find(|spec| {
                spec.options
                    .iter()
                    .any(|option| has_name(option, name, true))
            })
    }
}

/// Whether this is the name of an option that is written with two hyphens.
fn is_long(name: &str) -> bool {
    let basic = || BASICS.iter().any(|row| row.1 == name);
    let mut all = grammar::all().flat_map(|spec| spec.options);
    name.len() > 1 && (basic() || all.any(|option| has_name(option, name, true)))
}

/// Adds a match module; most rules have one, and there may be a million rules.
pub(super) fn push_match(state: &mut RuleState, instance: Instance) {
    if state.rule.matches.is_empty() {
        state.rule.matches.reserve_exact(1);
    }
    state.rule.matches.push(instance);
}

/// Takes the words that belong to an option that could not be read.
pub(super) fn skip_values(cursor: &mut Cursor<'_, '_>) {
    while cursor
        .peek()
        .is_some_and(|word| word.quoted || !(word.text.starts_with('-') || word.text == "!"))
    {
        cursor.take();
    }
}

/// Loaded modules with their index, the newest first.
fn loaded(state: &RuleState) -> impl Iterator<Item = (usize, &Instance)> {
    let (before, after) = state.rule.matches.split_at(state.matches_before_target);
    let target = match &state.rule.target {
        Some(Target::Module(instance)) => Some((TARGET, instance)),
        _ => None,
    };
    let offset = before.len();
    let after = after
        .iter()
        .enumerate()
        .rev()
        .map(move |(i, instance)| (offset + i, instance));
    after.chain(target).chain(before.iter().enumerate().rev())
}

fn has_name(option: &grammar::OptionSpec, name: &str, whole: bool) -> bool {
    let fits = |own: &str| {
        if whole {
            own == name
        } else {
            own.starts_with(name)
        }
    };
    fits(option.name) || option.aliases.iter().any(|alias| fits(alias))
}

fn exact(state: &RuleState, name: &str) -> Option<Found> {
    loaded(state).find_map(|(index, instance)| {
        let option = instance
            .spec
            .options
            .iter()
            .find(|option| has_name(option, name, true))?;
        Some(Found::Option(index, option))
    })
}

/// Options that begin like this, each once (a module that is loaded twice counts once).
fn beginnings(state: &RuleState, name: &str) -> Vec<(&'static str, Found)> {
    let mut found: Vec<(&'static str, Found)> = Vec::new();
    for row in BASICS.iter().filter(|row| row.1.starts_with(name)) {
        if !found
            .iter()
            .any(|(_, other)| matches!(other, Found::Basic(short) if *short == row.0))
        {
            found.push((row.1, Found::Basic(row.0)));
        }
    }
    for (index, instance) in loaded(state) {
        for option in instance
            .spec
            .options
            .iter()
            .filter(|option| has_name(option, name, false))
        {
            let same =
                |other: &Found| matches!(other, Found::Option(_, o) if o.name == option.name);
            if !found.iter().any(|(_, other)| same(other)) {
                found.push((option.name, Found::Option(index, option)));
            }
        }
    }
    found
}
