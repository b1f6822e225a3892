//! Words of a command to a [`Command`].
//!
//! In: words, and who knows names. Out: a command, or the one fault with which ipfw would stop,
//! and warnings. The parser walks the words as the original does, because its traps are part of
//! the language (section "traps" of `docs/ipfw.md`). Nothing is carried out here.
//!
//! Source: ipfw(8) of FreeBSD 13 and 14.

mod action;
mod address;
mod argument;
mod command;
mod dummynet;
mod lists;
mod nat;
mod option;
mod rule;
mod state;
mod table;

pub(super) use action::ACTIONS;
pub use command::command;
pub(super) use rule::rule;
pub(super) use table::{check_name, ether_address};

use super::fault::{Fault, Notes};
use super::numbers;
use super::words::Word;
use crate::syntax::Span;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Who knows the names that don't travel with weir.
pub trait Names {
    /// IPv4 address of a host.
    fn ipv4(&self, _host: &str) -> Option<Ipv4Addr> {
        None
    }
    /// IPv6 address of a host.
    fn ipv6(&self, _host: &str) -> Option<Ipv6Addr> {
        None
    }
    /// Number of a user.
    fn user(&self, _name: &str) -> Option<u32> {
        None
    }
    /// Number of a group.
    fn group(&self, _name: &str) -> Option<u32> {
        None
    }
}

/// Knows no names at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

/// The words of one command, being read.
pub(super) struct Reader<'a> {
    words: &'a [Word],
    next: usize,
    /// Warnings.
    pub notes: &'a mut Notes,
    /// Who knows names.
    pub names: &'a dyn Names,
    /// The end of the last word, where a missing one belongs.
    end: Span,
}

impl<'a> Reader<'a> {
    pub fn new(words: &'a [Word], line: Span, notes: &'a mut Notes, names: &'a dyn Names) -> Self {
        let end = words.last().map_or(line, |word| Span {
            start: word.span.end,
            ..word.span
        });
        Self {
            words,
            next: 0,
            notes,
            names,
            end,
        }
    }

    /// The next word, not taken.
    pub fn peek(&self) -> Option<&'a Word> {
        self.words.get(self.next)
    }

    /// The word after the next.
    pub fn peek_second(&self) -> Option<&'a Word> {
        self.words.get(self.next + 1)
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// Puts the last word back.
    pub fn back(&mut self) {
        self.next -= 1;
    }

    /// Where the next word stands, or where it is missing.
    pub fn here(&self) -> Span {
        self.peek().map_or(self.end, |word| word.span)
    }

    /// Takes the next word, or says what is missing: exit status 64.
    pub fn need(&mut self, what: &str) -> Result<&'a Word, Fault> {
        let end = self.end;
        self.take().ok_or_else(|| {
            Fault::usage("missing-word", end, format!("missing {what}"))
                .help(format!("write {what} here"))
        })
    }

    /// Whether the next word is a keyword or its beginning, which is warned about.
    pub fn is_keyword(&mut self, keyword: &str) -> bool {
        let Some(word) = self.peek() else {
            return false;
        };
        is_prefix(word, keyword, self.notes)
    }

    /// Takes the next word if it is a keyword or its beginning.
    pub fn take_keyword(&mut self, keyword: &str) -> Option<&'a Word> {
        if self.is_keyword(keyword) {
            return self.take();
        }
        None
    }

    /// Takes the next word if it is exactly this.
    pub fn take_exact(&mut self, text: &str) -> Option<&'a Word> {
        self.peek().filter(|word| word.text == text)?;
        self.take()
    }

    /// All words from the next on.
    pub fn rest(&mut self) -> &'a [Word] {
        let rest = &self.words[self.next.min(self.words.len())..];
        self.next = self.words.len();
        rest
    }

    /// Whether nothing but a body that matches every packet follows, and perhaps a comment.
    pub fn is_any_body(&self) -> bool {
        let rest = &self.words[self.next.min(self.words.len())..];
        let [protocol, body @ ..] = rest else {
            return false;
        };
        let texts: Vec<&str> = body.iter().map(|word| word.text.as_str()).collect();
        matches!(protocol.text.as_str(), "ip" | "all")
            && texts.starts_with(&["from", "any", "to", "any"])
            && texts.get(4).is_none_or(|text| text.starts_with("//"))
    }

    /// The place from the next word to the last.
    pub fn rest_span(&self) -> Span {
        match (self.peek(), self.words.last()) {
            (Some(first), Some(last)) => first.span.to(last.span),
            _ => self.end,
        }
    }
}

/// A number as C reads it, warned about when not all of the text was read.
pub(super) fn number(notes: &mut Notes, word: &Word, text: &str, base: u32) -> u32 {
    let value = numbers::u32_of(text, base);
    let digits = text.strip_prefix("0x").filter(|_| base == 0);
    let all = match digits {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => text.bytes().all(|byte| byte.is_ascii_digit()),
    };
    if !all || text.is_empty() {
        notes.warn(
            "number-read-in-part",
            word.span,
            format!("`{text}` is read as {value}"),
            "ipfw reads it so; write the number alone",
        );
    }
    value
}

/// Whether a word is the keyword or its beginning; the latter is warned about.
pub(super) fn is_prefix(word: &Word, keyword: &str, notes: &mut Notes) -> bool {
    if !keyword.starts_with(&word.text) {
        return false;
    }
    if word.text.len() != keyword.len() {
        notes.deprecated(word.span, &word.text, keyword);
    }
    true
}
