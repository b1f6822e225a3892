//! Why ipfw would refuse a command: a place, a sentence, and the exit status it would end with.
//!
//! In: what the parser or the rule set found. Out: a [`Fault`], which becomes a located message.
//! Warnings go another way ([`Notes`]): the command is carried out all the same.

use crate::syntax::{Diagnostic, Span};

/// Exit status classes of ipfw (sysexits(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitClass {
    /// A word is missing or unknown.
    Usage = 64,
    /// A value is wrong.
    Data = 65,
    /// A host name is unknown.
    NoHost = 68,
    /// The kernel refuses, or there is no such thing.
    Unavailable = 69,
    /// The operating system refuses.
    System = 71,
}

/// A refused command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Exit status.
    pub exit: ExitClass,
    /// Stable short name.
    pub code: &'static str,
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// ipfw would take it; weir can't honour it.
    pub unsupported: bool,
}

impl Fault {
    /// A fault of a class.
    #[must_use]
    pub fn new(
        exit: ExitClass,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        Self {
            exit,
            code,
            span,
            message: message.into(),
            help: None,
            unsupported: false,
        }
    }

    /// A wrong use: exit status 64.
    #[must_use]
    pub fn usage(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(ExitClass::Usage, code, span, message)
    }

    /// A wrong value: exit status 65.
    #[must_use]
    pub fn data(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(ExitClass::Data, code, span, message)
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the nearest candidate, if one is near, else `otherwise`.
    #[must_use]
    pub fn nearest<'c>(
        self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
        otherwise: &str,
    ) -> Self {
        match crate::syntax::diag::nearest(word, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self.help(otherwise),
        }
    }

    /// The located message.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let message = format!("{} (ipfw exit status {})", self.message, self.exit as u8);
        let found = match self.unsupported {
            true => Diagnostic::unsupported(self.span, self.message.clone()),
            false => Diagnostic::error(self.code, self.span, message),
        };
        match &self.help {
            Some(help) => found.help(help.clone()),
            None => found,
        }
    }
}

/// Warnings gathered while a command is read.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What was found, in order.
    pub list: Vec<Diagnostic>,
}

impl Notes {
    /// A warning about something that ipfw takes silently.
    pub fn warn(&mut self, code: &'static str, span: Span, message: String, help: &str) {
        self.list
            .push(Diagnostic::warning(code, span, message).help(help));
    }

    /// ipfw's own warning about a keyword that was cut short.
    pub fn deprecated(&mut self, span: Span, word: &str, keyword: &str) {
        let message = format!("DEPRECATED: '{word}' matched '{keyword}' as a sub-string");
        let help = format!("write `{keyword}`");
        self.list
            .push(Diagnostic::warning("deprecated", span, message).help(help));
    }
}
