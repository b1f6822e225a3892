//! Words of an ipfw command: from a line of a file, or from the arguments of a call.
//!
//! In: text. Out: words with their places. A line is split on blanks, `#` starts a comment
//! anywhere, blanks after a comma vanish (so that a list may be written with them), and a comma
//! at the very end is dropped; two commas in a row are no such comma. Arguments are words already,
//! except that one ending in a comma joins the next. Nothing here knows what a word means.
//!
//! Source: ipfw(8), "LIST OF RULES AND PREPROCESSING" and "SYNOPSIS"; FreeBSD 13.

use crate::model::SourceId;
use crate::syntax::Span;

/// Bytes of one line that are read; the rest would be a line of its own (as fgets(3) has it).
pub const LINE_BYTES_MAX: usize = 4095;

/// Bytes of an interface's name: `IFNAMSIZ` without its zero.
const INTERFACE_BYTES_MAX: usize = 15;

/// A name of an interface as ipfw keeps it, cut to what fits.
///
/// # Errors
/// The cut name where it ends with a comma: blanks behind a comma are dropped where a line is read,
/// so such a name could be given no second time.
pub fn interface_name(word: &str) -> Result<&str, &str> {
    let mut end = word.len().min(INTERFACE_BYTES_MAX);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let name = &word[..end];
    match name.ends_with(',') {
        true => Err(name),
        false => Ok(name),
    }
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its text, blanks after commas taken out.
    pub text: String,
    /// Where it was written.
    pub span: Span,
}

impl Word {
    /// The first byte, if there is one.
    pub(super) fn first(&self) -> Option<u8> {
        self.text.bytes().next()
    }

    /// Whether it begins with a decimal digit.
    pub(super) fn is_digit(&self) -> bool {
        self.first().is_some_and(|byte| byte.is_ascii_digit())
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Whether what comes next belongs to a word: behind one comma, or three, but not behind two, as
/// the original copies lines; nor behind the first letter of a word.
fn is_open(word: &Word) -> bool {
    let bytes = word.text.as_bytes().get(1..).unwrap_or_default();
    let commas = bytes.iter().rev().take_while(|byte| **byte == b',');
    commas.count() % 2 == 1
}

/// Splits a line that starts at byte `base` of a source.
#[must_use]
pub fn split_line(line: &str, base: usize, source: SourceId) -> Vec<Word> {
    let end = line.find('#').unwrap_or(line.len());
    let bytes = &line.as_bytes()[..end];
    let mut words: Vec<Word> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if is_blank(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && !is_blank(bytes[at]) {
            at += 1;
        }
        let text = &line[start..at];
        let continues = words.last().is_some_and(is_open);
        match words.last_mut() {
            Some(last) if continues => {
                last.text.push_str(text);
                last.span = last.span.to(Span::new(source, base + start, base + at));
            }
            _ => words.push(Word {
                text: text.to_owned(),
                span: Span::new(source, base + start, base + at),
            }),
        }
    }
    if let Some(last) = words.last_mut()
        && is_open(last)
    {
        last.text.pop();
    }
    words
}

/// The words of a call's arguments, with places in the text that [`joined`] makes of them. A
/// single argument is split like a line.
#[must_use]
pub fn split_arguments(arguments: &[String], source: SourceId) -> Vec<Word> {
    if let [only] = arguments {
        return split_line(only, 0, source);
    }
    let mut words: Vec<Word> = Vec::new();
    let mut at = 0;
    for argument in arguments {
        let span = Span::new(source, at, at + argument.len());
        let continues = words.last().is_some_and(|word| word.text.ends_with(','));
        match words.last_mut() {
            Some(last) if continues => {
                last.text.push_str(argument);
                last.span = last.span.to(span);
            }
            _ => words.push(Word {
                text: argument.clone(),
                span,
            }),
        }
        at += argument.len() + 1;
    }
    words
}

/// The text that the places of [`split_arguments`] count in.
#[must_use]
pub fn joined(arguments: &[String]) -> String {
    arguments.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let words = split_line(line, 0, SourceId(0));
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn blanks_after_commas_vanish_and_before_them_separate() {
        assert_eq!(texts("a 1, 2,  3 b"), ["a", "1,2,3", "b"]);
        assert_eq!(texts("a 1 ,2"), ["a", "1", ",2"]);
        assert_eq!(texts("\tadd\tallow  ip "), ["add", "allow", "ip"]);
    }

    #[test]
    fn comments_start_anywhere_and_a_last_comma_is_dropped() {
        assert_eq!(texts("add allow#x y"), ["add", "allow"]);
        assert_eq!(texts("# x"), Vec::<String>::new());
        assert_eq!(texts("to any 80,"), ["to", "any", "80"]);
        assert_eq!(texts("to any 80,,,"), ["to", "any", "80,,"]);
        assert_eq!(texts("a 80,, b"), ["a", "80,,", "b"]);
        assert_eq!(texts("a , b"), ["a", ",", "b"]);
    }

    #[test]
    fn places_cover_joined_words() {
        let words = split_line("a 1, 2 b", 10, SourceId(0));
        assert_eq!((words[1].span.start, words[1].span.end), (12, 16));
    }

    #[test]
    fn arguments_are_words() {
        let arguments = |list: &[&str]| -> Vec<String> {
            let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
            let words = split_arguments(&list, SourceId(0));
            words.into_iter().map(|word| word.text).collect()
        };
        assert_eq!(
            arguments(&["add", "a b", "80,", "81"]),
            ["add", "a b", "80,81"]
        );
        assert_eq!(arguments(&["add allow ip"]), ["add", "allow", "ip"]);
    }
}
