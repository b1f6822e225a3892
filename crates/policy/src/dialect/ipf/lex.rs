//! Text to tokens: words, strings and signs, with variables put in.
//!
//! In: a text. Out: tokens with places, and messages about variables and strings. Newlines are only
//! noted, because a rule ends when it is complete; a sign never needs blanks around it. An
//! assignment is seen here, while reading on, so that the text behind it can use the variable; its
//! tokens stay in the stream. The value of a variable is read as if it stood there, and everything
//! in it has the place of its use.

use crate::syntax::{Diagnostic, SourceId, Span};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

/// What kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A run of other characters.
    Word,
    /// A string in quotes.
    Quoted,
    /// A sign.
    Sign,
}

/// A token.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: Cow<'a, str>,
    pub(super) at: Span,
    /// No blank before it.
    pub(super) glued: bool,
    /// The first of its line.
    pub(super) first: bool,
    /// A backslash stands before it, so it is no keyword.
    pub(super) plain: bool,
}

/// How many characters variables may put in, in all; nesting that never ends is stopped here.
const EXPANDED_MAX: usize = 1 << 20;

/// Signs of two characters, before those of one.
const SIGNS: [&str; 6] = ["!=", "<>", "><", "<=", ">=", "->"];
const SINGLE_SIGNS: &str = "=,/;{}()@!<>:";

#[derive(Clone, Copy)]
struct Character {
    text: char,
    start: u32,
    end: u32,
    /// From the text itself, not out of a variable.
    original: bool,
}

/// All tokens of a text.
pub(super) fn lex(text: &str, source: SourceId) -> (Vec<Token<'_>>, Vec<Diagnostic>) {
    let mut lexer = Lexer {
        text,
        source,
        at: text.len() - text.trim_start_matches('\u{feff}').len(),
        put_in: VecDeque::new(),
        variables: HashMap::new(),
        tokens: Vec::new(),
        diagnostics: Vec::new(),
        glued: false,
        first: true,
        plain: false,
        expanded: 0,
    };
    while let Some(character) = lexer.peek() {
        lexer.token(character);
    }
    (lexer.tokens, lexer.diagnostics)
}

struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
    put_in: VecDeque<Character>,
    variables: HashMap<String, String>,
    tokens: Vec<Token<'a>>,
    diagnostics: Vec<Diagnostic>,
    glued: bool,
    first: bool,
    plain: bool,
    expanded: usize,
}

impl<'a> Lexer<'a> {
    fn peek(&self) -> Option<Character> {
        if let Some(character) = self.put_in.front() {
            return Some(*character);
        }
        let text = self.text[self.at..].chars().next()?;
        let start = self.at as u32;
        Some(Character {
            text,
            start,
            end: start + text.len_utf8() as u32,
            original: true,
        })
    }

    fn take(&mut self) -> Option<Character> {
        let character = self.peek()?;
        if self.put_in.pop_front().is_none() {
            self.at = character.end as usize;
        }
        Some(character)
    }

    fn span(&self, start: u32, end: u32) -> Span {
        Span::new(self.source, start as usize, end as usize)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reads whatever begins at the next character.
    fn token(&mut self, next: Character) {
        match next.text {
            '\n' => {
                self.take();
                (self.glued, self.first, self.plain) = (false, true, false);
            }
            ' ' | '\t' | '\r' | '\u{b}' | '\u{c}' => {
                self.take();
                (self.glued, self.plain) = (false, false);
            }
            '#' => {
                while self.peek().is_some_and(|c| c.text != '\n') {
                    self.take();
                }
            }
            '\\' => self.backslash(),
            '$' => self.variable(),
            '\'' | '"' => self.quoted(next),
            text if text.is_control() => {
                self.take();
                let message = format!("control character U+{:04X} in a rule", u32::from(text));
                let at = self.span(next.start, next.end);
                self.report(
                    Diagnostic::error("control-character", at, message).help("take it out"),
                );
            }
            // No word begins with it, and as a blank of the original it would be a part of one.
            text if text.is_whitespace() => {
                self.take();
                let message = format!("U+{:04X} is no blank here", u32::from(text));
                let at = self.span(next.start, next.end);
                self.report(Diagnostic::error("blank", at, message).help("write a plain space"));
                (self.glued, self.plain) = (false, false);
            }
            '-' if self.is_arrow() => self.sign(),
            text if SINGLE_SIGNS.contains(text) => self.sign(),
            _ => self.word(),
        }
    }

    /// A backslash before a line's end joins lines; before a word it makes the word a name.
    fn backslash(&mut self) {
        self.take();
        let crlf = self.text[self.at..].starts_with("\r\n") && self.put_in.is_empty();
        if crlf {
            self.take();
        }
        match self.peek() {
            Some(c) if c.text == '\n' => {
                self.take();
                (self.glued, self.plain) = (false, false);
            }
            _ => self.plain = true,
        }
    }

    fn push(&mut self, kind: Kind, text: Cow<'a, str>, start: u32, end: u32) {
        let at = self.span(start, end);
        self.tokens.push(Token {
            kind,
            text,
            at,
            glued: self.glued,
            first: self.first,
            plain: self.plain,
        });
        (self.glued, self.first, self.plain) = (true, false, false);
    }

    /// Joins characters to a text, borrowed when they stand together in the source.
    fn join(&self, characters: &[Character]) -> Cow<'a, str> {
        let (Some(first), Some(last)) = (characters.first(), characters.last()) else {
            return Cow::Borrowed("");
        };
        if characters.iter().all(|c| c.original) {
            let text: &'a str = self.text;
            return Cow::Borrowed(&text[first.start as usize..last.end as usize]);
        }
        Cow::Owned(characters.iter().map(|c| c.text).collect())
    }

    fn second(&self) -> Option<char> {
        match self.put_in.len() {
            0 => self.text[self.at..].chars().nth(1),
            1 => self.text[self.at..].chars().next(),
            _ => self.put_in.get(1).map(|c| c.text),
        }
    }

    fn is_arrow(&self) -> bool {
        self.second() == Some('>')
    }

    fn sign(&mut self) {
        let Some(first) = self.take() else { return };
        let mut text: Option<&'static str> = None;
        if let Some(next) = self.peek() {
            text = SIGNS
                .into_iter()
                .find(|sign| sign.chars().eq([first.text, next.text]));
        }
        let mut end = first.end;
        if text.is_some() {
            end = self.take().map_or(end, |second| second.end.max(end));
        }
        let text = text.or_else(|| {
            let at = SINGLE_SIGNS.find(first.text)?;
            SINGLE_SIGNS.get(at..=at)
        });
        self.push(
            Kind::Sign,
            Cow::Borrowed(text.unwrap_or("-")),
            first.start,
            end,
        );
    }

    fn word(&mut self) {
        let mut characters = Vec::with_capacity(16);
        while let Some(next) = self.peek() {
            let ends = next.text.is_whitespace()
                || next.text.is_control()
                || "#$'\"\\".contains(next.text)
                || SINGLE_SIGNS.contains(next.text)
                || next.text == '-' && self.is_arrow();
            if ends {
                break;
            }
            characters.push(next);
            self.take();
        }
        let (Some(first), Some(last)) = (characters.first(), characters.last()) else {
            return;
        };
        let (start, end) = (first.start, last.end.max(first.end));
        let text = self.join(&characters);
        self.push(Kind::Word, text, start, end);
    }

    fn quoted(&mut self, quote: Character) {
        self.take();
        let mut characters = Vec::new();
        while let Some(next) = self.take() {
            if next.text == quote.text {
                let text = self.join(&characters);
                self.push(Kind::Quoted, text, quote.start, next.end);
                return self.define();
            }
            characters.push(next);
        }
        let at = self.span(quote.start, quote.end);
        let message = "this quote is never closed";
        self.report(
            Diagnostic::error("unclosed-quote", at, message)
                .help(format!("close it with `{}`", quote.text)),
        );
    }

    /// After `name = "text"`: the variable is known from here on.
    fn define(&mut self) {
        let [.., name, equals, value] = self.tokens.as_slice() else {
            return;
        };
        if name.kind == Kind::Word && equals.kind == Kind::Sign && equals.text == "=" {
            let (name, value) = (name.text.to_string(), value.text.to_string());
            self.variables.insert(name, value);
        }
    }

    /// `$name` or `${name}`.
    fn variable(&mut self) {
        let Some(dollar) = self.take() else { return };
        let mut end = dollar.end;
        let mut name = String::new();
        let braces = self.peek().is_some_and(|c| c.text == '{');
        if braces {
            self.take();
        }
        let mut closed = !braces;
        while let Some(next) = self.peek() {
            if braces && next.text == '}' {
                end = end.max(next.end);
                self.take();
                closed = true;
                break;
            }
            let allowed = match braces {
                true => next.text != '\n',
                false => next.text.is_ascii_alphanumeric() || next.text == '_',
            };
            if !allowed {
                break;
            }
            name.push(next.text);
            end = end.max(next.end);
            self.take();
        }
        let at = self.span(dollar.start, end);
        if !closed {
            let found = Diagnostic::error("unclosed-brace", at, "`${` without `}`");
            return self.report(found.help("write `${name}`"));
        }
        let Some(value) = self.variables.get(&name) else {
            let names: Vec<&str> = self.variables.keys().map(String::as_str).collect();
            let message = format!("there is no variable `{name}` here");
            let found = Diagnostic::error("unknown-variable", at, message)
                .help(format!("define it before its use: {name}=\"...\";"))
                .did_you_mean(&name, names);
            return self.report(found);
        };
        self.expanded += value.len() + 1;
        if self.expanded > EXPANDED_MAX {
            let message = "variables put in more than a million characters";
            let found = Diagnostic::error("endless-variable", at, message)
                .help("look for a variable that contains itself");
            // Reading on would only meet the same variable again.
            self.put_in.clear();
            self.at = self.text.len();
            return self.report(found);
        }
        let value: Vec<Character> = value
            .chars()
            .map(|text| Character {
                text,
                start: dollar.start,
                end,
                original: false,
            })
            .collect();
        for character in value.into_iter().rev() {
            self.put_in.push_front(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let (tokens, found) = lex(text, SourceId(0));
        assert!(found.is_empty(), "{found:?}");
        tokens.iter().map(|token| token.text.to_string()).collect()
    }

    #[test]
    fn signs_need_no_blanks() {
        assert_eq!(texts("33434><33690"), ["33434", "><", "33690"]);
        assert_eq!(
            texts("!10.0.0.0/8,a"),
            ["!", "10.0.0.0", "/", "8", ",", "a"]
        );
        assert_eq!(texts("0/32->1.1.1.1"), ["0", "/", "32", "->", "1.1.1.1"]);
        assert_eq!(texts("a-b - port!=1"), ["a-b", "-", "port", "!=", "1"]);
    }

    #[test]
    fn variables_are_text() {
        assert_eq!(
            texts("n=\"10.1\"; from $n.0/16"),
            ["n", "=", "10.1", ";", "from", "10.1.0", "/", "16"]
        );
        assert_eq!(
            texts("a=\"x\"; b='$a y'; ${b}z"),
            ["a", "=", "x", ";", "b", "=", "$a y", ";", "x", "yz"]
        );
        let (_, found) = lex("a=\"$a\"; $a", SourceId(0));
        assert_eq!(found.len(), 1);
        let (_, found) = lex("in on $x", SourceId(0));
        assert_eq!(found[0].span, Span::new(SourceId(0), 6, 8));
    }

    #[test]
    fn lines_join_and_backslashes_make_names() {
        let (tokens, _) = lex("pass \\\n in \\all # x\nblock", SourceId(0));
        let firsts: Vec<bool> = tokens.iter().map(|token| token.first).collect();
        assert_eq!(firsts, [true, false, false, true]);
        assert!(tokens[2].plain && tokens[2].text == "all");
    }
}
