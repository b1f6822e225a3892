//! `weir set` (`weir ipset`): one command of ipset on the sets that the enforced rules ask about.
//!
//! In: ipset's own words. Out: the changed sets in force, or what ipset says when a command can't
//! be carried out, with its exit status. Members with a timeout go when their time is over. Not
//! here: `swap`, `rename`, `restore`.

use super::Held;
use super::sets::{NO_SET, Set, Sets, create_text, member_text};
use crate::edit::{Asked, Report, Request, ask};
use crate::exit::{Exit, failure};
use crate::input::told;
use crate::output::Output;
use std::time::Instant;
use weir_policy::dialect::ipset::ast::{Add, Create, StatementKind, option};
use weir_policy::dialect::ipset::parse;
use weir_policy::dialect::iptables::value::push_word;
use weir_policy::syntax::{Severity, Sources};

/// Options of `weir set`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  weir set add blocked 192.0.2.7 timeout 600\n  weir set del blocked \
                  192.0.2.7 -exist\n  weir set test blocked 192.0.2.7\n  weir set list blocked\n\n\
                  Exit status: that of ipset."
)]
pub struct Args {
    /// Network namespace whose sets are meant; before ipset's own words.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print how the change was made as one JSON object; before ipset's own words.
    #[arg(long)]
    pub json: bool,
    /// Options and command of ipset.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Commands, with the other names that ipset has for them.
const COMMANDS: [(&str, &[&str]); 8] = [
    ("add", &["-A", "--add"]),
    ("del", &["-D", "--del"]),
    ("test", &["-T", "--test"]),
    ("create", &["-N", "--create", "new"]),
    ("destroy", &["-X", "--destroy"]),
    ("list", &["-L", "--list"]),
    ("save", &["-S", "--save"]),
    ("flush", &["-F", "--flush"]),
];

/// A command.
struct Given {
    name: &'static str,
    words: Vec<String>,
    exist: bool,
    quiet: bool,
    names_only: bool,
}

fn ipset_says(exit: Exit, message: impl AsRef<str>) -> anyhow::Result<Exit> {
    eprintln!("ipset: {}", message.as_ref());
    Ok(exit)
}

fn read(command: &[String]) -> Result<Given, String> {
    let mut given = Given {
        name: "",
        words: Vec::new(),
        exist: false,
        quiet: false,
        names_only: false,
    };
    for word in command {
        match word.as_str() {
            "-exist" | "--exist" | "-!" => given.exist = true,
            "-quiet" | "--quiet" | "-q" => given.quiet = true,
            "-name" | "-n" => given.names_only = true,
            text if given.name.is_empty() => {
                let named = |c: &&(&str, &[&str])| c.0 == text || c.1.contains(&text);
                let Some(command) = COMMANDS.iter().find(named) else {
                    return Err(format!("No command specified: unknown argument {text}"));
                };
                given.name = command.0;
            }
            _ => given.words.push(word.clone()),
        }
    }
    let place = ["mandatory argument", "second mandatory argument"];
    let needed = match given.name {
        "" => return Err("No command specified.".to_owned()),
        "add" | "del" | "test" | "create" => 2,
        "destroy" | "flush" | "list" | "save" => 0,
        _ => 1,
    };
    match given.words.len() < needed {
        true => {
            let (which, name) = (place[given.words.len().min(1)], given.name);
            Err(format!("Missing {which} to command {name}"))
        }
        false => Ok(given),
    }
}

/// What ipset says where a member is there already, or is not.
pub fn not_done(comes: bool) -> &'static str {
    match comes {
        true => "Element cannot be added to the set: it's already added",
        false => "Element cannot be deleted from the set: it's not added",
    }
}

/// Reads lines as a file of ipset would have them. `None`: its messages are told.
fn parsed(lines: &str) -> Option<Vec<StatementKind>> {
    let mut sources = Sources::new();
    let source = sources.add("ipset", lines);
    let (file, found) = parse(lines, source);
    told::tell(&found, &sources, Severity::Warning);
    let broken = found.iter().any(|one| one.is_error());
    (!broken).then(|| file.statements.into_iter().map(|one| one.kind).collect())
}

fn line(first: &str, words: &[String]) -> String {
    words.iter().fold(first.to_owned(), |mut line, word| {
        push_word(&mut line, word);
        line
    })
}

/// Reads the member that a command names.
fn member(sets: &Sets, create: &Create, words: &[String]) -> Option<Add> {
    // Lists of sets name others.
    debug_assert!(sets.list.iter().any(|set| set.create.name == create.name));
    let text = sets.creates() + &line("add", words);
    match parsed(&text)?.pop() {
        Some(StatementKind::Add(add)) => Some(add),
        _ => None,
    }
}

/// Carries a command out; the exit status is ipset's.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let given = match read(&args.command) {
        Ok(given) => given,
        Err(message) => return ipset_says(Exit::Usage, message),
    };
    let (mut netns, mut why) = (args.netns.as_deref(), "a command on more than a member");
    let reason;
    if matches!(given.name, "add" | "del") {
        let line = line("add", &given.words);
        let request = match given.name {
            "add" => Request::Add(line, given.exist),
            _ => Request::Del(line, given.exist),
        };
        match ask(netns, &request)? {
            Asked::Done(report) => return report.print(out),
            Asked::Fault(fault) => return ipset_says(Exit::Negative, fault),
            Asked::Elsewhere(said) => {
                reason = said;
                (netns, why) = (None, reason.as_str());
            }
        }
    }
    let began = Instant::now();
    let held = Held::open(netns)?;
    let mut sets = held.sets()?;
    let name = given.words.first().cloned();
    match given.name {
        "list" | "save" => return print(&sets, &given, out),
        "create" => {
            if sets.find(&given.words[0]).is_some() {
                let message = "Set cannot be created: set with the same name already exists";
                return match given.exist {
                    true => Ok(Exit::Done),
                    false => ipset_says(Exit::Negative, message),
                };
            }
            let Some(StatementKind::Create(create)) =
                parsed(&line("create", &given.words)).and_then(|mut all| all.pop())
            else {
                return Ok(Exit::Negative);
            };
            sets.list.push(Set {
                create,
                members: Vec::new(),
            });
        }
        "destroy" | "flush" => {
            if let Some(name) = &name
                && sets.find(name).is_none()
            {
                return ipset_says(Exit::Negative, NO_SET);
            }
            let is_meant = |set: &Set| name.as_ref().is_none_or(|n| **n == *set.create.name);
            if given.name == "destroy" {
                sets.list.retain(|set| !is_meant(set));
            } else {
                let meant = sets.list.iter_mut().filter(|set| is_meant(set));
                meant.for_each(|set| set.members.clear());
            }
        }
        _ => {
            if let Some(exit) = change_member(&mut sets, &given)? {
                return Ok(exit);
            }
        }
    }
    let mut texts: Vec<_> = held.set_text(&sets).into_iter().collect();
    texts.extend(held.rule_texts()?);
    held.replace(texts)?;
    Report::of_texts(why.to_owned(), began).print(out)
}

/// `add`, `del`, `test`. `None`: the sets have changed and are to be put in force.
fn change_member(sets: &mut Sets, given: &Given) -> anyhow::Result<Option<Exit>> {
    let Some(create) = sets.find(&given.words[0]).map(|set| set.create.clone()) else {
        return ipset_says(Exit::Negative, NO_SET).map(Some);
    };
    let Some(add) = member(sets, &create, &given.words) else {
        return Ok(Some(Exit::Negative));
    };
    let Some(set) = sets.find(&create.name) else {
        return Ok(Some(Exit::Negative));
    };
    let refuse = |message: &str| ipset_says(Exit::Negative, message).map(Some);
    match given.name {
        "test" => {
            let (name, text) = (&create.name, &given.words[1]);
            let has = set.has(&add.member);
            match (given.quiet, has) {
                (true, _) => {}
                (false, true) => eprintln!("Warning: {text} is in set {name}."),
                (false, false) => eprintln!("{text} is NOT in set {name}."),
            }
            return Ok(Some(if has { Exit::Done } else { Exit::Negative }));
        }
        "add" => {
            if option(&add.options, "timeout").is_some() && !set.has_timeouts() {
                return refuse("Timeout cannot be used: set was created without timeout support");
            }
            if ["before", "after"]
                .iter()
                .any(|o| option(&add.options, o).is_some())
            {
                let message = "`before` and `after`: weir asks all sets of a list";
                return Err(failure(Exit::Unsupported, message));
            }
            if !set.add(&add, given.exist)? {
                return refuse(not_done(true));
            }
        }
        _ => {
            if !set.delete(&add.member, given.exist)? {
                return refuse(not_done(false));
            }
        }
    }
    Ok(None)
}

/// `list` and `save`.
fn print(sets: &Sets, given: &Given, out: &mut Output) -> anyhow::Result<Exit> {
    let wanted = given.words.first();
    if let Some(more) = given.words.get(1) {
        return ipset_says(Exit::Usage, format!("Unknown argument {more}"));
    }
    let is_meant = |set: &&Set| wanted.is_none_or(|name| **name == *set.create.name);
    let chosen: Vec<&Set> = sets.list.iter().filter(is_meant).collect();
    if wanted.is_some() && chosen.is_empty() {
        return ipset_says(Exit::Negative, NO_SET);
    }
    if given.name == "save" {
        let all = Sets {
            list: chosen.into_iter().cloned().collect(),
        };
        out.raw(all.print().as_bytes())?;
        return Ok(Exit::Done);
    }
    for (at, set) in chosen.iter().enumerate() {
        if given.names_only {
            out.line(&*set.create.name)?;
            continue;
        }
        if at > 0 {
            out.line("")?;
        }
        let made = create_text(&set.create);
        let header = made.splitn(3, ' ').nth(2).unwrap_or_default();
        out.line(format!("Name: {}", set.create.name))?;
        out.line(format!("Type: {}", set.create.set_type.name))?;
        out.line(format!("Header: {header}"))?;
        out.line(format!("Number of entries: {}", set.members.len()))?;
        out.line("Members:")?;
        for add in &set.members {
            out.line(member_text(add))?;
        }
    }
    Ok(Exit::Done)
}
