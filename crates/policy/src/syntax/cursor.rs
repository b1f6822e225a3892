//! A cursor over the words of one line: look, take, and know where the line ends.
//!
//! It allocates nothing and never fails; what a missing word means is said by the dialect.

use super::span::{SourceId, Span};
use super::words::Word;

/// Walks over the words of one line.
#[derive(Clone, Debug)]
pub struct Cursor<'w, 'a> {
    words: &'w [Word<'a>],
    next: usize,
    source: SourceId,
    line_start: usize,
    line_end: usize,
}

impl<'w, 'a> Cursor<'w, 'a> {
    /// A cursor before the first of `words`, which are those of the bytes `line_start..line_end`.
    #[must_use]
    pub fn new(
        words: &'w [Word<'a>],
        source: SourceId,
        line_start: usize,
        line_end: usize,
    ) -> Self {
        Self {
            words,
            next: 0,
            source,
            line_start,
            line_end,
        }
    }

    /// The next word, not taken.
    #[must_use]
    pub fn peek(&self) -> Option<&'w Word<'a>> {
        self.words.get(self.next)
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<&'w Word<'a>> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// Takes the next word if it is exactly `text` and not quoted.
    pub fn take_if(&mut self, text: &str) -> Option<&'w Word<'a>> {
        self.peek()
            .filter(|word| !word.quoted && word.text == text)?;
        self.take()
    }

    /// The word taken last.
    #[must_use]
    pub fn last_taken(&self) -> Option<&'w Word<'a>> {
        self.words[..self.next].last()
    }

    /// How many words have been taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.next
    }

    /// Where `word` stands.
    #[must_use]
    pub fn span(&self, word: &Word<'_>) -> Span {
        Span::new(self.source, word.start, word.end)
    }

    /// Where the next word stands, or the empty span after the last one.
    #[must_use]
    pub fn here(&self) -> Span {
        match self.peek() {
            Some(word) => self.span(word),
            None => self.after_last(),
        }
    }

    /// The empty span just after the last word of the line.
    #[must_use]
    pub fn after_last(&self) -> Span {
        let end = self.words.last().map_or(self.line_end, |word| word.end);
        Span::new(self.source, end, end)
    }

    /// The whole line from its first to its last word.
    #[must_use]
    pub fn line(&self) -> Span {
        let start = self
            .words
            .first()
            .map_or(self.line_start, |word| word.start);
        let end = self.words.last().map_or(self.line_end, |word| word.end);
        Span::new(self.source, start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::{RESTORE, split};
    use super::*;

    #[test]
    fn takes_words_and_knows_the_end() {
        let mut words = Vec::new();
        split(r#"-A "!" b"#, 5, &RESTORE, &mut words).unwrap();
        let mut cursor = Cursor::new(&words, SourceId(3), 5, 13);
        assert_eq!(cursor.line(), Span::new(SourceId(3), 5, 13));
        assert!(cursor.take_if("-A").is_some());
        assert!(cursor.take_if("!").is_none(), "a quoted word is no keyword");
        assert_eq!(cursor.here(), Span::new(SourceId(3), 8, 11));
        cursor.take();
        assert_eq!(cursor.take().unwrap().text, "b");
        assert!(cursor.take().is_none());
        assert_eq!(cursor.here(), Span::new(SourceId(3), 13, 13));
        assert_eq!(cursor.taken(), 3);
    }
}
