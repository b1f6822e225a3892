//! `ipf.conf` text to rules, never stopping at an error.
//!
//! In: a text and how to read it. Out: the rules that are right and a located message for each that
//! is not. The order of words in a rule is strict, as in the original; what stands in the wrong
//! place is said. A rule is complete when its last possible word has been read, wherever the line
//! ends; HP-UX ends it with the line.

pub(super) mod address;
mod check;
mod expression;
mod matching;
mod nat;
mod pool;
mod ports;
mod rule;
mod state;
mod tail;
mod with;

use super::ast::{File, Item, Language, Name, Setting};
use super::families::Families;
use super::lex::{Kind, Token, lex};
use crate::dialect::renamed::Renamed;
use crate::model::{Family, SourceId};
use crate::syntax::{Diagnostic, Place, Span, span};
use std::net::IpAddr;

/// Who resolves host names. Nothing here asks anybody else.
pub trait Names {
    /// The addresses of a name, or why there are none.
    ///
    /// # Errors
    /// A sentence for people.
    fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String>;
    /// The name of this host, for `<thishost>`.
    fn this_host(&self) -> Option<String> {
        None
    }
}

/// How to read.
#[derive(Clone, Copy, Default)]
pub struct ParseOptions<'n> {
    /// The dialect.
    pub language: Language,
    /// The family of rules that nothing else fixes (`-6`, `ipf6.conf`).
    pub family: Option<Family>,
    /// Who resolves names; without, every name is unknown.
    pub names: Option<&'n dyn Names>,
    /// Unknown names are only warned of; the rule then matches nothing.
    pub lenient: bool,
}

/// A result, or what is wrong.
pub(super) type Parsed<T> = Result<T, Box<Diagnostic>>;

/// How deep bodies may nest: the original's limit for groups.
const BODIES_MAX: usize = 16;
/// How many rules one rule with lists may become.
const PRODUCT_MAX: usize = 100_000;

/// Words that begin a rule.
const ACTIONS: [&str; 10] = [
    "pass",
    "block",
    "log",
    "count",
    "nomatch",
    "skip",
    "auth",
    "preauth",
    "call",
    "decapsulate",
];

/// Reads a file.
#[must_use]
pub fn parse(text: &str, source: SourceId, options: &ParseOptions<'_>) -> (File, Vec<Diagnostic>) {
    let mut file = File {
        language: options.language,
        items: Vec::new(),
    };
    if text.len() > span::TEXT_BYTES_MAX {
        let place = Span::new(source, 0, 0);
        let found = Diagnostic::error("too-long", place, "the text is longer than 4 GiB")
            .help("split the file");
        return (file, vec![found]);
    }
    let (tokens, diagnostics) = lex(text, source);
    let end = Span::new(source, text.len(), text.len());
    let mut parser = Parser::new(&tokens, end, options, diagnostics);
    parser.families = Families::of(text, source, &mut parser.diagnostics);
    file.items = parser.statements(None);
    let mut diagnostics = parser.diagnostics;
    let renamed = Renamed::of(text, source, &mut diagnostics);
    if !renamed.is_empty() {
        for item in &mut file.items {
            if let Item::Rule(rule) = item {
                rule.rename_interfaces(&renamed);
            }
        }
    }
    diagnostics.sort_by_key(|found| (found.span.start, found.span.end));
    (file, diagnostics)
}

/// A reader of tokens, for the other files of this language.
pub(super) fn parser<'t, 'a, 'n>(
    tokens: &'t [Token<'a>],
    end: Span,
    options: &'t ParseOptions<'n>,
    diagnostics: Vec<Diagnostic>,
) -> Parser<'t, 'a, 'n> {
    Parser::new(tokens, end, options, diagnostics)
}

/// Reads tokens.
pub(super) struct Parser<'t, 'a, 'n> {
    tokens: &'t [Token<'a>],
    next: usize,
    end: Span,
    pub(super) options: &'t ParseOptions<'n>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Whether a token that begins a line ends the rule.
    bounded: bool,
    depth: usize,
    bodies: u32,
    families: Families,
    /// The family of the present rule, unless it says another.
    pub(super) family: Option<Family>,
}

impl<'t, 'a, 'n> Parser<'t, 'a, 'n> {
    pub(super) fn new(
        tokens: &'t [Token<'a>],
        end: Span,
        options: &'t ParseOptions<'n>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        Self {
            tokens,
            next: 0,
            end,
            options,
            diagnostics,
            bounded: false,
            depth: 0,
            bodies: 0,
            families: Families::default(),
            family: options.family,
        }
    }

    pub(super) fn hpux(&self) -> bool {
        self.options.language == Language::Hpux
    }

    /// The token after `ahead` others, if the rule goes on that far.
    pub(super) fn look(&self, ahead: usize) -> Option<&'t Token<'a>> {
        let at = self.next + ahead;
        let token = self.tokens.get(at)?;
        let ends = |token: &Token<'_>| self.bounded && token.first;
        match self.tokens[self.next..=at].iter().any(ends) {
            true => None,
            false => Some(token),
        }
    }

    pub(super) fn peek(&self) -> Option<&'t Token<'a>> {
        self.look(0)
    }

    pub(super) fn take(&mut self) -> Option<&'t Token<'a>> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    /// Where the next token stands, or the end of what was read.
    pub(super) fn here(&self) -> Span {
        match (self.peek(), self.last()) {
            (Some(token), _) => token.at,
            (None, Some(last)) => Span {
                start: last.end,
                ..last
            },
            (None, None) => self.end,
        }
    }

    /// Where the token taken last stands.
    pub(super) fn last(&self) -> Option<Span> {
        let before = self.next.checked_sub(1)?;
        self.tokens.get(before).map(|token| token.at)
    }

    /// From the start of a token to the last one taken.
    pub(super) fn since(&self, start: Span) -> Span {
        match self.last() {
            Some(last) if last.start >= start.start => start.to(last),
            _ => start,
        }
    }

    /// Whether the token after `ahead` others is this keyword.
    pub(super) fn is_at(&self, ahead: usize, word: &str) -> bool {
        self.look(ahead).is_some_and(|token| {
            token.kind == Kind::Word && !token.plain && token.text.eq_ignore_ascii_case(word)
        })
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.is_at(0, word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.next += usize::from(found);
        found
    }

    /// The one of `words` that comes next.
    pub(super) fn take_one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let word = words.iter().find(|word| self.is(word))?;
        self.next += 1;
        Some(word)
    }

    pub(super) fn is_sign_at(&self, ahead: usize, sign: &str) -> bool {
        self.look(ahead)
            .is_some_and(|token| token.kind == Kind::Sign && token.text == sign)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.is_sign_at(0, sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect_sign(&mut self, sign: &str, what: &str) -> Parsed<()> {
        if self.take_sign(sign) {
            return Ok(());
        }
        Err(self.expected(&format!("`{sign}` {what}")))
    }

    /// An error about the next token: something else had to be there.
    pub(super) fn expected(&self, what: &str) -> Box<Diagnostic> {
        let at = self.here();
        let message = match self.peek() {
            Some(token) => format!("`{}` where {what} is expected", token.text),
            None => format!("{what} is missing"),
        };
        Box::new(Diagnostic::error("syntax", at, message).help(format!("write {what} here")))
    }

    /// A number in decimal.
    pub(super) fn number(&mut self, what: &str, max: u32) -> Parsed<u32> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected(what));
        };
        if !token.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.expected(what));
        }
        match token.text.parse::<u32>() {
            Ok(number) if number <= max => {
                self.next += 1;
                Ok(number)
            }
            _ => {
                let message = format!("{} is more than {max}", token.text);
                let found = Diagnostic::error("out-of-range", token.at, message);
                Err(Box::new(found.help(format!("use a number up to {max}"))))
            }
        }
    }

    /// A number in decimal or, after `0x`, in hexadecimal.
    pub(super) fn number_or_hex(&mut self, what: &str, max: u32) -> Parsed<u32> {
        let Some(token) = self.peek() else {
            return Err(self.expected(what));
        };
        let Some(digits) = token.text.strip_prefix("0x") else {
            return self.number(what, max);
        };
        match u32::from_str_radix(digits, 16) {
            Ok(number) if number <= max && !digits.starts_with('+') => {
                self.next += 1;
                Ok(number)
            }
            _ => {
                let message = format!("{} is no hexadecimal number up to {max:#x}", token.text);
                let found = Diagnostic::error("out-of-range", token.at, message);
                Err(Box::new(found.help("write `0x` and hexadecimal digits")))
            }
        }
    }

    /// A name: a word or a string.
    pub(super) fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.peek() {
            Some(token) if token.kind != Kind::Sign => {
                self.next += 1;
                Ok(Name::from(&*token.text))
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn warn(&mut self, code: &'static str, at: Span, message: String, help: &str) {
        let found = Diagnostic::warning(code, at, message).help(help);
        self.diagnostics.push(found);
    }

    /// Statements up to the end, or up to the `}` of a body.
    fn statements(&mut self, body: Option<&Name>) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            self.bounded = false;
            if self.peek().is_none() || body.is_some() && self.is_sign("}") {
                return items;
            }
            if self.take_sign(";") {
                continue;
            }
            let start = self.next;
            match self.statement(body) {
                Ok(found) => items.extend(found),
                Err(found) => {
                    self.diagnostics.push(*found);
                    self.recover(start, body.is_some());
                }
            }
        }
    }

    fn statement(&mut self, body: Option<&Name>) -> Parsed<Vec<Item>> {
        let assigns =
            self.is_sign_at(1, "=") && self.look(2).is_some_and(|token| token.kind == Kind::Quoted);
        if assigns {
            self.next += 3;
            self.take_sign(";");
            return Ok(Vec::new());
        }
        if self.is("set") && !self.is_sign_at(1, "=") {
            return self.setting();
        }
        self.bounded = false;
        let said = self.families.at(self.here().start as usize);
        self.family = said.or(self.options.family);
        self.rule(body)
    }

    fn setting(&mut self) -> Parsed<Vec<Item>> {
        let start = self.here();
        self.take();
        let name = self.name("the name of a tunable")?;
        let value = match self.take_one_of(&["true", "false"]) {
            // A word of flags, in which `true` would be the one that blocks.
            Some(_) if ["default_pass", "fr_pass"].contains(&&*name) => {
                let message = format!("`{name}` is no switch");
                let found = Diagnostic::error("setting", self.since(start), message);
                return Err(Box::new(found.help("write 2 to pass, 1 to block")));
            }
            Some(word) => u32::from(word == "true"),
            None => self.number_or_hex("a number, `true` or `false`", u32::MAX)?,
        };
        let at = Place(self.since(start));
        self.expect_sign(";", "after the setting")?;
        Ok(vec![Item::Setting(Setting { at, name, value })])
    }

    /// Goes on behind a broken statement: with the next line that begins like one, or after a `;`.
    fn recover(&mut self, start: usize, in_body: bool) {
        self.bounded = false;
        self.next = self.next.max(start + 1).min(self.tokens.len());
        while let Some(token) = self.tokens.get(self.next) {
            // A misspelt action is still told by what follows it.
            let begins = self.begins_statement() || self.is_at(1, "in") || self.is_at(1, "out");
            if token.first && begins || in_body && self.is_sign("}") {
                return;
            }
            self.next += 1;
            if token.kind == Kind::Sign && token.text == ";" {
                return;
            }
        }
    }

    /// Whether the next token can begin a statement.
    pub(super) fn begins_statement(&self) -> bool {
        let Some(token) = self.tokens.get(self.next) else {
            return false;
        };
        let word = token.kind == Kind::Word && !token.plain;
        let assigns = self
            .tokens
            .get(self.next + 1)
            .is_some_and(|t| t.text == "=")
            && self
                .tokens
                .get(self.next + 2)
                .is_some_and(|t| t.kind == Kind::Quoted);
        let known = |text: &str| {
            text.eq_ignore_ascii_case("set")
                || ACTIONS
                    .iter()
                    .any(|action| action.eq_ignore_ascii_case(text))
                || text.bytes().all(|byte| byte.is_ascii_digit())
        };
        token.text == "@" || assigns || word && known(&token.text)
    }
}
