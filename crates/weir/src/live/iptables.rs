//! `weir iptables` and `weir ip6tables`: one command of iptables on the rules that are enforced.
//!
//! In: iptables' own words. Out: the changed rules in force, or what iptables says when a command
//! can't be carried out, with its exit status. Not here: `-L` (`weir show --counters`), the nat
//! table, which is the kernel's own, and `-Z`.

use super::tables::{Chain, Chains, Fault, open, rule_line, tables, text};
use super::{Held, otherwise};
use crate::describe::table_name;
use crate::edit::{Asked, Report, Request, ask};
use crate::exit::{Exit, failure};
use crate::input::told;
use crate::output::Output;
use std::time::Instant;
use weir_policy::dialect::iptables::ast::{ChainVerdict, RuleLine, StatementKind};
use weir_policy::dialect::iptables::parse_as;
use weir_policy::dialect::iptables::value::push_quoted;
use weir_policy::model::{Family, Table};
use weir_policy::syntax::{Severity, Sources};

/// Options of `weir iptables`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  weir iptables -I INPUT 3 -s 192.0.2.0/24 -j DROP\n  weir iptables \
                  -t mangle -D PREROUTING 1\n\nExit status: that of iptables."
)]
pub struct Args {
    /// Network namespace whose rules are meant; before iptables' own words.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print how the change was made as one JSON object; before iptables' own words.
    #[arg(long)]
    pub json: bool,
    /// Options and command of iptables.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// A command, split from the words that only say where.
struct Words {
    table: Table,
    /// The command and what follows it.
    rest: Vec<String>,
}

const TABLES: [Table; 5] = [
    Table::Filter,
    Table::Nat,
    Table::Mangle,
    Table::Raw,
    Table::Security,
];

/// How many words of these short options take a value.
fn words_of(command: &[String], tool: &str) -> anyhow::Result<Words> {
    let mut words = Words {
        table: Table::Filter,
        rest: Vec::new(),
    };
    let mut all = command.iter().peekable();
    while let Some(word) = all.next() {
        match word.as_str() {
            "-t" | "--table" => {
                let name = all.next().map_or("", String::as_str);
                let found = TABLES.into_iter().find(|table| table_name(*table) == name);
                words.table = found.ok_or_else(|| {
                    // What iptables answers, and with this status.
                    let message = format!("{tool}: table '{name}' does not exist");
                    failure(Exit::Unsupported, message)
                })?;
            }
            "-w" | "--wait" => {
                let is_number = |next: &&String| next.bytes().all(|byte| byte.is_ascii_digit());
                all.next_if(is_number);
            }
            "-v" | "--verbose" | "-n" | "--numeric" => {}
            _ => words.rest.push(word.clone()),
        }
    }
    let is_command = |word: &String| COMMANDS.iter().any(|c| c.0 == word || c.1 == word);
    // The command first, as files have it; what stood before it belongs to the rule.
    if let Some(at) = words.rest.iter().position(is_command) {
        let chain = words
            .rest
            .get(at + 1)
            .is_some_and(|next| !next.starts_with('-'));
        let number = |next: &String| next.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = chain && words.rest.get(at + 2).is_some_and(number);
        let end = at + 1 + usize::from(chain) + usize::from(numbered);
        words.rest[..end].rotate_left(at);
    }
    if matches!(words.table, Table::Nat | Table::Security) {
        let name = table_name(words.table);
        let message = format!("the {name} table is the kernel's own: use {tool} for it");
        return Err(failure(Exit::Unsupported, message));
    }
    Ok(words)
}

const COMMANDS: [(&str, &str); 11] = [
    ("-A", "--append"),
    ("-I", "--insert"),
    ("-D", "--delete"),
    ("-R", "--replace"),
    ("-C", "--check"),
    ("-N", "--new-chain"),
    ("-X", "--delete-chain"),
    ("-F", "--flush"),
    ("-P", "--policy"),
    ("-E", "--rename-chain"),
    ("-S", "--list-rules"),
];

/// A command as a file has it.
fn line_of(words: &Words) -> String {
    let mut line = String::new();
    for (at, word) in words.rest.iter().enumerate() {
        let plain =
            |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\') && !c.is_control();
        match !word.is_empty() && word.chars().all(plain) {
            true => line = line + if at > 0 { " " } else { "" } + word,
            false => push_quoted(&mut line, word),
        }
    }
    line
}

/// Reads a command as a file would have it. `None`: its messages are told.
fn read(words: &Words, family: Family, tool: &str) -> Option<StatementKind> {
    let line = line_of(words);
    let mut sources = Sources::new();
    let text = format!("*{}\n{line}\nCOMMIT\n", table_name(words.table));
    let source = sources.add(tool, text.as_str());
    let (mut file, found) = parse_as(&text, source, family);
    told::tell(&found, &sources, Severity::Warning);
    if found.iter().any(|one| one.is_error()) {
        return None;
    }
    let of_command =
        |kind: &StatementKind| !matches!(kind, StatementKind::Table(_) | StatementKind::Commit);
    let at = file.statements.iter().position(|s| of_command(&s.kind))?;
    Some(file.statements.swap_remove(at).kind)
}

/// Carries a command out; the exit status is iptables'.
pub fn run(args: &Args, family: Family, out: &mut Output) -> anyhow::Result<Exit> {
    let tool = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    let mut words = words_of(&args.command, tool)?;
    let first = words.rest.first().map_or("", String::as_str);
    let is = |short: &str| {
        COMMANDS
            .iter()
            .any(|c| c.0 == short && (c.0 == first || c.1 == first))
    };
    if is("-S") {
        let chain = words.rest.get(1).cloned();
        return list(args, family, &words, chain.as_deref(), out);
    }
    if !COMMANDS.iter().any(|c| is(c.0)) {
        let message = format!(
            "{tool}: weir carries out -A, -I, -D, -R, -C, -N, -X, -F, -P, -E and -S on what is \
             enforced; see weir show --counters for -L"
        );
        return Err(failure(Exit::Usage, message));
    }
    let checks = is("-C");
    if checks {
        "-A".clone_into(&mut words.rest[0]);
    }
    let Some(kind) = read(&words, family, tool) else {
        return Ok(Exit::Usage);
    };
    let (mut netns, mut why) = (
        args.netns.as_deref(),
        "a command on more than a rule".to_owned(),
    );
    if let (true, StatementKind::Rule(_) | StatementKind::DeleteNumber(..)) = (!checks, &kind) {
        let version = if family == Family::V4 { 4 } else { 6 };
        let table = table_name(words.table).to_owned();
        match ask(netns, &Request::Rule(version, table, line_of(&words)))? {
            Asked::Done(report) => return report.print(out),
            Asked::Fault(fault) => {
                eprintln!("{tool}: {fault}");
                return Ok(Exit::Negative);
            }
            Asked::Elsewhere(reason) => (netns, why) = (None, reason),
        }
    }
    let began = Instant::now();
    let held = Held::open(netns)?;
    let mut all = tables(&held.loaded, family)?;
    let at = open(&mut all, words.table);
    let done = match (&kind, checks) {
        (StatementKind::Rule(line), true) => all[at].has(line).and_then(|has| match has {
            true => Ok(()),
            false => Err(Fault::NoRule),
        }),
        _ => all[at].carry_out(&kind, None),
    };
    if let Err(fault) = done {
        eprintln!("{tool}: {}", fault.words());
        return Ok(Exit::Negative);
    }
    if checks {
        return Ok(Exit::Done);
    }
    if let StatementKind::Rule(line) = &kind {
        refuse_names(line)?;
    }
    put(held, family, &all)?;
    Report::of_texts(why, began).print(out)
}

/// What a name of a host means was asked when the policy was applied.
fn refuse_names(line: &RuleLine) -> anyhow::Result<()> {
    use weir_policy::dialect::iptables::value::Address;
    let addresses = [&line.rule.source, &line.rule.destination];
    let named = |address: &&Address| matches!(address, Address::Name(_));
    let mut names = addresses.into_iter().flatten().flat_map(|all| all.iter());
    match names.find(named) {
        None => Ok(()),
        Some(_) => Err(failure(
            Exit::Unsupported,
            "write the address, not a name: names are asked when files are applied",
        )),
    }
}

/// Puts changed tables in force.
fn put(held: Held, family: Family, all: &[Chains]) -> anyhow::Result<()> {
    let own = text(family, held.rules_name(family, otherwise(family)), all);
    let mut texts: Vec<_> = held.set_text(&held.sets()?).into_iter().collect();
    let others = held.rule_texts()?;
    texts.extend(others.into_iter().filter(|other| other.name != own.name));
    texts.push(own);
    held.replace(texts)
}

/// `-S`: rules as `iptables-save` prints them.
fn list(
    args: &Args,
    family: Family,
    words: &Words,
    chain: Option<&str>,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let held = Held::open(args.netns.as_deref())?;
    let mut all = tables(&held.loaded, family)?;
    let at = open(&mut all, words.table);
    if let Some(Err(fault)) = chain.map(|name| all[at].find(name).map(drop)) {
        eprintln!("iptables: {}", fault.words());
        return Ok(Exit::Negative);
    }
    let is_wanted = |one: &&Chain| chain.is_none_or(|name| *one.name == *name);
    let chosen: Vec<&Chain> = all[at].list.iter().filter(is_wanted).collect();
    for one in &chosen {
        out.line(match one.policy {
            Some(ChainVerdict::Accept) => format!("-P {} ACCEPT", one.name),
            Some(ChainVerdict::Drop) => format!("-P {} DROP", one.name),
            None => format!("-N {}", one.name),
        })?;
    }
    for one in chosen {
        for kept in &one.rules {
            out.line(rule_line(&one.name, &kept.rule))?;
        }
    }
    Ok(Exit::Done)
}
