//! Reading ClassBench's two kinds of file: filters and traces.
//!
//! In: text. Out: filters or packets, or every message about lines that can't be read, each with
//! its place. Nothing is skipped but blank lines and lines that begin with `#`. Formats: as the
//! programs db_generator and trace_generator of ClassBench (Taylor, Turner 2005) write them.

pub mod flags;
pub mod rules;
#[cfg(test)]
mod tests;
pub mod trace;

use weir_policy::model::SourceId;
use weir_policy::syntax::{Diagnostic, Span};

/// Messages beyond these are only counted: a file of another kind has one a line.
pub const MESSAGES_MAX: usize = 100;

/// Messages of one file.
#[derive(Debug, Default)]
pub struct Messages {
    /// The first of them.
    pub kept: Vec<Diagnostic>,
    /// How many there are.
    pub count: usize,
}

impl Messages {
    fn add(&mut self, message: Diagnostic) {
        self.count += 1;
        if self.kept.len() < MESSAGES_MAX {
            self.kept.push(message);
        }
    }
}

/// A word and its place in the text.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    text: &'t str,
    start: usize,
}

impl Word<'_> {
    fn span(&self, source: SourceId) -> Span {
        Span::new(source, self.start, self.start + self.text.len())
    }
}

/// The lines of a text with their offsets, without blank lines and comments.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split('\n').filter_map(move |line| {
        let at = start;
        start += line.len() + 1;
        let said = line.trim();
        (!said.is_empty() && !said.starts_with('#')).then_some((at, line))
    })
}

/// The words of a line, between blanks and tabs.
fn words(start: usize, line: &str) -> impl Iterator<Item = Word<'_>> {
    line.split_ascii_whitespace().map(move |text| Word {
        text,
        start: start + (text.as_ptr().addr() - line.as_ptr().addr()),
    })
}

/// A message about a word, or about the end of the line where a word is missing.
type Fault = Box<Diagnostic>;

fn fault(span: Span, code: &'static str, message: String, help: &str) -> Fault {
    Box::new(Diagnostic::error(code, span, message).help(help))
}
