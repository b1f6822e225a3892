//! Rules to text: the canonical form of 5.1, or that of 4.x.
//!
//! Printing and reading again gives an equal tree. Differences from the original are deliberate:
//! what it prints as a comment and then forgets (`rule-ttl`) is a word, `max-srcs` is printed as it
//! is read, the code `cutoff-preced` too, and a `comment` is kept.

use super::ast::{
    Action, Address, Destination, Direction, Fields, File, InterfaceAddress, Item, Log, Matching,
    Name, PoolEntry, Port, Proto, Return, Rule, Side, TableKind, Tags, With, ones,
};
use super::families::Between;
use super::parse::address::looks_like_interface;
use super::words;
use crate::dialect::iptables::names::protocols;
use crate::model::Family;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Which version's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// 5.1: with `inet` and `inet6`.
    #[default]
    V5,
    /// 4.x and HP-UX: without them.
    V4,
}

/// How to print.
#[derive(Clone, Copy, Default)]
pub struct PrintOptions<'f> {
    /// The form.
    pub form: Form,
    /// Live state entries of a rule, printed as a remark behind rules that keep state.
    pub entries: Option<u32>,
    /// Whether an interface exists; those that do not get `(!)`.
    pub known: Option<&'f dyn Fn(&str) -> bool>,
}

/// Prints a file.
#[must_use]
pub fn print(file: &File) -> String {
    let options = PrintOptions {
        form: Form::of(file.language),
        ..PrintOptions::default()
    };
    let mut out = String::new();
    let mut between = Between::of(options.form, file.rules());
    for item in &file.items {
        match item {
            Item::Rule(rule) => {
                out.extend(between.line(rule));
                out += &print_rule(rule, &options);
            }
            Item::Setting(set) => put(
                &mut out,
                format_args!("set {} {};", word(&set.name), set.value),
            ),
        }
        out.push('\n');
    }
    out
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("writing to a string cannot fail");
}

/// Prints one rule, without a line's end.
#[must_use]
pub fn print_rule(rule: &Rule, options: &PrintOptions<'_>) -> String {
    let mut out = String::with_capacity(96);
    if let Some(position) = rule.insert {
        put(&mut out, format_args!("@{position} "));
    }
    if rule.collection != 0 {
        put(&mut out, format_args!("{} ", rule.collection));
    }
    action(&mut out, rule);
    answer(&mut out, rule.answer);
    out.push_str(match rule.direction {
        Direction::In => " in ",
        Direction::Out => " out ",
    });
    if let Some(log) = rule.log.filter(|_| rule.action != Action::Log) {
        log_words(&mut out, log);
        out.push(' ');
    }
    if rule.quick {
        out.push_str("quick ");
    }
    interfaces(&mut out, rule, options);
    if let (Form::V5, Some(family)) = (options.form, rule.family) {
        out.push_str(match family {
            Family::V4 => "inet ",
            Family::V6 => "inet6 ",
        });
    }
    match &rule.matching {
        Matching::All => out.push_str("all"),
        Matching::Fields(fields) => fields_text(&mut out, rule, fields, options.form),
        Matching::Bpf(family, text) => {
            let version = if *family == Family::V4 { 4 } else { 6 };
            put(
                &mut out,
                format_args!("bpf-v{version} {{ {} }}", quoted(text)),
            );
        }
        Matching::Expression(terms) => {
            out.push_str("exp { \"");
            for term in terms {
                let sign = if term.negate { "!=" } else { "=" };
                put(
                    &mut out,
                    format_args!("{} {sign} {};", term.field, term.values.join(",")),
                );
            }
            out.push_str("\" }");
        }
    }
    tail(&mut out, rule, options);
    out
}

fn action(out: &mut String, rule: &Rule) {
    match &rule.action {
        Action::Pass => out.push_str("pass"),
        Action::Block => out.push_str("block"),
        Action::Log => log_words(out, rule.log.unwrap_or_default()),
        Action::Count => out.push_str("count"),
        Action::Nomatch => out.push_str("nomatch"),
        Action::Skip(number) => put(out, format_args!("skip {number}")),
        Action::Auth => out.push_str("auth"),
        Action::Preauth => out.push_str("preauth"),
        Action::Call {
            now,
            function,
            argument,
        } => {
            let now = if *now { " now" } else { "" };
            put(out, format_args!("call{now} {function}/{argument}"));
        }
        Action::Decapsulate(None) => out.push_str("decapsulate"),
        Action::Decapsulate(Some(name)) => {
            put(out, format_args!("decapsulate l5-as({})", word(name)))
        }
    }
}

fn answer(out: &mut String, answer: Option<Return>) {
    let (word, code) = match answer {
        None => return,
        Some(Return::Rst) => ("return-rst", 0),
        Some(Return::Icmp(code)) => ("return-icmp", code),
        Some(Return::IcmpAsDest(code)) => ("return-icmp-as-dest", code),
        Some(Return::Icmp6(code)) => ("return-icmpv6", code),
        Some(Return::Icmp6AsDest(code)) => ("return-icmpv6-as-dest", code),
    };
    put(out, format_args!(" {word}"));
    if code != 0 {
        match words::ICMP_CODES.get(usize::from(code)) {
            Some(name) => put(out, format_args!("({name})")),
            None => put(out, format_args!("({code})")),
        }
    }
}

fn log_words(out: &mut String, log: Log) {
    out.push_str("log");
    for (set, word) in [
        (log.body, " body"),
        (log.first, " first"),
        (log.or_block, " or-block"),
    ] {
        if set {
            out.push_str(word);
        }
    }
    if let Some(every) = log.limit {
        out.push_str(" limit");
        if let Some(every) = every {
            put(out, format_args!(" freq {every}"));
        }
    }
    if let Some((facility, priority)) = log.level {
        let facility = words::FACILITIES[usize::from(facility)];
        let priority = words::PRIORITIES[usize::from(priority)];
        put(out, format_args!(" level {facility}.{priority}"));
    }
}

/// A name that reads back as one word.
fn interface(out: &mut String, name: &str, options: &PrintOptions<'_>) {
    out.push_str(&word(name));
    if !["-", "*"].contains(&name) && options.known.is_some_and(|known| !known(name)) {
        out.push_str("(!)");
    }
}

fn interfaces(out: &mut String, rule: &Rule, options: &PrintOptions<'_>) {
    let pair = |out: &mut String, word: &str, pair: &[Option<Name>; 2]| {
        let Some(first) = &pair[0] else { return };
        put(out, format_args!("{word} "));
        interface(out, first, options);
        if let Some(second) = &pair[1] {
            out.push(',');
            interface(out, second, options);
        }
        out.push(' ');
    };
    pair(out, "on", &rule.on);
    // `to` before what looks like an address would begin the destination of the packet.
    let address = |name: &Name| {
        name.starts_with(|c: char| c.is_ascii_digit())
            || ["any", "pool", "hash", "port"]
                .iter()
                .any(|w| w.eq_ignore_ascii_case(name))
    };
    let to = match &rule.to {
        Some(Destination::Interface(name, _)) if address(name) => "route-to",
        _ => "to",
    };
    for (verb, destination) in [
        (to, &rule.to),
        ("dup-to", &rule.dup_to),
        ("reply-to", &rule.reply_to),
    ] {
        match destination {
            None => continue,
            Some(Destination::List(name)) => {
                put(out, format_args!("{verb} dstlist/{}", word(name)));
            }
            Some(Destination::Interface(name, hop)) => {
                put(out, format_args!("{verb} "));
                interface(out, name, options);
                if let Some(hop) = hop {
                    put(out, format_args!(":{hop}"));
                }
            }
        }
        out.push(' ');
    }
    if rule.fastroute {
        out.push_str("fastroute ");
    }
    let via = match rule.direction {
        Direction::In => "out-via",
        Direction::Out => "in-via",
    };
    pair(out, via, &rule.via);
}

fn fields_text(out: &mut String, rule: &Rule, fields: &Fields, form: Form) {
    if let Some(tos) = fields.tos {
        match tos {
            0 => out.push_str("tos 0 "),
            tos => put(out, format_args!("tos {tos:#x} ")),
        }
    }
    if let Some(ttl) = fields.ttl {
        put(out, format_args!("ttl {ttl} "));
    }
    match fields.proto {
        None => {}
        Some(Proto::TcpUdp) => out.push_str("proto tcp/udp "),
        Some(Proto::Number(0)) => out.push_str("proto ip "),
        Some(Proto::Number(number)) => match protocols::name(number) {
            Some(name) => put(out, format_args!("proto {name} ")),
            None => put(out, format_args!("proto {number} ")),
        },
    }
    out.push_str("from ");
    side(out, &fields.source);
    out.push_str(" to ");
    side(out, &fields.destination);
    if let Some((kind, code)) = fields.icmp {
        match words::icmp_type_name(rule.family.unwrap_or(Family::V4), kind) {
            Some(name) => put(out, format_args!(" icmp-type {name}")),
            None => put(out, format_args!(" icmp-type {kind}")),
        }
        if let Some(code) = code {
            put(out, format_args!(" code {code}"));
        }
    }
    if let Some((value, mask)) = fields.flags {
        put(out, format_args!(" flags {}", flags_text(value, mask)));
    }
    with_text(out, &fields.with, form);
}

/// Flags as letters, the mask always shown.
#[must_use]
pub fn flags_text(value: u8, mask: u8) -> String {
    let letters = |set: u8| -> String {
        let letters = words::FLAG_LETTERS.chars().enumerate();
        letters
            .filter(|(bit, _)| set & (1 << bit) != 0)
            .map(|(_, letter)| letter)
            .collect()
    };
    match mask {
        // A mask without letters would not read back.
        0 => format!(
            "{}/0",
            if value == 0 {
                "0".to_owned()
            } else {
                letters(value)
            }
        ),
        mask => format!("{}/{}", letters(value), letters(mask)),
    }
}

fn side(out: &mut String, side: &Side) {
    if side.negate {
        out.push('!');
    }
    match &side.address {
        Address::Any => out.push_str("any"),
        Address::Net {
            family,
            value,
            mask,
        } => net(out, *family, *value, *mask),
        Address::Range(family, first, last) => {
            host(out, *family, *first);
            out.push('-');
            host(out, *family, *last);
        }
        Address::Interface(name, which) => {
            let suffix = match which {
                InterfaceAddress::Masked(length) => length.to_string(),
                InterfaceAddress::Broadcast => "broadcast".to_owned(),
                InterfaceAddress::Network => "network".to_owned(),
                InterfaceAddress::Netmasked => "netmasked".to_owned(),
                InterfaceAddress::Peer => "peer".to_owned(),
            };
            // Only a name that reads as an interface's stands without brackets.
            match looks_like_interface(name) {
                true => put(out, format_args!("{name}/{suffix}")),
                false => put(out, format_args!("({})/{suffix}", word(name))),
            }
        }
        Address::Table(kind, name) => put(out, format_args!("{}/{}", kind_word(*kind), word(name))),
        Address::Inline(kind, entries) => {
            let text: Vec<String> = entries.iter().map(pool_entry).collect();
            put(
                out,
                format_args!("{}=({})", kind_word(*kind), text.join(",")),
            );
        }
        Address::Unresolved(name) => out.push_str(name),
    }
    if let Some(port) = side.port {
        port_text(out, port);
    }
}

/// A side, with its ports.
#[must_use]
pub fn side_text(of: &Side) -> String {
    let mut out = String::new();
    side(&mut out, of);
    out
}

/// An address.
#[must_use]
pub fn host_text(family: Family, value: u128) -> String {
    let mut out = String::new();
    host(&mut out, family, value);
    out
}

fn kind_word(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Pool => "pool",
        TableKind::Hash => "hash",
    }
}

/// An entry of a table.
#[must_use]
pub fn pool_entry(entry: &PoolEntry) -> String {
    let mut out = String::new();
    if entry.negate {
        out.push('!');
    }
    match entry.mask {
        0 if entry.family == Family::V4 => out.push_str("0.0.0.0/0"),
        mask => net(&mut out, entry.family, entry.value, mask),
    }
    out
}

fn host(out: &mut String, family: Family, value: u128) {
    match family {
        Family::V4 => {
            let low = u32::try_from(value & u128::from(u32::MAX)).unwrap_or_default();
            put(out, format_args!("{}", Ipv4Addr::from_bits(low)));
        }
        Family::V6 => put(out, format_args!("{}", Ipv6Addr::from_bits(value))),
    }
}

fn net(out: &mut String, family: Family, value: u128, mask: u128) {
    host(out, family, value);
    out.push('/');
    let free = !mask & ones(family);
    match free & free.wrapping_add(1) {
        0 => put(out, format_args!("{}", mask.count_ones())),
        _ => host(out, family, mask),
    }
}

fn port_text(out: &mut String, port: Port) {
    out.push_str(" port ");
    match port {
        Port::Equal(port) => put(out, format_args!("= {port}")),
        Port::NotEqual(port) => put(out, format_args!("!= {port}")),
        Port::Less(port) => put(out, format_args!("< {port}")),
        Port::Greater(port) => put(out, format_args!("> {port}")),
        Port::LessEqual(port) => put(out, format_args!("<= {port}")),
        Port::GreaterEqual(port) => put(out, format_args!(">= {port}")),
        Port::Between(low, high) => put(out, format_args!("{low} >< {high}")),
        Port::Outside(low, high) => put(out, format_args!("{low} <> {high}")),
        Port::Span(first, last) => put(out, format_args!("{first}:{last}")),
    }
}

fn list(out: &mut String, verb: &str, names: &[String]) {
    if !names.is_empty() {
        put(out, format_args!(" {verb} {}", names.join(",")));
    }
}

fn with_text(out: &mut String, with: &With, form: Form) {
    if with.is_empty() {
        return;
    }
    out.push_str(" with");
    let options = |wanted: u32, classes: u8| -> Vec<String> {
        let rows = words::IP_OPTIONS.iter().enumerate();
        let own = rows.filter(|(bit, _)| wanted & (1 << bit) != 0);
        let mut names: Vec<String> = own
            .map(|(bit, row)| match with.doi {
                Some(doi) if 1 << bit == words::OPTION_CIPSO => format!("cipso doi {doi}"),
                _ => row.name.to_owned(),
            })
            .collect();
        let rows = words::CLASSES.iter().enumerate();
        let own = rows.filter(|(bit, _)| classes & (1 << bit) != 0);
        let own: Vec<&str> = own.map(|(_, row)| row.0).collect();
        if !own.is_empty() {
            names.push(format!("sec-class {}", own.join(",")));
        }
        names
    };
    let headers = |wanted: u16| -> Vec<String> {
        let rows = words::HEADERS.iter().enumerate();
        rows.filter(|(bit, _)| wanted & (1 << bit) != 0)
            .map(|(_, row)| row.0.to_owned())
            .collect()
    };
    list(out, "opt", &options(with.options_set, with.classes_set));
    let (options_not, classes_not) = (
        with.options & !with.options_set,
        with.classes & !with.classes_set,
    );
    list(out, "not opt", &options(options_not, classes_not));
    let plural = if form == Form::V4 { "s" } else { "" };
    let word = |not| format!("{not}v6hdr{plural}");
    list(out, &word(""), &headers(with.headers));
    list(out, &word("not "), &headers(with.no_headers));
    let mut comma = " ";
    for (word, bit) in words::ATTRIBUTES {
        if with.attributes & bit != 0 {
            let not = if with.attributes_set & bit == 0 {
                "not "
            } else {
                ""
            };
            put(out, format_args!("{comma}{not}{word}"));
            comma = ",";
        }
    }
}

fn state(out: &mut String, rule: &Rule) {
    let Some(keep) = &rule.keep_state else { return };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(keep.limit.map(|n| format!("limit {n}")));
    parts.extend(keep.max_sources.map(|n| format!("max-srcs {n}")));
    if let Some((number, length)) = keep.max_per_source {
        let blank = if keep.max_sources.is_some() { " " } else { "" };
        let length = length.unwrap_or(if rule.family == Some(Family::V6) {
            128
        } else {
            32
        });
        parts.push(format!("{blank}max-per-src {number}/{length}"));
    }
    let flags = [
        (keep.strict, "strict"),
        (keep.loose, "loose"),
        (keep.newisn, "newisn"),
        (keep.no_icmp_errors, "no-icmp-err"),
        (keep.sync, "sync"),
        (keep.nolog, "nolog"),
    ];
    parts.extend(flags.iter().filter(|f| f.0).map(|f| f.1.to_owned()));
    parts.extend(
        keep.icmp_head
            .iter()
            .map(|group| format!("icmp-head {}", word(group))),
    );
    match &keep.rpc {
        None => {}
        Some(None) => parts.push("rpc".to_owned()),
        Some(Some(program)) => parts.push(format!("rpc in {}", word(program))),
    }
    parts.extend(
        rule.age
            .map(|(forward, reverse)| format!("age {forward}/{reverse}")),
    );
    out.push_str(" keep state");
    if !parts.is_empty() {
        put(out, format_args!(" ({})", parts.join(",")));
    }
}

fn tags(out: &mut String, verb: &str, tags: &Tags) {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(tags.log.map(|tag| format!("log={tag}")));
    parts.extend(tags.nat.iter().map(|tag| format!("nat={}", word(tag))));
    if !parts.is_empty() {
        put(out, format_args!(" {verb}({})", parts.join(", ")));
    }
}

fn tail(out: &mut String, rule: &Rule, options: &PrintOptions<'_>) {
    state(out, rule);
    if let Some(strict) = rule.keep_frags {
        out.push_str(if strict {
            " keep frags (strict)"
        } else {
            " keep frags"
        });
    }
    if let Some(limit) = rule.keep_limit {
        put(out, format_args!(" keep limit {}", limit.limit));
        if limit.cumulative {
            out.push_str(" cumulative");
        }
    }
    if let Some(head) = &rule.head {
        put(out, format_args!(" head {}", word(head)));
    }
    if let Some(group) = &rule.group {
        put(out, format_args!(" group {}", word(group)));
    }
    tags(out, "set-tag", &rule.set_tag);
    tags(out, "match-tag", &rule.match_tag);
    if let Some(pps) = rule.pps {
        put(out, format_args!(" pps {pps}"));
    }
    if let (None, Some((forward, reverse))) = (&rule.keep_state, rule.age) {
        put(out, format_args!(" age {forward}/{reverse}"));
    }
    if let Some(seconds) = rule.rule_ttl {
        put(out, format_args!(" rule-ttl {seconds}"));
    }
    if let Some(comment) = &rule.comment {
        put(out, format_args!(" comment {}", quoted(comment)));
    }
    if let Some(entries) = options.entries.filter(|_| rule.keep_state.is_some()) {
        put(out, format_args!(" # count {entries}"));
    }
}

/// A name as one word: in quotes where it would not read back as one.
pub(super) fn word(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_.-*+%&|^~?[]".contains(c);
    let taken = ["group", "head", "keep", "with", "set-tag", "pps"];
    let keyword = taken.iter().any(|word| word.eq_ignore_ascii_case(name));
    match !name.is_empty() && name.chars().all(plain) && !keyword {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A text in the quotes that it does not hold itself.
pub(super) fn quoted(text: &str) -> String {
    match text.contains('"') {
        true => format!("'{text}'"),
        false => format!("\"{text}\""),
    }
}
