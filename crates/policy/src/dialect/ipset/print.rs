//! Syntax tree to text, as `ipset save` prints it.

use super::ast::{
    Add, Create, File, Member, OptionValue, Part, SetOption, StatementKind, TypeFamily,
};
use crate::dialect::iptables::names::protocols;
use crate::dialect::iptables::value::push_word;
use crate::model::Family;
use std::fmt::Write;
use std::net::IpAddr;

/// Prints a whole file.
#[must_use]
pub fn print(file: &File) -> String {
    let mut out = String::new();
    for statement in &file.statements {
        match &statement.kind {
            StatementKind::Comment(text) => {
                out.push('#');
                out.push_str(text);
            }
            StatementKind::Create(create) => print_create(&mut out, create),
            StatementKind::Add(add) => print_add(&mut out, add),
            StatementKind::Flush(name) => {
                out.push_str("flush");
                push_word(&mut out, name);
            }
        }
        out.push('\n');
    }
    out
}

fn print_create(out: &mut String, create: &Create) {
    out.push_str("create");
    push_word(out, &create.name);
    out.push(' ');
    out.push_str(create.set_type.name);
    if create.set_type.family == TypeFamily::Chosen {
        out.push_str(match create.family {
            Some(Family::V6) => " family inet6",
            _ => " family inet",
        });
    }
    print_options(out, &create.options);
}

fn print_add(out: &mut String, add: &Add) {
    out.push_str("add");
    push_word(out, &add.name);
    match &add.member {
        Member::Set(name) | Member::Kept(name) => push_word(out, name),
        Member::Parts(parts) => {
            let parts: Vec<_> = parts.iter().map(part_text).collect();
            out.push(' ');
            out.push_str(&parts.join(","));
        }
    }
    print_options(out, &add.options);
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Network(address @ IpAddr::V4(_), 32) => address.to_string(),
        Part::Network(address @ IpAddr::V6(_), 128) => address.to_string(),
        Part::Network(address, length) => format!("{address}/{length}"),
        Part::Range(first, last) => format!("{first}-{last}"),
        Part::Icmp(false, kind, code) => format!("icmp:{kind}/{code}"),
        Part::Icmp(true, kind, code) => format!("icmpv6:{kind}/{code}"),
        Part::Ports(protocol, first, last) => {
            let mut out = String::new();
            match protocol.map(|number| (number, protocols::name(number))) {
                Some((_, Some(name))) => out += &format!("{name}:"),
                Some((number, None)) => out += &format!("{number}:"),
                None => {}
            }
            out += &first.to_string();
            if first != last {
                out += &format!("-{last}");
            }
            out
        }
    }
}

fn print_options(out: &mut String, options: &[SetOption]) {
    for option in options {
        out.push(' ');
        out.push_str(option.name);
        match &option.value {
            OptionValue::Flag => {}
            OptionValue::Number(number) => {
                write!(out, " {number}").expect("writing to a string cannot fail");
            }
            // ipset quotes comments always; its own escapes are those of iptables.
            OptionValue::Text(text) if option.name == "comment" => {
                out.push_str(" \"");
                for character in text.chars() {
                    if matches!(character, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(character);
                }
                out.push('"');
            }
            OptionValue::Text(text) => push_word(out, text),
        }
    }
}
