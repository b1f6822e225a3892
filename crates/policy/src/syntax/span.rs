//! Places in source texts: which file, which bytes, and which line and column that is.
//!
//! A [`Span`] is twelve bytes and is copied freely; line and column are computed only when a
//! message is printed, from the line table in [`Sources`].

pub use crate::model::SourceId;
use std::sync::Arc;

/// The longest text that spans can address.
pub const TEXT_BYTES_MAX: usize = u32::MAX as usize - 1;

/// A range of bytes in one source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text that the range is in.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Default for Span {
    fn default() -> Self {
        Self {
            source: SourceId(0),
            start: 0,
            end: 0,
        }
    }
}

impl Span {
    /// The bytes `start..end` of `source`.
    #[must_use]
    pub fn new(source: SourceId, start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        Self {
            source,
            start: clamp(start),
            end: clamp(end),
        }
    }

    /// The smallest span that covers both; both must be of the same text.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            source: self.source,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The same range moved right by `bytes` (a part of a word, say).
    #[must_use]
    pub fn part(self, from: usize, to: usize) -> Self {
        let start = self.start.saturating_add(clamp(from)).min(self.end);
        let end = self.start.saturating_add(clamp(to)).min(self.end);
        Self {
            source: self.source,
            start,
            end: end.max(start),
        }
    }
}

fn clamp(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// A span carried inside a syntax tree. Two trees that say the same are equal wherever their words
/// stand, so any two places compare equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(pub Span);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

/// Line and column of a place, both counted from 1; columns count characters, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// One source text with its line table.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: Arc<str>,
    line_starts: Vec<u32>,
}

impl Source {
    /// The name that messages show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line that holds byte `offset`, from 1.
    #[must_use]
    pub fn line_of(&self, offset: u32) -> u32 {
        clamp(self.line_starts.partition_point(|&start| start <= offset))
    }

    /// Line and column of byte `offset`.
    #[must_use]
    pub fn position(&self, offset: u32) -> Position {
        let line = self.line_of(offset);
        let start = self.line_starts[line as usize - 1] as usize;
        let end = floor_char_boundary(&self.text, offset as usize);
        let column = self.text[start..end.max(start)].chars().count();
        Position {
            line,
            column: clamp(column + 1),
        }
    }

    /// The text of `line` (from 1) without its line end.
    #[must_use]
    pub fn line_text(&self, line: u32) -> &str {
        let start = self.line_starts[line as usize - 1] as usize;
        let end = self
            .line_starts
            .get(line as usize)
            .map_or(self.text.len(), |&next| next as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// Byte offset at which `line` (from 1) starts.
    #[must_use]
    pub fn line_start(&self, line: u32) -> usize {
        self.line_starts[line as usize - 1] as usize
    }
}

/// The nearest character boundary at or before `offset`.
pub(crate) fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// All texts that one compilation reads.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// No texts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a text and numbers it. More than 65,535 texts share the last number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|&(_, b)| b == b'\n')
                .map(|(i, _)| clamp(i + 1)),
        );
        let id = SourceId(u16::try_from(self.list.len()).unwrap_or(u16::MAX));
        self.list.push(Source {
            name: name.into(),
            text,
            line_starts,
        });
        id
    }

    /// The text with this number.
    #[must_use]
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.list.get(usize::from(id.0))
    }

    /// The names of all texts, by number.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.list.iter().map(|source| source.name.clone()).collect()
    }

    /// Line and column at which `span` starts.
    #[must_use]
    pub fn position(&self, span: Span) -> Option<Position> {
        self.get(span.source)
            .map(|source| source.position(span.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let mut sources = Sources::new();
        let id = sources.add("a", "ab\nçd\n\nx");
        let at = |offset| sources.get(id).unwrap().position(offset);
        assert_eq!(at(0), Position { line: 1, column: 1 });
        assert_eq!(at(2), Position { line: 1, column: 3 });
        assert_eq!(at(3), Position { line: 2, column: 1 });
        assert_eq!(
            at(5),
            Position { line: 2, column: 2 },
            "ç is two bytes and one column"
        );
        assert_eq!(
            at(4),
            Position { line: 2, column: 1 },
            "inside ç is still ç"
        );
        assert_eq!(at(7), Position { line: 3, column: 1 });
        assert_eq!(at(9), Position { line: 4, column: 2 }, "end of text");
        assert_eq!(sources.get(id).unwrap().line_text(2), "çd");
    }

    #[test]
    fn places_never_make_trees_differ() {
        let here = Place(Span::new(SourceId(0), 1, 2));
        let there = Place(Span::new(SourceId(1), 5, 9));
        assert_eq!(here, there);
    }

    #[test]
    fn parts_stay_inside_their_span() {
        let span = Span::new(SourceId(0), 10, 14);
        assert_eq!(span.part(1, 3), Span::new(SourceId(0), 11, 13));
        assert_eq!(span.part(3, 99), Span::new(SourceId(0), 13, 14));
        assert_eq!(span.part(9, 99), Span::new(SourceId(0), 14, 14));
    }
}
