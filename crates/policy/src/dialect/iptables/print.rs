//! Syntax tree to text, as `iptables-save` prints it.
//!
//! Printing and reading again gives an equal tree (property-tested in `tests/`). Differences from
//! the original are deliberate: address lists stay one line, host names stay names, and a
//! `--datestop` that says "never" is left out.

use super::ast::{
    BuiltIn, ChainVerdict, File, Instance, Placement, Rule, RuleLine, StatementKind, Target,
    table_name,
};
use super::grammar::Role;
use super::names::protocols;
use super::value::{self, Addresses, MaskText, address_text, interface_text};
use crate::model::{Counters, Family};
use std::fmt::Write;

/// Prints a whole file.
#[must_use]
pub fn print(file: &File) -> String {
    let mut out = String::new();
    for statement in &file.statements {
        print_statement(&mut out, &statement.kind);
        out.push('\n');
    }
    out
}

fn print_statement(out: &mut String, kind: &StatementKind) {
    match kind {
        StatementKind::Comment(text) => {
            out.push('#');
            out.push_str(text);
        }
        StatementKind::Table(table) => {
            out.push('*');
            out.push_str(table_name(*table));
        }
        StatementKind::Commit => out.push_str("COMMIT"),
        StatementKind::Chain(chain) => {
            let policy = chain.policy.map_or("-", verdict_name);
            put(out, format_args!(":{} {policy}", chain.name));
            if let Some(counters) = chain.counters {
                out.push(' ');
                print_counters(out, counters);
            }
        }
        StatementKind::Rule(line) => print_rule_line(out, line),
        StatementKind::DeleteNumber(chain, number) => put(out, format_args!("-D {chain} {number}")),
        StatementKind::NewChain(chain) => put(out, format_args!("-N {chain}")),
        StatementKind::Policy(chain, verdict) => {
            put(out, format_args!("-P {chain} {}", verdict_name(*verdict)));
        }
        StatementKind::DeleteChain(chain) => print_command(out, "-X", chain.as_deref(), None),
        StatementKind::Flush(chain) => print_command(out, "-F", chain.as_deref(), None),
        StatementKind::Zero(chain, number) => print_command(out, "-Z", chain.as_deref(), *number),
        StatementKind::Rename(old, new) => put(out, format_args!("-E {old} {new}")),
    }
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("writing to a string cannot fail");
}

fn verdict_name(verdict: ChainVerdict) -> &'static str {
    match verdict {
        ChainVerdict::Accept => "ACCEPT",
        ChainVerdict::Drop => "DROP",
    }
}

fn print_counters(out: &mut String, counters: Counters) {
    put(
        out,
        format_args!("[{}:{}]", counters.packets, counters.bytes),
    );
}

fn print_command(out: &mut String, command: &str, chain: Option<&str>, number: Option<u32>) {
    out.push_str(command);
    if let Some(chain) = chain {
        put(out, format_args!(" {chain}"));
    }
    if let Some(number) = number {
        put(out, format_args!(" {number}"));
    }
}

fn print_rule_line(out: &mut String, line: &RuleLine) {
    if let Some(counters) = line
        .counters
        .filter(|_| line.placement != Placement::Delete)
    {
        print_counters(out, counters);
        out.push(' ');
    }
    match line.placement {
        Placement::Append => put(out, format_args!("-A {}", line.chain)),
        Placement::Insert(1) => put(out, format_args!("-I {}", line.chain)),
        Placement::Insert(number) => put(out, format_args!("-I {} {number}", line.chain)),
        Placement::Replace(number) => put(out, format_args!("-R {} {number}", line.chain)),
        Placement::Delete => put(out, format_args!("-D {}", line.chain)),
    }
    print_rule(out, &line.rule);
    if let Some(counters) = line
        .counters
        .filter(|_| line.placement == Placement::Delete)
    {
        put(
            out,
            format_args!(" -c {} {}", counters.packets, counters.bytes),
        );
    }
}

/// Prints what a rule matches and does, a blank before each word.
pub fn print_rule(out: &mut String, rule: &Rule) {
    match rule.only {
        Some(Family::V4) => out.push_str(" -4"),
        Some(Family::V6) => out.push_str(" -6"),
        None => {}
    }
    print_addresses(out, "-s", rule.source.as_ref());
    print_addresses(out, "-d", rule.destination.as_ref());
    for (option, interface) in [("-i", &rule.in_interface), ("-o", &rule.out_interface)] {
        if let Some(basic) = interface {
            print_not(out, basic.negated);
            put(
                out,
                format_args!(" {option} {}", interface_text(&basic.value)),
            );
        }
    }
    if let Some(basic) = &rule.protocol {
        print_not(out, basic.negated);
        match protocols::name(basic.value) {
            Some(name) => put(out, format_args!(" -p {name}")),
            None => put(out, format_args!(" -p {}", basic.value)),
        }
    }
    if let Some(basic) = &rule.fragment {
        print_not(out, basic.negated);
        out.push_str(" -f");
    }
    for instance in &rule.matches {
        print_instance(out, instance);
    }
    match &rule.target {
        None => {}
        Some(Target::Verdict(verdict, _)) => print_jump(out, "-j", BuiltIn::name(*verdict)),
        Some(Target::Jump(chain, _)) => print_jump(out, "-j", chain),
        Some(Target::Goto(chain, _)) => print_jump(out, "-g", chain),
        Some(Target::Module(instance)) => print_instance(out, instance),
    }
}

fn print_jump(out: &mut String, option: &str, name: &str) {
    put(out, format_args!(" {option} {name}"));
}

fn print_not(out: &mut String, negated: bool) {
    if negated {
        out.push_str(" !");
    }
}

fn print_addresses(out: &mut String, option: &str, addresses: Option<&Addresses>) {
    let Some(addresses) = addresses else { return };
    print_not(out, addresses.negated);
    put(out, format_args!(" {option} "));
    for (index, address) in addresses.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&address_text(address, MaskText::Always));
    }
}

fn print_instance(out: &mut String, instance: &Instance) {
    let option = match instance.spec.role {
        Role::Match => "-m",
        Role::Target => "-j",
    };
    print_jump(out, option, instance.spec.name);
    for option in &instance.options {
        print_not(out, option.negated);
        put(out, format_args!(" --{}", option.spec.name));
        value::print(out, option.spec.kind, &option.value);
    }
}
