//! Options of a rule: conditions after the addresses, state, comments.
//!
//! In: the words from the first option on. Out: patterns in the draft. One function a kind of
//! argument; blocks and `not` are handled where all options meet.

use super::super::ast::{InterfaceName, NumberField, Pattern, Side};
use super::super::fault::Fault;
use super::super::names::{DSCP, FRAGMENT, IP_OPTIONS, IP_TOS, TCP_FLAGS, TCP_OPTIONS};
use super::super::numbers;
use super::super::words::{Word, interface_name};
use super::address::{self, Reading};
use super::rule::{Draft, comment, double_not, nested, protocol, unknown_protocol};
use super::{argument, lists, state};
use crate::syntax::Span;
use crate::syntax::diag::nearest;

/// The flow of states that have no name.
pub const DEFAULT_FLOW: &str = "default";

/// Words that begin an option, for suggestions.
const OPTIONS: [&str; 79] = [
    "tagged",
    "uid",
    "gid",
    "jail",
    "in",
    "limit",
    "set-limit",
    "keep-state",
    "record-state",
    "bridged",
    "layer2",
    "out",
    "diverted",
    "diverted-loopback",
    "diverted-output",
    "xmit",
    "recv",
    "via",
    "fragment",
    "frag",
    "fib",
    "ipoptions",
    "ipopts",
    "iplen",
    "ipid",
    "ipprecedence",
    "dscp",
    "iptos",
    "ipttl",
    "ipversion",
    "ipver",
    "estab",
    "established",
    "setup",
    "sockarg",
    "tcpdatalen",
    "tcpflags",
    "tcpflgs",
    "tcpmss",
    "tcpoptions",
    "tcpopts",
    "tcpseq",
    "tcpack",
    "tcpwin",
    "icmptype",
    "icmptypes",
    "dst-ip",
    "src-ip",
    "dst-port",
    "src-port",
    "proto",
    "MAC",
    "mac",
    "mac-type",
    "verrevpath",
    "versrcreach",
    "antispoof",
    "ipsec",
    "icmp6type",
    "icmp6types",
    "ext6hdr",
    "flow-id",
    "ipv6",
    "ip6",
    "ipv4",
    "ip4",
    "dst-ipv6",
    "dst-ip6",
    "src-ipv6",
    "src-ip6",
    "lookup",
    "flow",
    "defer-action",
    "defer-immediate-action",
    "mark",
    "src-mac",
    "dst-mac",
    "not",
    "or",
];

/// Reads all options.
pub fn options(draft: &mut Draft<'_, '_>) -> Result<(), Fault> {
    draft.previous = None;
    while let Some(word) = draft.reader.take() {
        let mut text = word.text.as_str();
        if let Some(rest) = text.strip_prefix('!') {
            negate(draft, word.span)?;
            if rest.is_empty() {
                continue;
            }
            text = rest;
        }
        match text {
            "not" => negate(draft, word.span)?,
            "or" | "|" => match draft.previous.filter(|_| draft.open) {
                Some(at) => draft.body[at].or_next = true,
                None => {
                    return Err(Fault::usage(
                        "or-outside-block",
                        word.span,
                        "invalid \"or\" block",
                    )
                    .help("write `{ a or b }`"));
                }
            },
            "{" | "(" => {
                if draft.open {
                    return Err(nested(word.span));
                }
                if let Some(not) = draft.negate {
                    draft.reader.notes.warn(
                        "not-block",
                        not.to(word.span),
                        "`not` before a block falls on its first alternative alone".to_owned(),
                        "ipfw reads it so; write `not` before each, one after the other",
                    );
                }
                draft.open = true;
            }
            "}" | ")" => {
                if !draft.open {
                    return Err(Fault::usage(
                        "brace-without-block",
                        word.span,
                        "a block is closed that was not opened",
                    )
                    .help("open it with `{ `"));
                }
                draft.open = false;
                draft.previous = None;
            }
            "//" => comment(draft, word)?,
            _ => {
                let plain = plain(draft, text, word) || valued(draft, text, word)?;
                if !plain {
                    return Err(unknown(draft, word));
                }
            }
        }
    }
    if let Some(span) = draft.negate {
        draft.reader.notes.warn(
            "dangling-not",
            span,
            "`not` stands before nothing and has no effect".to_owned(),
            "ipfw takes it; leave it out, or write what is not to match",
        );
    }
    if draft.open {
        draft.reader.notes.warn(
            "open-block",
            draft.reader.here(),
            "the block is never closed".to_owned(),
            "ipfw takes it; close it with ` }`",
        );
    }
    Ok(())
}

fn negate(draft: &mut Draft<'_, '_>, span: Span) -> Result<(), Fault> {
    if draft.negate.is_some() {
        return Err(double_not(span));
    }
    draft.negate = Some(span);
    Ok(())
}

/// Options without an argument.
fn plain(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> bool {
    let pattern = match text {
        "in" => Pattern::In,
        "out" => {
            draft.negate = match draft.negate {
                Some(_) => None,
                None => Some(word.span),
            };
            Pattern::In
        }
        "layer2" | "bridged" => Pattern::Layer2,
        "diverted" => Pattern::Diverted(3),
        "diverted-loopback" => Pattern::Diverted(1),
        "diverted-output" => Pattern::Diverted(2),
        "established" | "estab" => Pattern::Established,
        "setup" => Pattern::TcpFlags(super::super::ast::Flags {
            set: 0x02,
            clear: 0x10,
        }),
        "verrevpath" => Pattern::VerRevPath,
        "versrcreach" => Pattern::VerSrcReach,
        "antispoof" => Pattern::AntiSpoof,
        "ipsec" => Pattern::Ipsec,
        "sockarg" => Pattern::SockArg,
        "ip4" | "ipv4" => Pattern::Ip4,
        "ip6" | "ipv6" => Pattern::Ip6,
        _ => return false,
    };
    draft.push(pattern, word.span);
    true
}

/// Options with arguments; `false` when the word is no option.
fn valued(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<bool, Fault> {
    match text {
        "via" | "recv" | "xmit" => interface(draft, text, word)?,
        "src-ip" | "dst-ip" | "src-ip6" | "src-ipv6" | "dst-ip6" | "dst-ipv6" => {
            let reading = if text.contains('6') {
                Reading::V6
            } else {
                Reading::V4
            };
            let value = draft.reader.need(&format!("an address of {text}"))?;
            address::add(draft, value, text.starts_with("src"), reading)?;
        }
        "src-port" | "dst-port" => port(draft, text)?,
        "proto" => {
            let value = draft.reader.need("a protocol")?;
            if !protocol(draft, value, false) {
                return Err(unknown_protocol(value));
            }
        }
        "icmptypes" | "icmptype" => {
            let value = draft.reader.need("a list of ICMP types")?;
            let bits = lists::icmp_types(draft.reader, value, lists::ICMP_TYPE_MAX)?;
            draft.push(Pattern::IcmpTypes(bits[0]), word.span.to(value.span));
        }
        "icmp6types" | "icmp6type" => {
            let value = draft.reader.need("a list of ICMPv6 types")?;
            let bits = lists::icmp_types(draft.reader, value, u8::MAX)?;
            lost_not(draft, text);
            draft.push(Pattern::Icmp6Types(bits), word.span.to(value.span));
        }
        "ipttl" => number(draft, NumberField::IpTtl, word)?,
        "ipid" => number(draft, NumberField::IpId, word)?,
        "iplen" => number(draft, NumberField::IpLen, word)?,
        "tcpdatalen" => number(draft, NumberField::TcpDataLen, word)?,
        "tcpwin" => number(draft, NumberField::TcpWin, word)?,
        "tcpmss" => number(draft, NumberField::TcpMss, word)?,
        "ipversion" | "ipver" => {
            let value = draft.reader.need("an IP version")?;
            let version = super::number(draft.reader.notes, value, &value.text, 0) as u16;
            draft.push(Pattern::IpVersion(version), word.span.to(value.span));
        }
        "ipprecedence" => precedence(draft, word)?,
        "fib" => {
            let value = draft.reader.need("a fib number")?;
            let fib = super::number(draft.reader.notes, value, &value.text, 0) as u16;
            draft.push(Pattern::Fib(fib), word.span.to(value.span));
        }
        "dscp" => dscp(draft, word)?,
        "tcpseq" | "tcpack" => sequence(draft, text, word)?,
        "frag" | "fragment" => fragment(draft, word),
        "tcpflags" | "tcpflgs" | "tcpoptions" | "tcpopts" | "ipoptions" | "ipopts" | "iptos" => {
            flags(draft, text, word)?;
        }
        "ext6hdr" => argument::extension_headers(draft, word)?,
        "flow-id" => argument::flow_id(draft, word)?,
        "MAC" | "mac" => argument::mac(draft, word)?,
        "mac-type" => argument::mac_type(draft, word)?,
        "src-mac" | "dst-mac" => argument::mac_table(draft, text, word)?,
        "uid" | "gid" => argument::owner(draft, text, word)?,
        "jail" => argument::jail(draft, word)?,
        "tagged" => argument::tagged(draft, word)?,
        "mark" => argument::mark(draft, word)?,
        "lookup" => argument::lookup(draft, word)?,
        "flow" => state::flow(draft, word)?,
        "keep-state" | "record-state" | "limit" | "set-limit" => state::state(draft, text, word)?,
        "defer-action" | "defer-immediate-action" => state::defer(draft, word)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Some options forget a `not` before them.
pub(super) fn lost_not(draft: &mut Draft<'_, '_>, option: &str) {
    if let Some(span) = draft.negate.take() {
        draft.reader.notes.warn(
            "lost-not",
            span,
            format!("`not` has no effect on {option}"),
            "ipfw reads it so; leave it out, or write the other values",
        );
    }
}

fn interface(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    let value = draft
        .reader
        .need(&format!("an interface name or address of {text}"))?;
    let side = match text {
        "via" => Side::Via,
        "recv" => Side::Recv,
        _ => Side::Xmit,
    };
    if value.text == "any" {
        // Not even a `not` outlives this word.
        if draft.negate.is_some() {
            draft.nothing(value);
            draft.negate = None;
        }
        return Ok(());
    }
    let name = if value.text.starts_with("table(") {
        let (name, wanted) = address::table_reference(draft.reader, value)?;
        if wanted.is_some() {
            draft.reader.notes.warn(
                "table-value-dropped",
                value.span,
                format!("the value in `{text} {}` is dropped", value.text),
                "ipfw reads it so; write table(NAME)",
            );
        }
        InterfaceName::Table(name)
    } else if value.is_digit() {
        let address = numbers::inet_aton(&value.text).ok_or_else(|| {
            Fault::data(
                "bad-address",
                value.span,
                format!("bad ip address `{}`", value.text),
            )
            .help("a name that begins with a digit is read as an IPv4 address")
        })?;
        InterfaceName::Address(address)
    } else {
        let name = interface_name(&value.text).map_err(|name| {
            let message = format!("invalid interface name: {name}");
            let fault = Fault::data("interface-name", value.span, message);
            fault.help("names of interfaces have 15 bytes at most")
        })?;
        if name.len() < value.text.len() {
            draft.reader.notes.warn(
                "interface-name-cut",
                value.span,
                format!("interface name cut to `{name}`"),
                "interface names have at most 15 characters",
            );
        }
        let name = name.to_owned();
        match value.text.contains(['*', '?', '[']) {
            true => InterfaceName::Glob(name),
            false => InterfaceName::Name(name),
        }
    };
    draft.push(Pattern::Interface(side, name), word.span.to(value.span));
    Ok(())
}

fn port(draft: &mut Draft<'_, '_>, text: &str) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("a port of {text}"))?;
    if super::is_prefix(value, "any", draft.reader.notes) {
        draft.nothing(value);
        return Ok(());
    }
    let proto = draft.proto;
    let Some(ranges) = lists::ports(draft.reader, value, proto)? else {
        let fault = Fault::data(
            "invalid-port",
            value.span,
            format!("invalid {text} {}", value.text),
        )
        .help("write numbers, ranges, or service names");
        return Err(lists::about_ports(fault, value, proto));
    };
    lists::check_count(value, &ranges)?;
    let pattern = match text {
        "src-port" => Pattern::SrcPort(ranges),
        _ => Pattern::DstPort(ranges),
    };
    draft.push(pattern, value.span);
    Ok(())
}

/// A word that is no option; behind addresses it may be meant for a port.
fn unknown(draft: &Draft<'_, '_>, word: &Word) -> Fault {
    let text = word.text.as_str();
    let message = format!("unrecognised option {text}");
    let fault = Fault::usage("unknown-option", word.span, message);
    if text == "from" {
        return fault.help("write a protocol before `from`, such as ip, tcp or udp");
    }
    match nearest(text, OPTIONS) {
        Some(option) => fault.help(format!("did you mean `{option}`?")),
        None => {
            let fault = fault.help("see the options of ipfw(8)");
            lists::about_ports(fault, word, draft.proto)
        }
    }
}

fn number(draft: &mut Draft<'_, '_>, field: NumberField, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("a value of {}", field.name()))?;
    let ranges = lists::numbers_of(draft.reader, value, field.name())?;
    draft.push(Pattern::Number(field, ranges), word.span.to(value.span));
    Ok(())
}

fn precedence(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a precedence")?;
    let number = super::number(draft.reader.notes, value, &value.text, 0);
    if number > 7 {
        draft.reader.notes.warn(
            "wrapped-number",
            value.span,
            format!("precedence {} is cut to 3 bits: {}", value.text, number & 7),
            "ipfw reads it so; write 0 to 7",
        );
    }
    let pattern = Pattern::IpPrecedence((number & 7) as u8);
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

fn dscp(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a DSCP code")?;
    let mut bits = 0u64;
    for part in value.text.split(',') {
        bits |= 1 << lists::dscp(part, value)?;
    }
    debug_assert!(!DSCP.is_empty());
    draft.push(Pattern::Dscp(bits), word.span.to(value.span));
    Ok(())
}

fn sequence(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("a number of {text}"))?;
    lost_not(draft, text);
    let number = super::number(draft.reader.notes, value, &value.text, 0);
    let pattern = match text {
        "tcpseq" => Pattern::TcpSeq(number),
        _ => Pattern::TcpAck(number),
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

/// `frag` alone means `frag offset`; a word that is no list of flags belongs to what follows.
fn fragment(draft: &mut Draft<'_, '_>, word: &Word) {
    let mut set = super::super::ast::Flags { set: 1, clear: 0 };
    let mut span = word.span;
    if let Some(value) = draft.reader.peek()
        && let Ok(flags) = lists::flags(value, FRAGMENT)
    {
        draft.reader.take();
        set = flags;
        span = span.to(value.span);
    }
    draft.push(Pattern::Frag(set), span);
}

fn flags(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need(&format!("an argument of {text}"))?;
    let pattern = match text {
        "tcpflags" | "tcpflgs" => Pattern::TcpFlags(lists::flags(value, TCP_FLAGS)?),
        "tcpoptions" | "tcpopts" => Pattern::TcpOptions(lists::flags(value, TCP_OPTIONS)?),
        "iptos" => Pattern::IpTos(lists::flags(value, IP_TOS)?),
        _ => Pattern::IpOptions(lists::flags(value, IP_OPTIONS)?),
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}
