//! What all dialect front ends share: places in a text, words, a cursor over words, and located
//! messages.
//!
//! In: the text of a file. Out: words with spans, and [`diag::Diagnostic`]s that point at them.
//! Nothing here knows any dialect, and nothing here reads files.

pub mod cursor;
pub mod diag;
pub mod span;
pub mod words;

pub use cursor::Cursor;
pub use diag::{Diagnostic, Severity};
pub use span::{Place, Position, SourceId, Sources, Span};
pub use words::Word;
