//! What the options of a module mean together: which are needed, which exclude each other, and
//! the canonical form (defaults that are always printed filled in, defaults that are never
//! printed taken out, negations folded where two options are each other's opposite).
//!
//! Source: `iptables-extensions(8)`, and what `iptables-legacy-save` 1.8.9 prints for each form.

use super::super::ast::{Instance, Name, Opt, Rule, Target, table_name};
use super::super::grammar::Role;
use super::super::names::protocols;
use super::super::value::Value;
use super::Parser;
use super::rule::RuleState;
use crate::model::{Family, Table};
use crate::syntax::{Diagnostic, Place, Span};

/// Completes a rule that was read to its end, and checks what can only be checked then.
pub(super) fn finish_rule(
    parser: &mut Parser,
    state: &mut RuleState,
    chain: &Name,
    table: Option<Table>,
) {
    if state.faulty {
        return;
    }
    let mut found = Vec::new();
    let family = state.rule.only.unwrap_or(parser.family);
    let mut rule = std::mem::take(&mut state.rule);
    for instance in &mut rule.matches {
        finish_instance(instance, family, &mut found);
    }
    if let Some(Target::Module(instance)) = &mut rule.target {
        finish_instance(instance, family, &mut found);
    }
    check_interfaces(&rule, chain, table, &mut found);
    check_protocols(&rule, &mut found);
    if family == Family::V6 {
        check_extension(&rule, &mut found);
    }
    check_tables(&rule, table, &mut found);
    check_together(&rule, &mut found);
    state.rule = rule;
    for diagnostic in found {
        state.faulty |= diagnostic.is_error();
        parser.report(diagnostic);
    }
}

/// `-i` where nothing was received, `-o` where nothing is sent.
fn check_interfaces(rule: &Rule, chain: &Name, table: Option<Table>, found: &mut Vec<Diagnostic>) {
    let built_in = table.is_some_and(|t| super::statement::built_in_chains(t).contains(&&**chain));
    if !built_in {
        return;
    }
    let wrong_in = rule
        .in_interface
        .as_ref()
        .filter(|_| matches!(&**chain, "OUTPUT" | "POSTROUTING"));
    if let Some(basic) = wrong_in {
        let message = format!("`-i` cannot be used in {chain}: the packet was not received there");
        found.push(Diagnostic::error("wrong-hook", basic.at.0, message).help("use `-o`"));
    }
    let wrong_out = rule
        .out_interface
        .as_ref()
        .filter(|_| matches!(&**chain, "INPUT" | "PREROUTING"));
    if let Some(basic) = wrong_out {
        let message = format!("`-o` cannot be used in {chain}: the packet is not being sent there");
        found.push(Diagnostic::error("wrong-hook", basic.at.0, message).help("use `-i`"));
    }
}

fn instances(rule: &Rule) -> impl Iterator<Item = &Instance> {
    let target = match &rule.target {
        Some(Target::Module(instance)) => Some(instance),
        _ => None,
    };
    rule.matches.iter().chain(target)
}

pub(super) fn option_word(instance: &Instance) -> String {
    match instance.spec.role {
        Role::Match => format!("-m {}", instance.spec.name),
        Role::Target => format!("-j {}", instance.spec.name),
    }
}

/// Whether the rule demands one of these protocols.
fn demands(rule: &Rule, protocols: &[u8]) -> bool {
    rule.protocol
        .as_ref()
        .is_some_and(|basic| !basic.negated && protocols.contains(&basic.value))
}

fn protocol_names(numbers: &[u8]) -> String {
    let names = numbers.iter().map(|&number| match protocols::name(number) {
        Some(name) => format!("`-p {name}`"),
        None => format!("`-p {number}`"),
    });
    names.collect::<Vec<_>>().join(" or ")
}

fn check_protocols(rule: &Rule, found: &mut Vec<Diagnostic>) {
    for instance in instances(rule) {
        let needed = instance.spec.protocols;
        if needed.is_empty() || demands(rule, needed) {
            continue;
        }
        let message = format!(
            "`{}` needs {}",
            option_word(instance),
            protocol_names(needed)
        );
        let at = rule
            .protocol
            .as_ref()
            .map_or(instance.at.0, |basic| basic.at.0);
        let mut diagnostic = Diagnostic::error("needs-protocol", instance.at.0, message);
        if rule.protocol.is_some() {
            diagnostic = diagnostic.related(at, "the rule has this instead");
        }
        found.push(diagnostic.help("a module of one protocol works only in a rule for it"));
    }
}

/// IPv6 extension headers are no protocol of a packet: ip6tables, too, warns of such a rule.
fn check_extension(rule: &Rule, found: &mut Vec<Diagnostic>) {
    const EXTENSIONS: [u8; 5] = [0, 43, 44, protocols::AH, 60];
    let extension = rule
        .protocol
        .as_ref()
        .filter(|basic| !basic.negated && EXTENSIONS.contains(&basic.value));
    if let Some(basic) = extension {
        let message = "no packet matches: this protocol is an IPv6 extension header";
        found.push(
            Diagnostic::warning("never-matches", basic.at.0, message)
                .help("what follows the header is the protocol of the packet"),
        );
    }
}

fn check_tables(rule: &Rule, table: Option<Table>, found: &mut Vec<Diagnostic>) {
    let Some(table) = table else { return };
    for instance in instances(rule) {
        let allowed = instance.spec.tables;
        if allowed.is_empty() || allowed.contains(&table) {
            continue;
        }
        let names: Vec<_> = allowed.iter().map(|&table| table_name(table)).collect();
        let word = option_word(instance);
        let message = format!(
            "`{word}` belongs to table {}, and this is table {}",
            names.join(" or "),
            table_name(table)
        );
        let help = format!("move the rule into the block `*{}`", names[0]);
        found.push(Diagnostic::error("wrong-table", instance.at.0, message).help(help));
    }
}

/// Demands across modules.
fn check_together(rule: &Rule, found: &mut Vec<Diagnostic>) {
    const WITH_PORTS: &[u8] = &[
        protocols::TCP,
        protocols::UDP,
        protocols::SCTP,
        protocols::DCCP,
        protocols::UDPLITE,
    ];
    for instance in instances(rule) {
        let options = &instance.options;
        let needs = |names: &[&str]| {
            options
                .iter()
                .find(|option| names.contains(&option.spec.name))
        };
        let (option, needed): (Option<&Opt>, &[u8]) = match (instance.spec.name, instance.spec.role)
        {
            ("ecn", Role::Match) => (needs(&["ecn-tcp-cwr", "ecn-tcp-ece"]), &[protocols::TCP]),
            ("REJECT", _) => {
                let reset = |option: &&Opt| option.value == Value::Text("tcp-reset".into());
                (options.iter().find(reset), &[protocols::TCP])
            }
            ("ECN", Role::Target) => (
                needs(&["ecn-tcp-remove", "ecn-tcp-ece", "ecn-tcp-cwr"]),
                &[protocols::TCP],
            ),
            ("SNAT" | "DNAT", _) => {
                let with_ports =
                    |option: &&Opt| matches!(&option.value, Value::Nat(nat) if nat.ports.is_some());
                (options.iter().find(with_ports), WITH_PORTS)
            }
            ("MASQUERADE" | "REDIRECT", _) => (needs(&["to-ports"]), WITH_PORTS),
            _ => (None, &[]),
        };
        if let Some(option) = option.filter(|_| !demands(rule, needed)) {
            let message = format!("this needs {}", protocol_names(needed));
            let diagnostic = Diagnostic::error("needs-protocol", option.at.0, message);
            found.push(diagnostic.help("add the protocol to the rule"));
        }
        if instance.spec.name == "TCPMSS" && !tests_syn(rule) {
            let message = "`-j TCPMSS` needs a test for SYN in the same rule";
            let diagnostic = Diagnostic::error("needs-syn", instance.at.0, message);
            found.push(diagnostic.help("add `-m tcp --tcp-flags SYN,RST SYN`"));
        }
    }
}

fn tests_syn(rule: &Rule) -> bool {
    const SYN: u32 = 2;
    let tests = |option: &Opt| match option.value {
        Value::Masked(value, _) => value & SYN != 0 && !option.negated,
        _ => false,
    };
    let modules = rule
        .matches
        .iter()
        .filter(|instance| instance.spec.name == "tcp");
    modules
        .filter_map(|instance| instance.option("tcp-flags"))
        .any(tests)
}

/// One instance with what its checks say.
pub(super) struct Finish<'f> {
    pub(super) instance: &'f mut Instance,
    pub(super) family: Family,
    pub(super) found: &'f mut Vec<Diagnostic>,
}

fn finish_instance(instance: &mut Instance, family: Family, found: &mut Vec<Diagnostic>) {
    let mut finish = Finish {
        instance,
        family,
        found,
    };
    match finish.instance.spec.role {
        Role::Match => finish.match_module(),
        Role::Target => finish.target_module(),
    }
    let spec = finish.instance.spec;
    if !spec.as_written {
        finish
            .instance
            .options
            .sort_by_key(|option| spec.rank(option.spec.name));
    }
}

impl Finish<'_> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.instance.option(name).is_some()
    }

    pub(super) fn at(&self) -> Span {
        self.instance.at.0
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Opt> {
        self.instance
            .options
            .iter_mut()
            .find(|option| option.spec.name == name)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Opt> {
        let index = self
            .instance
            .options
            .iter()
            .position(|option| option.spec.name == name)?;
        Some(self.instance.options.remove(index))
    }

    pub(super) fn add(&mut self, name: &'static str, value: Value) {
        let spec = self.instance.spec.option(name);
        let at = Place(self.at());
        self.instance.options.push(Opt {
            spec,
            negated: false,
            value,
            at,
        });
    }

    /// Adds an option that is always printed.
    pub(super) fn default(&mut self, name: &'static str, value: Value) {
        if !self.has(name) {
            self.add(name, value);
        }
    }

    /// Takes out an option that says what would hold without it.
    pub(super) fn drop_default(&mut self, name: &str, value: &Value) {
        if self
            .instance
            .option(name)
            .is_some_and(|option| option.value == *value && !option.negated)
        {
            self.remove(name);
        }
    }

    pub(super) fn list(names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
        names.join(", ")
    }

    /// At least one of these must be there.
    pub(super) fn need_one(&mut self, names: &[&str]) {
        if names.iter().any(|name| self.has(name)) {
            return;
        }
        let message = format!(
            "`{}` needs {}",
            option_word(self.instance),
            match names {
                [name] => format!("`--{name}`"),
                names => format!("one of {}", Self::list(names)),
            }
        );
        let diagnostic = Diagnostic::error("missing-option", self.at(), message);
        self.found
            .push(diagnostic.help("add it after the module's name"));
    }

    /// At most one of these may be there.
    pub(super) fn at_most_one(&mut self, names: &[&str]) {
        let mut given = self
            .instance
            .options
            .iter()
            .filter(|option| names.contains(&option.spec.name));
        let (Some(first), Some(second)) = (given.next(), given.next()) else {
            return;
        };
        let message = format!(
            "`--{}` cannot be used together with `--{}`",
            second.spec.name, first.spec.name
        );
        let diagnostic = Diagnostic::error("excludes", second.at.0, message)
            .related(first.at.0, "the other one")
            .help("take one of them out");
        self.found.push(diagnostic);
    }

    /// `name` works only beside one of `others`.
    pub(super) fn only_with(&mut self, name: &str, others: &[&str]) {
        let Some(option) = self.instance.option(name) else {
            return;
        };
        if others.iter().any(|other| self.has(other)) {
            return;
        }
        let message = format!("`--{name}` needs {} beside it", Self::list(others));
        let diagnostic = Diagnostic::error("missing-option", option.at.0, message);
        self.found
            .push(diagnostic.help("add it, or take this option out"));
    }

    /// Two options are opposites: `! --one` becomes `--other`.
    pub(super) fn fold_opposite(&mut self, one: &'static str, other: &'static str) {
        for (from, to) in [(one, other), (other, one)] {
            if self
                .instance
                .option(from)
                .is_some_and(|option| option.negated)
            {
                let spec = self.instance.spec.option(to);
                if let Some(option) = self.get_mut(from) {
                    option.negated = false;
                    option.spec = spec;
                }
                return;
            }
        }
    }

    /// A mask length above the family's width stands for a single address.
    pub(super) fn prefix(&mut self, name: &str) {
        let width = self.width();
        let Some(option) = self.get_mut(name) else {
            return;
        };
        if let Value::Number(length) = option.value
            && length > width
        {
            let at = option.at.0;
            let message = format!("a prefix of {length} bits is too long for this family");
            let diagnostic = Diagnostic::error("bad-number", at, message);
            self.found.push(diagnostic.help(format!("0 to {width}")));
        }
    }

    pub(super) fn width(&self) -> u64 {
        match self.family {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
}
