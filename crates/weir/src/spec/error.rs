//! Errors in a packet specification, with their place.
//!
//! In: the text, a place, a sentence. Out: the text again with a caret line under the place.

use std::fmt;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The text that was read.
    pub text: String,
    /// First byte of the place.
    pub start: usize,
    /// Length of the place in bytes; 0 at the end of the text.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.start].chars().count();
        let under = self.text[self.start..self.start + self.length]
            .chars()
            .count()
            .max(1);
        writeln!(f, "packet: {}", self.message)?;
        writeln!(f, "  | {}", self.text)?;
        write!(f, "  | {}{}", " ".repeat(before), "^".repeat(under))?;
        match &self.help {
            Some(help) => write!(f, "\n  = {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SpecError {}
