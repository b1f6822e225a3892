//! `nat ...` commands: read, checked and printed in canonical order; weir translates nothing.
//!
//! In: the words after `nat`. Out: a [`NatCommand`].

use super::super::command::{Command, NatCommand};
use super::super::fault::Fault;
use super::super::names::protocols;
use super::super::numbers;
use super::super::words::Word;
use super::Reader;

/// Flags in the order in which they are printed.
const FLAGS: [&str; 9] = [
    "log",
    "deny_in",
    "same_ports",
    "skip_global",
    "unreg_only",
    "unreg_cgn",
    "reset",
    "reverse",
    "proxy_only",
];

/// Reads what follows `nat`.
pub fn nat(reader: &mut Reader<'_>) -> Result<Command, Fault> {
    let mut number = reader.peek().filter(|word| word.is_digit());
    if number.is_some() {
        reader.take();
    }
    let verb = reader.need("a nat command")?;
    if "config".starts_with(&verb.text) {
        if number.is_none() {
            number = reader.take();
        }
        return config(reader, number);
    }
    if "show".starts_with(&verb.text) || "list".starts_with(&verb.text) {
        let log = reader.take().is_some_and(|word| word.text == "log");
        let number = number.map(|word| numbers::u32_of(&word.text, 10));
        return Ok(Command::Nat(match log {
            true => NatCommand::ShowLog,
            false => NatCommand::Show(number),
        }));
    }
    if "delete".starts_with(&verb.text) {
        let mut list: Vec<u32> = number
            .iter()
            .map(|w| numbers::u32_of(&w.text, 10))
            .collect();
        list.extend(reader.rest().iter().map(|w| numbers::u32_of(&w.text, 10)));
        return Ok(Command::Nat(NatCommand::Delete(list)));
    }
    Err(Fault::usage(
        "unknown-command",
        verb.span,
        format!("bad command `{}'", verb.text),
    )
    .nearest(
        &verb.text,
        ["config", "show", "delete"],
        "write config, show or delete",
    ))
}

fn wrong(word: &Word, message: String) -> Fault {
    Fault::data("nat-config", word.span, message).help("see ipfw(8), NETWORK ADDRESS TRANSLATION")
}

fn config(reader: &mut Reader<'_>, number: Option<&Word>) -> Result<Command, Fault> {
    let Some(word) = number else {
        return Err(Fault::data("missing-word", reader.here(), "missing nat id")
            .help("write nat NUMBER config ..."));
    };
    let (value, rest) = numbers::strtol(&word.text, 0);
    if value <= 0 || value > i64::from(u32::MAX) || !rest.is_empty() {
        return Err(wrong(word, format!("illegal nat id: {}", word.text)));
    }
    if reader.peek().is_none() {
        return Err(Fault::data("missing-word", reader.here(), "missing option")
            .help("write ip ADDRESS or if INTERFACE"));
    }
    let (mut place, mut flags, mut ports, mut redirects) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    while let Some(option) = reader.take() {
        match option.text.as_str() {
            "ip" => {
                let value = argument(reader, option)?;
                if numbers::inet_aton(&value.text).is_none()
                    && reader.names.ipv4(&value.text).is_none()
                {
                    return Err(wrong(value, format!("bad ip address `{}`", value.text)));
                }
                place = vec!["ip".to_owned(), value.text.clone()];
            }
            "if" => {
                let value = argument(reader, option)?;
                place = vec!["if".to_owned(), value.text.clone()];
            }
            "port_range" => {
                let value = argument(reader, option)?;
                port_range(value)?;
                ports = vec!["port_range".to_owned(), value.text.clone()];
            }
            "udp_eim" => flags.push("udp_eim".to_owned()),
            text if FLAGS.contains(&text) => flags.push(text.to_owned()),
            "redirect_addr" => redirect(reader, option, 2, 0, &mut redirects)?,
            "redirect_port" => redirect(reader, option, 3, 1, &mut redirects)?,
            "redirect_proto" => redirect(reader, option, 2, 2, &mut redirects)?,
            text => {
                let known = FLAGS.into_iter().chain(["ip", "if", "redirect_port"]);
                return Err(Fault::data(
                    "nat-config",
                    option.span,
                    format!("unrecognised option `{text}`"),
                )
                .nearest(text, known, "see ipfw(8), NETWORK ADDRESS TRANSLATION"));
            }
        }
    }
    let order = |flag: &String| FLAGS.iter().position(|known| known == flag);
    flags.sort_by_key(order);
    flags.dedup();
    let mut words = place;
    words.extend(flags);
    words.extend(ports);
    words.extend(redirects);
    Ok(Command::Nat(NatCommand::Config(value as u32, words)))
}

fn argument<'a>(reader: &mut Reader<'a>, option: &Word) -> Result<&'a Word, Fault> {
    reader
        .take()
        .ok_or_else(|| wrong(option, format!("missing argument of {}", option.text)))
}

fn port_range(word: &Word) -> Result<(), Fault> {
    let bounds = word.text.split_once('-').and_then(|(low, high)| {
        let low: u16 = low.parse().ok()?;
        let high: u16 = high.parse().ok()?;
        (low >= 1024 && low <= high).then_some(())
    });
    bounds.ok_or_else(|| wrong(word, format!("invalid port range {}", word.text)))
}

/// Arguments that must be there, and those that may follow when they begin with a digit.
fn redirect(
    reader: &mut Reader<'_>,
    option: &Word,
    needed: usize,
    optional: usize,
    out: &mut Vec<String>,
) -> Result<(), Fault> {
    out.push(option.text.clone());
    for index in 0..needed {
        let Some(value) = reader.take() else {
            return Err(wrong(
                option,
                format!("{}: not enough arguments", option.text),
            ));
        };
        if index == 0 {
            match option.text.as_str() {
                "redirect_port" if !matches!(value.text.as_str(), "tcp" | "udp" | "sctp") => {
                    return Err(wrong(
                        value,
                        format!("unknown protocol {}. Expected sctp, tcp or udp", value.text),
                    ));
                }
                "redirect_proto" if protocols::number(&value.text).is_none() => {
                    return Err(wrong(
                        value,
                        format!("redirect_proto: unknown protocol {}", value.text),
                    ));
                }
                _ => {}
            }
        }
        out.push(value.text.clone());
    }
    for _ in 0..optional {
        if let Some(value) = reader.peek().filter(|word| word.is_digit()) {
            reader.take();
            out.push(value.text.clone());
        }
    }
    Ok(())
}
