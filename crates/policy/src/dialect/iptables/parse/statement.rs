//! One line of a file that is not a comment: tables, chains, COMMIT, and the commands.

use super::super::ast::{
    ChainLine, ChainVerdict, Line, Name, Placement, RuleLine, StatementKind, table_name,
};
use super::super::grammar::{self, Role};
use super::numbers::{number, number32};
use super::{Block, Parser};
use crate::model::{Counters, Table};
use crate::syntax::{Cursor, Diagnostic, Place, Span, Word};

/// Longest name of a chain (XT_EXTENSION_MAXNAMELEN less its zero).
pub const CHAIN_NAME_MAX: usize = 28;

const TABLES: [Table; 5] = [
    Table::Filter,
    Table::Nat,
    Table::Mangle,
    Table::Raw,
    Table::Security,
];

/// The built-in chains of a table, in packet order.
#[must_use]
pub fn built_in_chains(table: Table) -> &'static [&'static str] {
    match table {
        Table::Filter | Table::Security => &["INPUT", "FORWARD", "OUTPUT"],
        Table::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        Table::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        Table::Raw => &["PREROUTING", "OUTPUT"],
    }
}

/// The commands of a line, each with its long name.
const COMMANDS: &[(&str, &str)] = &[
    ("-A", "--append"),
    ("-I", "--insert"),
    ("-D", "--delete"),
    ("-R", "--replace"),
    ("-N", "--new-chain"),
    ("-X", "--delete-chain"),
    ("-F", "--flush"),
    ("-P", "--policy"),
    ("-E", "--rename-chain"),
    ("-Z", "--zero"),
];

/// What `command` needs of the line after the first words.
type Parsed = Option<StatementKind>;

impl Parser {
    /// Reads a line that has words.
    pub(super) fn statement(&mut self, mut cursor: Cursor<'_, '_>, line: Line) {
        let at = cursor.line();
        let Some(first) = cursor.take() else { return };
        let text = &*first.text;
        let kind = if let Some(name) = text.strip_prefix('*') {
            self.table(name, first, &mut cursor)
        } else if let Some(name) = text.strip_prefix(':') {
            self.chain(name, first, &mut cursor)
        } else if text == "COMMIT" {
            self.commit(first, &mut cursor)
        } else {
            self.command_line(first, cursor)
        };
        if let Some(kind) = kind {
            self.push(at, line, kind);
        }
    }

    fn table(&mut self, name: &str, word: &Word<'_>, cursor: &mut Cursor<'_, '_>) -> Parsed {
        let at = cursor.span(word);
        if let Some(open) = self.block.take() {
            let message = format!(
                "table {} has no COMMIT before the next one",
                table_name(open.table)
            );
            let found = Diagnostic::error("no-commit", open.at, message)
                .related(at, "the next table starts here");
            self.report(found.help("add a line `COMMIT` after its last rule"));
        }
        let Some(table) = TABLES.into_iter().find(|&table| table_name(table) == name) else {
            self.in_unknown_table = true;
            let names = TABLES.map(table_name);
            let found = Diagnostic::error("unknown-table", at, format!("unknown table `{name}`"))
                .help(format!("tables are {}", names.join(", ")))
                .did_you_mean(name, names);
            self.report(found);
            return None;
        };
        self.in_unknown_table = false;
        self.block = Some(Block { table, at });
        // The lines that follow belong to the table even where a stray word follows its name.
        let _ = self.no_more(cursor);
        Some(StatementKind::Table(table))
    }

    fn commit(&mut self, word: &Word<'_>, cursor: &mut Cursor<'_, '_>) -> Parsed {
        if std::mem::take(&mut self.in_unknown_table) {
            return None;
        }
        if self.block.take().is_none() {
            let place = cursor.span(word);
            let found = Diagnostic::error("no-table", place, "COMMIT without a table before it");
            self.report(found.help("a table starts with a line such as `*filter`"));
            return None;
        }
        let _ = self.no_more(cursor);
        Some(StatementKind::Commit)
    }

    /// Refuses words after a complete line.
    fn no_more(&mut self, cursor: &mut Cursor<'_, '_>) -> Option<()> {
        let word = match cursor.take() {
            None => return Some(()),
            Some(word) => word,
        };
        let place = cursor.span(word);
        let message = format!("unexpected word `{}`", word.text);
        self.report(Diagnostic::error("unexpected-word", place, message).help("take it out"));
        None
    }

    /// The open table; reports a line that is in none.
    fn open_table(&mut self, at: Span) -> Option<Table> {
        match self.block {
            Some(block) => Some(block.table),
            None if self.in_unknown_table => None,
            None => {
                let found = Diagnostic::error("no-table", at, "this line is in no table");
                self.report(found.help("start the table with a line such as `*filter`"));
                None
            }
        }
    }

    /// `:chain policy [packets:bytes]`
    fn chain(&mut self, name: &str, word: &Word<'_>, cursor: &mut Cursor<'_, '_>) -> Parsed {
        let at = cursor.span(word);
        let table = self.open_table(at);
        let built_in = table.is_some_and(|table| built_in_chains(table).contains(&name));
        let name_at = at.part(1, usize::MAX >> 1);
        let known = self.new_chain_name(name, name_at, built_in)?;
        let policy_word = match cursor.take() {
            Some(word) => word,
            None => {
                let found =
                    Diagnostic::error("missing-word", cursor.here(), "the policy is missing");
                let example = if built_in {
                    "ACCEPT or DROP"
                } else {
                    "`-` for a user chain"
                };
                self.report(found.help(format!("write {example}")));
                return None;
            }
        };
        let policy_at = cursor.span(policy_word);
        let policy = self.chain_policy(&policy_word.text, policy_at, table, name, built_in)?;
        let counters = match cursor.take() {
            Some(word) => Some(self.counters_in_brackets(&word.text, cursor.span(word))?),
            None => None,
        };
        self.no_more(cursor)?;
        table?;
        Some(StatementKind::Chain(ChainLine {
            name: known,
            policy,
            counters,
        }))
    }

    /// `ACCEPT`, `DROP`, or `-`.
    fn chain_policy(
        &mut self,
        text: &str,
        at: Span,
        table: Option<Table>,
        chain: &str,
        built_in: bool,
    ) -> Option<Option<ChainVerdict>> {
        let policy = match text {
            "ACCEPT" => Some(ChainVerdict::Accept),
            "DROP" => Some(ChainVerdict::Drop),
            "-" => None,
            _ => {
                let message = format!("bad policy `{text}`");
                let found = Diagnostic::error("bad-policy", at, message)
                    .help("a policy is ACCEPT or DROP, and `-` for a user chain")
                    .did_you_mean(text, ["ACCEPT", "DROP"]);
                self.report(found);
                return None;
            }
        };
        if let (Some(_), Some(table), false) = (policy, table, built_in) {
            let message = format!("user chain `{chain}` cannot have a policy");
            let names = built_in_chains(table).join(", ");
            let help = format!(
                "write `-`; the built-in chains of {} are {names}",
                table_name(table)
            );
            self.report(Diagnostic::error("user-chain-policy", at, message).help(help));
            return None;
        }
        Some(policy)
    }

    /// `[packets:bytes]`
    pub(super) fn counters_in_brackets(&mut self, text: &str, at: Span) -> Option<Counters> {
        let inside = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let parts = inside.and_then(|inside| inside.split_once(':'));
        let decimal = |text: &str| -> Option<u64> {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse().ok())
                .flatten()
        };
        let counters = parts.and_then(|(packets, bytes)| {
            Some(Counters {
                packets: decimal(packets)?,
                bytes: decimal(bytes)?,
            })
        });
        if counters.is_none() {
            let message = format!("bad counters `{text}`");
            let found = Diagnostic::error("bad-counters", at, message);
            self.report(found.help("counters are written `[packets:bytes]`, 64 bits each"));
        }
        counters
    }

    /// Checks the name of a chain that is declared.
    fn new_chain_name(&mut self, name: &str, at: Span, built_in: bool) -> Option<Name> {
        let known = self.chain_name(name, at)?;
        let is_target = ["ACCEPT", "DROP", "RETURN", "QUEUE"].contains(&name)
            || grammar::find(Role::Target, name, self.family).is_some();
        if is_target && !built_in {
            let message = format!("a chain cannot have the name of the target `{name}`");
            self.report(Diagnostic::error("bad-chain-name", at, message).help("rename the chain"));
            return None;
        }
        Some(known)
    }

    /// Checks any name of a chain.
    pub(super) fn chain_name(&mut self, name: &str, at: Span) -> Option<Name> {
        let fault = if name.is_empty() {
            Some("the name of the chain is missing".to_owned())
        } else if name.len() > CHAIN_NAME_MAX {
            Some(format!(
                "the chain name `{name}` is too long ({} bytes)",
                name.len()
            ))
        } else if name.starts_with(['-', '!']) || name.contains([' ', '\t', '"']) {
            Some(format!("no chain can be called `{name}`"))
        } else {
            None
        };
        if let Some(message) = fault {
            let help =
                format!("a name has 1 to {CHAIN_NAME_MAX} bytes, no blanks, no `-` or `!` first");
            self.report(Diagnostic::error("bad-chain-name", at, message).help(help));
            return None;
        }
        Some(self.name(name))
    }

    /// `[packets:bytes] command ...`
    fn command_line(&mut self, first: &Word<'_>, mut cursor: Cursor<'_, '_>) -> Parsed {
        let mut word = first;
        let mut counters = None;
        if first.text.starts_with('[') && !first.quoted {
            counters = Some(self.counters_in_brackets(&first.text, cursor.span(first))?);
            match cursor.take() {
                Some(next) => word = next,
                None => {
                    let place = cursor.here();
                    let found = Diagnostic::error("missing-word", place, "counters without a rule");
                    self.report(found.help("a rule follows, such as `-A INPUT -j ACCEPT`"));
                    return None;
                }
            }
        }
        let at = cursor.span(word);
        let short = COMMANDS
            .iter()
            .find(|row| row.0 == word.text || row.1 == word.text);
        let Some(&(short, _)) = short else {
            self.not_a_command(word, at);
            return None;
        };
        self.open_table(at)?;
        if counters.is_some() && !matches!(short, "-A" | "-I" | "-R") {
            let place = cursor.span(first);
            let message = format!("counters before `{}`", word.text);
            self.report(Diagnostic::error("bad-counters", place, message).help("take them out"));
            return None;
        }
        match short {
            "-A" | "-I" | "-R" | "-D" => self.rule_line(short, counters, cursor),
            _ => self.chain_command(short, cursor),
        }
    }

    fn not_a_command(&mut self, word: &Word<'_>, at: Span) {
        let text = &*word.text;
        let shell = [
            "iptables",
            "ip6tables",
            "ipset",
            "sudo",
            "/sbin/iptables",
            "/sbin/ip6tables",
        ];
        let is_shell = shell.contains(&text)
            || text.starts_with("$")
            || text.ends_with("/iptables")
            || text.ends_with("/ip6tables");
        if is_shell {
            if !std::mem::replace(&mut self.warned_of_shell, true) {
                let message = format!("`{text}` starts a shell command, not a rule");
                let help = "this reads the output of `iptables-save`: run the script, then save";
                self.report(Diagnostic::error("shell-script", at, message).help(help));
            } else {
                let message = format!("`{text}` starts a shell command, not a rule");
                self.report(Diagnostic::error("shell-script", at, message));
            }
            return;
        }
        if text == "-t" || text == "--table" {
            let message = "the table cannot be chosen inside a rule";
            let help = "put the rule into the block that starts with `*table`";
            self.report(Diagnostic::error("table-option", at, message).help(help));
            return;
        }
        let message = format!("unknown command `{text}`");
        let mut found = Diagnostic::error("unknown-command", at, message).help(
            "a line is `*table`, `:chain policy`, a rule such as `-A INPUT ...`, or `COMMIT`",
        );
        if text.len() > 2 {
            let names = COMMANDS.iter().map(|row| row.1);
            found = found.did_you_mean(text, names.chain(["COMMIT"]));
        }
        self.report(found);
    }

    /// `-A`, `-I`, `-R` and `-D` with their chain and position.
    fn rule_line(
        &mut self,
        command: &str,
        counters: Option<Counters>,
        mut cursor: Cursor<'_, '_>,
    ) -> Parsed {
        let (chain, chain_at) = self.chain_word(&mut cursor)?;
        let position = match cursor.peek() {
            Some(word) if !word.quoted && number(&word.text).is_some() && command != "-A" => {
                cursor.take();
                Some((
                    self.position(&word.text, cursor.span(word))?,
                    cursor.span(word),
                ))
            }
            _ => None,
        };
        let placement = match (command, position) {
            ("-A", _) => Placement::Append,
            ("-I", position) => Placement::Insert(position.map_or(1, |row| row.0)),
            ("-R", Some((position, _))) => Placement::Replace(position),
            ("-R", None) => {
                let message = "`-R` needs the number of the rule";
                let found = Diagnostic::error("missing-word", cursor.here(), message);
                self.report(found.help("rules are numbered from 1: `-R INPUT 3 ...`"));
                return None;
            }
            (_, Some((position, _))) => {
                self.no_more(&mut cursor)?;
                return Some(StatementKind::DeleteNumber(chain, position));
            }
            (_, None) => Placement::Delete,
        };
        let table = self.block.map(|block| block.table);
        let (rule, set_counters) = self.rule(&mut cursor, &chain, table)?;
        let counters = set_counters.or(counters);
        let chain_at = Place(chain_at);
        Some(StatementKind::Rule(Box::new(RuleLine {
            placement,
            chain,
            chain_at,
            counters,
            rule,
        })))
    }

    fn position(&mut self, text: &str, at: Span) -> Option<u32> {
        match number32(text) {
            Some(position) if position > 0 => Some(position),
            _ => {
                let message = format!("bad rule number `{text}`");
                let found = Diagnostic::error("bad-number", at, message);
                self.report(found.help("rules are numbered from 1"));
                None
            }
        }
    }

    /// The chain of a command.
    fn chain_word(&mut self, cursor: &mut Cursor<'_, '_>) -> Option<(Name, Span)> {
        match cursor.take() {
            Some(word) => {
                let at = cursor.span(word);
                Some((self.chain_name(&word.text, at)?, at))
            }
            None => {
                let place = cursor.here();
                let found = Diagnostic::error("missing-word", place, "the chain is missing");
                self.report(found.help("write its name after the command"));
                None
            }
        }
    }

    /// Commands on whole chains.
    fn chain_command(&mut self, command: &str, mut cursor: Cursor<'_, '_>) -> Parsed {
        let kind = match command {
            "-N" => {
                let word = cursor
                    .peek()
                    .map(|word| (word.text.clone(), cursor.span(word)));
                let (name, at) = self.chain_word(&mut cursor)?;
                let text = word.map(|word| word.0).unwrap_or_default();
                self.new_chain_name(&text, at, false)?;
                StatementKind::NewChain(name)
            }
            "-P" => {
                let (name, _) = self.chain_word(&mut cursor)?;
                let Some(word) = cursor.take() else {
                    let place = cursor.here();
                    let found = Diagnostic::error("missing-word", place, "the policy is missing");
                    self.report(found.help("write ACCEPT or DROP"));
                    return None;
                };
                let at = cursor.span(word);
                let table = self.block.map(|block| block.table);
                let built_in = table.is_some_and(|t| built_in_chains(t).contains(&&*name));
                let policy = self.chain_policy(&word.text, at, table, &name, built_in)?;
                let Some(policy) = policy else {
                    let found = Diagnostic::error("bad-policy", at, "bad policy `-`");
                    self.report(found.help("write ACCEPT or DROP"));
                    return None;
                };
                StatementKind::Policy(name, policy)
            }
            "-E" => {
                let (old, _) = self.chain_word(&mut cursor)?;
                let (new, at) = self.chain_word(&mut cursor)?;
                let new = self.new_chain_name(&new, at, false)?;
                StatementKind::Rename(old, new)
            }
            "-X" => StatementKind::DeleteChain(self.optional_chain(&mut cursor)?),
            "-F" => StatementKind::Flush(self.optional_chain(&mut cursor)?),
            _ => {
                let chain = self.optional_chain(&mut cursor)?;
                let position = match cursor.take() {
                    Some(word) => Some(self.position(&word.text, cursor.span(word))?),
                    None => None,
                };
                StatementKind::Zero(chain, position)
            }
        };
        self.no_more(&mut cursor)?;
        Some(kind)
    }

    fn optional_chain(&mut self, cursor: &mut Cursor<'_, '_>) -> Option<Option<Name>> {
        match cursor.peek() {
            Some(_) => Some(Some(self.chain_word(cursor)?.0)),
            None => Some(None),
        }
    }
}
