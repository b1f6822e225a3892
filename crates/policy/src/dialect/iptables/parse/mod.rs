//! `iptables-save` text to syntax tree, line by line, never stopping at an error.
//!
//! In: a text and its family. Out: the tree of the lines that are right, and a located message for
//! each that is not. Names of chains and sets are not resolved here, because they may be declared
//! in another file; that, and what a rule may do where, is lowering's business.
//!
//! Original semantics: `iptables-restore(8)`, `iptables(8)`, `iptables-extensions(8)`, 1.8.9.

mod address;
mod basic;
mod canonical;
mod clock;
mod finish;
mod finish_lesser;
mod lesser;
mod lists;
mod nat;
mod numbers;
mod option;
mod rates;
mod rule;
mod statement;
mod values;

pub use address::Fault;
pub(crate) use address::{ip, mac, mask_bits};
pub(crate) use numbers::number;
pub use statement::built_in_chains;

use super::ast::{File, FileSource, Line, Name, Statement, StatementKind};
use crate::dialect::Headings;
use crate::model::{Family, SourceId, Table};
use crate::syntax::words::{self, LineEnd, WordError, WordErrorKind};
use crate::syntax::{Cursor, Diagnostic, Place, Span, Word, span};
use std::collections::HashMap;
use std::sync::Arc;

/// Reads a text of the given family.
#[must_use]
pub fn parse(text: &str, source: SourceId, family: Family) -> (File, Vec<Diagnostic>) {
    let mut parser = Parser::new(source, family);
    if text.len() > span::TEXT_BYTES_MAX {
        let place = Span::new(source, 0, 0);
        let found = Diagnostic::error("too-long", place, "the text is longer than 4 GiB")
            .help("split the file");
        return (parser.finish(), vec![found]);
    }
    let (body, skipped) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, text.len() - rest.len()),
        None => (text, 0),
    };
    let mut words = Vec::new();
    for line in words::lines(body) {
        words.clear();
        parser.line(
            line.text,
            line.start + skipped,
            line.number,
            line.end,
            &mut words,
        );
    }
    parser.end(text.len());
    let diagnostics = std::mem::take(&mut parser.diagnostics);
    (parser.finish(), diagnostics)
}

/// The table block that lines belong to.
#[derive(Clone, Copy, Debug)]
struct Block {
    table: Table,
    at: Span,
}

/// State while reading a text.
struct Parser {
    source: SourceId,
    family: Family,
    /// Of the whole text; `family` is that of the save which is being read.
    first_family: Family,
    headings: Headings,
    statements: Vec<Statement>,
    diagnostics: Vec<Diagnostic>,
    names: HashMap<Box<str>, Name>,
    block: Option<Block>,
    /// An unknown table was opened: its lines are read, but what belongs to it is unknown.
    in_unknown_table: bool,
    warned_of_carriage_returns: bool,
    warned_of_shell: bool,
}

impl Parser {
    fn new(source: SourceId, family: Family) -> Self {
        Self {
            source,
            family,
            first_family: family,
            headings: Headings::default(),
            statements: Vec::new(),
            diagnostics: Vec::new(),
            names: HashMap::new(),
            block: None,
            in_unknown_table: false,
            warned_of_carriage_returns: false,
            warned_of_shell: false,
        }
    }

    fn finish(self) -> File {
        File {
            family: self.first_family,
            source: FileSource(self.source),
            statements: self.statements,
        }
    }

    /// The shared form of a chain's name.
    fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name: Name = text.into();
        self.names.insert(text.into(), Arc::clone(&name));
        name
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reads one line.
    fn line<'a>(
        &mut self,
        text: &'a str,
        start: usize,
        number: u32,
        end: LineEnd,
        words: &mut Vec<Word<'a>>,
    ) {
        if end == LineEnd::CarriageReturn && !self.warned_of_carriage_returns {
            self.warned_of_carriage_returns = true;
            let place = Span::new(self.source, start + text.len(), start + text.len() + 1);
            let message = "the lines end in CR LF, which iptables-restore refuses";
            self.report(
                Diagnostic::warning("crlf", place, message).help("convert it with dos2unix"),
            );
        }
        let trimmed = text.trim_start_matches([' ', '\t']);
        let line = Line::new(number, text.len() - trimmed.len() + 1);
        if let Some(comment) = trimmed.strip_prefix('#') {
            self.family = self.headings.note(comment).unwrap_or(self.family);
            let kind = StatementKind::Comment(comment.trim_end_matches('\r').into());
            let at = Span::new(
                self.source,
                start + text.len() - trimmed.len(),
                start + text.len(),
            );
            return self.push(at, line, kind);
        }
        if let Err(error) = words::split(text, start, &words::RESTORE, words) {
            return self.report_words(error);
        }
        let cursor = Cursor::new(words, self.source, start, start + text.len());
        let Some(first) = cursor.peek() else { return };
        if end == LineEnd::EndOfText && first.text == "COMMIT" {
            let place = Span::new(self.source, start + text.len(), start + text.len());
            let message = "the last line has no line end, which iptables-legacy-restore refuses";
            self.report(Diagnostic::warning("no-newline", place, message).help("add a line end"));
        }
        self.statement(cursor, line);
    }

    fn push(&mut self, at: Span, line: Line, kind: StatementKind) {
        self.statements.push(Statement {
            at: Place(at),
            line,
            kind,
        });
    }

    fn report_words(&mut self, error: WordError) {
        let place = Span::new(self.source, error.start, error.end);
        let found = match error.kind {
            WordErrorKind::UnclosedQuote => Diagnostic::error(
                "unclosed-quote",
                place,
                "this quote is not closed on its line",
            )
            .help("close it with `\"`; a quote inside is written `\\\"`"),
            WordErrorKind::ControlCharacter(character) => {
                let message = format!("control character U+{:04X} in a rule", u32::from(character));
                Diagnostic::error("control-character", place, message).help("take it out")
            }
        };
        self.report(found);
    }

    /// What can only be said at the end of the text.
    fn end(&mut self, length: usize) {
        if let Some(block) = self.block.take() {
            let message = "this table has no COMMIT, so nothing of it would be loaded";
            let found = Diagnostic::error("no-commit", block.at, message).related(
                Span::new(self.source, length, length),
                "expected before the end",
            );
            self.report(found.help("add a line `COMMIT` after its last rule"));
        }
    }
}
