//! Messages of the front ends as JSON.
//!
//! In: diagnostics. Out: plain data with place, severity, code, sentence and advice.

use serde::Serialize;
use weir_policy::syntax::{Diagnostic, Sources};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// A stable word for the kind of message.
    pub code: &'static str,
    /// File, if it is about one.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// What is the matter.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// All messages.
pub fn messages(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<Message> {
    diagnostics
        .iter()
        .map(|diagnostic| message(diagnostic, sources))
        .collect()
}

fn message(diagnostic: &Diagnostic, sources: &Sources) -> Message {
    let position = sources.position(diagnostic.span);
    Message {
        severity: diagnostic.severity.name(),
        code: diagnostic.code,
        file: sources
            .get(diagnostic.span.source)
            .map(|source| source.name().to_owned()),
        line: position.map(|position| position.line),
        column: position.map(|position| position.column),
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
    }
}
