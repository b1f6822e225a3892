//! The command of a line: options, the verb, and everything but rules, tables and shaping.
//!
//! In: words. Out: a [`CommandLine`]. Verbs match by their beginning, in the original's order of
//! trying, and a number before the verb is swapped with it (`100 add ...`).

use super::super::command::{
    Command, CommandLine, DummynetKind, NumberRanges, SetCommand, Setting, Switches, TimeForm,
    Zeroed,
};
use super::super::fault::{Fault, Notes};
use super::super::numbers;
use super::super::words::Word;
use super::{Names, Reader, dummynet, is_prefix, nat, rule, table};
use crate::syntax::Span;

const VERBS: [&str; 22] = [
    "add",
    "delete",
    "flush",
    "zero",
    "resetlog",
    "list",
    "print",
    "show",
    "set",
    "table",
    "pipe",
    "queue",
    "sched",
    "flowset",
    "nat",
    "enable",
    "disable",
    "internal",
    "nat64lsn",
    "nat64stl",
    "nat64clat",
    "nptv6",
];

/// Commands of modules that weir has no use for.
const MODULES: [&str; 4] = ["nat64lsn", "nat64stl", "nat64clat", "nptv6"];

/// Reads one command. `standing` are options of lines before it, which stay in force.
///
/// # Errors
/// The fault with which ipfw would stop.
pub fn command(
    words: &[Word],
    line: Span,
    standing: Switches,
    notes: &mut Notes,
    names: &dyn Names,
) -> Result<CommandLine, Fault> {
    let (switches, taken) = switches(words, standing)?;
    let mut words = words[taken..].to_vec();
    let span = match (words.first(), words.last()) {
        (Some(first), Some(last)) => first.span.to(last.span),
        _ => line,
    };
    if words.is_empty() {
        if taken > 0 {
            return Err(
                Fault::usage("missing-word", line, "bad arguments, a command is missing")
                    .help("write a command after the options"),
            );
        }
        return Ok(CommandLine {
            switches,
            command: Command::Nothing,
            span,
        });
    }
    if words.len() > 1 && words[0].is_digit() {
        words.swap(0, 1);
    }
    let mut reader = Reader::new(&words, line, notes, names);
    let command = verb(&mut reader)?;
    Ok(CommandLine {
        switches,
        command,
        span,
    })
}

/// Options before the command, and how many words they take.
fn switches(words: &[Word], standing: Switches) -> Result<(Switches, usize), Fault> {
    let mut out = standing;
    let mut taken = 0;
    while let Some(word) = words.get(taken) {
        let Some(letters) = word.text.strip_prefix('-').filter(|l| !l.is_empty()) else {
            break;
        };
        taken += 1;
        if letters == "-" {
            break;
        }
        for (index, letter) in letters.char_indices() {
            match letter {
                'a' => out.counters = true,
                'b' => (out.brief, out.compact) = (true, true),
                'c' => out.compact = true,
                'd' => out.dynamic = true,
                'D' => (out.dynamic, out.only_dynamic) = (true, true),
                'e' => out.expired = true,
                'f' => out.force = true,
                'i' => out.values_as_addresses = true,
                'n' => out.test = true,
                'N' => out.names = true,
                'q' => out.quiet = true,
                'S' => out.sets = true,
                't' => out.time = Some(TimeForm::Date),
                'T' => out.time = Some(TimeForm::Seconds),
                'v' => out.verbose = true,
                'h' => {}
                's' => {
                    // Its argument is the rest of the word or the next one.
                    if index + 1 == letters.len() {
                        taken += 1;
                    }
                    break;
                }
                'p' => {
                    return Err(Fault::usage(
                        "preprocessor",
                        word.span,
                        "an absolute pathname must be used with -p option",
                    )
                    .help("run the preprocessor first, and give weir what it prints"));
                }
                _ => {
                    return Err(Fault::usage(
                        "unknown-flag",
                        word.span,
                        format!("illegal option -- {letter}"),
                    )
                    .help("options are -a -b -c -d -D -e -f -i -n -N -q -s -S -t -T -v"));
                }
            }
        }
    }
    Ok((out, taken.min(words.len())))
}

/// Whether a word is the beginning of a keyword, without the warning.
fn begins(word: &Word, keyword: &str) -> bool {
    keyword.starts_with(&word.text)
}

fn verb(reader: &mut Reader<'_>) -> Result<Command, Fault> {
    let Some(word) = reader.take() else {
        return Ok(Command::Nothing);
    };
    if MODULES.contains(&word.text.as_str()) {
        let name = word.text.clone();
        reader.rest();
        return Ok(Command::Module(name));
    }
    if begins(word, "nat") {
        return nat::nat(reader);
    }
    let kinds = [
        ("pipe", DummynetKind::Pipe),
        ("queue", DummynetKind::Queue),
        ("flowset", DummynetKind::Queue),
        ("sched", DummynetKind::Sched),
    ];
    for (name, kind) in kinds {
        // `p` alone is a pipe, as `pipe` is tried before `print`; `s` is a scheduler.
        if begins(word, name) && (word.text != "s" || name != "sched") {
            return dummynet::dummynet(reader, kind);
        }
    }
    let mut set = None;
    let mut word = word;
    if begins(word, "set")
        && let Some(number) = reader.peek().filter(|next| next.is_digit())
    {
        let value = numbers::strtol(&number.text, 10);
        if !value.1.is_empty() || !(0..=31).contains(&value.0) {
            return Err(Fault::data(
                "set-number",
                number.span,
                format!("invalid set number {}", number.text),
            )
            .help("sets are 0 to 31"));
        }
        set = Some(value.0 as u8);
        reader.take();
        word = reader.need("a command")?;
    }
    plain_verb(reader, word, set)
}

fn plain_verb(reader: &mut Reader<'_>, word: &Word, set: Option<u8>) -> Result<Command, Fault> {
    let is = |keyword: &str, reader: &mut Reader<'_>| is_prefix(word, keyword, reader.notes);
    if is("table", reader) {
        return table::table(reader, set.unwrap_or(0));
    }
    if set.is_none() {
        if is("add", reader) {
            return Ok(Command::Add(Box::new(rule(reader)?)));
        }
        if is("set", reader) {
            return sets(reader);
        }
        if is("enable", reader) {
            return switch(reader, true);
        }
        if is("disable", reader) {
            return switch(reader, false);
        }
        if is("internal", reader) {
            let what = reader.need("an internal command")?;
            return Ok(Command::Internal(what.text.clone()));
        }
    }
    if is("delete", reader) {
        return delete(reader, set);
    }
    if is("flush", reader) {
        return Ok(Command::Flush { set });
    }
    for (keyword, log) in [("zero", false), ("resetlog", true)] {
        if is(keyword, reader) {
            let which = zeroed(reader, set)?;
            return Ok(Command::Zero { which, log });
        }
    }
    for (keyword, counters) in [("print", false), ("list", false), ("show", true)] {
        if is(keyword, reader) {
            return Ok(Command::List {
                ranges: ranges(reader)?,
                counters,
                set,
            });
        }
    }
    Err(Fault::usage(
        "unknown-command",
        word.span,
        format!("bad command `{}'", word.text),
    )
    .nearest(
        &word.text,
        VERBS,
        "write add, delete, list, table, pipe ...",
    ))
}

/// Numbers and ranges up to the end of the line.
pub fn ranges(reader: &mut Reader<'_>) -> Result<NumberRanges, Fault> {
    let mut out = NumberRanges::new();
    while let Some(word) = reader.take() {
        out.push(range(word)?);
    }
    Ok(out)
}

fn range(word: &Word) -> Result<(u32, u32), Fault> {
    let wrong = || {
        Fault::usage(
            "rule-number",
            word.span,
            format!("invalid rule number: {}", word.text),
        )
        .help("write NUMBER or FIRST-LAST")
    };
    if !word.is_digit() {
        return Err(wrong());
    }
    let (first, last, rest) = first_and_last(word);
    if !rest.is_empty() {
        return Err(wrong());
    }
    Ok((first as u32, last as u32))
}

/// The numbers of a range, or one number twice, and what is left of the word.
fn first_and_last(word: &Word) -> (i64, i64, &str) {
    let (first, rest) = numbers::strtol(&word.text, 10);
    match rest.strip_prefix('-').map(|last| numbers::strtol(last, 10)) {
        Some((last, rest)) => (first, last, rest),
        None => (first, first, rest),
    }
}

/// Numbers of rules and ranges of them, or numbers of sets. `set`: the one in front of the command.
fn zeroed(reader: &mut Reader<'_>, set: Option<u8>) -> Result<Zeroed, Fault> {
    if set.is_none() && reader.take_keyword("set").is_some() {
        let mut sets = Vec::new();
        while let Some(word) = reader.take() {
            sets.push(set_of(word)?);
        }
        if sets.is_empty() {
            return Err(
                Fault::usage("missing-word", reader.here(), "missing set number")
                    .help("write the numbers of sets, 0 to 31"),
            );
        }
        return Ok(Zeroed::Sets(sets));
    }
    let mut numbers = Vec::new();
    while let Some(word) = reader.take() {
        if !word.is_digit() {
            return Err(Fault::usage(
                "rule-number",
                word.span,
                format!("invalid rule number `{}`", word.text),
            )
            .help("write rule numbers, ranges of them, or set NUMBER"));
        }
        let (first, last, rest) = first_and_last(word);
        if !rest.is_empty() || last > 0xffff || first > last {
            return Err(Fault::data(
                "rule-number",
                word.span,
                format!("invalid rule number {}", word.text),
            )
            .help("rule numbers are 1 to 65535, ranges FIRST-LAST"));
        }
        numbers.push(((first as u32, last as u32), word.span));
    }
    Ok(Zeroed::Rules { numbers, set })
}

fn delete(reader: &mut Reader<'_>, set: Option<u8>) -> Result<Command, Fault> {
    if reader.peek().is_none() {
        return Err(
            Fault::usage("missing-word", reader.here(), "missing rule specification")
                .help("write rule numbers, or set NUMBER"),
        );
    }
    let mut sets = false;
    if let Some(word) = reader.take_keyword("set") {
        if set.is_some() {
            return Err(Fault::data("delete-set", word.span, "invalid syntax")
                .help("write delete set NUMBER alone"));
        }
        sets = true;
    }
    let mut ranges = NumberRanges::new();
    while let Some(word) = reader.peek().filter(|word| word.is_digit()) {
        reader.take();
        let (first, rest) = numbers::strtol(&word.text, 10);
        let last = rest.strip_prefix('-').map_or(first, numbers::atoi);
        ranges.push((first as u32 & 0xffff, last as u32 & 0xffff));
    }
    if let Some(word) = reader.peek() {
        reader.notes.warn(
            "ignored-words",
            reader.rest_span(),
            format!("`{}` and what follows is ignored", word.text),
            "ipfw stops reading numbers there; write rule numbers",
        );
        reader.rest();
    }
    Ok(Command::Delete { sets, ranges, set })
}

fn set_of(word: &Word) -> Result<u8, Fault> {
    let value = numbers::atoi(&word.text);
    if !word.is_digit() || value > 31 {
        return Err(Fault::data(
            "set-number",
            word.span,
            format!("invalid set number {}", word.text),
        )
        .help("sets are 0 to 31"));
    }
    Ok(value as u8)
}

fn sets(reader: &mut Reader<'_>) -> Result<Command, Fault> {
    if reader.peek().is_none() {
        return Err(
            Fault::usage("missing-word", reader.here(), "set needs command")
                .help("write show, disable, enable, swap or move"),
        );
    }
    if reader.take_keyword("show").is_some() {
        return Ok(Command::Sets(SetCommand::Show));
    }
    if reader.take_keyword("swap").is_some() {
        let (Some(first), Some(second)) = (reader.take(), reader.take()) else {
            return Err(Fault::usage(
                "missing-word",
                reader.here(),
                "set swap needs 2 set numbers",
            )
            .help("write set swap A B"));
        };
        return Ok(Command::Sets(SetCommand::Swap(
            set_of(first)?,
            set_of(second)?,
        )));
    }
    if reader.take_keyword("move").is_some() {
        return move_to(reader);
    }
    switch_sets(reader)
}

fn move_to(reader: &mut Reader<'_>) -> Result<Command, Fault> {
    let rule = reader.take_keyword("rule").is_some();
    let syntax = |reader: &Reader<'_>| {
        Fault::usage("set-move", reader.here(), "syntax: set move [rule] X to Y")
            .help("write set move A to B, or set move rule NUMBER to SET")
    };
    let Some(from) = reader.take() else {
        return Err(syntax(reader));
    };
    if reader.take_keyword("to").is_none() {
        return Err(syntax(reader));
    }
    let Some(to) = reader.take() else {
        return Err(syntax(reader));
    };
    if reader.peek().is_some() {
        return Err(syntax(reader));
    }
    let to = set_of(to)?;
    if !rule {
        return Ok(Command::Sets(SetCommand::Move(set_of(from)?, to)));
    }
    let number = numbers::atoi(&from.text);
    if !from.is_digit() || number >= 65535 {
        return Err(Fault::data(
            "rule-number",
            from.span,
            format!("invalid source number {}", from.text),
        )
        .help("write the number of a rule"));
    }
    Ok(Command::Sets(SetCommand::MoveRule(number as u32, to)))
}

fn switch_sets(reader: &mut Reader<'_>) -> Result<Command, Fault> {
    let start = reader.here();
    let (mut disable, mut enable) = (0u32, 0u32);
    let mut on = None;
    while let Some(word) = reader.take() {
        if word.is_digit() {
            let bit = 1u32 << set_of(word)?;
            match on {
                Some(true) => enable |= bit,
                Some(false) => disable |= bit,
                None => return Err(unknown_set_command(word)),
            }
        } else if is_prefix(word, "disable", reader.notes) {
            on = Some(false);
        } else if is_prefix(word, "enable", reader.notes) {
            on = Some(true);
        } else {
            return Err(match on {
                None => unknown_set_command(word),
                Some(_) => Fault::data(
                    "set-command",
                    word.span,
                    format!("invalid set command {}", word.text),
                )
                .help("write set numbers, disable or enable"),
            });
        }
    }
    if disable & enable != 0 {
        return Err(Fault::data(
            "set-command",
            start,
            "cannot enable and disable the same set",
        )
        .help("write each set once"));
    }
    Ok(Command::Sets(SetCommand::Switch { disable, enable }))
}

fn unknown_set_command(word: &Word) -> Fault {
    let known = ["show", "disable", "enable", "swap", "move"];
    Fault::usage(
        "set-command",
        word.span,
        format!("invalid set command {}", word.text),
    )
    .nearest(
        &word.text,
        known,
        "write show, disable, enable, swap or move",
    )
}

fn switch(reader: &mut Reader<'_>, on: bool) -> Result<Command, Fault> {
    let settings = [
        ("firewall", Setting::Firewall),
        ("one_pass", Setting::OnePass),
        ("debug", Setting::Debug),
        ("verbose", Setting::Verbose),
        ("dyn_keepalive", Setting::DynKeepalive),
        ("altq", Setting::Altq),
        ("skipto_cache", Setting::SkiptoCache),
    ];
    for (name, setting) in settings {
        if reader.take_keyword(name).is_some() {
            return Ok(Command::Switch { setting, on });
        }
    }
    match reader.peek() {
        // The original only complains, and goes on.
        None => Err(Fault::usage(
            "missing-word",
            reader.here(),
            "missing keyword to enable/disable",
        )
        .help("write firewall, one_pass, debug, verbose, dyn_keepalive or skipto_cache")),
        Some(word) => Err(Fault::usage(
            "unknown-setting",
            word.span,
            format!("unrecognize enable/disable keyword: {}", word.text),
        )
        .nearest(
            &word.text,
            settings.iter().map(|(name, _)| *name),
            "write firewall, one_pass, debug, verbose, dyn_keepalive or skipto_cache",
        )),
    }
}
