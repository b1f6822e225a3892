//! The action of a rule.
//!
//! In: the words where an action must stand. Out: an [`Action`]. Actions that weir can't carry
//! out are read like all others; refusing them is `refuse`'s business.

use super::super::ast::{Action, Argument, Reject};
use super::super::fault::Fault;
use super::super::names::{self, DSCP, UNREACH, UNREACH6, services};
use super::super::numbers;
use super::super::words::Word;
use super::{Reader, is_prefix, lists, option, state, table};
use std::net::IpAddr;

/// Words that begin an action.
pub const ACTIONS: [&str; 38] = [
    "abort6",
    "abort",
    "accept",
    "pass",
    "allow",
    "permit",
    "count",
    "pipe",
    "queue",
    "divert",
    "tee",
    "netgraph",
    "ngtee",
    "fwd",
    "forward",
    "skipto",
    "deny",
    "drop",
    "reject",
    "reset6",
    "reset",
    "unreach6",
    "unreach",
    "check-state",
    "//",
    "nat",
    "reass",
    "setfib",
    "setdscp",
    "call",
    "return",
    "eaction",
    "tcp-setmss",
    "setmark",
    "nat64clat",
    "nat64lsn",
    "nat64stl",
    "nptv6",
];

/// Reads an action.
pub fn action(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("an action")?;
    Ok(match word.text.as_str() {
        "allow" | "accept" | "pass" | "permit" => Action::Allow,
        "deny" | "drop" => Action::Deny,
        "reject" => Action::Reject(Reject::Unreach(1, None)),
        "reset" => Action::Reject(Reject::Reset),
        "reset6" => Action::Reject(Reject::Reset6),
        "abort" => Action::Reject(Reject::Abort),
        "abort6" => Action::Reject(Reject::Abort6),
        "unreach" => unreach(reader)?,
        "unreach6" => {
            let code = reader.need("an unreach code")?;
            Action::Reject(Reject::Unreach6(reject_code(code, UNREACH6)?))
        }
        "count" => Action::Count,
        "//" => {
            reader.back();
            Action::Count
        }
        "check-state" => check_state(reader)?,
        "skipto" => Action::Skipto(target(reader, "skipto")?),
        "call" => Action::Call(target(reader, "call")?),
        "return" => Action::Return,
        "divert" => Action::Divert(port_target(reader, "divert")?),
        "tee" => Action::Tee(port_target(reader, "tee")?),
        "pipe" => Action::Pipe(target(reader, "pipe")?),
        "queue" => Action::Queue(target(reader, "queue")?),
        "netgraph" => Action::Netgraph(target(reader, "netgraph")?),
        "ngtee" => Action::Ngtee(target(reader, "ngtee")?),
        "nat" => match reader.take_keyword("global") {
            Some(_) => Action::Nat(None),
            None => Action::Nat(Some(target(reader, "nat")?)),
        },
        "fwd" | "forward" => forward(reader)?,
        "setfib" => Action::SetFib(open_argument(reader, "a fib number")?),
        "setdscp" => set_dscp(reader)?,
        "setmark" => set_mark(reader)?,
        "tcp-setmss" => set_mss(reader)?,
        "reass" => Action::Reass,
        "nat64lsn" | "nat64stl" | "nat64clat" | "nptv6" => {
            Action::External(word.text.clone(), instance(reader)?)
        }
        "eaction" => {
            let name = instance(reader)?;
            Action::External(name, instance(reader)?)
        }
        _ => {
            return Err(Fault::data(
                "unknown-action",
                word.span,
                format!("invalid action {}", word.text),
            )
            .nearest(&word.text, ACTIONS, "write allow, deny, count, skipto ..."));
        }
    })
}

fn unreach(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("a reject code")?;
    let code = reject_code(word, UNREACH)?;
    let mut mtu = None;
    if code == 4
        && let Some(size) = reader.peek().filter(|word| word.is_digit())
    {
        reader.take();
        let (value, rest) = numbers::strtol(&size.text, 10);
        if !rest.is_empty() || !(0..=65535).contains(&value) {
            return Err(Fault::data("invalid-mtu", size.span, "illegal MTU")
                .help("write a number up to 65535"));
        }
        mtu = Some(value as u16);
    }
    Ok(Action::Reject(Reject::Unreach(code, mtu)))
}

fn reject_code(word: &Word, known: &names::Names) -> Result<u8, Fault> {
    let (value, rest) = numbers::strtol(&word.text, 0);
    if rest.is_empty() && (0..0x100).contains(&value) {
        return Ok(value as u8);
    }
    names::number(known, &word.text)
        .map(|code| code as u8)
        .ok_or_else(|| {
            let words = known.iter().map(|(name, _)| *name);
            Fault::data(
                "unknown-code",
                word.span,
                format!("unknown ICMP unreachable code `{}`", word.text),
            )
            .nearest(&word.text, words, "write a code's name, or 0 to 255")
        })
}

fn check_state(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let default = || Ok(Action::CheckState(Some(option::DEFAULT_FLOW.to_owned())));
    let Some(word) = reader.peek() else {
        return default();
    };
    // Before states had names (FreeBSD 11), what stood here was dropped, and generators wrote a
    // body of any packet; the caller tells that it is dropped.
    if word.text == "//" || reader.is_any_body() {
        return default();
    }
    reader.take();
    if word.text == ":any" {
        return Ok(Action::CheckState(None));
    }
    let name = state::flow_name(word)?;
    Ok(Action::CheckState(Some(name)))
}

/// A number from 1 to 65534 at the start of the word, or `tablearg`.
fn target(reader: &mut Reader<'_>, action: &str) -> Result<Argument, Fault> {
    let Some(word) = reader.take() else {
        return Err(missing(reader, action));
    };
    if word.is_digit() {
        let (value, rest) = numbers::strtol(&word.text, 10);
        if !(1..=65534).contains(&value) {
            return Err(illegal(word, action));
        }
        if !rest.is_empty() {
            reader.notes.warn(
                "number-read-in-part",
                word.span,
                format!("`{}` is read as {value}", word.text),
                "ipfw reads it so; write the number alone",
            );
        }
        return Ok(Argument::Number(value as u32));
    }
    if is_prefix(word, "tablearg", reader.notes) {
        return Ok(Argument::TableArg);
    }
    Err(illegal(word, action))
}

fn missing(reader: &Reader<'_>, action: &str) -> Fault {
    Fault::usage(
        "missing-word",
        reader.here(),
        format!("missing argument for {action}"),
    )
    .help("write a number from 1 to 65534, or tablearg")
}

fn illegal(word: &Word, action: &str) -> Fault {
    Fault::data(
        "illegal-argument",
        word.span,
        format!("illegal argument for {action}: {}", word.text),
    )
    .help("write a number from 1 to 65534, or tablearg")
}

/// As [`target`], or the name of a divert service.
fn port_target(reader: &mut Reader<'_>, action: &str) -> Result<Argument, Fault> {
    let service = reader
        .peek()
        .filter(|word| !word.is_digit())
        .and_then(|word| services::port(&word.text, services::DIVERT));
    match service {
        Some(port) => {
            reader.take();
            Ok(Argument::Number(u32::from(port)))
        }
        None => target(reader, action),
    }
}

fn open_argument(reader: &mut Reader<'_>, what: &str) -> Result<Argument, Fault> {
    let word = reader.need(what)?;
    if is_prefix(word, "tablearg", reader.notes) {
        return Ok(Argument::TableArg);
    }
    Ok(Argument::Number(numbers::u32_of(&word.text, 10) & 0x7fff))
}

fn set_dscp(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("a DSCP code")?;
    if is_prefix(word, "tablearg", reader.notes) {
        return Ok(Action::SetDscp(Argument::TableArg));
    }
    if word.first().is_some_and(|b| b.is_ascii_alphabetic()) {
        let code = lists::dscp(&word.text, word)?;
        return Ok(Action::SetDscp(Argument::Number(u32::from(code))));
    }
    let (value, rest) = numbers::strtol(&word.text, 10);
    let code = value as u32 & 0x3f;
    if !rest.is_empty() || !(0..=63).contains(&value) {
        let name = names::word(DSCP, code).map_or_else(|| code.to_string(), str::to_owned);
        reader.notes.warn(
            "wrapped-number",
            word.span,
            format!("`{}` is cut to 6 bits: {name}", word.text),
            "ipfw reads it so; write a number up to 63",
        );
    }
    Ok(Action::SetDscp(Argument::Number(code)))
}

fn set_mark(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("a mark")?;
    if is_prefix(word, "tablearg", reader.notes) {
        return Ok(Action::SetMark(Argument::TableArg));
    }
    let (value, rest) = numbers::strtol(&word.text, 0);
    if !rest.is_empty() || !(0..=i64::from(u32::MAX)).contains(&value) {
        return Err(Fault::data(
            "invalid-mark",
            word.span,
            format!("illegal mark {}", word.text),
        )
        .help("write a number of 32 bits, or tablearg"));
    }
    Ok(Action::SetMark(Argument::Number(value as u32)))
}

fn set_mss(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("an MSS value")?;
    let (value, _) = numbers::strtol(&word.text, 10);
    match u16::try_from(value) {
        Ok(mss) if mss > 0 => Ok(Action::TcpSetMss(mss)),
        _ => Err(Fault::usage(
            "invalid-mss",
            word.span,
            format!("invalid MSS value {}", word.text),
        )
        .help("write a number from 1 to 65535")),
    }
}

fn instance(reader: &mut Reader<'_>) -> Result<String, Fault> {
    let word = reader.need("the name of an instance")?;
    table::check_object_name(word)?;
    Ok(word.text.clone())
}

/// `HOST`, `HOST,PORT`, `IPv4:PORT`, `[IPv6]:PORT`, `tablearg`, `tablearg,PORT`.
fn forward(reader: &mut Reader<'_>) -> Result<Action, Fault> {
    let word = reader.need("a forward address[:port]")?;
    let (host, port) = forward_parts(&word.text);
    let port = match port {
        None => 0,
        Some(text) => {
            let (value, rest) = numbers::strtol(text, 0);
            let named = services::port(text, 0).map(i64::from);
            let value = if rest.is_empty() { Some(value) } else { named };
            let port = value.and_then(|value| u16::try_from(value).ok());
            port.ok_or_else(|| {
                Fault::data(
                    "forward-port",
                    word.span,
                    format!("illegal forwarding port `{text}`"),
                )
                .help("write a port number or the name of a service")
            })?
        }
    };
    if host == "tablearg" {
        let address = None;
        return Ok(Action::Forward { address, port });
    }
    let address = host
        .parse::<IpAddr>()
        .ok()
        .or_else(|| numbers::inet_aton(host).map(|v4| IpAddr::V4(v4.into())))
        .or_else(|| reader.names.ipv4(host).map(IpAddr::V4))
        .or_else(|| reader.names.ipv6(host).map(IpAddr::V6));
    match address {
        Some(address) => Ok(Action::Forward {
            address: Some(address),
            port,
        }),
        None => Err(Fault::data(
            "unknown-host",
            word.span,
            format!("hostname `{host}` unknown"),
        )
        .help("write an address")),
    }
}

fn forward_parts(text: &str) -> (&str, Option<&str>) {
    if let Some(inside) = text.strip_prefix('[')
        && let Some((host, rest)) = inside.split_once(']')
    {
        return (host, rest.strip_prefix([':', ',']));
    }
    if let Some((host, port)) = text.split_once(',') {
        return (host, Some(port));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}
