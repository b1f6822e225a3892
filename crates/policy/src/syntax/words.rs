//! The shared word lexer: a line in, words with spans out.
//!
//! Words are separated by blanks. What quotes and comments mean differs between dialects, so a
//! [`WordStyle`] says it. Line ends are the caller's business through [`lines`], which knows LF,
//! CRLF and a last line without any end.

use std::borrow::Cow;

/// How one dialect writes words.
#[derive(Clone, Copy, Debug)]
pub struct WordStyle {
    /// Characters that open and close a quoted stretch.
    pub quotes: &'static [char],
    /// Inside quotes a backslash takes the next character as it is.
    pub escape_in_quotes: bool,
    /// A backslash outside quotes takes the next character as it is.
    pub escape_outside: bool,
    /// This character starts a comment where a word could start.
    pub comment: Option<char>,
}

/// Words as `iptables-restore` and `ipset restore` split them: only double quotes, backslash only
/// inside them, `#` only at the start of a line (which the dialect looks at itself).
pub const RESTORE: WordStyle = WordStyle {
    quotes: &['"'],
    escape_in_quotes: true,
    escape_outside: false,
    comment: None,
};

/// One word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The text with quotes and escapes resolved.
    pub text: Cow<'a, str>,
    /// First byte of the word in the whole source, quotes included.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Some part of it was quoted (so `"!"` is not a negation and `""` is a word).
    pub quoted: bool,
}

/// Why a line could not be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordError {
    /// First byte of the trouble.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// What is wrong.
    pub kind: WordErrorKind,
}

/// The kinds of [`WordError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordErrorKind {
    /// A quote was opened and not closed on the line.
    UnclosedQuote,
    /// A control character that no rule file can mean.
    ControlCharacter(char),
}

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`
    Newline,
    /// `\r\n`
    CarriageReturn,
    /// The text ended.
    EndOfText,
}

/// One line of a text.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The line without its end.
    pub text: &'a str,
    /// Byte offset of its first character in the whole text.
    pub start: usize,
    /// Number, from 1.
    pub number: u32,
    /// What ended it.
    pub end: LineEnd,
}

/// Splits a text into lines; an empty last line is not reported.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    let mut number = 0;
    std::iter::from_fn(move || {
        if at >= text.len() {
            return None;
        }
        let start = at;
        number += 1;
        let rest = &text[start..];
        let (body, end) = match rest.find('\n') {
            Some(length) => {
                at = start + length + 1;
                let body = &rest[..length];
                match body.strip_suffix('\r') {
                    Some(body) => (body, LineEnd::CarriageReturn),
                    None => (body, LineEnd::Newline),
                }
            }
            None => {
                at = text.len();
                (rest, LineEnd::EndOfText)
            }
        };
        Some(Line {
            text: body,
            start,
            number,
            end,
        })
    })
}

/// Splits one line into words, appended to `words`; `base` is the line's offset in the source.
///
/// On an error the words before it are still there, so that the caller can go on with them.
///
/// # Errors
/// An unclosed quote or a control character, with its place.
pub fn split<'a>(
    line: &'a str,
    base: usize,
    style: &WordStyle,
    words: &mut Vec<Word<'a>>,
) -> Result<(), WordError> {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b' ' || bytes[at] == b'\t' {
            at += 1;
            continue;
        }
        if style
            .comment
            .is_some_and(|mark| line[at..].starts_with(mark))
        {
            break;
        }
        at = plain_word(line, at, base, style, words)?;
    }
    Ok(())
}

/// Reads the word that starts at `start`: borrowed as long as nothing has to be resolved.
fn plain_word<'a>(
    line: &'a str,
    start: usize,
    base: usize,
    style: &WordStyle,
    words: &mut Vec<Word<'a>>,
) -> Result<usize, WordError> {
    for (index, character) in line[start..].char_indices() {
        let at = start + index;
        if character == ' ' || character == '\t' {
            words.push(borrowed(&line[start..at], base + start));
            return Ok(at);
        }
        if style.quotes.contains(&character) || (style.escape_outside && character == '\\') {
            return resolved_word(line, start, at, base, style, words);
        }
        check_character(character, base + at)?;
    }
    words.push(borrowed(&line[start..], base + start));
    Ok(line.len())
}

fn borrowed(text: &str, start: usize) -> Word<'_> {
    Word {
        text: Cow::Borrowed(text),
        start,
        end: start + text.len(),
        quoted: false,
    }
}

fn check_character(character: char, at: usize) -> Result<(), WordError> {
    if character.is_control() && character != '\t' {
        let kind = WordErrorKind::ControlCharacter(character);
        return Err(WordError {
            start: at,
            end: at + character.len_utf8(),
            kind,
        });
    }
    Ok(())
}

/// Reads a word with quotes or escapes in it; `special` is where the first of them stands.
fn resolved_word<'a>(
    line: &'a str,
    start: usize,
    special: usize,
    base: usize,
    style: &WordStyle,
    words: &mut Vec<Word<'a>>,
) -> Result<usize, WordError> {
    let mut text = String::from(&line[start..special]);
    let mut open: Option<(char, usize)> = None;
    let mut quoted = false;
    let mut characters = line[special..].char_indices();
    let mut end = line.len();
    while let Some((index, character)) = characters.next() {
        let at = special + index;
        check_character(character, base + at)?;
        let escapes = if open.is_some() {
            style.escape_in_quotes
        } else {
            style.escape_outside
        };
        if character == '\\' && escapes {
            match characters.next() {
                Some((index, next)) => {
                    check_character(next, base + special + index)?;
                    text.push(next);
                }
                None => text.push('\\'),
            }
            continue;
        }
        match open {
            Some((quote, _)) if quote == character => open = None,
            Some(_) => text.push(character),
            None if style.quotes.contains(&character) => {
                open = Some((character, at));
                quoted = true;
            }
            None if character == ' ' || character == '\t' => {
                end = at;
                break;
            }
            None => text.push(character),
        }
    }
    if let Some((_, at)) = open {
        let kind = WordErrorKind::UnclosedQuote;
        return Err(WordError {
            start: base + at,
            end: base + line.len(),
            kind,
        });
    }
    words.push(Word {
        text: Cow::Owned(text),
        start: base + start,
        end: base + end,
        quoted,
    });
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        split(line, 0, &RESTORE, &mut words).unwrap();
        words
            .into_iter()
            .map(|word| word.text.into_owned())
            .collect()
    }

    #[test]
    fn a_control_character_is_refused_escaped_or_not() {
        for (line, place) in [("a\u{1c}b", 1), ("\"a\u{1c}\"", 2), ("\"a\\\u{1c}\"", 3)] {
            let error = split(line, 10, &RESTORE, &mut Vec::new()).unwrap_err();
            assert_eq!(
                error.kind,
                WordErrorKind::ControlCharacter('\u{1c}'),
                "{line:?}"
            );
            assert_eq!(error.start, 10 + place, "{line:?}");
        }
    }

    #[test]
    fn blanks_separate_and_quotes_join() {
        assert_eq!(texts("  -A\tINPUT  -j x "), ["-A", "INPUT", "-j", "x"]);
        assert_eq!(texts(r#"a "b c" d"#), ["a", "b c", "d"]);
        assert_eq!(texts(r#"a "" d"#), ["a", "", "d"]);
        assert_eq!(texts(r#""b \"c\\ \'""#), [r#"b "c\ '"#]);
        assert_eq!(texts(r#"x"b c"y"#), ["xb cy"]);
        assert_eq!(texts(r"a\ b"), [r"a\", "b"]);
    }

    #[test]
    fn spans_cover_the_quotes() {
        let mut words = Vec::new();
        split(r#"a "b c" é d"#, 100, &RESTORE, &mut words).unwrap();
        let places: Vec<_> = words
            .iter()
            .map(|word| (word.start, word.end, word.quoted))
            .collect();
        assert_eq!(
            places,
            [
                (100, 101, false),
                (102, 107, true),
                (108, 110, false),
                (111, 112, false)
            ]
        );
    }

    #[test]
    fn an_unclosed_quote_and_control_characters_are_located() {
        let mut words = Vec::new();
        let error = split(r#"a "b c"#, 10, &RESTORE, &mut words).unwrap_err();
        assert_eq!(
            error,
            WordError {
                start: 12,
                end: 16,
                kind: WordErrorKind::UnclosedQuote
            }
        );
        assert_eq!(words.len(), 1, "what came before is kept");
        let error = split("ab\u{7}", 0, &RESTORE, &mut words).unwrap_err();
        assert_eq!(error.kind, WordErrorKind::ControlCharacter('\u{7}'));
        assert_eq!((error.start, error.end), (2, 3));
    }

    #[test]
    fn comments_start_only_where_a_word_could() {
        let style = WordStyle {
            comment: Some('#'),
            ..RESTORE
        };
        let mut words = Vec::new();
        split("a#b c # d", 0, &style, &mut words).unwrap();
        let texts: Vec<_> = words.iter().map(|word| &*word.text).collect();
        assert_eq!(texts, ["a#b", "c"]);
    }

    #[test]
    fn lines_know_their_ends() {
        let found: Vec<_> = lines("a\r\nb\n\nc")
            .map(|line| (line.text, line.number, line.end))
            .collect();
        let expected = [
            ("a", 1, LineEnd::CarriageReturn),
            ("b", 2, LineEnd::Newline),
            ("", 3, LineEnd::Newline),
            ("c", 4, LineEnd::EndOfText),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines("a\n").count(), 1);
        assert_eq!(lines("").count(), 0);
    }
}
